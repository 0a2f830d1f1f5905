//! What can go wrong, as causes a program can act on.

use std::{fmt, io};

use ropeway_proto::agreement::Difference;
use ropeway_proto::control::{MemoryLimit, Refusal};
use ropeway_proto::hello::VersionRange;

/// Why a call failed.
///
/// The variants are grouped by what is lost: nothing but the call, everything with one rank, the session.
#[non_exhaustive]
#[derive(thiserror::Error)]
pub enum Error {
    // The call was wrong; nothing was sent.
    /// The request was started before and has not been waited for.
    #[error("the request is already active")]
    AlreadyActive,
    /// There is no operation to wait for: the request is not started, or its outcome was already taken.
    #[error("the request is not active")]
    Inactive,
    /// The communicator has no such rank.
    #[error("rank {rank} is out of range in a communicator of {size}")]
    RankOutOfRange {
        /// The rank that was asked for.
        rank: u32,
        /// Ranks in the communicator.
        size: u32,
    },
    /// The communicator has no such rank to be the root of a collective.
    #[error("root {root} is out of range in a communicator of {size}")]
    RootOutOfRange {
        /// The root that was asked for.
        root: u32,
        /// Ranks in the communicator.
        size: u32,
    },
    /// Tags go from 0 to [`TAG_MAX`](crate::TAG_MAX).
    #[error("tag {tag} is out of range 0 to {}", crate::TAG_MAX)]
    BadTag {
        /// The tag that was asked for.
        tag: i32,
    },
    /// A strided layout reaches beyond its buffer, or its blocks overlap.
    #[error("a layout over elements up to {end} does not fit a buffer of {elements}")]
    LayoutOutOfBounds {
        /// One past the last element the layout needs; `usize::MAX` if its blocks overlap or are too many.
        end: usize,
        /// Elements of the buffer.
        elements: usize,
    },
    /// The message is larger than messages may be.
    #[error("a message of {bytes} bytes is too large")]
    MessageTooLarge {
        /// Bytes of the message.
        bytes: u64,
    },
    /// The buffer belongs to another session.
    #[error("the buffer belongs to another session")]
    ForeignBuffer,
    /// An array is not as long as the collective has it.
    #[error("the collective has an {array} of {expected} elements, not of {elements}")]
    WrongLength {
        /// Which one: `input`, `output`, or `array` if one is both.
        array: &'static str,
        /// Elements of the array that was given.
        elements: usize,
        /// Elements it has to have.
        expected: usize,
    },
    /// Requests that are started together must belong to one session.
    #[error("requests of different sessions can't be started together")]
    MixedSessions,
    /// A rank may hold 65,408 requests at once, less those of calls that wait just then. These have some more.
    #[error("too many requests at once")]
    TooManyRequests,
    /// There is no memory left for it.
    #[error("out of memory: {requested} bytes requested, {available} available {limit}")]
    OutOfMemory {
        /// Bytes that were asked for.
        requested: u64,
        /// Bytes that could have been had.
        available: u64,
        /// What keeps this rank from more.
        limit: MemoryLimit,
    },

    // The operation ended without success.
    /// The message was longer than the buffer, whose content is now undefined.
    #[error("message of {bytes} bytes truncated by a buffer of {capacity}")]
    Truncated {
        /// Bytes of the message.
        bytes: u64,
        /// Bytes of the buffer.
        capacity: u64,
    },
    /// The message does not hold a whole number of elements.
    #[error("message of {bytes} bytes does not hold whole elements of {element_bytes} bytes")]
    SizeMismatch {
        /// Bytes of the message.
        bytes: u64,
        /// Bytes of one element of the buffer.
        element_bytes: usize,
    },
    /// The operation was withdrawn.
    #[error("the operation was cancelled")]
    Cancelled,
    /// The other end of the channel, or another member's part in the collective, was freed; nothing will ever match this
    /// request again.
    #[error("rank {rank} has freed its end of this request")]
    PeerFreed {
        /// The rank that freed it, in the communicator of the operation.
        rank: u32,
    },
    /// Another node goes on with the collective no more, and it is not known because of which rank: it could not go on, or a rank there had
    /// freed its part before this node first started it.
    #[error("node {node} has given the collective up; an error of a rank there may say why")]
    NodeGaveUp {
        /// The node, as the job numbers them.
        node: u32,
    },
    /// The ranks did not register the same collective, or not in the same order.
    #[error("rank {rank} has registered another collective: {difference}")]
    Mismatch {
        /// A rank that differs from this one, in the communicator of the operation.
        rank: u32,
        /// In what it differs.
        difference: Difference,
    },
    /// The node has no memory for what a collective needs besides its arrays, such as inputs from other nodes.
    #[error(
        "this node has no memory for {bytes} bytes that the collective needs besides its arrays: use smaller ones, or, \
         if the node has more, raise job_memory_bytes_max in the configuration of the job's daemons"
    )]
    NoMemory {
        /// Bytes that were needed.
        bytes: u64,
    },
    /// A group that can't be.
    #[error("no such group: {why}")]
    BadGroup {
        /// What is wrong with it.
        why: String,
    },
    /// A topology that can't be.
    #[error("no such topology: {why}")]
    BadTopology {
        /// What is wrong with it.
        why: String,
    },
    /// The rank that founds the communicator has founded as many as it can, in the whole life of the job.
    #[error("too many communicators: keep those that are needed again, and use `dup`, which can be had more often")]
    TooManyCommunicators,
    /// A collective that can't be.
    #[error("no such collective: {why}")]
    BadCollective {
        /// What is wrong with it.
        why: String,
    },

    // Everything with that rank or node is lost.
    /// The rank's process has died.
    #[error("rank {rank} has failed")]
    RankFailed {
        /// The rank that failed, in the communicator of the operation.
        rank: u32,
    },
    /// The rank's process has left the job.
    #[error("rank {rank} has left the job")]
    RankLeft {
        /// The rank that left, in the communicator of the operation.
        rank: u32,
    },
    /// A receive from anybody, or a probe, was given up because a rank is gone that is no member of its communicator: any death
    /// in the job ends those. It can be started again.
    #[error(
        "rank {rank} of the job is gone, which is no member of this communicator; the receive from anybody was given up"
    )]
    OutsiderGone {
        /// The rank that is gone, in the job.
        rank: u32,
    },
    /// The connection to a node is lost, and with it all ranks there.
    #[error("the connection to node {node} is lost")]
    PeerLost {
        /// The node, as the job numbers them.
        node: u32,
    },

    // The session is lost, or never was.
    /// The daemon has ended.
    #[error("the daemon is gone")]
    DaemonGone,
    /// The daemon has cut this process off.
    #[error("the daemon has detached this process: {reason}")]
    Evicted {
        /// What the daemon found wrong.
        reason: String,
    },
    /// No daemon to connect to, and none to start.
    #[error(
        "no daemon: nothing answers at {socket}, and no ropewayd was found beside the program or on PATH; \
         start the program with `ropeway run -n 1 -- PROGRAM`, or put ropewayd on PATH"
    )]
    NoDaemon {
        /// The socket that was tried.
        socket: String,
    },
    /// `init` was called before, and the launcher's connection can be used only once.
    #[error("init was already called in this process; share its session instead")]
    AlreadyInitialized,
    /// Library and daemon have no protocol version in common.
    #[error("no common protocol version: the daemon speaks {daemon}, this library speaks {client}")]
    VersionMismatch {
        /// What the daemon speaks.
        daemon: VersionRange,
        /// What this library speaks.
        client: VersionRange,
    },
    /// The daemon refused the request.
    #[error("the daemon refused: {0}")]
    Refused(Refusal),
    /// The daemon said something that makes no sense here.
    #[error("the daemon's answer makes no sense: {what}")]
    BadReply {
        /// What it said.
        what: String,
    },
    /// A `ROPEWAY_` variable can't be understood.
    #[error("environment variable {name}={value:?} {why}")]
    BadEnvironment {
        /// The variable's name.
        name: &'static str,
        /// Its value; empty if it is not set.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The operating system refused something.
    #[error("{doing}: {error}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The system's answer.
        #[source]
        error: io::Error,
    },
}

impl Error {
    /// Whether all there is against the daemon is that it is of another build.
    pub(crate) fn is_of_another_build(&self) -> bool {
        matches!(self, Self::Refused(Refusal::OtherBuild) | Self::VersionMismatch { .. })
    }
}

/// As it is displayed: that is what a `main` prints that returns it, and it says what to do.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
