//! What ranks bring to a collective, and what each has to get.
//!
//! Whoever knows round, rank and place knows the element that is brought there, so everybody can work out everybody's
//! result. Inputs and outputs consist of blocks; all elements of a round are new and checked, or only the *edges* of each
//! block, its first and its last, which is cheap enough for every round.

use std::ops::Range;

use ropeway::{Located, Operator, Reducible};
use ropeway_schedule::Neighborhood;

use crate::operation::{CollectiveCall, Operation};
use crate::parts::Parts;
use crate::shape::neighborhood;

/// One rank's part.
#[derive(Clone, Debug)]
pub(crate) struct Contribution {
    pub(crate) call: CollectiveCall,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// Elements of a block.
    pub(crate) count: usize,
    /// Elements of each block of the input, and of the output. A broadcast has one array, the output.
    blocks: [Vec<usize>; 2],
    /// Of each block of the output: whose elements it is made of, and where in their inputs these begin.
    origins: Vec<(Range<u32>, usize)>,
    /// Where each block of the output ends.
    ends: Vec<usize>,
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every element.
    All,
    /// The first and the last element of each block.
    Edges,
}

/// Operators that reductions can be measured with: on floats, on integers or on floats that say where they are, as they want.
pub fn operators() -> impl Iterator<Item = Operator> {
    f64::OPERATORS.iter().chain(u64::OPERATORS).chain(Located::<f64>::OPERATORS).copied()
}

/// Bytes of what vectors and blocks consist of: of what its operator combines, or single ones.
pub fn element_bytes(call: CollectiveCall) -> usize {
    match call.operator() {
        None => size_of::<u8>(),
        Some(operator) if Located::<f64>::OPERATORS.contains(&operator) => size_of::<Located<f64>>(),
        Some(_) => size_of::<f64>(),
    }
}

impl Contribution {
    pub(crate) fn new(call: CollectiveCall, (rank, size): (u32, u32), count: usize) -> Self {
        let around = Around::new(call.operation, size);
        let parts = Parts::new(call, size, count);
        let blocks = blocks(call, rank, &parts, &around);
        let origins = origins(call, rank, &parts, &around);
        let ends = blocks[1].iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        let ends = ends.collect();
        Self { call, rank, size, count, blocks, origins, ends }
    }

    /// Writes what this rank brings.
    pub(crate) fn write<T: Element>(&self, input: &mut [T], round: u64, extent: Extent) {
        let is_one_array = self.call.operation == Operation::Bcast && self.call.root == self.rank;
        for index in places(&self.blocks[usize::from(is_one_array)], extent) {
            input[index] = self.element(round, self.rank, index);
        }
    }

    /// The first element that is not what it should be.
    pub(crate) fn first_wrong<T: Element>(&self, output: &[T], round: u64, extent: Extent) -> Option<usize> {
        self.first_unlike(output, extent, |rank, place| self.element(round, rank, place))
    }

    /// The same if everybody has brought nothing but this value.
    pub(crate) fn first_not_of<T: Element>(&self, output: &[T], value: T) -> Option<usize> {
        self.first_unlike(output, Extent::All, |_, _| value)
    }

    /// The first element that is not made of what ranks have brought, by rank and place.
    fn first_unlike<T: Element>(
        &self,
        output: &[T],
        extent: Extent,
        element: impl Fn(u32, usize) -> T,
    ) -> Option<usize> {
        places(&self.blocks[1], extent).find(|&index| {
            let (ranks, place) = self.origin(index);
            let brought = ranks.map(|rank| element(rank, place));
            let expected = brought.reduce(|left, right| T::combine(self.call.operator, left, right));
            expected.is_some_and(|expected| output[index] != expected)
        })
    }

    /// Elements of this rank's input and output.
    pub(crate) fn elements(&self) -> [usize; 2] {
        [0, 1].map(|array: usize| self.blocks[array].iter().sum())
    }

    /// Arrays of these lengths.
    pub(crate) fn arrays<T: Element>(&self) -> [Vec<T>; 2] {
        self.elements().map(|elements| vec![T::of(self.call.operator, 0); elements])
    }

    /// How many elements come from each source, and go to each destination: of those between neighbours.
    pub(crate) fn around(&self) -> [&[usize]; 2] {
        [&self.blocks[1], &self.blocks[0]]
    }

    /// Whose elements an element of the output is made of, and where in their inputs they are.
    fn origin(&self, index: usize) -> (Range<u32>, usize) {
        let block = self.ends.partition_point(|&end| end <= index);
        let (ranks, start) = &self.origins[block];
        (ranks.clone(), start + index + self.blocks[1][block] - self.ends[block])
    }

    fn element<T: Element>(&self, round: u64, rank: u32, index: usize) -> T {
        let number = round.wrapping_mul(SPREAD).wrapping_add(u64::from(rank)).wrapping_mul(SPREAD);
        let number = number.wrapping_add(index as u64).wrapping_mul(SPREAD);
        T::of(self.call.operator, number ^ (number >> 29))
    }
}

/// Who is whose neighbour, if that is not everybody.
struct Around(Option<Neighborhood>);

impl Around {
    fn new(operation: Operation, size: u32) -> Self {
        Self(operation.has_neighbors().then(|| neighborhood(size)))
    }

    fn sources(&self, rank: u32) -> &[u32] {
        self.0.as_ref().map_or(&[], |around| around.sources(rank))
    }

    fn destinations(&self, rank: u32) -> &[u32] {
        self.0.as_ref().map_or(&[], |around| around.destinations(rank))
    }
}

/// Elements of each block of a rank's input and output.
fn blocks(call: CollectiveCall, rank: u32, parts: &Parts, around: &Around) -> [Vec<usize>; 2] {
    let (whole, part) = (|| vec![parts.whole()], || vec![parts.of(rank)]);
    let for_root = |blocks| if rank == call.root { blocks } else { Vec::new() };
    match call.operation {
        Operation::Barrier => [Vec::new(), Vec::new()],
        Operation::Bcast => [Vec::new(), whole()],
        Operation::Reduce => [whole(), for_root(whole())],
        Operation::Allreduce | Operation::Scan | Operation::Exscan => [whole(), whole()],
        Operation::ReduceScatter => [parts.each(), part()],
        Operation::Gather => [part(), for_root(parts.each())],
        Operation::Scatter => [for_root(parts.each()), part()],
        Operation::Allgather => [part(), parts.each()],
        // As much goes to each as comes back.
        Operation::Alltoall => [parts.with_each(rank), parts.with_each(rank)],
        Operation::NeighborAllgather => [part(), around.sources(rank).iter().map(|&source| parts.of(source)).collect()],
        Operation::NeighborAlltoall => [around.destinations(rank), around.sources(rank)]
            .map(|peers| peers.iter().map(|&peer| parts.between(rank, peer)).collect()),
    }
}

/// Of each block of a rank's output: whose elements it is made of, and where in their inputs these begin.
fn origins(call: CollectiveCall, rank: u32, parts: &Parts, around: &Around) -> Vec<(Range<u32>, usize)> {
    let one = |rank: u32| rank..rank + 1;
    let size = parts.ranks();
    match call.operation {
        Operation::Barrier => Vec::new(),
        Operation::Bcast => vec![(one(call.root), 0)],
        Operation::Reduce | Operation::Allreduce => vec![(0..size, 0)],
        Operation::ReduceScatter => vec![(0..size, parts.before(rank))],
        Operation::Scan => vec![(0..rank + 1, 0)],
        Operation::Exscan => vec![(0..rank, 0)],
        Operation::Gather | Operation::Allgather => (0..size).map(|from| (one(from), 0)).collect(),
        Operation::Scatter => vec![(one(call.root), parts.before(rank))],
        Operation::Alltoall => (0..size).map(|from| (one(from), parts.before_pair(from, rank))).collect(),
        Operation::NeighborAllgather => around.sources(rank).iter().map(|&source| (one(source), 0)).collect(),
        Operation::NeighborAlltoall => {
            // What comes from before us was sent to the one after: blocks of a dimension stand in pairs.
            let before = |source: u32, block: usize| around.destinations(source)[..block ^ 1].iter();
            let start = |block, source| before(source, block).map(|&other| parts.between(source, other)).sum();
            around
                .sources(rank)
                .iter()
                .enumerate()
                .map(|(block, &source)| (one(source), start(block, source)))
                .collect()
        }
    }
}

/// Where elements are looked at in blocks of these lengths, one behind the other.
fn places(blocks: &[usize], extent: Extent) -> impl Iterator<Item = usize> {
    let starts = blocks.iter().scan(0, |next, &length| {
        let start = *next;
        *next += length;
        Some((start, length))
    });
    starts.flat_map(move |(start, length)| {
        let step = if extent == Extent::All { 1 } else { length.saturating_sub(1).max(1) };
        (start..start + length).step_by(step)
    })
}

/// What collectives are measured with.
pub(crate) trait Element: Reducible + PartialEq + Send {
    /// Those it is measured with.
    const OPERATORS: &'static [Operator];
    /// One for each number, such that many of them can be combined exactly.
    fn of(operator: Operator, number: u64) -> Self;
    /// As the operator does it.
    fn combine(operator: Operator, left: Self, right: Self) -> Self;
}

/// Passed on as they are.
impl Element for u8 {
    const OPERATORS: &'static [Operator] = &[];

    fn of(_: Operator, number: u64) -> Self {
        number as Self
    }

    fn combine(operator: Operator, _: Self, _: Self) -> Self {
        unreachable!("bytes are not combined by {operator}")
    }
}

impl Element for f64 {
    const OPERATORS: &'static [Operator] = &[Operator::Sum, Operator::Prod, Operator::Min, Operator::Max];

    fn of(operator: Operator, number: u64) -> Self {
        match operator {
            // Powers of two, on average 1, so that products neither overflow nor are rounded.
            Operator::Prod => [0.5, 1.0, 2.0][(number % 3) as usize],
            _ => (number % 1000) as Self,
        }
    }

    fn combine(operator: Operator, left: Self, right: Self) -> Self {
        match operator {
            Operator::Sum => left + right,
            Operator::Prod => left * right,
            Operator::Min => left.min(right),
            Operator::Max => left.max(right),
            _ => unreachable!("{operator} combines no floats"),
        }
    }
}

impl Element for u64 {
    const OPERATORS: &'static [Operator] =
        &[Operator::BitAnd, Operator::BitOr, Operator::BitXor, Operator::And, Operator::Or, Operator::Xor];

    fn of(_: Operator, number: u64) -> Self {
        // Zeros too: they are what logical operators ask for.
        if number.is_multiple_of(4) { 0 } else { number }
    }

    fn combine(operator: Operator, left: Self, right: Self) -> Self {
        match operator {
            Operator::BitAnd => left & right,
            Operator::BitOr => left | right,
            Operator::BitXor => left ^ right,
            Operator::And => Self::from(left != 0 && right != 0),
            Operator::Or => Self::from(left != 0 || right != 0),
            Operator::Xor => Self::from((left != 0) != (right != 0)),
            _ => unreachable!("{operator} is measured with floats"),
        }
    }
}

/// Of the numbers of a round many are equal, so that their places decide.
impl Element for Located<f64> {
    const OPERATORS: &'static [Operator] = &[Operator::MinLoc, Operator::MaxLoc];

    fn of(_: Operator, number: u64) -> Self {
        Self::new((number % 10) as f64, number / 10)
    }

    fn combine(operator: Operator, left: Self, right: Self) -> Self {
        let is_left = match operator {
            Operator::MinLoc => (left.value(), left.index()) <= (right.value(), right.index()),
            Operator::MaxLoc => (right.value(), left.index()) <= (left.value(), right.index()),
            _ => unreachable!("{operator} does not look for places"),
        };
        if is_left { left } else { right }
    }
}

/// The golden ratio: multiples of it differ in all bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    fn contribution(operation: Operation, rank: u32) -> Contribution {
        // Rank 2 is who gets it, if only the root does.
        let root = if matches!(operation, Operation::Reduce | Operation::Gather) { 2 } else { 1 };
        let call = CollectiveCall { root, ..CollectiveCall::of(operation) };
        Contribution::new(call, (rank, 3), 4)
    }

    /// What rank 2 of 3 gets, worked out the long way from everybody's inputs.
    fn result(operation: Operation, inputs: &[Vec<f64>]) -> Vec<f64> {
        let sum = |ranks: Range<usize>, places: Range<usize>| -> Vec<f64> {
            places.map(|place| inputs[ranks.clone()].iter().map(|input| input[place]).sum()).collect()
        };
        let blocks = |from: usize| inputs.iter().flat_map(|input| input[from..from + 4].to_vec()).collect();
        match operation {
            Operation::Barrier => Vec::new(),
            Operation::Bcast => inputs[1][..4].to_vec(),
            Operation::Reduce | Operation::Allreduce | Operation::Scan => sum(0..3, 0..4),
            Operation::Exscan => sum(0..2, 0..4),
            Operation::ReduceScatter => sum(0..3, 8..12),
            Operation::Gather | Operation::Allgather => blocks(0),
            Operation::Scatter => inputs[1][8..12].to_vec(),
            Operation::Alltoall => blocks(8),
            // A ring: rank 1 is before us, and rank 0 after us.
            Operation::NeighborAllgather => [&inputs[1][..4], &inputs[0][..4]].concat(),
            Operation::NeighborAlltoall => [&inputs[1][4..8], &inputs[0][..4]].concat(),
        }
    }

    #[test]
    fn every_wrong_element_is_noticed() {
        for operation in Operation::ALL {
            let inputs: Vec<Vec<f64>> = (0..3)
                .map(|rank| {
                    let mut input = vec![0.0; 12];
                    contribution(operation, rank).write(&mut input, 7, Extent::All);
                    input
                })
                .collect();
            let (own, mut output) = (contribution(operation, 2), result(operation, &inputs));
            assert_eq!(own.first_wrong(&output, 7, Extent::All), None, "{operation}");
            for index in 0..output.len() {
                output[index] += 1.0;
                assert_eq!(own.first_wrong(&output, 7, Extent::All), Some(index), "{operation}");
                let is_edge = index % 4 == 0 || index % 4 == 3;
                assert_eq!(own.first_wrong(&output, 7, Extent::Edges), is_edge.then_some(index), "{operation}");
                output[index] -= 1.0;
            }
            let is_stale = own.first_wrong(&output, 8, Extent::Edges).is_some();
            assert_eq!(is_stale, operation != Operation::Barrier, "{operation}");
        }
    }

    #[test]
    fn the_first_rank_of_an_exscan_gets_nothing() {
        let first = contribution(Operation::Exscan, 0);
        assert_eq!(first.first_wrong(&[1.0, 2.0, 3.0, 4.0], 7, Extent::All), None);
    }

    #[test]
    fn edges_are_written_with_the_round() {
        let alltoall = |count| Contribution::new(CollectiveCall::of(Operation::Alltoall), (2, 3), count);
        let own = alltoall(3);
        let (mut old, mut new) = ([0u8; 9], [0u8; 9]);
        own.write(&mut old, 1, Extent::All);
        own.write(&mut new, 1, Extent::All);
        own.write(&mut new, 2, Extent::Edges);
        let changed: Vec<_> = (0..9).filter(|&index| old[index] != new[index]).collect();
        assert_eq!(changed, [0, 2, 3, 5, 6, 8]);
        let single = alltoall(1);
        assert!(places(&single.blocks[0], Extent::Edges).eq(0..3));
        assert!(places(&[0, 4, 0, 1, 2], Extent::Edges).eq([0, 3, 4, 5, 6]));
    }

    #[test]
    fn products_stay_exact() {
        let call = CollectiveCall { operator: Operator::Prod, ..CollectiveCall::of(Operation::Allreduce) };
        let own = Contribution::new(call, (0, 1 << 17), 1);
        let factors = (0..own.size).map(|rank| own.element::<f64>(1, rank, 0));
        let product = factors.reduce(|left, right| f64::combine(Operator::Prod, left, right)).unwrap();
        assert!(product.is_normal(), "{product}");
    }
}
