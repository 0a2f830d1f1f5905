//! Who needs the node's cores, in the first pages of the job segment. Hints: nothing but time depends on them.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use crate::job::{JobGeometry, JobSegment};

#[repr(C)]
struct Crowd {
    /// Ranks that sleep, or are gone.
    sleepers: AtomicI32,
    daemon_core: AtomicU32,
    asks_for_computing: AtomicU32,
    /// Cores that the ranks may run on, all together: the bits that are set below.
    cores: AtomicU32,
    is_core: [AtomicU64; CORES_MAX / 64],
    copied: Copied,
}

/// Apart from what others read.
#[repr(C, align(64))]
struct Copied {
    /// Bytes of the largest messages that were copied so far.
    bytes: AtomicU64,
}

/// As many as the kernel's usual set of cores holds.
const CORES_MAX: usize = 1024;
const CROWD_BYTES: u64 = size_of::<Crowd>() as u64;

/// What is said of each rank, behind the words above.
#[repr(C)]
struct RankWords {
    /// The core on which it waits and one more, or zero.
    core: AtomicU32,
    /// [`AWAKE`], or counted among those that sleep: [`ASLEEP`] or [`GONE`].
    state: AtomicU32,
}

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
/// For ever, whatever its process may still do.
const GONE: u32 = 2;

/// What it takes.
pub(crate) fn bytes(geometry: &JobGeometry) -> u64 {
    CROWD_BYTES + u64::from(geometry.local_ranks) * size_of::<RankWords>() as u64
}

impl JobSegment {
    /// A thread of a rank goes to sleep, or wakes up. Of several threads the last that did counts: a rank is one, asleep or awake.
    pub fn set_asleep(&self, local_rank: u32, is_asleep: bool) {
        let Some(words) = self.rank_words(local_rank) else { return };
        let (before, after, change) = if is_asleep { (AWAKE, ASLEEP, 1) } else { (ASLEEP, AWAKE, -1) };
        if words.state.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.crowd().sleepers.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// A rank has left, or was killed or cut off: it wants no core any more. The daemon's part.
    pub fn leave_crowd(&self, local_rank: u32) {
        self.set_core_of(local_rank, None);
        let Some(words) = self.rank_words(local_rank) else { return };
        if words.state.swap(GONE, Ordering::Relaxed) == AWAKE {
            self.crowd().sleepers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Bytes of one of the largest messages are copied. Says how many were before.
    pub(crate) fn count_copied(&self, bytes: u64) -> u64 {
        self.crowd().copied.bytes.fetch_add(bytes, Ordering::Relaxed)
    }

    /// The daemon runs on this core.
    pub fn set_daemon_core(&self, core: u32) {
        store_if_new(&self.crowd().daemon_core, core);
    }

    /// The core the daemon has run on last.
    pub fn daemon_core(&self) -> u32 {
        self.crowd().daemon_core.load(Ordering::Relaxed)
    }

    /// A rank waits on this core, or sleeps or leaves.
    pub fn set_core_of(&self, local_rank: u32, core: Option<u32>) {
        if let Some(words) = self.rank_words(local_rank) {
            store_if_new(&words.core, core.map_or(0, |core| core.wrapping_add(1)));
        }
    }

    /// Whether another rank than this one was on this core when it waited last.
    pub fn is_shared(&self, core: u32, local_rank: u32) -> bool {
        let is_there = |words: &RankWords| words.core.load(Ordering::Relaxed) == core.wrapping_add(1);
        let others = (0..self.geometry().local_ranks).filter(|&other| other != local_rank);
        others.filter_map(|other| self.rank_words(other)).any(is_there)
    }

    /// The daemon wants to know whether ranks compute between starts and waits.
    pub fn ask_for_computing(&self) {
        self.crowd().asks_for_computing.store(1, Ordering::Relaxed);
    }

    /// Whether it does, from the start.
    pub fn asks_for_computing(&self) -> bool {
        self.crowd().asks_for_computing.load(Ordering::Relaxed) != 0
    }

    /// How many ranks are awake, and may want a core.
    #[inline]
    pub fn awake_ranks(&self) -> u32 {
        // Of two threads of a rank one may be counted awake before the other is asleep.
        let sleepers = self.crowd().sleepers.load(Ordering::Relaxed).max(0);
        self.geometry().local_ranks.saturating_sub(sleepers as u32)
    }

    /// A rank may run on these cores. Those of a rank that has left stay.
    pub fn add_cores(&self, cores: impl IntoIterator<Item = usize>) {
        let crowd = self.crowd();
        for core in cores.into_iter().filter(|&core| core < CORES_MAX) {
            let bit = 1 << (core % 64);
            // Of all ranks that bring a core only one finds it missing, so that it is counted once.
            if crowd.is_core[core / 64].fetch_or(bit, Ordering::Relaxed) & bit == 0 {
                crowd.cores.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Whether more ranks are awake than there are cores that any of them may run on.
    #[inline]
    pub fn outnumbers_cores(&self) -> bool {
        self.awake_ranks() > self.cores()
    }

    /// Whether fewer ranks are awake than there are cores.
    #[inline]
    pub fn has_free_core(&self) -> bool {
        self.awake_ranks() < self.cores()
    }

    /// How many cores any of the ranks may run on.
    #[inline]
    pub fn cores(&self) -> u32 {
        self.crowd().cores.load(Ordering::Relaxed)
    }

    /// How many of them have lower numbers than this one. `None` if it is none of them.
    pub(crate) fn cores_before(&self, core: usize) -> Option<usize> {
        let word = |index: usize| self.crowd().is_core[index].load(Ordering::Relaxed);
        let (index, bit) = (core / 64, 1 << (core % 64));
        if core >= CORES_MAX || word(index) & bit == 0 {
            return None;
        }
        let lower =
            (word(index) & (bit - 1)).count_ones() + (0..index).map(|index| word(index).count_ones()).sum::<u32>();
        Some(lower as usize)
    }

    #[inline]
    fn crowd(&self) -> &Crowd {
        // SAFETY: it consists of atomics.
        unsafe { self.segment().shared(0) }.expect("every job segment has a first page")
    }

    fn rank_words(&self, local_rank: u32) -> Option<&RankWords> {
        if local_rank >= self.geometry().local_ranks {
            return None;
        }
        let offset = CROWD_BYTES + u64::from(local_rank) * size_of::<RankWords>() as u64;
        // SAFETY: it consists of atomics.
        unsafe { self.segment().shared(offset) }
    }
}

/// Others read the word; a line that is written wanders.
fn store_if_new(word: &AtomicU32, value: u32) {
    if word.load(Ordering::Relaxed) != value {
        word.store(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doorbell::DoorbellCalls;

    #[test]
    fn a_core_is_shared_with_ranks_that_wait_there_and_with_no_others() {
        // So many that their words take more than a page.
        let job = JobSegment::create(JobGeometry { local_ranks: 2000, arena_bytes_max: 4096 }).unwrap();
        assert!(!job.is_shared(0, 0), "nobody has waited yet");
        job.set_core_of(1999, Some(0));
        assert!(job.is_shared(0, 0) && !job.is_shared(1, 0));
        assert!(!job.is_shared(0, 1999), "it is there itself");
        (0..2000).for_each(|rank| job.set_core_of(rank, Some(7)));
        assert_eq!(job.doorbell_calls(), DoorbellCalls::default(), "doorbells lie elsewhere");
        (0..2000).for_each(|rank| job.set_core_of(rank, None));
        assert!(!job.is_shared(0, 0) && !job.is_shared(7, 0));
        job.set_core_of(2000, Some(0));
        assert!(!job.is_shared(0, 0), "there is no such rank");
    }

    #[test]
    fn a_rank_sleeps_or_is_awake_however_many_threads_it_has() {
        let job = JobSegment::create(JobGeometry { local_ranks: 3, arena_bytes_max: 4096 }).unwrap();
        job.set_asleep(0, true);
        assert_eq!(job.awake_ranks(), 2);
        job.set_asleep(0, true);
        assert_eq!(job.awake_ranks(), 2, "a second thread of the same rank");
        job.set_asleep(0, false);
        assert_eq!(job.awake_ranks(), 3, "one of them is awake");
        job.set_asleep(0, false);
        assert_eq!(job.awake_ranks(), 3);
        job.set_asleep(3, true);
        assert_eq!(job.awake_ranks(), 3, "there is no such rank");
    }

    #[test]
    fn who_is_gone_is_neither_awake_nor_on_a_core() {
        let job = JobSegment::create(JobGeometry { local_ranks: 3, arena_bytes_max: 4096 }).unwrap();
        // One dies awake on its core, the other in its sleep.
        job.set_core_of(0, Some(0));
        job.set_asleep(1, true);
        assert!(job.is_shared(0, 2));
        (0..2).for_each(|rank| job.leave_crowd(rank));
        assert_eq!((job.awake_ranks(), job.is_shared(0, 2)), (1, false));
        // Who was cut off may wake up to learn of it.
        job.set_asleep(1, false);
        assert_eq!(job.awake_ranks(), 1);
    }

    #[test]
    fn cores_are_numbered_as_they_lie() {
        let job = JobSegment::create(JobGeometry { local_ranks: 1, arena_bytes_max: 4096 }).unwrap();
        job.add_cores([130, 3, 64, CORES_MAX]);
        let cores = [3, 64, 130, 4, CORES_MAX, u32::MAX as usize];
        assert_eq!(cores.map(|core| job.cores_before(core)), [Some(0), Some(1), Some(2), None, None, None]);
    }
}
