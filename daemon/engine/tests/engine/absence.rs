//! Collectives to which a node does not come any more because its members have left.

use ropeway_engine::{LocalWork, MeetingId};
use ropeway_proto::collective::{CollectiveKind, CollectiveMember, CollectiveShape};
use ropeway_proto::{CommId, Command, Completion, Status};
use ropeway_schedule::{Collective, Order, Shape, build};

use crate::cluster::Cluster;
use crate::collectives::{LARGE, SMALL, allreduce};
use crate::rounds::{Group, compose};

const LEFT: Option<Completion> = Some(Completion { status: Status::RankLeft, source: 1, tag: 0, bytes: 0 });

#[test]
fn whoever_leaves_in_the_middle_of_a_round_leaves_nobody_waiting() {
    // With and without a rank on node 1 that stays.
    for (ranks, outsiders) in [([1, 1, 1], vec![]), ([1, 2, 1], vec![2])] {
        for count in [SMALL, LARGE] {
            let mut cluster = Cluster::new(&ranks);
            cluster.rounds.outsiders = outsiders.clone();
            let shape = Shape::new(3, Collective::Reduce { root: 0, count, order: Order::Rank });
            let mut group = Group::new(&shape, compose, vec![0, 1, 2]);
            let schedule = |me| build(&shape, &"linear-pipeline:1".parse().unwrap(), me).unwrap();
            // Node 0 waits for node 1, which waits for node 2, which comes late.
            (0..2).for_each(|me| cluster.join(&mut group, 0, schedule(me)));
            (0..2).for_each(|me| cluster.begin_round(&group, me, 0));
            cluster.settle();
            cluster.end_client(1, false);
            cluster.settle();
            cluster.join(&mut group, 0, schedule(2));
            cluster.begin_round(&group, 2, 0);
            cluster.settle();
            for me in 0..3 {
                assert_eq!(cluster.ends(&group, me), [LEFT], "{me}");
            }
            cluster.close(&group);
            cluster.settle();
            cluster.assert_nothing_left();
        }
    }
}

#[test]
fn what_a_deserted_node_would_pass_on_to_nodes_that_come_late_ends_its_round() {
    for count in [SMALL, LARGE] {
        let mut cluster = Cluster::new(&[1; 3]);
        let shape = Shape::new(3, Collective::Bcast { root: 0, count });
        let mut group = Group::new(&shape, compose, vec![0, 1, 2]);
        let schedule = |me| build(&shape, &"linear-pipeline:1".parse().unwrap(), me).unwrap();
        (0..2).for_each(|me| cluster.join(&mut group, 0, schedule(me)));
        cluster.begin_round(&group, 1, 0);
        cluster.settle();
        cluster.hold(0, 1, true);
        cluster.begin_round(&group, 0, 0);
        cluster.settle();
        cluster.end_client(1, false);
        cluster.settle();
        // What node 1 is to pass on comes only now.
        cluster.hold(0, 1, false);
        cluster.settle();
        assert_eq!(cluster.ends(&group, 0), [None]);
        cluster.join(&mut group, 0, schedule(2));
        cluster.begin_round(&group, 2, 0);
        cluster.settle();
        assert_eq!([1, 2].map(|me| cluster.ends(&group, me).to_vec()), [[LEFT], [LEFT]]);
    }
}

#[test]
fn a_node_without_members_is_not_waited_for_though_others_live_there() {
    let mut cluster = Cluster::new(&[1, 2]);
    cluster.rounds.outsiders = vec![2];
    for count in [SMALL, LARGE] {
        let shape = allreduce(2, count);
        let mut group = Group::new(&shape, compose, vec![0, 1]);
        cluster.join(&mut group, count, build(&shape, &"recursive-doubling".parse().unwrap(), 0).unwrap());
        cluster.begin_round(&group, 0, 0);
        cluster.settle();
        // Once in the middle of the wait, once long before.
        if count == SMALL {
            assert!(cluster.ends(&group, 0).is_empty());
            cluster.end_client(1, false);
            cluster.settle();
        }
        assert_eq!(cluster.ends(&group, 0), [LEFT]);
    }
}

#[test]
fn who_registers_after_a_member_has_left_tells_the_other_nodes() {
    let mut cluster = Cluster::new(&[1, 2]);
    cluster.end_client(1, false);
    cluster.settle();
    let member = of_barrier(3, 2);
    cluster.engines[1].register((1, 0), 1, CommId::WORLD, member.clone()).unwrap();
    let work = cluster.engines[1].poll_local_work();
    assert_eq!(work, Some(LocalWork::Renounce { comm: CommId::WORLD, member }));
    assert_eq!(cluster.engines[1].poll_local_work(), None);
}

#[test]
fn who_frees_a_collective_and_is_gone_before_its_buffers_are_free_leaves_once() {
    let mut cluster = Cluster::new(&[2]);
    let engine = &mut cluster.engines[0];
    for rank in 0..2 {
        engine.register((rank, 0), 1, CommId::WORLD, of_barrier(2, rank)).unwrap();
    }
    let Some(LocalWork::Meet { requests, .. }) = engine.poll_local_work() else { panic!("nobody meets") };
    engine.handle_met(&requests, Ok(MeetingId(3)));
    engine.handle_command(0, Command::Free { slot: 0, epoch: 2 }).unwrap();
    let work = engine.poll_local_work();
    assert!(matches!(work, Some(LocalWork::Leave { meeting: MeetingId(3), request: Some(_), .. })), "{work:?}");
    engine.handle_client_gone(0, true);
    assert_eq!(engine.poll_local_work(), None);
    // Who had not freed it leaves with its process.
    engine.handle_client_gone(1, true);
    let work = engine.poll_local_work();
    assert!(matches!(work, Some(LocalWork::Leave { meeting: MeetingId(3), request: None, .. })), "{work:?}");
}

#[test]
fn who_has_come_to_its_meeting_has_not_withdrawn() {
    let mut cluster = Cluster::new(&[2]);
    let engine = &mut cluster.engines[0];
    for rank in 0..2 {
        engine.register((rank, 0), 1, CommId::WORLD, of_barrier(2, rank)).unwrap();
    }
    let Some(LocalWork::Meet { requests, .. }) = engine.poll_local_work() else { panic!("nobody meets") };
    // Before there is a meeting a start can be withdrawn.
    engine.handle_command(0, Command::Start { slot: 0, epoch: 2 }).unwrap();
    engine.handle_command(0, Command::Cancel { slot: 0, epoch: 2 }).unwrap();
    while engine.poll_completion().is_some_and(|ended| ended.completion.status != Status::Cancelled) {}
    engine.handle_met(&requests, Ok(MeetingId(3)));
    assert_eq!(engine.poll_local_work(), None);
    engine.handle_command(0, Command::Start { slot: 0, epoch: 3 }).unwrap();
    engine.handle_command(0, Command::Cancel { slot: 0, epoch: 3 }).unwrap();
    let work = engine.poll_local_work();
    assert!(matches!(work, Some(LocalWork::Arrive { meeting: MeetingId(3), member: 0, .. })), "{work:?}");
    assert_eq!(engine.poll_completion(), None);
}

#[test]
fn who_is_alone_arrives_where_there_is_a_meeting() {
    let mut cluster = Cluster::new(&[2]);
    let engine = &mut cluster.engines[0];
    engine.register((0, 0), 1, CommId::WORLD, of_barrier(1, 0)).unwrap();
    let Some(LocalWork::Meet { requests, .. }) = engine.poll_local_work() else { panic!("nobody meets") };
    // A client that says so too early, or of what is none of its collectives, has told us nothing.
    for slot in [0, 1] {
        engine.handle_command(0, Command::ArriveAlone { slot }).unwrap();
        assert_eq!(engine.poll_local_work(), None);
    }
    engine.handle_met(&requests, Ok(MeetingId(3)));
    engine.handle_command(0, Command::ArriveAlone { slot: 0 }).unwrap();
    assert_eq!(engine.poll_local_work(), Some(LocalWork::ArriveAlone { meeting: MeetingId(3) }));
}

/// A member of a barrier of the first `size` ranks.
fn of_barrier(size: u32, rank: u32) -> CollectiveMember {
    let shape = CollectiveShape {
        kind: CollectiveKind::Barrier,
        members: (0..size).collect(),
        root: 0,
        combination: None,
        element_bytes: 1,
        counts: Vec::new(),
        is_reproducible: false,
        algorithm: None,
    };
    CollectiveMember { shape: shape.into(), number: 0, rank, input: 0, output: 0 }
}
