//! The watcher: a small thread that reads the control socket, so that a dead daemon is noticed by those who sleep.
//!
//! It is the socket's only reader: replies go to whoever called, everything else ends the session.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ropeway_proto::control::{self, Reply, Request};
use ropeway_proto::limits::DOORBELLS;
use ropeway_shm::JobSegment;

use crate::Error;
use crate::bell_thread::spawn;
use crate::control::{ControlSocket, accepted, io_error};
use crate::wires::Wires;

/// What is known about the daemon, shared by all threads of a session and the watcher.
pub(crate) struct Watch {
    is_gone: AtomicBool,
    /// Set before `is_gone`, if the daemon has said why.
    eviction: OnceLock<String>,
    reply: Mutex<Option<Reply>>,
    changed: Condvar,
    job: Arc<JobSegment>,
    local_rank: u32,
    wires: Arc<Wires>,
}

impl Watch {
    /// Why nothing will come from the daemon any more; `None` while it lives.
    pub(crate) fn failure(&self) -> Option<Error> {
        // SYNC daemon-gone: pairs with the store in `declare_gone`.
        if !self.is_gone.load(Ordering::SeqCst) {
            return None;
        }
        Some(match self.eviction.get() {
            Some(reason) => Error::Evicted { reason: reason.clone() },
            None => Error::DaemonGone,
        })
    }

    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        // SYNC daemon-gone: pairs with the store in `declare_gone`.
        self.is_gone.load(Ordering::SeqCst)
    }

    /// Waits for the reply to a call; at most `timeout`, if there is one.
    fn take_reply(&self, timeout: Option<Duration>) -> Result<Reply, Error> {
        let waits = |reply: &mut Option<Reply>| reply.is_none() && !self.is_gone();
        let reply = self.lock_reply();
        let mut reply = match timeout {
            None => self.changed.wait_while(reply, waits).expect(NO_PANIC),
            Some(timeout) => self.changed.wait_timeout_while(reply, timeout, waits).expect(NO_PANIC).0,
        };
        reply.take().ok_or_else(|| self.failure().unwrap_or(Error::DaemonGone))
    }

    fn lock_reply(&self) -> MutexGuard<'_, Option<Reply>> {
        self.reply.lock().expect(NO_PANIC)
    }

    /// Wakes everybody who waits for something that won't come.
    fn declare_gone(&self) {
        // A sleeper listens to its doorbell, then looks at the flag: either it sees the flag, or the doorbell is woken
        // after it began to listen.
        // SYNC daemon-gone: pairs with the loads in `failure` and `is_gone`.
        self.is_gone.store(true, Ordering::SeqCst);
        if let Some(rank) = self.job.post_rank(self.local_rank) {
            rank.keys().end_daemons_turn();
        }
        for index in 0..DOORBELLS as u32 {
            self.job.doorbell(self.local_rank, index).expect("the index is within the doorbells").wake();
        }
        let _reply = self.lock_reply();
        self.changed.notify_all();
    }

    /// Reads the socket until it ends.
    fn run(&self, mut socket: ControlSocket) {
        loop {
            match socket.receive() {
                Ok(Reply::Evicted { reason }) => {
                    // The first reason is the one that counts.
                    let _ = self.eviction.set(reason);
                    break;
                }
                Ok(Reply::Wire { node, block }) => {
                    if let Some(connection) = socket.take_descriptors().pop() {
                        self.wires.connect(node, block, connection);
                    }
                }
                Ok(reply) => {
                    *self.lock_reply() = Some(reply);
                    self.changed.notify_all();
                }
                Err(_) => break,
            }
        }
        // The daemon may still be using our buffers until it has closed its end.
        socket.drain();
        self.declare_gone();
    }
}

/// The session's end of the control socket, after attaching.
pub(crate) struct ControlLine {
    watch: Arc<Watch>,
    /// The lock makes call and reply one step.
    writer: Mutex<UnixStream>,
    watcher: Option<JoinHandle<()>>,
}

impl ControlLine {
    /// Hands the socket to a watcher of its own.
    pub(crate) fn open(
        socket: ControlSocket,
        job: Arc<JobSegment>,
        local_rank: u32,
        wires: Arc<Wires>,
    ) -> Result<Self, Error> {
        let writer = socket.try_clone_stream()?;
        let watch = Arc::new(Watch {
            is_gone: AtomicBool::new(false),
            eviction: OnceLock::new(),
            reply: Mutex::new(None),
            changed: Condvar::new(),
            job,
            local_rank,
            wires,
        });
        let shared = watch.clone();
        let watcher = thread::Builder::new().name("ropeway-watch".into()).stack_size(WATCHER_STACK_BYTES);
        let watcher = spawn(watcher, move || shared.run(socket)).map_err(io_error("starting the watcher thread"))?;
        Ok(Self { watch, writer: Mutex::new(writer), watcher: Some(watcher) })
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// The right to call the daemon. Threads take turns.
    pub(crate) fn lock(&self) -> Calls<'_> {
        Calls { watch: &self.watch, writer: self.writer.lock().expect(NO_PANIC) }
    }

    /// Leaves in an orderly way, unless that is because of a panic: then others are to know that this rank has failed. A daemon that does
    /// not answer is not waited for.
    pub(crate) fn close(&mut self) {
        if !thread::panicking() {
            let _ = self.lock().call_within(&Request::Detach, Some(DETACH_TIME));
        }
        // Ends the watcher too. It fails if the daemon has closed already, which is as good.
        let _ = self.writer.get_mut().expect(NO_PANIC).shutdown(Shutdown::Both);
        if let Some(watcher) = self.watcher.take() {
            watcher.join().expect("the watcher does not panic");
        }
    }
}

/// The right to call.
pub(crate) struct Calls<'a> {
    watch: &'a Watch,
    writer: MutexGuard<'a, UnixStream>,
}

impl Calls<'_> {
    /// Asks the daemon and waits for its answer.
    pub(crate) fn call(&mut self, request: &Request) -> Result<Reply, Error> {
        self.call_within(request, None)
    }

    fn call_within(&mut self, request: &Request, timeout: Option<Duration>) -> Result<Reply, Error> {
        if let Some(failure) = self.watch.failure() {
            return Err(failure);
        }
        self.watch.lock_reply().take();
        match self.writer.write_all(&control::encode(request)) {
            Ok(()) => accepted(self.watch.take_reply(timeout)?),
            // The watcher is about to find out why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => accepted(self.watch.take_reply(timeout)?),
            Err(error) => Err(io_error("asking the daemon")(error)),
        }
    }
}

const NO_PANIC: &str = "nothing panics under this lock";
const WATCHER_STACK_BYTES: usize = 64 << 10;
const DETACH_TIME: Duration = Duration::from_secs(1);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::commands::Commands;
    use crate::wait::{Event, WaitMode, WaitingRoom};
    use ropeway_shm::{ControlSegment, JobGeometry, eventfd};
    use std::io::Read;

    pub(crate) struct Never;

    impl Event for Never {
        fn has_happened(&self) -> bool {
            false
        }

        fn arm(&self, _doorbell: u32) {}

        fn disarm(&self) {}
    }

    pub(crate) fn wires(job: &Arc<JobSegment>) -> (Arc<ControlSegment>, Arc<Wires>) {
        let control = Arc::new(ControlSegment::create().unwrap());
        let commands = Commands::new(control.producer(), eventfd::eventfd().unwrap());
        let wires = Wires::new(job.clone(), 0, Arc::new(commands), Arc::clone(&control));
        (control, Arc::new(wires))
    }

    fn line() -> (ControlLine, Arc<JobSegment>, UnixStream) {
        let (ours, daemon) = UnixStream::pair().unwrap();
        let geometry = JobGeometry { local_ranks: 1, arena_bytes_max: 4096 };
        let job = Arc::new(JobSegment::create(geometry).unwrap());
        let (_, wires) = wires(&job);
        (ControlLine::open(ControlSocket::new(ours), job.clone(), 0, wires).unwrap(), job, daemon)
    }

    /// What three sleeping threads learn when the daemon says its `last_words` and closes.
    fn told(last_words: &[u8]) -> Vec<Error> {
        let (line, job, mut daemon) = line();
        let (control, wires) = wires(&job);
        let room = WaitingRoom::new(job, control, wires, 0);
        thread::scope(|scope| {
            let modes = [WaitMode::Polling, WaitMode::Blocking, WaitMode::Adaptive];
            let (watch, room) = (line.watch(), &room);
            let waiters = modes.map(|mode| scope.spawn(move || room.wait(&Never, mode, watch)));
            daemon.write_all(last_words).unwrap();
            drop(daemon);
            waiters.map(|waiter| waiter.join().unwrap().unwrap_err()).into()
        })
    }

    #[test]
    fn a_dead_daemon_wakes_everybody() {
        assert!(told(&[]).iter().all(|error| matches!(error, Error::DaemonGone)));
    }

    #[test]
    fn an_evicted_client_learns_why() {
        let last_words = control::encode(&Reply::Evicted { reason: "slot 9 was never initialised".into() });
        assert!(
            told(&last_words).iter().all(|error| matches!(error, Error::Evicted { reason } if reason.contains('9')))
        );
    }

    #[test]
    fn a_reply_that_makes_no_sense_ends_the_session() {
        assert!(told(&control::encode(&"hello")).iter().all(|error| matches!(error, Error::DaemonGone)));
    }

    #[test]
    fn calls_of_many_threads_get_their_own_replies() {
        let (line, _job, mut daemon) = line();
        let ask = |arena_bytes| line.lock().call(&Request::Reserve { arena_bytes });
        let ask = &ask;
        thread::scope(|scope| {
            let callers = [1, 2, 3, 4].map(|bytes| scope.spawn(move || (bytes, ask(bytes))));
            let mut received = Vec::new();
            for _ in 0..callers.len() {
                let request = loop {
                    if let Some(request) = control::decode(&mut received).unwrap() {
                        break request;
                    }
                    let mut bytes = [0; 256];
                    let count = daemon.read(&mut bytes).unwrap();
                    received.extend_from_slice(&bytes[..count]);
                };
                let Request::Reserve { arena_bytes } = request else { panic!("{request:?}") };
                daemon.write_all(&control::encode(&Reply::Reserved { arena_bytes })).unwrap();
            }
            for caller in callers {
                let (asked, reply) = caller.join().unwrap();
                assert_eq!(reply.unwrap(), Reply::Reserved { arena_bytes: asked });
            }
        });
        drop(daemon);
        assert!(matches!(ask(1), Err(Error::DaemonGone)));
    }
}
