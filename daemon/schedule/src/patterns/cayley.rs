//! Cayley trees: all inner nodes have the same degree.

/// A Cayley tree: every node but the last inner one has one neighbor or `degree` of them.
///
/// ```text
/// degree 4, size 9:      2   3   4
///                       / \  |  /
///                      8   └─0─┘
///                            |
///                        5 ─ 1 ─ 6
///                            |
///                            7
/// ```
///
/// Ranks are attached in order to the lowest node that has room. Source: seed 001 (Inozemtsev 2014), §5.3. With degree 2 it
/// is a line, so that its depth is not logarithmic, other than the text says.
#[derive(Clone, Copy, Debug)]
pub struct Cayley {
    degree: u32,
    size: u32,
}

impl Cayley {
    /// A tree of that degree, which is at least 2.
    pub const fn new(degree: u32, size: u32) -> Self {
        Self { degree, size }
    }

    /// The neighbor on the way to 0.
    pub const fn parent(&self, node: u32) -> Option<u32> {
        match node {
            0 => None,
            _ if node <= self.degree => Some(0),
            _ => Some(1 + (node - self.degree - 1) / (self.degree - 1)),
        }
    }

    /// All neighbors, ascending.
    pub fn neighbors(&self, node: u32) -> Vec<u32> {
        let mut neighbors: Vec<_> = self.parent(node).into_iter().collect();
        let (first, room) = if node == 0 {
            (1, self.degree)
        } else {
            ((node - 1).saturating_mul(self.degree - 1).saturating_add(self.degree + 1), self.degree - 1)
        };
        neighbors.extend((first..self.size).take(room as usize));
        neighbors
    }

    /// Whose messages travel from a node to its neighbor: all on its side, nearest first.
    pub fn behind(&self, node: u32, neighbor: u32) -> Vec<u32> {
        let mut found = vec![(node, neighbor)];
        let mut next = 0;
        while next < found.len() {
            let (at, from) = found[next];
            found.extend(self.neighbors(at).into_iter().filter(|&other| other != from).map(|other| (other, at)));
            next += 1;
        }
        found.into_iter().map(|(node, _)| node).collect()
    }

    /// Edges between the two nodes that are farthest apart.
    pub fn diameter(&self) -> u32 {
        let deepest = self.size - 1;
        self.distances(deepest).into_iter().max().unwrap_or(0)
    }

    /// Edges between a node and each other.
    pub fn distances(&self, node: u32) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.size as usize];
        distances[node as usize] = 0;
        let mut found = vec![node];
        let mut next = 0;
        while next < found.len() {
            let at = found[next];
            for other in self.neighbors(at) {
                if distances[other as usize] == u32::MAX {
                    distances[other as usize] = distances[at as usize] + 1;
                    found.push(other);
                }
            }
            next += 1;
        }
        distances
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trees_printed_by_the_source() {
        let tree = Cayley::new(4, 9);
        assert_eq!(tree.neighbors(0), [1, 2, 3, 4]);
        assert_eq!(tree.neighbors(1), [0, 5, 6, 7]);
        assert_eq!(tree.neighbors(2), [0, 8]);
        let diameter = |degree, size| Cayley::new(degree, size).diameter();
        assert_eq!((diameter(2, 16), diameter(3, 16), diameter(4, 16)), (15, 6, 4));
        assert_eq!((diameter(4, 64), diameter(4, 128)), (7, 8));
    }

    #[test]
    fn neighbors_are_mutual_and_the_two_sides_of_an_edge_are_everybody() {
        for degree in 2..6 {
            for size in 1..40 {
                let tree = Cayley::new(degree, size);
                for node in 0..size {
                    for neighbor in tree.neighbors(node) {
                        assert!(tree.neighbors(neighbor).contains(&node));
                        let sides = tree.behind(node, neighbor).len() + tree.behind(neighbor, node).len();
                        assert_eq!(sides, size as usize);
                    }
                }
            }
        }
    }
}
