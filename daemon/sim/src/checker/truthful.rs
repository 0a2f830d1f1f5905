//! Errors are about what is truly gone, and name it.

use ropeway_proto::control::JobSpec;
use ropeway_proto::{Completion, NodeId, Rank, Status};

use crate::history::{Ended, History};
use crate::participant::Seat;
use crate::workload::collective::CollectivePlan;

/// Checks the property for messages.
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
        Status::PeerFreed => is_about_peer && stream.is_some_and(|stream| history.given_up.contains(&stream)),
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

/// Checks the property for collectives.
pub fn check_collectives(history: &History, spec: &JobSpec, collectives: &[CollectivePlan]) -> Result<(), String> {
    let is_false = |(seat, failure): &(Seat, Completion)| {
        let plan = &collectives[seat.collective];
        let differs = || failure.status == Status::Mismatch && differs(plan, spec, *seat, failure.source);
        !is_true_of((history, spec), plan, *seat, failure) && !differs()
    };
    match failures(history).find(is_false) {
        None => Ok(()),
        Some((seat, failure)) => {
            let (plan, faults) = (&collectives[seat.collective], &history.faults);
            Err(format!("truthful: {failure:?} at {seat:?} of {plan:?} does not say what happened: {faults:?}"))
        }
    }
}

/// Who was told of which failures.
fn failures(history: &History) -> impl Iterator<Item = (Seat, Completion)> {
    let ends = history.rounds.iter().flat_map(|(seat, rounds)| rounds.iter().map(|round| (*seat, round.end.as_ref())));
    let of_rounds = ends.filter_map(|(seat, end)| Some((seat, end?.failure?)));
    of_rounds.chain(history.failures.iter().copied())
}

fn is_true_of((history, spec): (&History, &JobSpec), plan: &CollectivePlan, seat: Seat, failure: &Completion) -> bool {
    let named = failure.source;
    match failure.status {
        Status::RankFailed => plan.members.contains(&named) && history.faults.failed.contains(&named),
        Status::RankLeft => plan.members.contains(&named) && history.faults.left.contains(&named),
        Status::PeerLost => {
            plan.nodes.contains(&(named as u16))
                && history.faults.cut.contains(&(plan.nodes[seat.me as usize], named as u16))
        }
        // Its own ranks did, or those of another node.
        Status::PeerFreed => {
            let seat_of = participant_of(plan, spec, named).map(|me| Seat { me, ..seat });
            plan.members.contains(&named) && seat_of.is_some_and(|seat| history.gave_up.contains(&seat))
        }
        // Another node had a reason, or nobody here is left to be told of it.
        Status::NodeGaveUp => history.gone_after.contains_key(&seat) || has_reason(history, plan, seat, named),
        _ => false,
    }
}

/// Whether a rank is a member, and has registered something else than those of a participant.
fn differs(plan: &CollectivePlan, spec: &JobSpec, seat: Seat, rank: Rank) -> bool {
    let other = participant_of(plan, spec, rank);
    plan.members.contains(&rank) && other.is_some_and(|other| plan.digest(other) != plan.digest(seat.me))
}

/// The participant that a rank's node is.
fn participant_of(plan: &CollectivePlan, spec: &JobSpec, rank: Rank) -> Option<u32> {
    let lives_there = |node: u16| spec.ranks_of(NodeId(node)).contains(&rank);
    (0..).zip(&plan.nodes).find(|&(_, &node)| lives_there(node)).map(|(me, _)| me)
}

/// Whether a node, another one, has given up or failed.
fn has_reason(history: &History, plan: &CollectivePlan, seat: Seat, node: u32) -> bool {
    let me = (0..).zip(&plan.nodes).find(|&(_, &other)| u32::from(other) == node).map(|(me, _)| me);
    let Some(other) = me.map(|me| Seat { me, ..seat }).filter(|other| *other != seat) else { return false };
    history.gave_up.contains(&other) || failures(history).any(|(failed, _)| failed == other)
}
