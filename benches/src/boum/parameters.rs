//! The model's parameters, measured by the ranks.

use ropeway::Session;

use crate::computation::Compute;
use crate::pair::Pair;
use crate::record::Side;
use crate::{BenchError, Console, Plan, asynchrony, overhead, overlap};

use super::swaps;

/// `o_s`, `o_i`, `b`, `R`, and what one-shot messages and those of a swap take, of each size; of those that are not empty also what hides and what
/// goes on by itself, while the program uses its core.
pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    for &size in &plan.sizes {
        overhead::parameters((session, pair.as_ref()), console, plan, size.0)?;
        overhead::one_shot(pair.as_ref(), console, plan, size.0)?;
        swaps::run((&session.world(), pair.as_ref()), console, plan, size.0)?;
        if size.0 > 0 {
            overlap::run_messages((session, pair.as_ref()), console, plan, (size.0, Side::Both), &[Compute::Busy])?;
            asynchrony::run_one((session, pair.as_ref()), console, plan, size.0, &[Compute::Busy])?;
        }
    }
    Ok(())
}
