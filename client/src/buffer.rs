//! Registered memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use ropeway_shm::ArenaSlot;
use zerocopy::FromBytes;

use crate::Plain;
use crate::plain::element_bytes;

/// Memory that daemon and program share, so that a message needs no copy to leave or to arrive.
///
/// It is a slice. Requests take it over, and give it back with `into_buffer`.
pub struct Buffer<T: Plain> {
    memory: ArenaSlot,
    elements: usize,
    element: PhantomData<T>,
}

impl<T: Plain> Buffer<T> {
    /// Sees `memory`, which has room for them, as that many elements.
    pub(crate) fn new(memory: ArenaSlot, elements: usize) -> Self {
        debug_assert!(memory.bytes() >= (elements * element_bytes::<T>()) as u64);
        Self { memory, elements, element: PhantomData }
    }

    pub(crate) fn into_memory(self) -> ArenaSlot {
        self.memory
    }

    pub(crate) fn memory(&self) -> &ArenaSlot {
        &self.memory
    }

    /// Where the buffer begins in the job segment.
    pub(crate) fn offset(&self) -> u64 {
        self.memory.offset()
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.elements * element_bytes::<T>()) as u64
    }
}

impl<T: Plain> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        elements(&self.memory, self.elements)
    }
}

impl<T: Plain> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        elements_mut(&mut self.memory, self.elements)
    }
}

impl<T: Plain + fmt::Debug> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The first `count` elements of `memory`. Panics if the daemon is using it.
pub(crate) fn elements<T: Plain>(memory: &ArenaSlot, count: usize) -> &[T] {
    match <[T]>::ref_from_bytes_with_elems(&memory.as_bytes()[..count * element_bytes::<T>()], count) {
        Ok(elements) => elements,
        Err(_) => unreachable!("arena slots are aligned for every element type a buffer may have"),
    }
}

/// As [`elements`], to write.
pub(crate) fn elements_mut<T: Plain>(memory: &mut ArenaSlot, count: usize) -> &mut [T] {
    match <[T]>::mut_from_bytes_with_elems(&mut memory.as_bytes_mut()[..count * element_bytes::<T>()], count) {
        Ok(elements) => elements,
        Err(_) => unreachable!("arena slots are aligned for every element type a buffer may have"),
    }
}
