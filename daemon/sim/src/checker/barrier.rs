//! Nobody gets past a barrier before everybody has come.

use ropeway_schedule::Collective;

use crate::history::History;
use crate::participant::Seat;
use crate::workload::collective::CollectivePlan;

/// Checks the property.
pub fn check(history: &History, collectives: &[CollectivePlan]) -> Result<(), String> {
    let is_barrier = |plan: &CollectivePlan| plan.shape.collective == Collective::Barrier && plan.dissent.is_none();
    let barriers = collectives.iter().enumerate().filter(|(_, plan)| is_barrier(plan));
    for (collective, plan) in barriers {
        let rounds_of = |me| history.rounds.get(&Seat { collective, me }).map_or(&[][..], Vec::as_slice);
        for (me, other) in (0..plan.shape.size).flat_map(|me| (0..plan.shape.size).map(move |other| (me, other))) {
            for (index, round) in rounds_of(me).iter().enumerate() {
                let Some(end) = round.end.as_ref().filter(|end| end.failure.is_none()) else { continue };
                if rounds_of(other).get(index).is_none_or(|others| others.began > end.at) {
                    return Err(format!("barrier: {me} is past round {index} of {plan:?}, and {other} has not come"));
                }
            }
        }
    }
    Ok(())
}
