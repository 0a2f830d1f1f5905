//! Collectives of a [`Cluster`]: opened on all nodes at once, run on numbers that tell order and place, and checked by definition.

use std::collections::HashMap;
use std::sync::Arc;

use ropeway_engine::{CollectiveId, CollectiveStep, CollectiveWork, NodeCollective};
use ropeway_proto::agreement::ShapeDigest;
use ropeway_proto::{Completion, NodeId, Rank};
use ropeway_schedule::{Algorithm, Collective, Schedule, Shape, Side, build};

use crate::cluster::Cluster;

/// Every element has as many.
pub(crate) const ELEMENT_BYTES: u64 = 8;

/// How two elements are combined.
pub(crate) type Operator = fn(u64, u64) -> u64;

/// Commutes.
pub(crate) fn sum(left: u64, right: u64) -> u64 {
    left.wrapping_add(right)
}

/// Composes linear functions x ↦ ax + b: associative, but does not commute.
pub(crate) fn compose(left: u64, right: u64) -> u64 {
    let parts = |function: u64| ((function >> 32) as u32, function as u32);
    let ((a, b), (c, d)) = (parts(left), parts(right));
    u64::from(a.wrapping_mul(c)) << 32 | u64::from(a.wrapping_mul(d).wrapping_add(b))
}

/// What the test knows of all engines' collectives.
#[derive(Default)]
pub(crate) struct Rounds {
    pub(crate) done: HashMap<(u16, CollectiveId), Vec<Option<Completion>>>,
    /// Those that have failed while no round ran.
    pub(crate) failed: Vec<(u16, CollectiveId)>,
    /// Copies and combinations to be made, if they are not made at once.
    pub(crate) slow: Option<Vec<(u16, CollectiveWork)>>,
    /// Ranks that are no members of what is opened.
    pub(crate) outsiders: Vec<Rank>,
    /// What members have registered of what is opened.
    pub(crate) digest: ShapeDigest,
    operators: HashMap<(u16, CollectiveId), Operator>,
}

/// One collective over nodes of a cluster.
pub(crate) struct Group {
    pub(crate) shape: Shape,
    operator: Operator,
    pub(crate) nodes: Vec<u16>,
    pub(crate) ids: Vec<CollectiveId>,
    /// Input, and output with scratch memory behind it: start and elements.
    inputs: Vec<(u64, u64)>,
    outputs: Vec<(u64, u64)>,
}

impl Group {
    /// One that no node has opened yet.
    pub(crate) fn new(shape: &Shape, operator: Operator, nodes: Vec<u16>) -> Self {
        let (ids, inputs, outputs) = (Vec::new(), Vec::new(), Vec::new());
        Self { shape: shape.clone(), operator, nodes, ids, inputs, outputs }
    }

    fn input_of(&self, round: u64, me: usize) -> Vec<u64> {
        let value = |element: u64| {
            let seed = (round << 40 | (me as u64) << 20 | element).wrapping_add(1);
            (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed << 7) | 1 << 32
        };
        (0..self.shape.input_elements(me as u32)).map(value).collect()
    }

    /// What a participant should get; `None` if that is undefined.
    fn expected(&self, round: u64, me: usize) -> Option<Vec<u64>> {
        let inputs: Vec<_> = (0..self.nodes.len()).map(|node| self.input_of(round, node)).collect();
        let fold = |inputs: &[Vec<u64>]| {
            let pair = |left: Vec<u64>, right: &Vec<u64>| {
                left.iter().zip(right).map(|(&left, &right)| (self.operator)(left, right)).collect()
            };
            let (first, rest) = inputs.split_first()?;
            Some(rest.iter().fold(first.clone(), pair))
        };
        let part = |all: &[u64], offset: u64, count: u64| all[offset as usize..][..count as usize].to_vec();
        let rank = me as u32;
        match &self.shape.collective {
            Collective::Barrier => Some(Vec::new()),
            Collective::Bcast { root, .. } => Some(inputs[*root as usize].clone()),
            Collective::Reduce { root, .. } => (*root == rank).then(|| fold(&inputs))?,
            Collective::Allreduce { .. } => fold(&inputs),
            Collective::Scan { .. } => fold(&inputs[..=me]),
            Collective::Exscan { .. } => fold(&inputs[..me]),
            Collective::ReduceScatter { counts, .. } => {
                Some(part(&fold(&inputs)?, counts.offset(rank), counts.count(rank)))
            }
            Collective::Gather { root, .. } => (*root == rank).then(|| inputs.concat()),
            Collective::Scatter { root, counts } => {
                Some(part(&inputs[*root as usize], counts.offset(rank), counts.count(rank)))
            }
            Collective::Allgather { .. } => Some(inputs.concat()),
            Collective::Alltoall { counts } => {
                let size = self.shape.size;
                let from = |(peer, input): (u32, &Vec<u64>)| {
                    part(input, counts.row(size, peer).offset(rank), counts.count(size, peer, rank))
                };
                Some((0..size).zip(&inputs).flat_map(from).collect())
            }
            other => panic!("no oracle for {}: add one here", other.name()),
        }
    }
}

impl Cluster {
    /// Opens a collective over all nodes and ranks, by an algorithm that suits it.
    pub(crate) fn open(&mut self, number: u64, shape: &Shape, algorithm: &Algorithm, operator: Operator) -> Group {
        let nodes = (0..self.engines.len() as u16).collect();
        self.open_over(number, shape, operator, nodes, |me| build(shape, algorithm, me).unwrap())
    }

    /// Opens one over some nodes with schedules of the test's own.
    pub(crate) fn open_over(
        &mut self,
        number: u64,
        shape: &Shape,
        operator: Operator,
        nodes: Vec<u16>,
        schedule: impl Fn(u32) -> Schedule,
    ) -> Group {
        let mut group = Group::new(shape, operator, nodes);
        for me in 0..group.nodes.len() {
            self.join(&mut group, number, schedule(me as u32));
        }
        group
    }

    /// Opens it on the next of its nodes.
    pub(crate) fn join(&mut self, group: &mut Group, number: u64, schedule: Schedule) {
        let me = group.ids.len();
        let node = group.nodes[me];
        let spec = self.engines[0].spec().clone();
        let mut members: Vec<Rank> = group.nodes.iter().flat_map(|&node| spec.ranks_of(NodeId(node))).collect();
        members.retain(|member| !self.rounds.outsiders.contains(member));
        let (input, output) = (group.shape.input_elements(me as u32), group.shape.output_elements(me as u32));
        let scratch = schedule.scratch_elements();
        let input_at = self.allocate(node, input * ELEMENT_BYTES);
        let output_at = self.allocate(node, (output + scratch) * ELEMENT_BYTES);
        let id = self.engines[usize::from(node)].open_collective(NodeCollective {
            number,
            participants: group.nodes.iter().map(|&node| NodeId(node)).collect(),
            members,
            digest: self.rounds.digest,
            schedule: Arc::new(schedule),
            element_bytes: ELEMENT_BYTES,
            input: input_at,
            output: output_at,
            scratch: output_at + output * ELEMENT_BYTES,
        });
        self.rounds.operators.insert((node, id), group.operator);
        self.rounds.done.insert((node, id), Vec::new());
        group.ids.push(id);
        group.inputs.push((input_at, input));
        group.outputs.push((output_at, output + scratch));
        self.collect(node);
    }

    pub(crate) fn close(&mut self, group: &Group) {
        for (&node, &id) in group.nodes.iter().zip(&group.ids) {
            self.engines[usize::from(node)].close_collective(id);
            self.collect(node);
        }
    }

    /// One of a participant's ranks takes part no more.
    pub(crate) fn abandon(&mut self, group: &Group, me: usize, why: Completion) {
        self.engines[usize::from(group.nodes[me])].abandon_collective(group.ids[me], why);
        self.collect(group.nodes[me]);
    }

    /// A participant brings its input, and begins a round. What is there of the last one is overwritten.
    pub(crate) fn begin_round(&mut self, group: &Group, me: usize, round: u64) {
        let node = group.nodes[me];
        self.set_words(node, group.inputs[me].0, &group.input_of(round, me));
        let (at, elements) = group.outputs[me];
        self.set_words(node, at, &vec![!0; elements as usize]);
        self.engines[usize::from(node)].start_collective(group.ids[me]);
        self.collect(node);
    }

    /// How a participant's rounds ended so far.
    pub(crate) fn ends(&self, group: &Group, me: usize) -> &[Option<Completion>] {
        &self.rounds.done[&(group.nodes[me], group.ids[me])]
    }

    /// Asserts that a participant has the right result.
    pub(crate) fn assert_result(&self, group: &Group, me: usize, round: u64) {
        if let Some(expected) = group.expected(round, me) {
            let found = self.words(group.nodes[me], group.outputs[me].0, expected.len() as u64);
            assert_eq!(found, expected, "participant {me} of {:?}, round {round}", group.shape);
        }
    }

    /// All that a participant's rounds write to.
    pub(crate) fn written(&self, group: &Group, me: usize) -> Vec<u64> {
        let (at, elements) = group.outputs[me];
        self.words(group.nodes[me], at, elements)
    }

    /// One whole round on all nodes.
    pub(crate) fn round(&mut self, group: &Group, round: u64) {
        for me in 0..group.nodes.len() {
            self.begin_round(group, me, round);
        }
        self.settle();
        for me in 0..group.nodes.len() {
            assert_eq!(self.ends(group, me)[round as usize..], [None], "{me} of {:?}", group.shape);
            self.assert_result(group, me, round);
        }
    }

    pub(crate) fn collective_work(&mut self, node: u16, work: CollectiveWork) {
        match (&mut self.rounds.slow, work) {
            (_, CollectiveWork::Done { collective, failure }) => {
                self.rounds.done.get_mut(&(node, collective)).expect("it is open").push(failure);
            }
            (_, CollectiveWork::Failed { collective, .. }) => self.rounds.failed.push((node, collective)),
            (Some(slow), _) => slow.push((node, work)),
            (None, _) => self.work(node, work),
        }
    }

    /// Makes a copy or combination.
    pub(crate) fn work(&mut self, node: u16, work: CollectiveWork) {
        let done: CollectiveStep = match work {
            CollectiveWork::Copy { step, from, to, bytes } => {
                let copy = self.words(node, from, bytes / ELEMENT_BYTES);
                self.set_words(node, to, &copy);
                step
            }
            CollectiveWork::Combine { step, from, into, elements, side } => {
                let operator = self.rounds.operators[&(node, step.collective)];
                let (from, old) = (self.words(node, from, elements), self.words(node, into, elements));
                let combine = |(from, old)| if side == Side::Left { operator(from, old) } else { operator(old, from) };
                let new: Vec<u64> = from.into_iter().zip(old).map(combine).collect();
                self.set_words(node, into, &new);
                step
            }
            CollectiveWork::Done { .. } | CollectiveWork::Failed { .. } => unreachable!("that is no work"),
        };
        self.engines[usize::from(node)].handle_collective_step(done);
        self.collect(node);
    }
}
