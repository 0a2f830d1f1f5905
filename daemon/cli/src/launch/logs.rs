//! The logs of a job: memory in which its processes write down what they do.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use ropeway_proto::limits::{LOG_BYTES_MAX, LOG_EVENTS_MAX};
use ropeway_shm::EventLog;

use super::{Daemons, LaunchError};

/// A log for each rank, and one for each daemon if they are ours.
///
/// They belong to the launcher, so nothing that was written is lost with who wrote it.
pub(crate) struct Logs {
    ranks: Vec<EventLog>,
    daemons: Vec<Arc<EventLog>>,
}

impl Logs {
    /// Makes the logs, and has the daemons write theirs from now on. The system's daemon writes none: it serves others too.
    pub(crate) fn create(ranks: u32, daemons: &Daemons) -> Result<Self, LaunchError> {
        let processes = u64::from(ranks + daemons.nodes());
        let events = EventLog::events_in(LOG_BYTES_MAX / processes).min(LOG_EVENTS_MAX);
        let create = || EventLog::create(events).map_err(LaunchError::system("making room for logs"));
        let ranks = (0..ranks).map(|_| create()).collect::<Result<_, _>>()?;
        let of_daemons = daemons.embedded_ones().iter().map(|daemon| {
            let log = Arc::new(create()?);
            daemon.log(log.clone()).map_err(LaunchError::system("asking a daemon for its log"))?;
            Ok(log)
        });
        Ok(Self { ranks, daemons: of_daemons.collect::<Result<_, LaunchError>>()? })
    }

    /// What a rank inherits.
    pub(super) fn of_rank(&self, rank: u32) -> BorrowedFd<'_> {
        self.ranks[rank as usize].fd()
    }

    /// By rank.
    pub(crate) fn ranks(&self) -> &[EventLog] {
        &self.ranks
    }

    /// By node. None of the system's daemon.
    pub(crate) fn daemons(&self) -> &[Arc<EventLog>] {
        &self.daemons
    }
}
