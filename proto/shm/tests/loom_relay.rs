//! Small broadcasts under every schedule that a model checker can think of: each receiver gets each message, nobody touches a
//! buffer or a cell that is somebody else's, and nobody waits for what has happened. Run with `--cfg loom`.
#![cfg(loom)]

mod sleepers;

use std::sync::atomic::AtomicU32;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use ropeway_shm::eager::{CellWord, Progress};
use ropeway_shm::relay::{self, RelayMemory, RelayWords, TakenWord};

use crate::sleepers::Sleepers;

const MESSAGES: u32 = 2;

/// Buffers are loom cells: an access that is not ordered after the last one of somebody else fails the model.
struct Shared {
    words: RelayWords,
    taken: Vec<TakenWord>,
    cell: CellWord,
    root_buffer: UnsafeCell<u32>,
    cell_bytes: UnsafeCell<u32>,
    /// The root's starts copy nothing.
    parks: bool,
    sleepers: Sleepers,
}

/// What a receiver, or with no buffer the root, does with it.
struct View<'a> {
    shared: &'a Shared,
    buffer: UnsafeCell<u32>,
    taken_seen: AtomicU32,
}

impl Shared {
    fn new(receivers: usize, parks: bool) -> Arc<Self> {
        Arc::new(Self {
            parks,
            words: RelayWords::new(),
            taken: (0..receivers).map(|_| TakenWord::new()).collect(),
            cell: CellWord::new(),
            root_buffer: UnsafeCell::new(0),
            cell_bytes: UnsafeCell::new(0),
            sleepers: Sleepers::new(),
        })
    }

    fn view(&self) -> View<'_> {
        View { shared: self, buffer: UnsafeCell::new(0), taken_seen: AtomicU32::new(0) }
    }

    fn send_all(&self) {
        let view = self.view();
        for number in 0..MESSAGES {
            self.write(number);
            let mut progress = relay::send(&view, number);
            while progress == Progress::Pending {
                self.sleepers.sleep_until(|| relay::can_settle(&view, number));
                progress = relay::settle(&view, number);
            }
        }
    }

    fn write(&self, number: u32) {
        // SAFETY: the model checker reports a race.
        self.root_buffer.with_mut(|buffer| unsafe { *buffer = number + 1 });
    }

    fn receive_all(&self, receiver: usize) {
        let view = self.view();
        (0..MESSAGES).for_each(|number| self.receive(&view, receiver, number));
    }

    fn receive(&self, view: &View<'_>, receiver: usize, number: u32) {
        while relay::receive(view, &self.taken[receiver], number) == Progress::Pending {
            self.sleepers.sleep_until(|| relay::has_come(view, number));
        }
        // SAFETY: as above.
        assert_eq!(view.buffer.with(|buffer| unsafe { *buffer }), number + 1);
    }
}

impl RelayMemory for View<'_> {
    fn words(&self) -> &RelayWords {
        &self.shared.words
    }

    fn cells(&self) -> u32 {
        1
    }

    fn parks(&self) -> bool {
        self.shared.parks
    }

    fn cell(&self, _: u32) -> &CellWord {
        &self.shared.cell
    }

    fn receivers(&self) -> impl Iterator<Item = &TakenWord> {
        self.shared.taken.iter()
    }

    fn taken_seen(&self) -> &AtomicU32 {
        &self.taken_seen
    }

    fn fill(&self, _: u32) -> bool {
        // SAFETY: as above.
        let message = self.shared.root_buffer.with(|buffer| unsafe { *buffer });
        // SAFETY: as above.
        self.shared.cell_bytes.with_mut(|cell| unsafe { *cell = message });
        true
    }

    fn empty(&self, _: u32) {
        // SAFETY: as above.
        let message = self.shared.cell_bytes.with(|cell| unsafe { *cell });
        // SAFETY: as above.
        self.buffer.with_mut(|buffer| unsafe { *buffer = message });
    }

    fn wake_all(&self, _: u32) {
        self.shared.sleepers.wake_all();
    }
}

fn everybody_gets_each_message(parks: bool) {
    loom::model(move || {
        let shared = Shared::new(2, parks);
        let receivers = [0, 1].map(|receiver| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.receive_all(receiver))
        });
        shared.send_all();
        for receiver in receivers {
            receiver.join().unwrap();
        }
    });
}

#[test]
fn everybody_gets_each_message_of_a_root_that_gets_ahead() {
    everybody_gets_each_message(false);
}

#[test]
fn everybody_gets_each_message_of_a_root_that_leaves_them_in_its_buffer() {
    everybody_gets_each_message(true);
}

/// Its start was all it did.
#[test]
fn everybody_gets_the_message_of_a_root_that_computes() {
    loom::model(|| {
        let shared = Shared::new(2, true);
        let receivers = [0, 1].map(|receiver| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.receive(&shared.view(), receiver, 0))
        });
        let view = View { shared: &shared, buffer: UnsafeCell::new(0), taken_seen: AtomicU32::new(0) };
        shared.write(0);
        assert_eq!(relay::send(&view, 0), Progress::Pending);
        for receiver in receivers {
            receiver.join().unwrap();
        }
        assert_eq!(relay::settle(&view, 0), Progress::Done);
    });
}
