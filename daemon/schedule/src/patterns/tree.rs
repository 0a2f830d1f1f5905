//! k-nomial trees.

use std::ops::Range;

/// A k-nomial tree of `size` nodes with root 0; binomial for k = 2.
///
/// Written with digits to base k, a node's parent has its lowest digit other than 0 cleared. So every subtree is a
/// range of consecutive nodes.
///
/// ```text
/// k = 2, size 8:      0            k = 3, size 9:      0
///                  / | \                           / / | \
///                 4  2  1                         6 3  2  1
///                / \  \                          /| |\
///               6   5  3                        8 7 5 4
///               |
///               7
/// ```
///
/// Source: Bala et al., CCL: a portable and tunable collective communication library, IEEE TPDS 6(2), 1995; for k > 2
/// as in Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005.
#[derive(Clone, Copy, Debug)]
pub struct KnomialTree {
    radix: u32,
    size: u32,
}

impl KnomialTree {
    /// A tree of degree `radix`, which is at least 2.
    pub const fn new(radix: u32, size: u32) -> Self {
        Self { radix, size }
    }

    /// Who is asked by this node, and answered to. The root has nobody.
    pub fn parent(&self, node: u32) -> Option<u32> {
        let (stride, digit) = self.lowest_digit(node)?;
        Some(node - digit * stride)
    }

    /// Its children, nearest first: their subtrees lie side by side in that order, right after the node.
    pub fn children(&self, node: u32) -> Vec<u32> {
        let limit = self.lowest_digit(node).map_or(self.size, |(stride, _)| stride);
        let mut children = Vec::new();
        let mut stride = 1;
        while stride < limit {
            for digit in 1..self.radix {
                match digit.checked_mul(stride).and_then(|distance| node.checked_add(distance)) {
                    Some(child) if child < self.size => children.push(child),
                    _ => break,
                }
            }
            let Some(next) = stride.checked_mul(self.radix) else { break };
            stride = next;
        }
        children
    }

    /// The nodes below it, and itself.
    pub fn subtree(&self, node: u32) -> Range<u32> {
        let length = self.lowest_digit(node).map_or(self.size, |(stride, _)| stride);
        node..self.size.min(node.saturating_add(length))
    }

    /// Edges from the root to the deepest node: the most digits other than 0 that a node has.
    pub fn depth(&self) -> u32 {
        let (mut depth, mut all_ones) = (0, 1);
        while all_ones < u64::from(self.size) {
            all_ones = all_ones * u64::from(self.radix) + 1;
            depth += 1;
        }
        depth
    }

    fn lowest_digit(&self, node: u32) -> Option<(u32, u32)> {
        if node == 0 {
            return None;
        }
        let mut stride = 1;
        while (node / stride).is_multiple_of(self.radix) {
            stride *= self.radix;
        }
        Some((stride, node / stride % self.radix))
    }
}

/// Ranks, counted from a root: node 0 of a tree is the root, node 1 the rank after it, and so on around.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    root: u32,
    size: u32,
}

impl Rotation {
    /// Ranks counted from `root`.
    pub const fn new(root: u32, size: u32) -> Self {
        Self { root, size }
    }

    /// The node that a rank is.
    pub const fn node(&self, rank: u32) -> u32 {
        (rank + self.size - self.root) % self.size
    }

    /// The rank that a node is.
    pub const fn rank(&self, node: u32) -> u32 {
        (node + self.root) % self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtrees_of_children_fill_the_nodes_own() {
        for radix in 2..6 {
            for size in 1..70 {
                let tree = KnomialTree::new(radix, size);
                for node in 0..size {
                    let mut next = node + 1;
                    for child in tree.children(node) {
                        assert_eq!(tree.parent(child), Some(node));
                        assert_eq!(tree.subtree(child).start, next);
                        next = tree.subtree(child).end;
                    }
                    assert_eq!(next, tree.subtree(node).end, "radix {radix}, size {size}, node {node}");
                }
                assert_eq!(tree.subtree(0), 0..size);
            }
        }
    }

    #[test]
    fn a_binomial_tree_is_as_deep_as_the_logarithm() {
        assert_eq!(KnomialTree::new(2, 64).depth(), 6);
        assert_eq!(KnomialTree::new(4, 64).depth(), 3);
        assert_eq!(KnomialTree::new(2, 1).depth(), 0);
        let level = |tree: KnomialTree, node| std::iter::successors(Some(node), |&node| tree.parent(node)).count() - 1;
        for radix in 2..6 {
            for size in 1..200 {
                let tree = KnomialTree::new(radix, size);
                let deepest = (0..size).map(|node| level(tree, node)).max().unwrap();
                assert_eq!(tree.depth() as usize, deepest, "radix {radix}, size {size}");
            }
        }
    }
}
