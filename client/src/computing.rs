//! Whether a program computes between the start of something large and a wait, which its daemon may ask: if the program has only sent, the
//! daemon keeps off its core; if it has sent and received, the daemon stays there but does not yield it to the program, which would keep it;
//! if it has only received, the daemon goes where nobody computes, to be there when the message comes.
//!
//! A program that comes to wait some time after its last start has computed, or it has lost its core for a while. Of that only the thread's
//! own clock knows, which is a system call to read: as long as half a start. So it is read when a wait ends and when the next one begins, for
//! some time after somebody has come late, and what was found holds for the next times, too. What the thread had of its core before the start
//! can't be more than the time that passed.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use ropeway_shm::SinceStart;

use crate::presence::{Moment, now_ns};

/// When the program started something last.
pub(crate) struct Computing {
    /// Zero if it has come to wait since.
    started_ns: AtomicU64,
    /// When the last wait ended, by both clocks; zero if the thread's was not looked at.
    left_ns: AtomicU64,
    left_thread_ns: AtomicU64,
    /// Sends were started since it has come to wait.
    has_sent: AtomicBool,
    /// Something else was.
    has_others: AtomicBool,
    /// For how many starts the thread's clock is still to be looked at.
    suspicion: AtomicU32,
    /// What was found when that was done last, and for how many late waits it still holds.
    has_run: AtomicBool,
    holds: AtomicU32,
    /// Whether it had computed when it last came to wait.
    computes: AtomicBool,
}

/// Where the data goes of what is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ways {
    /// To others only.
    Out,
    /// To others and from them, as in a collective.
    Both,
    /// Most likely not to others.
    Other,
}

/// Not known yet, but not zero.
const NOW: u64 = 1;
/// Who comes within this time has not computed. In tests that is more than it takes to go to sleep.
const PROMPT_NS: u64 = if cfg!(test) { 1_000_000 } else { 20_000 };
/// Of less there is so little to do for the daemon that it does not matter where.
const LARGE_BYTES: u64 = 16 << 10;
/// Starts after a late wait.
const SUSPICION: u32 = 16;
/// Who had its core for less than that part of the time slept, for all that starts and naps take.
const SLEEPERS_PART: u64 = 4;
/// Late waits. A program that changes its ways is taken for what it was for so many.
const HOLDS: u32 = 3;

impl Computing {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            started_ns: zero(),
            left_ns: zero(),
            left_thread_ns: zero(),
            has_sent: AtomicBool::new(false),
            has_others: AtomicBool::new(false),
            suspicion: AtomicU32::new(0),
            has_run: AtomicBool::new(false),
            holds: AtomicU32::new(0),
            computes: AtomicBool::new(false),
        }
    }

    /// Something is about to be started, with so many bytes.
    pub(crate) fn begin_start(&self, bytes: u64, ways: Ways) {
        if bytes >= LARGE_BYTES {
            if ways != Ways::Other {
                self.has_sent.store(true, Ordering::Relaxed);
            }
            if ways != Ways::Out {
                self.has_others.store(true, Ordering::Relaxed);
            }
            self.started_ns.store(NOW, Ordering::Relaxed);
        }
    }

    /// It has been. Waking the daemon may have taken a while, which does not count.
    pub(crate) fn end_start(&self, moment: &Moment) {
        if self.started_ns.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.suspicion.store(self.suspicion.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        self.started_ns.store(moment.ns(), Ordering::Relaxed);
    }

    /// The program comes to wait. What it has done since it started something, if it has started anything.
    pub(crate) fn come(&self, moment: &Moment) -> Option<SinceStart> {
        let started_ns = self.take_start()?;
        let late_ns = moment.ns().saturating_sub(started_ns);
        let is_late = late_ns >= PROMPT_NS;
        if is_late && self.suspicion.swap(SUSPICION, Ordering::Relaxed) == 0 {
            self.holds.store(0, Ordering::Relaxed);
        }
        let computes = is_late && self.has_run_since(started_ns, late_ns);
        self.computes.store(computes, Ordering::Relaxed);
        Some(self.since_start(computes))
    }

    /// The same of a wait for what is over already. Who had computed before the last one has done so again: nobody looks when he comes.
    pub(crate) fn come_unseen(&self) -> Option<SinceStart> {
        if !self.computes.load(Ordering::Relaxed) {
            return self.come(&Moment::default());
        }
        self.take_start().map(|_| self.since_start(true))
    }

    /// When something was started, if anything was since it last came.
    fn take_start(&self) -> Option<u64> {
        let started_ns = self.started_ns.load(Ordering::Relaxed);
        if started_ns > 0 {
            self.started_ns.store(0, Ordering::Relaxed);
        }
        (started_ns > 0).then_some(started_ns)
    }

    /// What has been started is forgotten.
    fn since_start(&self, has_computed: bool) -> SinceStart {
        let [has_sent, has_others] = [&self.has_sent, &self.has_others].map(|has| {
            let has_been = has.load(Ordering::Relaxed);
            has.store(false, Ordering::Relaxed);
            has_been
        });
        match has_computed {
            true if !has_sent => SinceStart::ComputedReceiving,
            true if has_others => SinceStart::ComputedBothWays,
            true => SinceStart::ComputedSending,
            false => SinceStart::AtOnce,
        }
    }

    /// The program waits no more.
    pub(crate) fn leave(&self) {
        let is_suspected = self.suspicion.load(Ordering::Relaxed) > 0 && self.holds.load(Ordering::Relaxed) == 0;
        let [now_ns, thread_ns] = if is_suspected { [now_ns(), now_of_thread_ns()] } else { [0, 0] };
        self.left_ns.store(now_ns, Ordering::Relaxed);
        self.left_thread_ns.store(thread_ns, Ordering::Relaxed);
    }

    /// Whether the thread has certainly had its core since then, `late_ns` ago, for long enough to have computed, or has had the last time.
    fn has_run_since(&self, started_ns: u64, late_ns: u64) -> bool {
        if let Some(holds) = self.holds.load(Ordering::Relaxed).checked_sub(1) {
            self.holds.store(holds, Ordering::Relaxed);
            return self.has_run.load(Ordering::Relaxed);
        }
        let [left_ns, left_thread_ns] = [&self.left_ns, &self.left_thread_ns].map(|word| word.load(Ordering::Relaxed));
        let before_ns = started_ns.saturating_sub(left_ns);
        if left_thread_ns == 0 {
            return false;
        }
        let run_ns = now_of_thread_ns().saturating_sub(left_thread_ns).saturating_sub(before_ns);
        let has_run = run_ns >= PROMPT_NS.max(late_ns / SLEEPERS_PART);
        self.has_run.store(has_run, Ordering::Relaxed);
        self.holds.store(HOLDS, Ordering::Relaxed);
        has_run
    }
}

/// For how many nanoseconds this thread has run; zero if nobody knows.
fn now_of_thread_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0, |time| Duration::from(time).as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const LATE: Duration = Duration::from_nanos(4 * PROMPT_NS);

    fn compute() {
        let begin = now_of_thread_ns();
        while now_of_thread_ns() - begin < LATE.as_nanos() as u64 {}
    }

    fn start(computing: &Computing, bytes: u64) {
        computing.begin_start(bytes, Ways::Out);
        computing.end_start(&Moment::default());
    }

    /// What is found of who starts something, does this, and waits.
    fn come_after(computing: &Computing, act: fn()) -> Option<SinceStart> {
        start(computing, LARGE_BYTES);
        act();
        let found = computing.come(&Moment::default());
        computing.leave();
        found
    }

    #[test]
    fn who_is_late_again_has_computed_if_his_core_was_his() {
        let computing = Computing::new();
        let come_after = |act: fn()| come_after(&computing, act);
        let come_often_after = |act: fn()| (0..HOLDS).map(|_| come_after(act)).collect::<Vec<_>>();
        let (computed, at_once) = (Some(SinceStart::ComputedSending), Some(SinceStart::AtOnce));
        assert_eq!(come_after(compute), at_once, "it may have lost the core");
        assert_eq!(come_after(compute), computed);
        assert_eq!(come_after(|| ()), at_once);
        assert_eq!(come_often_after(|| thread::sleep(LATE)), [computed; HOLDS as usize], "that is how it was");
        assert_eq!(come_after(|| thread::sleep(LATE)), at_once);
        assert_eq!(come_often_after(compute), [at_once; HOLDS as usize], "the same");
        assert_eq!(come_after(compute), computed);
        (0..SUSPICION).for_each(|_| assert_eq!(come_after(|| ()), at_once));
        assert_eq!(come_after(compute), at_once, "too long ago");
        assert_eq!(come_after(compute), computed);
    }

    #[test]
    fn who_sleeps_most_of_the_time_has_not_computed() {
        let computing = Computing::new();
        let run_and_sleep = || {
            compute();
            thread::sleep(LATE * (SLEEPERS_PART as u32));
        };
        come_after(&computing, compute);
        assert_eq!(come_after(&computing, run_and_sleep), Some(SinceStart::AtOnce));
    }

    #[test]
    fn who_finds_it_over_is_taken_for_what_he_was_before() {
        let computing = Computing::new();
        let come_after = |act: fn()| come_after(&computing, act);
        let come_unseen = || {
            start(&computing, LARGE_BYTES);
            computing.come_unseen()
        };
        let (computed, at_once) = (Some(SinceStart::ComputedSending), Some(SinceStart::AtOnce));
        assert_eq!(come_unseen(), at_once, "nothing is known, so somebody looks");
        come_after(compute);
        assert_eq!(come_after(compute), computed);
        assert_eq!([come_unseen(), come_unseen()], [computed; 2]);
        assert_eq!(computing.come_unseen(), None, "nothing was started");
        assert_eq!(come_after(|| ()), at_once);
        assert_eq!(come_unseen(), at_once);
    }

    #[test]
    fn what_was_computed_before_the_start_does_not_count() {
        let computing = Computing::new();
        let come_after = |before: fn(), after: fn()| {
            before();
            self::come_after(&computing, after)
        };
        assert_eq!(come_after(compute, compute), Some(SinceStart::AtOnce), "not known yet");
        assert_eq!(come_after(compute, || thread::sleep(LATE)), Some(SinceStart::AtOnce));
    }

    #[test]
    fn between_a_wait_and_the_next_nothing_counts() {
        let computing = Computing::new();
        start(&computing, LARGE_BYTES);
        compute();
        assert!(computing.come(&Moment::default()).is_some());
        computing.end_start(&Moment::default());
        compute();
        assert_eq!(computing.come(&Moment::default()), None);
    }

    #[test]
    fn who_also_receives_and_who_only_receives_count_apart() {
        let computing = Computing::new();
        let come_after = |starts: &[Ways]| {
            starts.iter().for_each(|&ways| computing.begin_start(LARGE_BYTES, ways));
            computing.end_start(&Moment::default());
            compute();
            let found = computing.come(&Moment::default());
            computing.leave();
            found
        };
        use {SinceStart::*, Ways::*};
        assert_eq!(come_after(&[Out]), Some(AtOnce), "not known yet");
        let found = [&[Out, Out][..], &[Out, Other], &[Other, Out], &[Both], &[Other], &[Out]].map(come_after);
        let expected =
            [ComputedSending, ComputedBothWays, ComputedBothWays, ComputedBothWays, ComputedReceiving, ComputedSending];
        assert_eq!(found, expected.map(Some));
    }

    #[test]
    fn what_is_small_does_not_count() {
        let computing = Computing::new();
        start(&computing, LARGE_BYTES - 1);
        assert_eq!(computing.come(&Moment::default()), None);
    }
}
