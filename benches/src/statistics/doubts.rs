//! Whether a figure can be trusted.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{interval, sequence};

/// Why a figure may not be what it seems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Doubt {
    /// The samples differ so much that the median could as well be another.
    Spread,
    /// More ranks than cores: the operating system's scheduler is measured as well.
    Oversubscribed,
    /// Later samples are larger than earlier ones, or smaller.
    Drift,
    /// Neighbours are alike, so there are fewer independent samples than samples.
    Correlated,
}

impl Doubt {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Spread, Self::Oversubscribed, Self::Drift, Self::Correlated];

    /// For whoever wants to know what it means.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Spread => "the median is uncertain by more than 10 %, or 0.1 of a share",
            Self::Oversubscribed => "there are more ranks than cores",
            Self::Drift => "the figure changed while it was measured, by more than 5 %, or 0.05 of a share",
            Self::Correlated => {
                "samples depend on the one before, so the median is uncertain by more than 10 %, or 0.1 of a share"
            }
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Spread => "spread",
            Self::Oversubscribed => "oversubscribed",
            Self::Drift => "drift",
            Self::Correlated => "correlated",
        })
    }
}

/// A set of doubts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<Doubt>", from = "Vec<Doubt>")]
pub struct Doubts([bool; Doubt::ALL.len()]);

impl Doubts {
    /// What the samples, in the order in which they were taken, say about their median. The limits are shares of `size`.
    ///
    /// Medians of consecutive batches are looked at, so that what is over within a batch does not matter.
    pub(super) fn about(samples: &[f64], size: f64) -> Self {
        let batches = sequence::batches(samples);
        let mut sorted = batches.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let [low, high] = interval::of_median(&sorted);
        let is_wide = |width: f64| width > WIDTH_MAX * size;
        let drifts = sequence::shift(&batches) > SHIFT_MAX * size && sequence::trend_p(&batches) < 0.01;
        // Correlated samples are worth (1 − r) / (1 + r) independent ones (Bartlett 1946).
        let widened = sequence::correlation(&batches).map(|r| (high - low) * ((1.0 + r) / (1.0 - r)).sqrt());
        Self::default()
            .and(Doubt::Spread, is_wide(high - low))
            .and(Doubt::Drift, drifts)
            // A drift makes neighbours alike by itself.
            .and(Doubt::Correlated, !drifts && widened.is_some_and(is_wide))
    }

    /// One more, if that is so.
    pub fn and(mut self, doubt: Doubt, is_so: bool) -> Self {
        self.0[doubt as usize] |= is_so;
        self
    }

    /// All of both.
    pub fn union(self, other: Self) -> Self {
        other.iter().fold(self, |all, doubt| all.and(doubt, true))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// One by one.
    pub fn iter(self) -> impl Iterator<Item = Doubt> {
        Doubt::ALL.into_iter().filter(move |&doubt| self.0[doubt as usize])
    }
}

impl From<Doubts> for Vec<Doubt> {
    fn from(doubts: Doubts) -> Self {
        doubts.iter().collect()
    }
}

impl From<Vec<Doubt>> for Doubts {
    fn from(doubts: Vec<Doubt>) -> Self {
        doubts.into_iter().fold(Self::default(), |all, doubt| all.and(doubt, true))
    }
}

/// Of the interval of the median, relative to the median, or to the whole of which it is a share.
const WIDTH_MAX: f64 = 0.1;
/// Between the first and the last third, relative to the same.
const SHIFT_MAX: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Summary;

    fn of(samples: impl IntoIterator<Item = f64>) -> Vec<Doubt> {
        Summary::of(&samples.into_iter().collect::<Vec<_>>()).doubts.into()
    }

    fn of_shares(samples: impl IntoIterator<Item = f64>) -> Vec<Doubt> {
        Summary::in_unit("ratio", &samples.into_iter().collect::<Vec<_>>()).doubts.into()
    }

    fn noise(count: usize, amount: f64) -> impl Iterator<Item = f64> {
        let mut random = fastrand::Rng::with_seed(5);
        (0..count).map(move |_| 100.0 + amount * (random.f64() - 0.5))
    }

    #[test]
    fn quiet_samples_are_trusted() {
        assert_eq!(of([7.0]), []);
        assert_eq!(of([7.0; 30]), []);
        assert_eq!(of(noise(1000, 50.0)), []);
        // A few outliers are what medians are for.
        assert_eq!(of(noise(1000, 1.0).enumerate().map(|(index, x)| if index % 10 == 0 { 5.0 * x } else { x })), []);
    }

    #[test]
    fn few_that_differ_are_not() {
        assert_eq!(of([1.0, 2.0, 1.5]), [Doubt::Spread]);
    }

    #[test]
    fn shares_near_zero_are_as_certain_as_others() {
        let around = |share: f64, amount: f64| noise(30, amount).map(move |x| share + (x - 100.0));
        for share in [-0.5, 0.0, 0.002, 1.0] {
            assert_eq!(of_shares(around(share, 0.1)), []);
            assert_eq!(of_shares(around(share, 1.0)), [Doubt::Spread]);
            let drifting = around(share, 0.02).enumerate().map(|(index, x)| x + index as f64 * 0.003);
            assert_eq!(of_shares(drifting), [Doubt::Drift]);
        }
        assert_eq!(of(around(0.002, 0.1)), [Doubt::Spread]);
    }

    #[test]
    fn a_machine_that_gets_slower_is_noticed() {
        let slower = noise(2000, 2.0).enumerate().map(|(index, x)| x + index as f64 * 0.004);
        assert_eq!(of(slower), [Doubt::Drift]);
        // Too little to matter.
        assert_eq!(of(noise(2000, 0.1).enumerate().map(|(index, x)| x + index as f64 * 0.0004)), []);
    }

    #[test]
    fn a_machine_that_changes_its_mind_is_noticed() {
        let levels = noise(2000, 2.0).enumerate().map(|(index, x)| x + [0.0, 9.0][index / 240 % 2]);
        assert_eq!(of(levels), [Doubt::Correlated]);
    }

    #[test]
    fn doubts_are_words_in_records() {
        let doubts = Doubts::default().and(Doubt::Drift, true).and(Doubt::Spread, true).and(Doubt::Correlated, false);
        let json = serde_json::to_string(&doubts).unwrap();
        assert_eq!(json, r#"["spread","drift"]"#);
        assert_eq!(serde_json::from_str::<Doubts>(&json).unwrap(), doubts);
        assert_eq!(doubts.union(Doubts::from(vec![Doubt::Correlated])).iter().count(), 3);
    }
}
