//! What `ropeway bench` can be asked.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ropeway::WaitMode;
use ropeway_bench::{Bench, CollectiveCall, Kind, Mode, Notification, Operation, Plan, Progress, Setting, Size};

use super::collective::{CollectiveFlags, check_sizes, usual_sizes};
use super::programs::ProgramFlags;
use super::{Found, Ticker, boum, compare, segments};
use crate::failure::Failure;
use crate::launch::{Events, Network, Rate};
use crate::run::{NODES_MAX, RANKS_MAX, seconds};

/// Measures messages and collectives, and beside messages the floor: what the machine can do without Ropeway.
///
/// Persistent messages, one-shot messages and the floor take turns in one run, so that they can be compared. Data is checked
/// wherever it arrives; a wrong byte ends the benchmark with exit status 1. One that can't run here ends with 3.
#[derive(Args)]
#[command(after_help = "\
Examples:
  ropeway bench latency --sizes 8,1K --wait polling
  ropeway bench bandwidth --nodes 2 --sizes 1M --counters
  ropeway bench message-rate -n 8 --sizes 8
  ropeway bench overhead --nodes 2 --sizes 8,1M
  ropeway bench skew --seconds 0.2 --sizes 8,4M
  ropeway bench idle -n 8 --json
  ropeway bench coll allreduce -n 4 --sizes 8,64K,1M --op max
  ropeway bench coll allgather -n 8 --nodes 2 --division two-level,flat,multileader:2,multigroup:2
  ropeway bench coll allreduce -n 4 --division two-level,flat --algorithm ring --mode persistent
  ropeway bench asynchrony --nodes 2 --wait polling,blocking --progress both
  ropeway bench overlap --of allgather,alltoall -n 4 --sizes 64K
  ropeway bench compare --nodes 2 --of latency --sizes 8,1M
  ropeway bench transparency --nodes 2 --wait polling
  ropeway bench boum -n 8 --wait polling
  ropeway bench segments --nodes 2 --netns --rate 1gbit --points 1M
  ropeway bench report --quick

A collective's size is that of the vector (bcast, reductions, scans), of each rank's block (gather, scatter, allgather,
reduce-scatter), or of the block for each rank (alltoall). All ranks begin at the same moment of the machine's clock; what
counts is when the last has its result. With more ranks than cores not all can begin at once: windows that somebody comes late
to are left out and counted (missed).

A size of transparency is that of a rank's keys (is), or of its part of the solution (cg).

Ropeway's daemons drive what was started, whatever programs do (progress: independent). Beside that, baselines can be measured
whose programs drive it themselves, so that nothing moves unless they wait (progress: client): messages with --progress both, and
collectives as schedules of messages between ranks with --division flat, multileader or multigroup. These copy what they send
and receive once more. With --wait polling,blocking that makes the four combinations of notification and progress, in turns in one
run: overlap or asynchrony with --progress both, overlap --of with --division two-level,flat.

An option that would change nothing in a benchmark is refused.

The records of --json have one line each on standard output; the table then goes to standard error.")]
pub(crate) struct Flags {
    /// What to measure.
    #[arg(value_enum, value_name = "NAME")]
    pub(super) name: Name,
    /// Ranks; the first and the last of them exchange messages (message-rate: each of the lower half with one of the upper;
    /// collectives, segments: all; boum: 1, 2, 4, 8 … up to so many).
    #[arg(short = 'n', long, value_name = "P", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    pub(super) ranks: u32,
    /// Nodes: 1 is shared memory; more are so many daemons, joined by TCP on loopback.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    pub(super) nodes: u32,
    /// Bytes of a message, a collective or a program (see below), with suffixes K, M, G for powers of 1024 [default: 8,1K,64K,1M;
    /// message-rate: 8,64,1K; wakeup: 8; skew: 1,64,1K,8K,64K,512K,4M; overlap: 64K,256K,1M,4M; asynchrony: 8,1K,64K,1M,4M;
    /// transparency: 8K,64K,1M; boum: 0,8,1K,64K,1M and those of its programs].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) sizes: Option<Vec<Size>>,
    /// How ranks wait: polling, blocking or adaptive. Overlap and asynchrony take several, in turns; boum, compare and transparency
    /// one after the other [default: adaptive; wakeup: blocking; boum: blocking,polling; exchanges of compare: all three;
    /// transparency: polling,blocking].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) wait: Vec<WaitMode>,
    /// Only persistent or only oneshot messages or collectives.
    #[arg(long, value_name = "MODE")]
    pub(super) mode: Option<Mode>,
    /// Rounds in a run: round trips, windows, whatever is measured [default: about a second for all runs of a size; skew: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) iters: Option<u64>,
    /// Rounds before each run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) warmup: Option<u64>,
    /// Runs [default: 5; idle, skew: 1].
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// How long to be idle (idle) or late (skew) [default: idle: 5; skew: 1].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) seconds: Option<Duration>,
    #[command(flatten)]
    pub(super) collective: CollectiveFlags,
    #[command(flatten)]
    pub(super) programs: ProgramFlags,
    /// overlap and asynchrony of messages: who drives them once they are started: daemons (independent), the programs while they
    /// wait (client; a baseline), or both in turns [default: independent].
    #[arg(long, value_enum, value_name = "WHO")]
    pub(super) progress: Option<Drivers>,
    /// compare: what to compare, of latency, bandwidth, exchange, barrier, bcast, allreduce, allgather, alltoall, is and cg
    /// [default: the first three]. transparency: is, cg [default: both]. overlap: the collectives to hide [default: messages].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) of: Vec<Kind>,
    /// compare, transparency: an MPI library to compare with besides those on PATH and in ROPEWAY_PEERS: its mpicc, or where
    /// it is installed. May be repeated.
    #[arg(long = "peer", value_name = "PATH")]
    pub(super) peers: Vec<PathBuf>,
    /// compare: write messages anew before each send.
    #[arg(long)]
    pub(super) touch: bool,
    /// Each node in a network namespace of its own, joined by veth pairs. Needs root and iproute2, and leaves nothing.
    #[arg(long)]
    pub(super) netns: bool,
    /// Bits a second from and to each node, for example 1gbit, with --netns.
    #[arg(long, value_name = "RATE")]
    pub(super) rate: Option<Rate>,
    /// Use the daemon of this machine instead of embedded ones.
    #[arg(long, conflicts_with_all = ["nodes", "netns"])]
    pub(super) attach: bool,
    /// Keep each rank on one core.
    #[arg(long)]
    pub(super) pin: bool,
    /// Also show what the daemons have counted.
    #[arg(long, conflicts_with = "attach")]
    pub(super) counters: bool,
    /// One JSON object a line on standard output.
    #[arg(long)]
    pub(super) json: bool,
    /// No table when there is JSON, and no progress.
    #[arg(long)]
    pub(super) quiet: bool,
}

/// A benchmark's name.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Name {
    /// Half a round trip, in microseconds.
    Latency,
    /// A hundred sends and one reply: the time for each, in microseconds.
    Stream,
    /// Windows of 64 messages, one way and both ways, in 10^6 bytes a second.
    Bandwidth,
    /// Windows of 64 small messages, of 1, 2, 4 … pairs of ranks at once, in messages a second.
    MessageRate,
    /// Set-up (o_s), start to end of an empty message (o_i), start and wait alone, in nanoseconds; time for a byte (b),
    /// overhead to that of all bytes (R), and the share of set-up in it (d_p).
    Overhead,
    /// The share of set-up in a message's overhead, which persistent messages save (d_p).
    Persistence,
    /// CPU time of ranks and of daemons, in seconds for each GiB moved.
    Cpu,
    /// CPU time of ranks blocked in wait, and of their daemons, in percent of a core.
    Idle,
    /// From a start until a receiver that slept in the kernel runs again, in microseconds.
    Wakeup,
    /// What a sender notices of a receiver that pauses between start and wait, in percent of the pause.
    Skew,
    /// How much of the communication hides behind computation: 1 is all. Of messages, or with --of of collectives.
    Overlap,
    /// How much of a receive goes on while the program computes: 1 is all.
    Asynchrony,
    /// A collective of all ranks, named by OPERATION: until the last has its result, in microseconds, and how much of it hides
    /// behind computation (d_o).
    Coll,
    /// Latency, bandwidth and a ring exchange beside every MPI library found, in turns: the ratio to each.
    Compare,
    /// Programs of blocking calls that register nothing and overlap nothing, an integer sort and conjugate gradients, beside every
    /// MPI library found, in turns: the ratio to each.
    Transparency,
    /// The parameters of the model BOUM (t_c, o_s, o_i, b, R, d_p, d_o, d_a), and its predictions beside what Jacobi's method,
    /// conjugate gradients and a transform take.
    Boum,
    /// A transform whose messages are cut in 1, 2, 4 … 64 segments, beside the prediction.
    Segments,
}

/// All of a benchmark that is more than a job.
type Procedure = fn(&Flags, &Events, &Ticker) -> Result<Found, Failure>;

/// Who drives messages.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Drivers {
    Independent,
    Client,
    Both,
}

/// What a benchmark needs, and does if it is not told otherwise.
struct Defaults {
    bench: Bench,
    ranks_min: u32,
    runs: u32,
    seconds: u32,
    wait: WaitMode,
    sizes: &'static [usize],
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().expect("no benchmark is hidden").get_name())
    }
}

impl Name {
    /// Whether it is about Ropeway and other libraries, in turns.
    pub(super) fn is_contest(self) -> bool {
        matches!(self, Self::Compare | Self::Transparency)
    }

    fn defaults(self) -> Defaults {
        let pair = |bench| Defaults { ranks_min: 2, ..Defaults::of_one(bench) };
        match self {
            Self::Latency => pair(Bench::Latency),
            Self::Stream => pair(Bench::Stream),
            Self::Bandwidth => pair(Bench::Bandwidth),
            Self::MessageRate => Defaults { sizes: &[8, 64, 1 << 10], ..pair(Bench::MessageRate) },
            Self::Overhead => pair(Bench::Overhead),
            Self::Persistence => pair(Bench::Persistence),
            Self::Cpu => pair(Bench::Cpu),
            Self::Idle => Defaults { runs: 1, seconds: 5, ..Defaults::of_one(Bench::Idle) },
            Self::Wakeup => Defaults { wait: WaitMode::Blocking, sizes: &[8], ..pair(Bench::Wakeup) },
            Self::Skew => Defaults { runs: 1, seconds: 1, sizes: &SKEW_SIZES, ..pair(Bench::Skew) },
            Self::Overlap => Defaults { sizes: &OVERLAP_SIZES, ..pair(Bench::Overlap) },
            Self::Asynchrony => Defaults { sizes: &ASYNCHRONY_SIZES, ..pair(Bench::Asynchrony) },
            Self::Coll => pair(Bench::Coll),
            Self::Compare | Self::Transparency => pair(Bench::Compare),
            Self::Boum => Defaults { sizes: &BOUM_SIZES, ..Defaults::of_one(Bench::Boum) },
            Self::Segments => pair(Bench::Boum),
        }
    }
}

impl Defaults {
    fn of_one(bench: Bench) -> Self {
        Self { bench, ranks_min: 1, runs: 5, seconds: 0, wait: WaitMode::Adaptive, sizes: &SIZES }
    }
}

impl Flags {
    /// What is more than one job of one plan, and goes by a procedure of its own.
    pub(super) fn procedure(&self) -> Option<Procedure> {
        match self.name {
            Name::Compare => Some(compare::measure),
            Name::Transparency => Some(compare::transparency),
            Name::Boum => Some(boum::measure),
            Name::Segments => Some(segments::measure),
            _ => None,
        }
    }

    /// To measure the parameters of the model, of messages of all kinds.
    pub(super) fn model_plan(&self) -> Result<Plan, Failure> {
        if self.nodes > self.ranks {
            let nodes = self.nodes;
            return Err(Failure::CannotRun(format!("{nodes} nodes need at least as many ranks: use -n {nodes}")));
        }
        self.plan()
    }

    /// boum: 1, 2, 4, 8 … up to what was asked for, on each node at least one.
    pub(super) fn rank_counts(&self) -> impl Iterator<Item = u32> {
        let powers = std::iter::successors(Some(1u32), |count| count.checked_mul(2));
        let (least, most) = (self.nodes, self.ranks);
        powers.take_while(move |&count| count <= most).filter(move |&count| count >= least)
    }

    pub(super) fn runs(&self) -> u32 {
        self.runs.unwrap_or(self.name.defaults().runs)
    }

    pub(super) fn plan(&self) -> Result<Plan, Failure> {
        let Defaults { bench, ranks_min, seconds, sizes, .. } = self.name.defaults();
        if self.ranks < ranks_min {
            let name = self.name;
            return Err(Failure::CannotRun(format!("{name} needs at least {ranks_min} ranks: use -n {ranks_min}")));
        }
        if self.netns && self.nodes < 2 {
            return Err(Failure::CannotRun("--netns joins nodes, so it needs at least two: use --nodes 2".into()));
        }
        let collectives = self.collectives(bench)?;
        let sizes = self.sizes.clone().unwrap_or_else(|| usual_sizes(&collectives, sizes));
        check_sizes(&collectives, &sizes)?;
        if bench == Bench::Wakeup {
            check_wakeup(self.wait(), &sizes)?;
        }
        let modes = self.mode.map_or_else(|| vec![Mode::Persistent, Mode::OneShot], |mode| vec![mode]);
        Ok(Plan {
            bench,
            sizes,
            methods: self.collective.methods(&collectives, (self.ranks, self.nodes), &modes)?,
            progress: self.progress(!collectives.is_empty())?,
            notification: self.waits(&[self.wait()]).into_iter().map(Notification).collect(),
            modes,
            iters: self.iters,
            warmup: self.warmup,
            runs: self.runs(),
            seconds: self.seconds.map_or(f64::from(seconds), |seconds| seconds.as_secs_f64()),
            crosses_nodes: self.nodes > 1,
            pin: self.pin,
            collectives,
            contest: None,
            address: self.address(),
            line_rate: self.rate.map(Rate::bits_per_s),
        })
    }

    /// The collectives to measure; none if it is messages.
    fn collectives(&self, bench: Bench) -> Result<Vec<CollectiveCall>, Failure> {
        let operations = match (bench, self.collective.operation) {
            (Bench::Coll, operation) => Vec::from_iter(operation),
            (Bench::Overlap, _) => {
                let operation = |kind: &Kind| kind.operation().ok_or(*kind);
                let operations = self.of.iter().map(operation).collect::<Result<Vec<_>, _>>();
                operations.map_err(|kind| {
                    Failure::CannotRun(format!(
                        "overlap --of takes collectives, and {kind} is none: see overlap without --of"
                    ))
                })?
            }
            _ => Vec::new(),
        };
        if operations.is_empty() && self.collective.has_arguments() {
            return Err(Failure::CannotRun(format!(
                "{bench} measures messages without --of: name a collective, or leave --root, --op, --algorithm and --division out"
            )));
        }
        let is_barrier = |operation: &Operation| *operation == Operation::Barrier;
        if self.sizes.is_some() && !operations.is_empty() && operations.iter().all(is_barrier) {
            return Err(Failure::CannotRun("a barrier has no size: leave --sizes out".into()));
        }
        self.collective.calls(&operations, self.ranks)
    }

    /// Who drives messages, where that makes a difference.
    fn progress(&self, has_collectives: bool) -> Result<Vec<Progress>, Failure> {
        match self.progress {
            Some(_) if has_collectives => {
                Err(Failure::CannotRun("ranks drive collectives with --division flat: leave --progress out".into()))
            }
            None | Some(Drivers::Independent) => Ok(vec![Progress::Independent]),
            Some(Drivers::Client) => Ok(vec![Progress::Client]),
            Some(Drivers::Both) => Ok(vec![Progress::Independent, Progress::Client]),
        }
    }

    /// Where the first rank can be reached by the last without Ropeway.
    pub(super) fn address(&self) -> IpAddr {
        if self.netns { Network::address(0) } else { IpAddr::V4(Ipv4Addr::LOCALHOST) }
    }

    /// How ranks wait, or first wait.
    pub(super) fn wait(&self) -> WaitMode {
        self.wait.first().copied().unwrap_or_else(|| self.name.defaults().wait)
    }

    /// All ways to wait that were asked for, or else the usual ones.
    pub(super) fn waits(&self, usual: &[WaitMode]) -> Vec<WaitMode> {
        if self.wait.is_empty() { usual.to_vec() } else { self.wait.clone() }
    }

    pub(super) fn setting(&self) -> Setting {
        Setting {
            ranks: self.ranks,
            nodes: self.nodes,
            device: if self.nodes > 1 { "tcp" } else { "shm" }.to_owned(),
            wait: self.waits(&[self.wait()]).iter().map(WaitMode::to_string).collect::<Vec<_>>().join(" and "),
            netns: self.netns,
            rate: self.rate.map(|rate| rate.to_string()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

fn check_wakeup(wait: WaitMode, sizes: &[Size]) -> Result<(), Failure> {
    if wait == WaitMode::Polling {
        return Err(Failure::CannotRun("ranks that poll never sleep: use --wait blocking".to_owned()));
    }
    match sizes.iter().find(|size| size.0 < TIME_BYTES) {
        Some(size) => {
            Err(Failure::CannotRun(format!("the time does not fit in {size} bytes: use --sizes {TIME_BYTES}")))
        }
        None => Ok(()),
    }
}

const SIZES: [usize; 4] = [8, 1 << 10, 64 << 10, 1 << 20];
const OVERLAP_SIZES: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
const ASYNCHRONY_SIZES: [usize; 5] = [8, 1 << 10, 64 << 10, 1 << 20, 4 << 20];
const BOUM_SIZES: [usize; 5] = [0, 8, 1 << 10, 64 << 10, 1 << 20];
const SKEW_SIZES: [usize; 7] = [1, 64, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20];
/// Of the time that wakeup's messages bring.
const TIME_BYTES: usize = size_of::<u64>();
