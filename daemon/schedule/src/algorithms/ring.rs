//! Blocks go around a ring, from each rank to its neighbor.
//!
//! p−1 rounds, in each of which everybody sends and receives one block: the least bytes, and the most rounds. Neighbors
//! only, so that little is in each other's way. Operands are combined in the order they come by, which is that of the ring.
//! Source: seed 000 (reductions), §2.2; Patarasuk, Yuan, Bandwidth optimal all-reduce algorithms, JPDC 69(2), 2009.

use super::knomial::{Pieces, gather_pieces};
use super::linear::place_own;
use super::{Generator, Kind, commutative, foreign, log2};
use crate::builder::Builder;
use crate::cost::Cost;
use crate::counts::Counts;
use crate::error::Unsuitable;
use crate::patterns::{KnomialTree, Rotation};
use crate::shape::{Collective, Shape};
use crate::step::{Side, Slice};

pub(super) static KIND: Kind = Kind::plain::<Ring>("ring");

#[derive(Default)]
struct Ring;

impl Generator for Ring {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        match shape.collective {
            Collective::Allgather { .. } => Ok(()),
            Collective::Reduce { order, .. }
            | Collective::Allreduce { order, .. }
            | Collective::ReduceScatter { order, .. } => commutative(order),
            _ => Err(Unsuitable::Operation),
        }
    }

    fn build(&self, b: &mut Builder) {
        match &b.shape.collective {
            Collective::Allgather { counts } => {
                let own = place_own(b, counts);
                let whole = b.output(0, counts.offset(b.size));
                debug_assert!(own.end() <= whole.end());
                spread_around(b, Rotation::new(0, b.size), counts, whole);
            }
            Collective::ReduceScatter { counts, .. } => {
                let length = counts.count(b.me);
                let output = b.output(0, length);
                // In place, the output's start still holds somebody's operand.
                let home = if b.shape.is_in_place { b.scratch(length) } else { output };
                combine_around(b, Rotation::new(0, b.size), counts, home);
                b.copy(home, output);
            }
            &Collective::Allreduce { count, .. } => {
                let rotation = Rotation::new(0, b.size);
                let pieces = Counts::even(count, b.size);
                let mine = b.output(pieces.offset(b.me), pieces.count(b.me));
                combine_around(b, rotation, &pieces, mine);
                let whole = b.output(0, count);
                spread_around(b, rotation, &pieces, whole);
            }
            &Collective::Reduce { root, count, .. } => reduce(b, root, count),
            _ => unreachable!("other operations do not suit"),
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let others = shape.size - 1;
        let rest = |elements: u64| elements as f64 * foreign(shape.size);
        match &shape.collective {
            Collective::Allgather { counts } => Cost::rounds(others).moved(rest(counts.offset(shape.size))),
            Collective::ReduceScatter { counts, .. } => {
                let rest = rest(counts.offset(shape.size));
                Cost::rounds(others).moved(rest).combined(rest)
            }
            Collective::Allreduce { count, .. } => {
                Cost::rounds(2 * others).moved(2.0 * rest(*count)).combined(rest(*count))
            }
            // p−1 rounds of the ring and those of a binomial gather (seed 000, §2.0).
            Collective::Reduce { count, .. } => {
                Cost::rounds(f64::from(others) + log2(shape.size)).moved(2.0 * rest(*count)).combined(rest(*count))
            }
            _ => Cost::default(),
        }
    }
}

/// Partial results go backwards around the ring; each node adds its part, and the one of its own piece is complete when it
/// comes by last. `home` is where that goes.
fn combine_around(b: &mut Builder, rotation: Rotation, pieces: &Counts, home: Slice) {
    let node = rotation.node(b.me);
    let operand = |b: &Builder, piece: u32| b.input(pieces.offset(piece), pieces.count(piece));
    if b.size == 1 {
        let whole = operand(b, 0);
        b.copy(whole, home);
        return;
    }
    let (next, previous) = (rotation.rank((node + 1) % b.size), rotation.rank((node + b.size - 1) % b.size));
    let first = operand(b, (node + 1) % b.size);
    b.send(previous, first);
    for distance in 2..b.size {
        let own = operand(b, (node + distance) % b.size);
        let partial = b.scratch(own.length);
        b.recv(next, partial);
        b.combine(own, partial, Side::Left);
        b.send(previous, partial);
    }
    let own = operand(b, node);
    if own == home {
        let partial = b.scratch(home.length);
        b.recv(next, partial);
        b.combine(partial, home, Side::Right);
    } else {
        b.recv(next, home);
        b.combine(own, home, Side::Left);
    }
}

/// Complete pieces go forwards around the ring, until everybody has them all. Mine is in place.
pub(super) fn spread_around(b: &mut Builder, rotation: Rotation, pieces: &Counts, whole: Slice) {
    let node = rotation.node(b.me);
    let (next, previous) = (rotation.rank((node + 1) % b.size), rotation.rank((node + b.size - 1) % b.size));
    let slice = |piece: u32| whole.part(pieces.offset(piece), pieces.count(piece));
    for round in 0..b.size - 1 {
        b.send(next, slice((node + b.size - round) % b.size));
        b.recv(previous, slice((node + b.size - round - 1) % b.size));
    }
}

fn reduce(b: &mut Builder, root: u32, count: u64) {
    let rotation = Rotation::new(root, b.size);
    let pieces = Counts::even(count, b.size);
    let node = rotation.node(b.me);
    let tree = KnomialTree::new(2, b.size);
    let subtree = tree.subtree(node);
    let length = pieces.span(subtree.start, subtree.end);
    let memory = if b.me == root { b.output(0, count) } else { b.scratch(length) };
    let held = Pieces { counts: &pieces, first: node, memory };
    combine_around(b, rotation, &pieces, held.slice(node..node + 1));
    gather_pieces(b, tree, rotation, held);
}
