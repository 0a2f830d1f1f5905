//! Small broadcasts within a node, and small scatters, of whose message everybody takes a part: the root gets ahead, and everybody takes a
//! message when he comes.
//!
//! Messages lie in a ring of cells. The root fills a cell when all others have taken what was in it before, and is done. If it
//! has not been emptied the root *parks*: the message stays in its buffer until whoever empties the cell last moves it there.
//! So the root is not needed for that, and nobody waits for a root that computes.
//!
//! Larger messages the root always parks, so that its start copies nothing: whoever waits first, a receiver or the root, moves them.
//!
//! Each word has one writer, but for `parked`, which is claimed by compare-and-swap. The races, and why they are none:
//! README.md, "Relay".

use std::sync::atomic::AtomicU32 as OwnWord;

use crate::eager::{CellWord, Progress};
use crate::primitive::{AtomicU32, Ordering, fence};

/// The root's word.
#[repr(C, align(64))]
pub struct RelayWords {
    /// Number and phase of a message that stays in the root's buffer.
    parked: AtomicU32,
}

/// A receiver's word.
#[repr(C, align(64))]
pub struct TakenWord {
    /// How many messages it has taken.
    taken: AtomicU32,
}

/// What moves bytes and wakes the others. The protocol decides who may call what when.
pub trait RelayMemory {
    /// The root's word.
    fn words(&self) -> &RelayWords;
    /// How many cells there are: so far ahead may the root be.
    fn cells(&self) -> u32;
    /// Whether the root parks all messages.
    fn parks(&self) -> bool;
    /// The word of the cell that message `number` uses.
    fn cell(&self, number: u32) -> &CellWord;
    /// The words of all receivers.
    fn receivers(&self) -> impl Iterator<Item = &TakenWord>;
    /// A number of this process's own: so many messages all receivers have taken at least, as was seen last.
    fn taken_seen(&self) -> &OwnWord;
    /// Copies the root's buffer into that cell. False if it must not be touched any more.
    fn fill(&self, number: u32) -> bool;
    /// Copies that cell, or his part of it, into the buffer of the receiver who calls.
    fn empty(&self, number: u32);
    /// Has the processor fetch that cell, which is likely to be read soon.
    fn fetch_ahead(&self, _number: u32) {}
    /// Wakes those who sleep and wait for message `number`, or for its buffer. Everything written before is visible to those who don't.
    fn wake_all(&self, number: u32);
}

/// Of a root that is ahead cells are fetched so many messages early. It may just be writing the next one.
const AHEAD: u32 = 2;

// Phases of `parked`.
const WAITING: u32 = 1;
const MOVING: u32 = 2;

/// A message number with a phase. Numbers are compared modulo 2³⁰; only few are ever around at a time.
fn phase(number: u32, phase: u32) -> u32 {
    number << 2 | phase
}

impl RelayWords {
    /// Words before the first message. In a segment `reset` makes them; this makes some elsewhere.
    pub fn new() -> Self {
        Self { parked: AtomicU32::new(0) }
    }

    /// Starts anew. Nobody else knows it yet.
    pub fn reset(&self) {
        self.parked.store(0, Ordering::Relaxed);
    }

    /// Whether the root's buffer is not needed any more for message `number`, which was started.
    pub fn is_sent(&self, number: u32) -> bool {
        // SYNC relay-parked (load): the buffer was read before.
        let parked = self.parked.load(Ordering::Acquire);
        parked != phase(number, WAITING) && parked != phase(number, MOVING)
    }
}

impl TakenWord {
    /// Of a receiver that has taken nothing. In a segment `reset` makes it; this makes one elsewhere.
    pub fn new() -> Self {
        Self { taken: AtomicU32::new(0) }
    }

    /// Starts anew. Nobody else knows it yet.
    pub fn reset(&self) {
        self.taken.store(0, Ordering::Relaxed);
    }

    /// Message `number` was taken, and its cell is the root's again.
    #[inline]
    pub(crate) fn give_back(&self, number: u32) {
        // SYNC relay-taken (store): the cell is read before it is given back.
        self.taken.store(number.wrapping_add(1), Ordering::Release);
        // SYNC relay-full: see `send`.
        fence(Ordering::SeqCst);
    }

    /// How many messages were.
    pub(crate) fn count(&self) -> u32 {
        // SYNC relay-taken (load): who fills a cell next does so behind those who have read it.
        self.taken.load(Ordering::Acquire)
    }
}

/// The root sends message `number`, as far as that is possible now.
pub fn send(memory: &impl RelayMemory, number: u32) -> Progress {
    if !memory.parks() && has_room(memory, number) {
        if memory.fill(number) {
            memory.cell(number).put(number);
            memory.wake_all(number);
        }
        return Progress::Done;
    }
    // SYNC relay-parked (store): the bytes before the phase.
    memory.words().parked.store(phase(number, WAITING), Ordering::Release);
    // SYNC relay-full: the phase before `taken` here, `taken` before the phase in `receive`; with both fences either we see
    // that the cell was emptied, or who empties it last sees that we have parked.
    fence(Ordering::SeqCst);
    if memory.parks() {
        memory.wake_all(number);
        return Progress::Pending;
    }
    move_parked(memory, number);
    sent(memory, number)
}

/// The root waits for message `number` to leave its buffer.
#[inline]
pub fn settle(memory: &impl RelayMemory, number: u32) -> Progress {
    if is_parked(memory, number) {
        move_parked(memory, number);
    }
    sent(memory, number)
}

/// Whether [`settle`] would get further.
#[inline]
pub fn can_settle(memory: &impl RelayMemory, number: u32) -> bool {
    memory.words().is_sent(number) || (is_parked(memory, number) && has_room(memory, number))
}

fn sent(memory: &impl RelayMemory, number: u32) -> Progress {
    if memory.words().is_sent(number) { Progress::Done } else { Progress::Pending }
}

/// Whether message `number` is there, or whoever receives it may fetch it.
#[inline]
pub fn has_come(memory: &impl RelayMemory, number: u32) -> bool {
    memory.cell(number).has(number) || (is_parked(memory, number) && has_room(memory, number))
}

/// Whether message `number` is parked for whoever waits first.
#[inline]
fn is_parked(memory: &impl RelayMemory, number: u32) -> bool {
    memory.parks() && memory.words().parked.load(Ordering::Relaxed) == phase(number, WAITING)
}

/// A receiver, whose word is `own`, takes message `number` if it is there.
#[inline]
pub fn receive(memory: &impl RelayMemory, own: &TakenWord, number: u32) -> Progress {
    if !fetch(memory, number) {
        return Progress::Pending;
    }
    memory.empty(number);
    memory.fetch_ahead(number.wrapping_add(AHEAD));
    own.give_back(number);
    go_on(memory, number);
    Progress::Done
}

/// Sees to it that message `number` lies in its cell. False if it is not there yet.
#[inline]
pub(crate) fn fetch(memory: &impl RelayMemory, number: u32) -> bool {
    if is_parked(memory, number) {
        move_parked(memory, number);
    }
    memory.cell(number).has(number)
}

/// The cell of message `number` was given back, and the root may have parked the next one for it.
#[inline]
pub(crate) fn go_on(memory: &impl RelayMemory, number: u32) {
    let next = number.wrapping_add(memory.cells());
    if memory.words().parked.load(Ordering::Relaxed) == phase(next, WAITING) {
        move_parked(memory, next);
    }
}

/// Moves the root's message to its cell, if that is empty and nobody else does it.
#[cold]
fn move_parked(memory: &impl RelayMemory, number: u32) {
    let parked = &memory.words().parked;
    let (waiting, moving) = (phase(number, WAITING), phase(number, MOVING));
    // SYNC relay-parked (load): the phase before the bytes.
    let is_ours = has_room(memory, number)
        && parked.compare_exchange(waiting, moving, Ordering::Acquire, Ordering::Relaxed).is_ok();
    if is_ours && memory.fill(number) {
        memory.cell(number).put(number);
        // SYNC relay-parked (store): the bytes are read before the buffer is given back.
        parked.store(0, Ordering::Release);
        memory.wake_all(number);
    }
}

/// Whether all receivers have taken what was in the cell of message `number`.
#[inline]
fn has_room(memory: &impl RelayMemory, number: u32) -> bool {
    let is_free = |taken: u32| number.wrapping_sub(taken) < memory.cells();
    // The receivers' lines are looked at only when it is time: they write them all the time.
    let seen = memory.taken_seen();
    if is_free(seen.load(Ordering::Relaxed)) {
        return true;
    }
    // SYNC relay-taken (load): they have read what was in the cell.
    let takens = memory.receivers().map(TakenWord::count);
    // Whoever asks may have been kept from his core since he had reason to: others may have taken this message, and more.
    let behind = |taken: &u32| number.wrapping_sub(*taken).cast_signed();
    let Some(slowest) = takens.max_by_key(behind) else { return true };
    seen.store(slowest, Ordering::Relaxed);
    is_free(slowest)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const CELLS: u32 = 4;

    /// As one of the receivers sees it.
    struct View {
        words: RelayWords,
        cell: CellWord,
        taken: [TakenWord; 3],
        taken_seen: OwnWord,
    }

    impl RelayMemory for View {
        fn words(&self) -> &RelayWords {
            &self.words
        }

        fn cells(&self) -> u32 {
            CELLS
        }

        fn parks(&self) -> bool {
            false
        }

        fn cell(&self, _: u32) -> &CellWord {
            &self.cell
        }

        fn receivers(&self) -> impl Iterator<Item = &TakenWord> {
            self.taken.iter()
        }

        fn taken_seen(&self) -> &OwnWord {
            &self.taken_seen
        }

        fn fill(&self, _: u32) -> bool {
            true
        }

        fn empty(&self, _: u32) {}

        fn wake_all(&self, _: u32) {}
    }

    /// Of 4 ranks on two cores some waited for ever for messages that had been written over.
    #[test]
    fn who_looks_late_does_not_take_the_fastest_for_the_slowest() {
        let taken = |count| TakenWord { taken: AtomicU32::new(count) };
        // One that looks whether there is room for message 4 was kept from its core until another had taken that.
        for (late, fast, slow) in [(1, 5, 1), (u32::MAX, 3, u32::MAX), (1, 8, 4)] {
            let view = View {
                words: RelayWords::new(),
                cell: CellWord::new(),
                taken: [late, fast, slow].map(taken),
                taken_seen: OwnWord::new(late.wrapping_sub(CELLS)),
            };
            let has_room_for = |ahead| has_room(&view, late.wrapping_add(ahead));
            assert!(has_room_for(CELLS - 1));
            assert!(!has_room_for(CELLS), "taken {late}, {fast}, {slow}");
        }
    }
}
