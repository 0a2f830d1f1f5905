//! Node ↔ node, one job: the 32-byte header in front of every small message of a wire, little-endian.
//!
//! A wire is a connection between two nodes of a job that carries the small messages of bound channels and nothing else, so
//! that whoever waits can move them, be it a daemon or a rank.
//!
//! ```text
//!  0      1     2         4        8       12    16    32
//!  +------+-----+---------+--------+-------+-----+-----+
//!  | kind |  0  | channel | number | value | crc |  0  |
//!  +------+-----+---------+--------+-------+-----+-----+
//! ```
//!
//! So long because of what follows. The kernel gathers header and message in pages of its own, whose beginning the header takes, while the
//! message most often lies at the beginning of a page. String copies on some processors, AMD's Zen 4 among them, take twenty times as long
//! if their target is 1 to 31 bytes behind their source, modulo a page.
//!
//! `channel` is the receiving side's name of it; both sides told each other theirs when the channel was bound
//! ([`Frame::Bound`](crate::Frame::Bound), [`Frame::Wired`](crate::Frame::Wired)). `crc` is CRC-32C over the 12 bytes before.
//!
//! | kind | `number` | `value` | says |
//! |---|---|---|---|
//! | `Message` | of the message, from 0 | its bytes, which follow | a message of the channel |
//! | `Taken` | how many | 0 | so many messages of the channel were taken: credit |
//! | `End` | 0 | status code | the last word about the channel from this side |

use zerocopy::IntoBytes;

use crate::completion::Status;
use crate::limits::WIRE_BYTES_MAX;

/// Bytes of a header.
pub const WIRE_HEADER_BYTES: usize = 32;

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

/// Why so many bytes are not a header. The wire is cut.
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
const CRC_OFFSET: usize = 12;

impl WireFrame {
    /// The header as it goes over the wire.
    pub fn encode(&self) -> [u8; WIRE_HEADER_BYTES] {
        let (kind, channel, number, value) = match *self {
            Self::Message { channel, number, bytes } => (MESSAGE, channel, number, bytes),
            Self::Taken { channel, count } => (TAKEN, channel, count, 0),
            Self::End { channel, why } => (END, channel, 0, why.code()),
        };
        let words = [u64::from(kind) | u64::from(channel) << 16 | u64::from(number) << 32, value.into()];
        let crc = checksum(words);
        zerocopy::transmute!([words[0].to_le(), (words[1] | u64::from(crc) << 32).to_le(), 0, 0])
    }

    /// Reads a header. The bytes may be anything; which channels there are is for others to look up.
    pub fn decode(bytes: &[u8; WIRE_HEADER_BYTES]) -> Result<Self, WireError> {
        let words: [u64; 4] = zerocopy::transmute!(*bytes);
        let [first, second, rest @ ..] = words.map(u64::from_le);
        let words = [first, second];
        if (words[1] >> 32) as u32 != checksum(words) {
            return Err(WireError::Checksum);
        }
        let (kind, channel, number) = (words[0] as u8, (words[0] >> 16) as u16, (words[0] >> 32) as u32);
        let value = words[1] as u32;
        let frame = match kind {
            MESSAGE if u64::from(value) <= WIRE_BYTES_MAX => Some(Self::Message { channel, number, bytes: value }),
            TAKEN if value == 0 => Some(Self::Taken { channel, count: number }),
            END if number == 0 => Status::from_code(value).map(|why| Self::End { channel, why }),
            _ => None,
        };
        frame.filter(|_| bytes[1] == 0 && rest == [0; 2]).ok_or(WireError::Malformed(kind))
    }
}

/// Of all bytes before it. In words, because the bytes in front of one and behind the last are checked one by one, which takes longer than
/// all others.
fn checksum(words: [u64; 2]) -> u32 {
    crc32c::crc32c(&words.map(u64::to_le).as_bytes()[..CRC_OFFSET])
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
        assert_eq!(bytes[12..16], crc32c::crc32c(&golden).to_le_bytes());
        assert_eq!(bytes[16..], [0; 16]);
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
                bytes[CRC_OFFSET..].fill(0);
                bytes[CRC_OFFSET..][..4].copy_from_slice(&crc.to_le_bytes());
            }
            if let Ok(frame) = WireFrame::decode(&bytes) {
                prop_assert_eq!(frame.encode(), bytes);
            }
        }
    }
}
