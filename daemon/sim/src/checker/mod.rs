//! What must hold of every run. One property a file.

pub mod agreement;
pub mod barrier;
pub mod exactly_once;
pub mod in_order;
pub mod message_count;
pub mod nothing_left_over;
pub mod right_bytes;
pub mod right_results;
pub mod terminates;
pub mod truthful;
pub mod undisturbed;

use crate::cluster::Cluster;

/// Checks everything; says what does not hold.
pub fn check(cluster: &Cluster) -> Result<(), String> {
    let history = cluster.history();
    terminates::check(cluster)?;
    right_bytes::check(history)?;
    exactly_once::check(history, cluster.nodes())?;
    in_order::check(history)?;
    truthful::check(history, cluster.nodes())?;
    right_results::check(history, cluster.collectives())?;
    barrier::check(history, cluster.collectives())?;
    truthful::check_collectives(history, cluster.nodes(), cluster.collectives())?;
    agreement::check(history, cluster.collectives())?;
    undisturbed::check(history, cluster)?;
    message_count::check(cluster, cluster.messages_sent())?;
    nothing_left_over::check(cluster.has_faults(), cluster.leftovers(), cluster.stashes())
}
