//! The programs that the model is compared with, as ranks run them.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use ropeway::{Communicator, Operator};
use ropeway_examples::Mode;
use serde::{Deserialize, Serialize};

use super::workload::Messages;
use super::{cg, fft, jacobi};
use crate::{BenchError, Console, cores, gather};

/// A program, its size, and how often to run it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Application {
    /// Which one.
    pub algorithm: Algorithm,
    /// Unknowns or points.
    pub size: usize,
    /// Numbers of segments to cut the messages of a transform in; they take turns. The solvers have one.
    pub segments: Vec<u32>,
    /// Runs of each kind; more if they are over soon.
    pub runs: u32,
}

/// A parallel algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// Jacobi's method for a dense system: everybody's part of x to everybody, and two numbers to know whether to go on.
    Jacobi,
    /// Conjugate gradients for a dense system: everybody's part of a vector to everybody, and two sums.
    Cg,
    /// A transform by binary exchange: all points with one partner, log p times.
    Fft,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Jacobi, Self::Cg, Self::Fft];

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jacobi => "jacobi",
            Self::Cg => "cg",
            Self::Fft => "fft",
        }
    }

    /// f(n): what all ranks together compute, k·n² (3.17, 3.24) or n·log n (3.36) operations.
    pub fn operations(self, size: usize, iterations: u64) -> f64 {
        let size = size as f64;
        match self {
            Self::Jacobi | Self::Cg => iterations as f64 * size * size,
            Self::Fft => size * size.log2(),
        }
    }

    /// What each of so many ranks sends and receives in an iteration, by (3.18) and (3.38).
    ///
    /// The small messages by which solvers know whether to go on are counted too. Transforms work in their buffers.
    pub fn messages(self, size: usize, ranks: u32) -> Vec<Messages> {
        let others = u64::from(ranks) - 1;
        let part = |element_bytes: usize| size.div_ceil(ranks as usize) * element_bytes;
        let in_swaps = self != Self::Fft;
        let messages = |bytes, count| Messages { bytes, count, in_swaps };
        match self {
            Self::Jacobi => vec![messages(part(4), 2 * others), messages(16, 2 * others)],
            Self::Cg => vec![messages(part(8), 2 * others), messages(8, 4 * others)],
            Self::Fft => vec![messages(part(POINT_BYTES), ranks.ilog2().into())],
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that is not an [`Algorithm`].
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("is none of jacobi, cg and fft")]
pub struct UnknownAlgorithm;

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(word: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == word).ok_or(UnknownAlgorithm)
    }
}

/// One run of a program, all ranks together. Times in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Kind of its messages.
    pub mode: Mode,
    /// Pieces its messages are cut in.
    pub segments: u32,
    /// How often it did the same; a transform once.
    pub iterations: u64,
    /// From the beginning of the first iteration to the end of the last: of a solver on average, of a transform that of the slowest rank.
    pub total: f64,
    /// The same messages once more without computing, so that nobody waits for a rank that computes; on average.
    pub communication: f64,
    /// The same computing without messages, all ranks at once: of solvers, before and after, on average, what the slowest rank takes from
    /// each exchange to the next; of a transform, what the slowest one takes.
    pub computation: f64,
    /// Before the first iteration: what it takes to prepare all messages; on average.
    pub set_up: f64,
    /// The part of the total in which ranks need each other, of the slowest one.
    pub global: f64,
    /// The part of the computation in which they do.
    pub global_computation: f64,
}

impl Application {
    /// Does a rank's part of all runs, on a core of its own, and tells the tool of each.
    ///
    /// Ranks that poll are always busy, so the kernel may leave two of them on one core for the whole of a short program.
    pub fn run(&self, world: &Communicator, console: &mut Console) -> Result<(), BenchError> {
        cores::pin(world.rank())?;
        match self.algorithm {
            Algorithm::Jacobi => jacobi::run(self, world, console),
            Algorithm::Cg => cg::run(self, world, console),
            Algorithm::Fft => fft::run(self, world, console),
        }
    }

    /// Runs all `ways` in turns. The first of each only warms up. Short programs run more often: how
    /// often ranks fall asleep in their few messages is a matter of chance.
    pub(super) fn take_turns<W>(
        &self,
        world: &Communicator,
        console: &mut Console,
        ways: &mut [W],
        mut once: impl FnMut(&mut W) -> Result<Run, BenchError>,
    ) -> Result<(), BenchError> {
        let (begin, time_min) = (Instant::now(), self.runs * TIME_PER_RUN);
        // A rank alone has no messages, and its runs differ by little.
        let is_short = || world.size() > 1 && begin.elapsed() < time_min;
        for run in 0.. {
            if run > self.runs && !as_root_says(world, is_short())? {
                break;
            }
            for way in &mut *ways {
                let warmup = if run == 0 { ", warm-up" } else { "" };
                let label = format!("{} {}{warmup}", self.algorithm, self.size);
                let mine = console.step(&label, || once(way))?;
                if let Some(together) = mine.together(world)?.filter(|_| run > 0) {
                    console.outcome(&label, together)?;
                }
            }
        }
        Ok(())
    }

    /// An error if a result is further from the right one than it may be.
    pub(super) fn check(&self, difference: f64, most: f64) -> Result<(), BenchError> {
        if difference <= most {
            return Ok(());
        }
        Err(BenchError::WrongResult { program: format!("{} of {}", self.algorithm, self.size), difference })
    }
}

/// What a solver computes, without its messages: before a run of it and after, because a shared machine changes its speed.
#[derive(Default)]
pub(super) struct Computing {
    /// How many iterations it takes, which is known after the first run.
    iterations: Option<usize>,
    before: Option<f64>,
}

impl Computing {
    /// Before the solver runs. `compute` says how many seconds so many iterations take.
    pub(super) fn before(&mut self, compute: impl FnOnce(usize) -> Result<f64, BenchError>) -> Result<(), BenchError> {
        self.before = self.iterations.map(compute).transpose()?;
        Ok(())
    }

    /// After it has run. What it computes on average.
    pub(super) fn after(
        &mut self,
        iterations: usize,
        compute: impl FnOnce(usize) -> Result<f64, BenchError>,
    ) -> Result<f64, BenchError> {
        self.iterations = Some(iterations);
        let after = compute(iterations)?;
        Ok((self.before.unwrap_or(after) + after) / 2.0)
    }
}

impl Run {
    /// Of a solver, whose ranks need each other all the time: set-up, total, communication and computation.
    pub(super) fn of_solver(
        mode: Mode,
        iterations: u64,
        [set_up, total, communication, computation]: [f64; 4],
    ) -> Self {
        let (global, global_computation) = (total, computation);
        Self { mode, segments: 1, iterations, total, communication, computation, set_up, global, global_computation }
    }

    /// What rank 0 says about all ranks' runs.
    fn together(self, world: &Communicator) -> Result<Option<Self>, BenchError> {
        let Self { total, communication, computation, set_up, global, global_computation, .. } = self;
        let all = gather(world, [total, communication, computation, set_up, global, global_computation])?;
        Ok(all.map(|all| {
            let most = |figure: usize| all.iter().map(|figures| figures[figure]).fold(0.0, f64::max);
            let mean = |figure: usize| all.iter().map(|figures| figures[figure]).sum::<f64>() / all.len() as f64;
            Self {
                total: most(0),
                communication: mean(1),
                computation: most(2),
                set_up: mean(3),
                global: most(4),
                global_computation: most(5),
                ..self
            }
        }))
    }
}

/// What rank 0 says. A call of all ranks.
fn as_root_says(world: &Communicator, yes: bool) -> Result<bool, BenchError> {
    let mut answer = [u8::from(yes)];
    world.bcast(&mut answer, 0)?;
    Ok(answer[0] != 0)
}

/// What a solver's ranks took on average, seconds. A call of all ranks.
///
/// Whoever sleeps in an exchange passes it later than the last to come by as much as waking takes, and is the last to come to the next one. So a
/// single rank's time has one such delay too many or too few after an odd number of them, and on average none.
pub(super) fn on_average(world: &Communicator, elapsed: Duration) -> Result<f64, BenchError> {
    let mut seconds = [elapsed.as_secs_f64()];
    world.allreduce_in_place(&mut seconds, Operator::Sum)?;
    Ok(seconds[0] / f64::from(world.size()))
}

/// Of the systems and the signal.
pub(super) const SEED: u64 = 1;
/// For this time at least something is run for each run that is wanted.
const TIME_PER_RUN: Duration = Duration::from_millis(200);
/// Complex, in single precision.
const POINT_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_other_ranks() {
        let messages = |bytes, count| Messages { bytes, count, in_swaps: true };
        assert_eq!(Algorithm::Jacobi.messages(1024, 4), [messages(1024, 6), messages(16, 6)]);
        assert_eq!(Algorithm::Cg.messages(1024, 2), [messages(4096, 2), messages(8, 4)]);
        assert_eq!(Algorithm::Fft.messages(1024, 4), [Messages { in_swaps: false, ..messages(2048, 2) }]);
        assert!(Algorithm::ALL.iter().all(|algorithm| algorithm.messages(64, 1).iter().all(|none| none.count == 0)));
    }

    #[test]
    fn only_solvers_do_as_much_again_in_each_iteration() {
        assert_eq!(Algorithm::Jacobi.operations(64, 20), 20.0 * 64.0 * 64.0);
        assert_eq!(Algorithm::Fft.operations(1024, 1), 10240.0);
    }
}
