//! With each other participant in turn: in round i with the one i places after me, and the one i places before me.
//!
//! Each round waits for the one before, so that nobody is sent to by many at once. Reductions are folded from the left.
//! Source: Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in MPICH, IJHPCA 19(1), 2005,
//! §4.2 (alltoall, long messages) and §4.3 (reduce-scatter, non-commutative).

use super::linear::{finish_blocks, place_own};
use super::{Generator, Kind, foreign};
use crate::builder::Builder;
use crate::cost::Cost;
use crate::counts::{Counts, PairCounts};
use crate::error::Unsuitable;
use crate::shape::{Collective, Shape};
use crate::step::{Buffer, Slice};

pub(super) static KIND: Kind = Kind::plain::<Pairwise>("pairwise");

#[derive(Default)]
struct Pairwise;

impl Generator for Pairwise {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        match shape.collective {
            Collective::Alltoall { .. }
            | Collective::Allgather { .. }
            | Collective::ReduceScatter { .. }
            | Collective::Allreduce { .. } => Ok(()),
            _ => Err(Unsuitable::Operation),
        }
    }

    fn build(&self, b: &mut Builder) {
        match &b.shape.collective {
            Collective::Alltoall { counts } => alltoall(b, counts),
            Collective::Allgather { counts } => {
                place_own(b, counts);
                allgather(b, counts);
            }
            Collective::ReduceScatter { counts, .. } => {
                let operands = combine_blocks(b, counts, true);
                finish_blocks(b, counts, &operands);
            }
            &Collective::Allreduce { count, .. } => {
                let pieces = Counts::even(count, b.size);
                let operands = combine_blocks(b, &pieces, true);
                let mine = b.output(pieces.offset(b.me), pieces.count(b.me));
                b.fold_left(&operands, mine);
                allgather(b, &pieces);
            }
            _ => unreachable!("other operations do not suit"),
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let others = shape.size - 1;
        let rest = |elements: u64| elements as f64 * foreign(shape.size);
        match &shape.collective {
            Collective::Alltoall { counts } => {
                let mine = counts.row(shape.size, 0).offset(shape.size);
                let copied = if shape.is_in_place { mine as f64 } else { 0.0 };
                Cost::rounds(others).moved(rest(mine)).copied(copied)
            }
            Collective::Allgather { counts } => Cost::rounds(others).moved(rest(counts.offset(shape.size))),
            Collective::ReduceScatter { counts, .. } => {
                let rest = rest(counts.offset(shape.size));
                Cost::rounds(others).moved(rest).combined(rest)
            }
            Collective::Allreduce { count, .. } => {
                Cost::rounds(2 * others).moved(2.0 * rest(*count)).combined(rest(*count))
            }
            _ => Cost::default(),
        }
    }
}

/// Round by round: whom I send to, whom I receive from.
pub(super) fn each_other(me: u32, size: u32) -> impl Iterator<Item = (u32, u32)> {
    (1..size).map(move |round| ((me + round) % size, (me + size - round) % size))
}

/// Everybody's operand for my block, in order of rank. Mine is where it was, others' in scratch memory.
pub(super) fn combine_blocks(b: &mut Builder, counts: &Counts, is_in_turn: bool) -> Vec<Slice> {
    let mine = b.input(counts.offset(b.me), counts.count(b.me));
    let mut operands = vec![mine; b.size as usize];
    for (to, from) in each_other(b.me, b.size) {
        let block = b.input(counts.offset(to), counts.count(to));
        b.send(to, block);
        let operand = b.scratch(mine.length);
        let received = b.recv(from, operand);
        operands[from as usize] = operand;
        if is_in_turn {
            b.hold_until(received);
        }
    }
    b.hold_until(None);
    operands
}

/// Everybody's block of the output goes to everybody.
fn allgather(b: &mut Builder, counts: &Counts) {
    let own = b.output(counts.offset(b.me), counts.count(b.me));
    for (to, from) in each_other(b.me, b.size) {
        b.send(to, own);
        let block = b.output(counts.offset(from), counts.count(from));
        let received = b.recv(from, block);
        b.hold_until(received);
    }
    b.hold_until(None);
}

fn alltoall(b: &mut Builder, counts: &PairCounts) {
    let blocks = Blocks::of(b, counts);
    b.copy(blocks.outgoing(b.me), blocks.incoming(b.me));
    for (to, from) in each_other(b.me, b.size) {
        b.send(to, blocks.outgoing(to));
        let received = b.recv(from, blocks.incoming(from));
        b.hold_until(received);
    }
}

/// Where blocks for and from others are.
pub(super) struct Blocks {
    outgoing: Counts,
    incoming: Counts,
    source: Slice,
}

impl Blocks {
    /// In place, what goes out is copied first, because what comes in takes its place.
    pub(super) fn of(b: &mut Builder, counts: &PairCounts) -> Self {
        let (outgoing, incoming) = (counts.row(b.size, b.me), counts.column(b.size, b.me));
        let length = outgoing.offset(b.size);
        let mut source = b.input(0, length);
        if b.shape.is_in_place {
            source = b.scratch(length);
            let output = b.output(0, length);
            b.copy(output, source);
        }
        Self { outgoing, incoming, source }
    }

    pub(super) fn outgoing(&self, peer: u32) -> Slice {
        self.source.part(self.outgoing.offset(peer), self.outgoing.count(peer))
    }

    pub(super) fn incoming(&self, peer: u32) -> Slice {
        let (offset, length) = (self.incoming.offset(peer), self.incoming.count(peer));
        Slice { buffer: Buffer::Output, offset, length }
    }
}
