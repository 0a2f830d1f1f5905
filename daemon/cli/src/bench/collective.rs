//! What `ropeway bench` can be asked about collectives.

use clap::Args;
use ropeway::Operator;
use ropeway_bench::{CollectiveCall, Operation, Size, operators};
use ropeway_schedule::Algorithm;

use crate::failure::Failure;
use crate::words::one_of;

/// Which collective, and how it is called.
#[derive(Args)]
pub(super) struct CollectiveFlags {
    /// coll: the collective to measure.
    #[arg(value_name = "OPERATION", value_parser = one_of::<Operation>(Operation::ALL.map(Operation::name)), required_if_eq("name", "coll"))]
    pub(super) operation: Option<Operation>,
    /// Collectives with a root: the rank that sends, or gets the result [default: 0].
    #[arg(long, value_name = "RANK")]
    root: Option<u32>,
    /// Collectives that combine: how. Elements are floats of 64 bits for sum, prod, min and max, else integers of 64 bits
    /// [default: sum].
    #[arg(long, value_name = "OPERATOR", value_parser = one_of::<Operator>(operators().map(Operator::name)))]
    op: Option<Operator>,
    /// How nodes do it, such as ring or k-nomial:4, with --nodes 2 or more [default: as predicted to be fastest; see ropeway explain].
    #[arg(long, value_name = "NAME")]
    algorithm: Option<Algorithm>,
}

impl CollectiveFlags {
    /// The calls of these operations. Each argument that was given has to mean something to one of them.
    pub(super) fn calls(&self, operations: &[Operation], ranks: u32) -> Result<Vec<CollectiveCall>, Failure> {
        let names = || operations.iter().map(Operation::to_string).collect::<Vec<_>>().join(", ");
        let refuse = |why: String| Err(Failure::CannotRun(why));
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
        let call = |&operation| {
            let usual = CollectiveCall::of(operation);
            CollectiveCall {
                operation,
                root: self.root.unwrap_or(usual.root),
                operator: self.op.unwrap_or(usual.operator),
            }
        };
        Ok(operations.iter().map(call).collect())
    }

    /// The algorithm to ask for, if there are nodes that could use it.
    pub(super) fn algorithm(&self, nodes: u32) -> Result<Option<String>, Failure> {
        match &self.algorithm {
            Some(_) if nodes < 2 => Err(Failure::CannotRun(
                "algorithms are for what happens between nodes: add --nodes 2, or leave --algorithm out".into(),
            )),
            algorithm => Ok(algorithm.as_ref().map(Algorithm::to_string)),
        }
    }

    /// Whether anything was said about collectives.
    pub(super) fn is_given(&self) -> bool {
        self.operation.is_some() || self.root.is_some() || self.op.is_some() || self.algorithm.is_some()
    }
}

/// Vectors that are combined consist of whole elements.
pub(super) fn check_sizes(calls: &[CollectiveCall], sizes: &[Size]) -> Result<(), Failure> {
    let combining = calls.iter().find(|call| call.operation.combines());
    match (combining, sizes.iter().find(|size| !size.0.is_multiple_of(ELEMENT_BYTES))) {
        (Some(call), Some(size)) => Err(Failure::CannotRun(format!(
            "{} combines elements of {ELEMENT_BYTES} bytes, and {size} is not a multiple of that",
            call.operation
        ))),
        _ => Ok(()),
    }
}

/// Of floats and integers alike.
const ELEMENT_BYTES: usize = 8;
