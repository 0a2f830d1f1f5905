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
        // So many wake-ups that the counter is full: it is going to wake.
        Ok(_) | Err(nix::Error::EAGAIN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Forgets past wake-ups.
pub fn drain(eventfd: impl AsFd) {
    // Empty is fine, and nothing else can happen.
    let _ = nix::unistd::read(eventfd, &mut [0; 8]);
}
