//! Links of the measured node's daemon, for `latency --beside-links`: one that streams, and others to nodes that are silent.
//!
//! ```text
//!   ranks that measure ── daemon ══ windows of 128 KiB messages ═► daemon     a job of two nodes, whose ranks are threads of the tool
//!                            ├───── daemon                                    a job of two nodes each, that nobody attaches to
//!                            └───── daemon …
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use ropeway::{Error, RecvRequest, SendRequest, Session, start_all};
use ropeway_bench::is_beside_links;
use ropeway_proto::hello::ClusterKey;

use crate::failure::Failure;
use crate::launch::{Daemons, Job, new_key};

/// What is around the measured node: nothing, or links.
pub(super) struct Vicinity {
    key: ClusterKey,
    idle_links: u32,
    links: Option<Links>,
}

impl Vicinity {
    pub(super) fn new(idle_links: u32) -> Result<Self, Failure> {
        Ok(Self { key: new_key()?, idle_links, links: None })
    }

    /// The measured node.
    pub(super) fn daemons(&self) -> Result<Daemons, Failure> {
        Ok(Daemons::joinable(self.key)?)
    }

    /// Makes the links, or ends them, as a step of this label wants it.
    pub(super) fn suit(&mut self, label: &str, measured: &Daemons) -> Result<(), Failure> {
        match (is_beside_links(label), &self.links) {
            (true, None) => self.links = Some(self.links(measured)?),
            (false, Some(_)) => self.clear()?,
            _ => {}
        }
        Ok(())
    }

    /// Ends the links.
    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        self.links.take().map_or(Ok(()), |links| links.busy.end())
    }

    fn links(&self, measured: &Daemons) -> Result<Links, Failure> {
        let link = || -> Result<_, Failure> {
            let daemons = measured.joined(&self.daemons()?);
            Ok((Job::create(&daemons, 2)?, daemons))
        };
        let idle = (0..self.idle_links).map(|_| link()).collect::<Result<_, _>>()?;
        let (job, daemons) = link()?;
        Ok(Links { busy: Busy::start(job, daemons)?, _idle: idle })
    }
}

struct Links {
    busy: Busy,
    _idle: Vec<(Job, Daemons)>,
}

/// A link that is busy until it is ended.
struct Busy {
    is_over: Arc<AtomicBool>,
    ranks: [JoinHandle<Result<(), Error>>; 2],
    // What the ranks belong to, in the order in which it ends.
    _job: Job,
    _daemons: Daemons,
}

impl Busy {
    /// Returns when messages arrive.
    fn start(job: Job, daemons: Daemons) -> Result<Self, Failure> {
        let [sender, receiver] = [job.attach(&daemons, 0)?, job.attach(&daemons, 1)?];
        let is_over = Arc::new(AtomicBool::new(false));
        let (tell, arrived) = mpsc::channel();
        let over = is_over.clone();
        let ranks = [thread::spawn(move || send(&sender, &over)), thread::spawn(move || receive(&receiver, tell))];
        let busy = Self { is_over, ranks, _job: job, _daemons: daemons };
        match arrived.recv() {
            Ok(()) => Ok(busy),
            // Whoever did not receive says why.
            Err(_) => Err(busy.end().err().unwrap_or_else(|| Failure::Other("the busy link ended too soon".into()))),
        }
    }

    /// Fails if it was not busy until now.
    fn end(self) -> Result<(), Failure> {
        self.is_over.store(true, Ordering::Relaxed);
        let ends = self.ranks.map(|rank| rank.join().expect("a rank that streams does not panic"));
        ends.into_iter().collect::<Result<(), _>>().map_err(Failure::other)
    }
}

/// Sends windows of messages until it is over, which the last ones say.
fn send(session: &Session, is_over: &AtomicBool) -> Result<(), Error> {
    let world = session.world();
    let send = |_| world.send_init(world.alloc(BYTES)?, 1, STREAM);
    let mut window: Vec<SendRequest<u8>> = (0..WINDOW).map(send).collect::<Result<_, _>>()?;
    loop {
        let is_last = is_over.load(Ordering::Relaxed);
        window.iter_mut().for_each(|send| send.buffer_mut()[0] = u8::from(is_last));
        start_all(&mut window)?.wait_all()?;
        if is_last {
            return Ok(());
        }
    }
}

/// Receives them, and tells when the first have come.
fn receive(session: &Session, tell: Sender<()>) -> Result<(), Error> {
    let world = session.world();
    let recv = |_| world.recv_init(world.alloc(BYTES)?, 0, STREAM);
    let mut window: Vec<RecvRequest<u8>> = (0..WINDOW).map(recv).collect::<Result<_, _>>()?;
    let mut tell = Some(tell);
    while window[0].buffer()[0] == 0 {
        start_all(&mut window)?.wait_all()?;
        if let Some(tell) = tell.take() {
            // Whoever listens waits for exactly this.
            let _ = tell.send(());
        }
    }
    Ok(())
}

const STREAM: i32 = 1;
/// More than a wire takes, so that the daemons are busy with it.
const BYTES: usize = 128 << 10;
const WINDOW: usize = 16;
