//! The job segment: doorbells, request tables and arenas of a job's ranks on one node, and the channels and lanes between them.
//!
//! ```text
//!  0            + whole pages      + ranks × page     + huge pages       + ranks × arena    + 16 GiB
//!  +------------+------------------+------------------+------------------+------------------+-------------+
//!  | crowd      | doorbells        | request table    | arena            | direct channels  | post lanes  |
//!  |            | per rank         | per rank         | per rank         |                  | (post_area) |
//!  +------------+------------------+------------------+------------------+------------------+-------------+
//! ```
//!
//! Only address space at first. Pages come into being when they are reserved; so lack of memory is an error then, never a
//! fault later.

use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use ropeway_proto::limits::{DOORBELLS, SLOTS_PER_RANK};
use ropeway_proto::{Layout, Slot};

use crate::crowd;
use crate::doorbell::{Doorbell, DoorbellCalls};
use crate::mapped;
use crate::post_area;
use crate::request::RequestSlot;
use crate::segment::{HUGE_PAGE_BYTES, Segment, SegmentError};

/// What determines where everything lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobGeometry {
    /// Ranks on this node.
    pub local_ranks: u32,
    /// Address space of each rank's arena, in whole pages.
    pub arena_bytes_max: u64,
}

/// Memory comes in such pages.
pub const PAGE_BYTES: u64 = 4096;
/// What a process can address.
const ADDRESS_SPACE: u64 = 1 << 47;
const SLOT_BYTES: u64 = size_of::<RequestSlot>() as u64;
const TABLE_BYTES: u64 = SLOTS_PER_RANK as u64 * SLOT_BYTES;
const _: () = assert!(TABLE_BYTES.is_multiple_of(PAGE_BYTES));
const DOORBELLS_BYTES: u64 = (DOORBELLS * size_of::<Doorbell>()) as u64;
const _: () = assert!(DOORBELLS_BYTES.is_multiple_of(PAGE_BYTES));
/// Address space of the channels between a node's ranks.
const CHANNELS_BYTES: u64 = 16 << 30;

impl JobGeometry {
    fn doorbells(&self) -> u64 {
        crowd::bytes(self).next_multiple_of(PAGE_BYTES)
    }

    fn tables(&self) -> u64 {
        self.doorbells() + u64::from(self.local_ranks) * DOORBELLS_BYTES
    }

    fn arenas(&self) -> u64 {
        (self.tables() + u64::from(self.local_ranks) * TABLE_BYTES).next_multiple_of(HUGE_PAGE_BYTES)
    }

    /// The largest arenas of which so many ranks have room in one segment; 0 if there are too many ranks for any.
    pub fn arena_bytes_limit(local_ranks: u32) -> u64 {
        let others = Self { local_ranks, arena_bytes_max: 0 }.bytes();
        let left = others.map_or(0, |others| ADDRESS_SPACE - 1 - others);
        left / u64::from(local_ranks.max(1)) / PAGE_BYTES * PAGE_BYTES
    }

    /// Bytes of the segment; `None` if they are more than can be addressed.
    fn bytes(&self) -> Option<u64> {
        let arenas = self.arena_bytes_max.checked_mul(self.local_ranks.into())?;
        let is_whole = self.arena_bytes_max.is_multiple_of(PAGE_BYTES);
        let bytes =
            self.arenas().checked_add(arenas)?.checked_add(CHANNELS_BYTES)?.checked_add(post_area::bytes(self))?;
        (is_whole && bytes < ADDRESS_SPACE).then_some(bytes)
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
    /// Creates one, with pages for the doorbells and the words of post lanes only.
    pub fn create(geometry: JobGeometry) -> io::Result<Self> {
        let bytes = geometry.bytes().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let segment = Segment::create("ropeway-job", bytes)?;
        segment.reserve(0, geometry.doorbells() + u64::from(geometry.local_ranks) * DOORBELLS_BYTES)?;
        let job = Self { segment, geometry };
        job.reserve_post_words()?;
        Ok(job)
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

    /// A rank's doorbell, if there is one with these numbers.
    pub fn doorbell(&self, local_rank: u32, index: u32) -> Option<&Doorbell> {
        if local_rank >= self.geometry.local_ranks || index as usize >= DOORBELLS {
            return None;
        }
        let doorbells = self.geometry.doorbells() + u64::from(local_rank) * DOORBELLS_BYTES;
        // SAFETY: `Doorbell` consists of atomics.
        unsafe { self.segment.shared(doorbells + u64::from(index) * size_of::<Doorbell>() as u64) }
    }

    /// What all doorbells have cost so far.
    pub fn doorbell_calls(&self) -> DoorbellCalls {
        self.doorbells().map(Doorbell::calls).fold(DoorbellCalls::default(), DoorbellCalls::plus)
    }

    fn doorbells(&self) -> impl Iterator<Item = &Doorbell> {
        let ranks = 0..self.geometry.local_ranks;
        let numbers = ranks.flat_map(|rank| (0..DOORBELLS as u32).map(move |index| (rank, index)));
        numbers.filter_map(|(rank, index)| self.doorbell(rank, index))
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

    /// Makes sure of the pages of some of a rank's request slots.
    pub fn reserve_slots(&self, local_rank: u32, slots: Range<u32>) -> io::Result<()> {
        let start = self.geometry.tables() + u64::from(local_rank) * TABLE_BYTES;
        let at = |slot: u32| u64::from(slot) * SLOT_BYTES;
        self.reserve_within(start..start + TABLE_BYTES, at(slots.start)..at(slots.end))
    }

    /// The bytes of the segment that are a rank's arena.
    pub fn arena(&self, local_rank: u32) -> Range<u64> {
        let start = self.geometry.arenas() + u64::from(local_rank) * self.geometry.arena_bytes_max;
        start..start + self.geometry.arena_bytes_max
    }

    /// Makes sure of the pages of a part of a rank's arena.
    pub fn reserve_arena(&self, local_rank: u32, part: Range<u64>) -> io::Result<()> {
        self.reserve_within(self.arena(local_rank), part)
    }

    /// The bytes of the segment where channels lie.
    pub fn channels(&self) -> Range<u64> {
        let start = self.arena(self.geometry.local_ranks).start;
        start..start + CHANNELS_BYTES
    }

    /// Makes sure of the pages of a part of the channels.
    pub fn reserve_channels(&self, part: Range<u64>) -> io::Result<()> {
        self.reserve_within(self.channels(), part)
    }

    /// The same of any area, up to its end. The kernel goes through all pages of a part, also those that exist: who needs more has
    /// to ask for what is new alone.
    fn reserve_within(&self, area: Range<u64>, part: Range<u64>) -> io::Result<()> {
        let end = area.start.saturating_add(part.end).min(area.end);
        let start = area.start.saturating_add(part.start).min(end);
        self.segment.reserve(start, end - start)
    }

    /// Copies `bytes` packed bytes from position `from_at` of one layout to position `to_at` of another.
    #[inline]
    pub fn copy(&self, from: &Layout, from_at: u64, to: &Layout, to_at: u64, bytes: u64) -> Result<(), OutOfBounds> {
        if from.blocks == 1 && to.blocks == 1 {
            let (source, target) = (self.run(from, from_at, bytes)?, self.run(to, to_at, bytes)?);
            // SAFETY: `run` yields mapped ranges.
            unsafe { mapped::copy(source, target, bytes as usize) };
            return Ok(());
        }
        self.copy_blocks(from, from_at, to, to_at, bytes)
    }

    /// Copies `bytes` bytes from one offset to another.
    pub fn copy_range(&self, from: u64, to: u64, bytes: u64) -> Result<(), OutOfBounds> {
        let (source, target) = (self.whole(from, bytes)?, self.whole(to, bytes)?);
        // SAFETY: `whole` yields mapped ranges.
        unsafe { mapped::copy_small(source, target, bytes as usize) };
        Ok(())
    }

    /// The same, past the caches.
    pub(crate) fn stream(&self, from: u64, to: u64, bytes: u64) -> Result<(), OutOfBounds> {
        let (source, target) = (self.whole(from, bytes)?, self.whole(to, bytes)?);
        // SAFETY: `whole` yields mapped ranges.
        unsafe { mapped::stream(source, target, bytes as usize) };
        Ok(())
    }

    fn whole(&self, offset: u64, bytes: u64) -> Result<NonNull<u8>, OutOfBounds> {
        self.segment.range(offset, bytes).ok_or(OutOfBounds { offset, bytes })
    }

    /// A part of a layout of one block.
    #[inline]
    fn run(&self, layout: &Layout, at: u64, bytes: u64) -> Result<NonNull<u8>, OutOfBounds> {
        let is_part = layout.is_valid() && at.checked_add(bytes).is_some_and(|end| end <= layout.block_bytes);
        let start = if is_part { self.segment.range(layout.offset, layout.block_bytes) } else { None };
        let start = start.ok_or(OutOfBounds { offset: layout.offset, bytes })?;
        // SAFETY: the part is inside of the block, which was checked as a whole.
        Ok(unsafe { start.add(at as usize) })
    }

    fn copy_blocks(&self, from: &Layout, from_at: u64, to: &Layout, to_at: u64, bytes: u64) -> Result<(), OutOfBounds> {
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

    pub(crate) fn segment(&self) -> &Segment {
        &self.segment
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
