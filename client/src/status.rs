//! What an operation tells when it has ended, and whom and what receives may accept.

use ropeway_proto::{Rank, Tag};

use crate::Plain;
use crate::plain::element_bytes;

/// The message an operation has sent, received or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Rank that sent the message, in the communicator of the operation.
    pub source: u32,
    /// Tag of the message.
    pub tag: i32,
    /// Bytes of the message.
    pub bytes: u64,
    /// Elements of the message, in the element type of the buffer; of a probe, which has none: bytes.
    pub count: usize,
}

impl Status {
    /// Elements of the message as `T`; `None` if it does not hold a whole number of them.
    ///
    /// This is for probes. Who has received a message reads the field `count`.
    pub fn count<T: Plain>(&self) -> Option<usize> {
        let element_bytes = element_bytes::<T>() as u64;
        self.bytes.is_multiple_of(element_bytes).then(|| (self.bytes / element_bytes) as usize)
    }
}

/// Whom a receive accepts messages from: a rank, or [`ANY_SOURCE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source(pub(crate) Option<Rank>);

/// Accepts messages from every rank.
pub const ANY_SOURCE: Source = Source(None);

impl From<u32> for Source {
    fn from(rank: u32) -> Self {
        Self(Some(rank))
    }
}

/// Which messages a receive accepts: a tag, or [`ANY_TAG`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagMatch(pub(crate) Option<Tag>);

/// Accepts messages with every tag.
pub const ANY_TAG: TagMatch = TagMatch(None);

impl From<i32> for TagMatch {
    fn from(tag: i32) -> Self {
        Self(Some(tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_counts_in_any_type() {
        let status = Status { source: 0, tag: 0, bytes: 12, count: 12 };
        assert_eq!(status.count::<u32>(), Some(3));
        assert_eq!(status.count::<f64>(), None);
    }
}
