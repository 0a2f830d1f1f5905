//! What the daemon does and when, for a launcher that wants to know: `ropeway run --trace`.
//!
//! Only an embedded daemon can be asked for it ([`Daemon::log`](crate::Daemon::log)).

use std::sync::Arc;

use ropeway_proto::event::Piece;
use ropeway_proto::{Event, EventKind};
use ropeway_shm::EventLog;

/// The daemon's log, if it keeps one.
#[derive(Clone, Default)]
pub(crate) struct Log(Option<Arc<EventLog>>);

/// Since when the daemon has been awake, and what it has done.
pub(crate) struct Awake {
    log: Log,
    since_ns: u64,
    work: u64,
}

impl Log {
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A piece of a message begins to move.
    pub(crate) fn piece_begins(&self, piece: Option<Piece>) {
        piece.into_iter().for_each(|piece| self.moment(EventKind::PieceBegin(piece)));
    }

    /// It is there, or has left.
    pub(crate) fn piece_ends(&self, piece: Option<Piece>) {
        piece.into_iter().for_each(|piece| self.moment(EventKind::PieceEnd(piece)));
    }

    fn moment(&self, kind: EventKind) {
        if let Some(log) = &self.0 {
            log.push(&Event { at_ns: EventLog::now_ns(), took_ns: 0, thread: 0, kind });
        }
    }
}

impl Awake {
    /// Awake from now on.
    pub(crate) fn begin(log: Option<Arc<EventLog>>) -> Self {
        let since_ns = if log.is_some() { EventLog::now_ns() } else { 0 };
        Self { log: Log(log), since_ns, work: 0 }
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// So many things were done.
    pub(crate) fn add(&mut self, work: usize) {
        self.work += work as u64;
    }

    /// It goes to sleep.
    pub(crate) fn end(&mut self) {
        if let Some(log) = &self.log.0 {
            let took_ns = EventLog::now_ns() - self.since_ns;
            let kind = EventKind::Awake { work: std::mem::take(&mut self.work) };
            log.push(&Event { at_ns: self.since_ns, took_ns, thread: 0, kind });
        }
    }

    /// It has slept.
    pub(crate) fn resume(&mut self) {
        if self.log.is_on() {
            self.since_ns = EventLog::now_ns();
        }
    }
}
