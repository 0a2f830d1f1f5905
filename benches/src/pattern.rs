//! Data that shows where it comes from.
//!
//! A message's first eight bytes are its *stamp*, the number of the transfer, which is cheap enough to be written and read
//! for every transfer. The rest is a pattern grown from a seed, written before and checked after a batch.

/// Writes the stamp.
pub(crate) fn stamp(message: &mut [u8], number: u64) {
    let bytes = message.len().min(STAMP_BYTES);
    message[..bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
}

/// Whether the message has this stamp, as far as it has room for one.
pub(crate) fn has_stamp(message: &[u8], number: u64) -> bool {
    let bytes = message.len().min(STAMP_BYTES);
    message[..bytes] == number.to_le_bytes()[..bytes]
}

/// Fills everything behind the stamp.
pub(crate) fn fill(message: &mut [u8], seed: u64) {
    let (words, rest) = body_mut(message).as_chunks_mut::<8>();
    let mut expected = seed.wrapping_mul(SPREAD);
    for word in words {
        *word = expected.to_le_bytes();
        expected = expected.wrapping_add(SPREAD);
    }
    rest.copy_from_slice(&expected.to_le_bytes()[..rest.len()]);
}

/// The first byte behind the stamp that is not what `fill` wrote.
pub(crate) fn first_wrong(message: &[u8], seed: u64) -> Option<usize> {
    let (words, rest) = body(message).as_chunks::<8>();
    let mut expected = seed.wrapping_mul(SPREAD);
    for (index, word) in words.iter().enumerate() {
        if *word != expected.to_le_bytes() {
            return Some(STAMP_BYTES + 8 * index);
        }
        expected = expected.wrapping_add(SPREAD);
    }
    let is_right = *rest == expected.to_le_bytes()[..rest.len()];
    (!is_right).then(|| message.len() - rest.len())
}

fn body(message: &[u8]) -> &[u8] {
    &message[message.len().min(STAMP_BYTES)..]
}

fn body_mut(message: &mut [u8]) -> &mut [u8] {
    let begin = message.len().min(STAMP_BYTES);
    &mut message[begin..]
}

const STAMP_BYTES: usize = 8;
/// The golden ratio: multiples of it differ in all bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_byte_is_noticed() {
        for bytes in [1, 7, 8, 9, 16, 21, 64] {
            let mut message = vec![0; bytes];
            fill(&mut message, 3);
            stamp(&mut message, 0x0102_0304_0506_0708);
            assert!(has_stamp(&message, 0x0102_0304_0506_0708));
            assert_eq!(first_wrong(&message, 3), None);
            for byte in 0..bytes {
                message[byte] ^= 1;
                let wrong = first_wrong(&message, 3);
                assert_eq!(has_stamp(&message, 0x0102_0304_0506_0708), byte >= 8);
                assert_eq!(wrong, (byte >= 8).then_some(byte / 8 * 8), "{byte} of {bytes}");
                message[byte] ^= 1;
            }
            assert_eq!(first_wrong(&message, 4).is_some(), bytes > 8);
        }
    }
}
