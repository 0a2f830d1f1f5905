//! When a program comes to wait for what it has started: at once, or after it has computed.
//!
//! Who waits can do the work himself; for who computes the daemon has to. Which it will be is known only afterwards, so each
//! request remembers what it was the last time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ropeway_shm::EventLog;

/// A program that comes to wait within this time after a start has computed nothing to speak of. In tests that is more than losing the core
/// takes.
const PROMPT: Duration = if cfg!(test) { Duration::from_millis(10) } else { Duration::from_micros(20) };

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
    /// How often it has come between two starts.
    turn: AtomicU64,
    /// When it came in each of the last turns; zero until it has. It may come for other things many times before it waits for what was
    /// started first.
    came_ns: [AtomicU64; TURNS],
}

/// Turns that are remembered.
const TURNS: usize = 8;

/// What a request has learnt of its program.
#[derive(Default)]
pub(crate) struct Habit {
    started_ns: u64,
    /// In which turn that was.
    turn: u64,
    /// Whether the program waited, for whatever it was, right after the start before this one.
    waits_promptly: bool,
}

impl Presence {
    /// The program waits.
    pub(crate) fn note(&self) {
        let came_ns = self.came_in(self.turn.load(Ordering::Relaxed));
        if came_ns.load(Ordering::Relaxed) == 0 {
            came_ns.store(now_ns(), Ordering::Relaxed);
        }
    }

    /// The program starts something. Says in which turn.
    fn begin(&self) -> u64 {
        let turn = self.turn.load(Ordering::Relaxed);
        if self.came_in(turn).load(Ordering::Relaxed) == 0 {
            return turn;
        }
        self.came_in(turn + 1).store(0, Ordering::Relaxed);
        self.turn.store(turn + 1, Ordering::Relaxed);
        turn + 1
    }

    /// When it came after a start in that turn. `None` if that is long forgotten.
    fn came_after(&self, turn: u64) -> Option<u64> {
        // Threads that start at once may set the turn back.
        let is_known = self.turn.load(Ordering::Relaxed).wrapping_sub(turn) < TURNS as u64;
        is_known.then(|| self.came_in(turn).load(Ordering::Relaxed))
    }

    fn came_in(&self, turn: u64) -> &AtomicU64 {
        &self.came_ns[turn as usize % TURNS]
    }
}

impl Habit {
    /// The request is started. Says whether the program is likely to come to wait at once.
    pub(crate) fn begin(&mut self, presence: &Presence, favor: Favor) -> bool {
        self.started_ns = now_ns();
        self.turn = presence.begin();
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
        if let Some(came_ns) = presence.came_after(self.turn) {
            self.waits_promptly = came_ns.saturating_sub(self.started_ns) < PROMPT.as_nanos() as u64;
        }
    }
}

/// Nanoseconds of the clock that all processes of the machine share. Never zero.
pub(crate) fn now_ns() -> u64 {
    EventLog::now_ns()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// What a request has learnt whose program did this between its start and its wait.
    fn waits_promptly_after(habit: &mut Habit, presence: &Presence, act: impl FnOnce()) -> bool {
        habit.begin(presence, Favor::Learnt);
        act();
        presence.note();
        habit.learn(presence);
        habit.begin(presence, Favor::Learnt)
    }

    fn compute() {
        thread::sleep(2 * PROMPT);
    }

    #[test]
    fn what_counts_is_when_the_program_came_first_after_the_start() {
        let presence = Presence::default();
        let mut habit = Habit { waits_promptly: true, ..Habit::default() };
        let mut learns = |act: &dyn Fn()| waits_promptly_after(&mut habit, &presence, act);
        let exchange = |count| {
            for _ in 0..count {
                Habit::default().begin(&presence, Favor::Learnt);
                presence.note();
                compute();
            }
        };
        assert!(!learns(&compute));
        assert!(learns(&|| exchange(TURNS - 1)), "it came at once, for something else");
        assert!(!learns(&compute));
        assert!(!learns(&|| exchange(TURNS + 1)), "nobody knows any more");
    }
}
