//! Channels over a wire: the two nodes agree on one, whatever happens meanwhile.

use ropeway_engine::{DirectId, LocalWork, Wiring};
use ropeway_proto::limits::WIRE_BYTES_MAX;
use ropeway_proto::{Command, Completion, End, Frame, Layout, NodeId, Status};

use crate::cluster::{Cluster, EAGER_BYTES, TAG};

const BYTES: u64 = 8;
/// What each node calls the channel, itself and on the wire.
const NAMES: [(DirectId, u16); 2] = [(DirectId(7), 70), (DirectId(9), 90)];

/// Two ranks on two nodes with a wire between them.
fn pair() -> Cluster {
    let mut cluster = Cluster::pair();
    cluster.engines[0].handle_wire_up(NodeId(1));
    cluster.engines[1].handle_wire_up(NodeId(0));
    cluster
}

fn work(cluster: &mut Cluster, node: usize) -> Option<LocalWork> {
    cluster.engines[node].poll_local_work()
}

/// Answers a node's wish for a channel, with its usual name or with none.
fn open(cluster: &mut Cluster, node: usize, is_possible: bool) -> Wiring {
    let Some(LocalWork::OpenWired(wiring)) = work(cluster, node) else { panic!("no channel to be opened") };
    cluster.engines[node].handle_wired(&wiring, is_possible.then_some(NAMES[node]));
    wiring
}

/// Rank 0 has a send to rank 1, whose receive has just been announced to it.
fn announced() -> Cluster {
    announced_with(BYTES)
}

fn announced_with(bytes: u64) -> Cluster {
    let mut cluster = pair();
    cluster.init_send(0, 0, 1, bytes);
    cluster.init_recv(1, 0, 0, bytes);
    cluster.settle();
    cluster
}

/// Both nodes have set the channel up; the sender's does not know yet.
fn proposed() -> Cluster {
    let mut cluster = announced();
    open(&mut cluster, 0, true);
    cluster.settle();
    cluster
}

fn is_closed_with(work: Option<LocalWork>, expected: Status) -> bool {
    matches!(work, Some(LocalWork::Close { channel, end: End::Send, request: None, why })
        if channel == NAMES[0].0 && why == expected)
}

#[test]
fn both_nodes_set_the_channel_up_and_tell_each_other_its_name() {
    let mut cluster = announced();
    let wiring = open(&mut cluster, 0, true);
    assert_eq!((wiring.end, wiring.node, wiring.rank, wiring.bytes), (End::Send, NodeId(1), 1, BYTES));
    assert_eq!(wiring.peer_index, None);
    cluster.settle();
    let wiring = open(&mut cluster, 1, true);
    assert_eq!((wiring.end, wiring.node, wiring.rank, wiring.bytes), (End::Recv, NodeId(0), 0, BYTES));
    assert_eq!(wiring.peer_index, Some(NAMES[0].1));
    cluster.settle();
    let connect = LocalWork::Connect { channel: NAMES[0].0, peer_index: NAMES[1].1, is_orphaned: false };
    assert_eq!(work(&mut cluster, 0), Some(connect));
    assert_eq!((work(&mut cluster, 0), work(&mut cluster, 1)), (None, None));
}

#[test]
fn what_was_started_before_is_started_on_the_channel() {
    let mut cluster = announced();
    cluster.start(0, 0);
    cluster.start(1, 0);
    open(&mut cluster, 0, true);
    cluster.settle();
    open(&mut cluster, 1, true);
    cluster.settle();
    assert!(matches!(work(&mut cluster, 0), Some(LocalWork::Connect { .. })));
    for (node, end) in [(0, End::Send), (1, End::Recv)] {
        let Some(LocalWork::Start { channel, end: found, operation }) = work(&mut cluster, node) else {
            panic!("nothing is started")
        };
        assert_eq!((channel, found), (NAMES[node].0, end));
        cluster.engines[node].handle_started(operation);
        cluster.collect(node as u16);
        assert_eq!(cluster.status(node as u32, 0), Some(Status::GoesDirect));
    }
}

#[test]
fn if_either_node_can_not_the_link_carries_the_messages() {
    for (unable, bytes) in [(0, BYTES), (1, BYTES), (0, EAGER_BYTES + 1), (1, EAGER_BYTES + 1)] {
        let mut cluster = announced_with(bytes);
        cluster.fill(0, 0, 5);
        cluster.start(0, 0);
        open(&mut cluster, 0, unable != 0);
        cluster.settle();
        if unable == 1 {
            open(&mut cluster, 1, false);
            cluster.settle();
            assert_eq!(work(&mut cluster, 0), Some(LocalWork::Discard { channel: NAMES[0].0 }));
        }
        cluster.start(1, 0);
        cluster.settle();
        let received = Completion { status: Status::Success, source: 0, tag: TAG, bytes };
        assert_eq!(cluster.outcome(1, 0), Some(received));
        assert_eq!(cluster.bytes(1, 0, bytes as usize), vec![5; bytes as usize]);
        assert_eq!((work(&mut cluster, 0), work(&mut cluster, 1)), (None, None));
    }
}

#[test]
fn large_messages_and_nodes_without_a_wire_use_the_link() {
    let mut cluster = pair();
    // Never started, so its bytes may lie anywhere.
    let layout = Layout::contiguous(0, WIRE_BYTES_MAX + 1);
    cluster.command(0, Command::InitSend { slot: 0, epoch: 1, endpoint: Cluster::endpoint(1, TAG), layout }).unwrap();
    cluster.command(1, Command::InitRecv { slot: 0, epoch: 1, endpoint: Cluster::endpoint(0, TAG), layout }).unwrap();
    cluster.settle();
    assert_eq!(work(&mut cluster, 0), None);
    let mut cluster = pair();
    cluster.engines[0].handle_wire_down(NodeId(1));
    cluster.channel(BYTES);
    assert_eq!(work(&mut cluster, 0), None);
    assert_eq!(cluster.count(|frame| matches!(frame, Frame::Bound { wire: None, .. })), 1);
}

#[test]
fn a_send_that_is_freed_before_the_answer_stays_to_hear_it() {
    let mut cluster = proposed();
    cluster.free(0, 0);
    assert_eq!(cluster.status(0, 0), Some(Status::Freed));
    assert_eq!(work(&mut cluster, 0), None);
    open(&mut cluster, 1, true);
    cluster.settle();
    // Its slot may be another request's by now.
    assert!(matches!(work(&mut cluster, 0), Some(LocalWork::Connect { is_orphaned: true, .. })));
    assert!(is_closed_with(work(&mut cluster, 0), Status::PeerFreed));
    assert_eq!(cluster.engines[0].leftovers().requests, 0);
}

#[test]
fn a_send_that_is_freed_before_a_refusal_tells_its_receiver_over_the_link() {
    let mut cluster = proposed();
    cluster.free(0, 0);
    open(&mut cluster, 1, false);
    cluster.settle();
    assert_eq!(work(&mut cluster, 0), Some(LocalWork::Discard { channel: NAMES[0].0 }));
    assert_eq!(cluster.engines[0].leftovers().requests, 0);
    cluster.start(1, 0);
    cluster.settle();
    assert_eq!(cluster.status(1, 0), Some(Status::PeerFreed));
}

#[test]
fn a_sender_that_ends_before_the_answer_is_reported_over_the_wire() {
    for (has_failed, why) in [(true, Status::RankFailed), (false, Status::RankLeft)] {
        let mut cluster = proposed();
        cluster.hold(0, 1, true);
        cluster.end_client(0, has_failed);
        open(&mut cluster, 1, true);
        cluster.settle();
        assert!(matches!(work(&mut cluster, 0), Some(LocalWork::Connect { .. })));
        assert!(is_closed_with(work(&mut cluster, 0), why));
        assert_eq!(cluster.engines[0].leftovers().requests, 0);
    }
}

#[test]
fn a_receive_that_is_freed_before_the_proposal_refuses_it() {
    let mut cluster = announced();
    cluster.hold(0, 1, true);
    open(&mut cluster, 0, true);
    cluster.start(0, 0);
    cluster.settle();
    cluster.free(1, 0);
    cluster.hold(0, 1, false);
    cluster.settle();
    assert_eq!(work(&mut cluster, 1), None);
    assert_eq!(cluster.status(0, 0), Some(Status::PeerFreed));
    cluster.free(0, 0);
    assert_eq!(work(&mut cluster, 0), Some(LocalWork::Discard { channel: NAMES[0].0 }));
    cluster.settle();
    cluster.assert_nothing_left();
}

#[test]
fn a_receiver_that_ends_before_the_answer_fails_the_send_and_leaves_nothing() {
    for is_freed_first in [true, false] {
        let mut cluster = announced();
        cluster.hold(0, 1, true);
        open(&mut cluster, 0, true);
        cluster.settle();
        if is_freed_first {
            cluster.free(0, 0);
        } else {
            cluster.start(0, 0);
        }
        cluster.end_client(1, true);
        cluster.hold(0, 1, false);
        cluster.settle();
        if !is_freed_first {
            assert_eq!(cluster.status(0, 0), Some(Status::RankFailed));
            cluster.free(0, 0);
        }
        assert_eq!(work(&mut cluster, 0), Some(LocalWork::Discard { channel: NAMES[0].0 }));
        cluster.settle();
        assert_eq!(cluster.engines[0].leftovers().requests, 0);
    }
}

#[test]
fn a_lost_link_severs_the_channels() {
    let mut cluster = connected();
    cluster.cut(0, 1);
    (0..2).for_each(|node| assert_ended(&mut cluster, node, Status::PeerLost));
}

/// The two ranks have a channel over the wire.
fn connected() -> Cluster {
    let mut cluster = proposed();
    open(&mut cluster, 1, true);
    cluster.settle();
    assert!(matches!(work(&mut cluster, 0), Some(LocalWork::Connect { .. })));
    cluster
}

fn assert_ended(cluster: &mut Cluster, node: usize, why: Status) {
    let (channel, other) = (NAMES[node].0, NodeId(1 - node as u16));
    assert_eq!(work(cluster, node), Some(LocalWork::Sever { channel, why }));
    assert_eq!(work(cluster, node), Some(LocalWork::EndWire { node: other }));
}

#[test]
fn a_lost_wire_ends_its_channels_once_both_sides_have_lost_it() {
    let mut cluster = connected();
    cluster.engines[0].handle_wire_down(NodeId(1));
    assert_eq!(work(&mut cluster, 0), None);
    cluster.settle();
    // What node 0 had sent may be on its way yet.
    assert_eq!(work(&mut cluster, 1), Some(LocalWork::DrainWire { node: NodeId(0) }));
    assert_eq!(work(&mut cluster, 1), None);
    cluster.engines[1].handle_wire_down(NodeId(0));
    assert_ended(&mut cluster, 1, Status::PeerLost);
    cluster.settle();
    assert_eq!(work(&mut cluster, 0), Some(LocalWork::DrainWire { node: NodeId(1) }));
    assert_ended(&mut cluster, 0, Status::PeerLost);
}

#[test]
fn a_node_that_finds_no_room_on_its_wire_has_the_other_read() {
    let mut cluster = connected();
    cluster.engines[0].handle_wire_full(NodeId(1));
    cluster.settle();
    assert_eq!(work(&mut cluster, 1), Some(LocalWork::RelieveWire { node: NodeId(0) }));
    cluster.engines[0].handle_wire_down(NodeId(1));
    cluster.settle();
    assert!(matches!(work(&mut cluster, 1), Some(LocalWork::DrainWire { .. })));
    cluster.engines[0].handle_wire_full(NodeId(1));
    cluster.settle();
    assert_eq!(work(&mut cluster, 1), None, "there is none any more");
}

#[test]
fn a_rank_that_takes_the_wire_along_is_named() {
    let mut cluster = connected();
    cluster.end_client(1, true);
    cluster.engines[1].handle_wire_down(NodeId(0));
    cluster.settle();
    assert_eq!(work(&mut cluster, 0), Some(LocalWork::DrainWire { node: NodeId(1) }));
    assert_eq!(work(&mut cluster, 0), None);
    cluster.engines[0].handle_wire_down(NodeId(1));
    assert_ended(&mut cluster, 0, Status::RankFailed);
}

#[test]
fn a_wire_whose_end_comes_without_a_word_is_lost_when_all_ranks_there_are_gone() {
    let mut cluster = connected();
    cluster.engines[0].handle_wire_down(NodeId(1));
    assert_eq!(work(&mut cluster, 0), None);
    cluster.end_client(1, false);
    cluster.settle();
    assert_ended(&mut cluster, 0, Status::RankLeft);
}

#[test]
fn an_answer_nobody_asked_for_is_a_lie() {
    let mut cluster = Cluster::pair();
    cluster.channel(BYTES);
    let Some(&(_, _, Frame::Bound { send, recv, .. })) =
        cluster.sent.iter().find(|(_, _, frame)| matches!(frame, Frame::Bound { .. }))
    else {
        panic!("nothing is bound")
    };
    assert!(cluster.frame(1, 0, Frame::Wired { send, recv, wire: Some(3) }).is_err());
}
