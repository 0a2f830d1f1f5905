//! A job on daemons of this process: ranks are sessions in threads, or processes that can be killed.
#![allow(dead_code, reason = "each program uses its own part")]

pub(crate) mod numbered;
pub(crate) mod storm;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, mpsc};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use nix::unistd::{Pid, gettid};
use ropeway::control::ControlSocket;
use ropeway::{Communicator, Error, RecvRequest, SendRequest, Session};
use ropeway_daemon::{Config, Daemon};
use ropeway_proto::control::{DaemonAddress, JobSpec};
use ropeway_proto::hello::ClusterKey;
use ropeway_proto::limits::{PASSING_SLOTS, SLOTS_PER_RANK};
use ropeway_proto::{JobId, NodeId};

/// What a failure may take to be noticed.
pub(crate) const NOTICE: Duration = Duration::from_secs(1);

/// What takes so long does not end.
const NEVER: Duration = Duration::from_secs(60);

/// Daemons, and one job on them.
pub(crate) struct Cluster {
    pub(crate) daemons: Vec<Daemon>,
    pub(crate) job: JobId,
    /// Kept open: the job lives as long as they do.
    pub(crate) launchers: Vec<ControlSocket>,
    pub(crate) spec: JobSpec,
}

/// A configuration for tests: what takes which way does not depend on the machine.
pub(crate) fn config() -> Config {
    Config {
        node_eager_bytes_max: Some(8 << 10),
        node_piece_bytes: Some(64 << 10),
        ..Config::on_loopback(ClusterKey([9; 32]))
    }
}

impl Cluster {
    /// `ranks` ranks on `nodes` daemons.
    pub(crate) fn start(nodes: usize, ranks: u32) -> Self {
        Self::start_with(ranks, (0..nodes).map(|_| config()).collect())
    }

    /// The same, with configurations to choose.
    pub(crate) fn start_with(ranks: u32, configs: Vec<Config>) -> Self {
        Self::start_over(ranks, configs, |address| address)
    }

    /// The same, with a chance to put something between the nodes: `route` maps the address of a daemon to the one that the others are told.
    pub(crate) fn start_over(ranks: u32, configs: Vec<Config>, route: impl Fn(DaemonAddress) -> DaemonAddress) -> Self {
        let daemons: Vec<Daemon> = configs.into_iter().map(|config| Daemon::start(config).unwrap()).collect();
        let addresses: Vec<_> = daemons.iter().map(|daemon| route(daemon.address().unwrap())).collect();
        let job = JobId(0x1234_5678_9abc_def0);
        let mut spec = JobSpec { nodes: JobSpec::deal(ranks, &addresses), ..JobSpec::single_node(job, ranks) };
        let create = |(node, daemon): (usize, &Daemon)| {
            let mut launcher = ControlSocket::new(daemon.connect().unwrap());
            let costs = launcher.create_job(JobSpec { node: NodeId(node as u16), ..spec.clone() }).unwrap();
            spec.costs = Some(costs);
            launcher
        };
        let launchers = daemons.iter().enumerate().map(create).collect();
        Self { launchers, daemons, job, spec }
    }

    /// The daemon of a rank.
    pub(crate) fn daemon_of(&self, rank: u32) -> &Daemon {
        &self.daemons[usize::from(self.spec.node_of(rank).unwrap().0)]
    }

    /// Becomes a rank, in this process.
    pub(crate) fn attach(&self, rank: u32) -> Session {
        Session::attach(self.daemon_of(rank).connect().unwrap(), self.job, rank).unwrap()
    }

    /// Starts a process that plays `role` as `rank`, and waits until it says that it is ready. `module` is the path of the one
    /// whose test `rank_role` knows the role.
    pub(crate) fn spawn(&self, rank: u32, module: &str, role: &str) -> Rank {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &test_of(module, "rank_role"), "--nocapture", "--test-threads=1"]);
        command.env("TEST_ROLE", role).stdout(Stdio::piped());
        let mut child = self.connected(rank, command);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        wait_for_line(&mut output, "ready");
        Rank { child, output }
    }

    /// Starts a program as `rank`. Its connection to its daemon is its input, so that nothing else inherits it which is started
    /// meanwhile, and it ends with the process.
    pub(crate) fn connected(&self, rank: u32, mut command: Command) -> Process {
        command
            .stdin(OwnedFd::from(self.daemon_of(rank).connect().unwrap()))
            .env("ROPEWAY_FD", "0")
            .env("ROPEWAY_JOB", format!("{:016x}", self.job.0))
            .env("ROPEWAY_RANK", rank.to_string())
            .env("ROPEWAY_SIZE", self.spec.size().to_string());
        Process::start(&mut command)
    }

    pub(crate) fn counter(&self, node: usize, name: &str) -> u64 {
        self.daemons[node].counters().into_iter().find(|(label, _)| *label == name).unwrap().1
    }
}

/// What a program calls a test of one of its modules, whose path begins with the program.
pub(crate) fn test_of(module: &str, name: &str) -> String {
    format!("{}::{name}", module.split_once("::").unwrap().1)
}

/// A rank in a process of its own.
pub(crate) struct Rank {
    pub(crate) child: Process,
    pub(crate) output: BufReader<ChildStdout>,
}

impl Rank {
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the process has stopped itself.
    pub(crate) fn wait_until_stopped(&self) {
        use nix::sys::wait::{Id, WaitPidFlag, waitid};
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        waitid(Id::Pid(pid), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT).unwrap();
    }
}

/// A process that does not outlive the test, however that ends.
pub(crate) struct Process(Option<Child>);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    /// Waits for its end: what it has written to the pipes that it was given.
    pub(crate) fn output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().unwrap()
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn wait_for_line(output: &mut impl BufRead, wanted: &str) {
    let mut line = String::new();
    while output.read_line(&mut line).unwrap() > 0 {
        if line.trim_end().ends_with(wanted) {
            return;
        }
        line.clear();
    }
    panic!("the process ended before it said {wanted:?}");
}

/// Runs `act`, which has to tell of a failure within [`NOTICE`].
pub(crate) fn noticed<T>(act: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = soon(act);
    assert!(start.elapsed() < NOTICE, "took {:?}", start.elapsed());
    result
}

/// Runs `act`, which ends, however busy the machine is. If it does not, the test run ends instead.
pub(crate) fn soon<T>(act: impl FnOnce() -> T) -> T {
    let (done, is_done) = mpsc::channel::<()>();
    let caller = std::thread::current().name().unwrap_or("a thread").to_owned();
    let guard = std::thread::spawn(move || {
        if is_done.recv_timeout(NEVER) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{caller} hangs");
            std::process::abort();
        }
    });
    let result = act();
    drop(done);
    guard.join().unwrap();
    result
}

/// Runs `act` in a thread of its own, and returns when that sleeps, or is over.
pub(crate) fn asleep_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    act: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let (tell, told) = mpsc::channel();
    let thread = scope.spawn(move || {
        tell.send(gettid()).unwrap();
        act()
    });
    until_asleep(told.recv().unwrap());
    thread
}

/// Returns when a thread sleeps, or is over.
pub(crate) fn until_asleep(thread: Pid) {
    let is_awake = || {
        let stat = std::fs::read_to_string(format!("/proc/{thread}/stat"));
        // Behind the name, which may contain anything.
        stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" S"))
    };
    soon(|| {
        while is_awake() {
            std::thread::yield_now()
        }
    });
}

/// Kills a rank after a while; returns the error with which `round`, repeated until then, soon ends.
pub(crate) fn kill_amid(mut rank: Rank, after: Duration, mut round: impl FnMut() -> Result<(), Error>) -> Error {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(after);
            rank.kill();
        });
        soon(|| {
            loop {
                if let Err(error) = round() {
                    break error;
                }
            }
        })
    })
}

/// Runs `act` as each of `size` ranks on `nodes` nodes at once.
pub(crate) fn everybody((nodes, size): (usize, u32), act: impl Fn(Communicator) + Sync) {
    everybody_of(&Cluster::start(nodes, size), size, act);
}

/// The same, in a cluster. A rank that panics leaves the job, so that the others don't wait for it; the others stay to the end.
pub(crate) fn everybody_of(cluster: &Cluster, size: u32, act: impl Fn(Communicator) + Sync) {
    let (sessions, act): (Vec<Session>, _) = ((0..size).map(|rank| cluster.attach(rank)).collect(), &act);
    std::thread::scope(|scope| {
        let begin = |session: Session| {
            scope.spawn(move || {
                act(session.world());
                session
            })
        };
        let ranks: Vec<_> = sessions.into_iter().map(begin).collect();
        let ended: Vec<_> = ranks.into_iter().map(|rank| rank.join()).collect();
        ended.into_iter().for_each(|rank| drop(rank.unwrap_or_else(|panic| resume_unwind(panic))));
    });
}

/// Runs `act` as each rank of a job, on one node and then on two.
pub(crate) fn everywhere(ranks: u32, act: impl Fn(Communicator) + Sync) {
    for nodes in [1, 2] {
        everybody((nodes, ranks), &act);
    }
}

/// Ranks 0 and 1.
pub(crate) fn pair(cluster: &Cluster) -> (Session, Session) {
    (cluster.attach(0), cluster.attach(1))
}

/// A persistent channel with tag 1.
pub(crate) fn channel(from: &Communicator, to: &Communicator, bytes: usize) -> (SendRequest<u8>, RecvRequest<u8>) {
    let send = from.send_init(from.alloc(bytes).unwrap(), to.rank(), 1).unwrap();
    let recv = to.recv_init(to.alloc(bytes).unwrap(), from.rank(), 1).unwrap();
    (send, recv)
}

/// Requests that nobody meets, as many as a rank can have but `left`.
pub(crate) fn all_requests_but(left: u32, world: &Communicator) -> Vec<SendRequest<u8>> {
    (left..SLOTS_PER_RANK - PASSING_SLOTS).map(|number| unmet_request(world, number)).collect()
}

/// A request that nobody meets.
pub(crate) fn unmet_request(world: &Communicator, number: u32) -> SendRequest<u8> {
    world.send_init(world.alloc(0).unwrap(), (world.rank() + 1) % world.size(), TAGS_OF_NOBODY + number as i32).unwrap()
}

const TAGS_OF_NOBODY: i32 = 1 << 20;

/// A cable between two daemons that can be cut, or just stop carrying anything.
pub(crate) struct Cable {
    pub(crate) address: SocketAddr,
    stop: std::sync::mpsc::Sender<Cut>,
}

/// How a cable fails.
pub(crate) enum Cut {
    /// Both ends see the connection close.
    Close,
    /// Both ends see nothing.
    Silence,
}

impl Cable {
    pub(crate) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let Ok((near, _)) = listener.accept() else { return };
            let Ok(far) = TcpStream::connect(target) else { return };
            for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                let (tell, told) = std::sync::mpsc::channel::<()>();
                CUTS.lock().unwrap().push((address, tell));
                std::thread::spawn(move || forward(&mut from, &mut to, &told));
            }
            if let Ok(Cut::Silence) = stopped.recv() {
                // The sockets stay open, and nobody carries anything between them.
                CUTS.lock().unwrap().retain(|(other, tell)| *other != address || tell.send(()).is_err());
                let _ = stopped.recv();
            }
            CUTS.lock().unwrap().retain(|(other, _)| *other != address);
        });
        Self { address, stop }
    }

    pub(crate) fn cut(&self, how: Cut) {
        self.stop.send(how).unwrap();
    }
}

/// Senders that stop the forwarding threads of a cable: a message silences, a hang-up closes.
static CUTS: Mutex<Vec<(SocketAddr, std::sync::mpsc::Sender<()>)>> = Mutex::new(Vec::new());

fn forward(from: &mut TcpStream, to: &mut TcpStream, told: &std::sync::mpsc::Receiver<()>) {
    use std::io::{ErrorKind, Read, Write};
    use std::sync::mpsc::TryRecvError;
    let mut buffer = vec![0; 64 << 10];
    loop {
        match told.try_recv() {
            Err(TryRecvError::Empty) => {}
            Ok(()) => {
                let _ = told.recv();
                return;
            }
            Err(TryRecvError::Disconnected) => {
                let _ = from.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) if to.write_all(&buffer[..count]).is_ok() => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            _ => return,
        }
    }
}

/// Different counts for different ranks, one of them zero, around `count`.
pub(crate) fn uneven(ranks: usize, count: usize) -> Vec<usize> {
    (0..ranks).map(|rank| if rank == 1 { 0 } else { count + rank * (count / 3) }).collect()
}

/// Where a rank's part lies among all.
pub(crate) fn part(counts: &[usize], rank: usize) -> Range<usize> {
    let before: usize = counts[..rank].iter().sum();
    before..before + counts[rank]
}

/// Whether rank 0 may be told this when rank 2 was killed amid a collective of three: rank 1 notices too, and leaves.
pub(crate) fn follows_a_kill(cluster: &Cluster, error: &Error) -> bool {
    let is_theirs = |node| [1, 2].iter().any(|&rank| cluster.spec.node_of(rank) == Some(NodeId(node as u16)));
    match *error {
        Error::RankFailed { rank } => rank == 2,
        Error::RankLeft { rank } | Error::PeerFreed { rank } => rank == 1,
        Error::NodeGaveUp { node } => is_theirs(node),
        _ => false,
    }
}
