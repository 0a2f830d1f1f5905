//! The daemon as a program: until a signal, or for one connection.

use std::os::unix::net::UnixStream;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use sd_notify::NotifyState;

use crate::config::Config;
use crate::embed::{DaemonError, Prepared, prepare};

/// Runs a daemon on this thread until SIGTERM or SIGINT, telling systemd when it is ready.
///
/// With `only`, it serves that one connection and ends when that closes.
pub fn run(config: Config, only: Option<UnixStream>) -> Result<(), DaemonError> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block().map_err(std::io::Error::from)?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    let signals = SignalFd::with_flags(&signals, flags).map_err(std::io::Error::from)?;

    let Prepared { mut server, address, .. } = prepare(config, Some(signals))?;
    if let Some(stream) = only {
        server.only_client = Some(server.serve(stream)?);
    }
    if let Some(address) = address {
        tracing::info!(link = %address.link, "listening for links");
    }
    notify(&[NotifyState::Ready]);
    let result = server.run();
    notify(&[NotifyState::Stopping]);
    Ok(result?)
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "can't notify the service manager");
    }
}
