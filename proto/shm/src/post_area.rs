//! Where the post lanes of a node's ranks lie: at the end of the job segment.
//!
//! ```text
//!  0               + ranks × 256     + ranks² × 256    + ranks² × 132 KiB  + ranks² × 1 MiB  + ranks² × 64 KiB
//!  +---------------+-----------------+-----------------+-------------------+-----------------+
//!  | words         | words           | cells           | lockers           | shelves         |
//!  | per rank      | per lane        | per lane        | per lane          | per lane        |
//!  +---------------+-----------------+-----------------+-------------------+-----------------+
//! ```
//!
//! Lanes are in the order of their senders, and of one sender in that of their receivers. The words have memory from the
//! beginning, the cells of a lane and its lockers when its sender first
//! wants them, and the places of its shelf when its receiver does. Payload lies right behind the head of its cell: of messages
//! up to 48 bytes all comes in one cache line.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU8;

use ropeway_proto::Layout;
use ropeway_proto::limits::{POST_BYTES_MAX, POST_CELL_BYTES, POST_RANKS_MAX};

use crate::doorbell::Doorbell;
use crate::job::{JobGeometry, JobSegment};
use crate::mapped;
use crate::post::{CELLS, CellWords, LOCKERS, LaneWords, PostEnvelope, PostMemory, RankWords};
use crate::shelf::{PLACES, PlaceWords};

/// A lane between two ranks.
#[derive(Clone, Copy)]
pub struct PostLane<'a> {
    words: &'a LaneWords,
    sender: &'a RankWords,
    receiver: &'a RankWords,
    /// May have no memory until the lane is open.
    cells: &'a [Cell; CELLS as usize],
    /// Where its lockers begin in the segment. They may have no memory either.
    lockers: u64,
    /// Where its shelf begins. It may have no memory either.
    shelf: u64,
    job: &'a JobSegment,
}

#[repr(C, align(64))]
struct Cell {
    words: CellWords,
    payload: [AtomicU8; POST_CELL_BYTES],
}

const RANK_BYTES: u64 = size_of::<RankWords>() as u64;
const LANE_BYTES: u64 = size_of::<LaneWords>() as u64;
const CELLS_BYTES: u64 = size_of::<[Cell; CELLS as usize]>() as u64;
const LOCKERS_BYTES: u64 = (LOCKERS * POST_BYTES_MAX) as u64;
const PLACE_BYTES: u64 = size_of::<PlaceWords>() as u64;
const SHELF_BYTES: u64 = PLACES as u64 * PLACE_BYTES;
const _: () = assert!(RANK_BYTES == 256 && LANE_BYTES == 256 && PLACE_BYTES == 64);

/// Ranks that have lanes: those of a node, or none. One alone needs none.
fn ranks(geometry: &JobGeometry) -> u64 {
    if (2..=POST_RANKS_MAX).contains(&geometry.local_ranks) { geometry.local_ranks.into() } else { 0 }
}

fn words_bytes(geometry: &JobGeometry) -> u64 {
    let ranks = ranks(geometry);
    ranks * RANK_BYTES + ranks * ranks * LANE_BYTES
}

/// Bytes of the whole area.
pub(crate) fn bytes(geometry: &JobGeometry) -> u64 {
    words_bytes(geometry) + ranks(geometry).pow(2) * (CELLS_BYTES + LOCKERS_BYTES + SHELF_BYTES)
}

impl JobSegment {
    /// Whether there are post lanes.
    pub fn has_post(&self) -> bool {
        ranks(&self.geometry()) > 0
    }

    /// The lane from one rank to another, if there are lanes and such ranks.
    #[inline]
    pub fn post_lane(&self, sender: u32, receiver: u32) -> Option<PostLane<'_>> {
        let lane = self.post_index(sender, receiver)?;
        let lanes = self.post_begin() + ranks(&self.geometry()) * RANK_BYTES;
        // SAFETY: `LaneWords` consists of atomics.
        let words = unsafe { self.segment().shared(lanes + lane * LANE_BYTES) }?;
        // SAFETY: `Cell` consists of atomics.
        let cells = unsafe { self.segment().shared(self.post_cells(lane)) }?;
        let (sender, receiver) = (self.post_rank(sender)?, self.post_rank(receiver)?);
        Some(PostLane {
            words,
            sender,
            receiver,
            cells,
            lockers: self.post_lockers(lane),
            shelf: self.post_shelf(lane),
            job: self,
        })
    }

    /// What concerns all lanes of a rank, if there are lanes and such a rank.
    pub fn post_rank(&self, local_rank: u32) -> Option<&RankWords> {
        let is_there = u64::from(local_rank) < ranks(&self.geometry());
        // SAFETY: `RankWords` consists of atomics.
        let words = unsafe { self.segment().shared(self.post_begin() + u64::from(local_rank) * RANK_BYTES) };
        words.filter(|_| is_there)
    }

    /// Makes sure of the pages of a lane's cells, and opens it.
    pub fn open_post_lane(&self, sender: u32, receiver: u32) -> io::Result<()> {
        self.reserve_post_cells(sender, receiver)?;
        if let Some(lane) = self.post_lane(sender, receiver) {
            lane.words.open();
        }
        Ok(())
    }

    /// Makes sure of the pages of a lane's cells.
    pub fn reserve_post_cells(&self, sender: u32, receiver: u32) -> io::Result<()> {
        let lane = self.post_index(sender, receiver);
        lane.map_or(Ok(()), |lane| self.segment().reserve(self.post_cells(lane), CELLS_BYTES))
    }

    /// Makes sure of the pages of some of a lane's lockers.
    pub fn open_post_lockers(&self, sender: u32, receiver: u32, lockers: Range<usize>) -> io::Result<()> {
        let Some(lane) = self.post_index(sender, receiver) else { return Ok(()) };
        assert!(lockers.end <= LOCKERS, "a lane has no more");
        let begin = self.post_lockers(lane) + (lockers.start * POST_BYTES_MAX) as u64;
        self.segment().reserve(begin, (lockers.len() * POST_BYTES_MAX) as u64)
    }

    /// Makes sure of the pages of some places of a lane's shelf.
    pub fn open_post_shelf(&self, sender: u32, receiver: u32, places: Range<u32>) -> io::Result<()> {
        let Some(lane) = self.post_index(sender, receiver) else { return Ok(()) };
        assert!(places.end <= PLACES, "a shelf has no more");
        let begin = self.post_shelf(lane) + u64::from(places.start) * PLACE_BYTES;
        self.segment().reserve(begin, places.len() as u64 * PLACE_BYTES)
    }

    /// A rank has died or left: whoever waits for a message of its looks again.
    pub fn leave_post(&self, local_rank: u32) {
        let Some(words) = self.post_rank(local_rank) else { return };
        words.leave();
        for receiver in 0..self.geometry().local_ranks {
            if let Some(lane) = self.post_lane(local_rank, receiver) {
                self.ring_all(receiver, lane.words.take_waiters());
            }
        }
    }

    /// Wakes who sleeps on these doorbells of a rank, a bit each.
    pub fn ring_all(&self, local_rank: u32, doorbells: u64) {
        let indices = (0..u64::BITS).filter(|index| doorbells & 1 << index != 0);
        indices.filter_map(|index| self.doorbell(local_rank, index)).for_each(Doorbell::wake);
    }

    pub(crate) fn reserve_post_words(&self) -> io::Result<()> {
        self.segment().reserve(self.post_begin(), words_bytes(&self.geometry()))
    }

    fn post_begin(&self) -> u64 {
        self.channels().end
    }

    fn post_cells(&self, lane: u64) -> u64 {
        self.post_begin() + words_bytes(&self.geometry()) + lane * CELLS_BYTES
    }

    fn post_lockers(&self, lane: u64) -> u64 {
        self.post_cells(ranks(&self.geometry()).pow(2)) + lane * LOCKERS_BYTES
    }

    fn post_shelf(&self, lane: u64) -> u64 {
        self.post_lockers(ranks(&self.geometry()).pow(2)) + lane * SHELF_BYTES
    }

    fn post_index(&self, sender: u32, receiver: u32) -> Option<u64> {
        let ranks = ranks(&self.geometry());
        let (sender, receiver) = (u64::from(sender), u64::from(receiver));
        (sender < ranks && receiver < ranks && sender != receiver).then_some(sender * ranks + receiver)
    }
}

impl PostLane<'_> {
    /// Places of its shelf that were ever used. None if no receive lies there that is the rank's.
    pub fn used_places(&self) -> u32 {
        if self.shelf().waiting() == 0 { 0 } else { self.shelf().used_places() }
    }

    /// Copies a message to where its envelope says, for message `number`: as much of it as fits.
    #[inline]
    pub fn write(&self, number: u64, envelope: &PostEnvelope, message: &[u8]) {
        let (payload, room) = self.payload(number, envelope);
        // SAFETY: the slice and the payload are at least as long, and the payload is mapped.
        unsafe { mapped::copy_small(NonNull::from(message).cast(), payload, message.len().min(room)) };
    }

    /// Copies message `number` into a slice: as much as fits.
    #[inline]
    pub fn read(&self, number: u64, envelope: &PostEnvelope, into: &mut [u8]) {
        let (payload, room) = self.payload(number, envelope);
        // SAFETY: the slice is ours; it and the payload are at least as long, and the payload is mapped.
        unsafe { mapped::copy_small(payload, NonNull::from(&mut *into).cast(), into.len().min(room)) };
    }

    /// Copies message `number` to where a layout of one block begins: as many of its bytes as fit.
    #[inline]
    pub fn place(&self, number: u64, envelope: &PostEnvelope, to: &Layout) {
        let (payload, room) = self.payload(number, envelope);
        let bytes = envelope.bytes.min(room).min(to.block_bytes as usize);
        if let Some(target) = self.job.range(to.offset, bytes as u64) {
            // SAFETY: the range was checked, and the payload is at least as long and mapped.
            unsafe { mapped::copy_small(payload, target, bytes) };
        }
    }

    /// Where the bytes of message `number` are, and for how many there is room.
    #[inline]
    fn payload(&self, number: u64, envelope: &PostEnvelope) -> (NonNull<u8>, usize) {
        let cell = &self.cells[(number % CELLS) as usize].payload;
        let in_cell = (NonNull::from(cell).cast(), POST_CELL_BYTES);
        if !envelope.is_long() {
            return in_cell;
        }
        let locker = self.job.range(self.lockers + (envelope.locker * POST_BYTES_MAX) as u64, POST_BYTES_MAX as u64);
        locker.map_or(in_cell, |locker| (locker, POST_BYTES_MAX))
    }
}

impl PostMemory for PostLane<'_> {
    #[inline]
    fn words(&self) -> &LaneWords {
        self.words
    }

    #[inline]
    fn sender(&self) -> &RankWords {
        self.sender
    }

    #[inline]
    fn receiver(&self) -> &RankWords {
        self.receiver
    }

    #[inline]
    fn cell(&self, number: u64) -> &CellWords {
        &self.cells[(number % CELLS) as usize].words
    }

    fn place(&self, place: u32) -> &PlaceWords {
        let offset = self.shelf + u64::from(place % PLACES) * PLACE_BYTES;
        // SAFETY: `PlaceWords` consists of atomics.
        unsafe { self.job.segment().shared(offset) }.expect("the shelf lies in the segment")
    }
}
