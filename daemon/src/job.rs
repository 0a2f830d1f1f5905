//! A job on this node: its engine, its memory, and the rings of its ranks.

mod commands;
mod memory;

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Registry, Token};
use ropeway_engine::{
    Arrival, DirectId, Engine, LocalWork, Place, StashId, StashWork, Statistics, Token as Operation, Violation, Wiring,
};
use ropeway_proto::command::CommandError;
use ropeway_proto::control::JobSpec;
use ropeway_proto::event::Piece;
use ropeway_proto::{ChannelId, Frame, JobId, NodeId, Rank, limits};
use ropeway_shm::{
    Consumer, ControlSegment, Counter, Counters, DoorbellCalls, EndOfChannel, JobGeometry, JobSegment, OutOfBounds,
    RingViolation, Wire, WiredEnd,
};

use crate::channels::{Channels, Unwired};
use crate::collectives::Work;
use crate::config::{Config, cost_table};
use crate::device::{Inbound, LinkError, Outbound, Target};
use crate::log::Log;
use crate::meetings::Meetings;
use crate::schedules::Schedules;
use crate::shelves::Shelves;
use crate::wires::{self, Wires};

pub(crate) use memory::{RESERVED_AT_ONCE, Shortage};

/// One job on this node.
pub(crate) struct Job {
    pub(crate) engine: Engine,
    pub(crate) segment: Arc<JobSegment>,
    /// Whose job it is: nobody else attaches.
    pub(crate) user: u32,
    /// It has ended; kept until its last frames have left.
    pub(crate) is_ending: bool,
    /// But what peers have no room for is not waited for longer than this.
    ends_by: Option<Instant>,
    /// A rank has failed, and who waits was not woken since.
    has_lost: bool,
    pub(crate) ports: Vec<Port>,
    pub(crate) channels: Channels,
    wires: Wires,
    pub(crate) shelves: Shelves,
    pub(crate) meetings: Meetings,
    pub(crate) schedules: Schedules,
    /// What is to be done between messages of collectives.
    pub(crate) work: Work,
    stash: HashMap<StashId, Vec<u8>>,
    /// Memory of stashed messages, for the next ones.
    spare: Vec<Vec<u8>>,
    memory_bytes_max: u64,
    counted: Statistics,
    doorbell_calls_counted: DoorbellCalls,
    log: Log,
}

/// What a local rank has to do with this daemon.
#[derive(Default)]
pub(crate) struct Port {
    attached: Option<Attached>,
    /// It has been attached once: somebody may sleep there.
    has_come: bool,
    pub(crate) is_gone: bool,
    slots_reserved: u32,
    arena_reserved: u64,
}

struct Attached {
    client: usize,
    control: Arc<ControlSegment>,
    consumer: Consumer,
}

/// What a client did that gets it cut off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Offence {
    #[error("its command ring: {0}")]
    Ring(#[from] RingViolation),
    #[error("a command: {0}")]
    Command(#[from] CommandError),
    #[error("a command: {0}")]
    Violation(#[from] Violation),
    #[error("a command: bytes {offset} to {end} are outside of its arena")]
    OutsideArena { offset: u64, end: u64 },
    #[error("no memory for its request table: {0}")]
    NoMemory(std::io::Error),
}

const SPARE_STASHES: usize = 64;
/// How long a job that has ended waits for its peers to take what its ranks have sent.
const ENDING: Duration = Duration::from_secs(3);

impl Job {
    pub(crate) fn new(spec: JobSpec, user: u32, config: &Config, log: Log) -> std::io::Result<Self> {
        let local_ranks = spec.local_ranks().len() as u32;
        let costs = spec.costs.unwrap_or(config.costs);
        let segment = JobSegment::create(JobGeometry { local_ranks, arena_bytes_max: config.arena_bytes_max })?;
        if !config.cores.is_empty() {
            segment.ask_for_computing();
        }
        Ok(Self {
            segment: Arc::new(segment),
            engine: Engine::new(ropeway_engine::Config {
                has_direct_channels: true,
                eager_bytes_max: config.link_eager_bytes_max,
                ..ropeway_engine::Config::new(spec)
            }),
            user,
            is_ending: false,
            ends_by: None,
            has_lost: false,
            ports: (0..local_ranks).map(|_| Port::default()).collect(),
            channels: Channels::new(config.thresholds()),
            wires: Wires::default(),
            shelves: Shelves::default(),
            meetings: Meetings::default(),
            schedules: Schedules::new(cost_table(costs)),
            work: Work::default(),
            stash: HashMap::new(),
            spare: Vec::new(),
            memory_bytes_max: config.job_memory_bytes_max,
            counted: Statistics::default(),
            doorbell_calls_counted: DoorbellCalls::default(),
            log,
        })
    }

    /// The index of a rank among this node's, if it lives here.
    pub(crate) fn local_rank(&self, rank: Rank) -> Option<u32> {
        let local = self.engine.spec().local_ranks();
        local.contains(&rank).then(|| rank - local.start)
    }

    /// Connects a rank's ring.
    pub(crate) fn attach(
        &mut self,
        local_rank: u32,
        client: usize,
        control: Arc<ControlSegment>,
    ) -> Result<(), &'static str> {
        let port = &mut self.ports[local_rank as usize];
        if port.is_gone {
            return Err("it was attached before and has ended");
        }
        if port.attached.is_some() {
            return Err("it is attached already");
        }
        let consumer = control.consumer();
        port.attached = Some(Attached { client, control, consumer });
        port.has_come = true;
        Ok(())
    }

    /// A rank's client has left, or died.
    pub(crate) fn detach(&mut self, local_rank: u32, has_failed: bool) {
        let port = &mut self.ports[local_rank as usize];
        if !std::mem::replace(&mut port.is_gone, true) {
            // What it had asked for before it left in order still counts.
            let attached = port.attached.take();
            self.wires.leave(local_rank, attached.as_ref().map(|attached| &*attached.control));
            self.engine.handle_client_gone(local_rank, has_failed);
            self.segment.leave_post(local_rank);
            self.segment.leave_crowd(local_rank);
            self.has_lost |= has_failed;
        }
    }

    /// A rank will not come: its process has ended before. To those who wait for it that is as if it had come and left.
    pub(crate) fn miss(&mut self, local_rank: u32) {
        if !self.ports[local_rank as usize].has_come {
            self.detach(local_rank, false);
        }
    }

    /// Ends every rank that has not ended; returns the clients that were attached.
    pub(crate) fn end(&mut self) -> Vec<usize> {
        self.is_ending = true;
        self.ends_by = Some(Instant::now() + ENDING);
        let clients = self.clients().collect();
        for local_rank in 0..self.ports.len() as u32 {
            self.detach(local_rank, true);
        }
        clients
    }

    /// It is over, but its ranks may still have its wires.
    pub(crate) fn unregister_wires(&mut self, registry: &Registry) {
        self.wires.unregister(registry);
    }

    /// Wakes everybody who sleeps, if a rank has failed: it may have taken a waiter's number and not rung. Once for all that have failed
    /// since, as each doorbell costs a system call.
    fn wake_everybody(&mut self) {
        if std::mem::take(&mut self.has_lost) {
            let ranks = (0..).zip(&self.ports).filter(|(_, port)| port.has_come);
            ranks.for_each(|(local_rank, _)| self.segment.ring_all(local_rank, u64::MAX));
        }
    }

    // ---- the duty cycle's parts

    pub(crate) fn carry_out_local_work(&mut self) {
        while let Some(work) = self.engine.poll_local_work() {
            match work {
                LocalWork::Open { send, recv } => self.open_channel(send, recv),
                LocalWork::Start { channel, end, operation } => {
                    self.channels.start(&self.segment, channel, end);
                    self.engine.handle_started(operation);
                    if let Some((node, _)) = self.wire_of(channel) {
                        self.wires.want(node);
                    }
                }
                LocalWork::Move { channel } => self.channels.wish_move(channel),
                LocalWork::Close { channel, end, request, why } => {
                    let is_closed = self.channels.close(&self.segment, channel, end, request, why);
                    if let Some(request) = request.filter(|_| is_closed) {
                        self.engine.handle_closed(request);
                    }
                }
                LocalWork::OpenWired(wiring) => {
                    let channel = self.open_wired(&wiring);
                    self.engine.handle_wired(&wiring, channel);
                }
                LocalWork::Connect { channel, peer_index, is_orphaned } => {
                    if let Some((node, index)) = self.wire_of(channel) {
                        self.wires.connect((!is_orphaned).then_some(&self.segment), node, index, peer_index);
                    }
                }
                LocalWork::Discard { channel } => {
                    if let Some((node, index)) = self.wire_of(channel) {
                        self.wires.discard(node, index);
                    }
                }
                LocalWork::Sever { channel, why } => {
                    if let Some((node, index)) = self.wire_of(channel) {
                        self.wires.sever(node, index, why);
                    }
                }
                LocalWork::DrainWire { node } => self.wires.drain(node),
                LocalWork::RelieveWire { node } => self.wires.relieve(node, Instant::now()),
                LocalWork::EndWire { node } => self.wires.end(node),
                LocalWork::Meet { comm, requests, members } => {
                    let meeting = self.open_meeting(comm, &requests, members);
                    self.engine.handle_met(&requests, meeting);
                }
                LocalWork::Renounce { comm, member } => self.renounce(comm, &member),
                LocalWork::Arrive { meeting, member, operation } => {
                    self.meetings.arrive(meeting, member);
                    self.engine.handle_started(operation);
                }
                LocalWork::ArriveAlone { meeting } => self.meetings.arrive_alone(meeting),
                LocalWork::Work { meeting } => self.meetings.wish_work(meeting),
                LocalWork::Leave { meeting, request, why } => self.leave_meeting(meeting, request, &why),
            }
        }
        while let Some(Unwired { node, index, why }) = self.channels.take_unwired() {
            self.wires.close(node, index, why);
        }
    }

    /// Sets this side of a channel between two nodes up.
    fn open_wired(&mut self, wiring: &Wiring) -> Option<(DirectId, u16)> {
        let Wiring { request, end, node, rank: peer, bytes, peer_index, .. } = *wiring;
        let (local_rank, slot, layout) = self.engine.place_of(request)?;
        if bytes > limits::WIRE_BYTES_MAX || bytes > layout.bytes() {
            return None;
        }
        let (wire, index) = self.wires.free_name(node)?;
        let wired = WiredEnd { wire, index, end, peer, node };
        let own = EndOfChannel { local_rank, slot, layout };
        let (id, channel) = self.channels.open_wired(&self.segment, own, bytes, wired, self.quota_left())?;
        self.wires.open(node, index, id, channel.on(&self.segment)?);
        if let Some(peer_index) = peer_index {
            self.wires.connect(Some(&self.segment), node, index, peer_index);
        }
        Some((id, index))
    }

    /// The wire a channel uses, and its name there.
    fn wire_of(&self, channel: DirectId) -> Option<(NodeId, u16)> {
        self.channels.find(channel)?.wired().map(|wired| (wired.node, wired.index))
    }

    /// Takes a connection to a node for a wire. `None` if there is no memory for it.
    pub(crate) fn add_wire(&mut self, node: NodeId, stream: TcpStream, token: Token) -> Option<()> {
        let block = self.channels.take_space(&self.segment, Wire::FOOTPRINT, self.quota_left())?;
        let wire = wires::write_down(&self.segment, block)?;
        self.wires.add(node, wire, stream, token).ok()?;
        self.engine.handle_wire_up(node);
        Some(())
    }

    /// The wires, for ranks to know.
    pub(crate) fn wires(&self) -> impl Iterator<Item = (NodeId, u64, BorrowedFd<'_>)> {
        self.wires.iter()
    }

    /// The clients of its ranks.
    pub(crate) fn clients(&self) -> impl Iterator<Item = usize> {
        self.ports.iter().filter_map(|port| Some(port.attached.as_ref()?.client))
    }

    pub(crate) fn client_of(&self, local_rank: u32) -> Option<usize> {
        Some(self.ports.get(local_rank as usize)?.attached.as_ref()?.client)
    }

    /// Whether nothing is to come from that node any more, or nobody is here for it.
    pub(crate) fn is_done_with(&self, node: NodeId) -> bool {
        self.is_ending || self.engine.is_deserted(node)
    }

    /// The link to a node is lost. `interrupted` is what was arriving over it; `is_end`: the other side has ended.
    pub(crate) fn lose_link(&mut self, node: NodeId, interrupted: Option<Arrival>, is_end: bool) {
        self.wires.lose(node, is_end);
        self.engine.handle_link_down(node, interrupted);
    }

    /// The poll loop has news of the wire to that node.
    pub(crate) fn wake_wire(&mut self, node: NodeId) {
        self.wires.want(node);
    }

    /// Works the wires as far as nobody else does.
    pub(crate) fn progress_wires(&mut self, registry: &Registry, counters: &Counters, now: Instant) -> usize {
        let (mut ended, mut lost) = (Vec::new(), Vec::new());
        let done = self.wires.progress(registry, counters, now, &mut ended, &mut lost);
        ended.into_iter().for_each(|id| self.channels.remove_wired(id));
        lost.into_iter().for_each(|node| self.engine.handle_wire_down(node));
        self.wires.complaints(now).for_each(|node| self.engine.handle_wire_full(node));
        self.carry_out_local_work();
        done
    }

    /// Whether messages of ranks that are gone have not left, and may yet.
    pub(crate) fn has_unsaid(&self) -> bool {
        self.ends_by.is_none_or(|end| Instant::now() < end) && self.wires.has_unsaid()
    }

    /// When something has to be looked at though nothing happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let ends_by = self.ends_by.filter(|_| self.wires.has_unsaid());
        self.wires.deadline().into_iter().chain(self.meetings.deadline()).chain(ends_by).min()
    }

    fn open_channel(&mut self, send: ChannelId, recv: ChannelId) {
        let end = |id| {
            let (local_rank, slot, layout) = self.engine.place_of(id)?;
            Some(EndOfChannel { local_rank, slot, layout })
        };
        let quota_left = self.quota_left();
        let ends = end(send).zip(end(recv));
        let channel = ends.and_then(|(send, recv)| self.channels.open(&self.segment, send, recv, quota_left));
        self.engine.handle_opened(send, recv, channel);
    }

    /// Copies what clients want copied while they compute, and frees what is not being copied any more.
    pub(crate) fn progress_channels(&mut self, counters: &Counters) -> usize {
        self.carry_out_local_work();
        let (pieces, bytes) = self.channels.copy_pieces(&self.segment);
        if pieces > 0 {
            counters.add(Counter::PayloadCopies, pieces);
            counters.add(Counter::PayloadBytesCopied, bytes);
        }
        let mut closed = 0;
        while let Some(request) = self.channels.take_closed(&self.segment) {
            self.engine.handle_closed(request);
            closed += 1;
        }
        pieces as usize + closed
    }

    /// Whether it must be looked at again soon, though no event will say so.
    pub(crate) fn needs_another_look(&self) -> bool {
        self.channels.is_closing() || self.meetings.is_leaving() || self.shelves.has_left()
    }

    /// Rings a doorbell whose number a client has left. One that it does not have wakes nobody.
    fn ring(&self, local_rank: u32, doorbell: Option<u32>) {
        if let Some(doorbell) = doorbell.and_then(|index| self.segment.doorbell(local_rank, index)) {
            doorbell.wake();
        }
    }

    pub(crate) fn poll_transmit(&mut self, job: JobId, to: NodeId) -> Option<Outbound> {
        let transmit = self.engine.poll_transmit(to)?;
        if let Some(operation) = transmit.token.filter(|_| self.log.is_on()) {
            self.log.piece_begins(self.engine.piece_of(operation, transmit.frame.payload_bytes().into()));
        }
        let payload = transmit.payload.map(|(layout, at)| (Arc::clone(&self.segment), layout, at));
        Some(Outbound { job, frame: transmit.frame, payload, token: transmit.token })
    }

    /// The device is done with so many bytes of an operation's payload.
    pub(crate) fn transmitted(&mut self, operation: Operation, bytes: u64) {
        if self.log.is_on() {
            self.log.piece_ends(self.engine.piece_of(operation, bytes));
        }
        self.engine.handle_transmitted(operation, bytes);
    }

    pub(crate) fn accept(&mut self, job: JobId, from: NodeId, frame: Frame) -> Result<Inbound, LinkError> {
        let placement = self.engine.handle_frame(from, frame)?;
        self.carry_out_local_work();
        let piece = self.arriving(placement.arrival);
        self.log.piece_begins(piece);
        let target = match placement.place {
            Place::Buffer { layout, at } => Target::Buffer { segment: Arc::clone(&self.segment), layout, at },
            Place::Stash(_) => {
                let mut memory = self.spare.pop().unwrap_or_default();
                memory.resize(frame.payload_bytes() as usize, 0);
                Target::Stash(memory)
            }
            Place::Discard => Target::Discard,
        };
        Ok(Inbound { job, target, arrival: placement.arrival })
    }

    pub(crate) fn arrived(&mut self, inbound: Inbound) {
        let piece = self.arriving(inbound.arrival);
        self.log.piece_ends(piece);
        if let (Arrival::Stash(stash), Target::Stash(memory)) = (inbound.arrival, inbound.target) {
            self.stash.insert(stash, memory);
        }
        self.engine.handle_arrived(inbound.arrival);
    }

    /// The piece that arrives in a rank's buffer, if that is logged.
    fn arriving(&mut self, arrival: Arrival) -> Option<Piece> {
        match arrival {
            Arrival::Message { operation, bytes } if self.log.is_on() => self.engine.piece_of(operation, bytes),
            _ => None,
        }
    }

    /// Carries out what the engine wants: copies out of the stash, completions into slots.
    pub(crate) fn deliver(&mut self, counters: &Counters) -> Result<usize, OutOfBounds> {
        let mut done = 0;
        while let Some(work) = self.engine.poll_stash_work() {
            let (StashWork::Copy { stash, .. } | StashWork::Drop { stash }) = work;
            let memory = self.stash.remove(&stash).unwrap_or_default();
            if let StashWork::Copy { to, bytes, operation, .. } = work {
                let piece = self.arriving(Arrival::Message { operation, bytes });
                self.log.piece_begins(piece);
                self.segment.write(&to, 0, &memory[..bytes as usize])?;
                self.log.piece_ends(piece);
                counters.add(Counter::PayloadCopies, 1);
                counters.add(Counter::PayloadBytesCopied, bytes);
                self.engine.handle_copied(stash, operation);
            }
            if self.spare.len() < SPARE_STASHES {
                self.spare.push(memory);
            }
            done += 1;
        }
        while let Some(ended) = self.engine.poll_completion() {
            let Some(slot) = self.segment.slot(ended.local_rank, ended.slot) else { continue };
            let doorbell = slot.complete(ended.epoch, &ended.completion);
            self.ring(ended.local_rank, doorbell);
            done += 1;
        }
        self.wake_everybody();
        if done > 0 {
            self.count_statistics(counters);
        }
        Ok(done)
    }

    /// Counts what ranks have done by themselves since the last time.
    pub(crate) fn count(&mut self, counters: &Counters) {
        self.count_statistics(counters);
        self.wires.count(counters);
        let now = self.segment.doorbell_calls();
        let DoorbellCalls { wake_ups, sleeps } = now.since(std::mem::replace(&mut self.doorbell_calls_counted, now));
        counters.add(Counter::WakeUps, wake_ups.into());
        counters.add(Counter::RankSleeps, sleeps.into());
        counters.add(Counter::SystemCalls, u64::from(wake_ups) + u64::from(sleeps));
    }

    fn count_statistics(&mut self, counters: &Counters) {
        let now = self.engine.statistics();
        counters.add(Counter::EntriesVisited, now.entries_visited - self.counted.entries_visited);
        counters.add(Counter::MessagesMatched, now.matches - self.counted.matches);
        self.counted = now;
    }

    /// Whether a rank waits without sleeping.
    pub(crate) fn is_watched(&self) -> bool {
        self.ports.iter().filter_map(|port| port.attached.as_ref()).any(|attached| attached.control.is_waiting())
    }

    /// How often each of the attached ranks has come to wait, by what it has done since it started something large.
    pub(crate) fn waits(&self) -> impl Iterator<Item = [u32; 4]> + '_ {
        self.ports.iter().filter_map(|port| port.attached.as_ref()).map(|attached| attached.control.waits())
    }

    /// Announces on every ring that the daemon is about to sleep. False if a ring is not empty, or somebody is to be woken before.
    pub(crate) fn arm(&mut self) -> bool {
        !self.has_lost
            && self.ports.iter_mut().filter_map(|port| port.attached.as_mut()).all(|attached| attached.consumer.arm())
    }

    /// The daemon is awake.
    pub(crate) fn disarm(&mut self) {
        self.ports.iter_mut().filter_map(|port| port.attached.as_mut()).for_each(|attached| attached.consumer.disarm());
    }
}

#[cfg(test)]
mod tests;
