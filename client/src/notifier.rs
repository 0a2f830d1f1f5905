//! For programs with an event loop of their own: a descriptor that becomes readable, and wakers of futures.
//!
//! Completions are words in shared memory, written by the daemon or by a peer, and whoever writes one rings a doorbell. A
//! thread that sleeps on a doorbell of its own turns that into what event loops understand. It is started when it is
//! first needed and costs nothing while nothing ends.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;
use std::thread::{self, JoinHandle};

use nix::sys::signal::SigSet;
use ropeway_proto::Slot;
use ropeway_proto::limits::DOORBELLS;
use ropeway_shm::{Doorbell, JobSegment, eventfd};

/// The doorbell that no waiting thread uses.
pub(crate) const DOORBELL: u32 = DOORBELLS as u32 - 1;

/// The thread, and what it wakes.
pub(crate) struct Notifier {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    job: Arc<JobSegment>,
    local_rank: u32,
    eventfd: OwnedFd,
    /// Of the tasks that wait for a request, by its slot.
    wakers: Mutex<HashMap<Slot, Waker>>,
    is_closing: AtomicBool,
}

impl Notifier {
    pub(crate) fn start(job: Arc<JobSegment>, local_rank: u32) -> io::Result<Self> {
        let eventfd = eventfd::eventfd()?;
        let (wakers, is_closing) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { job, local_rank, eventfd, wakers, is_closing });
        let seen = shared.doorbell().listen();
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("ropeway-notify".into()).stack_size(STACK_BYTES).spawn(move || {
            // The program's signals are for the program's threads. If it can't be had, they only arrive here too.
            let _ = SigSet::all().thread_block();
            theirs.run(seen);
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.eventfd.as_fd()
    }

    /// Makes the descriptor readable: something has ended before anybody could be told to watch it.
    pub(crate) fn ring(&self) {
        // Fails only if the counter is full, and then it is readable.
        let _ = eventfd::ring(&self.shared.eventfd);
    }

    /// Has this task woken when a request that was armed with [`DOORBELL`] has ended.
    pub(crate) fn register(&self, slot: Slot, waker: &Waker) {
        self.shared.lock().insert(slot, waker.clone());
    }

    /// The task is not interested any more.
    pub(crate) fn forget(&self, slot: Slot) {
        self.shared.lock().remove(&slot);
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        // SYNC notifier-closing: the flag before the bell, which the thread hears after it has seen the flag or before.
        self.shared.is_closing.store(true, Ordering::SeqCst);
        self.shared.doorbell().wake();
        // Unless a waker dropped the last session, which the thread can't wait for itself.
        let thread = self.thread.take().filter(|thread| thread.thread().id() != thread::current().id());
        drop(thread.map(JoinHandle::join));
    }
}

impl Shared {
    fn doorbell(&self) -> &Doorbell {
        self.job.doorbell(self.local_rank, DOORBELL).expect("every rank has all doorbells")
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Slot, Waker>> {
        self.wakers.lock().expect("nothing panics under this lock")
    }

    fn run(&self, mut seen: u32) {
        // SYNC notifier-closing: see `drop`.
        while !self.is_closing.load(Ordering::SeqCst) {
            self.doorbell().sleep(seen, None);
            // What rings from here on is slept through neither: the count has changed then.
            let now = self.doorbell().listen();
            if std::mem::replace(&mut seen, now) != now {
                self.tell();
            }
        }
    }

    /// The bell does not say whose request it was, so all look for themselves. Those whose has not ended come back.
    fn tell(&self) {
        let _ = eventfd::ring(&self.eventfd);
        let wakers = std::mem::take(&mut *self.lock());
        wakers.into_values().for_each(Waker::wake);
    }
}

const STACK_BYTES: usize = 128 << 10;
