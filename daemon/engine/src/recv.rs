//! The receiving end: where a payload goes, and what tells the sender that it may come.

use ropeway_proto::limits::EAGER_BYTES_LIMIT;
use ropeway_proto::{ChannelId, Completion, Envelope, Frame, NodeId, Rank, Status};

use crate::engine::{Arrival, Engine, Place, Placement, StashId, StashWork, Token, Transmit};
use crate::error::ProtocolError;
use crate::matching::{Content, Message, Pattern};
use crate::request::{Arming, Kind, Recv, RecvPhase, Request};
use crate::stash::StashState;

const NOTHING: Placement = Placement { place: Place::Discard, arrival: Arrival::Nothing };

impl Recv {
    pub(crate) fn end_operation(&mut self) {
        self.phase = RecvPhase::Inactive;
        self.arming = Arming::Unarmed;
    }
}

// ---- channels

impl Engine {
    pub(crate) fn start_recv(&mut self, id: ChannelId) {
        let mut stashed = std::mem::take(&mut self.recv(id).stashed);
        let oldest = stashed.pop(&mut self.stash);
        let recv = self.recv(id);
        recv.stashed = stashed;
        (recv.phase, recv.total, recv.arrived) = (RecvPhase::Waiting, 0, 0);
        if let Some(stash) = oldest {
            self.return_credit(id);
            self.take_stash(id, stash);
        } else if let Some(failure) = self.unreachable(id) {
            self.complete(id, failure);
        } else if self.recv(id).is_peer_freed {
            self.complete(id, self.peer_freed(id));
        } else {
            self.arm(id);
        }
    }

    /// Tells the sender of a bound rendezvous channel that the receive is started.
    pub(crate) fn arm(&mut self, id: ChannelId) {
        let recv = self.recv(id);
        if recv.is_rendezvous && recv.peer().is_some() {
            recv.arming = Arming::Owed;
            self.make_ready(id);
        }
    }

    fn return_credit(&mut self, id: ChannelId) {
        let half = self.config.channel_credits.div_ceil(2);
        let recv = self.recv(id);
        recv.owed_credits += 1;
        if recv.owed_credits >= half {
            self.make_ready(id);
        }
    }

    /// The next frame of a receive that came to the front of its queue.
    pub(crate) fn emit_recv(&mut self, id: ChannelId) -> Option<Transmit> {
        let half = self.config.channel_credits.div_ceil(2);
        let recv = self.requests[id].recv_mut()?;
        let channel = recv.peer()?;
        let is_arming = recv.arming == Arming::Owed;
        let frame = if is_arming {
            Frame::Armed { channel }
        } else if recv.owed_credits > 0 {
            Frame::Credit { channel, count: u32::from(std::mem::take(&mut recv.owed_credits)) }
        } else {
            return None;
        };
        if recv.owed_credits >= half {
            self.make_ready(id);
        }
        if is_arming {
            self.set_arming(id, Arming::Armed);
        }
        Some(Transmit { frame, payload: None, token: None })
    }

    pub(crate) fn handle_eager(&mut self, from: NodeId, id: ChannelId, bytes: u32) -> Result<Placement, ProtocolError> {
        let bytes = eager_bytes(bytes)?;
        if self.channel(from, id)?.is_none() {
            return Ok(NOTHING);
        }
        let credits = self.config.channel_credits;
        let recv = self.requests[id].recv_mut().ok_or(ProtocolError::ForeignChannel)?;
        if recv.is_rendezvous || recv.peer().is_none() {
            return Err(ProtocolError::ForeignChannel);
        }
        if recv.stashed.len() + recv.owed_credits >= credits {
            return Err(ProtocolError::NoCredit);
        }
        match recv.phase {
            RecvPhase::Waiting => {
                self.return_credit(id);
                Ok(self.place_directly(id, bytes))
            }
            _ => {
                let stash = self.stash_message(bytes);
                let mut stashed = std::mem::take(&mut self.recv(id).stashed);
                stashed.push(&mut self.stash, stash);
                self.recv(id).stashed = stashed;
                Ok(Placement { place: Place::Stash(stash), arrival: Arrival::Stash(stash) })
            }
        }
    }

    /// A piece of a large message, for a started receive that asked for it.
    pub(crate) fn handle_data(
        &mut self,
        from: NodeId,
        id: ChannelId,
        (offset, total, bytes): (u64, u64, u32),
    ) -> Result<Placement, ProtocolError> {
        let bytes = u64::from(bytes);
        if self.channel(from, id)?.is_none() {
            return Ok(NOTHING);
        }
        let recv = self.requests[id].recv_mut().ok_or(ProtocolError::ForeignChannel)?;
        let arrived = recv.arrived;
        let is_asked_for = matches!(recv.arming, Arming::Armed | Arming::Disarming);
        let is_first = recv.phase == RecvPhase::Waiting && offset == 0 && is_asked_for;
        let is_next = recv.phase == RecvPhase::Arriving && offset == arrived && total == recv.total;
        if is_first {
            (recv.phase, recv.total) = (RecvPhase::Arriving, total);
        } else if !is_next {
            return Err(ProtocolError::UnexpectedData { offset, total, arrived });
        }
        let is_last = offset + bytes == total;
        self.set_arming(id, if is_last { Arming::Unarmed } else { Arming::Coming });
        let arrival = Arrival::Message { operation: self.token(id), bytes };
        let layout = self.requests[id].layout;
        let fits = total <= layout.bytes();
        let place = if fits { Place::Buffer { layout, at: offset } } else { Place::Discard };
        Ok(Placement { place, arrival })
    }

    /// A whole message goes straight into the buffer of a started receive.
    fn place_directly(&mut self, id: ChannelId, bytes: u64) -> Placement {
        let layout = self.requests[id].layout;
        let recv = self.recv(id);
        (recv.phase, recv.total, recv.arrived) = (RecvPhase::Arriving, bytes, 0);
        let arrival = Arrival::Message { operation: self.token(id), bytes };
        let fits = bytes <= layout.bytes();
        let place = if fits { Place::Buffer { layout, at: 0 } } else { Place::Discard };
        Placement { place, arrival }
    }

    pub(crate) fn arrived_in_buffer(&mut self, operation: Token, bytes: u64) {
        let Some(request) = self.find_operation(operation) else { return };
        let capacity = request.layout.bytes();
        let Some(recv) = request.recv_mut() else { return };
        recv.arrived += bytes;
        if recv.arrived == recv.total {
            let status = if recv.total <= capacity { Status::Success } else { Status::Truncated };
            let completion = request.received(status);
            self.complete(operation.request, completion);
        }
    }

    pub(crate) fn cancel_recv(&mut self, id: ChannelId) {
        let Request { local_rank, node, .. } = self.requests[id];
        let pattern = self.requests[id].pattern();
        let recv = self.recv(id);
        if recv.phase != RecvPhase::Waiting {
            return;
        }
        if !recv.is_persistent {
            if !self.locals[local_rank as usize].posted.remove(pattern, id) {
                return; // It has accepted an announcement: the data are on their way.
            }
        } else if recv.arming == Arming::Armed {
            // The sender knows whether it has used the start.
            recv.arming = Arming::Disarming;
            let channel = recv.peer().expect("an armed receive is bound");
            return self.push_frame(node, Frame::Disarm { channel });
        } else if recv.arming == Arming::Disarming {
            return;
        }
        self.complete(id, Completion::bare(Status::Cancelled));
    }

    pub(crate) fn handle_disarmed(&mut self, from: NodeId, id: ChannelId) -> Result<(), ProtocolError> {
        if self.channel(from, id)?.is_none() {
            return Ok(());
        }
        let recv = self.requests[id].recv_mut().ok_or(ProtocolError::ForeignChannel)?;
        if recv.arming == Arming::Disarming {
            self.complete(id, Completion::bare(Status::Cancelled));
        }
        Ok(())
    }

    /// Whether a large message that this node has asked for is to come from another: links look out for it.
    pub fn is_large_due(&self, from: NodeId) -> bool {
        self.outgoing[usize::from(from.0)].is_large_due()
    }

    fn set_arming(&mut self, id: ChannelId, arming: Arming) {
        let was_due = std::mem::replace(&mut self.recv(id).arming, arming).is_due();
        if was_due != arming.is_due() {
            self.outgoing[usize::from(self.requests[id].node.0)].count_due(arming.is_due());
        }
    }

    /// A request ends an operation, or itself: it may have asked for what will never come.
    pub(crate) fn expect_no_more(&mut self, id: ChannelId) {
        if self.requests[id].recv_mut().is_some() {
            self.set_arming(id, Arming::Unarmed);
        }
    }

    fn recv(&mut self, id: ChannelId) -> &mut Recv {
        self.requests[id].recv_mut().expect("the caller knows it is a receive")
    }
}

// ---- the stash

impl Engine {
    fn stash_message(&mut self, bytes: u64) -> StashId {
        self.statistics.stashed += 1;
        self.stash.insert(bytes)
    }

    /// Gives a stashed message to a receive: now, or as soon as its payload is complete.
    fn take_stash(&mut self, id: ChannelId, stash: StashId) {
        let (operation, to) = (self.token(id), self.requests[id].layout);
        let stashed = self.stash.find_mut(stash).expect("a queued message is in the stash");
        let bytes = stashed.bytes;
        let state = stashed.state;
        let recv = self.recv(id);
        (recv.phase, recv.total) = (RecvPhase::Copying, bytes);
        if bytes > to.bytes() {
            self.drop_stash(stash);
            let completion = self.requests[id].received(Status::Truncated);
            return self.complete(id, completion);
        }
        match state {
            StashState::Complete => self.stash_work.push_back(StashWork::Copy { stash, to, bytes, operation }),
            StashState::Broken => {
                self.drop_stash(stash);
                let source = u32::from(self.requests[id].node.0);
                self.complete(id, Completion { source, ..Completion::bare(Status::PeerLost) });
            }
            StashState::Arriving { .. } => self.stash.expect_for(stash, operation),
        }
    }

    pub(crate) fn arrived_in_stash(&mut self, stash: StashId) {
        let Some(stashed) = self.stash.find_mut(stash) else { return };
        let bytes = stashed.bytes;
        match std::mem::replace(&mut stashed.state, StashState::Complete) {
            StashState::Arriving { taker: None, is_wanted: false } => self.drop_stash(stash),
            StashState::Arriving { taker: Some(operation), .. } => match self.find_operation(operation) {
                Some(request) => {
                    let to = request.layout;
                    self.stash_work.push_back(StashWork::Copy { stash, to, bytes, operation });
                }
                None => self.drop_stash(stash),
            },
            StashState::Arriving { .. } | StashState::Complete | StashState::Broken => {}
        }
    }

    /// Nobody will ask for this message. A payload still on its way is dropped when it is here.
    pub(crate) fn drop_stash(&mut self, stash: StashId) {
        let Some(stashed) = self.stash.find_mut(stash) else { return };
        if let StashState::Arriving { taker, is_wanted } = &mut stashed.state {
            (*taker, *is_wanted) = (None, false);
        } else {
            self.stash_work.push_back(StashWork::Drop { stash });
        }
    }
}

// ---- one-shot messages

impl Engine {
    pub(crate) fn recv_once(&mut self, id: ChannelId) {
        let request = &mut self.requests[id];
        request.kind = Kind::Recv(Recv::new(false));
        let (local_rank, pattern) = (request.local_rank, request.pattern());
        let local = &mut self.locals[local_rank as usize];
        if let Some(message) = local.unexpected.take(pattern, &mut self.statistics.entries_visited) {
            self.deliver(id, message);
        } else if let Some(failure) = self.unreachable(id) {
            self.complete(id, failure);
        } else {
            self.locals[local_rank as usize].posted.push(pattern, id);
        }
    }

    pub(crate) fn probe(&mut self, id: ChannelId, wait: bool) {
        let request = &self.requests[id];
        let (local_rank, pattern) = (request.local_rank, request.pattern());
        let local = &mut self.locals[local_rank as usize];
        let found = local.unexpected.peek(pattern, &mut self.statistics.entries_visited).map(found);
        match found.or_else(|| self.unreachable(id)) {
            Some(completion) => self.complete(id, completion),
            None if wait => self.locals[local_rank as usize].probes.push((pattern, id)),
            None => self.complete(id, Completion::bare(Status::NotFound)),
        }
    }

    pub(crate) fn handle_message(&mut self, envelope: &Envelope, bytes: u32) -> Result<Placement, ProtocolError> {
        let bytes = eager_bytes(bytes)?;
        let credits = self.config.pair_credits;
        if self.local_of(envelope.dest).is_gone {
            return Ok(NOTHING);
        }
        let pair = self.pair_received.entry((envelope.source, envelope.dest)).or_default();
        if pair.waiting + pair.owed >= credits {
            return Err(ProtocolError::NoCredit);
        }
        pair.waiting += 1;
        if let Some(id) = self.take_posted(envelope) {
            self.return_message_credit(envelope.source, envelope.dest);
            return Ok(self.place_directly(id, bytes));
        }
        let stash = self.stash_message(bytes);
        self.keep(Message { envelope: *envelope, bytes, content: Content::Stashed(stash) });
        Ok(Placement { place: Place::Stash(stash), arrival: Arrival::Stash(stash) })
    }

    pub(crate) fn handle_announce(
        &mut self,
        from: NodeId,
        envelope: Envelope,
        send: ChannelId,
        bytes: u64,
    ) -> Result<(), ProtocolError> {
        if self.local_of(envelope.dest).is_gone {
            return Ok(()); // Its `RankGone` is on the way to the sender.
        }
        if let Some(recv) = self.take_posted(&envelope) {
            self.accept(recv, from, send);
        } else if self.announced[usize::from(from.0)] < self.requests_max_of(from) {
            self.announced[usize::from(from.0)] += 1;
            self.keep(Message { envelope, bytes, content: Content::Announced { send, node: from } });
        } else {
            return Err(ProtocolError::TooManyWaiting);
        }
        Ok(())
    }

    pub(crate) fn handle_withdraw(&mut self, from: NodeId, envelope: Envelope, send: ChannelId) {
        if self.local_of(envelope.dest).unexpected.take_announced(from, send).is_some() {
            self.announced[usize::from(from.0)] -= 1;
            self.push_frame(from, Frame::Withdrawn { send });
        }
    }

    /// The receive that takes a message with this envelope, made definite by it.
    fn take_posted(&mut self, envelope: &Envelope) -> Option<ChannelId> {
        let first = self.config.spec.local_ranks().start;
        let local = &mut self.locals[(envelope.dest - first) as usize];
        let id = local.posted.take(envelope, &mut self.statistics.entries_visited)?;
        self.make_definite(id, envelope);
        Some(id)
    }

    /// A receive has found its message: its wildcards are filled in.
    fn make_definite(&mut self, id: ChannelId, envelope: &Envelope) {
        self.statistics.matches += 1;
        let node = self.config.spec.node_of(envelope.source).expect("envelopes are checked");
        self.requests[id].make_definite(envelope, node);
    }

    fn deliver(&mut self, id: ChannelId, message: Message) {
        self.make_definite(id, &message.envelope);
        match message.content {
            Content::Stashed(stash) => {
                self.return_message_credit(message.envelope.source, message.envelope.dest);
                self.take_stash(id, stash);
            }
            Content::Announced { send, node } => {
                self.announced[usize::from(node.0)] -= 1;
                self.accept(id, node, send);
            }
        }
    }

    /// Asks for the data of an announced message.
    fn accept(&mut self, id: ChannelId, node: NodeId, send: ChannelId) {
        self.set_arming(id, Arming::Armed);
        self.push_frame(node, Frame::Accept { send, recv: id });
    }

    /// Keeps a message nobody has asked for, and shows it to the probes that wait for one like it.
    fn keep(&mut self, message: Message) {
        let local = self.local_of(message.envelope.dest);
        let (satisfied, waiting) =
            std::mem::take(&mut local.probes).into_iter().partition(|(pattern, _)| pattern.accepts(&message.envelope));
        local.probes = waiting;
        local.unexpected.push(message);
        let satisfied: Vec<(Pattern, ChannelId)> = satisfied;
        for (_, id) in satisfied {
            self.complete(id, found(&message));
        }
    }

    /// A message that has used a credit of its pair of ranks is taken.
    fn return_message_credit(&mut self, source: Rank, dest: Rank) {
        let half = self.config.pair_credits.div_ceil(2);
        let pair = self.pair_received.entry((source, dest)).or_default();
        (pair.waiting, pair.owed) = (pair.waiting - 1, pair.owed + 1);
        if pair.owed >= half {
            let count = std::mem::take(&mut pair.owed);
            let node = self.config.spec.node_of(source).expect("envelopes are checked");
            self.push_frame(node, Frame::MessageCredit { source, dest, count });
        }
    }
}

/// The size of a message that was pushed. Only what no node may push is refused: how much it does push is the sender's
/// choice, and a channel's protocol is what its sender said in `Bound`.
fn eager_bytes(payload_bytes: u32) -> Result<u64, ProtocolError> {
    let bytes = u64::from(payload_bytes);
    if bytes > EAGER_BYTES_LIMIT { Err(ProtocolError::TooLarge { bytes }) } else { Ok(bytes) }
}

fn found(message: &Message) -> Completion {
    let Envelope { source, tag, .. } = message.envelope;
    Completion { status: Status::Success, source, tag, bytes: message.bytes }
}
