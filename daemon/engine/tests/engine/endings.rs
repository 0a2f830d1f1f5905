//! Channels that ranks use by themselves, within a node and over a wire, in any order of events: whoever is an end of one and has not gone
//! hears that the other one has, each end is taken down once, and nothing is left.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ropeway_engine::{DirectId, Leftovers, LocalWork, Wiring};
use ropeway_proto::{ChannelId, End, NodeId, Rank, Slot, Status};

use crate::cluster::{Cluster, EAGER_BYTES};

/// Who sends to whom: two ranks live on each node.
const PAIRS: [[Rank; 2]; 6] = [[0, 1], [3, 2], [0, 2], [2, 0], [1, 3], [1, 2]];
const RANKS: usize = 4;
/// The last one goes by rendezvous where the link carries it.
const BYTES: [u64; 6] = [8, EAGER_BYTES + 1, 8, 8, 8, EAGER_BYTES + 1];

#[derive(Clone, Copy, Debug)]
enum Event {
    Init {
        pair: usize,
        end: usize,
    },
    Start {
        pair: usize,
        end: usize,
    },
    Free {
        pair: usize,
        end: usize,
    },
    /// A buffer that was being copied is not any more.
    Closed {
        node: usize,
    },
    RankGone {
        rank: usize,
        has_failed: bool,
    },
    WireDown {
        node: usize,
    },
    LinkCut,
    LinkDown {
        node: usize,
    },
    /// Whether a node has memory for channels.
    Room {
        node: usize,
        is_there: bool,
    },
    Transmit {
        from: u16,
        to: u16,
    },
    Deliver {
        from: u16,
        to: u16,
    },
}

fn any_event() -> impl Strategy<Value = Event> {
    let request = || (0..PAIRS.len(), 0..2usize);
    let link = || (0..2u16, 0..2u16);
    prop_oneof![
        16 => request().prop_map(|(pair, end)| Event::Init { pair, end }),
        6 => request().prop_map(|(pair, end)| Event::Start { pair, end }),
        4 => request().prop_map(|(pair, end)| Event::Free { pair, end }),
        2 => (0..2usize).prop_map(|node| Event::Closed { node }),
        1 => (0..RANKS, any::<bool>()).prop_map(|(rank, has_failed)| Event::RankGone { rank, has_failed }),
        1 => (0..2usize).prop_map(|node| Event::WireDown { node }),
        1 => Just(Event::LinkCut),
        1 => (0..2usize).prop_map(|node| Event::LinkDown { node }),
        2 => (0..2usize, any::<bool>()).prop_map(|(node, is_there)| Event::Room { node, is_there }),
        20 => link().prop_map(|(from, to)| Event::Transmit { from, to }),
        20 => link().prop_map(|(from, to)| Event::Deliver { from, to }),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A sender's, of which its receiver has yet to say whether it can.
    Proposed,
    Open,
    /// Given up, while its buffer is in use.
    Closing(ChannelId),
    Closed,
    /// It was never used.
    Discarded,
}

/// An end of a channel. Channels have the same name on the wire as on their node, and no two have the same.
#[derive(Clone, Copy, Debug)]
struct Side {
    state: State,
    rank: Rank,
    slot: Slot,
    /// What the other node calls a wired channel, once that is known.
    peer: Option<u32>,
    is_wired: bool,
    /// Told that the other end is lost.
    is_severed: bool,
    /// Whether the other end was told over the wire, or lies in the same memory.
    has_said_end: bool,
}

/// What a client knows of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Idle,
    Started,
    Freeing,
}

struct Trial {
    cluster: Cluster,
    is_attached: [bool; RANKS],
    requests: BTreeMap<(Rank, Slot), Request>,
    names: u32,
    /// By node, name and whether it is the receiver's.
    sides: BTreeMap<(usize, u32, bool), Side>,
    has_room: [bool; 2],
    wire_down: [bool; 2],
    /// Nodes that are to take what is on the wire, and then give it up.
    draining: [bool; 2],
    wire_ended: [bool; 2],
    is_cut: bool,
    link_down: [bool; 2],
}

impl Trial {
    fn new() -> Self {
        let mut cluster = Cluster::configured(&[2, 2], |config| config.has_direct_channels = true);
        cluster.engines[0].handle_wire_up(NodeId(1));
        cluster.engines[1].handle_wire_up(NodeId(0));
        Self {
            cluster,
            is_attached: [true; RANKS],
            requests: BTreeMap::new(),
            names: 0,
            sides: BTreeMap::new(),
            has_room: [true; 2],
            wire_down: [false; 2],
            draining: [false; 2],
            wire_ended: [false; 2],
            is_cut: false,
            link_down: [false; 2],
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Init { pair, end } => self.init(pair, end),
            Event::Start { pair, end } => self.start(place(pair, end)),
            Event::Free { pair, end } => self.free(place(pair, end)),
            Event::Closed { node } => self.close_next(node),
            Event::RankGone { rank, has_failed } => self.end_rank(rank as Rank, has_failed),
            Event::WireDown { node } => self.lose_wire(node),
            Event::LinkCut if !self.is_cut => {
                self.is_cut = true;
                self.cluster.sever(0, 1);
            }
            Event::LinkDown { node } if self.is_cut => self.lose_link(node),
            Event::LinkCut | Event::LinkDown { .. } => {}
            Event::Room { node, is_there } => self.has_room[node] = is_there,
            Event::Transmit { from, to } => _ = self.cluster.transmit(from, to),
            Event::Deliver { from, to } => _ = self.deliver(from, to),
        }
        self.work();
    }

    fn init(&mut self, pair: usize, end: usize) {
        let ((rank, slot), [sender, receiver]) = (place(pair, end), PAIRS[pair]);
        if !self.is_attached[rank as usize] || self.requests.contains_key(&(rank, slot)) {
            return;
        }
        match end {
            0 => self.cluster.init_send(rank, slot, receiver, BYTES[pair]),
            _ => self.cluster.init_recv(rank, slot, sender, BYTES[pair]),
        }
        self.requests.insert((rank, slot), Request::Idle);
    }

    /// Whoever was told that its channel is direct goes on there by itself.
    fn start(&mut self, (rank, slot): (Rank, Slot)) {
        let is_over = self.requests.get(&(rank, slot)) == Some(&Request::Started)
            && self.cluster.status(rank, slot).is_some_and(|status| status != Status::GoesDirect);
        let is_idle = self.requests.get(&(rank, slot)) == Some(&Request::Idle);
        if self.is_attached[rank as usize] && (is_idle || is_over) {
            self.cluster.start(rank, slot);
            self.requests.insert((rank, slot), Request::Started);
        }
    }

    fn free(&mut self, (rank, slot): (Rank, Slot)) {
        let request = self.requests.get(&(rank, slot));
        if self.is_attached[rank as usize] && request.is_some_and(|&request| request != Request::Freeing) {
            self.cluster.free(rank, slot);
            self.requests.insert((rank, slot), Request::Freeing);
        }
    }

    fn end_rank(&mut self, rank: Rank, has_failed: bool) {
        if std::mem::replace(&mut self.is_attached[rank as usize], false) {
            self.requests.retain(|&(other, _), _| other != rank);
            self.cluster.end_client(rank, has_failed);
        }
    }

    fn lose_wire(&mut self, node: usize) {
        self.draining[node] = false;
        if !std::mem::replace(&mut self.wire_down[node], true) {
            self.cluster.engines[node].handle_wire_down(NodeId(1 - node as u16));
        }
    }

    fn lose_link(&mut self, node: usize) {
        if !std::mem::replace(&mut self.link_down[node], true) {
            self.cluster.notice_cut(node as u16, 1 - node as u16);
            // The wire goes with it.
            self.draining[node] = true;
        }
    }

    /// True if anything was there to be delivered.
    fn deliver(&mut self, from: u16, to: u16) -> bool {
        if self.link_down[usize::from(to)] && from != to {
            return false;
        }
        let is_header = self.cluster.deliver_header(from, to);
        self.work();
        self.cluster.deliver_payload(from, to);
        is_header
    }

    /// The buffer of some request that is being freed is out of use.
    fn close_next(&mut self, node: usize) {
        let closing = |side: &Side| matches!(side.state, State::Closing(_));
        let Some((_, side)) = self.sides.iter_mut().find(|((own, ..), side)| *own == node && closing(side)) else {
            return;
        };
        let State::Closing(request) = std::mem::replace(&mut side.state, State::Closed) else { return };
        self.cluster.engines[node].handle_closed(request);
        self.cluster.collect(node as u16);
    }

    /// Does what engines want done with channels, each time before anything else happens to them.
    fn work(&mut self) {
        for node in [0, 1] {
            while let Some(work) = self.cluster.engines[node].poll_local_work() {
                self.carry_out(node, work);
                self.cluster.collect(node as u16);
            }
        }
        let freed = |cluster: &Cluster, rank, slot| cluster.status(rank, slot) == Some(Status::Freed);
        let Self { requests, cluster, .. } = self;
        requests.retain(|&(rank, slot), &mut request| request != Request::Freeing || !freed(cluster, rank, slot));
    }

    fn carry_out(&mut self, node: usize, work: LocalWork) {
        match work {
            LocalWork::Open { send, recv } => self.open(node, send, recv),
            LocalWork::OpenWired(wiring) => self.open_wired(node, &wiring),
            LocalWork::Start { channel, end, operation } => {
                let side = self.side(node, channel, end);
                assert!(matches!(side.state, State::Open), "{side:?} is started");
                self.cluster.engines[node].handle_started(operation);
            }
            LocalWork::Connect { channel, peer_index, .. } => {
                let side = self.side(node, channel, End::Send);
                assert_eq!((side.state, side.peer), (State::Proposed, None), "{side:?} is connected");
                (side.state, side.peer) = (State::Open, Some(peer_index.into()));
                let other = self.sides[&(1 - node, peer_index.into(), true)];
                assert_eq!(other.peer, Some(channel.0), "{other:?} belongs to another one");
            }
            LocalWork::Discard { channel } => {
                let side = self.side(node, channel, End::Send);
                assert_eq!(side.state, State::Proposed, "{side:?} is discarded");
                side.state = State::Discarded;
            }
            LocalWork::Close { channel, end, request, .. } => self.close(node, (channel, end), request),
            LocalWork::Sever { channel, .. } => {
                assert!(self.is_wire_lost(node), "a wire is severed that is there");
                let found = [End::Send, End::Recv].map(|end| (node, channel.0, end == End::Recv));
                let key = found.into_iter().find(|key| self.sides.contains_key(key)).expect("it was opened");
                let side = self.sides.get_mut(&key).unwrap();
                assert!(matches!(side.state, State::Open | State::Closing(_)), "{side:?} is severed");
                side.is_severed = true;
            }
            LocalWork::DrainWire { .. } => self.draining[node] |= !self.wire_down[node],
            LocalWork::EndWire { .. } => {
                assert!(self.is_wire_lost(node), "a wire is ended that is there");
                self.wire_ended[node] = true;
                let here = self.sides.iter_mut().filter(|((own, ..), side)| *own == node && side.is_wired);
                for side in here.map(|(_, side)| side) {
                    let has_request = matches!(side.state, State::Open | State::Closing(_));
                    assert!(!has_request || side.is_severed, "{side:?} hears nothing");
                    side.is_severed = true;
                }
            }
            other => panic!("nobody has asked for {other:?}"),
        }
    }

    /// Whether nothing comes over a node's wire any more.
    fn is_wire_lost(&self, node: usize) -> bool {
        let others = if node == 0 { 2..4 } else { 0..2 };
        let is_deserted = others.into_iter().all(|rank| !self.is_attached[rank]);
        self.link_down[node] || (self.wire_down[node] && (self.wire_down[1 - node] || is_deserted))
    }

    fn side(&mut self, node: usize, channel: DirectId, end: End) -> &mut Side {
        self.sides.get_mut(&(node, channel.0, end == End::Recv)).expect("it was opened")
    }

    fn add(&mut self, node: usize, (name, end): (u32, End), request: ChannelId, wired: Option<Option<u32>>) {
        let (local_rank, slot, _) = self.cluster.engines[node].place_of(request).expect("it is opened for a request");
        let is_asked = wired == Some(None);
        let side = Side {
            state: if is_asked { State::Proposed } else { State::Open },
            rank: 2 * node as Rank + local_rank,
            slot,
            peer: wired.flatten(),
            is_wired: wired.is_some(),
            is_severed: false,
            has_said_end: false,
        };
        assert!(self.sides.insert((node, name, end == End::Recv), side).is_none());
    }

    fn open(&mut self, node: usize, send: ChannelId, recv: ChannelId) {
        self.names += 1;
        let name = self.names;
        if self.has_room[node] {
            self.add(node, (name, End::Send), send, None);
            self.add(node, (name, End::Recv), recv, None);
        }
        let channel = self.has_room[node].then_some(DirectId(name));
        self.cluster.engines[node].handle_opened(send, recv, channel);
    }

    fn open_wired(&mut self, node: usize, wiring: &Wiring) {
        self.names += 1;
        let name = self.names;
        let is_possible = self.has_room[node] && !self.wire_down[node];
        assert!(!self.wire_ended[node], "nobody would ever hear of its end");
        let peer = wiring.peer_index.map(u32::from);
        assert_eq!(peer.is_some(), wiring.end == End::Recv);
        if is_possible {
            self.add(node, (name, wiring.end), wiring.request, Some(peer));
        }
        self.cluster.engines[node].handle_wired(wiring, is_possible.then_some((DirectId(name), name as u16)));
    }

    /// An end is gone, once: unless its process ends that had given it up before.
    fn close(&mut self, node: usize, (channel, end): (DirectId, End), request: Option<ChannelId>) {
        let can_speak = !self.wire_down[node] && !self.wire_ended[node];
        let side = self.side(node, channel, end);
        match side.state {
            State::Open => {}
            State::Closing(_) => assert_eq!(request, None, "{side:?} is closed twice"),
            _ => panic!("{side:?} is closed"),
        }
        side.has_said_end |= !side.is_wired || (can_speak && !side.is_severed);
        side.state = request.map_or(State::Closed, State::Closing);
        let rank = side.rank as usize;
        assert!(request.is_some() || !self.is_attached[rank] || end == End::Send, "only orphans close by themselves");
    }

    /// Lets everything happen that follows from what has happened.
    fn settle(&mut self) {
        loop {
            self.work();
            let links = [(0, 0), (0, 1), (1, 0), (1, 1)];
            let moves = links.into_iter().filter(|&(from, to)| {
                let has_left = self.cluster.transmit(from, to).is_some();
                self.work();
                self.deliver(from, to) || has_left
            });
            let mut is_busy = moves.count() > 0;
            for node in [0, 1] {
                let loses_link = self.is_cut && !self.link_down[node];
                if loses_link {
                    self.lose_link(node);
                }
                is_busy |= loses_link || self.draining[node];
                if self.draining[node] {
                    self.lose_wire(node);
                }
            }
            if !is_busy {
                return;
            }
        }
    }

    /// Whoever has a channel whose other end is gone was told.
    fn assert_all_told(&self) {
        for (&(node, name, is_recv), side) in &self.sides {
            if side.state != State::Open {
                continue;
            }
            let other = match side.is_wired {
                true => self.sides.get(&(1 - node, side.peer.expect("it is connected"), !is_recv)),
                false => self.sides.get(&(node, name, !is_recv)),
            };
            let other = other.expect("it was opened");
            let is_gone = !matches!(other.state, State::Open | State::Closing(_));
            assert!(!is_gone || other.has_said_end || side.is_severed, "{side:?} does not know of {other:?}");
            let is_lost = side.is_wired && self.is_wire_lost(node);
            assert!(!is_lost || side.is_severed, "{side:?} has lost {other:?}");
        }
    }

    /// A send stays proposed only if its receiver is gone, and then whatever is started fails.
    fn assert_none_waits_for_an_answer(&mut self) {
        let proposed = self.sides.values().copied().filter(|side| side.state == State::Proposed).collect::<Vec<_>>();
        for side in proposed {
            let at = (side.rank, side.slot);
            assert!(self.requests.contains_key(&at), "{side:?} is freed and not answered");
            self.start(at);
            self.settle();
            let status = self.cluster.status(side.rank, side.slot);
            let is_error = status.is_some_and(|status| !matches!(status, Status::Success | Status::GoesDirect));
            assert!(is_error, "{side:?} is not answered: {status:?}");
        }
    }

    fn finish(mut self) {
        self.settle();
        self.assert_none_waits_for_an_answer();
        self.assert_all_told();
        for (pair, end) in (0..PAIRS.len()).flat_map(|pair| [(pair, 0), (pair, 1)]) {
            self.free(place(pair, end));
            self.settle();
        }
        for node in [0, 1] {
            (0..self.sides.len()).for_each(|_| self.close_next(node));
        }
        self.settle();
        assert_eq!(self.requests, BTreeMap::new(), "all are freed");
        let open = self.sides.values().find(|side| !matches!(side.state, State::Closed | State::Discarded));
        assert!(open.is_none(), "{open:?} is not closed");
        (0..RANKS as Rank).for_each(|rank| self.end_rank(rank, false));
        self.settle();
        for engine in &self.cluster.engines {
            assert_eq!(engine.leftovers(), Leftovers::default());
        }
    }
}

/// The rank and slot of a pair's sender or receiver.
fn place(pair: usize, end: usize) -> (Rank, Slot) {
    (PAIRS[pair][end], pair as Slot)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn in_any_order_each_end_hears_of_the_other_and_nothing_is_left(
        events in proptest::collection::vec(any_event(), 1..150)
    ) {
        let mut trial = Trial::new();
        events.into_iter().for_each(|event| trial.happen(event));
        trial.finish();
    }
}
