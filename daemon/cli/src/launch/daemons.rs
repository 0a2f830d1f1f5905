//! The daemons of a job: embedded in the tool, or the system's.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use ropeway::control::ControlSocket;
use ropeway_daemon::{Config, Daemon};
use ropeway_proto::control::{DaemonAddress, Reply, Request};
use ropeway_proto::hello::ClusterKey;

use super::cores;
use super::network::{Inside, Network, Rate};
use super::{Events, LaunchError};

/// Daemons of one process end together, so one that is silent was only kept from its core, which a busy machine may do for seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// A daemon that was not stopped answers in less than a millisecond, on a busy machine in less than seconds.
const PATIENCE_WITH_ANSWERS: Duration = Duration::from_secs(10);
/// Nobody notices that it takes so long to be heard.
const SLICE: Duration = Duration::from_millis(50);

/// For how long the system's daemon may keep us waiting.
pub(crate) struct Patience<'a> {
    /// It is too late then.
    pub(crate) until: Option<Instant>,
    /// Where signals are heard of that end the waiting.
    pub(crate) events: Option<&'a Events>,
}

impl Patience<'_> {
    fn check(&self, begin: Instant, socket: &Path) -> Result<(), LaunchError> {
        if let Some(signal) = self.events.and_then(|events| events.interrupted(Duration::ZERO)) {
            return Err(LaunchError::Interrupted(signal));
        }
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        if is_late || begin.elapsed() >= PATIENCE_WITH_ANSWERS {
            return Err(LaunchError::NoAnswer { socket: socket.to_owned(), is_late });
        }
        Ok(())
    }
}

/// A daemon for each node.
pub(crate) enum Daemons {
    /// Threads of the tool, maybe in a network of their own.
    Embedded(Vec<Arc<Daemon>>, Option<Network>),
    /// The one of this machine, reached by its socket.
    System(PathBuf),
}

impl Daemons {
    /// Starts embedded ones, with the sizes, costs and limits of memory of this configuration.
    pub(crate) fn embedded(nodes: u32, configured: &Config) -> Result<Self, LaunchError> {
        if nodes == 1 {
            return Ok(Self::Embedded(
                vec![Arc::new(Daemon::start(Config::default().configured_as(configured))?)],
                None,
            ));
        }
        let key = new_key()?;
        let start = |node| {
            let config = Config { cores: cores_of(node, nodes)?, link_timeout: PATIENCE, ..Config::on_loopback(key) };
            Ok(Arc::new(Daemon::start(config.configured_as(configured))?))
        };
        (0..nodes).map(start).collect::<Result<_, LaunchError>>().map(|daemons| Self::Embedded(daemons, None))
    }

    /// Starts embedded ones, each in a network namespace of its own.
    pub(crate) fn in_namespaces(nodes: u32, rate: Option<Rate>, configured: &Config) -> Result<Self, LaunchError> {
        let network = Network::new(nodes, rate)?;
        let key = new_key()?;
        let start = |node| {
            // Its sockets, and the links it dials, belong to the namespace of the thread that makes them.
            let _inside = network.enter(node).map_err(LaunchError::system("entering a namespace"))?;
            let config = Config::on_private_network(Network::address(node), key);
            let config = Config { cores: cores_of(node as u32, nodes)?, link_timeout: PATIENCE, ..config };
            Ok(Arc::new(Daemon::start(config.configured_as(configured))?))
        };
        let daemons = (0..nodes as usize).map(start).collect::<Result<_, LaunchError>>()?;
        Ok(Self::Embedded(daemons, Some(network)))
    }

    /// Starts an embedded one that others with the same key can be joined to. All of them have all cores.
    pub(crate) fn joinable(key: ClusterKey) -> Result<Self, LaunchError> {
        Ok(Self::Embedded(vec![Arc::new(Daemon::start(Config::on_loopback(key))?)], None))
    }

    /// These and those as nodes of one job.
    pub(crate) fn joined(&self, others: &Self) -> Self {
        Self::Embedded([self.embedded_ones(), others.embedded_ones()].concat(), None)
    }

    /// The daemon of this machine, which has to be running.
    pub(crate) fn system() -> Result<Self, LaunchError> {
        let socket = system_socket();
        match UnixStream::connect(&socket) {
            Ok(_) => Ok(Self::System(socket)),
            Err(_) => Err(LaunchError::NoSystemDaemon(socket)),
        }
    }

    /// Whether programs with the tool's library can use them: they are of one build.
    pub(crate) fn are_of_this_build(&self, patience: &Patience<'_>) -> Result<bool, LaunchError> {
        let (_, answer) = self.ask(0, &ControlSocket::greeting(), patience)?;
        Ok(ControlSocket::is_same_build(answer)?)
    }

    /// A new connection to a node's daemon, and what it answers.
    pub(super) fn ask(
        &self,
        node: usize,
        request: &Request,
        patience: &Patience<'_>,
    ) -> Result<(ControlSocket, Result<Reply, ropeway::Error>), LaunchError> {
        let begin = Instant::now();
        let stream = self.connect(node).map_err(LaunchError::system("connecting to the daemon"))?;
        // Ours are threads of this process, and only a busy machine keeps them.
        let Self::System(socket) = self else {
            let mut asked = ControlSocket::new(stream);
            let answer = asked.call(request);
            return Ok((asked, answer));
        };
        let connection = stream.try_clone().map_err(LaunchError::system("sharing a connection"))?;
        let wait_for =
            |timeout| connection.set_read_timeout(Some(timeout)).map_err(LaunchError::system("setting a timeout"));
        wait_for(SLICE)?;
        let mut asked = ControlSocket::new(stream);
        asked.ask(request)?;
        let answer = loop {
            match asked.answer() {
                Err(ropeway::Error::Io { error, .. }) if error.kind() == io::ErrorKind::WouldBlock => {
                    patience.check(begin, socket)?;
                }
                answer => break answer,
            }
        };
        // What is asked later has its time, too.
        wait_for(PATIENCE_WITH_ANSWERS)?;
        Ok((asked, answer))
    }

    /// Those that are threads of the tool, by node.
    pub(super) fn embedded_ones(&self) -> &[Arc<Daemon>] {
        if let Self::Embedded(daemons, _) = self { daemons } else { &[] }
    }

    pub(crate) fn nodes(&self) -> u32 {
        match self {
            Self::Embedded(daemons, _) => daemons.len() as u32,
            Self::System(_) => 1,
        }
    }

    /// Moves this thread to a node's network, if nodes have networks of their own, until the guard is dropped.
    pub(super) fn enter(&self, node: usize) -> io::Result<Option<Inside>> {
        match self {
            Self::Embedded(_, Some(network)) => network.enter(node).map(Some),
            Self::Embedded(_, None) | Self::System(_) => Ok(None),
        }
    }

    /// Files that other processes can enter the nodes' networks by, if nodes have networks of their own.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        match self {
            Self::Embedded(_, Some(network)) => network.paths(),
            Self::Embedded(_, None) | Self::System(_) => Vec::new(),
        }
    }

    /// A new connection to a node's daemon.
    pub(super) fn connect(&self, node: usize) -> io::Result<UnixStream> {
        match self {
            Self::Embedded(daemons, _) => daemons[node].connect(),
            Self::System(socket) => UnixStream::connect(socket),
        }
    }

    /// Where the daemons reach each other; of a single one, nothing.
    pub(super) fn addresses(&self) -> Vec<DaemonAddress> {
        match self {
            Self::Embedded(daemons, _) => daemons.iter().filter_map(|daemon| daemon.address()).collect(),
            Self::System(_) => Vec::new(),
        }
    }

    /// CPU time that all of them have used.
    pub(crate) fn cpu_time(&self) -> io::Result<Duration> {
        match self {
            Self::Embedded(daemons, _) => daemons.iter().map(|daemon| daemon.cpu_time()).sum(),
            Self::System(socket) => {
                let credentials = getsockopt(&UnixStream::connect(socket)?, PeerCredentials)?;
                // The daemon's only thread is its main thread.
                let text = fs::read_to_string(format!("/proc/{}/schedstat", credentials.pid()))?;
                let nanoseconds = text.split_whitespace().next().and_then(|number| number.parse().ok());
                nanoseconds.map(Duration::from_nanos).ok_or_else(|| io::Error::other("unexpected format of schedstat"))
            }
        }
    }

    /// Whether what they count belongs to our jobs alone.
    pub(crate) fn has_counters(&self) -> bool {
        matches!(self, Self::Embedded(..))
    }

    /// What all of them have counted. The system's daemon counts for others too, so nothing of it.
    pub(crate) fn counters(&self) -> Option<BTreeMap<String, u64>> {
        let Self::Embedded(daemons, _) = self else { return None };
        let mut sums = BTreeMap::new();
        for (label, count) in daemons.iter().flat_map(|daemon| daemon.counters()) {
            *sums.entry(label.to_owned()).or_default() += count;
        }
        Some(sums)
    }
}

fn cores_of(node: u32, nodes: u32) -> Result<Vec<usize>, LaunchError> {
    cores::of_daemon(node as usize, nodes as usize).map_err(LaunchError::system("asking for cores"))
}

/// A secret that only daemons that are told it have.
pub(crate) fn new_key() -> Result<ClusterKey, LaunchError> {
    Ok(ClusterKey(random_bytes().map_err(LaunchError::system("making a key"))?))
}

pub(super) fn random_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    io::Read::read_exact(&mut fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes)
}

/// Where the daemon of this machine listens, if there is one.
pub(crate) fn system_socket() -> PathBuf {
    std::env::var_os("ROPEWAY_SOCKET").map_or_else(|| PathBuf::from(crate::daemon::DEFAULT_SOCKET), PathBuf::from)
}

/// Where the user says that there is a daemon. An empty name stands for none.
pub(crate) fn named_socket() -> Option<PathBuf> {
    std::env::var_os("ROPEWAY_SOCKET").filter(|name| !name.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use ropeway::{JobId, MemoryLimit};
    use ropeway_proto::control::JobSpec;
    use ropeway_proto::costs::Costs;

    use super::super::Job;
    use super::*;

    #[test]
    fn embedded_daemons_have_the_costs_they_are_given() {
        let costs = Costs::from_ns([1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let calibrated = Config { costs, ..Config::default() };
        for nodes in [1, 2] {
            let daemons = Daemons::embedded(nodes, &calibrated).unwrap();
            let mut launcher = ControlSocket::new(daemons.connect(0).unwrap());
            assert_eq!(launcher.create_job(JobSpec::single_node(JobId(1), 1)).unwrap(), costs);
        }
    }

    #[test]
    fn ranks_of_embedded_daemons_have_the_memory_they_are_given() {
        let configured = Config { job_memory_bytes_max: 1 << 20, arena_bytes_max: 2 << 20, ..Config::default() };
        for nodes in [1, 2] {
            let daemons = Daemons::embedded(nodes, &configured).unwrap();
            let job = Job::create(&daemons, nodes).unwrap();
            let sessions: Vec<_> = (0..nodes).map(|rank| job.attach(&daemons, rank).unwrap()).collect();
            for (bytes, limit) in [(3 << 19, MemoryLimit::Job), (3 << 20, MemoryLimit::Arena)] {
                let error = sessions[0].world().alloc::<u8>(bytes).unwrap_err();
                assert!(matches!(error, ropeway::Error::OutOfMemory { limit: by, .. } if by == limit), "{error}");
            }
        }
    }
}
