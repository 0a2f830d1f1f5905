//! Channels whose ends use them by themselves: between two ranks of this node, or, for small messages, over a wire.
//!
//! Once such a channel is bound the engine hands it over: its ends use it by themselves, in memory both have. What is left
//! to the engine is what only it can do: to start ends that were started before they knew, and to tell one end when the
//! other is gone.

use ropeway_proto::collective::CollectiveMember;
use ropeway_proto::{ChannelId, CommId, Completion, End, Frame, Layout, NodeId, Rank, Slot, Status, limits};

use crate::engine::{CompletionOf, Engine, RankState, Token};
use crate::error::ProtocolError;
use crate::meeting::MeetingId;
use crate::request::{Kind, Protocol, Recv, RecvPhase, SendPhase};

/// Something to be done with what ranks use by themselves from then on: channels within this node, channels over wires, and meetings of
/// collectives. All of it in one order, for what is said of one may be about another.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum LocalWork {
    // ---- channels, within the node or over a wire
    /// Set one up within the node, then call [`Engine::handle_opened`] before any other input.
    Open { send: ChannelId, recv: ChannelId },
    /// An end was started before its client knew of the channel: start it there.
    Start { channel: DirectId, end: End, operation: Token },
    /// Both ends have started and compute: copy the message.
    Move { channel: DirectId },
    /// An end is gone; tell the other. If a `request` is named, its buffer must be out of use first, and then
    /// [`Engine::handle_closed`] is called.
    Close { channel: DirectId, end: End, request: Option<ChannelId>, why: Status },

    // ---- wires, and what only channels over them need
    /// Set a channel up whose other end is on another node, reached over the wire to it; then call [`Engine::handle_wired`] before
    /// any other input.
    OpenWired(Wiring),
    /// The other end of a wired channel calls it `peer_index`: it may be used, and its client told, unless it is orphaned: then its request
    /// is freed, and the slot may be somebody else's.
    Connect { channel: DirectId, peer_index: u16, is_orphaned: bool },
    /// A wired channel that was never used is not needed.
    Discard { channel: DirectId },
    /// The other end of a wired channel is lost without a last word.
    Sever { channel: DirectId, why: Status },
    /// The other side has lost the wire to that node: what it had sent is to be taken, then [`Engine::handle_wire_down`] called.
    DrainWire { node: NodeId },
    /// The other side finds no room on the wire to that node: what has come is to be taken, if nobody does.
    RelieveWire { node: NodeId },
    /// The wire to that node is lost on both sides: so are its channels whose requests are gone.
    EndWire { node: NodeId },

    // ---- meetings
    /// Set up where the members of a collective meet; then call [`Engine::handle_met`] before any other input.
    Meet { comm: CommId, requests: Vec<ChannelId>, members: Vec<CollectiveMember> },
    /// A collective with members on other nodes can't take place, as `member` was to: open it and close it, so that the other
    /// nodes learn that.
    Renounce { comm: CommId, member: CollectiveMember },
    /// A member had started before its client knew of the meeting: it arrives.
    Arrive { meeting: MeetingId, member: u32, operation: Token },
    /// The only member on this node, whose client knows of the meeting, arrives for the next round.
    ArriveAlone { meeting: MeetingId },
    /// All members have arrived and compute: do the work.
    Work { meeting: MeetingId },
    /// A member is gone, as `why` says of whom; tell the others. If a `request` is named, its buffers must be out of use
    /// first, and then [`Engine::handle_closed`] is called.
    Leave { meeting: MeetingId, request: Option<ChannelId>, why: Completion },
}

/// What is known of the wire to a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WireState {
    is_up: bool,
    is_down_here: bool,
    is_down_there: bool,
}

/// One end of a channel between two nodes, to be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wiring {
    /// The request that is the end here.
    pub request: ChannelId,
    /// The one at the other end.
    pub peer: ChannelId,
    /// Which end is here.
    pub end: End,
    /// The other end's node.
    pub node: NodeId,
    /// The other end's rank.
    pub rank: Rank,
    /// Bytes of a message.
    pub bytes: u64,
    /// What the other side calls the channel; `None` when it is told later.
    pub peer_index: Option<u16>,
}

/// Names a direct channel, as whoever holds it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectId(pub u32);

impl Engine {
    /// The next thing to do with a channel, a wire or a meeting.
    pub fn poll_local_work(&mut self) -> Option<LocalWork> {
        self.local_work.pop_front()
    }

    /// Where a request lives: index of its rank among the node's, slot, buffer. `None` if it is gone.
    pub fn place_of(&self, id: ChannelId) -> Option<(u32, Slot, Layout)> {
        self.requests.find(id).map(|request| (request.local_rank, request.slot, request.layout))
    }

    /// A channel was set up for these two, or could not be.
    pub fn handle_opened(&mut self, send: ChannelId, recv: ChannelId, channel: Option<DirectId>) {
        let Some(channel) = channel else { return self.bind_over_link(send, recv) };
        // The receiving end first, so that the message needs no detour.
        self.hand_over(recv, channel);
        self.hand_over(send, channel);
    }

    /// The request is an end of that channel from now on. If it was started already, it is to be started there.
    fn hand_over(&mut self, id: ChannelId, channel: DirectId) {
        let operation = self.token(id);
        let request = &mut self.requests[id];
        let (end, has_started) = match &mut request.kind {
            Kind::Send(send) => {
                send.bind_direct(channel);
                let has_started = send.phase != SendPhase::Inactive;
                send.end_operation();
                (End::Send, has_started)
            }
            Kind::Recv(recv) => {
                recv.bind_direct(channel);
                let has_started = recv.phase != RecvPhase::Inactive;
                recv.end_operation();
                (End::Recv, has_started)
            }
            Kind::Member(_) | Kind::Probe => return,
        };
        if has_started {
            self.local_work.push_back(LocalWork::Start { channel, end, operation });
        }
    }

    // ---- channels between nodes

    /// From now on there is a wire to that node.
    pub fn handle_wire_up(&mut self, node: NodeId) {
        self.wires[usize::from(node.0)].is_up = true;
    }

    /// The wire to that node is lost: nothing is sent any more, and all that has come was taken.
    ///
    /// What is said about its channels now goes over the link. Only when the other side has lost the wire too does it know
    /// nothing more, and has said which of its ranks are gone: then the channels end.
    pub fn handle_wire_down(&mut self, node: NodeId) {
        let wire = &mut self.wires[usize::from(node.0)];
        wire.is_up = false;
        if !std::mem::replace(&mut wire.is_down_here, true) {
            self.push_frame(node, Frame::WireDown);
            self.end_wire_if_lost(node);
        }
    }

    /// The wire to that node has had no room for a while: perhaps nobody reads it there.
    pub fn handle_wire_full(&mut self, node: NodeId) {
        if self.wires[usize::from(node.0)].is_up {
            self.push_frame(node, Frame::WireFull);
        }
    }

    pub(crate) fn handle_wire_full_there(&mut self, node: NodeId) {
        self.local_work.push_back(LocalWork::RelieveWire { node });
    }

    pub(crate) fn handle_wire_down_there(&mut self, node: NodeId) {
        let wire = &mut self.wires[usize::from(node.0)];
        wire.is_up = false;
        wire.is_down_there = true;
        self.local_work.push_back(LocalWork::DrainWire { node });
        self.end_wire_if_lost(node);
    }

    /// Ends the wire's channels if nothing more can be heard of them.
    pub(crate) fn end_wire_if_lost(&mut self, node: NodeId) {
        let wire = self.wires[usize::from(node.0)];
        if wire.is_down_here && (wire.is_down_there || self.why_deserted(node).is_some()) {
            self.end_wire(node);
        }
    }

    /// The other side of the wire is gone, and nothing comes over it to say so.
    pub(crate) fn end_wire(&mut self, node: NodeId) {
        for id in self.requests.select(|request| request.node == node && request.direct().is_some()) {
            let peer = self.requests[id].peer().expect("channels have no wildcards");
            let why = self.why_gone(peer).map_or(Status::PeerLost, |gone| gone.status);
            if let Some(channel) = self.requests[id].direct() {
                self.local_work.push_back(LocalWork::Sever { channel, why });
            }
        }
        self.local_work.push_back(LocalWork::EndWire { node });
    }

    /// Whether the send can go over the wire to its receiver's node.
    pub(crate) fn can_be_wired(&self, send: ChannelId) -> bool {
        let request = &self.requests[send];
        let bytes = request.layout.bytes();
        self.wires[usize::from(request.node.0)].is_up
            && bytes <= limits::WIRE_BYTES_MAX
            && !request.is_freeing
            && request.step().is_none()
    }

    pub(crate) fn open_wired(&mut self, id: ChannelId, peer: ChannelId, bytes: u64, peer_index: Option<u16>) {
        let request = &self.requests[id];
        let (end, node) = (self.end_of(id), request.node);
        let rank = request.peer().expect("channels have no wildcards");
        let wiring = Wiring { request: id, peer, end, node, rank, bytes, peer_index };
        self.local_work.push_back(LocalWork::OpenWired(wiring));
    }

    /// A wired channel was set up under this name, or could not be.
    pub fn handle_wired(&mut self, wiring: &Wiring, channel: Option<(DirectId, u16)>) {
        let Wiring { request: id, peer, node, bytes, .. } = *wiring;
        let wire = channel.map(|(_, index)| index);
        match (wiring.end, channel) {
            (End::Send, None) => self.bind_over_link(id, peer),
            (End::Send, Some((channel, _))) => {
                let send = self.requests[id].send_mut().expect("only sends are bound here");
                send.begin_wiring(channel);
                // The receiver may have no room for its end, and then it is the link's after all.
                let is_rendezvous = send.protocol == Protocol::Rendezvous;
                self.push_frame(node, Frame::Bound { recv: peer, send: id, bytes, is_rendezvous, wire });
            }
            (End::Recv, None) => {
                self.push_frame(node, Frame::Wired { send: peer, recv: id, wire });
                self.bound_over_link(id, peer);
            }
            (End::Recv, Some((channel, _))) => {
                self.push_frame(node, Frame::Wired { send: peer, recv: id, wire });
                self.hand_over(id, channel);
            }
        }
    }

    /// The receiver of a send that waits for it says whether the channel is wired.
    pub(crate) fn handle_wired_frame(
        &mut self,
        from: NodeId,
        id: ChannelId,
        recv: ChannelId,
        wire: Option<u16>,
    ) -> Result<(), ProtocolError> {
        let Some(request) = self.channel(from, id)? else { return Ok(()) };
        let channel = request.wiring().ok_or(ProtocolError::ForeignChannel)?;
        let is_orphaned = matches!(&request.kind, Kind::Send(send) if send.phase == SendPhase::Orphaned);
        if let Some(peer_index) = wire {
            self.local_work.push_back(LocalWork::Connect { channel, peer_index, is_orphaned });
        } else {
            self.local_work.push_back(LocalWork::Discard { channel });
        }
        match (is_orphaned, wire) {
            (true, Some(_)) => {
                let why = self.why_orphaned(id);
                self.local_work.push_back(LocalWork::Close { channel, end: End::Send, request: None, why });
                self.remove_persistent(id);
            }
            (true, None) => {
                self.push_frame(from, Frame::Unbind { channel: recv, cause: None });
                self.remove_persistent(id);
            }
            (false, Some(_)) => self.hand_over(id, channel),
            (false, None) => {
                self.requests[id].send_mut().expect("only sends wait for that").bind(recv);
                self.release_if_possible(id);
            }
        }
        Ok(())
    }

    fn why_orphaned(&self, id: ChannelId) -> Status {
        let local_rank = self.requests[id].local_rank;
        match self.rank_state(self.rank_of(local_rank)) {
            _ if !self.locals[local_rank as usize].is_gone => Status::PeerFreed,
            RankState::Left => Status::RankLeft,
            _ => Status::RankFailed,
        }
    }

    /// A request goes away. If its receiver has yet to say whether their channel is wired, it stays until then: true.
    pub(crate) fn part_from_wiring(&mut self, id: ChannelId) -> bool {
        if self.requests[id].wiring().is_none() {
            return false;
        }
        let is_hopeless = self.unreachable(id).is_some();
        match self.requests[id].send_mut() {
            Some(send) if !send.is_peer_freed && !is_hopeless => send.phase = SendPhase::Orphaned,
            _ => self.discard_orphan(id),
        }
        true
    }

    /// The receiver will not say it any more.
    pub(crate) fn discard_orphan(&mut self, id: ChannelId) {
        if let Some(channel) = self.requests[id].wiring() {
            self.local_work.push_back(LocalWork::Discard { channel });
        }
        self.remove_persistent(id);
    }

    // ---- what clients ask

    /// Nobody uses the buffer of a freed request any more.
    pub fn handle_closed(&mut self, id: ChannelId) {
        if self.requests.find(id).is_some() {
            self.finish_free(id);
        }
    }

    /// An operation was started on its channel: from here its client goes on by itself. In line with what else has ended
    /// on the slot, which must not be overtaken.
    pub fn handle_started(&mut self, operation: Token) {
        let Some(request) = self.requests.find(operation.request) else { return };
        let (local_rank, slot, epoch) = (request.local_rank, request.slot, operation.epoch);
        let completion = Completion::bare(Status::GoesDirect);
        self.completions.push_back(CompletionOf { local_rank, slot, epoch, completion });
    }

    /// Both ends live here, can hold each other's messages, and are not on their way out.
    pub(crate) fn can_be_direct(&self, send: ChannelId, recv: ChannelId) -> bool {
        if !self.config.has_direct_channels || self.requests[send].node != self.config.spec.node {
            return false;
        }
        let Some(receiver) = self.requests.find(recv) else { return false };
        let is_waiting = |recv: &Recv| recv.is_persistent && recv.peer().is_none() && recv.phase != RecvPhase::Orphaned;
        let is_ready = matches!(&receiver.kind, Kind::Recv(recv) if is_waiting(recv));
        let sender = &self.requests[send];
        is_ready && sender.layout.bytes() <= receiver.layout.bytes() && !sender.is_freeing && !receiver.is_freeing
    }

    pub(crate) fn start_direct(&mut self, id: ChannelId, channel: DirectId) {
        let (end, operation) = (self.end_of(id), self.token(id));
        self.local_work.push_back(LocalWork::Start { channel, end, operation });
    }

    /// A client asks for a copy. If the channel is gone meanwhile, so is the wish.
    pub(crate) fn move_direct(&mut self, local_rank: u32, slot: Slot) {
        let state = *self.slot_state(local_rank, slot);
        let Some(id) = self.request_of(state) else { return };
        match self.requests[id].direct() {
            Some(channel) => self.local_work.push_back(LocalWork::Move { channel }),
            None => self.work_member(id),
        }
    }

    pub(crate) fn close_direct(&mut self, id: ChannelId, channel: DirectId) {
        let end = self.end_of(id);
        self.local_work.push_back(LocalWork::Close { channel, end, request: Some(id), why: Status::PeerFreed });
    }

    /// The process of this end is gone.
    pub(crate) fn abandon_direct(&mut self, id: ChannelId, why: Status) {
        if let Some(channel) = self.requests[id].direct() {
            let end = self.end_of(id);
            self.local_work.push_back(LocalWork::Close { channel, end, request: None, why });
        }
    }

    fn end_of(&self, id: ChannelId) -> End {
        if matches!(self.requests[id].kind, Kind::Send(_)) { End::Send } else { End::Recv }
    }
}
