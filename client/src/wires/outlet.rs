//! Where what is started together leaves the node.

use std::sync::Arc;

use ropeway_shm::turn::Marks;

use super::Wire;

/// What is started together and leaves over one wire.
pub(crate) struct Outlet {
    pub(super) wire: Arc<Wire>,
    /// The channels' names there.
    marks: Marks,
    messages: u16,
    /// Bytes of the largest.
    largest: u32,
    bytes: u32,
}

impl Outlet {
    /// Of one message, over a channel that has this name there.
    pub(crate) fn new(wire: &Arc<Wire>, name: u16, bytes: u64) -> Self {
        let bytes = u32::try_from(bytes).expect("what goes over a wire is small");
        Self { wire: Arc::clone(wire), marks: Marks::of(name), messages: 1, bytes, largest: bytes }
    }

    /// Bytes of the largest message.
    pub(crate) fn largest(&self) -> u64 {
        self.largest.into()
    }

    /// How many messages there are, and bytes of all of them.
    pub(super) fn load(&self) -> (u64, u64) {
        (self.messages.into(), self.bytes.into())
    }

    /// What leaves there leaves here, too, if that can be.
    pub(crate) fn join(&mut self, other: &Self) -> bool {
        let joins = Arc::ptr_eq(&self.wire, &other.wire) && self.marks.join(other.marks);
        if joins {
            self.messages += other.messages;
            self.bytes += other.bytes;
            self.largest = self.largest.max(other.largest);
        }
        joins
    }

    /// Whoever works the wire finds it. Behind a SeqCst fence [`begin_all`](super::Wires::begin_all) follows.
    #[inline]
    pub(crate) fn mark(&self) {
        self.wire.wire.mark_all_due(self.marks);
    }
}
