//! How long the parts are of which a collective has one for each rank.

use crate::operation::{CollectiveCall, Operation};

/// Parts of `count` elements each; or uneven ones, that are in proportion to 1, 2, 3 … and as many elements in all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    ranks: u32,
    count: usize,
    is_uneven: bool,
}

impl Parts {
    pub(crate) fn new(call: CollectiveCall, ranks: u32, count: usize) -> Self {
        Self { ranks, count, is_uneven: call.is_uneven }
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Elements of a vector that is not in parts.
    pub(crate) fn whole(&self) -> usize {
        self.count
    }

    /// Elements of the parts before a rank's.
    pub(crate) fn before(&self, rank: u32) -> usize {
        let (rank, ranks) = (rank as usize, self.ranks as usize);
        if self.is_uneven { self.count * rank * (rank + 1) / (ranks + 1) } else { self.count * rank }
    }

    /// Elements of a rank's part.
    pub(crate) fn of(&self, rank: u32) -> usize {
        self.before(rank + 1) - self.before(rank)
    }

    /// Elements that go from a rank to another, and as many back: everybody has the same parts for others, turned by one from rank to rank.
    pub(crate) fn between(&self, from: u32, to: u32) -> usize {
        self.of(((u64::from(from) + u64::from(to)) % u64::from(self.ranks)) as u32)
    }

    /// Elements that go from a rank to those before another.
    pub(crate) fn before_pair(&self, from: u32, to: u32) -> usize {
        if !self.is_uneven {
            return self.before(to);
        }
        let last = from + to;
        let turned = if last <= self.ranks {
            self.before(last)
        } else {
            self.before(self.ranks) + self.before(last - self.ranks)
        };
        turned - self.before(from)
    }

    /// A part for each rank.
    pub(crate) fn each(&self) -> Vec<usize> {
        (0..self.ranks).map(|rank| self.of(rank)).collect()
    }

    /// What goes from a rank to each.
    pub(crate) fn with_each(&self, rank: u32) -> Vec<usize> {
        (0..self.ranks).map(|other| self.between(rank, other)).collect()
    }
}

impl CollectiveCall {
    /// The counts that uneven parts are called with: one for each rank, or for each pair of them.
    pub fn counts(self, ranks: u32, count: usize) -> Vec<usize> {
        let parts = Parts::new(self, ranks, count);
        if self.operation == Operation::Alltoall {
            (0..ranks).flat_map(|from| parts.with_each(from)).collect()
        } else {
            parts.each()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(ranks: u32, count: usize) -> Parts {
        Parts { ranks, count, is_uneven: true }
    }

    #[test]
    fn uneven_parts_grow_with_the_rank_and_are_as_many_elements_in_all() {
        assert_eq!(parts(3, 4).each(), [2, 4, 6]);
        assert_eq!(parts(4, 1).each(), [0, 1, 1, 2]);
        assert_eq!(parts(1, 7).each(), [7]);
        for ranks in 1..20 {
            for count in [0, 1, 2, 100] {
                let each = parts(ranks, count).each();
                assert!(each.iter().sum::<usize>() == count * ranks as usize, "{each:?}");
            }
        }
    }

    #[test]
    fn of_pairs_as_much_goes_to_each_as_comes_back_and_all_bring_as_much() {
        for (ranks, count) in [(1, 3), (2, 5), (3, 4), (7, 10)] {
            let parts = parts(ranks, count);
            for from in 0..ranks {
                let row: Vec<_> = (0..ranks).map(|to| parts.between(from, to)).collect();
                assert!((0..ranks).all(|to| parts.between(to, from) == row[to as usize]));
                assert!((0..=ranks).all(|to| parts.before_pair(from, to) == row[..to as usize].iter().sum::<usize>()));
                assert_eq!(row.iter().sum::<usize>(), count * ranks as usize);
            }
        }
    }
}
