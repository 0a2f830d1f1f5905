//! Links between nodes, and of every node to itself: what has been sent is on its way, in order, in pieces, with delay.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use fastrand::Rng;
use ropeway_engine::{Placement, Transmit};
use ropeway_proto::Frame;

use crate::workload::Delays;

/// The links of all nodes to all, by where they come from and where they go.
pub struct Links {
    nodes: usize,
    /// From each node, one after the other, to each.
    links: Vec<Link>,
}

/// One direction of a link.
#[derive(Default)]
pub struct Link {
    /// The frame whose payload is leaving, and how much of it has left.
    pub leaving: Option<(Transmit, u64)>,
    /// Whether an event is on the way that will take up the next piece.
    pub is_busy: bool,
    /// What is on its way.
    pub in_flight: VecDeque<Parcel>,
    /// What is arriving: where it goes, how much of it has arrived, how much there is.
    pub arriving: Option<(Placement, u64, u64)>,
    /// Nothing arrives any more; whatever is sent is lost.
    pub is_cut: bool,
    /// The sending engine knows, and sends nothing.
    pub is_down: bool,
    last_arrival: u64,
}

/// What travels at once.
#[derive(Clone, Debug)]
pub enum Parcel {
    /// A frame's header.
    Header(Frame),
    /// Some bytes of its payload.
    Piece(Vec<u8>),
}

impl Links {
    /// Links of so many nodes.
    pub fn between(nodes: usize) -> Self {
        Self { nodes, links: (0..nodes * nodes).map(|_| Link::default()).collect() }
    }
}

impl Index<(u16, u16)> for Links {
    type Output = Link;

    fn index(&self, (from, to): (u16, u16)) -> &Link {
        &self.links[usize::from(from) * self.nodes + usize::from(to)]
    }
}

impl IndexMut<(u16, u16)> for Links {
    fn index_mut(&mut self, (from, to): (u16, u16)) -> &mut Link {
        &mut self.links[usize::from(from) * self.nodes + usize::from(to)]
    }
}

impl Link {
    /// Sends a parcel; says when it will arrive. Parcels don't overtake each other.
    pub fn dispatch(&mut self, parcel: Parcel, now: u64, delays: &Delays, rng: &mut Rng) -> u64 {
        let pause = if rng.u8(..50) == 0 { rng.u64(..delays.pause_ns) } else { 0 };
        let arrival = now + rng.u64(..delays.link_ns) + pause;
        self.last_arrival = self.last_arrival.max(arrival);
        self.in_flight.push_back(parcel);
        self.last_arrival
    }
}

/// Whether a frame is the first of a message.
pub const fn begins_message(frame: &Frame) -> bool {
    matches!(frame, Frame::Eager { .. } | Frame::Message { .. } | Frame::Data { offset: 0, .. })
}

/// How long a parcel keeps the sending end busy.
pub fn occupation(bytes: u64, delays: &Delays, rng: &mut Rng) -> u64 {
    let pause = if rng.u8(..100) == 0 { rng.u64(..delays.pause_ns) } else { 0 };
    (64 + bytes) * delays.byte_ns + pause
}
