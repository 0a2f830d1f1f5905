//! Receives that are begun before they are waited for, and need no daemon: each is kept here until its message has come.
//!
//! They come before all later receives from their sender. So whoever looks for a message of his own serves them first, and before
//! the daemon gets a receive it gets those that were begun earlier.

use ropeway_proto::{Command, Completion, Endpoint, Epoch, Layout, Slot};
use ropeway_shm::post::PostMemory;

use super::inbox::{Inbox, Inlet, found};
use super::{IS_NEIGHBOUR, Neighbours};
use crate::commands::Entry;

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

impl Inbox {
    /// Gives kept receives what has come for them, in the order of both. The number of the next message to come.
    pub(super) fn serve(&mut self, source: u32) -> u64 {
        let lane = self.job.post_lane(source, self.local_rank).expect(IS_NEIGHBOUR);
        let Inlet { receiver, kept, told, .. } = &mut self.inlets[source as usize];
        loop {
            let wanted = receiver.find(&lane, |envelope| kept.iter().any(|kept| envelope.suits(&kept.endpoint)));
            let (number, envelope) = match wanted {
                Ok(found) => found,
                Err(next) => return next,
            };
            if !receiver.take(&lane, number) {
                continue;
            }
            let first = kept.iter().position(|kept| envelope.suits(&kept.endpoint));
            let Kept { slot, layout, .. } = first.and_then(|first| kept.remove(first)).expect("the message was wanted");
            let is_placed = envelope.bytes as u64 <= layout.bytes();
            if is_placed {
                lane.place(number, &envelope, &layout);
            }
            receiver.free(&lane, number);
            told.insert(slot, Stage::Ended(found(self.first_rank + source, &envelope, is_placed)));
        }
    }

    /// The daemon is about to get a receive from this sender, which was posted already: it gets all kept ones before.
    pub(super) fn entrust(&mut self, source: u32, publish: impl Fn(&[Entry])) {
        if self.inlets[source as usize].kept.is_empty() {
            return;
        }
        self.serve(source);
        let kept = std::mem::take(&mut self.inlets[source as usize].kept);
        let command = |Kept { slot, epoch, endpoint, layout }| Command::Recv { slot, epoch, endpoint, layout }.encode();
        for kept in &kept {
            self.post(Neighbours::One(source));
            self.inlets[source as usize].told.insert(kept.slot, Stage::Entrusted);
        }
        publish(&kept.into_iter().map(command).collect::<Vec<_>>());
    }

    /// How far a kept receive has got. Unless it still waits, it is kept no more.
    pub(super) fn poll(&mut self, source: u32, slot: Slot, publish: impl Fn(&[Entry])) -> Stage {
        let next = self.serve(source);
        let lane = self.job.post_lane(source, self.local_rank).expect(IS_NEIGHBOUR);
        if !lane.words().is_settled() || lane.sender().is_gone() {
            self.post(Neighbours::One(source));
            self.entrust(source, publish);
            self.unpost(Neighbours::One(source));
        }
        self.inlets[source as usize].told.remove(&slot).unwrap_or(Stage::Waiting(next))
    }

    /// A receive is kept no more, wherever it is.
    pub(super) fn forget(&mut self, source: u32, slot: Slot) -> Option<Stage> {
        let Inlet { kept, told, .. } = &mut self.inlets[source as usize];
        kept.retain(|kept| kept.slot != slot);
        told.remove(&slot)
    }
}
