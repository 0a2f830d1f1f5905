//! Many samples in a few numbers, and whether these can be trusted.

mod doubts;
mod interval;
mod permutation;
mod sequence;

use serde::{Deserialize, Serialize};

pub use doubts::{Doubt, Doubts};
pub use permutation::permutation_test;

/// The distribution of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Smallest.
    pub min: f64,
    /// Half of them are not larger.
    pub median: f64,
    /// Where the median is with 95 % confidence, if samples are independent of each other.
    pub ci95: [f64; 2],
    /// 99 of 100 are not larger.
    pub p99: f64,
    /// Largest.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// How many there were.
    pub samples: usize,
    /// Why the median may not be what it seems.
    #[serde(default, skip_serializing_if = "Doubts::is_empty")]
    pub doubts: Doubts,
}

impl Summary {
    /// Of at least one sample, in the order in which they were taken.
    ///
    /// # Panics
    /// If there is none.
    pub fn of(samples: &[f64]) -> Self {
        Self::doubted(samples, |median| median.abs())
    }

    /// The same of figures in a unit. `ratio` are shares of a whole, which may be next to nothing or below: how uncertain they are is relative to
    /// the whole.
    ///
    /// # Panics
    /// If there is none.
    pub fn in_unit(unit: &str, samples: &[f64]) -> Self {
        if unit == "ratio" { Self::doubted(samples, |_| 1.0) } else { Self::of(samples) }
    }

    /// `size`, from the median: what is much is much of that.
    fn doubted(samples: &[f64], size: impl FnOnce(f64) -> f64) -> Self {
        assert!(!samples.is_empty(), "a summary is of something");
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        // Nearest rank: always one of the samples.
        let percentile = |percent: usize| significant(sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]);
        Self {
            min: significant(sorted[0]),
            median: percentile(50),
            ci95: interval::of_median(&sorted).map(significant),
            p99: percentile(99),
            max: significant(sorted[sorted.len() - 1]),
            mean: significant(sorted.iter().sum::<f64>() / sorted.len() as f64),
            samples: sorted.len(),
            doubts: Doubts::about(samples, size(median(samples))),
        }
    }
}

/// Half of the samples are not larger. The nearest rank: always one of them.
///
/// # Panics
/// If there is none.
fn median(samples: &[f64]) -> f64 {
    let mut samples = samples.to_vec();
    let middle = (samples.len() - 1) / 2;
    *samples.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// Five significant digits: more than any measurement here has.
pub fn significant(value: f64) -> f64 {
    format!("{value:.4e}").parse().expect("what Rust prints it reads")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let Summary { min, median, p99, max, mean, samples, .. } = Summary::of(&samples);
        assert_eq!((min, median, p99, max, mean, samples), (1.0, 100.0, 198.0, 200.0, 100.5, 200));
        let one = Summary::of(&[3.0]);
        assert_eq!((one.min, one.median, one.p99, one.max, one.mean), (3.0, 3.0, 3.0, 3.0, 3.0));
    }

    #[test]
    fn five_digits_are_enough() {
        assert_eq!(significant(1234.5678), 1234.6);
        assert_eq!(significant(0.000_123_456_78), 0.000_123_46);
        assert_eq!(significant(0.0), 0.0);
    }
}
