//! Direct channels: where they lie in the job segment, and how their ends use them.
//!
//! ```text
//!  0        64                    128               256        320              + 4 × cell
//!  +--------+----------+----------+-----------------+----------+----------------+
//!  | header | sender's | recv's   | words of        | words of | cells, small   |
//!  |        | layout   | layout   | small messages  | transfer | messages only  |
//!  +--------+----------+----------+-----------------+----------+----------------+
//! ```
//!
//! If the other end is on another node, 128 bytes for whoever works the wire come before the cells (`wired`), and both ends
//! in the header are the one that is here. Cells of more than 256 bytes together lie elsewhere: what starts touch of many channels is to be on few
//! pages.
//!
//! The daemon writes header and layouts before either end knows the channel, and later only the two words that close it.
//! The ends belong to one job and trust one another; the daemon trusts neither and uses its own copy of the layouts.

mod joined;
mod open;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ropeway_proto::{End, Layout, NodeId, Slot, Status};

use crate::eager::{CELLS, CELLS_MAX, CellWord, EagerSender, EagerWords};
use crate::job::JobSegment;
use crate::request::RequestSlot;
use crate::transfer::{TransferWords, index};
use crate::wired::{WIRED_BYTES, WiredEnd, WiredWords};

pub use open::OpenChannel;

/// One end of a channel: a request of a rank of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndOfChannel {
    /// Index among the node's ranks.
    pub local_rank: u32,
    /// Its request slot.
    pub slot: Slot,
    /// Its buffer.
    pub layout: Layout,
}

/// What both ends and the daemon know of a channel.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Channel {
    bytes: u64,
    cell_bytes: u64,
    piece_bytes: u64,
    /// Where it lies in the segment; zero before it does.
    block: u64,
    /// Where its cells lie.
    first_cell: u64,
    send: EndOfChannel,
    recv: EndOfChannel,
    wired: Option<WiredEnd>,
}

/// The memory that a channel needs, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Of what is near the words of other channels.
    pub words: u64,
    /// Of what may be anywhere. Zero if it has no cells, or small ones.
    pub cells: u64,
}

#[repr(C)]
pub(crate) struct Block {
    header: Header,
    layouts: [LayoutWords; 2],
    pub(crate) eager: EagerWords,
    pub(crate) transfer: TransferWords,
}

impl Block {
    /// Index of an end's rank among the node's.
    pub(crate) fn local_rank(&self, end: End) -> u32 {
        self.header.local_ranks[index(end)].load(Ordering::Relaxed)
    }

    /// Takes an end's buffer out of use. False while somebody is copying from or to it.
    fn withdraw(&self, end: End) -> bool {
        self.eager.withdraw(end) && self.transfer.withdraw(end)
    }
}

#[repr(C, align(64))]
struct Header {
    local_ranks: [AtomicU32; 2],
    slots: [AtomicU32; 2],
    /// Of a message.
    bytes: AtomicU64,
    piece_bytes: AtomicU64,
    /// Where the wire lies that leads to the other end; zero if the other end is here.
    wire: AtomicU64,
    /// Whether messages are small, as this channel's daemon sees it.
    is_small: AtomicU32,
    /// The channel's name there, and in bit 16 which end is here.
    wire_index: AtomicU32,
    /// The other end's rank and node.
    peer: AtomicU32,
    peer_node: AtomicU32,
    first_cell: AtomicU64,
}

#[repr(C)]
struct LayoutWords([AtomicU64; 4]);

const BLOCK_BYTES: u64 = size_of::<Block>() as u64;
const _: () = assert!(BLOCK_BYTES == 320);
/// Cells that together have no more bytes lie behind the words.
const NEAR_CELLS_BYTES: u64 = 256;
/// A cell's word, before its payload.
const WORD_BYTES: u64 = 8;
/// Cells of a channel over a wire together have no more bytes, unless there are only [`CELLS`].
const WIRED_CELLS_BYTES: u64 = 4 << 10;
/// Payload that lies in the same cache line as the cell's word.
pub(crate) const INLINE_BYTES: u64 = 64 - WORD_BYTES;

/// Sizes that decide how a channel's messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Messages up to this size are small: copied at once by whoever comes second.
    pub eager_bytes_max: u64,
    /// Piece in which larger messages are copied.
    pub piece_bytes: u64,
}

impl Channel {
    /// A channel for messages of `bytes` bytes whose other end is on another node. It has to be [given a place](Self::at).
    pub fn new_wired(bytes: u64, own: EndOfChannel, wired: WiredEnd) -> Self {
        let cell_bytes = wired_cell_bytes(bytes, wired.end);
        let (block, first_cell) = Default::default();
        Self {
            block,
            first_cell,
            bytes,
            cell_bytes,
            piece_bytes: bytes.max(1),
            send: own,
            recv: own,
            wired: Some(wired),
        }
    }

    /// A channel for the daemon to [give a place](Self::at) and write down. Both layouts are checked; the receiver's has room.
    pub fn new(thresholds: &Thresholds, send: EndOfChannel, recv: EndOfChannel) -> Self {
        let bytes = send.layout.bytes();
        let is_small = bytes <= thresholds.eager_bytes_max;
        let cell_bytes = if is_small { cell_bytes(bytes) } else { 0 };
        let (block, first_cell, wired) = Default::default();
        Self { block, first_cell, bytes, cell_bytes, piece_bytes: thresholds.piece_bytes.max(1), send, recv, wired }
    }

    /// The memory it needs.
    pub fn footprint(&self) -> Footprint {
        let cells = u64::from(self.cells()) * self.cell_bytes;
        match cells <= NEAR_CELLS_BYTES {
            true => Footprint { words: self.words_bytes() + cells, cells: 0 },
            false => Footprint { words: self.words_bytes(), cells },
        }
    }

    /// The same channel with its words here and its cells, if they need room of their own, there.
    #[must_use]
    pub fn at(self, block: u64, cells: Option<u64>) -> Self {
        Self { block, first_cell: cells.unwrap_or(block + self.words_bytes()), ..self }
    }

    fn words_bytes(&self) -> u64 {
        BLOCK_BYTES + if self.wired.is_some() { WIRED_BYTES } else { 0 }
    }

    /// Writes the channel down for its ends, in memory that may have been anything. The daemon's part.
    pub fn write(&self, job: &JobSegment) -> Option<()> {
        let block = self.words(job)?;
        let header = &block.header;
        for (index, end) in [self.send, self.recv].iter().enumerate() {
            header.local_ranks[index].store(end.local_rank, Ordering::Relaxed);
            header.slots[index].store(end.slot, Ordering::Relaxed);
            block.layouts[index].store(&end.layout);
        }
        header.bytes.store(self.bytes, Ordering::Relaxed);
        header.is_small.store(u32::from(self.is_small()), Ordering::Relaxed);
        header.piece_bytes.store(self.piece_bytes, Ordering::Relaxed);
        header.first_cell.store(self.first_cell, Ordering::Relaxed);
        header.wire.store(self.wired.map_or(0, |wired| wired.wire), Ordering::Relaxed);
        if let Some(WiredEnd { index, end, peer, node, .. }) = self.wired {
            let index = u32::from(index) | u32::from(end == End::Recv) << 16;
            header.wire_index.store(index, Ordering::Relaxed);
            header.peer.store(peer, Ordering::Relaxed);
            header.peer_node.store(node.0.into(), Ordering::Relaxed);
            self.wired_words(job)?.reset();
        }
        block.eager.reset();
        block.transfer.reset();
        if self.is_small() {
            (0..self.cells()).try_for_each(|number| self.cell_word(job, number).map(CellWord::reset))?;
        }
        Some(())
    }

    /// Reads the channel at `block`. An end's part; `None` if what is there is no channel.
    pub fn read(job: &JobSegment, block: u64) -> Option<Self> {
        // SAFETY: `Block` consists of atomics.
        let words = unsafe { job.segment().shared::<Block>(block) }?;
        let header = &words.header;
        let end = |index: usize| EndOfChannel {
            local_rank: header.local_ranks[index].load(Ordering::Relaxed),
            slot: header.slots[index].load(Ordering::Relaxed),
            layout: words.layouts[index].load(),
        };
        let bytes = header.bytes.load(Ordering::Relaxed);
        let is_small = header.is_small.load(Ordering::Relaxed) != 0;
        let piece_bytes = header.piece_bytes.load(Ordering::Relaxed);
        let first_cell = header.first_cell.load(Ordering::Relaxed);
        let (send, recv) = (end(0), end(1));
        let is_sane = [send, recv].iter().all(|end| job.slot(end.local_rank, end.slot).is_some())
            && bytes <= send.layout.bytes().min(recv.layout.bytes())
            && piece_bytes > 0;
        let wired = header.wired();
        let cell_bytes = match &wired {
            _ if !is_small => 0,
            Some(wired) => wired_cell_bytes(bytes, wired.end),
            None => cell_bytes(bytes),
        };
        is_sane.then_some(Self { block, first_cell, bytes, cell_bytes, piece_bytes, send, recv, wired })
    }

    /// Its wire, if its other end is on another node.
    pub fn wired(&self) -> Option<&WiredEnd> {
        self.wired.as_ref()
    }

    /// Where it lies.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Where its cells lie.
    pub fn first_cell(&self) -> u64 {
        self.first_cell
    }

    /// Bytes of its messages.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether messages stay in this end's buffer until whoever works the wire takes them: there is no room for them in cells.
    pub(crate) fn parks(&self) -> bool {
        self.wired.is_some_and(|wired| parks(self.bytes, wired.end))
    }

    /// How many messages it has cells for.
    #[inline]
    pub fn cells(&self) -> u32 {
        if self.wired.is_some() { wired_cells(self.bytes) } else { CELLS }
    }

    /// Its sending end, whose next small message has this number.
    pub fn sender(&self, number: u32) -> EagerSender {
        let sender = EagerSender::at(number).with_cells(self.cells());
        if self.parks() { sender.parking() } else { sender }
    }

    /// Whether its messages are small ones.
    pub fn is_small(&self) -> bool {
        self.cell_bytes > 0
    }

    /// One of its ends.
    pub fn end(&self, end: End) -> &EndOfChannel {
        match end {
            End::Send => &self.send,
            End::Recv => &self.recv,
        }
    }

    /// Tells an end that the other one is gone, and wakes it. The daemon's part.
    pub fn close(&self, job: &JobSegment, end: End, why: Status) {
        if let Some(words) = self.words(job) {
            // SYNC channel-closed (store): what the other end has still done before the word.
            words.eager.closed(end).store(why.code(), Ordering::Release);
            self.wake_end(job, end);
        }
    }

    /// Takes an end's buffer out of use. False while somebody is copying from or to it. The daemon's part.
    pub fn withdraw(&self, job: &JobSegment, end: End) -> bool {
        self.words(job).is_none_or(|words| words.withdraw(end))
    }

    fn words<'a>(&self, job: &'a JobSegment) -> Option<&'a Block> {
        // SAFETY: `Block` consists of atomics.
        unsafe { job.segment().shared(self.block) }
    }

    fn cell(&self, number: u32) -> u64 {
        self.first_cell.saturating_add(u64::from(number % self.cells()) * self.cell_bytes)
    }

    fn wired_words<'a>(&self, job: &'a JobSegment) -> Option<&'a WiredWords> {
        // SAFETY: `WiredWords` consists of atomics.
        unsafe { job.segment().shared(self.block + BLOCK_BYTES) }
    }

    fn cell_word<'a>(&self, job: &'a JobSegment, number: u32) -> Option<&'a CellWord> {
        // SAFETY: `CellWord` is an atomic.
        unsafe { job.segment().shared(self.cell(number)) }
    }

    fn cell_layout(&self, number: u32) -> Layout {
        Layout::contiguous(self.cell(number) + WORD_BYTES, self.bytes)
    }

    fn wake_end(&self, job: &JobSegment, end: End) {
        let EndOfChannel { local_rank, slot, .. } = *self.end(end);
        let Some(doorbell) = job.slot(local_rank, slot).and_then(RequestSlot::take_waiter) else { return };
        if let Some(doorbell) = job.doorbell(local_rank, doorbell) {
            doorbell.wake();
        }
    }
}

impl Header {
    fn wired(&self) -> Option<WiredEnd> {
        let wire = self.wire.load(Ordering::Relaxed);
        let index = self.wire_index.load(Ordering::Relaxed);
        (wire != 0).then(|| WiredEnd {
            wire,
            index: index as u16,
            end: if index >> 16 == 0 { End::Send } else { End::Recv },
            peer: self.peer.load(Ordering::Relaxed),
            node: NodeId(self.peer_node.load(Ordering::Relaxed) as u16),
        })
    }
}

impl LayoutWords {
    fn store(&self, layout: &Layout) {
        let Layout { offset, block_bytes, stride_bytes, blocks } = *layout;
        for (word, value) in self.0.iter().zip([offset, block_bytes, stride_bytes, blocks.into()]) {
            word.store(value, Ordering::Relaxed);
        }
    }

    fn load(&self) -> Layout {
        let [offset, block_bytes, stride_bytes, blocks] =
            [0, 1, 2, 3].map(|index| self.0[index].load(Ordering::Relaxed));
        Layout { offset, block_bytes, stride_bytes, blocks: blocks as u32 }
    }
}

fn cell_bytes(bytes: u64) -> u64 {
    (WORD_BYTES + bytes).next_multiple_of(64)
}

fn wired_cell_bytes(bytes: u64, end: End) -> u64 {
    cell_bytes(if parks(bytes, end) { 0 } else { bytes })
}

/// Both sides of a wire have the same number, a power of two.
fn wired_cells(bytes: u64) -> u32 {
    let fitting = (WIRED_CELLS_BYTES / cell_bytes(bytes)).max(1).ilog2();
    (1 << fitting).clamp(CELLS, CELLS_MAX)
}

/// A start for a wire puts only what lies beside the word into a cell: lines that whoever works the wire has had come from his core, and all that
/// takes longer than a start should.
fn parks(bytes: u64, end: End) -> bool {
    end == End::Send && bytes > INLINE_BYTES
}
