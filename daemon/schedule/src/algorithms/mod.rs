//! The generators, one a file. Each says what it can do, what it costs, and what a participant does.

mod bruck;
mod cayley;
mod dissemination;
mod knomial;
mod leaders;
mod linear;
mod linear_pipeline;
mod pairwise;
mod pipelined_tree;
mod radix_k;
mod recursive_doubling;
mod recursive_halving;
mod ring;
mod scatter_allgather;
mod standard_exchange;

pub(crate) use bruck::Bruck;
pub(crate) use cayley::Cayley;
pub(crate) use dissemination::Dissemination;
pub(crate) use knomial::Knomial;
pub(crate) use leaders::{Multigroup, Multileader};
pub(crate) use linear::Linear;
pub(crate) use linear_pipeline::LinearPipeline;
pub(crate) use pairwise::Pairwise;
pub(crate) use pipelined_tree::PipelinedTree;
pub(crate) use radix_k::{RadixK, radices};
pub(crate) use recursive_doubling::RecursiveDoubling;
pub(crate) use recursive_halving::RecursiveHalving;
pub(crate) use ring::Ring;
pub(crate) use scatter_allgather::ScatterAllgather;
pub(crate) use standard_exchange::StandardExchange;

use crate::builder::Builder;
use crate::cost::Cost;
use crate::error::Unsuitable;
use crate::shape::{Order, Shape};

/// An algorithm, with its parameters.
pub(crate) trait Generator {
    /// Whether it can do this; the shape itself is fine.
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable>;

    /// Writes down what the builder's participant does, for a shape that suits.
    fn build(&self, builder: &mut Builder);

    /// What it costs between at least two participants, for a shape that suits: by the closed form of its source.
    fn cost(&self, shape: &Shape) -> Cost;
}

/// For those that combine operands in rank order, but grouped as it comes.
fn grouped(order: Order) -> Result<(), Unsuitable> {
    if order == Order::Fixed { Err(Unsuitable::NoFixedOrder) } else { Ok(()) }
}

/// For those that combine operands as they come.
fn commutative(order: Order) -> Result<(), Unsuitable> {
    grouped(order)?;
    if order == Order::Rank { Err(Unsuitable::NeedsCommutative) } else { Ok(()) }
}

/// ⌈log2 size⌉.
fn log2(size: u32) -> f64 {
    f64::from(crate::patterns::digits_needed(2, size))
}

/// (size−1)/size: the part of a vector that is others'.
fn foreign(size: u32) -> f64 {
    f64::from(size - 1) / f64::from(size)
}
