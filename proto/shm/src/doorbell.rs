//! Where threads of a client sleep. The daemon rings and never sleeps here.

#[cfg(not(loom))]
use std::time::Duration;

use crate::primitive::{AtomicU32, Ordering};

/// A word that counts wake-ups. Any number of threads may sleep on it; all of them wake.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Doorbell {
    sequence: AtomicU32,
}

impl Doorbell {
    /// The count to hand to [`sleep`](Self::sleep). Taken before the doorbell's number is left anywhere, so that a wake-up
    /// that comes in between is not slept through.
    pub fn listen(&self) -> u32 {
        self.sequence.load(Ordering::Acquire)
    }

    /// Changes the count: what [`wake`](Self::wake) does before it asks the kernel.
    pub fn count_up(&self) {
        self.sequence.fetch_add(1, Ordering::Release);
    }
}

#[cfg(not(loom))]
impl Doorbell {
    /// Sleeps unless the count has changed since `seen`. Returns on a wake-up, after the timeout, or for no reason.
    pub fn sleep(&self, seen: u32, timeout: Option<Duration>) {
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().min(i64::MAX as u64) as libc::time_t,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the word lives as long as `self`; the kernel compares it with `seen` and sleeps, and writes nothing.
        unsafe { libc::syscall(libc::SYS_futex, self.sequence.as_ptr(), libc::FUTEX_WAIT, seen, timeout) };
    }

    /// Wakes everybody who sleeps here, and keeps those awake who are about to.
    pub fn wake(&self) {
        self.count_up();
        // SAFETY: as above; waking touches no memory.
        unsafe { libc::syscall(libc::SYS_futex, self.sequence.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }
}
