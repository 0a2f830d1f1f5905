//! What goes by the daemon although there is a lane.

use std::sync::Arc;

use ropeway_proto::{Completion, Slot, Status};
use ropeway_shm::post::PostMemory;

use super::{Neighbours, PostOffice};

/// An operation that the daemon has, as long as its end was not settled with the lanes.
///
/// It is dropped when the operation has ended: then its slot says how.
pub(crate) struct Detour {
    office: Arc<PostOffice>,
    slot: Slot,
    errand: Errand,
}

/// What the daemon does.
pub(super) enum Errand {
    Send(u32),
    Recv(Neighbours),
    Probe(Neighbours),
}

impl Detour {
    pub(super) fn new(office: &Arc<PostOffice>, slot: Slot, errand: Errand) -> Self {
        Self { office: office.clone(), slot, errand }
    }

    fn completion(&self) -> Option<Completion> {
        self.office.job.slot(self.office.local_rank, self.slot)?.completion()
    }
}

impl Drop for Detour {
    fn drop(&mut self) {
        let completion = self.completion();
        let status = completion.map(|completion| completion.status);
        match self.errand {
            Errand::Send(dest) if status == Some(Status::Cancelled) => {
                self.office.lane_to(dest).words().uncount_detour();
            }
            Errand::Send(_) => {}
            Errand::Recv(sources) => {
                let mut inbox = self.office.lock_inbox();
                let has_message = matches!(status, Some(Status::Success | Status::Truncated));
                let source = completion.filter(|_| has_message).map(|completion| completion.source);
                if let Some(lane) = source.and_then(|source| inbox.lane_from(source)) {
                    lane.words().count_matched();
                }
                inbox.unpost(sources);
            }
            Errand::Probe(sources) => self.office.lock_inbox().unpost(sources),
        }
    }
}
