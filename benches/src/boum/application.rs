//! The programs that the model is compared with, as ranks run them.

use std::fmt;
use std::str::FromStr;

use ropeway::Communicator;
use ropeway_examples::Mode;
use serde::{Deserialize, Serialize};

use super::{cg, fft, jacobi};
use crate::{BenchError, Console, gather};

/// A program, its size, and how often to run it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Application {
    /// Which one.
    pub algorithm: Algorithm,
    /// Unknowns or points.
    pub size: usize,
    /// Numbers of segments to cut the messages of a transform in; they take turns. The solvers have one.
    pub segments: Vec<u32>,
    /// Runs of each kind.
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
    /// From the first iteration until the slowest rank was done.
    pub total: f64,
    /// The same messages once more without computing, so that nobody waits for a rank that computes; on average.
    pub communication: f64,
    /// Before the first iteration: what it takes to prepare all messages; on average.
    pub set_up: f64,
    /// The part of the total in which ranks need each other, of the slowest one.
    pub global: f64,
}

impl Application {
    /// Does a rank's part of all runs, and tells the tool of each.
    pub fn run(&self, world: &Communicator, console: &mut Console) -> Result<(), BenchError> {
        match self.algorithm {
            Algorithm::Jacobi => jacobi::run(self, world, console),
            Algorithm::Cg => cg::run(self, world, console),
            Algorithm::Fft => fft::run(self, world, console),
        }
    }

    /// Runs all `ways` in turns. The first of each only warms up.
    pub(super) fn take_turns<W>(
        &self,
        world: &Communicator,
        console: &mut Console,
        ways: &mut [W],
        mut once: impl FnMut(&mut W) -> Result<Run, BenchError>,
    ) -> Result<(), BenchError> {
        for run in 0..=self.runs {
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

impl Run {
    /// What rank 0 says about all ranks' runs.
    fn together(self, world: &Communicator) -> Result<Option<Self>, BenchError> {
        let all = gather(world, [self.total, self.communication, self.set_up, self.global])?;
        Ok(all.map(|all| {
            let most = |figure: usize| all.iter().map(|figures| figures[figure]).fold(0.0, f64::max);
            let mean = |figure: usize| all.iter().map(|figures| figures[figure]).sum::<f64>() / all.len() as f64;
            Self { total: most(0), communication: mean(1), set_up: mean(2), global: most(3), ..self }
        }))
    }
}

/// Of the systems and the signal.
pub(super) const SEED: u64 = 1;
