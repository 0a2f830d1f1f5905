//! Every operation ends, whatever happens to the others.

use crate::cluster::Cluster;

/// Checks the property.
pub fn check(cluster: &Cluster) -> Result<(), String> {
    let waiting: Vec<_> = cluster.clients().filter_map(|client| client.waits_for()).collect();
    if waiting.is_empty() {
        Ok(())
    } else {
        Err(format!("terminates: nothing happens any more:\n{}", waiting.join("\n")))
    }
}
