//! One end of a persistent channel.

use ropeway_proto::{Command, Completion, Endpoint, Envelope, Epoch, Layout, Slot, Status};

use super::{Call, Desk, Surroundings};
use crate::history::{Received, Stream};
use crate::message::{self, Buffer, STALE, UNTOUCHED};
use crate::workload::ChannelPlan;

/// A channel's end and what it is doing.
pub(super) struct Channel {
    plan: ChannelPlan,
    buffer: Buffer,
    rounds: u32,
    messages: u32,
    state: State,
    stream: Option<Stream>,
    was_cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Has no request.
    None,
    /// Its request is inactive.
    Inactive { slot: Slot },
    /// Its request is active: with which message, or as which receive.
    Active { slot: Slot, epoch: Epoch, number: u64 },
    /// Its request is active and will be freed then.
    Leaving { slot: Slot, epoch: Epoch, number: u64 },
    /// It is done.
    Done,
}

impl Channel {
    pub(super) fn new(plan: ChannelPlan, around: &mut Surroundings<'_>) -> Self {
        let blocks = u64::from(plan.blocks);
        let shape = if plan.bytes.is_multiple_of(blocks) {
            let block_bytes = plan.bytes / blocks;
            Layout { offset: 0, block_bytes, stride_bytes: block_bytes + around.rng.u64(..9), blocks: plan.blocks }
        } else {
            Layout::contiguous(0, plan.bytes)
        };
        let buffer = Buffer::allocate(around.memory, shape);
        Self { plan, buffer, rounds: 0, messages: 0, state: State::None, stream: None, was_cancelled: false }
    }

    pub(super) fn waits_for(&self) -> Option<String> {
        let Self { state, messages, rounds, stream, .. } = self;
        (*state != State::Done)
            .then(|| format!("channel {:?} {stream:?} round {rounds} message {messages}: {state:?}", self.plan))
    }

    pub(super) fn step(&mut self, desk: &mut Desk<'_, '_>) {
        match self.state {
            State::None => self.init(desk),
            State::Inactive { slot } if self.messages == self.plan.messages => self.free(slot, desk),
            State::Inactive { slot } => {
                if desk.happens(self.plan.give_up_percent) {
                    self.note_given_up(desk);
                    self.free(slot, desk);
                } else {
                    self.start(slot, desk);
                }
            }
            State::Active { .. } | State::Leaving { .. } | State::Done => {}
        }
    }

    /// Whether nobody has written to a receive buffer after its last receive.
    pub(super) fn is_untouched(&self, memory: &[u8]) -> bool {
        self.plan.is_send || self.buffer.is_untouched_beyond(memory, 0)
    }

    fn init(&mut self, desk: &mut Desk<'_, '_>) {
        let ChannelPlan { is_send, peer, comm, tag, .. } = self.plan;
        let (source, dest) = if is_send { (desk.rank, peer) } else { (peer, desk.rank) };
        self.stream = Some(desk.around.history.next_channel(Envelope { comm, source, dest, tag }, is_send));
        let (endpoint, layout) = (Endpoint { comm, peer: Some(peer), tag: Some(tag) }, self.buffer.layout);
        let slot = desk.open_slot();
        desk.begin(slot, |epoch| match is_send {
            true => Command::InitSend { slot, epoch, endpoint, layout },
            false => Command::InitRecv { slot, epoch, endpoint, layout },
        });
        (self.messages, self.state) = (0, State::Inactive { slot });
        // It does not wait for the end of its init: the ring keeps the order.
        desk.pause();
    }

    fn start(&mut self, slot: Slot, desk: &mut Desk<'_, '_>) {
        let stream = self.stream.expect("it was initialised");
        let number = if self.plan.is_send {
            let index = desk.around.history.start_send(stream, self.plan.bytes);
            let id = desk.around.history.sent[index].id;
            self.buffer.write(desk.around.memory, &message::content(id, self.plan.bytes));
            index as u64
        } else {
            if !self.buffer.is_untouched_beyond(desk.around.memory, 0) {
                desk.complain("written to while no receive was active", &self.buffer);
            }
            desk.around.history.start_recv()
        };
        let epoch = desk.begin(slot, |epoch| Command::Start { slot, epoch });
        (self.state, self.was_cancelled) = (State::Active { slot, epoch, number }, false);
        if desk.happens(self.plan.cancel_percent) {
            self.was_cancelled = true;
            desk.call_later(Call::Cancel { slot, epoch });
        }
        if desk.happens(self.plan.give_up_percent) {
            let task = desk.task;
            desk.call_later(Call::Free { task, slot, epoch });
        }
    }

    /// Frees the request in the middle of its operation.
    pub(super) fn give_up(&mut self, desk: &mut Desk<'_, '_>) {
        let State::Active { slot, epoch, number } = self.state else { return };
        self.was_cancelled = true;
        self.note_given_up(desk);
        desk.begin(slot, |epoch| Command::Free { slot, epoch });
        self.state = State::Leaving { slot, epoch, number };
    }

    fn note_given_up(&self, desk: &mut Desk<'_, '_>) {
        desk.around.history.given_up.insert(self.stream.expect("it was initialised"));
    }

    /// Frees the inactive request. Slot and buffer may be used again at once.
    fn free(&mut self, slot: Slot, desk: &mut Desk<'_, '_>) {
        desk.begin(slot, |epoch| Command::Free { slot, epoch });
        desk.close_slot(slot);
        self.next_round(desk);
    }

    fn next_round(&mut self, desk: &mut Desk<'_, '_>) {
        if self.plan.is_send {
            self.buffer.fill(desk.around.memory, STALE);
        } else if !self.buffer.is_untouched_beyond(desk.around.memory, 0) {
            desk.complain("written to after its last receive", &self.buffer);
        }
        self.rounds += 1;
        self.state = if self.rounds == self.plan.rounds { State::Done } else { State::None };
        if self.state != State::Done {
            desk.pause();
        }
    }

    pub(super) fn complete(&mut self, at: (Slot, Epoch), completion: Completion, desk: &mut Desk<'_, '_>) {
        match self.state {
            State::Active { slot, epoch, number } if (slot, epoch) == at => {
                self.state = State::Inactive { slot };
                let goes_on = self.account(number, completion, desk);
                if goes_on {
                    desk.pause();
                } else {
                    // Nothing will match here any more, or not in this life.
                    if completion.status != Status::PeerFreed {
                        self.rounds = self.plan.rounds - 1;
                    }
                    self.free(slot, desk);
                }
            }
            State::Leaving { slot, epoch, number } if (slot, epoch) == at => {
                self.account(number, completion, desk);
            }
            State::Leaving { slot, epoch, .. } if (slot, epoch.wrapping_add(1)) == at => {
                desk.close_slot(slot);
                self.next_round(desk);
            }
            // An init, or the free of an earlier round.
            _ if [Status::Success, Status::Freed].contains(&completion.status) => {}
            _ => desk.complain(&format!("unexpected {completion:?}"), &self.buffer),
        }
    }

    /// Looks at what an operation has left; says whether the channel can be used further.
    fn account(&mut self, number: u64, completion: Completion, desk: &mut Desk<'_, '_>) -> bool {
        let is_message = matches!(completion.status, Status::Success | Status::Truncated);
        if self.plan.is_send {
            desk.around.history.sent[number as usize].fate = Some(completion.status);
            self.buffer.fill(desk.around.memory, STALE);
        } else {
            self.receive(number, completion, is_message, desk);
            self.buffer.fill(desk.around.memory, UNTOUCHED);
        }
        self.messages += u32::from(is_message);
        is_message || desk.ended(Some(self.plan.peer), self.stream, self.was_cancelled, completion)
    }

    fn receive(&mut self, posted: u64, completion: Completion, is_message: bool, desk: &mut Desk<'_, '_>) {
        let Completion { status, source, tag, bytes } = completion;
        let written = if status == Status::Success { bytes } else { self.plan.bytes };
        let is_untouched = matches!(status, Status::Cancelled | Status::PeerFreed);
        if !self.buffer.is_untouched_beyond(desk.around.memory, if is_untouched { 0 } else { written }) {
            desk.complain("written to where it must not be", &self.buffer);
        }
        if is_message {
            if (status == Status::Truncated) != (bytes > self.plan.bytes)
                || (source, tag) != (self.plan.peer, self.plan.tag)
            {
                desk.complain(&format!("it does not fit {completion:?}"), &self.buffer);
            }
            let content = (status == Status::Success).then(|| self.buffer.read(desk.around.memory, bytes));
            let stream = self.stream.expect("it was initialised");
            desk.around.history.received.push(Received { stream, posted, bytes, content });
        }
    }
}
