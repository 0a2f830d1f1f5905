//! How the tool ends when it does not end well.

use std::io::{self, Write};
use std::path::Path;

use nix::errno::Errno;
use ropeway_daemon::DaemonError;

use crate::launch::{LaunchError, Outcome};

/// Why a command failed. Shown to the user, and mapped to an exit status.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The job could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The job was started and did not succeed.
    #[error("{0}")]
    Job(Outcome),
    /// What was asked for makes no sense, whatever the machine.
    #[error("{0}")]
    Usage(String),
    /// A benchmark that can't run here.
    #[error("{0}")]
    CannotRun(String),
    /// A daemon did not start, or failed.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// Whoever read our output does so no more; there is nobody to tell.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
    /// Anything else the user should read.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// Any error, for its message.
    pub(crate) fn other(error: impl std::fmt::Display) -> Self {
        Self::Other(error.to_string())
    }

    /// A file that can't be written, and what to do about it.
    pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Self {
        let (file, folder) = (path.display(), path.parent().unwrap_or(path).display());
        Self::Other(match error.kind() {
            io::ErrorKind::NotFound => {
                format!("can't write {file}: there is no folder {folder}: make it, or name another file")
            }
            _ => format!("can't write {file}: {error}"),
        })
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Launch(error) => error.code(),
            Self::Job(outcome) => outcome.code(),
            // As clap's errors.
            Self::Usage(_) => 2,
            Self::CannotRun(_) => 3,
            Self::Daemon(_) | Self::Output(_) | Self::Other(_) => 1,
        }
    }

    pub(crate) fn report(&self) {
        let is_closed_pipe = matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe);
        if !is_closed_pipe {
            let said = self.to_string();
            tell(&format!("ropeway: {said}{}", advice(&said)));
        }
    }
}

/// What to do, where the system says only what is wrong. What a daemon could not do comes as text.
fn advice(said: &str) -> &'static str {
    let is_full = said.contains(&io::Error::from(Errno::EMFILE).to_string());
    if is_full { "; raise the limit with `ulimit -n`" } else { "" }
}

/// Says something beside the output. There may be nobody to hear it.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Prints without panicking when the reader has gone.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}
