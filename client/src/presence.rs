//! When a program comes to wait for what it has started: at once, or after it has computed.
//!
//! Who waits can do the work himself; for who computes the daemon has to. Which it will be is known only afterwards, so each
//! request remembers what it was the last time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ropeway_shm::EventLog;

/// A program that comes to wait within this time after a start has computed nothing to speak of.
const PROMPT: Duration = Duration::from_micros(20);

/// What somebody's request is optimised for, where an early end and computing meanwhile are at odds: somebody has to move the
/// message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Favor {
    /// Whatever the program did last time: moves it itself if it waited right after it had started, else leaves it to the
    /// daemon.
    #[default]
    Learnt,
    /// An early end: whoever waits moves it, and the daemon, which would take a core from the two, is not woken.
    Latency,
    /// Computing meanwhile: the daemon moves it from the start.
    Overlap,
}

/// When the program came to wait, for whatever it was, after it had started something.
#[derive(Default)]
pub(crate) struct Presence {
    /// Zero until it has come.
    came_ns: AtomicU64,
}

/// What a request has learnt of its program.
#[derive(Default)]
pub(crate) struct Habit {
    started_ns: u64,
    /// Whether the program waited, for whatever it was, right after the start before this one.
    waits_promptly: bool,
}

impl Presence {
    /// The program waits.
    pub(crate) fn note(&self) {
        if self.came_ns.load(Ordering::Relaxed) == 0 {
            self.came_ns.store(now_ns(), Ordering::Relaxed);
        }
    }
}

impl Habit {
    /// The request is started. Says whether the program is likely to come to wait at once.
    pub(crate) fn begin(&mut self, presence: &Presence, favor: Favor) -> bool {
        self.started_ns = now_ns();
        presence.came_ns.store(0, Ordering::Relaxed);
        match favor {
            Favor::Learnt => self.waits_promptly,
            Favor::Latency => true,
            Favor::Overlap => false,
        }
    }

    /// The daemon was told of the start, and may have taken the core at once: what the program does next counts from here.
    pub(crate) fn told(&mut self) {
        self.started_ns = now_ns();
    }

    /// When the request was last started.
    pub(crate) fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// The program waits for the request, and maybe waited for others before.
    pub(crate) fn learn(&mut self, presence: &Presence) {
        let came_ns = presence.came_ns.load(Ordering::Relaxed);
        self.waits_promptly = came_ns.saturating_sub(self.started_ns) < PROMPT.as_nanos() as u64;
    }
}

/// Nanoseconds of the clock that all processes of the machine share. Never zero.
pub(crate) fn now_ns() -> u64 {
    EventLog::now_ns()
}
