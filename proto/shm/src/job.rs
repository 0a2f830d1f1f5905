//! The job segment: request tables and arenas of a job's ranks on one node.
//!
//! ```text
//!  0            4096                     + ranks × table                     + ranks × arena
//!  +------------+------------------------+-----------------------------------+
//!  | (reserved) | request table per rank | arena per rank                    |
//!  +------------+------------------------+-----------------------------------+
//! ```
//!
//! Only address space at first. Pages come into being when they are reserved; so lack of memory is an error then, never a
//! fault later.

use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use ropeway_proto::limits::SLOTS_PER_RANK;
use ropeway_proto::{Layout, Slot};

use crate::mapped;
use crate::request::RequestSlot;
use crate::segment::{Segment, SegmentError};

/// What determines where everything lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobGeometry {
    /// Ranks on this node.
    pub local_ranks: u32,
    /// Address space of each rank's arena, in whole pages.
    pub arena_bytes_max: u64,
}

const PAGE_BYTES: u64 = 4096;
const SLOT_BYTES: u64 = size_of::<RequestSlot>() as u64;
const TABLE_BYTES: u64 = SLOTS_PER_RANK as u64 * SLOT_BYTES;
const _: () = assert!(TABLE_BYTES.is_multiple_of(PAGE_BYTES));

impl JobGeometry {
    fn tables(&self) -> u64 {
        PAGE_BYTES
    }

    fn arenas(&self) -> u64 {
        self.tables() + u64::from(self.local_ranks) * TABLE_BYTES
    }

    /// Bytes of the segment; `None` if they are more than can be addressed.
    fn bytes(&self) -> Option<u64> {
        let arenas = self.arena_bytes_max.checked_mul(self.local_ranks.into())?;
        let is_whole = self.arena_bytes_max.is_multiple_of(PAGE_BYTES);
        self.arenas().checked_add(arenas).filter(|&bytes| is_whole && bytes < 1 << 47)
    }
}

/// A mapped job segment.
pub struct JobSegment {
    segment: Segment,
    geometry: JobGeometry,
}

/// A range that is not inside the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes of a layout at {offset} are outside of the segment")]
pub struct OutOfBounds {
    /// Where the layout starts.
    pub offset: u64,
    /// How many of its bytes were asked for.
    pub bytes: u64,
}

impl JobSegment {
    /// Creates one, without pages.
    pub fn create(geometry: JobGeometry) -> io::Result<Self> {
        let bytes = geometry.bytes().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self { segment: Segment::create("ropeway-job", bytes)?, geometry })
    }

    /// Maps the one the daemon has handed over.
    pub fn map(fd: OwnedFd, geometry: JobGeometry) -> Result<Self, SegmentError> {
        let bytes = geometry.bytes().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(Self { segment: Segment::map(fd, bytes)?, geometry })
    }

    /// The descriptor, to be handed to ranks.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.segment.fd()
    }

    /// Where everything lies.
    pub fn geometry(&self) -> JobGeometry {
        self.geometry
    }

    /// A request slot, if there is one with these numbers.
    pub fn slot(&self, local_rank: u32, slot: Slot) -> Option<&RequestSlot> {
        if local_rank >= self.geometry.local_ranks || slot >= SLOTS_PER_RANK {
            return None;
        }
        let table = self.geometry.tables() + u64::from(local_rank) * TABLE_BYTES;
        // SAFETY: `RequestSlot` consists of atomics.
        unsafe { self.segment.shared(table + u64::from(slot) * SLOT_BYTES) }
    }

    /// Makes sure of the pages of a rank's first `slots` request slots.
    pub fn reserve_slots(&self, local_rank: u32, slots: u32) -> io::Result<()> {
        let table = self.geometry.tables() + u64::from(local_rank) * TABLE_BYTES;
        self.segment.reserve(table, u64::from(slots.min(SLOTS_PER_RANK)) * SLOT_BYTES)
    }

    /// The bytes of the segment that are a rank's arena.
    pub fn arena(&self, local_rank: u32) -> Range<u64> {
        let start = self.geometry.arenas() + u64::from(local_rank) * self.geometry.arena_bytes_max;
        start..start + self.geometry.arena_bytes_max
    }

    /// Makes sure of the pages of the first `bytes` bytes of a rank's arena.
    pub fn reserve_arena(&self, local_rank: u32, bytes: u64) -> io::Result<()> {
        let arena = self.arena(local_rank);
        self.segment.reserve(arena.start, bytes.min(self.geometry.arena_bytes_max))
    }

    /// Copies `bytes` packed bytes from position `from_at` of one layout to position `to_at` of another.
    pub fn copy(&self, from: &Layout, from_at: u64, to: &Layout, to_at: u64, bytes: u64) -> Result<(), OutOfBounds> {
        let (mut sources, mut targets) = (self.pieces(from, from_at, bytes)?, self.pieces(to, to_at, bytes)?);
        let (mut source, mut target) = (sources.next(), targets.next());
        while let (Some((from, from_left)), Some((to, to_left))) = (source, target) {
            let part = from_left.min(to_left);
            // SAFETY: `pieces` yields mapped ranges.
            let rest = unsafe {
                mapped::copy(from, to, part);
                (from.add(part), to.add(part))
            };
            source = if part < from_left { Some((rest.0, from_left - part)) } else { sources.next() };
            target = if part < to_left { Some((rest.1, to_left - part)) } else { targets.next() };
        }
        Ok(())
    }

    /// Copies packed bytes of a layout out of the segment.
    pub fn read(&self, from: &Layout, at: u64, into: &mut [u8]) -> Result<(), OutOfBounds> {
        let mut rest = into;
        for (piece, bytes) in self.pieces(from, at, rest.len() as u64)? {
            let (part, others) = rest.split_at_mut(bytes);
            // SAFETY: the piece is mapped, and `part` is ours and as long.
            unsafe { mapped::copy(piece, NonNull::from(part).cast(), bytes) };
            rest = others;
        }
        Ok(())
    }

    /// Copies bytes into the packed positions of a layout.
    pub fn write(&self, to: &Layout, at: u64, bytes: &[u8]) -> Result<(), OutOfBounds> {
        let mut rest = bytes;
        for (piece, bytes) in self.pieces(to, at, rest.len() as u64)? {
            let (part, others) = rest.split_at(bytes);
            // SAFETY: the piece is mapped, and `part` is as long.
            unsafe { mapped::copy(NonNull::from(part).cast(), piece, bytes) };
            rest = others;
        }
        Ok(())
    }

    /// The mapped ranges of packed bytes of a layout, all of them in bounds.
    pub(crate) fn pieces(
        &self,
        layout: &Layout,
        at: u64,
        bytes: u64,
    ) -> Result<impl Iterator<Item = (NonNull<u8>, usize)> + use<'_>, OutOfBounds> {
        // Sizes of a layout that is not valid mean nothing, and may overflow.
        let is_part = layout.is_valid() && at.checked_add(bytes).is_some_and(|end| end <= layout.bytes());
        let start = if is_part { self.segment.range(layout.offset, layout.span()) } else { None };
        let start = start.ok_or(OutOfBounds { offset: layout.offset, bytes })?;
        let base = layout.offset;
        // SAFETY: every range of a layout lies within its span, which was checked as a whole.
        let piece = move |(offset, bytes): (u64, u64)| (unsafe { start.add((offset - base) as usize) }, bytes as usize);
        Ok(layout.ranges(at, bytes).map(piece))
    }

    /// The address of the byte at `offset`, for the arena's owner.
    pub(crate) fn range(&self, offset: u64, bytes: u64) -> Option<NonNull<u8>> {
        self.segment.range(offset, bytes)
    }

    /// Where an address of this process lies in the segment.
    pub(crate) fn offset_of(&self, address: usize) -> Option<u64> {
        let offset = address.checked_sub(self.segment.address())? as u64;
        (offset < self.segment.bytes()).then_some(offset)
    }
}
