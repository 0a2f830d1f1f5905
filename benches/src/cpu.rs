//! CPU time of the ranks for the bytes they exchange. What the daemons need, the tool adds.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ropeway::Session;

use crate::pair::Pair;
use crate::plan::Effort;
use crate::race::{Contestant, Entrant, take_turns};
use crate::record::Side;
use crate::window::{self, Batches, Course};
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    for &size in &plan.sizes {
        run_size(pair.as_ref(), console, plan, Course::one_window(size.0, Side::Send))?;
    }
    Ok(())
}

fn run_size(pair: Option<&Pair>, console: &mut Console, plan: &Plan, course: Course) -> Result<(), BenchError> {
    let effort = plan.effort(CONTESTANTS, WARMUP);
    let usage = |pair: &Pair, batches, moved_bytes: &Rc<Cell<u64>>| -> Box<dyn Contestant> {
        Box::new(Usage { pair: pair.clone(), batches, course, effort, moved_bytes: moved_bytes.clone() })
    };
    let (mut entrants, mut moved) = (Vec::new(), Vec::new());
    for &mode in &plan.modes {
        let moved_bytes = Rc::default();
        let make = |pair: &Pair| Ok(usage(pair, window::of_messages(pair, mode, course)?, &moved_bytes));
        entrants.push(Entrant::new(mode.to_string(), pair, make)?);
        moved.push(moved_bytes);
    }
    if plan.crosses_nodes() {
        let make = |pair: &Pair| Ok(usage(pair, window::of_tcp(pair, course, plan)?, &Rc::default()));
        entrants.push(Entrant::new("floor", pair, make)?);
    }
    let series = take_turns(console, plan.runs, &mut entrants)?;
    for ((&mode, moved_bytes), of_mode) in plan.modes.iter().zip(&moved).zip(&series) {
        let Some(summary) = of_mode.summary() else { continue };
        let measured = Measured {
            mode: Some(mode),
            bytes: Some(course.bytes),
            moved_bytes: Some(moved_bytes.get()),
            floor: series.get(plan.modes.len()).and_then(|floor| of_mode.above(floor, "tcp stream")),
            ..Measured::new("client_s_per_gib", "s/GiB", summary, plan.runs)
        };
        console.outcome(&mode.to_string(), measured)?;
    }
    Ok(())
}

/// Seconds for each GiB.
pub fn s_per_gib(time: Duration, bytes: u64) -> f64 {
    time.as_secs_f64() / (bytes as f64 / GIB)
}

/// Windows of messages. A sample is the CPU time of both processes in a run, in seconds for each GiB; writing and checking
/// the data is not counted.
struct Usage {
    pair: Pair,
    batches: Box<dyn Batches>,
    course: Course,
    effort: Effort,
    /// In all runs, also those bytes that don't count here: the daemons have moved them too.
    moved_bytes: Rc<Cell<u64>>,
}

impl Contestant for Usage {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        let batch_s = window::warm_up(&mut *self.batches, self.effort)?;
        let [batches] = self.pair.agree(|| [self.effort.rounds(batch_s, 5, 100_000)])?;
        let mut used = Duration::ZERO;
        for _ in 0..batches {
            used += self.batches.batch()?.cpu;
        }
        let batch_bytes = self.course.batch_bytes() as u64;
        self.moved_bytes.set(self.moved_bytes.get() + (self.effort.warmup + batches) * batch_bytes);
        let own = s_per_gib(used, batches * batch_bytes);
        Ok(self.pair.tell([own])?.map(|[others]| own + others).into_iter().collect())
    }
}

const WARMUP: u64 = 1;
const CONTESTANTS: usize = 3;
const GIB: f64 = (1 << 30) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_divided_by_gib() {
        assert_eq!(s_per_gib(Duration::from_millis(500), 2 << 30), 0.25);
        assert_eq!(s_per_gib(Duration::from_secs(1), 1 << 29), 2.0);
    }
}
