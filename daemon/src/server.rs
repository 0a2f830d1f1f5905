//! The daemon's one thread (but for `burial`): commands → devices → completions → idle.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::net::{TcpListener, UnixListener, UnixStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use nix::sched::sched_getcpu;
use nix::sys::signalfd::SignalFd;
use ropeway_proto::hello::VersionRange;
use ropeway_proto::{JobId, NodeId};
use ropeway_shm::{Counter, Counters, EventLog};
use slab::Slab;

use crate::absence::Absence;
use crate::burial::Burials;
use crate::client::Client;
use crate::conductor::Heir;
use crate::config::Config;
use crate::device::{Device, Readiness, ShmDevice};
use crate::door::Door;
use crate::habit::Habits;
use crate::home::{Home, Surroundings};
use crate::idle::{Idle, Ranks, Rest};
use crate::job::Job;
use crate::link::{Links, SelfTraffic};
use crate::log::{Awake, Log};
use crate::priority::Priority;

/// All jobs on this node.
pub(crate) type Jobs = HashMap<JobId, Job>;

/// Where an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Somebody connects to the control socket.
    ControlListener,
    /// Another daemon dials.
    LinkListener,
    /// The owner of an embedded daemon wants something, or memory was given back.
    Waker,
    /// A signal has come.
    Signal,
    /// A client's control connection.
    Client(usize),
    /// A client has put commands into its ring while the daemon slept.
    Ring(usize),
    /// A link.
    Link(usize),
    /// A wire.
    Wire(usize),
}

impl Source {
    pub(crate) fn token(self) -> Token {
        Token(match self {
            Self::ControlListener => 0,
            Self::LinkListener => 1,
            Self::Waker => 2,
            Self::Signal => 3,
            Self::Client(index) => 4 + index * 4,
            Self::Ring(index) => 5 + index * 4,
            Self::Link(index) => 6 + index * 4,
            Self::Wire(index) => 7 + index * 4,
        })
    }

    fn of(token: Token) -> Self {
        match token.0 {
            0 => Self::ControlListener,
            1 => Self::LinkListener,
            2 => Self::Waker,
            3 => Self::Signal,
            number => {
                let (index, kind) = ((number - 4) / 4, (number - 4) % 4);
                [Self::Client, Self::Ring, Self::Link, Self::Wire][kind](index)
            }
        }
    }
}

/// What the owner of an embedded daemon asks of it.
pub(crate) enum Order {
    /// Serve this connection.
    Serve(StdUnixStream),
    /// Log there what is done from now on, for jobs that are created from now on.
    Log(Arc<EventLog>),
    /// Stop.
    Stop,
}

/// Everything the daemon's thread has.
pub(crate) struct Server {
    pub(crate) config: Config,
    pub(crate) versions: VersionRange,
    pub(crate) poll: Poll,
    pub(crate) clients: Slab<Client>,
    pub(crate) jobs: Jobs,
    pub(crate) links: Links,
    /// Whose wire each is.
    pub(crate) wires: Slab<(JobId, NodeId)>,
    pub(crate) counters: Arc<Counters>,
    /// Clients that are to be told when everything is done and counted.
    pub(crate) counting: Vec<usize>,
    pub(crate) burials: Burials,
    /// Who waits for what is being given back.
    pub(crate) heirs: Vec<Heir>,
    /// Stop when this client is gone: it is the one the daemon was started for.
    pub(crate) only_client: Option<usize>,
    pub(crate) is_stopping: bool,
    shm: ShmDevice,
    idle: Idle,
    absence: Absence,
    awake: Awake,
    orders: Option<Receiver<Order>>,
    for_clients: Door<UnixListener>,
    for_links: Door<TcpListener>,
    signals: Option<SignalFd>,
}

/// What a server listens to besides its clients.
#[derive(Default)]
pub(crate) struct Inputs {
    pub(crate) orders: Option<Receiver<Order>>,
    pub(crate) control_listener: Option<UnixListener>,
    pub(crate) link_listener: Option<TcpListener>,
    pub(crate) signals: Option<SignalFd>,
}

/// When something may have ended of which no event tells: a channel's, whose other end has its hands on it, or a meeting's.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(1);
/// How long a daemon that is told to stop waits for other nodes to take what its ranks have said.
const FAREWELL: Duration = Duration::from_millis(100);
/// A busy daemon looks at its sockets' readiness every so many cycles.
const CYCLES_PER_POLL: u32 = 8;

impl Server {
    pub(crate) fn new(
        config: Config,
        poll: Poll,
        links: Links,
        counters: Arc<Counters>,
        waker: Arc<Waker>,
        mut inputs: Inputs,
    ) -> io::Result<Self> {
        let registry = poll.registry();
        if let Some(listener) = &mut inputs.control_listener {
            registry.register(listener, Source::ControlListener.token(), Interest::READABLE)?;
        }
        if let Some(listener) = &mut inputs.link_listener {
            registry.register(listener, Source::LinkListener.token(), Interest::READABLE)?;
        }
        if let Some(signals) = &inputs.signals {
            let descriptor = signals.as_raw_fd();
            registry.register(&mut SourceFd(&descriptor), Source::Signal.token(), Interest::READABLE)?;
        }
        Ok(Self {
            idle: Idle::new(config.idle_yield),
            absence: Absence::begin(Instant::now()),
            awake: Awake::begin(None),
            versions: config.versions,
            config,
            poll,
            clients: Slab::new(),
            jobs: Jobs::new(),
            links,
            wires: Slab::new(),
            counters,
            counting: Vec::new(),
            burials: Burials::begin(waker)?,
            heirs: Vec::new(),
            only_client: None,
            is_stopping: false,
            shm: ShmDevice,
            orders: inputs.orders,
            for_clients: Door::new(inputs.control_listener),
            for_links: Door::new(inputs.link_listener),
            signals: inputs.signals,
        })
    }

    /// Runs until it is told to stop.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut home = Home::new(&self.config.cores)?;
        let (mut habits, mut priority) = (Habits::default(), Priority::default());
        let mut cycles = 0;
        while !self.is_stopping {
            let now = Instant::now();
            self.end_absence(now);
            let work = self.cycle(now)?;
            self.awake.add(work);
            if work == 0 {
                self.tell_counted();
            }
            cycles += 1;
            let rest = self.idle.after(work, now, || {
                // Only ranks of a daemon with cores of its own are asked to count; what others write there is not to change how it goes for all.
                if !self.config.cores.is_empty() {
                    habits.learn(waits(&self.jobs));
                }
                ranks(&self.jobs).expecting(habits.compute_both_ways(), || self.links.await_large())
            });
            if rest != Rest::None {
                priority.go_first(habits.compute_both_ways());
                home.rest(rest == Rest::Sleep, now, &habits, self);
                self.tell_core();
            }
            match rest {
                Rest::None if cycles % CYCLES_PER_POLL != 0 => {}
                Rest::None => self.look(&mut events, Some(Duration::ZERO))?,
                Rest::Yield => {
                    std::thread::yield_now();
                    if cycles % CYCLES_PER_POLL == 0 {
                        self.look(&mut events, Some(Duration::ZERO))?;
                    } else {
                        self.links.probe(now);
                    }
                }
                Rest::Sleep => {
                    self.sleep(&mut events, now)?;
                    home.wake(Instant::now(), &habits, self);
                }
            }
        }
        self.say_farewell(&mut events)?;
        self.awake.end();
        Ok(())
    }

    /// What ranks have said before we end still goes to the other nodes, if these take it soon: they would take us for lost, else.
    fn say_farewell(&mut self, events: &mut Events) -> io::Result<()> {
        let until = Instant::now() + FAREWELL;
        let mut timeout = Duration::ZERO;
        loop {
            self.look(events, Some(timeout))?;
            let now = Instant::now();
            let work = self.cycle(now)?;
            let has_unsaid = || self.jobs.iter().any(|(&id, job)| has_frames(&self.links, id, job));
            if now >= until || (work == 0 && !(self.links.has_unsent() || has_unsaid())) {
                return Ok(());
            }
            // A cycle does so much and no more; only what it can't go on with is announced.
            timeout = if work > 0 { Duration::ZERO } else { until - now };
        }
    }

    /// The daemon comes to its work.
    fn end_absence(&mut self, now: Instant) {
        let Some(away) = self.absence.end(now) else { return };
        self.counters.add(Counter::Absences, 1);
        let link_timeout = self.config.link_timeout;
        if away >= link_timeout / 2 && !self.links.is_empty() {
            tracing::warn!(
                ?away,
                ?link_timeout,
                "was kept from its work; other nodes give up a daemon that is away for link_timeout"
            );
        }
    }

    /// Who waits for large messages on this core leaves it to the daemon.
    fn tell_core(&self) {
        let core = sched_getcpu().map_or(u32::MAX, |core| core as u32);
        self.jobs.values().for_each(|job| job.segment.set_daemon_core(core));
    }

    /// What the daemon does, if anybody wants to know.
    pub(crate) fn log(&self) -> &Log {
        self.awake.log()
    }

    /// One pass over everything that may have work. Says how much it did.
    fn cycle(&mut self, now: Instant) -> io::Result<usize> {
        let mut work = 0;
        let mut offenders = Vec::new();
        for job in self.jobs.values_mut() {
            work += job.poll_commands(&self.counters, &mut offenders);
        }
        for (client, offence) in offenders {
            self.evict(client, &offence.to_string());
        }
        work += self.progress_self_links(now)?;
        work += self.links.progress(&mut self.jobs, &self.counters, now);
        for job in self.jobs.values_mut() {
            work += job.progress_channels(&self.counters);
            work += job.progress_collectives(&self.counters, now);
            work += job.progress_wires(self.poll.registry(), &self.counters, now);
            work += job.deliver(&self.counters).map_err(io::Error::other)?;
        }
        self.sweep_jobs();
        work += self.answer_heirs();
        self.accept_again(now);
        Ok(work)
    }

    fn progress_self_links(&mut self, now: Instant) -> io::Result<usize> {
        let mut work = 0;
        for (&id, job) in &mut self.jobs {
            let mut traffic = SelfTraffic { id, job, counters: &self.counters };
            // The other end is ourselves: an error is a bug, and a daemon with a bug must not go on.
            work += self.shm.progress(&mut traffic, now).map_err(io::Error::other)?;
        }
        Ok(work)
    }

    /// Forgets jobs that have ended and whose last frames have left.
    fn sweep_jobs(&mut self) {
        let links = &self.links;
        let has_ended = |&id: &JobId, job: &mut Job| job.is_ending && !has_frames(links, id, job) && !job.has_unsaid();
        let ended: Vec<(JobId, Job)> = self.jobs.extract_if(has_ended).collect();
        for (id, mut job) in ended {
            self.links.remove_routes(id);
            job.unregister_wires(self.poll.registry());
            self.wires.retain(|_, (job, _)| *job != id);
            // The last who has it gives the memory back.
            let segment = Arc::clone(&job.segment);
            drop(job);
            self.burials.bury(segment);
        }
    }

    /// Sleeps until something happens, unless something has.
    fn sleep(&mut self, events: &mut Events, now: Instant) -> io::Result<()> {
        // SYNC ring-asleep: every ring is told first and looked at afterwards, so a command that is pushed meanwhile
        // either is seen here or rings the eventfd.
        let is_quiet = self.jobs.values_mut().all(Job::arm);
        let mut is_woken = !is_quiet;
        if is_quiet {
            let jobs = self.jobs.values().filter_map(Job::deadline);
            let doors = self.for_clients.deadline().into_iter().chain(self.for_links.deadline());
            let deadline = self.links.deadline().into_iter().chain(jobs).chain(doors).min();
            // A millisecond more, so that the deadline has passed when the poll returns.
            let until_then =
                deadline.map(|deadline| deadline.saturating_duration_since(now) + Duration::from_millis(1));
            let looks_again = self.jobs.values().any(Job::needs_another_look).then_some(LOOK_AGAIN_AFTER);
            self.counters.add(Counter::Sleeps, 1);
            self.links.prepare_sleep();
            self.awake.end();
            self.look(events, until_then.into_iter().chain(looks_again).min())?;
            is_woken = !events.is_empty();
            self.awake.resume();
        }
        self.jobs.values_mut().for_each(Job::disarm);
        self.idle.has_slept(now.elapsed(), is_woken);
        Ok(())
    }

    /// Takes the events that are there, waiting for one up to `timeout`.
    fn look(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        let sleeps_since = (timeout != Some(Duration::ZERO)).then(Instant::now);
        let polled = self.poll.poll(events, timeout);
        let now = Instant::now();
        if let Some(since) = sleeps_since {
            // Who should have been back before was kept from it.
            let until = timeout.map_or(now, |timeout| since + timeout);
            self.absence.excuse(now.min(until));
        }
        match polled {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error),
        }
        self.counters.add(Counter::SystemCalls, 1);
        for event in events.iter() {
            self.handle_event(event, now);
        }
        Ok(())
    }

    fn handle_event(&mut self, event: &Event, now: Instant) {
        match Source::of(event.token()) {
            Source::ControlListener => self.accept_clients(now),
            Source::LinkListener => self.accept_links(now),
            Source::Waker => self.take_orders(),
            Source::Signal => self.is_stopping = true,
            Source::Client(index) => self.handle_client_event(index, event, now),
            // Each time that it rings is an event, whether or not anybody has read its count.
            Source::Ring(_) => {}
            Source::Link(index) => {
                let ready = Readiness {
                    is_readable: event.is_readable(),
                    is_writable: event.is_writable(),
                    is_ending: event.is_read_closed() || event.is_error(),
                };
                if let Some(wire) = self.links.handle_event(index, ready, now) {
                    self.adopt_wire(wire, true, now);
                }
            }
            Source::Wire(index) => {
                if let Some((job, node)) = self.wires.get(index)
                    && let Some(job) = self.jobs.get_mut(job)
                {
                    job.wake_wire(*node);
                }
            }
        }
    }

    fn accept_clients(&mut self, now: Instant) {
        while let Some((stream, _)) = self.for_clients.accept(UnixListener::accept, now) {
            if let Err(error) = self.add_client(stream) {
                tracing::warn!(%error, "can't take a client");
            }
        }
    }

    fn accept_links(&mut self, now: Instant) {
        while let Some((stream, _)) = self.for_links.accept(TcpListener::accept, now) {
            if let Err(error) = self.links.add(stream, None, self.poll.registry(), now) {
                tracing::warn!(%error, "can't take a link");
            }
        }
    }

    /// Tries those again for whom there was no descriptor, or no memory.
    fn accept_again(&mut self, now: Instant) {
        if self.for_clients.is_due(now) {
            self.accept_clients(now);
        }
        if self.for_links.is_due(now) {
            self.accept_links(now);
        }
    }

    fn take_orders(&mut self) {
        while let Some(order) = self.orders.as_ref().and_then(|orders| orders.try_recv().ok()) {
            match order {
                Order::Stop => self.is_stopping = true,
                Order::Log(log) => self.awake = Awake::begin(Some(log)),
                Order::Serve(stream) => {
                    if let Err(error) = self.serve(stream) {
                        tracing::warn!(%error, "can't serve a connection");
                    }
                }
            }
        }
    }

    /// Serves a connected control socket. Returns the client's index.
    pub(crate) fn serve(&mut self, stream: StdUnixStream) -> io::Result<usize> {
        stream.set_nonblocking(true)?;
        self.add_client(UnixStream::from_std(stream))
    }

    fn add_client(&mut self, stream: UnixStream) -> io::Result<usize> {
        let entry = self.clients.vacant_entry();
        let index = entry.key();
        let client = entry.insert(Client::new(stream)?);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let result = self.poll.registry().register(&mut client.stream, Source::Client(index).token(), interest);
        if let Err(error) = result {
            self.clients.remove(index);
            return Err(error);
        }
        Ok(index)
    }
}

impl Surroundings for Server {
    fn do_ranks_compute(&self) -> bool {
        ranks(&self.jobs) == Ranks::Compute
    }

    fn await_large(&self) -> bool {
        self.links.await_large()
    }
}

/// What the ranks of all jobs do.
fn ranks(jobs: &Jobs) -> Ranks {
    if jobs.values().any(Job::is_watched) {
        Ranks::Wait
    } else if jobs.values().all(|job| job.segment.awake_ranks() == 0) {
        Ranks::Sleep
    } else {
        Ranks::Compute
    }
}

/// Whether there is something for other nodes that has not left.
fn has_frames(links: &Links, id: JobId, job: &Job) -> bool {
    let spec = job.engine.spec();
    let mut others = (0..spec.nodes.len() as u16).map(NodeId).filter(|&node| node != spec.node);
    others.any(|node| links.is_up(id, node) && job.engine.has_transmit(node))
}

/// How often they have come to wait after the start of something large.
fn waits(jobs: &Jobs) -> [u32; 4] {
    let waits = jobs.values().flat_map(Job::waits);
    waits.fold([0; 4], |sums, waits| [0, 1, 2, 3].map(|index| u32::wrapping_add(sums[index], waits[index])))
}

impl Drop for Server {
    fn drop(&mut self) {
        let path = self.config.socket.take().filter(|_| self.for_clients.is_open());
        if let Some(path) = path
            && let Err(error) = std::fs::remove_file(&path)
        {
            tracing::warn!(%error, path = %path.display(), "can't remove the control socket");
        }
        drop(self.signals.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_source() {
        use Source::*;
        for source in [
            ControlListener,
            LinkListener,
            Waker,
            Signal,
            Client(0),
            Ring(0),
            Link(0),
            Client(7),
            Ring(8),
            Link(9),
            Wire(0),
            Wire(10),
        ] {
            assert_eq!(Source::of(source.token()), source);
        }
    }
}
