//! Life and end of a request: what all kinds of them have in common.

use ropeway_proto::{ChannelId, Completion, Epoch, Frame, Slot, Status};

use crate::engine::{CompletionOf, Engine};
use crate::error::Violation;
use crate::request::{Kind, Protocol, Recv, Request, Send, SendPhase};

impl Engine {
    pub(crate) fn init_send(&mut self, id: ChannelId) {
        self.register_send(id);
        self.acknowledge_init(id);
    }

    pub(crate) fn init_recv(&mut self, id: ChannelId) {
        self.register_recv(id);
        self.acknowledge_init(id);
    }

    pub(crate) fn register_send(&mut self, id: ChannelId) {
        let is_eager = self.requests[id].layout.bytes() <= self.config.eager_bytes_max;
        let (protocol, permits) =
            if is_eager { (Protocol::Eager, self.config.channel_credits) } else { (Protocol::Rendezvous, 0) };
        self.requests[id].kind = Kind::Send(Send::new(protocol, true, permits));
        self.admit(id);
        self.bind_send(id);
    }

    pub(crate) fn register_recv(&mut self, id: ChannelId) {
        self.requests[id].kind = Kind::Recv(Recv::new(true));
        self.admit(id);
        let (envelope, capacity) = (self.envelope_of(id), self.requests[id].layout.bytes());
        self.push_frame(self.requests[id].node, Frame::Bind { envelope, recv: id, capacity });
    }

    pub(crate) fn acknowledge_init(&mut self, id: ChannelId) {
        let Request { local_rank, slot, epoch, .. } = self.requests[id];
        self.completions.push_back(CompletionOf {
            local_rank,
            slot,
            epoch,
            completion: Completion::bare(Status::Success),
        });
    }

    pub(crate) fn free(&mut self, local_rank: u32, slot: Slot, epoch: Epoch) -> Result<(), Violation> {
        let id = self.advance(local_rank, slot, epoch)?.ok_or(Violation::NoRequest { slot })?;
        let request = &mut self.requests[id];
        if request.is_freeing || !request.is_persistent() {
            return Err(Violation::WrongState { slot });
        }
        request.is_freeing = true;
        if let Some(channel) = request.direct() {
            self.close_direct(id, channel);
        } else if !(matches!(request.kind, Kind::Member(_)) && self.leave_meeting(id)) {
            self.finish_or_cancel(id);
        }
        Ok(())
    }

    /// A request that is being freed: its operation ends, if one runs.
    fn finish_or_cancel(&mut self, id: ChannelId) {
        if self.requests[id].is_active() { self.cancel(id) } else { self.finish_free(id) }
    }

    pub(crate) fn finish_free(&mut self, id: ChannelId) {
        let Request { local_rank, slot, .. } = self.requests[id];
        if self.requests[id].step().is_some() {
            return self.unbind(id);
        }
        let completion = Completion::bare(Status::Freed);
        // Nothing has begun on the slot since.
        let epoch = self.close_slot(local_rank, slot);
        self.completions.push_back(CompletionOf { local_rank, slot, epoch, completion });
        self.unbind(id);
    }

    /// Withdraws an operation, if that is still possible. If not, it will complete by itself.
    pub(crate) fn cancel(&mut self, id: ChannelId) {
        match self.requests[id].kind {
            Kind::Send(_) => self.cancel_send(id),
            Kind::Recv(_) => self.cancel_recv(id),
            Kind::Member(ref member) if member.is_active => self.complete(id, Completion::bare(Status::Cancelled)),
            // It has come to its meeting, and goes on there.
            Kind::Member(_) => {}
            Kind::Probe => {
                let local_rank = self.requests[id].local_rank as usize;
                self.locals[local_rank].probes.retain(|&(_, other)| other != id);
                self.complete(id, Completion::bare(Status::Cancelled));
            }
        }
    }

    /// Ends the running operation: tells the client or the executor, and lets go of what does not outlive it.
    pub(crate) fn complete(&mut self, id: ChannelId, completion: Completion) {
        self.expect_no_more(id);
        let request = &mut self.requests[id];
        let Request { local_rank, slot, epoch, is_freeing, .. } = *request;
        match request.step() {
            Some(step) => self.collectives.ended.push_back((step, completion)),
            None => self.completions.push_back(CompletionOf { local_rank, slot, epoch, completion }),
        }
        match &mut request.kind {
            Kind::Send(send) => send.phase = SendPhase::Inactive,
            Kind::Recv(recv) => recv.end_operation(),
            Kind::Member(member) => member.is_active = false,
            Kind::Probe => {}
        }
        if is_freeing {
            self.finish_free(id);
        } else if !request.is_persistent() {
            self.requests.remove(id);
            self.close_slot(local_rank, slot);
        }
    }
}
