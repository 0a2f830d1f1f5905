//! The protocols of direct channels under every schedule that a model checker can think of: nobody touches a buffer
//! that is somebody else's, nothing is lost or doubled, and whoever sleeps is woken. Run with `--cfg loom`.
#![cfg(loom)]

mod eager;
mod joined;
mod large;
mod offered;
mod wired;

use loom::cell::UnsafeCell;
use loom::sync::{Condvar, Mutex};
use ropeway_shm::{Doorbell, RequestSlot};

/// A doorbell whose sleepers are a condition variable instead of a futex queue, and the slot that leads to it.
struct Sleeper {
    slot: RequestSlot,
    doorbell: Doorbell,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Sleeper {
    fn new() -> Self {
        let (slot, doorbell) = (RequestSlot::new(), Doorbell::default());
        Self { slot, doorbell, lock: Mutex::new(()), changed: Condvar::new() }
    }

    /// What a client's `wait` does, without the spinning.
    fn sleep_until(&self, is_due: impl Fn() -> bool) {
        loop {
            let seen = self.doorbell.listen();
            self.slot.arm(0);
            if is_due() {
                return self.slot.disarm();
            }
            let mut guard = self.lock.lock().unwrap();
            while self.doorbell.listen() == seen {
                guard = self.changed.wait(guard).unwrap();
            }
        }
    }

    fn wake(&self) {
        if self.slot.take_waiter().is_some() {
            self.doorbell.count_up();
            drop(self.lock.lock().unwrap());
            self.changed.notify_all();
        }
    }
}

fn copy(from: &UnsafeCell<u32>, to: &UnsafeCell<u32>) {
    // SAFETY: the model checker reports a race.
    let value = from.with(|bytes| unsafe { *bytes });
    // SAFETY: as above.
    to.with_mut(|bytes| unsafe { *bytes = value });
}
