//! What others did that they must not do.

use ropeway_proto::{CommId, Epoch, Rank, Slot, Tag, limits};

/// What a client did that no client library does. It is to be cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Violation {
    /// The epoch is not the slot's next (or, to cancel, its current) one.
    #[error("slot {slot}: epoch {found} where {expected} was due")]
    WrongEpoch { slot: Slot, found: Epoch, expected: Epoch },
    /// A request is initialised on a slot that has one.
    #[error("slot {slot} is in use")]
    SlotInUse { slot: Slot },
    /// A command needs a request and the slot has none.
    #[error("slot {slot} has no request")]
    NoRequest { slot: Slot },
    /// A request that is active, or not persistent, is started or freed.
    #[error("slot {slot}: the request can't be started or freed now")]
    WrongState { slot: Slot },
    /// More requests, freed ones that nobody has met included, than the job's ranks could have in use.
    #[error("too many requests whose other end never came")]
    TooManyRequests,
    /// A communicator that belongs to nodes.
    #[error("communicator {} belongs to nodes", .comm.0)]
    ReservedComm { comm: CommId },
    /// A rank outside of the job.
    #[error("rank {rank} is outside of a job of {size}")]
    RankOutOfRange { rank: Rank, size: u32 },
}

/// What a peer daemon did that no daemon does. The link is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum ProtocolError {
    /// The envelope names ranks that don't live where the frame comes from or goes to.
    #[error("a frame from node {from} claims to go from rank {source_rank} to rank {dest}")]
    ForeignRank { from: u16, source_rank: Rank, dest: Rank },
    /// What has ended a collective is no rank or node of the job.
    #[error("a frame says that rank or node {source_number} has ended a collective")]
    ForeignCause { source_number: u32 },
    /// A message of a rank in a communicator that belongs to nodes.
    #[error("a frame of a rank names communicator {}, which belongs to nodes", .comm.0)]
    ReservedComm { comm: CommId },
    /// The envelope's tag is none.
    #[error("a frame carries the tag {tag}")]
    BadTag { tag: Tag },
    /// The channel exists but belongs to another node, or is of the other direction.
    #[error("a frame addresses a channel that is not its sender's")]
    ForeignChannel,
    /// A message that no node may send eagerly. What a sender can make us keep is bounded by this and its credits.
    #[error("an eager message of {bytes} bytes, where {limit} are the most", limit = limits::EAGER_BYTES_LIMIT)]
    TooLarge { bytes: u64 },
    /// More eager messages than there was credit for.
    #[error("a message was sent without credit")]
    NoCredit,
    /// More receives or announced messages than its ranks could have, which would have to be kept until somebody asks for them.
    #[error("more receives or announced messages wait for their other end than its ranks could have")]
    TooManyWaiting,
    /// Data that were not asked for, or pieces out of order.
    #[error("unexpected data: bytes {offset} of {total}, {arrived} have arrived")]
    UnexpectedData { offset: u64, total: u64, arrived: u64 },
    /// A frame that a link handles itself.
    #[error("a link frame reached the engine")]
    LinkFrame,
}
