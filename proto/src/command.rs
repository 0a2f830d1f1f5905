//! Client → daemon: entries of the command ring.
//!
//! Every entry is 64 bytes, one cache line, little-endian:
//!
//! ```text
//!  0    1     2      4       8       12      16      20      24        32            40        48        52       56   64
//!  +----+-----+------+-------+-------+-------+-------+-------+---------+-------------+---------+---------+--------+----+
//!  | op | mode|  0   | slot  | epoch | comm  | peer  |  tag  | offset  | block_bytes | stride  | blocks  |   0    |  0 |
//!  +----+-----+------+-------+-------+-------+-------+-------+---------+-------------+---------+---------+--------+----+
//! ```
//!
//! `peer` and `tag` are −1 for the wildcards. Commands that need fewer fields leave the rest zero, and the daemon insists on it.
//! Every command but `Cancel`, `Move`, `ArriveAlone` and `Tend` begins an operation on its slot and carries the slot's next epoch. Several
//! that say no more than a slot fit in one entry ([`batch`](crate::batch)).

use zerocopy::byteorder::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::batch::Batch;
use crate::ids::{CommId, Epoch, Rank, Slot, Tag};
use crate::layout::Layout;
use crate::limits::{SLOTS_PER_RANK, TAG_MAX};

/// Words of a ring entry.
pub const COMMAND_WORDS: usize = 8;

/// Whom a message goes to or comes from. `None` is the wildcard, legal in `Recv` and `Probe` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Communicator.
    pub comm: CommId,
    /// The rank at the other end, or any.
    pub peer: Option<Rank>,
    /// The tag, or any.
    pub tag: Option<Tag>,
}

/// What a client asks of its daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Command {
    /// Registers a persistent send.
    InitSend { slot: Slot, epoch: Epoch, endpoint: Endpoint, layout: Layout },
    /// Registers a persistent receive.
    InitRecv { slot: Slot, epoch: Epoch, endpoint: Endpoint, layout: Layout },
    /// Starts a registered request.
    Start { slot: Slot, epoch: Epoch },
    /// Copies the message of a request's direct channel, which both ends have started. Begins nothing, and nothing completes.
    Move { slot: Slot },
    /// The only member of a collective on its node, who knows where it would meet others, comes for the next round. Begins nothing that the
    /// slot knows of, and nothing completes.
    ArriveAlone { slot: Slot },
    /// Looks after the wire to node `node`: sends what waits, and while ranks sleep receives for them. Begins nothing, and
    /// nothing completes.
    Tend { node: u16 },
    /// Gives a registered request up; completes when nothing refers to its buffer any more.
    Free { slot: Slot, epoch: Epoch },
    /// Withdraws the active operation with that epoch, if it has not matched yet.
    Cancel { slot: Slot, epoch: Epoch },
    /// Sends once.
    Send { slot: Slot, epoch: Epoch, endpoint: Endpoint, layout: Layout },
    /// Receives once.
    Recv { slot: Slot, epoch: Epoch, endpoint: Endpoint, layout: Layout },
    /// Looks for a message without taking it; waits for one if `wait`.
    Probe { slot: Slot, epoch: Epoch, endpoint: Endpoint, wait: bool },
    /// Several commands.
    Several(Batch),
}

/// Why an entry is not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// Unknown operation code.
    #[error("unknown operation {0}")]
    UnknownOperation(u8),
    /// Slot beyond the request table.
    #[error("slot {0} is beyond the request table")]
    SlotOutOfRange(Slot),
    /// Tag neither valid nor a wildcard where one is allowed.
    #[error("tag {0} is not valid here")]
    BadTag(Tag),
    /// Peer neither a rank nor a wildcard where one is allowed.
    #[error("peer {0} is not valid here")]
    BadPeer(i32),
    /// Block numbers that overflow or overlap.
    #[error("layout is not valid")]
    BadLayout,
    /// More or fewer commands in an entry than there can be.
    #[error("an entry can't have {0} commands")]
    BadCount(usize),
    /// A reserved byte is not zero, or a field the command does not have.
    #[error("reserved bytes are not zero")]
    ReservedNotZero,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, PartialEq)]
#[repr(C)]
struct RawCommand {
    op: u8,
    mode: u8,
    reserved: U16,
    slot: U32,
    epoch: U32,
    comm: U32,
    peer: I32,
    tag: I32,
    offset: U64,
    block_bytes: U64,
    stride_bytes: U64,
    blocks: U32,
    reserved_end: [U32; 3],
}

const _: () = assert!(size_of::<RawCommand>() == COMMAND_WORDS * 8);

const ANY: i32 = -1;

const INIT_SEND: u8 = 1;
const INIT_RECV: u8 = 2;
pub(crate) const START: u8 = 3;
const FREE: u8 = 4;
const CANCEL: u8 = 5;
const SEND: u8 = 6;
const RECV: u8 = 7;
const PROBE: u8 = 8;
pub(crate) const MOVE: u8 = 9;
pub(crate) const TEND: u8 = 10;
pub(crate) const ARRIVE_ALONE: u8 = 11;
pub(crate) const SEVERAL: u8 = 12;

impl RawCommand {
    fn new(op: u8, slot: Slot, epoch: Epoch) -> Self {
        Self {
            op,
            mode: 0,
            reserved: 0.into(),
            slot: slot.into(),
            epoch: epoch.into(),
            comm: 0.into(),
            peer: 0.into(),
            tag: 0.into(),
            offset: 0.into(),
            block_bytes: 0.into(),
            stride_bytes: 0.into(),
            blocks: 0.into(),
            reserved_end: [0.into(); 3],
        }
    }

    fn with_endpoint(mut self, endpoint: Endpoint) -> Self {
        self.comm = endpoint.comm.0.into();
        self.peer = endpoint.peer.map_or(ANY, |rank| rank as i32).into();
        self.tag = endpoint.tag.unwrap_or(ANY).into();
        self
    }

    fn with_layout(mut self, layout: Layout) -> Self {
        self.offset = layout.offset.into();
        self.block_bytes = layout.block_bytes.into();
        self.stride_bytes = layout.stride_bytes.into();
        self.blocks = layout.blocks.into();
        self
    }

    fn endpoint(&self, wildcards: bool) -> Result<Endpoint, CommandError> {
        let peer = match self.peer.get() {
            ANY if wildcards => None,
            peer => Some(Rank::try_from(peer).map_err(|_| CommandError::BadPeer(peer))?),
        };
        let tag = match self.tag.get() {
            ANY if wildcards => None,
            tag if (0..=TAG_MAX).contains(&tag) => Some(tag),
            tag => return Err(CommandError::BadTag(tag)),
        };
        Ok(Endpoint { comm: CommId(self.comm.get()), peer, tag })
    }

    fn layout(&self) -> Result<Layout, CommandError> {
        let layout = Layout {
            offset: self.offset.get(),
            block_bytes: self.block_bytes.get(),
            stride_bytes: self.stride_bytes.get(),
            blocks: self.blocks.get(),
        };
        if layout.is_valid() { Ok(layout) } else { Err(CommandError::BadLayout) }
    }

    fn decode(&self) -> Result<Command, CommandError> {
        let (slot, epoch) = (self.slot.get(), self.epoch.get());
        if slot >= SLOTS_PER_RANK {
            return Err(CommandError::SlotOutOfRange(slot));
        }
        Ok(match self.op {
            INIT_SEND => Command::InitSend { slot, epoch, endpoint: self.endpoint(false)?, layout: self.layout()? },
            INIT_RECV => Command::InitRecv { slot, epoch, endpoint: self.endpoint(false)?, layout: self.layout()? },
            START => Command::Start { slot, epoch },
            MOVE => Command::Move { slot },
            ARRIVE_ALONE => Command::ArriveAlone { slot },
            // A node's number is never larger than a slot's.
            TEND => Command::Tend { node: slot as u16 },
            FREE => Command::Free { slot, epoch },
            CANCEL => Command::Cancel { slot, epoch },
            SEND => Command::Send { slot, epoch, endpoint: self.endpoint(false)?, layout: self.layout()? },
            RECV => Command::Recv { slot, epoch, endpoint: self.endpoint(true)?, layout: self.layout()? },
            PROBE => Command::Probe { slot, epoch, endpoint: self.endpoint(true)?, wait: self.mode != 0 },
            op => return Err(CommandError::UnknownOperation(op)),
        })
    }
}

/// What an entry says first.
pub(crate) fn op_and_slot(entry: &[u64; COMMAND_WORDS]) -> (u8, Slot) {
    let raw: &RawCommand = zerocopy::transmute_ref!(entry);
    (raw.op, raw.slot.get())
}

impl Command {
    /// The entry as ring words.
    #[inline]
    pub fn encode(&self) -> [u64; COMMAND_WORDS] {
        zerocopy::transmute!(self.to_raw())
    }

    /// Reads an entry that was copied out of the ring. The words may hold anything.
    pub fn decode(words: [u64; COMMAND_WORDS]) -> Result<Self, CommandError> {
        let raw: RawCommand = zerocopy::transmute!(words);
        if raw.op == SEVERAL {
            return Batch::decode(words).map(Self::Several);
        }
        let command = raw.decode()?;
        // Whatever the command does not carry must be zero, so that later versions can use it.
        if command.to_raw() == raw { Ok(command) } else { Err(CommandError::ReservedNotZero) }
    }

    #[inline(always)]
    fn to_raw(self) -> RawCommand {
        match self {
            Self::InitSend { slot, epoch, endpoint, layout } => {
                RawCommand::new(INIT_SEND, slot, epoch).with_endpoint(endpoint).with_layout(layout)
            }
            Self::InitRecv { slot, epoch, endpoint, layout } => {
                RawCommand::new(INIT_RECV, slot, epoch).with_endpoint(endpoint).with_layout(layout)
            }
            Self::Start { slot, epoch } => RawCommand::new(START, slot, epoch),
            Self::Move { slot } => RawCommand::new(MOVE, slot, 0),
            Self::ArriveAlone { slot } => RawCommand::new(ARRIVE_ALONE, slot, 0),
            Self::Tend { node } => RawCommand::new(TEND, node.into(), 0),
            Self::Free { slot, epoch } => RawCommand::new(FREE, slot, epoch),
            Self::Cancel { slot, epoch } => RawCommand::new(CANCEL, slot, epoch),
            Self::Send { slot, epoch, endpoint, layout } => {
                RawCommand::new(SEND, slot, epoch).with_endpoint(endpoint).with_layout(layout)
            }
            Self::Recv { slot, epoch, endpoint, layout } => {
                RawCommand::new(RECV, slot, epoch).with_endpoint(endpoint).with_layout(layout)
            }
            Self::Probe { slot, epoch, endpoint, wait } => {
                RawCommand { mode: u8::from(wait), ..RawCommand::new(PROBE, slot, epoch).with_endpoint(endpoint) }
            }
            Self::Several(batch) => zerocopy::transmute!(batch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENDPOINT: Endpoint = Endpoint { comm: CommId(5), peer: Some(6), tag: Some(7) };

    #[test]
    fn an_entry_has_its_golden_bytes() {
        let layout = Layout { offset: 0x0807_0605, block_bytes: 16, stride_bytes: 32, blocks: 3 };
        let words = Command::InitSend { slot: 2, epoch: 9, endpoint: ENDPOINT, layout }.encode();
        #[rustfmt::skip]
        let golden: [u8; 64] = [
            1, 0, 0, 0,  2, 0, 0, 0,  9, 0, 0, 0,  5, 0, 0, 0,  6, 0, 0, 0,  7, 0, 0, 0,
            5, 6, 7, 8, 0, 0, 0, 0,  16, 0, 0, 0, 0, 0, 0, 0,  32, 0, 0, 0, 0, 0, 0, 0,
            3, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(words.as_bytes(), golden);
    }

    #[test]
    fn every_command_survives_the_ring() {
        let layout = Layout::contiguous(4096, 800);
        let any = Endpoint { comm: CommId::WORLD, peer: None, tag: None };
        let (slot, epoch) = (11, u32::MAX);
        for command in [
            Command::InitSend { slot, epoch, endpoint: ENDPOINT, layout },
            Command::InitRecv { slot, epoch, endpoint: ENDPOINT, layout },
            Command::Start { slot, epoch },
            Command::Move { slot },
            Command::ArriveAlone { slot },
            Command::Tend { node: 3 },
            Command::Free { slot, epoch },
            Command::Cancel { slot, epoch },
            Command::Send { slot, epoch, endpoint: ENDPOINT, layout },
            Command::Recv { slot, epoch, endpoint: any, layout },
            Command::Probe { slot, epoch, endpoint: any, wait: true },
        ] {
            assert_eq!(Command::decode(command.encode()), Ok(command));
        }
    }

    #[test]
    fn wildcards_are_for_receives_only() {
        let endpoint = Endpoint { tag: None, ..ENDPOINT };
        let words = Command::Send { slot: 0, epoch: 1, endpoint, layout: Layout::contiguous(0, 8) }.encode();
        assert_eq!(Command::decode(words), Err(CommandError::BadTag(-1)));
    }

    #[test]
    fn stray_bytes_are_refused() {
        let mut words = Command::Start { slot: 1, epoch: 1 }.encode();
        words[7] = 1;
        assert_eq!(Command::decode(words), Err(CommandError::ReservedNotZero));
    }

    proptest! {
        #[test]
        fn random_words_never_panic(op in 0u8..14, mut words in any::<[u64; COMMAND_WORDS]>()) {
            words[0] = words[0] & !0xff | u64::from(op);
            if let Ok(command) = Command::decode(words) {
                prop_assert_eq!(command.encode(), words);
            }
        }
    }
}
