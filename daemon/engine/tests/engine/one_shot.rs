//! One-shot messages: eager under the pair's credit, announced beyond.

use ropeway_proto::{Completion, Frame, Status};

use crate::cluster::{Cluster, EAGER_BYTES, TAG};

const SMALL: u64 = 8;
const LARGE: u64 = 1000;
const SUCCESS: Option<Status> = Some(Status::Success);

fn received(bytes: u64) -> Option<Completion> {
    Some(Completion { status: Status::Success, source: 0, tag: TAG, bytes })
}

#[test]
fn a_message_finds_its_receive_whoever_comes_first() {
    for bytes in [0, SMALL, EAGER_BYTES, LARGE] {
        for is_early in [false, true] {
            let mut cluster = Cluster::pair();
            cluster.fill(0, 0, 3);
            if is_early {
                cluster.send(0, 0, 1, TAG, bytes);
                cluster.settle();
            }
            cluster.recv(1, 0, (Some(0), Some(TAG)), LARGE);
            if !is_early {
                cluster.settle();
                cluster.send(0, 0, 1, TAG, bytes);
            }
            cluster.settle();
            assert_eq!(cluster.status(0, 0), SUCCESS);
            assert_eq!(cluster.outcome(1, 0), received(bytes));
            assert_eq!(cluster.bytes(1, 0, bytes as usize), vec![3; bytes as usize]);
            assert_eq!(cluster.copies, usize::from(is_early && bytes <= EAGER_BYTES));
            cluster.assert_nothing_left();
        }
    }
}

#[test]
fn a_message_taken_while_its_payload_arrives_is_copied_when_it_is_here() {
    let mut cluster = Cluster::pair();
    cluster.hold(0, 1, true);
    cluster.fill(0, 0, 3);
    cluster.send(0, 0, 1, TAG, SMALL);
    cluster.settle();
    cluster.deliver_header(0, 1);
    cluster.recv(1, 0, (None, None), SMALL);
    assert_eq!(cluster.outcome(1, 0), None);
    cluster.deliver_payload(0, 1);
    assert_eq!(cluster.outcome(1, 0), received(SMALL));
    cluster.assert_nothing_left();
}

#[test]
fn small_messages_without_credit_are_announced() {
    let mut cluster = Cluster::configured(&[1, 1], |config| config.pair_credits = 2);
    for slot in 0..5 {
        cluster.fill(0, slot, slot as u8);
        cluster.send(0, slot, 1, TAG, if slot == 4 { 0 } else { SMALL });
    }
    cluster.settle();
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Message { .. })), 2);
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Announce { .. })), 3);
    assert_eq!((cluster.status(0, 1), cluster.status(0, 2)), (SUCCESS, None));
    for slot in 0..5 {
        cluster.recv(1, slot, (None, None), SMALL);
        cluster.settle();
        assert_eq!(cluster.outcome(1, slot), received(if slot == 4 { 0 } else { SMALL }));
        assert_eq!(cluster.bytes(1, slot, 1), [if slot == 4 { 0 } else { slot as u8 }]);
        assert_eq!(cluster.status(0, slot), SUCCESS);
    }
    cluster.assert_nothing_left();
}

#[test]
fn credits_of_a_pair_return_when_messages_are_taken() {
    let mut cluster = Cluster::configured(&[1, 1], |config| config.pair_credits = 3);
    for round in 0..10 {
        cluster.send(0, 0, 1, TAG, SMALL);
        cluster.recv(1, 0, (Some(0), None), SMALL);
        cluster.settle();
        assert_eq!(cluster.outcome(1, 0), received(SMALL), "round {round}");
    }
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Announce { .. })), 0);
}

#[test]
fn messages_of_one_sender_do_not_overtake_each_other() {
    let mut cluster = Cluster::pair();
    for (slot, bytes) in [LARGE, SMALL, LARGE, 0].into_iter().enumerate() {
        cluster.fill(0, slot as u32, slot as u8 + 1);
        cluster.send(0, slot as u32, 1, TAG, bytes);
    }
    cluster.settle();
    for (slot, bytes) in [LARGE, SMALL, LARGE, 0].into_iter().enumerate() {
        cluster.recv(1, slot as u32, (None, None), LARGE);
        cluster.settle();
        assert_eq!(cluster.outcome(1, slot as u32), received(bytes));
    }
    cluster.assert_nothing_left();
}

#[test]
fn a_message_too_long_is_truncated() {
    for (bytes, is_early) in [(SMALL, false), (SMALL, true), (LARGE, false), (LARGE, true)] {
        let mut cluster = Cluster::pair();
        cluster.fill(0, 0, 3);
        let ranks = if is_early { [0, 1] } else { [1, 0] };
        for rank in ranks {
            match rank {
                0 => cluster.send(0, 0, 1, TAG, bytes),
                _ => cluster.recv(1, 0, (Some(0), Some(TAG)), bytes - 1),
            }
            cluster.settle();
        }
        let truncated = Completion { status: Status::Truncated, ..received(bytes).unwrap() };
        assert_eq!(cluster.outcome(1, 0), Some(truncated), "{bytes} bytes, early: {is_early}");
        assert_eq!(cluster.status(0, 0), SUCCESS);
        assert_eq!(cluster.bytes(1, 0, bytes as usize)[bytes as usize - 1], 0, "not a byte behind the buffer");
        cluster.assert_nothing_left();
    }
}

#[test]
fn a_rank_sends_to_itself() {
    for bytes in [0, SMALL, LARGE] {
        let mut cluster = Cluster::new(&[1]);
        cluster.fill(0, 0, 4);
        cluster.send(0, 0, 0, TAG, bytes);
        cluster.recv(0, 1, (Some(0), Some(TAG)), bytes);
        cluster.settle();
        assert_eq!(cluster.outcome(0, 1), received(bytes));
        assert_eq!(cluster.bytes(0, 1, bytes as usize), vec![4; bytes as usize]);
        cluster.recv(0, 1, (None, None), bytes);
        cluster.settle();
        cluster.send(0, 0, 0, TAG, bytes);
        cluster.settle();
        assert_eq!(cluster.outcome(0, 1), received(bytes), "a wildcard of a job of one is not hopeless");
    }
}

#[test]
fn a_probe_finds_a_message_and_leaves_it() {
    for bytes in [SMALL, LARGE] {
        let mut cluster = Cluster::pair();
        cluster.probe(1, 0, (None, None), false);
        assert_eq!(cluster.status(1, 0), Some(Status::NotFound));
        cluster.send(0, 0, 1, TAG, bytes);
        cluster.settle();
        for slot in 0..2 {
            cluster.probe(1, slot, (Some(0), None), slot == 0);
            assert_eq!(cluster.outcome(1, slot), received(bytes));
        }
        cluster.probe(1, 0, (None, Some(TAG + 1)), false);
        assert_eq!(cluster.status(1, 0), Some(Status::NotFound));
        cluster.recv(1, 0, (None, None), bytes);
        cluster.settle();
        assert_eq!(cluster.outcome(1, 0), received(bytes));
        cluster.assert_nothing_left();
    }
}

#[test]
fn waiting_probes_are_woken_by_the_message_they_ask_for_and_no_other() {
    let mut cluster = Cluster::pair();
    cluster.probe(1, 0, (None, Some(TAG)), true);
    cluster.probe(1, 1, (Some(0), None), true);
    cluster.probe(1, 2, (Some(1), None), true);
    cluster.send(0, 0, 1, TAG + 1, SMALL);
    cluster.settle();
    assert_eq!((cluster.status(1, 0), cluster.status(1, 1)), (None, SUCCESS));
    cluster.send(0, 1, 1, TAG, SMALL);
    cluster.settle();
    assert_eq!(cluster.outcome(1, 0), received(SMALL));
    assert_eq!(cluster.status(1, 2), None);
}

#[test]
fn a_message_that_a_receive_waits_for_wakes_no_probe() {
    let mut cluster = Cluster::pair();
    cluster.probe(1, 0, (None, None), true);
    cluster.recv(1, 1, (None, None), SMALL);
    cluster.send(0, 0, 1, TAG, SMALL);
    cluster.settle();
    assert_eq!((cluster.status(1, 0), cluster.status(1, 1)), (None, SUCCESS));
}

#[test]
fn persistent_and_one_shot_messages_do_not_meet() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.recv(1, 1, (None, None), SMALL);
    cluster.start(0, 0);
    cluster.settle();
    assert_eq!(cluster.status(1, 1), None);
    cluster.start(1, 0);
    cluster.send(0, 1, 1, TAG, SMALL);
    cluster.settle();
    assert_eq!((cluster.status(1, 0), cluster.status(1, 1)), (SUCCESS, SUCCESS));
}
