//! Daemon ↔ daemon: the 64-byte header in front of every payload, little-endian.
//!
//! ```text
//!  0      1     2     4               8          16     24      28       32     36    40        48      56   60    64
//!  +------+-----+-----+---------------+----------+------+-------+--------+------+-----+---------+-------+----+-----+
//!  | kind |flags|  0  | payload_bytes | sequence | job  | comm  | source | dest | tag | channel | bytes | 0  | crc |
//!  +------+-----+-----+---------------+----------+------+-------+--------+------+-----+---------+-------+----+-----+
//!                                                       |   argument     |
//! ```
//!
//! `argument` shares the place of `comm` and `source` in the frames that address a channel and so need neither.
//! `sequence` numbers the frames of a link from 1; the receiver acknowledges them in its heartbeats.
//! `crc` is CRC-32C over the 60 bytes before it. A frame kind leaves the fields it does not use zero.
//!
//! | kind | carries | says |
//! |---|---|---|
//! | `Bind` | envelope, receiver's channel, capacity | a persistent receive wants its sender |
//! | `Bound` | receiver's channel, argument = sender's channel, size, protocol, tag = wire's channel + 1 | here it is |
//! | `Wired` | sender's channel, argument = receiver's channel, tag = wire's channel + 1 | the channel uses the wire, or with 0 it does not |
//! | `WireDown` | nothing | the wire is lost on the sender's side |
//! | `WireFull` | nothing | the sender's side finds no room on the wire: is anybody reading? |
//! | `Unbind` | the peer's channel; of a collective's source = rank or node, bytes = its status | my end is freed, and why |
//! | `Eager` | receiver's channel, payload | a whole small message of a channel |
//! | `Credit` | sender's channel, count | that many eager messages were taken |
//! | `Armed` | sender's channel | the receive is started: release the data |
//! | `Disarm`, `Disarmed` | sender's, receiver's channel | cancel: take `Armed` back; it was still unused |
//! | `Data` | receiver's channel, argument = offset, total size, payload | a piece of a large message |
//! | `Message` | envelope, payload | a whole small one-shot message |
//! | `Announce` | envelope, sender's operation, size | a large one-shot message waits (RTS) |
//! | `Accept` | sender's operation, argument = receiver's | it matched: release the data (CTS) |
//! | `Withdraw`, `Withdrawn` | sender's operation | cancel: forget the announcement; it was still unmatched |
//! | `MessageCredit` | source and dest of the messages, count | that many one-shot messages were taken |
//! | `RankGone` | source = rank, flag = it failed | a process of the sending node has ended |
//! | `Shape` | channel = collective's number, dest = rank, argument and bytes = digest; tag = another rank + 1, flags = difference | what a rank has registered, and who has registered something else |
//! | `Heartbeat` | bytes = last sequence received | the link lives |

use zerocopy::byteorder::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::agreement::{Difference, ShapeDigest, Statement};
use crate::completion::{Cause, Completion, Status};
use crate::ids::{ChannelId, CommId, JobId, Rank, Tag};
use crate::limits::{FRAME_PAYLOAD_MAX, MESSAGE_BYTES_MAX};

/// Bytes of a frame header.
pub const HEADER_BYTES: usize = 64;

/// What a one-shot message is matched by, and who gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// Communicator.
    pub comm: CommId,
    /// Rank that sends.
    pub source: Rank,
    /// Rank that receives.
    pub dest: Rank,
    /// Tag.
    pub tag: Tag,
}

/// What a frame says. `payload_bytes` travel right behind the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Frame {
    /// A persistent receive of `capacity` bytes wants its sender. The next unbound send of that envelope is it.
    Bind { envelope: Envelope, recv: ChannelId, capacity: u64 },
    /// The send that `recv` was matched with. If `is_rendezvous`, it waits for `Armed` before each message.
    /// With `wire`, the sender's name of the channel on the wire, it waits for `Wired`, and for `Armed` only if that says that it stays on the link.
    Bound { recv: ChannelId, send: ChannelId, bytes: u64, is_rendezvous: bool, wire: Option<u16> },
    /// The receiver's name of the channel on the wire; `None` if it stays on the link.
    Wired { send: ChannelId, recv: ChannelId, wire: Option<u16> },
    /// Nothing more is sent over the job's wire, nor taken from it.
    WireDown,
    /// The job's wire has been full for a while.
    WireFull,
    /// The other end of `channel` is freed, if it is a collective's because of this. Frames sent before are still valid.
    Unbind { channel: ChannelId, cause: Option<Cause> },
    /// A whole message for the receive `channel`.
    Eager { channel: ChannelId, payload_bytes: u32 },
    /// `count` eager messages of the send `channel` were taken.
    Credit { channel: ChannelId, count: u32 },
    /// The receive bound to the send `channel` is started.
    Armed { channel: ChannelId },
    /// Takes one `Armed` back, if it is still unused.
    Disarm { channel: ChannelId },
    /// `Disarm` came in time: the receive `channel` will not be written to.
    Disarmed { channel: ChannelId },
    /// Bytes `offset ..` of a message of `total` bytes for the receive `channel`.
    Data { channel: ChannelId, offset: u64, total: u64, payload_bytes: u32 },
    /// A whole one-shot message.
    Message { envelope: Envelope, payload_bytes: u32 },
    /// A one-shot message of `bytes` bytes waits at the sender as `send`.
    Announce { envelope: Envelope, send: ChannelId, bytes: u64 },
    /// The announced message `send` is to go to `recv`, as `Data`.
    Accept { send: ChannelId, recv: ChannelId },
    /// Forgets an announcement, if it is still unmatched.
    Withdraw { envelope: Envelope, send: ChannelId },
    /// `Withdraw` came in time.
    Withdrawn { send: ChannelId },
    /// `count` one-shot messages from `source` to `dest` were taken.
    MessageCredit { source: Rank, dest: Rank, count: u32 },
    /// `rank`, of the sending node, has died (`has_failed`) or left.
    RankGone { rank: Rank, has_failed: bool },
    /// What a member on the sending node has registered as a collective, and who has registered something else, if that is known.
    Shape { number: u64, statement: Statement },
    /// The link lives, and everything up to `acknowledged` has arrived.
    Heartbeat { acknowledged: u64 },
}

/// A frame with the two fields that belong to the link and the job, not to the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of the frame on its link, from 1.
    pub sequence: u64,
    /// The job it belongs to. A heartbeat belongs to none and carries zero.
    pub job: JobId,
    /// What it says.
    pub frame: Frame,
}

/// Why 64 bytes are not a frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum DecodeError {
    /// The checksum does not fit the bytes.
    #[error("header checksum mismatch: {found:#010x}, expected {expected:#010x}")]
    Checksum { found: u32, expected: u32 },
    /// Unknown kind.
    #[error("unknown frame kind {0}")]
    UnknownKind(u8),
    /// A size beyond the limits, or a piece outside of its message.
    #[error("payload of {payload_bytes} bytes at {offset} is outside of a message of {total}")]
    BadSize { payload_bytes: u32, offset: u64, total: u64 },
    /// A field this kind does not have is not zero.
    #[error("unused fields of a frame of kind {0} are not zero")]
    StrayFields(u8),
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, PartialEq, Default)]
#[repr(C)]
struct RawHeader {
    kind: u8,
    flags: u8,
    reserved: U16,
    payload_bytes: U32,
    sequence: U64,
    job: U64,
    comm: U32,
    source: U32,
    dest: U32,
    tag: I32,
    channel: U64,
    bytes: U64,
    reserved_end: U32,
    crc: U32,
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_BYTES);
const CRC_OFFSET: usize = HEADER_BYTES - 4;

mod kind {
    pub(super) const BIND: u8 = 1;
    pub(super) const BOUND: u8 = 2;
    pub(super) const UNBIND: u8 = 3;
    pub(super) const EAGER: u8 = 4;
    pub(super) const CREDIT: u8 = 5;
    pub(super) const ARMED: u8 = 6;
    pub(super) const DISARM: u8 = 7;
    pub(super) const DISARMED: u8 = 8;
    pub(super) const DATA: u8 = 9;
    pub(super) const MESSAGE: u8 = 10;
    pub(super) const ANNOUNCE: u8 = 11;
    pub(super) const ACCEPT: u8 = 12;
    pub(super) const WITHDRAW: u8 = 13;
    pub(super) const WITHDRAWN: u8 = 14;
    pub(super) const MESSAGE_CREDIT: u8 = 15;
    pub(super) const RANK_GONE: u8 = 16;
    pub(super) const HEARTBEAT: u8 = 17;
    pub(super) const WIRED: u8 = 18;
    pub(super) const WIRE_DOWN: u8 = 19;
    pub(super) const SHAPE: u8 = 20;
    pub(super) const WIRE_FULL: u8 = 21;
}

impl Frame {
    /// Bytes of payload that follow the header.
    pub fn payload_bytes(&self) -> u32 {
        match *self {
            Self::Eager { payload_bytes, .. }
            | Self::Data { payload_bytes, .. }
            | Self::Message { payload_bytes, .. } => payload_bytes,
            _ => 0,
        }
    }

    fn to_raw(self) -> RawHeader {
        use kind::*;
        match self {
            Self::Bind { envelope, recv, capacity } => {
                RawHeader { bytes: capacity.into(), ..RawHeader::to(BIND, recv) }.with_envelope(envelope)
            }
            Self::Bound { recv, send, bytes, is_rendezvous, wire } => {
                RawHeader { bytes: bytes.into(), flags: u8::from(is_rendezvous), ..RawHeader::to(BOUND, recv) }
                    .with_argument(send.to_bits())
                    .with_wire(wire)
            }
            Self::Wired { send, recv, wire } => {
                RawHeader::to(WIRED, send).with_argument(recv.to_bits()).with_wire(wire)
            }
            Self::WireDown => RawHeader { kind: WIRE_DOWN, ..RawHeader::default() },
            Self::WireFull => RawHeader { kind: WIRE_FULL, ..RawHeader::default() },
            Self::Unbind { channel, cause } => RawHeader::to(UNBIND, channel).with_cause(cause),
            Self::Eager { channel, payload_bytes } => {
                RawHeader { payload_bytes: payload_bytes.into(), ..RawHeader::to(EAGER, channel) }
            }
            Self::Credit { channel, count } => {
                RawHeader { bytes: u64::from(count).into(), ..RawHeader::to(CREDIT, channel) }
            }
            Self::Armed { channel } => RawHeader::to(ARMED, channel),
            Self::Disarm { channel } => RawHeader::to(DISARM, channel),
            Self::Disarmed { channel } => RawHeader::to(DISARMED, channel),
            Self::Data { channel, offset, total, payload_bytes } => {
                let raw = RawHeader { bytes: total.into(), ..RawHeader::to(DATA, channel) };
                RawHeader { payload_bytes: payload_bytes.into(), ..raw.with_argument(offset) }
            }
            Self::Message { envelope, payload_bytes } => {
                RawHeader { kind: MESSAGE, payload_bytes: payload_bytes.into(), ..RawHeader::default() }
                    .with_envelope(envelope)
            }
            Self::Announce { envelope, send, bytes } => {
                RawHeader { bytes: bytes.into(), ..RawHeader::to(ANNOUNCE, send) }.with_envelope(envelope)
            }
            Self::Accept { send, recv } => RawHeader::to(ACCEPT, send).with_argument(recv.to_bits()),
            Self::Withdraw { envelope, send } => RawHeader::to(WITHDRAW, send).with_envelope(envelope),
            Self::Withdrawn { send } => RawHeader::to(WITHDRAWN, send),
            Self::MessageCredit { source, dest, count } => RawHeader {
                kind: MESSAGE_CREDIT,
                source: source.into(),
                dest: dest.into(),
                bytes: u64::from(count).into(),
                ..RawHeader::default()
            },
            Self::RankGone { rank, has_failed } => {
                RawHeader { kind: RANK_GONE, flags: u8::from(has_failed), source: rank.into(), ..RawHeader::default() }
            }
            Self::Shape { number, statement } => RawHeader::of_statement(number, &statement),
            Self::Heartbeat { acknowledged } => {
                RawHeader { kind: HEARTBEAT, bytes: acknowledged.into(), ..RawHeader::default() }
            }
        }
    }
}

impl RawHeader {
    fn to(kind: u8, channel: ChannelId) -> Self {
        Self { kind, channel: channel.to_bits().into(), ..Self::default() }
    }

    fn with_envelope(self, envelope: Envelope) -> Self {
        Self {
            comm: envelope.comm.0.into(),
            source: envelope.source.into(),
            dest: envelope.dest.into(),
            tag: envelope.tag.into(),
            ..self
        }
    }

    fn of_statement(number: u64, statement: &Statement) -> Self {
        let (first, second) = statement.digest.to_bits();
        let (rank, difference) = statement.dissenter.map_or((0, 0), |(rank, what)| (rank as i32 + 1, what.code()));
        let raw = Self {
            kind: kind::SHAPE,
            flags: difference,
            channel: number.into(),
            bytes: second.into(),
            ..Self::default()
        };
        Self { dest: statement.rank.into(), tag: rank.into(), ..raw.with_argument(first) }
    }

    fn statement(&self) -> Result<Statement, DecodeError> {
        let digest = ShapeDigest::from_bits((self.argument(), self.bytes.get()));
        let dissenter = match (u32::try_from(self.tag.get()), Difference::from_code(self.flags)) {
            (Ok(0), None) => None,
            (Ok(rank), Some(difference)) if rank > 0 => Some((rank - 1, difference)),
            _ => return Err(DecodeError::StrayFields(self.kind)),
        };
        Ok(Statement { rank: self.dest.get(), digest, dissenter })
    }

    fn with_argument(self, argument: u64) -> Self {
        Self { comm: (argument as u32).into(), source: ((argument >> 32) as u32).into(), ..self }
    }

    fn with_wire(self, wire: Option<u16>) -> Self {
        Self { tag: wire.map_or(0, |wire| i32::from(wire) + 1).into(), ..self }
    }

    fn wire(&self) -> Result<Option<u16>, DecodeError> {
        match self.tag.get() {
            0 => Ok(None),
            tag => u16::try_from(tag - 1).map(Some).map_err(|_| DecodeError::StrayFields(self.kind)),
        }
    }

    fn with_cause(self, cause: Option<Cause>) -> Self {
        let Some(Completion { status, source, .. }) = cause.map(Cause::ending) else { return self };
        Self { bytes: u64::from(status.code()).into(), source: source.into(), ..self }
    }

    fn cause(&self) -> Result<Option<Cause>, DecodeError> {
        if self.bytes.get() == 0 {
            return Ok(None);
        }
        let status = u32::try_from(self.bytes.get()).ok().and_then(Status::from_code);
        let cause = status.and_then(|status| Cause::new(status, self.source.get()));
        cause.map(Some).ok_or(DecodeError::StrayFields(self.kind))
    }

    fn argument(&self) -> u64 {
        u64::from(self.source.get()) << 32 | u64::from(self.comm.get())
    }

    fn envelope(&self) -> Envelope {
        Envelope {
            comm: CommId(self.comm.get()),
            source: self.source.get(),
            dest: self.dest.get(),
            tag: self.tag.get(),
        }
    }

    fn frame(&self) -> Result<Frame, DecodeError> {
        use kind::*;
        let channel = ChannelId::from_bits(self.channel.get());
        let (bytes, payload_bytes, is_flagged) = (self.bytes.get(), self.payload_bytes.get(), self.flags != 0);
        Ok(match self.kind {
            BIND => Frame::Bind { envelope: self.envelope(), recv: channel, capacity: bytes },
            BOUND => {
                let send = ChannelId::from_bits(self.argument());
                Frame::Bound { recv: channel, send, bytes, is_rendezvous: is_flagged, wire: self.wire()? }
            }
            WIRED => {
                let recv = ChannelId::from_bits(self.argument());
                Frame::Wired { send: channel, recv, wire: self.wire()? }
            }
            WIRE_DOWN => Frame::WireDown,
            WIRE_FULL => Frame::WireFull,
            UNBIND => Frame::Unbind { channel, cause: self.cause()? },
            EAGER => Frame::Eager { channel, payload_bytes },
            CREDIT => Frame::Credit { channel, count: bytes as u32 },
            ARMED => Frame::Armed { channel },
            DISARM => Frame::Disarm { channel },
            DISARMED => Frame::Disarmed { channel },
            DATA => Frame::Data { channel, offset: self.argument(), total: bytes, payload_bytes },
            MESSAGE => Frame::Message { envelope: self.envelope(), payload_bytes },
            ANNOUNCE => Frame::Announce { envelope: self.envelope(), send: channel, bytes },
            ACCEPT => Frame::Accept { send: channel, recv: ChannelId::from_bits(self.argument()) },
            WITHDRAW => Frame::Withdraw { envelope: self.envelope(), send: channel },
            WITHDRAWN => Frame::Withdrawn { send: channel },
            MESSAGE_CREDIT => {
                Frame::MessageCredit { source: self.source.get(), dest: self.dest.get(), count: bytes as u32 }
            }
            RANK_GONE => Frame::RankGone { rank: self.source.get(), has_failed: is_flagged },
            SHAPE => Frame::Shape { number: self.channel.get(), statement: self.statement()? },
            HEARTBEAT => Frame::Heartbeat { acknowledged: bytes },
            kind => return Err(DecodeError::UnknownKind(kind)),
        })
    }
}

impl Header {
    /// The header as it goes over the wire.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut raw = self.to_raw();
        raw.crc = crc32c::crc32c(&raw.as_bytes()[..CRC_OFFSET]).into();
        zerocopy::transmute!(raw)
    }

    /// Reads a header. The bytes may be anything: sizes are checked against the limits, everything else
    /// is for the engine to look up.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, DecodeError> {
        let raw: RawHeader = zerocopy::transmute!(*bytes);
        let (found, expected) = (raw.crc.get(), crc32c::crc32c(&bytes[..CRC_OFFSET]));
        if found != expected {
            return Err(DecodeError::Checksum { found, expected });
        }
        let header = Self { sequence: raw.sequence.get(), job: JobId(raw.job.get()), frame: raw.frame()? };
        if header.to_raw() != (RawHeader { crc: 0.into(), ..raw }) {
            return Err(DecodeError::StrayFields(raw.kind));
        }
        header.check_sizes()?;
        Ok(header)
    }

    fn to_raw(self) -> RawHeader {
        RawHeader { sequence: self.sequence.into(), job: self.job.0.into(), ..self.frame.to_raw() }
    }

    fn check_sizes(&self) -> Result<(), DecodeError> {
        let payload_bytes = self.frame.payload_bytes();
        let (offset, total) = match self.frame {
            Frame::Data { offset, total, .. } => (offset, total),
            Frame::Bind { capacity, .. } => (0, capacity),
            Frame::Bound { bytes, .. } | Frame::Announce { bytes, .. } => (0, bytes),
            _ => (0, u64::from(payload_bytes)),
        };
        let end = offset.checked_add(u64::from(payload_bytes));
        if payload_bytes <= FRAME_PAYLOAD_MAX && total <= MESSAGE_BYTES_MAX && end.is_some_and(|end| end <= total) {
            Ok(())
        } else {
            Err(DecodeError::BadSize { payload_bytes, offset, total })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENVELOPE: Envelope = Envelope { comm: CommId(1), source: 2, dest: 3, tag: 4 };
    const A: ChannelId = ChannelId { index: 5, generation: 6 };
    const B: ChannelId = ChannelId { index: 7, generation: 8 };

    fn header(frame: Frame) -> Header {
        Header { sequence: 9, job: JobId(0x0a0b), frame }
    }

    #[test]
    fn a_data_frame_has_its_golden_bytes() {
        let frame =
            Frame::Data { channel: A, offset: 0x0102_0304_0506, total: 0x0203_0000_0000, payload_bytes: 0x1000 };
        #[rustfmt::skip]
        let golden: [u8; 60] = [
            9, 0, 0, 0,  0, 0x10, 0, 0,  9, 0, 0, 0, 0, 0, 0, 0,  0x0b, 0x0a, 0, 0, 0, 0, 0, 0,
            6, 5, 4, 3, 2, 1, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  5, 0, 0, 0, 6, 0, 0, 0,
            0, 0, 0, 0, 3, 2, 0, 0,  0, 0, 0, 0,
        ];
        let bytes = header(frame).encode();
        assert_eq!(bytes[..60], golden);
        assert_eq!(bytes[60..], crc32c::crc32c(&golden).to_le_bytes());
    }

    #[test]
    fn a_bind_frame_has_its_golden_bytes() {
        #[rustfmt::skip]
        let golden: [u8; 60] = [
            1, 0, 0, 0,  0, 0, 0, 0,  9, 0, 0, 0, 0, 0, 0, 0,  0x0b, 0x0a, 0, 0, 0, 0, 0, 0,
            1, 0, 0, 0,  2, 0, 0, 0,  3, 0, 0, 0,  4, 0, 0, 0,  5, 0, 0, 0, 6, 0, 0, 0,
            0, 1, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0,
        ];
        assert_eq!(header(Frame::Bind { envelope: ENVELOPE, recv: A, capacity: 256 }).encode()[..60], golden);
    }

    #[test]
    fn every_frame_survives_the_wire() {
        let digest = ShapeDigest::from_bits((0x0102_0304_0506_0108, 0x090a_0b0c_0d0e_0f10));
        for frame in [
            Frame::Bind { envelope: ENVELOPE, recv: A, capacity: 10 },
            Frame::Bound { recv: A, send: B, bytes: 11, is_rendezvous: true, wire: None },
            Frame::Bound { recv: A, send: B, bytes: 11, is_rendezvous: false, wire: Some(u16::MAX) },
            Frame::Bound { recv: A, send: B, bytes: 11, is_rendezvous: true, wire: Some(0) },
            Frame::Wired { send: A, recv: B, wire: Some(0) },
            Frame::Wired { send: A, recv: B, wire: None },
            Frame::WireDown,
            Frame::WireFull,
            Frame::Unbind { channel: A, cause: None },
            Frame::Unbind { channel: A, cause: Cause::new(Status::PeerFreed, 0) },
            Frame::Unbind { channel: A, cause: Cause::new(Status::NodeGaveUp, 7) },
            Frame::Eager { channel: A, payload_bytes: 12 },
            Frame::Credit { channel: A, count: 13 },
            Frame::Armed { channel: A },
            Frame::Disarm { channel: A },
            Frame::Disarmed { channel: A },
            Frame::Data { channel: A, offset: 14, total: 1 << 40, payload_bytes: 15 },
            Frame::Message { envelope: ENVELOPE, payload_bytes: 16 },
            Frame::Announce { envelope: ENVELOPE, send: B, bytes: 17 },
            Frame::Accept { send: B, recv: A },
            Frame::Withdraw { envelope: ENVELOPE, send: B },
            Frame::Withdrawn { send: B },
            Frame::MessageCredit { source: 1, dest: 2, count: 18 },
            Frame::RankGone { rank: 19, has_failed: true },
            Frame::Heartbeat { acknowledged: 20 },
            Frame::Shape { number: 21, statement: Statement { rank: 22, digest, dissenter: None } },
            Frame::Shape {
                number: 23,
                statement: Statement { rank: 24, digest, dissenter: Some((0, Difference::Root)) },
            },
        ] {
            assert_eq!(Header::decode(&header(frame).encode()), Ok(header(frame)));
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        let mut bytes = header(Frame::Armed { channel: A }).encode();
        bytes[41] ^= 0x10;
        assert!(matches!(Header::decode(&bytes), Err(DecodeError::Checksum { .. })));
    }

    #[test]
    fn a_piece_outside_of_its_message_is_refused() {
        let frame = Frame::Data { channel: A, offset: u64::MAX, total: 100, payload_bytes: 60 };
        assert!(matches!(Header::decode(&header(frame).encode()), Err(DecodeError::BadSize { .. })));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(kind in 0u8..22, seal in any::<bool>(), mut bytes in any::<[u8; HEADER_BYTES]>()) {
            bytes[0] = kind;
            if seal {
                let crc = crc32c::crc32c(&bytes[..CRC_OFFSET]);
                bytes[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
            }
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert_eq!(header.encode(), bytes);
            }
        }
    }
}
