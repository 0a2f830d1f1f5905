//! Node ↔ node, one job: the 16-byte header in front of every small message of a wire, little-endian.
//!
//! A wire is a connection between two nodes of a job that carries the small messages of bound channels and nothing else, so
//! that whoever waits can move them, be it a daemon or a rank.
//!
//! ```text
//!  0      1     2         4        8       12    16
//!  +------+-----+---------+--------+-------+-----+
//!  | kind |  0  | channel | number | value | crc |
//!  +------+-----+---------+--------+-------+-----+
//! ```
//!
//! `channel` is the receiving side's name of it; both sides told each other theirs when the channel was bound
//! ([`Frame::Bound`](crate::Frame::Bound), [`Frame::Wired`](crate::Frame::Wired)). `crc` is CRC-32C over the 12 bytes before.
//!
//! | kind | `number` | `value` | says |
//! |---|---|---|---|
//! | `Message` | of the message, from 0 | its bytes, which follow | a message of the channel |
//! | `Taken` | how many | 0 | so many messages of the channel were taken: credit |
//! | `End` | 0 | status code | the last word about the channel from this side |

use crate::completion::Status;
use crate::limits::WIRE_BYTES_MAX;

/// Bytes of a header.
pub const WIRE_HEADER_BYTES: usize = 16;

/// What a header on a wire says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum WireFrame {
    /// Message `number` of a channel; `bytes` bytes of payload follow.
    Message { channel: u16, number: u32, bytes: u32 },
    /// The receiver has taken `count` messages in all.
    Taken { channel: u16, count: u32 },
    /// This side has nothing more to say about the channel, because of `why`.
    End { channel: u16, why: Status },
}

/// Why 16 bytes are not a header. The wire is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The checksum does not fit the bytes.
    #[error("wire header checksum mismatch")]
    Checksum,
    /// Unknown kind, or fields that its kind does not have.
    #[error("a wire header of kind {0} that is none")]
    Malformed(u8),
}

const MESSAGE: u8 = 1;
const TAKEN: u8 = 2;
const END: u8 = 3;
const CRC_OFFSET: usize = WIRE_HEADER_BYTES - 4;

impl WireFrame {
    /// The header as it goes over the wire.
    pub fn encode(&self) -> [u8; WIRE_HEADER_BYTES] {
        let (kind, channel, number, value) = match *self {
            Self::Message { channel, number, bytes } => (MESSAGE, channel, number, bytes),
            Self::Taken { channel, count } => (TAKEN, channel, count, 0),
            Self::End { channel, why } => (END, channel, 0, why.code()),
        };
        let mut bytes = [0; WIRE_HEADER_BYTES];
        bytes[0] = kind;
        bytes[2..4].copy_from_slice(&channel.to_le_bytes());
        bytes[4..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..12].copy_from_slice(&value.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CRC_OFFSET]);
        bytes[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads a header. The bytes may be anything; which channels there are is for others to look up.
    pub fn decode(bytes: &[u8; WIRE_HEADER_BYTES]) -> Result<Self, WireError> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if word(CRC_OFFSET) != crc32c::crc32c(&bytes[..CRC_OFFSET]) {
            return Err(WireError::Checksum);
        }
        let (kind, channel) = (bytes[0], u16::from_le_bytes([bytes[2], bytes[3]]));
        let (number, value) = (word(4), word(8));
        let frame = match kind {
            MESSAGE if u64::from(value) <= WIRE_BYTES_MAX => Some(Self::Message { channel, number, bytes: value }),
            TAKEN if value == 0 => Some(Self::Taken { channel, count: number }),
            END if number == 0 => Status::from_code(value).map(|why| Self::End { channel, why }),
            _ => None,
        };
        frame.filter(|_| bytes[1] == 0).ok_or(WireError::Malformed(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_has_its_golden_bytes() {
        let bytes = WireFrame::Message { channel: 0x0102, number: 0x0304_0506, bytes: 0x0708 }.encode();
        let golden = [1, 0, 2, 1, 6, 5, 4, 3, 8, 7, 0, 0];
        assert_eq!(bytes[..12], golden);
        assert_eq!(bytes[12..], crc32c::crc32c(&golden).to_le_bytes());
    }

    #[test]
    fn every_frame_survives_the_wire() {
        for frame in [
            WireFrame::Message { channel: 1, number: u32::MAX, bytes: 8 },
            WireFrame::Taken { channel: 2, count: 3 },
            WireFrame::End { channel: u16::MAX, why: Status::RankFailed },
        ] {
            assert_eq!(WireFrame::decode(&frame.encode()), Ok(frame));
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_refused() {
        let bytes = WireFrame::Message { channel: 1, number: 0, bytes: WIRE_BYTES_MAX as u32 + 1 }.encode();
        assert_eq!(WireFrame::decode(&bytes), Err(WireError::Malformed(MESSAGE)));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(kind in 0u8..5, seal in any::<bool>(), mut bytes in any::<[u8; WIRE_HEADER_BYTES]>()) {
            (bytes[0], bytes[1]) = (kind, 0);
            if seal {
                let crc = crc32c::crc32c(&bytes[..CRC_OFFSET]);
                bytes[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
            }
            if let Ok(frame) = WireFrame::decode(&bytes) {
                prop_assert_eq!(frame.encode(), bytes);
            }
        }
    }
}
