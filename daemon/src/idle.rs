//! What a cycle without work does: look again, yielding the core, and after a while sleep.
//!
//! Never a bare spin while a rank waits: on a node whose ranks fill its cores, a daemon that spins takes the time of the very
//! rank it waits for. And never a yield while all ranks compute: whoever gets the core then keeps it for a time slice of
//! milliseconds, whatever arrives, where a daemon that sleeps is woken at once and preferred.

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

/// Decides how long to look for work before sleeping.
pub(crate) struct Idle {
    yield_for: Duration,
    /// Since when there has been no work.
    since: Option<Instant>,
    /// Since when no rank has been waiting.
    unwatched_since: Option<Instant>,
}

/// A rank that has got its message may come back with the next one at once.
const GRACE: Duration = Duration::from_micros(3);

impl Idle {
    pub(crate) fn new(yield_for: Duration) -> Self {
        Self { yield_for, since: None, unwatched_since: None }
    }

    /// After a cycle that did `work` things. `is_watched`: some rank waits without sleeping.
    pub(crate) fn after(&mut self, work: usize, now: Instant, is_watched: impl FnOnce() -> bool) -> Rest {
        if work > 0 {
            (self.since, self.unwatched_since) = (None, None);
            return Rest::None;
        }
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) >= self.yield_for {
            return Rest::Sleep;
        }
        if is_watched() {
            self.unwatched_since = None;
            return Rest::Yield;
        }
        let since = *self.unwatched_since.get_or_insert(now);
        if now.duration_since(since) < GRACE { Rest::None } else { Rest::Sleep }
    }

    /// It has slept: what woke it may be followed by more.
    pub(crate) fn has_slept(&mut self) {
        (self.since, self.unwatched_since) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_daemon_yields_first_and_then_sleeps() {
        let (mut idle, start) = (Idle::new(Duration::from_micros(50)), Instant::now());
        let at = |us| start + Duration::from_micros(us);
        assert_eq!(idle.after(1, at(0), || true), Rest::None);
        assert_eq!(idle.after(0, at(10), || true), Rest::Yield);
        assert_eq!(idle.after(0, at(59), || true), Rest::Yield);
        assert_eq!(idle.after(0, at(60), || true), Rest::Sleep);
        assert_eq!(idle.after(3, at(61), || true), Rest::None);
        assert_eq!(idle.after(0, at(62), || true), Rest::Yield);
    }

    #[test]
    fn while_nobody_waits_it_sleeps_almost_at_once() {
        let (mut idle, start) = (Idle::new(Duration::from_micros(50)), Instant::now());
        let at = |us| start + Duration::from_micros(us);
        assert_eq!(idle.after(0, at(0), || false), Rest::None);
        assert_eq!(idle.after(0, at(2), || false), Rest::None);
        assert_eq!(idle.after(0, at(3), || false), Rest::Sleep);
        idle.has_slept();
        assert_eq!(idle.after(0, at(10), || false), Rest::None);
        // Somebody has come to wait.
        assert_eq!(idle.after(0, at(12), || true), Rest::Yield);
        assert_eq!(idle.after(0, at(14), || false), Rest::None);
    }
}
