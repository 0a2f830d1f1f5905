//! Broadcast of a long vector: pieces go down a binomial tree, then around a ring.
//!
//! ⌈log2 p⌉ + p − 1 rounds, but each byte passes a participant only twice, instead of ⌈log2 p⌉ times.
//! Source: van de Geijn et al., Interprocessor collective communication library (InterCom), SHPCC 1994; Thakur,
//! Rabenseifner, Gropp, IJHPCA 19(1), 2005, §4.1.

use super::knomial::{Pieces, scatter_pieces};
use super::ring::spread_around;
use super::{Generator, Kind, foreign, log2};
use crate::builder::Builder;
use crate::cost::Cost;
use crate::counts::Counts;
use crate::error::Unsuitable;
use crate::patterns::{KnomialTree, Rotation};
use crate::shape::{Collective, Shape};

pub(super) static KIND: Kind = Kind::plain::<ScatterAllgather>("scatter-allgather");

#[derive(Default)]
struct ScatterAllgather;

impl Generator for ScatterAllgather {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        if matches!(shape.collective, Collective::Bcast { .. }) { Ok(()) } else { Err(Unsuitable::Operation) }
    }

    fn build(&self, b: &mut Builder) {
        let &Collective::Bcast { root, count } = &b.shape.collective else {
            unreachable!("other operations do not suit");
        };
        let (tree, rotation) = (KnomialTree::new(2, b.size), Rotation::new(root, b.size));
        // One a node of the tree, so that subtrees' pieces lie side by side whatever the root.
        let pieces = Counts::even(count, b.size);
        let output = b.output(0, count);
        if b.me == root {
            let input = b.input(0, count);
            b.copy(input, output);
        }
        let subtree = tree.subtree(rotation.node(b.me));
        let memory = output.part(pieces.offset(subtree.start), pieces.span(subtree.start, subtree.end));
        scatter_pieces(b, tree, rotation, Pieces { counts: &pieces, first: subtree.start, memory });
        // Subtrees' pieces come once more on their way around: the ring is the same for everybody.
        spread_around(b, rotation, &pieces, output);
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let Collective::Bcast { count, .. } = shape.collective else { return Cost::default() };
        let rounds = log2(shape.size) + f64::from(shape.size - 1);
        Cost::rounds(rounds).moved(2.0 * count as f64 * foreign(shape.size))
    }
}
