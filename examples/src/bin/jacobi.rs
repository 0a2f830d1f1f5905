//! Solves a dense system by Jacobi's method, as a rank of a job.
//!
//! `ropeway run -n 4 -- target/release/jacobi --size 2048 --mode persistent`
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ropeway::{Communicator, Error};
use ropeway_examples::jacobi::{
    NotDominant, OneShot, Persistent, Settings, Solution, System, relative_difference, solve,
};
use ropeway_examples::matrix_market::{self, ReadError};
use ropeway_examples::{Mode, block};

/// Solves a dense, diagonally dominant system whose solution is all ones.
#[derive(Parser)]
#[command(version, after_help = "Start it with: ropeway run -n 4 -- jacobi --size 2048 --mode persistent")]
struct Flags {
    /// Unknowns of the generated system.
    #[arg(long, default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..=1 << 15))]
    size: u32,
    /// Seed of the generated system.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Solve the matrix in this Matrix Market file instead.
    #[arg(long, value_name = "FILE")]
    matrix: Option<PathBuf>,
    /// How to communicate: oneshot or persistent.
    #[arg(long, default_value_t = Mode::Persistent)]
    mode: Mode,
    /// Solved when no element changes by more than this, relative to the largest one.
    #[arg(long, default_value_t = Settings::default().tolerance)]
    tolerance: f64,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Ropeway(#[from] Error),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    #[error(transparent)]
    NotDominant(#[from] NotDominant),
    #[error("{ranks} ranks are too many for {unknowns} unknowns; use at most -n {unknowns}")]
    TooManyRanks { ranks: u32, unknowns: usize },
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("jacobi: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the system could be solved.
fn run(flags: &Flags) -> Result<bool, Failure> {
    let session = ropeway::init()?;
    let world = session.world();
    let system = my_rows(flags, &world)?;
    let settings = Settings { tolerance: flags.tolerance, ..Settings::default() };
    let unknowns = system.unknowns();
    let solution = match flags.mode {
        Mode::OneShot => solve(&system, &mut OneShot::new(&world, unknowns)?, settings)?,
        Mode::Persistent => solve(&system, &mut Persistent::new(&world, unknowns)?, settings)?,
    };
    if world.rank() == 0 {
        report(&solution);
    }
    Ok(solution.converged)
}

fn my_rows(flags: &Flags, world: &Communicator) -> Result<System, Failure> {
    let (rank, ranks) = (world.rank(), world.size());
    let whole = match &flags.matrix {
        None => None,
        Some(path) => {
            let matrix = matrix_market::read(path)?;
            Some(System::from_matrix(matrix.size, matrix.elements)?)
        }
    };
    let unknowns = whole.as_ref().map_or(flags.size as usize, System::unknowns);
    if ranks as usize > unknowns {
        return Err(Failure::TooManyRanks { ranks, unknowns });
    }
    let rows = block(unknowns, rank, ranks);
    Ok(match whole {
        None => System::generate(unknowns, rows, flags.seed),
        Some(system) => system.block(rows),
    })
}

fn report(solution: &Solution) {
    let error = relative_difference(&solution.x, &vec![1.0; solution.x.len()]);
    let outcome = if solution.converged { "solved" } else { "not solved" };
    println!("{outcome} after {} iterations, largest error {error:.1e}", solution.iterations);
    let (total, communication) = (solution.total.as_secs_f64(), solution.communication.as_secs_f64());
    println!("{:.2} ms, {:.2} ms of it communication", total * 1e3, communication * 1e3);
}
