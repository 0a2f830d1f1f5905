//! How many small messages a second go from the lower half of the ranks to the upper half, of one pair and of more at once.

use std::time::Instant;

use ropeway::{Communicator, Session};
use ropeway_examples::Mode;

use crate::pair::Pair;
use crate::plan::Effort;
use crate::race::{Contestant, Entrant, take_turns};
use crate::record::Side;
use crate::window::{self, Batches, Course, WINDOW, messages_in};
use crate::{BenchError, Console, Measured, Plan, gather};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let world = session.world();
    for &size in &plan.sizes {
        for pairs in pair_counts(world.size() / 2) {
            run_pairs(&world, console, plan, (size.0, pairs))?;
        }
    }
    Ok(())
}

/// 1, 2, 4 and so on, and all.
fn pair_counts(all: u32) -> Vec<u32> {
    let mut counts: Vec<u32> = (0..u32::BITS).map(|shift| 1 << shift).take_while(|&count| count < all).collect();
    counts.push(all);
    counts
}

fn run_pairs(
    world: &Communicator,
    console: &mut Console,
    plan: &Plan,
    (bytes, pairs): (usize, u32),
) -> Result<(), BenchError> {
    let pair = Pair::opposite(world, pairs);
    let course = course(bytes, if plan.crosses_nodes() { MESSAGES_ON_WIRE / pairs as usize } else { usize::MAX });
    let effort = plan.effort(CONTESTANTS, WARMUP);
    // Ranks that only look on take part in the meetings of all.
    let rates = |batches: Option<Box<dyn Batches>>| -> Box<dyn Contestant> {
        let leads = pair.as_ref().is_some_and(|pair| pair.leads);
        Box::new(Rates { world: world.clone(), leads, batches, course, effort })
    };
    let mut entrants = Vec::new();
    for &mode in &plan.modes {
        let batches = pair.as_ref().map(|pair| window::of_messages(pair, mode, course)).transpose()?;
        entrants.push(Entrant::of_all(label(mode, pairs), rates(batches)));
    }
    if plan.crosses_nodes() {
        let batches = pair.as_ref().map(|pair| window::of_tcp(pair, course, plan)).transpose()?;
        entrants.push(Entrant::of_all("floor", rates(batches)));
    }
    let series = take_turns(console, plan.runs, &mut entrants)?;
    for (&mode, of_mode) in plan.modes.iter().zip(&series) {
        let Some(summary) = of_mode.summary() else { continue };
        let measured = Measured {
            mode: Some(mode),
            bytes: Some(bytes),
            pairs: Some(pairs),
            window: Some(course.window),
            floor: series.get(plan.modes.len()).and_then(|floor| of_mode.above(floor, "tcp stream")),
            ..Measured::new("rate", "msg/s", summary, plan.runs)
        };
        console.outcome(&label(mode, pairs), measured)?;
    }
    Ok(())
}

fn label(mode: Mode, pairs: u32) -> String {
    if pairs == 1 { format!("{mode}, 1 pair") } else { format!("{mode}, {pairs} pairs") }
}

/// Several windows to a batch, so that pairs that begin at slightly different times still share most of it. Where they would have
/// more than so many messages, the same ones are sent again: requests that a wire does not serve would be measured on the link.
fn course(bytes: usize, messages_max: usize) -> Course {
    let one = Course::one_window(bytes, Side::Send);
    let window = one.window.min(messages_max).max(1);
    let all = (messages_in(BATCH_BYTES, bytes) / WINDOW).clamp(1, WINDOWS);
    let windows = all.min(messages_max / window).max(1);
    Course { window, windows, rounds: all / windows, ..one }
}

/// Batches of all pairs at once. A sample is the sum of their rates, in messages a second.
struct Rates {
    world: Communicator,
    leads: bool,
    /// `None` in ranks without a partner.
    batches: Option<Box<dyn Batches>>,
    course: Course,
    effort: Effort,
}

impl Rates {
    /// What all ranks that do something say of it, at rank 0.
    fn batch(&mut self) -> Result<Option<f64>, BenchError> {
        self.world.barrier()?;
        let cost = self.batches.as_mut().map(|batches| batches.batch()).transpose()?;
        let rate = cost
            .filter(|_| self.leads)
            .map(|cost| (self.course.rounds * self.course.messages()) as f64 / cost.elapsed.as_secs_f64());
        let rates = gather(&self.world, [rate.unwrap_or(0.0)])?;
        Ok(rates.map(|rates| rates.iter().map(|[rate]| rate).sum()))
    }

    /// Rank 0 says how often.
    fn agree(&self, batch_s: f64) -> Result<u64, BenchError> {
        let mut rounds = [self.effort.rounds(batch_s, 3, 100_000)];
        if self.world.rank() == 0 {
            for rank in 1..self.world.size() {
                self.world.send(&rounds, rank, ROUNDS)?;
            }
        } else {
            self.world.recv(&mut rounds, 0, ROUNDS)?;
        }
        Ok(rounds[0])
    }
}

impl Contestant for Rates {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        let begin = Instant::now();
        for _ in 0..self.effort.warmup {
            self.batch()?;
        }
        let batches = self.agree(begin.elapsed().as_secs_f64() / self.effort.warmup as f64)?;
        let mut samples = Vec::new();
        for _ in 0..batches {
            samples.extend(self.batch()?);
        }
        Ok(samples)
    }
}

const ROUNDS: i32 = 103;
const WARMUP: u64 = 1;
const CONTESTANTS: usize = 3;
/// Few enough that a wire serves them beside the channels of the last measurement.
const MESSAGES_ON_WIRE: usize = 128;
/// Memory for the messages of a batch with several windows.
const BATCH_BYTES: usize = 64 << 20;
/// Windows in a batch.
const WINDOWS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_double_up_to_all() {
        assert_eq!(pair_counts(1), [1]);
        assert_eq!(pair_counts(4), [1, 2, 4]);
        assert_eq!(pair_counts(6), [1, 2, 4, 6]);
    }

    #[test]
    fn requests_of_all_pairs_fit_on_a_wire() {
        for pairs in 1..=MESSAGES_ON_WIRE {
            let Course { window, windows, rounds, .. } = course(8, MESSAGES_ON_WIRE / pairs);
            assert!(window * windows * pairs <= MESSAGES_ON_WIRE && windows * rounds > WINDOWS / 2, "{pairs} pairs");
        }
        let course = course(8, MESSAGES_ON_WIRE);
        assert_eq!((course.window, course.windows, course.rounds), (64, 2, 8));
    }

    #[test]
    fn batches_fit_in_memory() {
        let course = |bytes| (course(bytes, usize::MAX).window, course(bytes, usize::MAX).windows);
        assert_eq!([8, 1 << 20, 1 << 30].map(course), [(64, 16), (64, 1), (1, 1)]);
    }
}
