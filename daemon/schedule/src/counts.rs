//! How many elements belong to each participant.

use crate::error::ShapeError;

/// Elements of each participant, which lie one after the other in order of rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts(Inner);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Inner {
    Same(u64),
    /// Where each block starts, and where the last one ends.
    Offsets(Box<[u64]>),
}

impl Counts {
    /// Everybody has as many.
    pub const fn same(count: u64) -> Self {
        Self(Inner::Same(count))
    }

    /// Everybody has its own number of elements.
    pub fn each(counts: &[u64]) -> Self {
        let mut offsets = Vec::with_capacity(counts.len() + 1);
        offsets.push(0_u64);
        // What saturates is refused when the shape is looked at.
        offsets.extend(counts.iter().scan(0_u64, |end, &count| {
            *end = end.saturating_add(count);
            Some(*end)
        }));
        Self(Inner::Offsets(offsets.into()))
    }

    /// `total` elements, dealt out as evenly as possible: the first ones have one more.
    pub fn even(total: u64, pieces: u32) -> Self {
        let (least, more) = (total / u64::from(pieces), total % u64::from(pieces));
        if more == 0 {
            return Self::same(least);
        }
        let counts: Vec<_> = (0..u64::from(pieces)).map(|piece| least + u64::from(piece < more)).collect();
        Self::each(&counts)
    }

    /// Elements of one participant.
    pub fn count(&self, rank: u32) -> u64 {
        match &self.0 {
            Inner::Same(count) => *count,
            Inner::Offsets(offsets) => offsets[rank as usize + 1] - offsets[rank as usize],
        }
    }

    /// Elements of those before it.
    pub fn offset(&self, rank: u32) -> u64 {
        match &self.0 {
            Inner::Same(count) => count * u64::from(rank),
            Inner::Offsets(offsets) => offsets[rank as usize],
        }
    }

    /// Elements of the participants `first..last`.
    pub fn span(&self, first: u32, last: u32) -> u64 {
        self.offset(last) - self.offset(first)
    }

    /// The count that everybody has, if it is one.
    pub const fn same_count(&self) -> Option<u64> {
        match self.0 {
            Inner::Same(count) => Some(count),
            Inner::Offsets(_) => None,
        }
    }

    pub(crate) fn check(&self, size: u32) -> Result<(), ShapeError> {
        let total = match &self.0 {
            Inner::Same(count) => count.saturating_mul(u64::from(size)),
            Inner::Offsets(offsets) if offsets.len() - 1 != size as usize => {
                return Err(ShapeError::CountsLength { given: offsets.len() - 1, size });
            }
            Inner::Offsets(offsets) => *offsets.last().expect("there is always a last end"),
        };
        check_total(total)
    }
}

/// How many elements each participant has for each.
///
/// Linear and pairwise exchange look only at a participant's own row and column: where nobody knows all of it, as with
/// `MPI_Alltoallv`, the rest may be zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairCounts {
    /// As many for everybody from everybody.
    Same(u64),
    /// Row by row: what participant 0 sends to 0, to 1, …, what 1 sends to 0, ….
    Matrix(Box<[u64]>),
}

impl PairCounts {
    /// Row by row, for each pair. If they are all alike that is noticed, because more algorithms suit.
    pub fn each(counts: &[u64]) -> Self {
        match counts {
            [first, others @ ..] if others.iter().all(|count| count == first) => Self::Same(*first),
            _ => Self::Matrix(counts.into()),
        }
    }

    /// Elements that one has for another.
    pub fn count(&self, size: u32, from: u32, to: u32) -> u64 {
        match self {
            Self::Same(count) => *count,
            Self::Matrix(counts) => counts[from as usize * size as usize + to as usize],
        }
    }

    /// What a participant sends, by receiver.
    pub fn row(&self, size: u32, from: u32) -> Counts {
        match self {
            Self::Same(count) => Counts::same(*count),
            Self::Matrix(_) => Counts::each(&(0..size).map(|to| self.count(size, from, to)).collect::<Vec<_>>()),
        }
    }

    /// What a participant receives, by sender.
    pub fn column(&self, size: u32, to: u32) -> Counts {
        match self {
            Self::Same(count) => Counts::same(*count),
            Self::Matrix(_) => Counts::each(&(0..size).map(|from| self.count(size, from, to)).collect::<Vec<_>>()),
        }
    }

    /// Whether each pair exchanges as much as it gets.
    pub fn is_symmetric(&self, size: u32) -> bool {
        let is_even = |a, b| self.count(size, a, b) == self.count(size, b, a);
        matches!(self, Self::Same(_)) || (0..size).all(|a| (0..a).all(|b| is_even(a, b)))
    }

    pub(crate) fn check(&self, size: u32) -> Result<(), ShapeError> {
        let cells = size as usize * size as usize;
        match self {
            Self::Same(count) => check_total(count.saturating_mul(cells as u64)),
            Self::Matrix(counts) if counts.len() != cells => {
                Err(ShapeError::MatrixLength { given: counts.len(), size })
            }
            Self::Matrix(counts) => check_total(counts.iter().fold(0, |sum, &count| u64::saturating_add(sum, count))),
        }
    }
}

pub(crate) fn check_total(elements: u64) -> Result<(), ShapeError> {
    if elements > ELEMENTS_MAX { Err(ShapeError::TooManyElements { max: ELEMENTS_MAX }) } else { Ok(()) }
}

/// Room for sums of slices of several buffers.
const ELEMENTS_MAX: u64 = 1 << 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_pieces_differ_by_one_and_add_up() {
        for (total, pieces) in [(0, 3), (7, 7), (7, 3), (1000, 33), (2, 5)] {
            let counts = Counts::even(total, pieces);
            let each: Vec<_> = (0..pieces).map(|piece| counts.count(piece)).collect();
            assert_eq!(each.iter().sum::<u64>(), total);
            assert!(each.iter().max().unwrap() - each.iter().min().unwrap() <= 1);
            assert_eq!(counts.offset(pieces), total);
        }
    }

    #[test]
    fn counts_that_do_not_fit_are_refused() {
        assert!(matches!(Counts::each(&[1, 2]).check(3), Err(ShapeError::CountsLength { given: 2, size: 3 })));
        assert!(matches!(Counts::each(&[u64::MAX, 2]).check(2), Err(ShapeError::TooManyElements { .. })));
        assert!(matches!(Counts::same(u64::MAX / 2).check(3), Err(ShapeError::TooManyElements { .. })));
        assert!(matches!(PairCounts::Matrix(vec![0; 8].into()).check(3), Err(ShapeError::MatrixLength { .. })));
    }
}
