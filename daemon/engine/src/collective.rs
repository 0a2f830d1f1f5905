//! Collectives between nodes, from open to close: what is told of one, the channels it keeps, and how it fails.
//!
//! A node takes part as one participant, with one schedule; what happens among its ranks is none of the engine's business.
//! Each step that talks to another node has a persistent request of its own. It is bound, released, armed and credited like
//! one of a rank, but belongs to nobody's slots: its end is a step's end, which the executor learns.
//!
//! | envelope | is |
//! |---|---|
//! | communicator | a reserved one: one for messages, another one for signals, which are matched apart |
//! | source, dest | the first ranks of both nodes, alive or not: they stand for their nodes |
//! | tag | the collective's number |
//!
//! A collective can fail in six ways, and then never runs again:
//!
//! * A member *failed*: everybody hears that from its node, and gives up at once.
//! * A link to members is lost that have not left: their ends can't be heard of any more. The others need not know, so
//!   they are told, by `Unbind`, which names the rank or the node that is the cause if there is one.
//! * A member of this node *left*: no further round can begin, but the running one goes on, with messages for others. The
//!   others are told behind these, and go on as long as what they wait for was sent.
//! * No member of another node is left: steps with it that are not bound will never be, because it does not open the collective
//!   any more, and end. What is bound may still be sent.
//! * A step failed: its other end is unbound or lost. The others are told.
//! * Members have registered different things (`agreement`). All are told.

use std::collections::VecDeque;
use std::sync::Arc;

use ropeway_proto::agreement::ShapeDigest;
use ropeway_proto::{
    Cause, ChannelId, CommId, Completion, Endpoint, Envelope, Epoch, Layout, NodeId, Rank, Status, Tag, limits,
};
use ropeway_schedule::{Action, Buffer, Dependents, Schedule, Side, Slice};
use slab::Slab;

use crate::engine::{Engine, RankState};
use crate::error::ProtocolError;
use crate::request::Request;

/// What an engine is told of a collective. On all its nodes number, participants and members are the same,
/// and the digest, too, or it fails.
#[derive(Clone, Debug)]
pub struct NodeCollective {
    /// Tells it from all other collectives of the job, ever: see [`NodeCollective::number`].
    pub number: u64,
    /// Nodes that take part, in the order in which the schedule counts them.
    pub participants: Vec<NodeId>,
    /// Ranks without which no round can begin.
    pub members: Vec<Rank>,
    /// What they have registered, as this node's say.
    pub digest: ShapeDigest,
    /// What this node does in a round.
    pub schedule: Arc<Schedule>,
    /// Size of what the schedule counts.
    pub element_bytes: u64,
    /// Where the schedule's input lies in the segment.
    pub input: u64,
    /// Where its output lies.
    pub output: u64,
    /// Where its scratch memory lies.
    pub scratch: u64,
}

impl NodeCollective {
    /// The number of a collective that is the `index`-th of its communicator. `None` if these are more than there can be.
    pub fn number(comm: CommId, index: u32) -> Option<u64> {
        let is_possible = comm.0 < CommId::RESERVED >> 1 && index <= limits::TAG_MAX as u32;
        is_possible.then_some(u64::from(comm.0) << TAG_BITS | u64::from(index))
    }

    /// The number of the collective whose messages have this envelope.
    pub(crate) fn number_of(envelope: &Envelope) -> Option<u64> {
        let Envelope { comm, tag, .. } = *envelope;
        let is_its = comm.is_reserved() && tag >= 0;
        is_its.then(|| u64::from((comm.0 & !CommId::RESERVED) >> 1) << TAG_BITS | tag as u64)
    }
}

/// Names a collective of an engine, until it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CollectiveId(pub u32);

/// Names a step of a collective that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CollectiveStep {
    /// Whose step it is.
    pub collective: CollectiveId,
    /// Its index in the schedule.
    pub step: u32,
}

/// What is to be done for a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum CollectiveWork {
    /// Copy within the segment, then call [`Engine::handle_collective_step`].
    Copy { step: CollectiveStep, from: u64, to: u64, bytes: u64 },
    /// Apply the operator element by element within the segment: `into = from ∘ into` if `side` is left, otherwise
    /// `into = into ∘ from`. Then call [`Engine::handle_collective_step`].
    Combine { step: CollectiveStep, from: u64, into: u64, elements: u64, side: Side },
    /// A round is over, and nothing reads or writes its memory any more.
    ///
    /// A failure names the member that failed or left, or the node that is lost (`PeerLost`); or `source` is a node that has
    /// given up for a reason that only it knows (`NodeGaveUp`), or the first rank of one whose messages have another length,
    /// because its ranks asked for something else (`Truncated`).
    Done { collective: CollectiveId, failure: Option<Completion> },
    /// While none runs: there will be no further round.
    Failed { collective: CollectiveId, failure: Completion },
}

/// What does not change from open to close.
pub(crate) struct Plan {
    pub(crate) node: NodeCollective,
    pub(crate) dependents: Dependents,
    /// How many steps each step waits for.
    pub(crate) predecessors: Box<[u32]>,
}

/// One open collective.
pub(crate) struct Collective {
    /// Shared, so that it can be read while the engine works.
    pub(crate) plan: Arc<Plan>,
    /// The request of each step that has one.
    pub(crate) channels: Box<[Option<ChannelId>]>,
    /// What is left of `predecessors` in this round.
    pub(crate) pending: Box<[u32]>,
    /// Steps that have begun and not ended.
    pub(crate) active: u32,
    pub(crate) is_running: bool,
    pub(crate) round: Epoch,
    /// Nodes none of whose members is left, and why: they don't open it or begin a round any more.
    absent: Vec<(NodeId, Completion)>,
    /// Why it never runs again.
    pub(crate) failure: Option<Completion>,
    /// Why it never runs again after this round.
    pub(crate) farewell: Option<Completion>,
    /// Why another node takes part no more, as it has said.
    cause: Option<Cause>,
}

/// All collectives of an engine.
#[derive(Default)]
pub(crate) struct Collectives {
    pub(crate) entries: Slab<Collective>,
    /// Steps that have ended. A queue, because they end in the middle of everything.
    pub(crate) ended: VecDeque<(CollectiveStep, Completion)>,
    pub(crate) work: VecDeque<CollectiveWork>,
    /// Steps of all of them: the queues have room for all at once.
    steps: usize,
}

impl Plan {
    fn new(node: NodeCollective) -> Self {
        let schedule = &node.schedule;
        let predecessors = (0..schedule.steps().len()).map(|step| schedule.after(step as u32).len() as u32).collect();
        Self { dependents: schedule.dependents(), predecessors, node }
    }

    pub(crate) fn action(&self, step: u32) -> Action {
        self.node.schedule.steps()[step as usize].action
    }

    /// Where a slice starts in the segment.
    pub(crate) fn offset(&self, slice: Slice) -> u64 {
        let start = match slice.buffer {
            Buffer::Input => self.node.input,
            Buffer::Output => self.node.output,
            Buffer::Scratch => self.node.scratch,
        };
        start + slice.offset * self.node.element_bytes
    }

    pub(crate) fn bytes(&self, slice: Slice) -> u64 {
        slice.length * self.node.element_bytes
    }

    /// The node a step talks to.
    pub(crate) fn peer(&self, step: u32) -> Option<NodeId> {
        match self.action(step) {
            Action::Send { peer, .. } | Action::Recv { peer, .. } | Action::Signal { peer } | Action::Wait { peer } => {
                Some(self.node.participants[peer as usize])
            }
            Action::Combine { .. } | Action::Copy { .. } => None,
        }
    }

    /// Communicator and tag of its messages, or of its signals. No two collectives share them.
    fn label(&self, is_signal: bool) -> (CommId, Tag) {
        let number = self.node.number;
        let comm = CommId::RESERVED | ((number >> TAG_BITS) as u32) << 1 | u32::from(is_signal);
        (CommId(comm), (number & limits::TAG_MAX as u64) as Tag)
    }
}

impl Collectives {
    fn insert(&mut self, plan: Arc<Plan>) -> CollectiveId {
        let steps = plan.predecessors.len();
        self.steps += steps;
        let index = self.entries.insert(Collective {
            channels: vec![None; steps].into(),
            pending: plan.predecessors.clone(),
            plan,
            active: 0,
            is_running: false,
            round: 0,
            absent: Vec::new(),
            failure: None,
            farewell: None,
            cause: None,
        });
        let entries = self.entries.len();
        self.ended.reserve(self.steps.saturating_sub(self.ended.len()));
        self.work.reserve((self.steps + entries).saturating_sub(self.work.len()));
        CollectiveId(index as u32)
    }

    fn remove(&mut self, id: CollectiveId) {
        let collective = self.entries.remove(id.0 as usize);
        self.steps -= collective.pending.len();
    }

    /// Nobody wants to hear any more how it ended.
    fn forget_ends(&mut self, id: CollectiveId) {
        self.work.retain(|work| match work {
            CollectiveWork::Done { collective, .. } | CollectiveWork::Failed { collective, .. } => *collective != id,
            CollectiveWork::Copy { .. } | CollectiveWork::Combine { .. } => true,
        });
    }

    pub(crate) fn entry(&mut self, id: CollectiveId) -> &mut Collective {
        &mut self.entries[id.0 as usize]
    }

    /// Ids of those that satisfy `wanted`.
    fn select(&self, wanted: impl Fn(&Collective) -> bool) -> Vec<CollectiveId> {
        let found = self.entries.iter().filter(|(_, collective)| wanted(collective));
        found.map(|(index, _)| CollectiveId(index as u32)).collect()
    }
}

impl Engine {
    /// A collective that this node takes part in. To be opened as soon as one of the node's members wants it: if it never
    /// comes to a round, the other nodes learn that only from an open collective.
    ///
    /// # Panics
    /// If the schedule was not made for this node's place among the participants.
    pub fn open_collective(&mut self, collective: NodeCollective) -> CollectiveId {
        let (schedule, participants) = (Arc::clone(&collective.schedule), &collective.participants);
        assert_eq!(schedule.size() as usize, participants.len(), "a schedule is made for its participants");
        assert_eq!(participants[schedule.me() as usize], self.config.spec.node, "each node has its own schedule");
        let plan = Arc::new(Plan::new(collective));
        let id = self.collectives.insert(Arc::clone(&plan));
        let is_gone = |rank: &Rank| self.ranks[*rank as usize] != RankState::Alive;
        let gone: Vec<Rank> = plan.node.members.iter().copied().filter(is_gone).collect();
        for rank in gone {
            self.note_absence(id, rank);
        }
        if let Some(mismatch) = self.agree(id, &plan) {
            self.renounce(id, mismatch);
            return id;
        }
        // In the order of the steps: so the k-th send to a node meets its k-th receive from us.
        for step in 0..schedule.steps().len() {
            let channel = self.open_step(id, &plan, step as u32);
            self.collectives.entry(id).channels[step] = channel;
        }
        self.judge(id);
        id
    }

    /// One of this node's members is gone from it, or it can't take part: no further round begins, and the running one ends as
    /// soon as nothing is under way any more.
    pub fn abandon_collective(&mut self, id: CollectiveId, failure: Completion) {
        self.renounce(id, failure);
        self.run_collectives();
    }

    /// Nobody wants it any more. Other nodes may still be in their last round: what they need of this one was sent.
    ///
    /// # Panics
    /// If it runs.
    pub fn close_collective(&mut self, id: CollectiveId) {
        assert!(!self.collectives.entry(id).is_running, "a collective is closed between its rounds");
        let number = self.collectives.entry(id).plan.node.number;
        self.close_agreement(number);
        self.part(id);
        self.collectives.forget_ends(id);
        self.collectives.remove(id);
    }

    /// The request of a step, if it has one.
    fn open_step(&mut self, collective: CollectiveId, plan: &Plan, step: u32) -> Option<ChannelId> {
        let node = plan.peer(step)?;
        assert_ne!(node, self.config.spec.node, "no schedule sends to itself");
        let slice = match plan.action(step) {
            Action::Send { from: slice, .. } | Action::Recv { into: slice, .. } => Some(slice),
            _ => None,
        };
        let layout =
            slice.map_or(Layout::contiguous(0, 0), |slice| Layout::contiguous(plan.offset(slice), plan.bytes(slice)));
        let (comm, tag) = plan.label(slice.is_none());
        let endpoint = Endpoint { comm, peer: Some(self.first_rank(node)), tag: Some(tag) };
        let id = self.requests.insert(Request::of_step(collective.0, step, (node, endpoint), layout));
        match plan.action(step) {
            Action::Send { .. } | Action::Signal { .. } => self.register_send(id),
            _ => self.register_recv(id),
        }
        Some(id)
    }

    /// The rank that stands for its node in the envelopes of collectives.
    pub(crate) fn first_rank(&self, node: NodeId) -> Rank {
        self.config.spec.nodes[usize::from(node.0)].first_rank
    }
}

// ---- failure

impl Engine {
    /// A rank is gone, and its node has said so.
    pub(crate) fn end_collectives_of_rank(&mut self, rank: Rank) {
        // Of a rank of another node that has left in order there is nothing to judge: at the end of a large job thousands do.
        let is_to_judge =
            self.ranks[rank as usize] != RankState::Left || self.config.spec.local_ranks().contains(&rank);
        for id in self.collectives.select(|collective| collective.plan.node.members.contains(&rank)) {
            if is_to_judge {
                self.judge(id);
            }
            let node = self.note_absence(id, rank);
            if let Some(failure) = self.why_absent(id, node) {
                self.end_unbound_steps(id, node, failure);
            }
        }
    }

    /// A member is gone: perhaps the last one of its node, which this returns.
    fn note_absence(&mut self, id: CollectiveId, rank: Rank) -> NodeId {
        let node = self.config.spec.node_of(rank).expect("members are ranks of the job");
        let there = self.config.spec.ranks_of(node);
        let members = &self.collectives.entry(id).plan.node.members;
        let members: Vec<Rank> = members.iter().copied().filter(|member| there.contains(member)).collect();
        let failure = self.why_all_gone(members.into_iter());
        self.collectives.entry(id).absent.extend(failure.map(|failure| (node, failure)));
        node
    }

    /// Why a node will not open a collective nor begin a round of it any more, if none of its members is left.
    pub(crate) fn why_absent(&self, id: CollectiveId, node: NodeId) -> Option<Completion> {
        let absent = &self.collectives.entries.get(id.0 as usize)?.absent;
        absent.iter().find(|(other, _)| *other == node).map(|&(_, failure)| failure)
    }

    /// Steps that wait for a node to open the collective wait in vain. Of what is bound it may still send the end.
    fn end_unbound_steps(&mut self, id: CollectiveId, node: NodeId, failure: Completion) {
        let channels = self.collectives.entry(id).channels.clone();
        for channel in channels.into_iter().flatten() {
            let request = self.requests.find(channel).filter(|request| request.node == node && request.is_active());
            if request.is_some_and(Request::is_unbound) {
                self.complete(channel, failure);
            }
        }
    }

    /// A link is lost.
    pub(crate) fn end_collectives_of_node(&mut self, node: NodeId) {
        for id in self.collectives.select(|collective| collective.plan.node.participants.contains(&node)) {
            self.judge(id);
        }
    }

    /// Ends a collective if what is known of its members and their nodes says so.
    fn judge(&mut self, id: CollectiveId) {
        let plan = Arc::clone(&self.collectives.entry(id).plan);
        let local = self.config.spec.local_ranks();
        let members = || plan.node.members.iter().copied();
        if let Some(failure) = self.why_any(members(), RankState::Failed) {
            self.fail_collective(id, failure);
        } else if let Some(failure) = self.why_any(members(), RankState::Alive) {
            self.renounce(id, failure); // Its link is lost, so its end would not be heard of.
        } else if let Some(failure) = self.why_any(members().filter(|rank| local.contains(rank)), RankState::Left) {
            if self.collectives.entry(id).is_running {
                self.collectives.entry(id).farewell = Some(failure);
            } else {
                self.renounce(id, failure);
            }
        }
    }

    /// Why messages with a member in this state are impossible, if there is one with whom they are.
    fn why_any(&self, mut members: impl Iterator<Item = Rank>, state: RankState) -> Option<Completion> {
        members.find_map(|rank| self.why_gone(rank).filter(|_| self.ranks[rank as usize] == state))
    }

    /// Ends a collective for a reason that the other nodes learn by themselves: nothing new begins, and what can be
    /// withdrawn is. What can't be goes on, on memory that the round still owns, until it ends; then the round is over.
    fn fail_collective(&mut self, id: CollectiveId, failure: Completion) {
        let collective = self.collectives.entry(id);
        if collective.failure.is_some() {
            return;
        }
        collective.failure = Some(failure);
        self.tell_if_idle(id);
        for step in 0..self.collectives.entry(id).channels.len() {
            let channel = self.collectives.entry(id).channels[step];
            let active = channel.filter(|&channel| self.requests.find(channel).is_some_and(Request::is_active));
            if let Some(channel) = active {
                self.cancel(channel);
            }
        }
    }

    /// Ends a collective, and tells the other nodes.
    pub(crate) fn renounce(&mut self, id: CollectiveId, failure: Completion) {
        if self.collectives.entry(id).failure.is_none() {
            self.collectives.entry(id).failure = Some(failure);
            self.tell_if_idle(id);
            self.part(id);
        }
    }

    /// Whoever waits for a round to begin learns that none will.
    fn tell_if_idle(&mut self, id: CollectiveId) {
        let Collective { is_running, failure, .. } = *self.collectives.entry(id);
        if let Some(failure) = failure.filter(|_| !is_running) {
            self.collectives.work.push_back(CollectiveWork::Failed { collective: id, failure });
        }
    }

    /// Frees all its requests, those that are active as soon as they end.
    fn part(&mut self, id: CollectiveId) {
        for step in 0..self.collectives.entry(id).channels.len() {
            let Some(channel) = self.collectives.entry(id).channels[step] else { continue };
            let Some(request) = self.requests.find_mut(channel) else { continue };
            if std::mem::replace(&mut request.is_freeing, true) {
                continue;
            }
            if request.is_active() {
                self.cancel(channel);
            } else {
                self.unbind(channel);
            }
        }
    }

    /// The member that speaks for a node.
    pub(crate) fn first_member(&self, plan: &Plan, node: NodeId) -> Option<Rank> {
        let there = self.config.spec.ranks_of(node);
        plan.node.members.iter().copied().find(|rank| there.contains(rank))
    }

    /// Why a node may have given up: as it has said, or by the members that are gone, if there are any.
    pub(crate) fn why_parted(&self, id: CollectiveId, plan: &Plan, node: NodeId) -> Completion {
        let members = || plan.node.members.iter().copied();
        let told = || self.collectives.entries[id.0 as usize].cause.map(Cause::ending);
        let failed = self.why_any(members(), RankState::Failed).or_else(told);
        let gone = failed.or_else(|| self.why_any(members(), RankState::Left));
        gone.unwrap_or(Completion { source: u32::from(node.0), ..Completion::bare(Status::NodeGaveUp) })
    }

    /// What others are told of a step's end that is freed.
    pub(crate) fn why_parting(&self, channel: ChannelId) -> Option<Cause> {
        let id = self.collective_of(channel)?;
        self.collectives.entries[id.0 as usize].failure.and_then(Cause::of)
    }

    /// Another node has said why it takes part no more, with a step's end. The first one to say so knows it best.
    pub(crate) fn note_cause(&mut self, channel: ChannelId, cause: Cause) -> Result<(), ProtocolError> {
        let Completion { status, source, .. } = cause.ending();
        let is_a_node = status == Status::NodeGaveUp;
        let known = if is_a_node { self.config.spec.nodes.len() as u32 } else { self.config.spec.size() };
        if source >= known {
            return Err(ProtocolError::ForeignCause { source_number: source });
        }
        if let Some(id) = self.collective_of(channel) {
            self.collectives.entry(id).cause.get_or_insert(cause);
        }
        Ok(())
    }

    /// Whose step a channel is. It may outlive its collective, whose place may be another's then.
    fn collective_of(&self, channel: ChannelId) -> Option<CollectiveId> {
        let CollectiveStep { collective: id, step } = self.requests.find(channel)?.step()?;
        let collective = self.collectives.entries.get(id.0 as usize)?;
        (collective.channels.get(step as usize) == Some(&Some(channel))).then_some(id)
    }
}

/// Bits of a collective's number that its tag holds. The communicator has room for the others.
const TAG_BITS: u32 = (limits::TAG_MAX as u32).count_ones();
const _: () = assert!(limits::TAG_MAX as u32 == u32::MAX >> (32 - TAG_BITS));
