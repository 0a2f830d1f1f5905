//! Who gets which keys.

use std::ops::Range;

/// Where a rank's keys go after a pass, and where its new ones come from.
#[derive(Debug, PartialEq)]
pub(super) struct Route {
    /// For each rank the places of its keys among ours.
    pub(super) to: Vec<Range<usize>>,
    /// For each rank the places of its keys among those that come, rank by rank.
    pub(super) from: Vec<Range<usize>>,
    /// In the order in which they belong: the next so many keys that have come from this rank.
    runs: Vec<(usize, usize)>,
}

impl Route {
    /// The route of `rank`. All ranks have `keys` keys each; `counts` has everybody's counts of the values of the
    /// digit, rank by rank.
    ///
    /// All keys in order are those of the least value, rank by rank, then those of the next value, and so on. Each rank
    /// gets the next `keys` of them.
    pub(super) fn new(counts: &[u32], radix: usize, keys: usize, rank: usize) -> Self {
        let ranks = counts.len() / radix;
        let block_of = |rank: usize| rank * keys..(rank + 1) * keys;
        let (mut sent, mut received) = (vec![0; ranks], vec![0; ranks]);
        let (mut runs, mut begin) = (Vec::new(), 0);
        for value in 0..radix {
            for from in 0..ranks {
                let run = begin..begin + counts[from * radix + value] as usize;
                begin = run.end;
                if from == rank {
                    sent.iter_mut().enumerate().for_each(|(to, sent)| *sent += common(&run, &block_of(to)));
                }
                let ours = common(&run, &block_of(rank));
                if ours > 0 {
                    received[from] += ours;
                    runs.push((from, ours));
                }
            }
        }
        Self { to: ranges(&sent), from: ranges(&received), runs }
    }

    /// Puts the keys that have come, rank by rank, where they belong.
    pub(super) fn merge(&self, incoming: &[u32], keys: &mut [u32]) {
        let mut next: Vec<usize> = self.from.iter().map(|range| range.start).collect();
        let mut rest = keys;
        for &(from, count) in &self.runs {
            let (run, after) = rest.split_at_mut(count);
            run.copy_from_slice(&incoming[next[from]..next[from] + count]);
            next[from] += count;
            rest = after;
        }
    }
}

/// How many places two ranges have in common.
fn common(a: &Range<usize>, b: &Range<usize>) -> usize {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

/// Ranges of these lengths, one behind the other.
fn ranges(lengths: &[usize]) -> Vec<Range<usize>> {
    let mut end = 0;
    let range = |&length: &usize| {
        end += length;
        end - length..end
    };
    lengths.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::super::digits::{Digit, random_keys};
    use super::*;

    #[test]
    fn keys_go_by_value_and_then_by_rank() {
        // Rank 0 has two keys of value 0 and one of value 1; rank 1 one of value 0 and two of value 1.
        let counts = [2, 1, 1, 2];
        let first = Route::new(&counts, 2, 3, 0);
        assert_eq!(first, Route { to: vec![0..2, 2..3], from: vec![0..2, 2..3], runs: vec![(0, 2), (1, 1)] });
        let second = Route::new(&counts, 2, 3, 1);
        assert_eq!(second, Route { to: vec![0..1, 1..3], from: vec![0..1, 1..3], runs: vec![(0, 1), (1, 2)] });
    }

    /// All passes of all ranks, exchanged without messages.
    fn sorted(mut keys: Vec<Vec<u32>>, bits: u32) -> Vec<Vec<u32>> {
        let (ranks, each, radix) = (keys.len(), keys[0].len(), Digit::radix(bits));
        for digit in Digit::all(bits) {
            let mut counts = vec![0; ranks * radix];
            counts.chunks_mut(radix).zip(&keys).for_each(|(counts, keys)| digit.count(keys, counts));
            let mut ordered = keys.clone();
            for ((keys, ordered), counts) in keys.iter().zip(&mut ordered).zip(counts.clone().chunks_mut(radix)) {
                digit.order(keys, counts, ordered);
            }
            let routes: Vec<_> = (0..ranks).map(|rank| Route::new(&counts, radix, each, rank)).collect();
            for (to, keys) in keys.iter_mut().enumerate() {
                let sent = routes.iter().zip(&ordered).map(|(route, ordered)| &ordered[route.to[to].clone()]);
                let lengths: Vec<_> = sent.clone().map(<[u32]>::len).collect();
                assert_eq!(ranges(&lengths), routes[to].from);
                routes[to].merge(&sent.collect::<Vec<_>>().concat(), keys);
            }
        }
        keys
    }

    #[test]
    fn all_passes_sort() {
        for (ranks, each, bits) in [(1, 100, 8), (2, 1, 2), (3, 50, 5), (5, 64, 16), (4, 33, 3)] {
            let random: Vec<_> = (0..ranks).map(|rank| random_keys(7, rank, each)).collect();
            let few_values = random.iter().map(|keys| keys.iter().map(|key| key % 3).collect()).collect();
            for keys in [random, few_values] {
                let mut expected = keys.concat();
                expected.sort_unstable();
                assert_eq!(sorted(keys, bits).concat(), expected);
            }
        }
    }
}
