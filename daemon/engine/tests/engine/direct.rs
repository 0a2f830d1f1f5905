//! Channels between two ranks of one node are handed over: the engine says what is to be done with them, and no more.

use ropeway_engine::{DirectId, LocalWork};
use ropeway_proto::{Command, Completion, End, Status};

use crate::cluster::{Cluster, TAG};

const BYTES: u64 = 8;
const CHANNEL: DirectId = DirectId(7);

/// Two ranks on one node.
fn node() -> Cluster {
    Cluster::configured(&[2], |config| config.has_direct_channels = true)
}

fn work(cluster: &mut Cluster) -> Option<LocalWork> {
    cluster.engines[0].poll_local_work()
}

/// Answers the wish for a channel.
fn open(cluster: &mut Cluster, channel: Option<DirectId>) {
    let Some(LocalWork::Open { send, recv }) = work(cluster) else { panic!("no channel to be opened") };
    assert_eq!(cluster.engines[0].place_of(send).unwrap().0, 0);
    assert_eq!(cluster.engines[0].place_of(recv).unwrap().0, 1);
    cluster.engines[0].handle_opened(send, recv, channel);
    cluster.settle();
}

#[test]
fn a_bound_channel_is_handed_over_and_then_left_alone() {
    let mut cluster = node();
    cluster.channel(BYTES);
    cluster.sent.clear();
    open(&mut cluster, Some(CHANNEL));
    assert_eq!(work(&mut cluster), None);
    assert!(cluster.sent.is_empty(), "both ends are told through their slots");
    cluster.command(0, Command::Move { slot: 0 }).unwrap();
    assert_eq!(work(&mut cluster), Some(LocalWork::Move { channel: CHANNEL }));
}

#[test]
fn what_was_started_before_is_started_on_the_channel_the_receive_first() {
    let mut cluster = node();
    cluster.init_send(0, 0, 1, BYTES);
    cluster.start(0, 0);
    cluster.init_recv(1, 0, 0, BYTES);
    cluster.start(1, 0);
    cluster.settle();
    open(&mut cluster, Some(CHANNEL));
    for (end, rank) in [(End::Recv, 1), (End::Send, 0)] {
        let Some(LocalWork::Start { channel: CHANNEL, end: found, operation }) = work(&mut cluster) else {
            panic!("nothing is started")
        };
        assert_eq!(found, end);
        assert_eq!(cluster.outcome(rank, 0), None);
        cluster.engines[0].handle_started(operation);
        cluster.collect(0);
        assert_eq!(cluster.status(rank, 0), Some(Status::GoesDirect));
    }
    assert_eq!(work(&mut cluster), None);
}

#[test]
fn a_start_that_was_under_way_is_started_on_the_channel() {
    let mut cluster = node();
    cluster.channel(BYTES);
    open(&mut cluster, Some(CHANNEL));
    cluster.start(0, 0);
    assert!(matches!(work(&mut cluster), Some(LocalWork::Start { channel: CHANNEL, end: End::Send, .. })));
    // Too late to be cancelled here: the client is told to go on there, and cancels there.
    cluster.cancel(0, 0);
    assert_eq!(cluster.outcome(0, 0), None);
}

#[test]
fn without_memory_for_a_channel_messages_take_the_link() {
    let mut cluster = node();
    cluster.init_send(0, 0, 1, BYTES);
    cluster.fill(0, 0, 5);
    cluster.start(0, 0);
    cluster.init_recv(1, 0, 0, BYTES);
    cluster.start(1, 0);
    cluster.settle();
    open(&mut cluster, None);
    assert_eq!(work(&mut cluster), None);
    let received = Completion { status: Status::Success, source: 0, tag: TAG, bytes: BYTES };
    assert_eq!(cluster.outcome(1, 0), Some(received));
    assert_eq!(cluster.bytes(1, 0, BYTES as usize), [5; BYTES as usize]);
}

#[test]
fn a_message_that_is_too_long_takes_the_link_where_it_is_reported() {
    let mut cluster = node();
    cluster.init_send(0, 0, 1, 2 * BYTES);
    cluster.init_recv(1, 0, 0, BYTES);
    cluster.start(0, 0);
    cluster.start(1, 0);
    cluster.settle();
    assert_eq!(work(&mut cluster), None);
    assert_eq!(cluster.status(1, 0), Some(Status::Truncated));
}

#[test]
fn a_freed_end_is_free_when_its_buffer_is() {
    let mut cluster = node();
    cluster.channel(BYTES);
    open(&mut cluster, Some(CHANNEL));
    for (rank, end) in [(0, End::Send), (1, End::Recv)] {
        cluster.free(rank, 0);
        let Some(LocalWork::Close { channel: CHANNEL, end: found, request: Some(request), why }) = work(&mut cluster)
        else {
            panic!("nothing is closed")
        };
        assert_eq!((found, why), (end, Status::PeerFreed));
        cluster.settle();
        assert_eq!(cluster.outcome(rank, 0), None);
        cluster.engines[0].handle_closed(request);
        cluster.collect(0);
        assert_eq!(cluster.status(rank, 0), Some(Status::Freed));
    }
    assert_eq!(cluster.engines[0].leftovers().requests, 0);
}

#[test]
fn a_process_that_ends_closes_its_ends() {
    for (has_failed, expected) in [(true, Status::RankFailed), (false, Status::RankLeft)] {
        let mut cluster = node();
        cluster.channel(BYTES);
        open(&mut cluster, Some(CHANNEL));
        cluster.end_client(1, has_failed);
        let closed = LocalWork::Close { channel: CHANNEL, end: End::Recv, request: None, why: expected };
        assert_eq!(work(&mut cluster), Some(closed));
        cluster.settle();
        // The other end stays until it is freed.
        assert_eq!(cluster.engines[0].leftovers().requests, 1);
    }
}
