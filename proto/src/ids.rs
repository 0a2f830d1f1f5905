//! Names of things, as they cross process and node boundaries.

use serde::{Deserialize, Serialize};

/// Number of a process within its job, `0..size`.
pub type Rank = u32;

/// User label of a message, `0..=limits::TAG_MAX`.
pub type Tag = i32;

/// Index of a request slot in its rank's request table.
pub type Slot = u32;

/// Counts the operations of one request slot; a completion names the one it ends.
///
/// Wraps. Only equality with the expected value is ever asked, so wrapping is harmless.
pub type Epoch = u32;

/// A job: all ranks started together. Random, so that it can't be guessed by another user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobId(pub u64);

/// Index of a node within its job, `0..nodes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeId(pub u16);

/// A communicator within its job. Messages of different communicators never match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommId(pub u32);

impl CommId {
    /// The communicator of all ranks.
    pub const WORLD: Self = Self(0);
    /// The first of those that ranks can't use: nodes send each other parts of collectives there.
    pub const RESERVED: u32 = 1 << 31;

    /// Whether ranks can't use it.
    pub const fn is_reserved(self) -> bool {
        self.0 >= Self::RESERVED
    }
}

/// One end of a channel, or one pending one-shot operation, as its own engine names it to the peer.
///
/// The generation makes a name unique over time: a frame that arrives after its request was freed
/// finds a newer generation in the slot and is dropped instead of being misdelivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId {
    /// Place in the engine's request table.
    pub index: u32,
    /// How often that place had been used before.
    pub generation: u32,
}

impl ChannelId {
    /// Packs the name into one wire word.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Unpacks a wire word. Every word is a well-formed name; whether it exists, the engine knows.
    pub fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// One end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where messages come from.
    Send,
    /// Where they go.
    Recv,
}

impl End {
    /// The other one.
    pub fn peer(self) -> Self {
        match self {
            Self::Send => Self::Recv,
            Self::Recv => Self::Send,
        }
    }
}
