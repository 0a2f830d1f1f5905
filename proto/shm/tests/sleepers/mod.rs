//! The kernel's part in models whose threads are all woken together.

use loom::sync::{Condvar, Mutex};

/// Threads that sleep until somebody wakes them.
pub(crate) struct Sleepers {
    /// How often somebody did.
    wake_ups: Mutex<u32>,
    changed: Condvar,
}

impl Sleepers {
    pub(crate) fn new() -> Self {
        Self { wake_ups: Mutex::new(0), changed: Condvar::new() }
    }

    pub(crate) fn sleep_until(&self, is_due: impl Fn() -> bool) {
        loop {
            let seen = *self.wake_ups.lock().unwrap();
            if is_due() {
                return;
            }
            let mut wake_ups = self.wake_ups.lock().unwrap();
            while *wake_ups == seen {
                wake_ups = self.changed.wait(wake_ups).unwrap();
            }
        }
    }

    pub(crate) fn wake_all(&self) {
        *self.wake_ups.lock().unwrap() += 1;
        self.changed.notify_all();
    }
}
