//! When everybody has freed and received everything, engines keep nothing; and nothing either of ranks that are gone.

use ropeway_engine::Leftovers;

use crate::cluster::Cluster;

/// Checks the property.
///
/// After faults, messages may lie unasked for until their receiver has left; so only what is left then counts.
pub fn check(cluster: &Cluster) -> Result<(), String> {
    let (when_done, when_left) = cluster.leftovers();
    let is_clean = |leftovers: &[Leftovers]| leftovers.iter().all(|left| *left == Leftovers::default());
    if !cluster.has_faults() && !is_clean(when_done) {
        return Err(format!("nothing left over: when all clients were done: {when_done:?}"));
    }
    if !is_clean(when_left) {
        return Err(format!("nothing left over: when all clients had left: {when_left:?}"));
    }
    if cluster.stashes() > 0 {
        return Err(format!("nothing left over: {} stashed payloads that no engine knows", cluster.stashes()));
    }
    Ok(())
}
