//! What `ropeway bench` can be asked.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ropeway::WaitMode;
use ropeway_bench::{Bench, CollectiveCall, Kind, Mode, Notification, Operation, Plan, Progress, Setting, Size};

use super::collective::{CollectiveFlags, check_sizes, usual_sizes};
use super::name::{Defaults, Name};
use super::programs::ProgramFlags;
use super::{Found, Ticker, boum, compare, segments};
use crate::configuration::ConfigFlag;
use crate::failure::Failure;
use crate::launch::{Events, Network, Rate};
use crate::run::{NODES_MAX, RANKS_MAX, seconds};
use crate::words::at_least_one;

/// What a benchmark can be asked. Where one understands something else by an option than most, its [help](super::help) says so.
#[derive(Args)]
pub(crate) struct Flags {
    /// What to measure: not an option, but the name of the subcommand.
    #[arg(skip = Name::Latency)]
    pub(super) name: Name,
    /// Ranks; the first and the last of them exchange messages.
    #[arg(short = 'n', long, value_name = "P", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    pub(super) ranks: u32,
    /// Nodes: 1 is shared memory; more are so many daemons, joined by TCP on loopback, and share out the cores.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    pub(super) nodes: u32,
    /// Bytes of a message, with suffixes K, M, G for powers of 1024.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size)]
    pub(super) sizes: Option<Vec<Size>>,
    /// How ranks wait: polling, blocking or adaptive.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) wait: Vec<WaitMode>,
    /// Only persistent or only oneshot messages or collectives.
    #[arg(long, value_name = "MODE")]
    pub(super) mode: Option<Mode>,
    /// Rounds in a run: round trips, windows, whatever is measured [default: about a second for all runs of a size].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) iters: Option<u64>,
    /// Rounds before each run.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) warmup: Option<u64>,
    /// Runs: a figure is the median of them.
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// How long to be idle.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) seconds: Option<Duration>,
    #[command(flatten)]
    pub(super) collective: CollectiveFlags,
    #[command(flatten)]
    pub(super) programs: ProgramFlags,
    /// Who drives messages once they are started: daemons (independent), the programs while they wait (client; a baseline), or
    /// both in turns [default: independent].
    #[arg(long, value_enum, value_name = "WHO")]
    pub(super) progress: Option<Drivers>,
    /// What to compare, of latency, bandwidth, exchange, the collectives (barrier, bcast, reduce, allreduce, reduce-scatter, scan,
    /// exscan, gather, scatter, allgather, alltoall, neighbor-allgather, neighbor-alltoall), overlap (of messages, or as overlap:allreduce of a collective), asynchrony,
    /// persistence, overhead, is and cg [default: the first three].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) of: Vec<Kind>,
    /// An MPI library to compare with besides those on PATH and in ROPEWAY_PEERS: its mpicc, or where it is installed. May be
    /// repeated.
    #[arg(long = "peer", value_name = "PATH")]
    pub(super) peers: Vec<PathBuf>,
    /// Write messages anew before each send.
    #[arg(long)]
    pub(super) touch: bool,
    /// Each node in a network namespace of its own, joined by veth pairs. Needs root and iproute2, and leaves nothing.
    #[arg(long)]
    pub(super) netns: bool,
    /// Bits a second from and to each node, for example 1gbit, with --netns.
    #[arg(long, value_name = "RATE")]
    pub(super) rate: Option<Rate>,
    /// Measure in turns also beside links of the node's daemon: one over which 128 KiB messages stream to another node without a
    /// pause, and so many to nodes that are silent. Says how many times as long that takes (slowdown), and the same of the floor.
    /// All nodes are on this machine, and share its cores.
    #[arg(long, value_name = "IDLE", conflicts_with_all = ["nodes", "netns", "attach"], value_parser = clap::value_parser!(u32).range(0..=IDLE_LINKS_MAX))]
    pub(super) beside_links: Option<u32>,
    /// Use the daemon of this machine instead of embedded ones.
    #[arg(long, conflicts_with_all = ["nodes", "netns", "config"])]
    pub(super) attach: bool,
    #[command(flatten)]
    pub(super) config: ConfigFlag,
    /// Keep each rank on one core.
    #[arg(long)]
    pub(super) pin: bool,
    /// Also show what our daemons and ranks have counted meanwhile (system calls without yields, copies without those of
    /// ranks), and how often ranks have allocated memory in the calls that were measured: never, if all they need was registered
    /// before. As `counters` in JSON.
    #[arg(long, conflicts_with = "attach")]
    pub(super) counters: bool,
    /// One JSON object a line on standard output; the table then goes to standard error.
    #[arg(long)]
    pub(super) json: bool,
    /// No table when there is JSON, and no progress.
    #[arg(short, long)]
    pub(super) quiet: bool,
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

    /// Whether it can be measured as far as the command line says.
    #[cfg(test)]
    pub(super) fn is_understood(&self) -> bool {
        self.check_options().is_ok() && (self.procedure().is_some() || self.plan().is_ok())
    }

    /// To measure the parameters of the model, of messages of all kinds.
    pub(super) fn model_plan(&self) -> Result<Plan, Failure> {
        if self.nodes > self.ranks {
            let nodes = self.nodes;
            return Err(Failure::Usage(format!("{nodes} nodes need at least as many ranks: use -n {nodes}")));
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
            return Err(Failure::Usage(format!("{name} needs at least {ranks_min} ranks: use -n {ranks_min}")));
        }
        self.check_network()?;
        let collectives = self.collectives(bench)?;
        let sizes = self.sizes.clone().unwrap_or_else(|| usual_sizes(&collectives, sizes));
        check_sizes(&collectives, &sizes)?;
        if bench == Bench::Wakeup {
            check_wakeup(&self.waits(&[self.wait()]), &sizes)?;
        }
        let modes = self.mode.map_or_else(|| vec![Mode::Persistent, Mode::OneShot], |mode| vec![mode]);
        Ok(Plan {
            bench,
            sizes,
            methods: self.collective.methods(&collectives, (self.ranks, self.nodes), &modes)?,
            progress: self.progress(!collectives.is_empty())?,
            notification: self.waits(&[self.wait()]).into_iter().map(Notification).collect(),
            modes,
            beside_links: self.beside_links,
            iters: self.iters,
            warmup: self.warmup,
            runs: self.runs(),
            seconds: self.seconds.map_or(f64::from(seconds), |seconds| seconds.as_secs_f64()),
            pin: self.pin,
            collectives,
            contest: None,
            addresses: self.addresses(),
            line_rate: self.rate.map(Rate::bits_per_s),
            counts_allocations: self.counters,
        })
    }

    pub(super) fn check_network(&self) -> Result<(), Failure> {
        if self.netns && self.nodes < 2 {
            return Err(Failure::Usage("--netns joins nodes, so it needs at least two: use --nodes 2".into()));
        }
        if self.rate.is_some() && !self.netns {
            return Err(Failure::Usage("--rate is that of lines between namespaces, so add --nodes 2 --netns".into()));
        }
        Ok(())
    }

    /// The collectives to measure; none if it is messages.
    fn collectives(&self, bench: Bench) -> Result<Vec<CollectiveCall>, Failure> {
        let operations = match (bench, self.collective.operation) {
            (Bench::Coll, operation) => Vec::from_iter(operation),
            (Bench::Overlap, _) => {
                let operation = |kind: &Kind| kind.operation().ok_or(*kind);
                let operations = self.of.iter().map(operation).collect::<Result<Vec<_>, _>>();
                operations.map_err(|kind| {
                    Failure::Usage(format!(
                        "overlap --of takes collectives, and {kind} is none: see overlap without --of"
                    ))
                })?
            }
            _ => Vec::new(),
        };
        if operations.is_empty() && self.collective.has_arguments() {
            return Err(Failure::Usage(format!(
                "{bench} measures messages without --of: name a collective, or leave --root, --op, --uneven, --algorithm and --division out"
            )));
        }
        let is_barrier = |operation: &Operation| *operation == Operation::Barrier;
        if self.sizes.is_some() && !operations.is_empty() && operations.iter().all(is_barrier) {
            return Err(Failure::Usage("a barrier has no size: leave --sizes out".into()));
        }
        self.collective.calls(&operations, self.ranks)
    }

    /// Who drives messages, where that makes a difference.
    fn progress(&self, has_collectives: bool) -> Result<Vec<Progress>, Failure> {
        match self.progress {
            Some(_) if has_collectives => {
                Err(Failure::Usage("ranks drive collectives with --division flat: leave --progress out".into()))
            }
            None | Some(Drivers::Independent) => Ok(vec![Progress::Independent]),
            Some(Drivers::Client) => Ok(vec![Progress::Client]),
            Some(Drivers::Both) => Ok(vec![Progress::Independent, Progress::Client]),
        }
    }

    /// Where each node can be reached by the others without Ropeway.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        let address = |node| if self.netns { Network::address(node) } else { IpAddr::V4(Ipv4Addr::LOCALHOST) };
        (0..self.nodes as usize).map(address).collect()
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

/// A size, or none: some measure what a message costs besides its bytes.
fn size(word: &str) -> Result<Size, String> {
    if word == "0" { Ok(Size(0)) } else { word.parse().map_err(|error: <Size as FromStr>::Err| error.to_string()) }
}

fn check_wakeup(waits: &[WaitMode], sizes: &[Size]) -> Result<(), Failure> {
    if waits.contains(&WaitMode::Polling) {
        return Err(Failure::Usage("ranks that poll never sleep: use --wait blocking".to_owned()));
    }
    match sizes.iter().find(|size| size.0 < TIME_BYTES) {
        Some(size) => Err(Failure::Usage(format!("the time does not fit in {size} bytes: use --sizes {TIME_BYTES}"))),
        None => Ok(()),
    }
}

/// Each is a daemon in this process, with some twenty descriptors.
const IDLE_LINKS_MAX: i64 = 500;
/// Of the time that wakeup's messages bring.
const TIME_BYTES: usize = size_of::<u64>();
