//! Rounds of a collective within a node in which something goes from one member, the root, to each of the others, or back.
//!
//! The root and each of the others are a pair of their own, which is over when both have come and what goes between them was copied. So
//! nobody but the root waits for more than one. Whoever comes second of a pair sees that it is: each says that it has come, and looks for
//! the other behind a fence. The root looks at one word for all of them: how many have come before it.
//!
//! Pieces are counted over all rounds, so nothing is set back between them. Those of the next round are not dealt out before the last ones of
//! this round are done, because the member does not come again before. They lie in two halves: the member begins with one, and who helps it
//! with the other, or, where members share cores, each core with its own, so that it finds in its caches what it has copied the last time.

use crate::primitive::{AtomicU32, AtomicU64, Ordering, fence};
use crate::round::is_past;

/// The words of a pair, and of the member that it is named after. The root has its own: what it gets from itself.
#[repr(C, align(64))]
pub struct PairWords {
    /// For how many rounds the member has come.
    come: AtomicU32,
    /// Pieces that are taken of each half, of all rounds.
    taken: [AtomicU64; 2],
    /// Pieces that are done, of all rounds.
    done: AtomicU64,
}

/// The word by which the root knows that others have come.
#[repr(C, align(64))]
pub struct EarlyWord {
    /// How many have come before the root since it looked last, or more.
    members: AtomicU32,
}

impl PairWords {
    /// Words before the first round. In a segment `reset` makes them; this makes some elsewhere.
    pub fn new() -> Self {
        Self { come: AtomicU32::new(0), taken: [AtomicU64::new(0), AtomicU64::new(0)], done: AtomicU64::new(0) }
    }

    /// Starts anew. Nobody else knows it yet.
    pub fn reset(&self) {
        self.come.store(0, Ordering::Relaxed);
        self.taken.iter().for_each(|taken| taken.store(0, Ordering::Relaxed));
        self.done.store(0, Ordering::Relaxed);
    }

    /// A member other than the root comes for a round. True if the root has come already.
    pub fn come(&self, round: u32, root: &Self, early: &EarlyWord) -> bool {
        self.note_come(round);
        if root.has_come(round) {
            return true;
        }
        // SYNC pair-early: our arrival before the count, and the count before the root's arrival here, the root's before the count in
        // `come_as_root`; with both fences either we see that it has come, or it sees that we have.
        early.members.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        root.has_come(round)
    }

    /// The root comes for a round. True if others may have come already.
    pub fn come_as_root(&self, round: u32, early: &EarlyWord) -> bool {
        self.note_come(round);
        early.members.swap(0, Ordering::AcqRel) > 0
    }

    fn note_come(&self, round: u32) {
        // SYNC pair-come (store): what is in a member's buffer before it comes.
        self.come.store(round.wrapping_add(1), Ordering::Release);
        // SYNC slot-waiter, pair-early: the arrival before the looks that follow.
        fence(Ordering::SeqCst);
    }

    /// Whether the member has come for this round.
    pub fn has_come(&self, round: u32) -> bool {
        // SYNC pair-come (load).
        is_past(self.come.load(Ordering::Acquire), round)
    }

    /// The round of which nobody has taken all pieces, if both have come for it.
    #[inline]
    pub fn due(&self, root: &Self, pieces: u32) -> Option<u32> {
        [0, 1].into_iter().find_map(|half| self.due_of(half, root, pieces, self.taken[half].load(Ordering::Acquire)))
    }

    /// The same of a half of which so many are taken.
    fn due_of(&self, half: usize, root: &Self, pieces: u32, taken: u64) -> Option<u32> {
        let round = taken.checked_div(half_of(pieces, half).into())? as u32;
        (self.has_come(round) && root.has_come(round)).then_some(round)
    }

    /// Takes a piece of this round and half, if one is left.
    pub fn claim(&self, round: u32, root: &Self, pieces: u32, half: usize) -> Option<u32> {
        let next = |taken| (self.due_of(half, root, pieces, taken) == Some(round)).then_some(taken.wrapping_add(1));
        let claimed = self.taken[half].fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        let first = if half == 0 { 0 } else { half_of(pieces, 0) };
        claimed.ok().map(|taken| first + (taken % u64::from(half_of(pieces, half))) as u32)
    }

    /// A piece is done. True if it was the last one, and the pair is over.
    pub fn finish(&self, pieces: u32) -> bool {
        // SYNC pair-done: everybody's pieces before the end.
        let before = self.done.fetch_add(1, Ordering::AcqRel);
        before.wrapping_add(1).is_multiple_of(pieces.into())
    }

    /// How many rounds are over, modulo 2³².
    #[inline]
    pub fn rounds(&self, pieces: u32) -> u32 {
        (self.done.load(Ordering::Acquire) / u64::from(pieces)) as u32
    }

    /// Whether this round is.
    #[inline]
    pub fn is_over(&self, round: u32, pieces: u32) -> bool {
        is_past(self.rounds(pieces), round)
    }
}

impl EarlyWord {
    /// The word before the first round. In a segment `reset` makes it; this makes one elsewhere.
    pub fn new() -> Self {
        Self { members: AtomicU32::new(0) }
    }

    /// Starts anew. Nobody else knows it yet.
    pub fn reset(&self) {
        self.members.store(0, Ordering::Relaxed);
    }
}

/// How many of so many pieces are in that half.
fn half_of(pieces: u32, half: usize) -> u32 {
    if half == 0 { pieces.div_ceil(2) } else { pieces / 2 }
}
