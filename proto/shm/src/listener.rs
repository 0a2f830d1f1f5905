//! Who may sleep at the other end of a channel until a start has left something there.

use std::ptr::NonNull;

use ropeway_proto::End;

use crate::channel::{Block, OpenChannel};
use crate::job::JobSegment;
use crate::prefetch::prefetch;
use crate::request::RequestSlot;

/// The other end's request, unless that is on another node. It lies in the channel's segment.
#[derive(Clone, Copy)]
pub(crate) struct Listener(Option<NonNull<RequestSlot>>);

impl Listener {
    /// Of what this end leaves.
    pub(crate) fn of(channel: &OpenChannel, end: End) -> Self {
        Self((!channel.is_wired()).then(|| channel.slot(end.peer())))
    }

    /// Has the processor fetch what waking needs.
    #[inline]
    pub(crate) fn fetch(self) {
        if let Some(slot) = self.0 {
            prefetch(slot.cast(), 1, false);
        }
    }

    /// Wakes the other end if it sleeps. Behind a `SeqCst` fence.
    ///
    /// # Safety
    /// It is of this end of this channel, whose segment is mapped.
    #[inline]
    pub(crate) unsafe fn wake(self, (words, end): (NonNull<Block>, End), job: &JobSegment) {
        if let Some(slot) = self.0
            // SAFETY: checked when the channel was opened; the slot consists of atomics.
            && let Some(doorbell) = unsafe { slot.as_ref() }.take_waiter_behind_fence()
        {
            // SAFETY: as above.
            ring(job, unsafe { words.as_ref() }.local_rank(end.peer()), doorbell);
        }
    }
}

#[cold]
pub(crate) fn ring(job: &JobSegment, local_rank: u32, doorbell: u32) {
    if let Some(doorbell) = job.doorbell(local_rank, doorbell) {
        doorbell.wake();
    }
}
