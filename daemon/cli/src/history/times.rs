//! Stretches of time: what somebody did when.

use std::ops::Range;

/// Stretches that neither overlap nor touch, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times(Vec<Range<u64>>);

impl Times {
    /// How long they are together.
    pub(crate) fn ns(&self) -> u64 {
        self.0.iter().map(|stretch| stretch.end - stretch.start).sum()
    }

    pub(crate) fn stretches(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().cloned()
    }

    /// What is left of them when others are taken out.
    pub(crate) fn without(&self, others: &Self) -> Self {
        let (mut left, mut next) = (Vec::new(), 0);
        for stretch in &self.0 {
            let mut begin = stretch.start;
            next += others.0[next..].partition_point(|other| other.end <= begin);
            for other in others.0[next..].iter().take_while(|other| other.start < stretch.end) {
                left.push(begin..other.start);
                begin = other.end;
            }
            left.push(begin..stretch.end);
        }
        left.into_iter().collect()
    }

    /// How much of them lies between two moments.
    pub(crate) fn ns_within(&self, window: &Range<u64>) -> u64 {
        let first = self.0.partition_point(|stretch| stretch.end <= window.start);
        let inside = self.0[first..].iter().take_while(|stretch| stretch.start < window.end);
        inside.map(|stretch| stretch.end.min(window.end).saturating_sub(stretch.start.max(window.start))).sum()
    }
}

/// A single stretch.
impl From<Range<u64>> for Times {
    fn from(stretch: Range<u64>) -> Self {
        std::iter::once(stretch).collect()
    }
}

/// Stretches in any order, which may overlap. Empty ones are none.
impl FromIterator<Range<u64>> for Times {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(stretches: I) -> Self {
        let mut stretches: Vec<Range<u64>> = stretches.into_iter().filter(|stretch| !stretch.is_empty()).collect();
        stretches.sort_unstable_by_key(|stretch| stretch.start);
        let mut times: Vec<Range<u64>> = Vec::with_capacity(stretches.len());
        for stretch in stretches {
            match times.last_mut() {
                Some(last) if stretch.start <= last.end => last.end = last.end.max(stretch.end),
                _ => times.push(stretch),
            }
        }
        Self(times)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(stretches: &[(u64, u64)]) -> Times {
        stretches.iter().map(|&(start, end)| start..end).collect()
    }

    #[test]
    fn stretches_that_overlap_or_touch_are_one() {
        assert_eq!(times(&[(5, 9), (0, 2), (2, 3), (6, 7), (4, 4)]), times(&[(0, 3), (5, 9)]));
    }

    #[test]
    fn what_is_taken_out_is_gone() {
        let whole = times(&[(0, 10), (20, 30)]);
        assert_eq!(whole.without(&times(&[(0, 1), (3, 5), (9, 22), (40, 50)])), times(&[(1, 3), (5, 9), (22, 30)]));
        assert_eq!(whole.without(&whole), Times::default());
        assert_eq!(whole.ns_within(&(8..21)), 3);
    }

    proptest! {
        #[test]
        fn sums_are_those_of_single_moments(
            some in proptest::collection::vec((0u64..40, 0u64..40), 0..8),
            others in proptest::collection::vec((0u64..40, 0u64..40), 0..8),
            window in (0u64..40, 0u64..40),
        ) {
            let holds = |stretches: &[(u64, u64)], at: u64| stretches.iter().any(|&(start, end)| start <= at && at < end);
            let (a, b) = (times(&some), times(&others));
            let left = (0..40).filter(|&at| holds(&some, at) && !holds(&others, at)).count() as u64;
            prop_assert_eq!(a.without(&b).ns(), left);
            let inside = (window.0..window.1).filter(|&at| holds(&some, at)).count() as u64;
            prop_assert_eq!(a.ns_within(&(window.0..window.1)), inside);
        }
    }
}
