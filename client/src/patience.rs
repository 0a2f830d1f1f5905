//! How long an adaptive wait looks before it sleeps: learnt from how long waits last.
//!
//! Looking costs a core for the time; sleeping costs a wake-up at its end. If waits end while we look, looking was right;
//! if they end long after we went to sleep, we could have slept at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What a session has learnt. Threads share it; a lost update is a lesson learnt a little later.
#[derive(Debug)]
pub(crate) struct Patience {
    limit_us: AtomicU32,
}

/// The longest look. A few times what a sleep and a wake-up cost.
const MOST_US: u32 = 50;
/// The shortest: some yields, in case it comes just now.
const LEAST_US: u32 = 2;

impl Patience {
    /// How long the next wait may look.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_micros(self.limit_us.load(Ordering::Relaxed).into())
    }

    /// A wait has lasted so long, all in all.
    pub(crate) fn learn(&self, lasted: Duration) {
        let limit_us = self.limit_us.load(Ordering::Relaxed);
        self.limit_us.store(next(limit_us, lasted), Ordering::Relaxed);
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self { limit_us: AtomicU32::new(MOST_US) }
    }
}

/// The limit after a wait. One short wait brings all patience back; long ones take it away by halves.
fn next(limit_us: u32, lasted: Duration) -> u32 {
    let is_worth_looking = lasted < Duration::from_micros(MOST_US.into());
    if is_worth_looking { MOST_US } else { (limit_us / 2).max(LEAST_US) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(3);
    const LONG: Duration = Duration::from_millis(3);

    #[test]
    fn long_waits_take_patience_away_and_a_short_one_brings_it_back() {
        let patience = Patience::default();
        let mut limits = Vec::new();
        for lasted in [LONG, LONG, LONG, LONG, LONG, LONG, SHORT, SHORT, LONG] {
            patience.learn(lasted);
            limits.push(patience.limit().as_micros());
        }
        assert_eq!(limits, [25, 12, 6, 3, 2, 2, 50, 50, 25]);
    }

    #[test]
    fn the_limit_keeps_within_its_bounds() {
        for limit_us in [0, 1, LEAST_US, 7, MOST_US, u32::MAX / 2] {
            assert_eq!(next(limit_us, SHORT), MOST_US);
            assert!(next(limit_us, LONG) >= LEAST_US);
        }
    }
}
