//! What nodes do of a collective between them: the daemons' own decision, for those who ask before anything runs.

use ropeway_bench::{CollectiveCall, Operation};
use ropeway_proto::collective::{CollectiveKind, CollectiveShape, Combination};
use ropeway_proto::division::{Division, Operands};
use ropeway_proto::operator::{ElementType, Scalar};
use ropeway_schedule::Counts;

/// What elements are combined by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OperatorKind {
    /// One of Ropeway's own, such as a sum.
    Predefined,
    /// A function of the program.
    User,
    /// One of Ropeway's own, applied one by one in the order of ranks.
    Reproducible,
}

/// What nodes do for a call.
pub(crate) struct BetweenNodes {
    pub(crate) shape: CollectiveShape,
    /// What comes together uncombined, if nodes can't combine.
    pub(crate) operands: Option<Operands>,
    /// Whether they do it in the first round only.
    pub(crate) goes_straight: bool,
}

/// What nodes do for a call with `count` elements a vector or block, every round if it names an algorithm. `None` if they do nothing: what goes
/// between neighbours are messages.
pub(crate) fn between_nodes(
    call: CollectiveCall,
    operator: OperatorKind,
    (ranks, nodes): (u32, u32),
    (count, element_bytes): (u64, u32),
    is_named: bool,
) -> Option<BetweenNodes> {
    let kind = kind(call.operation)?;
    let counts = match kind {
        CollectiveKind::Barrier => Vec::new(),
        _ if call.is_uneven => call.counts(ranks, count as usize).into_iter().map(|count| count as u64).collect(),
        CollectiveKind::ReduceScatter
        | CollectiveKind::Gather
        | CollectiveKind::Scatter
        | CollectiveKind::Allgather => vec![count; ranks as usize],
        _ => vec![count],
    };
    let mut shape = CollectiveShape {
        kind,
        members: (0..ranks).collect(),
        root: call.root().unwrap_or(0),
        combination: kind.combines().then(|| operator.combination(call)),
        element_bytes,
        counts,
        is_reproducible: operator == OperatorKind::Reproducible,
        algorithm: None,
    };
    let places = places(ranks, nodes);
    let goes_straight = !is_named && shape.decide_to_go_straight(|rank| Some(places[rank as usize].into()));
    let division = Division::new(&shape, &places).expect("nodes are numbered as they come");
    Some(BetweenNodes { shape: division.between(), operands: division.operands(), goes_straight })
}

/// The node of each rank. They are dealt out in blocks, as launchers do.
pub(crate) fn places(ranks: u32, nodes: u32) -> Vec<u16> {
    let ranks_of = Counts::even(ranks.into(), nodes);
    (0..nodes).flat_map(|node| (0..ranks_of.count(node)).map(move |_| node as u16)).collect()
}

impl OperatorKind {
    fn combination(self, call: CollectiveCall) -> Combination {
        match self {
            // Whether it commutes makes no difference to ranks in order.
            Self::User => Combination::User { is_commutative: false },
            Self::Predefined | Self::Reproducible => {
                Combination::Predefined(call.operator.code(), ElementType::plain(Scalar::F64).code())
            }
        }
    }
}

fn kind(operation: Operation) -> Option<CollectiveKind> {
    Some(match operation {
        Operation::Barrier => CollectiveKind::Barrier,
        Operation::Bcast => CollectiveKind::Bcast,
        Operation::Reduce => CollectiveKind::Reduce,
        Operation::Allreduce => CollectiveKind::Allreduce,
        Operation::ReduceScatter => CollectiveKind::ReduceScatter,
        Operation::Scan => CollectiveKind::Scan,
        Operation::Exscan => CollectiveKind::Exscan,
        Operation::Gather => CollectiveKind::Gather,
        Operation::Scatter => CollectiveKind::Scatter,
        Operation::Allgather => CollectiveKind::Allgather,
        Operation::Alltoall => CollectiveKind::Alltoall,
        Operation::NeighborAllgather | Operation::NeighborAlltoall => return None,
    })
}
