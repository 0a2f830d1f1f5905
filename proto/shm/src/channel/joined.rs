//! Ends that start with others ([`Joined`]), as those use them who have the segment mapped.

use std::ptr::NonNull;

use ropeway_proto::{End, Slot};

use super::OpenChannel;
use crate::joined::Joined;
use crate::request::RequestSlot;

impl OpenChannel {
    /// From its next message on, which has this number, an end starts with others: whenever `slot`, a request of the same rank, begins a round.
    pub(crate) fn join(&self, end: End, slot: Slot, next: u32) -> Option<Joined> {
        let joined = Joined::new((slot, self.request(end, slot)?), next);
        let words = self.content();
        words.transfer.note_over(end, next.wrapping_sub(1));
        words.eager.join(end, joined, next);
        Some(joined)
    }

    /// It starts no more. What it has started is to be [taken back](crate::transfer::Transfer::take_back) before, or moves.
    pub fn leave_others(&self, end: End) {
        let words = self.content();
        if words.eager.joined(end).is_some() {
            // Who is copying is seen by the daemon, too.
            words.withdraw(end);
        }
    }

    /// With which others an end starts, and their request.
    pub(crate) fn others_of(&self, end: End) -> Option<(Joined, NonNull<RequestSlot>)> {
        let joined = self.content().eager.joined(end)?;
        Some((joined, NonNull::from(self.request(end, joined.slot())?)))
    }

    /// Whether an end that starts with others has started this message: until when its program is likely to come to wait; else zero.
    #[inline]
    pub(super) fn started_with_others(&self, end: End, number: u32) -> Option<u64> {
        let joined = self.content().eager.joined(end)?;
        self.look_at_others(end, joined, number)
    }

    // Ends that start alone are asked, too, and their starts are to stay short.
    #[inline(never)]
    fn look_at_others(&self, end: End, joined: Joined, number: u32) -> Option<u64> {
        joined.started_until(self.request(end, joined.slot())?, number)
    }

    /// A request of an end's rank, whatever is said of it.
    fn request(&self, end: End, slot: Slot) -> Option<&RequestSlot> {
        self.job.slot(self.channel.end(end).local_rank, slot)
    }
}
