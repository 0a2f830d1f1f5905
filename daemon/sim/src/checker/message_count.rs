//! A round sends as many messages as its schedules have sends and signals.

use crate::cluster::Cluster;
use crate::workload::Program;

/// Checks the property for so many messages, if nothing is sent but for collectives that run to their ends.
pub fn check(cluster: &Cluster, sent: u64) -> Result<(), String> {
    let is_idle =
        |program: &Program| program.channels.is_empty() && program.outboxes.is_empty() && program.inboxes.is_empty();
    let is_comparable = cluster.programs().iter().all(is_idle)
        && !cluster.has_faults()
        && cluster.collectives().iter().all(|plan| plan.give_up.is_none() && plan.dissent.is_none());
    let expected = cluster.participants().map(|(_, one)| one.sends * u64::from(one.rounds)).sum::<u64>();
    if is_comparable && sent != expected {
        return Err(format!("message count: {sent} instead of {expected} by {:?}", cluster.collectives()));
    }
    Ok(())
}
