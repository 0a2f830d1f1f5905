//! Jacobi's method, with messages of both kinds.

use std::time::Instant;

use ropeway::{Communicator, Error};
use ropeway_examples::jacobi::{
    AmongRanks, Exchange, OneShot, Persistent, Settings, Solution, System, exchange_only, relative_difference, solve,
};
use ropeway_examples::{Mode, block};

use super::application::{Application, Run, SEED};
use super::silent::Silent;
use crate::{BenchError, Console};

pub(super) fn run(application: &Application, world: &Communicator, console: &mut Console) -> Result<(), BenchError> {
    let unknowns = application.size;
    let system = System::generate(unknowns, block(unknowns, world.rank(), world.size()), SEED);
    application.take_turns(world, console, &mut [Mode::OneShot, Mode::Persistent], |&mut mode| match mode {
        Mode::OneShot => once(application, world, &system, mode, || OneShot::new(world, unknowns)),
        Mode::Persistent => once(application, world, &system, mode, || Persistent::new(world, unknowns)),
    })
}

fn once<E: Exchange<Error = Error>>(
    application: &Application,
    world: &Communicator,
    system: &System,
    mode: Mode,
    prepare: impl FnOnce() -> Result<E, Error>,
) -> Result<Run, BenchError> {
    let begin = Instant::now();
    let mut exchange = prepare()?;
    let set_up = begin.elapsed().as_secs_f64();
    world.barrier()?;
    let solution = solve(system, &mut exchange, Settings::default())?;
    application.check(relative_difference(&solution.x, &vec![1.0; system.unknowns()]), DIFFERENCE_MAX)?;
    world.barrier()?;
    let communication = exchange_only(system, &mut exchange, &solution)?.as_secs_f64();
    world.barrier()?;
    let computation = compute_only(world, system, solution.iterations)?.total.as_secs_f64();
    let (total, iterations) = (solution.total.as_secs_f64(), solution.iterations as u64);
    Ok(Run::of_solver(mode, iterations, [set_up, total, communication, computation]))
}

/// What a rank computes in so many iterations, and nothing else.
fn compute_only(world: &Communicator, system: &System, iterations: usize) -> Result<Solution, Error> {
    let mut silence = AmongRanks::<Silent, Silent>::new(world, system.unknowns())?;
    // Its own part alone would be solved earlier.
    let settings = Settings { tolerance: f64::NEG_INFINITY, iterations_max: iterations };
    solve(system, &mut silence, settings)
}

/// What the tolerance of the iteration and single precision leave.
const DIFFERENCE_MAX: f64 = 1e-4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::everybody;

    #[test]
    fn computing_alone_goes_on_when_a_part_is_solved() {
        everybody((1, 2), |world| {
            let system = System::generate(100, block(100, world.rank(), world.size()), SEED);
            assert_eq!(compute_only(&world, &system, 60).unwrap().iterations, 60);
        });
    }
}
