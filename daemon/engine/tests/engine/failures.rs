//! Ranks and links that are gone: nobody waits for ever, and everybody learns the cause.

use ropeway_engine::RankState;
use ropeway_proto::{Completion, Status};

use crate::cluster::{Cluster, TAG};

const SMALL: u64 = 8;
const LARGE: u64 = 1000;
const SUCCESS: Option<Status> = Some(Status::Success);

fn gone(rank: u32, has_failed: bool) -> Option<Completion> {
    let status = if has_failed { Status::RankFailed } else { Status::RankLeft };
    Some(Completion { source: rank, ..Completion::bare(status) })
}

fn lost(node: u32) -> Option<Completion> {
    Some(Completion { source: node, ..Completion::bare(Status::PeerLost) })
}

/// Rank 0 waits for rank 1 in every way there is, each on its own slot.
fn wait_in_every_way(cluster: &mut Cluster) -> std::ops::Range<u32> {
    for (slot, bytes) in [(0, SMALL), (1, LARGE)] {
        cluster.init_send(1, slot, 0, bytes);
        cluster.init_recv(0, slot, 1, bytes);
        cluster.start(0, slot);
    }
    cluster.init_send(0, 2, 1, LARGE);
    cluster.init_recv(1, 2, 0, LARGE);
    cluster.start(0, 2);
    cluster.init_send(0, 3, 1, SMALL);
    cluster.start(0, 3); // Never bound.
    cluster.settle();
    cluster.init_recv(0, 4, 1, SMALL);
    cluster.start(0, 4); // Never bound either.
    cluster.recv(0, 5, (Some(1), Some(TAG)), SMALL);
    cluster.recv(0, 6, (Some(1), None), SMALL);
    cluster.probe(0, 7, (Some(1), Some(TAG + 1)), true);
    cluster.send(0, 8, 1, TAG, LARGE);
    cluster.init_recv(0, 9, 1, LARGE);
    cluster.start(0, 9);
    cluster.settle();
    0..10
}

#[test]
fn everyone_waiting_for_a_rank_that_is_gone_gets_its_name() {
    for nodes in [&[1, 2][..], &[3], &[1, 1, 1], &[2, 1]] {
        for has_failed in [true, false] {
            let mut cluster = Cluster::new(nodes);
            let slots = wait_in_every_way(&mut cluster);
            cluster.recv(2, 0, (Some(1), None), SMALL);
            cluster.recv(2, 1, (Some(0), None), SMALL);
            cluster.end_client(1, has_failed);
            cluster.settle();
            for slot in slots {
                assert_eq!(cluster.outcome(0, slot), gone(1, has_failed), "slot {slot} of {nodes:?}");
            }
            assert_eq!(cluster.outcome(2, 0), gone(1, has_failed));
            assert_eq!(cluster.outcome(2, 1), None, "rank 0 lives");
            cluster.send(0, 20, 2, TAG, SMALL);
            cluster.settle();
            assert_eq!(cluster.status(2, 1), SUCCESS);
            let expected = if has_failed { RankState::Failed } else { RankState::Left };
            assert!(cluster.engines.iter().all(|engine| engine.rank_state(1) == expected));
        }
    }
}

#[test]
fn whoever_comes_later_gets_its_name_at_once() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.init_recv(0, 1, 1, SMALL);
    cluster.init_send(0, 2, 1, SMALL);
    cluster.end_client(1, true);
    cluster.settle();
    for slot in 0..3 {
        cluster.start(0, slot);
        assert_eq!(cluster.outcome(0, slot), gone(1, true));
    }
    cluster.send(0, 3, 1, TAG, SMALL);
    cluster.recv(0, 4, (Some(1), None), SMALL);
    cluster.probe(0, 5, (Some(1), None), false);
    cluster.recv(0, 6, (None, None), SMALL);
    for slot in 3..7 {
        assert_eq!(cluster.outcome(0, slot), gone(1, true));
    }
    cluster.init_send(0, 7, 1, SMALL);
    cluster.init_recv(0, 8, 1, SMALL);
    for slot in [0, 1, 2, 7, 8] {
        cluster.free(0, slot);
        assert_eq!(cluster.status(0, slot), Some(Status::Freed));
    }
    cluster.settle();
    cluster.assert_nothing_left();
}

#[test]
fn messages_sent_before_are_still_delivered() {
    for nodes in [&[1, 1][..], &[2]] {
        for has_failed in [true, false] {
            let mut cluster = Cluster::new(nodes);
            cluster.channel(SMALL);
            let own = nodes.len() as u16 - 1;
            cluster.hold(0, own, true);
            cluster.start(0, 0);
            cluster.send(0, 1, 1, TAG, SMALL);
            cluster.settle();
            cluster.end_client(0, has_failed);
            cluster.start(1, 0);
            cluster.recv(1, 1, (Some(0), None), SMALL);
            cluster.settle();
            assert_eq!((cluster.status(1, 0), cluster.status(1, 1)), (None, None));
            cluster.hold(0, own, false);
            cluster.settle();
            assert_eq!((cluster.status(1, 0), cluster.status(1, 1)), (SUCCESS, SUCCESS), "{nodes:?}");
            cluster.start(1, 0);
            assert_eq!(cluster.outcome(1, 0), gone(0, has_failed));
        }
    }
}

#[test]
fn stashed_messages_of_a_rank_that_is_gone_are_still_received() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.start(0, 0);
    cluster.send(0, 1, 1, TAG, SMALL);
    cluster.send(0, 2, 1, TAG, LARGE);
    cluster.settle();
    cluster.end_client(0, true);
    cluster.settle();
    cluster.start(1, 0);
    cluster.recv(1, 1, (None, None), SMALL);
    cluster.recv(1, 2, (Some(0), None), LARGE);
    assert_eq!((cluster.status(1, 0), cluster.status(1, 1)), (SUCCESS, SUCCESS));
    assert_eq!(cluster.outcome(1, 2), gone(0, true), "what was only announced went with it");
}

#[test]
fn a_large_message_that_was_half_sent_ends_with_its_sender() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.start(1, 0);
    cluster.settle();
    cluster.stop(0, 1, true);
    cluster.start(0, 0);
    cluster.transmit(0, 1);
    cluster.transmit(0, 1);
    cluster.end_client(0, true);
    cluster.stop(0, 1, false);
    cluster.settle();
    assert_eq!(cluster.outcome(1, 0), gone(0, true));
    cluster.free(1, 0);
    cluster.assert_nothing_left();
}

#[test]
fn a_large_message_ends_with_its_receiver() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.start(1, 0);
    cluster.settle();
    cluster.stop(0, 1, true);
    cluster.start(0, 0);
    cluster.transmit(0, 1);
    cluster.end_client(1, true);
    cluster.stop(0, 1, false);
    cluster.settle();
    assert!([SUCCESS, Some(Status::RankFailed)].contains(&cluster.status(0, 0)));
    cluster.free(0, 0);
    cluster.assert_nothing_left();
}

#[test]
fn a_failure_ends_receives_from_any_source() {
    let mut cluster = Cluster::new(&[1, 1, 1]);
    cluster.recv(0, 0, (None, None), SMALL);
    cluster.probe(0, 1, (None, Some(TAG)), true);
    cluster.end_client(1, true);
    cluster.settle();
    assert_eq!(cluster.outcome(0, 0), gone(1, true));
    assert_eq!(cluster.outcome(0, 1), gone(1, true));
    cluster.recv(0, 2, (None, None), SMALL);
    assert_eq!(cluster.outcome(0, 2), None, "whoever knows of the failure may still wait for the others");
    cluster.send(2, 0, 0, TAG, SMALL);
    cluster.settle();
    assert_eq!(cluster.status(0, 2), SUCCESS);
}

#[test]
fn a_rank_that_leaves_ends_receives_from_any_source_only_if_it_was_the_last() {
    let mut cluster = Cluster::new(&[1, 1, 1]);
    cluster.recv(0, 0, (None, None), SMALL);
    cluster.end_client(1, false);
    cluster.settle();
    assert_eq!(cluster.outcome(0, 0), None);
    cluster.end_client(2, false);
    cluster.settle();
    assert_eq!(cluster.outcome(0, 0), gone(2, false));
}

#[test]
fn everyone_waiting_for_a_lost_node_gets_its_name() {
    let mut cluster = Cluster::new(&[1, 1, 1]);
    let slots = wait_in_every_way(&mut cluster);
    cluster.recv(0, 10, (None, None), SMALL);
    cluster.recv(0, 11, (Some(2), None), SMALL);
    cluster.cut(0, 1);
    cluster.settle();
    for slot in slots.chain([10]) {
        assert_eq!(cluster.outcome(0, slot), lost(1), "slot {slot}");
    }
    assert_eq!(cluster.outcome(0, 11), None, "rank 2 is still there");
    cluster.send(0, 12, 1, TAG, SMALL);
    assert_eq!(cluster.outcome(0, 12), lost(1));
    cluster.send(2, 0, 0, TAG, SMALL);
    cluster.settle();
    assert_eq!(cluster.status(0, 11), SUCCESS);
    for slot in [0, 1, 2, 3, 4, 9] {
        cluster.free(0, slot);
        assert_eq!(cluster.status(0, slot), Some(Status::Freed));
    }
    assert_eq!(cluster.engines[0].leftovers(), ropeway_engine::Leftovers::default());
}

#[test]
fn a_link_is_lost_once() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.start(1, 0);
    cluster.cut(0, 1);
    cluster.cut(0, 1);
    assert_eq!(cluster.outcome(1, 0), lost(0));
}

#[test]
fn what_has_arrived_before_the_link_broke_is_still_received() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.start(0, 0);
    cluster.send(0, 1, 1, TAG, SMALL);
    cluster.settle();
    cluster.cut(0, 1);
    cluster.start(1, 0);
    cluster.recv(1, 1, (Some(0), Some(TAG)), SMALL);
    assert_eq!((cluster.status(1, 0), cluster.status(1, 1)), (SUCCESS, SUCCESS));
    cluster.start(1, 0);
    assert_eq!(cluster.outcome(1, 0), lost(0));
}

#[test]
fn a_link_that_breaks_in_the_middle_of_a_payload_fails_its_receive() {
    for bytes in [SMALL, LARGE] {
        let mut cluster = Cluster::pair();
        cluster.channel(bytes);
        cluster.start(1, 0);
        cluster.settle();
        cluster.hold(0, 1, true);
        cluster.start(0, 0);
        cluster.settle();
        cluster.deliver_header(0, 1);
        cluster.cut(0, 1);
        assert_eq!(cluster.outcome(1, 0), lost(0));
    }
}

/// A small message, persistent or one-shot, whose payload is on its way into the stash.
fn half_stashed(is_persistent: bool) -> Cluster {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.hold(0, 1, true);
    if is_persistent {
        cluster.start(0, 0);
    } else {
        cluster.send(0, 1, 1, TAG, SMALL);
    }
    cluster.settle();
    cluster.deliver_header(0, 1);
    cluster
}

fn take(cluster: &mut Cluster, is_persistent: bool) -> u32 {
    if is_persistent {
        cluster.start(1, 0);
        0
    } else {
        cluster.recv(1, 1, (Some(0), None), SMALL);
        1
    }
}

#[test]
fn a_link_that_breaks_in_the_middle_of_a_stashed_payload_fails_whoever_takes_it() {
    for is_persistent in [true, false] {
        for is_taken_before in [true, false] {
            let mut cluster = half_stashed(is_persistent);
            if is_taken_before {
                let slot = take(&mut cluster, is_persistent);
                assert_eq!(cluster.outcome(1, slot), None);
                cluster.cut(0, 1);
                assert_eq!(cluster.outcome(1, slot), lost(0));
            } else {
                cluster.cut(0, 1);
                let slot = take(&mut cluster, is_persistent);
                assert_eq!(cluster.outcome(1, slot), lost(0));
            }
            cluster.free(1, 0);
            assert_eq!(cluster.engines[1].leftovers(), ropeway_engine::Leftovers::default());
        }
    }
}

#[test]
fn a_broken_payload_that_nobody_wants_is_dropped() {
    let mut cluster = half_stashed(true);
    cluster.free(1, 0);
    cluster.cut(0, 1);
    assert_eq!(cluster.engines[1].leftovers(), ropeway_engine::Leftovers::default());
}

#[test]
fn a_rank_that_is_gone_leaves_nothing_behind() {
    for nodes in [&[1, 1][..], &[2]] {
        let mut cluster = Cluster::new(nodes);
        wait_in_every_way(&mut cluster);
        cluster.start(1, 0);
        cluster.send(1, 10, 0, TAG + 5, SMALL);
        cluster.send(0, 11, 1, TAG, SMALL);
        cluster.send(1, 12, 0, TAG + 5, LARGE);
        cluster.settle();
        cluster.init_recv(0, 13, 1, SMALL);
        cluster.free(0, 13);
        cluster.end_client(1, true);
        cluster.end_client(0, true);
        cluster.settle();
        cluster.assert_nothing_left();
    }
}

#[test]
fn frames_for_a_rank_that_is_gone_are_dropped() {
    for nodes in [&[1, 1][..], &[2]] {
        let mut cluster = Cluster::new(nodes);
        let own = nodes.len() as u16 - 1;
        cluster.channel(SMALL);
        cluster.hold(0, own, true);
        cluster.start(0, 0);
        cluster.send(0, 1, 1, TAG, SMALL);
        cluster.send(0, 2, 1, TAG, LARGE);
        cluster.init_recv(0, 3, 1, SMALL);
        cluster.settle();
        cluster.end_client(1, true);
        cluster.hold(0, own, false);
        cluster.settle();
        assert_eq!(cluster.outcome(0, 2), gone(1, true));
        cluster.free(0, 0);
        cluster.free(0, 3);
        cluster.settle();
        cluster.assert_nothing_left();
    }
}

#[test]
fn a_copy_out_of_the_stash_outlives_its_sender() {
    for is_cut in [true, false] {
        let mut cluster = Cluster::pair();
        cluster.channel(SMALL);
        cluster.fill(0, 0, 5);
        cluster.start(0, 0);
        cluster.settle();
        cluster.slow_copies = Some(Vec::new());
        cluster.start(1, 0);
        if is_cut {
            cluster.cut(0, 1);
        } else {
            cluster.end_client(0, true);
        }
        cluster.settle();
        assert_eq!(cluster.status(1, 0), None);
        cluster.finish_copies();
        assert_eq!(cluster.status(1, 0), SUCCESS);
        assert_eq!(cluster.bytes(1, 0, 1), [5]);
    }
}

#[test]
fn a_copy_out_of_the_stash_outlives_its_receiver_and_leaves_nothing() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.start(0, 0);
    cluster.settle();
    cluster.slow_copies = Some(Vec::new());
    cluster.start(1, 0);
    cluster.end_client(1, true);
    cluster.settle();
    cluster.finish_copies();
    cluster.free(0, 0);
    cluster.assert_nothing_left();
}
