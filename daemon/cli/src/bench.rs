//! `ropeway bench`: measures.

mod wide;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use ropeway::WaitMode;
use ropeway_bench::{Bench, Measured, Mode, Plan, Record, Setting, Side, Size, Summary, Table};

use crate::failure::{Failure, print};
use crate::launch::{Daemons, Events, Network, Rate};
use crate::rank::Task;
use crate::run::{NODES_MAX, RANKS_MAX, seconds};
use crate::steps::{Seen, Steps, Told};

/// Measures messages, and beside them the floor: what the machine can do without Ropeway.
///
/// Persistent messages, one-shot messages and the floor take turns in one run, so that they can be compared. The data of
/// every message is checked; a wrong byte ends the benchmark with exit status 1. One that can't run here ends with 3.
#[derive(Args)]
#[command(after_help = "\
Examples:
  ropeway bench latency --sizes 8,1K --wait polling
  ropeway bench bandwidth --nodes 2 --sizes 1M --counters
  ropeway bench idle -n 8 --json

The records of --json have one line each on standard output; the table then goes to standard error.")]
pub(crate) struct Flags {
    /// What to measure.
    #[arg(value_enum, value_name = "NAME")]
    name: Name,
    /// Ranks; the first and the last of them exchange messages.
    #[arg(short = 'n', long, value_name = "P", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: u32,
    /// Nodes: 1 is shared memory; more are so many daemons, joined by TCP on loopback.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    nodes: u32,
    /// Bytes of a message, with suffixes K, M, G for powers of 1024.
    ///
    /// [default: 8,1K,64K,1M; overlap: 64K,256K,1M,4M; asynchrony: 8,1K,64K,1M,4M]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sizes: Option<Vec<Size>>,
    /// How ranks wait: polling, blocking or adaptive.
    #[arg(long, value_name = "MODE", default_value_t = WaitMode::Adaptive)]
    wait: WaitMode,
    /// Only persistent or only oneshot messages.
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// Round trips (latency) or windows (bandwidth) in a run [default: about a second for all runs of a size].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iters: Option<u64>,
    /// Round trips or windows before each run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    warmup: Option<u64>,
    /// Runs [default: 5; idle: 1].
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// How long to be idle.
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// Each node in a network namespace of its own, joined by veth pairs. Needs root and iproute2, and leaves nothing.
    #[arg(long)]
    netns: bool,
    /// Bits a second from and to each node, for example 1gbit.
    #[arg(long, value_name = "RATE", requires = "netns")]
    rate: Option<Rate>,
    /// Use the daemon of this machine instead of embedded ones.
    #[arg(long, conflicts_with_all = ["nodes", "netns"])]
    attach: bool,
    /// Keep each rank on one core.
    #[arg(long)]
    pin: bool,
    /// Also show what the daemons have counted.
    #[arg(long, conflicts_with = "attach")]
    counters: bool,
    /// One JSON object a line on standard output.
    #[arg(long)]
    json: bool,
    /// No table when there is JSON, and no progress.
    #[arg(long)]
    quiet: bool,
}

/// A benchmark's name.
#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// Half a round trip, in microseconds.
    Latency,
    /// Windows of 64 messages, one way and both ways, in 10^6 bytes a second.
    Bandwidth,
    /// CPU time of ranks blocked in wait, and of their daemons, in percent of a core.
    Idle,
    /// How much of the communication hides behind computation: 1 is all.
    Overlap,
    /// How much of a receive goes on while the program computes: 1 is all.
    Asynchrony,
}

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let plan = flags.plan()?;
    let events = Events::from_signals()?;
    let daemons = flags.daemons()?;
    let setting = flags.setting();
    let progress = if flags.quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    progress.enable_steady_tick(Duration::from_millis(100));
    let bench = plan.bench;
    let mut report = Report { bench, setting, with_counters: flags.counters, lines: Vec::new(), results: Vec::new() };
    let steps = Steps {
        task: Task::Bench(plan),
        ranks: flags.ranks,
        wait: Some(flags.wait),
        daemons: &daemons,
        events: &events,
    };
    let followed = steps.follow(|told| match told {
        Told::Step(label) => progress.set_message(format!("{bench}: {label}")),
        Told::Outcome(measured, seen) => report.add(measured, seen),
    });
    progress.finish_and_clear();
    // What has been measured before a failure is still true.
    flags.show(&report)?;
    followed
}

impl Flags {
    fn plan(&self) -> Result<Plan, Failure> {
        let (bench, runs, ranks_min) = match self.name {
            Name::Latency => (Bench::Latency, 5, 2),
            Name::Bandwidth => (Bench::Bandwidth, 5, 2),
            Name::Idle => (Bench::Idle, 1, 1),
            Name::Overlap => (Bench::Overlap, 5, 2),
            Name::Asynchrony => (Bench::Asynchrony, 5, 2),
        };
        if self.ranks < ranks_min {
            return Err(Failure::CannotRun(format!("{bench} needs at least {ranks_min} ranks: use -n {ranks_min}")));
        }
        if self.netns && self.nodes < 2 {
            return Err(Failure::CannotRun("--netns joins nodes, so it needs at least two: use --nodes 2".into()));
        }
        Ok(Plan {
            bench,
            sizes: self.sizes.clone().unwrap_or_else(|| default_sizes(bench)),
            modes: self.mode.map_or_else(|| vec![Mode::Persistent, Mode::OneShot], |mode| vec![mode]),
            iters: self.iters,
            warmup: self.warmup,
            runs: self.runs.unwrap_or(runs),
            seconds: self.seconds.as_secs_f64(),
            crosses_nodes: self.nodes > 1,
            address: if self.netns { Network::address(0) } else { IpAddr::V4(Ipv4Addr::LOCALHOST) },
            line_rate: self.rate.map(Rate::bits_per_s),
            pin: self.pin,
        })
    }

    fn daemons(&self) -> Result<Daemons, Failure> {
        Ok(match (self.attach, self.netns) {
            (true, _) => Daemons::system()?,
            (false, true) => Daemons::in_namespaces(self.nodes, self.rate)?,
            (false, false) => Daemons::embedded(self.nodes)?,
        })
    }

    fn setting(&self) -> Setting {
        Setting {
            ranks: self.ranks,
            nodes: self.nodes,
            device: if self.nodes > 1 { "tcp" } else { "shm" }.to_owned(),
            wait: self.wait.to_string(),
            netns: self.netns,
            rate: self.rate.map(|rate| rate.to_string()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    fn show(&self, report: &Report) -> Result<(), Failure> {
        let table = report.table();
        if self.json {
            print(&report.json())?;
            if !self.quiet && !table.is_empty() {
                eprint!("{}{table}", report.heading());
            }
            return Ok(());
        }
        if table.is_empty() { Ok(()) } else { print(&format!("{}{table}{}", report.heading(), report.counted())) }
    }
}

/// What has been measured so far.
struct Report {
    bench: Bench,
    setting: Setting,
    with_counters: bool,
    lines: Vec<Record>,
    results: Vec<(Measured, Seen)>,
}

impl Report {
    fn add(&mut self, measured: Measured, seen: Seen) {
        let counters = seen.counters.clone().filter(|_| self.with_counters);
        let daemon = self.daemon_cpu(&measured, &seen);
        self.lines.push(Record::new(&self.bench.to_string(), &self.setting, &measured).with_counters(counters));
        self.results.push((measured, seen));
        if let Some(daemon) = daemon {
            self.lines.push(Record::new(&self.bench.to_string(), &self.setting, &daemon));
            self.results.push((daemon, Seen::default()));
        }
    }

    /// What idling has cost the daemons, which the ranks can't know.
    fn daemon_cpu(&self, clients: &Measured, seen: &Seen) -> Option<Measured> {
        let percent = seen.daemon_cpu.as_secs_f64() / seen.elapsed.as_secs_f64() * 100.0;
        let daemons = || Measured { metric: "daemon_cpu".into(), summary: Summary::of(&[percent]), ..clients.clone() };
        (self.bench == Bench::Idle).then(daemons)
    }

    fn json(&self) -> String {
        let line = |record| serde_json::to_string(record).expect("records are plain structures") + "\n";
        self.lines.iter().map(line).collect()
    }

    fn heading(&self) -> String {
        let Setting { ranks, nodes, device, wait, cores, netns, rate } = &self.setting;
        let unit = self.results.first().map_or("", |(measured, _)| measured.unit.as_str());
        let metric = self.results.first().map_or("", |(measured, _)| measured.metric.as_str());
        let metric = if self.bench == Bench::Idle { "CPU time while waiting" } else { metric };
        let nodes = counted_nodes(*nodes);
        let metric = if unit.is_empty() { metric.to_owned() } else { format!("{metric}, {unit}") };
        let netns = if *netns { " between namespaces" } else { "" };
        let rate = rate.as_ref().map(|rate| format!(" at {rate}")).unwrap_or_default();
        format!("{metric}; {ranks} ranks, {nodes}, {device}{netns}{rate}, {wait}, {cores} cores\n")
    }

    fn table(&self) -> Table {
        if self.bench == Bench::Idle {
            return self.idle_table();
        }
        if let Some(metrics) = wide::metrics(self.bench) {
            return wide::table(metrics, self.results.iter().map(|(measured, _)| measured));
        }
        let mut table =
            Table::new(&["messages", "bytes", "min", "median", "p99", "max", "samples", "floor", "ratio", ""]);
        for (measured, _) in &self.results {
            let Measured { mode, bytes, side, summary, floor, .. } = measured;
            let both = if *side == Some(Side::Both) { ", both ways" } else { "" };
            let mut row = vec![
                format!("{}{both}", mode.map(|mode| mode.to_string()).unwrap_or_default()),
                bytes.map(|bytes| Size(bytes).to_string()).unwrap_or_default(),
            ];
            row.extend([summary.min, summary.median, summary.p99, summary.max].map(digits));
            row.push(summary.samples.to_string());
            if let Some(floor) = floor {
                let spread = format!("{}-{}", digits(floor.ratio_min), digits(floor.ratio_max));
                row.extend([digits(floor.median), digits(floor.ratio), format!("({spread}) of {}", floor.name)]);
            }
            table.push(row);
        }
        table
    }

    fn idle_table(&self) -> Table {
        let mut table = Table::new(&["who", "percent of a core"]);
        for (measured, _) in &self.results {
            let who = if measured.metric == "client_cpu" { "all ranks" } else { "daemons" };
            table.push(vec![who.to_owned(), digits(measured.summary.median)]);
        }
        table
    }

    /// What the daemons have counted, a line for each result.
    fn counted(&self) -> String {
        let mut text = String::new();
        for (measured, seen) in self.results.iter().filter(|_| self.with_counters) {
            let Some(counters) = &seen.counters else { continue };
            let mode = measured.mode.map(|mode| mode.to_string()).unwrap_or_default();
            let bytes = measured.bytes.map(|bytes| Size(bytes).to_string()).unwrap_or_default();
            let both = if measured.side == Some(Side::Both) { " both ways" } else { "" };
            let counts: Vec<_> = counters.iter().filter(|(_, count)| **count > 0).collect();
            let counts: Vec<_> = counts.iter().map(|(label, count)| format!("{label} {count}")).collect();
            text += &format!("counted, {mode}{both} {bytes}: {}\n", counts.join(", "));
        }
        text
    }
}

fn default_sizes(bench: Bench) -> Vec<Size> {
    let sizes: &[usize] = match bench {
        Bench::Overlap => &[64 << 10, 256 << 10, 1 << 20, 4 << 20],
        Bench::Asynchrony => &[8, 1 << 10, 64 << 10, 1 << 20, 4 << 20],
        _ => &[8, 1 << 10, 64 << 10, 1 << 20],
    };
    sizes.iter().copied().map(Size).collect()
}

/// So many nodes, in words.
pub(crate) fn counted_nodes(nodes: u32) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

/// Four digits, or all before the point.
pub(crate) fn digits(value: f64) -> String {
    let before_point = if value < 1.0 { 1 } else { value.log10() as usize + 1 };
    format!("{value:.*}", 4usize.saturating_sub(before_point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let shown: Vec<_> = [0.123_45, 1.234_56, 12.3456, 1234.56, 123_456.7, 0.0].into_iter().map(digits).collect();
        assert_eq!(shown, ["0.123", "1.235", "12.35", "1235", "123457", "0.000"]);
    }
}
