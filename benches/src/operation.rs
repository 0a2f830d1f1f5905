//! Collectives by name, and what they are called with.

use std::fmt;
use std::str::FromStr;

use ropeway::Operator;
use serde::{Deserialize, Serialize};

use crate::Size;

/// What all ranks of a communicator do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Nobody goes on before everybody has come.
    Barrier,
    /// The root's vector goes to everybody.
    Bcast,
    /// Everybody's vectors, combined, to the root.
    Reduce,
    /// Everybody's vectors, combined, to everybody.
    Allreduce,
    /// Everybody's vectors, combined, a block to each.
    ReduceScatter,
    /// The vectors up to and with one's own, combined.
    Scan,
    /// The vectors before one's own, combined.
    Exscan,
    /// Everybody's blocks to the root.
    Gather,
    /// A block of the root's to each.
    Scatter,
    /// Everybody's blocks to everybody.
    Allgather,
    /// A block from each to each.
    Alltoall,
    /// Everybody's block to its neighbours in a [`torus`](crate::torus).
    NeighborAllgather,
    /// A block from each to each neighbour in a [`torus`](crate::torus).
    NeighborAlltoall,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Barrier,
        Self::Bcast,
        Self::Reduce,
        Self::Allreduce,
        Self::ReduceScatter,
        Self::Scan,
        Self::Exscan,
        Self::Gather,
        Self::Scatter,
        Self::Allgather,
        Self::Alltoall,
        Self::NeighborAllgather,
        Self::NeighborAlltoall,
    ];

    /// Its name, as people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::ReduceScatter => "reduce-scatter",
            Self::Scan => "scan",
            Self::Exscan => "exscan",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Allgather => "allgather",
            Self::Alltoall => "alltoall",
            Self::NeighborAllgather => "neighbor-allgather",
            Self::NeighborAlltoall => "neighbor-alltoall",
        }
    }

    /// Whether one rank is the source or the destination of all data.
    pub fn has_root(self) -> bool {
        matches!(self, Self::Bcast | Self::Reduce | Self::Gather | Self::Scatter)
    }

    /// Whether it is made of channels between neighbours, and not of what all ranks or nodes do.
    pub fn has_neighbors(self) -> bool {
        matches!(self, Self::NeighborAllgather | Self::NeighborAlltoall)
    }

    /// Whether each rank has a part of its own, so that parts may be of different lengths.
    pub fn has_parts(self) -> bool {
        let between_all =
            matches!(self, Self::ReduceScatter | Self::Gather | Self::Scatter | Self::Allgather | Self::Alltoall);
        between_all || self.has_neighbors()
    }

    /// Whether elements are combined.
    pub fn combines(self) -> bool {
        matches!(self, Self::Reduce | Self::Allreduce | Self::ReduceScatter | Self::Scan | Self::Exscan)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that is not an [`Operation`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "is not one of barrier, bcast, reduce, allreduce, reduce-scatter, scan, exscan, gather, scatter, allgather, alltoall, \
     neighbor-allgather, neighbor-alltoall"
)]
pub struct UnknownOperation;

impl FromStr for Operation {
    type Err = UnknownOperation;

    /// As programs write it, with underscores, will do too.
    fn from_str(word: &str) -> Result<Self, UnknownOperation> {
        let name = word.replace('_', "-");
        Self::ALL.into_iter().find(|operation| operation.name() == name).ok_or(UnknownOperation)
    }
}

/// An operation and its arguments, but for the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveCall {
    /// What is done.
    pub operation: Operation,
    /// Who is the source or the destination, if it has one.
    pub root: u32,
    /// How elements are combined, if they are.
    pub operator: Operator,
    /// Whether ranks' parts are of different lengths, if they have any.
    pub is_uneven: bool,
}

impl CollectiveCall {
    /// With the usual arguments: root 0, sums, and parts that are alike.
    pub fn of(operation: Operation) -> Self {
        Self { operation, root: 0, operator: Operator::Sum, is_uneven: false }
    }

    /// The same of parts of different lengths, if it has any.
    #[must_use]
    pub fn uneven(self) -> Self {
        Self { is_uneven: self.operation.has_parts(), ..self }
    }

    /// The root, if there is one.
    pub fn root(self) -> Option<u32> {
        self.operation.has_root().then_some(self.root)
    }

    /// The operator, if there is one.
    pub fn operator(self) -> Option<Operator> {
        self.operation.combines().then_some(self.operator)
    }

    /// Those of the sizes that make a difference: a barrier has only one, which is none.
    pub(crate) fn sizes(self, sizes: &[Size]) -> &[Size] {
        if self.operation == Operation::Barrier { &[Size(0)] } else { sizes }
    }
}

impl fmt::Display for CollectiveCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if let Some(operator) = self.operator() {
            write!(f, " {operator}")?;
        }
        if self.root().is_some_and(|root| root > 0) {
            write!(f, " root {}", self.root)?;
        }
        if self.is_uneven {
            write!(f, " uneven")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_survive_their_names() {
        for operation in Operation::ALL {
            assert_eq!(operation.to_string().parse(), Ok(operation));
            assert!(UnknownOperation.to_string().contains(&operation.to_string()));
            assert_eq!(serde_json::to_value(operation).unwrap(), operation.to_string());
        }
        assert_eq!("neighbor_alltoall".parse(), Ok(Operation::NeighborAlltoall));
        assert_eq!("sum".parse::<Operation>(), Err(UnknownOperation));
    }

    #[test]
    fn calls_say_what_matters() {
        let said = |operation| {
            CollectiveCall { root: 3, operator: Operator::Max, ..CollectiveCall::of(operation) }.to_string()
        };
        let expected = ["barrier", "bcast root 3", "reduce max root 3", "scan max"];
        assert_eq!([Operation::Barrier, Operation::Bcast, Operation::Reduce, Operation::Scan].map(said), expected);
        assert_eq!(CollectiveCall::of(Operation::Reduce).to_string(), "reduce sum");
        assert_eq!(CollectiveCall::of(Operation::Gather).uneven().to_string(), "gather uneven");
        assert_eq!(CollectiveCall::of(Operation::Scan).uneven().to_string(), "scan sum");
        assert_eq!(CollectiveCall::of(Operation::Barrier).sizes(&[Size(8), Size(9)]), [Size(0)]);
        assert_eq!(CollectiveCall::of(Operation::Bcast).sizes(&[Size(8), Size(9)]), [Size(8), Size(9)]);
    }
}
