//! Messages that lie in a buffer as blocks at equal distances: a column, a face, every other element.

use ropeway_proto::Layout;
use ropeway_proto::limits::{BLOCKS_MAX, MESSAGE_BYTES_MAX};

use crate::Error;

/// A part of a buffer, in elements: `blocks` blocks of `block_len`, the first at `first`, one every `stride`.
///
/// ```text
///           first        stride
///             |---------------------------|
///    . . . . .[block_len].................[block_len].................[block_len] . . .
/// ```
///
/// A column of a row-major matrix is `Strided { first: column, blocks: rows, block_len: 1, stride: columns }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// First element.
    pub first: usize,
    /// How many blocks.
    pub blocks: usize,
    /// Elements of one block.
    pub block_len: usize,
    /// Distance between the starts of two blocks, at least `block_len`.
    pub stride: usize,
}

impl Strided {
    /// All of a buffer.
    pub(crate) fn whole(elements: usize) -> Self {
        Self { first: 0, blocks: 1, block_len: elements, stride: elements }
    }

    /// One past the last element; `None` if the numbers make no sense.
    fn end(&self) -> Option<usize> {
        if self.blocks == 0 || self.block_len == 0 {
            return Some(self.first);
        }
        let overlaps = self.blocks > 1 && self.stride < self.block_len;
        if overlaps || self.blocks > BLOCKS_MAX as usize {
            return None;
        }
        self.stride.checked_mul(self.blocks - 1)?.checked_add(self.block_len)?.checked_add(self.first)
    }

    /// The part of a buffer of `elements` elements that begins at `offset` of the segment.
    pub(crate) fn layout(&self, offset: u64, elements: usize, element_bytes: usize) -> Result<Layout, Error> {
        if self.end().is_none_or(|end| end > elements) {
            return Err(Error::LayoutOutOfBounds { end: self.end().unwrap_or(usize::MAX), elements });
        }
        let bytes = |elements: usize| elements as u64 * element_bytes as u64;
        let offset = offset + bytes(self.first);
        let is_contiguous = self.blocks == 1 || self.stride == self.block_len;
        let layout = match bytes(self.blocks * self.block_len) {
            total if is_contiguous || total == 0 => Layout::contiguous(offset, total),
            _ => Layout {
                offset,
                block_bytes: bytes(self.block_len),
                stride_bytes: bytes(self.stride),
                blocks: self.blocks as u32,
            },
        };
        match layout.bytes() {
            bytes if bytes > MESSAGE_BYTES_MAX => Err(Error::MessageTooLarge { bytes }),
            _ => Ok(layout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMN: Strided = Strided { first: 2, blocks: 3, block_len: 1, stride: 5 };

    #[test]
    fn a_column_becomes_blocks_of_bytes() {
        let layout = COLUMN.layout(1000, 15, 4).unwrap();
        assert_eq!(layout, Layout { offset: 1008, block_bytes: 4, stride_bytes: 20, blocks: 3 });
        assert!(layout.is_valid());
    }

    #[test]
    fn the_last_block_may_end_with_the_buffer_but_not_beyond() {
        assert!(COLUMN.layout(0, 13, 4).is_ok());
        let error = COLUMN.layout(0, 12, 4).unwrap_err();
        assert!(matches!(error, Error::LayoutOutOfBounds { end: 13, elements: 12 }));
    }

    #[test]
    fn adjacent_blocks_are_one() {
        let layout = Strided { first: 1, blocks: 4, block_len: 2, stride: 2 }.layout(0, 9, 8).unwrap();
        assert_eq!(layout, Layout::contiguous(8, 64));
        assert_eq!(Strided::whole(9).layout(64, 9, 8).unwrap(), Layout::contiguous(64, 72));
    }

    #[test]
    fn nothing_is_a_message_too() {
        for (blocks, block_len) in [(0, 7), (7, 0)] {
            let layout = Strided { first: 3, blocks, block_len, stride: 9 }.layout(0, 3, 8).unwrap();
            assert_eq!(layout, Layout::contiguous(24, 0));
        }
    }

    #[test]
    fn overlapping_or_overflowing_blocks_are_refused() {
        let overlapping = Strided { first: 0, blocks: 2, block_len: 3, stride: 2 };
        let overflowing = Strided { first: 0, blocks: 3, block_len: 1, stride: usize::MAX };
        let too_many = Strided { first: 0, blocks: BLOCKS_MAX as usize + 1, block_len: 1, stride: 2 };
        let wrapped = Strided { first: 0, blocks: 1 << 33, block_len: 1, stride: 2 };
        for part in [overlapping, overflowing, too_many, wrapped] {
            assert!(matches!(part.layout(0, usize::MAX, 8), Err(Error::LayoutOutOfBounds { .. })), "{part:?}");
        }
    }
}
