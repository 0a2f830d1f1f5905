//! Messages that came before their receive was started. The bytes lie with whoever drives the engine.

use slab::Slab;

use crate::engine::{StashId, Token};

/// One stashed message.
pub(crate) struct Stashed {
    pub(crate) bytes: u64,
    pub(crate) state: StashState,
    next: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StashState {
    /// Its payload is on its way, for `taker` if a receive has taken it already. Unwanted, it is dropped when it is here.
    Arriving { taker: Option<Token>, is_wanted: bool },
    /// All of its payload is here.
    Complete,
    /// The link broke in the middle of its payload.
    Broken,
}

/// All stashed messages of a job on a node.
#[derive(Default)]
pub(crate) struct Stash {
    entries: Slab<Stashed>,
}

/// The stashed messages of one channel, oldest first: a ring threaded through the stash. Every request has one, so it is small.
#[derive(Default)]
pub(crate) struct StashQueue {
    /// The newest; the oldest comes after it. Meaningless if there is none.
    tail: u32,
    len: u16,
}

impl StashQueue {
    pub(crate) fn len(&self) -> u16 {
        self.len
    }

    pub(crate) fn push(&mut self, stash: &mut Stash, id: StashId) {
        let oldest =
            if self.len == 0 { id.0 } else { std::mem::replace(&mut stash.entries[self.tail as usize].next, id.0) };
        stash.entries[id.0 as usize].next = oldest;
        self.tail = id.0;
        self.len += 1;
    }

    pub(crate) fn pop(&mut self, stash: &mut Stash) -> Option<StashId> {
        if self.len == 0 {
            return None;
        }
        let oldest = stash.entries[self.tail as usize].next;
        let second = stash.entries[oldest as usize].next;
        stash.entries[self.tail as usize].next = second;
        self.len -= 1;
        Some(StashId(oldest))
    }
}

impl Stash {
    pub(crate) fn insert(&mut self, bytes: u64) -> StashId {
        StashId(self.entries.insert(Stashed {
            bytes,
            state: StashState::Arriving { taker: None, is_wanted: true },
            next: 0,
        }) as u32)
    }

    pub(crate) fn find_mut(&mut self, id: StashId) -> Option<&mut Stashed> {
        self.entries.get_mut(id.0 as usize)
    }

    /// A receive has taken a message that is still arriving.
    pub(crate) fn expect_for(&mut self, id: StashId, operation: Token) {
        if let Some(stashed) = self.find_mut(id) {
            stashed.state = StashState::Arriving { taker: Some(operation), is_wanted: true };
        }
    }

    pub(crate) fn remove(&mut self, id: StashId) -> Option<Stashed> {
        self.entries.try_remove(id.0 as usize)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}
