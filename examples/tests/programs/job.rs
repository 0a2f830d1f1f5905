//! Runs a program as the ranks of a job, on daemons of this process.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use ropeway::Session;
use ropeway::control::ControlSocket;
use ropeway_daemon::{Config, Daemon};
use ropeway_proto::control::JobSpec;
use ropeway_proto::hello::ClusterKey;
use ropeway_proto::{JobId, NodeId};

/// What the ranks have written, rank 0 first, and how they have ended.
pub(crate) struct Ended(Vec<Output>);

impl Ended {
    /// What rank 0 has written. All ranks must have succeeded, and the others must have been silent.
    pub(crate) fn stdout(&self) -> String {
        for (rank, output) in self.0.iter().enumerate() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "rank {rank} ended with {}: {complaint}", output.status);
            assert!(rank == 0 || output.stdout.is_empty(), "rank {rank} has written something");
        }
        String::from_utf8(self.0[0].stdout.clone()).unwrap()
    }

    /// The same as one JSON object a line.
    pub(crate) fn records(&self) -> Vec<serde_json::Value> {
        self.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What rank 0 complains of. It must have failed.
    pub(crate) fn complaint(&self) -> String {
        assert_eq!(self.0[0].status.code(), Some(1));
        String::from_utf8(self.0[0].stderr.clone()).unwrap()
    }
}

/// A job on daemons of this process, one for each node.
pub(crate) struct Job {
    daemons: Vec<Daemon>,
    spec: JobSpec,
    /// Kept open: the job lives as long as they are.
    _launchers: Vec<ControlSocket>,
}

impl Job {
    pub(crate) fn create(nodes: usize, ranks: u32) -> Self {
        let config = || Config::on_loopback(ClusterKey([9; 32]));
        let daemons: Vec<Daemon> = (0..nodes).map(|_| Daemon::start(config()).unwrap()).collect();
        let addresses: Vec<_> = daemons.iter().map(|daemon| daemon.address().unwrap()).collect();
        let mut spec = JobSpec { nodes: JobSpec::deal(ranks, &addresses), ..JobSpec::single_node(JOB, ranks) };
        let launch = |(node, daemon): (u16, &Daemon)| {
            let mut launcher = ControlSocket::new(daemon.connect().unwrap());
            let costs = launcher.create_job(JobSpec { node: NodeId(node), ..spec.clone() }).unwrap();
            spec.costs = Some(costs);
            launcher
        };
        let launchers = (0..).zip(&daemons).map(launch).collect();
        Self { daemons, spec, _launchers: launchers }
    }

    fn connect(&self, rank: u32) -> UnixStream {
        self.daemons[usize::from(self.spec.node_of(rank).unwrap().0)].connect().unwrap()
    }

    /// Becomes a rank, in this process.
    pub(crate) fn attach(&self, rank: u32) -> Session {
        Session::attach(self.connect(rank), JOB, rank).unwrap()
    }

    fn spawn(&self, rank: u32, program: &str, args: &[&str]) -> Child {
        let mut command = Command::new(program);
        command
            .args(args)
            .env("ROPEWAY_JOB", format!("{:016x}", JOB.0))
            .env("ROPEWAY_RANK", rank.to_string())
            .env("ROPEWAY_SIZE", self.spec.size().to_string())
            .env_remove("ROPEWAY_WAIT");
        spawn_connected(command, self.connect(rank))
    }
}

/// Runs `program` with `args` as all ranks of a job on one node, and waits for them.
pub(crate) fn run(program: &str, ranks: u32, args: &[&str]) -> Ended {
    run_on(1, program, ranks, args)
}

/// The same on as many nodes.
pub(crate) fn run_on(nodes: usize, program: &str, ranks: u32, args: &[&str]) -> Ended {
    let job = Job::create(nodes, ranks);
    let children: Vec<Child> = (0..ranks).map(|rank| job.spawn(rank, program, args)).collect();
    // Nobody blocks on a full pipe: what the ranks write is little.
    Ended(children.into_iter().map(|child| child.wait_with_output().unwrap()).collect())
}

/// Starts a rank, which inherits the connection to its daemon, and no other one's.
fn spawn_connected(mut command: Command, connection: UnixStream) -> Child {
    static SPAWNING: Mutex<()> = Mutex::new(());
    let _alone = SPAWNING.lock().unwrap_or_else(PoisonError::into_inner);
    fcntl(&connection, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    command.env("ROPEWAY_FD", connection.as_raw_fd().to_string());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(connection);
    child
}

const JOB: JobId = JobId(0x1234_5678_9abc_def0);
