//! A communicator whose ranks have neighbours.

use std::fmt;
use std::ops::Deref;
use std::sync::Mutex;

use ropeway_proto::Tag;

use crate::communicator::NEIGHBOUR;
use crate::neighbor_call::Message;
use crate::{Communicator, Error};

/// A communicator whose ranks know whom they send to and whom they receive from: a graph topology.
///
/// It is a communicator too, of the same ranks, with a context of its own. Made by [`Communicator::graph`]; a
/// [`Cartesian`](crate::Cartesian) grid has one.
///
/// Its collectives go between neighbours only: allgather, alltoall and their uneven forms, registered (`neighbor_alltoall_init`), or
/// called just so, blocking (`neighbor_alltoall`) or not (`ineighbor_alltoall`).
pub struct Neighborhood {
    communicator: Communicator,
    sources: Vec<Option<Edge>>,
    destinations: Vec<Option<Edge>>,
    /// Of calls that nobody waits for any more.
    left: Mutex<Vec<Message>>,
}

/// What leads to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) rank: u32,
    /// Tells edges between the same two ranks apart.
    pub(crate) tag: Tag,
}

impl Neighborhood {
    pub(super) fn new(communicator: Communicator, sources: Vec<Option<Edge>>, destinations: Vec<Option<Edge>>) -> Self {
        Self { communicator, sources, destinations, left: Mutex::default() }
    }

    /// Whom this rank receives from, in the order of the blocks of outputs. `None` is an edge of a grid.
    pub fn sources(&self) -> impl Iterator<Item = Option<u32>> {
        self.sources.iter().map(|edge| edge.map(|edge| edge.rank))
    }

    /// Whom this rank sends to, in the order of the blocks of inputs. `None` is an edge of a grid.
    pub fn destinations(&self) -> impl Iterator<Item = Option<u32>> {
        self.destinations.iter().map(|edge| edge.map(|edge| edge.rank))
    }

    pub(crate) fn edges_in(&self) -> &[Option<Edge>] {
        &self.sources
    }

    pub(crate) fn edges_out(&self) -> &[Option<Edge>] {
        &self.destinations
    }

    /// Lets messages travel on that nobody waits for: those of later calls come behind them.
    pub(crate) fn leave(&self, messages: impl IntoIterator<Item = Message>) {
        let mut left = self.left.lock().expect("nobody panics with it");
        left.retain_mut(Message::is_under_way);
        left.extend(messages);
    }
}

impl Communicator {
    /// The same ranks as a graph: each says whom it receives from and whom it sends to.
    ///
    /// All ranks call it, in the same order. What one names as a destination has to name that one as a source, as often: nobody
    /// checks that, and messages that nobody expects never arrive. Edges between the same two ranks, and from a rank to itself,
    /// are fine; the first in one list is the first in the other.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), ropeway::Error> {
    /// let world = ropeway::init()?.world();
    /// let (rank, size) = (world.rank(), world.size());
    /// let ring = world.graph(&[(rank + size - 1) % size], &[(rank + 1) % size])?;
    /// let mut shift = ring.neighbor_alltoall_init::<f64>(100)?;
    /// shift.input_mut().fill(f64::from(rank));
    /// shift.start()?.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn graph(&self, sources: &[u32], destinations: &[u32]) -> Result<Neighborhood, Error> {
        let size = self.size();
        if let Some(&rank) = sources.iter().chain(destinations).find(|&&rank| rank >= size) {
            return Err(Error::RankOutOfRange { rank, size });
        }
        // Requests of one tag are matched in order.
        let edges = |ranks: &[u32]| ranks.iter().map(|&rank| Some(Edge { rank, tag: NEIGHBOUR })).collect();
        Ok(Neighborhood::new(self.dup()?, edges(sources), edges(destinations)))
    }
}

impl Deref for Neighborhood {
    type Target = Communicator;

    fn deref(&self) -> &Communicator {
        &self.communicator
    }
}

impl fmt::Debug for Neighborhood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Neighborhood")
            .field("communicator", &self.communicator)
            .field("sources", &self.sources)
            .field("destinations", &self.destinations)
            .finish_non_exhaustive()
    }
}
