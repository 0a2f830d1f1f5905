//! Inputs and outputs of the engine.
//!
//! After every input, drain the outputs:
//!
//! ```text
//!   commands of clients   ── handle_command ───►┐            ┌── poll_completion ──► request slots
//!   a client ends         ── handle_client_gone►│            │
//!   frame headers         ── handle_frame ─────►│   Engine   ├── poll_transmit ────► devices
//!   payload has arrived   ── handle_arrived ───►│            │
//!   payload has left      ── handle_transmitted►│            ├── poll_stash_work ──► copies out of the stash
//!   a copy is done        ── handle_copied ────►│            ├── poll_local_work ──► channels, wires and meetings of this node
//!   a channel is set up   ── handle_opened ────►│            │
//!   a link is lost        ── handle_link_down ─►┤            │
//!   a collective's ranks  ── start_collective ─►┤            ├── poll_collective_work ► copies, combinations, rounds that
//!   a step is done   handle_collective_step ───►┘            │                          are over
//!                                                            └── has_transmit
//! ```

use std::collections::{HashMap, VecDeque};

use ropeway_proto::control::JobSpec;
use ropeway_proto::event::Piece;
use ropeway_proto::{
    Brief, ChannelId, CommId, Command, Completion, End, Envelope, Epoch, Frame, Layout, NodeId, Rank, Slot, Status,
    limits,
};

use crate::agreement::Agreements;
use crate::bind::Bindings;
use crate::collective::Collectives;
use crate::direct::{LocalWork, WireState};
use crate::error::{ProtocolError, Violation};
use crate::matching::{PairReceived, Pattern, Posted, Unexpected};
use crate::meeting::Gatherings;
use crate::outgoing::Outgoing;
use crate::request::{Kind, Request, RequestTable};
use crate::slots::SlotState;
use crate::stash::Stash;

/// What an engine is told at birth. All engines of a job get the same, but for `spec.node`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The job, and which of its nodes this is.
    pub spec: JobSpec,
    /// Messages up to this size are eager: of this node's senders, whatever other nodes do. At most
    /// [`limits::EAGER_BYTES_LIMIT`].
    pub eager_bytes_max: u64,
    /// Eager messages outstanding per channel.
    pub channel_credits: u16,
    /// Eager one-shot messages outstanding per pair of ranks.
    pub pair_credits: u32,
    /// Piece in which large messages travel.
    pub chunk_bytes: u64,
    /// Whether channels within the node are handed to their ends ([`LocalWork`]).
    pub has_direct_channels: bool,
}

impl Config {
    /// The limits of the protocol.
    pub fn new(spec: JobSpec) -> Self {
        Self {
            spec,
            eager_bytes_max: limits::EAGER_BYTES_MAX,
            channel_credits: limits::CHANNEL_CREDITS,
            pair_credits: limits::PAIR_CREDITS,
            chunk_bytes: limits::CHUNK_BYTES,
            has_direct_channels: false,
        }
    }
}

/// Names a stashed message between the engine and whoever holds the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StashId(pub u32);

/// Where an arriving payload goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Place {
    /// Into a bound buffer, at packed position `at`.
    Buffer { layout: Layout, at: u64 },
    /// Into memory to be kept under this name until [`StashWork`] says otherwise.
    Stash(StashId),
    /// Nowhere: nobody wants it any more.
    Discard,
}

/// What to do with the payload behind a frame header, and what to say when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Where it goes.
    pub place: Place,
    /// To be given back through [`Engine::handle_arrived`], also when there is no payload.
    pub arrival: Arrival,
}

/// What has arrived once a payload is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Arrival {
    /// That many more bytes of an operation's message.
    Message { operation: Token, bytes: u64 },
    /// A stashed message.
    Stash(StashId),
    /// Nothing anybody waits for.
    Nothing,
}

/// Names one operation of one request; stale once that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub(crate) request: ChannelId,
    pub(crate) epoch: Epoch,
}

/// A frame to be sent, and where its payload lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// What it says.
    pub frame: Frame,
    /// Where its payload starts: a layout and the packed position in it. `None` if it has none.
    pub payload: Option<(Layout, u64)>,
    /// To be given back through [`Engine::handle_transmitted`] when the device needs the payload no more.
    pub token: Option<Token>,
}

/// Something to be done with a stashed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum StashWork {
    /// Copy it to its receiver, forget it, then call [`Engine::handle_copied`].
    Copy { stash: StashId, to: Layout, bytes: u64, operation: Token },
    /// Forget it, now: the name may be given to another message next.
    Drop { stash: StashId },
}

/// An operation has ended: to be written into its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionOf {
    /// Whose: index among the node's ranks.
    pub local_rank: u32,
    /// Which request slot.
    pub slot: Slot,
    /// Which operation of that slot.
    pub epoch: Epoch,
    /// How it ended.
    pub completion: Completion,
}

/// Whether messages with a rank are possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankState {
    /// As far as anybody knows.
    Alive,
    /// Its process died.
    Failed,
    /// It has left in an orderly way.
    Left,
}

/// Counted facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Queue entries looked at while matching.
    pub entries_visited: u64,
    /// Sends matched with receives: channels bound and one-shot messages.
    pub matches: u64,
    /// Messages that came before their receive.
    pub stashed: u64,
}

/// What an engine holds at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Requests, freed ones that wait for their other end among them.
    pub requests: usize,
    /// Messages in the stash.
    pub stashed: usize,
    /// One-shot messages that no receive has asked for, stashed or announced.
    pub unexpected: usize,
    /// Envelopes with sends or receives that wait for their other end.
    pub unbound: usize,
    /// Open collectives.
    pub collectives: usize,
    /// Those that this node has closed, or not opened, before it knew whether others mean the same.
    pub unsettled: usize,
}

/// One rank of this node.
#[derive(Default)]
pub(crate) struct LocalRank {
    /// Its client is gone. Everybody else, here too, learns that from `RankGone`, behind the rank's last messages.
    pub(crate) is_gone: bool,
    pub(crate) slots: Vec<SlotState>,
    pub(crate) posted: Posted,
    pub(crate) unexpected: Unexpected,
    /// Probes that wait for a message.
    pub(crate) probes: Vec<(Pattern, ChannelId)>,
}

/// The progress engine of one job on one node.
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) ranks: Vec<RankState>,
    pub(crate) is_lost: Vec<bool>,
    /// By node: over which small messages of channels go.
    pub(crate) wires: Vec<WireState>,
    pub(crate) locals: Vec<LocalRank>,
    pub(crate) requests: RequestTable,
    pub(crate) bindings: Bindings,
    pub(crate) gatherings: Gatherings,
    /// Messages of each node that are announced and not asked for.
    pub(crate) announced: Vec<usize>,
    pub(crate) stash: Stash,
    pub(crate) outgoing: Vec<Outgoing>,
    /// Eager one-shot messages not yet taken, by (source, dest): what local senders have outstanding.
    pub(crate) pair_used: HashMap<(Rank, Rank), u32>,
    /// The other side of that: what local receivers have not returned the credit of, by (source, dest).
    pub(crate) pair_received: HashMap<(Rank, Rank), PairReceived>,
    pub(crate) completions: VecDeque<CompletionOf>,
    pub(crate) stash_work: VecDeque<StashWork>,
    pub(crate) local_work: VecDeque<LocalWork>,
    pub(crate) collectives: Collectives,
    pub(crate) agreements: Agreements,
    pub(crate) statistics: Statistics,
}

impl Engine {
    /// An engine for the node `config.spec.node`. The spec must be valid.
    pub fn new(config: Config) -> Self {
        assert!(config.spec.is_valid(), "whoever takes a job from a launcher checks it");
        assert!(config.eager_bytes_max <= limits::EAGER_BYTES_LIMIT, "whoever reads a configuration checks it");
        let nodes = config.spec.nodes.len();
        Self {
            ranks: vec![RankState::Alive; config.spec.size() as usize],
            is_lost: vec![false; nodes],
            wires: vec![WireState::default(); nodes],
            locals: config.spec.local_ranks().map(|_| LocalRank::default()).collect(),
            requests: RequestTable::default(),
            bindings: Bindings::default(),
            gatherings: Gatherings::default(),
            announced: vec![0; nodes],
            stash: Stash::default(),
            outgoing: (0..nodes).map(|_| Outgoing::default()).collect(),
            pair_used: HashMap::new(),
            pair_received: HashMap::new(),
            completions: VecDeque::new(),
            stash_work: VecDeque::new(),
            local_work: VecDeque::new(),
            collectives: Collectives::default(),
            agreements: Agreements::default(),
            statistics: Statistics::default(),
            config,
        }
    }

    /// A client's command, already copied out of its ring and with its layout checked against its arena.
    pub fn handle_command(&mut self, local_rank: u32, command: Command) -> Result<(), Violation> {
        match command {
            Command::InitSend { slot, epoch, endpoint, layout } => {
                let id = self.open_slot(local_rank, slot, epoch, endpoint, layout)?;
                self.init_send(id);
            }
            Command::InitRecv { slot, epoch, endpoint, layout } => {
                let id = self.open_slot(local_rank, slot, epoch, endpoint, layout)?;
                self.init_recv(id);
            }
            Command::Start { slot, epoch } => {
                let id = self.idle_request(local_rank, slot, epoch)?;
                self.requests[id].epoch = epoch;
                match (self.requests[id].direct(), &self.requests[id].kind) {
                    (Some(channel), _) => self.start_direct(id, channel),
                    (None, Kind::Member(_)) => self.start_member(id),
                    (None, Kind::Send(_)) => self.start_send(id),
                    (None, _) => self.start_recv(id),
                }
            }
            Command::Move { slot } => self.move_direct(local_rank, slot),
            Command::ArriveAlone { slot } => self.arrive_alone(local_rank, slot),
            // For whoever holds the wires.
            Command::Tend { .. } => {}
            Command::Free { slot, epoch } => self.free(local_rank, slot, epoch)?,
            Command::Cancel { slot, epoch } => {
                let state = *self.slot_state(local_rank, slot);
                if state.epoch != epoch {
                    return Err(Violation::WrongEpoch { slot, found: epoch, expected: state.epoch });
                }
                // Nothing is there if the operation has just ended: then it was simply too late.
                if let Some(id) = self.request_of(state) {
                    self.cancel(id);
                }
            }
            Command::Send { slot, epoch, endpoint, layout } => {
                let id = self.open_slot(local_rank, slot, epoch, endpoint, layout)?;
                self.send_once(id);
            }
            Command::Recv { slot, epoch, endpoint, layout } => {
                let id = self.open_slot(local_rank, slot, epoch, endpoint, layout)?;
                self.recv_once(id);
            }
            Command::Probe { slot, epoch, endpoint, wait } => {
                let id = self.open_slot(local_rank, slot, epoch, endpoint, Layout::contiguous(0, 0))?;
                self.probe(id, wait);
            }
            Command::Several(batch) => {
                for brief in batch.commands() {
                    let command = self.spell_out(local_rank, brief);
                    self.handle_command(local_rank, command)?;
                }
            }
        }
        Ok(())
    }

    fn spell_out(&mut self, local_rank: u32, brief: Brief) -> Command {
        match brief {
            Brief::Start { slot } => {
                Command::Start { slot, epoch: self.slot_state(local_rank, slot).epoch.wrapping_add(1) }
            }
            Brief::Move { slot } => Command::Move { slot },
            Brief::ArriveAlone { slot } => Command::ArriveAlone { slot },
            Brief::Tend { node } => Command::Tend { node },
        }
    }

    /// A frame header from node `from`. Its payload, if any, goes where the placement says.
    pub fn handle_frame(&mut self, from: NodeId, frame: Frame) -> Result<Placement, ProtocolError> {
        let placement = self.take_frame(from, frame);
        self.run_collectives();
        placement
    }

    fn take_frame(&mut self, from: NodeId, frame: Frame) -> Result<Placement, ProtocolError> {
        match frame {
            Frame::Eager { channel, payload_bytes } => return self.handle_eager(from, channel, payload_bytes),
            Frame::Data { channel, offset, total, payload_bytes } => {
                return self.handle_data(from, channel, (offset, total, payload_bytes));
            }
            Frame::Message { envelope, payload_bytes } => {
                self.check_envelope(from, &envelope)?;
                return self.handle_message(&envelope, payload_bytes);
            }
            Frame::Announce { envelope, send, bytes } => {
                self.check_envelope(from, &envelope)?;
                self.handle_announce(from, envelope, send, bytes)?;
            }
            Frame::Bind { envelope, recv, capacity: _ } => {
                let Envelope { source, dest, .. } = envelope;
                // The envelope is that of the messages to come, so it is the sender who must live here.
                self.check_bind(from, &Envelope { source: dest, dest: source, ..envelope })?;
                self.handle_bind(from, envelope, recv)?;
            }
            Frame::Bound { recv, send, bytes, is_rendezvous, wire } => {
                self.handle_bound(from, recv, send, (bytes, is_rendezvous, wire))?
            }
            Frame::Wired { send, recv, wire } => self.handle_wired_frame(from, send, recv, wire)?,
            Frame::WireDown => self.handle_wire_down_there(from),
            Frame::WireFull => self.handle_wire_full_there(from),
            Frame::Unbind { channel, cause } => self.handle_unbind(from, channel, cause)?,
            Frame::Credit { channel, count } => self.handle_credit(from, channel, count)?,
            Frame::Armed { channel } => self.handle_armed(from, channel)?,
            Frame::Disarm { channel } => self.handle_disarm(from, channel)?,
            Frame::Disarmed { channel } => self.handle_disarmed(from, channel)?,
            Frame::Accept { send, recv } => self.handle_accept(from, send, recv)?,
            Frame::Withdraw { envelope, send } => {
                self.check_envelope(from, &envelope)?;
                self.handle_withdraw(from, envelope, send);
            }
            Frame::Withdrawn { send } => self.handle_withdrawn(from, send)?,
            Frame::MessageCredit { source, dest, count } => {
                let envelope = Envelope { comm: CommId::WORLD, source: dest, dest: source, tag: 0 };
                self.check_envelope(from, &envelope)?;
                self.handle_message_credit(source, dest, count)?;
            }
            Frame::RankGone { rank, has_failed } => self.handle_rank_gone(from, rank, has_failed)?,
            Frame::Shape { number, statement } => self.handle_shape(from, number, statement)?,
            _ => return Err(ProtocolError::LinkFrame),
        }
        Ok(Placement { place: Place::Discard, arrival: Arrival::Nothing })
    }

    /// The payload of a frame is where the placement said.
    pub fn handle_arrived(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Message { operation, bytes } => self.arrived_in_buffer(operation, bytes),
            Arrival::Stash(stash) => self.arrived_in_stash(stash),
            Arrival::Nothing => {}
        }
        self.run_collectives();
    }

    /// Whether anybody still waits for what is arriving. If not, its target may be somebody else's memory by now.
    pub fn awaits(&mut self, arrival: Arrival) -> bool {
        match arrival {
            Arrival::Message { operation, .. } => self.find_operation(operation).is_some(),
            Arrival::Stash(_) | Arrival::Nothing => true,
        }
    }

    /// The device is done with that many bytes of an operation's payload: the buffer may change under it.
    pub fn handle_transmitted(&mut self, operation: Token, bytes: u64) {
        self.transmitted(operation, bytes);
        self.run_collectives();
    }

    /// A copy out of the stash is done.
    pub fn handle_copied(&mut self, stash: StashId, operation: Token) {
        self.stash.remove(stash);
        if self.find_operation(operation).is_some() {
            let completion = self.requests[operation.request].received(Status::Success);
            self.complete(operation.request, completion);
        }
        self.run_collectives();
    }

    /// The next frame for a node; `None` when there is nothing to send to it now.
    pub fn poll_transmit(&mut self, to: NodeId) -> Option<Transmit> {
        let node = usize::from(to.0);
        if let Some(frame) = self.outgoing[node].pop_frame() {
            return Some(Transmit { frame, payload: None, token: None });
        }
        while let Some(id) = self.outgoing[node].pop_request() {
            let Some(request) = self.requests.find_mut(id) else { continue };
            request.is_queued = false;
            let transmit = match request.kind {
                Kind::Send(_) => self.emit_send(id),
                _ => self.emit_recv(id),
            };
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }

    /// The next operation that has ended.
    pub fn poll_completion(&mut self) -> Option<CompletionOf> {
        self.completions.pop_front()
    }

    /// The next thing to do with a stashed message.
    pub fn poll_stash_work(&mut self) -> Option<StashWork> {
        let work = self.stash_work.pop_front();
        if let Some(StashWork::Drop { stash }) = work {
            self.stash.remove(stash); // Not before: its holder must not see the name on two messages.
        }
        work
    }

    /// Whether a node has frames waiting.
    pub fn has_transmit(&self, to: NodeId) -> bool {
        !self.outgoing[usize::from(to.0)].is_empty()
    }

    /// Counted facts so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// What exists now. All zero when every client has freed and received everything: the simulator's "nothing left over".
    pub fn leftovers(&self) -> Leftovers {
        Leftovers {
            requests: self.requests.len(),
            stashed: self.stash.len(),
            unexpected: self.locals.iter().map(|local| local.unexpected.len()).sum(),
            unbound: self.bindings.len() + self.gatherings.len(),
            collectives: self.collectives.entries.len(),
            unsettled: self.agreements.unsettled(),
        }
    }

    /// The job, and which of its nodes this is.
    pub fn spec(&self) -> &JobSpec {
        &self.config.spec
    }

    /// A rank's state, as far as this node knows.
    pub fn rank_state(&self, rank: Rank) -> RankState {
        self.ranks[rank as usize]
    }

    // ---- small things everybody needs

    /// So many bytes of an operation's message, as a log has them. `None` if it has ended.
    pub fn piece_of(&mut self, operation: Token, bytes: u64) -> Option<Piece> {
        let first_rank = self.rank_of(0);
        let request = self.find_operation(operation)?;
        let end = if matches!(request.kind, Kind::Send(_)) { End::Send } else { End::Recv };
        // The slot of a node's own request is a step of a collective.
        let is_ranks = !request.comm.is_reserved();
        let of = is_ranks.then_some((first_rank + request.local_rank, request.slot));
        Some(Piece { end, of, node: request.node, bytes })
    }

    /// The request of an operation that still runs.
    pub(crate) fn find_operation(&mut self, operation: Token) -> Option<&mut Request> {
        let request = self.requests.find_mut(operation.request)?;
        (request.epoch == operation.epoch && request.is_active()).then_some(request)
    }

    pub(crate) fn token(&self, id: ChannelId) -> Token {
        Token { request: id, epoch: self.requests[id].epoch }
    }

    pub(crate) fn rank_of(&self, local_rank: u32) -> Rank {
        self.config.spec.local_ranks().start + local_rank
    }

    /// The envelope of the messages of a persistent request or one-shot send.
    pub(crate) fn envelope_of(&self, id: ChannelId) -> Envelope {
        let request = &self.requests[id];
        let Pattern { comm, source, tag } = request.pattern();
        let why = "only receives and probes have wildcards";
        let own = if comm.is_reserved() { self.rank_of(0) } else { self.rank_of(request.local_rank) };
        let (peer, tag) = (source.expect(why), tag.expect(why));
        let (source, dest) = if matches!(request.kind, Kind::Send(_)) { (own, peer) } else { (peer, own) };
        Envelope { comm, source, dest, tag }
    }

    pub(crate) fn local_of(&mut self, rank: Rank) -> &mut LocalRank {
        let first = self.config.spec.local_ranks().start;
        &mut self.locals[(rank - first) as usize]
    }

    pub(crate) fn push_frame(&mut self, to: NodeId, frame: Frame) {
        if !self.is_lost[usize::from(to.0)] {
            self.outgoing[usize::from(to.0)].push_frame(frame);
        }
    }

    /// A persistent request is going to take its turns.
    pub(crate) fn admit(&mut self, id: ChannelId) {
        let request = &self.requests[id];
        self.outgoing[usize::from(request.node.0)].turns_of(&request.kind).admit();
    }

    /// Puts a request into its node's queue, unless it is there.
    pub(crate) fn make_ready(&mut self, id: ChannelId) {
        let request = &mut self.requests[id];
        if request.is_queued || self.is_lost[usize::from(request.node.0)] {
            return;
        }
        request.is_queued = true;
        self.outgoing[usize::from(request.node.0)].turns_of(&request.kind).push(id);
    }

    /// A channel is of two ranks, or of two nodes: then their first ranks stand for them.
    fn check_bind(&self, from: NodeId, envelope: &Envelope) -> Result<(), ProtocolError> {
        let Envelope { comm, source: source_rank, dest, .. } = *envelope;
        if !comm.is_reserved() {
            return self.check_envelope(from, envelope);
        }
        self.check_ranks(from, envelope)?;
        let is_first = source_rank == self.first_rank(from) && dest == self.rank_of(0);
        if is_first { Ok(()) } else { Err(ProtocolError::ForeignRank { from: from.0, source_rank, dest }) }
    }

    fn check_envelope(&self, from: NodeId, envelope: &Envelope) -> Result<(), ProtocolError> {
        self.check_ranks(from, envelope)?;
        let comm = envelope.comm;
        if comm.is_reserved() { Err(ProtocolError::ReservedComm { comm }) } else { Ok(()) }
    }

    fn check_ranks(&self, from: NodeId, envelope: &Envelope) -> Result<(), ProtocolError> {
        let spec = &self.config.spec;
        let is_right = spec.node_of(envelope.source) == Some(from) && spec.local_ranks().contains(&envelope.dest);
        let Envelope { source: source_rank, dest, tag, .. } = *envelope;
        if !is_right {
            return Err(ProtocolError::ForeignRank { from: from.0, source_rank, dest });
        }
        if (0..=limits::TAG_MAX).contains(&tag) { Ok(()) } else { Err(ProtocolError::BadTag { tag }) }
    }
}
