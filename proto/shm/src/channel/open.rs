//! A channel as those use it who have its segment mapped: its addresses checked, and what small and large messages do there.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ropeway_proto::{End, Layout, Status};

use super::{Block, Channel, EndOfChannel, INLINE_BYTES, WORD_BYTES};
use crate::eager::{CellWord, EagerMemory, EagerWords};
use crate::job::JobSegment;
use crate::mapped;
use crate::request::RequestSlot;
use crate::transfer::{STREAMED_BYTES_MIN, TransferMemory, TransferWords, index};
use crate::wire::WireWords;
use crate::wired::WiredWords;

/// A channel and the segment it lies in: with every address checked and known, so that a message costs no lookup. What starts need comes
/// first, so that it is in as few cache lines as can be.
#[repr(C)]
pub struct OpenChannel {
    /// Of this channel, in `job`.
    words: NonNull<Block>,
    /// The wire's, in `job`, if the other end is on another node.
    wire: Option<NonNull<WireWords>>,
    /// The channel's name there.
    wire_index: u16,
    /// Their number is a power of two.
    last_cell: u32,
    /// The cells, of `channel.cell_bytes` each, in `job`.
    cells: NonNull<u8>,
    /// The request slots of both ends, in `job`.
    slots: [NonNull<RequestSlot>; 2],
    /// The buffers of both ends, `channel.bytes` each, in `job`, if neither is strided.
    flat: Option<(NonNull<u8>, NonNull<u8>)>,
    pub(super) channel: Channel,
    /// What it has for its wire, in `job`, if it has one.
    wired: Option<NonNull<WiredWords>>,
    /// Keeps all of that mapped.
    pub(super) job: Arc<JobSegment>,
}

// SAFETY: the pointers lead into the mapping that `job` keeps, which belongs to no thread, to atomics and bytes that are
// copied opaquely.
unsafe impl Send for OpenChannel {}
// SAFETY: as above.
unsafe impl Sync for OpenChannel {}

impl Channel {
    /// The channel and its memory, to run the protocols on. Everything is checked here, once. `None` if it is not all there.
    pub fn on(&self, job: &Arc<JobSegment>) -> Option<OpenChannel> {
        let words = NonNull::from(self.words(job)?);
        let slot = |end: &EndOfChannel| Some(NonNull::from(job.slot(end.local_rank, end.slot)?));
        let cells = job.range(self.cell(0), u64::from(self.cells()) * self.cell_bytes)?;
        let flat = |end: &EndOfChannel| match end.layout {
            Layout { blocks: 1, offset, .. } => job.range(offset, self.bytes),
            _ => None,
        };
        let (wire, wired) = match &self.wired {
            Some(wired) => {
                (Some(NonNull::from(WireWords::at(job, wired.wire)?)), Some(NonNull::from(self.wired_words(job)?)))
            }
            None => (None, None),
        };
        Some(OpenChannel {
            words,
            wire,
            wired,
            wire_index: self.wired.map_or(0, |wired| wired.index),
            cells,
            last_cell: self.cells() - 1,
            slots: [slot(&self.send)?, slot(&self.recv)?],
            flat: flat(&self.send).zip(flat(&self.recv)),
            channel: *self,
            job: Arc::clone(job),
        })
    }
}

impl OpenChannel {
    /// The channel.
    #[inline]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Whether its other end is on another node.
    #[inline]
    pub fn is_wired(&self) -> bool {
        self.wire.is_some()
    }

    /// Where it lies.
    pub(crate) fn block(&self) -> NonNull<Block> {
        self.words
    }

    /// The request of an end.
    pub(crate) fn slot(&self, end: End) -> NonNull<RequestSlot> {
        self.slots[index(end)]
    }

    /// The segment it lies in.
    pub(crate) fn job(&self) -> &JobSegment {
        &self.job
    }

    /// How many messages it has cells for.
    #[inline]
    pub(crate) fn cells(&self) -> u32 {
        self.last_cell + 1
    }

    /// Whether each message is a line and lies in one piece: cell and word are all there is to sending it.
    pub fn has_lines(&self) -> bool {
        self.channel.is_small() && !self.is_placed() && self.flat.is_some()
    }

    /// Whether fewer ranks of this node are awake than there are cores.
    #[inline]
    pub fn has_free_core(&self) -> bool {
        self.job.has_free_core()
    }

    /// Why the other end is gone, if it is.
    #[inline]
    pub fn closed(&self, end: End) -> Option<Status> {
        // SYNC channel-closed (load).
        match self.content().eager.closed(end).load(Ordering::Acquire) {
            0 => None,
            code => Some(Status::from_code(code).unwrap_or(Status::PeerFreed)),
        }
    }

    /// Tells the end that is here that the other one is gone, and wakes it.
    pub(crate) fn close(&self, end: End, why: Status) {
        // SYNC channel-closed (store).
        self.content().eager.closed(end).store(why.code(), Ordering::Release);
        self.wake_end(end);
    }

    #[inline]
    pub(crate) fn wired_words(&self) -> Option<&WiredWords> {
        // SAFETY: as for the block.
        self.wired.as_ref().map(|words| unsafe { words.as_ref() })
    }

    /// Whoever works the wire finds something to do for this channel.
    #[inline]
    pub(crate) fn mark_due(&self) {
        if let Some(wire) = &self.wire {
            // SAFETY: as for the block.
            unsafe { wire.as_ref() }.due.mark(self.wire_index);
        }
    }

    /// Whether a message waits for credit.
    pub(crate) fn mark_starving(&self, is_starving: bool) {
        if let Some(wire) = &self.wire {
            // SAFETY: as for the block.
            let starving = unsafe { &wire.as_ref().starving };
            if is_starving { starving.mark(self.wire_index) } else { starving.unmark(self.wire_index) }
        }
    }

    #[inline]
    pub(super) fn content(&self) -> &Block {
        // SAFETY: checked when the channel was opened, and mapped as long as `job` lives; `Block` consists of atomics.
        unsafe { self.words.as_ref() }
    }

    #[inline]
    pub(crate) fn cell_at(&self, number: u32) -> NonNull<u8> {
        // SAFETY: there are so many cells, and one more.
        unsafe { self.cells.add((u64::from(number & self.last_cell) * self.channel.cell_bytes) as usize) }
    }

    #[inline]
    pub(crate) fn payload_at(&self, number: u32) -> NonNull<u8> {
        // SAFETY: a cell has room for its word and the payload.
        unsafe { self.cell_at(number).add(WORD_BYTES as usize) }
    }

    #[inline]
    pub(crate) fn wake_end(&self, end: End) {
        // SAFETY: as for the block.
        if let Some(doorbell) = unsafe { self.slots[index(end)].as_ref() }.take_waiter() {
            self.ring(end, doorbell);
        }
    }

    /// Wakes an end, if it sleeps, for what was said of several channels before one SeqCst fence.
    #[inline]
    pub fn wake_end_behind_fence(&self, end: End) {
        // SAFETY: as for the block.
        if let Some(doorbell) = unsafe { self.slots[index(end)].as_ref() }.take_waiter_behind_fence() {
            self.ring(end, doorbell);
        }
    }

    #[cold]
    fn ring(&self, end: End, doorbell: u32) {
        if let Some(doorbell) = self.job.doorbell(self.channel.end(end).local_rank, doorbell) {
            doorbell.wake();
        }
    }

    #[cold]
    fn copy_strided(&self, from: &Layout, to: &Layout) {
        self.copy_part(from, 0, to, 0, self.channel.bytes);
    }

    /// The buffer of an end, if neither is strided. Of a channel over a wire both ends are the one that is here.
    #[inline]
    pub(crate) fn flat(&self, end: End) -> Option<NonNull<u8>> {
        self.flat.map(|(send, recv)| if end == End::Send { send } else { recv })
    }

    /// Whether a piece of so many bytes, which is about to be copied, is to go past the caches.
    fn streams(&self, piece: u32, bytes: u64) -> bool {
        if self.channel.bytes < STREAMED_BYTES_MIN {
            return false;
        }
        let copied_bytes = self.job.count_copied(bytes);
        let words = TransferMemory::words(self);
        if piece == 0 {
            words.begin_copying(copied_bytes);
        }
        words.is_streamed()
    }

    pub(crate) fn copy_part(&self, from: &Layout, from_at: u64, to: &Layout, to_at: u64, bytes: u64) {
        // Layouts were checked when the channel was made; an end that finds another one harms itself only.
        let _ = self.job.copy(from, from_at, to, to_at, bytes);
    }
}

impl EagerMemory for OpenChannel {
    #[inline]
    fn words(&self) -> &EagerWords {
        &self.content().eager
    }

    #[inline]
    fn cell(&self, number: u32) -> &CellWord {
        // SAFETY: a cell begins with its word, which is an atomic.
        unsafe { self.cell_at(number).cast().as_ref() }
    }

    #[inline]
    fn fill(&self, number: u32) {
        match self.flat {
            // SAFETY: both ranges were checked when the channel was opened.
            Some((from, _)) => unsafe {
                mapped::copy_small(from, self.payload_at(number), self.channel.bytes as usize)
            },
            None => self.copy_strided(&self.channel.send.layout, &self.channel.cell_layout(number)),
        }
    }

    #[inline]
    fn empty(&self, number: u32) {
        match self.flat {
            // SAFETY: both ranges were checked when the channel was opened.
            Some((_, to)) => unsafe { mapped::copy_small(self.payload_at(number), to, self.channel.bytes as usize) },
            None => self.copy_strided(&self.channel.cell_layout(number), &self.channel.recv.layout),
        }
    }

    fn place(&self) {
        self.copy_strided(&self.channel.send.layout, &self.channel.recv.layout);
    }

    #[inline]
    fn is_placed(&self) -> bool {
        self.channel.bytes > INLINE_BYTES
    }

    #[inline]
    fn wake_receiver(&self) {
        match self.is_wired() {
            true => self.mark_due(),
            false => self.wake_end(End::Recv),
        }
    }

    fn wake_sender(&self) {
        self.wake_end(End::Send);
    }

    #[inline]
    fn has_started(&self, end: End, number: u32) -> bool {
        self.started_with_others(end, number).is_some()
    }
}

impl TransferMemory for OpenChannel {
    #[inline]
    fn words(&self) -> &TransferWords {
        &self.content().transfer
    }

    fn pieces(&self) -> u32 {
        u32::try_from(self.channel.bytes.div_ceil(self.channel.piece_bytes)).unwrap_or(u32::MAX)
    }

    fn copy(&self, piece: u32) {
        let Channel { bytes, piece_bytes, send, recv, .. } = &self.channel;
        let at = u64::from(piece) * piece_bytes;
        let bytes = (*piece_bytes).min(bytes - at);
        match self.flat {
            // SAFETY: both ranges were checked when the channel was opened, and the piece is a part of them.
            Some((from, to)) if self.streams(piece, bytes) => unsafe {
                mapped::stream(from.add(at as usize), to.add(at as usize), bytes as usize);
            },
            _ => self.copy_part(&send.layout, at, &recv.layout, at, bytes),
        }
    }

    fn wake(&self, end: End) {
        self.wake_end(end);
    }

    fn started_until(&self, end: End, number: u32) -> Option<u64> {
        self.started_with_others(end, number)
    }
}
