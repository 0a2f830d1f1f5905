//! Calls of collectives as schedules know them.

use ropeway_schedule::{Collective, Counts, Order, PairCounts, Shape};

use crate::operation::{CollectiveCall, Operation};

impl CollectiveCall {
    /// What so many participants do, each of which brings what the ranks it stands for do: `count` elements of a rank's vector or
    /// block. `ranks_of` says how many ranks each has, in their order.
    pub fn collective(self, participants: u32, ranks_of: &Counts, count: u64, order: Order) -> Collective {
        let stands_for_root = |participant: &u32| ranks_of.offset(*participant) <= u64::from(self.root);
        let root = (0..participants).rev().find(stands_for_root).unwrap_or(0);
        let counts = || match ranks_of.same_count() {
            Some(ranks) => Counts::same(ranks * count),
            None => Counts::each(&(0..participants).map(|one| ranks_of.count(one) * count).collect::<Vec<_>>()),
        };
        match self.operation {
            Operation::Barrier => Collective::Barrier,
            Operation::Bcast => Collective::Bcast { root, count },
            Operation::Reduce => Collective::Reduce { root, count, order },
            Operation::Allreduce => Collective::Allreduce { count, order },
            Operation::ReduceScatter => Collective::ReduceScatter { counts: counts(), order },
            Operation::Scan => Collective::Scan { count, order },
            Operation::Exscan => Collective::Exscan { count, order },
            Operation::Gather => Collective::Gather { root, counts: counts() },
            Operation::Scatter => Collective::Scatter { root, counts: counts() },
            Operation::Allgather => Collective::Allgather { counts: counts() },
            Operation::Alltoall => Collective::Alltoall { counts: pair_counts(participants, ranks_of, count) },
        }
    }

    /// What so many ranks do if each of them takes part itself. A broadcast has one array, the output.
    pub(crate) fn shape(self, ranks: u32, count: usize) -> Shape {
        let shape = Shape::new(ranks, self.collective(ranks, &Counts::same(1), count as u64, Order::Any));
        if self.operation == Operation::Bcast { shape.in_place() } else { shape }
    }
}

fn pair_counts(participants: u32, ranks_of: &Counts, count: u64) -> PairCounts {
    if let Some(ranks) = ranks_of.same_count() {
        return PairCounts::Same(ranks * ranks * count);
    }
    let row = |from| (0..participants).map(move |to| ranks_of.count(from) * ranks_of.count(to) * count);
    PairCounts::Matrix((0..participants).flat_map(row).collect())
}
