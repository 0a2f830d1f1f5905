//! A transform by binary exchange, its messages cut in segments.

use ropeway::Communicator;
use ropeway_examples::fft::{BinaryExchange, Complex32, in_order, relative_error, signal, transform_serially};
use ropeway_examples::{Mode, block, together};

use super::application::{Application, Run, SEED};
use crate::{BenchError, Console};

pub(super) fn run(application: &Application, world: &Communicator, console: &mut Console) -> Result<(), BenchError> {
    let own = block(application.size, world.rank(), world.size());
    let points = signal(SEED, own);
    let transform = |&segments: &u32| Ok((segments, BinaryExchange::new(world, application.size, segments)?));
    let mut transforms = application.segments.iter().map(transform).collect::<Result<Vec<_>, BenchError>>()?;
    for (_, transform) in &mut transforms {
        transform.load(&points);
        transform.run()?;
        check(application, world, transform)?;
    }
    application
        .take_turns(world, console, &mut transforms, |(segments, transform)| once(world, *segments, transform, &points))
}

fn once(
    world: &Communicator,
    segments: u32,
    transform: &mut BinaryExchange,
    points: &[Complex32],
) -> Result<Run, BenchError> {
    transform.load(points);
    world.barrier()?;
    let phases = transform.run()?;
    let total = (phases.global + phases.local).as_secs_f64();
    world.barrier()?;
    let communication = transform.exchange_only()?.as_secs_f64();
    transform.load(points);
    world.barrier()?;
    let computing = transform.compute_only();
    Ok(Run {
        mode: Mode::Persistent,
        segments,
        iterations: 1,
        total,
        communication,
        computation: (computing.global + computing.local).as_secs_f64(),
        set_up: 0.0,
        global: phases.global.as_secs_f64(),
        global_computation: computing.global.as_secs_f64(),
    })
}

/// Compares with a serial transform, on rank 0.
fn check(application: &Application, world: &Communicator, transform: &BinaryExchange) -> Result<(), BenchError> {
    let points = together::gather(world, transform.points(), |rank| block(application.size, rank, world.size()).len())?;
    if world.rank() != 0 {
        return Ok(());
    }
    let reference = transform_serially(&signal(SEED, 0..application.size));
    let rounding = f64::from(f32::EPSILON) * f64::from(application.size.ilog2());
    application.check(relative_error(&in_order(&points), &reference), 4.0 * rounding)
}
