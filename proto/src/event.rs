//! Client, daemon → launcher: what a process has done and when, for a trace or a recording.
//!
//! Each process has a log of its own in memory that its launcher has made. An event is 48 bytes, in the machine's byte order,
//! since nobody else reads it:
//!
//! ```text
//!  0      1      2        4      8       16         24      32     36     40     44    48
//!  +------+------+--------+------+-------+----------+-------+------+------+------+-----+
//!  | kind | what | thread | slot | at_ns | took_ns  | bytes | comm | peer | tag  |  0  |
//!  +------+------+--------+------+-------+----------+-------+------+------+------+-----+
//! ```
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`, which the processes of a machine share. `peer` and `tag` are −1 for the wildcards.
//! Whatever a kind does not need is zero. A kind is never zero: an entry of zeros was not written.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::collective::CollectiveKind;
use crate::command::Endpoint;
use crate::ids::{CommId, End, NodeId, Rank, Slot, Tag};

/// Words of an event.
pub const EVENT_WORDS: usize = 6;

/// Something a process has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it began.
    pub at_ns: u64,
    /// How long it took; zero for what is a moment.
    pub took_ns: u64,
    /// Which thread of the process, counted from 0.
    pub thread: u16,
    /// What.
    pub kind: EventKind,
}

/// What a process has done. Requests are named by their slots, which others use after they are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum EventKind {
    /// A rank has joined its job.
    Joined,
    /// It leaves.
    Left,
    /// A request is registered. A one-shot one is started with that.
    Init { slot: Slot, operation: OperationKind, endpoint: Endpoint, bytes: u64 },
    /// It is started.
    Start { slot: Slot },
    /// Commands are put into the ring, and the daemon is woken if it sleeps.
    Publish,
    /// A thread begins to wait for it; `None`: for any of several.
    WaitBegin { slot: Option<Slot> },
    /// The thread waits no more.
    WaitEnd { slot: Option<Slot> },
    /// It has ended, and the program knows. What has arrived and whence, or that it has failed.
    End { slot: Slot, is_ok: bool, peer: Rank, tag: Tag, bytes: u64 },
    /// It is freed.
    Free { slot: Slot },
    /// A daemon was awake, until it went to sleep again. `work`: things it did.
    Awake { work: u64 },
    /// A daemon begins to move a piece of a message.
    PieceBegin(Piece),
    /// The piece has left, or is there.
    PieceEnd(Piece),
}

/// A piece of a message on its way through a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which end of the message the daemon serves.
    pub end: End,
    /// Whose message it is: a rank of its node, and the slot. `None`: the nodes' own, for a collective, or nobody's yet.
    pub of: Option<(Rank, Slot)>,
    /// The node at the other end.
    pub node: NodeId,
    /// Bytes of the piece.
    pub bytes: u64,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperationKind {
    /// A registered send.
    Send,
    /// A registered receive.
    Recv,
    /// A one-shot send.
    SendOnce,
    /// A one-shot receive.
    RecvOnce,
    /// Looks for a message.
    Probe,
    /// A collective.
    Collective(CollectiveKind),
}

impl OperationKind {
    const ALL: [(Self, &'static str); 16] = {
        use CollectiveKind::*;
        [
            (Self::Send, "send"),
            (Self::Recv, "recv"),
            (Self::SendOnce, "send_once"),
            (Self::RecvOnce, "recv_once"),
            (Self::Probe, "probe"),
            (Self::Collective(Barrier), "barrier"),
            (Self::Collective(Bcast), "bcast"),
            (Self::Collective(Reduce), "reduce"),
            (Self::Collective(Allreduce), "allreduce"),
            (Self::Collective(ReduceScatter), "reduce_scatter"),
            (Self::Collective(Scan), "scan"),
            (Self::Collective(Exscan), "exscan"),
            (Self::Collective(Gather), "gather"),
            (Self::Collective(Scatter), "scatter"),
            (Self::Collective(Allgather), "allgather"),
            (Self::Collective(Alltoall), "alltoall"),
        ]
    };

    /// Its name in recordings.
    pub fn name(self) -> &'static str {
        Self::ALL[self.code()].1
    }

    /// What has this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, other)| *other == name).map(|&(kind, _)| kind)
    }

    /// Whether it is registered, and started again and again.
    pub fn is_persistent(self) -> bool {
        !matches!(self, Self::SendOnce | Self::RecvOnce | Self::Probe)
    }

    fn code(self) -> usize {
        Self::ALL.iter().position(|&(kind, _)| kind == self).expect("all kinds are in the table")
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, Default)]
#[repr(C)]
struct RawEvent {
    kind: u8,
    what: u8,
    thread: u16,
    slot: u32,
    at_ns: u64,
    took_ns: u64,
    bytes: u64,
    comm: u32,
    peer: i32,
    tag: i32,
    reserved: u32,
}

const _: () = assert!(size_of::<RawEvent>() == EVENT_WORDS * 8);

const ANY: i32 = -1;
const NO_SLOT: u32 = u32::MAX;

mod kind {
    pub(super) const JOINED: u8 = 1;
    pub(super) const LEFT: u8 = 2;
    pub(super) const INIT: u8 = 3;
    pub(super) const START: u8 = 4;
    pub(super) const PUBLISH: u8 = 5;
    pub(super) const WAIT_BEGIN: u8 = 6;
    pub(super) const WAIT_END: u8 = 7;
    pub(super) const END: u8 = 8;
    pub(super) const FREE: u8 = 9;
    pub(super) const AWAKE: u8 = 10;
    pub(super) const PIECE_BEGIN: u8 = 11;
    pub(super) const PIECE_END: u8 = 12;
}

impl Event {
    /// The entry as words of the log. The first is never zero.
    pub fn encode(&self) -> [u64; EVENT_WORDS] {
        let raw = self.kind.to_raw();
        zerocopy::transmute!(RawEvent { thread: self.thread, at_ns: self.at_ns, took_ns: self.took_ns, ..raw })
    }

    /// Reads an entry. `None` if it was not written, or is none.
    pub fn decode(words: [u64; EVENT_WORDS]) -> Option<Self> {
        let raw: RawEvent = zerocopy::transmute!(words);
        let RawEvent { at_ns, took_ns, thread, .. } = raw;
        Some(Self { at_ns, took_ns, thread, kind: raw.decode()? })
    }
}

impl EventKind {
    fn to_raw(self) -> RawEvent {
        use kind::*;
        match self {
            Self::Joined => RawEvent::of(JOINED, NO_SLOT),
            Self::Left => RawEvent::of(LEFT, NO_SLOT),
            Self::Init { slot, operation, endpoint, bytes } => RawEvent {
                what: operation.code() as u8,
                comm: endpoint.comm.0,
                peer: endpoint.peer.map_or(ANY, |rank| rank as i32),
                tag: endpoint.tag.unwrap_or(ANY),
                bytes,
                ..RawEvent::of(INIT, slot)
            },
            Self::Start { slot } => RawEvent::of(START, slot),
            Self::Publish => RawEvent::of(PUBLISH, NO_SLOT),
            Self::WaitBegin { slot } => RawEvent::of(WAIT_BEGIN, slot.unwrap_or(NO_SLOT)),
            Self::WaitEnd { slot } => RawEvent::of(WAIT_END, slot.unwrap_or(NO_SLOT)),
            Self::End { slot, is_ok, peer, tag, bytes } => {
                RawEvent { what: u8::from(is_ok), peer: peer as i32, tag, bytes, ..RawEvent::of(END, slot) }
            }
            Self::Free { slot } => RawEvent::of(FREE, slot),
            Self::Awake { work } => RawEvent { bytes: work, ..RawEvent::of(AWAKE, NO_SLOT) },
            Self::PieceBegin(piece) => piece.to_raw(PIECE_BEGIN),
            Self::PieceEnd(piece) => piece.to_raw(PIECE_END),
        }
    }
}

impl Piece {
    fn to_raw(self, kind: u8) -> RawEvent {
        let (rank, slot) = self.of.map_or((ANY, NO_SLOT), |(rank, slot)| (rank as i32, slot));
        let what = u8::from(self.end == End::Recv);
        RawEvent { what, peer: rank, comm: self.node.0.into(), bytes: self.bytes, ..RawEvent::of(kind, slot) }
    }
}

impl RawEvent {
    fn of(kind: u8, slot: Slot) -> Self {
        Self { kind, slot, ..Self::default() }
    }

    fn decode(&self) -> Option<EventKind> {
        use kind::*;
        let slot = self.slot;
        let some_slot = (slot != NO_SLOT).then_some(slot);
        Some(match self.kind {
            JOINED => EventKind::Joined,
            LEFT => EventKind::Left,
            INIT => {
                let operation = OperationKind::ALL.get(usize::from(self.what))?.0;
                EventKind::Init { slot, operation, endpoint: self.endpoint(), bytes: self.bytes }
            }
            START => EventKind::Start { slot },
            PUBLISH => EventKind::Publish,
            WAIT_BEGIN => EventKind::WaitBegin { slot: some_slot },
            WAIT_END => EventKind::WaitEnd { slot: some_slot },
            END => {
                let (is_ok, peer) = (self.what != 0, self.peer as Rank);
                EventKind::End { slot, is_ok, peer, tag: self.tag, bytes: self.bytes }
            }
            FREE => EventKind::Free { slot },
            AWAKE => EventKind::Awake { work: self.bytes },
            PIECE_BEGIN => EventKind::PieceBegin(self.piece()),
            PIECE_END => EventKind::PieceEnd(self.piece()),
            _ => return None,
        })
    }

    fn endpoint(&self) -> Endpoint {
        let peer = Rank::try_from(self.peer).ok();
        Endpoint { comm: CommId(self.comm), peer, tag: (self.tag != ANY).then_some(self.tag) }
    }

    fn piece(&self) -> Piece {
        let end = if self.what == 0 { End::Send } else { End::Recv };
        let of = Rank::try_from(self.peer).ok().map(|rank| (rank, self.slot));
        Piece { end, of, node: NodeId(self.comm as u16), bytes: self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_back(kind: EventKind) {
        let event = Event { at_ns: 7, took_ns: 8, thread: 9, kind };
        assert_ne!(event.encode()[0], 0, "{event:?}");
        assert_eq!(Event::decode(event.encode()), Some(event));
    }

    #[test]
    fn events_survive_their_words() {
        let endpoint = Endpoint { comm: CommId(1), peer: Some(2), tag: Some(3) };
        let any = Endpoint { peer: None, tag: None, ..endpoint };
        for (operation, name) in OperationKind::ALL {
            read_back(EventKind::Init { slot: 4, operation, endpoint, bytes: 5 });
            assert_eq!(OperationKind::of_name(name), Some(operation));
            assert_eq!(operation.name(), name);
        }
        read_back(EventKind::Init { slot: 0, operation: OperationKind::RecvOnce, endpoint: any, bytes: 0 });
        read_back(EventKind::End { slot: 0, is_ok: true, peer: 1, tag: 2, bytes: 3 });
        for kind in [EventKind::Joined, EventKind::Left, EventKind::Publish, EventKind::Awake { work: 1 << 40 }] {
            read_back(kind);
        }
        for slot in [0, 65_535] {
            read_back(EventKind::Start { slot });
            read_back(EventKind::Free { slot });
            read_back(EventKind::WaitBegin { slot: Some(slot) });
            read_back(EventKind::WaitEnd { slot: None });
        }
        for end in [End::Send, End::Recv] {
            let piece = Piece { end, of: Some((3, 4)), node: NodeId(5), bytes: 6 };
            read_back(EventKind::PieceBegin(piece));
            read_back(EventKind::PieceEnd(Piece { of: None, ..piece }));
        }
    }

    #[test]
    fn what_was_not_written_is_no_event() {
        assert_eq!(Event::decode([0; EVENT_WORDS]), None);
    }

    proptest! {
        #[test]
        fn random_words_never_panic(words in any::<[u64; EVENT_WORDS]>()) {
            let _ = Event::decode(words);
        }
    }
}
