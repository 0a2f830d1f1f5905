//! Chunks of arrays, copied into private memory and back.
//!
//! Other processes may write the arrays meanwhile, so they are never looked at where they lie.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use crate::job::{JobSegment, OutOfBounds};
use crate::mapped;
use crate::prefetch::prefetch;

/// Two of them stay in the first cache, beside what comes next.
pub(crate) const CHUNK_BYTES: usize = 8 << 10;

impl JobSegment {
    /// Bytes `at .. at + bytes` of an array of `total` bytes.
    pub(crate) fn part(&self, offset: u64, at: u64, bytes: u64, total: u64) -> Result<Part<'_>, OutOfBounds> {
        let start = offset.checked_add(at).and_then(|start| self.range(start, bytes));
        let start = start.ok_or(OutOfBounds { offset, bytes: total })?;
        Ok(Part { start, bytes: bytes as usize, segment: PhantomData })
    }
}

/// A mapped part of the segment, at most a chunk.
pub(crate) struct Part<'a> {
    start: NonNull<u8>,
    bytes: usize,
    segment: PhantomData<&'a JobSegment>,
}

impl Part<'_> {
    /// Has the processor fetch it, as it will be written.
    #[inline]
    pub(crate) fn fetch_to_write(&self) {
        prefetch(self.start, self.bytes, true);
    }

    #[inline]
    pub(crate) fn store(self, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.bytes);
        // SAFETY: the part is mapped as long as the segment it borrows, and `bytes` is as long.
        unsafe { mapped::copy_small(NonNull::from(bytes).cast(), self.start, self.bytes) };
    }
}

/// Private memory for a part of an array. Not cleared: work on a few bytes would take longer for it.
#[repr(align(64))]
pub(crate) struct Chunk([MaybeUninit<u8>; CHUNK_BYTES]);

impl Chunk {
    #[inline]
    pub(crate) fn new() -> Self {
        Self([MaybeUninit::uninit(); CHUNK_BYTES])
    }

    #[inline]
    pub(crate) fn load(&mut self, part: Part<'_>) -> &mut [u8] {
        let to = NonNull::from(&mut self.0[..part.bytes]).cast::<u8>();
        // SAFETY: the part is mapped as long as the segment it borrows, and the slice at `to` is ours and as long; after the copy
        // all of it has been written.
        unsafe {
            mapped::copy_small(part.start, to, part.bytes);
            std::slice::from_raw_parts_mut(to.as_ptr(), part.bytes)
        }
    }
}
