//! How many bytes a second go from the first rank to the last, and both ways at once, in windows of many messages.

use ropeway::Session;
use ropeway_examples::Mode;

use crate::floor::Copying;
use crate::pair::Pair;
use crate::plan::Effort;
use crate::race::{Contestant, Entrant, take_turns};
use crate::record::Side;
use crate::window::{self, Batches, Course};
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    for &size in &plan.sizes {
        for side in [Side::Send, Side::Both] {
            run_one(session, console, plan, Course::one_window(size.0, side))?;
        }
    }
    Ok(())
}

fn run_one(session: &Session, console: &mut Console, plan: &Plan, course: Course) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    let effort = plan.effort(CONTESTANTS, WARMUP);
    let mut entrants = Vec::new();
    for &mode in &plan.modes {
        let make = |pair: &Pair| Ok(windows(pair, window::of_messages(pair, mode, course)?, course, effort));
        entrants.push(Entrant::new(label(mode, course.side), pair.as_ref(), make)?);
    }
    if course.side == Side::Send {
        entrants.push(Entrant::new("floor", pair.as_ref(), |pair| floor(session, pair, course, plan))?);
    }
    let series = take_turns(console, plan.runs, &mut entrants)?;
    let floor_name = if plan.crosses_nodes() { "tcp stream" } else { "memcpy" };
    for (&mode, of_mode) in plan.modes.iter().zip(&series) {
        let Some(summary) = of_mode.summary() else { continue };
        let measured = Measured {
            mode: Some(mode),
            bytes: Some(course.bytes),
            side: Some(course.side),
            window: Some(course.window),
            floor: series.get(plan.modes.len()).and_then(|floor| of_mode.above(floor, floor_name)),
            ..Measured::new("bandwidth", "MB/s", summary, plan.runs)
        };
        console.outcome(&label(mode, course.side), measured)?;
    }
    Ok(())
}

fn label(mode: Mode, side: Side) -> String {
    match side {
        Side::Both => format!("{mode}, both"),
        Side::Send | Side::Recv => mode.to_string(),
    }
}

fn floor(session: &Session, pair: &Pair, course: Course, plan: &Plan) -> Result<Box<dyn Contestant>, BenchError> {
    let effort = plan.effort(CONTESTANTS, WARMUP);
    if plan.crosses_nodes() {
        return Ok(windows(pair, window::of_tcp(pair, course, plan)?, course, effort));
    }
    Ok(Box::new(Copying::new(session, pair, course.bytes, course.window, effort.time)))
}

/// Windows one after the other. A sample is what one of them moved, in 10^6 bytes a second.
struct Windows {
    pair: Pair,
    batches: Box<dyn Batches>,
    course: Course,
    effort: Effort,
}

fn windows(pair: &Pair, batches: Box<dyn Batches>, course: Course, effort: Effort) -> Box<dyn Contestant> {
    Box::new(Windows { pair: pair.clone(), batches, course, effort })
}

impl Contestant for Windows {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        let window_s = window::warm_up(&mut *self.batches, self.effort)?;
        let [windows] = self.pair.agree(|| [self.effort.rounds(window_s, 5, 100_000)])?;
        let mut samples = Vec::new();
        for _ in 0..windows {
            let elapsed = self.batches.batch()?.elapsed;
            if self.pair.leads {
                samples.push(self.course.batch_bytes() as f64 / elapsed.as_secs_f64() / 1e6);
            }
        }
        Ok(samples)
    }
}

const WARMUP: u64 = 1;
const CONTESTANTS: usize = 3;
