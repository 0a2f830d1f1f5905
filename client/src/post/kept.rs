//! Receives that are begun before they are waited for, and need no daemon: each is kept here until its message has come.
//!
//! They come before all later receives from their sender. So whoever looks for a message of his own serves them first, and before
//! the daemon gets a receive it gets those that were begun earlier. If we do not look for long, the daemon takes over what is on
//! the shelf (`ropeway_shm::shelf`); we notice when we come back.

use ropeway_proto::{Command, Completion, Rank, Slot};
use ropeway_shm::PostLane;
use ropeway_shm::post::{PostEnvelope, PostMemory};
use ropeway_shm::shelf::{Fate, PLACES, ShelvedRecv, fate};

use super::inbox::{Inbox, Inlet, found};
use super::{IS_NEIGHBOUR, Neighbours};
use crate::commands::Entry;

/// A receive into lent memory.
pub(super) struct Kept {
    /// On the shelf.
    place: u32,
    recv: ShelvedRecv,
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

/// What became of receives, by their slots.
#[derive(Default)]
pub(super) struct Told(Vec<Option<Stage>>);

impl Told {
    fn insert(&mut self, slot: Slot, stage: Stage) {
        let slot = slot as usize;
        if slot >= self.0.len() {
            self.0.resize(slot + 1, None);
        }
        self.0[slot] = Some(stage);
    }

    fn remove(&mut self, slot: Slot) -> Option<Stage> {
        self.0.get_mut(slot as usize)?.take()
    }
}

/// Places of a shelf that get memory at once: a page.
const PLACES_AT_ONCE: u32 = 64;

impl Inlet {
    /// A kept receive gets a message from this rank that was taken for it.
    fn end(
        &mut self,
        lane: &PostLane<'_>,
        source: Rank,
        recv: &ShelvedRecv,
        (number, envelope): (u64, PostEnvelope),
    ) -> Stage {
        let is_placed = envelope.bytes as u64 <= recv.layout.bytes();
        if is_placed {
            lane.place(number, &envelope, &recv.layout);
        }
        self.receiver.free(lane, number);
        Stage::Ended(found(source, &envelope, is_placed))
    }

    /// The daemon has taken over what is on the shelf: it is kept no more.
    fn give_up(&mut self, lane: &PostLane<'_>, source: Rank, told: &mut Told) {
        for Kept { place, recv } in std::mem::take(&mut self.kept) {
            let fate = fate(lane, place);
            if fate == Fate::Waiting {
                self.kept.push_back(Kept { place, recv });
                continue;
            }
            self.shelf.clear(lane, place);
            let stage = match fate {
                Fate::Assigned(number, envelope) => self.end(lane, source, &recv, (number, envelope)),
                _ => {
                    // The lane's words say so already.
                    self.posted += 1;
                    self.receiver.keep_to(lane.shelf().limit());
                    Stage::Entrusted
                }
            };
            told.insert(recv.slot, stage);
        }
    }
}

impl Inbox {
    /// Keeps a receive from this sender, whose lane has nothing for it; nor has the daemon. False if there is no place for it.
    pub(super) fn keep(&mut self, source: u32, recv: ShelvedRecv) -> bool {
        let lane = self.job.post_lane(source, self.local_rank).expect(IS_NEIGHBOUR);
        let Inlet { kept, shelf, places, .. } = &mut self.inlets[source as usize];
        let Some(place) = shelf.find_place() else { return false };
        if place == *places {
            let next = place..(place + PLACES_AT_ONCE).min(PLACES);
            if self.job.open_post_shelf(source, self.local_rank, next.clone()).is_err() {
                return false;
            }
            *places = next.end;
        }
        shelf.put(&lane, place, &recv);
        kept.push_back(Kept { place, recv });
        true
    }

    /// Gives kept receives what has come for them, in the order of both. The number of the next message to come.
    pub(super) fn serve(&mut self, source: u32) -> u64 {
        let lane = self.job.post_lane(source, self.local_rank).expect(IS_NEIGHBOUR);
        loop {
            let inlet = &mut self.inlets[source as usize];
            let Inlet { receiver, kept, shelf, .. } = inlet;
            let wanted = receiver.find(&lane, |envelope| kept.iter().any(|kept| envelope.suits(&kept.recv.endpoint)));
            let (number, envelope) = match wanted {
                Ok(found) => found,
                Err(next) => return next,
            };
            if !receiver.take(&lane, number) {
                continue;
            }
            let first = kept.iter().position(|kept| envelope.suits(&kept.recv.endpoint));
            let Kept { place, recv } = first.and_then(|first| kept.remove(first)).expect("the message was wanted");
            shelf.clear(&lane, place);
            let ended = inlet.end(&lane, self.first_rank + source, &recv, (number, envelope));
            self.told.insert(recv.slot, ended);
        }
    }

    /// The daemon has taken over kept receives so many times.
    #[inline]
    pub(super) fn take_note(&mut self, taken_over: u32) {
        if std::mem::replace(&mut self.taken_over, taken_over) != taken_over {
            self.give_up();
        }
    }

    #[cold]
    fn give_up(&mut self) {
        for (source, inlet) in (0..).zip(&mut self.inlets) {
            if let Some(lane) = self.job.post_lane(source, self.local_rank) {
                inlet.give_up(&lane, self.first_rank + source, &mut self.told);
            }
        }
    }

    /// The daemon is about to get a receive from this sender, which was posted already: it gets all kept ones before.
    pub(super) fn entrust(&mut self, source: u32, publish: impl Fn(&[Entry])) {
        if self.inlets[source as usize].kept.is_empty() {
            return;
        }
        self.serve(source);
        let lane = self.job.post_lane(source, self.local_rank).expect(IS_NEIGHBOUR);
        let Inlet { kept, shelf, .. } = &mut self.inlets[source as usize];
        let kept = std::mem::take(kept);
        for Kept { place, recv } in &kept {
            shelf.clear(&lane, *place);
            self.told.insert(recv.slot, Stage::Entrusted);
        }
        kept.iter().for_each(|_| self.post(Neighbours::One(source)));
        publish(&kept.into_iter().map(|kept| Command::from(kept.recv).encode()).collect::<Vec<_>>());
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
        self.told.remove(slot).unwrap_or(Stage::Waiting(next))
    }

    /// A receive is kept no more, wherever it is.
    pub(super) fn forget(&mut self, source: u32, slot: Slot) -> Option<Stage> {
        let lane = self.job.post_lane(source, self.local_rank).expect(IS_NEIGHBOUR);
        let Inlet { kept, shelf, .. } = &mut self.inlets[source as usize];
        let at = kept.iter().position(|kept| kept.recv.slot == slot);
        if let Some(Kept { place, .. }) = at.and_then(|at| kept.remove(at)) {
            shelf.clear(&lane, place);
        }
        self.told.remove(slot)
    }
}
