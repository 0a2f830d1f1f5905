//! What waits for a link: frames that stand for themselves, and requests that have something to send, in turn.

use std::collections::VecDeque;

use ropeway_proto::{ChannelId, Frame};

use crate::request::Kind;

/// The queue of one node.
#[derive(Default)]
pub(crate) struct Outgoing {
    frames: VecDeque<Frame>,
    /// What receives have to say is short and goes first: what it asks for can come while messages leave, and behind them
    /// it would come afterwards.
    receives: Turns,
    sends: Turns,
    /// Large messages this node was asked for whose last piece has not begun to come.
    large_due: usize,
}

/// Requests in turn.
///
/// A request is in it at most once and gives one frame each time it comes to the front, so messages share the link piece by
/// piece, and the queue never outgrows the number of requests.
#[derive(Default)]
pub(crate) struct Turns {
    /// Names, not places in the table: whoever takes over the place of a cancelled request must not take its turn.
    waiting: VecDeque<ChannelId>,
    /// Persistent requests that may come: there is room for all of them.
    requests: usize,
}

impl Turns {
    /// Makes room for one more persistent request, so that its starts allocate nothing.
    pub(crate) fn admit(&mut self) {
        self.requests += 1;
        if self.waiting.capacity() < self.requests {
            self.waiting.reserve_exact(self.requests + 64 - self.waiting.len());
        }
    }

    /// Gives that room up.
    pub(crate) fn dismiss(&mut self) {
        self.requests -= 1;
    }

    pub(crate) fn push(&mut self, id: ChannelId) {
        self.waiting.push_back(id);
    }
}

impl Outgoing {
    /// Where requests of a kind wait for their turn.
    pub(crate) fn turns_of(&mut self, kind: &Kind) -> &mut Turns {
        if let Kind::Send(_) = kind { &mut self.sends } else { &mut self.receives }
    }

    /// The request whose turn it is.
    pub(crate) fn pop_request(&mut self) -> Option<ChannelId> {
        self.receives.waiting.pop_front().or_else(|| self.sends.waiting.pop_front())
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

    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.receives.waiting.clear();
        self.sends.waiting.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.receives.waiting.is_empty() && self.sends.waiting.is_empty()
    }
}
