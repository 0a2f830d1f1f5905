//! How long an adaptive wait looks before it sleeps: learnt from how long waits last.
//!
//! Looking costs a core for the time; sleeping costs a wake-up at its end. If waits end while we look, looking was right;
//! if they end long after we went to sleep, we could have slept at once. How long a wait would have lasted without the sleep
//! is not known, so now and then one looks as long as possible, to find out. A request that is used again and again learns for
//! itself: one that is answered at once says nothing about another that takes a millisecond.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What has been learnt. Threads may share it; a lost update is a lesson learnt a little later.
#[derive(Debug)]
pub(crate) struct Patience {
    limit_us: AtomicU32,
    waits: AtomicU32,
}

/// The longest look. A few times what a sleep and a wake-up cost.
const MOST_US: u32 = 50;
/// The shortest: some yields, in case it comes just now.
const LEAST_US: u32 = 2;
/// One wait of so many looks as long as possible.
const PROBE_EVERY: u32 = 32;

impl Patience {
    /// How long the next wait may look.
    pub(crate) fn limit(&self) -> Duration {
        let is_probe = self.waits.fetch_add(1, Ordering::Relaxed) % PROBE_EVERY == PROBE_EVERY - 1;
        let limit_us = if is_probe { MOST_US } else { self.limit_us.load(Ordering::Relaxed) };
        Duration::from_micros(limit_us.into())
    }

    /// A wait has lasted so long, all in all.
    pub(crate) fn learn(&self, lasted: Duration) {
        let limit_us = self.limit_us.load(Ordering::Relaxed);
        self.limit_us.store(next(limit_us, lasted), Ordering::Relaxed);
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self { limit_us: AtomicU32::new(MOST_US), waits: AtomicU32::new(0) }
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

    #[test]
    fn now_and_then_a_wait_finds_out_whether_looking_pays_again() {
        let patience = Patience::default();
        (0..10).for_each(|_| patience.learn(LONG));
        let limits: Vec<_> = (0..2 * PROBE_EVERY).map(|_| patience.limit().as_micros() as u32).collect();
        assert_eq!(limits.iter().filter(|&&limit| limit == MOST_US).count(), 2);
        assert!(limits.iter().all(|&limit| limit == MOST_US || limit == LEAST_US));
    }
}
