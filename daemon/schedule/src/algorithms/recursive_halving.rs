//! Rabenseifner's algorithm: the vector is halved round by round, combined, and put together again.
//!
//! 2⌊log2 p⌋ rounds and 2(p−1)/p of the vector: for long vectors. Sizes beyond a power of two are folded first ([`Fold`]).
//! Nearest ranks first keeps rank order; reduce-scatter takes the farthest first, so that blocks end where they belong.
//! Source: Rabenseifner, Optimization of collective reduction operations, ICCS 2004; seed 000 (reductions), §2.3.

use super::radix_k::{self, Core};
use super::recursive_doubling::folded;
use super::{Generator, Kind, commutative, foreign, grouped};
use crate::builder::{Accumulator, Builder};
use crate::cost::Cost;
use crate::counts::Counts;
use crate::error::Unsuitable;
use crate::patterns::{Digit, Fold, Role};
use crate::shape::{Collective, Shape};

pub(super) static KIND: Kind = Kind::plain::<RecursiveHalving>("recursive-halving");

#[derive(Default)]
struct RecursiveHalving;

impl Generator for RecursiveHalving {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        match shape.collective {
            Collective::Reduce { order, .. } | Collective::Allreduce { order, .. } => grouped(order),
            Collective::ReduceScatter { order, .. } => commutative(order),
            _ => Err(Unsuitable::Operation),
        }
    }

    fn build(&self, b: &mut Builder) {
        match &b.shape.collective {
            &Collective::Reduce { root, count, .. } => reduce(b, root, count),
            &Collective::Allreduce { count, .. } => {
                let mut sum = Accumulator::new(b.input(0, count), b.output(0, count));
                let fold = Fold::new(b.size, None);
                folded(b, &fold, &mut sum, |b, me, sum| {
                    Core { me, rounds: &halvings(&fold), rank_of: &|core| fold.rank(core) }.allreduce(b, sum);
                });
            }
            Collective::ReduceScatter { counts, .. } => reduce_scatter(b, counts),
            _ => unreachable!("other operations do not suit"),
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let fold = Fold::new(shape.size, None);
        let core = radix_k::cost(shape, &vec![2; fold.core().ilog2() as usize]);
        if fold.folded() == 0 {
            return core;
        }
        let into = |count: u64| Cost::rounds(1).moved(count as f64).combined(count as f64);
        let folding = match &shape.collective {
            Collective::Reduce { count, .. } => into(*count),
            Collective::Allreduce { count, .. } => into(*count) + Cost::rounds(1).moved(*count as f64),
            Collective::ReduceScatter { counts, .. } => {
                let total = counts.offset(shape.size);
                into(total) + Cost::rounds(1).moved(total as f64 * (1.0 - foreign(shape.size)))
            }
            _ => Cost::default(),
        };
        core + folding
    }
}

fn halvings(fold: &Fold) -> Vec<Digit> {
    Digit::places(&vec![2; fold.core().ilog2() as usize])
}

fn reduce(b: &mut Builder, root: u32, count: u64) {
    // The root acts for its pair, so that the result need not travel on.
    let fold = Fold::new(b.size, Some(root));
    let operand = b.input(0, count);
    let me = match fold.role(b.me) {
        Role::Folded { proxy } => {
            b.send(proxy, operand);
            return;
        }
        Role::Proxy { core, .. } | Role::Single { core } => core,
    };
    let root_core = match fold.role(root) {
        Role::Folded { .. } => unreachable!("the root is preferred"),
        Role::Proxy { core, .. } | Role::Single { core } => core,
    };
    let home = if b.me == root { b.output(0, count) } else { b.scratch(count) };
    let mut sum = Accumulator::new(operand, home);
    if let Role::Proxy { folded, side, .. } = fold.role(b.me) {
        sum.recv(b, folded, side);
    }
    Core { me, rounds: &halvings(&fold), rank_of: &|core| fold.rank(core) }.reduce(b, root_core, &mut sum);
    if b.me == root {
        sum.settle(b);
    }
}

fn reduce_scatter(b: &mut Builder, counts: &Counts) {
    let fold = Fold::new(b.size, None);
    let total = counts.offset(b.size);
    let operand = b.input(0, total);
    let output = b.output(0, counts.count(b.me));
    let (me, folded) = match fold.role(b.me) {
        Role::Folded { proxy } => {
            b.send(proxy, operand);
            b.recv(proxy, output);
            return;
        }
        Role::Proxy { core, folded, .. } => (core, Some(folded)),
        Role::Single { core } => (core, None),
    };
    let home = b.scratch(total);
    let mut sum = Accumulator::new(operand, home);
    if let Role::Proxy { folded, side, .. } = fold.role(b.me) {
        sum.recv(b, folded, side);
    }
    // A member's piece: the blocks of those it acts for, which are neighbors.
    let blocks: Vec<_> = (0..fold.core())
        .map(|core| {
            counts.span(fold.first_rank(core), if core + 1 < fold.core() { fold.first_rank(core + 1) } else { b.size })
        })
        .collect();
    let rounds: Vec<_> = halvings(&fold).into_iter().rev().collect();
    let core = Core { me, rounds: &rounds, rank_of: &|core| fold.rank(core) };
    let piece = core.reduce_scatter(b, &Counts::each(&blocks), &sum).value();
    let first = fold.first_rank(me);
    let block = |rank: u32| piece.part(counts.span(first, rank), counts.count(rank));
    if let Some(folded) = folded {
        b.send(folded, block(folded));
    }
    let own = block(b.me);
    b.copy(own, output);
}
