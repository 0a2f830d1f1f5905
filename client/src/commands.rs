//! The way commands take to the daemon: the ring, and the bell that wakes it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::thread;

use ropeway_proto::Command;
use ropeway_proto::command::COMMAND_WORDS;
use ropeway_shm::{Producer, eventfd};

/// An entry of the command ring.
pub(crate) type Entry = [u64; COMMAND_WORDS];

/// The ring of a session, for all its threads.
pub(crate) struct Commands {
    producer: Mutex<Producer>,
    bell: OwnedFd,
}

impl Commands {
    pub(crate) fn new(producer: Producer, bell: OwnedFd) -> Self {
        Self { producer: Mutex::new(producer), bell }
    }

    /// Hands over as many commands as the ring has room for: what is left. No allocation; no system call but to wake a
    /// sleeping daemon.
    pub(crate) fn push<'a>(&self, entries: &'a [Entry]) -> &'a [Entry] {
        let (pushed, must_wake) = {
            let mut producer = self.producer.lock().expect("nothing panics under this lock");
            (producer.push(entries), producer.must_wake())
        };
        if must_wake {
            // Fails only if the bell's counter is full, and then the daemon is being woken already.
            let _ = eventfd::ring(self.bell.as_fd());
        }
        &entries[pushed..]
    }

    /// Hands over all of them, while `is_worthwhile`; says whether it did.
    pub(crate) fn push_all(&self, mut entries: &[Entry], mut is_worthwhile: impl FnMut() -> bool) -> bool {
        while is_worthwhile() {
            entries = self.push(entries);
            if entries.is_empty() {
                return true;
            }
            // The ring is full: the daemon needs the core more than we do.
            thread::yield_now();
        }
        false
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

/// A daemon that does not empty its ring for so long is gone or stopped.
const CALL_TRIES: u32 = 1 << 16;
