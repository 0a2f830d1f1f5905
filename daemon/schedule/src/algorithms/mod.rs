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

use crate::builder::Builder;
use crate::cost::{Cost, CostTable};
use crate::error::Unsuitable;
use crate::shape::{Order, Shape};

/// All algorithms. Whoever is named first is chosen among those that cost the same.
pub(crate) static KINDS: &[&Kind] = &[
    &linear::KIND,
    &knomial::BINOMIAL,
    &knomial::KNOMIAL,
    &ring::KIND,
    &recursive_doubling::KIND,
    &standard_exchange::KIND,
    &recursive_halving::KIND,
    &radix_k::KIND,
    &bruck::KIND,
    &linear_pipeline::KIND,
    &pipelined_tree::KIND,
    &dissemination::KIND,
    &pairwise::KIND,
    &cayley::KIND,
    &scatter_allgather::KIND,
    &leaders::MULTILEADER,
    &leaders::MULTIGROUP,
];

/// What an algorithm is called, and how it is made: all that others know of it.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// What its parameters are, for people.
    pub(crate) takes: &'static str,
    /// The parameters that the name alone stands for.
    pub(crate) usual: &'static [u32],
    /// Makes it with these parameters. `None` if it does not take them.
    pub(crate) make: fn(&[u32]) -> Option<Box<dyn Generator>>,
    /// The parameters that are worth a try.
    pub(crate) tries: fn(&Question) -> Vec<Vec<u32>>,
}

impl Kind {
    /// One without parameters.
    const fn plain<G: Generator + Default + 'static>(name: &'static str) -> Self {
        Self {
            name,
            takes: "no parameter",
            usual: &[],
            make: |parameters| if parameters.is_empty() { Some(Box::new(G::default())) } else { None },
            tries: |_| vec![Vec::new()],
        }
    }
}

/// What is to be done, and what it costs where it is done.
pub(crate) struct Question<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) element_bytes: u64,
    pub(crate) table: &'a CostTable,
}

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
