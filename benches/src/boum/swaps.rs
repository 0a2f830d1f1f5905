//! What a message takes of a swap, in which each of two ranks sends one and receives one, as in the solvers.

use std::time::{Duration, Instant};

use ropeway::Communicator;
use ropeway_examples::Mode;
use ropeway_examples::jacobi::{OneShotSwap, PersistentSwap, Swap};

use crate::allocations::measured;
use crate::pair::Pair;
use crate::pattern;
use crate::ping_pong::WARMUP;
use crate::plan::Effort;
use crate::race::{Contestant, Entrant, take_turns};
use crate::{BenchError, Console, Measured, Plan};

/// `T_c` of both kinds of messages. A call of all ranks; `pair` is `None` in those that only look on.
pub(super) fn run(
    (world, pair): (&Communicator, Option<&Pair>),
    console: &mut Console,
    plan: &Plan,
    bytes: usize,
) -> Result<(), BenchError> {
    let two = world.split(pair.map(|_| 0), 0)?;
    let two = two.as_ref().and_then(Pair::of);
    let effort = plan.effort(PARAMETERS * MODES.len(), WARMUP);
    let entrant = |mode| {
        let make = |two: &Pair| -> Result<Box<dyn Contestant>, BenchError> {
            Ok(match mode {
                Mode::Persistent => Box::new(Swaps::<PersistentSwap<u8>>::new(two, bytes, effort)?),
                Mode::OneShot => Box::new(Swaps::<OneShotSwap<u8>>::new(two, bytes, effort)?),
            })
        };
        Entrant::new(label(mode), two.as_ref(), make)
    };
    let mut entrants = MODES.into_iter().map(entrant).collect::<Result<Vec<_>, _>>()?;
    for (mode, series) in MODES.into_iter().zip(take_turns(console, plan.runs, &mut entrants)?) {
        let Some(summary) = series.summary() else { continue };
        let found = Measured::new(MESSAGE_TIME, "us", summary, plan.runs);
        console.outcome(&label(mode), Measured { mode: Some(mode), bytes: Some(bytes), ..found })?;
    }
    Ok(())
}

fn label(mode: Mode) -> String {
    format!("{MESSAGE_TIME}, {mode}")
}

/// A sample is half the time of a swap, in microseconds.
struct Swaps<S> {
    two: Pair,
    swap: S,
    effort: Effort,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// Swaps so far, the same number on both sides.
    swaps: u64,
}

impl<S: Swap<u8>> Swaps<S> {
    fn new(two: &Pair, bytes: usize, effort: Effort) -> Result<Self, BenchError> {
        let swap = S::new(&two.world, SWAP, |_| bytes)?;
        let (outgoing, incoming) = (vec![0; bytes], vec![0; bytes]);
        Ok(Self { two: two.clone(), swap, effort, outgoing, incoming, swaps: 0 })
    }

    /// So many swaps; how long they took.
    fn swaps(&mut self, count: u64) -> Result<Duration, BenchError> {
        let Self { swap, outgoing, incoming, .. } = self;
        let mut all_right = true;
        let begin = Instant::now();
        for number in self.swaps + 1..=self.swaps + count {
            pattern::stamp(outgoing, number);
            swap.swap(outgoing, |_, theirs| incoming.copy_from_slice(theirs))?;
            all_right &= pattern::has_stamp(incoming, number);
        }
        let elapsed = begin.elapsed();
        self.swaps += count;
        if all_right { Ok(elapsed) } else { Err(self.wrong_data(0)) }
    }

    /// A batch of swaps with data of its own, which is checked afterwards.
    fn batch(&mut self, swaps: u64) -> Result<Duration, BenchError> {
        let seed = 2 * self.swaps;
        pattern::fill(&mut self.outgoing, seed + u64::from(self.two.leads));
        come_apart(self.two.leads);
        // The first one finds out that the other side is ready as well, so it does not count.
        let elapsed = measured(|| {
            self.swaps(1)?;
            self.swaps(swaps)
        })?;
        match pattern::first_wrong(&self.incoming, seed + u64::from(!self.two.leads)) {
            None => Ok(elapsed),
            Some(byte) => Err(self.wrong_data(byte)),
        }
    }

    fn wrong_data(&self, byte: usize) -> BenchError {
        BenchError::WrongData { contestant: MESSAGE_TIME.to_owned(), bytes: self.incoming.len(), byte }
    }
}

impl<S: Swap<u8>> Contestant for Swaps<S> {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        let effort = self.effort;
        let per_swap = self.batch(effort.warmup)?.as_secs_f64() / effort.warmup as f64;
        let [batches, swaps] = self.two.agree(|| effort.batches(per_swap, BATCH_S))?;
        let elapsed = (0..batches).map(|_| self.batch(swaps)).collect::<Result<Vec<_>, _>>()?;
        let us = |elapsed: Duration| elapsed.as_secs_f64() * 1e6 / (2 * swaps) as f64;
        Ok(if self.two.leads { elapsed.into_iter().map(us).collect() } else { Vec::new() })
    }
}

/// Ranks that have computed come one after the other, so that who waits in a blocking way sleeps. Then he is the late one, because waking
/// takes longer than such a wait looks before it sleeps, so it goes on like this.
pub(super) fn come_apart(is_first: bool) {
    let begin = Instant::now();
    while !is_first && begin.elapsed() < LATE {
        std::hint::spin_loop();
    }
}

/// Metric.
const MESSAGE_TIME: &str = "T_c";
const MODES: [Mode; 2] = [Mode::Persistent, Mode::OneShot];
/// It is one of so many of a size that share a second.
const PARAMETERS: usize = 4;
const SWAP: i32 = 1;
/// As long as a short program, in which some waits sleep and others do not. Long beside coming apart.
const BATCH_S: f64 = 1e-3;
/// Longer than any wait looks.
const LATE: Duration = Duration::from_micros(100);
