//! Who is to hear of what a start has left in a channel.

use std::ptr::NonNull;

use ropeway_proto::End;

use crate::channel::OpenChannel;
use crate::job::JobSegment;
use crate::prefetch::prefetch;
use crate::request::RequestSlot;
use crate::wire::WireWords;

/// Its addresses lead into the segment of the channel that it is [of](Self::of).
#[derive(Clone, Copy)]
pub(crate) enum Listener {
    /// The other end's request, and its rank on this node.
    Peer(NonNull<RequestSlot>, u32),
    /// Whoever works the wire, and the channel's name there.
    Wire(NonNull<WireWords>, u16),
    Nobody,
}

impl Listener {
    /// Of what this end leaves.
    pub(crate) fn of(channel: &OpenChannel, end: End) -> Self {
        match (channel.wire(), end) {
            (Some((wire, index)), End::Send) => Self::Wire(wire, index),
            (Some(_), End::Recv) => Self::Nobody,
            (None, _) => Self::Peer(channel.slot(end.peer()), channel.channel().end(end.peer()).local_rank),
        }
    }

    /// Has the processor fetch what waking needs.
    #[inline]
    pub(crate) fn fetch(self) {
        if let Self::Peer(slot, _) = self {
            prefetch(slot.cast(), 1, false);
        }
    }

    /// Whoever works the wire finds something to do for the channel.
    ///
    /// # Safety
    /// The channel's segment is mapped.
    #[inline]
    pub(crate) unsafe fn mark_due(self) {
        if let Self::Wire(wire, index) = self {
            // SAFETY: checked when the channel was opened; the words are atomics.
            unsafe { wire.as_ref() }.due.mark(usize::from(index));
        }
    }

    /// Wakes the other end if it sleeps on this node. Behind a `SeqCst` fence.
    ///
    /// # Safety
    /// The channel's segment, which is this one, is mapped.
    #[inline]
    pub(crate) unsafe fn wake(self, job: &JobSegment) {
        if let Self::Peer(slot, local_rank) = self
            // SAFETY: checked when the channel was opened; the slot consists of atomics.
            && let Some(doorbell) = unsafe { slot.as_ref() }.take_waiter_behind_fence()
        {
            ring(job, local_rank, doorbell);
        }
    }
}

#[cold]
fn ring(job: &JobSegment, local_rank: u32, doorbell: u32) {
    if let Some(doorbell) = job.doorbell(local_rank, doorbell) {
        doorbell.wake();
    }
}
