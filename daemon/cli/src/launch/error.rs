//! Why a job could not be started.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use ropeway_daemon::DaemonError;

use super::Outcome;
use super::network::NetworkError;

/// Why a job could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("can't find the program {}; give a path such as ./{}, or put it on PATH", .0.display(), .0.display())]
    NotOnPath(PathBuf),
    #[error("can't find the program {}: no such file", .0.display())]
    NoSuchFile(PathBuf),
    #[error("{} is not a program: it is a directory, or not executable", .0.display())]
    NotExecutable(PathBuf),
    #[error(
        "can't run {}: it is no program for this machine, nor a script that says what runs it: begin it with a line such as #!/bin/sh",
        .0.display()
    )]
    NoFormat(PathBuf),
    #[error("can't run {}: what it is to be run by is not there: install that, or correct the line that begins with #!", .0.display())]
    NoInterpreter(PathBuf),
    #[error("{nodes} nodes need at least {nodes} ranks: use -n {nodes} or more")]
    TooFewRanks { nodes: u32 },
    #[error("no daemon is running at {}: start ropewayd, set ROPEWAY_SOCKET, or leave out --attach", .0.display())]
    NoSystemDaemon(PathBuf),
    #[error(
        "the daemon at {} does not answer: has it been stopped? An empty ROPEWAY_SOCKET does without it",
        .socket.display()
    )]
    NoAnswer { socket: PathBuf, is_late: bool },
    #[error("{}", Outcome::Interrupted(*.0))]
    Interrupted(Signal),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error("can't start a daemon: {0}")]
    Daemon(#[from] DaemonError),
    #[error("the daemon does not take the job: {0}")]
    Job(#[from] ropeway::Error),
    #[error("a daemon does not say what was counted: {0}")]
    Counting(ropeway::Error),
    #[error("can't start rank {rank}: {error}")]
    Rank { rank: u32, error: io::Error },
    #[error("{doing}: {error}")]
    System { doing: &'static str, error: io::Error },
}

impl LaunchError {
    /// The tool's exit status. Shells use these for programs that can't be found or run.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::NotOnPath(_) | Self::NoSuchFile(_) => 127,
            Self::NotExecutable(_) | Self::NoFormat(_) | Self::NoInterpreter(_) => 126,
            Self::TooFewRanks { .. } => 2,
            &Self::Interrupted(signal) => Outcome::Interrupted(signal).code(),
            // It took longer than it may.
            Self::NoAnswer { is_late: true, .. } => 124,
            Self::NoAnswer { .. } | Self::NoSystemDaemon(_) | Self::Network(_) => 3,
            Self::Daemon(_) | Self::Job(_) | Self::Counting(_) | Self::Rank { .. } | Self::System { .. } => 1,
        }
    }

    /// A rank that can't be started by this program, which was there a moment ago.
    pub(super) fn starting(rank: u32, program: &OsStr, error: io::Error) -> Self {
        match Errno::from_raw(error.raw_os_error().unwrap_or_default()) {
            Errno::ENOEXEC => Self::NoFormat(program.into()),
            Errno::ENOENT => Self::NoInterpreter(program.into()),
            Errno::EACCES => Self::NotExecutable(program.into()),
            _ => Self::Rank { rank, error },
        }
    }

    /// For `map_err`: says what failed.
    pub(crate) fn system<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { doing, error: error.into() }
    }
}
