//! Cancelling and freeing active requests: in every state, and in every race with the other end.

use ropeway_proto::{Frame, Status};

use crate::cluster::{Cluster, TAG};

const SMALL: u64 = 8;
const LARGE: u64 = 1000;
const CANCELLED: Option<Status> = Some(Status::Cancelled);
const SUCCESS: Option<Status> = Some(Status::Success);

/// Sends and receives once more over a channel that was cancelled on: it must be as good as new.
fn assert_channel_works(cluster: &mut Cluster, bytes: u64) {
    for value in [21, 22] {
        cluster.fill(0, 0, value);
        cluster.start(0, 0);
        cluster.start(1, 0);
        cluster.settle();
        assert_eq!((cluster.status(0, 0), cluster.status(1, 0)), (SUCCESS, SUCCESS));
        assert_eq!(cluster.bytes(1, 0, bytes as usize), vec![value; bytes as usize]);
    }
}

#[test]
fn a_send_that_is_not_bound_can_be_cancelled() {
    for bytes in [SMALL, LARGE] {
        let mut cluster = Cluster::pair();
        cluster.init_send(0, 0, 1, bytes);
        cluster.start(0, 0);
        cluster.cancel(0, 0);
        assert_eq!(cluster.status(0, 0), CANCELLED);
        cluster.init_recv(1, 0, 0, bytes);
        assert_channel_works(&mut cluster, bytes);
    }
}

#[test]
fn a_send_that_waits_for_credit_can_be_cancelled() {
    let mut cluster = Cluster::configured(&[1, 1], |config| config.channel_credits = 1);
    cluster.channel(SMALL);
    cluster.start(0, 0);
    cluster.settle();
    cluster.start(0, 0);
    cluster.cancel(0, 0);
    assert_eq!(cluster.status(0, 0), CANCELLED);
    cluster.start(1, 0);
    cluster.settle();
    assert_channel_works(&mut cluster, SMALL);
}

#[test]
fn a_send_that_waits_for_the_link_can_be_cancelled_and_its_permit_returns() {
    for bytes in [SMALL, LARGE] {
        let mut cluster = Cluster::configured(&[1, 1], |config| config.channel_credits = 1);
        cluster.channel(bytes);
        cluster.start(1, 0);
        cluster.settle();
        for _ in 0..3 {
            cluster.start(0, 0);
            cluster.cancel(0, 0);
            assert_eq!(cluster.status(0, 0), CANCELLED);
        }
        cluster.start(0, 0);
        cluster.settle();
        assert_eq!((cluster.status(0, 0), cluster.status(1, 0)), (SUCCESS, SUCCESS));
        assert_channel_works(&mut cluster, bytes);
    }
}

#[test]
fn a_send_of_which_a_frame_has_left_is_too_late_to_cancel() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.start(1, 0);
    cluster.settle();
    cluster.stop(0, 1, true);
    cluster.start(0, 0);
    cluster.transmit(0, 1);
    cluster.cancel(0, 0);
    assert_eq!(cluster.status(0, 0), None);
    cluster.stop(0, 1, false);
    cluster.settle();
    assert_eq!((cluster.status(0, 0), cluster.status(1, 0)), (SUCCESS, SUCCESS));
}

#[test]
fn an_operation_that_has_ended_is_too_late_to_cancel() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.cancel(0, 0);
    assert_eq!(cluster.status(0, 0), SUCCESS, "the init");
    cluster.start(0, 0);
    cluster.start(1, 0);
    cluster.settle();
    cluster.cancel(0, 0);
    cluster.cancel(1, 0);
    cluster.settle();
    assert_eq!((cluster.status(0, 0), cluster.status(1, 0)), (SUCCESS, SUCCESS));
    cluster.recv(1, 1, (Some(0), Some(TAG)), SMALL);
    cluster.send(0, 1, 1, TAG, SMALL);
    cluster.settle();
    cluster.cancel(1, 1);
    assert_eq!(cluster.status(1, 1), SUCCESS);
}

#[test]
fn a_receive_without_a_message_can_be_cancelled() {
    for bytes in [SMALL, LARGE] {
        let mut cluster = Cluster::pair();
        cluster.init_recv(1, 0, 0, bytes);
        cluster.start(1, 0);
        cluster.cancel(1, 0);
        assert_eq!(cluster.status(1, 0), CANCELLED, "not bound");
        cluster.init_send(0, 0, 1, bytes);
        cluster.settle();
        cluster.start(1, 0);
        cluster.cancel(1, 0);
        cluster.settle();
        assert_eq!(cluster.status(1, 0), CANCELLED, "bound");
        assert_channel_works(&mut cluster, bytes);
    }
}

#[test]
fn a_receive_whose_armed_has_not_left_is_cancelled_at_once() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.stop(1, 0, true);
    cluster.start(1, 0);
    cluster.cancel(1, 0);
    assert_eq!(cluster.status(1, 0), CANCELLED);
    cluster.stop(1, 0, false);
    cluster.settle();
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Armed { .. } | Frame::Disarm { .. })), 0);
    assert_channel_works(&mut cluster, LARGE);
}

#[test]
fn disarm_comes_before_the_send_is_started() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.start(1, 0);
    cluster.settle();
    cluster.cancel(1, 0);
    assert_eq!(cluster.status(1, 0), None, "the sender knows whether it was in time");
    cluster.cancel(1, 0);
    cluster.settle();
    assert_eq!(cluster.status(1, 0), CANCELLED);
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Disarm { .. })), 1);
    assert_channel_works(&mut cluster, LARGE);
}

#[test]
fn disarm_comes_after_the_data_have_left() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.start(1, 0);
    cluster.settle();
    cluster.hold(0, 1, true);
    cluster.start(0, 0);
    cluster.settle();
    cluster.cancel(1, 0);
    cluster.settle();
    assert_eq!(cluster.status(1, 0), None);
    cluster.hold(0, 1, false);
    cluster.settle();
    assert_eq!(cluster.status(1, 0), SUCCESS);
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Disarmed { .. })), 0);
    assert_channel_works(&mut cluster, LARGE);
}

#[test]
fn disarm_comes_while_the_data_wait_for_the_link() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.start(1, 0);
    cluster.settle();
    cluster.stop(0, 1, true);
    cluster.start(0, 0);
    cluster.cancel(1, 0);
    cluster.settle();
    cluster.cancel(0, 0);
    cluster.stop(0, 1, false);
    cluster.settle();
    assert_eq!((cluster.status(0, 0), cluster.status(1, 0)), (CANCELLED, CANCELLED));
    assert_channel_works(&mut cluster, LARGE);
}

#[test]
fn disarmed_data_that_waited_for_the_link_wait_for_the_next_start() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.start(1, 0);
    cluster.settle();
    cluster.stop(0, 1, true);
    cluster.start(0, 0);
    cluster.cancel(1, 0);
    cluster.settle();
    cluster.stop(0, 1, false);
    cluster.settle();
    assert_eq!((cluster.status(0, 0), cluster.status(1, 0)), (None, CANCELLED));
    cluster.start(1, 0);
    cluster.settle();
    assert_eq!((cluster.status(0, 0), cluster.status(1, 0)), (SUCCESS, SUCCESS));
}

#[test]
fn a_posted_receive_can_be_cancelled_and_its_message_goes_to_the_next() {
    let mut cluster = Cluster::pair();
    cluster.recv(1, 0, (None, None), SMALL);
    cluster.recv(1, 1, (Some(0), Some(TAG)), SMALL);
    cluster.cancel(1, 0);
    assert_eq!(cluster.status(1, 0), CANCELLED);
    cluster.send(0, 0, 1, TAG, SMALL);
    cluster.settle();
    assert_eq!(cluster.status(1, 1), SUCCESS);
}

#[test]
fn a_receive_that_has_accepted_is_too_late_to_cancel() {
    let mut cluster = Cluster::pair();
    cluster.recv(1, 0, (None, None), LARGE);
    cluster.send(0, 0, 1, TAG, LARGE);
    cluster.stop(1, 0, true);
    cluster.settle();
    cluster.cancel(1, 0);
    assert_eq!(cluster.status(1, 0), None);
    cluster.stop(1, 0, false);
    cluster.settle();
    assert_eq!((cluster.status(0, 0), cluster.status(1, 0)), (SUCCESS, SUCCESS));
}

#[test]
fn a_message_that_waits_for_the_link_can_be_cancelled_and_its_credit_returns() {
    let mut cluster = Cluster::configured(&[1, 1], |config| config.pair_credits = 2);
    for _ in 0..5 {
        cluster.send(0, 0, 1, TAG, SMALL);
        cluster.cancel(0, 0);
        assert_eq!(cluster.status(0, 0), CANCELLED);
    }
    cluster.send(0, 0, 1, TAG, SMALL);
    cluster.settle();
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Message { .. })), 1);
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Announce { .. })), 0);
}

#[test]
fn an_announcement_that_has_not_left_is_cancelled_at_once() {
    let mut cluster = Cluster::pair();
    cluster.send(0, 0, 1, TAG, LARGE);
    cluster.cancel(0, 0);
    assert_eq!(cluster.status(0, 0), CANCELLED);
    cluster.settle();
    assert!(cluster.sent.is_empty());
    cluster.assert_nothing_left();
}

#[test]
fn withdraw_comes_before_the_match() {
    let mut cluster = Cluster::pair();
    cluster.send(0, 0, 1, TAG, LARGE);
    cluster.settle();
    cluster.cancel(0, 0);
    assert_eq!(cluster.status(0, 0), None, "the receiver's node knows whether it matched");
    cluster.cancel(0, 0);
    cluster.settle();
    assert_eq!(cluster.status(0, 0), CANCELLED);
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Withdraw { .. })), 1, "it is asked once");
    cluster.assert_nothing_left();
}

#[test]
fn withdraw_comes_after_the_match() {
    let mut cluster = Cluster::pair();
    cluster.send(0, 0, 1, TAG, LARGE);
    cluster.settle();
    cluster.hold(1, 0, true);
    cluster.recv(1, 0, (None, None), LARGE);
    cluster.settle();
    cluster.cancel(0, 0);
    cluster.settle();
    assert_eq!(cluster.status(0, 0), None);
    cluster.hold(1, 0, false);
    cluster.settle();
    assert_eq!((cluster.status(0, 0), cluster.status(1, 0)), (SUCCESS, SUCCESS));
    cluster.assert_nothing_left();
}

#[test]
fn a_waiting_probe_can_be_cancelled() {
    let mut cluster = Cluster::pair();
    cluster.probe(1, 0, (None, None), true);
    cluster.cancel(1, 0);
    assert_eq!(cluster.status(1, 0), CANCELLED);
    cluster.send(0, 0, 1, TAG, SMALL);
    cluster.settle();
    assert_eq!(cluster.status(1, 0), CANCELLED);
}

#[test]
fn free_of_an_active_request_cancels_it_first() {
    for bytes in [SMALL, LARGE] {
        for rank in [0, 1] {
            let mut cluster = Cluster::configured(&[1, 1], |config| config.channel_credits = 1);
            cluster.channel(bytes);
            if rank == 0 && bytes == SMALL {
                cluster.start(0, 0);
                cluster.settle();
            }
            let epoch = cluster.start(rank, 0);
            cluster.settle();
            cluster.free(rank, 0);
            cluster.settle();
            assert_eq!(cluster.outcome_of(rank, 0, epoch).unwrap().status, Status::Cancelled);
            assert_eq!(cluster.status(rank, 0), Some(Status::Freed));
            cluster.free(1 - rank, 0);
            cluster.settle();
            cluster.assert_nothing_left();
        }
    }
}

#[test]
fn free_waits_for_data_that_have_been_released() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.fill(0, 0, 2);
    let recv = cluster.start(1, 0);
    cluster.settle();
    cluster.stop(0, 1, true);
    let send = cluster.start(0, 0);
    cluster.transmit(0, 1);
    cluster.free(0, 0);
    cluster.free(1, 0);
    assert_eq!((cluster.status(0, 0), cluster.status(1, 0)), (None, None));
    cluster.stop(0, 1, false);
    cluster.settle();
    assert_eq!(cluster.outcome_of(0, 0, send).unwrap().status, Status::Success);
    assert_eq!(cluster.outcome_of(1, 0, recv).unwrap().status, Status::Success);
    assert_eq!(cluster.bytes(1, 0, LARGE as usize), [2; LARGE as usize]);
    assert_eq!((cluster.status(0, 0), cluster.status(1, 0)), (Some(Status::Freed), Some(Status::Freed)));
    cluster.assert_nothing_left();
}

#[test]
fn free_of_a_receive_that_is_being_disarmed_ends_with_the_other_end() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.start(1, 0);
    cluster.settle();
    cluster.free(1, 0);
    cluster.free(0, 0);
    cluster.settle();
    assert_eq!((cluster.status(0, 0), cluster.status(1, 0)), (Some(Status::Freed), Some(Status::Freed)));
    cluster.assert_nothing_left();
}

#[test]
fn a_message_does_not_take_the_turn_of_a_cancelled_one() {
    let mut cluster = Cluster::pair();
    for slot in 0..2 {
        cluster.fill(0, slot, slot as u8 + 1);
        cluster.send(0, slot, 1, TAG, SMALL);
    }
    cluster.cancel(0, 0);
    cluster.fill(0, 0, 3);
    cluster.send(0, 0, 1, TAG, SMALL);
    cluster.settle();
    for (slot, value) in [(0, 2), (1, 3)] {
        cluster.recv(1, slot, (None, None), SMALL);
        assert_eq!(cluster.bytes(1, slot, 1), [value], "in the order they were sent");
    }
}

#[test]
fn free_waits_for_a_copy_out_of_the_stash() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.start(0, 0);
    cluster.settle();
    cluster.slow_copies = Some(Vec::new());
    let recv = cluster.start(1, 0);
    cluster.cancel(1, 0);
    cluster.free(1, 0);
    cluster.settle();
    assert_eq!((cluster.outcome_of(1, 0, recv), cluster.status(1, 0)), (None, None));
    cluster.finish_copies();
    assert_eq!(cluster.outcome_of(1, 0, recv).unwrap().status, Status::Success);
    assert_eq!(cluster.status(1, 0), Some(Status::Freed));
}
