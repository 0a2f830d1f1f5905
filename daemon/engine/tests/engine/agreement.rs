//! Members on different nodes who have registered different things: all are told of one that differs, and nobody waits for ever.

use ropeway_proto::agreement::{Difference, ShapeDigest};
use ropeway_proto::collective::{CollectiveKind, CollectiveMember, CollectiveShape};
use ropeway_proto::{CommId, Command, Completion, Frame, Status};
use ropeway_schedule::{Algorithm, Collective, Counts, Order, Shape, build};

use crate::cluster::Cluster;
use crate::collectives::{LARGE, allreduce};
use crate::rounds::{Group, sum};

const NODES: u32 = 3;
/// Elements; three times as many fit the buffers of all.
const COUNT: u64 = LARGE / 3;

/// An operation as members register it, and as nodes do it.
#[derive(Clone)]
struct Operation {
    digest: ShapeDigest,
    shape: Shape,
    algorithm: Algorithm,
}

fn registered(kind: CollectiveKind, root: u32, counts: &[u64]) -> CollectiveShape {
    CollectiveShape {
        kind,
        members: (0..NODES).collect(),
        root,
        combination: None,
        element_bytes: 8,
        counts: counts.to_vec(),
        is_reproducible: false,
        algorithm: None,
    }
}

fn operations() -> Vec<Operation> {
    let (count, order) = (COUNT, Order::Any);
    let operation = |kind, root, counts: &[u64], collective, algorithm| Operation {
        digest: ShapeDigest::of(&registered(kind, root, counts)),
        shape: Shape::new(NODES, collective),
        algorithm,
    };
    let bcast = |root, count, algorithm| {
        operation(CollectiveKind::Bcast, root, &[count], Collective::Bcast { root, count }, algorithm)
    };
    let gather = |root, counts: &[u64]| {
        let collective = Collective::Gather { root, counts: Counts::each(counts) };
        operation(CollectiveKind::Gather, root, counts, collective, "linear".parse().unwrap())
    };
    let pipeline: Algorithm = "linear-pipeline:2".parse().unwrap();
    vec![
        bcast(0, count, "linear".parse().unwrap()),
        bcast(1, count, "linear".parse().unwrap()),
        bcast(2, count, pipeline.clone()),
        bcast(0, count - 1, "linear".parse().unwrap()),
        operation(CollectiveKind::Barrier, 0, &[], Collective::Barrier, "dissemination".parse().unwrap()),
        operation(CollectiveKind::Reduce, 0, &[count], Collective::Reduce { root: 0, count, order }, pipeline),
        operation(CollectiveKind::Scan, 0, &[count], Collective::Scan { count, order }, "linear".parse().unwrap()),
        gather(1, &[0, count, count]),
        gather(2, &[count, 0, 1]),
    ]
}

/// A collective that each node takes for something of its own.
struct Babel {
    cluster: Cluster,
    group: Group,
    operations: Vec<Operation>,
}

impl Babel {
    fn new(operations: Vec<Operation>) -> Self {
        let cluster = Cluster::new(&[1; NODES as usize]);
        let group = Group::new(&allreduce(NODES, LARGE), sum, (0..NODES as u16).collect());
        Self { cluster, group, operations }
    }

    /// The next node opens it.
    fn open(&mut self) {
        let me = self.group.ids.len();
        let Operation { digest, shape, algorithm } = &self.operations[me];
        self.cluster.rounds.digest = *digest;
        self.cluster.join(&mut self.group, 7, build(shape, algorithm, me as u32).unwrap());
    }

    /// Asserts that each node has failed because of another one that differs from it: if it needed nobody in its first round,
    /// then in the next.
    fn assert_all_told(&mut self) {
        for me in 0..NODES as usize {
            if self.cluster.ends(&self.group, me) == [None] {
                self.cluster.begin_round(&self.group, me, 1);
            }
            self.assert_told(me);
        }
    }

    fn assert_told(&self, me: usize) {
        let ends = self.cluster.ends(&self.group, me);
        let Some(Some(Completion { status: Status::Mismatch, source, tag, .. })) = ends.last() else {
            panic!("{me} is told of {ends:?}")
        };
        let (source, tag) = (*source, *tag);
        let difference = self.operations[me].digest.difference(&self.operations[source as usize].digest);
        let difference = difference.expect("a node that differs");
        let is_true = |told: Difference| tag == i32::from(told.code());
        assert!(is_true(difference) || is_true(Difference::Lengths), "{me} is told of {source}: {tag}");
    }

    fn close(mut self) {
        self.cluster.close(&self.group);
        self.cluster.settle();
        self.cluster.assert_nothing_left();
    }
}

#[test]
fn whoever_differs_in_whatever_all_are_told() {
    let operations = operations();
    for (one, other) in (0..operations.len()).flat_map(|one| (0..operations.len()).map(move |other| (one, other))) {
        // Each bit says which of both a node takes it for.
        for choice in (1..(1 << NODES) - 1).filter(|_| one != other) {
            for is_late in [false, true] {
                let pick = |me: u32| operations[if choice >> me & 1 == 0 { one } else { other }].clone();
                let mut babel = Babel::new((0..NODES).map(pick).collect());
                for me in 0..NODES as usize {
                    babel.open();
                    if is_late {
                        babel.cluster.settle();
                    }
                    babel.cluster.begin_round(&babel.group, me, 0);
                }
                babel.cluster.settle();
                babel.assert_all_told();
                babel.close();
            }
        }
    }
}

#[test]
fn random_orders_of_events_tell_all() {
    let operations = operations();
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut babel = Babel::new((0..NODES).map(|_| operations[random.usize(..operations.len())].clone()).collect());
        if babel.operations.iter().all(|operation| operation.digest == babel.operations[0].digest) {
            continue;
        }
        for me in 0..NODES as usize {
            babel.open();
            babel.cluster.begin_round(&babel.group, me, 0);
            for _ in 0..random.usize(..10) {
                babel.cluster.happen_at_random(&mut random);
            }
        }
        let mut idle = 0;
        while idle < 300 {
            idle = if babel.cluster.happen_at_random(&mut random) { 0 } else { idle + 1 };
        }
        babel.assert_all_told();
        babel.close();
    }
}

#[test]
fn who_needs_nothing_of_the_first_node_tells_it_afterwards() {
    let operations = operations();
    let gather = &operations[7];
    let mut babel = Babel::new(vec![gather.clone(), gather.clone(), gather.clone()]);
    babel.operations[0] = operations[0].clone();
    // The first node's part is empty, so the others are done and gone before it opens anything.
    babel.cluster.hold(0, 1, true);
    babel.cluster.hold(0, 2, true);
    (0..NODES).for_each(|_| babel.open());
    (1..NODES as usize).for_each(|me| babel.cluster.begin_round(&babel.group, me, 0));
    babel.cluster.settle();
    for me in 1..NODES as usize {
        assert_eq!(babel.cluster.ends(&babel.group, me), [None]);
        babel.cluster.engines[me].close_collective(babel.group.ids[me]);
    }
    babel.cluster.begin_round(&babel.group, 0, 0);
    babel.cluster.settle();
    assert!(babel.cluster.ends(&babel.group, 0).is_empty());
    babel.cluster.hold(0, 1, false);
    babel.cluster.hold(0, 2, false);
    babel.cluster.settle();
    babel.assert_told(0);
    babel.cluster.engines[0].close_collective(babel.group.ids[0]);
    babel.cluster.settle();
    babel.cluster.assert_nothing_left();
}

#[test]
fn to_agree_costs_one_frame_for_each_other_node() {
    let bcast = operations().swap_remove(2);
    let mut babel = Babel::new(vec![bcast; NODES as usize]);
    (0..NODES).for_each(|_| babel.open());
    babel.cluster.settle();
    assert_eq!(babel.cluster.count(|frame| matches!(frame, Frame::Shape { .. })), NODES as usize - 1);
    babel.close();
}

#[test]
fn members_of_one_node_who_differ_are_told_and_so_are_all_nodes() {
    let mut cluster = Cluster::new(&[2, 1]);
    let register = |cluster: &mut Cluster, local_rank: u32, root: u32| {
        let shape = registered(CollectiveKind::Bcast, root, &[COUNT]);
        let member = CollectiveMember { shape: shape.into(), number: 7, rank: local_rank, input: 0, output: 0 };
        cluster.engines[0].register((local_rank, 0), 1, CommId::WORLD, member).unwrap();
    };
    register(&mut cluster, 0, 0);
    register(&mut cluster, 1, 2);
    assert_eq!(cluster.engines[0].poll_local_work(), None);
    for local_rank in 0..2 {
        cluster.engines[0].handle_command(local_rank, Command::Start { slot: 0, epoch: 2 }).unwrap();
    }
    cluster.settle();
    let told = |rank| Some(Completion::mismatch((rank, Difference::Root)));
    assert_eq!([0, 1].map(|rank| cluster.outcome_of(rank, 0, 2)), [told(1), told(0)]);
    // The other node agrees with the first of the two.
    let shape = Shape::new(2, Collective::Bcast { root: 0, count: COUNT });
    let mut group = Group::new(&shape, sum, vec![1, 0]);
    cluster.rounds.digest = ShapeDigest::of(&registered(CollectiveKind::Bcast, 0, &[COUNT]));
    cluster.join(&mut group, 7, build(&shape, &"linear".parse().unwrap(), 0).unwrap());
    cluster.begin_round(&group, 0, 0);
    assert_eq!(cluster.ends(&group, 0), [told(1)]);
}

#[test]
fn who_differs_under_the_number_of_another_node_takes_nobodys_place() {
    let mut cluster = Cluster::new(&[3, 1]);
    let register = |cluster: &mut Cluster, local_rank: u32, members: &[u32], rank: u32| {
        let members = members.to_vec();
        let shape = CollectiveShape { members, ..registered(CollectiveKind::Bcast, 0, &[COUNT]) };
        let member = CollectiveMember { shape: shape.into(), number: 7, rank, input: 0, output: 0 };
        cluster.engines[0].register((local_rank, 0), 1, CommId::WORLD, member).unwrap();
    };
    register(&mut cluster, 0, &[0, 1, 3], 0);
    register(&mut cluster, 2, &[0, 1, 2], 2);
    register(&mut cluster, 1, &[0, 1, 3], 1);
    for local_rank in 0..3 {
        cluster.engines[0].handle_command(local_rank, Command::Start { slot: 0, epoch: 2 }).unwrap();
    }
    cluster.settle();
    let told = [0, 1, 2].map(|rank| cluster.outcome_of(rank, 0, 2).unwrap());
    let differs = |completion: &Completion| completion.status == Status::Mismatch;
    assert!(told.iter().all(differs), "{told:?}");
}
