//! A daemon for one process alone, where the system runs none.

use std::env;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::Error;
use crate::control::io_error;

/// The daemon's process. Ends, and is waited for, when this is dropped.
pub(crate) struct PrivateDaemon {
    process: Child,
}

impl Drop for PrivateDaemon {
    fn drop(&mut self) {
        // It ends by itself when its connection closes. Killing only spares us to rely on that, and fails if it is so.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a daemon and connects to it. It serves this connection and ends when that is closed.
///
/// `socket` is where no daemon was found before.
pub(crate) fn spawn(socket: &Path) -> Result<(UnixStream, PrivateDaemon), Error> {
    let beside = env::current_exe().map(|program| program.ancestors().skip(1).take(2).map(Path::to_owned).collect());
    let beside: Vec<PathBuf> = beside.unwrap_or_default();
    let path = env::var_os("PATH").unwrap_or_default();
    let candidates = beside.into_iter().chain(env::split_paths(&path)).map(|folder| folder.join("ropewayd"));
    let Some(program) = candidates.into_iter().find(|program| program.is_file()) else {
        return Err(Error::NoDaemon { socket: socket.display().to_string() });
    };
    let (ours, theirs) = UnixStream::pair().map_err(io_error("making a socket pair"))?;
    let process = Command::new(program)
        .args(["--serve-fd", "0"])
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        // Ctrl-C is for the program; the daemon goes with it.
        .process_group(0)
        .spawn()
        .map_err(io_error("starting ropewayd"))?;
    Ok((ours, PrivateDaemon { process }))
}
