//! Receives that are begun before they are waited for, and need no daemon: each is kept here until its message has come.
//!
//! They come before all later receives from their sender. So whoever looks for a message of his own serves them first, and before
//! the daemon gets a receive it gets those that were begun earlier.

use ropeway_proto::{Command, Completion, Endpoint, Epoch, Layout, Slot};
use ropeway_shm::post::{PostEnvelope, PostMemory};

use super::inbox::{Inbox, Inlet, found};
use super::{IS_NEIGHBOUR, Neighbours};

/// A receive into lent memory.
pub(crate) struct Kept {
    /// Of its operation, should the daemon get it.
    pub(crate) slot: Slot,
    pub(crate) epoch: Epoch,
    pub(crate) endpoint: Endpoint,
    pub(crate) layout: Layout,
}

/// Where it is.
#[derive(Clone, Copy)]
pub(crate) enum Stage {
    /// Here, and this is the number of the next message to come.
    Waiting(u64),
    /// Over.
    Ended(Completion),
    /// With the daemon.
    Entrusted,
}

/// A kept receive, until its operation knows what has become of it.
pub(super) struct Entry {
    kept: Kept,
    stage: Stage,
}

impl Entry {
    pub(super) fn new(kept: Kept, next: u64) -> Self {
        Self { kept, stage: Stage::Waiting(next) }
    }

    fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    fn wants(&self, envelope: &PostEnvelope) -> bool {
        self.is_waiting() && envelope.suits(&self.kept.endpoint)
    }
}

impl Inbox {
    /// Gives kept receives what has come for them, in the order of both. The number of the next message to come.
    pub(super) fn serve(&mut self, source: u32) -> u64 {
        let lane = self.job.post_lane(source, self.local_rank).expect(IS_NEIGHBOUR);
        let Inlet { receiver, entries, .. } = &mut self.inlets[source as usize];
        loop {
            let wanted = receiver.find(&lane, |envelope| entries.iter().any(|entry| entry.wants(envelope)));
            let (number, envelope) = match wanted {
                Ok(found) => found,
                Err(next) => return next,
            };
            let Some(entry) = entries.iter_mut().find(|entry| entry.wants(&envelope)) else { continue };
            if receiver.take(&lane, number) {
                let layout = &entry.kept.layout;
                let is_placed = envelope.bytes as u64 <= layout.bytes();
                if is_placed {
                    lane.place(number, &self.job, layout, envelope.bytes);
                }
                receiver.free(&lane, number);
                entry.stage = Stage::Ended(found(self.first_rank + source, &envelope, is_placed));
            }
        }
    }

    /// A receive from this sender that is to come after all kept ones was posted with the daemon, which gets them before.
    pub(super) fn entrust(&mut self, source: u32, publish: impl Fn(Command)) {
        if self.inlets[source as usize].entries.is_empty() {
            return;
        }
        self.serve(source);
        for index in 0..self.inlets[source as usize].entries.len() {
            let entry = &mut self.inlets[source as usize].entries[index];
            if entry.is_waiting() {
                entry.stage = Stage::Entrusted;
                let Kept { slot, epoch, endpoint, layout } = entry.kept;
                publish(Command::Recv { slot, epoch, endpoint, layout });
                self.post(Neighbours::One(source));
            }
        }
    }

    /// How far a kept receive has got. Unless it still waits, it is kept no more.
    pub(super) fn poll(&mut self, source: u32, slot: Slot, publish: impl Fn(Command)) -> Stage {
        let next = self.serve(source);
        let lane = self.job.post_lane(source, self.local_rank).expect(IS_NEIGHBOUR);
        if !lane.words().is_settled() || lane.sender().is_gone() {
            self.post(Neighbours::One(source));
            self.entrust(source, publish);
            self.unpost(Neighbours::One(source));
        }
        let entries = &mut self.inlets[source as usize].entries;
        let index = entries.iter().position(|entry| entry.kept.slot == slot).expect(IS_KEPT);
        match entries[index].stage {
            Stage::Waiting(_) => Stage::Waiting(next),
            _ => entries.remove(index).stage,
        }
    }

    /// A receive is kept no more, wherever it is.
    pub(super) fn forget(&mut self, source: u32, slot: Slot) -> Stage {
        let entries = &mut self.inlets[source as usize].entries;
        let index = entries.iter().position(|entry| entry.kept.slot == slot).expect(IS_KEPT);
        entries.remove(index).stage
    }
}

const IS_KEPT: &str = "a receive is kept until its operation was told otherwise";
