//! What the outcome of an operation means to the program.

use ropeway_proto::agreement::Difference;
use ropeway_proto::{Completion, Tag, completion};

use crate::{Error, Group, Status};

/// What is known of a message before it has travelled; turns completions into results.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Terms {
    Send { source: u32, tag: Tag, bytes: u64, element_bytes: usize },
    Collective,
    Recv { capacity: u64, element_bytes: usize },
    Probe,
}

impl Terms {
    /// What a completion means to the program, in the numbers of its communicator. `None` is one that can't be read.
    #[inline]
    pub(crate) fn judge(&self, completion: Option<Completion>, group: &Group) -> Result<Status, Error> {
        match completion {
            Some(Completion { status: completion::Status::Success, source, tag, bytes }) => {
                self.success(group.number_of(source), tag, bytes)
            }
            other => Err(self.error(other, group)),
        }
    }

    #[cold]
    fn error(&self, completion: Option<Completion>, group: &Group) -> Error {
        let Some(Completion { status, source, tag, bytes }) = completion else {
            return Error::BadReply { what: "a completion of unknown status".into() };
        };
        match status {
            completion::Status::Truncated => Error::Truncated { bytes, capacity: self.capacity() },
            completion::Status::Cancelled => Error::Cancelled,
            completion::Status::PeerFreed => match member(group.number_of(source)) {
                Ok(rank) => Error::PeerFreed { rank },
                Err(error) => error,
            },
            completion::Status::NodeGaveUp => Error::NodeGaveUp { node: source },
            completion::Status::NoMemory => Error::NoMemory { bytes },
            completion::Status::Mismatch => mismatch(group.number_of(source), tag),
            completion::Status::RankFailed | completion::Status::RankLeft => {
                let has_failed = status == completion::Status::RankFailed;
                match group.number_of(source) {
                    Some(rank) if has_failed => Error::RankFailed { rank },
                    Some(rank) => Error::RankLeft { rank },
                    None => Error::OutsiderGone { rank: source },
                }
            }
            completion::Status::PeerLost => Error::PeerLost { node: source },
            other => Error::BadReply { what: format!("a completion of status {other:?}") },
        }
    }

    #[inline]
    fn success(&self, source: Option<u32>, tag: Tag, bytes: u64) -> Result<Status, Error> {
        match *self {
            // Only of messages that have arrived does the completion say whose they are.
            Self::Send { source, tag, bytes, element_bytes } => {
                Ok(Status { source, tag, bytes, count: bytes as usize / element_bytes })
            }
            Self::Collective => Ok(Status { source: source.unwrap_or_default(), tag, bytes, count: bytes as usize }),
            Self::Probe => Ok(Status { source: member(source)?, tag, bytes, count: bytes as usize }),
            Self::Recv { element_bytes, .. } => {
                let (count, rest) = (bytes as usize / element_bytes, bytes as usize % element_bytes);
                if rest != 0 {
                    return Err(Error::SizeMismatch { bytes, element_bytes });
                }
                Ok(Status { source: member(source)?, tag, bytes, count })
            }
        }
    }

    /// As many bytes as the message may have.
    pub(crate) fn capacity(&self) -> u64 {
        match *self {
            Self::Recv { capacity, .. } => capacity,
            Self::Send { bytes, .. } => bytes,
            Self::Probe | Self::Collective => 0,
        }
    }
}

#[cold]
fn mismatch(rank: Option<u32>, code: Tag) -> Error {
    match rank.zip(u8::try_from(code).ok().and_then(Difference::from_code)) {
        Some((rank, difference)) => Error::Mismatch { rank, difference },
        None => Error::BadReply { what: "ranks that can't differ, or differ in nothing".into() },
    }
}

#[inline]
fn member(source: Option<u32>) -> Result<u32, Error> {
    source.ok_or_else(|| Error::BadReply { what: "a rank outside of the communicator".into() })
}

#[cfg(test)]
mod tests {
    use ropeway_proto::Rank;

    use super::*;

    const RECV: Terms = Terms::Recv { capacity: 16, element_bytes: 8 };

    fn job() -> Group {
        Group::of_job(10)
    }

    fn ended(status: completion::Status, source: Rank, bytes: u64) -> Option<Completion> {
        Some(Completion { status, source, tag: 5, bytes })
    }

    #[test]
    fn a_received_message_is_counted_in_elements() {
        let status = RECV.judge(ended(completion::Status::Success, 3, 16), &job()).unwrap();
        assert_eq!(status, Status { source: 3, tag: 5, bytes: 16, count: 2 });
    }

    #[test]
    fn half_an_element_is_an_error() {
        let error = RECV.judge(ended(completion::Status::Success, 3, 12), &job()).unwrap_err();
        assert!(matches!(error, Error::SizeMismatch { bytes: 12, element_bytes: 8 }));
    }

    #[test]
    fn truncation_names_both_sizes() {
        let error = RECV.judge(ended(completion::Status::Truncated, 3, 24), &job()).unwrap_err();
        assert_eq!(error.to_string(), "message of 24 bytes truncated by a buffer of 16");
    }

    #[test]
    fn failures_name_whom_they_are_about() {
        let judge = |status| RECV.judge(ended(status, 9, 0), &job()).unwrap_err();
        assert!(matches!(judge(completion::Status::RankFailed), Error::RankFailed { rank: 9 }));
        assert!(matches!(judge(completion::Status::RankLeft), Error::RankLeft { rank: 9 }));
        assert!(matches!(judge(completion::Status::PeerLost), Error::PeerLost { node: 9 }));
        assert!(matches!(judge(completion::Status::PeerFreed), Error::PeerFreed { rank: 9 }));
        assert!(matches!(judge(completion::Status::NodeGaveUp), Error::NodeGaveUp { node: 9 }));
        assert!(matches!(judge(completion::Status::Cancelled), Error::Cancelled));
        assert!(matches!(judge(completion::Status::NotFound), Error::BadReply { .. }));
        assert!(matches!(RECV.judge(None, &job()), Err(Error::BadReply { .. })));
    }

    #[test]
    fn a_mismatch_names_who_differs_and_in_what() {
        let judge = |rank, tag| {
            let completion = Completion { source: rank, tag, ..Completion::bare(completion::Status::Mismatch) };
            Terms::Collective.judge(Some(completion), &Group::of_ranks(vec![7, 9, 3])).unwrap_err()
        };
        let error = judge(3, Difference::Root.code().into());
        assert_eq!(error.to_string(), "rank 2 has registered another collective: another root");
        assert!(matches!(judge(3, 0), Error::BadReply { .. }));
        assert!(matches!(judge(1, 1), Error::BadReply { .. }));
    }

    #[test]
    fn ranks_are_those_of_the_communicator() {
        let group = Group::of_ranks(vec![7, 9, 3]);
        let judge = |status, source| RECV.judge(ended(status, source, 8), &group);
        assert_eq!(judge(completion::Status::Success, 3).unwrap().source, 2);
        assert!(matches!(judge(completion::Status::RankFailed, 9), Err(Error::RankFailed { rank: 1 })));
        assert!(matches!(judge(completion::Status::RankLeft, 7), Err(Error::RankLeft { rank: 0 })));
        assert!(matches!(judge(completion::Status::RankFailed, 2), Err(Error::OutsiderGone { rank: 2 })));
        assert!(matches!(judge(completion::Status::PeerFreed, 3), Err(Error::PeerFreed { rank: 2 })));
        assert!(matches!(judge(completion::Status::PeerLost, 2), Err(Error::PeerLost { node: 2 })));
        assert!(matches!(judge(completion::Status::Success, 2), Err(Error::BadReply { .. })));
    }

    #[test]
    fn a_send_reports_what_it_sent() {
        let terms = Terms::Send { source: 1, tag: 4, bytes: 12, element_bytes: 4 };
        let status = terms.judge(ended(completion::Status::Success, 0, 0), &job()).unwrap();
        assert_eq!(status, Status { source: 1, tag: 4, bytes: 12, count: 3 });
    }
}
