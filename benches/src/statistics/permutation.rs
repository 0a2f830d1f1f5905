//! Whether two sets of samples differ by more than chance.

/// The chance that samples which come from one distribution are as far apart as these, either way.
///
/// Whoever it was that a sample was taken of is dealt anew, 20,000 times. How far apart two sets are is told by the sum of
/// ranks (Wilcoxon 1945), so that one disturbed run does not decide. The same samples give the same answer: the seed is
/// fixed. The least that can be shown follows from how many there are: with two runs of each 0.33, with five 0.008.
pub fn permutation_test(ours: &[f64], theirs: &[f64]) -> f64 {
    let all = [ours, theirs].concat();
    let mut ranks: Vec<f64> = all.iter().map(|&sample| rank(sample, &all)).collect();
    let expected = ours.len() as f64 * (all.len() + 1) as f64 / 2.0;
    let distance = |ranks: &[f64]| (ranks[..ours.len()].iter().sum::<f64>() - expected).abs();
    let found = distance(&ranks);
    let mut random = fastrand::Rng::with_seed(SEED);
    let as_far = (0..PERMUTATIONS).filter(|_| {
        random.shuffle(&mut ranks);
        distance(&ranks) >= found
    });
    // What was found is one of the permutations (Phipson and Smyth 2010).
    (as_far.count() + 1) as f64 / (PERMUTATIONS + 1) as f64
}

/// From 1 on; those that are alike share the mean of their ranks.
fn rank(sample: f64, all: &[f64]) -> f64 {
    let smaller = all.iter().filter(|&&other| other < sample).count() as f64;
    let alike = all.iter().filter(|&&other| other == sample).count() as f64;
    smaller + (alike + 1.0) / 2.0
}

const PERMUTATIONS: usize = 20_000;
const SEED: u64 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn about(found: f64, expected: f64) {
        assert!((found - expected).abs() < 0.1 * expected, "{found} instead of {expected}");
    }

    #[test]
    fn what_is_apart_is_unlikely_to_be_so_by_chance() {
        // Both ways of 252 in which five of ten can be the smallest.
        about(permutation_test(&[1.0, 2.0, 3.0, 4.0, 5.0], &[11.0, 12.0, 13.0, 14.0, 15.0]), 2.0 / 252.0);
        // One disturbed run leaves twice 19 ways: sums of ranks up to 1 + 2 + 3 + 4 + 10.
        about(permutation_test(&[11.0, 12.0, 13.0, 14.0, 15.0], &[1.0, 2.0, 3.0, 4.0, 500.0]), 38.0 / 252.0);
        about(permutation_test(&[1.0, 2.0], &[3.0, 4.0]), 2.0 / 6.0);
    }

    #[test]
    fn what_is_mixed_may_be_the_same() {
        assert_eq!(permutation_test(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
        assert!(permutation_test(&[1.0, 4.0, 5.0, 8.0], &[2.0, 3.0, 6.0, 7.0]) > 0.9);
    }

    #[test]
    fn the_same_samples_give_the_same_answer() {
        let test = || permutation_test(&[1.0, 2.0, 6.0], &[3.0, 5.0, 9.0]);
        assert_eq!(test(), test());
    }
}
