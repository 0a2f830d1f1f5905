//! Every operation and every round of a collective ends, whatever happens to the others.

use crate::cluster::Cluster;

/// Checks the property.
pub fn check(cluster: &Cluster) -> Result<(), String> {
    let mut waiting: Vec<_> = cluster.clients().filter_map(|client| client.waits_for()).collect();
    let participants = cluster.participants().filter_map(|(seat, one)| Some((seat, one.waits_for()?)));
    waiting.extend(
        participants.map(|(seat, what)| format!("{seat:?}: {what} of {:?}", cluster.collectives()[seat.collective])),
    );
    if waiting.is_empty() {
        Ok(())
    } else {
        Err(format!("terminates: nothing happens any more:\n{}", waiting.join("\n")))
    }
}
