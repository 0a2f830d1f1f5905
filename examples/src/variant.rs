//! Blocking or overlapped.

use std::fmt;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use ropeway::{Collective, Error, Plain};
use serde::Serialize;

/// What a program does while a collective runs, where it is written for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// It waits, and computes afterwards.
    Blocking,
    /// It computes what does not need the result, and waits afterwards.
    Overlapped,
}

impl Variant {
    /// Runs the collective and `meanwhile`, one after the other or both at once. Adds the time within the collective's
    /// start and wait to `communication`.
    pub fn run<T: Plain, R>(
        self,
        collective: &mut Collective<T>,
        communication: &mut Duration,
        meanwhile: impl FnOnce() -> R,
    ) -> Result<R, Error> {
        let active = timed(communication, || collective.start())?;
        match self {
            Self::Blocking => {
                timed(communication, || active.wait())?;
                Ok(meanwhile())
            }
            Self::Overlapped => {
                let result = meanwhile();
                timed(communication, || active.wait())?;
                Ok(result)
            }
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Blocking => "blocking",
            Self::Overlapped => "overlapped",
        })
    }
}

/// Does `act` and adds its time to `phase`.
pub fn timed<R>(phase: &mut Duration, act: impl FnOnce() -> R) -> R {
    let begin = Instant::now();
    let result = act();
    *phase += begin.elapsed();
    result
}
