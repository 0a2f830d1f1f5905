//! What the daemon is to be told of requests that are started together.

use std::mem;

use ropeway_proto::{Batch, Brief};

use crate::Error;
use crate::attachment::Attachment;
use crate::commands::Entry;
use crate::presence::Moment;

/// Commands that are gathered into as few entries of the ring as can be, and published as one.
#[derive(Default)]
pub(crate) struct Telling {
    /// Those that are not staged yet: at least one, if there are any.
    batch: Batch,
}

impl Telling {
    /// With these commands, of which only the last batch has room for more.
    pub(crate) fn of(prepared: &[Batch], attachment: &Attachment) -> Result<Self, Error> {
        let Some((last, full)) = prepared.split_last() else { return Ok(Self::default()) };
        full.iter().try_for_each(|batch| attachment.stage(&[batch.encode()]))?;
        Ok(Self { batch: *last })
    }

    /// What the start of one of the requests would publish if it were alone.
    pub(crate) fn add(&mut self, attachment: &Attachment, entry: &Entry) -> Result<(), Error> {
        self.add_by(attachment, |batch| batch.add(entry))
    }

    /// The same of a brief command.
    #[inline]
    pub(crate) fn add_brief(&mut self, attachment: &Attachment, brief: Brief) -> Result<(), Error> {
        self.add_by(attachment, |batch| batch.add_brief(brief))
    }

    #[inline]
    fn add_by(&mut self, attachment: &Attachment, add: impl Fn(&mut Batch) -> bool) -> Result<(), Error> {
        if !add(&mut self.batch) {
            attachment.stage(&[mem::take(&mut self.batch).encode()])?;
            let is_added = add(&mut self.batch);
            debug_assert!(is_added, "a start says no more than what it starts");
        }
        Ok(())
    }

    /// Whether there is nothing to tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.count() == 0
    }

    /// All requests are started: the daemon is told, and what is to leave at once leaves. When that was done, if there was anything.
    pub(crate) fn publish(self, attachment: &Attachment) -> Result<Option<Moment>, Error> {
        let told = self.tell(attachment)?;
        let left = attachment.wires().leave_now().then(Moment::default);
        Ok(left.or(told))
    }

    /// The same of requests behind which others are started: what is to leave at once leaves behind those.
    pub(crate) fn tell(self, attachment: &Attachment) -> Result<Option<Moment>, Error> {
        if self.is_empty() { Ok(None) } else { attachment.publish_one(&self.batch.encode()).map(Some) }
    }
}
