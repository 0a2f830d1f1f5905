//! How a job ended.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::sys::signal::Signal;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All ranks ended with status 0.
    Success,
    /// This rank ended first with another status.
    Exited { rank: u32, status: u8 },
    /// This rank was killed first.
    Killed { rank: u32, signal: i32 },
    /// It took longer than it may.
    TimedOut,
    /// There are others to come, and no more time for this one.
    OutOfTime,
    /// We got a signal.
    Interrupted(Signal),
}

impl Outcome {
    /// How a rank that ended so failed, if it did.
    pub(super) fn failure(rank: u32, status: ExitStatus) -> Option<Self> {
        match (status.code(), status.signal()) {
            (Some(0), _) => None,
            (Some(status), _) => Some(Self::Exited { rank, status: status as u8 }),
            (None, signal) => Some(Self::Killed { rank, signal: signal.unwrap_or_default() }),
        }
    }

    /// The tool's exit status, by the conventions of shells and of timeout(1).
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Exited { status, .. } => status,
            Self::Killed { signal, .. } => 128 + signal as u8,
            Self::Interrupted(signal) => 128 + signal as u8,
            Self::TimedOut | Self::OutOfTime => 124,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Success => write!(f, "all ranks have succeeded"),
            Self::Exited { rank, status } => write!(f, "rank {rank} ended with status {status}, and the job with it"),
            Self::Killed { rank, signal } => {
                // Real-time signals have no names.
                let name = Signal::try_from(*signal).map_or_else(|_| format!("signal {signal}"), |one| one.to_string());
                write!(f, "rank {rank} was killed by {name}, and the job ends with it")
            }
            Self::TimedOut => write!(f, "the job took too long and was ended"),
            Self::OutOfTime => write!(f, "there was no time left for all of it: run it by itself"),
            Self::Interrupted(signal) => write!(f, "ended by {signal}"),
        }
    }
}
