//! Where threads of a client sleep. The daemon rings and never sleeps here.

#[cfg(not(loom))]
use std::time::Duration;

use crate::primitive::{AtomicU32, Ordering};

/// A word that counts wake-ups. Any number of threads may sleep on it; all of them wake.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Doorbell {
    sequence: AtomicU32,
    /// Times that somebody went to sleep here.
    sleeps: AtomicU32,
}

/// System calls that doorbells have cost, modulo 2³².
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorbellCalls {
    /// Somebody was to be woken, by a rank or by the daemon.
    pub wake_ups: u32,
    /// Somebody went to sleep.
    pub sleeps: u32,
}

impl DoorbellCalls {
    /// Both counts of two, together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let Self { wake_ups, sleeps } = other;
        Self { wake_ups: self.wake_ups.wrapping_add(wake_ups), sleeps: self.sleeps.wrapping_add(sleeps) }
    }

    /// What was added since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        let Self { wake_ups, sleeps } = before;
        Self { wake_ups: self.wake_ups.wrapping_sub(wake_ups), sleeps: self.sleeps.wrapping_sub(sleeps) }
    }
}

impl Doorbell {
    /// The count to hand to [`sleep`](Self::sleep). Taken before the doorbell's number is left anywhere, so that a wake-up
    /// that comes in between is not slept through.
    pub fn listen(&self) -> u32 {
        self.sequence.load(Ordering::Acquire)
    }

    /// How often somebody has rung and how often somebody has gone to sleep here, modulo 2³²: system calls, each of them.
    pub fn calls(&self) -> DoorbellCalls {
        let [wake_ups, sleeps] = [&self.sequence, &self.sleeps].map(|count| count.load(Ordering::Relaxed));
        DoorbellCalls { wake_ups, sleeps }
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
        self.sleeps.fetch_add(1, Ordering::Relaxed);
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
