//! A whole job in memory: engines, their nodes' memory, and the links between them, driven step by step.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use ropeway_engine::{Arrival, Config, Engine, Place, Placement, ProtocolError, StashId, StashWork, Violation};
use ropeway_proto::control::{DaemonAddress, JobSpec, NodeSpec};
use ropeway_proto::{
    CommId, Command, Completion, Endpoint, Epoch, Frame, JobId, Layout, NodeId, Rank, Slot, Status, Tag,
};

/// Messages above this are large in the tests.
pub(crate) const EAGER_BYTES: u64 = 64;
/// Few, so that tests run out of them.
const CREDITS: u16 = 4;
/// Pieces of large messages in the tests.
pub(crate) const CHUNK_BYTES: u64 = 100;
/// Where each slot has its buffer, and how much room.
const SLOT_BYTES: u64 = 1024;
const SLOTS: u64 = 64;
/// The tag of whatever does not choose one.
pub(crate) const TAG: Tag = 7;
use crate::rounds::Rounds;

/// Engines of all nodes of a job, and everything around them.
pub(crate) struct Cluster {
    pub(crate) engines: Vec<Engine>,
    memory: Vec<Vec<u8>>,
    links: HashMap<(u16, u16), Link>,
    stashes: HashMap<(u16, StashId), Vec<u8>>,
    slots: HashMap<(Rank, Slot), SlotBook>,
    /// Every frame that a link has taken: from, to, what.
    pub(crate) sent: Vec<(u16, u16, Frame)>,
    /// Copies made out of the stash.
    pub(crate) copies: usize,
    /// Copies to be made, if they are not made at once.
    pub(crate) slow_copies: Option<Vec<(u16, StashWork)>>,
    pub(crate) rounds: Rounds,
}

/// One direction of a link.
#[derive(Default)]
struct Link {
    in_flight: VecDeque<(Frame, Vec<u8>)>,
    arriving: Option<(Placement, Vec<u8>)>,
    takes_nothing: bool,
    delivers_nothing: bool,
    is_cut: bool,
}

#[derive(Default)]
struct SlotBook {
    epoch: Epoch,
    completions: HashMap<Epoch, Completion>,
}

impl Cluster {
    /// Two ranks on two nodes.
    pub(crate) fn pair() -> Self {
        Self::new(&[1, 1])
    }

    pub(crate) fn new(ranks_per_node: &[u32]) -> Self {
        Self::configured(ranks_per_node, |_| {})
    }

    pub(crate) fn configured(ranks_per_node: &[u32], adjust: impl Fn(&mut Config)) -> Self {
        let mut spec = JobSpec::single_node(JobId(1), 0);
        let mut first_rank = 0;
        spec.nodes.clear();
        for (node, &ranks) in ranks_per_node.iter().enumerate() {
            let address = DaemonAddress { daemon: node as u64, link: SocketAddr::from(([127, 0, 0, 1], 1)) };
            spec.nodes.push(NodeSpec { address: Some(address), first_rank, ranks });
            first_rank += ranks;
        }
        let nodes = 0..ranks_per_node.len() as u16;
        let engine = |node| {
            let spec = JobSpec { node: NodeId(node), ..spec.clone() };
            let mut config = Config {
                eager_bytes_max: EAGER_BYTES,
                chunk_bytes: CHUNK_BYTES,
                channel_credits: CREDITS,
                ..Config::new(spec)
            };
            adjust(&mut config);
            Engine::new(config)
        };
        let memory = ranks_per_node.iter().map(|&ranks| vec![0; (u64::from(ranks) * SLOTS * SLOT_BYTES) as usize]);
        let links = nodes.clone().flat_map(|from| nodes.clone().map(move |to| ((from, to), Link::default())));
        Self {
            engines: nodes.clone().map(engine).collect(),
            memory: memory.collect(),
            links: links.collect(),
            stashes: HashMap::new(),
            slots: HashMap::new(),
            sent: Vec::new(),
            copies: 0,
            slow_copies: None,
            rounds: Rounds::default(),
        }
    }

    fn place_of(&self, rank: Rank) -> (u16, u32) {
        let node = self.engines[0].spec().node_of(rank).expect("a rank of the job").0;
        (node, rank - self.engines[usize::from(node)].spec().local_ranks().start)
    }
}

// ---- what clients do

impl Cluster {
    pub(crate) fn layout(&self, rank: Rank, slot: Slot, bytes: u64) -> Layout {
        assert!(bytes <= SLOT_BYTES && u64::from(slot) < SLOTS);
        let (_, local_rank) = self.place_of(rank);
        Layout::contiguous((u64::from(local_rank) * SLOTS + u64::from(slot)) * SLOT_BYTES, bytes)
    }

    pub(crate) fn endpoint(peer: impl Into<Option<Rank>>, tag: impl Into<Option<Tag>>) -> Endpoint {
        Endpoint { comm: CommId::WORLD, peer: peer.into(), tag: tag.into() }
    }

    /// Hands a command to the rank's engine as it is.
    pub(crate) fn command(&mut self, rank: Rank, command: Command) -> Result<(), Violation> {
        let (node, local_rank) = self.place_of(rank);
        let result = self.engines[usize::from(node)].handle_command(local_rank, command);
        self.collect(node);
        result
    }

    fn begin(&mut self, rank: Rank, slot: Slot, command: impl FnOnce(Epoch) -> Command) -> Epoch {
        let book = self.slots.entry((rank, slot)).or_default();
        book.epoch += 1;
        let epoch = book.epoch;
        self.command(rank, command(epoch)).expect("a command of a well-behaved client");
        epoch
    }

    pub(crate) fn init_send(&mut self, rank: Rank, slot: Slot, peer: Rank, bytes: u64) {
        let (endpoint, layout) = (Self::endpoint(peer, TAG), self.layout(rank, slot, bytes));
        self.begin(rank, slot, |epoch| Command::InitSend { slot, epoch, endpoint, layout });
    }

    pub(crate) fn init_recv(&mut self, rank: Rank, slot: Slot, peer: Rank, bytes: u64) {
        let (endpoint, layout) = (Self::endpoint(peer, TAG), self.layout(rank, slot, bytes));
        self.begin(rank, slot, |epoch| Command::InitRecv { slot, epoch, endpoint, layout });
    }

    /// A bound channel from rank 0, slot 0 to rank 1, slot 0.
    pub(crate) fn channel(&mut self, bytes: u64) {
        self.init_send(0, 0, 1, bytes);
        self.init_recv(1, 0, 0, bytes);
        self.settle();
    }

    pub(crate) fn start(&mut self, rank: Rank, slot: Slot) -> Epoch {
        self.begin(rank, slot, |epoch| Command::Start { slot, epoch })
    }

    pub(crate) fn free(&mut self, rank: Rank, slot: Slot) -> Epoch {
        self.begin(rank, slot, |epoch| Command::Free { slot, epoch })
    }

    pub(crate) fn cancel(&mut self, rank: Rank, slot: Slot) {
        let epoch = self.slots[&(rank, slot)].epoch;
        self.command(rank, Command::Cancel { slot, epoch }).expect("a command of a well-behaved client");
    }

    pub(crate) fn send(&mut self, rank: Rank, slot: Slot, peer: Rank, tag: Tag, bytes: u64) {
        let (endpoint, layout) = (Self::endpoint(peer, tag), self.layout(rank, slot, bytes));
        self.begin(rank, slot, |epoch| Command::Send { slot, epoch, endpoint, layout });
    }

    pub(crate) fn recv(&mut self, rank: Rank, slot: Slot, from: (Option<Rank>, Option<Tag>), bytes: u64) {
        let (endpoint, layout) = (Self::endpoint(from.0, from.1), self.layout(rank, slot, bytes));
        self.begin(rank, slot, |epoch| Command::Recv { slot, epoch, endpoint, layout });
    }

    pub(crate) fn probe(&mut self, rank: Rank, slot: Slot, from: (Option<Rank>, Option<Tag>), wait: bool) {
        let endpoint = Self::endpoint(from.0, from.1);
        self.begin(rank, slot, |epoch| Command::Probe { slot, epoch, endpoint, wait });
    }

    /// How the slot's last operation ended, if it has.
    pub(crate) fn outcome(&self, rank: Rank, slot: Slot) -> Option<Completion> {
        self.outcome_of(rank, slot, self.slots[&(rank, slot)].epoch)
    }

    pub(crate) fn outcome_of(&self, rank: Rank, slot: Slot, epoch: Epoch) -> Option<Completion> {
        self.slots[&(rank, slot)].completions.get(&epoch).copied()
    }

    pub(crate) fn status(&self, rank: Rank, slot: Slot) -> Option<Status> {
        self.outcome(rank, slot).map(|completion| completion.status)
    }

    /// Writes `value` all over a slot's buffer.
    pub(crate) fn fill(&mut self, rank: Rank, slot: Slot, value: u8) {
        let (node, range) = self.buffer(rank, slot);
        self.memory[node][range].fill(value);
    }

    /// The first bytes of a slot's buffer.
    pub(crate) fn bytes(&self, rank: Rank, slot: Slot, count: usize) -> &[u8] {
        let (node, range) = self.buffer(rank, slot);
        &self.memory[node][range][..count]
    }

    fn buffer(&self, rank: Rank, slot: Slot) -> (usize, std::ops::Range<usize>) {
        let start = self.layout(rank, slot, 0).offset as usize;
        (usize::from(self.place_of(rank).0), start..start + SLOT_BYTES as usize)
    }

    /// The rank's process ends.
    pub(crate) fn end_client(&mut self, rank: Rank, has_failed: bool) {
        let (node, local_rank) = self.place_of(rank);
        self.engines[usize::from(node)].handle_client_gone(local_rank, has_failed);
        self.collect(node);
    }
}

// ---- what links and devices do

impl Cluster {
    /// Lets everything happen that can.
    pub(crate) fn settle(&mut self) {
        let nodes = self.engines.len() as u16;
        let mut is_busy = true;
        while is_busy {
            is_busy = false;
            for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
                let link = &self.links[&(from, to)];
                let (takes, delivers) = (!link.takes_nothing, !link.delivers_nothing);
                while takes && self.transmit(from, to).is_some() {
                    is_busy = true;
                }
                while delivers && self.deliver(from, to) {
                    is_busy = true;
                }
            }
        }
    }

    /// Makes a link take no frames from its engine, or take them again.
    pub(crate) fn stop(&mut self, from: u16, to: u16, is_stopped: bool) {
        self.link(from, to).takes_nothing = is_stopped;
    }

    /// Makes a link keep its frames in flight, or deliver them again.
    pub(crate) fn hold(&mut self, from: u16, to: u16, is_held: bool) {
        self.link(from, to).delivers_nothing = is_held;
    }

    /// Puts one frame of an engine on the link.
    pub(crate) fn transmit(&mut self, from: u16, to: u16) -> Option<Frame> {
        if self.links[&(from, to)].is_cut {
            return None;
        }
        let transmit = self.engines[usize::from(from)].poll_transmit(NodeId(to))?;
        let count = u64::from(transmit.frame.payload_bytes());
        let mut payload = Vec::new();
        if let Some((layout, at)) = transmit.payload {
            for (offset, bytes) in layout.ranges(at, count) {
                payload.extend(&self.memory[usize::from(from)][offset as usize..(offset + bytes) as usize]);
            }
        }
        if let Some(token) = transmit.token {
            self.engines[usize::from(from)].handle_transmitted(token, count);
        }
        self.link(from, to).in_flight.push_back((transmit.frame, payload));
        self.sent.push((from, to, transmit.frame));
        self.collect(from);
        Some(transmit.frame)
    }

    /// Delivers the rest of a frame whose header has been delivered, or else a whole frame.
    pub(crate) fn deliver(&mut self, from: u16, to: u16) -> bool {
        (self.links[&(from, to)].arriving.is_some() || self.deliver_header(from, to)) && self.deliver_payload(from, to)
    }

    pub(crate) fn deliver_header(&mut self, from: u16, to: u16) -> bool {
        let Some((frame, payload)) = self.link(from, to).in_flight.pop_front() else { return false };
        let placement = self.frame(from, to, frame).expect("a frame of a well-behaved engine");
        self.link(from, to).arriving = Some((placement, payload));
        true
    }

    pub(crate) fn deliver_payload(&mut self, from: u16, to: u16) -> bool {
        let Some((placement, payload)) = self.link(from, to).arriving.take() else { return false };
        self.arrive(to, placement, &payload);
        true
    }

    /// Puts a payload where the engine wants it.
    pub(crate) fn arrive(&mut self, to: u16, placement: Placement, payload: &[u8]) {
        match placement.place {
            Place::Buffer { layout, at } => self.write(to, layout, at, payload),
            Place::Stash(stash) => assert!(self.stashes.insert((to, stash), payload.to_vec()).is_none()),
            Place::Discard => {}
        }
        self.engines[usize::from(to)].handle_arrived(placement.arrival);
        self.collect(to);
    }

    /// Hands a frame to an engine, whoever has made it.
    pub(crate) fn frame(&mut self, from: u16, to: u16, frame: Frame) -> Result<Placement, ProtocolError> {
        let placement = self.engines[usize::from(to)].handle_frame(NodeId(from), frame);
        self.collect(to);
        placement
    }

    /// Breaks the link between two nodes, both ways and on both ends.
    pub(crate) fn cut(&mut self, one: u16, other: u16) {
        self.sever(one, other);
        self.notice_cut(other, one);
        self.notice_cut(one, other);
    }

    /// Breaks the link between two nodes both ways, which no end has noticed yet.
    pub(crate) fn sever(&mut self, one: u16, other: u16) {
        for (from, to) in [(one, other), (other, one)] {
            let link = self.link(from, to);
            link.is_cut = true;
            link.in_flight.clear();
        }
    }

    /// A node notices that the link to another one is broken.
    pub(crate) fn notice_cut(&mut self, node: u16, other: u16) {
        let interrupted: Option<Arrival> =
            self.link(other, node).arriving.take().map(|(placement, _)| placement.arrival);
        self.engines[usize::from(node)].handle_link_down(NodeId(other), interrupted);
        self.collect(node);
    }

    /// Frames of one kind among those sent so far.
    pub(crate) fn count(&self, is_wanted: impl Fn(&Frame) -> bool) -> usize {
        self.sent.iter().filter(|(_, _, frame)| is_wanted(frame)).count()
    }

    /// Memory of a node that belongs to no slot.
    pub(crate) fn allocate(&mut self, node: u16, bytes: u64) -> u64 {
        let memory = &mut self.memory[usize::from(node)];
        let start = memory.len();
        memory.resize(start + bytes as usize, 0);
        start as u64
    }

    pub(crate) fn words(&self, node: u16, at: u64, count: u64) -> Vec<u64> {
        let bytes = &self.memory[usize::from(node)][at as usize..][..8 * count as usize];
        bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
    }

    pub(crate) fn set_words(&mut self, node: u16, at: u64, words: &[u64]) {
        let bytes = &mut self.memory[usize::from(node)][at as usize..][..8 * words.len()];
        bytes.chunks_mut(8).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
    }

    fn link(&mut self, from: u16, to: u16) -> &mut Link {
        self.links.get_mut(&(from, to)).expect("a link of the cluster")
    }

    fn write(&mut self, node: u16, layout: Layout, at: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for (offset, count) in layout.ranges(at, bytes.len() as u64) {
            let (part, behind) = rest.split_at(count as usize);
            self.memory[usize::from(node)][offset as usize..][..part.len()].copy_from_slice(part);
            rest = behind;
        }
    }

    /// Carries out what an engine asks for, but for transmissions.
    pub(crate) fn collect(&mut self, node: u16) {
        let index = usize::from(node);
        while let Some(work) = self.engines[index].poll_collective_work() {
            self.collective_work(node, work);
        }
        while let Some(work) = self.engines[index].poll_stash_work() {
            match (&mut self.slow_copies, work) {
                (Some(copies), StashWork::Copy { .. }) => copies.push((node, work)),
                _ => self.stash_work(node, work),
            }
            self.collect(node); // A copy may end a step, and that begin another one.
        }
        while let Some(done) = self.engines[index].poll_completion() {
            let rank = self.engines[index].spec().local_ranks().start + done.local_rank;
            let book = self.slots.entry((rank, done.slot)).or_default();
            let earlier = book.completions.insert(done.epoch, done.completion);
            assert_eq!(earlier, None, "rank {rank} slot {}: epoch {} ended twice", done.slot, done.epoch);
        }
    }

    /// Makes the copies that were put off.
    pub(crate) fn finish_copies(&mut self) {
        for (node, work) in self.slow_copies.take().expect("copies are slow") {
            self.stash_work(node, work);
            self.collect(node);
        }
    }

    fn stash_work(&mut self, node: u16, work: StashWork) {
        match work {
            StashWork::Copy { stash, to, bytes, operation } => {
                let message = self.stashes.remove(&(node, stash)).expect("a stashed message is kept");
                assert_eq!(message.len() as u64, bytes);
                self.write(node, to, 0, &message);
                self.copies += 1;
                self.engines[usize::from(node)].handle_copied(stash, operation);
            }
            StashWork::Drop { stash } => {
                self.stashes.remove(&(node, stash));
            }
        }
    }

    /// Asserts that no engine keeps anything, and neither does the stash.
    pub(crate) fn assert_nothing_left(&self) {
        for engine in &self.engines {
            assert_eq!(engine.leftovers(), ropeway_engine::Leftovers::default());
        }
        assert!(self.stashes.is_empty());
    }
}
