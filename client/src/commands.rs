//! The way commands take to the daemon: the ring, and the bell that wakes it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::thread;

use ropeway_proto::Command;
use ropeway_proto::command::COMMAND_WORDS;
use ropeway_shm::{CommandRing, Producer, eventfd};

/// An entry of the command ring.
pub(crate) type Entry = [u64; COMMAND_WORDS];

/// The ring of a session, for all its threads.
pub(crate) struct Commands {
    producer: Mutex<Producer>,
    ring: CommandRing,
    bell: OwnedFd,
}

impl Commands {
    pub(crate) fn new(producer: Producer, bell: OwnedFd) -> Self {
        Self { ring: producer.ring().clone(), producer: Mutex::new(producer), bell }
    }

    /// A command is likely to be handed over soon.
    #[inline]
    pub(crate) fn prepare_to_push(&self) {
        self.ring.prepare_to_push();
    }

    /// Hands over what is staged, and as many commands as the ring has room for: what is left. No allocation; no system call
    /// but to wake a sleeping daemon.
    #[inline(always)]
    fn push<'a>(&self, entries: &'a [Entry]) -> &'a [Entry] {
        // What a start has written before may take as long to get through, and taking the lock waits for that.
        self.ring.prepare_to_push();
        let (pushed, must_wake) = {
            let mut producer = self.producer.lock().expect(NO_PANIC);
            (producer.push(entries), producer.must_wake())
        };
        if must_wake {
            self.wake_daemon();
        }
        &entries[pushed..]
    }

    #[cold]
    fn wake_daemon(&self) {
        // Fails only if the bell's counter is full, and then the daemon is being woken already.
        let _ = eventfd::ring(self.bell.as_fd());
    }

    /// Writes as many commands as the ring has room for: what is left. The daemon sees them with the next that are handed over.
    pub(crate) fn stage<'a>(&self, entries: &'a [Entry]) -> &'a [Entry] {
        let staged = self.producer.lock().expect(NO_PANIC).stage(entries);
        &entries[staged..]
    }

    /// Hands over all of them, while `is_worthwhile`; says whether it did.
    #[inline(always)]
    pub(crate) fn push_all(&self, entries: &[Entry], mut is_worthwhile: impl FnMut() -> bool) -> bool {
        is_worthwhile()
            && match self.push(entries) {
                [] => true,
                rest => self.push_rest(rest, &mut is_worthwhile),
            }
    }

    #[cold]
    fn push_rest(&self, mut rest: &[Entry], is_worthwhile: &mut dyn FnMut() -> bool) -> bool {
        while !rest.is_empty() {
            // The ring is full: the daemon needs the core more than we do.
            thread::yield_now();
            if !is_worthwhile() {
                return false;
            }
            rest = self.push(rest);
        }
        true
    }

    /// Whether the daemon sleeps, so that whatever it is told costs a system call.
    pub(crate) fn is_daemon_asleep(&self) -> bool {
        self.producer.lock().expect(NO_PANIC).is_asleep()
    }

    /// Asks the daemon to look after something. Without a daemon nothing can be done, and waiting will tell.
    pub(crate) fn call(&self, command: Command) {
        let mut tries = CALL_TRIES;
        self.push_all(&[command.encode()], || {
            tries -= 1;
            tries > 0
        });
    }
}

const NO_PANIC: &str = "nothing panics under this lock";
/// A daemon that does not empty its ring for so long is gone or stopped.
const CALL_TRIES: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use ropeway_shm::ControlSegment;
    use std::sync::Arc;

    #[test]
    fn what_is_staged_is_seen_all_at_once() {
        let control = Arc::new(ControlSegment::create().unwrap());
        let commands = Commands::new(control.producer(), eventfd::eventfd().unwrap());
        let mut daemon = control.consumer();
        let entry = |number| [number; COMMAND_WORDS];
        for number in 0..100 {
            assert!(commands.stage(&[entry(number)]).is_empty());
            assert_eq!(daemon.pop(), Ok(None));
        }
        assert!(commands.push(&[entry(100)]).is_empty());
        for number in 0..=100 {
            assert_eq!(daemon.pop(), Ok(Some(entry(number))));
        }
        assert_eq!(daemon.pop(), Ok(None));
    }
}
