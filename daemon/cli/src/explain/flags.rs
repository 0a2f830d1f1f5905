//! What `ropeway explain` can be asked.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use ropeway_bench::{CollectiveCall, Operation, Size};
use ropeway_daemon::config::{self, cost_table};
use ropeway_daemon::schedules;
use ropeway_proto::division::Operands;
use ropeway_schedule::form::Form;
use ropeway_schedule::{Algorithm, CostTable, Shape};

use crate::configuration;
use crate::division::{OperatorKind, between_nodes, places};
use crate::failure::Failure;
use crate::run::RANKS_MAX;
use crate::words::one_of;

/// Says which algorithm a collective between nodes would get, what each candidate would cost, and what each participant does.
///
/// Nothing runs: collectives are divided between nodes, and schedules made and checked, as daemons do it for programs. The costs are those that
/// the daemon of this machine is configured to, as the first node of a job. Within a node ranks meet in its memory and need no schedule, so that a node's ranks are
/// one participant; with as many nodes as ranks every rank is.
///
/// What goes between neighbours, in the grid that ropeway bench coll --help describes, are messages of persistent channels from rank to rank,
/// and no schedule of nodes: every rank is a participant, and it is counted what goes between nodes.
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
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    nodes: Option<u32>,
    /// Bytes: of the vector (bcast, reductions, scans), of each rank's block (gather, scatter, both allgathers, reduce-scatter), or
    /// of the block for each rank (alltoall) or neighbour (neighbor-alltoall), with suffixes K, M, G for powers of 1024 [default: 8].
    #[arg(long, value_name = "SIZE", value_parser = size_or_none)]
    bytes: Option<Size>,
    /// Bytes of an element; vectors are cut between elements [default: 8].
    #[arg(long, value_name = "SIZE")]
    element_bytes: Option<Size>,
    /// Parts of different lengths, as gatherv, scatterv, allgatherv, alltoallv and reduce_scatter are called with: in proportion to 1, 2, 3 …, and
    /// --bytes on average, as ropeway bench coll --uneven measures.
    #[arg(long)]
    uneven: bool,
    /// The rank that sends, or gets the result [default: 0].
    #[arg(long, value_name = "RANK")]
    root: Option<u32>,
    /// What reductions combine by [default: predefined].
    #[arg(long, value_enum)]
    operator: Option<OperatorKind>,
    /// Show this algorithm, whatever the choice would be.
    #[arg(long, value_name = "A")]
    pub(super) algorithm: Option<Algorithm>,
    /// Show the schedules as devices need them that can only send, receive and wait: eager, in messages of at most a vector or block as
    /// given by --bytes, or rendezvous, each announced by its receiver. Daemons need neither.
    #[arg(long, value_enum)]
    pub(super) form: Option<FormName>,
    /// List everybody's tasks, as for a network card that progresses collectives by itself, instead of one participant's steps.
    #[arg(long, conflicts_with_all = ["json", "participant"])]
    pub(super) tasks: bool,
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
pub(super) enum FormName {
    Eager,
    Rendezvous,
}

/// A collective of a job.
pub(super) struct Job {
    pub(super) operation: Operation,
    /// What participants do: what happens of it between the nodes, or between neighbours.
    pub(super) shape: Shape,
    /// What comes together uncombined.
    pub(super) operands: Option<Operands>,
    pub(super) ranks: u32,
    pub(super) nodes: u32,
    /// Whether daemons do it once only, and then messages go straight from rank to rank.
    pub(super) goes_straight: bool,
    /// The node of each participant.
    pub(super) places: Vec<u16>,
    /// What was given as bytes.
    pub(super) bytes: u64,
    /// Whether that is an average.
    pub(super) is_uneven: bool,
    pub(super) element_bytes: u64,
    pub(super) table: CostTable,
    /// Where the costs come from.
    pub(super) costs_from: String,
}

impl Flags {
    pub(super) fn job(&self) -> Result<Job, Failure> {
        let nodes = self.nodes.unwrap_or(self.ranks);
        self.check_participants(nodes)?;
        self.check_arguments()?;
        let size = |given: Option<Size>| given.unwrap_or(Size(8)).0;
        let (bytes, element_bytes) = (size(self.bytes) as u64, size(self.element_bytes));
        // Sizes are at most 1 GiB.
        let (count, element_bytes) = (bytes / element_bytes as u64, element_bytes as u32);
        if !bytes.is_multiple_of(element_bytes.into()) {
            return Err(Failure::Usage(format!(
                "{bytes} bytes are not a whole number of elements of {element_bytes}: see --element-bytes"
            )));
        }
        let call = CollectiveCall { root: self.root.unwrap_or(0), ..CollectiveCall::of(self.operation) };
        let call = if self.uneven { call.uneven() } else { call };
        let operator = self.operator.unwrap_or(OperatorKind::Predefined);
        let is_named = self.algorithm.is_some();
        let between = between_nodes(call, operator, (self.ranks, nodes), (count, element_bytes), is_named);
        let (shape, operands, goes_straight) = between.map_or_else(
            || (call.shape(self.ranks, count as usize), None, false),
            |between| (schedules::shape(&between.shape), between.operands, between.goes_straight),
        );
        let (table, costs_from) = self.table()?;
        Ok(Job {
            operation: self.operation,
            // Calls that name an algorithm are left to daemons.
            goes_straight,
            places: places(shape.size, nodes),
            shape,
            operands,
            ranks: self.ranks,
            nodes,
            bytes,
            is_uneven: call.is_uneven,
            element_bytes: element_bytes.into(),
            table,
            costs_from,
        })
    }

    /// The form to show, for vectors or blocks of so many elements.
    pub(super) fn form(&self, count: u64) -> Option<Form> {
        Some(match self.form? {
            FormName::Eager => Form::Eager { block: count.max(1) },
            FormName::Rendezvous => Form::Rendezvous,
        })
    }

    fn check_participants(&self, nodes: u32) -> Result<(), Failure> {
        let refuse = |why: String| Err(Failure::Usage(why));
        if nodes > self.ranks {
            return refuse(format!(
                "{nodes} nodes for {} ranks: each node needs one, so --nodes is at most -n",
                self.ranks
            ));
        }
        let (participants, instead) = if self.operation.has_neighbors() {
            (self.ranks, "take fewer with -n")
        } else {
            (nodes, "put several ranks on a node with --nodes")
        };
        if participants > PARTICIPANTS_MAX {
            return refuse(format!(
                "{participants} participants are too many to show, at most {PARTICIPANTS_MAX}: {instead}"
            ));
        }
        if self.participant >= participants {
            let last = participants - 1;
            return refuse(format!("participant {} does not exist: name one of 0 to {last}", self.participant));
        }
        match &self.algorithm {
            Some(algorithm) if algorithm.is_among_ranks() && participants < self.ranks => {
                refuse(format!("{algorithm} is for ranks, and nodes are the participants here: leave --nodes out"))
            }
            _ => Ok(()),
        }
    }

    /// Each argument that was given has to mean something.
    fn check_arguments(&self) -> Result<(), Failure> {
        let (operation, ranks) = (self.operation, self.ranks);
        let refuse = |why: String| Err(Failure::Usage(why));
        match self.root {
            Some(_) if !operation.has_root() => refuse(format!("{operation} has no root: leave --root out")),
            Some(root) if root >= ranks => {
                refuse(format!("root {root} does not exist among {ranks} ranks: name one of 0 to {}", ranks - 1))
            }
            _ if self.operator.is_some() && !operation.combines() => {
                refuse(format!("{operation} combines nothing: leave --operator out"))
            }
            _ if self.uneven && !operation.has_parts() => {
                refuse(format!("{operation} has no part for each rank: leave --uneven out"))
            }
            _ if self.uneven && operation.has_neighbors() => refuse(format!(
                "channels between neighbours are the same for parts of any length: leave --uneven out of {operation}"
            )),
            _ if operation == Operation::Barrier && (self.bytes.is_some() || self.element_bytes.is_some()) => {
                refuse("a barrier has no size: leave --bytes and --element-bytes out".into())
            }
            _ => Ok(()),
        }
    }

    /// The costs, and where they come from.
    fn table(&self) -> Result<(CostTable, String), Failure> {
        let file = config::path(self.config.as_deref());
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

/// Counts of zero are legal.
fn size_or_none(word: &str) -> Result<Size, String> {
    if word == "0" { Ok(Size(0)) } else { word.parse().map_err(|error: <Size as FromStr>::Err| error.to_string()) }
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
  ropeway explain allreduce -n 8 --bytes 64 --operator reproducible --algorithm linear-pipeline:4
  ropeway explain bcast -n 16 --root 3 --bytes 4M --algorithm pipelined-tree:16 --svg tree.svg
  ropeway explain allgather -n 9 --bytes 1K --algorithm bruck:2 --participant 4
  ropeway explain allgather -n 8 --algorithm standard-exchange:1 --form eager --tasks
  ropeway explain reduce -n 128 --bytes 8M --algorithm radix-k:4,4,8 --json
  ropeway explain alltoall -n 8 --nodes 4 --bytes 4K --uneven
  ropeway explain neighbor-alltoall -n 16 --nodes 4 --bytes 64K
  ropeway explain allreduce -n 64 --bytes 1M --config ropewayd.toml
";

/// More would fill no screen, and take minutes.
const PARTICIPANTS_MAX: u32 = 512;
