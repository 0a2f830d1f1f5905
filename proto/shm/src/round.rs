//! Rounds of a meeting: members come, the last opens the round, its pieces are dealt out, and whoever finishes the last ends it.
//!
//! Pieces lie in sections, each with a counter. Whoever works begins in the section that is his, or his core's, and goes on to those
//! nearest, so that in each round he finds in the core's caches what was read and written there in the last one, and meets others at a
//! counter only when there is little left.
//!
//! A round may have two stages with pieces each, between which something else happens. They are opened and dealt out like
//! rounds, by number.

use std::ptr::NonNull;

use crate::prefetch::prefetch;
use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// The words of a meeting's rounds, each on the cache line of those who write it.
#[repr(C)]
pub struct RoundWords {
    counts: CountWords,
    ended: EndWords,
    sections: SectionWords,
}

/// The last to come for a round has the line, begins to count its pieces there, and sees who waits for them.
#[repr(C, align(64))]
struct CountWords {
    /// Members that have come, over all rounds.
    arrived: AtomicU64,
    /// Pieces that are done.
    done: AtomicU32,
    /// Rounds whose first stage is over, where there is another one after it.
    passed: AtomicU32,
    /// Members that wait, and so take pieces. A hint.
    watching: AtomicU32,
    /// Members that may sleep, or may have: who has left a doorbell at its request.
    sleepers: AtomicU32,
}

/// What those who wait look at, and so on a line that those who come don't write.
#[repr(C, align(64))]
struct EndWords {
    /// Rounds that are over.
    rounds: AtomicU32,
}

#[repr(C, align(64))]
struct SectionWords {
    /// Of each section the number of the round, and its next piece.
    cursors: [AtomicU64; SECTIONS as usize],
}

/// As many as there are counters on a cache line; under loom, which tries all orders, as few as there can be. A power of two.
pub const SECTIONS: u32 = if cfg!(loom) { 2 } else { 8 };
/// No piece is left.
const NONE: u32 = u32::MAX;

impl RoundWords {
    /// Words before the first round. In a segment `reset` makes them; this makes some elsewhere.
    pub fn new() -> Self {
        let words = Self {
            counts: CountWords {
                arrived: AtomicU64::new(0),
                done: AtomicU32::new(0),
                passed: AtomicU32::new(0),
                watching: AtomicU32::new(0),
                sleepers: AtomicU32::new(0),
            },
            ended: EndWords { rounds: AtomicU32::new(0) },
            sections: SectionWords { cursors: std::array::from_fn(|_| AtomicU64::new(0)) },
        };
        words.reset();
        words
    }

    /// Starts anew. Nobody else knows the meeting yet.
    pub fn reset(&self) {
        self.counts.arrived.store(0, Ordering::Relaxed);
        self.ended.rounds.store(0, Ordering::Relaxed);
        // Round 0 has no piece until it is opened.
        self.sections.cursors.iter().for_each(|cursor| cursor.store(NONE.into(), Ordering::Relaxed));
        let counts = &self.counts;
        for word in [&counts.done, &counts.passed, &counts.watching, &counts.sleepers] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// How many members wait.
    pub(crate) fn watching(&self) -> &AtomicU32 {
        &self.counts.watching
    }

    /// A member is about to leave a doorbell at its request, and a fence behind it.
    pub fn note_sleeper(&self) {
        // SYNC meeting-sleepers: counted before the fence of `RequestSlot::arm`.
        self.counts.sleepers.fetch_add(1, Ordering::Relaxed);
    }

    /// It sleeps no more.
    pub fn forget_sleeper(&self) {
        self.counts.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a member may sleep that has not seen what was written before the last fence.
    #[inline]
    pub fn has_sleepers_behind_fence(&self) -> bool {
        // SYNC meeting-sleepers.
        self.counts.sleepers.load(Ordering::Relaxed) > 0
    }

    /// Somebody is about to come: the line where he counts himself comes while he fetches other things, for which counting would wait.
    #[inline]
    pub fn prepare_to_arrive(&self) {
        prefetch(NonNull::from(&self.counts).cast(), size_of::<CountWords>(), true);
    }

    /// He may have to open the round: what he would write comes meanwhile.
    #[inline]
    pub fn prepare_to_open(&self) {
        prefetch(NonNull::from(&self.sections).cast(), size_of::<SectionWords>(), true);
    }

    /// One of so many has come. True if it is the last of this round: nobody comes for the next before this one is over.
    #[inline]
    pub fn arrive(&self, parties: u64) -> bool {
        // Then nobody else counts them, and the line may be far.
        if parties == 1 {
            return true;
        }
        // SYNC meeting-arrived: everybody's input before his arrival, and all of them before the work.
        let before = self.counts.arrived.fetch_add(1, Ordering::AcqRel);
        before.wrapping_add(1).is_multiple_of(parties)
    }

    /// Deals the round's pieces out from now on. The last member's.
    pub fn open(&self, round: u32, pieces: u32) {
        self.counts.done.store(0, Ordering::Relaxed);
        for (section, cursor) in (0..).zip(&self.sections.cursors) {
            // SYNC meeting-cursor (store): all inputs are there before pieces are dealt out.
            cursor.store(pack(round, first_piece(section, pieces)), Ordering::Release);
        }
    }

    /// Whether the round is open and has pieces that nobody has taken.
    pub fn has_pieces(&self, round: u32, pieces: u32) -> bool {
        (0..).zip(&self.sections.cursors).any(|(section, cursor)| {
            // SYNC meeting-cursor (load).
            let (number, piece) = unpack(cursor.load(Ordering::Acquire));
            number == round && piece < first_piece(section + 1, pieces)
        })
    }

    /// Takes a piece of the round, if there is one, of this section or one near it.
    pub fn claim(&self, round: u32, pieces: u32, section: u32) -> Option<u32> {
        (0..SECTIONS).find_map(|distance| {
            let section = section ^ distance;
            let end = first_piece(section + 1, pieces);
            let next = |cursor| {
                let (number, piece) = unpack(cursor);
                (number == round && piece < end).then_some(cursor + 1)
            };
            let cursor = &self.sections.cursors[section as usize];
            let claimed = cursor.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
            claimed.ok().map(|cursor| unpack(cursor).1)
        })
    }

    /// A piece is done. True if it was the last one: then the round is to be ended.
    pub fn finish(&self, pieces: u32) -> bool {
        // SYNC meeting-done: everybody's pieces before the end, which the last one declares.
        self.counts.done.fetch_add(1, Ordering::AcqRel).wrapping_add(1) == pieces
    }

    /// The first stage of so many rounds is over.
    #[inline]
    pub fn pass(&self, rounds: u32) {
        // SYNC meeting-passed (store): what the stage has brought forth before it is over.
        self.counts.passed.store(rounds, Ordering::Release);
    }

    /// How many rounds have passed their first stage.
    pub fn passed(&self) -> u32 {
        // SYNC meeting-passed (load).
        self.counts.passed.load(Ordering::Acquire)
    }

    /// The round is over.
    pub fn end(&self, round: u32) {
        // SYNC meeting-rounds (store): the results before the end.
        self.ended.rounds.store(round.wrapping_add(1), Ordering::Release);
    }

    /// How many rounds are over.
    pub fn ended(&self) -> u32 {
        self.ended.rounds.load(Ordering::Acquire)
    }

    /// Whether the round is over.
    #[inline]
    pub fn is_over(&self, round: u32) -> bool {
        // SYNC meeting-rounds (load): the results before the end.
        is_past(self.ended.rounds.load(Ordering::Acquire), round)
    }
}

/// Whether a round is among the first so many. Numbers are compared modulo 2³².
pub(crate) fn is_past(rounds: u32, round: u32) -> bool {
    rounds.wrapping_sub(round).wrapping_sub(1) < u32::MAX / 2
}

/// Of so many pieces the first one of a section, or of what would come after the last.
fn first_piece(section: u32, pieces: u32) -> u32 {
    (u64::from(pieces) * u64::from(section) / u64::from(SECTIONS)) as u32
}

fn pack(round: u32, piece: u32) -> u64 {
    u64::from(round) << 32 | u64::from(piece)
}

fn unpack(cursor: u64) -> (u32, u32) {
    ((cursor >> 32) as u32, cursor as u32)
}
