//! Which algorithm is best for a shape, and why.

use crate::algorithm::Algorithm;
use crate::algorithms::radices;
use crate::cost::{Cost, CostTable};
use crate::error::BuildError;
use crate::shape::{Collective, Shape};

/// The answer of [`select`].
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The one with the lowest predicted cost.
    pub algorithm: Algorithm,
    /// All that can do it, cheapest first.
    pub candidates: Vec<Candidate>,
    /// All that can't, and why.
    pub refused: Vec<BuildError>,
}

/// An algorithm that can do it.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// With parameters.
    pub algorithm: Algorithm,
    /// What happens on its critical path.
    pub cost: Cost,
    /// How long that takes.
    pub time_ns: f64,
}

/// Chooses the algorithm with the lowest predicted cost, without building anything.
///
/// A pure function: all participants that are told the same choose the same. Ties go to the one named first.
///
/// # Panics
/// Never for a shape that makes sense; see [`Shape::check`].
pub fn select(shape: &Shape, element_bytes: u64, table: &CostTable) -> Choice {
    let mut candidates = Vec::new();
    let mut refused = Vec::new();
    for algorithm in variants(shape, element_bytes, table) {
        match algorithm.check(shape) {
            Ok(()) => candidates.push(predict(shape, algorithm, element_bytes, table)),
            Err(error) => refused.push(error),
        }
    }
    candidates.sort_by(|a, b| a.time_ns.total_cmp(&b.time_ns));
    let algorithm = candidates.first().expect("linear can do everything").algorithm.clone();
    Choice { algorithm, candidates, refused }
}

/// What an algorithm that can do it will cost.
pub fn predict(shape: &Shape, algorithm: Algorithm, element_bytes: u64, table: &CostTable) -> Candidate {
    let cost = algorithm.cost(shape);
    Candidate { time_ns: table.time_ns(&cost, element_bytes), algorithm, cost }
}

/// The algorithms, each with the parameters that are worth a try.
fn variants(shape: &Shape, element_bytes: u64, table: &CostTable) -> Vec<Algorithm> {
    let mut variants = Vec::new();
    for algorithm in Algorithm::all() {
        match algorithm {
            Algorithm::Knomial { radix: 4 } => variants.extend([4, 8].map(|radix| Algorithm::Knomial { radix })),
            Algorithm::StandardExchange { .. } => {
                variants.extend([1, 2, 3, 7].map(|ports| Algorithm::StandardExchange { ports }));
            }
            Algorithm::Bruck { .. } => variants.extend([1, 2, 3].map(|ports| Algorithm::Bruck { ports })),
            Algorithm::Dissemination { .. } => {
                variants.extend([1, 2, 3].map(|ports| Algorithm::Dissemination { ports }));
            }
            Algorithm::Cayley { .. } => variants.extend([3, 4].map(|degree| Algorithm::Cayley { degree })),
            Algorithm::RadixK { .. } => variants.push(Algorithm::RadixK { radices: radices(shape.size.max(1)) }),
            Algorithm::LinearPipeline { .. } => {
                let segments = segments(shape, shape.size.saturating_sub(1), element_bytes, table);
                variants.push(Algorithm::LinearPipeline { segments });
            }
            Algorithm::PipelinedTree { .. } => {
                let segments = segments(shape, shape.size.max(1).ilog2() + 1, element_bytes, table);
                variants.push(Algorithm::PipelinedTree { segments });
            }
            // They depend on who lives where, which a shape does not tell: somebody who knows can ask for them.
            Algorithm::Multileader { .. } | Algorithm::Multigroup { .. } => {}
            other => variants.push(other),
        }
    }
    variants
}

fn segments(shape: &Shape, hops: u32, element_bytes: u64, table: &CostTable) -> u32 {
    match shape.collective {
        Collective::Bcast { count, .. } => table.segments(hops, count, element_bytes, false),
        Collective::Reduce { count, .. } | Collective::Allreduce { count, .. } | Collective::Scan { count, .. } => {
            table.segments(hops, count, element_bytes, true)
        }
        _ => 1,
    }
}
