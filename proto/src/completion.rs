//! Daemon → client: what a request slot says when an operation ends.
//!
//! A completion is written into the request's own 64-byte slot of the job segment
//! (`ropeway-shm`, `request`), so that nobody has to search a queue for it:
//!
//! ```text
//!  0       4        8        12       16      20       24          32          40      44         48          56      64
//!  +-------+--------+--------+--------+-------+--------+-----------+-----------+-------+----------+-----------+-------+
//!  | epoch | waiter | status | source |  tag  | number |   bytes   |  channel  | round | watching |   until   |   0   |
//!  +-------+--------+--------+--------+-------+--------+-----------+-----------+-------+----------+-----------+-------+
//! ```
//!
//! `channel` is where the request's direct channel lies, and `number` how many of its messages the daemon has moved; both
//! are zero for requests without one (`ropeway-shm`, `channel`). `round`, `watching` and `until` are the client's, which says there that messages have
//! started together (`ropeway-shm`, `offers`).

use crate::agreement::Difference;
use crate::ids::{Rank, Tag};

/// How an operation ended. Stable on the wire and in C; the numbers are grouped by what is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum Status {
    /// Done as asked.
    Success = 0,

    // 1..99: this operation only.
    /// The message was longer than the buffer. The buffer's content is undefined.
    Truncated = 1,
    /// Withdrawn before it matched anything.
    Cancelled = 2,
    /// The request is freed and nothing refers to its buffer any more.
    Freed = 3,
    /// A probe that doesn't wait found no message.
    NotFound = 4,
    /// The request at the other end of the channel, or a member's of the collective, was freed; nothing will ever match here
    /// again. `source` names the rank.
    PeerFreed = 5,
    /// The members of a collective did not register the same. `source` names one that differs, `tag` is the code of the
    /// [difference](crate::agreement::Difference).
    Mismatch = 7,
    /// Not over: the request has a direct channel now, and the operation goes on there, as pending.
    GoesDirect = 6,
    /// Another node has given the collective up, for a reason that is no rank's and that only it knows. `source` holds the node.
    NodeGaveUp = 8,
    /// This node has no memory for what a collective needs besides its members' buffers: `bytes`.
    NoMemory = 9,

    // 100..199: everything with that rank. `source` names it.
    /// The peer's process died.
    RankFailed = 100,
    /// The peer's process has left the job in an orderly way.
    RankLeft = 101,

    // 200..299: everything over that link. `source` holds the node.
    /// The connection to the peer's node is lost.
    PeerLost = 200,
}

impl Status {
    const ALL: [Self; 13] = [
        Self::Success,
        Self::Truncated,
        Self::Cancelled,
        Self::Freed,
        Self::NotFound,
        Self::PeerFreed,
        Self::Mismatch,
        Self::GoesDirect,
        Self::NodeGaveUp,
        Self::NoMemory,
        Self::RankFailed,
        Self::RankLeft,
        Self::PeerLost,
    ];

    /// The code as it stands in memory.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// The status with this code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.code() == code)
    }
}

/// How an operation ended, and for receives and probes, with which message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// How it ended.
    pub status: Status,
    /// Rank that sent the message; the failed rank, or the lost node, after an error.
    pub source: Rank,
    /// Tag of the message.
    pub tag: Tag,
    /// Bytes of the message, also when it was truncated.
    pub bytes: u64,
}

impl Completion {
    /// Member `rank` has registered something else.
    pub fn mismatch((rank, difference): (Rank, Difference)) -> Self {
        Self { source: rank, tag: difference.code().into(), ..Self::bare(Status::Mismatch) }
    }

    /// An ending that carries no message.
    pub fn bare(status: Status) -> Self {
        Self { status, source: 0, tag: 0, bytes: 0 }
    }
}

/// Why a node takes part in a collective no more, as it tells the others: something that happened to a rank, or to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    status: Status,
    source: u32,
}

impl Cause {
    /// Of what has ended a collective here. `None` if that concerns this node alone, such as its memory or a link of its own, or if others are
    /// told otherwise, as of a mismatch.
    pub fn of(ending: Completion) -> Option<Self> {
        Self::new(ending.status, ending.source)
    }

    /// `None` if it is not one of these.
    pub(crate) fn new(status: Status, source: u32) -> Option<Self> {
        let is_known = matches!(status, Status::PeerFreed | Status::RankFailed | Status::RankLeft | Status::NodeGaveUp);
        is_known.then_some(Self { status, source })
    }

    /// As it is told whoever waits.
    pub fn ending(self) -> Completion {
        Completion { source: self.source, ..Completion::bare(self.status) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_unknown_ones_are_refused() {
        for status in Status::ALL {
            assert_eq!(Status::from_code(status.code()), Some(status));
        }
        assert_eq!(Status::from_code(99), None);
    }
}
