//! What a cycle without work does: look again, yielding the core, and after a while sleep.
//!
//! Never a bare spin: on a node whose ranks fill its cores, a daemon that spins takes the time of the very rank it waits for.

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
}

impl Idle {
    pub(crate) fn new(yield_for: Duration) -> Self {
        Self { yield_for, since: None }
    }

    /// After a cycle that did `work` things.
    pub(crate) fn after(&mut self, work: usize, now: Instant) -> Rest {
        if work > 0 {
            self.since = None;
            return Rest::None;
        }
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) < self.yield_for { Rest::Yield } else { Rest::Sleep }
    }

    /// It has slept: what woke it may be followed by more.
    pub(crate) fn has_slept(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_daemon_yields_first_and_then_sleeps() {
        let (mut idle, start) = (Idle::new(Duration::from_micros(50)), Instant::now());
        let at = |us| start + Duration::from_micros(us);
        assert_eq!(idle.after(1, at(0)), Rest::None);
        assert_eq!(idle.after(0, at(10)), Rest::Yield);
        assert_eq!(idle.after(0, at(59)), Rest::Yield);
        assert_eq!(idle.after(0, at(60)), Rest::Sleep);
        assert_eq!(idle.after(3, at(61)), Rest::None);
        assert_eq!(idle.after(0, at(62)), Rest::Yield);
    }
}
