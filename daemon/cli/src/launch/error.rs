//! Why a job could not be started.

use std::io;
use std::path::PathBuf;

use ropeway_daemon::DaemonError;

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
    #[error("{nodes} nodes need at least {nodes} ranks: use -n {nodes} or more")]
    TooFewRanks { nodes: u32 },
    #[error("no daemon is running at {}: start ropewayd, set ROPEWAY_SOCKET, or leave out --attach", .0.display())]
    NoSystemDaemon(PathBuf),
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
            Self::NotExecutable(_) => 126,
            Self::TooFewRanks { .. } => 2,
            Self::NoSystemDaemon(_) | Self::Network(_) => 3,
            Self::Daemon(_) | Self::Job(_) | Self::Counting(_) | Self::Rank { .. } | Self::System { .. } => 1,
        }
    }

    /// For `map_err`: says what failed.
    pub(crate) fn system<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { doing, error: error.into() }
    }
}
