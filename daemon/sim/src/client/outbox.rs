//! One-shot messages to one inbox, several at a time.

use std::collections::{BTreeMap, VecDeque};

use ropeway_proto::{Command, Completion, Endpoint, Envelope, Layout, Slot, Status, Tag};

use super::{Call, Desk};
use crate::history::Stream;
use crate::message::{self, Buffer, STALE};
use crate::workload::OutboxPlan;

/// Messages to be sent.
pub(super) struct Outbox {
    plan: OutboxPlan,
    waiting: VecDeque<(Tag, u64)>,
    running: BTreeMap<Slot, Running>,
}

struct Running {
    message: (Tag, u64),
    sent: usize,
    buffer: Buffer,
    was_cancelled: bool,
}

impl Outbox {
    pub(super) fn new(plan: OutboxPlan) -> Self {
        let waiting = plan.messages.iter().copied().collect();
        Self { plan, waiting, running: BTreeMap::new() }
    }

    pub(super) fn waits_for(&self) -> Option<String> {
        let is_idle = self.waiting.is_empty() && self.running.is_empty();
        (!is_idle).then(|| format!("outbox {:?} to {}: {} waiting", self.plan.comm, self.plan.peer, self.waiting.len()))
    }

    pub(super) fn step(&mut self, desk: &mut Desk<'_, '_>) {
        if self.running.len() == self.plan.width {
            return; // The next completion goes on.
        }
        let Some((tag, bytes)) = self.waiting.pop_front() else { return };
        let OutboxPlan { peer, comm, cancel_percent, .. } = self.plan;
        let stream = Stream::one_shot(Envelope { comm, source: desk.rank, dest: peer, tag });
        let sent = desk.around.history.start_send(stream, bytes);
        let buffer = desk.allocate(Layout::contiguous(0, bytes));
        buffer.write(desk.around.memory, &message::content(desk.around.history.sent[sent].id, bytes));
        let (endpoint, layout) = (Endpoint { comm, peer: Some(peer), tag: Some(tag) }, buffer.layout);
        let slot = desk.open_slot();
        let epoch = desk.begin(slot, |epoch| Command::Send { slot, epoch, endpoint, layout });
        let was_cancelled = desk.happens(cancel_percent);
        if was_cancelled {
            desk.call_later(Call::Cancel { slot, epoch });
        }
        self.running.insert(slot, Running { message: (tag, bytes), sent, buffer, was_cancelled });
        desk.pause();
    }

    pub(super) fn complete(&mut self, slot: Slot, completion: Completion, desk: &mut Desk<'_, '_>) {
        let Running { message, sent, buffer, was_cancelled } =
            self.running.remove(&slot).expect("one operation a slot");
        desk.close_slot(slot);
        desk.around.history.sent[sent].fate = Some(completion.status);
        buffer.fill(desk.around.memory, STALE);
        if completion.status != Status::Success {
            if desk.ended(Some(self.plan.peer), None, was_cancelled, completion) {
                self.waiting.push_front(message);
            } else {
                self.waiting.clear();
            }
        }
        desk.pause();
    }
}
