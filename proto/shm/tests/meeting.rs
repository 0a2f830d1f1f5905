//! Whose the work of a meeting is: of the last to come, of those who wait, of the daemon, or of those alone who have the function.
#![cfg(not(loom))]

use std::sync::Arc;

use ropeway_proto::collective::{CollectiveKind, CollectiveMember, CollectiveShape, Combination};
use ropeway_proto::division::{Operands, Span};
use ropeway_proto::limits::COMBINER_DOORBELL;
use ropeway_proto::operator::{ElementType, Operator, Scalar};
use ropeway_proto::{Completion, Layout, Status};
use ropeway_shm::{Arrival, Helped, JobGeometry, JobSegment, Meeting, MeetingPlan, UserFunction};

const ARENA_BYTES: u64 = 1 << 20;
/// What the daemon has for a number.
const NOBODY: u32 = u32::MAX;
/// Of a sum: done at once; left to who waits.
const SLIGHT: u64 = 900;
const LITTLE: u64 = 9000;
/// More than one piece, and little.
const COUNTS: [u64; 2] = [50_000, 9];

/// `left = 3 · left + right`, on few bytes at once.
struct Function([[u8; 100]; 2]);

impl UserFunction for Function {
    fn room(&mut self) -> [&mut [u8]; 2] {
        self.0.each_mut().map(|room| &mut room[..])
    }

    fn combine(&mut self, bytes: usize) {
        let [left, right] = &mut self.0;
        for (left, right) in left[..bytes].iter_mut().zip(right) {
            *left = left.wrapping_mul(3).wrapping_add(*right);
        }
    }
}

/// A node with two members, of `nodes` nodes that are all alike.
struct Node {
    job: Arc<JobSegment>,
    members: Vec<CollectiveMember>,
    span: Option<Span>,
    block: u64,
}

fn shape_of(member: &mut CollectiveMember) -> &mut CollectiveShape {
    Arc::make_mut(&mut member.shape)
}

impl Node {
    fn new(nodes: u16, count: u64, operands: Operands) -> Self {
        Self::combining(nodes, count, operands, Combination::User { is_commutative: false })
    }

    fn summing(nodes: u16, count: u64) -> Self {
        let sum = Combination::Predefined(Operator::Sum.code(), ElementType::plain(Scalar::U8).code());
        Self::combining(nodes, count, Operands::Nodes, sum)
    }

    fn combining(nodes: u16, count: u64, operands: Operands, combination: Combination) -> Self {
        let job = JobSegment::create(JobGeometry { local_ranks: 2, arena_bytes_max: ARENA_BYTES }).unwrap();
        for local_rank in 0..2 {
            job.reserve_arena(local_rank, 0..ARENA_BYTES).unwrap();
            job.reserve_slots(local_rank, 0..1).unwrap();
        }
        job.reserve_channels(0..1 << 20).unwrap();
        let shape = Arc::new(CollectiveShape {
            kind: CollectiveKind::Allreduce,
            members: (0..2 * u32::from(nodes)).collect(),
            root: 0,
            combination: Some(combination),
            element_bytes: 1,
            counts: vec![count],
            is_reproducible: operands == Operands::Members,
            algorithm: None,
        });
        let member = |rank: u32| {
            let input = job.arena(rank).start;
            CollectiveMember { shape: shape.clone(), number: 0, rank, input, output: input + ARENA_BYTES / 2 }
        };
        let members: Vec<_> = (0..2).map(member).collect();
        for (index, member) in (0..).zip(&members) {
            job.write(&Layout::contiguous(member.input, count), 0, &vec![index + 1; count as usize]).unwrap();
        }
        let (input, output) = (job.arena(0).start + ARENA_BYTES / 4, job.arena(1).start + ARENA_BYTES / 4);
        let nodes = (0..nodes).flat_map(|node| [node; 2]).collect::<Vec<_>>();
        let span = (nodes.len() > 2).then_some(Span { nodes, me: 0, input, output });
        let block = job.channels().start;
        Self { job: Arc::new(job), members, span, block }
    }

    /// Each node with its first member only, whose buffers what is between nodes uses.
    fn of_one(mut self, kind: CollectiveKind) -> Self {
        let span = self.span.as_mut().expect("there are two nodes");
        span.nodes = vec![0, 1];
        self.members.truncate(1);
        let shape = shape_of(&mut self.members[0]);
        (shape.kind, shape.members) = (kind, vec![0, 1]);
        shape.combination = shape.combination.filter(|_| kind != CollectiveKind::Bcast);
        (span.input, span.output) = (self.members[0].input, self.members[0].output);
        self
    }

    /// Member 0 gives each of two so many bytes: ones to itself, twos to the other.
    fn scattering(counts: [u64; 2]) -> Self {
        let mut node = Self::summing(1, counts[0]);
        for member in &mut node.members {
            shape_of(member).kind = CollectiveKind::Scatter;
            shape_of(member).combination = None;
            shape_of(member).counts = counts.to_vec();
        }
        let [own, other] = counts.map(|count| count as usize);
        let input = Layout::contiguous(node.members[0].input, counts.iter().sum());
        node.job.write(&input, 0, &[vec![1; own], vec![2; other]].concat()).unwrap();
        node
    }

    /// Member 0 gets what both have.
    fn reducing(count: u64) -> Self {
        let mut node = Self::summing(1, count);
        node.members.iter_mut().for_each(|member| shape_of(member).kind = CollectiveKind::Reduce);
        node
    }

    fn assert_reduced(&self, wanted: u8) {
        let Self { job, members, .. } = self;
        let mut output = vec![0; members[0].shape.counts[0] as usize];
        job.read(&Layout::contiguous(members[0].output, output.len() as u64), 0, &mut output).unwrap();
        assert!(output.iter().all(|&found| found == wanted), "{output:?}");
    }

    fn assert_scattered(&self) {
        for (wanted, member) in (1..).zip(&self.members) {
            let output = self.output_of(member.rank);
            assert!(output.iter().all(|&found| found == wanted), "{output:?}");
            let place = Layout::contiguous(member.output, output.len() as u64);
            self.job.write(&place, 0, &vec![0; output.len()]).unwrap();
        }
    }

    /// What a member has been given.
    fn output_of(&self, rank: u32) -> Vec<u8> {
        let member = &self.members[rank as usize];
        let count = member.shape.counts[rank as usize];
        let mut output = vec![0; count as usize];
        self.job.read(&Layout::contiguous(member.output, count), 0, &mut output).unwrap();
        output
    }

    /// As the daemon sees it, who writes it down.
    fn daemon(&self) -> Meeting {
        let plan = MeetingPlan { members: self.members.clone(), span: self.span.clone() };
        let places: Vec<_> = self.members.iter().map(|member| (member.rank, 0)).collect();
        Meeting::write(&self.job, self.block, &plan, &places).unwrap()
    }

    fn member(&self) -> Meeting {
        Meeting::read(&self.job, self.block, Some(Box::new(Function([[0; 100]; 2])))).unwrap()
    }

    /// What happens between the nodes: the other one has brought the same.
    fn exchange(&self, bytes: u64) {
        let Some(Span { input, output, .. }) = self.span else { unreachable!("there are two nodes") };
        let (brought, total) = (Layout::contiguous(input, bytes), Layout::contiguous(output, 2 * bytes));
        for at in [0, bytes] {
            self.job.copy(&brought, 0, &total, at, bytes).unwrap();
        }
    }

    fn assert_outputs(&self, wanted: u8) {
        let count = self.members[0].shape.counts[0];
        for member in &self.members {
            let mut output = vec![0; count as usize];
            self.job.read(&Layout::contiguous(member.output, count), 0, &mut output).unwrap();
            assert!(output.iter().all(|&found| found == wanted), "{output:?}");
        }
    }

    fn calls(&self) -> [u32; 2] {
        [0, 1].map(|rank| self.job.doorbell(rank, COMBINER_DOORBELL).unwrap().listen())
    }
}

#[test]
fn slight_work_is_done_by_who_comes_last() {
    let node = Node::summing(1, SLIGHT);
    let (_daemon, member) = (node.daemon(), node.member());
    assert!(!member.is_due(0, 0));
    assert_eq!((member.arrive(0, 0), member.arrive(1, 0)), (Arrival::Pending, Arrival::Done));
    assert!(member.poll(0, 0));
    node.assert_outputs(1 + 2);
}

#[test]
fn little_work_is_done_by_whoever_waits_first() {
    for waits in [0, 1] {
        let node = Node::summing(1, LITTLE);
        let (daemon, member) = (node.daemon(), node.member());
        assert!(!daemon.has_much_work());
        assert_eq!(member.arrive(0, 0), Arrival::Pending);
        assert!(!member.is_due(0, 0), "not all have come");
        assert_eq!(member.arrive(1, 0), Arrival::Pending);
        assert!(member.is_due(0, 0) && !member.poll(0, 0), "there is work, for who waits");
        assert!(member.help(waits, 0, u32::MAX).pieces > 1);
        assert!(member.poll(0, 0) && member.poll(1, 0));
        node.assert_outputs(1 + 2);
    }
}

#[test]
fn little_work_before_other_nodes_turn_is_the_daemons_and_after_it_too() {
    let node = Node::summing(2, LITTLE);
    let (daemon, member) = (node.daemon(), node.member());
    assert!(daemon.has_much_work(), "it needs the daemon");
    assert_eq!((member.arrive(0, 0), member.arrive(1, 0)), (Arrival::Pending, Arrival::Passed));
    assert_eq!(daemon.passed(), 0);
    while !daemon.help(NOBODY, 0, 1).has_passed {}
    assert_eq!(daemon.passed(), 1);
    // The daemon combines, too: the other node brings nothing.
    node.exchange(LITTLE);
    assert!(!daemon.resume(0), "it is over");
    assert!(member.poll(0, 0) && member.poll(1, 0));
    node.assert_outputs(1 + 2);
}

#[test]
fn who_is_alone_on_its_node_comes_for_the_daemons_turn_alone() {
    for kind in [CollectiveKind::Allreduce, CollectiveKind::Bcast] {
        let node = Node::summing(2, LITTLE).of_one(kind);
        let (daemon, member) = (node.daemon(), node.member());
        assert!(member.is_alone());
        for round in 0..3 {
            daemon.arrive_alone(round);
            assert_eq!(daemon.passed(), round + 1);
            assert!(!member.poll(0, round), "{kind:?}: the other nodes have not come");
            assert!(!daemon.resume(round) && member.poll(0, round));
        }
        daemon.close(&Completion { source: 1, ..Completion::bare(Status::RankFailed) }, None);
        daemon.arrive_alone(3);
        assert_eq!(daemon.passed(), 3, "there is no further round");
    }
    let (several, within) = (Node::summing(2, LITTLE), Node::summing(1, SLIGHT));
    assert!(!several.daemon().is_alone() && !within.daemon().is_alone());
}

#[test]
fn the_daemon_leaves_pieces_to_members_though_it_comes_last() {
    for count in COUNTS {
        let node = Node::new(1, count, Operands::Nodes);
        let (daemon, member) = (node.daemon(), node.member());
        assert_eq!(member.arrive(0, 0), Arrival::Pending);
        assert_eq!(daemon.arrive(1, 0), Arrival::HasWork);
        assert_eq!((daemon.working_round(), daemon.help(NOBODY, 0, 1)), (None, Helped::default()));
        assert_eq!(member.working_round(), Some(0));
        while member.help(1, 0, 1).pieces > 0 {}
        assert!(daemon.poll(0, 0));
        node.assert_outputs(3 + 2);
    }
}

#[test]
fn a_member_that_comes_last_calls_the_function_at_once_for_little_work() {
    let node = Node::new(1, 9, Operands::Nodes);
    let (_daemon, member) = (node.daemon(), node.member());
    assert_eq!((member.arrive(0, 0), member.arrive(1, 0)), (Arrival::Pending, Arrival::Done));
    node.assert_outputs(3 + 2);
}

#[test]
fn between_nodes_the_daemon_copies_and_members_combine() {
    for count in COUNTS {
        let node = Node::new(2, count, Operands::Members);
        let (daemon, member) = (node.daemon(), node.member());
        assert_eq!(member.arrive(0, 0), Arrival::Pending);
        assert_eq!(daemon.arrive(1, 0), Arrival::Passed);
        while daemon.has_pieces_before_nodes(0) {
            daemon.help(NOBODY, 0, 1);
        }
        assert_eq!(daemon.passed(), 1);
        node.exchange(2 * count);
        assert!(daemon.resume(0), "it is not over");
        assert_eq!(daemon.help(NOBODY, 0, 1), Helped::default());
        while member.help(0, 0, 1).pieces > 0 {}
        assert!(daemon.poll(0, 0));
        node.assert_outputs(((3 + 2) * 3 + 1) * 3 + 2);
    }
}

#[test]
fn members_combine_both_before_and_after_what_is_between_nodes() {
    for count in COUNTS {
        let node = Node::new(2, count, Operands::Nodes);
        let (daemon, member) = (node.daemon(), node.member());
        let before = node.calls();
        assert_eq!((daemon.arrive(0, 0), daemon.arrive(1, 0)), (Arrival::Pending, Arrival::Passed));
        assert_eq!(daemon.help(NOBODY, 0, 1), Helped::default());
        daemon.call_combiners();
        assert!(node.calls().iter().zip(before).all(|(&now, before)| now == before + 1));
        while !member.help(0, 0, 1).has_passed {}
        assert_eq!(daemon.passed(), 1);
        node.exchange(count);
        assert!(daemon.resume(0), "it is not over");
        while member.help(1, 0, 1).pieces > 0 {}
        assert!(daemon.poll(0, 0));
        node.assert_outputs((3 + 2) * 3 + (3 + 2));
    }
}

#[test]
fn combiners_are_called_unless_every_member_waits() {
    let node = Node::new(1, COUNTS[0], Operands::Nodes);
    let (daemon, member) = (node.daemon(), node.member());
    let before = node.calls();
    daemon.call_combiners();
    assert_eq!(node.calls(), before, "there is no work yet");
    daemon.arrive(0, 0);
    daemon.arrive(1, 0);
    member.watch(0);
    daemon.call_combiners();
    assert!(node.calls().iter().zip(before).all(|(&now, before)| now == before + 1), "one of two waits");
    member.watch(1);
    let before = node.calls();
    daemon.call_combiners();
    assert_eq!(node.calls(), before, "both wait");
}

#[test]
fn of_a_root_and_others_each_pair_is_over_for_itself() {
    for counts in [[20_000, 1], [1, 20_000], [200_000; 2]] {
        let node = Node::scattering(counts);
        let (daemon, member) = (node.daemon(), node.member());
        for round in 0..3 {
            assert_eq!(member.arrive(1, round), Arrival::Pending, "it waits for the root");
            assert!(!member.is_due(1, round) && daemon.working_round().is_none());
            let root_came = member.arrive(0, round);
            while member.help(1, round, 1).pieces > 0 {}
            assert!(member.poll(1, round), "the root has come");
            assert_eq!(member.poll(0, round), root_came == Arrival::Done, "it has not copied its own part yet");
            while daemon.help(NOBODY, round, 1).pieces > 0 {}
            assert!(member.poll(0, round) && daemon.working_round().is_none());
            node.assert_scattered();
        }
    }
}

#[test]
fn who_lies_about_rounds_costs_the_daemon_a_piece_of_each_pair() {
    const LINE: u64 = 64;
    let node = Node::scattering([0, 0]);
    let daemon = node.daemon();
    // The root's line is the last but one: for how many rounds it has come is the first that it says.
    let plan = MeetingPlan { members: node.members.clone(), span: None };
    let root = node.block + Meeting::footprint(&plan) - 2 * LINE;
    node.job.write(&Layout::contiguous(root, 4), 0, &(u32::MAX / 2).to_le_bytes()).unwrap();
    assert_eq!(daemon.arrive_for(1), Arrival::Done);
    assert!(daemon.help(NOBODY, 0, 1).pieces <= 1);
    assert_eq!(daemon.arrive_for(0), Arrival::Done);
}

#[test]
fn who_has_gone_ends_what_it_had_no_part_in_any_more() {
    let node = Node::scattering([0, 0]);
    let (daemon, member) = (node.daemon(), node.member());
    let left = Completion { source: 1, ..Completion::bare(Status::RankLeft) };
    let died = Completion { source: 7, ..Completion::bare(Status::RankFailed) };
    assert_eq!((member.arrive(0, 0), member.arrive(1, 0)), (Arrival::Pending, Arrival::Done));
    daemon.close(&left, Some(1));
    assert_eq!(member.closed(), Some(left));
    assert_eq!([0, 1].map(|round| member.given_up(round)), [None; 2], "somebody may have buffers in hand");
    daemon.release();
    assert_eq!([0, 1].map(|round| member.given_up(round)), [None, Some(left)]);
    assert_eq!(member.refusal(0, 1), Some(left));
    daemon.close(&died, None);
    assert_eq!(member.given_up(0), None);
    daemon.release();
    assert_eq!(member.given_up(0), Some(died), "no round goes on without who has died, and not for who had its part");
    daemon.close(&left, None);
    daemon.release();
    assert_eq!(member.given_up(0), Some(died), "the first counts that has ended it");
}

#[test]
fn small_parts_of_a_root_travel_as_one_message() {
    // Put into cells at once, of which there are 64 or 4, or left in the root's buffer till somebody waits.
    for (counts, ahead, is_left) in
        [([1, 1], 64, false), ([0, 5], 64, false), ([900, 124], 4, false), ([1200, 848], 4, true)]
    {
        let node = Node::scattering(counts);
        let (daemon, member) = (node.daemon(), node.member());
        let [own, other] = counts.map(|count| count as usize);
        let bytes = |round: u32| (vec![round as u8; own], vec![!round as u8; other]);
        for first in [0, ahead + 1] {
            for round in first..=first + ahead {
                let (own, other) = bytes(round);
                let input = Layout::contiguous(node.members[0].input, counts.iter().sum());
                node.job.write(&input, 0, &[own, other].concat()).unwrap();
                let has_room = round < first + ahead;
                assert_eq!(member.arrive(0, round) == Arrival::Done, has_room && !is_left);
                assert_eq!(member.poll(0, round), has_room, "{counts:?}, {round}: its cell is full or not");
            }
            for round in first..=first + ahead {
                assert_eq!(member.arrive(1, round), Arrival::Done);
                assert_eq!(node.output_of(1), bytes(round).1);
            }
            assert!(member.poll(0, first + ahead), "who made room has moved it");
            assert_eq!(node.output_of(0), bytes(first + ahead).0);
            assert_eq!(daemon.working_round(), None);
        }
    }
}

#[test]
fn small_parts_are_left_for_the_root_as_many_rounds_ahead_as_there_are_cells() {
    for (bytes, ahead) in [(SLIGHT, 4), (1, 64)] {
        let node = Node::reducing(bytes);
        let (daemon, member) = (node.daemon(), node.member());
        let input = Layout::contiguous(node.members[1].input, bytes);
        let left = |round: u32| node.job.write(&input, 0, &vec![round as u8; bytes as usize]).unwrap();
        let assert_taken = |round: u32| node.assert_reduced((round as u8).wrapping_add(1));
        for first in [0, 2 * ahead] {
            for round in first..first + ahead {
                left(round);
                assert!(!daemon.is_due(0, round));
                assert_eq!(member.arrive(1, round), Arrival::Done);
            }
            left(first + ahead);
            assert_eq!(member.arrive(1, first + ahead), Arrival::Pending);
            assert!(!member.is_due(1, first + ahead), "its cell is full");
            for round in first..=first + ahead {
                assert_eq!(member.arrive(0, round), Arrival::Done);
                assert_taken(round);
            }
            assert!(member.is_due(1, first + ahead) && member.poll(1, first + ahead));
            for round in first + ahead + 1..first + 2 * ahead {
                left(round);
                assert_eq!(member.arrive(0, round), Arrival::Pending, "nobody has come yet");
                assert_eq!(member.arrive(1, round), Arrival::Done);
                assert!(member.is_due(0, round) && member.poll(0, round));
                assert_taken(round);
            }
        }
    }
}

#[test]
fn a_part_that_was_started_and_not_waited_for_is_left_when_its_member_goes() {
    let node = Node::reducing(2000);
    let (daemon, member) = (node.daemon(), node.member());
    assert_eq!(member.arrive(1, 0), Arrival::Pending, "it stays in its buffer");
    daemon.settle_parts();
    let left = Completion::bare(Status::RankLeft);
    daemon.close(&left, Some(1));
    node.job.write(&Layout::contiguous(node.members[1].input, 2000), 0, &[9; 2000]).unwrap();
    daemon.release();
    assert_eq!([0, 1].map(|round| member.given_up(round)), [None, Some(left)]);
    assert_eq!([0, 1].map(|round| member.refusal(0, round)), [None, Some(left)]);
    assert_eq!(member.arrive(0, 0), Arrival::Pending);
    assert!(member.poll(0, 0));
    node.assert_reduced(1 + 2);
}

/// Where in a member's output the first pieces begin that one of two does, who are on core 70 of these.
fn first_place(node: &Node, cores: &[usize], (helper, pieces): (u32, u32), output_of: u32) -> Option<usize> {
    let (daemon, member) = (node.daemon(), node.member());
    node.job.add_cores(cores.iter().copied());
    for place in 0..2 {
        daemon.note_core(place, 0, 70);
        member.arrive(place as u32, 0);
    }
    assert_eq!(member.help(helper, 0, pieces).pieces, pieces);
    node.output_of(output_of).iter().position(|&found| found != 0)
}

#[test]
fn members_that_share_a_core_begin_with_the_same_pieces() {
    let place = |cores: &[usize]| first_place(&Node::summing(1, COUNTS[0]), cores, (1, 1), 0);
    assert_eq!(place(&[70]), Some(0));
    assert_eq!(place(&[6, 70]), Some(COUNTS[0] as usize / 2), "it has its own core, and pieces");
}

#[test]
fn of_each_pair_a_core_begins_with_its_half() {
    // The first piece is what the root gives itself.
    let place = |cores: &[usize]| first_place(&Node::scattering([1, COUNTS[0]]), cores, (0, 2), 1);
    assert_eq!(place(&[70]), Some(0));
    assert_eq!(place(&[6, 70]), Some(COUNTS[0] as usize / 2), "the other one begins with the first half");
}

#[test]
fn members_are_found_on_the_core_where_they_came_last() {
    let node = Node::summing(1, SLIGHT);
    let (daemon, member) = (node.daemon(), node.member());
    let on_core = |core| member.on_core(core).collect::<Vec<_>>();
    assert_eq!((on_core(0), on_core(3)), (vec![], vec![]));
    for (place, round, core, moves) in [(0, 0, 3, 1), (1, 0, 3, 2), (0, 1, 3, 2), (0, 2, 4, 3)] {
        daemon.note_core(place, round, core);
        assert_eq!(member.moves(), moves);
    }
    assert_eq!((on_core(3), on_core(4)), (vec![1], vec![0]));
    assert_eq!([0, 2, 3].map(|round| member.is_said_to_come(0, round)), [true, true, false]);
    assert_eq!([0, 1].map(|round| member.is_said_to_come(1, round)), [true, false]);
    assert!(member.is_of_whole_node() && !Node::summing(2, SLIGHT).daemon().is_of_whole_node());
}

/// Each member reads it: if it had everybody's numbers once for each member, a job of 2000 ranks would take all of a machine.
#[test]
fn what_is_written_down_of_a_meeting_grows_as_its_members_do() {
    let bytes = |ranks: u32| {
        let shape = Arc::new(CollectiveShape {
            kind: CollectiveKind::Allgather,
            members: (0..ranks).collect(),
            root: 0,
            combination: None,
            element_bytes: 8,
            counts: vec![1 << 20; ranks as usize],
            is_reproducible: false,
            algorithm: None,
        });
        let member = |rank| CollectiveMember { shape: shape.clone(), number: 0, rank, input: 0, output: 0 };
        Meeting::footprint(&MeetingPlan { members: (0..ranks).map(member).collect(), span: None })
    };
    assert!(bytes(1000) < 12 * bytes(100), "{} {}", bytes(1000), bytes(100));
}
