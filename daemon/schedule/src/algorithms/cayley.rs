//! Blocks spread along a Cayley tree, each as it comes: as many broadcasts at a time as there are ranks, over one tree.
//!
//! A block from a neighbor goes on to all other neighbors. No block waits for another, so that a late rank delays only its
//! own block, and each rank has a constant number of neighbors, whatever the size.
//! Source: seed 001 (Inozemtsev 2014), §5.3 and table 5.1.

use super::linear::place_own;
use super::{Generator, Kind, foreign};
use crate::builder::Builder;
use crate::cost::Cost;
use crate::error::Unsuitable;
use crate::patterns::Cayley as Tree;
use crate::shape::{Collective, Shape};

pub(super) static KIND: Kind = Kind {
    name: "cayley",
    takes: "a degree of 2 to 4096",
    usual: &[4],
    make: |parameters| match *parameters {
        [degree] if degree >= 2 => Some(Box::new(Cayley { degree })),
        _ => None,
    },
    tries: |_| [3, 4].map(|degree| vec![degree]).into(),
};

struct Cayley {
    degree: u32,
}

impl Generator for Cayley {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        if matches!(shape.collective, Collective::Allgather { .. }) { Ok(()) } else { Err(Unsuitable::Operation) }
    }

    fn build(&self, b: &mut Builder) {
        let Collective::Allgather { counts } = &b.shape.collective else {
            unreachable!("other operations do not suit");
        };
        place_own(b, counts);
        let tree = Tree::new(self.degree, b.size);
        let block = |b: &Builder, rank: u32| b.output(counts.offset(rank), counts.count(rank));
        let neighbors = tree.neighbors(b.me);
        let distances = tree.distances(b.me);
        // The order of an edge's blocks is that of both of its ends: nearest first.
        let at = |distance: u32, from: u32, to: u32| {
            let is_there = |origin: &u32| distances[*origin as usize] == distance;
            tree.behind(from, to).into_iter().filter(is_there).collect::<Vec<_>>()
        };
        for distance in 0..=tree.diameter() {
            for &neighbor in &neighbors {
                for origin in at(distance, b.me, neighbor) {
                    let slice = block(b, origin);
                    b.send(neighbor, slice);
                }
            }
            for &neighbor in &neighbors {
                for origin in at(distance + 1, neighbor, b.me) {
                    let slice = block(b, origin);
                    b.recv(neighbor, slice);
                }
            }
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let Collective::Allgather { counts } = &shape.collective else { return Cost::default() };
        let hops = f64::from(Tree::new(self.degree, shape.size).diameter());
        // An inner node sends each block to all neighbors but one.
        let copies = f64::from(self.degree.min(shape.size - 1) - 1).max(1.0);
        let messages = (copies + 1.0) * f64::from(shape.size - 1);
        Cost::rounds(hops)
            .further(messages - 2.0 * hops)
            .moved(copies * counts.offset(shape.size) as f64 * foreign(shape.size))
    }
}
