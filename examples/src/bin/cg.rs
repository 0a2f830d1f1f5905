//! Solves a sparse system by conjugate gradients, as a rank of a job.
//!
//! `ropeway run -n 4 -- target/release/cg --grid 256`
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ropeway::{Communicator, Error};
use ropeway_examples::cg::{
    AmongRanks, NotSymmetric, Outcome, Rows, Settings, Solution, SparseRows, relative_difference, solve, solve_serially,
};
use ropeway_examples::matrix_market::{self, ReadError, SparseMatrix};
use ropeway_examples::{Table, Variant, block, together};
use serde::Serialize;

/// Solves a sparse, symmetric, positive definite system whose solution is all ones, and compares with a serial solver.
///
/// In each iteration all ranks need all of one vector, and the sums of two scalar products. The overlapped variant
/// computes what it can while they travel; both variants find the same solution to the bit.
#[derive(Parser)]
#[command(version, after_help = "Start it with: ropeway run -n 4 -- cg --grid 256")]
struct Flags {
    /// Solve Poisson's equation on a grid of SIDE by SIDE points.
    #[arg(long, value_name = "SIDE", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=1 << 13))]
    grid: u32,
    /// Solve the matrix in this Matrix Market file instead.
    #[arg(long, value_name = "FILE")]
    matrix: Option<PathBuf>,
    /// Whether to compute while a collective runs.
    #[arg(long, value_delimiter = ',', default_value = "blocking,overlapped")]
    variant: Vec<Variant>,
    /// Solved when the residual is not larger than this, relative to the right-hand side.
    #[arg(long, default_value_t = 1e-10)]
    tolerance: f64,
    /// Iterations after which to give up.
    #[arg(long, default_value_t = 10_000)]
    iterations_max: usize,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// What has become of a variant. Times in milliseconds, means of all ranks.
#[derive(Serialize)]
struct Report {
    variant: Variant,
    ranks: u32,
    unknowns: usize,
    iterations: usize,
    /// Of the gathered x, relative to the right-hand side.
    residual: f64,
    /// To the serial solution, relative to its length.
    difference: f64,
    total_ms: f64,
    products_ms: f64,
    vectors_ms: f64,
    allgather_ms: f64,
    allreduce_ms: f64,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Ropeway(#[from] Error),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    #[error(transparent)]
    NotSymmetric(#[from] NotSymmetric),
    #[error("{ranks} ranks are too many for {unknowns} unknowns; use at most -n {unknowns}")]
    TooManyRanks { ranks: u32, unknowns: usize },
    #[error(
        "not solved within {iterations} iterations, the residual is {residual:.1e}; allow more with --iterations-max"
    )]
    GaveUp { iterations: usize, residual: f64 },
    #[error(
        "the matrix is not positive definite, as was found in iteration {iteration}; conjugate gradients need it to be"
    )]
    NotPositiveDefinite { iteration: usize },
    #[error("{variant}: the residual should be at most {tolerance:.1e}, but is {residual:.1e}")]
    Wrong { variant: Variant, tolerance: f64, residual: f64 },
    #[error("the variants have different solutions")]
    VariantsDiffer,
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cg: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<(), Failure> {
    let session = ropeway::init()?;
    let world = session.world();
    let system = Source::open(flags)?;
    let (unknowns, ranks) = (system.unknowns(), world.size());
    if ranks as usize > unknowns {
        return Err(Failure::TooManyRanks { ranks, unknowns });
    }
    let own = block(unknowns, world.rank(), ranks);
    let rows = Rows::new(&system.rows(own.clone())?, own);
    let settings = Settings { tolerance: flags.tolerance, iterations_max: flags.iterations_max };
    let mut solved = Vec::new();
    for &variant in &flags.variant {
        let mut exchange = AmongRanks::new(&world, unknowns, variant)?;
        let solution = solve(&rows, &mut exchange, settings)?;
        match solution.outcome {
            Outcome::Converged => {}
            Outcome::GaveUp => {
                let Solution { iterations, residual, .. } = solution;
                return Err(Failure::GaveUp { iterations, residual });
            }
            Outcome::NotPositiveDefinite => {
                return Err(Failure::NotPositiveDefinite { iteration: solution.iterations + 1 });
            }
        }
        solved.push((variant, collect(&world, unknowns, &solution, &exchange)?));
    }
    if world.rank() == 0 { judge(flags, &system, ranks, settings, &solved) } else { Ok(()) }
}

/// Where the matrix comes from.
enum Source {
    Poisson(usize),
    File(SparseMatrix),
}

impl Source {
    fn open(flags: &Flags) -> Result<Self, ReadError> {
        match &flags.matrix {
            None => Ok(Self::Poisson(flags.grid as usize)),
            Some(path) => matrix_market::read_sparse(path).map(Self::File),
        }
    }

    fn unknowns(&self) -> usize {
        match self {
            Self::Poisson(side) => side * side,
            Self::File(matrix) => matrix.size,
        }
    }

    fn rows(&self, rows: std::ops::Range<usize>) -> Result<SparseRows, NotSymmetric> {
        match self {
            Self::Poisson(side) => Ok(SparseRows::poisson(*side, rows)),
            Self::File(matrix) => SparseRows::from_matrix(matrix, rows),
        }
    }
}

/// What rank 0 gets to know of a solution: all of x, and times in milliseconds.
struct Collected {
    x: Vec<f64>,
    iterations: usize,
    times_ms: Vec<f64>,
}

fn collect(
    world: &Communicator,
    unknowns: usize,
    solution: &Solution,
    exchange: &AmongRanks,
) -> Result<Collected, Error> {
    let times = solution.times;
    let times = [times.total, times.products, times.vectors, exchange.gathering, exchange.summing];
    let times_ms = together::mean(world, &times.map(|time| time.as_secs_f64() * 1e3))?;
    let x = together::gather(world, &solution.x, |rank| block(unknowns, rank, world.size()).len())?;
    Ok(Collected { x, iterations: solution.iterations, times_ms })
}

/// Prints what was found, and says what is wrong with it.
fn judge(
    flags: &Flags,
    system: &Source,
    ranks: u32,
    settings: Settings,
    solved: &[(Variant, Collected)],
) -> Result<(), Failure> {
    let unknowns = system.unknowns();
    let matrix = system.rows(0..unknowns)?;
    let serial = solve_serially(&matrix, settings);
    let mut reports = Vec::new();
    for (variant, Collected { x, iterations, times_ms }) in solved {
        let [total_ms, products_ms, vectors_ms, allgather_ms, allreduce_ms] = times_ms[..] else {
            unreachable!("as many times as were collected")
        };
        reports.push(Report {
            variant: *variant,
            ranks,
            unknowns,
            iterations: *iterations,
            residual: matrix.residual(x),
            difference: relative_difference(x, &serial.x),
            total_ms,
            products_ms,
            vectors_ms,
            allgather_ms,
            allreduce_ms,
        });
    }
    if flags.json {
        print_json(&reports)
    } else {
        print_table(&reports)
    }
    // The iteration only follows the residual, and drifts from it by rounding.
    let tolerance = (10.0 * settings.tolerance).max(1e-13);
    let is_wrong = |report: &&Report| report.residual > tolerance || report.residual.is_nan();
    if let Some(&Report { variant, residual, .. }) = reports.iter().find(is_wrong) {
        return Err(Failure::Wrong { variant, tolerance, residual });
    }
    let all_same = solved.iter().all(|(_, one)| one.x == solved[0].1.x);
    if all_same { Ok(()) } else { Err(Failure::VariantsDiffer) }
}

fn print_json(reports: &[Report]) {
    for report in reports {
        println!("{}", serde_json::to_string(report).expect("numbers and names can be written"));
    }
}

fn print_table(reports: &[Report]) {
    let mut table = Table::new(&["ms", "total", "products", "vectors", "allgather", "allreduce"]);
    for report in reports {
        println!(
            "{}: {} unknowns, {} iterations, residual {:.1e}, {:.1e} from the serial solution",
            report.variant, report.unknowns, report.iterations, report.residual, report.difference
        );
        let times = [report.total_ms, report.products_ms, report.vectors_ms, report.allgather_ms, report.allreduce_ms];
        let cells = times.iter().map(|time| format!("{time:.2}"));
        table.push([report.variant.to_string()].into_iter().chain(cells).collect());
    }
    print!("{table}");
}
