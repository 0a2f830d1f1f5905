//! Client ↔ daemon: the control socket. Few, small and not hurried, so JSON behind a length.
//!
//! ```text
//!  0        4                    4 + length
//!  +--------+--------------------+
//!  | length |  JSON, UTF-8       |      length: u32, little-endian, at most CONTROL_BYTES_MAX
//!  +--------+--------------------+
//! ```
//!
//! A client attaches with [`Request::Attach`]; [`Reply::Attached`] brings three descriptors with it (`SCM_RIGHTS`):
//! the job segment, the client's control segment, and the eventfd that wakes the daemon. A launcher creates a job with
//! [`Request::CreateJob`] on every node, the first one first, and keeps the connections; when one closes, the job ends there. Ranks may start when
//! all nodes have answered: frames for a job that a daemon does not know are dropped.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::collective::CollectiveMember;
use crate::costs::Costs;
use crate::hello::VersionRange;
use crate::ids::{Epoch, JobId, NodeId, Rank, Slot};
use crate::limits::{CONTROL_BYTES_MAX, NODES_PER_JOB_MAX, RANKS_PER_JOB_MAX};

/// Where other daemons reach a daemon, and what it calls itself there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonAddress {
    /// The random number in its [`Hello`](crate::hello::Hello).
    pub daemon: u64,
    /// Where it listens for links.
    pub link: SocketAddr,
}

/// Where a node's ranks begin, and where its daemon listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// How to reach its daemon; `None` in a job of one node.
    pub address: Option<DaemonAddress>,
    /// First rank on the node.
    pub first_rank: Rank,
    /// How many ranks it has.
    pub ranks: u32,
}

/// A job as a daemon has to know it: all nodes, in rank order, and which of them it is itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Name of the job, random, the same on all nodes.
    pub job: JobId,
    /// All nodes; ranks are dealt in blocks.
    pub nodes: Vec<NodeSpec>,
    /// Which of `nodes` the receiver of this is.
    pub node: NodeId,
    /// By which all nodes choose algorithms: as the first node's daemon has said. `None` if this is the first.
    #[serde(default)]
    pub costs: Option<Costs>,
}

impl JobSpec {
    /// A job on one node.
    pub fn single_node(job: JobId, ranks: u32) -> Self {
        Self { job, nodes: vec![NodeSpec { address: None, first_rank: 0, ranks }], node: NodeId(0), costs: None }
    }

    /// Deals `ranks` in blocks to the nodes of these daemons: the first `ranks % nodes` get one more.
    pub fn deal(ranks: u32, addresses: &[DaemonAddress]) -> Vec<NodeSpec> {
        let nodes = addresses.len() as u32;
        let (each, more) = (ranks / nodes, ranks % nodes);
        let mut first_rank = 0;
        let spec = |(index, &address): (usize, &DaemonAddress)| {
            let ranks = each + u32::from((index as u32) < more);
            let node = NodeSpec { address: Some(address), first_rank, ranks };
            first_rank += ranks;
            node
        };
        addresses.iter().enumerate().map(spec).collect()
    }

    /// Ranks of the whole job.
    pub fn size(&self) -> u32 {
        self.nodes.iter().map(|node| node.ranks).sum()
    }

    /// The node that has `rank`.
    pub fn node_of(&self, rank: Rank) -> Option<NodeId> {
        let after = self.nodes.partition_point(|node| node.first_rank <= rank);
        let node = self.nodes.get(after.checked_sub(1)?)?;
        (rank < node.first_rank + node.ranks).then_some(NodeId(after as u16 - 1))
    }

    /// Ranks on the receiving node.
    pub fn local_ranks(&self) -> std::ops::Range<Rank> {
        self.ranks_of(self.node)
    }

    /// Ranks on a node.
    pub fn ranks_of(&self, node: NodeId) -> std::ops::Range<Rank> {
        let node = &self.nodes[usize::from(node.0)];
        node.first_rank..node.first_rank + node.ranks
    }

    /// Whether the description is one: ranks contiguous, within limits, an address for every node if there are several,
    /// costs possible.
    pub fn is_valid(&self) -> bool {
        let mut next = 0u32;
        let contiguous = self.nodes.iter().all(|node| {
            let fits = node.first_rank == next && node.ranks >= 1 && node.ranks <= RANKS_PER_JOB_MAX;
            next = next.saturating_add(node.ranks);
            fits
        });
        contiguous
            && next <= RANKS_PER_JOB_MAX
            && self.nodes.len() <= NODES_PER_JOB_MAX
            && usize::from(self.node.0) < self.nodes.len()
            && self.costs.is_none_or(|costs| costs.check().is_ok())
            && (self.nodes.len() == 1 || self.nodes.iter().all(|node| node.address.is_some()))
    }
}

/// What a client or launcher asks on the control socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Request {
    /// Asks whether daemon and library are of one build, before a program depends on it.
    Greet { versions: VersionRange, build: u64 },
    /// Prepares a job on this node.
    CreateJob { versions: VersionRange, spec: JobSpec },
    /// Becomes a rank of a job.
    Attach {
        versions: VersionRange,
        job: JobId,
        rank: Rank,
        /// By what the library's sources can be told from others that use segments differently.
        #[serde(default)]
        build: u64,
    },
    /// Says, without an answer, which rank is to come on this connection: if it is closed before, that rank has left. The launcher's.
    Expect { job: JobId, rank: Rank },
    /// Makes the arena usable up to `arena_bytes` from its start, or less: then the same request is to be made again.
    Reserve { arena_bytes: u64 },
    /// Registers a collective on an empty slot. It may be started at once, and goes on when all members have registered it.
    Register { slot: Slot, epoch: Epoch, comm: u32, member: CollectiveMember },
    /// Does what ranks have put into their rings so far, and counts what they have done.
    Count,
    /// Leaves the job in an orderly way.
    Detach,
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Reply {
    /// They are.
    Greeted,
    /// The job is there; ranks may attach. The other nodes are to be told these costs.
    JobCreated { costs: Costs },
    /// The rank is attached. Three descriptors come along: job segment, control segment, eventfd.
    Attached(Attached),
    /// The arena is usable up to `arena_bytes`.
    Reserved { arena_bytes: u64 },
    /// The collective is registered.
    Registered,
    /// The collective takes much memory, of which there is some more now: the same request is to be made again.
    Again,
    /// The daemon has nothing left to do, and its counters have what ranks have counted until now.
    Counted,
    /// Detached; the daemon holds nothing of this client any more.
    Detached,
    /// The request was refused.
    Refused(Refusal),
    /// A wire to node `node` lies at `block` of the job segment; its socket comes along. Comes unasked.
    Wire { node: u16, block: u64 },
    /// The daemon has cut this client off, for `reason`. Comes unasked, and is the last message.
    Evicted { reason: String },
}

/// What a rank learns when it attaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// Protocol version to speak.
    pub version: u16,
    /// Ranks of the job.
    pub size: u32,
    /// Ranks on this node.
    pub local_ranks: u32,
    /// This rank's index among them: which table and arena of the job segment are its own.
    pub local_index: u32,
    /// Bytes of address space each rank's arena has.
    pub arena_bytes_max: u64,
    /// First rank of each node, in order.
    #[serde(default)]
    pub first_ranks: Vec<Rank>,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Refusal {
    /// No protocol version in common.
    #[error("no common protocol version: the daemon speaks {daemon}, the client speaks {client}")]
    Version { daemon: VersionRange, client: VersionRange },
    /// Segments are used differently.
    #[error(
        "the program's library and the daemon are of different builds, which would misread each other's memory: build the program \
         with the daemon's release, or start it with the `ropeway run` of its own, which brings a daemon that fits"
    )]
    OtherBuild,
    /// No such job here, or it belongs to another user.
    #[error("no such job on this node")]
    NoSuchJob,
    /// The rank is not on this node, or is already attached.
    #[error("rank {rank} can't attach: {why}")]
    BadRank { rank: Rank, why: String },
    /// There is no memory left for it.
    #[error("out of memory: {requested} bytes requested, {available} available {limit}")]
    OutOfMemory { requested: u64, available: u64, limit: MemoryLimit },
    /// The request makes no sense now.
    #[error("{0}")]
    Invalid(String),
}

/// What keeps a rank from more memory: of several limits the one that leaves least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryLimit {
    /// Of the rank's registered buffers: `arena_bytes_max` of its daemon's configuration.
    Arena,
    /// Of the job on this node: `job_memory_bytes_max` of its daemon's configuration.
    Job,
    /// The memory that the node has left.
    Node,
}

/// Where there is too little, and what to do.
impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Arena => {
                "among this rank's buffers: use less, or raise arena_bytes_max in the configuration of the job's daemons"
            }
            Self::Job => {
                "to the job on this node: use less, or raise job_memory_bytes_max in the configuration of the job's daemons"
            }
            Self::Node => "on this node, which has no more memory: use less, or start fewer ranks on it",
        })
    }
}

/// A control message that can't be read. Whoever sent it is cut off.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Longer than any legal message.
    #[error("control message of {0} bytes is too long")]
    TooLong(usize),
    /// Not one of the messages above.
    #[error("control message is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
}

/// The message with its length in front.
pub fn encode<M: Serialize>(message: &M) -> Vec<u8> {
    let json = serde_json::to_vec(message).expect("control messages have no maps with odd keys");
    let mut bytes = (json.len() as u32).to_le_bytes().to_vec();
    bytes.extend(json);
    bytes
}

/// Takes one whole message off the front of `buffer`; `None` while it is not complete.
pub fn decode<M: for<'de> Deserialize<'de>>(buffer: &mut Vec<u8>) -> Result<Option<M>, ControlError> {
    let Some(prefix) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*prefix) as usize;
    if length > CONTROL_BYTES_MAX {
        return Err(ControlError::TooLong(length));
    }
    if buffer.len() < 4 + length {
        return Ok(None);
    }
    let message = serde_json::from_slice(&buffer[4..4 + length])?;
    buffer.drain(..4 + length);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn addresses(count: u16) -> Vec<DaemonAddress> {
        let address = |port: u16| DaemonAddress { daemon: port.into(), link: SocketAddr::from(([127, 0, 0, 1], port)) };
        (0..count).map(address).collect()
    }

    #[test]
    fn ranks_are_dealt_in_blocks() {
        let nodes = JobSpec::deal(7, &addresses(3));
        let spec = JobSpec { nodes, node: NodeId(1), ..JobSpec::single_node(JobId(1), 0) };
        assert!(spec.is_valid());
        assert_eq!(spec.local_ranks(), 3..5);
        let nodes: Vec<_> = (0..8).map(|rank| spec.node_of(rank).map(|node| node.0)).collect();
        assert_eq!(nodes, [Some(0), Some(0), Some(0), Some(1), Some(1), Some(2), Some(2), None]);
    }

    #[test]
    fn a_message_arrives_in_pieces() {
        let message = Request::Reserve { arena_bytes: 77 };
        let bytes = encode(&message);
        let mut buffer = Vec::new();
        for &byte in &bytes[..bytes.len() - 1] {
            buffer.push(byte);
            assert_eq!(decode::<Request>(&mut buffer).unwrap(), None);
        }
        buffer.push(bytes[bytes.len() - 1]);
        assert_eq!(decode(&mut buffer).unwrap(), Some(message));
        assert!(buffer.is_empty());
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Request>(&mut bytes);
        }
    }
}
