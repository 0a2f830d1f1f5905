//! Where a median is.

use statrs::function::beta::beta_reg;

/// The 95 % bootstrap interval of the median of sorted samples, from percentiles.
///
/// Nothing is drawn: which of n sorted samples is the median of n that are drawn from them has a known distribution. It is
/// among the first k if at least half of the draws are, each of which is with probability k/n. So the interval is the same
/// every time, and exact. B. Efron, *Bootstrap Methods: Another Look at the Jackknife*, Annals of Statistics 7 (1979), § 3.
pub(super) fn of_median(sorted: &[f64]) -> [f64; 2] {
    let count = sorted.len();
    let half = count.div_ceil(2);
    let share_up_to = |rank: usize| match rank {
        rank if rank == count => 1.0,
        // The chance that at least `half` of `count` draws are among the first `rank`.
        rank => beta_reg(half as f64, (count - half + 1) as f64, rank as f64 / count as f64),
    };
    let percentile = |share: f64| {
        let (mut low, mut high) = (1, count);
        while low < high {
            let middle = low.midpoint(high);
            if share_up_to(middle) < share { low = middle + 1 } else { high = middle }
        }
        sorted[low - 1]
    };
    [percentile(0.025), percentile(0.975)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::median;

    #[test]
    fn few_samples_say_little() {
        assert_eq!(of_median(&[3.0]), [3.0, 3.0]);
        // P(at least 3 of 5 draws are the smallest) = 0.058, so the smallest is in it.
        assert_eq!(of_median(&[1.0, 2.0, 3.0, 4.0, 5.0]), [1.0, 5.0]);
        // For nine samples the chances of ranks 1 and 2 are 0.0014 and 0.029 − 0.0014.
        let nine: Vec<f64> = (1..=9).map(f64::from).collect();
        assert_eq!(of_median(&nine), [2.0, 8.0]);
    }

    #[test]
    fn many_samples_narrow_it_by_their_root() {
        let samples: Vec<f64> = (1..=100_000).map(f64::from).collect();
        let [low, high] = of_median(&samples);
        // 1.96 · √n / 2 ranks to either side.
        assert!((low - (50_000.0 - 310.0)).abs() < 3.0 && (high - (50_000.0 + 310.0)).abs() < 3.0, "{low} {high}");
    }

    #[test]
    fn drawing_gives_the_same() {
        let samples: Vec<f64> = (0..41).map(|index| f64::from(index * index)).collect();
        let mut random = fastrand::Rng::with_seed(7);
        let mut medians: Vec<f64> = (0..20_000)
            .map(|_| median(&samples.iter().map(|_| samples[random.usize(..samples.len())]).collect::<Vec<_>>()))
            .collect();
        medians.sort_unstable_by(f64::total_cmp);
        assert_eq!(of_median(&samples), [medians[499], medians[19_499]]);
    }
}
