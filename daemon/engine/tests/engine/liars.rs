//! Peer daemons that lie. Whatever they send, the engine answers with an error or goes on; it never panics, and never
//! lets them make it keep more than the credits they have.

use proptest::prelude::*;
use ropeway_engine::{Leftovers, Placement, ProtocolError};
use ropeway_proto::agreement::{Difference, ShapeDigest, Statement};
use ropeway_proto::frame::Header;
use ropeway_proto::limits::{EAGER_BYTES_LIMIT, SLOTS_PER_RANK};
use ropeway_proto::{Batch, Cause, ChannelId, CommId, Command, Completion, Envelope, Frame, JobId, Layout, Status};
use ropeway_schedule::{Collective, Order, Shape, build};

use crate::cluster::{Cluster, TAG};
use crate::rounds::{ELEMENT_BYTES, Group, compose};

const SMALL: u64 = 8;
const LARGE: u64 = 1000;
const PAYLOAD: u32 = 8;
/// A small message of a collective.
const STEP_SMALL: u64 = 56;
const ENVELOPE: Envelope = Envelope { comm: CommId::WORLD, source: 0, dest: 1, tag: TAG };

fn id(index: u32, generation: u32) -> ChannelId {
    ChannelId { index, generation }
}

/// The first request of an engine.
const FIRST: ChannelId = ChannelId { index: 0, generation: 1 };

/// What node 1 says to a frame of node 0.
fn answer(cluster: &mut Cluster, frame: Frame) -> Result<(), ProtocolError> {
    let placement = cluster.frame(0, 1, frame)?;
    cluster.arrive(1, placement, &vec![0; frame.payload_bytes() as usize]);
    Ok(())
}

#[test]
fn an_envelope_must_name_ranks_of_the_two_nodes() {
    let mut cluster = Cluster::new(&[1, 1, 1]);
    for (source, dest) in [(2, 1), (0, 2), (0, 0), (1, 1), (9, 1), (0, 9)] {
        let envelope = Envelope { source, dest, ..ENVELOPE };
        let reversed = Envelope { source: dest, dest: source, ..ENVELOPE };
        let error = Err(ProtocolError::ForeignRank { from: 0, source_rank: source, dest });
        for frame in [
            Frame::Message { envelope, payload_bytes: PAYLOAD },
            Frame::Announce { envelope, send: FIRST, bytes: LARGE },
            Frame::Withdraw { envelope, send: FIRST },
            Frame::Bind { envelope: reversed, recv: FIRST, capacity: 8 },
            Frame::MessageCredit { source: dest, dest: source, count: 1 },
        ] {
            assert_eq!(answer(&mut cluster, frame), error, "{frame:?}");
        }
    }
}

#[test]
fn wildcards_are_not_tags() {
    for tag in [-1, i32::MIN, i32::MAX] {
        let mut cluster = Cluster::pair();
        cluster.recv(1, 0, (None, None), SMALL);
        let envelope = Envelope { tag, ..ENVELOPE };
        let error = Err(ProtocolError::BadTag { tag });
        assert_eq!(answer(&mut cluster, Frame::Message { envelope, payload_bytes: PAYLOAD }), error);
    }
}

#[test]
fn a_node_reports_the_end_of_its_own_ranks_only() {
    let mut cluster = Cluster::pair();
    for rank in [1, 2] {
        let error = ProtocolError::ForeignRank { from: 0, source_rank: rank, dest: rank };
        assert_eq!(answer(&mut cluster, Frame::RankGone { rank, has_failed: true }), Err(error));
    }
}

#[test]
fn link_frames_do_not_reach_the_engine() {
    let mut cluster = Cluster::pair();
    assert_eq!(answer(&mut cluster, Frame::Heartbeat { acknowledged: 1 }), Err(ProtocolError::LinkFrame));
}

#[test]
fn frames_for_channels_that_are_gone_are_ignored() {
    let mut cluster = Cluster::pair();
    let channel = id(3, 77);
    for frame in [
        Frame::Eager { channel, payload_bytes: PAYLOAD },
        Frame::Data { channel, offset: 0, total: 8, payload_bytes: PAYLOAD },
        Frame::Bound { recv: channel, send: FIRST, bytes: 8, is_rendezvous: false, wire: None },
        Frame::Unbind { channel, cause: None },
        Frame::Credit { channel, count: 1 },
        Frame::Armed { channel },
        Frame::Disarm { channel },
        Frame::Disarmed { channel },
        Frame::Accept { send: channel, recv: FIRST },
        Frame::Withdrawn { send: channel },
    ] {
        assert_eq!(answer(&mut cluster, frame), Ok(()));
    }
}

#[test]
fn who_ends_a_collective_is_a_rank_or_a_node_of_the_job() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    for (status, known) in [(Status::PeerFreed, cluster.engines[0].spec().size()), (Status::NodeGaveUp, 2)] {
        let unbind = |source| {
            let cause = Cause::of(Completion { source, ..Completion::bare(status) });
            Frame::Unbind { channel: FIRST, cause }
        };
        let foreign = ProtocolError::ForeignCause { source_number: known };
        assert_eq!(answer(&mut cluster, unbind(known)), Err(foreign));
        assert_eq!(answer(&mut cluster, unbind(known - 1)), Ok(()));
    }
}

#[test]
fn a_node_addresses_its_own_channels_only() {
    let mut cluster = Cluster::new(&[1, 1, 1]);
    cluster.channel(SMALL);
    for frame in
        [Frame::Eager { channel: FIRST, payload_bytes: PAYLOAD }, Frame::Unbind { channel: FIRST, cause: None }]
    {
        assert_eq!(cluster.frame(2, 1, frame), Err(ProtocolError::ForeignChannel));
    }
}

#[test]
fn frames_for_the_other_kind_of_request_are_refused() {
    let to_recv = [
        Frame::Eager { channel: FIRST, payload_bytes: PAYLOAD },
        Frame::Data { channel: FIRST, offset: 0, total: 8, payload_bytes: PAYLOAD },
        Frame::Bound { recv: FIRST, send: FIRST, bytes: 8, is_rendezvous: false, wire: None },
        Frame::Disarmed { channel: FIRST },
    ];
    let to_send = [
        Frame::Credit { channel: FIRST, count: 1 },
        Frame::Armed { channel: FIRST },
        Frame::Disarm { channel: FIRST },
        Frame::Accept { send: FIRST, recv: FIRST },
        Frame::Withdrawn { send: FIRST },
    ];
    for (bytes, is_send) in [(SMALL, false), (SMALL, true), (LARGE, false), (LARGE, true)] {
        for frame in if is_send { &to_recv[..] } else { &to_send[..] } {
            let mut cluster = Cluster::pair();
            if is_send {
                cluster.init_send(1, 0, 0, bytes);
                cluster.init_recv(0, 0, 1, bytes);
            } else {
                cluster.channel(bytes);
            }
            cluster.settle();
            cluster.start(1, 0);
            assert_eq!(answer(&mut cluster, *frame), Err(ProtocolError::ForeignChannel), "{frame:?}");
        }
    }
}

#[test]
fn frames_of_channels_are_refused_by_one_shot_requests() {
    let mut cluster = Cluster::pair();
    cluster.recv(1, 0, (Some(0), Some(TAG)), SMALL);
    cluster.send(1, 1, 0, TAG, LARGE);
    cluster.probe(1, 2, (Some(0), Some(TAG)), true);
    cluster.settle();
    let (recv, send, probe) = (FIRST, id(1, 2), id(2, 3));
    for frame in [
        Frame::Eager { channel: recv, payload_bytes: PAYLOAD },
        Frame::Bound { recv, send: FIRST, bytes: 8, is_rendezvous: true, wire: None },
        Frame::Unbind { channel: recv, cause: None },
        Frame::Unbind { channel: send, cause: None },
        Frame::Credit { channel: send, count: 1 },
        Frame::Armed { channel: send },
        Frame::Disarm { channel: send },
        Frame::Unbind { channel: probe, cause: None },
        Frame::Disarmed { channel: probe },
        Frame::Accept { send: probe, recv },
    ] {
        assert_eq!(answer(&mut cluster, frame), Err(ProtocolError::ForeignChannel), "{frame:?}");
    }
    let data = Frame::Data { channel: recv, offset: 0, total: 8, payload_bytes: PAYLOAD };
    let error = ProtocolError::UnexpectedData { offset: 0, total: 8, arrived: 0 };
    assert_eq!(answer(&mut cluster, data), Err(error), "it has accepted nothing");
    cluster.send(0, 0, 1, TAG, SMALL);
    cluster.settle();
    assert_eq!(cluster.status(1, 0), Some(Status::Success), "and still waits for its message");
}

#[test]
fn more_messages_than_credits_are_refused() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    let eager = Frame::Eager { channel: FIRST, payload_bytes: PAYLOAD };
    for _ in 0..4 {
        assert_eq!(answer(&mut cluster, eager), Ok(()));
    }
    assert_eq!(answer(&mut cluster, eager), Err(ProtocolError::NoCredit));
    // Taking one does not return its credit yet: two make a frame, and that has not left.
    cluster.stop(1, 0, true);
    cluster.start(1, 0);
    assert_eq!(answer(&mut cluster, eager), Err(ProtocolError::NoCredit));
}

#[test]
fn eager_messages_larger_than_any_node_may_send_are_refused() {
    let mut cluster = Cluster::pair();
    cluster.channel(SMALL);
    let bytes = EAGER_BYTES_LIMIT as u32 + 1;
    let error = Err(ProtocolError::TooLarge { bytes: bytes.into() });
    assert_eq!(answer(&mut cluster, Frame::Eager { channel: FIRST, payload_bytes: bytes }), error);
    assert_eq!(answer(&mut cluster, Frame::Message { envelope: ENVELOPE, payload_bytes: bytes }), error);
    assert_eq!(cluster.engines[1].leftovers().stashed, 0);
    assert_eq!(answer(&mut cluster, Frame::Eager { channel: FIRST, payload_bytes: bytes - 1 }), Ok(()));
    assert_eq!(answer(&mut cluster, Frame::Message { envelope: ENVELOPE, payload_bytes: bytes - 1 }), Ok(()));
}

#[test]
fn more_one_shot_messages_than_credits_are_refused() {
    let mut cluster = Cluster::configured(&[1, 1], |config| config.pair_credits = 3);
    let message = Frame::Message { envelope: ENVELOPE, payload_bytes: PAYLOAD };
    for _ in 0..3 {
        assert_eq!(answer(&mut cluster, message), Ok(()));
    }
    assert_eq!(answer(&mut cluster, message), Err(ProtocolError::NoCredit));
    assert_eq!(cluster.engines[1].leftovers().stashed, 3);
}

#[test]
fn more_credits_than_were_used_are_refused() {
    let mut cluster = Cluster::pair();
    cluster.init_send(1, 0, 0, SMALL);
    cluster.init_recv(0, 0, 1, SMALL);
    cluster.init_send(1, 1, 0, LARGE);
    cluster.init_recv(0, 1, 1, LARGE);
    cluster.settle();
    for frame in [
        Frame::Credit { channel: FIRST, count: 1 },
        Frame::Credit { channel: FIRST, count: u32::MAX },
        Frame::MessageCredit { source: 1, dest: 0, count: 1 },
    ] {
        assert_eq!(answer(&mut cluster, frame), Err(ProtocolError::NoCredit));
    }
    let armed = Frame::Armed { channel: id(1, 2) };
    assert_eq!(answer(&mut cluster, armed), Ok(()));
    assert_eq!(answer(&mut cluster, armed), Err(ProtocolError::NoCredit));
}

#[test]
fn a_credit_returned_twice_does_not_break_a_cancel() {
    let mut cluster = Cluster::pair();
    cluster.stop(1, 0, true);
    cluster.send(1, 0, 0, TAG, SMALL);
    assert_eq!(answer(&mut cluster, Frame::MessageCredit { source: 1, dest: 0, count: 1 }), Ok(()));
    cluster.cancel(1, 0);
    assert_eq!(cluster.status(1, 0), Some(Status::Cancelled));
}

#[test]
fn data_must_be_asked_for_and_in_order() {
    let data = |offset, total| Frame::Data { channel: FIRST, offset, total, payload_bytes: PAYLOAD };
    let unexpected = |offset, total, arrived| Err(ProtocolError::UnexpectedData { offset, total, arrived });
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    assert_eq!(answer(&mut cluster, data(0, LARGE)), unexpected(0, LARGE, 0), "not started");
    cluster.start(1, 0);
    assert_eq!(answer(&mut cluster, data(0, LARGE)), unexpected(0, LARGE, 0), "not armed");
    cluster.settle();
    assert_eq!(answer(&mut cluster, data(8, LARGE)), unexpected(8, LARGE, 0));
    assert_eq!(answer(&mut cluster, data(0, LARGE)), Ok(()));
    for (offset, total) in [(0, LARGE), (16, LARGE), (8, LARGE + 1)] {
        assert_eq!(answer(&mut cluster, data(offset, total)), unexpected(offset, total, 8));
    }
    assert_eq!(answer(&mut cluster, data(8, LARGE)), Ok(()));
}

#[test]
fn a_channel_is_bound_once_and_uses_one_protocol() {
    let mut cluster = Cluster::pair();
    cluster.channel(LARGE);
    let bound = Frame::Bound { recv: FIRST, send: FIRST, bytes: 8, is_rendezvous: false, wire: None };
    assert_eq!(answer(&mut cluster, bound), Err(ProtocolError::ForeignChannel));
    let eager = Frame::Eager { channel: FIRST, payload_bytes: PAYLOAD };
    assert_eq!(answer(&mut cluster, eager), Err(ProtocolError::ForeignChannel));
}

#[test]
fn a_channel_that_is_not_bound_takes_no_message() {
    let mut cluster = Cluster::pair();
    cluster.init_recv(1, 0, 0, SMALL);
    let eager = Frame::Eager { channel: FIRST, payload_bytes: PAYLOAD };
    assert_eq!(answer(&mut cluster, eager), Err(ProtocolError::ForeignChannel));
    cluster.free(1, 0);
    assert_eq!(answer(&mut cluster, eager), Err(ProtocolError::ForeignChannel));
}

// ---- anything at all

#[derive(Clone, Debug)]
enum Event {
    /// A client does something with one of its slots.
    Command { local_rank: u32, slot: u32, verb: u8, peer: Option<u32>, bytes: u64 },
    /// All contributions to a collective are there.
    Round { which: usize },
    /// The peer sends something. Its payload comes at once, or only before its next frame.
    Frame { frame: Frame, is_slow: bool },
    /// Links carry what there is.
    Settle,
    /// A client ends.
    End { local_rank: u32 },
}

fn any_id() -> impl Strategy<Value = ChannelId> {
    // Ids are given out in this order, so that many of these exist.
    (0u32..9, 1u32..4).prop_map(|(index, more)| id(index, index + more))
}

fn any_envelope() -> impl Strategy<Value = Envelope> {
    let comm = prop_oneof![3 => Just(CommId::WORLD), 1 => Just(CommId(CommId::RESERVED))];
    (comm, 0u32..2, 0i32..2).prop_map(|(comm, dest, tag)| Envelope { comm, source: 2, dest, tag: TAG + tag })
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let (channel, other) = (any_id, any_id);
    let payload = || prop_oneof![8 => 0u32..20, 1 => Just(STEP_SMALL as u32), 1 => Just(LARGE as u32)];
    let sizes = || (payload(), prop_oneof![Just(8u64), Just(LARGE), Just(0)]);
    prop_oneof![
        (any_envelope(), channel()).prop_map(|(envelope, recv)| {
            let envelope = Envelope { source: envelope.dest, dest: 2, ..envelope };
            Frame::Bind { envelope, recv, capacity: 8 }
        }),
        (channel(), other(), any::<bool>(), any::<Option<u16>>()).prop_map(|(recv, send, is_rendezvous, wire)| {
            Frame::Bound { recv, send, bytes: 8, is_rendezvous, wire }
        }),
        (channel(), other(), any::<Option<u16>>()).prop_map(|(send, recv, wire)| Frame::Wired { send, recv, wire }),
        (channel(), any::<Option<u32>>()).prop_map(|(channel, source)| {
            let freed = |source| Completion { source, ..Completion::bare(Status::PeerFreed) };
            Frame::Unbind { channel, cause: source.and_then(|source| Cause::of(freed(source))) }
        }),
        (channel(), sizes()).prop_map(|(channel, (payload_bytes, _))| Frame::Eager { channel, payload_bytes }),
        (channel(), 0u32..5).prop_map(|(channel, count)| Frame::Credit { channel, count }),
        channel().prop_map(|channel| Frame::Armed { channel }),
        channel().prop_map(|channel| Frame::Disarm { channel }),
        channel().prop_map(|channel| Frame::Disarmed { channel }),
        (channel(), prop_oneof![Just(0u64), 0u64..20], sizes()).prop_map(
            |(channel, offset, (payload_bytes, total))| Frame::Data { channel, offset, total, payload_bytes }
        ),
        (any_envelope(), sizes()).prop_map(|(envelope, (payload_bytes, _))| Frame::Message { envelope, payload_bytes }),
        (any_envelope(), channel(), sizes()).prop_map(|(envelope, send, (_, bytes))| Frame::Announce {
            envelope,
            send,
            bytes
        }),
        (channel(), other()).prop_map(|(send, recv)| Frame::Accept { send, recv }),
        (any_envelope(), channel()).prop_map(|(envelope, send)| Frame::Withdraw { envelope, send }),
        channel().prop_map(|send| Frame::Withdrawn { send }),
        (0u32..2, 0u32..3).prop_map(|(source, count)| Frame::MessageCredit { source, dest: 2, count }),
        any::<bool>().prop_map(|has_failed| Frame::RankGone { rank: 2, has_failed }),
        (0u64..3, 1u32..4, any::<Option<bool>>()).prop_map(|(number, rank, dissenter)| {
            let dissenter = dissenter.map(|is_ours| (u32::from(is_ours), Difference::Root));
            Frame::Shape { number, statement: Statement { rank, digest: ShapeDigest::default(), dissenter } }
        }),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let peer = prop_oneof![3 => Just(Some(2)), 1 => (0u32..2).prop_map(Some), 1 => Just(None)];
    let bytes = prop_oneof![Just(0), Just(SMALL), Just(LARGE)];
    prop_oneof![
        8 => (0u32..2, 0u32..3, 0u8..10, peer, bytes)
            .prop_map(|(local_rank, slot, verb, peer, bytes)| Event::Command { local_rank, slot, verb, peer, bytes }),
        8 => (any_frame(), any::<bool>()).prop_map(|(frame, is_slow)| Event::Frame { frame, is_slow }),
        2 => Just(Event::Settle),
        2 => (0usize..2).prop_map(|which| Event::Round { which }),
        1 => (0u32..2).prop_map(|local_rank| Event::End { local_rank }),
    ]
}

/// Ranks 0 and 1 on node 0, whose engine is on trial; rank 2 on node 1, whose frames are made up.
struct Trial {
    cluster: Cluster,
    epochs: [[u32; 3]; 2],
    is_attached: [bool; 2],
    arriving: Option<(Placement, Vec<u8>)>,
    /// Collectives of both nodes, and how often they were started.
    groups: [(Group, u64); 2],
}

impl Trial {
    fn new() -> Self {
        let mut cluster = Cluster::configured(&[2, 1], |config| (config.channel_credits, config.pair_credits) = (2, 2));
        cluster.hold(0, 1, true);
        let groups = [STEP_SMALL, LARGE].map(|bytes| {
            let collective = Collective::Allreduce { count: bytes / ELEMENT_BYTES, order: Order::Rank };
            let shape = Shape::new(2, collective);
            let mut group = Group::new(&shape, compose, vec![0, 1]);
            let number = TAG as u32 + u32::from(bytes == LARGE);
            cluster.join(&mut group, number.into(), build(&shape, &"recursive-doubling".parse().unwrap(), 0).unwrap());
            (group, 0)
        });
        Self { cluster, epochs: [[0; 3]; 2], is_attached: [true; 2], arriving: None, groups }
    }

    fn round(&mut self, which: usize) {
        let (group, begun) = &mut self.groups[which];
        if self.cluster.ends(group, 0).len() as u64 == *begun {
            self.cluster.begin_round(group, 0, *begun);
            *begun += 1;
        }
    }

    fn command(&mut self, (local_rank, slot, verb): (u32, u32, u8), peer: Option<u32>, bytes: u64) {
        if !self.is_attached[local_rank as usize] {
            return;
        }
        let epoch = &mut self.epochs[local_rank as usize][slot as usize];
        let (current, next) = (*epoch, *epoch + 1);
        *epoch = if verb == 0 { current } else { next };
        let layout: Layout = self.cluster.layout(local_rank, slot, bytes);
        let (definite, any) = (Cluster::endpoint(peer.unwrap_or(2), TAG), Cluster::endpoint(peer, None));
        let (slot, epoch) = (slot, next);
        let command = match verb {
            0 => Command::Cancel { slot, epoch: current },
            1 => Command::InitSend { slot, epoch, endpoint: definite, layout },
            2 => Command::InitRecv { slot, epoch, endpoint: definite, layout },
            3 | 4 => Command::Start { slot, epoch },
            5 => Command::Free { slot, epoch },
            6 => Command::Send { slot, epoch, endpoint: definite, layout },
            7 => Command::Recv { slot, epoch, endpoint: any, layout },
            8 => {
                let mut batch = Batch::new();
                for command in [Command::Start { slot, epoch }, Command::Move { slot }, Command::ArriveAlone { slot }] {
                    assert!(batch.add(&command.encode()));
                }
                Command::Several(batch)
            }
            _ => Command::Probe { slot, epoch, endpoint: any, wait: bytes > 0 },
        };
        // Evicting a client for a violation would soon end every trial: it goes on where the engine thinks it is.
        let _ = self.cluster.command(local_rank, command);
    }

    /// `false` once the peer was caught.
    fn frame(&mut self, frame: Frame, is_slow: bool) -> bool {
        if let Some((placement, payload)) = self.arriving.take() {
            self.cluster.arrive(0, placement, &payload);
        }
        let header = Header { sequence: 1, job: JobId(1), frame };
        if Header::decode(&header.encode()).is_err() {
            return true; // The link itself refuses it.
        }
        let payload = vec![7; frame.payload_bytes() as usize];
        match self.cluster.frame(1, 0, frame) {
            Ok(placement) if is_slow => self.arriving = Some((placement, payload)),
            Ok(placement) => self.cluster.arrive(0, placement, &payload),
            Err(_) => return false,
        }
        true
    }

    fn finish(mut self) {
        let interrupted = self.arriving.take().map(|(placement, _)| placement.arrival);
        self.cluster.engines[0].handle_link_down(ropeway_proto::NodeId(1), interrupted);
        self.cluster.collect(0);
        for local_rank in 0..2 {
            self.end(local_rank);
        }
        self.cluster.settle();
        for (group, begun) in &self.groups {
            assert_eq!(self.cluster.ends(group, 0).len() as u64, *begun);
            self.cluster.engines[0].close_collective(group.ids[0]);
            self.cluster.collect(0);
        }
        assert_eq!(self.cluster.engines[0].leftovers(), Leftovers::default());
    }

    fn end(&mut self, local_rank: u32) {
        if std::mem::replace(&mut self.is_attached[local_rank as usize], false) {
            self.cluster.end_client(local_rank, true);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_sequence_of_frames_and_commands_breaks_the_engine(events in proptest::collection::vec(any_event(), 1..60)) {
        let mut trial = Trial::new();
        for event in events {
            match event {
                Event::Command { local_rank, slot, verb, peer, bytes } => {
                    trial.command((local_rank, slot, verb), peer, bytes);
                }
                Event::Frame { frame, is_slow } => {
                    if !trial.frame(frame, is_slow) {
                        break;
                    }
                }
                Event::Round { which } => trial.round(which),
                Event::Settle => trial.cluster.settle(),
                Event::End { local_rank } => trial.end(local_rank),
            }
        }
        trial.finish();
    }
}

/// What a rank of a node could have waiting here: its slots, and as many requests again that are freed and not met.
const WAITING_MAX: u32 = 2 * SLOTS_PER_RANK;

#[test]
fn announcements_are_kept_as_far_as_ranks_could_make_them() {
    let announce = |index| Frame::Announce { envelope: ENVELOPE, send: id(index, 1), bytes: LARGE };
    let mut cluster = Cluster::pair();
    for index in 0..WAITING_MAX {
        assert_eq!(answer(&mut cluster, announce(index)), Ok(()));
    }
    assert_eq!(answer(&mut cluster, announce(WAITING_MAX)), Err(ProtocolError::TooManyWaiting));
    // What was asked for, or withdrawn, makes room.
    cluster.recv(1, 0, (None, None), LARGE);
    let withdraw = Frame::Withdraw { envelope: ENVELOPE, send: id(7, 1) };
    for frame in [announce(0), withdraw, announce(1)] {
        assert_eq!(answer(&mut cluster, frame), Ok(()));
    }
    assert_eq!(answer(&mut cluster, announce(2)), Err(ProtocolError::TooManyWaiting));
    // So does the end of their sender, or of the receiver.
    answer(&mut cluster, Frame::RankGone { rank: 0, has_failed: true }).unwrap();
    assert_eq!(cluster.engines[1].leftovers().unexpected, 0);
    assert_eq!(answer(&mut cluster, announce(3)), Ok(()));
    cluster.end_client(1, true);
    assert_eq!(cluster.engines[1].leftovers().unexpected, 0);
}

#[test]
fn receives_are_kept_as_far_as_ranks_could_make_them() {
    let envelope = Envelope { source: 1, dest: 0, ..ENVELOPE };
    let bind = |index| Frame::Bind { envelope, recv: id(index, 1), capacity: LARGE };
    let mut cluster = Cluster::pair();
    for index in 0..WAITING_MAX {
        assert_eq!(answer(&mut cluster, bind(index)), Ok(()));
    }
    assert_eq!(answer(&mut cluster, bind(WAITING_MAX)), Err(ProtocolError::TooManyWaiting));
    // Of another envelope, too, which leaves nothing behind.
    let other = Envelope { tag: TAG + 1, ..envelope };
    let frame = Frame::Bind { envelope: other, recv: FIRST, capacity: LARGE };
    assert_eq!(answer(&mut cluster, frame), Err(ProtocolError::TooManyWaiting));
    // A send that meets one makes room.
    cluster.init_send(1, 0, 0, SMALL);
    for outcome in [Ok(()), Err(ProtocolError::TooManyWaiting)] {
        assert_eq!(answer(&mut cluster, bind(WAITING_MAX)), outcome);
    }
    answer(&mut cluster, Frame::RankGone { rank: 0, has_failed: true }).unwrap();
    cluster.free(1, 0);
    assert_eq!(cluster.engines[1].leftovers(), Leftovers::default());
}

#[test]
fn receives_of_steps_are_kept_as_far_as_collectives_could_make_them() {
    let mut cluster = Cluster::pair();
    let mut outcomes = (0..).map(|index| {
        let (comm, tag) = (CommId(CommId::RESERVED | (index >> 20) << 1), (index & 0xf_ffff) as i32);
        let envelope = Envelope { comm, source: 1, dest: 0, tag };
        answer(&mut cluster, Frame::Bind { envelope, recv: id(index, 1), capacity: SMALL })
    });
    let kept = outcomes.by_ref().take_while(Result::is_ok).count();
    assert_eq!(kept, 16 * WAITING_MAX as usize);
    assert_eq!(outcomes.next(), Some(Err(ProtocolError::TooManyWaiting)));
}
