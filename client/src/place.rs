//! The core a rank waits on: where there are enough for all, one that no other rank is on.
//!
//! The kernel sees to it that all cores have equally many threads, whoever they belong to. So it may leave two ranks that exchange messages on
//! one core, and to the rest of the machine the other; then each looks for what its peer, which is behind it, can't do. The kernel may
//! as well wake a rank on the core of who wakes it, again and again, while another one is idle. So a rank that had to leave such a core lately
//! sleeps where it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;
use ropeway_shm::JobSegment;

use crate::presence::now_ns;

/// Where a rank is. Nothing but time depends on it.
pub(crate) struct Place {
    job: Arc<JobSegment>,
    local_rank: u32,
    /// When it last tried to go to another core.
    tried_ns: AtomicU64,
}

impl Place {
    pub(crate) fn new(job: Arc<JobSegment>, local_rank: u32) -> Self {
        Self { job, local_rank, tried_ns: AtomicU64::new(0) }
    }

    /// The rank waits: it goes to a core without other ranks if it is not on one, unless it has tried just before. Whether it is on one now;
    /// if not, another rank can do nothing before this one gives way.
    pub(crate) fn seek_own_core(&self) -> bool {
        let Ok(core) = sched_getcpu() else { return true };
        self.job.set_core_of(self.local_rank, Some(core as u32));
        !self.is_taken(core) || self.leave(now_ns())
    }

    /// The rank goes to sleep. Where there is a core for each rank, and it had to look for one lately, it wakes up on this one.
    pub(crate) fn leave_to_sleep(&self) -> Option<Pinned> {
        self.clear();
        let has_enough = self.job.geometry().local_ranks <= self.job.cores();
        if has_enough && self.has_tried_lately(now_ns()) { Pinned::here() } else { None }
    }

    fn has_tried_lately(&self, now_ns: u64) -> bool {
        let tried_ns = self.tried_ns.load(Ordering::Relaxed);
        tried_ns != 0 && Duration::from_nanos(now_ns.saturating_sub(tried_ns)) < LATELY
    }

    fn clear(&self) {
        self.job.set_core_of(self.local_rank, None);
    }

    fn is_taken(&self, core: usize) -> bool {
        self.job.is_shared(core as u32, self.local_rank)
    }

    #[cold]
    fn leave(&self, now_ns: u64) -> bool {
        // Another thread may have tried since the clock was read.
        let since_ns = now_ns.saturating_sub(self.tried_ns.load(Ordering::Relaxed));
        if Duration::from_nanos(since_ns) < STAY {
            return false;
        }
        self.tried_ns.store(now_ns, Ordering::Relaxed);
        let core = go_to_one_of(|cores| self.free(cores));
        if let Some(core) = core {
            self.job.set_core_of(self.local_rank, Some(core as u32));
        }
        core.is_some()
    }

    /// Of these cores one without ranks, if possible without the daemon.
    fn free(&self, cores: &mut dyn Iterator<Item = usize>) -> Option<usize> {
        let daemon_core = self.job.daemon_core() as usize;
        cores.filter(|&core| !self.is_taken(core)).min_by_key(|&core| core == daemon_core)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A core on which the thread stays, until this is dropped: for as long as it sleeps, because threads that it starts would stay there too.
pub(crate) struct Pinned {
    allowed: CpuSet,
    only: CpuSet,
}

impl Pinned {
    fn here() -> Option<Self> {
        let allowed = sched_getaffinity(THIS_THREAD).ok()?;
        let mut only = CpuSet::new();
        only.set(sched_getcpu().ok()?).ok()?;
        sched_setaffinity(THIS_THREAD, &only).ok()?;
        Some(Self { allowed, only })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Unless somebody else has decided in the meantime where it may run. It was allowed these before.
        if sched_getaffinity(THIS_THREAD) == Ok(self.only) {
            let _ = sched_setaffinity(THIS_THREAD, &self.allowed);
        }
    }
}

/// Has the kernel run the thread on that of the cores it may run on which `choose` chooses, and then again wherever it is allowed to. Says which
/// it is, if one was chosen.
pub(crate) fn go_to_one_of(choose: impl FnOnce(&mut dyn Iterator<Item = usize>) -> Option<usize>) -> Option<usize> {
    let allowed = sched_getaffinity(THIS_THREAD).ok()?;
    let core = choose(&mut (0..CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap_or(false)))?;
    let mut only = CpuSet::new();
    only.set(core).ok()?;
    sched_setaffinity(THIS_THREAD, &only).ok()?;
    // It was allowed these before.
    let _ = sched_setaffinity(THIS_THREAD, &allowed);
    Some(core)
}

/// Who is put back by the kernel, for the sake of others who compute, stays there for so long.
pub(crate) const STAY: Duration = Duration::from_millis(10);
/// Somebody who wakes up where another rank is would look for a core again each time; after this it is tried whether the kernel still does that.
const LATELY: Duration = Duration::from_secs(1);
const THIS_THREAD: Pid = Pid::from_raw(0);

#[cfg(test)]
mod tests {
    use super::*;
    use ropeway_shm::JobGeometry;

    fn job(local_ranks: u32) -> Arc<JobSegment> {
        Arc::new(JobSegment::create(JobGeometry { local_ranks, arena_bytes_max: 4096 }).unwrap())
    }

    #[test]
    fn who_waits_beside_another_rank_leaves_and_if_it_has_just_before_gives_way() {
        let job = job(2);
        let place = Place::new(job.clone(), 0);
        assert!(place.seek_own_core(), "the other one has waited nowhere");
        let allowed = sched_getaffinity(THIS_THREAD).unwrap();
        let may_leave = (0..CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap()).count() > 1;
        // The kernel may move this thread between any two of these.
        job.set_core_of(1, Some(sched_getcpu().unwrap() as u32));
        let (now, stay) = (now_ns(), STAY.as_nanos() as u64);
        assert_eq!(place.leave(now), may_leave);
        job.set_core_of(1, Some(sched_getcpu().unwrap() as u32));
        assert!(!place.leave(now + stay - 1), "it has tried just before");
        assert_eq!(place.leave(now + stay), may_leave);
        assert_eq!(sched_getaffinity(THIS_THREAD).unwrap(), allowed, "it may go where it might before");
        drop(place);
        assert!((0..CpuSet::count() as u32).all(|core| !job.is_shared(core, 1)));
    }

    #[test]
    fn who_had_to_leave_lately_sleeps_where_it_is() {
        let allowed = || sched_getaffinity(THIS_THREAD).unwrap();
        let before = allowed();
        let job = job(2);
        let place = Place::new(job.clone(), 0);
        job.add_cores([0, 1]);
        assert!(place.leave_to_sleep().is_none(), "it has not left");
        place.leave(now_ns());
        let pinned = place.leave_to_sleep();
        let only = (0..CpuSet::count()).filter(|&core| allowed().is_set(core).unwrap()).collect::<Vec<_>>();
        assert_eq!((pinned.is_some(), only), (true, vec![sched_getcpu().unwrap()]));
        drop(pinned);
        assert_eq!(allowed(), before);
        let now = now_ns();
        assert!(place.has_tried_lately(now) && !place.has_tried_lately(now + LATELY.as_nanos() as u64));
    }

    #[test]
    fn of_more_ranks_than_cores_nobody_keeps_one() {
        let job = job(3);
        let place = Place::new(job.clone(), 0);
        job.add_cores([0, 1]);
        place.leave(now_ns());
        assert!(place.leave_to_sleep().is_none());
    }

    #[test]
    fn where_somebody_else_has_put_it_a_thread_stays() {
        let allowed = sched_getaffinity(THIS_THREAD).unwrap();
        let pinned = Pinned::here().unwrap();
        // With a single core there is nothing to decide.
        let other =
            (0..CpuSet::count()).find(|&core| allowed.is_set(core).unwrap() && !pinned.only.is_set(core).unwrap());
        let mut decided = CpuSet::new();
        decided.set(other.unwrap_or(sched_getcpu().unwrap())).unwrap();
        sched_setaffinity(THIS_THREAD, &decided).unwrap();
        drop(pinned);
        assert_eq!(sched_getaffinity(THIS_THREAD).unwrap(), if other.is_some() { decided } else { allowed });
    }

    #[test]
    fn a_core_without_ranks_is_taken_rather_without_the_daemon() {
        let job = job(3);
        let place = Place::new(job.clone(), 0);
        job.set_core_of(1, Some(0));
        job.set_core_of(2, Some(1));
        job.set_daemon_core(2);
        let free = |cores: &[usize]| place.free(&mut cores.iter().copied());
        assert_eq!(free(&[0, 1]), None);
        assert_eq!(free(&[0, 1, 2]), Some(2));
        assert_eq!(free(&[0, 1, 2, 3]), Some(3));
    }
}
