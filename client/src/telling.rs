//! What the daemon is to be told of requests that are started together.

use std::mem;

use ropeway_proto::Batch;

use crate::Error;
use crate::attachment::Attachment;
use crate::commands::Entry;
use crate::presence::Moment;
use crate::request::Request;

/// Commands that are gathered into as few entries of the ring as can be, and published as one.
#[derive(Default)]
pub(crate) struct Telling {
    /// Those that are not staged yet: at least one, if there are any.
    batch: Batch,
}

impl Telling {
    /// What the start of one of the requests would publish if it were alone.
    pub(crate) fn add(&mut self, attachment: &Attachment, entry: &Entry) -> Result<(), Error> {
        if !self.batch.add(entry) {
            attachment.stage(&[mem::take(&mut self.batch).encode()])?;
            let is_added = self.batch.add(entry);
            debug_assert!(is_added, "a start says no more than what it starts");
        }
        Ok(())
    }

    /// All requests are started: the daemon is told, and what is to leave at once leaves.
    pub(crate) fn publish<R: Request>(self, requests: &mut [R]) -> Result<(), Error> {
        let Some(first) = requests.first() else { return Ok(()) };
        let attachment = first.persistent().operation().attachment();
        let told = match self.batch.count() {
            0 => None,
            _ => Some(attachment.publish_one(&self.batch.encode())?),
        };
        let left = attachment.wires().leave_now().then(Moment::default);
        if let Some(moment) = left.or(told) {
            requests.iter_mut().for_each(|request| request.persistent_mut().operation_mut().told(&moment));
        }
        Ok(())
    }
}
