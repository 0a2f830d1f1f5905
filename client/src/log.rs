//! What this process does and when, for a launcher that wants to know: `ropeway run --trace` and `--record`.
//!
//! Whether there is a log is decided when the session begins. Where there is none nothing is asked but that, and not even that
//! by small messages between ranks of a node (see `Operation::take_at_once`).

use std::sync::atomic::{AtomicU16, Ordering};

use ropeway_proto::collective::CollectiveMember;
use ropeway_proto::event::OperationKind;
use ropeway_proto::{CommId, Command, Endpoint, Event, EventKind, Slot};
use ropeway_shm::EventLog;

use crate::{Error, Group, Status};

/// The log of this process, if it keeps one.
pub(crate) struct Log(Option<EventLog>);

/// When something that is to be logged began; `None` if it is not.
pub(crate) type Begun = Option<u64>;

impl Log {
    pub(crate) fn new(log: Option<EventLog>) -> Self {
        let log = Self(log);
        log.moment(EventKind::Joined);
        log
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Something begins.
    #[inline]
    pub(crate) fn begin(&self) -> Begun {
        self.0.as_ref().map(|_| EventLog::now_ns())
    }

    /// It is over. What it was is asked only if it is logged.
    #[inline]
    pub(crate) fn end(&self, begun: Begun, kind: impl FnOnce() -> EventKind) {
        if let (Some(log), Some(at_ns)) = (&self.0, begun) {
            write(log, at_ns, EventLog::now_ns() - at_ns, kind());
        }
    }

    /// This thread begins to wait for the operation on that slot, or for any of several.
    #[inline]
    pub(crate) fn begin_wait(&self, slot: Option<Slot>) {
        self.moment(EventKind::WaitBegin { slot });
    }

    /// It waits no more.
    #[inline]
    pub(crate) fn end_wait(&self, slot: Option<Slot>) {
        self.moment(EventKind::WaitEnd { slot });
    }

    /// The program learns how an operation has ended.
    #[inline]
    pub(crate) fn ended(&self, slot: Slot, outcome: &Result<Status, Error>, group: &Group) {
        self.moment_of(|| outcome_of(slot, outcome, group));
    }

    pub(crate) fn freed(&self, slot: Slot) {
        self.moment(EventKind::Free { slot });
    }

    #[inline]
    fn moment(&self, kind: EventKind) {
        self.moment_of(|| kind);
    }

    #[inline]
    fn moment_of(&self, kind: impl FnOnce() -> EventKind) {
        if let Some(log) = &self.0 {
            write(log, EventLog::now_ns(), 0, kind());
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.moment(EventKind::Left);
    }
}

#[cold]
fn write(log: &EventLog, at_ns: u64, took_ns: u64, kind: EventKind) {
    log.push(&Event { at_ns, took_ns, thread: THREAD.with(|thread| *thread), kind });
}

fn outcome_of(slot: Slot, outcome: &Result<Status, Error>, group: &Group) -> EventKind {
    match outcome {
        Ok(Status { source, tag, bytes, .. }) => {
            EventKind::End { slot, is_ok: true, peer: group.rank_of(*source), tag: *tag, bytes: *bytes }
        }
        Err(_) => EventKind::End { slot, is_ok: false, peer: 0, tag: 0, bytes: 0 },
    }
}

/// What a command registers, if it does.
pub(crate) fn registration(command: &Command) -> Option<EventKind> {
    let (slot, operation, endpoint, bytes) = match *command {
        Command::InitSend { slot, endpoint, layout, .. } => (slot, OperationKind::Send, endpoint, layout.bytes()),
        Command::InitRecv { slot, endpoint, layout, .. } => (slot, OperationKind::Recv, endpoint, layout.bytes()),
        Command::Send { slot, endpoint, layout, .. } => (slot, OperationKind::SendOnce, endpoint, layout.bytes()),
        Command::Recv { slot, endpoint, layout, .. } => (slot, OperationKind::RecvOnce, endpoint, layout.bytes()),
        Command::Probe { slot, endpoint, .. } => (slot, OperationKind::Probe, endpoint, 0),
        _ => return None,
    };
    Some(EventKind::Init { slot, operation, endpoint, bytes })
}

/// A collective is registered: its peer is the root, its tag its number.
pub(crate) fn collective(slot: Slot, comm: CommId, member: &CollectiveMember) -> EventKind {
    let shape = &member.shape;
    let root = shape.kind.has_root().then(|| shape.members[shape.root as usize]);
    let endpoint = Endpoint { comm, peer: root, tag: Some(member.number as i32) };
    let (input, output) = member.bytes();
    EventKind::Init { slot, operation: OperationKind::Collective(shape.kind), endpoint, bytes: input.max(output) }
}

thread_local! {
    /// The number of this thread among those that have logged something.
    static THREAD: u16 = {
        static THREADS: AtomicU16 = AtomicU16::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed)
    };
}
