//! The descriptor by which a client wakes a sleeping daemon.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// A new one.
pub fn eventfd() -> io::Result<OwnedFd> {
    Ok(EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?.into())
}

/// Wakes whoever waits for it.
pub fn ring(eventfd: impl AsFd) -> io::Result<()> {
    match nix::unistd::write(eventfd, &1u64.to_ne_bytes()) {
        // The count is full, as nobody reads it: after more wake-ups than there can be.
        Ok(_) | Err(nix::Error::EAGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
