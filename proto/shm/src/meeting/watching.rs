//! Who waits for a round, and who is woken.

use std::sync::atomic::{Ordering, fence};

use ropeway_proto::limits::COMBINER_DOORBELL;

use super::Meeting;
use crate::doorbell::Doorbell;

impl Meeting {
    /// A member waits from now on, and takes pieces.
    pub fn watch(&self, member: u32) {
        if self.takes_any_piece(member) {
            self.words().rounds.watching().fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It waits no more.
    pub fn look_away(&self, member: u32) {
        if self.takes_any_piece(member) {
            self.words().rounds.watching().fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether it does what others need, too. Of pairs only the root certainly does.
    fn takes_any_piece(&self, member: u32) -> bool {
        self.paired(member).is_none_or(|paired| paired.is_root())
    }

    /// Whether a member waits.
    pub fn is_watched(&self) -> bool {
        self.words().rounds.watching().load(Ordering::Relaxed) > 0
    }

    /// Wakes the members' combiners, if there are pieces for them and not every member waits. The daemon's part, which can't do
    /// what it is asked for without the function.
    pub fn call_combiners(&self) {
        let is_theirs = |stage: usize| !self.outlines[stage].is_doable;
        let watching = self.words().rounds.watching().load(Ordering::Relaxed) as usize;
        if watching < self.slots.len() && self.unfinished_stage(self.words().rounds.ended()).is_some_and(is_theirs) {
            let bells = self.places.iter().filter_map(|place| self.job.doorbell(place.0, COMBINER_DOORBELL));
            bells.for_each(Doorbell::wake);
        }
    }

    /// A member is about to leave a doorbell at its request, with a fence behind it.
    pub fn note_sleeper(&self) {
        self.words().rounds.note_sleeper();
    }

    /// It sleeps no more.
    pub fn forget_sleeper(&self) {
        self.words().rounds.forget_sleeper();
    }

    /// Wakes all members that sleep, to take pieces or because the round is over. Mostly nobody does, and their requests are far.
    pub fn wake_all(&self) {
        // SYNC slot-waiter, meeting-sleepers: one fence for all slots; see `RequestSlot::complete`.
        fence(Ordering::SeqCst);
        if self.words().rounds.has_sleepers_behind_fence() {
            (0..self.places.len()).for_each(|index| self.wake_behind_fence(index));
        }
    }

    /// Wakes a member if it sleeps. Everything written before the last fence is visible to it if it does not.
    pub(crate) fn wake_behind_fence(&self, index: usize) {
        // SAFETY: checked when the meeting was opened.
        let slot = unsafe { self.slots[index].as_ref() };
        if let Some(bell) = slot.take_waiter_behind_fence()
            && let Some(bell) = self.job.doorbell(self.places[index].0, bell)
        {
            bell.wake();
        }
    }

    /// Whether a member may sleep. As [`wake_behind_fence`](Self::wake_behind_fence).
    pub(crate) fn is_awaited_behind_fence(&self, index: usize) -> bool {
        // SAFETY: checked when the meeting was opened.
        unsafe { self.slots[index].as_ref() }.has_waiter_behind_fence()
    }
}
