//! A collective of which a participant means something else fails for no other reason, unless somebody gives up or something
//! else breaks.

use ropeway_proto::Status;

use crate::history::History;
use crate::workload::collective::CollectivePlan;

/// Checks the property.
pub fn check(history: &History, collectives: &[CollectivePlan]) -> Result<(), String> {
    let faults = &history.faults;
    if !(faults.failed.is_empty() && faults.left.is_empty() && faults.cut.is_empty()) {
        return Ok(());
    }
    let of_rounds = history.rounds.iter().flat_map(|(seat, rounds)| rounds.iter().map(|round| (*seat, round)));
    let ends = of_rounds.filter_map(|(seat, round)| Some((seat, round.end.as_ref()?.failure?)));
    for (seat, failure) in ends.chain(history.failures.iter().copied()) {
        let plan = &collectives[seat.collective];
        if plan.dissent.is_some() && plan.give_up.is_none() && failure.status != Status::Mismatch {
            return Err(format!("agreement: {seat:?} is told of {failure:?} in {plan:?}"));
        }
    }
    Ok(())
}
