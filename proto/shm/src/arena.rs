//! A rank's registered buffers, as the rank sees them.
//!
//! The client's side: it divides its own arena. The daemon only knows how much of it has pages.
//!
//! Who owns a slot's bytes is a word: the application, which may have slices of them, or the daemon, which may write them at
//! any moment. [`ArenaSlot`] gives out slices only while the application owns the bytes; that is what makes slices of shared
//! memory sound. It rests on the daemon writing to lent slots only: a job's own daemon is trusted by its ranks.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ropeway_proto::limits::BUFFER_ALIGN;

use crate::free_ranges::FreeRanges;
use crate::job::JobSegment;
use crate::mapped;
use crate::segment::HUGE_PAGE_BYTES;

/// One rank's arena.
pub struct Arena {
    job: Arc<JobSegment>,
    range: Range<u64>,
    space: Mutex<Space>,
}

/// Which parts are free, relative to the arena's start.
#[derive(Default)]
struct Space {
    free: FreeRanges,
    /// Bytes from the start that have pages.
    reserved: u64,
}

/// There is no room: `needed` bytes of the arena would have to be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the arena would need {needed} bytes")]
pub struct ArenaFull {
    /// Bytes from the arena's start; more than the arena can have if the buffer will never fit.
    pub needed: u64,
}

/// One registered buffer. What a start touches comes first.
#[repr(C)]
pub struct ArenaSlot {
    arena: Arc<Arena>,
    is_lent: AtomicBool,
    /// Relative to the segment.
    offset: u64,
    bytes: u64,
}

impl Arena {
    /// The arena of one rank; nothing of it is reserved yet.
    pub fn new(job: Arc<JobSegment>, local_rank: u32) -> Arc<Self> {
        let range = job.arena(local_rank);
        Arc::new(Self { job, range, space: Mutex::default() })
    }

    /// Takes a buffer of zeros.
    pub fn allocate(self: &Arc<Self>, bytes: u64) -> Result<ArenaSlot, ArenaFull> {
        let size = bytes.max(1).checked_next_multiple_of(BUFFER_ALIGN).ok_or(ArenaFull { needed: u64::MAX })?;
        let start = self.space().take(size)?;
        let slot = ArenaSlot {
            arena: Arc::clone(self),
            offset: self.range.start + start,
            bytes,
            is_lent: AtomicBool::new(false),
        };
        slot.clear();
        Ok(slot)
    }

    /// The daemon has reserved the arena up to `bytes`.
    pub fn set_reserved(&self, bytes: u64) {
        let mut space = self.space();
        if bytes > space.reserved {
            let from = std::mem::replace(&mut space.reserved, bytes);
            // Before the new part is used. It may be the end of a huge page whose rest is.
            let [start, from_at] = [self.range.start, self.range.start + from];
            let begun = (from_at / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES).max(start);
            self.job.segment().use_huge_pages(begun, start + bytes - begun);
            space.free.give(from, bytes);
        }
    }

    /// Bytes that are reserved.
    pub fn reserved(&self) -> u64 {
        self.space().reserved
    }

    /// The largest buffer that could be had, if `more` bytes beyond what is reserved could be.
    pub fn largest_with(&self, more: u64) -> u64 {
        let space = self.space();
        let behind = space.reserved.saturating_add(more) - space.free.start_of_last(space.reserved);
        space.free.largest().max(behind / BUFFER_ALIGN * BUFFER_ALIGN)
    }

    /// Where in the segment a slice lies, if it lies in this arena.
    pub fn locate(&self, slice: &[u8]) -> Option<u64> {
        let offset = self.job.offset_of(slice.as_ptr().addr())?;
        let end = offset.checked_add(slice.len() as u64)?;
        (offset >= self.range.start && end <= self.range.end).then_some(offset)
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Space {
    fn take(&mut self, size: u64) -> Result<u64, ArenaFull> {
        let needed = self.free.start_of_last(self.reserved).saturating_add(size);
        self.free.take(size).ok_or(ArenaFull { needed })
    }
}

impl ArenaSlot {
    /// Where it starts in the segment.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its content. Panics while it is lent.
    pub fn as_bytes(&self) -> &[u8] {
        self.assert_owned();
        let start = self.start();
        // SAFETY: mapped, in bounds, and the application's: the daemon does not write, and `&self` keeps us from it.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.bytes as usize) }
    }

    /// Its content. Panics while it is lent.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        self.assert_owned();
        let start = self.start();
        // SAFETY: as above, and `&mut self` makes it the only slice.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.bytes as usize) }
    }

    /// The daemon may read and write it from now on. `&mut self`: nobody holds a slice of it.
    #[inline]
    pub fn lend(&mut self) {
        self.is_lent.store(true, Ordering::Relaxed);
    }

    /// Whether it is lent.
    #[inline]
    pub fn is_lent(&self) -> bool {
        self.is_lent.load(Ordering::Relaxed)
    }

    /// The daemon has let go of it: the operation has ended, or the daemon has.
    #[inline]
    pub fn reclaim(&self) {
        self.is_lent.store(false, Ordering::Relaxed);
    }

    fn assert_owned(&self) {
        assert!(!self.is_lent(), "the buffer is in use: its operation has not ended");
    }

    fn start(&self) -> std::ptr::NonNull<u8> {
        self.arena.job.range(self.offset, self.bytes).expect("slots lie in the segment")
    }

    fn clear(&self) {
        let start = self.start();
        // SAFETY: mapped and in bounds, and nobody else's: it was free.
        unsafe { mapped::clear(start, self.bytes as usize) };
    }
}

impl Drop for ArenaSlot {
    fn drop(&mut self) {
        // Memory the daemon may still write to is never given to anybody else.
        if !self.is_lent() {
            let start = self.offset - self.arena.range.start;
            let size = self.bytes.max(1).next_multiple_of(BUFFER_ALIGN);
            self.arena.space().free.give(start, start + size);
        }
    }
}
