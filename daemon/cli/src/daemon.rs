//! `ropeway daemon`: the daemon in the foreground.

use std::path::PathBuf;

use clap::Args;
use ropeway_daemon::Config;

use crate::failure::Failure;

/// Runs the daemon of this machine in the foreground, until SIGTERM or Ctrl-C.
///
/// The same as `ropewayd`. While it runs, `ropeway run` uses it, and so do programs that are started by hand.
#[derive(Args)]
#[command(after_help = "\
Examples:
  ropeway daemon --socket /tmp/ropeway.sock
  ROPEWAY_SOCKET=/tmp/ropeway.sock ropeway run -n 2 -- ./my-program")]
pub(crate) struct Flags {
    /// Configuration file [default: /etc/ropeway/ropewayd.toml, if it is there].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Path of the control socket [default: /run/ropeway/ropewayd.sock].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let mut config = Config::read(flags.config.as_deref()).map_err(Failure::other)?;
    config.socket = flags.socket.or(config.socket).or_else(|| Some(DEFAULT_SOCKET.into()));
    Ok(ropeway_daemon::run(config, None)?)
}

/// Where the daemon of the machine listens.
pub(crate) const DEFAULT_SOCKET: &str = "/run/ropeway/ropewayd.sock";
