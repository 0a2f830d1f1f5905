//! What messages contain: eight bytes of identity, then bytes that follow from it. So a received message says which one it is.

use ropeway_proto::Layout;

/// Fills receive buffers while nobody may write to them.
pub const UNTOUCHED: u8 = 0xee;
/// Fills send buffers while nobody may read them.
pub const STALE: u8 = 0xdd;
/// Bytes in front of and behind a buffer that belong to nobody.
const GUARD_BYTES: u64 = 16;

/// The content of message `id`.
pub fn content(id: u64, bytes: u64) -> Vec<u8> {
    let words = (0..bytes.div_ceil(8)).map(|index| if index == 0 { id } else { mix(id.wrapping_add(index << 32)) });
    let mut content: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    content.truncate(bytes as usize);
    content
}

/// The identity of a message, if it is long enough to have one.
pub fn identity(content: &[u8]) -> Option<u64> {
    content.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of the input.
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// A buffer in a node's memory, with a guard on both sides.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Where the message lies.
    pub layout: Layout,
}

impl Buffer {
    /// Appends a buffer of this shape to a node's memory. The layout's offset is ignored.
    pub fn allocate(memory: &mut Vec<u8>, shape: Layout) -> Self {
        let layout = Layout { offset: memory.len() as u64 + GUARD_BYTES, ..shape };
        memory.resize((layout.offset + layout.span() + GUARD_BYTES) as usize, UNTOUCHED);
        Self { layout }
    }

    /// Fills all of it, gaps and guards too.
    pub fn fill(&self, memory: &mut [u8], value: u8) {
        memory[self.range()].fill(value);
    }

    /// Puts a message into it.
    pub fn write(&self, memory: &mut [u8], content: &[u8]) {
        write(memory, self.layout, 0, content);
    }

    /// The first bytes of the message in it.
    pub fn read(&self, memory: &[u8], bytes: u64) -> Vec<u8> {
        read(memory, self.layout, 0, bytes)
    }

    /// Whether it is untouched but for the first bytes of its message.
    pub fn is_untouched_beyond(&self, memory: &[u8], bytes: u64) -> bool {
        let mut rest = memory[self.range()].to_vec();
        for (offset, count) in self.layout.ranges(0, bytes) {
            let start = offset as usize - self.range().start;
            rest[start..start + count as usize].fill(UNTOUCHED);
        }
        // Not one by one, with an end at the first that differs: a sweep looks at gigabytes.
        rest.iter().fold(0, |differs, &byte| differs | (byte ^ UNTOUCHED)) == 0
    }

    fn range(&self) -> std::ops::Range<usize> {
        let start = self.layout.offset - GUARD_BYTES;
        start as usize..(self.layout.offset + self.layout.span() + GUARD_BYTES) as usize
    }
}

/// Copies packed bytes into a layout, from packed position `at`.
pub fn write(memory: &mut [u8], layout: Layout, at: u64, bytes: &[u8]) {
    let mut rest = bytes;
    for (offset, count) in layout.ranges(at, bytes.len() as u64) {
        let (part, behind) = rest.split_at(count as usize);
        memory[offset as usize..][..part.len()].copy_from_slice(part);
        rest = behind;
    }
}

/// Copies packed bytes out of a layout, from packed position `at`.
pub fn read(memory: &[u8], layout: Layout, at: u64, bytes: u64) -> Vec<u8> {
    let ranges = layout.ranges(at, bytes).map(|(offset, count)| &memory[offset as usize..][..count as usize]);
    ranges.collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_which_one_it_is() {
        assert_eq!(identity(&content(77, 20)), Some(77));
        assert_eq!(identity(&content(77, 7)), None);
        assert_ne!(content(1, 20)[8..], content(2, 20)[8..]);
    }

    #[test]
    fn a_byte_in_a_gap_is_noticed() {
        let mut memory = Vec::new();
        let buffer = Buffer::allocate(&mut memory, Layout { offset: 0, block_bytes: 2, stride_bytes: 3, blocks: 4 });
        buffer.write(&mut memory, &content(1, 8));
        assert_eq!(buffer.read(&memory, 8), content(1, 8));
        assert!(buffer.is_untouched_beyond(&memory, 8) && !buffer.is_untouched_beyond(&memory, 6));
        memory[buffer.layout.offset as usize + 2] = 0;
        assert!(!buffer.is_untouched_beyond(&memory, 8));
    }
}
