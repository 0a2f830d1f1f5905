//! Messages that tell their numbers, in sizes that take different ways.

/// Goes through a lane.
pub(crate) const SMALL: usize = 16;
/// Just fits into a cell of a lane, and just does not; into a locker, and not.
pub(crate) const EDGES: [usize; 4] = [2048, 2049, 16384, 16385];
/// The daemon announces it.
pub(crate) const LARGE: usize = 100_000;

pub(crate) fn number_of(message: &[u8]) -> u32 {
    u32::from_le_bytes(message[..4].try_into().unwrap())
}

pub(crate) fn message(number: u32, bytes: usize) -> Vec<u8> {
    let mut message = vec![number as u8; bytes];
    message[..4].copy_from_slice(&number.to_le_bytes());
    message
}

pub(crate) fn assert_is(message: &[u8], number: u32) {
    assert_eq!(number_of(message), number);
    assert!(message[4..].iter().all(|&byte| byte == number as u8), "message {number} is torn");
}
