//! The user's input, for rank 0.

use std::io::{self, IsTerminal, Read, Write};
use std::process::{ChildStdin, Stdio};
use std::thread;

use nix::unistd::{getpgrp, tcgetpgrp};

/// Where rank 0 reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Our own input, as it is.
    Inherited,
    /// A pipe that we fill. A terminal lets only its foreground group read, and the ranks have groups of their own.
    Pumped,
    /// Nothing: we are a background job, which a terminal would stop.
    Nothing,
}

impl Source {
    pub(super) fn of_user() -> Self {
        let stdin = io::stdin();
        match stdin.is_terminal() {
            false => Self::Inherited,
            true if tcgetpgrp(&stdin).is_ok_and(|foreground| foreground == getpgrp()) => Self::Pumped,
            true => Self::Nothing,
        }
    }

    pub(super) fn stdio(self) -> Stdio {
        match self {
            Self::Inherited => Stdio::inherit(),
            Self::Pumped => Stdio::piped(),
            Self::Nothing => Stdio::null(),
        }
    }
}

/// Copies our input to rank 0 until one of them closes. The thread ends with the process at the latest.
pub(super) fn pump(mut to: ChildStdin) -> io::Result<()> {
    let copy = move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = io::stdin().lock().read(&mut bytes) {
            if to.write_all(&bytes[..count]).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("input".into()).spawn(copy).map(drop)
}
