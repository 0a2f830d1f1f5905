//! One-shot messages from several ranks: receives with and without wildcards, and probes.
//!
//! One receive from anybody is always there while messages are expected, so that the others, which may ask for what never
//! comes, do no harm. They are cancelled in the end.

use std::collections::BTreeMap;

use ropeway_proto::{Command, Completion, Endpoint, Envelope, Epoch, Layout, Rank, Slot, Status, Tag};

use super::{Call, Desk};
use crate::history::{Received, Stream};
use crate::message::{Buffer, UNTOUCHED};
use crate::workload::{InboxPlan, TAGS};

/// Messages to be received.
pub(super) struct Inbox {
    plan: InboxPlan,
    remaining: BTreeMap<Rank, u32>,
    /// Ranks to ask for by name, because a receive from anybody has failed: does it mean them?
    suspects: Vec<Rank>,
    running: BTreeMap<Slot, Running>,
    used: Vec<Buffer>,
}

struct Running {
    epoch: Epoch,
    pattern: (Option<Rank>, Option<Tag>),
    was_cancelled: bool,
    kind: Kind,
}

enum Kind {
    Recv { buffer: Buffer, posted: u64 },
    Probe { waits: bool },
}

impl Inbox {
    pub(super) fn new(plan: InboxPlan) -> Self {
        let remaining = plan.expected.iter().copied().collect();
        Self { plan, remaining, suspects: Vec::new(), running: BTreeMap::new(), used: Vec::new() }
    }

    pub(super) fn waits_for(&self) -> Option<String> {
        let patterns: Vec<_> = self.running.values().map(|running| running.pattern).collect();
        let is_idle = self.is_done() && self.running.is_empty();
        (!is_idle).then(|| format!("inbox {:?}: remaining {:?}, asks for {patterns:?}", self.plan.comm, self.remaining))
    }

    /// Whether nobody has written to a buffer after its receive.
    pub(super) fn is_untouched(&self, memory: &[u8]) -> bool {
        self.used.iter().all(|buffer| buffer.is_untouched_beyond(memory, 0))
    }

    fn is_done(&self) -> bool {
        self.remaining.values().all(|&count| count == 0)
    }

    pub(super) fn step(&mut self, desk: &mut Desk<'_, '_>) {
        if self.is_done() {
            return self.cancel_all(desk);
        }
        if desk.happens(self.plan.probe_percent) {
            self.probe(desk);
        }
        let posted = |running: &&Running| matches!(running.kind, Kind::Recv { .. });
        if self.running.values().filter(posted).count() < self.plan.width {
            self.post(desk);
            desk.pause();
        }
    }

    fn any_pattern(&self, desk: &mut Desk<'_, '_>) -> (Option<Rank>, Option<Tag>) {
        let senders: Vec<_> = self.remaining.keys().copied().collect();
        let source = desk.around.rng.bool().then(|| senders[desk.around.rng.usize(..senders.len())]);
        (source, desk.around.rng.bool().then(|| desk.around.rng.i32(0..TAGS)))
    }

    fn post(&mut self, desk: &mut Desk<'_, '_>) {
        let has_any = self.running.values().any(|running| {
            running.pattern == (None, None) && !running.was_cancelled && matches!(running.kind, Kind::Recv { .. })
        });
        let pattern = match self.suspects.pop() {
            Some(suspect) => (Some(suspect), None),
            None if has_any => self.any_pattern(desk),
            None => (None, None),
        };
        let buffer = desk.allocate(Layout::contiguous(0, self.plan.capacity));
        let (endpoint, layout) = (self.endpoint(pattern), buffer.layout);
        let posted = desk.around.history.start_recv();
        let slot = desk.open_slot();
        let epoch = desk.begin(slot, |epoch| Command::Recv { slot, epoch, endpoint, layout });
        let was_cancelled = desk.happens(self.plan.cancel_percent);
        if was_cancelled {
            desk.call_later(Call::Cancel { slot, epoch });
        }
        self.running.insert(slot, Running { epoch, pattern, was_cancelled, kind: Kind::Recv { buffer, posted } });
    }

    fn probe(&mut self, desk: &mut Desk<'_, '_>) {
        let (pattern, waits) = (self.any_pattern(desk), desk.around.rng.bool());
        let endpoint = self.endpoint(pattern);
        let slot = desk.open_slot();
        let epoch = desk.begin(slot, |epoch| Command::Probe { slot, epoch, endpoint, wait: waits });
        self.running.insert(slot, Running { epoch, pattern, was_cancelled: false, kind: Kind::Probe { waits } });
    }

    fn endpoint(&self, (peer, tag): (Option<Rank>, Option<Tag>)) -> Endpoint {
        Endpoint { comm: self.plan.comm, peer, tag }
    }

    fn cancel_all(&mut self, desk: &mut Desk<'_, '_>) {
        for (&slot, running) in &mut self.running {
            running.was_cancelled = true;
            desk.cancel(slot, running.epoch);
        }
    }

    /// Expects nothing more of ranks that are gone.
    pub(super) fn give_up_on(&mut self, is_gone: &dyn Fn(Rank) -> bool, desk: &mut Desk<'_, '_>) {
        for (_, count) in self.remaining.iter_mut().filter(|(rank, _)| is_gone(**rank)) {
            *count = 0;
        }
        if self.is_done() {
            self.cancel_all(desk);
        }
    }

    pub(super) fn complete(&mut self, slot: Slot, completion: Completion, desk: &mut Desk<'_, '_>) {
        let running = self.running.remove(&slot).expect("one operation a slot");
        desk.close_slot(slot);
        match running.kind {
            Kind::Recv { buffer, posted } => self.received(&buffer, posted, &running, completion, desk),
            Kind::Probe { waits } => self.probed(waits, &running, completion, desk),
        }
        desk.pause();
    }

    fn received(
        &mut self,
        buffer: &Buffer,
        posted: u64,
        running: &Running,
        completion: Completion,
        desk: &mut Desk<'_, '_>,
    ) {
        let Completion { status, source, tag, bytes } = completion;
        let (capacity, memory) = (self.plan.capacity, &mut *desk.around.memory);
        let is_clean = match status {
            Status::Success => buffer.is_untouched_beyond(memory, bytes),
            Status::Cancelled => buffer.is_untouched_beyond(memory, 0),
            _ => buffer.is_untouched_beyond(memory, capacity),
        };
        let content = (status == Status::Success).then(|| buffer.read(memory, bytes));
        buffer.fill(memory, UNTOUCHED);
        self.used.push(*buffer);
        if !is_clean {
            desk.complain("written to where it must not be", buffer);
        }
        if !matches!(status, Status::Success | Status::Truncated) {
            desk.ended(running.pattern.0, None, running.was_cancelled, completion);
            return self.forget_gone(running, completion);
        }
        self.check_match(running, completion, desk);
        if (status == Status::Truncated) != (bytes > capacity) {
            desk.complain(&format!("it does not fit {completion:?}"), buffer);
        }
        let stream = Stream::one_shot(Envelope { comm: self.plan.comm, source, dest: desk.rank, tag });
        desk.around.history.received.push(Received { stream, posted, bytes, content });
        let remaining = self.remaining.entry(source).or_default();
        *remaining = remaining.saturating_sub(1);
    }

    /// A receive has failed. If it was from a certain rank, nothing will come from there any more.
    fn forget_gone(&mut self, running: &Running, completion: Completion) {
        match running.pattern.0 {
            _ if completion.status == Status::Cancelled => {}
            Some(source) => {
                self.remaining.insert(source, 0);
            }
            None => {
                let open = self.remaining.iter().filter(|(_, count)| **count > 0);
                self.suspects = open.map(|(rank, _)| *rank).collect();
            }
        }
    }

    fn probed(&mut self, waits: bool, running: &Running, completion: Completion, desk: &mut Desk<'_, '_>) {
        match completion.status {
            Status::Success => self.check_match(running, completion, desk),
            Status::NotFound if !waits => {}
            _ => {
                desk.ended(running.pattern.0, None, running.was_cancelled, completion);
            }
        }
    }

    fn check_match(&self, running: &Running, completion: Completion, desk: &mut Desk<'_, '_>) {
        let (source, tag) = running.pattern;
        if source.is_some_and(|source| source != completion.source) || tag.is_some_and(|tag| tag != completion.tag) {
            let complaint = format!("rank {}: asked for {:?}, got {completion:?}", desk.rank, running.pattern);
            desk.around.history.complaints.push(complaint);
        }
    }
}
