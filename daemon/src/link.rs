//! Links to other daemons: dialling, the hello, and which jobs travel over which link.
//!
//! A link is identified by the daemon at its other end. When a job is created, its lower-numbered node dials the higher;
//! the other waits to be called. One link serves all jobs the two daemons share, or one in each direction if both have dialled.
//! Until a link is up, what is meant for it waits in the engines; if it does not come up in time, or breaks, the engines are told
//! that the node is lost.
//!
//! Wires (`wires`) are dialled the same way, one for each job and pair of its nodes, and are no links any more once both
//! sides have said hello.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Registry};
use ropeway_engine::{Arrival, Token as Operation};
use ropeway_proto::control::JobSpec;
use ropeway_proto::hello::{HELLO_BYTES, Hello, HelloError};
use ropeway_proto::{Frame, JobId, NodeId, limits};
use ropeway_shm::{Counter, Counters};
use slab::Slab;

use crate::device::{AnyDevice, Device, Inbound, LinkError, Outbound, Readiness, Target, TcpDevice, Traffic};
use crate::job::Job;
use crate::server::{Jobs, Source};
use crate::sockets;

/// All links of a daemon, and the routes over them.
pub(crate) struct Links {
    links: Slab<Link>,
    routes: Vec<Route>,
    hello: Hello,
    timeout: Duration,
    has_wires: bool,
    /// Wires of jobs that were not created here yet.
    early: Vec<(NewWire, Instant)>,
}

/// A connection that is to be a wire.
pub(crate) struct NewWire {
    pub(crate) job: JobId,
    /// The other end.
    pub(crate) node: NodeId,
    pub(crate) daemon: u64,
    pub(crate) stream: TcpStream,
}

/// What a connection was dialled for.
#[derive(Clone, Copy)]
pub(crate) struct Dialled {
    /// Whom we expect.
    daemon: u64,
    /// Of which job it is to be a wire, and the node at the other end; `None` for a link.
    wire: Option<(JobId, NodeId)>,
    /// Our node in that job.
    from: NodeId,
}

struct Link {
    state: State,
    /// The daemon at the other end: known from the start to who dials, from the hello to who is called.
    daemon: Option<u64>,
    /// If we have dialled it for a wire: whose, and the node at the other end.
    wire: Option<(JobId, NodeId)>,
    /// Another link to that daemon was up before, and carries all we send.
    is_spare: bool,
    /// Jobs take turns.
    next_route: usize,
}

enum State {
    Greeting(Greeting),
    Up(AnyDevice),
}

/// A connection whose hello is not complete.
struct Greeting {
    stream: TcpStream,
    hello: Hello,
    sent: usize,
    received: Vec<u8>,
    deadline: Instant,
}

/// A job's node, and the daemon that is it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) job: JobId,
    pub(crate) node: NodeId,
    pub(crate) daemon: u64,
    /// The link has to be up by then.
    deadline: Instant,
}

/// Why a link did not come up.
#[derive(Debug, thiserror::Error)]
enum GreetingError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Hello(#[from] HelloError),
    #[error("the peer closed the connection before its hello was complete")]
    Closed,
    #[error("another daemon answered than the one that was dialled")]
    OtherDaemon,
}

impl Links {
    pub(crate) fn new(hello: Hello, timeout: Duration, has_wires: bool) -> Self {
        Self { links: Slab::new(), routes: Vec::new(), hello, timeout, has_wires, early: Vec::new() }
    }

    /// Whether no other node is linked to this one.
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Adds a route to another node of a job, and dials its daemon if that is for us to do and not done yet.
    pub(crate) fn add_route(&mut self, spec: &JobSpec, node: NodeId, registry: &Registry, now: Instant) {
        let Some(address) = spec.nodes[usize::from(node.0)].address else { return };
        let daemon = address.daemon;
        self.routes.push(Route { job: spec.job, node, daemon, deadline: now + self.timeout });
        if spec.node > node {
            return;
        }
        let is_known = self.links.iter().any(|(_, link)| link.daemon == Some(daemon) && link.wire.is_none());
        let dial = |links: &mut Self, wire| {
            // A failure to dial shows when the route's deadline passes; without a wire the link carries everything.
            let dialled = sockets::dial(address.link)
                .and_then(|stream| links.add(stream, Some(Dialled { daemon, wire, from: spec.node }), registry, now));
            if let Err(error) = dialled {
                tracing::warn!(%error, address = %address.link, "can't dial");
            }
        };
        if !is_known {
            dial(self, None);
        }
        if self.has_wires && spec.nodes.len() <= limits::WIRED_NODES_MAX {
            dial(self, Some((spec.job, node)));
        }
    }

    /// Wires that were dialled before their job was created here.
    pub(crate) fn take_early(&mut self, job: JobId, now: Instant) -> Vec<NewWire> {
        let is_wanted = |(wire, deadline): &mut (NewWire, Instant)| wire.job == job || now > *deadline;
        let taken = self.early.extract_if(.., is_wanted).map(|(wire, _)| wire);
        taken.filter(|wire| wire.job == job).collect()
    }

    /// Keeps a wire until its job is created, for a time.
    pub(crate) fn keep_early(&mut self, wire: NewWire, now: Instant) {
        self.early.retain(|(_, deadline)| now <= *deadline);
        if self.early.len() < EARLY_MAX {
            self.early.push((wire, now + self.timeout));
        }
    }

    /// Takes a new connection, accepted unless it was `dialled`.
    pub(crate) fn add(
        &mut self,
        stream: TcpStream,
        dialled: Option<Dialled>,
        registry: &Registry,
        now: Instant,
    ) -> io::Result<()> {
        let daemon = dialled.map(|dialled| dialled.daemon);
        let wire = dialled.and_then(|dialled| dialled.wire);
        let said = dialled.and_then(|Dialled { wire, from, .. }| Some((wire?.0, from)));
        let hello = Hello { wire: said, ..self.hello };
        let greeting = Greeting { stream, hello, sent: 0, received: Vec::new(), deadline: now + self.timeout };
        let index =
            self.links.insert(Link { state: State::Greeting(greeting), daemon, wire, is_spare: false, next_route: 0 });
        let State::Greeting(greeting) = &mut self.links[index].state else { return Ok(()) };
        let interest = Interest::READABLE | Interest::WRITABLE;
        let result = registry.register(&mut greeting.stream, Source::Link(index).token(), interest);
        if result.is_err() {
            self.links.remove(index);
        }
        result
    }

    /// The poll loop has news of a connection. If it is a wire, it is none of ours any more.
    pub(crate) fn handle_event(&mut self, index: usize, ready: Readiness, now: Instant) -> Option<NewWire> {
        let link = self.links.get_mut(index)?;
        match &mut link.state {
            State::Up(device) => {
                if let AnyDevice::Tcp(device) = device {
                    device.set_ready(ready);
                }
            }
            State::Greeting(greeting) => match greeting.advance(link.daemon) {
                Ok(None) => {}
                // What was told of the connection is told of the link now.
                Ok(Some(theirs)) => {
                    return self.come_up(index, &theirs, now).or_else(|| self.handle_event(index, ready, now));
                }
                Err(error) => {
                    tracing::warn!(%error, "link refused");
                    self.links.remove(index);
                }
            },
        }
        None
    }

    /// Both sides have said hello.
    fn come_up(&mut self, index: usize, theirs: &Hello, now: Instant) -> Option<NewWire> {
        let Link { state: State::Greeting(Greeting { stream, .. }), wire, .. } = self.links.remove(index) else {
            return None;
        };
        let daemon = theirs.daemon;
        if let Some((job, node)) = wire.or(theirs.wire) {
            // Others may dial one that we don't want: then the link carries what they propose.
            tracing::debug!(daemon, job = job.0, is_wanted = self.has_wires, "wire is up");
            return self.has_wires.then_some(NewWire { job, node, daemon, stream });
        }
        let device = TcpDevice::new(stream, self.timeout, now);
        let state = State::Up(AnyDevice::Tcp(Box::new(device)));
        // Of two jobs that are created at once with their nodes in opposite orders each daemon dials for one. Order is kept as long as all that
        // one side sends takes the same link; the other side may use the other one.
        let is_spare = self.is_daemon_up(daemon);
        // The place that was just freed is the one that is filled, so the token stays right.
        let same = self.links.insert(Link { state, daemon: Some(daemon), wire: None, is_spare, next_route: 0 });
        debug_assert_eq!(same, index);
        tracing::debug!(daemon, is_spare, "link is up");
        None
    }

    /// Has the busy links look for bytes in the next cycle.
    pub(crate) fn probe(&mut self, now: Instant) {
        for (_, link) in &mut self.links {
            if let State::Up(AnyDevice::Tcp(device)) = &mut link.state {
                device.probe(now);
            }
        }
    }

    /// Before the poll loop is asked to wake us.
    pub(crate) fn prepare_sleep(&mut self) {
        for (_, link) in &mut self.links {
            if let State::Up(AnyDevice::Tcp(device)) = &mut link.state {
                device.prepare_sleep();
            }
        }
    }

    /// Whether a link has taken frames that have not left.
    pub(crate) fn has_unsent(&self) -> bool {
        self.links
            .iter()
            .any(|(_, link)| matches!(&link.state, State::Up(AnyDevice::Tcp(device)) if device.has_unsent()))
    }

    /// Whether a large message is to arrive.
    pub(crate) fn await_large(&self) -> bool {
        self.links
            .iter()
            .any(|(_, link)| matches!(&link.state, State::Up(AnyDevice::Tcp(device)) if device.awaits_large()))
    }

    /// Lets every link do some work, and tells the jobs of those that are lost.
    pub(crate) fn progress(&mut self, jobs: &mut Jobs, counters: &Counters, now: Instant) -> usize {
        let mut done = 0;
        let mut lost = Vec::new();
        for (index, link) in &mut self.links {
            let device = match &mut link.state {
                State::Up(device) => device,
                State::Greeting(greeting) => {
                    if now > greeting.deadline {
                        lost.push((index, None, None));
                    }
                    continue;
                }
            };
            let (daemon, carries) = (link.daemon, !link.is_spare);
            let next = &mut link.next_route;
            let mut traffic = LinkTraffic { jobs, routes: &self.routes, daemon, carries, next, counters };
            match device.progress(&mut traffic, now) {
                Ok(count) => done += count,
                Err(error) => {
                    let interrupted = device.arriving().map(|inbound| (inbound.job, inbound.arrival));
                    tracing::debug!(%error, daemon, "link is down");
                    lost.push((index, Some(error), interrupted));
                }
            }
        }
        for (index, error, interrupted) in lost {
            done += 1;
            // It may have gone with another one.
            let Some(link) = self.links.try_remove(index) else { continue };
            let Some(daemon) = link.daemon.filter(|_| link.wire.is_none()) else { continue };
            match error {
                None if self.is_daemon_up(daemon) => {}
                None => self.lose(daemon, None, None, jobs),
                Some(error) => {
                    let other = self.lose_others(daemon, &error, jobs, (counters, now));
                    self.lose(daemon, Some(&error), interrupted.or(other), jobs);
                }
            }
        }
        done + self.check_deadlines(jobs, now)
    }

    /// A rank of the job has gone: what is still arriving for it must not be written to its memory any more, which its
    /// process takes for its own again.
    pub(crate) fn spare_memory(&mut self, id: JobId, job: &mut Job) {
        for (_, link) in &mut self.links {
            if let State::Up(device) = &mut link.state
                && let Some(inbound) = device.arriving()
                && inbound.job == id
                && !job.engine.awaits(inbound.arrival)
            {
                inbound.target = Target::Discard;
            }
        }
    }

    /// Forgets the routes of a job that has ended.
    pub(crate) fn remove_routes(&mut self, job: JobId) {
        self.routes.retain(|route| route.job != job);
    }

    /// Whether frames to that node can leave.
    pub(crate) fn is_up(&self, job: JobId, node: NodeId) -> bool {
        let route = self.routes.iter().find(|route| route.job == job && route.node == node);
        route.is_some_and(|route| self.is_daemon_up(route.daemon))
    }

    /// When something has to be done even if nothing happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let links = self.links.iter().map(|(_, link)| match &link.state {
            State::Greeting(greeting) => greeting.deadline,
            State::Up(device) => match device {
                AnyDevice::Tcp(device) => device.deadline(),
                AnyDevice::Shm(_) | AnyDevice::Loopback(_) => unreachable!("links between daemons are TCP"),
            },
        });
        let waiting = self.routes.iter().filter(|route| !self.is_daemon_up(route.daemon)).map(|route| route.deadline);
        links.chain(waiting).min()
    }

    fn is_daemon_up(&self, daemon: u64) -> bool {
        self.links.iter().any(|(_, link)| link.daemon == Some(daemon) && matches!(link.state, State::Up(_)))
    }

    fn check_deadlines(&mut self, jobs: &mut Jobs, now: Instant) -> usize {
        let late = |route: &&Route| now > route.deadline && !self.is_daemon_up(route.daemon);
        let late: Vec<u64> = self.routes.iter().filter(late).map(|route| route.daemon).collect();
        for &daemon in &late {
            self.lose(daemon, None, None, jobs);
        }
        late.len()
    }

    /// Another link to the daemon of one that is lost goes with it, as both carry the same jobs, each in one direction. What was arriving over it.
    fn lose_others(
        &mut self,
        daemon: u64,
        error: &LinkError,
        jobs: &mut Jobs,
        (counters, now): (&Counters, Instant),
    ) -> Option<(JobId, Arrival)> {
        let is_other = |link: &Link| link.daemon == Some(daemon) && matches!(link.state, State::Up(_));
        let mut interrupted = None;
        while let Some(index) = self.links.iter().find_map(|(index, link)| is_other(link).then_some(index)) {
            let Link { state: State::Up(AnyDevice::Tcp(mut device)), mut next_route, .. } = self.links.remove(index)
            else {
                continue;
            };
            if error.is_end() {
                let (routes, daemon, next) = (&self.routes, Some(daemon), &mut next_route);
                device
                    .receive_last_words(&mut LinkTraffic { jobs, routes, daemon, carries: false, next, counters }, now);
            }
            interrupted = interrupted.or(device.arriving().map(|inbound| (inbound.job, inbound.arrival)));
        }
        interrupted
    }

    /// No more traffic with that daemon: every job that had a route to it learns it. Without an error its link did not come up in time.
    fn lose(&mut self, daemon: u64, error: Option<&LinkError>, interrupted: Option<(JobId, Arrival)>, jobs: &mut Jobs) {
        for &Route { job: id, node, .. } in self.routes.iter().filter(|route| route.daemon == daemon) {
            let arrival = interrupted.filter(|(job, _)| *job == id).map(|(_, arrival)| arrival);
            if let Some(job) = jobs.get_mut(&id) {
                match error {
                    // Daemons end when their ranks have.
                    _ if job.is_done_with(node) => {}
                    Some(error) => tracing::warn!(%error, job = id.0, node = node.0, "a job has lost a node"),
                    None => tracing::warn!(job = id.0, node = node.0, "a job's link to a node did not come up in time"),
                }
                job.lose_link(node, arrival, error.is_some_and(LinkError::is_end));
            }
        }
        self.routes.retain(|route| route.daemon != daemon);
    }
}

impl Greeting {
    /// Sends and receives what is possible. When both hellos are through: the other end's.
    fn advance(&mut self, expected: Option<u64>) -> Result<Option<Hello>, GreetingError> {
        let ours = &self.hello;
        if let Some(error) = self.stream.take_error()? {
            return Err(error.into());
        }
        if !is_connected(&self.stream)? {
            return Ok(None);
        }
        let bytes = ours.encode();
        while self.sent < HELLO_BYTES {
            match self.stream.write(&bytes[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        while self.received.len() < HELLO_BYTES {
            let mut buffer = [0; HELLO_BYTES];
            let missing = HELLO_BYTES - self.received.len();
            match self.stream.read(&mut buffer[..missing]) {
                Ok(0) => return Err(GreetingError::Closed),
                Ok(count) => self.received.extend(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        let Some(theirs) = self.received.first_chunk() else { return Ok(None) };
        let theirs = Hello::decode(theirs)?;
        ours.accept(&theirs)?;
        if expected.is_some_and(|daemon| daemon != theirs.daemon) {
            return Err(GreetingError::OtherDaemon);
        }
        Ok((self.sent == HELLO_BYTES).then_some(theirs))
    }
}

/// Wires that may wait for their jobs.
const EARLY_MAX: usize = 1024;

fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

/// The engines behind one link.
struct LinkTraffic<'a> {
    jobs: &'a mut Jobs,
    routes: &'a [Route],
    daemon: Option<u64>,
    /// Whether what is sent to that daemon takes this link.
    carries: bool,
    next: &'a mut usize,
    counters: &'a Counters,
}

impl Traffic for LinkTraffic<'_> {
    fn poll(&mut self) -> Option<Outbound> {
        let routes = if self.carries { self.routes.len() } else { 0 };
        for step in 0..routes {
            let index = (*self.next + step) % routes;
            let Route { job, node, daemon, .. } = self.routes[index];
            if Some(daemon) != self.daemon {
                continue;
            }
            if let Some(outbound) = self.jobs.get_mut(&job).and_then(|found| found.poll_transmit(job, node)) {
                *self.next = index + 1;
                return Some(outbound);
            }
        }
        None
    }

    fn transmitted(&mut self, job: JobId, operation: Operation, bytes: u64) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.transmitted(operation, bytes);
        }
    }

    fn accept(&mut self, job: JobId, frame: Frame) -> Result<Inbound, LinkError> {
        let route = self.routes.iter().find(|route| route.job == job && Some(route.daemon) == self.daemon);
        match (route, self.jobs.get_mut(&job)) {
            (Some(route), Some(found)) => found.accept(job, route.node, frame),
            // The job has ended here and not yet there.
            _ => Ok(Inbound::unwanted(job)),
        }
    }

    fn arrived(&mut self, inbound: Inbound) {
        if let Some(job) = self.jobs.get_mut(&inbound.job) {
            job.arrived(inbound);
        }
    }

    fn is_large_due(&self) -> bool {
        let mut routes = self.routes.iter().filter(|route| Some(route.daemon) == self.daemon);
        routes.any(|route| self.jobs.get(&route.job).is_some_and(|job| job.engine.is_large_due(route.node)))
    }

    fn count(&mut self, counter: Counter, amount: u64) {
        self.counters.add(counter, amount);
    }
}

/// What is behind the self link of a node: one job's engine, on both ends.
pub(crate) struct SelfTraffic<'a> {
    pub(crate) id: JobId,
    pub(crate) job: &'a mut Job,
    pub(crate) counters: &'a Counters,
}

impl Traffic for SelfTraffic<'_> {
    fn poll(&mut self) -> Option<Outbound> {
        let node = self.job.engine.spec().node;
        self.job.poll_transmit(self.id, node)
    }

    fn transmitted(&mut self, _: JobId, operation: Operation, bytes: u64) {
        self.job.transmitted(operation, bytes);
    }

    fn accept(&mut self, job: JobId, frame: Frame) -> Result<Inbound, LinkError> {
        let node = self.job.engine.spec().node;
        self.job.accept(job, node, frame)
    }

    fn arrived(&mut self, inbound: Inbound) {
        self.job.arrived(inbound);
    }

    fn is_large_due(&self) -> bool {
        self.job.engine.is_large_due(self.job.engine.spec().node)
    }

    fn count(&mut self, counter: Counter, amount: u64) {
        self.counters.add(counter, amount);
    }
}

#[cfg(test)]
mod tests;
