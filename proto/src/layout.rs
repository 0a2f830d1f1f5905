//! Where a message lies in a segment: one block, or equal blocks at equal distances.

use crate::limits::{BLOCKS_MAX, MESSAGE_BYTES_MAX};

/// `blocks` blocks of `block_bytes`, the first at `offset` of the segment, one every `stride_bytes`.
///
/// On the wire the blocks stand packed, one after the other. A contiguous message has one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// First byte, counted from the start of the segment.
    pub offset: u64,
    /// Bytes of one block.
    pub block_bytes: u64,
    /// Distance between the starts of two blocks, at least `block_bytes`.
    pub stride_bytes: u64,
    /// How many blocks.
    pub blocks: u32,
}

impl Layout {
    /// One block.
    pub fn contiguous(offset: u64, bytes: u64) -> Self {
        Self { offset, block_bytes: bytes, stride_bytes: bytes, blocks: 1 }
    }

    /// Bytes of the message: what travels.
    pub fn bytes(&self) -> u64 {
        self.block_bytes * u64::from(self.blocks)
    }

    /// Bytes from the first to the last: what it spans in memory.
    pub fn span(&self) -> u64 {
        match self.blocks {
            0 => 0,
            blocks => self.stride_bytes * u64::from(blocks - 1) + self.block_bytes,
        }
    }

    /// Whether the numbers are sane: within limits, blocks not overlapping, no overflow.
    ///
    /// Everything else here assumes it, so whoever takes a layout from somebody else asks first.
    pub fn is_valid(&self) -> bool {
        let spanned = self.stride_bytes.checked_mul(u64::from(self.blocks));
        self.blocks <= BLOCKS_MAX
            && (self.blocks <= 1 || self.stride_bytes >= self.block_bytes)
            && self.block_bytes.checked_mul(u64::from(self.blocks)).is_some_and(|b| b <= MESSAGE_BYTES_MAX)
            && spanned.and_then(|s| s.checked_add(self.block_bytes)).is_some_and(|s| s <= 1 << 47)
            && self.offset < 1 << 47
    }

    /// The memory ranges `(offset, bytes)` that hold the packed bytes `from .. from + bytes`.
    ///
    /// The part must lie within the message. Ranges come in message order.
    pub fn ranges(&self, from: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        debug_assert!(from + bytes <= self.bytes(), "part {from}+{bytes} outside of {self:?}");
        let Self { offset, block_bytes, stride_bytes, .. } = *self;
        let mut at = from;
        let end = from + bytes;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let (block, within) = (at / block_bytes, at % block_bytes);
            let part = (block_bytes - within).min(end - at);
            at += part;
            Some((offset + block * stride_bytes + within, part))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_walk_the_blocks_in_message_order() {
        let layout = Layout { offset: 100, block_bytes: 8, stride_bytes: 32, blocks: 3 };
        assert_eq!((layout.bytes(), layout.span()), (24, 72));
        assert_eq!(layout.ranges(0, 24).collect::<Vec<_>>(), [(100, 8), (132, 8), (164, 8)]);
        assert_eq!(layout.ranges(5, 12).collect::<Vec<_>>(), [(105, 3), (132, 8), (164, 1)]);
        assert_eq!(layout.ranges(24, 0).count(), 0);
    }

    #[test]
    fn insane_numbers_are_refused() {
        assert!(Layout::contiguous(0, 0).is_valid());
        assert!(!Layout::contiguous(u64::MAX, 8).is_valid());
        assert!(!Layout { offset: 0, block_bytes: 8, stride_bytes: 4, blocks: 2 }.is_valid());
        assert!(!Layout { offset: 0, block_bytes: u64::MAX, stride_bytes: u64::MAX, blocks: 2 }.is_valid());
        assert!(!Layout { offset: 0, block_bytes: 1, stride_bytes: 1, blocks: u32::MAX }.is_valid());
    }
}
