//! Binary trees whose left subtrees are the ranks before a node, and right ones those after it.

/// A node's place in a binary tree that keeps the order of ranks, for any root.
///
/// ```text
/// root 0, size 8:   0              root 4, size 8:      4
///                    \                                /   \
///                     4                              2     6
///                   /   \                           / \   / \
///                  2     6                         1   3 5   7
///                 / \   / \                       /
///                1   3 5   7                     0
/// ```
///
/// Because subtrees are ranges, left∘own∘right keeps rank order. Source: the in-order trees of Sanders, Speck, Träff,
/// Two-tree algorithms for full bandwidth broadcast, reduction and scan, Parallel Computing 35(12), 2009, §2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub struct InorderTree {
    pub parent: Option<u32>,
    pub left: Option<u32>,
    pub right: Option<u32>,
    /// Edges from the root.
    pub level: u32,
}

impl InorderTree {
    /// Where `node` is in the tree with that root.
    pub const fn of(node: u32, root: u32, size: u32) -> Self {
        let (mut first, mut last, mut at, mut parent, mut level) = (0, size, root, None, 0);
        while at != node {
            parent = Some(at);
            if node < at {
                last = at;
            } else {
                first = at + 1;
            }
            at = first + (last - first) / 2;
            level += 1;
        }
        let left = if first < at { Some(first + (at - first) / 2) } else { None };
        let right = if at + 1 < last { Some(at + 1 + (last - at - 1) / 2) } else { None };
        Self { parent, left, right, level }
    }

    /// Edges from the root to the deepest node.
    pub const fn depth(root: u32, size: u32) -> u32 {
        const fn levels(nodes: u32) -> u32 {
            u32::BITS - nodes.leading_zeros()
        }
        let (left, right) = (levels(root), levels(size - root - 1));
        if left > right { left } else { right }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_and_children_agree_and_order_is_kept() {
        for size in 1..40 {
            for root in 0..size {
                let mut deepest = 0;
                for node in 0..size {
                    let tree = InorderTree::of(node, root, size);
                    deepest = deepest.max(tree.level);
                    assert!(tree.left.is_none_or(|left| left < node));
                    assert!(tree.right.is_none_or(|right| right > node));
                    for child in tree.left.into_iter().chain(tree.right) {
                        assert_eq!(InorderTree::of(child, root, size).parent, Some(node));
                    }
                    assert_eq!(tree.parent.is_none(), node == root);
                }
                assert_eq!(deepest, InorderTree::depth(root, size), "root {root} of {size}");
            }
        }
    }
}
