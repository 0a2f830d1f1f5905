//! For programs with an event loop of their own: a descriptor that becomes readable, and wakers of futures.
//!
//! Completions are words in shared memory, written by the daemon or by a peer, and whoever writes one rings a doorbell. A
//! thread that sleeps on a doorbell of its own turns that into what event loops understand. It is started when it is
//! first needed and costs nothing while nothing ends.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::{io, thread};

use ropeway_proto::Slot;
use ropeway_proto::limits::DOORBELLS;
use ropeway_shm::{JobSegment, eventfd};

use crate::bell_thread::BellThread;

/// The doorbell that no waiting thread uses.
pub(crate) const DOORBELL: u32 = DOORBELLS as u32 - 1;

/// The thread, and what it wakes.
pub(crate) struct Notifier {
    sleepers: Arc<Sleepers>,
    _thread: BellThread,
}

struct Sleepers {
    eventfd: OwnedFd,
    /// Of the tasks that wait for a request, by its slot.
    wakers: Mutex<HashMap<Slot, Waker>>,
}

impl Notifier {
    pub(crate) fn start(job: Arc<JobSegment>, local_rank: u32) -> io::Result<Self> {
        let sleepers = Arc::new(Sleepers { eventfd: eventfd::eventfd()?, wakers: Mutex::default() });
        let told = sleepers.clone();
        let thread = thread::Builder::new().name("ropeway-notify".into()).stack_size(STACK_BYTES);
        let thread = BellThread::start(job, (local_rank, DOORBELL), thread, move || told.tell())?;
        Ok(Self { sleepers, _thread: thread })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.sleepers.eventfd.as_fd()
    }

    /// Makes the descriptor readable: something has ended before anybody could be told to watch it.
    pub(crate) fn ring(&self) {
        // Fails only if the counter is full, and then it is readable.
        let _ = eventfd::ring(&self.sleepers.eventfd);
    }

    /// Has this task woken when a request that was armed with [`DOORBELL`] has ended.
    pub(crate) fn register(&self, slot: Slot, waker: &Waker) {
        self.sleepers.lock().insert(slot, waker.clone());
    }

    /// The task is not interested any more.
    pub(crate) fn forget(&self, slot: Slot) {
        self.sleepers.lock().remove(&slot);
    }
}

impl Sleepers {
    fn lock(&self) -> MutexGuard<'_, HashMap<Slot, Waker>> {
        self.wakers.lock().expect("nothing panics under this lock")
    }

    /// The bell does not say whose request it was, so all look for themselves. Those whose has not ended come back.
    fn tell(&self) {
        let _ = eventfd::ring(&self.eventfd);
        let wakers = std::mem::take(&mut *self.lock());
        wakers.into_values().for_each(Waker::wake);
    }
}

const STACK_BYTES: usize = 128 << 10;
