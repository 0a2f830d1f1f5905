//! Threads of the library's own, and those among them that sleep on a doorbell and do something whenever that is rung.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use nix::sys::signal::SigSet;
use ropeway_shm::{Doorbell, JobSegment};

/// A thread that sleeps on a doorbell of its own, and costs nothing while nobody rings. It ends with this.
pub(crate) struct BellThread {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

struct Bell {
    job: Arc<JobSegment>,
    local_rank: u32,
    index: u32,
    is_closing: AtomicBool,
}

impl BellThread {
    /// Has a thread do this `work` whenever the rank's doorbell of this index is rung.
    pub(crate) fn start(
        job: Arc<JobSegment>,
        (local_rank, index): (u32, u32),
        thread: thread::Builder,
        work: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let bell = Arc::new(Bell { job, local_rank, index, is_closing: AtomicBool::new(false) });
        let (theirs, seen) = (bell.clone(), bell.doorbell().listen());
        let thread = spawn(thread, move || theirs.run(seen, work))?;
        Ok(Self { bell, thread: Some(thread) })
    }
}

impl Drop for BellThread {
    fn drop(&mut self) {
        // SYNC bell-closing: the flag before the bell, which the thread hears after it has seen the flag or before.
        self.bell.is_closing.store(true, Ordering::SeqCst);
        self.bell.doorbell().wake();
        // Unless its work has dropped the last session, which the thread can't wait for itself.
        let thread = self.thread.take().filter(|thread| thread.thread().id() != thread::current().id());
        drop(thread.map(JoinHandle::join));
    }
}

impl Bell {
    fn doorbell(&self) -> &Doorbell {
        self.job.doorbell(self.local_rank, self.index).expect("every rank has all doorbells")
    }

    fn run(&self, mut seen: u32, work: impl Fn()) {
        // SYNC bell-closing: see `drop`.
        while !self.is_closing.load(Ordering::SeqCst) {
            self.doorbell().sleep(seen, None);
            // What rings from here on is slept through neither: the count has changed then.
            let now = self.doorbell().listen();
            if std::mem::replace(&mut seen, now) != now {
                work();
            }
        }
    }
}

/// Spawns a thread that leaves the program's signals to the program's threads.
pub(crate) fn spawn(thread: thread::Builder, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread.spawn(move || {
        // If the mask can't be had, they only arrive here too.
        let _ = SigSet::all().thread_block();
        run();
    })
}
