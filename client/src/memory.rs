//! What operations keep until they have ended: the memory they use.

use std::sync::{Arc, OnceLock};

use ropeway_shm::ArenaSlot;

/// The memory of an operation.
#[derive(Default)]
pub(crate) enum Memory {
    /// The caller's, who waits for the end.
    #[default]
    Borrowed,
    /// Its own: lent whenever it runs.
    Own(ArenaSlot),
    /// A part of what several operations use, whose owner lends it.
    Shared(#[expect(dead_code, reason = "nothing but keeping it is needed")] Arc<Shelf>),
}

/// Where shared memory is put if its owner leaves while operations run. The last of them to end clears it.
#[derive(Default)]
pub(crate) struct Shelf(OnceLock<ArenaSlot>);

/// Memory that several operations use at once. What a start touches comes first.
#[repr(C)]
pub(crate) struct SharedMemory {
    /// `None` while it is dropped.
    slot: Option<ArenaSlot>,
    shelf: Arc<Shelf>,
}

impl Memory {
    pub(crate) fn own(&self) -> Option<&ArenaSlot> {
        if let Self::Own(slot) = self { Some(slot) } else { None }
    }

    #[inline]
    pub(crate) fn own_mut(&mut self) -> Option<&mut ArenaSlot> {
        if let Self::Own(slot) = self { Some(slot) } else { None }
    }

    pub(crate) fn take_own(&mut self) -> Option<ArenaSlot> {
        if let Self::Own(slot) = std::mem::take(self) { Some(slot) } else { None }
    }

    /// Leaves it to operations that share the shelf.
    pub(crate) fn leave_to(self, shelf: &Arc<Shelf>) -> Self {
        if let Self::Own(slot) = self {
            shelf.put(slot);
        }
        shelf.share()
    }

    /// The operation has ended.
    #[inline]
    pub(crate) fn reclaim(&self) {
        if let Self::Own(slot) = self {
            slot.reclaim();
        }
    }
}

impl From<ArenaSlot> for Memory {
    fn from(slot: ArenaSlot) -> Self {
        Self::Own(slot)
    }
}

impl From<Option<ArenaSlot>> for Memory {
    fn from(slot: Option<ArenaSlot>) -> Self {
        slot.map_or(Self::Borrowed, Self::Own)
    }
}

impl SharedMemory {
    pub(crate) fn new(slot: ArenaSlot) -> Self {
        Self { slot: Some(slot), shelf: Arc::default() }
    }

    /// What an operation holds that uses a part of it.
    pub(crate) fn share(&self) -> Memory {
        self.shelf.share()
    }

    pub(crate) fn slot(&self) -> &ArenaSlot {
        self.slot.as_ref().expect(HAS_SLOT)
    }

    pub(crate) fn slot_mut(&mut self) -> &mut ArenaSlot {
        self.slot.as_mut().expect(HAS_SLOT)
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.shelf.put(slot);
        }
    }
}

impl Shelf {
    /// What an operation holds that uses a part of what is put here one day.
    pub(crate) fn share(self: &Arc<Self>) -> Memory {
        Memory::Shared(Arc::clone(self))
    }

    fn put(&self, slot: ArenaSlot) {
        self.0.set(slot).unwrap_or_else(|_| unreachable!("only its owner puts memory there"));
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        if let Some(slot) = self.0.get() {
            slot.reclaim();
        }
    }
}

const HAS_SLOT: &str = "only dropping takes it away";
