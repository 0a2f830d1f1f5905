//! What is to be done, and how long the buffers are.

use crate::counts::{Counts, PairCounts, check_total};
use crate::error::ShapeError;
use crate::neighborhood::Neighborhood;

/// How operands of a reduction may be put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Order {
    /// The operator commutes: any order will do.
    #[default]
    Any,
    /// x0∘x1∘…, in order of rank, grouped in any way: for operators that do not commute.
    Rank,
    /// ((x0∘x1)∘x2)∘…, always: the result is the same to the last bit, whoever comes first and wherever ranks live.
    Fixed,
}

/// A collective operation. What each participant brings is its input, what it gets its output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Collective {
    /// Nobody gets past it before everybody has come.
    Barrier,
    /// The root's input becomes everybody's output. In place the root's output holds it already.
    Bcast { root: u32, count: u64 },
    /// Everybody's inputs, combined, become the root's output. In place the root brings its part in its output.
    Reduce { root: u32, count: u64, order: Order },
    /// Everybody's inputs, combined, become everybody's output.
    Allreduce { count: u64, order: Order },
    /// Inputs are combined, and everybody gets its block. In place the output is as long as an input, and the block
    /// comes to its start.
    ReduceScatter { counts: Counts, order: Order },
    /// Rank r gets the inputs of 0 to r, combined.
    Scan { count: u64, order: Order },
    /// Rank r gets the inputs of 0 to r−1, combined; rank 0's output stays as it is.
    Exscan { count: u64, order: Order },
    /// The root gets everybody's blocks. In place its own is in its output already.
    Gather { root: u32, counts: Counts },
    /// Everybody gets its block of the root's input. In place the root's own stays there.
    Scatter { root: u32, counts: Counts },
    /// Everybody gets everybody's blocks. In place its own is in its output already.
    Allgather { counts: Counts },
    /// Everybody gets a block of everybody. In place they are exchanged within the output.
    Alltoall { counts: PairCounts },
    /// Everybody gets its sources' blocks.
    NeighborAllgather { neighborhood: Neighborhood, count: u64 },
    /// Everybody gets a block of each of its sources.
    NeighborAlltoall { neighborhood: Neighborhood, count: u64 },
}

impl Collective {
    /// Its name, as people write it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Bcast { .. } => "bcast",
            Self::Reduce { .. } => "reduce",
            Self::Allreduce { .. } => "allreduce",
            Self::ReduceScatter { .. } => "reduce-scatter",
            Self::Scan { .. } => "scan",
            Self::Exscan { .. } => "exscan",
            Self::Gather { .. } => "gather",
            Self::Scatter { .. } => "scatter",
            Self::Allgather { .. } => "allgather",
            Self::Alltoall { .. } => "alltoall",
            Self::NeighborAllgather { .. } => "neighbor-allgather",
            Self::NeighborAlltoall { .. } => "neighbor-alltoall",
        }
    }

    /// The root, if it has one.
    pub const fn root(&self) -> Option<u32> {
        match *self {
            Self::Bcast { root, .. }
            | Self::Reduce { root, .. }
            | Self::Gather { root, .. }
            | Self::Scatter { root, .. } => Some(root),
            _ => None,
        }
    }

    /// How operands are put together, if there are any.
    pub const fn order(&self) -> Option<Order> {
        match *self {
            Self::Reduce { order, .. }
            | Self::Allreduce { order, .. }
            | Self::ReduceScatter { order, .. }
            | Self::Scan { order, .. }
            | Self::Exscan { order, .. } => Some(order),
            _ => None,
        }
    }
}

/// Everything a schedule depends on; the same at all participants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many take part.
    pub size: u32,
    /// What they do.
    pub collective: Collective,
    /// Whether what is brought lies where the result belongs. With a root this concerns the root alone.
    pub is_in_place: bool,
}

impl Shape {
    /// One with separate inputs and outputs.
    pub const fn new(size: u32, collective: Collective) -> Self {
        Self { size, collective, is_in_place: false }
    }

    /// The same in place.
    #[must_use]
    pub const fn in_place(mut self) -> Self {
        self.is_in_place = true;
        self
    }

    /// Whether this participant's input lies in its output.
    pub fn is_in_place_at(&self, me: u32) -> bool {
        self.is_in_place && self.collective.root().is_none_or(|root| root == me)
    }

    /// Whether it makes sense.
    pub fn check(&self) -> Result<(), ShapeError> {
        let size = self.size;
        if size == 0 {
            return Err(ShapeError::NoParticipants);
        }
        if size > PARTICIPANTS_MAX {
            return Err(ShapeError::TooManyParticipants { size, max: PARTICIPANTS_MAX });
        }
        if let Some(root) = self.collective.root().filter(|&root| root >= size) {
            return Err(ShapeError::Root { root, size });
        }
        match &self.collective {
            Collective::Barrier => Ok(()),
            Collective::Bcast { count, .. }
            | Collective::Reduce { count, .. }
            | Collective::Allreduce { count, .. }
            | Collective::Scan { count, .. }
            // Some algorithms keep a vector a participant.
            | Collective::Exscan { count, .. } => check_total(count.saturating_mul(u64::from(size))),
            Collective::ReduceScatter { counts, .. }
            | Collective::Gather { counts, .. }
            | Collective::Scatter { counts, .. }
            | Collective::Allgather { counts } => counts.check(size),
            Collective::Alltoall { counts } => {
                counts.check(size)?;
                let is_fine = !self.is_in_place || counts.is_symmetric(size);
                if is_fine { Ok(()) } else { Err(ShapeError::Asymmetric) }
            }
            Collective::NeighborAllgather { neighborhood, count }
            | Collective::NeighborAlltoall { neighborhood, count } => {
                if self.is_in_place {
                    return Err(ShapeError::NotInPlace { operation: self.collective.name() });
                }
                neighborhood.check(size)?;
                check_total(count.saturating_mul(neighborhood.edges() as u64))
            }
        }
    }

    /// How long a participant's input is. In place there is none: what is brought is in the output.
    pub fn input_elements(&self, me: u32) -> u64 {
        // The one thing in place at the root that leaves the input where it is.
        if self.is_in_place_at(me) && !matches!(self.collective, Collective::Scatter { .. }) {
            return 0;
        }
        match &self.collective {
            Collective::Barrier => 0,
            Collective::Bcast { root, count } => {
                if *root == me {
                    *count
                } else {
                    0
                }
            }
            Collective::Reduce { count, .. }
            | Collective::Allreduce { count, .. }
            | Collective::Scan { count, .. }
            | Collective::Exscan { count, .. }
            | Collective::NeighborAllgather { count, .. } => *count,
            Collective::ReduceScatter { counts, .. } => counts.offset(self.size),
            Collective::Gather { counts, .. } | Collective::Allgather { counts } => counts.count(me),
            Collective::Scatter { root, counts } => {
                if *root == me {
                    counts.offset(self.size)
                } else {
                    0
                }
            }
            Collective::Alltoall { counts } => counts.row(self.size, me).offset(self.size),
            Collective::NeighborAlltoall { neighborhood, count } => count * neighborhood.destinations(me).len() as u64,
        }
    }

    /// How long a participant's output is.
    pub fn output_elements(&self, me: u32) -> u64 {
        match &self.collective {
            Collective::Barrier => 0,
            Collective::Reduce { root, count, .. } => {
                if *root == me {
                    *count
                } else {
                    0
                }
            }
            Collective::Bcast { count, .. }
            | Collective::Allreduce { count, .. }
            | Collective::Scan { count, .. }
            | Collective::Exscan { count, .. } => *count,
            Collective::ReduceScatter { counts, .. } => {
                if self.is_in_place {
                    counts.offset(self.size)
                } else {
                    counts.count(me)
                }
            }
            Collective::Gather { root, counts } => {
                if *root == me {
                    counts.offset(self.size)
                } else {
                    0
                }
            }
            Collective::Scatter { counts, .. } => {
                if self.is_in_place_at(me) {
                    0
                } else {
                    counts.count(me)
                }
            }
            Collective::Allgather { counts } => counts.offset(self.size),
            Collective::Alltoall { counts } => counts.column(self.size, me).offset(self.size),
            Collective::NeighborAllgather { neighborhood, count }
            | Collective::NeighborAlltoall { neighborhood, count } => count * neighborhood.sources(me).len() as u64,
        }
    }
}

/// Sums of two ranks fit into 32 bits.
const PARTICIPANTS_MAX: u32 = 1 << 24;
