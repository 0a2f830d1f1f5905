//! Persistent requests: binding, credits, rendezvous.

use std::collections::HashSet;

use ropeway_engine::{Place, StashWork};
use ropeway_proto::{ChannelId, Command, Completion, Frame, Layout, NodeId, Status};

use crate::cluster::{CHUNK_BYTES, Cluster, EAGER_BYTES, TAG};

const SMALL: u64 = 8;
const LARGE: u64 = 1000;

fn success(bytes: u64) -> Option<Completion> {
    Some(Completion { bytes, ..Completion::bare(Status::Success) })
}

fn received(bytes: u64) -> Option<Completion> {
    Some(Completion { status: Status::Success, source: 0, tag: TAG, bytes })
}

#[test]
fn a_small_message_takes_one_frame() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.sent.clear();
    cluster.fill(0, 0, 5);
    cluster.start(1, 0);
    cluster.start(0, 0);
    cluster.settle();
    assert_eq!(cluster.outcome(0, 0), success(SMALL));
    assert_eq!(cluster.outcome(1, 0), received(SMALL));
    assert_eq!(cluster.bytes(1, 0, 9), [5, 5, 5, 5, 5, 5, 5, 5, 0]);
    assert_eq!((cluster.sent.len(), cluster.copies), (1, 0));
}

#[test]
fn init_completes_before_the_other_end_exists() {
    let mut cluster = Cluster::pair();
    cluster.init_send(0, 0, 1, SMALL);
    cluster.init_recv(1, 1, 0, SMALL);
    assert_eq!(cluster.status(0, 0), Some(Status::Success));
    assert_eq!(cluster.status(1, 1), Some(Status::Success));
}

#[test]
fn starts_before_binding_wait_for_it() {
    for bytes in [SMALL, LARGE] {
        let mut cluster = Cluster::pair();
        cluster.init_send(0, 0, 1, bytes);
        cluster.fill(0, 0, 9);
        cluster.start(0, 0);
        cluster.settle();
        assert_eq!(cluster.outcome(0, 0), None);
        cluster.init_recv(1, 0, 0, bytes);
        cluster.start(1, 0);
        cluster.settle();
        assert_eq!(cluster.outcome(0, 0), success(bytes));
        assert_eq!(cluster.outcome(1, 0), received(bytes));
        assert_eq!(cluster.bytes(1, 0, bytes as usize), vec![9; bytes as usize]);
    }
}

#[test]
fn eager_send_waits_for_credit() {
    let mut cluster = Cluster::configured(&[1, 1], |config| config.channel_credits = 2);
    cluster.channel(SMALL);
    for value in 1..=2 {
        cluster.fill(0, 0, value);
        cluster.start(0, 0);
        cluster.settle();
        assert_eq!(cluster.outcome(0, 0), success(SMALL));
    }
    cluster.fill(0, 0, 3);
    cluster.start(0, 0);
    cluster.settle();
    assert_eq!(cluster.outcome(0, 0), None, "both credits are used");
    for value in 1..=3 {
        cluster.start(1, 0);
        cluster.settle();
        assert_eq!(cluster.outcome(1, 0), received(SMALL));
        assert_eq!(cluster.bytes(1, 0, 1), [value]);
    }
    assert_eq!(cluster.outcome(0, 0), success(SMALL));
}

#[test]
fn one_credit_is_enough_for_any_number_of_messages() {
    let mut cluster = Cluster::configured(&[1, 1], |config| config.channel_credits = 1);
    cluster.channel(SMALL);
    for _ in 0..10 {
        cluster.start(0, 0);
        cluster.start(1, 0);
        cluster.settle();
        assert_eq!(cluster.outcome(0, 0), success(SMALL));
        assert_eq!(cluster.outcome(1, 0), received(SMALL));
    }
}

#[test]
fn credits_return_half_at_a_time() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    for _ in 0..8 {
        cluster.start(1, 0);
        cluster.start(0, 0);
        cluster.settle();
    }
    let credits: Vec<_> = cluster.sent.iter().filter(|(_, _, frame)| matches!(frame, Frame::Credit { .. })).collect();
    assert_eq!(credits.len(), 4);
    assert!(credits.iter().all(|(_, _, frame)| matches!(frame, Frame::Credit { count: 2, .. })));
}

#[test]
fn messages_that_came_early_are_stashed_and_copied_once() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    for value in 1..=3 {
        cluster.fill(0, 0, value);
        cluster.start(0, 0);
        cluster.settle();
    }
    assert_eq!((cluster.copies, cluster.engines[1].leftovers().stashed), (0, 3));
    for value in 1..=3 {
        cluster.start(1, 0);
        cluster.settle();
        assert_eq!(cluster.outcome(1, 0), received(SMALL));
        assert_eq!(cluster.bytes(1, 0, 1), [value], "in the order they were sent");
    }
    assert_eq!((cluster.copies, cluster.engines[1].leftovers().stashed), (3, 0));
    assert_eq!(cluster.engines[1].statistics().stashed, 3);
}

#[test]
fn a_message_taken_while_its_payload_arrives_is_copied_when_it_is_here() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.hold(0, 1, true);
    cluster.fill(0, 0, 4);
    cluster.start(0, 0);
    cluster.settle();
    cluster.deliver_header(0, 1);
    cluster.start(1, 0);
    assert_eq!(cluster.outcome(1, 0), None);
    cluster.deliver_payload(0, 1);
    assert_eq!(cluster.outcome(1, 0), received(SMALL));
    assert_eq!(cluster.bytes(1, 0, 1), [4]);
}

#[test]
fn rendezvous_waits_for_armed() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.fill(0, 0, 6);
    cluster.start(0, 0);
    cluster.settle();
    assert_eq!(cluster.outcome(0, 0), None);
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Data { .. })), 0);
    cluster.start(1, 0);
    cluster.settle();
    assert_eq!(cluster.outcome(0, 0), success(LARGE));
    assert_eq!(cluster.outcome(1, 0), received(LARGE));
    assert_eq!(cluster.bytes(1, 0, LARGE as usize), [6; LARGE as usize]);
    assert_eq!(cluster.copies, 0, "large messages go straight into the buffer");
}

#[test]
fn armed_before_the_send_needs_no_round_trip() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.start(1, 0);
    cluster.settle();
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Armed { .. })), 1);
    cluster.sent.clear();
    // Nothing travels towards the sender any more, and still the message is complete.
    cluster.stop(1, 0, true);
    cluster.start(0, 0);
    cluster.settle();
    assert_eq!(cluster.outcome(1, 0), received(LARGE));
    assert_eq!(cluster.sent.len() as u64, LARGE.div_ceil(CHUNK_BYTES));
}

#[test]
fn large_messages_share_a_link_chunk_by_chunk_however_many_they_are() {
    for slots in [1, 2, 20] {
        let mut cluster = Cluster::new(&[2, 1]);
        for (slot, sender) in (0..slots).flat_map(|slot| [(slot, 0), (slot, 1)]) {
            cluster.init_send(sender, slot, 2, LARGE);
            cluster.init_recv(2, 2 * slot + sender, sender, LARGE);
            cluster.start(2, 2 * slot + sender);
        }
        cluster.settle();
        cluster.sent.clear();
        cluster.stop(0, 1, true);
        // All of one rank before any of the other.
        for (sender, slot) in [0, 1].into_iter().flat_map(|sender| (0..slots).map(move |slot| (sender, slot))) {
            cluster.start(sender, slot);
        }
        cluster.stop(0, 1, false);
        cluster.settle();
        let data = |frame: &Frame| if let Frame::Data { channel, .. } = frame { Some(*channel) } else { None };
        let channels: Vec<ChannelId> = cluster.sent.iter().filter_map(|(_, _, frame)| data(frame)).collect();
        let messages = 2 * slots as usize;
        assert_eq!(channels.len() as u64, messages as u64 * LARGE.div_ceil(CHUNK_BYTES));
        for round in channels.chunks(messages) {
            let each: HashSet<_> = round.iter().collect();
            assert_eq!(each.len(), messages, "{channels:?}");
        }
    }
}

#[test]
fn a_small_message_overtakes_the_rest_of_a_large_one() {
    let mut cluster = Cluster::pair();
    cluster.init_send(0, 0, 1, LARGE);
    cluster.init_recv(1, 0, 0, LARGE);
    cluster.init_send(0, 1, 1, SMALL);
    cluster.init_recv(1, 1, 0, SMALL);
    cluster.start(1, 0);
    cluster.start(1, 1);
    cluster.settle();
    cluster.start(0, 0);
    cluster.start(0, 1);
    let frames = std::iter::from_fn(|| cluster.transmit(0, 1)).take(3).collect::<Vec<_>>();
    assert!(frames.iter().any(|frame| matches!(frame, Frame::Eager { .. })), "{frames:?}");
}

#[test]
fn what_a_receive_asks_for_is_asked_before_messages_leave() {
    let mut cluster = Cluster::pair();
    let (data, armed) =
        (|frame: &Frame| matches!(frame, Frame::Data { .. }), |frame: &Frame| matches!(frame, Frame::Armed { .. }));
    for (sender, slot) in [(0, 0), (1, 1)] {
        cluster.init_send(sender, slot, 1 - sender, LARGE);
        cluster.init_recv(1 - sender, slot, sender, LARGE);
    }
    cluster.start(1, 0);
    cluster.settle();
    // The send could leave at once; behind it the other node would hear of the receive when its own line was idle for as long.
    cluster.start(0, 0);
    cluster.start(0, 1);
    let frames: Vec<_> = std::iter::from_fn(|| cluster.transmit(0, 1)).collect();
    assert!(armed(&frames[0]) && frames[1..].iter().all(data) && frames.len() > 1, "{frames:?}");
}

#[test]
fn strided_messages_arrive_packed_in_any_other_layout() {
    let mut cluster = Cluster::pair();
    let start = cluster.layout(0, 0, 0).offset;
    let endpoint = |peer| Cluster::endpoint(peer, TAG);
    for (slot, (blocks, to_block_bytes)) in [(9, 3), (150, 2)].into_iter().enumerate() {
        let slot = slot as u32 * 8;
        let start = start + u64::from(slot) * 1024;
        let from = Layout { offset: start, block_bytes: 1, stride_bytes: 3, blocks };
        let to_blocks = blocks / to_block_bytes;
        let to = Layout { offset: start, block_bytes: to_block_bytes.into(), stride_bytes: 5, blocks: to_blocks };
        for part in 0..3 {
            cluster.fill(0, slot + part, 3);
        }
        cluster.command(0, Command::InitSend { slot, epoch: 1, endpoint: endpoint(1), layout: from }).unwrap();
        cluster.command(1, Command::InitRecv { slot, epoch: 1, endpoint: endpoint(0), layout: to }).unwrap();
        cluster.command(1, Command::Start { slot, epoch: 2 }).unwrap();
        cluster.command(0, Command::Start { slot, epoch: 2 }).unwrap();
        cluster.settle();
        assert_eq!(cluster.outcome_of(1, slot, 2), received(from.bytes()));
        let touched: Vec<u8> = cluster.bytes(1, slot, to.span() as usize).to_vec();
        let expected = |at: usize| if at % 5 < to_block_bytes as usize { 3 } else { 0 };
        assert!(touched.iter().enumerate().all(|(at, &byte)| byte == expected(at)), "{touched:?}");
    }
}

#[test]
fn channels_bind_in_order_of_init() {
    let mut cluster = Cluster::pair();
    for slot in 0..3 {
        cluster.init_send(0, slot, 1, SMALL);
        cluster.fill(0, slot, slot as u8 + 1);
    }
    for slot in 0..3 {
        cluster.init_recv(1, slot, 0, SMALL);
        cluster.start(1, slot);
    }
    for slot in (0..3).rev() {
        cluster.start(0, slot);
    }
    cluster.settle();
    for slot in 0..3 {
        assert_eq!(cluster.bytes(1, slot, 1), [slot as u8 + 1]);
    }
    assert_eq!(cluster.engines[0].statistics().matches, 3);
}

#[test]
fn receives_that_come_first_bind_in_order_of_init_too() {
    let mut cluster = Cluster::pair();
    for slot in 0..3 {
        cluster.init_recv(1, slot, 0, LARGE);
        cluster.start(1, slot);
    }
    cluster.settle();
    for slot in 0..3 {
        cluster.init_send(0, slot, 1, LARGE);
        cluster.fill(0, slot, slot as u8 + 1);
        cluster.start(0, slot);
        cluster.settle();
        assert_eq!(cluster.bytes(1, slot, 1), [slot as u8 + 1]);
    }
}

#[test]
fn a_freed_send_keeps_its_place() {
    let mut cluster = Cluster::pair();
    cluster.init_send(0, 0, 1, SMALL);
    cluster.init_send(0, 1, 1, SMALL);
    cluster.fill(0, 1, 8);
    cluster.free(0, 0);
    assert_eq!(cluster.status(0, 0), Some(Status::Freed));
    for slot in 0..2 {
        cluster.init_recv(1, slot, 0, SMALL);
        cluster.start(1, slot);
    }
    cluster.start(0, 1);
    cluster.settle();
    assert_eq!(cluster.status(1, 0), Some(Status::PeerFreed));
    assert_eq!(cluster.outcome(1, 1), received(SMALL));
    assert_eq!(cluster.bytes(1, 1, 1), [8]);
}

#[test]
fn a_freed_receive_keeps_its_place_until_its_sender_comes() {
    let mut cluster = Cluster::pair();
    for slot in 0..2 {
        cluster.init_recv(1, slot, 0, SMALL);
    }
    cluster.free(1, 0);
    cluster.settle();
    assert_eq!(cluster.engines[1].leftovers().requests, 2);
    for slot in 0..2 {
        cluster.init_send(0, slot, 1, SMALL);
    }
    cluster.settle();
    assert_eq!(cluster.engines[1].leftovers().requests, 1);
    cluster.start(0, 0);
    cluster.start(0, 1);
    cluster.start(1, 1);
    cluster.settle();
    assert_eq!(cluster.status(0, 0), Some(Status::PeerFreed));
    assert_eq!(cluster.outcome(1, 1), received(SMALL));
}

#[test]
fn a_freed_slot_can_be_used_at_once() {
    let mut cluster = Cluster::pair();
    for _ in 0..3 {
        cluster.channel(SMALL);
        cluster.start(0, 0);
        cluster.start(1, 0);
        cluster.settle();
        assert_eq!(cluster.outcome(1, 0), received(SMALL));
        cluster.free(0, 0);
        cluster.free(1, 0);
    }
    cluster.settle();
    cluster.assert_nothing_left();
}

#[test]
fn messages_sent_before_the_send_was_freed_are_still_received() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.start(0, 0);
    cluster.settle();
    cluster.free(0, 0);
    cluster.settle();
    cluster.start(1, 0);
    assert_eq!(cluster.outcome(1, 0), received(SMALL));
    cluster.start(1, 0);
    assert_eq!(cluster.status(1, 0), Some(Status::PeerFreed));
    cluster.free(1, 0);
    cluster.assert_nothing_left();
}

#[test]
fn a_freed_receive_drops_what_is_stashed() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    cluster.start(0, 0);
    cluster.settle();
    cluster.hold(0, 1, true);
    cluster.start(0, 0);
    cluster.settle();
    cluster.deliver_header(0, 1);
    cluster.free(1, 0);
    cluster.deliver_payload(0, 1);
    cluster.hold(0, 1, false);
    cluster.settle();
    cluster.start(0, 0);
    cluster.settle();
    assert_eq!(cluster.status(0, 0), Some(Status::PeerFreed));
    cluster.free(0, 0);
    cluster.assert_nothing_left();
}

#[test]
fn both_ends_may_be_freed_at_the_same_time() {
    for bytes in [SMALL, LARGE] {
        let mut cluster = Cluster::pair();
        cluster.channel(bytes);
        cluster.free(0, 0);
        cluster.free(1, 0);
        cluster.settle();
        cluster.assert_nothing_left();
    }
}

#[test]
fn a_waiting_operation_ends_when_the_other_end_is_freed() {
    for bytes in [SMALL, LARGE] {
        let mut cluster = Cluster::pair();
        cluster.channel(bytes);
        cluster.start(1, 0);
        cluster.free(0, 0);
        cluster.settle();
        assert_eq!(cluster.status(1, 0), Some(Status::PeerFreed));
    }
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    cluster.start(0, 0);
    cluster.free(1, 0);
    cluster.settle();
    assert_eq!(cluster.status(0, 0), Some(Status::PeerFreed));
}

#[test]
fn a_message_too_long_is_truncated() {
    for (bytes, is_early) in [(SMALL, false), (SMALL, true), (LARGE, false)] {
        let mut cluster = Cluster::pair();
        cluster.init_send(0, 0, 1, bytes);
        cluster.init_recv(1, 0, 0, bytes - 1);
        cluster.settle();
        cluster.fill(0, 0, 1);
        if is_early {
            cluster.start(0, 0);
            cluster.settle();
            cluster.start(1, 0);
        } else {
            cluster.start(1, 0);
            cluster.start(0, 0);
            cluster.settle();
        }
        let truncated = Completion { status: Status::Truncated, ..received(bytes).unwrap() };
        assert_eq!(cluster.outcome(1, 0), Some(truncated), "{bytes} bytes, early: {is_early}");
        assert_eq!(cluster.outcome(0, 0), success(bytes), "a send knows nothing of it");
        assert_eq!(cluster.bytes(1, 0, bytes as usize)[bytes as usize - 1], 0, "not a byte behind the buffer");
        cluster.free(0, 0);
        cluster.free(1, 0);
        cluster.settle();
        cluster.assert_nothing_left();
    }
}

#[test]
fn a_truncated_message_that_is_still_arriving_is_dropped_when_it_is_here() {
    let mut cluster = Cluster::pair();
    cluster.init_send(0, 0, 1, SMALL);
    cluster.init_recv(1, 0, 0, SMALL - 1);
    cluster.settle();
    cluster.hold(0, 1, true);
    cluster.start(0, 0);
    cluster.settle();
    cluster.deliver_header(0, 1);
    cluster.start(1, 0);
    assert_eq!(cluster.status(1, 0), Some(Status::Truncated));
    cluster.deliver_payload(0, 1);
    assert_eq!(cluster.engines[1].leftovers().stashed, 0);
}

#[test]
fn messages_may_be_empty() {
    let mut cluster = Cluster::pair();
    cluster.channel(0);
    for is_early in [true, false] {
        let order = if is_early { [0, 1] } else { [1, 0] };
        for rank in order {
            cluster.start(rank, 0);
            cluster.settle();
        }
        assert_eq!(cluster.outcome(0, 0), success(0));
        assert_eq!(cluster.outcome(1, 0), received(0));
    }
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Bound { is_rendezvous: true, .. })), 1);
}

#[test]
fn the_largest_eager_message_is_one_frame_and_one_byte_more_is_a_rendezvous() {
    for (bytes, is_rendezvous) in [(EAGER_BYTES, false), (EAGER_BYTES + 1, true)] {
        let mut cluster = Cluster::pair();
        cluster.channel(bytes);
        let expected =
            |frame: &Frame| matches!(frame, Frame::Bound { is_rendezvous: found, .. } if *found == is_rendezvous);
        assert_eq!(cluster.count(expected), 1);
    }
}

#[test]
fn each_sender_decides_by_its_own_nodes_limit_whatever_the_receivers_is() {
    let bytes = 2 * EAGER_BYTES;
    for is_early in [true, false] {
        // Node 0 pushes what node 1 would announce.
        let mut cluster = Cluster::configured(&[1, 1], |config| {
            config.eager_bytes_max = if config.spec.node == NodeId(0) { bytes } else { EAGER_BYTES };
        });
        cluster.channel(bytes);
        cluster.init_send(1, 1, 0, bytes);
        cluster.init_recv(0, 1, 1, bytes);
        for (from, to, slot) in [(0, 1, 0), (1, 0, 1)] {
            cluster.settle();
            cluster.fill(from, slot, 5);
            let mut ends = [(from, slot), (to, slot)];
            if is_early {
                ends.reverse();
            }
            for (rank, slot) in ends {
                cluster.start(rank, slot);
                cluster.settle();
            }
            assert_eq!(cluster.outcome(from, slot), success(bytes));
            assert_eq!(cluster.status(to, slot), Some(Status::Success));
            assert_eq!(cluster.bytes(to, slot, bytes as usize), vec![5; bytes as usize]);
        }
        let bound = |wanted| move |frame: &Frame| matches!(frame, Frame::Bound { is_rendezvous, .. } if *is_rendezvous == wanted);
        assert_eq!((cluster.count(bound(false)), cluster.count(bound(true))), (1, 1));
    }
}

#[test]
fn a_receiver_keeps_no_more_messages_of_a_sender_with_a_larger_limit_than_it_gives_credits() {
    let mut cluster = Cluster::configured(&[1, 1], |config| {
        config.eager_bytes_max = if config.spec.node == NodeId(0) { 1000 } else { 0 };
    });
    cluster.channel(1000);
    for _ in 0..4 {
        cluster.start(0, 0);
        cluster.settle();
        assert_eq!(cluster.outcome(0, 0), success(1000));
    }
    cluster.start(0, 0);
    cluster.settle();
    assert_eq!(cluster.outcome(0, 0), None, "the fifth waits");
    assert_eq!(cluster.engines[1].leftovers().stashed, 4);
}

#[test]
fn a_rank_sends_to_itself_and_to_its_neighbour_on_the_node() {
    for bytes in [0, SMALL, LARGE] {
        let mut cluster = Cluster::new(&[2]);
        for (slot, (from, to)) in [(0, 0), (0, 1)].into_iter().enumerate() {
            let slot = 2 * slot as u32;
            cluster.init_send(from, slot, to, bytes);
            cluster.init_recv(to, slot + 1, from, bytes);
            cluster.fill(from, slot, 7);
            cluster.start(from, slot);
            cluster.start(to, slot + 1);
            cluster.settle();
            assert_eq!(cluster.outcome(from, slot), success(bytes));
            assert_eq!(cluster.outcome(to, slot + 1), received(bytes));
            assert_eq!(cluster.bytes(to, slot + 1, bytes as usize), vec![7; bytes as usize]);
        }
    }
}

#[test]
fn a_dropped_message_keeps_its_name_until_its_holder_knows() {
    let mut cluster = Cluster::pair();
    cluster.init_send(0, 0, 1, SMALL);
    cluster.init_recv(1, 0, 0, SMALL - 1);
    cluster.start(0, 0);
    cluster.settle();
    let engine = &mut cluster.engines[1];
    engine.handle_command(0, Command::Start { slot: 0, epoch: 2 }).unwrap();
    let next = Frame::Eager { channel: ChannelId { index: 0, generation: 1 }, payload_bytes: SMALL as u32 };
    let placement = engine.handle_frame(NodeId(0), next).unwrap();
    let Some(StashWork::Drop { stash }) = engine.poll_stash_work() else { panic!("a truncated message is dropped") };
    assert_ne!(placement.place, Place::Stash(stash));
}
