//! What waits for a link: frames that stand for themselves, and requests that have something to send, in turn.

use std::collections::VecDeque;

use ropeway_proto::{ChannelId, Frame};

/// The queue of one node.
///
/// A request stands in `ready` at most once and gives one frame each time it comes to the front, so messages share the
/// link piece by piece, and the queue never outgrows the number of requests.
#[derive(Default)]
pub(crate) struct Outgoing {
    frames: VecDeque<Frame>,
    /// Names, not places in the table: whoever takes over the place of a cancelled request must not take its turn.
    ready: VecDeque<ChannelId>,
    /// Persistent requests towards this node: `ready` has room for all of them.
    requests: usize,
    /// Large messages this node was asked for whose last piece has not begun to come.
    large_due: usize,
}

impl Outgoing {
    /// Makes room for one more persistent request, so that its starts allocate nothing.
    pub(crate) fn admit_request(&mut self) {
        self.requests += 1;
        if self.ready.capacity() < self.requests {
            self.ready.reserve_exact(self.requests + 64 - self.ready.len());
        }
    }

    /// Gives that room up.
    pub(crate) fn dismiss_request(&mut self) {
        self.requests -= 1;
    }

    pub(crate) fn is_large_due(&self) -> bool {
        self.large_due > 0
    }

    /// Counts one that becomes due, or is no longer.
    pub(crate) fn count_due(&mut self, is_due: bool) {
        self.large_due = if is_due { self.large_due + 1 } else { self.large_due - 1 };
    }

    pub(crate) fn push_frame(&mut self, frame: Frame) {
        self.frames.push_back(frame);
    }

    pub(crate) fn pop_frame(&mut self) -> Option<Frame> {
        self.frames.pop_front()
    }

    pub(crate) fn push_ready(&mut self, id: ChannelId) {
        self.ready.push_back(id);
    }

    pub(crate) fn pop_ready(&mut self) -> Option<ChannelId> {
        self.ready.pop_front()
    }

    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.ready.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.ready.is_empty()
    }
}
