//! A collective whose members all live and can reach each other ends each of its rounds well, whatever happens to others. If a
//! member leaves, it takes part in all rounds that it has ended before, however late the others come to them.

use crate::cluster::Cluster;
use crate::history::History;
use crate::participant::Seat;
use crate::workload::collective::CollectivePlan;

/// Checks the property.
pub fn check(history: &History, cluster: &Cluster) -> Result<(), String> {
    for (Seat { collective, me }, participant) in cluster.participants() {
        let plan = &cluster.collectives()[collective];
        let is_hit = plan.dissent.is_some()
            || is_torn(history, plan)
            || history.gave_up.iter().any(|seat| seat.collective == collective);
        if !is_hit && participant.rounds < rounds_before_leaves(history, plan, collective) {
            let (rounds, faults) = (participant.rounds, &history.faults);
            return Err(format!("undisturbed: {me} has ended {rounds} rounds of {plan:?}: {faults:?}"));
        }
    }
    Ok(())
}

/// Whether one of the members has died, or two of their nodes have lost each other.
fn is_torn(history: &History, plan: &CollectivePlan) -> bool {
    let is_within = |(one, other): &(u16, u16)| plan.nodes.contains(one) && plan.nodes.contains(other);
    plan.members.iter().any(|rank| history.faults.failed.contains(rank)) || history.faults.cut.iter().any(is_within)
}

/// Rounds that were over on each node from which a member has left, when it did.
fn rounds_before_leaves(history: &History, plan: &CollectivePlan, collective: usize) -> u32 {
    let gone_after = history.gone_after.iter().filter(|(seat, _)| seat.collective == collective);
    gone_after.map(|(_, &rounds)| rounds).min().unwrap_or(plan.rounds)
}
