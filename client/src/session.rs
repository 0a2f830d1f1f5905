//! Joining a job.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use ropeway_proto::JobId;
use ropeway_proto::control::JobSpec;
use ropeway_shm::EventLog;
use ropeway_shm::descriptor::{take_inherited, take_inherited_segment};

use crate::attachment::Attachment;
use crate::control::{ControlSocket, io_error};
use crate::environment::{self, Environment, Launch};
use crate::log::Log;
use crate::{Communicator, Error, WaitMode, private_daemon};

/// Joins the job this process was launched in; by hand, without a launcher, it is a job of one.
///
/// A process launched as a rank can do so once. All its threads share the session.
///
/// # How a program finds its daemon
/// A rank inherits a connection from its launcher, and needs no path. A program that is started by hand connects to the daemon of the
/// machine, which listens at `/run/ropeway/ropewayd.sock`, or to that at `ROPEWAY_SOCKET`. If nobody answers there, or a daemon of another build,
/// it starts a `ropewayd` of its own, from beside the program, the folder above, or `PATH`, which ends with it.
///
/// A rank dies with its launcher (`PR_SET_PDEATHSIG`), or more exactly with the *thread* of it that has started the rank: who writes a launcher starts ranks
/// from a thread that lives as long as they do.
///
/// # Environment
/// | variable | who sets it | meaning |
/// |---|---|---|
/// | `ROPEWAY_WAIT` | the user, or `ropeway run --wait` | how to wait, unless the program says so: `polling`, `blocking` or `adaptive`, the default |
/// | `ROPEWAY_SOCKET` | the user | where the daemon of the machine listens, for `ropeway run` and for programs without a launcher; if it is empty there is none, and they bring their own |
/// | `ROPEWAY_RANK`, `ROPEWAY_SIZE` | the launcher | this process's rank in the job, and how many there are; scripts may read them |
/// | `ROPEWAY_FD`, `ROPEWAY_JOB` | the launcher | the inherited connection, whose presence makes the process a rank, and the job's name |
/// | `ROPEWAY_LOG` | the launcher, with `--trace` or `--record` | an inherited log |
/// | `RUST_LOG` | the user | what daemons log, such as `debug` |
///
/// # Errors
/// [`Error::BadEnvironment`] if these contradict each other, or if the process's connection is used up; [`Error::AlreadyInitialized`] at the second call in a
/// rank; [`Error::NoDaemon`] if there is none, nor a `ropewayd` to start; [`Error::Refused`] or [`Error::VersionMismatch`] if it is of another build;
/// [`Error::Io`] if the system refuses something.
pub fn init() -> Result<Session, Error> {
    let Environment { launch, wait_mode } = Environment::read(std::env::var_os)?;
    let session = match launch {
        Launch::Rank { fd, job, rank, size, log } => {
            static IS_TAKEN: AtomicBool = AtomicBool::new(false);
            if IS_TAKEN.swap(true, Ordering::Relaxed) {
                return Err(Error::AlreadyInitialized);
            }
            // No rank shall outlive a launcher that was killed.
            set_pdeathsig(Signal::SIGKILL).map_err(|error| io_error("binding to the launcher")(error.into()))?;
            let no_rank = |why| Error::BadEnvironment { name: environment::FD, value: fd.to_string(), why };
            let stream = take_inherited(fd).map_err(|_| no_rank(NOT_INHERITED))?;
            let log = log.map(inherited_log).transpose()?;
            let session = Session::attach_with(UnixStream::from(stream), job, rank, log);
            let session = session.map_err(|error| if let Error::DaemonGone = error { no_rank(LEFT) } else { error })?;
            session.check_size(size)?;
            session
        }
        Launch::Alone { socket } => Session::alone(&socket)?,
    };
    if let Some(mode) = wait_mode {
        session.set_wait_mode(mode);
    }
    Ok(session)
}

const NOT_INHERITED: &str = "is no connection of this process: a rank joins its job once, and a program that it starts then is no rank; unset it there";
const LEFT: &str = "is a connection that is closed: the rank has joined its job and left it before, or the daemon is gone; a rank joins once";

/// Membership in a job.
///
/// Communicators and requests keep it alive. When the last of them is dropped, the process leaves the job.
#[derive(Clone)]
pub struct Session {
    attachment: Arc<Attachment>,
    world: Communicator,
}

impl Session {
    fn new(attachment: Arc<Attachment>) -> Self {
        let world = Communicator::world(attachment.clone());
        Self { attachment, world }
    }

    /// Becomes `rank` of `job` over a connection to its node's daemon.
    ///
    /// Programs call [`init`]; this is for launchers, and for tests, where a process may well hold several sessions.
    pub fn attach(stream: UnixStream, job: JobId, rank: u32) -> Result<Self, Error> {
        Self::attach_with(stream, job, rank, None)
    }

    fn attach_with(stream: UnixStream, job: JobId, rank: u32, log: Option<EventLog>) -> Result<Self, Error> {
        let attachment = Attachment::open(ControlSocket::new(stream), (job, rank), Log::new(log), None)?;
        Ok(Self::new(attachment))
    }

    /// A job of one with the daemon that listens there. Without one, or if it is of another build, with one of its own.
    fn alone(socket: &Path) -> Result<Self, Error> {
        let refusal = match UnixStream::connect(socket) {
            Ok(stream) => match Self::create_job_of_one(stream, None) {
                Err(error) if error.is_of_another_build() => Some(error),
                done => return done,
            },
            Err(_) => None,
        };
        match (private_daemon::spawn(socket), refusal) {
            (Ok((stream, daemon)), _) => Self::create_job_of_one(stream, Some(daemon)),
            // There is one.
            (Err(Error::NoDaemon { .. }), Some(refusal)) => Err(refusal),
            (Err(error), _) => Err(error),
        }
    }

    /// Creates a job with this process as its only rank.
    fn create_job_of_one(stream: UnixStream, daemon: Option<private_daemon::PrivateDaemon>) -> Result<Self, Error> {
        let job = random_job()?;
        let mut socket = ControlSocket::new(stream);
        let spec = JobSpec::single_node(job, 1);
        socket.create_job(spec)?;
        Ok(Self::new(Attachment::open(socket, (job, 0), Log::new(None), daemon)?))
    }

    /// The communicator of all ranks of the job.
    pub fn world(&self) -> Communicator {
        self.world.clone()
    }

    /// Sets how threads of this process wait, from now on.
    pub fn set_wait_mode(&self, mode: WaitMode) {
        self.attachment.set_wait_mode(mode);
    }

    /// How threads of this process wait, unless a call says otherwise.
    pub fn wait_mode(&self) -> WaitMode {
        self.attachment.wait_mode()
    }

    /// A descriptor for event loops: readable when an operation has got on for which [`Active::notify`](crate::Active::notify)
    /// was called. It is an eventfd: read eight bytes, then test the operations.
    ///
    /// ```no_run
    /// # use std::os::fd::AsFd;
    /// # use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    /// # fn example(session: ropeway::Session, mut recv: ropeway::RecvRequest<f64>) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut receiving = recv.start()?;
    /// while receiving.test()?.is_none() {
    ///     receiving.notify()?;
    ///     let mut sources = [PollFd::new(session.event_fd()?, PollFlags::POLLIN)]; // and others
    ///     poll(&mut sources, PollTimeout::NONE)?;
    ///     nix::unistd::read(session.event_fd()?, &mut [0; 8])?;
    /// }
    /// # Ok(()) }
    /// ```
    pub fn event_fd(&self) -> Result<BorrowedFd<'_>, Error> {
        Ok(self.attachment.notifier()?.descriptor())
    }

    fn check_size(&self, size: u32) -> Result<(), Error> {
        if size == self.attachment.size() {
            return Ok(());
        }
        let why = "is not the size of the job the daemon knows";
        Err(Error::BadEnvironment { name: environment::SIZE, value: size.to_string(), why })
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rank, size) = (self.attachment.rank(), self.attachment.size());
        f.debug_struct("Session").field("rank", &rank).field("size", &size).finish_non_exhaustive()
    }
}

/// The log our launcher has made for us.
fn inherited_log(number: RawFd) -> Result<EventLog, Error> {
    let why = "is not a log that a launcher has left open";
    let bad = || Error::BadEnvironment { name: environment::LOG, value: number.to_string(), why };
    let segment = take_inherited_segment(number).map_err(|_| bad())?;
    EventLog::map(segment).map_err(|_| bad())
}

/// A name for a job that nobody can guess.
fn random_job() -> Result<JobId, Error> {
    let mut bytes = [0; 8];
    let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    read.map_err(io_error("reading /dev/urandom"))?;
    Ok(JobId(u64::from_ne_bytes(bytes)))
}
