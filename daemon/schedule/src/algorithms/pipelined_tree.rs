//! Segments along a binary tree: short ways, and while one segment is under way, the next follows.
//!
//! The tree of [`InorderTree`], which keeps rank order for any root. 2(depth − 1 + s) messages one after the other, because an
//! inner node serves two children. Source: Sanders, Speck, Träff, Parallel Computing 35(12), 2009, §2 (one tree).

use super::linear_pipeline::segments;
use super::{Generator, Kind, grouped};
use crate::builder::{Accumulator, Builder};
use crate::cost::Cost;
use crate::counts::Counts;
use crate::error::Unsuitable;
use crate::patterns::InorderTree;
use crate::shape::{Collective, Shape};
use crate::step::{Side, Slice};

pub(super) static KIND: Kind = Kind {
    name: "pipelined-tree",
    takes: "1 to 4096 segments",
    usual: &[8],
    make: |parameters| match *parameters {
        [segments] if segments > 0 => Some(Box::new(PipelinedTree { segments })),
        _ => None,
    },
    tries: |question| vec![vec![segments(question, question.shape.size.max(1).ilog2() + 1)]],
};

struct PipelinedTree {
    segments: u32,
}

impl Generator for PipelinedTree {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        match shape.collective {
            Collective::Bcast { .. } => Ok(()),
            Collective::Reduce { order, .. } | Collective::Allreduce { order, .. } => grouped(order),
            _ => Err(Unsuitable::Operation),
        }
    }

    fn build(&self, b: &mut Builder) {
        match b.shape.collective {
            Collective::Bcast { root, count } => {
                let tree = InorderTree::of(b.me, root, b.size);
                let (input, output) = (b.input(0, count), b.output(0, count));
                let source = if b.me == root { input } else { output };
                self.each(count, |offset, length| spread(b, &tree, source.part(offset, length)));
                if b.me == root {
                    b.copy(input, output);
                }
            }
            Collective::Reduce { root, count, .. } => {
                let tree = InorderTree::of(b.me, root, b.size);
                let operand = b.input(0, count);
                let is_leaf = tree.left.or(tree.right).is_none();
                let home = match (b.me == root, is_leaf) {
                    (true, _) => b.output(0, count),
                    (false, true) => operand,
                    (false, false) => b.scratch(count),
                };
                let whole = Accumulator::new(operand, home);
                self.each(count, |offset, length| collect(b, &tree, &mut whole.part(offset, length)));
            }
            Collective::Allreduce { count, .. } => {
                let tree = InorderTree::of(b.me, b.size / 2, b.size);
                let whole = Accumulator::new(b.input(0, count), b.output(0, count));
                self.each(count, |offset, length| {
                    let mut sum = whole.part(offset, length);
                    collect(b, &tree, &mut sum);
                    spread(b, &tree, sum.home());
                });
            }
            _ => unreachable!("other operations do not suit"),
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let along = |root: u32, count: u64| {
            let depth = f64::from(InorderTree::depth(root, shape.size));
            let segments = f64::from(self.segments).min(count.max(1) as f64);
            // Up to three nodes there need not be one with two children.
            let children = if shape.size > 3 || (shape.size == 3 && root == 1) { 2.0 } else { 1.0 };
            let further = (children - 1.0) * depth + (children + 1.0) * (segments - 1.0);
            let moved = children * (depth - 1.0 + segments) * count as f64 / segments;
            Cost::rounds(depth).further(further).moved(moved)
        };
        let with_operands = |cost: Cost| cost.combined(cost.moved);
        match shape.collective {
            Collective::Bcast { root, count } => along(root, count),
            Collective::Reduce { root, count, .. } => with_operands(along(root, count)),
            Collective::Allreduce { count, .. } => {
                // Segments on their way up and down share an inner node: three messages each way, not four.
                let once = along(shape.size / 2, count);
                let segments = f64::from(self.segments).min(count.max(1) as f64);
                let saved = count as f64 * (segments - 1.0) / segments;
                with_operands(once) + Cost { moved: once.moved - saved, further: once.further - segments + 1.0, ..once }
            }
            _ => Cost::default(),
        }
    }
}

impl PipelinedTree {
    fn each(&self, count: u64, mut segment: impl FnMut(u64, u64)) {
        let segments = Counts::even(count, self.segments);
        (0..self.segments).for_each(|index| segment(segments.offset(index), segments.count(index)));
    }
}

/// A segment comes from the parent and goes to the children.
fn spread(b: &mut Builder, tree: &InorderTree, segment: Slice) {
    if let Some(parent) = tree.parent {
        b.recv(parent, segment);
    }
    for child in tree.left.into_iter().chain(tree.right) {
        b.send(child, segment);
    }
}

/// A segment's operands come from the children and go to the parent, combined. The root's are brought home.
fn collect(b: &mut Builder, tree: &InorderTree, sum: &mut Accumulator) {
    if let Some(left) = tree.left {
        sum.recv(b, left, Side::Left);
    }
    if let Some(right) = tree.right {
        sum.recv(b, right, Side::Right);
    }
    match tree.parent {
        Some(parent) => {
            b.send(parent, sum.value());
        }
        None => sum.settle(b),
    }
}
