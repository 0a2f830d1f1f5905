//! Calls of collectives as schedules know them.

use ropeway_schedule::{Collective, Counts, Neighborhood, Order, PairCounts, Shape};

use crate::operation::{CollectiveCall, Operation};
use crate::torus::torus;

impl CollectiveCall {
    /// What so many ranks do if each of them takes part itself, with `count` elements of a vector or block. A broadcast has one array,
    /// the output.
    pub fn shape(self, ranks: u32, count: usize) -> Shape {
        let uneven = || self.counts(ranks, count).into_iter().map(|count| count as u64).collect::<Vec<_>>();
        let (root, count, order) = (self.root, count as u64, Order::Any);
        let counts = || if self.is_uneven { Counts::each(&uneven()) } else { Counts::same(count) };
        let of_pairs = || if self.is_uneven { PairCounts::Matrix(uneven().into()) } else { PairCounts::Same(count) };
        let collective = match self.operation {
            Operation::Barrier => Collective::Barrier,
            Operation::Bcast => return Shape::new(ranks, Collective::Bcast { root, count }).in_place(),
            Operation::Reduce => Collective::Reduce { root, count, order },
            Operation::Allreduce => Collective::Allreduce { count, order },
            Operation::ReduceScatter => Collective::ReduceScatter { counts: counts(), order },
            Operation::Scan => Collective::Scan { count, order },
            Operation::Exscan => Collective::Exscan { count, order },
            Operation::Gather => Collective::Gather { root, counts: counts() },
            Operation::Scatter => Collective::Scatter { root, counts: counts() },
            Operation::Allgather => Collective::Allgather { counts: counts() },
            Operation::Alltoall => Collective::Alltoall { counts: of_pairs() },
            // Schedules know no uneven ones, and nobody asks for them.
            Operation::NeighborAllgather => Collective::NeighborAllgather { neighborhood: neighborhood(ranks), count },
            Operation::NeighborAlltoall => Collective::NeighborAlltoall { neighborhood: neighborhood(ranks), count },
        };
        Shape::new(ranks, collective)
    }
}

/// Who is whose neighbour in the torus of so many ranks.
pub(crate) fn neighborhood(ranks: u32) -> Neighborhood {
    let rings: Vec<_> = torus(ranks).into_iter().map(|length| (length, true)).collect();
    Neighborhood::grid(&rings)
}
