//! Errors are about what is truly gone, and name it.

use ropeway_proto::control::JobSpec;
use ropeway_proto::{Rank, Status};

use crate::history::{Ended, History};

/// Checks the property.
pub fn check(history: &History, spec: &JobSpec) -> Result<(), String> {
    match history.ended.iter().find(|ended| !is_true(history, spec, ended)) {
        None => Ok(()),
        Some(ended) => Err(format!("truthful: {ended:?} does not say what happened: {:?}", history.faults)),
    }
}

fn is_true(history: &History, spec: &JobSpec, ended: &Ended) -> bool {
    let Ended { rank, peer, stream, was_cancelled, completion } = *ended;
    let node_of = |rank: Rank| spec.node_of(rank).expect("a rank of the job").0;
    let named = completion.source;
    let is_about_peer = peer.is_none_or(|peer| peer == named);
    match completion.status {
        Status::Cancelled => was_cancelled,
        Status::PeerFreed => stream.is_some_and(|stream| history.given_up.contains(&stream)),
        Status::RankFailed => is_about_peer && history.faults.failed.contains(&named),
        // Also of a receive from anybody: it may have accepted a message of the named rank.
        Status::RankLeft => is_about_peer && history.faults.left.contains(&named),
        Status::PeerLost => {
            peer.is_none_or(|peer| u32::from(node_of(peer)) == named)
                && history.faults.cut.contains(&(node_of(rank), named as u16))
        }
        _ => false,
    }
}
