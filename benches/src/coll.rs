//! A collective: how long it takes all ranks together, and how much of it hides behind computation.

use ropeway::{Communicator, Session};
use ropeway_examples::Mode;

use crate::computation::Compute;
use crate::hiding::Hiding;
use crate::joint::Joint;
use crate::operation::CollectiveCall;
use crate::statistics::Summary;
use crate::timetable::Timetable;
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let world = session.world();
    for &call in &plan.collectives {
        for size in call.sizes(&plan.sizes) {
            run_one(console, plan, &world, call, size.0)?;
        }
    }
    Ok(())
}

/// All forms of the call take turns.
fn run_one(
    console: &mut Console,
    plan: &Plan,
    world: &Communicator,
    call: CollectiveCall,
    bytes: usize,
) -> Result<(), BenchError> {
    let entrant = |&mode| Entrant::new(world, plan, mode, call, bytes);
    let mut entrants: Vec<_> = plan.modes.iter().map(entrant).collect::<Result<_, _>>()?;
    for _ in 0..plan.runs {
        entrants.iter_mut().try_for_each(|entrant| entrant.run(console))?;
    }
    entrants.iter().try_for_each(|entrant| entrant.tell(console, plan))
}

/// A form of the call, and what has been found of it.
struct Entrant {
    mode: Mode,
    call: CollectiveCall,
    bytes: usize,
    joint: Joint,
    timetable: Timetable,
    samples: Vec<f64>,
    hidings: [(Compute, Hiding); 2],
}

impl Entrant {
    fn new(
        world: &Communicator,
        plan: &Plan,
        mode: Mode,
        call: CollectiveCall,
        bytes: usize,
    ) -> Result<Self, BenchError> {
        let contestants = plan.modes.len() * MEASUREMENTS;
        Ok(Self {
            mode,
            call,
            bytes,
            joint: Joint::new(world, plan, mode, call, bytes)?,
            timetable: Timetable::new(plan.effort(contestants, WARMUP)),
            samples: Vec::new(),
            hidings: Compute::ALL.map(|compute| (compute, Hiding::new(compute, plan, contestants))),
        })
    }

    fn run(&mut self, console: &mut Console) -> Result<(), BenchError> {
        let Self { mode, joint, timetable, samples, hidings, .. } = self;
        samples.extend(console.step(&mode.to_string(), || timetable.measure(joint))?);
        for (compute, hiding) in hidings {
            console.step(&label(*mode, *compute), || hiding.measure(joint))?;
        }
        Ok(())
    }

    fn tell(&self, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
        // Only rank 0 has something to tell.
        if self.samples.is_empty() {
            return Ok(());
        }
        let measured = |metric, unit, samples| Measured {
            mode: Some(self.mode),
            bytes: (self.bytes > 0).then_some(self.bytes),
            collective: Some(self.call),
            ..Measured::new(metric, unit, Summary::of(samples), plan.runs)
        };
        let missed = Some(self.timetable.missed());
        let latency = Measured { missed, ..measured("latency", "us", &self.samples) };
        console.outcome(&self.mode.to_string(), latency)?;
        for (compute, hiding) in &self.hidings {
            let d_o = Measured { compute: Some(*compute), ..measured("d_o", "", hiding.batches.d_o()) };
            console.outcome(&label(self.mode, *compute), d_o)?;
        }
        Ok(())
    }
}

fn label(mode: Mode, compute: Compute) -> String {
    format!("{mode}, {compute}")
}

/// The latency, and two kinds of computation.
const MEASUREMENTS: usize = 3;
const WARMUP: u64 = 10;
