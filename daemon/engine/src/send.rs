//! The sending end: what releases a message, and the pieces in which it leaves.
//!
//! | protocol | released by | seed 004 §1 |
//! |---|---|---|
//! | `Eager` | a credit of the channel | short-message protocol |
//! | `Rendezvous` | an `Armed` of the receiver's start | long-message protocol, CTS sent ahead |
//! | `Message` | a credit of the pair of ranks | short, matched on arrival |
//! | `Announced` | the receiver's `Accept` | RTS, CTS, data |

use ropeway_proto::{ChannelId, Completion, Envelope, Frame, NodeId, Rank, Status};

use crate::engine::{Engine, Token, Transmit};
use crate::error::ProtocolError;
use crate::request::{Kind, Protocol, Request, Send, SendPhase};

impl Engine {
    pub(crate) fn start_send(&mut self, id: ChannelId) {
        if let Some(failure) = self.unreachable(id) {
            return self.complete(id, failure);
        }
        let send = self.send(id);
        if send.is_peer_freed {
            return self.complete(id, self.peer_freed(id));
        }
        (send.phase, send.emitted, send.transmitted) = (SendPhase::Waiting, 0, 0);
        self.release_if_possible(id);
    }

    pub(crate) fn send_once(&mut self, id: ChannelId) {
        self.requests[id].kind = Kind::Send(Send::new(Protocol::Announced, false, 0));
        let Envelope { source, dest, .. } = self.envelope_of(id);
        let is_small = self.requests[id].layout.bytes() <= self.config.eager_bytes_max;
        if let Some(failure) = self.unreachable(id) {
            return self.complete(id, failure);
        }
        let used = self.pair_used.entry((source, dest)).or_default();
        let (protocol, phase) = if is_small && *used < self.config.pair_credits {
            *used += 1;
            (Protocol::Message, SendPhase::Released)
        } else {
            (Protocol::Announced, SendPhase::Announcing)
        };
        let send = self.send(id);
        (send.protocol, send.phase) = (protocol, phase);
        self.make_ready(id);
    }

    /// Releases a waiting channel message if what it waits for is there.
    pub(crate) fn release_if_possible(&mut self, id: ChannelId) {
        let send = self.send(id);
        if send.phase == SendPhase::Waiting && send.peer().is_some() && send.permits > 0 {
            send.permits -= 1;
            send.phase = SendPhase::Released;
            self.make_ready(id);
        }
    }

    /// The next frame of a send that came to the front of its queue.
    pub(crate) fn emit_send(&mut self, id: ChannelId) -> Option<Transmit> {
        let token = self.token(id);
        let chunk_bytes = self.config.chunk_bytes;
        let Request { layout, .. } = self.requests[id];
        let send = self.send(id);
        if send.phase == SendPhase::Announcing {
            send.phase = SendPhase::Waiting;
            let frame = Frame::Announce { envelope: self.envelope_of(id), send: id, bytes: layout.bytes() };
            return Some(Transmit { frame, payload: None, token: None });
        }
        if send.phase != SendPhase::Released {
            return None;
        }
        let (at, total) = (send.emitted, layout.bytes());
        let (protocol, peer) = (send.protocol, send.peer());
        let is_whole = matches!(protocol, Protocol::Eager | Protocol::Message);
        let bytes = if is_whole { total } else { (total - at).min(chunk_bytes) };
        send.emitted += bytes;
        let payload_bytes = bytes as u32;
        let peer = || peer.expect("a released send knows its peer");
        let frame = match protocol {
            Protocol::Eager => Frame::Eager { channel: peer(), payload_bytes },
            Protocol::Message => Frame::Message { envelope: self.envelope_of(id), payload_bytes },
            Protocol::Rendezvous | Protocol::Announced => {
                Frame::Data { channel: peer(), offset: at, total, payload_bytes }
            }
        };
        if at + bytes < total {
            self.make_ready(id);
        }
        Some(Transmit { frame, payload: (bytes > 0).then_some((layout, at)), token: Some(token) })
    }

    pub(crate) fn transmitted(&mut self, operation: Token, bytes: u64) {
        let Some(request) = self.find_operation(operation) else { return };
        let total = request.layout.bytes();
        let Some(send) = request.send_mut() else { return };
        send.transmitted += bytes;
        if send.transmitted == total {
            self.complete(operation.request, Completion { bytes: total, ..Completion::bare(Status::Success) });
        }
    }

    pub(crate) fn handle_credit(&mut self, from: NodeId, id: ChannelId, count: u32) -> Result<(), ProtocolError> {
        let credits_max = u32::from(self.config.channel_credits);
        let Some(send) = self.addressed_send(from, id)? else { return Ok(()) };
        if send.protocol != Protocol::Eager {
            return Err(ProtocolError::ForeignChannel);
        }
        let credits = u32::from(send.permits).saturating_add(count);
        if credits > credits_max {
            return Err(ProtocolError::NoCredit);
        }
        send.permits = credits as u16;
        self.release_if_possible(id);
        Ok(())
    }

    pub(crate) fn handle_armed(&mut self, from: NodeId, id: ChannelId) -> Result<(), ProtocolError> {
        let Some(send) = self.addressed_send(from, id)? else { return Ok(()) };
        if send.protocol != Protocol::Rendezvous {
            return Err(ProtocolError::ForeignChannel);
        }
        // A receive is started once at a time, so one `Armed` is ahead at most.
        if send.permits > 0 {
            return Err(ProtocolError::NoCredit);
        }
        send.permits = 1;
        self.release_if_possible(id);
        Ok(())
    }

    pub(crate) fn handle_disarm(&mut self, from: NodeId, id: ChannelId) -> Result<(), ProtocolError> {
        let is_queued = self.channel(from, id)?.is_some_and(|request| request.is_queued);
        let Some(send) = self.addressed_send(from, id)? else { return Ok(()) };
        let (Some(channel), Protocol::Rendezvous) = (send.peer(), send.protocol) else {
            return Err(ProtocolError::ForeignChannel);
        };
        if send.phase == SendPhase::Released && is_queued && send.emitted == 0 {
            // Used, but not irrevocably: no frame has left. Should the send be cancelled now, the receiver would wait for ever.
            send.phase = SendPhase::Waiting;
        } else if send.permits > 0 {
            send.permits = 0;
        } else {
            return Ok(());
        }
        self.push_frame(from, Frame::Disarmed { channel });
        Ok(())
    }

    pub(crate) fn handle_accept(&mut self, from: NodeId, id: ChannelId, recv: ChannelId) -> Result<(), ProtocolError> {
        let Some(send) = self.addressed_send(from, id)? else { return Ok(()) };
        if send.protocol != Protocol::Announced || !send.awaits_answer() {
            return Err(ProtocolError::ForeignChannel);
        }
        send.bind(recv);
        send.phase = SendPhase::Released;
        self.make_ready(id);
        Ok(())
    }

    pub(crate) fn handle_withdrawn(&mut self, from: NodeId, id: ChannelId) -> Result<(), ProtocolError> {
        match self.addressed_send(from, id)? {
            Some(send) if send.protocol != Protocol::Announced => return Err(ProtocolError::ForeignChannel),
            Some(send) if send.awaits_answer() => self.complete(id, Completion::bare(Status::Cancelled)),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn handle_message_credit(&mut self, source: Rank, dest: Rank, count: u32) -> Result<(), ProtocolError> {
        let used = self.pair_used.entry((source, dest)).or_default();
        *used = used.checked_sub(count).ok_or(ProtocolError::NoCredit)?;
        Ok(())
    }

    pub(crate) fn cancel_send(&mut self, id: ChannelId) {
        let envelope = self.envelope_of(id);
        let Request { is_queued, node, .. } = self.requests[id];
        let send = self.send(id);
        match (send.protocol, send.phase) {
            // Announced and not answered: the receiver's node knows whether it matched, and is asked once.
            (Protocol::Announced, SendPhase::Waiting) => {
                send.phase = SendPhase::Withdrawing;
                return self.push_frame(node, Frame::Withdraw { envelope, send: id });
            }
            (_, SendPhase::Announcing | SendPhase::Waiting) => {}
            // Released, but no frame has left: the permit goes back.
            (protocol, SendPhase::Released) if is_queued && send.emitted == 0 => match protocol {
                Protocol::Eager | Protocol::Rendezvous => send.permits += 1,
                Protocol::Message => {
                    let used = self.pair_used.entry((envelope.source, envelope.dest)).or_default();
                    *used = used.saturating_sub(1); // A lying peer may have returned it already.
                }
                Protocol::Announced => return,
            },
            (_, SendPhase::Withdrawing | SendPhase::Released | SendPhase::Inactive | SendPhase::Orphaned) => return,
        }
        self.complete(id, Completion::bare(Status::Cancelled));
    }

    fn send(&mut self, id: ChannelId) -> &mut Send {
        self.requests[id].send_mut().expect("the caller knows it is a send")
    }

    fn addressed_send(&mut self, from: NodeId, id: ChannelId) -> Result<Option<&mut Send>, ProtocolError> {
        if self.channel(from, id)?.is_none() {
            return Ok(None);
        }
        self.requests[id].send_mut().map(Some).ok_or(ProtocolError::ForeignChannel)
    }
}
