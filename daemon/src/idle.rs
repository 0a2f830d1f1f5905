//! What a cycle without work does: look again, yielding the core, and after a while sleep.
//!
//! Never a bare spin while a rank waits: on a node whose ranks fill its cores, a daemon that spins takes the time of the very
//! rank it waits for. And no yield while ranks compute on the same core: whoever gets it then keeps it for a time slice of
//! milliseconds, whatever arrives, where a daemon that sleeps is woken at once and preferred. Nor to a rank that waits, or was just woken, and will compute
//! when it has started what comes next, which would stay where it is meanwhile. But a core that nobody wants halts when
//! the daemon sleeps, and then it takes longer to come back than to look for some time. What is right is learnt.
//!
//! While all ranks sleep and something large comes slowly, there is nothing to be quick for: the daemon sleeps until a good part of it
//! is there, and leaves the core to whoever wants it.

use std::time::{Duration, Instant};

/// What to do after a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Go on at once.
    None,
    /// Yield the core, then go on.
    Yield,
    /// Sleep until something happens.
    Sleep,
}

/// What the ranks of the node do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ranks {
    /// At least one waits, awake.
    Wait,
    /// Whatever they do now: most often they compute when they have started something large both ways.
    ComputeMeanwhile,
    /// All sleep.
    Sleep,
    /// All sleep, and what one of them waits for is large.
    SleepLong,
    /// None waits awake, and some do something else.
    Compute,
}

impl Ranks {
    /// What they do, and may do next by their habits. Also those that seem to sleep: whoever was just woken does until it gets the core, and if
    /// the daemon yields it, keeps it to compute.
    pub(crate) fn expecting(self, compute_both_ways: bool, await_large: impl FnOnce() -> bool) -> Self {
        match self {
            _ if compute_both_ways => Self::ComputeMeanwhile,
            Self::Sleep if await_large() => Self::SleepLong,
            now => now,
        }
    }
}

/// Decides how long to look for work before sleeping.
pub(crate) struct Idle {
    /// How long to look at least while ranks wait or sleep.
    yield_for: Duration,
    /// How long it has turned out to be worth while.
    limit: Duration,
    /// Since when there has been no work.
    since: Option<Instant>,
    /// Since when, besides, ranks have been computing.
    computing_since: Option<Instant>,
    /// Nothing has woken it.
    looks_once: bool,
    /// Since when all ranks have slept and waited for something large.
    large_since: Option<Instant>,
    /// How long that takes, on the average.
    large_takes: Duration,
    caution: Caution,
}

/// Whether to yield the core among ranks that compute.
#[derive(Default)]
struct Caution {
    /// Whether it is done this time.
    yields: bool,
    /// When the core was last yielded, if that was the last thing.
    yielded_at: Option<Instant>,
    /// How many times to do without after the next loss.
    next_pause: u32,
    /// How many times to do without now.
    pause: u32,
}

/// A sleep shorter than so many times `yield_for` should have been a look, and no look is longer.
const LONGEST: u32 = 8;
/// No wait for something large counts for more, so that a sender who comes late is not taken for a slow line for long.
const LATE: Duration = Duration::from_millis(1);
/// A rank that has got its message comes back with the next one within that time, if it does not compute.
const GRACE: Duration = Duration::from_micros(30);
/// The same for a daemon that must not yield.
const SHORT_GRACE: Duration = Duration::from_micros(3);
/// Who keeps the core for so long computes.
const LOST: Duration = Duration::from_micros(100);
const PAUSE_MIN: u32 = 8;
const PAUSE_MAX: u32 = 1024;

impl Idle {
    pub(crate) fn new(yield_for: Duration) -> Self {
        Self {
            yield_for,
            limit: yield_for,
            since: None,
            computing_since: None,
            looks_once: false,
            large_since: None,
            large_takes: Duration::ZERO,
            caution: Caution::default(),
        }
    }

    /// After a cycle that did `work` things.
    pub(crate) fn after(&mut self, work: usize, now: Instant, ranks: impl FnOnce() -> Ranks) -> Rest {
        self.caution.is_back(now);
        if work > 0 {
            if let Some(since) = self.large_since.take() {
                self.large_takes = (3 * self.large_takes + now.duration_since(since).min(LATE)) / 4;
            }
            (self.since, self.computing_since, self.looks_once) = (None, None, false);
            return Rest::None;
        }
        if self.looks_once {
            return Rest::Sleep;
        }
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) >= self.limit {
            return Rest::Sleep;
        }
        let ranks = ranks();
        if ranks == Ranks::ComputeMeanwhile {
            return Rest::Sleep;
        }
        if ranks == Ranks::SleepLong {
            self.large_since.get_or_insert(now);
            if self.large_takes > 2 * self.yield_for {
                return Rest::Sleep;
            }
        }
        if ranks != Ranks::Compute {
            self.computing_since = None;
            return Rest::Yield;
        }
        let since = *self.computing_since.get_or_insert_with(|| {
            self.caution.begin();
            now
        });
        self.caution.rest(now, now.duration_since(since))
    }

    /// It has slept for so long. What has woken it may be followed by more; if nothing has, and only time has passed, one look is
    /// enough.
    pub(crate) fn has_slept(&mut self, slept: Duration, was_woken: bool) {
        (self.since, self.computing_since) = (None, None);
        self.looks_once = !was_woken;
        let longest = self.yield_for * LONGEST;
        self.limit = if slept < longest { longest } else { (self.limit / 2).max(self.yield_for) };
    }
}

impl Caution {
    /// Ranks have begun to compute, or to do something else for a moment.
    fn begin(&mut self) {
        self.yields = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
    }

    fn rest(&mut self, now: Instant, lasted: Duration) -> Rest {
        match self.yields {
            true if lasted < GRACE => {
                self.yielded_at = Some(now);
                Rest::Yield
            }
            false if lasted < SHORT_GRACE => Rest::None,
            _ => {
                if self.yields {
                    self.next_pause /= 2;
                }
                Rest::Sleep
            }
        }
    }

    /// The daemon runs again.
    fn is_back(&mut self, now: Instant) {
        if self.yielded_at.take().is_some_and(|at| now.duration_since(at) > LOST) {
            self.next_pause = (2 * self.next_pause).clamp(PAUSE_MIN, PAUSE_MAX);
            self.pause = self.next_pause;
            self.yields = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles at these microseconds.
    struct Day {
        idle: Idle,
        start: Instant,
    }

    impl Day {
        fn new() -> Self {
            Self { idle: Idle::new(Duration::from_micros(50)), start: Instant::now() }
        }

        fn at(&mut self, us: u64, work: usize, ranks: Ranks) -> Rest {
            self.idle.after(work, self.start + Duration::from_micros(us), || ranks)
        }

        fn sleep(&mut self, us: u64) {
            self.idle.has_slept(Duration::from_micros(us), true);
        }
    }

    #[test]
    fn an_idle_daemon_yields_first_and_then_sleeps() {
        for ranks in [Ranks::Wait, Ranks::Sleep] {
            let mut day = Day::new();
            assert_eq!(day.at(0, 1, ranks), Rest::None);
            assert_eq!(day.at(10, 0, ranks), Rest::Yield);
            assert_eq!(day.at(59, 0, ranks), Rest::Yield);
            assert_eq!(day.at(60, 0, ranks), Rest::Sleep);
            assert_eq!(day.at(61, 3, ranks), Rest::None);
            assert_eq!(day.at(62, 0, ranks), Rest::Yield);
        }
    }

    #[test]
    fn who_mostly_computes_may_compute_next_even_if_it_seems_to_sleep() {
        let now = [Ranks::Wait, Ranks::Sleep, Ranks::Compute];
        assert_eq!(now.map(|ranks| ranks.expecting(true, || true)), [Ranks::ComputeMeanwhile; 3]);
        assert_eq!(now.map(|ranks| ranks.expecting(false, || false)), now);
        assert_eq!(now.map(|ranks| ranks.expecting(false, || true)), [Ranks::Wait, Ranks::SleepLong, Ranks::Compute]);
    }

    #[test]
    fn ranks_that_start_and_then_compute_are_not_yielded_to() {
        let mut day = Day::new();
        assert_eq!(day.at(0, 1, Ranks::ComputeMeanwhile), Rest::None);
        assert_eq!(day.at(1, 0, Ranks::ComputeMeanwhile), Rest::Sleep);
    }

    #[test]
    fn what_is_large_and_slow_is_not_looked_for_while_ranks_sleep() {
        let mut day = Day::new();
        let mut rests = Vec::new();
        for (message, takes) in [500, 500, 30, 30, 30, 30, 30].into_iter().enumerate() {
            let now = 10_000 * message as u64;
            rests.push(day.at(now, 0, Ranks::SleepLong));
            assert_eq!(day.at(now + takes, 1, Ranks::Sleep), Rest::None);
        }
        use Rest::{Sleep, Yield};
        assert_eq!(rests, [Yield, Sleep, Sleep, Sleep, Sleep, Sleep, Yield]);
    }

    #[test]
    fn after_a_short_sleep_it_looks_longer_and_after_long_ones_less() {
        let mut day = Day::new();
        day.sleep(200);
        assert_eq!(day.at(0, 0, Ranks::Sleep), Rest::Yield);
        assert_eq!(day.at(399, 0, Ranks::Sleep), Rest::Yield);
        assert_eq!(day.at(400, 0, Ranks::Sleep), Rest::Sleep);
        for (sleep, limit) in [(1000, 200), (1000, 100), (1000, 50), (1000, 50)] {
            day.sleep(sleep);
            assert_eq!(day.at(10_000, 0, Ranks::Wait), Rest::Yield);
            assert_eq!(day.at(10_000 + limit - 1, 0, Ranks::Wait), Rest::Yield);
            assert_eq!(day.at(10_000 + limit, 0, Ranks::Wait), Rest::Sleep);
        }
    }

    #[test]
    fn who_wakes_by_himself_and_finds_nothing_goes_back_to_sleep() {
        let mut day = Day::new();
        day.idle.has_slept(Duration::from_millis(1), false);
        assert_eq!(day.at(0, 0, Ranks::Wait), Rest::Sleep);
        day.idle.has_slept(Duration::from_millis(1), false);
        assert_eq!(day.at(1000, 1, Ranks::Wait), Rest::None);
        assert_eq!(day.at(1001, 0, Ranks::Wait), Rest::Yield);
        day.sleep(1000);
        assert_eq!(day.at(3000, 0, Ranks::Wait), Rest::Yield);
    }

    #[test]
    fn a_moment_without_a_waiting_rank_is_bridged() {
        let mut day = Day::new();
        assert_eq!(day.at(0, 0, Ranks::Compute), Rest::Yield);
        assert_eq!(day.at(29, 0, Ranks::Compute), Rest::Yield);
        assert_eq!(day.at(31, 0, Ranks::Wait), Rest::Yield);
        assert_eq!(day.at(40, 0, Ranks::Compute), Rest::Yield);
    }

    #[test]
    fn who_has_lost_the_core_to_a_computing_rank_yields_seldom() {
        let mut day = Day::new();
        let mut yields = Vec::new();
        // Each yield costs a millisecond.
        for sleep in 0..200_u64 {
            let now = sleep * 10_000;
            day.sleep(9000);
            if day.at(now, 0, Ranks::Compute) == Rest::Yield {
                yields.push(sleep);
                assert_eq!(day.at(now + 1000, 0, Ranks::Compute), Rest::Sleep);
            } else {
                assert_eq!(day.at(now + 2, 0, Ranks::Compute), Rest::None);
                assert_eq!(day.at(now + 3, 0, Ranks::Compute), Rest::Sleep);
            }
        }
        assert_eq!(yields, [0, 9, 26, 59, 124]);
    }

    #[test]
    fn who_loses_nothing_yields_always_again() {
        let mut day = Day::new();
        assert_eq!(day.at(0, 0, Ranks::Compute), Rest::Yield);
        assert_eq!(day.at(5000, 0, Ranks::Compute), Rest::Sleep);
        let mut paused = 0;
        for sleep in 1..100_u64 {
            let now = sleep * 10_000;
            day.sleep(9000);
            if day.at(now, 0, Ranks::Compute) == Rest::Yield {
                assert_eq!(day.at(now + 30, 0, Ranks::Compute), Rest::Sleep);
            } else {
                paused += 1;
            }
        }
        assert_eq!(paused, 8);
    }
}
