//! Every round that ends well has given each participant what the operation is defined to give.

use ropeway_schedule::check::reference::Results;

use crate::history::{History, Round};
use crate::participant::{Seat, stands_for};
use crate::workload::collective::CollectivePlan;

/// Checks the property. Participants themselves see whether their rounds touch what is not theirs.
pub fn check(history: &History, collectives: &[CollectivePlan]) -> Result<(), String> {
    let agreed = collectives.iter().enumerate().filter(|(_, plan)| plan.dissent.is_none());
    for (collective, plan) in agreed {
        for round in 0..plan.rounds {
            let results = Results::new(&plan.shape, round.into());
            for me in 0..plan.shape.size {
                let found = history.rounds.get(&Seat { collective, me }).and_then(|rounds| rounds.get(round as usize));
                let Some(output) = found.and_then(output) else { continue };
                let elements: Vec<_> = output.chunks(plan.element_bytes as usize).collect();
                for (element, value) in results.of(me) {
                    if !stands_for(elements[element as usize], value) {
                        return Err(format!("right results: element {element} of {me} in round {round} of {plan:?}"));
                    }
                }
            }
        }
    }
    Ok(())
}

/// The output of a round that has ended well.
fn output(round: &Round) -> Option<&[u8]> {
    let end = round.end.as_ref()?;
    end.failure.is_none().then_some(&end.output)
}
