//! A prediction from a description of the program.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ropeway::WaitMode;
use ropeway_bench::boum::{Costs, Workload};
use ropeway_bench::{Bench, Mode, Plan, Progress, Size};

use super::outlook::{Outlook, SEGMENTS};
use super::{description, parameters};
use crate::bench::{Crew, Lab, Ticker, costs, in_order};
use crate::configuration::ConfigFlag;
use crate::failure::Failure;
use crate::launch::{Daemons, Events};
use crate::run::NODES_MAX;
use crate::words::at_least_one;

/// What one of the program's ranks does in an iteration, and where.
#[derive(Args)]
pub(super) struct Described {
    /// What a rank computes in an iteration, for example 5ms or 300us.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, requires = "message")]
    compute: Option<Duration>,
    /// Bytes of its messages.
    #[arg(long, value_name = "SIZE", requires = "compute")]
    message: Option<Size>,
    /// How many it sends and receives in an iteration; a message sent and one received are two.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = at_least_one)]
    count: u64,
    /// Iterations.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = at_least_one)]
    iterations: u64,
    /// The same in a file, in TOML; see below.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["compute", "message", "count", "iterations", "recording"])]
    description: Option<PathBuf>,
    /// Nodes that messages go between: 1 is shared memory.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    nodes: u32,
    /// How ranks wait: polling, blocking or adaptive [default: adaptive, or what the file begins with].
    #[arg(long, value_name = "MODE")]
    wait: Option<WaitMode>,
    /// Use these parameters, records of `ropeway bench boum --json`; of a recording o_s of each size.
    #[arg(long, value_name = "FILE")]
    pub(super) parameters: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlag,
    /// Say nothing while it measures.
    #[arg(short, long)]
    quiet: bool,
}

impl Described {
    pub(super) fn outlook(&self) -> Result<Outlook, Failure> {
        let workload = self.workload()?;
        let costs = match &self.parameters {
            Some(path) => parameters::read(path, self.nodes, self.wait)?,
            None => self.measure(&workload)?,
        };
        Ok(Outlook::of(&workload, &costs))
    }

    fn workload(&self) -> Result<Workload, Failure> {
        match (&self.description, self.compute, self.message) {
            (Some(path), ..) => description::read(path),
            (None, Some(compute), Some(message)) => {
                Ok(description::simple(compute, (message.0, self.count), self.iterations))
            }
            _ => unreachable!("clap requires them"),
        }
    }

    /// Measures the parameters for the messages, and some of their segments.
    fn measure(&self, workload: &Workload) -> Result<Costs, Failure> {
        let ranks = self.nodes.max(2);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if ranks as usize > cores {
            return Err(Failure::CannotRun(format!(
                "{ranks} ranks on {cores} cores would wait for each other's time slices: measure where there are more, and \
                 use --parameters"
            )));
        }
        let whole = workload.messages.iter().map(|messages| messages.bytes);
        let sizes = whole.flat_map(|bytes| [bytes, bytes / 8, bytes / SEGMENTS.1 as usize]);
        // Empty messages alone say nothing of what bytes cost.
        let sizes = if workload.messages.iter().all(|messages| messages.bytes == 0) {
            in_order([0, 1])
        } else {
            in_order(sizes)
        };
        let (events, progress) = (Events::from_signals()?, Ticker::of_one(self.quiet));
        if !self.quiet {
            self.config.tell()?;
        }
        let daemons = Daemons::embedded(self.nodes, &self.config.read()?)?;
        let lab = Lab { daemons, events: &events, progress: &progress, with_counters: false };
        let wait = self.wait.unwrap_or(WaitMode::Adaptive);
        let (measured, end) = lab.parameters(self.plan(sizes), Crew { ranks, wait });
        progress.finish();
        end?;
        costs(measured.iter().map(|(measured, _)| measured))
    }

    fn plan(&self, sizes: Vec<Size>) -> Plan {
        Plan {
            bench: Bench::Boum,
            sizes,
            modes: vec![Mode::Persistent],
            iters: None,
            warmup: None,
            runs: 5,
            seconds: 0.0,
            pin: false,
            collectives: Vec::new(),
            methods: Vec::new(),
            progress: vec![Progress::Independent],
            notification: Vec::new(),
            beside_links: None,
            contest: None,
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST); self.nodes as usize],
            line_rate: None,
            counts_allocations: false,
        }
    }
}
