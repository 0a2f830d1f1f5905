//! A daemon on a thread of its own, inside another program: the tool, or a test.

use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::{TcpListener, UnixListener};
use mio::{Poll, Waker};
use nix::sys::signalfd::SignalFd;
use ropeway_proto::control::DaemonAddress;
use ropeway_proto::hello::Hello;
use ropeway_shm::{Counters, EventLog};

use crate::calibration;
use crate::config::{Config, OutOfRange};
use crate::link::Links;
use crate::server::{Inputs, Order, Server, Source};
use crate::sockets;

/// A running daemon. Dropping it stops it.
pub struct Daemon {
    address: Option<DaemonAddress>,
    counters: Arc<Counters>,
    orders: Sender<Order>,
    waker: Arc<Waker>,
    thread_id: i32,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Why a daemon does not run.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum DaemonError {
    /// Links are neither encrypted nor strongly authenticated yet, so only this machine may use them.
    #[error("refusing to listen on {0}: links are not encrypted yet, so only loopback addresses are safe")]
    NotLoopback(SocketAddr),
    /// The configuration has a size that can't be.
    #[error(transparent)]
    Config(#[from] OutOfRange),
    /// Another daemon listens on the control socket.
    #[error("another daemon is already running at {}", .0.display())]
    AlreadyRunning(PathBuf),
    /// The control socket's name belongs to something else.
    #[error("{} exists and is not a socket: name another place for the daemon's", .0.display())]
    NotASocket(PathBuf),
    /// An address can't be listened on.
    #[error("can't listen on {address}: {source}")]
    Listen { address: String, source: io::Error },
    /// The system refused something.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The daemon's thread ended with a bug.
    #[error("the daemon thread panicked")]
    Panicked,
}

/// A server with everything it listens on, and how others reach it.
pub(crate) struct Prepared {
    pub(crate) server: Server,
    pub(crate) address: Option<DaemonAddress>,
    waker: Arc<Waker>,
    orders: Sender<Order>,
}

pub(crate) fn prepare(mut config: Config, signals: Option<SignalFd>) -> Result<Prepared, DaemonError> {
    config.check()?;
    calibration::complete(&mut config);
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), Source::Waker.token())?);
    let (orders, received) = mpsc::channel();
    let link_listener = config.listen.map(|address| listen_for_links(address, &config)).transpose()?;
    let control_listener = config.socket.as_deref().map(listen_for_clients).transpose()?;
    let daemon = random_number()?;
    let link = link_listener.as_ref().map(TcpListener::local_addr).transpose()?;
    let hello = Hello { versions: config.versions, daemon, key: config.key, wire: None };
    let links = Links::new(hello, config.link_timeout, config.has_wires);
    let inputs = Inputs { orders: Some(received), control_listener, link_listener, signals };
    let server = Server::new(config, poll, links, Arc::new(Counters::create()?), Arc::clone(&waker), inputs)?;
    Ok(Prepared { server, address: link.map(|link| DaemonAddress { daemon, link }), waker, orders })
}

impl Daemon {
    /// Starts a daemon.
    pub fn start(config: Config) -> Result<Self, DaemonError> {
        let Prepared { mut server, address, waker, orders } = prepare(config, None)?;
        let counters = Arc::clone(&server.counters);
        let (tell_id, thread_id) = mpsc::channel();
        let thread = std::thread::Builder::new().name("ropewayd".into()).spawn(move || {
            // The receiver waits for exactly this; if it is gone, nobody wants to know.
            let _ = tell_id.send(nix::unistd::gettid().as_raw());
            server.run().inspect_err(|error| tracing::error!(%error, "daemon failed"))
        })?;
        let thread_id = thread_id.recv().map_err(|_| DaemonError::Panicked)?;
        Ok(Self { address, counters, orders, waker, thread_id, thread: Some(thread) })
    }

    /// A new connection to the daemon, for a client or launcher.
    pub fn connect(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        self.order(Order::Serve(theirs))?;
        Ok(ours)
    }

    /// Has it log what it does from now on, for jobs that are created from now on.
    pub fn log(&self, log: Arc<EventLog>) -> io::Result<()> {
        self.order(Order::Log(log))
    }

    /// Where other daemons reach it, if it listens for them.
    pub fn address(&self) -> Option<DaemonAddress> {
        self.address
    }

    /// Counted facts so far, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.iter().collect()
    }

    /// CPU time its thread has used.
    pub fn cpu_time(&self) -> io::Result<Duration> {
        let text = std::fs::read_to_string(format!("/proc/self/task/{}/schedstat", self.thread_id))?;
        let nanoseconds = text.split_whitespace().next().and_then(|number| number.parse().ok());
        nanoseconds.map(Duration::from_nanos).ok_or_else(|| io::Error::other("unexpected format of schedstat"))
    }

    /// Stops it: every client sees its connection close.
    pub fn stop(mut self) -> Result<(), DaemonError> {
        self.order(Order::Stop)?;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => Ok(result?),
            Some(Err(_)) => Err(DaemonError::Panicked),
            None => Ok(()),
        }
    }

    fn order(&self, order: Order) -> io::Result<()> {
        let gone = || io::Error::new(io::ErrorKind::BrokenPipe, "the daemon has stopped");
        self.orders.send(order).map_err(|_| gone())?;
        self.waker.wake()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take()
            && self.order(Order::Stop).is_ok()
        {
            let _ = thread.join();
        }
    }
}

fn listen_for_links(address: SocketAddr, config: &Config) -> Result<TcpListener, DaemonError> {
    if !config.may_link(address) {
        return Err(DaemonError::NotLoopback(address));
    }
    sockets::listen(address).map_err(|source| DaemonError::Listen { address: address.to_string(), source })
}

fn listen_for_clients(path: &Path) -> Result<UnixListener, DaemonError> {
    let failed = |source| DaemonError::Listen { address: path.display().to_string(), source };
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            remove_abandoned(path)?;
            UnixListener::bind(path)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(io::Error::new(error.kind(), NO_DIRECTORY)),
        result => result,
    };
    let listener = listener.map_err(failed)?;
    // Every user may connect; what they may do there depends on who they are, which the kernel says.
    std::fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(failed)?;
    Ok(listener)
}

/// A daemon that was killed leaves its socket behind. Nothing else that has the name is ours to remove.
fn remove_abandoned(path: &Path) -> Result<(), DaemonError> {
    let failed = |source| DaemonError::Listen { address: path.display().to_string(), source };
    if !std::fs::symlink_metadata(path).map_err(failed)?.file_type().is_socket() {
        return Err(DaemonError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(DaemonError::AlreadyRunning(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

const NO_DIRECTORY: &str =
    "there is no such directory; make it, or name another socket here, and to programs by ROPEWAY_SOCKET";

fn random_number() -> io::Result<u64> {
    let mut bytes = [0; 8];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_socket_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let listener = listen_for_clients(&path).unwrap();
        assert!(matches!(listen_for_clients(&path), Err(DaemonError::AlreadyRunning(_))));
        drop(listener);

        let file = folder.path().join("file");
        std::fs::write(&file, "ours").unwrap();
        assert!(matches!(listen_for_clients(&file), Err(DaemonError::NotASocket(_))));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "ours");
    }
}
