//! One operation at a time on one request slot: the core of every request.

use std::sync::Arc;

use ropeway_proto::completion;
use ropeway_proto::{Command, Completion, Epoch, Rank, Slot, Tag};
use ropeway_shm::ArenaSlot;

use crate::attachment::{Attachment, Entry};
use crate::wait::{Event, WaitMode};
use crate::{Error, Status};

/// A request slot, the buffer its operations use, and whether one runs.
pub(crate) struct Operation {
    attachment: Arc<Attachment>,
    slot: Slot,
    /// Of the last operation begun.
    epoch: Epoch,
    memory: Option<ArenaSlot>,
    terms: Terms,
    is_active: bool,
}

/// What is known of a message before it has travelled; turns completions into results.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Terms {
    Send { source: Rank, tag: Tag, bytes: u64, element_bytes: usize },
    Recv { capacity: u64, element_bytes: usize },
    Probe,
}

impl Operation {
    /// Takes a slot. `memory` is lent to the daemon whenever an operation runs.
    pub(crate) fn new(attachment: &Arc<Attachment>, memory: Option<ArenaSlot>, terms: Terms) -> Result<Self, Error> {
        let (slot, epoch) = attachment.take_slot()?;
        Ok(Self { attachment: attachment.clone(), slot, epoch, memory, terms, is_active: false })
    }

    pub(crate) fn attachment(&self) -> &Arc<Attachment> {
        &self.attachment
    }

    pub(crate) fn is_active(&self) -> bool {
        self.is_active
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The buffer. There is one as long as nobody took it.
    pub(crate) fn memory(&self) -> Option<&ArenaSlot> {
        self.memory.as_ref()
    }

    pub(crate) fn memory_mut(&mut self) -> Option<&mut ArenaSlot> {
        self.memory.as_mut()
    }

    pub(crate) fn take_memory(&mut self) -> Option<ArenaSlot> {
        self.memory.take()
    }

    /// Begins an operation and returns the entry that tells the daemon. The caller publishes it, or calls `retract`.
    pub(crate) fn stage(&mut self, command: impl FnOnce(Slot, Epoch) -> Command) -> Entry {
        debug_assert!(!self.is_active, "one operation at a time");
        if let Some(memory) = &mut self.memory {
            memory.lend();
        }
        self.is_active = true;
        self.epoch = self.epoch.wrapping_add(1);
        command(self.slot, self.epoch).encode()
    }

    /// The operation is over, or the daemon never heard of it.
    pub(crate) fn retract(&mut self) {
        if let Some(memory) = &self.memory {
            memory.reclaim();
        }
        self.is_active = false;
    }

    /// Begins an operation.
    pub(crate) fn begin(&mut self, command: impl FnOnce(Slot, Epoch) -> Command) -> Result<(), Error> {
        let entry = self.stage(command);
        let published = self.attachment.publish(&[entry]);
        if published.is_err() {
            self.retract();
        }
        published
    }

    /// Waits for the end of the operation.
    pub(crate) fn wait(&mut self, mode: WaitMode) -> Result<Status, Error> {
        let completion = self.finish(mode)?;
        self.terms.judge(completion)
    }

    /// Waits for the end of the operation, and returns what the daemon says of it.
    pub(crate) fn finish(&mut self, mode: WaitMode) -> Result<Option<Completion>, Error> {
        if !self.is_active {
            return Err(Error::Inactive);
        }
        let waited = self.attachment.wait(self, mode);
        self.retract();
        waited.map(|()| self.completion())
    }

    /// The outcome, if the operation has ended.
    pub(crate) fn test(&mut self) -> Result<Option<Status>, Error> {
        if !self.is_active {
            return Err(Error::Inactive);
        }
        if !self.has_happened() {
            let alive = self.attachment.check();
            if alive.is_ok() {
                return Ok(None);
            }
            if !self.has_happened() {
                self.retract();
                return alive.map(|()| None);
            }
        }
        self.retract();
        self.terms.judge(self.completion()).map(Some)
    }

    /// Withdraws the operation, or takes its outcome if it was too late for that.
    pub(crate) fn cancel(&mut self, mode: WaitMode) -> Result<Option<Status>, Error> {
        if self.is_active {
            self.withdraw();
        }
        match self.wait(mode) {
            Ok(status) => Ok(Some(status)),
            Err(Error::Cancelled) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks for the operation to be withdrawn.
    pub(crate) fn withdraw(&self) {
        // Without a daemon there is nothing to withdraw, and waiting will tell.
        let _ = self.attachment.publish_one(Command::Cancel { slot: self.slot, epoch: self.epoch });
    }

    /// Gives the registration up. Slot and buffer are free for others when the daemon has let go of them.
    pub(crate) fn free(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        // Without a daemon everything is free anyway.
        let _ = self.attachment.publish_one(Command::Free { slot: self.slot, epoch: self.epoch });
    }

    fn completion(&self) -> Option<Completion> {
        self.attachment.request_slot(self.slot).completion()
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.attachment.give_back(self.slot, self.epoch, self.memory.take());
    }
}

impl Event for Operation {
    fn has_happened(&self) -> bool {
        self.attachment.request_slot(self.slot).is_done(self.epoch)
    }

    fn arm(&self, doorbell: u32) {
        self.attachment.request_slot(self.slot).arm(doorbell);
    }

    fn disarm(&self) {
        self.attachment.request_slot(self.slot).disarm();
    }
}

impl Terms {
    /// What a completion means to the program. `None` is one that can't be read.
    pub(crate) fn judge(&self, completion: Option<Completion>) -> Result<Status, Error> {
        let Some(Completion { status, source, tag, bytes }) = completion else {
            return Err(Error::BadReply { what: "a completion of unknown status".into() });
        };
        match status {
            completion::Status::Success => self.success(source, tag, bytes),
            completion::Status::Truncated => Err(Error::Truncated { bytes, capacity: self.capacity() }),
            completion::Status::Cancelled => Err(Error::Cancelled),
            completion::Status::PeerFreed => Err(Error::PeerFreed),
            completion::Status::RankFailed => Err(Error::RankFailed { rank: source }),
            completion::Status::RankLeft => Err(Error::RankLeft { rank: source }),
            completion::Status::PeerLost => Err(Error::PeerLost { node: source }),
            other => Err(Error::BadReply { what: format!("a completion of status {other:?}") }),
        }
    }

    fn success(&self, source: Rank, tag: Tag, bytes: u64) -> Result<Status, Error> {
        match *self {
            Self::Probe => Ok(Status { source, tag, bytes, count: bytes as usize }),
            Self::Send { source, tag, bytes, element_bytes } => {
                Ok(Status { source, tag, bytes, count: bytes as usize / element_bytes })
            }
            Self::Recv { element_bytes, .. } => {
                let (count, rest) = (bytes as usize / element_bytes, bytes as usize % element_bytes);
                if rest != 0 {
                    return Err(Error::SizeMismatch { bytes, element_bytes });
                }
                Ok(Status { source, tag, bytes, count })
            }
        }
    }

    fn capacity(&self) -> u64 {
        match *self {
            Self::Recv { capacity, .. } => capacity,
            Self::Send { bytes, .. } => bytes,
            Self::Probe => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECV: Terms = Terms::Recv { capacity: 16, element_bytes: 8 };

    fn ended(status: completion::Status, source: Rank, bytes: u64) -> Option<Completion> {
        Some(Completion { status, source, tag: 5, bytes })
    }

    #[test]
    fn a_received_message_is_counted_in_elements() {
        let status = RECV.judge(ended(completion::Status::Success, 3, 16)).unwrap();
        assert_eq!(status, Status { source: 3, tag: 5, bytes: 16, count: 2 });
    }

    #[test]
    fn half_an_element_is_an_error() {
        let error = RECV.judge(ended(completion::Status::Success, 3, 12)).unwrap_err();
        assert!(matches!(error, Error::SizeMismatch { bytes: 12, element_bytes: 8 }));
    }

    #[test]
    fn truncation_names_both_sizes() {
        let error = RECV.judge(ended(completion::Status::Truncated, 3, 24)).unwrap_err();
        assert_eq!(error.to_string(), "message of 24 bytes truncated by a buffer of 16");
    }

    #[test]
    fn failures_name_whom_they_are_about() {
        let judge = |status| RECV.judge(ended(status, 9, 0)).unwrap_err();
        assert!(matches!(judge(completion::Status::RankFailed), Error::RankFailed { rank: 9 }));
        assert!(matches!(judge(completion::Status::RankLeft), Error::RankLeft { rank: 9 }));
        assert!(matches!(judge(completion::Status::PeerLost), Error::PeerLost { node: 9 }));
        assert!(matches!(judge(completion::Status::PeerFreed), Error::PeerFreed));
        assert!(matches!(judge(completion::Status::Cancelled), Error::Cancelled));
        assert!(matches!(judge(completion::Status::NotFound), Error::BadReply { .. }));
        assert!(matches!(RECV.judge(None), Err(Error::BadReply { .. })));
    }

    #[test]
    fn a_send_reports_what_it_sent() {
        let terms = Terms::Send { source: 1, tag: 4, bytes: 12, element_bytes: 4 };
        let status = terms.judge(ended(completion::Status::Success, 0, 0)).unwrap();
        assert_eq!(status, Status { source: 1, tag: 4, bytes: 12, count: 3 });
    }
}
