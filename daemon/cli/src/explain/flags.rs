//! What `ropeway explain` can be asked.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ropeway_bench::{CollectiveCall, Operation, Size};
use ropeway_daemon::config::cost_table;
use ropeway_schedule::{Algorithm, CostTable, Counts, Order, Shape};

use crate::configuration;
use crate::failure::Failure;
use crate::run::RANKS_MAX;
use crate::words::one_of;

/// Says which algorithm a collective between nodes would get, what each candidate would cost, and what each participant does.
///
/// Nothing runs: schedules are made and checked, as daemons make them for the collectives of programs. The costs are those that
/// the daemon of this machine is configured to, as the first node of a job. Within a node ranks meet in its memory and need no schedule, so that a node's ranks are
/// one participant; with as many nodes as ranks every rank is. Between nodes a scan is an exscan.
#[derive(Args)]
#[command(after_help = help())]
pub(crate) struct Flags {
    /// The operation.
    #[arg(value_name = "OPERATION", value_parser = one_of::<Operation>(Operation::ALL.map(Operation::name)))]
    operation: Operation,
    /// Ranks that take part.
    #[arg(short = 'n', long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: u32,
    /// Nodes that the ranks live on, in order and evenly [default: as many as ranks].
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=PARTICIPANTS_MAX))]
    nodes: Option<u32>,
    /// Bytes: of the vector (bcast, reductions, scans), of each rank's block (gather, scatter, allgather, reduce-scatter), or of
    /// the block for each rank (alltoall), with suffixes K, M, G for powers of 1024.
    #[arg(long, value_name = "SIZE", default_value = "8")]
    bytes: Size,
    /// Bytes of an element; vectors are cut between elements.
    #[arg(long, value_name = "SIZE", default_value = "8")]
    element_bytes: Size,
    /// The rank that sends, or gets the result.
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    root: u32,
    /// How operands may be put together: any (the operator commutes), rank (in order of rank), fixed (bit by bit the same
    /// result, always; every rank is a participant then, wherever it lives).
    #[arg(long, value_enum, default_value = "any")]
    order: OrderName,
    /// What is brought lies where the result belongs.
    #[arg(long)]
    in_place: bool,
    /// Show this algorithm, whatever the choice would be.
    #[arg(long, value_name = "A")]
    pub(super) algorithm: Option<Algorithm>,
    /// Whose steps to list.
    #[arg(long, value_name = "RANK OR NODE", default_value_t = 0)]
    pub(super) participant: u32,
    /// Draw who sends to whom in which round.
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// One JSON object instead of tables.
    #[arg(long)]
    pub(super) json: bool,
    /// Daemon's configuration file to take costs from [default: /etc/ropeway/ropewayd.toml, if it is there].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Cost: what a message costs the processor at each end [default: configured, or 2000].
    #[arg(long, value_name = "NS", value_parser = cost)]
    overhead_ns: Option<f64>,
    /// Cost: how long a message is under way beyond that [default: configured, or 2600].
    #[arg(long, value_name = "NS", value_parser = cost)]
    latency_ns: Option<f64>,
    /// Cost: a further byte of a message [default: configured, or 0.4].
    #[arg(long, value_name = "NS", value_parser = cost)]
    byte_ns: Option<f64>,
    /// Cost: combining a byte with another [default: configured, or 0.15].
    #[arg(long, value_name = "NS", value_parser = cost)]
    combine_byte_ns: Option<f64>,
    /// Cost: copying a byte [default: configured, or 0.06].
    #[arg(long, value_name = "NS", value_parser = cost)]
    copy_byte_ns: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OrderName {
    Any,
    Rank,
    Fixed,
}

/// A collective of a job.
pub(super) struct Job {
    pub(super) shape: Shape,
    pub(super) ranks: u32,
    /// What was given as bytes.
    pub(super) bytes: u64,
    pub(super) element_bytes: u64,
    pub(super) table: CostTable,
    /// Where the costs come from.
    pub(super) costs_from: String,
}

impl Flags {
    pub(super) fn job(&self) -> Result<Job, Failure> {
        let nodes = self.nodes.unwrap_or(self.ranks);
        let participants = self.participants();
        let refuse = |why: String| Err(Failure::Other(why));
        if nodes > self.ranks {
            return refuse(format!(
                "{nodes} nodes for {} ranks: each node needs one, so --nodes is at most -n",
                self.ranks
            ));
        }
        if i64::from(participants) > PARTICIPANTS_MAX {
            let hint = "put several ranks on a node with --nodes";
            return refuse(format!(
                "{participants} participants are too many to show, at most {PARTICIPANTS_MAX}: {hint}"
            ));
        }
        if self.root >= self.ranks {
            return refuse(format!(
                "root {} does not exist among {} ranks: name one of 0 to {}",
                self.root,
                self.ranks,
                self.ranks - 1
            ));
        }
        if self.participant >= participants {
            return refuse(format!(
                "participant {} does not exist: name one of 0 to {}",
                self.participant,
                participants - 1
            ));
        }
        let (bytes, element_bytes) = (self.bytes.0 as u64, self.element_bytes.0 as u64);
        if !bytes.is_multiple_of(element_bytes) {
            return refuse(format!(
                "{bytes} bytes are not a whole number of elements of {element_bytes}: see --element-bytes"
            ));
        }
        let call = CollectiveCall { root: self.root, ..CollectiveCall::of(self.operation) };
        let ranks_of = Counts::even(u64::from(self.ranks), participants);
        let order = match self.order {
            OrderName::Any => Order::Any,
            OrderName::Rank => Order::Rank,
            OrderName::Fixed => Order::Fixed,
        };
        let mut shape =
            Shape::new(participants, call.collective(participants, &ranks_of, bytes / element_bytes, order));
        shape.is_in_place = self.in_place;
        let (table, costs_from) = self.table()?;
        Ok(Job { shape, ranks: self.ranks, bytes, element_bytes, table, costs_from })
    }

    /// A node's ranks are one participant, unless their operands must not be combined among themselves first.
    fn participants(&self) -> u32 {
        match self.order {
            OrderName::Fixed => self.ranks,
            _ => self.nodes.unwrap_or(self.ranks),
        }
    }

    /// The costs, and where they come from.
    fn table(&self) -> Result<(CostTable, String), Failure> {
        let file = configuration::path(self.config.as_deref());
        let configured = cost_table(configuration::read(self.config.as_deref())?.costs);
        let table = CostTable {
            overhead_ns: self.overhead_ns.unwrap_or(configured.overhead_ns),
            latency_ns: self.latency_ns.unwrap_or(configured.latency_ns),
            byte_ns: self.byte_ns.unwrap_or(configured.byte_ns),
            combine_byte_ns: self.combine_byte_ns.unwrap_or(configured.combine_byte_ns),
            copy_byte_ns: self.copy_byte_ns.unwrap_or(configured.copy_byte_ns),
        };
        let from = match file {
            Some(file) if configured != CostTable::default() => file.display().to_string(),
            _ => "defaults".to_owned(),
        };
        let options = if table == configured { "" } else { ", and options" };
        Ok((table, from + options))
    }
}

fn cost(word: &str) -> Result<f64, &'static str> {
    match word.parse() {
        Ok(cost) if (0.0..1e12).contains(&cost) => Ok(cost),
        _ => Err("is not a number of nanoseconds, such as 2600 or 0.4"),
    }
}

fn help() -> String {
    let line = |(name, takes)| format!("\n  {name:<19} {takes}");
    let algorithms: String = Algorithm::names().map(line).collect();
    format!("{EXAMPLES}\nAlgorithms, and what they take after a colon:{algorithms}")
}

const EXAMPLES: &str = "\
Examples:
  ropeway explain allreduce -n 64 --nodes 8 --bytes 1M
  ropeway explain allreduce -n 8 --bytes 64 --order rank --algorithm recursive-doubling
  ropeway explain bcast -n 16 --root 3 --bytes 4M --algorithm pipelined-tree:16 --svg tree.svg
  ropeway explain allgather -n 9 --bytes 1K --algorithm bruck:2 --participant 4
  ropeway explain reduce -n 128 --bytes 8M --algorithm radix-k:4,4,8 --json
  ropeway explain allreduce -n 64 --bytes 1M --config ropewayd.toml
";

/// More would fill no screen, and take minutes.
const PARTICIPANTS_MAX: i64 = 512;
