//! Collectives whose ranks or links are gone: each round that was begun ends once, what it leaves behind is not written to
//! any more, and nobody waits for ever.

use ropeway_engine::{Placement, ProtocolError};
use ropeway_proto::{ChannelId, CommId, Completion, Envelope, Frame, Status};
use ropeway_schedule::{Algorithm, Collective, Order, Shape};

use crate::cluster::Cluster;
use crate::collectives::{LARGE, SMALL, allreduce, each};
use crate::rounds::{Group, compose, sum};

fn gone(status: Status, source: u32) -> Option<Completion> {
    Some(Completion { source, ..Completion::bare(status) })
}

/// A cluster in which things happen at random, to one collective that everybody who lives begins again and again.
struct Turmoil {
    cluster: Cluster,
    group: Group,
    random: fastrand::Rng,
    begun: Vec<u64>,
    /// What each participant's last round has left behind.
    left: Vec<Vec<u64>>,
    /// Whose ranks do not come any more.
    is_absent: Vec<bool>,
}

impl Turmoil {
    fn new(ranks: u32, (shape, algorithm, operator): (Shape, Algorithm, crate::rounds::Operator), seed: u64) -> Self {
        let size = shape.size as usize;
        let mut cluster = Cluster::new(&vec![ranks; size]);
        let group = cluster.open(0, &shape, &algorithm, operator);
        let (random, begun) = (fastrand::Rng::with_seed(seed), vec![0; size]);
        let left = vec![Vec::new(); size];
        Self { cluster, group, random, begun, left, is_absent: vec![false; size] }
    }

    fn ended(&self, me: usize) -> u64 {
        self.cluster.ends(&self.group, me).len() as u64
    }

    fn has_failed(&self, me: usize) -> bool {
        self.cluster.ends(&self.group, me).last().is_some_and(Option::is_some)
    }

    /// One event: of a link, of memory, or a round's begin.
    fn step(&mut self, rounds_max: u64) -> bool {
        let me = self.random.usize(..self.begun.len());
        let before: Vec<u64> = (0..self.begun.len()).map(|me| self.ended(me)).collect();
        let is_ready = self.ended(me) == self.begun[me] && !self.is_absent[me] && !self.has_failed(me);
        let has_happened = if is_ready && self.begun[me] < rounds_max && self.random.u8(..4) == 0 {
            self.assert_untouched(me);
            self.begun[me] += 1;
            self.cluster.begin_round(&self.group, me, self.begun[me] - 1);
            true
        } else {
            self.cluster.happen_at_random(&mut self.random)
        };
        self.look(&before);
        has_happened
    }

    /// Takes down what rounds that have just ended leave behind.
    fn look(&mut self, before: &[u64]) {
        for (me, &before) in before.iter().enumerate() {
            if self.ended(me) == before {
                continue;
            }
            assert_eq!(self.ended(me), before + 1, "one round, one end");
            if !self.has_failed(me) {
                self.cluster.assert_result(&self.group, me, before);
            }
            self.left[me] = self.cluster.written(&self.group, me);
        }
    }

    fn assert_untouched(&self, me: usize) {
        if self.begun[me] > 0 {
            assert_eq!(self.cluster.written(&self.group, me), self.left[me], "{me} was written to after its round");
        }
    }

    fn happen(&mut self, events: usize) {
        for _ in 0..events {
            self.step(u64::MAX);
        }
    }

    /// What the test does to the cluster.
    fn strike(&mut self, blow: impl FnOnce(&mut Cluster)) {
        let before: Vec<u64> = (0..self.begun.len()).map(|me| self.ended(me)).collect();
        blow(&mut self.cluster);
        self.look(&before);
    }

    /// Goes on until nothing happens any more. Then whoever has begun a round has ended it, and whoever lives has failed.
    fn end(mut self) {
        let mut idle = 0;
        while idle < 800 {
            idle = if self.step(40) { 0 } else { idle + 1 };
        }
        let what = format!("{:?}", self.group.shape);
        for me in 0..self.begun.len() {
            assert_eq!(self.ended(me), self.begun[me], "{me} waits for ever: {what}");
            assert!(self.is_absent[me] || self.has_failed(me), "{me} goes on: {what}");
            self.assert_untouched(me);
            if self.has_failed(me) {
                let last = *self.cluster.ends(&self.group, me).last().unwrap();
                self.cluster.begin_round(&self.group, me, 0);
                assert_eq!(self.cluster.ends(&self.group, me).last(), Some(&last), "later starts fail at once");
                assert_eq!(self.ended(me), self.begun[me] + 1);
            }
        }
        self.cluster.close(&self.group);
        self.cluster.settle();
        self.cluster.assert_nothing_left();
    }
}

fn everything() -> impl Iterator<Item = (Shape, Algorithm, crate::rounds::Operator)> {
    [3, 4].into_iter().flat_map(|size| [SMALL, LARGE].into_iter().flat_map(move |count| each(size, count)))
}

#[test]
fn a_rank_that_fails_at_any_moment_ends_every_round() {
    for (seed, case) in (0..).zip(everything()) {
        let ranks = 1 + seed as u32 % 2;
        let mut turmoil = Turmoil::new(ranks, case.clone(), seed);
        let events = turmoil.random.usize(..600);
        turmoil.happen(events);
        let rank = turmoil.random.u32(..case.0.size * ranks);
        turmoil.is_absent[(rank / ranks) as usize] = true;
        turmoil.strike(|cluster| cluster.end_client(rank, true));
        turmoil.end();
    }
}

#[test]
fn a_link_lost_at_any_moment_ends_every_round() {
    for (seed, case) in (0..).zip(everything()) {
        let mut turmoil = Turmoil::new(1, case.clone(), seed);
        let events = turmoil.random.usize(..600);
        turmoil.happen(events);
        let one = turmoil.random.u16(..case.0.size as u16);
        let other = (one + 1 + turmoil.random.u16(..case.0.size as u16 - 1)) % case.0.size as u16;
        turmoil.strike(|cluster| cluster.cut(one, other));
        turmoil.end();
    }
}

#[test]
fn whoever_leaves_between_rounds_disturbs_nobody_in_an_earlier_one() {
    for (seed, case) in (0..).zip(everything()) {
        let ranks = 1 + seed as u32 % 2;
        let mut turmoil = Turmoil::new(ranks, case.clone(), seed);
        let rank = turmoil.random.u32(..case.0.size * ranks);
        let me = (rank / ranks) as usize;
        let rounds = 1 + turmoil.random.u64(..4);
        while turmoil.ended(me) < rounds {
            turmoil.step(rounds);
        }
        turmoil.is_absent[me] = true;
        turmoil.strike(|cluster| cluster.end_client(rank, false));
        let mut idle = 0;
        while idle < 800 {
            idle = if turmoil.step(rounds) { 0 } else { idle + 1 };
        }
        for me in 0..case.0.size as usize {
            let ends = turmoil.cluster.ends(&turmoil.group, me);
            assert_eq!(ends, vec![None; rounds as usize], "{me}: {case:?}");
        }
        turmoil.end();
    }
}

#[test]
fn a_failure_has_a_name() {
    for has_failed in [true, false] {
        let mut cluster = Cluster::new(&[2, 1, 2]);
        let group = cluster.open(0, &allreduce(3, SMALL), &"linear".parse().unwrap(), compose);
        cluster.round(&group, 0);
        cluster.end_client(4, has_failed);
        cluster.settle();
        let status = if has_failed { Status::RankFailed } else { Status::RankLeft };
        // A rank that has left has sent what the others need, who may be in an earlier round.
        let told: Vec<_> =
            (0..3).filter(|&me| has_failed || me == 2).map(|me| (me, group.ids[usize::from(me)])).collect();
        cluster.rounds.failed.sort_unstable();
        assert_eq!(cluster.rounds.failed, told);
        for me in 0..3 {
            cluster.begin_round(&group, me, 1);
            cluster.settle();
            assert_eq!(cluster.ends(&group, me)[1..], [gone(status, 4)]);
        }
    }
    let mut cluster = Cluster::new(&[1; 3]);
    let group = cluster.open(0, &allreduce(3, SMALL), &"linear".parse().unwrap(), compose);
    (0..3).for_each(|me| cluster.begin_round(&group, me, 0));
    cluster.cut(0, 2);
    cluster.settle();
    let ends = [0, 1, 2].map(|me| cluster.ends(&group, me)[0]);
    assert_eq!(ends, [gone(Status::PeerLost, 2), gone(Status::NodeGaveUp, 0), gone(Status::PeerLost, 0)]);
}

#[test]
fn who_takes_part_no_more_is_named_by_those_that_only_heard_of_it() {
    // In a ring nobody talks to the node that is opposite.
    let mut cluster = Cluster::new(&[2; 4]);
    let shape = Shape::new(4, Collective::Allreduce { count: SMALL, order: Order::Any });
    let group = cluster.open(0, &shape, &"ring".parse().unwrap(), sum);
    cluster.round(&group, 0);
    (0..3).for_each(|me| cluster.begin_round(&group, me, 1));
    cluster.abandon(&group, 3, gone(Status::PeerFreed, 7).unwrap());
    cluster.settle();
    for me in 0..3 {
        assert_eq!(cluster.ends(&group, me)[1..], [gone(Status::PeerFreed, 7)], "{me}");
    }
}

#[test]
fn more_collectives_than_ranks_fail_together() {
    let mut cluster = Cluster::new(&[1; 2]);
    let groups: Vec<_> =
        (0..5).map(|number| cluster.open(number, &allreduce(2, SMALL), &"linear".parse().unwrap(), compose)).collect();
    groups.iter().for_each(|group| cluster.begin_round(group, 0, 0));
    cluster.end_client(1, true);
    cluster.settle();
    for group in &groups {
        assert_eq!(cluster.ends(group, 0), [gone(Status::RankFailed, 1)]);
        cluster.close(group);
    }
    cluster.settle();
    cluster.assert_nothing_left();
}

#[test]
fn ranks_that_are_no_members_may_go() {
    let mut cluster = Cluster::new(&[2, 2]);
    cluster.rounds.outsiders = vec![0, 3];
    let group = cluster.open(0, &allreduce(2, LARGE), &"linear".parse().unwrap(), compose);
    cluster.end_client(0, true);
    cluster.round(&group, 0);
    cluster.begin_round(&group, 0, 1);
    cluster.end_client(3, false);
    cluster.settle();
    cluster.begin_round(&group, 1, 1);
    cluster.settle();
    cluster.round(&group, 2);
    cluster.close(&group);
    cluster.settle();
    cluster.assert_nothing_left();
}

#[test]
fn what_a_rank_brought_before_it_left_still_counts() {
    let mut cluster = Cluster::new(&[1; 3]);
    let shape = Shape::new(3, Collective::Reduce { root: 0, count: SMALL, order: Order::Rank });
    let group = cluster.open(0, &shape, &"linear".parse().unwrap(), compose);
    cluster.settle();
    for me in [1, 2] {
        cluster.begin_round(&group, me, 0);
        cluster.settle();
        assert_eq!(cluster.ends(&group, me), [None]);
        cluster.end_client(me as u32, false);
        cluster.settle();
    }
    cluster.begin_round(&group, 0, 0);
    cluster.settle();
    assert_eq!(cluster.ends(&group, 0), [None]);
    cluster.assert_result(&group, 0, 0);
    cluster.begin_round(&group, 0, 1);
    assert_eq!(cluster.ends(&group, 0)[1], gone(Status::RankLeft, 1));
}

#[test]
fn a_member_that_is_gone_before_a_collective_is_opened_ends_it() {
    for nodes in [[1, 1, 1], [1, 2, 1]] {
        for has_failed in [true, false] {
            let mut cluster = Cluster::new(&nodes);
            cluster.end_client(1, has_failed);
            cluster.settle();
            let group = cluster.open(0, &allreduce(3, SMALL), &"linear".parse().unwrap(), compose);
            cluster.settle();
            let status = if has_failed { Status::RankFailed } else { Status::RankLeft };
            for me in 0..3 {
                cluster.begin_round(&group, me, 0);
                cluster.settle();
                assert_eq!(cluster.ends(&group, me), [gone(status, 1)]);
            }
            cluster.close(&group);
            cluster.settle();
        }
    }
}

#[test]
fn a_failed_round_is_not_over_while_a_message_is_arriving() {
    let mut cluster = Cluster::new(&[1; 3]);
    let shape = Shape::new(3, Collective::Bcast { root: 0, count: LARGE });
    let group = cluster.open(0, &shape, &"linear".parse().unwrap(), sum);
    cluster.settle();
    cluster.hold(0, 1, true);
    (0..2).for_each(|me| cluster.begin_round(&group, me, 0));
    cluster.settle();
    cluster.deliver_header(0, 1);
    cluster.end_client(2, true);
    cluster.settle();
    assert!(cluster.ends(&group, 1).is_empty());
    cluster.hold(0, 1, false);
    cluster.settle();
    for me in [0, 1] {
        assert_eq!(cluster.ends(&group, me), [gone(Status::RankFailed, 2)]);
    }
}

#[test]
fn nodes_that_disagree_about_lengths_fail() {
    for counts in [[SMALL, SMALL - 1], [SMALL - 1, SMALL], [LARGE, LARGE + 1], [LARGE, SMALL], [SMALL, LARGE]] {
        let mut cluster = Cluster::pair();
        let shape = allreduce(2, counts[0].max(counts[1]));
        let schedule = |me: u32| {
            ropeway_schedule::build(&allreduce(2, counts[me as usize]), &"recursive-doubling".parse().unwrap(), me)
                .unwrap()
        };
        let group = cluster.open_over(0, &shape, compose, vec![0, 1], schedule);
        for me in 0..2 {
            cluster.begin_round(&group, me, 0);
            cluster.settle();
        }
        for me in 0..2 {
            let end = cluster.ends(&group, me)[0].expect("a failure");
            assert_eq!(end.status, Status::Mismatch);
        }
        cluster.close(&group);
        cluster.settle();
        cluster.assert_nothing_left();
    }
}

// ---- liars

const PAYLOAD: u32 = 8;
const NODES: CommId = CommId(CommId::RESERVED);

/// What node 1 says to a frame of node 0.
fn answer(cluster: &mut Cluster, frame: Frame) -> Result<Placement, ProtocolError> {
    cluster.frame(0, 1, frame)
}

#[test]
fn only_channels_may_be_of_nodes_and_only_first_ranks_stand_for_them() {
    let mut cluster = Cluster::new(&[2, 2]);
    let envelope = Envelope { comm: NODES, source: 0, dest: 2, tag: 0 };
    let send = ChannelId { index: 0, generation: 1 };
    for frame in [
        Frame::Message { envelope, payload_bytes: PAYLOAD },
        Frame::Announce { envelope, send, bytes: 8 },
        Frame::Withdraw { envelope, send },
    ] {
        assert_eq!(answer(&mut cluster, frame), Err(ProtocolError::ReservedComm { comm: NODES }), "{frame:?}");
    }
    for (source, dest) in [(3, 0), (2, 1), (0, 2), (2, 2), (9, 0)] {
        let envelope = Envelope { source, dest, ..envelope };
        let error = ProtocolError::ForeignRank { from: 0, source_rank: dest, dest: source };
        assert_eq!(answer(&mut cluster, Frame::Bind { envelope, recv: send, capacity: 8 }), Err(error));
    }
    let envelope = Envelope { source: 2, dest: 0, tag: -1, ..envelope };
    let error = ProtocolError::BadTag { tag: -1 };
    assert_eq!(answer(&mut cluster, Frame::Bind { envelope, recv: send, capacity: 8 }), Err(error));
}

/// The requests of node 1 in an exchange of two nodes, and what node 0 calls the other ends.
fn exchange(cluster: &mut Cluster) -> (ChannelId, ChannelId) {
    cluster.open(0, &allreduce(2, SMALL), &"recursive-doubling".parse().unwrap(), compose);
    while cluster.transmit(1, 0).is_some() {
        cluster.deliver(1, 0);
    }
    let bind = |&(from, _, frame): &(u16, u16, Frame)| {
        if let (1, Frame::Bind { recv, .. }) = (from, frame) { Some(recv) } else { None }
    };
    let recv = cluster.sent.iter().find_map(bind).unwrap();
    (ChannelId { index: 1 - recv.index, generation: 3 - recv.generation }, recv)
}

#[test]
fn frames_that_do_not_fit_a_step_are_lies() {
    let frames = |send: ChannelId, recv: ChannelId| {
        let bound = |wire| Frame::Bound { recv, send: recv, bytes: 8, is_rendezvous: false, wire };
        [
            bound(Some(3)),
            Frame::Bound { recv: send, send: recv, bytes: 8, is_rendezvous: false, wire: None },
            Frame::Eager { channel: recv, payload_bytes: PAYLOAD },
            Frame::Eager { channel: send, payload_bytes: PAYLOAD },
            Frame::Wired { send, recv, wire: Some(1) },
            Frame::Armed { channel: send },
            Frame::Armed { channel: recv },
            Frame::Accept { send, recv },
            Frame::Withdrawn { send },
            Frame::Credit { channel: recv, count: 1 },
        ]
    };
    let count = frames(ChannelId { index: 0, generation: 0 }, ChannelId { index: 0, generation: 0 }).len();
    for index in 0..count {
        let mut cluster = Cluster::pair();
        let (send, recv) = exchange(&mut cluster);
        let frame = frames(send, recv)[index];
        assert_eq!(answer(&mut cluster, frame), Err(ProtocolError::ForeignChannel), "{frame:?}");
    }
}

#[test]
fn a_third_node_can_not_address_a_step() {
    let mut cluster = Cluster::new(&[1; 3]);
    let shape = allreduce(2, SMALL);
    let schedule = |me| ropeway_schedule::build(&shape, &"recursive-doubling".parse().unwrap(), me).unwrap();
    let group = cluster.open_over(0, &shape, compose, vec![0, 1], schedule);
    cluster.settle();
    for index in 0..2 {
        let channel = ChannelId { index, generation: index + 1 };
        for frame in [
            Frame::Eager { channel, payload_bytes: PAYLOAD },
            Frame::Unbind { channel, cause: None },
            Frame::Credit { channel, count: 1 },
            Frame::Disarm { channel },
        ] {
            assert_eq!(cluster.frame(2, 1, frame), Err(ProtocolError::ForeignChannel), "{frame:?}");
        }
    }
    cluster.round(&group, 0);
}
