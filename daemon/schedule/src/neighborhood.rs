//! Who exchanges with whom in neighborhood collectives.

use std::collections::HashMap;

use crate::error::ShapeError;

/// Sources and destinations of each participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighborhood {
    sources: Vec<Vec<u32>>,
    destinations: Vec<Vec<u32>>,
    /// In a grid, what goes in one direction comes from the opposite one. It shows where both lead to the same rank.
    is_grid: bool,
}

impl Neighborhood {
    /// A graph: of each participant the sources and the destinations, in the order of their blocks. Who names another
    /// several times has several blocks for it, which arrive in order.
    pub const fn graph(sources: Vec<Vec<u32>>, destinations: Vec<Vec<u32>>) -> Self {
        Self { sources, destinations, is_grid: false }
    }

    /// A grid, rows first, each dimension closed (periodic) or not: neighbors are, for each dimension, the one before and the one
    /// after. There is no neighbor, and no block, beyond an open end.
    pub fn grid(dimensions: &[(u32, bool)]) -> Self {
        let size: u32 = dimensions.iter().map(|&(length, _)| length).product();
        let neighbors: Vec<_> = (0..size).map(|rank| grid_neighbors(dimensions, rank)).collect();
        Self { sources: neighbors.clone(), destinations: neighbors, is_grid: true }
    }

    /// Whom a participant receives from, in the order of its output's blocks.
    pub fn sources(&self, rank: u32) -> &[u32] {
        &self.sources[rank as usize]
    }

    /// Whom a participant sends to, in the order of its input's blocks.
    pub fn destinations(&self, rank: u32) -> &[u32] {
        &self.destinations[rank as usize]
    }

    /// Blocks that travel.
    pub fn edges(&self) -> usize {
        self.destinations.iter().map(Vec::len).sum()
    }

    /// The order in which a participant's sources send to it, as indices into them.
    ///
    /// It matters where one rank is several neighbors, as in a closed dimension of length two: what it sends backwards,
    /// first, comes to us from the front (MPI-4.0, 8.6).
    pub fn arrivals(&self, rank: u32) -> Vec<usize> {
        let sources = self.sources(rank);
        let mut order: Vec<_> = (0..sources.len()).collect();
        if self.is_grid {
            let mut index = 1;
            // Only the two neighbors of one dimension can be the same rank, and then they stand side by side.
            while index < sources.len() {
                if sources[index] == sources[index - 1] {
                    order.swap(index, index - 1);
                    index += 1;
                }
                index += 1;
            }
        }
        order
    }

    pub(crate) fn check(&self, size: u32) -> Result<(), ShapeError> {
        for given in [self.sources.len(), self.destinations.len()] {
            if given != size as usize {
                return Err(ShapeError::NeighborhoodSize { given, size });
            }
        }
        let mut edges: HashMap<(u32, u32), (usize, usize)> = HashMap::new();
        for rank in 0..size {
            for &neighbor in self.sources(rank).iter().chain(self.destinations(rank)) {
                if neighbor >= size {
                    return Err(ShapeError::Neighbor { rank, neighbor, size });
                }
            }
            self.destinations(rank).iter().for_each(|&dest| edges.entry((rank, dest)).or_default().0 += 1);
            self.sources(rank).iter().for_each(|&source| edges.entry((source, rank)).or_default().1 += 1);
        }
        match edges.into_iter().filter(|(_, (sent, expected))| sent != expected).min() {
            Some(((source_rank, dest_rank), (sent, expected))) => {
                Err(ShapeError::Neighborhood { source_rank, dest_rank, sent, expected })
            }
            None => Ok(()),
        }
    }
}

fn grid_neighbors(dimensions: &[(u32, bool)], rank: u32) -> Vec<u32> {
    let mut neighbors = Vec::with_capacity(2 * dimensions.len());
    let mut stride: u32 = dimensions.iter().map(|&(length, _)| length).product();
    for &(length, is_closed) in dimensions {
        stride /= length;
        let place = rank / stride % length;
        let at = |place: u32| rank - (rank / stride % length) * stride + place * stride;
        if is_closed || place > 0 {
            neighbors.push(at((place + length - 1) % length));
        }
        if is_closed || place + 1 < length {
            neighbors.push(at((place + 1) % length));
        }
    }
    neighbors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_grid_has_no_neighbors_beyond_its_ends() {
        let grid = Neighborhood::grid(&[(2, false), (3, false)]);
        assert_eq!(grid.destinations(0), [3, 1]);
        assert_eq!(grid.destinations(4), [1, 3, 5]);
        assert_eq!(grid.check(6), Ok(()));
    }

    #[test]
    fn in_a_closed_pair_what_goes_back_comes_from_the_front() {
        let pair = Neighborhood::grid(&[(2, true)]);
        assert_eq!(pair.sources(0), [1, 1]);
        assert_eq!(pair.arrivals(0), [1, 0]);
        assert_eq!(Neighborhood::grid(&[(3, true)]).arrivals(0), [0, 1]);
    }

    #[test]
    fn a_graph_whose_ends_disagree_is_refused() {
        let graph = Neighborhood::graph(vec![vec![1], vec![]], vec![vec![], vec![]]);
        let error = ShapeError::Neighborhood { source_rank: 1, dest_rank: 0, sent: 0, expected: 1 };
        assert_eq!(graph.check(2), Err(error));
    }
}
