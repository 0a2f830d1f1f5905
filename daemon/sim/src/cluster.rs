//! The event queue, and everything that events happen to.

mod collectives;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use fastrand::Rng;
use ropeway_engine::{CollectiveWork, Config, Engine, Leftovers, Place, StashId, StashWork, Token};
use ropeway_proto::control::JobSpec;
use ropeway_proto::frame::Header;
use ropeway_proto::{Command, Completion, Epoch, Frame, JobId, Layout, NodeId, Rank, Slot, Status};
use slab::Slab;

use crate::Summary;
use crate::client::{Action, Call, Client, Surroundings};
use crate::history::{Ended, History};
use crate::message;
use crate::network::{self, Links, Parcel};
use crate::participant::Seat;
use crate::workload::collective::CollectivePlan;
use crate::workload::{Fault, Program, Workload};
use collectives::Collectives;

/// A job on a simulated cluster.
pub struct Cluster {
    workload: Workload,
    rng: Rng,
    now: u64,
    order: u64,
    /// Times, numbers in the order of scheduling, and which event.
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// What the queue names: events are large, and move a lot in a heap.
    events: Slab<Event>,
    engines: Vec<Engine>,
    memory: Vec<Vec<u8>>,
    stashes: HashMap<(u16, StashId), Vec<u8>>,
    links: Links,
    collectives: Collectives,
    /// Messages that links have taken up.
    messages_sent: u64,
    /// `None` once it is gone.
    clients: Vec<Option<Client>>,
    /// When each rank's last command reaches its engine, and the last completion its client: both stay in order.
    rings: Vec<(u64, u64)>,
    history: History,
    leftovers: (Vec<Leftovers>, Vec<Leftovers>),
    is_verbose: bool,
}

/// Something that is going to happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    Call(Rank, Call),
    Command(Rank, Command),
    Completion(Rank, Slot, Epoch, Completion),
    /// A link can take up the next frame or piece.
    Leaves(u16, u16),
    /// The next parcel of a link is there.
    Arrives(u16, u16),
    /// A copy out of a node's stash is made.
    Copy(u16, StashId, Layout, u64, Token),
    /// A participant of a collective goes on.
    Continue(Seat),
    /// A participant's ranks free the collective, unless it has ended.
    GiveUp(Seat),
    /// A copy or combination for a node's collective is made.
    Work(u16, CollectiveWork),
    Fault(Fault),
    /// A node notices that its link from another is cut.
    LinkDown(u16, u16),
}

/// More events than any run needs that makes progress.
const EVENTS_MAX: u64 = 5_000_000;
/// How often a stuck job is told who is gone before it counts as stuck for good.
const NUDGES_MAX: u32 = 20;

impl Cluster {
    /// A cluster about to run a workload.
    pub fn new(workload: Workload, is_verbose: bool) -> Self {
        let nodes = 0..workload.spec.nodes.len() as u16;
        let engine = |node| {
            let limits = workload.limits;
            Engine::new(Config {
                spec: JobSpec { node: NodeId(node), ..workload.spec.clone() },
                eager_bytes_max: limits.eager_bytes_max,
                channel_credits: limits.channel_credits,
                pair_credits: limits.pair_credits,
                chunk_bytes: limits.chunk_bytes,
                has_direct_channels: false,
            })
        };
        let mut this = Self {
            rng: Rng::with_seed(message::mix(workload.seed)),
            now: 0,
            order: 0,
            queue: BinaryHeap::new(),
            events: Slab::new(),
            engines: nodes.clone().map(engine).collect(),
            memory: nodes.clone().map(|_| Vec::new()).collect(),
            stashes: HashMap::new(),
            links: Links::between(nodes.len()),
            collectives: Collectives::default(),
            messages_sent: 0,
            clients: Vec::new(),
            rings: vec![(0, 0); workload.programs.len()],
            history: History::default(),
            leftovers: (Vec::new(), Vec::new()),
            is_verbose,
            workload,
        };
        for rank in 0..this.workload.programs.len() as Rank {
            let program = this.workload.programs[rank as usize].clone();
            let client = this.surround(rank, |around| Client::new(rank, &program, around));
            this.clients.push(Some(client));
        }
        this.seat_participants();
        for (at, fault) in this.workload.faults.clone() {
            this.schedule(at, Event::Fault(fault));
        }
        this
    }

    /// Runs until nothing happens any more, lets everybody leave, and runs on until that is done.
    pub fn run(&mut self) -> Result<(), String> {
        self.drain()?;
        let mut nudges = 0;
        while self.has_faults() && nudges < NUDGES_MAX && self.clients().any(|client| client.waits_for().is_some()) {
            self.nudge();
            self.drain()?;
            nudges += 1;
        }
        if self.clients().any(|client| client.waits_for().is_some())
            || self.participants().any(|(_, participant)| participant.waits_for().is_some())
        {
            return Ok(()); // The checker says more about it.
        }
        self.look_at_participants();
        self.leftovers.0 = self.engines.iter().map(Engine::leftovers).collect();
        for rank in 0..self.clients.len() as Rank {
            self.with_client(rank, |client, around| client.look_back(around));
            self.end_client(rank, false);
        }
        self.drain()?;
        self.leftovers.1 = self.engines.iter().map(Engine::leftovers).collect();
        Ok(())
    }

    fn drain(&mut self) -> Result<(), String> {
        while let Some(Reverse((time, _, event))) = self.queue.pop() {
            self.now = time;
            let event = self.events.remove(event);
            if self.order > EVENTS_MAX {
                return Err(format!("terminates: {EVENTS_MAX} events and no end"));
            }
            if self.is_verbose {
                println!("{time:>10} {event:?}");
            }
            self.handle(event)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Call(rank, call) => self.with_client(rank, |client, around| client.wake(call, around)),
            Event::Completion(rank, slot, epoch, completion) => {
                self.with_client(rank, |client, around| client.complete(slot, epoch, completion, around));
            }
            Event::Command(rank, command) => return self.command(rank, command),
            Event::Leaves(from, to) => self.leave(from, to),
            Event::Arrives(from, to) => return self.arrive(from, to),
            Event::Copy(node, stash, to, bytes, operation) => self.copy(node, stash, to, bytes, operation),
            Event::Continue(seat) => self.continue_collective(seat),
            Event::GiveUp(seat) => self.give_up(seat),
            Event::Work(node, work) => self.work(node, work),
            Event::Fault(fault) => self.fault(fault),
            Event::LinkDown(from, to) => self.link_down(from, to),
        }
        Ok(())
    }

    fn schedule(&mut self, time: u64, event: Event) {
        self.order += 1;
        let event = self.events.insert(event);
        self.queue.push(Reverse((time, self.order, event)));
    }

    fn place_of(&self, rank: Rank) -> (u16, u32) {
        let node = self.workload.spec.node_of(rank).expect("a rank of the job").0;
        (node, rank - self.workload.spec.nodes[usize::from(node)].first_rank)
    }
}

// ---- clients

impl Cluster {
    fn with_client(&mut self, rank: Rank, act: impl FnOnce(&mut Client, &mut Surroundings<'_>)) {
        let Some(mut client) = self.clients[rank as usize].take() else { return };
        self.surround(rank, |around| act(&mut client, around));
        self.clients[rank as usize] = Some(client);
    }

    /// Lends a client what it works with, and carries out what it wants.
    fn surround<T>(&mut self, rank: Rank, act: impl FnOnce(&mut Surroundings<'_>) -> T) -> T {
        let (node, _) = self.place_of(rank);
        let mut around = Surroundings {
            memory: &mut self.memory[usize::from(node)],
            history: &mut self.history,
            rng: &mut self.rng,
            think_ns: self.workload.delays.think_ns,
            actions: Vec::new(),
        };
        let result = act(&mut around);
        for action in around.actions {
            match action {
                Action::Command(command) => {
                    let delay = self.rng.u64(..self.workload.delays.command_ns);
                    let at = self.rings[rank as usize].0.max(self.now + delay);
                    self.rings[rank as usize].0 = at;
                    self.schedule(at, Event::Command(rank, command));
                }
                Action::Wake { delay_ns, call } => self.schedule(self.now + delay_ns, Event::Call(rank, call)),
            }
        }
        result
    }

    fn command(&mut self, rank: Rank, command: Command) -> Result<(), String> {
        if self.clients[rank as usize].is_none() {
            return Ok(());
        }
        let command =
            Command::decode(command.encode()).map_err(|error| format!("{command:?} is no command: {error}"))?;
        let (node, local_rank) = self.place_of(rank);
        let answer = self.engines[usize::from(node)].handle_command(local_rank, command);
        self.collect(node);
        answer.map_err(|violation| format!("rank {rank} is accused of {violation} for {command:?}"))
    }

    fn end_client(&mut self, rank: Rank, has_failed: bool) {
        if self.clients[rank as usize].take().is_some() {
            let (node, local_rank) = self.place_of(rank);
            self.engines[usize::from(node)].handle_client_gone(local_rank, has_failed);
            self.collect(node);
        }
    }

    /// Nothing happens, and some wait: for what those that are gone can't send. Their users would notice.
    fn nudge(&mut self) {
        let (spec, faults) = (self.workload.spec.clone(), self.history.faults.clone());
        let node_of = |rank| spec.node_of(rank).expect("a rank of the job").0;
        for rank in 0..self.clients.len() as Rank {
            let is_gone = |other: Rank| {
                faults.failed.contains(&other)
                    || faults.left.contains(&other)
                    || faults.cut.contains(&(node_of(rank), node_of(other)))
            };
            self.with_client(rank, |client, around| client.nudge(&is_gone, around));
        }
    }
}

// ---- engines

impl Cluster {
    /// Carries out what an engine asks for.
    fn collect(&mut self, node: u16) {
        let index = usize::from(node);
        while let Some(work) = self.engines[index].poll_stash_work() {
            match work {
                StashWork::Copy { stash, to, bytes, operation } => {
                    let at = self.now + self.rng.u64(..self.workload.delays.copy_ns);
                    self.schedule(at, Event::Copy(node, stash, to, bytes, operation));
                }
                // At once, because the engine may use the name again.
                StashWork::Drop { stash } => {
                    self.stashes.remove(&(node, stash));
                }
            }
        }
        while let Some(done) = self.engines[index].poll_completion() {
            let rank = self.workload.spec.nodes[index].first_rank + done.local_rank;
            let delay = self.rng.u64(..self.workload.delays.completion_ns);
            let at = self.rings[rank as usize].1.max(self.now + delay);
            self.rings[rank as usize].1 = at;
            self.schedule(at, Event::Completion(rank, done.slot, done.epoch, done.completion));
        }
        self.collect_collective_work(node);
        for to in 0..self.engines.len() as u16 {
            let has_transmit = self.engines[index].has_transmit(NodeId(to));
            let link = &mut self.links[(node, to)];
            if has_transmit && !link.is_busy && !link.is_down {
                link.is_busy = true;
                self.schedule(self.now, Event::Leaves(node, to));
            }
        }
    }

    fn copy(&mut self, node: u16, stash: StashId, to: Layout, bytes: u64, operation: Token) {
        let content = self.stashes.remove(&(node, stash)).expect("what is to be copied is stashed");
        assert_eq!(content.len() as u64, bytes, "only whole messages are copied");
        message::write(&mut self.memory[usize::from(node)], to, 0, &content);
        self.engines[usize::from(node)].handle_copied(stash, operation);
        self.collect(node);
    }

    /// A link takes up the next piece of a payload, or the next frame.
    fn leave(&mut self, from: u16, to: u16) {
        let link = &mut self.links[(from, to)];
        link.is_busy = false;
        if link.is_down {
            return;
        }
        let parcel = match link.leaving.take() {
            Some((transmit, at)) => {
                let (layout, start) = transmit.payload.expect("only payloads leave in pieces");
                let total = u64::from(transmit.frame.payload_bytes());
                let count = (total - at).min(1 + self.rng.u64(..self.workload.delays.piece_bytes));
                let piece = message::read(&self.memory[usize::from(from)], layout, start + at, count);
                link.leaving = (at + count < total).then_some((transmit, at + count));
                let token = transmit.token.expect("payload belongs to an operation");
                self.engines[usize::from(from)].handle_transmitted(token, count);
                Parcel::Piece(piece)
            }
            None => {
                let Some(transmit) = self.engines[usize::from(from)].poll_transmit(NodeId(to)) else { return };
                link.leaving = transmit.payload.map(|_| (transmit, 0));
                self.messages_sent += u64::from(network::begins_message(&transmit.frame));
                if let (Some(token), None) = (transmit.token, transmit.payload) {
                    self.engines[usize::from(from)].handle_transmitted(token, 0);
                }
                Parcel::Header(transmit.frame)
            }
        };
        let bytes = if let Parcel::Piece(piece) = &parcel { piece.len() as u64 } else { 0 };
        link.is_busy = true;
        let next = self.now + network::occupation(bytes, &self.workload.delays, &mut self.rng);
        if !link.is_cut {
            let arrival = link.dispatch(parcel, self.now, &self.workload.delays, &mut self.rng);
            self.schedule(arrival, Event::Arrives(from, to));
        }
        self.schedule(next, Event::Leaves(from, to));
        self.collect(from);
    }

    fn arrive(&mut self, from: u16, to: u16) -> Result<(), String> {
        let link = &mut self.links[(from, to)];
        let Some(parcel) = link.in_flight.pop_front() else { return Ok(()) };
        let (placement, arrived, total) = match parcel {
            Parcel::Header(frame) => {
                let frame = over_the_wire(frame)?;
                if self.is_verbose {
                    println!("{:>10} from {from} to {to}: {frame:?}", self.now);
                }
                let answer = self.engines[usize::from(to)].handle_frame(NodeId(from), frame);
                let refused = |error| format!("node {from} is accused by node {to}: {error}: {frame:?}");
                let placement = answer.map_err(refused)?;
                if let Place::Stash(stash) = placement.place {
                    self.stashes.insert((to, stash), Vec::new());
                }
                (placement, 0, u64::from(frame.payload_bytes()))
            }
            Parcel::Piece(piece) => {
                let (placement, arrived, total) = link.arriving.take().expect("a piece follows its header");
                match placement.place {
                    Place::Buffer { layout, at } => {
                        message::write(&mut self.memory[usize::from(to)], layout, at + arrived, &piece);
                    }
                    Place::Stash(stash) => self.stashes.entry((to, stash)).or_default().extend(&piece),
                    Place::Discard => {}
                }
                (placement, arrived + piece.len() as u64, total)
            }
        };
        if arrived == total {
            self.engines[usize::from(to)].handle_arrived(placement.arrival);
        } else {
            let link = &mut self.links[(from, to)];
            link.arriving = Some((placement, arrived, total));
        }
        self.collect(to);
        Ok(())
    }
}

/// Frames must survive being headers.
fn over_the_wire(frame: Frame) -> Result<Frame, String> {
    let header = Header { sequence: 1, job: JobId(1), frame };
    let decoded = Header::decode(&header.encode()).map_err(|error| format!("{frame:?} is no frame: {error}"))?;
    Ok(decoded.frame)
}

// ---- faults

impl Cluster {
    fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Death { rank } if self.clients[rank as usize].is_some() => {
                self.history.faults.failed.insert(rank);
                self.note_gone(rank);
                self.end_client(rank, true);
            }
            Fault::Leave { rank } if self.clients[rank as usize].is_some() => {
                self.history.faults.left.insert(rank);
                self.note_gone(rank);
                self.end_client(rank, false);
            }
            Fault::Cut { nodes: (one, other), lag_ns } if !self.links[(one, other)].is_cut => {
                self.history.faults.cut.extend([(one, other), (other, one)]);
                for (from, to) in [(one, other), (other, one)] {
                    let link = &mut self.links[(from, to)];
                    link.is_cut = true;
                    link.in_flight.clear();
                }
                self.schedule(self.now, Event::LinkDown(one, other));
                self.schedule(self.now + lag_ns, Event::LinkDown(other, one));
            }
            _ => {}
        }
    }

    fn link_down(&mut self, from: u16, to: u16) {
        let interrupted = self.links[(from, to)].arriving.take();
        let back = &mut self.links[(to, from)];
        (back.is_down, back.leaving) = (true, None);
        let interrupted = interrupted.map(|(placement, _, _)| placement.arrival);
        self.engines[usize::from(to)].handle_link_down(NodeId(from), interrupted);
        self.collect(to);
    }
}

// ---- for the checkers

impl Cluster {
    /// What happened.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Whether the workload had faults.
    pub fn has_faults(&self) -> bool {
        !self.workload.faults.is_empty()
    }

    /// Nodes and ranks.
    pub fn nodes(&self) -> &JobSpec {
        &self.workload.spec
    }

    /// Clients that are still there.
    pub fn clients(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().flatten()
    }

    /// What each engine held when all clients were done, and when all had left.
    pub fn leftovers(&self) -> (&[Leftovers], &[Leftovers]) {
        (&self.leftovers.0, &self.leftovers.1)
    }

    /// What nodes do together.
    pub fn collectives(&self) -> &[CollectivePlan] {
        &self.workload.collectives
    }

    /// What ranks do.
    pub fn programs(&self) -> &[Program] {
        &self.workload.programs
    }

    /// Messages that were sent, by nodes and ranks, signals among them.
    pub const fn messages_sent(&self) -> u64 {
        self.messages_sent
    }

    /// Payloads that are still stashed.
    pub fn stashes(&self) -> usize {
        self.stashes.len()
    }

    /// The run in figures.
    pub fn summary(&self) -> Summary {
        let is_error = |ended: &&Ended| ended.completion.status != Status::Cancelled;
        let failed_rounds = self.history.rounds.values().flatten().filter(|round| round.has_failed());
        Summary {
            messages: self.history.received.len(),
            sent: self.messages_sent,
            rounds: self.participants().map(|(_, one)| one.rounds as usize).sum(),
            events: self.order,
            errors: self.history.ended.iter().filter(is_error).count() + failed_rounds.count(),
            stashed: self.engines.iter().map(|engine| engine.statistics().stashed).sum(),
        }
    }
}
