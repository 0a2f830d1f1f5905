//! The combiner: a thread that combines elements by the program's own operators while the program computes.
//!
//! What the daemon would do for who computes it can't do without the function, so it rings a doorbell of each member's process.
//! The thread that sleeps there looks for work on all collectives with such operators. It is started when the first is
//! registered and costs nothing while nobody calls it.

use std::sync::{Arc, Mutex, MutexGuard};
use std::{io, thread};

use ropeway_proto::limits::COMBINER_DOORBELL;
use ropeway_proto::{Command, Slot};
use ropeway_shm::{JobSegment, Meeting};

use crate::bell_thread::BellThread;
use crate::collective::Function;
use crate::commands::Commands;

/// The thread, and what it works on.
pub(crate) struct Combiner {
    shared: Arc<Shared>,
    _thread: BellThread,
}

struct Shared {
    job: Arc<JobSegment>,
    local_rank: u32,
    commands: Arc<Commands>,
    collectives: Mutex<Vec<Entry>>,
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
        let shared = Arc::new(Shared { job: job.clone(), local_rank, commands, collectives: Mutex::default() });
        let theirs = shared.clone();
        // The stack is as large as others are: what runs there is the program's.
        let thread = thread::Builder::new().name("ropeway-combine".into());
        let thread = BellThread::start(job, (local_rank, COMBINER_DOORBELL), thread, move || theirs.work())?;
        Ok(Self { shared, _thread: thread })
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.collectives.lock().expect("a function that panics ends its process")
    }

    fn work(&self) {
        while self.do_pieces() {
            // Who registers or frees a collective meanwhile has to wait for a piece, not for all of them.
            thread::yield_now();
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
