//! Grids of ranks.

use std::fmt;
use std::ops::Deref;

use super::neighborhood::{Edge, Neighborhood};
use crate::communicator::NEIGHBOUR;
use crate::{Communicator, Error};

/// A communicator whose ranks form a grid; the last coordinate changes fastest from rank to rank.
///
/// ```text
///           dimension 1 →                 dims [2, 3]
///  d. 0   0 (0,0)   1 (0,1)   2 (0,2)
///   ↓     3 (1,0)   4 (1,1)   5 (1,2)
/// ```
///
/// Neighbours are, dimension by dimension, first the one before and then the one after: that is the order of the blocks of
/// neighbour collectives. A dimension that is periodic is closed to a ring. Beyond the edge of one that isn't there is nobody:
/// that block of an input goes nowhere, and that of an output stays as it is.
///
/// It is a [`Neighborhood`] too, and so a [`Communicator`] of the same ranks with a context of its own.
///
/// ```no_run
/// # fn example() -> Result<(), ropeway::Error> {
/// let world = ropeway::init()?.world();
/// let grid = world.cartesian(&ropeway::dims_create(world.size(), 2), &[true, false])?;
/// let mut halo = grid.neighbor_alltoall_init::<f64>(100)?;
/// let column = grid.sub(&[true, false])?;
/// let (above, below) = grid.shift(0, 1);
/// # Ok(())
/// # }
/// ```
pub struct Cartesian {
    neighborhood: Neighborhood,
    shape: Shape,
    coords: Vec<u32>,
}

/// Lengths of the dimensions, and which are rings.
#[derive(Clone, Debug)]
struct Shape {
    dims: Vec<u32>,
    periodic: Vec<bool>,
}

impl Communicator {
    /// The same ranks as a grid of these lengths, each dimension periodic or not.
    ///
    /// All ranks call it, in the same order, and say the same. The grid has to have as many places as there are ranks;
    /// [`dims_create`](crate::dims_create) finds lengths, and [`create`](Self::create) makes a smaller communicator where some
    /// ranks are to be left out.
    pub fn cartesian(&self, dims: &[u32], periodic: &[bool]) -> Result<Cartesian, Error> {
        let shape = Shape::new(dims, periodic, self.size())?;
        Ok(Cartesian::new(self.dup()?, shape))
    }
}

impl Cartesian {
    fn new(communicator: Communicator, shape: Shape) -> Self {
        let coords = shape.coords_of(communicator.rank());
        let (sources, destinations) = shape.edges(&coords);
        Self { neighborhood: Neighborhood::new(communicator, sources, destinations), shape, coords }
    }

    /// Lengths of the dimensions.
    pub fn dims(&self) -> &[u32] {
        &self.shape.dims
    }

    /// Which dimensions are rings.
    pub fn periodic(&self) -> &[bool] {
        &self.shape.periodic
    }

    /// Where this rank is.
    pub fn coords(&self) -> &[u32] {
        &self.coords
    }

    /// Where a rank is.
    pub fn coords_of(&self, rank: u32) -> Result<Vec<u32>, Error> {
        let size = self.size();
        if rank < size { Ok(self.shape.coords_of(rank)) } else { Err(Error::RankOutOfRange { rank, size }) }
    }

    /// Who is there. Coordinates of periodic dimensions go round; `None` beyond the edge of another. Panics if there are more or
    /// fewer coordinates than dimensions.
    pub fn rank_of(&self, coords: &[i32]) -> Option<u32> {
        assert_eq!(coords.len(), self.dims().len(), "as many coordinates as dimensions");
        self.shape.rank_of(coords.iter().map(|&coord| i64::from(coord)))
    }

    /// For a shift of everybody's data by so many places: whom this rank receives from, and whom it sends to. `None` beyond an
    /// edge. Panics if there is no such dimension.
    pub fn shift(&self, dimension: usize, displacement: i32) -> (Option<u32>, Option<u32>) {
        let displacement = i64::from(displacement);
        let beside = |displacement| self.shape.beside(&self.coords, dimension, displacement);
        (beside(-displacement), beside(displacement))
    }

    /// The grid of the dimensions to keep, through this rank: of the ranks that differ from it in those only. All ranks call it, in
    /// the same order, and say the same.
    pub fn sub(&self, keep: &[bool]) -> Result<Self, Error> {
        if keep.len() != self.dims().len() {
            let why = format!("a grid of {} dimensions can't keep {} of them", self.dims().len(), keep.len());
            return Err(Error::BadTopology { why });
        }
        let (kept, dropped) = self.shape.part(keep);
        let place = self.coords.iter().zip(keep).filter(|&(_, &is_kept)| !is_kept).map(|(&coord, _)| coord.into());
        let colour = dropped.rank_of(place).expect("it is where we are");
        let slice = self.split(Some(colour), 0)?.expect("who names a colour is in");
        Ok(Self::new(slice, kept))
    }
}

impl Shape {
    fn new(dims: &[u32], periodic: &[bool], size: u32) -> Result<Self, Error> {
        if dims.len() != periodic.len() {
            let why = format!("{} dimensions, and {} that are periodic or not", dims.len(), periodic.len());
            return Err(Error::BadTopology { why });
        }
        let places = dims.iter().try_fold(1u32, |places, &length| places.checked_mul(length));
        if places != Some(size) {
            let why = format!("a grid of {dims:?} does not have a place for each of {size} ranks, and no more");
            return Err(Error::BadTopology { why });
        }
        Ok(Self { dims: dims.to_vec(), periodic: periodic.to_vec() })
    }

    fn coords_of(&self, rank: u32) -> Vec<u32> {
        let mut rest = rank;
        let mut coords = self.dims.clone();
        for coord in coords.iter_mut().rev() {
            let length = *coord;
            (*coord, rest) = (rest % length, rest / length);
        }
        coords
    }

    fn rank_of(&self, coords: impl Iterator<Item = i64>) -> Option<u32> {
        let mut rank = 0;
        for (coord, (&length, &is_periodic)) in coords.zip(self.dims.iter().zip(&self.periodic)) {
            let length = i64::from(length);
            let coord = if is_periodic { coord.rem_euclid(length) } else { coord };
            if !(0..length).contains(&coord) {
                return None;
            }
            rank = rank * length + coord;
        }
        Some(rank as u32)
    }

    /// Who is so many places further in a dimension.
    fn beside(&self, coords: &[u32], dimension: usize, displacement: i64) -> Option<u32> {
        assert!(dimension < self.dims.len(), "there are {} dimensions", self.dims.len());
        let there =
            |(index, &coord): (usize, &u32)| i64::from(coord) + if index == dimension { displacement } else { 0 };
        self.rank_of(coords.iter().enumerate().map(there))
    }

    /// The edges that come in and go out. What goes up in a dimension has a tag of its own, and what goes down: both may go
    /// between the same two ranks, and what is sent up comes from below.
    fn edges(&self, coords: &[u32]) -> (Vec<Option<Edge>>, Vec<Option<Edge>>) {
        let (mut sources, mut destinations) = (Vec::new(), Vec::new());
        for dimension in 0..self.dims.len() {
            let (down, up) = (NEIGHBOUR + 2 * dimension as i32, NEIGHBOUR + 2 * dimension as i32 + 1);
            let edge = |displacement, tag| self.beside(coords, dimension, displacement).map(|rank| Edge { rank, tag });
            sources.extend([edge(-1, up), edge(1, down)]);
            destinations.extend([edge(-1, down), edge(1, up)]);
        }
        (sources, destinations)
    }

    /// The dimensions that are kept, and the others.
    fn part(&self, keep: &[bool]) -> (Self, Self) {
        let part = |is_kept: bool| {
            let chosen = || (0..keep.len()).filter(move |&dimension| keep[dimension] == is_kept);
            Self {
                dims: chosen().map(|index| self.dims[index]).collect(),
                periodic: chosen().map(|index| self.periodic[index]).collect(),
            }
        };
        (part(true), part(false))
    }
}

impl Deref for Cartesian {
    type Target = Neighborhood;

    fn deref(&self) -> &Neighborhood {
        &self.neighborhood
    }
}

impl fmt::Debug for Cartesian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cartesian").field("shape", &self.shape).field("coords", &self.coords).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[u32], periodic: &[bool]) -> Shape {
        Shape::new(dims, periodic, dims.iter().product()).unwrap()
    }

    #[test]
    fn ranks_and_coordinates_are_each_others_inverse() {
        let shape = shape(&[4, 3, 2], &[false; 3]);
        let mut expected = Vec::new();
        for (i, j, k) in (0..24).map(|rank| (rank / 6, rank / 2 % 3, rank % 2)) {
            expected.push(vec![i, j, k]);
        }
        for (rank, coords) in expected.iter().enumerate() {
            assert_eq!(&shape.coords_of(rank as u32), coords);
            assert_eq!(shape.rank_of(coords.iter().map(|&coord| coord.into())), Some(rank as u32));
        }
    }

    #[test]
    fn periodic_dimensions_go_round_and_others_end() {
        let shape = shape(&[4, 3], &[true, false]);
        let rank_of = |coords: [i64; 2]| shape.rank_of(coords.into_iter());
        assert_eq!((rank_of([4, 2]), rank_of([-1, 0]), rank_of([-9, 1])), (Some(2), Some(9), Some(10)));
        assert_eq!((rank_of([0, 3]), rank_of([0, -1])), (None, None));
        assert_eq!((shape.beside(&[3, 2], 0, 1), shape.beside(&[3, 2], 1, 1)), (Some(2), None));
    }

    #[test]
    fn neighbours_of_a_short_ring_are_told_apart_by_direction() {
        let edge = |rank, tag| Some(Edge { rank, tag: NEIGHBOUR + tag });
        let (sources, destinations) = shape(&[2, 1], &[true, true]).edges(&[0, 0]);
        assert_eq!(sources, [edge(1, 1), edge(1, 0), edge(0, 3), edge(0, 2)]);
        assert_eq!(destinations, [edge(1, 0), edge(1, 1), edge(0, 2), edge(0, 3)]);
        let (sources, destinations) = shape(&[2], &[false]).edges(&[0]);
        assert_eq!((sources, destinations), (vec![None, edge(1, 0)], vec![None, edge(1, 1)]));
    }

    #[test]
    fn a_grid_has_a_place_for_each_rank() {
        let why = |dims: &[u32], periodic: &[bool], size| Shape::new(dims, periodic, size).unwrap_err().to_string();
        assert!(why(&[3, 2], &[true; 2], 7).contains("[3, 2]"));
        assert!(why(&[3, 0], &[true; 2], 1).contains("1 ranks"));
        assert!(why(&[1 << 16, 1 << 16], &[true; 2], 1).contains("65536"));
        assert!(why(&[3, 2], &[true], 6).contains("2 dimensions"));
        assert!(Shape::new(&[], &[], 1).is_ok());
    }
}
