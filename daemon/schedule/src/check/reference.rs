//! What operations are defined to compute, over values that tell everything about where they come from.

use super::{CheckError, Execution};
use crate::shape::{Collective, Order, Shape};
use crate::step::{Buffer, Side};

/// An element. Values are drawn from so many that different computations do not meet by chance.
pub type Value = u64;

/// What nothing was written to. No computation gives it.
pub const UNWRITTEN: Value = 0;

/// What a participant brings to a round. Rounds have different values, so that what is left of one is not taken for another's.
fn leaf(round: u64, rank: u32, element: u64) -> Value {
    let seed = (u64::from(rank) << 40) ^ element;
    let mixed = scatter_bits(scatter_bits(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_add(round));
    // As a linear function, see `combine`: neither factor is 0.
    ((mixed >> 32) % (PRIME - 1) + 1) << 32 | ((mixed & 0xffff_ffff) % (PRIME - 1) + 1)
}

/// An operator with no more laws than the order asks for.
pub fn combine(order: Order, left: Value, right: Value) -> Value {
    match order {
        // Addition: commutative and associative; every operand counts, and how often.
        Order::Any => left.wrapping_add(right),
        // Composition of linear functions x ↦ mx + c: associative, does not commute.
        Order::Rank => {
            let (m, c) = (left >> 32, left & 0xffff_ffff);
            let (n, d) = (right >> 32, right & 0xffff_ffff);
            (m * n % PRIME) << 32 | ((m * d + c) % PRIME)
        }
        // No law at all.
        Order::Fixed => scatter_bits(left.wrapping_mul(3).wrapping_add(right.rotate_left(23))) | 1,
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
fn scatter_bits(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The Mersenne prime 2^31 − 1.
const PRIME: u64 = (1 << 31) - 1;

/// A participant's three buffers.
#[expect(missing_docs, reason = "they are named as in `step::Buffer`")]
pub struct Memory {
    pub input: Vec<Value>,
    pub output: Vec<Value>,
    pub scratch: Vec<Value>,
}

impl Memory {
    /// What a participant brings to a round, and what nothing was written to yet.
    pub fn new(shape: &Shape, round: u64, me: u32, scratch_elements: u64) -> Self {
        let mut output = vec![UNWRITTEN; shape.output_elements(me) as usize];
        let mut input = Vec::new();
        let (first, length) = match &shape.collective {
            Collective::Gather { counts, .. } | Collective::Allgather { counts } => {
                (counts.offset(me), counts.count(me))
            }
            _ => (0, shape.output_elements(me)),
        };
        let brought = shape.input_elements(me);
        if shape.is_in_place_at(me) && brought == 0 {
            (0..length).for_each(|element| output[(first + element) as usize] = leaf(round, me, element));
        } else {
            input.extend((0..brought).map(|element| leaf(round, me, element)));
        }
        Self { input, output, scratch: vec![UNWRITTEN; scratch_elements as usize] }
    }

    pub(super) fn buffer(&mut self, buffer: Buffer) -> &mut Vec<Value> {
        match buffer {
            Buffer::Input => &mut self.input,
            Buffer::Output => &mut self.output,
            Buffer::Scratch => &mut self.scratch,
        }
    }
}

pub(super) fn apply(order: Order, into: &mut [Value], from: &[Value], side: Side) {
    for (into, &from) in into.iter_mut().zip(from) {
        *into = match side {
            Side::Left => combine(order, from, *into),
            Side::Right => combine(order, *into, from),
        };
    }
}

/// Schedules are executed once by the interpreter.
pub(super) const ONLY_ROUND: u64 = 0;

/// Whether an execution has computed what it should.
pub(super) fn compare(shape: &Shape, execution: &Execution) -> Result<(), CheckError> {
    let results = Results::new(shape, ONLY_ROUND);
    for me in 0..shape.size {
        let output = execution.output(me);
        for (element, value) in results.of(me) {
            if output.get(element as usize) != Some(&value) {
                return Err(CheckError::Wrong { me, element: element as usize });
            }
        }
    }
    Ok(())
}

/// Whether everybody has the same output.
pub(super) fn check_equal(execution: &Execution, size: u32) -> Result<(), CheckError> {
    let first = execution.output(0);
    for me in 1..size {
        let output = execution.output(me);
        if let Some(element) = (0..first.len()).find(|&element| output.get(element) != first.get(element)) {
            return Err(CheckError::Unequal { me, element });
        }
    }
    Ok(())
}

/// The results of a round, by definition.
pub struct Results<'a> {
    shape: &'a Shape,
    round: u64,
    /// The operands of a reduction, combined up to each rank.
    prefixes: Vec<Vec<Value>>,
}

impl<'a> Results<'a> {
    /// Those of a round to which everybody brings its [`Memory`].
    pub fn new(shape: &'a Shape, round: u64) -> Self {
        let mut prefixes: Vec<Vec<Value>> = Vec::new();
        if let (Some(order), length) = (shape.collective.order(), operand_elements(shape)) {
            for rank in 0..shape.size {
                let element = |element| {
                    let own = leaf(round, rank, element);
                    prefixes.last().map_or(own, |before| combine(order, before[element as usize], own))
                };
                let prefix = (0..length).map(element).collect();
                prefixes.push(prefix);
            }
        }
        Self { shape, round, prefixes }
    }

    /// The elements of a participant's output that are defined, and their values.
    pub fn of(&self, me: u32) -> Vec<(u64, Value)> {
        let Self { shape, round, .. } = *self;
        let numbered = |values: &[Value]| (0..).zip(values.iter().copied()).collect();
        // The block that begins at `at` is a part of what a rank brought.
        let block = |at: u64, rank: u32, first: u64, length: u64| {
            (0..length).map(move |element| (at + element, leaf(round, rank, first + element)))
        };
        let size = shape.size;
        match &shape.collective {
            Collective::Barrier => Vec::new(),
            Collective::Bcast { root, count } => block(0, *root, 0, *count).collect(),
            Collective::Reduce { root, .. } if *root != me => Vec::new(),
            Collective::Exscan { .. } if me == 0 => Vec::new(),
            Collective::Reduce { .. } | Collective::Allreduce { .. } => numbered(self.upto(size - 1)),
            Collective::Scan { .. } => numbered(self.upto(me)),
            Collective::Exscan { .. } => numbered(self.upto(me - 1)),
            Collective::ReduceScatter { counts, .. } => {
                let (first, last) = (counts.offset(me) as usize, counts.offset(me + 1) as usize);
                numbered(&self.upto(size - 1)[first..last])
            }
            Collective::Gather { root, .. } if *root != me => Vec::new(),
            Collective::Gather { counts, .. } | Collective::Allgather { counts } => {
                (0..size).flat_map(|rank| block(counts.offset(rank), rank, 0, counts.count(rank))).collect()
            }
            Collective::Scatter { .. } if shape.is_in_place_at(me) => Vec::new(),
            Collective::Scatter { root, counts } => block(0, *root, counts.offset(me), counts.count(me)).collect(),
            Collective::Alltoall { counts } => {
                let column = counts.column(size, me);
                let part =
                    |rank| block(column.offset(rank), rank, counts.row(size, rank).offset(me), column.count(rank));
                (0..size).flat_map(part).collect()
            }
            Collective::NeighborAllgather { neighborhood, count } => {
                let sources = (0..).zip(neighborhood.sources(me));
                sources.flat_map(|(index, &rank)| block(index * count, rank, 0, *count)).collect()
            }
            Collective::NeighborAlltoall { neighborhood, count } => {
                // The n-th time that a source sends to me, in its order, meets the n-th arrival from it.
                let mut met = vec![0; size as usize];
                let arrivals = neighborhood.arrivals(me).into_iter();
                let part = |index: usize| {
                    let rank = neighborhood.sources(me)[index];
                    let destinations = neighborhood.destinations(rank).iter().enumerate();
                    let mut to_me = destinations.filter(|&(_, &dest)| dest == me).map(|(place, _)| place as u64);
                    let place = to_me.nth(met[rank as usize]).expect("a shape's edges have two ends");
                    met[rank as usize] += 1;
                    block(index as u64 * count, rank, place * count, *count)
                };
                arrivals.flat_map(part).collect()
            }
        }
    }

    fn upto(&self, rank: u32) -> &[Value] {
        &self.prefixes[rank as usize]
    }
}

fn operand_elements(shape: &Shape) -> u64 {
    match &shape.collective {
        Collective::Reduce { count, .. }
        | Collective::Allreduce { count, .. }
        | Collective::Scan { count, .. }
        | Collective::Exscan { count, .. } => *count,
        Collective::ReduceScatter { counts, .. } => counts.offset(shape.size),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_have_the_laws_of_their_order_and_no_others() {
        let [a, b, c] = [0, 1, 2].map(|rank| leaf(0, rank, 0));
        let commutes = |order| combine(order, a, b) == combine(order, b, a);
        let left = |order| combine(order, combine(order, a, b), c);
        let right = |order| combine(order, a, combine(order, b, c));
        let laws = |order| (commutes(order), left(order) == right(order));
        assert_eq!(laws(Order::Any), (true, true));
        assert_eq!(laws(Order::Rank), (false, true));
        assert_eq!(laws(Order::Fixed), (false, false));
    }
}
