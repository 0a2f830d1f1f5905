//! k-nomial trees; binomial if the radix is 2.
//!
//! The tree of [`KnomialTree`], counted from the root. Its subtrees are ranges of ranks, so gathered blocks stay in order and
//! a reduction to rank 0 keeps rank order; another root gets the result of such a reduction from there.
//! Source: Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, §4; seed 000 (reductions), §2.1.

use super::{Generator, Kind, grouped};
use crate::builder::{Accumulator, Builder};
use crate::cost::Cost;
use crate::counts::Counts;
use crate::error::Unsuitable;
use crate::patterns::{KnomialTree, Rotation};
use crate::shape::{Collective, Order, Shape};
use crate::step::{Buffer, Side, Slice};

pub(super) static BINOMIAL: Kind = Kind {
    name: "binomial",
    takes: "no parameter",
    usual: &[],
    make: |parameters| if parameters.is_empty() { Some(Box::new(Knomial { radix: 2 })) } else { None },
    tries: |_| vec![vec![]],
};

pub(super) static KNOMIAL: Kind = Kind {
    name: "k-nomial",
    takes: "a radix of 2 to 4096",
    usual: &[4],
    make: |parameters| match *parameters {
        [radix] if radix >= 2 => Some(Box::new(Knomial { radix })),
        _ => None,
    },
    tries: |_| [4, 8].map(|radix| vec![radix]).into(),
};

struct Knomial {
    radix: u32,
}

impl Generator for Knomial {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        match shape.collective {
            Collective::Barrier | Collective::Bcast { .. } | Collective::Gather { .. } | Collective::Scatter { .. } => {
                Ok(())
            }
            Collective::Reduce { order, .. } | Collective::Allreduce { order, .. } => grouped(order),
            _ => Err(Unsuitable::Operation),
        }
    }

    fn build(&self, b: &mut Builder) {
        let tree = KnomialTree::new(self.radix, b.size);
        match &b.shape.collective {
            Collective::Barrier => barrier(b, tree),
            &Collective::Bcast { root, count } => {
                let (input, output) = (b.input(0, count), b.output(0, count));
                let source = if b.me == root { input } else { output };
                spread(b, tree, root, source);
                if b.me == root {
                    b.copy(input, output);
                }
            }
            &Collective::Reduce { root, count, order } => reduce(b, tree, (root, order), count),
            &Collective::Allreduce { count, .. } => {
                let mut sum = Accumulator::new(b.input(0, count), b.output(0, count));
                collect(b, tree, 0, &mut sum);
                sum.settle(b);
                spread(b, tree, 0, sum.home());
            }
            Collective::Gather { root, counts } => gather(b, tree, *root, counts),
            Collective::Scatter { root, counts } => scatter(b, tree, *root, counts),
            _ => unreachable!("other operations do not suit"),
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let tree = KnomialTree::new(self.radix, shape.size);
        // The root handles the messages of all its children; the last of them is the critical one.
        let (depth, children) = (f64::from(tree.depth()), tree.children(0).len() as f64);
        let once = |count: u64| Cost::rounds(depth).further(children - depth).moved(children.max(depth) * count as f64);
        let reduce = |count: u64| once(count).combined(children.max(depth) * count as f64);
        let collect = |counts: &Counts| {
            let elements = counts.offset(shape.size) as f64 * super::foreign(shape.size);
            Cost::rounds(depth).further(children - depth).moved(elements).copied(elements / 2.0)
        };
        match &shape.collective {
            Collective::Barrier => once(0) + once(0),
            Collective::Bcast { count, .. } => once(*count),
            Collective::Reduce { root, count, order: Order::Rank } if *root != 0 => {
                reduce(*count) + Cost::rounds(1).moved(*count as f64)
            }
            Collective::Reduce { count, .. } => reduce(*count),
            Collective::Allreduce { count, .. } => reduce(*count) + once(*count),
            Collective::Gather { counts, .. } | Collective::Scatter { counts, .. } => collect(counts),
            _ => Cost::default(),
        }
    }
}

fn barrier(b: &mut Builder, tree: KnomialTree) {
    let children = tree.children(b.me);
    let arrived: Vec<_> = children.iter().map(|&child| b.wait(child)).collect();
    b.hold_until(arrived);
    if let Some(parent) = tree.parent(b.me) {
        b.signal(parent);
        let released = b.wait(parent);
        b.hold_until([released]);
    }
    children.iter().rev().for_each(|&child| b.signal(child));
}

/// What the root has comes to everybody, into the same slice. The largest subtree first: it has the longest way to go.
pub(super) fn spread(b: &mut Builder, tree: KnomialTree, root: u32, slice: Slice) {
    let rotation = Rotation::new(root, b.size);
    let node = rotation.node(b.me);
    if let Some(parent) = tree.parent(node) {
        b.recv(rotation.rank(parent), slice);
    }
    for &child in tree.children(node).iter().rev() {
        b.send(rotation.rank(child), slice);
    }
}

/// Everybody's operands are combined on their way to the root.
fn collect(b: &mut Builder, tree: KnomialTree, root: u32, sum: &mut Accumulator) {
    let rotation = Rotation::new(root, b.size);
    let node = rotation.node(b.me);
    for child in tree.children(node) {
        sum.recv(b, rotation.rank(child), Side::Right);
    }
    if let Some(parent) = tree.parent(node) {
        b.send(rotation.rank(parent), sum.value());
    }
}

fn reduce(b: &mut Builder, tree: KnomialTree, (root, order): (u32, Order), count: u64) {
    // Counting ranks from another root would begin in the middle.
    let top = if order == Order::Rank { 0 } else { root };
    let node = Rotation::new(top, b.size).node(b.me);
    let operand = b.input(0, count);
    let output = b.output(0, count);
    let is_leaf = tree.children(node).is_empty();
    let home = match (b.me == root && top == root, is_leaf) {
        (true, _) => output,
        (false, true) => operand,
        (false, false) => b.scratch(count),
    };
    let mut sum = Accumulator::new(operand, home);
    collect(b, tree, top, &mut sum);
    if top != root && b.me == top {
        b.send(root, sum.value());
    } else if top != root && b.me == root {
        b.recv(top, output);
    } else if b.me == root {
        sum.settle(b);
    }
}

/// Pieces of a vector, one a node of a tree, as far as one participant holds them: those from `first` on.
#[derive(Clone, Copy)]
pub(super) struct Pieces<'a> {
    /// All nodes' pieces.
    pub(super) counts: &'a Counts,
    pub(super) first: u32,
    /// Where the piece of `first` begins.
    pub(super) memory: Slice,
}

impl Pieces<'_> {
    pub(super) fn slice(&self, nodes: std::ops::Range<u32>) -> Slice {
        let offset = self.counts.span(self.first, nodes.start);
        self.memory.part(offset, self.counts.span(nodes.start, nodes.end))
    }
}

/// Pieces come together at the root; mine is in place.
pub(super) fn gather_pieces(b: &mut Builder, tree: KnomialTree, rotation: Rotation, pieces: Pieces) {
    let node = rotation.node(b.me);
    for child in tree.children(node) {
        b.recv(rotation.rank(child), pieces.slice(tree.subtree(child)));
    }
    if let Some(parent) = tree.parent(node) {
        b.send(rotation.rank(parent), pieces.slice(tree.subtree(node)));
    }
}

/// The root's pieces are dealt out; each stays with its node.
pub(super) fn scatter_pieces(b: &mut Builder, tree: KnomialTree, rotation: Rotation, pieces: Pieces) {
    let node = rotation.node(b.me);
    if let Some(parent) = tree.parent(node) {
        b.recv(rotation.rank(parent), pieces.slice(tree.subtree(node)));
    }
    for &child in tree.children(node).iter().rev() {
        b.send(rotation.rank(child), pieces.slice(tree.subtree(child)));
    }
}

/// Blocks in the order of the tree's nodes, which begin with the root.
fn rotated(counts: &Counts, rotation: Rotation, size: u32) -> Counts {
    match counts.same_count() {
        Some(count) => Counts::same(count),
        None => Counts::each(&(0..size).map(|node| counts.count(rotation.rank(node))).collect::<Vec<_>>()),
    }
}

fn gather(b: &mut Builder, tree: KnomialTree, root: u32, counts: &Counts) {
    let rotation = Rotation::new(root, b.size);
    let node = rotation.node(b.me);
    let by_node = rotated(counts, rotation, b.size);
    if b.me == root {
        super::linear::place_own(b, counts);
        for child in tree.children(node) {
            let blocks = AtRoot { counts, rotation, size: b.size, buffer: Buffer::Output };
            let (near, far) = blocks.of(tree.subtree(child));
            if far.is_empty() {
                b.recv(rotation.rank(child), near);
            } else {
                let both = b.scratch(near.length + far.length);
                b.recv(rotation.rank(child), both);
                b.copy(both.part(0, near.length), near);
                b.copy(both.part(near.length, far.length), far);
            }
        }
        return;
    }
    let own = b.input(0, counts.count(b.me));
    let subtree = tree.subtree(node);
    let is_leaf = subtree.len() == 1;
    let memory = if is_leaf { own } else { b.scratch(by_node.span(subtree.start, subtree.end)) };
    b.copy(own, memory.part(0, own.length));
    gather_pieces(b, tree, rotation, Pieces { counts: &by_node, first: node, memory });
}

fn scatter(b: &mut Builder, tree: KnomialTree, root: u32, counts: &Counts) {
    let rotation = Rotation::new(root, b.size);
    let node = rotation.node(b.me);
    let by_node = rotated(counts, rotation, b.size);
    let output = b.output(0, counts.count(b.me));
    if b.me == root {
        let blocks = AtRoot { counts, rotation, size: b.size, buffer: Buffer::Input };
        for &child in tree.children(node).iter().rev() {
            let (near, far) = blocks.of(tree.subtree(child));
            let mut slice = near;
            if !far.is_empty() {
                slice = b.scratch(near.length + far.length);
                b.copy(near, slice.part(0, near.length));
                b.copy(far, slice.part(near.length, far.length));
            }
            b.send(rotation.rank(child), slice);
        }
        if !b.shape.is_in_place {
            b.copy(blocks.of(0..1).0, output);
        }
        return;
    }
    let subtree = tree.subtree(node);
    let is_leaf = subtree.len() == 1;
    let memory = if is_leaf { output } else { b.scratch(by_node.span(subtree.start, subtree.end)) };
    scatter_pieces(b, tree, rotation, Pieces { counts: &by_node, first: node, memory });
    b.copy(memory.part(0, output.length), output);
}

/// The root's blocks lie in order of rank, not of node.
struct AtRoot<'a> {
    counts: &'a Counts,
    rotation: Rotation,
    size: u32,
    buffer: Buffer,
}

impl AtRoot<'_> {
    /// The blocks of some nodes: up to the last rank, and from the first one on.
    fn of(&self, nodes: std::ops::Range<u32>) -> (Slice, Slice) {
        let slice = |first, last| Slice {
            buffer: self.buffer,
            offset: self.counts.offset(first),
            length: self.counts.span(first, last),
        };
        let first = self.rotation.rank(nodes.start);
        let last = first + (nodes.end - nodes.start);
        if last <= self.size {
            (slice(first, last), slice(0, 0))
        } else {
            (slice(first, self.size), slice(0, last - self.size))
        }
    }
}
