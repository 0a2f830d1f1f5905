//! A request and its states, and the table that names requests.

use ropeway_proto::{
    ChannelId, CommId, Completion, Endpoint, Envelope, Epoch, Layout, NodeId, Rank, Slot, Status, Tag,
};
use slab::Slab;

use crate::collective::{CollectiveId, CollectiveStep};
use crate::direct::DirectId;
use crate::matching::Pattern;
use crate::meeting::Member;
use crate::stash::StashQueue;

/// One request of a local rank.
///
/// Small on purpose: an idle channel costs little more than its two requests, and a node may have very many of them.
/// Hence the options without a word of their own, behind [`Request::peer`], [`Send::peer`] and the like.
pub(crate) struct Request {
    /// Index of the rank that owns it, among the node's ranks. Meaningless if a collective does: see [`Request::step`].
    pub(crate) local_rank: u32,
    /// Its slot in that rank's request table; the step, if a collective owns it.
    pub(crate) slot: Slot,
    /// The operation that runs, or ran last.
    pub(crate) epoch: Epoch,
    pub(crate) comm: CommId,
    /// −1 is the wildcard, as in [`Command`](ropeway_proto::Command).
    peer: i32,
    tag: Tag,
    /// Tells it from earlier requests at its place of the table.
    generation: u32,
    /// Node of the other end.
    pub(crate) node: NodeId,
    /// Waits in its node's ready queue.
    pub(crate) is_queued: bool,
    /// The client wants it freed as soon as nothing refers to its buffer.
    pub(crate) is_freeing: bool,
    pub(crate) layout: Layout,
    pub(crate) kind: Kind,
}

pub(crate) enum Kind {
    Send(Send),
    Recv(Recv),
    /// Of a collective.
    /// Boxed, because there are few beside the channels.
    Member(Box<Member>),
    Probe,
}

/// How a send travels. Decided at init, or at the start of a one-shot send, and never again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    /// Channel: pushed at once, under the channel's credit.
    Eager,
    /// Channel: pushed once the receiver's `Armed` is here.
    Rendezvous,
    /// One-shot: pushed at once, under the pair's credit.
    Message,
    /// One-shot: announced, pushed once accepted.
    Announced,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendPhase {
    /// Not started.
    Inactive,
    /// Started; waits to be bound, for credit, for `Armed` or for `Accept`.
    Waiting,
    /// One-shot: the announcement waits for the link.
    Announcing,
    /// One-shot: announced, and `Withdraw` was sent. Waits for `Accept` or `Withdrawn`.
    Withdrawing,
    /// May be pushed: frames wait for the link, or are in the device.
    Released,
    /// Freed before its receiver has said whether their channel is wired: stays until it has, to answer it.
    Orphaned,
}

/// What is known of the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Binding {
    Unbound,
    /// `channel` is its request.
    Bound,
    /// `channel.index` is the direct channel both are ends of.
    Direct,
    /// The same, but the other end, on another node, has not said yet whether it is ready.
    Wiring,
}

pub(crate) struct Send {
    channel: ChannelId,
    binding: Binding,
    pub(crate) protocol: Protocol,
    pub(crate) phase: SendPhase,
    pub(crate) is_persistent: bool,
    /// It stands in the queue of those that wait for a receive.
    pub(crate) is_queued: bool,
    /// The receive at the other end was freed.
    pub(crate) is_peer_freed: bool,
    /// Messages of a channel that may still be pushed: credits if eager; if not, the receiver's start, unless it is used.
    pub(crate) permits: u16,
    /// Bytes handed to the device.
    pub(crate) emitted: u64,
    /// Bytes the device is done with.
    pub(crate) transmitted: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecvPhase {
    /// Not started.
    Inactive,
    /// Started; no byte of its message is here.
    Waiting,
    /// Its message is arriving straight into the buffer.
    Arriving,
    /// Its message is in the stash and is being copied out.
    Copying,
    /// Freed before it was bound: stays until the sender's `Bound` comes, to answer it.
    Orphaned,
}

/// What a receive has told the sender of a large message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arming {
    Unarmed,
    /// `Armed` waits for the link.
    Owed,
    /// `Armed`, or the `Accept` of a one-shot message, was sent.
    Armed,
    /// `Disarm` was sent as well.
    Disarming,
    /// The data come; their last piece has not begun to.
    Coming,
}

impl Arming {
    /// Whether it has asked for data whose last piece has not begun to come.
    pub(crate) fn is_due(self) -> bool {
        matches!(self, Self::Armed | Self::Disarming | Self::Coming)
    }
}

pub(crate) struct Recv {
    channel: ChannelId,
    binding: Binding,
    pub(crate) phase: RecvPhase,
    pub(crate) is_persistent: bool,
    pub(crate) is_rendezvous: bool,
    /// The send at the other end was freed; what is stashed is all that will come.
    pub(crate) is_peer_freed: bool,
    /// Whether it has asked for data that have not begun to come.
    pub(crate) arming: Arming,
    /// Eager messages taken whose credit was not returned yet.
    pub(crate) owed_credits: u16,
    /// Bytes of the message being received.
    pub(crate) total: u64,
    /// How many of them are here.
    pub(crate) arrived: u64,
    /// Messages that came before their start.
    pub(crate) stashed: StashQueue,
}

impl Request {
    /// A probe on a slot of a local rank, to become what else it may be.
    pub(crate) fn new((local_rank, slot): (u32, Slot), epoch: Epoch, endpoint: Endpoint, layout: Layout) -> Self {
        let Endpoint { comm, peer, tag } = endpoint;
        Self {
            local_rank,
            slot,
            epoch,
            comm,
            peer: peer.map_or(ANY, |rank| rank as i32),
            tag: tag.unwrap_or(ANY),
            generation: 0,
            node: NodeId(0),
            is_queued: false,
            is_freeing: false,
            layout,
            kind: Kind::Probe,
        }
    }

    /// A step of a collective, which talks to that node.
    pub(crate) fn of_step(collective: u32, step: u32, (node, endpoint): (NodeId, Endpoint), layout: Layout) -> Self {
        Self { node, ..Self::new((collective, step), 0, endpoint, layout) }
    }

    /// The step it belongs to, instead of to a rank.
    pub(crate) fn step(&self) -> Option<CollectiveStep> {
        let Self { local_rank: collective, slot: step, .. } = *self;
        self.comm.is_reserved().then_some(CollectiveStep { collective: CollectiveId(collective), step })
    }

    /// Whether the other end of its channel is not known.
    pub(crate) fn is_unbound(&self) -> bool {
        match &self.kind {
            Kind::Send(send) => send.peer().is_none(),
            Kind::Recv(recv) => recv.peer().is_none(),
            Kind::Member(_) | Kind::Probe => false,
        }
    }

    /// Whether it is a send whose receive is not known.
    pub(crate) fn is_unbound_send(&self) -> bool {
        matches!(self.kind, Kind::Send(_)) && self.is_unbound()
    }

    /// Whether its client is that one.
    pub(crate) fn is_of_client(&self, local_rank: u32) -> bool {
        self.local_rank == local_rank && !self.comm.is_reserved()
    }

    /// The other end; `None` is the wildcard of a receive or probe that has not matched.
    pub(crate) fn peer(&self) -> Option<Rank> {
        Rank::try_from(self.peer).ok()
    }

    /// The direct channel it is an end of: its operations are none of our business then.
    pub(crate) fn direct(&self) -> Option<DirectId> {
        let (binding, channel) = match &self.kind {
            Kind::Send(send) => (send.binding, send.channel),
            Kind::Recv(recv) => (recv.binding, recv.channel),
            Kind::Member(_) | Kind::Probe => return None,
        };
        (binding == Binding::Direct).then_some(DirectId(channel.index))
    }

    /// The direct channel it is going to be an end of, if its other end agrees.
    pub(crate) fn wiring(&self) -> Option<DirectId> {
        let Kind::Send(send) = &self.kind else { return None };
        (send.binding == Binding::Wiring).then_some(DirectId(send.channel.index))
    }

    /// What it asks for, on the one-shot path.
    pub(crate) fn pattern(&self) -> Pattern {
        Pattern { comm: self.comm, source: self.peer(), tag: self.tag() }
    }

    /// The tag; `None` is the wildcard, as for the peer.
    pub(crate) fn tag(&self) -> Option<Tag> {
        (self.tag != ANY).then_some(self.tag)
    }

    /// A receive has found its message: its wildcards are filled in.
    pub(crate) fn make_definite(&mut self, envelope: &Envelope, node: NodeId) {
        (self.peer, self.tag, self.node) = (envelope.source as i32, envelope.tag, node);
    }

    /// Whether an operation runs.
    pub(crate) fn is_active(&self) -> bool {
        match &self.kind {
            Kind::Send(send) => !matches!(send.phase, SendPhase::Inactive | SendPhase::Orphaned),
            Kind::Recv(recv) => !matches!(recv.phase, RecvPhase::Inactive | RecvPhase::Orphaned),
            Kind::Member(member) => member.is_active,
            Kind::Probe => true,
        }
    }

    /// Whether it outlives its operation.
    pub(crate) fn is_persistent(&self) -> bool {
        match &self.kind {
            Kind::Send(send) => send.is_persistent,
            Kind::Recv(recv) => recv.is_persistent,
            Kind::Member(_) => true,
            Kind::Probe => false,
        }
    }

    pub(crate) fn send_mut(&mut self) -> Option<&mut Send> {
        if let Kind::Send(send) = &mut self.kind { Some(send) } else { None }
    }

    pub(crate) fn recv_mut(&mut self) -> Option<&mut Recv> {
        if let Kind::Recv(recv) = &mut self.kind { Some(recv) } else { None }
    }

    /// The completion of a receive whose message is all here.
    pub(crate) fn received(&self, status: Status) -> Completion {
        let Kind::Recv(recv) = &self.kind else { return Completion::bare(status) };
        Completion { status, source: self.peer().unwrap_or(0), tag: self.tag, bytes: recv.total }
    }
}

impl Send {
    pub(crate) fn new(protocol: Protocol, is_persistent: bool, permits: u16) -> Self {
        Self {
            channel: NOWHERE,
            binding: Binding::Unbound,
            protocol,
            phase: SendPhase::Inactive,
            is_persistent,
            is_queued: false,
            is_peer_freed: false,
            permits,
            emitted: 0,
            transmitted: 0,
        }
    }

    /// The receiving request, once known.
    pub(crate) fn peer(&self) -> Option<ChannelId> {
        (self.binding == Binding::Bound).then_some(self.channel)
    }

    pub(crate) fn bind(&mut self, channel: ChannelId) {
        (self.channel, self.binding) = (channel, Binding::Bound);
    }

    pub(crate) fn bind_direct(&mut self, channel: DirectId) {
        (self.channel, self.binding) = (ChannelId { index: channel.0, generation: 0 }, Binding::Direct);
    }

    pub(crate) fn begin_wiring(&mut self, channel: DirectId) {
        (self.channel, self.binding) = (ChannelId { index: channel.0, generation: 0 }, Binding::Wiring);
    }

    pub(crate) fn end_operation(&mut self) {
        self.phase = SendPhase::Inactive;
    }

    /// Whether it was announced, and the receiver's node has said nothing yet.
    pub(crate) fn awaits_answer(&self) -> bool {
        matches!(self.phase, SendPhase::Waiting | SendPhase::Withdrawing)
    }
}

impl Recv {
    /// Whether its sender is not known yet.
    pub(crate) fn is_unbound(&self) -> bool {
        self.binding == Binding::Unbound
    }

    pub(crate) fn new(is_persistent: bool) -> Self {
        Self {
            channel: NOWHERE,
            binding: Binding::Unbound,
            phase: if is_persistent { RecvPhase::Inactive } else { RecvPhase::Waiting },
            is_persistent,
            is_rendezvous: false,
            is_peer_freed: false,
            arming: Arming::Unarmed,
            owed_credits: 0,
            total: 0,
            arrived: 0,
            stashed: StashQueue::default(),
        }
    }

    /// The sending request, once bound.
    pub(crate) fn peer(&self) -> Option<ChannelId> {
        (self.binding == Binding::Bound).then_some(self.channel)
    }

    pub(crate) fn bind(&mut self, channel: ChannelId) {
        (self.channel, self.binding) = (channel, Binding::Bound);
    }

    pub(crate) fn bind_direct(&mut self, channel: DirectId) {
        (self.channel, self.binding) = (ChannelId { index: channel.0, generation: 0 }, Binding::Direct);
    }
}

/// All requests of a job on a node, by [`ChannelId`].
#[derive(Default)]
pub(crate) struct RequestTable {
    entries: Slab<Request>,
    /// Every id ever given out differs: the generation counts all insertions.
    generation: u32,
    /// How many belong to collectives.
    of_steps: usize,
}

const ANY: i32 = -1;
const NOWHERE: ChannelId = ChannelId { index: 0, generation: 0 };
/// The table grows by at least this many entries, and by a small part of itself, not by doubling: memory is promised per channel.
const GROWTH: usize = 256;
const GROWTH_PART: usize = 32;

impl RequestTable {
    pub(crate) fn insert(&mut self, request: Request) -> ChannelId {
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(GROWTH.max(self.entries.len() / GROWTH_PART));
        }
        self.generation = self.generation.wrapping_add(1);
        self.of_steps += usize::from(request.step().is_some());
        let generation = self.generation;
        let index = self.entries.insert(Request { generation, ..request }) as u32;
        ChannelId { index, generation }
    }

    /// The request at a place of the table.
    pub(crate) fn occupant(&self, index: u32) -> Option<ChannelId> {
        let generation = self.entries.get(index as usize)?.generation;
        Some(ChannelId { index, generation })
    }

    pub(crate) fn find(&self, id: ChannelId) -> Option<&Request> {
        self.entries.get(id.index as usize).filter(|request| request.generation == id.generation)
    }

    pub(crate) fn find_mut(&mut self, id: ChannelId) -> Option<&mut Request> {
        self.entries.get_mut(id.index as usize).filter(|request| request.generation == id.generation)
    }

    pub(crate) fn remove(&mut self, id: ChannelId) -> Option<Request> {
        self.of_steps -= usize::from(self.find(id)?.step().is_some());
        Some(self.entries.remove(id.index as usize))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Those that belong to collectives.
    pub(crate) fn of_steps(&self) -> usize {
        self.of_steps
    }

    /// Those that belong to ranks.
    pub(crate) fn len_of_ranks(&self) -> usize {
        self.entries.len() - self.of_steps
    }

    /// Ids of the requests that satisfy `wanted`. Walks the whole table: for failures, not for messages.
    pub(crate) fn select(&self, wanted: impl Fn(&Request) -> bool) -> Vec<ChannelId> {
        let found = self.entries.iter().filter(|(_, request)| wanted(request));
        found.map(|(index, request)| ChannelId { index: index as u32, generation: request.generation }).collect()
    }
}

impl std::ops::Index<ChannelId> for RequestTable {
    type Output = Request;

    fn index(&self, id: ChannelId) -> &Request {
        self.find(id).expect("the id of a live request")
    }
}

impl std::ops::IndexMut<ChannelId> for RequestTable {
    fn index_mut(&mut self, id: ChannelId) -> &mut Request {
        self.find_mut(id).expect("the id of a live request")
    }
}
