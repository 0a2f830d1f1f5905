//! Channels between two ranks of this node.
//!
//! Once such a channel is bound the engine hands it over: its ends use it by themselves, in memory both have. What is left
//! to the engine is what only it can do: to start ends that were started before they knew, and to tell one end when the
//! other is gone.

use ropeway_proto::{ChannelId, Completion, End, Layout, Slot, Status};

use crate::engine::{CompletionOf, Engine, Token};
use crate::request::{Kind, Recv, RecvPhase, SendPhase};

/// Something to be done with a direct channel: one between two ranks of this node, who from then on use it by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum ChannelWork {
    /// Set one up, then call [`Engine::handle_opened`] before any other input.
    Open { send: ChannelId, recv: ChannelId },
    /// An end was started before its client knew of the channel: start it there.
    Start { channel: DirectId, end: End, operation: Token },
    /// Both ends have started and compute: copy the message.
    Move { channel: DirectId },
    /// An end is gone; tell the other. If a `request` is named, its buffer must be out of use first, and then
    /// [`Engine::handle_closed`] is called.
    Close { channel: DirectId, end: End, request: Option<ChannelId>, why: Status },
}

/// Names a direct channel, as whoever holds it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectId(pub u32);

impl Engine {
    /// The next thing to do with a direct channel.
    pub fn poll_channel_work(&mut self) -> Option<ChannelWork> {
        self.channel_work.pop_front()
    }

    /// Where a request lives: index of its rank among the node's, slot, buffer. `None` if it is gone.
    pub fn place_of(&self, id: ChannelId) -> Option<(u32, Slot, Layout)> {
        self.requests.find(id).map(|request| (request.local_rank, request.slot, request.layout))
    }

    /// A channel was set up for these two, or could not be.
    pub fn handle_opened(&mut self, send: ChannelId, recv: ChannelId, channel: Option<DirectId>) {
        let Some(channel) = channel else { return self.bind_over_link(send, recv) };
        // The receiving end first, so that the message needs no detour.
        for id in [recv, send] {
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
                Kind::Probe => continue,
            };
            if has_started {
                self.channel_work.push_back(ChannelWork::Start { channel, end, operation });
            }
        }
    }

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
        self.channel_work.push_back(ChannelWork::Start { channel, end, operation });
    }

    /// A client asks for a copy. If the channel is gone meanwhile, so is the wish.
    pub(crate) fn move_direct(&mut self, local_rank: u32, slot: Slot) {
        let state = *self.slot_state(local_rank, slot);
        let request = self.request_of(state).map(|id| &self.requests[id]);
        if let Some(channel) = request.and_then(|request| request.direct()) {
            self.channel_work.push_back(ChannelWork::Move { channel });
        }
    }

    pub(crate) fn close_direct(&mut self, id: ChannelId, channel: DirectId) {
        let end = self.end_of(id);
        self.channel_work.push_back(ChannelWork::Close { channel, end, request: Some(id), why: Status::PeerFreed });
    }

    /// The process of this end is gone.
    pub(crate) fn abandon_direct(&mut self, id: ChannelId, why: Status) {
        if let Some(channel) = self.requests[id].direct() {
            let end = self.end_of(id);
            self.channel_work.push_back(ChannelWork::Close { channel, end, request: None, why });
        }
    }

    fn end_of(&self, id: ChannelId) -> End {
        if matches!(self.requests[id].kind, Kind::Send(_)) { End::Send } else { End::Recv }
    }
}
