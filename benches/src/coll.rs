//! A collective: how long it takes all ranks together, how much of it hides behind computation, and what its start costs.

use ropeway::{Communicator, Session};
use ropeway_examples::Mode;

use crate::computation::Compute;
use crate::hiding::Hiding;
use crate::joint::Joint;
use crate::method::{Division, Method};
use crate::operation::CollectiveCall;
use crate::record::Floor;
use crate::starts::{Arrival, Place, Row, Starts, TWO_LINES};
use crate::statistics::Summary;
use crate::timetable::Timetable;
use crate::together::Means;
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

/// All methods and all forms of the call take turns.
fn run_one(
    console: &mut Console,
    plan: &Plan,
    world: &Communicator,
    call: CollectiveCall,
    bytes: usize,
) -> Result<(), BenchError> {
    let contestants = plan.forms().count() * MEASUREMENTS_MAX;
    let entrant = |(method, mode): (&Method, Mode)| {
        let method = method.decided(call, world.size(), bytes);
        Entrant::new(world, plan, contestants, Case { method, mode, call, bytes })
    };
    let mut entrants: Vec<_> = plan.forms().map(entrant).collect::<Result<_, _>>()?;
    for _ in 0..plan.runs {
        entrants.iter_mut().try_for_each(|entrant| entrant.run(console))?;
    }
    entrants.iter().try_for_each(|entrant| entrant.tell(console, plan))
}

/// What is called, in which form, and how it is done.
struct Case {
    method: Method,
    mode: Mode,
    call: CollectiveCall,
    bytes: usize,
}

impl Case {
    fn label(&self) -> String {
        format!("{}, {}", self.mode, self.method.division)
    }

    fn label_with(&self, compute: Compute) -> String {
        format!("{}, {compute}", self.label())
    }

    fn start_label(&self, arrival: Arrival) -> String {
        format!("{}, start {arrival}", self.label())
    }
}

/// A case, and what has been found of it.
struct Entrant {
    case: Case,
    joint: Joint,
    timetable: Timetable,
    samples: Vec<f64>,
    hidings: [(Compute, Hiding); 2],
    /// Of what starts by a call of its own that does not wait: what Ropeway itself does, registered.
    starts: Option<Starts>,
    start_ns: [(Arrival, Vec<Row>); 2],
}

impl Entrant {
    fn new(world: &Communicator, plan: &Plan, contestants: usize, case: Case) -> Result<Self, BenchError> {
        let effort = plan.effort(contestants, WARMUP);
        let Case { method, mode, call, bytes } = &case;
        let has_start = method.division == Division::TwoLevel && *mode == Mode::Persistent;
        let starts = has_start.then(|| Starts::new(world, method, (*call, *bytes), effort)).transpose()?;
        Ok(Self {
            joint: Joint::new(world, Means::Ropeway(method, *mode), *call, *bytes)?,
            case,
            timetable: Timetable::new(effort),
            samples: Vec::new(),
            hidings: Compute::ALL
                .map(|compute| (compute, Hiding::new(compute, plan.effort(contestants, Hiding::WARMUP)))),
            starts,
            start_ns: Arrival::ALL.map(|arrival| (arrival, Vec::new())),
        })
    }

    fn run(&mut self, console: &mut Console) -> Result<(), BenchError> {
        let Self { case, joint, timetable, samples, hidings, starts, start_ns } = self;
        samples.extend(console.step(&case.label(), || timetable.measure(joint))?);
        for (compute, hiding) in hidings {
            console.step(&case.label_with(*compute), || hiding.measure(joint))?;
        }
        if let Some(starts) = starts {
            for (arrival, samples) in start_ns {
                samples.extend(console.step(&case.start_label(*arrival), || starts.measure(*arrival))?);
            }
        }
        Ok(())
    }

    fn tell(&self, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
        // Only rank 0 has something to tell.
        if self.samples.is_empty() {
            return Ok(());
        }
        let Case { method, mode, call, bytes } = &self.case;
        let measured = |metric: &str, unit, samples: &[f64]| Measured {
            mode: Some(*mode),
            bytes: (*bytes > 0).then_some(*bytes),
            collective: Some(*call),
            division: Some(method.division),
            algorithm: method.algorithm.clone(),
            progress: Some(method.division.progress()),
            ..Measured::new(metric, unit, Summary::in_unit(unit, samples), plan.runs)
        };
        let missed = Some(self.timetable.missed());
        let latency = Measured { missed, ..measured("latency", "us", &self.samples) };
        console.outcome(&self.case.label(), latency)?;
        for (compute, hiding) in &self.hidings {
            let d_o = Measured { compute: Some(*compute), ..measured("d_o", "ratio", hiding.batches.d_o()) };
            console.outcome(&self.case.label_with(*compute), d_o)?;
        }
        for (arrival, rows) in self.start_ns.iter().filter(|(_, rows)| !rows.is_empty()) {
            let floors: Vec<_> = rows.iter().map(|row| row.floor).collect();
            for place in Place::ALL {
                let samples: Vec<_> = rows.iter().map(|row| row.places[place as usize]).collect();
                let floor = Floor::of_times(TWO_LINES, Summary::of(&floors).median, &samples);
                let start = Measured {
                    arrival: Some(*arrival),
                    floor: (place == Place::Following).then_some(floor),
                    ..measured(&place.to_string(), "ns", &samples)
                };
                console.outcome(&self.case.start_label(*arrival), start)?;
            }
        }
        Ok(())
    }
}

/// The latency, two kinds of computation, and the first and the last to start.
const MEASUREMENTS_MAX: usize = 5;
const WARMUP: u64 = 10;
