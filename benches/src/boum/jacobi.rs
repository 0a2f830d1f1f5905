//! Jacobi's method, with messages of both kinds.

use std::time::Instant;

use ropeway::{Communicator, Error};
use ropeway_examples::jacobi::{
    AmongRanks, Exchange, Extremes, OneShot, Persistent, Settings, Solution, System, exchange_only,
    relative_difference, solve,
};
use ropeway_examples::{Mode, block};

use super::application::{Application, Computing, Run, SEED, on_average};
use super::silent::{Laps, Silent};
use super::swaps::come_apart;
use crate::{BenchError, Console};

pub(super) fn run(application: &Application, world: &Communicator, console: &mut Console) -> Result<(), BenchError> {
    let unknowns = application.size;
    let system = System::generate(unknowns, block(unknowns, world.rank(), world.size()), SEED);
    let mut computing = Computing::default();
    application.take_turns(world, console, &mut [Mode::OneShot, Mode::Persistent], |&mut mode| match mode {
        Mode::OneShot => once(application, world, &system, (mode, &mut computing), || OneShot::new(world, unknowns)),
        Mode::Persistent => {
            once(application, world, &system, (mode, &mut computing), || Persistent::new(world, unknowns))
        }
    })
}

fn once<E: Exchange<Error = Error>>(
    application: &Application,
    world: &Communicator,
    system: &System,
    (mode, computing): (Mode, &mut Computing),
    prepare: impl FnOnce() -> Result<E, Error>,
) -> Result<Run, BenchError> {
    let compute = |iterations| compute_only(world, system, iterations);
    computing.before(compute)?;
    let begin = Instant::now();
    let mut exchange = prepare()?;
    let set_up = begin.elapsed().as_secs_f64();
    world.barrier()?;
    let solution = solve(system, &mut exchange, Settings::default())?;
    application.check(relative_difference(&solution.x, &vec![1.0; system.unknowns()]), DIFFERENCE_MAX)?;
    world.barrier()?;
    come_apart(world.rank() == 0);
    exchange.maximum(Extremes::default())?;
    let communication = exchange_only(system, &mut exchange, &solution)?.as_secs_f64();
    let computation = computing.after(solution.iterations, compute)?;
    let total = on_average(world, solution.total)?;
    Ok(Run::of_solver(mode, solution.iterations as u64, [set_up, total, communication, computation]))
}

/// How many seconds ranks compute in so many iterations, and nothing else.
fn compute_only(world: &Communicator, system: &System, iterations: usize) -> Result<f64, BenchError> {
    let (_, laps) = solve_alone(world, system, iterations)?;
    Ok(laps.together()?)
}

fn solve_alone<'a>(world: &'a Communicator, system: &System, iterations: usize) -> Result<(Solution, Laps<'a>), Error> {
    let mut alone = Alone { silence: AmongRanks::new(world, system.unknowns())?, laps: Laps::new(world) };
    alone.laps.lap()?;
    // Its own part alone would be solved earlier.
    let settings = Settings { tolerance: f64::NEG_INFINITY, iterations_max: iterations };
    Ok((solve(system, &mut alone, settings)?, alone.laps))
}

/// An exchange that only looks at the clock.
struct Alone<'a> {
    silence: AmongRanks<Silent, Silent>,
    laps: Laps<'a>,
}

impl Exchange for Alone<'_> {
    type Error = Error;

    fn gather_parts(&mut self, part: &[f32], x: &mut [f32]) -> Result<(), Error> {
        self.silence.gather_parts(part, x)?;
        self.laps.lap()
    }

    fn maximum(&mut self, extremes: Extremes) -> Result<Extremes, Error> {
        self.silence.maximum(extremes)
    }
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
            assert_eq!(solve_alone(&world, &system, 60).unwrap().0.iterations, 60);
        });
    }
}
