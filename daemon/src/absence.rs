//! How long the daemon leaves its work alone: whoever needs it waits as long, and other nodes give up one that is away for too long.

use std::time::{Duration, Instant};

/// Since when it is away, while it is.
pub(crate) struct Absence {
    since: Instant,
}

impl Absence {
    pub(crate) fn begin(now: Instant) -> Self {
        Self { since: now }
    }

    /// The daemon comes to its work again. How long it was away, if that was long: what it did then took as long, or somebody else had its core.
    pub(crate) fn end(&mut self, now: Instant) -> Option<Duration> {
        let away = now.saturating_duration_since(self.since);
        self.since = now;
        (away >= LONG).then_some(away)
    }

    /// It has slept until now, because nobody needed it.
    pub(crate) fn excuse(&mut self, now: Instant) {
        self.since = now;
    }
}

/// Longer than time slices, and than anything takes that is done at once.
const LONG: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_slept_was_not_away() {
        let begin = Instant::now();
        let mut absence = Absence::begin(begin);
        assert_eq!(absence.end(begin + LONG - Duration::from_nanos(1)), None);
        assert_eq!(absence.end(begin + 3 * LONG), Some(2 * LONG + Duration::from_nanos(1)));
        absence.excuse(begin + 9 * LONG);
        assert_eq!(absence.end(begin + 9 * LONG), None);
        assert_eq!(absence.end(begin + 10 * LONG), Some(LONG));
    }
}
