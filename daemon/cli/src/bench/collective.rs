//! What `ropeway bench` can be asked about collectives.

use clap::Args;
use ropeway::Operator;
use ropeway_bench::{CollectiveCall, Division, Method, Mode, Operation, Size, element_bytes, operators};
use ropeway_daemon::schedules;
use ropeway_proto::collective::CollectiveShape;
use ropeway_schedule::{Algorithm, CostTable};

use crate::division::{BetweenNodes, OperatorKind, between_nodes};
use crate::failure::Failure;
use crate::words::one_of;

/// Which collective, and how it is called.
#[derive(Args)]
pub(super) struct CollectiveFlags {
    /// The collective to measure.
    #[arg(value_name = "OPERATION", value_parser = one_of::<Operation>(Operation::ALL.map(Operation::name)))]
    pub(super) operation: Option<Operation>,
    /// Collectives with a root: the rank that sends, or gets the result [default: 0].
    #[arg(long, value_name = "RANK")]
    root: Option<u32>,
    /// Collectives that combine: how. Elements are floats of 64 bits for sum, prod, min and max, the same with an index, 16 bytes
    /// together, for min-loc and max-loc, else integers of 64 bits [default: sum].
    #[arg(long, value_name = "OPERATOR", value_parser = one_of::<Operator>(operators().map(Operator::name)))]
    op: Option<Operator>,
    /// Collectives of a part for each rank: parts of different lengths (gatherv, allgatherv, reduce_scatter …), in proportion to 1, 2, 3 …
    /// and as long on average as --sizes says.
    #[arg(long)]
    uneven: bool,
    /// How nodes do it, such as ring or k-nomial:4, with --nodes 2 or more, and ranks with --division flat [default: as predicted
    /// to be fastest; see ropeway explain]. What goes between neighbours are messages, which have none.
    #[arg(long, value_name = "NAME")]
    algorithm: Option<Algorithm>,
    /// Who takes part between the nodes, in turns: two-level (each node for its ranks), flat (every rank), multileader:LEADERS or
    /// multigroup:GROUPS (so many of each node's ranks, 2 if it does not say how many; only allgather). All but the first are baselines [default:
    /// two-level].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    division: Vec<Division>,
}

impl CollectiveFlags {
    /// The calls of these operations. Each argument that was given has to mean something to one of them.
    pub(super) fn calls(&self, operations: &[Operation], ranks: u32) -> Result<Vec<CollectiveCall>, Failure> {
        let names = || operations.iter().map(Operation::to_string).collect::<Vec<_>>().join(", ");
        let refuse = |why: String| Err(Failure::Usage(why));
        match self.root {
            Some(_) if !operations.iter().any(|operation| operation.has_root()) => {
                return refuse(format!("{} has no root: leave --root out", names()));
            }
            Some(root) if root >= ranks => {
                return refuse(format!("there is no rank {root} of {ranks}: use --root 0 to {}", ranks - 1));
            }
            _ => {}
        }
        if self.op.is_some() && !operations.iter().any(|operation| operation.combines()) {
            return refuse(format!("{} combines nothing: leave --op out", names()));
        }
        if self.uneven && !operations.iter().any(|operation| operation.has_parts()) {
            return refuse(format!("{} has no part for each rank: leave --uneven out", names()));
        }
        let call = |&operation| {
            let usual = CollectiveCall::of(operation);
            let call = CollectiveCall {
                root: self.root.unwrap_or(usual.root),
                operator: self.op.unwrap_or(usual.operator),
                ..usual
            };
            if self.uneven { call.uneven() } else { call }
        };
        Ok(operations.iter().map(call).collect())
    }

    /// How these calls are to be done, in turns.
    pub(super) fn methods(
        &self,
        calls: &[CollectiveCall],
        (ranks, nodes): (u32, u32),
        modes: &[Mode],
    ) -> Result<Vec<Method>, Failure> {
        let refuse = |why: String| Err(Failure::Usage(why));
        let usual = [Division::TwoLevel];
        let divisions = if self.division.is_empty() { &usual[..] } else { &self.division };
        let algorithm = self.algorithm.as_ref();
        let takes_algorithm = |division: &Division| match division {
            Division::TwoLevel => nodes > 1,
            division => *division == Division::Flat,
        };
        if algorithm.is_some() && !divisions.iter().any(takes_algorithm) {
            return refuse(
                "algorithms are for what happens between nodes, or between ranks with --division flat: add --nodes 2, or leave \
                 --algorithm out"
                    .into(),
            );
        }
        let mut methods = Vec::new();
        for &division in divisions {
            let has_leaders = matches!(division, Division::Multileader { .. } | Division::Multigroup { .. });
            if has_leaders && !ranks.is_multiple_of(nodes) {
                let even = ranks.next_multiple_of(nodes);
                return refuse(format!("{division} needs as many ranks on each node: use -n {even}"));
            }
            if division != Division::TwoLevel && !modes.contains(&Mode::Persistent) {
                return refuse(format!("{division} is a schedule, which is registered: leave --mode oneshot out"));
            }
            let method = Method::new(division, ranks / nodes, algorithm.filter(|_| takes_algorithm(&division)));
            for &call in calls {
                if division != Division::TwoLevel && call.is_uneven && call.operation.has_neighbors() {
                    return refuse(format!("there is no schedule of {call}: leave --uneven or --division out"));
                }
                method.check(call, ranks).map_err(|error| Failure::Usage(error.to_string()))?;
                if division == Division::TwoLevel {
                    check_nodes(call, (ranks, nodes), method.algorithm.clone())?;
                }
            }
            methods.push(method);
        }
        Ok(methods)
    }

    /// Whether anything was said about how to do them.
    pub(super) fn has_arguments(&self) -> bool {
        let is_asked_for = self.root.is_some() || self.op.is_some() || self.uneven;
        is_asked_for || self.algorithm.is_some() || !self.division.is_empty()
    }
}

/// Whether nodes can do this call by this algorithm, as their daemons see it.
fn check_nodes(call: CollectiveCall, (ranks, nodes): (u32, u32), algorithm: Option<String>) -> Result<(), Failure> {
    let element_bytes = element_bytes(call) as u32;
    let (operator, is_named) = (OperatorKind::Predefined, algorithm.is_some());
    let between = between_nodes(call, operator, (ranks, nodes.min(ranks)), (1, element_bytes), is_named);
    let Some(BetweenNodes { shape: between, .. }) = between else {
        let operation = call.operation;
        return algorithm.map_or(Ok(()), |_| {
            Err(Failure::Usage(format!(
                "{operation} is made of messages between neighbours, which have no algorithm: leave --algorithm out, or use --division flat"
            )))
        });
    };
    let between = CollectiveShape { algorithm, ..between };
    schedules::check(call.operation.name(), &between, &CostTable::default()).map_err(Failure::Usage)
}

/// The usual sizes, rounded up to whole elements of what is measured.
pub(super) fn usual_sizes(calls: &[CollectiveCall], usual: &[usize]) -> Vec<Size> {
    let element = calls.iter().map(|&call| element_bytes(call)).max().unwrap_or(1);
    usual.iter().map(|bytes| Size(bytes.next_multiple_of(element))).collect()
}

/// Vectors that are combined consist of whole elements.
pub(super) fn check_sizes(calls: &[CollectiveCall], sizes: &[Size]) -> Result<(), Failure> {
    for &call in calls {
        let element = element_bytes(call);
        if let Some(size) = sizes.iter().find(|size| !size.0.is_multiple_of(element)) {
            return Err(Failure::Usage(format!(
                "{} combines elements of {element} bytes, and {size} is not a multiple of that: use {}",
                call.operation,
                Size(size.0.next_multiple_of(element))
            )));
        }
    }
    Ok(())
}
