//! `ropeway demo`: the main job, with and without early binding, on one node and on two.

mod report;
mod task;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use ropeway::WaitMode;
use ropeway_examples::Mode;
use ropeway_examples::jacobi::{Settings, Solution, System, solve_serially};
use ropeway_examples::matrix_market;

use crate::bench::counted_nodes;
use crate::configuration::ConfigFlag;
use crate::failure::{Failure, print, tell};
use crate::launch::{Daemons, Events, LaunchError};
use crate::rank::Task;
use crate::run::{NODES_MAX, RANKS_MAX};
use crate::steps::{Steps, Told};
use report::{Report, Run, Speedup};
pub(crate) use task::JacobiTask;

/// Solves a dense system of equations with one-shot and with persistent messages, and shows what early binding is worth.
///
/// Jacobi's method: in each iteration every rank needs what all others have computed. Both kinds of messages take turns in one
/// job, on one node and on two. Every solution is compared with one computed serially; a wrong one gives exit status 1.
#[derive(Args)]
#[command(after_help = "\
Examples:
  ropeway demo
  ropeway demo jacobi --matrix my-system.mtx -n 3
  ropeway demo --size 1024 --nodes 2 --json

A matrix has to be square, real and strictly diagonally dominant; the file is in the Matrix Market format, coordinate or
array. The right-hand side is chosen so that the solution is all ones.")]
pub(crate) struct Flags {
    /// Which program.
    #[arg(value_enum, default_value = "jacobi")]
    program: Name,
    /// Solve the system with this matrix, a Matrix Market file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["size", "seed"])]
    matrix: Option<PathBuf>,
    /// Ranks.
    #[arg(short = 'n', long, value_name = "P", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: u32,
    /// Unknowns of the generated system.
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=1 << 15))]
    size: u32,
    /// Seed of the generated system.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// On how many nodes, one after the other [default: 1,2].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    nodes: Vec<u32>,
    /// How ranks wait: polling, blocking or adaptive.
    #[arg(long, value_name = "MODE", default_value_t = WaitMode::Adaptive)]
    wait: WaitMode,
    /// Runs of each kind [default: 25, fewer if they would take long].
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// One JSON object a line on standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlag,
    /// No progress, and no table when there is JSON.
    #[arg(short, long)]
    quiet: bool,
}

/// A program to demonstrate.
#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// Jacobi's method for a dense system.
    Jacobi,
}

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let Name::Jacobi = flags.program;
    let nodes = flags.nodes();
    if let Some(&nodes) = nodes.iter().find(|&&nodes| nodes > flags.ranks) {
        return Err(LaunchError::TooFewRanks { nodes }.into());
    }
    let events = Events::from_signals()?;
    let begin = Instant::now();
    let reference = flags.solve_serially()?;
    let runs = flags.runs.unwrap_or_else(|| affordable_runs(begin.elapsed()));
    if !flags.quiet {
        flags.config.tell()?;
    }
    let progress = flags.progress(runs * 2 * nodes.len() as u32);

    let mut reports = Vec::new();
    for nodes in nodes {
        reports.extend(flags.run_on(nodes, runs, &reference, &events, &progress)?);
    }
    progress.finish_and_clear();
    flags.show(&reports)?;
    match reports.iter().all(Report::is_correct) {
        true => Ok(()),
        false => Err(Failure::Other("a solution differs from the one computed serially".to_owned())),
    }
}

impl Flags {
    fn nodes(&self) -> Vec<u32> {
        if self.nodes.is_empty() { (1..=self.ranks.min(2)).collect() } else { self.nodes.clone() }
    }

    /// What the ranks have to find. Refuses systems that can't be solved, before anything is started.
    fn solve_serially(&self) -> Result<Solution, Failure> {
        let system = match &self.matrix {
            None => System::generate(self.size as usize, 0..self.size as usize, self.seed),
            Some(path) => {
                let matrix = matrix_market::read(path).map_err(Failure::other)?;
                let system = System::from_matrix(matrix.size, matrix.elements);
                system.map_err(|error| Failure::Other(format!("{}: {error}", path.display())))?
            }
        };
        let unknowns = system.unknowns();
        if self.ranks as usize > unknowns {
            let (ranks, most) = (self.ranks, unknowns);
            return Err(Failure::Other(format!(
                "{ranks} ranks are too many for {unknowns} unknowns: use -n {most} or less"
            )));
        }
        let solution = solve_serially(&system, Settings::default());
        match solution.converged {
            true => Ok(solution),
            false => Err(Failure::Other(format!("not solved after {} iterations", solution.iterations))),
        }
    }

    fn progress(&self, runs: u32) -> ProgressBar {
        if self.quiet {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{msg:24} [{bar:40}] {pos}/{len}").expect("the template is valid");
        ProgressBar::new(runs.into()).with_style(style.progress_chars("=> "))
    }

    /// One job, in which both kinds take turns.
    fn run_on(
        &self,
        nodes: u32,
        runs: u32,
        reference: &Solution,
        events: &Events,
        progress: &ProgressBar,
    ) -> Result<Vec<Report>, Failure> {
        let daemons = Daemons::embedded(nodes, &self.config.read()?)?;
        let task = JacobiTask { size: self.size, seed: self.seed, matrix: self.matrix.clone(), runs };
        let wait = Some(self.wait);
        let steps = Steps { task: Task::Jacobi(task), ranks: self.ranks, wait, daemons: &daemons, events };
        let (mut oneshot, mut persistent) = (Vec::new(), Vec::new());
        steps.follow(|told| {
            match told {
                Told::Step(label) => progress.set_message(format!("{}, {label}", counted_nodes(nodes))),
                Told::Outcome(solved, seen) => {
                    progress.inc(1);
                    let run = Run::judge(&solved, &seen, reference);
                    match solved.mode {
                        Mode::OneShot => oneshot.push(run),
                        Mode::Persistent => persistent.push(run),
                    }
                }
            }
            Ok(())
        })?;
        let report = |mode, runs: &[Run], speedup| {
            Report::of(mode, (self.ranks, nodes), &self.wait.to_string(), reference, runs, speedup)
        };
        let speedup = Speedup::of(&oneshot, &persistent, reference.iterations);
        Ok(vec![report(Mode::OneShot, &oneshot, None), report(Mode::Persistent, &persistent, Some(speedup))])
    }

    fn show(&self, reports: &[Report]) -> Result<(), Failure> {
        let table = report::table(reports);
        if !self.json {
            return print(&table);
        }
        let line = |report| serde_json::to_string(report).expect("reports are plain structures") + "\n";
        print(&reports.iter().map(line).collect::<String>())?;
        if !self.quiet {
            tell(table.trim_end());
        }
        Ok(())
    }
}

/// So many that all of it takes well under a minute. A parallel solve takes less time than the serial one, but not much less.
fn affordable_runs(serially: Duration) -> u32 {
    let most = TIME_FOR_RUNS.as_secs_f64() / serially.as_secs_f64() / 4.0;
    (most as u32).clamp(1, RUNS)
}

const RUNS: u32 = 25;
const TIME_FOR_RUNS: Duration = Duration::from_secs(20);
