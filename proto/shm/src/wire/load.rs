//! What leaves with one system call: what lies in the buffer, and messages that are sent straight from where their senders have them.
//!
//! ```text
//!  buffer    | small messages, credit | header | header | header |
//!                                          └─► message └─► message └─► message      in the senders' memory
//! ```
//!
//! Copying a large message into the buffer costs bandwidth: windows of 16 KiB went from 5.5 to 8.1 GB/s when they were lent, and the buffers
//! twice as large. Small ones are copied, so that more of them leave together: if 8 KiB were lent, windows of them would take a fifth
//! longer. Behind one that is lent nothing else follows in the buffer: of those that find no room only the first has a part that has left,
//! and there is room for its rest.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use ropeway_proto::{End, Layout};

use super::{HEADER_BYTES, WORDS_BYTES, Wire, WireChannels, WireWords, buffer_of};
use crate::vectored::Gather;

pub(super) struct Load {
    /// The part of the buffer that holds bytes.
    pub(super) filled: Range<u32>,
    /// Whether messages may be lent.
    lends: bool,
    lent: [Lent; LENT_MAX],
    lent_count: usize,
}

/// A message that was claimed.
#[derive(Clone, Copy, Default)]
pub(super) struct Lent {
    /// Its channel.
    pub(super) index: u16,
    pub(super) number: u32,
    pub(super) bytes: u32,
    /// Where its header is in the buffer.
    pub(super) header: u32,
}

/// Messages of that size are lent.
const LENT_BYTES_MIN: u32 = 16 << 10;
/// Messages that leave with one system call.
const LENT_MAX: usize = 16;

impl Load {
    pub(super) fn new(filled: Range<u32>, lends: bool) -> Self {
        Self { filled, lends, lent: Default::default(), lent_count: 0 }
    }

    /// In the order they follow each other.
    pub(super) fn lent(&self) -> &[Lent] {
        &self.lent[..self.lent_count]
    }

    /// Whether the buffer has room for a header and so many bytes behind what it holds.
    pub(super) fn has_room(&self, bytes: u32) -> bool {
        self.lent_count == 0 && self.fits(bytes)
    }

    /// Whether another message may be lent, and its rest would find room.
    pub(super) fn may_lend(&self, bytes: u32) -> bool {
        self.lends && bytes >= LENT_BYTES_MIN && self.lent_count < LENT_MAX && self.fits(bytes)
    }

    /// Its header is written, at the end.
    pub(super) fn lend(&mut self, lent: Lent) {
        self.lent[self.lent_count] = lent;
        self.lent_count += 1;
        self.filled.end += HEADER_BYTES;
    }

    fn fits(&self, bytes: u32) -> bool {
        buffer_of(self.filled.start).end - self.filled.end >= HEADER_BYTES + bytes
    }
}

impl Wire {
    /// Sends what is in the buffer and what is lent, as much as there is room for.
    pub(super) fn hand_over(
        &self,
        socket: &OwnedFd,
        load: &mut Load,
        channels: &mut impl WireChannels,
    ) -> io::Result<()> {
        let mut gather = Gather::new();
        let mut at = load.filled.start;
        for lent in load.lent() {
            let (header_end, bytes) = (lent.header + HEADER_BYTES, u64::from(lent.bytes));
            let layout = channels.find(lent.index).map(|open| open.channel().end(End::Send).layout);
            let header =
                gather.push_memory(&self.job, &self.out_at(at, header_end - at), 0, u64::from(header_end - at));
            let pushed = layout.map_or(Ok(0), |layout| gather.push_memory(&self.job, &layout, 0, bytes));
            at = header_end;
            // Of a layout with many pieces some may be left over, as if the connection had no room for them.
            if header.is_err() || pushed != Ok(bytes) {
                break;
            }
        }
        if load.lent().is_empty() {
            let bytes = load.filled.end - at;
            gather.push_memory(&self.job, &self.out_at(at, bytes), 0, bytes.into()).map_err(io::Error::other)?;
        }
        let sent = gather.write(socket.as_fd());
        self.settle(load, *sent.as_ref().unwrap_or(&0) as u32, channels);
        sent.map(drop)
    }

    /// So many bytes have left. All messages that were lent go back: those that have left, the one of which a part has, whose rest is in the
    /// buffer then, and the others, which stay where they are.
    fn settle(&self, load: &mut Load, mut sent: u32, channels: &mut impl WireChannels) {
        let (WireWords { due, out, .. }, start) = (self.words(), load.filled.start);
        let mut end = load.lent().first().map_or(load.filled.end, |lent| lent.header);
        load.filled = start + sent.min(end - start)..end;
        sent = sent.saturating_sub(end - start);
        for place in 0..load.lent_count {
            let lent = load.lent[place];
            // Under the turn a channel keeps its name.
            let Some(open) = channels.find(lent.index) else { continue };
            if sent == 0 {
                open.unclaim(lent.number);
                due.mark(lent.index);
                continue;
            }
            let header = sent.min(HEADER_BYTES);
            let (left, bytes) = ((sent - header).min(lent.bytes), lent.bytes);
            let rest = bytes - left;
            end = lent.header + HEADER_BYTES;
            open.copy_part(&open.channel().end(End::Send).layout, left.into(), &self.out_at(end, rest), 0, rest.into());
            load.filled = lent.header + header..end + rest;
            open.release(lent.number);
            out.count(1, HEADER_BYTES + bytes);
            sent -= header + left;
        }
        load.lent_count = 0;
        out.set_filled(&mut load.filled);
    }

    /// Where a part of the buffer lies.
    fn out_at(&self, at: u32, bytes: u32) -> Layout {
        Layout::contiguous(self.block + WORDS_BYTES + u64::from(at), bytes.into())
    }
}
