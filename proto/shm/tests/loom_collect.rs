//! Small gathers and reductions under every schedule that a model checker can think of: the root gets the parts of each round together, nobody
//! touches a buffer or a cell that is somebody else's, and nobody waits for what has happened. Run with `--cfg loom`.
#![cfg(loom)]

mod sleepers;

use std::sync::atomic::AtomicU32;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{Ordering, fence};
use loom::thread;
use ropeway_shm::collect::{self, CollectMemory};
use ropeway_shm::eager::{CellWord, Progress};
use ropeway_shm::relay::{self, RelayMemory, RelayWords, TakenWord};

use crate::sleepers::Sleepers;

/// Buffers are loom cells: an access that is not ordered after the last one of somebody else fails the model.
struct Shared {
    taken: TakenWord,
    members: Vec<Member>,
    /// Starts copy nothing.
    parks: bool,
    /// Where the root sleeps.
    root: Sleepers,
}

/// What one has that gives something, with one cell.
struct Member {
    words: RelayWords,
    cell: CellWord,
    buffer: UnsafeCell<u32>,
    cell_bytes: UnsafeCell<u32>,
    sleepers: Sleepers,
}

/// What a process sees, the root's or another one.
struct View<'a> {
    shared: &'a Shared,
    is_root: bool,
    taken_seen: AtomicU32,
    sums: std::cell::RefCell<Vec<u32>>,
}

struct Way<'a> {
    view: &'a View<'a>,
    member: &'a Member,
}

impl Shared {
    fn new(members: usize, parks: bool) -> Arc<Self> {
        let member = |_| Member {
            words: RelayWords::new(),
            cell: CellWord::new(),
            buffer: UnsafeCell::new(0),
            cell_bytes: UnsafeCell::new(0),
            sleepers: Sleepers::new(),
        };
        let members = (0..members).map(member).collect();
        Arc::new(Self { taken: TakenWord::new(), members, parks, root: Sleepers::new() })
    }

    fn view(&self, is_root: bool) -> View<'_> {
        View { shared: self, is_root, taken_seen: AtomicU32::new(0), sums: Default::default() }
    }

    /// A member gives a part of each round, and writes its buffer as soon as it is its own again.
    fn give(&self, index: usize, rounds: u32) {
        let (view, member) = (self.view(false), &self.members[index]);
        let way = Way { view: &view, member };
        for round in 0..rounds {
            // SAFETY: the model checker reports a race.
            member.buffer.with_mut(|buffer| unsafe { *buffer = round + 1 });
            let mut progress = relay::send(&way, round);
            while progress == Progress::Pending {
                member.sleepers.sleep_until(|| relay::can_settle(&way, round));
                progress = relay::settle(&way, round);
            }
        }
    }

    fn collect(&self, rounds: u32) -> Vec<u32> {
        let view = self.view(true);
        for round in 0..rounds {
            while collect::collect(&view, round) == Progress::Pending {
                self.root.sleep_until(|| collect::have_all_come(&view, round));
            }
        }
        view.sums.into_inner()
    }
}

impl CollectMemory for View<'_> {
    fn ways(&self) -> impl Iterator<Item = impl RelayMemory> {
        self.shared.members.iter().map(|member| Way { view: self, member })
    }

    fn taken(&self) -> &TakenWord {
        &self.shared.taken
    }

    fn combine(&self, _: u32) {
        // SAFETY: as above.
        let part = |member: &Member| member.cell_bytes.with(|cell| unsafe { *cell });
        self.sums.borrow_mut().push(self.shared.members.iter().map(part).sum());
    }
}

impl RelayMemory for Way<'_> {
    fn words(&self) -> &RelayWords {
        &self.member.words
    }

    fn cells(&self) -> u32 {
        1
    }

    fn parks(&self) -> bool {
        self.view.shared.parks
    }

    fn cell(&self, _: u32) -> &CellWord {
        &self.member.cell
    }

    fn receivers(&self) -> impl Iterator<Item = &TakenWord> {
        [&self.view.shared.taken].into_iter()
    }

    fn taken_seen(&self) -> &AtomicU32 {
        &self.view.taken_seen
    }

    fn fill(&self, _: u32) -> bool {
        // SAFETY: as above.
        let part = self.member.buffer.with(|buffer| unsafe { *buffer });
        // SAFETY: as above.
        self.member.cell_bytes.with_mut(|cell| unsafe { *cell = part });
        true
    }

    fn empty(&self, _: u32) {}

    fn wake_all(&self, number: u32) {
        fence(Ordering::SeqCst);
        if self.view.is_root {
            self.member.sleepers.wake_all();
        } else if collect::have_all_come(self.view, number) {
            self.view.shared.root.wake_all();
        }
    }
}

fn the_root_gets_the_parts_of_each_round_together(members: usize, rounds: u32, parks: bool) {
    loom::model(move || {
        let shared = Shared::new(members, parks);
        let givers: Vec<_> = (0..members)
            .map(|index| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.give(index, rounds))
            })
            .collect();
        let wanted: Vec<_> = (1..=rounds).map(|part| part * members as u32).collect();
        assert_eq!(shared.collect(rounds), wanted);
        for giver in givers {
            giver.join().unwrap();
        }
    });
}

#[test]
fn the_root_gets_parts_of_a_member_that_gets_ahead() {
    the_root_gets_the_parts_of_each_round_together(1, 3, false);
}

#[test]
fn the_root_gets_parts_that_a_member_leaves_in_its_buffer() {
    the_root_gets_the_parts_of_each_round_together(1, 2, true);
}

/// One of two that come at once sees that both have.
#[test]
fn a_root_that_sleeps_is_woken_by_the_last_to_come() {
    for parks in [false, true] {
        the_root_gets_the_parts_of_each_round_together(2, 1, parks);
    }
}

#[test]
fn the_root_gets_parts_of_two_members_that_get_ahead() {
    the_root_gets_the_parts_of_each_round_together(2, 2, false);
}
