//! Pairs of a root and others under every schedule that a model checker can think of: each gets what it needs in each round, from whoever
//! copies it, nobody touches a buffer that is somebody else's, and nobody sleeps for ever. Run with `--cfg loom`.
#![cfg(loom)]

mod sleepers;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use ropeway_shm::pairs::{EarlyWord, PairWords};
use ropeway_shm::round::RoundWords;

use crate::sleepers::Sleepers;

/// A message of two pieces, one in each half.
const PIECES: u32 = 2;

/// A broadcast. Buffers are loom cells: an access that is not ordered after the last one of somebody else fails the model.
struct Shared {
    rounds: RoundWords,
    early: EarlyWord,
    /// The root's first.
    pairs: Vec<PairWords>,
    buffers: Vec<[UnsafeCell<u32>; PIECES as usize]>,
    sleepers: Sleepers,
}

impl Shared {
    fn new(members: usize) -> Arc<Self> {
        Arc::new(Self {
            rounds: RoundWords::new(),
            early: EarlyWord::new(),
            pairs: (0..members).map(|_| PairWords::new()).collect(),
            buffers: (0..members).map(|_| std::array::from_fn(|_| UnsafeCell::new(0))).collect(),
            sleepers: Sleepers::new(),
        })
    }

    fn come(&self, index: usize, round: u32) -> bool {
        let own = &self.pairs[index];
        let may_be_due = match index {
            0 => own.come_as_root(round, &self.early),
            _ => own.come(round, &self.pairs[0], &self.early),
        };
        self.sleepers.wake_all();
        may_be_due
    }

    fn is_over(&self, index: usize, round: u32) -> bool {
        if index == 0 { self.rounds.is_over(round) } else { self.pairs[index].is_over(round, PIECES) }
    }

    fn is_due(&self, index: usize) -> bool {
        self.pairs[index].due(&self.pairs[0], PIECES).is_some()
    }

    /// Copies what nobody else has taken of this pair.
    fn copy(&self, index: usize, is_own: bool) {
        let (own, root) = (&self.pairs[index], &self.pairs[0]);
        let halves = if is_own { [0, 1] } else { [1, 0] };
        while let Some(round) = own.due(root, PIECES)
            && let Some(piece) = halves.into_iter().find_map(|half| own.claim(round, root, PIECES, half))
        {
            let [from, to] = [0, index].map(|index| &self.buffers[index][piece as usize]);
            if index > 0 {
                // SAFETY: the model checker reports a race.
                from.with(|from| to.with_mut(|to| unsafe { *to = *from }));
            }
            if own.finish(PIECES) {
                if self.rounds.arrive(self.pairs.len() as u64) {
                    self.rounds.end(round);
                }
                self.sleepers.wake_all();
            }
        }
    }

    /// What the root does in a round. `helps`: it copies for others while it waits.
    fn send(&self, round: u32, helps: bool) {
        // SAFETY: the model checker reports a race.
        self.buffers[0].iter().for_each(|piece| piece.with_mut(|piece| unsafe { *piece = round + 7 }));
        self.come(0, round);
        let mine = if helps { self.pairs.len() } else { 1 };
        while !self.is_over(0, round) {
            (0..mine).for_each(|index| self.copy(index, index == 0));
            self.sleepers.sleep_until(|| self.is_over(0, round) || (0..mine).any(|index| self.is_due(index)));
        }
    }

    /// What another member does, which copies for itself.
    fn receive(&self, index: usize, round: u32) {
        self.come(index, round);
        while !self.is_over(index, round) {
            self.copy(index, true);
            self.sleepers.sleep_until(|| self.is_over(index, round) || self.is_due(index));
        }
        for piece in &self.buffers[index] {
            // SAFETY: the model checker reports a race.
            assert_eq!(piece.with(|piece| unsafe { *piece }), round + 7);
        }
    }
}

#[test]
fn each_round_reaches_its_receiver_whoever_copies() {
    loom::model(|| {
        let shared = Shared::new(2);
        let receiving = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || (0..2).for_each(|round| shared.receive(1, round)))
        };
        (0..2).for_each(|round| shared.send(round, true));
        receiving.join().unwrap();
    });
}

#[test]
fn a_receiver_waits_for_no_other() {
    loom::model(|| {
        let shared = Shared::new(3);
        let sending = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.send(0, false))
        };
        // The other one does not come before this one has all.
        shared.receive(1, 0);
        assert!(!shared.is_over(0, 0));
        shared.receive(2, 0);
        sending.join().unwrap();
    });
}

#[test]
fn of_two_that_come_at_once_one_sees_that_both_have() {
    loom::model(|| {
        let shared = Shared::new(2);
        let coming = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.come(1, 0))
        };
        let root_sees = shared.come(0, 0);
        assert!(coming.join().unwrap() || root_sees);
    });
}
