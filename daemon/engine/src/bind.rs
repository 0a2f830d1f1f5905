//! Persistent sends and receives are matched once, at init, in order of init, on the sender's node.
//!
//! A receive announces itself there with `Bind`; the k-th `Bind` of an envelope belongs to the k-th send of that
//! envelope. Frames of one link stay in order and so do the commands of one rank, so counting is not needed: a queue per
//! envelope is, and only while one side is ahead of the other.

use std::collections::{HashMap, VecDeque};

use ropeway_proto::{Cause, ChannelId, Envelope, Frame, NodeId};

use crate::collective::NodeCollective;
use crate::direct::LocalWork;
use crate::engine::Engine;
use crate::error::ProtocolError;
use crate::request::{Kind, Protocol, RecvPhase, Request, SendPhase};

/// Sends and receives that wait for their other end.
#[derive(Default)]
pub(crate) struct Bindings {
    waiting: HashMap<Envelope, Waiting>,
    /// How many receives of each node wait, of ranks and of steps of collectives.
    recvs: HashMap<(NodeId, bool), usize>,
    /// Freed sends that still keep their place.
    freed: usize,
}

/// Never both: whoever comes second binds at once.
enum Waiting {
    Sends(QueuedSends),
    Recvs(VecDeque<(NodeId, ChannelId)>),
}

/// A freed send keeps its place, so that the ones behind it still meet the right receives. Nothing but its name is left of it.
#[derive(Default)]
struct QueuedSends {
    queue: VecDeque<ChannelId>,
    /// How many of them are freed.
    freed: usize,
}

/// Steps of collectives are no requests of ranks, and one has as many with a node as it has segments, up to 4096. Of such so many may wait for
/// others to register them: 512 for each rank.
const STEPS_PER_REQUEST: usize = 16;

impl Bindings {
    /// Counts a receive that waits, or waits no longer.
    fn count_recv(&mut self, node: NodeId, envelope: &Envelope, waits: bool) {
        let count = self.recvs.entry((node, envelope.comm.is_reserved())).or_default();
        *count = if waits { *count + 1 } else { *count - 1 };
    }

    fn tidy(&mut self, envelope: Envelope) {
        let is_empty = match &self.waiting[&envelope] {
            Waiting::Sends(sends) => sends.queue.is_empty(),
            Waiting::Recvs(recvs) => recvs.is_empty(),
        };
        if is_empty {
            self.waiting.remove(&envelope);
        }
        // A burst of inits must not keep its memory for the life of the job.
        if self.waiting.capacity() > 4 * self.waiting.len() + 64 {
            self.waiting.shrink_to(2 * self.waiting.len());
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Freed sends that still keep their place.
    pub(crate) fn freed(&self) -> usize {
        self.freed
    }

    /// Receives that wait for a send of such an envelope, and their nodes, always in the same order.
    pub(crate) fn waiting_recvs(&self, is_wanted: impl Fn(&Envelope) -> bool) -> Vec<(NodeId, ChannelId)> {
        let wanted = self.waiting.iter().filter(|(envelope, _)| is_wanted(envelope));
        let mut recvs: Vec<_> = wanted
            .flat_map(|(_, waiting)| match waiting {
                Waiting::Recvs(recvs) => recvs.iter().copied().collect(),
                Waiting::Sends(_) => Vec::new(),
            })
            .collect();
        recvs.sort_unstable();
        recvs
    }

    /// Forgets everything of and for a rank that is gone.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&Envelope) -> bool) {
        let gone: Vec<_> = self.waiting.extract_if(|envelope, _| is_gone(envelope)).collect();
        for (envelope, waiting) in gone {
            match waiting {
                Waiting::Sends(sends) => self.freed -= sends.freed,
                Waiting::Recvs(recvs) => recvs.iter().for_each(|&(node, _)| self.count_recv(node, &envelope, false)),
            }
        }
    }
}

impl Engine {
    /// Whether so many steps more are surely no more than another node keeps for this one before it takes us for a liar and cuts the link. It
    /// counts only those that wait for us; here all count.
    pub fn has_room_for_steps(&self, more: usize) -> bool {
        self.requests.of_steps() + more <= STEPS_PER_REQUEST * self.requests_max()
    }

    pub(crate) fn bind_send(&mut self, id: ChannelId) {
        let envelope = self.envelope_of(id);
        if self.unreachable(id).is_some() && !self.bindings.waiting.contains_key(&envelope) {
            return; // Nobody will ever ask for it.
        }
        let waiting = self.bindings.waiting.entry(envelope).or_insert_with(|| Waiting::Sends(QueuedSends::default()));
        match waiting {
            Waiting::Sends(sends) => {
                sends.queue.push_back(id);
                self.requests[id].send_mut().expect("only sends are bound here").is_queued = true;
            }
            Waiting::Recvs(recvs) => {
                let (node, recv) = recvs.pop_front().expect("empty queues are removed");
                self.bindings.count_recv(node, &envelope, false);
                self.bindings.tidy(envelope);
                self.bind(id, recv);
            }
        }
    }

    pub(crate) fn handle_bind(
        &mut self,
        from: NodeId,
        envelope: Envelope,
        recv: ChannelId,
    ) -> Result<(), ProtocolError> {
        let is_step = envelope.comm.is_reserved();
        if is_step {
            if self.why_deserted(self.config.spec.node).is_some() {
                self.push_frame(from, Frame::Unbind { channel: recv, cause: None });
                return Ok(());
            }
            if NodeCollective::number_of(&envelope).is_some_and(|number| self.refuse_if_void(from, number, recv)) {
                return Ok(());
            }
        } else if self.local_of(envelope.source).is_gone {
            return Ok(()); // Its `RankGone` is on the way to the receiver.
        }
        let waiting_max = self.requests_max_of(from) * if is_step { STEPS_PER_REQUEST } else { 1 };
        let waiting = self.bindings.waiting.entry(envelope).or_insert_with(|| Waiting::Recvs(VecDeque::new()));
        match waiting {
            Waiting::Recvs(recvs) => {
                if self.bindings.recvs.get(&(from, is_step)).is_some_and(|&count| count >= waiting_max) {
                    self.bindings.tidy(envelope);
                    return Err(ProtocolError::TooManyWaiting);
                }
                recvs.push_back((from, recv));
                self.bindings.count_recv(from, &envelope, true);
            }
            Waiting::Sends(sends) => {
                let id = sends.queue.pop_front().expect("empty queues are removed");
                let send = self.requests.find_mut(id).and_then(Request::send_mut);
                if let Some(send) = send {
                    send.is_queued = false;
                    self.bindings.tidy(envelope);
                    self.bind(id, recv);
                } else {
                    sends.freed -= 1;
                    self.bindings.freed -= 1;
                    self.bindings.tidy(envelope);
                    self.push_frame(from, Frame::Unbind { channel: recv, cause: None });
                }
            }
        }
        Ok(())
    }

    fn bind(&mut self, id: ChannelId, recv: ChannelId) {
        self.statistics.matches += 1;
        if self.can_be_direct(id, recv) {
            return self.local_work.push_back(LocalWork::Open { send: id, recv });
        }
        if self.can_be_wired(id) {
            return self.open_wired(id, recv, self.requests[id].layout.bytes(), None);
        }
        self.bind_over_link(id, recv);
    }

    /// Binds a send to a receive of another node, or of this one when a direct channel is not to be had.
    pub(crate) fn bind_over_link(&mut self, id: ChannelId, recv: ChannelId) {
        let request = &mut self.requests[id];
        let (node, bytes) = (request.node, request.layout.bytes());
        let send = request.send_mut().expect("only sends are bound here");
        send.bind(recv);
        let (is_rendezvous, is_waiting) = (send.protocol == Protocol::Rendezvous, send.phase == SendPhase::Waiting);
        self.push_frame(node, Frame::Bound { recv, send: id, bytes, is_rendezvous, wire: None });
        if is_waiting {
            self.release_if_possible(id);
        }
    }

    pub(crate) fn handle_bound(
        &mut self,
        from: NodeId,
        id: ChannelId,
        peer: ChannelId,
        (bytes, is_rendezvous, wire): (u64, bool, Option<u16>),
    ) -> Result<(), ProtocolError> {
        if self.channel(from, id)?.is_none() {
            return Ok(());
        }
        let is_step = self.requests[id].step().is_some();
        let recv = self.requests[id].recv_mut().ok_or(ProtocolError::ForeignChannel)?;
        if !recv.is_unbound() || !recv.is_persistent {
            return Err(ProtocolError::ForeignChannel);
        }
        if wire.is_some() && is_step {
            return Err(ProtocolError::ForeignChannel);
        }
        recv.is_rendezvous = is_rendezvous;
        if wire.is_some() && recv.phase != RecvPhase::Orphaned {
            self.open_wired(id, peer, bytes, wire);
        } else {
            self.bound_over_link(id, peer);
        }
        Ok(())
    }

    /// A receive is bound to a send of another node, over the link.
    pub(crate) fn bound_over_link(&mut self, id: ChannelId, peer: ChannelId) {
        let node = self.requests[id].node;
        let recv = self.requests[id].recv_mut().expect("only receives are bound here");
        recv.bind(peer);
        match recv.phase {
            RecvPhase::Orphaned => {
                self.push_frame(node, Frame::Unbind { channel: peer, cause: None });
                self.remove_persistent(id);
            }
            RecvPhase::Waiting => self.arm(id),
            _ => {}
        }
    }

    /// The request is freed: takes it apart and tells the other end.
    pub(crate) fn unbind(&mut self, id: ChannelId) {
        if self.requests[id].direct().is_some() {
            return self.remove_persistent(id); // Whoever holds the channel has told the other end.
        }
        if self.part_from_wiring(id) {
            return;
        }
        let node = self.requests[id].node;
        let is_bind_answered = self.is_bind_answered(id);
        let cause = self.why_parting(id);
        match &mut self.requests[id].kind {
            Kind::Send(send) => match send.peer() {
                Some(channel) if !send.is_peer_freed => self.push_frame(node, Frame::Unbind { channel, cause }),
                None if send.is_queued => self.leave_place(id),
                _ => {}
            },
            Kind::Recv(recv) => {
                let mut stashed = std::mem::take(&mut recv.stashed);
                let (peer, is_peer_freed) = (recv.peer(), recv.is_peer_freed);
                while let Some(stash) = stashed.pop(&mut self.stash) {
                    self.drop_stash(stash);
                }
                match peer {
                    Some(channel) if !is_peer_freed => self.push_frame(node, Frame::Unbind { channel, cause }),
                    None if !is_peer_freed && is_bind_answered => {
                        // The sender may be on its way to us: stay, to tell it.
                        self.requests[id].recv_mut().expect("it is a receive").phase = RecvPhase::Orphaned;
                        return;
                    }
                    _ => {}
                }
            }
            Kind::Member(_) | Kind::Probe => {}
        }
        self.remove_persistent(id);
    }

    /// A send is freed that stands in the queue of those that wait for a receive.
    fn leave_place(&mut self, id: ChannelId) {
        let envelope = self.envelope_of(id);
        if let Some(Waiting::Sends(sends)) = self.bindings.waiting.get_mut(&envelope) {
            sends.freed += 1;
            self.bindings.freed += 1;
        }
    }

    pub(crate) fn remove_persistent(&mut self, id: ChannelId) {
        if let Some(request) = self.requests.remove(id) {
            self.outgoing[usize::from(request.node.0)].turns_of(&request.kind).dismiss();
        }
    }

    pub(crate) fn handle_unbind(
        &mut self,
        from: NodeId,
        id: ChannelId,
        cause: Option<Cause>,
    ) -> Result<(), ProtocolError> {
        match self.channel(from, id)? {
            None => return Ok(()),
            Some(request) if !request.is_persistent() => return Err(ProtocolError::ForeignChannel),
            Some(_) => {}
        }
        if let Some(cause) = cause {
            self.note_cause(id, cause)?;
        }
        let has_ended = match &mut self.requests[id].kind {
            Kind::Send(send) => {
                send.is_peer_freed = true;
                if send.phase == SendPhase::Orphaned {
                    self.discard_orphan(id);
                    return Ok(());
                }
                send.phase == SendPhase::Waiting
            }
            Kind::Recv(recv) => {
                recv.is_peer_freed = true;
                if recv.phase == RecvPhase::Orphaned {
                    self.remove_persistent(id);
                    return Ok(());
                }
                recv.phase == RecvPhase::Waiting
            }
            Kind::Member(_) | Kind::Probe => return Err(ProtocolError::ForeignChannel),
        };
        if has_ended {
            self.complete(id, self.peer_freed(id));
        }
        Ok(())
    }

    /// Looks a channel up that a frame addresses: `None` if it is gone, an error if it was never the sender's to address.
    pub(crate) fn channel(&self, from: NodeId, id: ChannelId) -> Result<Option<&Request>, ProtocolError> {
        match self.requests.find(id) {
            Some(request) if request.node != from => Err(ProtocolError::ForeignChannel),
            found => Ok(found),
        }
    }
}
