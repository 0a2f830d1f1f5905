//! Which algorithm is best for a shape, and why.

use crate::algorithm::Algorithm;
use crate::algorithms::Question;
use crate::cost::{Cost, CostTable};
use crate::error::BuildError;
use crate::shape::Shape;

/// The answer of [`select`].
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Of those that are predicted to be about as fast as any, the one with the fewest messages for a processor to handle.
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

/// Chooses an algorithm by its predicted cost, without building anything.
///
/// Predictions are not so good that a few percent mean anything. Of algorithms that are about as fast the one is chosen that takes the least of
/// processors, on which programs compute meanwhile, and has the fewest messages converge on a participant.
///
/// A pure function: all participants that are told the same choose the same. Ties go to the one named first.
///
/// # Panics
/// Never for a shape that makes sense; see [`Shape::check`].
pub fn select(shape: &Shape, element_bytes: u64, table: &CostTable) -> Choice {
    let mut candidates = Vec::new();
    let mut refused = Vec::new();
    for algorithm in Algorithm::worth_a_try(&Question { shape, element_bytes, table }) {
        match algorithm.check(shape) {
            Ok(()) => candidates.push(predict(shape, algorithm, element_bytes, table)),
            Err(error) => refused.push(error),
        }
    }
    candidates.sort_by(|a, b| a.time_ns.total_cmp(&b.time_ns));
    let algorithm = lightest_of_the_fastest(&candidates).expect("linear can do everything").algorithm.clone();
    Choice { algorithm, candidates, refused }
}

/// Of candidates, cheapest first.
fn lightest_of_the_fastest(candidates: &[Candidate]) -> Option<&Candidate> {
    let limit = candidates.first()?.time_ns * ABOUT_AS_FAST;
    let fastest = candidates.iter().take_while(|candidate| candidate.time_ns <= limit);
    fastest.min_by(|a, b| a.cost.handled().total_cmp(&b.cost.handled()))
}

/// Less than predictions are off.
const ABOUT_AS_FAST: f64 = 1.1;

/// What an algorithm that can do it will cost.
pub fn predict(shape: &Shape, algorithm: Algorithm, element_bytes: u64, table: &CostTable) -> Candidate {
    let cost = algorithm.cost(shape);
    Candidate { time_ns: table.time_ns(&cost, element_bytes), algorithm, cost }
}
