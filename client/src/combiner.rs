//! The combiner: a thread that combines elements by the program's own operators while the program computes.
//!
//! What the daemon would do for who computes it can't do without the function, so it rings a doorbell of each member's process.
//! The thread that sleeps there looks for work on all collectives with such operators. It is started when the first is
//! registered and costs nothing while nobody calls it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use nix::sys::signal::SigSet;
use ropeway_proto::limits::COMBINER_DOORBELL;
use ropeway_proto::{Command, Slot};
use ropeway_shm::{Doorbell, JobSegment, Meeting};

use crate::collective::Function;
use crate::commands::Commands;

/// The thread, and what it works on.
pub(crate) struct Combiner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    job: Arc<JobSegment>,
    local_rank: u32,
    commands: Arc<Commands>,
    collectives: Mutex<Vec<Entry>>,
    is_closing: AtomicBool,
}

/// A registered collective.
struct Entry {
    slot: Slot,
    /// Its rank's number among the members.
    member: u32,
    function: Function,
    /// Where the members meet, once they do.
    meeting: Option<Meeting>,
}

impl Combiner {
    pub(crate) fn start(job: Arc<JobSegment>, local_rank: u32, commands: Arc<Commands>) -> io::Result<Self> {
        let (collectives, is_closing) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { job, local_rank, commands, collectives, is_closing });
        let seen = shared.doorbell().listen();
        let theirs = shared.clone();
        // The stack is as large as others are: what runs there is the program's.
        let thread = thread::Builder::new().name("ropeway-combine".into()).spawn(move || {
            // The program's signals are for the program's threads. If it can't be had, they only arrive here too.
            let _ = SigSet::all().thread_block();
            theirs.run(seen);
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Works from now on on the collective that is registered on this slot, whenever it is called.
    pub(crate) fn add(&self, slot: Slot, member: u32, function: Function) {
        self.shared.lock().push(Entry { slot, member, function, meeting: None });
    }

    /// The collective is about to be freed. When this returns it is not worked on any more.
    pub(crate) fn remove(&self, slot: Slot) {
        self.shared.lock().retain(|entry| entry.slot != slot);
    }
}

impl Drop for Combiner {
    fn drop(&mut self) {
        // SYNC combiner-closing: the flag before the bell, which the thread hears after it has seen the flag or before.
        self.shared.is_closing.store(true, Ordering::SeqCst);
        self.shared.doorbell().wake();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the combiner does not panic");
        }
    }
}

impl Shared {
    fn doorbell(&self) -> &Doorbell {
        self.job.doorbell(self.local_rank, COMBINER_DOORBELL).expect("every rank has all doorbells")
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.collectives.lock().expect("a function that panics ends its process")
    }

    fn run(&self, mut seen: u32) {
        // SYNC combiner-closing: see `drop`.
        while !self.is_closing.load(Ordering::SeqCst) {
            self.doorbell().sleep(seen, None);
            // Who calls from here on is not overheard: the count has changed then.
            seen = self.doorbell().listen();
            while self.do_pieces() {
                // Who registers or frees a collective meanwhile has to wait for a piece, not for all of them.
                thread::yield_now();
            }
        }
    }

    /// Does a piece of each collective that has work. False if there was none.
    fn do_pieces(&self) -> bool {
        let mut has_worked = false;
        for entry in self.lock().iter_mut() {
            has_worked |= self.do_piece(entry);
        }
        has_worked
    }

    fn do_piece(&self, entry: &mut Entry) -> bool {
        if entry.meeting.is_none() {
            let channel = self.job.slot(self.local_rank, entry.slot).and_then(|slot| slot.channel());
            entry.meeting =
                channel.and_then(|(block, _)| Meeting::read(&self.job, block, Some(entry.function.prepare())));
        }
        let Some(meeting) = &entry.meeting else { return false };
        let helped = meeting.working_round().map(|round| meeting.help(entry.member, round, 1)).unwrap_or_default();
        if helped.has_passed {
            self.commands.call(Command::Move { slot: entry.slot });
        }
        helped.pieces > 0
    }
}
