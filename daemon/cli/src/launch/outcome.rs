//! How a job ended.

use std::fmt;

use nix::sys::signal::Signal;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All ranks ended with status 0.
    Success,
    /// This rank ended first with another status.
    Exited { rank: u32, status: u8 },
    /// This rank was killed first.
    Killed { rank: u32, signal: Signal },
    /// It took longer than it may.
    TimedOut,
    /// There are others to come, and no more time for this one.
    OutOfTime,
    /// We got a signal.
    Interrupted(Signal),
}

impl Outcome {
    /// The tool's exit status, by the conventions of shells and of timeout(1).
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Exited { status, .. } => status,
            Self::Killed { signal, .. } | Self::Interrupted(signal) => 128 + signal as u8,
            Self::TimedOut | Self::OutOfTime => 124,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => write!(f, "all ranks have succeeded"),
            Self::Exited { rank, status } => write!(f, "rank {rank} ended with status {status}, and the job with it"),
            Self::Killed { rank, signal } => write!(f, "rank {rank} was killed by {signal}, and the job ends with it"),
            Self::TimedOut => write!(f, "the job took too long and was ended"),
            Self::OutOfTime => write!(f, "there was no time left for all of it: run it by itself"),
            Self::Interrupted(signal) => write!(f, "ended by {signal}"),
        }
    }
}
