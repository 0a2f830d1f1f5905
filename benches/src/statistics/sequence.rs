//! Samples in the order in which they were taken: do they drift, are neighbours alike?

use statrs::function::erf::erfc;

use super::median;

/// Medians of at most so many batches of consecutive samples. What is shorter than a batch is not seen any more.
pub(super) fn batches(samples: &[f64]) -> Vec<f64> {
    let size = samples.len().div_ceil(BATCHES_MAX).max(1);
    samples.chunks(size).map(median).collect()
}

/// The chance that values without a trend rise or fall as clearly as these: the test of Mann (1945) and Kendall (1975), in the
/// normal approximation. 1 if there are too few of them to say.
pub(super) fn trend_p(values: &[f64]) -> f64 {
    if values.len() < COUNT_MIN {
        return 1.0;
    }
    let pairs = values.iter().enumerate().flat_map(|(index, a)| values[index + 1..].iter().map(move |b| (a, b)));
    let rises: f64 = pairs.map(|(a, b)| if a == b { 0.0 } else { (b - a).signum() }).sum();
    let term = |count: f64| count * (count - 1.0) * (2.0 * count + 5.0);
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|alike| term(alike.len() as f64)).sum();
    let variance = (term(values.len() as f64) - ties) / 18.0;
    if rises == 0.0 { 1.0 } else { erfc((rises.abs() - 1.0) / (2.0 * variance).sqrt()) }
}

/// How far the last third is from the first.
pub(super) fn shift(values: &[f64]) -> f64 {
    let third = values.len().div_ceil(3);
    (median(&values[values.len() - third..]) - median(&values[..third])).abs()
}

/// The correlation of each value with the next one, if it is larger than that of 99 of 100 independent sequences.
pub(super) fn correlation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let covariance: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    let correlation = covariance / variance;
    (values.len() >= COUNT_MIN && correlation > Z_99 / count.sqrt()).then_some(correlation)
}

const BATCHES_MAX: usize = 50;
/// For the normal approximations to be useful.
const COUNT_MIN: usize = 8;
/// A normal variable is larger once in a hundred times.
const Z_99: f64 = 2.326;

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(count: usize) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(3);
        (0..count).map(|_| random.f64()).collect()
    }

    #[test]
    fn a_rise_is_a_trend_and_noise_is_not() {
        let rising: Vec<f64> = (0..10).map(f64::from).collect();
        // 45 rises, variance 125: z = 44 / √125 = 3.935.
        assert!((trend_p(&rising) - 8.3e-5).abs() < 1e-6);
        assert_eq!(trend_p(&rising), trend_p(&rising.iter().rev().copied().collect::<Vec<_>>()));
        assert_eq!(trend_p(&rising[..7]), 1.0);
        assert!(trend_p(&noise(50)) > 0.05);
        assert_eq!(trend_p(&[4.0; 20]), 1.0);
    }

    #[test]
    fn ties_count_less() {
        // 16 rises; variance (8·7·21 − 2·(4·3·13)) / 18 = 48: z = 15 / √48.
        let steps = [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0];
        assert!((trend_p(&steps) - erfc(15.0 / 96.0_f64.sqrt())).abs() < 1e-12);
    }

    #[test]
    fn neighbours_that_are_alike_are_correlated() {
        let halves = [[1.0; 10], [2.0; 10]].concat();
        // Σ(x − mean)² = 20/4, Σ of neighbours = (18 − 1)/4.
        assert!((correlation(&halves).unwrap() - 0.85).abs() < 1e-12);
        assert_eq!(correlation(&noise(50)), None);
        assert_eq!(correlation(&[1.0, 2.0].repeat(10)), None);
        assert_eq!(correlation(&[1.0; 20]), None);
    }

    #[test]
    fn batches_are_medians_in_order() {
        let samples: Vec<f64> = (0..1000).map(f64::from).collect();
        let batches = batches(&samples);
        assert_eq!((batches.len(), batches[0], batches[49]), (50, 9.0, 989.0));
        assert_eq!(super::batches(&samples[..3]), [0.0, 1.0, 2.0]);
        assert_eq!(shift(&batches), 989.0 - 160.0 - 9.0 - 160.0);
    }
}
