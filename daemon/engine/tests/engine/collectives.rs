//! Collectives between nodes: right in every order of events, and without a trace once they are closed.

use ropeway_engine::{CollectiveWork, Violation};
use ropeway_proto::{CommId, Command, Endpoint, Frame, Layout, NodeId, limits};
use ropeway_schedule::{
    Action, Algorithm, Buffer, Collective, Counts, Order, PairCounts, Schedule, Shape, Side, Slice,
};

use crate::cluster::{Cluster, EAGER_BYTES, TAG};
use crate::rounds::{ELEMENT_BYTES, Group, Operator, compose, sum};

/// Elements of a message that is pushed, and of one that waits for its receive.
pub(crate) const SMALL: u64 = EAGER_BYTES / ELEMENT_BYTES - 1;
pub(crate) const LARGE: u64 = 5 * EAGER_BYTES / ELEMENT_BYTES;

/// Every operation, with the operator that suits its order.
fn operations(size: u32, count: u64) -> Vec<(Collective, Operator)> {
    let root = size / 2;
    let counts = || Counts::even(count, size);
    let mut all: Vec<(Collective, Operator)> = vec![
        (Collective::Barrier, sum),
        (Collective::Bcast { root, count }, sum),
        (Collective::Gather { root, counts: counts() }, sum),
        (Collective::Scatter { root, counts: counts() }, sum),
        (Collective::Allgather { counts: counts() }, sum),
        (Collective::Allgather { counts: Counts::same(count) }, sum),
        (Collective::Alltoall { counts: PairCounts::Same(count) }, sum),
    ];
    for (order, operator) in [(Order::Any, sum as Operator), (Order::Rank, compose), (Order::Fixed, compose)] {
        all.extend([
            (Collective::Reduce { root, count, order }, operator),
            (Collective::Allreduce { count, order }, operator),
            (Collective::ReduceScatter { counts: counts(), order }, operator),
            (Collective::Scan { count, order }, operator),
            (Collective::Exscan { count, order }, operator),
        ]);
    }
    all
}

/// Each operation with each algorithm that suits it.
pub(crate) fn each(size: u32, count: u64) -> impl Iterator<Item = (Shape, Algorithm, Operator)> {
    operations(size, count).into_iter().flat_map(move |(collective, operator)| {
        let shape = Shape::new(size, collective);
        let suits = Algorithm::all().into_iter().filter(|algorithm| algorithm.check(&shape).is_ok());
        suits.map(|algorithm| (shape.clone(), algorithm, operator)).collect::<Vec<_>>()
    })
}

pub(crate) fn allreduce(size: u32, count: u64) -> Shape {
    Shape::new(size, Collective::Allreduce { count, order: Order::Rank })
}

#[test]
fn every_algorithm_gives_the_right_result_again_and_again() {
    for size in 1..=9 {
        for count in [0, SMALL, LARGE] {
            for (shape, algorithm, operator) in each(size, count) {
                let mut cluster = Cluster::new(&vec![1; size as usize]);
                let group = cluster.open(7, &shape, &algorithm, operator);
                (0..3).for_each(|round| cluster.round(&group, round));
                cluster.close(&group);
                cluster.settle();
                cluster.assert_nothing_left();
            }
        }
    }
}

#[test]
fn nodes_may_have_many_ranks_and_take_part_in_any_order() {
    for (nodes, ranks) in [(vec![2, 0, 1], [3, 1, 2]), (vec![3, 1], [1, 2, 1])] {
        let mut cluster = Cluster::new(&[ranks[0], ranks[1], ranks[2], 2]);
        let shape = allreduce(nodes.len() as u32, LARGE);
        let schedule = |me| ropeway_schedule::build(&shape, &"linear".parse().unwrap(), me).unwrap();
        let group = cluster.open_over(0, &shape, compose, nodes, schedule);
        (0..3).for_each(|round| cluster.round(&group, round));
        cluster.close(&group);
        cluster.settle();
        cluster.assert_nothing_left();
    }
}

/// Lets events happen in a random order until nothing is left to happen. Whoever has ended a round begins the next one.
fn run_at_random(cluster: &mut Cluster, groups: &[Group], rounds: u64, random: &mut fastrand::Rng) {
    let nodes = cluster.engines.len() as u16;
    let mut begun = vec![vec![0; usize::from(nodes)]; groups.len()];
    let mut idle = 0;
    while idle < 50 * usize::from(nodes * nodes) {
        idle += 1;
        let (group, me) = (random.usize(..groups.len()), random.usize(..usize::from(nodes)));
        let begun = &mut begun[group][me];
        let has_happened = match random.u8(..4) {
            0..3 => cluster.happen_at_random(random),
            _ if cluster.ends(&groups[group], me).len() as u64 == *begun && *begun < rounds => {
                if *begun > 0 {
                    assert_eq!(cluster.ends(&groups[group], me).last(), Some(&None));
                    cluster.assert_result(&groups[group], me, *begun - 1);
                }
                cluster.begin_round(&groups[group], me, *begun);
                *begun += 1;
                true
            }
            _ => false,
        };
        if has_happened {
            idle = 0;
        }
    }
}

impl Cluster {
    /// One thing that may happen to a link or a node's memory, if it can.
    pub(crate) fn happen_at_random(&mut self, random: &mut fastrand::Rng) -> bool {
        let nodes = self.engines.len() as u16;
        let (from, to) = (random.u16(..nodes), random.u16(..nodes));
        match random.u8(..3) {
            0 => self.transmit(from, to).is_some(),
            1 => self.deliver(from, to),
            _ => self.work_at_random(random),
        }
    }

    /// Makes one of the copies and combinations that wait, of any kind.
    fn work_at_random(&mut self, random: &mut fastrand::Rng) -> bool {
        let slow = self.rounds.slow.get_or_insert_default();
        if !slow.is_empty() {
            let (node, work) = slow.swap_remove(random.usize(..slow.len()));
            self.work(node, work);
            return true;
        }
        let copies = self.slow_copies.get_or_insert_default().len();
        self.finish_copies();
        self.slow_copies = Some(Vec::new());
        copies > 0
    }
}

#[test]
fn every_order_of_events_gives_the_right_result() {
    const ROUNDS: u64 = 4;
    let mut random = fastrand::Rng::with_seed(5);
    for size in [2, 3, 4, 7] {
        for count in [SMALL, LARGE] {
            for (shape, algorithm, operator) in each(size, count) {
                let mut cluster = Cluster::new(&vec![1; size as usize]);
                let other = allreduce(size, LARGE + SMALL - count);
                let groups = [
                    cluster.open(1, &shape, &algorithm, operator),
                    cluster.open(2, &other, &"binomial".parse().unwrap(), compose),
                ];
                cluster.work_at_random(&mut random);
                run_at_random(&mut cluster, &groups, ROUNDS, &mut random);
                for group in &groups {
                    for me in 0..size as usize {
                        assert_eq!(cluster.ends(group, me), [None; ROUNDS as usize], "{me}: {shape:?} {algorithm}");
                        cluster.assert_result(group, me, ROUNDS - 1);
                    }
                    cluster.close(group);
                }
                cluster.settle();
                cluster.assert_nothing_left();
            }
        }
    }
}

#[test]
fn a_node_may_be_rounds_ahead_as_far_as_its_credit_goes() {
    let mut cluster = Cluster::new(&[1; 3]);
    let shape = Shape::new(3, Collective::Bcast { root: 0, count: SMALL });
    let group = cluster.open(0, &shape, &"linear".parse().unwrap(), sum);
    cluster.settle();
    for round in 0..4 {
        cluster.begin_round(&group, 0, round);
        cluster.settle();
        assert_eq!(cluster.ends(&group, 0).len() as u64, round + 1);
    }
    cluster.begin_round(&group, 0, 4);
    cluster.settle();
    assert_eq!(cluster.ends(&group, 0).len(), 4, "the fifth waits for credit");
    for round in 0..5 {
        for me in [2, 1] {
            cluster.begin_round(&group, me, round);
            cluster.settle();
            assert_eq!(cluster.ends(&group, me).len() as u64, round + 1);
            cluster.assert_result(&group, me, round);
        }
    }
    assert_eq!(cluster.ends(&group, 0).len(), 5);
}

#[test]
fn two_collectives_may_be_started_in_different_orders() {
    for count in [SMALL, LARGE] {
        let mut cluster = Cluster::new(&[1; 4]);
        let groups = [3, (1 << 60) - 1].map(|number| {
            let group = cluster.open(number, &allreduce(4, count), &"recursive-doubling".parse().unwrap(), compose);
            cluster.settle();
            group
        });
        for round in 0..3 {
            for me in 0..4 {
                let order = if me % 2 == 0 { [0, 1] } else { [1, 0] };
                order.iter().for_each(|&which: &usize| cluster.begin_round(&groups[which], me, round));
            }
            cluster.settle();
            for (group, me) in groups.iter().flat_map(|group| (0..4).map(move |me| (group, me))) {
                assert_eq!(cluster.ends(group, me)[round as usize..], [None]);
                cluster.assert_result(group, me, round);
            }
        }
    }
}

#[test]
fn numbers_that_differ_in_any_bit_keep_collectives_apart() {
    let mut cluster = Cluster::new(&[1; 2]);
    let shape = allreduce(2, SMALL);
    let mut envelopes = std::collections::HashSet::new();
    for number in [0, 1, 2, limits::TAG_MAX as u64, limits::TAG_MAX as u64 + 1, 1 << 59, (1 << 60) - 1] {
        cluster.open(number, &shape, &"linear".parse().unwrap(), compose);
        cluster.open(number, &Shape::new(2, Collective::Barrier), &"linear".parse().unwrap(), sum);
        cluster.settle();
        let mut found = 0;
        for (_, _, frame) in std::mem::take(&mut cluster.sent) {
            let Frame::Bind { envelope, .. } = frame else { continue };
            assert!(envelope.comm.is_reserved() && (0..=limits::TAG_MAX).contains(&envelope.tag));
            found += usize::from(envelopes.insert(envelope));
        }
        assert_eq!(found, 4, "messages and signals, both ways");
    }
}

#[test]
fn a_round_waits_for_a_link_that_holds_frames_back() {
    for count in [SMALL, LARGE] {
        for (shape, algorithm, operator) in each(4, count).filter(|(shape, ..)| shape.collective.order().is_some()) {
            let mut cluster = Cluster::new(&[1; 4]);
            let group = cluster.open(0, &shape, &algorithm, operator);
            cluster.round(&group, 0);
            for (from, to) in [(0, 1), (1, 0), (2, 3), (3, 1)] {
                cluster.hold(from, to, true);
            }
            (0..4).for_each(|me| cluster.begin_round(&group, me, 1));
            cluster.settle();
            for (from, to) in [(3, 1), (1, 0), (0, 1), (2, 3)] {
                cluster.hold(from, to, false);
                cluster.settle();
            }
            for me in 0..4 {
                assert_eq!(cluster.ends(&group, me), [None; 2], "{algorithm}");
                cluster.assert_result(&group, me, 1);
            }
        }
    }
}

/// Both nodes send each other a message, a signal and nothing at all, and do empty work.
fn odd_schedule(me: u32) -> Schedule {
    let (mut schedule, peer) = (Schedule::new(me, 2), 1 - me);
    let (input, output) = (Slice::first(Buffer::Input, SMALL), Slice::first(Buffer::Output, SMALL));
    let (nothing, none) = (Slice::first(Buffer::Input, 0), Slice::first(Buffer::Output, 0));
    let signal = schedule.push(Action::Signal { peer }, &[]);
    let empty = schedule.push(Action::Send { peer, from: nothing }, &[]);
    let copy = schedule.push(Action::Copy { from: nothing, into: none }, &[signal, empty]);
    let combine = schedule.push(Action::Combine { from: nothing, into: none, side: Side::Left }, &[copy]);
    schedule.push(Action::Send { peer, from: input }, &[combine]);
    schedule.push(Action::Recv { peer, into: none }, &[]);
    let wait = schedule.push(Action::Wait { peer }, &[]);
    let recv = schedule.push(Action::Recv { peer, into: output }, &[wait]);
    schedule.push(Action::Combine { from: input, into: output, side: [Side::Right, Side::Left][me as usize] }, &[recv]);
    schedule
}

#[test]
fn messages_and_work_may_be_empty() {
    let mut cluster = Cluster::pair();
    let shape = Shape::new(2, Collective::Allreduce { count: SMALL, order: Order::Any });
    let group = cluster.open_over(0, &shape, sum, vec![0, 1], odd_schedule);
    (0..9).for_each(|round| cluster.round(&group, round));
    cluster.close(&group);
    cluster.settle();
    cluster.assert_nothing_left();
}

#[test]
fn wires_and_direct_channels_are_for_ranks() {
    let mut cluster = Cluster::configured(&[2, 2], |config| config.has_direct_channels = true);
    cluster.engines[0].handle_wire_up(NodeId(1));
    cluster.engines[1].handle_wire_up(NodeId(0));
    let group = cluster.open(0, &allreduce(2, SMALL), &"linear".parse().unwrap(), compose);
    cluster.round(&group, 0);
    assert!(cluster.engines.iter_mut().all(|engine| engine.poll_local_work().is_none()));
}

#[test]
fn a_collective_may_be_closed_before_others_have_opened_it() {
    let mut cluster = Cluster::new(&[1; 3]);
    for from in 0..3 {
        cluster.hold(from, (from + 1) % 3, true);
    }
    let group = cluster.open(0, &allreduce(3, SMALL), &"linear".parse().unwrap(), compose);
    cluster.settle();
    cluster.close(&group);
    for from in 0..3 {
        cluster.hold(from, (from + 1) % 3, false);
    }
    cluster.settle();
    cluster.assert_nothing_left();
}

#[test]
fn a_round_is_not_over_before_its_last_copy() {
    let mut cluster = Cluster::new(&[1; 2]);
    let group = cluster.open(0, &allreduce(2, SMALL), &"recursive-doubling".parse().unwrap(), compose);
    cluster.rounds.slow = Some(Vec::new());
    (0..2).for_each(|me| cluster.begin_round(&group, me, 0));
    cluster.settle();
    let slow = cluster.rounds.slow.take().unwrap();
    assert!(matches!(slow[..], [(_, CollectiveWork::Combine { .. }), (_, CollectiveWork::Combine { .. })]));
    for (node, work) in slow {
        assert!(cluster.ends(&group, usize::from(node)).is_empty());
        cluster.work(node, work);
        assert_eq!(cluster.ends(&group, usize::from(node)), [None]);
    }
}

#[test]
fn ranks_can_not_use_the_communicators_of_nodes() {
    for comm in [CommId(CommId::RESERVED), CommId(u32::MAX)] {
        let endpoint = Endpoint { comm, ..Cluster::endpoint(1, TAG) };
        let (slot, epoch, layout) = (0, 1, Layout::contiguous(0, 8));
        for command in [
            Command::InitSend { slot, epoch, endpoint, layout },
            Command::InitRecv { slot, epoch, endpoint, layout },
            Command::Send { slot, epoch, endpoint, layout },
            Command::Recv { slot, epoch, endpoint, layout },
            Command::Probe { slot, epoch, endpoint, wait: false },
        ] {
            assert_eq!(Cluster::pair().command(0, command), Err(Violation::ReservedComm { comm }));
        }
    }
}

#[test]
fn a_node_knows_how_many_steps_others_keep_for_it() {
    let mut cluster = Cluster::pair();
    let room = 16 * 2 * limits::SLOTS_PER_RANK as usize;
    let rooms = |cluster: &Cluster, room| [room, room + 1].map(|more| cluster.engines[0].has_room_for_steps(more));
    assert_eq!(rooms(&cluster, room), [true, false]);
    let shape = Shape::new(2, Collective::Bcast { root: 0, count: LARGE });
    let group = cluster.open(7, &shape, &"linear-pipeline:4".parse().unwrap(), sum);
    assert_eq!(rooms(&cluster, room - 4), [true, false]);
    cluster.close(&group);
    cluster.settle();
    assert_eq!(rooms(&cluster, room), [true, false]);
}
