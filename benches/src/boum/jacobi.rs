//! Jacobi's method, with messages of both kinds.

use std::time::Instant;

use ropeway::{Communicator, Error};
use ropeway_examples::jacobi::{
    Exchange, OneShot, Persistent, Settings, System, exchange_only, relative_difference, solve,
};
use ropeway_examples::{Mode, block};

use super::application::{Application, Run, SEED};
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
    let total = solution.total.as_secs_f64();
    Ok(Run { mode, segments: 1, total, communication, set_up, global: total })
}

/// What the tolerance of the iteration and single precision leave.
const DIFFERENCE_MAX: f64 = 1e-4;
