//! Small messages of a direct channel: whoever arrives second does the work, and nobody else is needed.
//!
//! A channel has one sending and one receiving process and counts its messages. Message `n` takes one of three ways:
//!
//! | the sender finds | it | the receiver |
//! |---|---|---|
//! | the receiver armed, and the message is not tiny | copies into the receiver's buffer | finds it there |
//! | a free cell | copies into the cell | copies it out of the cell |
//! | all cells full | parks: the message stays in its buffer | copies it out of the sender's buffer |
//!
//! Each word has one writer, but for two that are handed over by compare-and-swap: `armed` (the receiver's buffer, claimed
//! by the sender) and `parked` (the sender's buffer, claimed by the receiver). The races, and why they are none: README.md,
//! "Direct channel".

mod offer;
#[cfg(not(loom))]
mod put;
mod words;

use ropeway_proto::End;

pub use offer::settle;
pub use words::{CellWord, EagerWords};

use offer::{change_offer, is_offered};

use crate::primitive::{Ordering, fence};

/// Messages that may wait in cells within a node. The model checker gets to full cells sooner with fewer.
pub const CELLS: u32 = if cfg!(loom) { 1 } else { 4 };
/// No channel has more: the sender over a wire is told of half of them at once, which costs little then.
pub(crate) const CELLS_MAX: u32 = 16;
/// Numbers come again after 2³² messages; so often the sender sees to it that no cell still says that it has the message that had the
/// number before, or none.
const RENEWAL: u32 = 1 << 30;

/// What moves bytes and wakes the other end. The protocol decides who may call what when.
pub trait EagerMemory {
    /// The words.
    fn words(&self) -> &EagerWords;
    /// The word of the cell that message `number` would use.
    fn cell(&self, number: u32) -> &CellWord;
    /// Copies the sender's buffer into that cell.
    fn fill(&self, number: u32);
    /// Copies that cell into the receiver's buffer.
    fn empty(&self, number: u32);
    /// Copies the sender's buffer into the receiver's.
    fn place(&self);
    /// Whether placing beats a cell: not for messages that fit beside the cell's word, which arrive with it.
    fn is_placed(&self) -> bool;
    /// Whether an end that starts with others has started this message with them.
    fn has_started(&self, _end: End, _number: u32) -> bool {
        false
    }
    /// Wakes the receiver if it sleeps. Everything written before is visible to it if it does not.
    fn wake_receiver(&self);
    /// Wakes the sender if it sleeps.
    fn wake_sender(&self);
}

/// Whether an operation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has.
    Done,
    /// Not yet.
    Pending,
}

// Phases of `parked`.
const WAITING: u32 = 1;
const PULLING: u32 = 2;
const PULLED: u32 = 3;
// Phases of `armed`.
const ARMED: u32 = 1;
const WRITING: u32 = 2;
const PLACED: u32 = 3;
// Phases of either.
const OFFERED: u32 = 1;
const CLAIMED: u32 = 2;
const _: () = assert!(WAITING == OFFERED && ARMED == OFFERED && PULLING == CLAIMED && WRITING == CLAIMED);

/// A message number with a phase. Numbers are compared modulo 2³⁰; only few are ever around at a time.
fn phase(number: u32, phase: u32) -> u32 {
    number << 2 | phase
}

/// The sending end: what it knows of its own.
#[derive(Clone, Copy, Debug)]
pub struct EagerSender {
    number: u32,
    /// `taken`, when it was last looked at.
    taken_seen: u32,
    /// Messages that it leaves in cells: none if it parks them all.
    cells: u32,
}

impl Default for EagerSender {
    fn default() -> Self {
        Self::at(0)
    }
}

impl EagerSender {
    /// The end whose next message has this number.
    pub fn at(number: u32) -> Self {
        Self { number, taken_seen: 0, cells: CELLS }
    }

    /// Of a channel that has so many cells.
    pub(crate) fn with_cells(self, cells: u32) -> Self {
        Self { cells, ..self }
    }

    /// Whether all messages stay in the sender's buffer.
    pub fn parks(&self) -> bool {
        self.cells == 0
    }

    /// Messages stay in the sender's buffer until they are taken: a start copies nothing, and ends later. For receivers that look for
    /// parked messages whenever they are woken, as wires do.
    pub fn parking(self) -> Self {
        Self { cells: 0, ..self }
    }

    /// Sends the next message, as far as that is possible now.
    #[inline(always)]
    pub fn start(&mut self, memory: &impl EagerMemory) -> Progress {
        if memory.is_placed()
            && let Some(progress) = self.start_placed(memory)
        {
            return progress;
        }
        if self.has_cell(memory.words()) { self.put(memory) } else { self.park(memory) }
    }

    /// The same of a message that is not tiny, unless it has to go into a cell.
    // Apart, for those that are tiny take fewer registers.
    #[inline(never)]
    fn start_placed(&mut self, memory: &impl EagerMemory) -> Option<Progress> {
        if self.cells == 0 {
            return Some(self.leave(memory));
        }
        self.claim_buffer(memory).then(|| self.place(memory))
    }

    /// Whether [`poll`](Self::poll) would get further with a pending message.
    pub fn is_due(&self, words: &EagerWords) -> bool {
        // SYNC eager-parked (load).
        let parked = words.sender.parked.load(Ordering::Acquire);
        let mut probe = *self;
        parked == phase(self.number, PULLED) || (parked == phase(self.number, WAITING) && probe.has_cell(words))
    }

    /// Goes on with a pending message.
    pub fn poll(&mut self, memory: &impl EagerMemory) -> Progress {
        let words = memory.words();
        if self.is_pulled(words) {
            return self.advance(memory);
        }
        if self.has_cell(words) && self.cancel(memory) { self.put(memory) } else { Progress::Pending }
    }

    /// Whether the receiver has taken the message out of our buffer.
    #[inline]
    fn is_pulled(&self, words: &EagerWords) -> bool {
        // SYNC eager-parked (load): the receiver needs our buffer no more.
        words.sender.parked.load(Ordering::Acquire) == phase(self.number, PULLED)
    }

    /// The message is out of our buffer; the next one is the next.
    #[inline]
    pub fn advance(&mut self, memory: &impl EagerMemory) -> Progress {
        self.number = self.number.wrapping_add(1);
        if self.number.is_multiple_of(RENEWAL) {
            self.renew_cells(memory);
        }
        Progress::Done
    }

    #[cold]
    fn renew_cells(&self, memory: &impl EagerMemory) {
        (0..CELLS_MAX).for_each(|cell| memory.cell(cell).renew(self.number));
    }

    /// Takes a pending message back. False if the receiver is taking it.
    pub fn cancel(&mut self, memory: &impl EagerMemory) -> bool {
        // SYNC eager-parked (load): who had our buffer and gave it back is done with it (`EagerReceiver::unclaim`).
        change_offer(memory, End::Send, self.number, 0)
    }

    /// Has the receiver's buffer, if it may have this message.
    pub fn claim_buffer(&self, memory: &impl EagerMemory) -> bool {
        // SYNC eager-armed (load): the receiver is done with what was in its buffer.
        change_offer(memory, End::Recv, self.number, WRITING)
    }

    /// Gives the receiver's buffer back without a message, which may come there as before.
    pub fn unclaim_buffer(&self, words: &EagerWords) {
        // SYNC eager-armed (store): we are done with it.
        words.receiver.armed.store(phase(self.number, ARMED), Ordering::Release);
    }

    #[inline]
    fn has_cell(&mut self, words: &EagerWords) -> bool {
        if self.number.wrapping_sub(self.taken_seen) >= self.cells {
            // SYNC eager-taken (load): the receiver has read what was in the cell.
            self.taken_seen = words.receiver.taken.load(Ordering::Acquire);
        }
        self.number.wrapping_sub(self.taken_seen) < self.cells
    }

    /// Copies the message into the receiver's buffer, which we have.
    #[inline(always)]
    fn place(&mut self, memory: &impl EagerMemory) -> Progress {
        memory.place();
        self.placed(memory)
    }

    /// The message is in the receiver's buffer, which we had.
    #[inline]
    pub(crate) fn placed(&mut self, memory: &impl EagerMemory) -> Progress {
        // SYNC eager-armed (store): the bytes before the phase.
        memory.words().receiver.armed.store(phase(self.number, PLACED), Ordering::Release);
        self.sent(memory)
    }

    #[inline(always)]
    fn put(&mut self, memory: &impl EagerMemory) -> Progress {
        memory.fill(self.number);
        memory.cell(self.number).put(self.number);
        self.sent(memory)
    }

    #[inline]
    fn sent(&mut self, memory: &impl EagerMemory) -> Progress {
        memory.wake_receiver();
        self.advance(memory)
    }

    /// Leaves the message in our buffer, for a receiver that looks there when it is woken.
    #[inline]
    fn leave(&self, memory: &impl EagerMemory) -> Progress {
        self.offer(memory.words());
        memory.wake_receiver();
        Progress::Pending
    }

    #[cold]
    fn park(&mut self, memory: &impl EagerMemory) -> Progress {
        if self.cells == 0 {
            return self.leave(memory);
        }
        let words = memory.words();
        // SYNC eager-parked (store): the bytes before the phase.
        words.sender.parked.store(phase(self.number, WAITING), Ordering::Release);
        // SYNC eager-full: the phase before `taken` here, `taken` before the phase in `EagerReceiver::start`; with both
        // fences either we see the cell that has become free, or the receiver sees that we have parked.
        fence(Ordering::SeqCst);
        self.poll(memory)
    }
}

/// The receiving end: what it knows of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct EagerReceiver {
    number: u32,
}

impl EagerReceiver {
    /// The end whose next message has this number.
    pub fn at(number: u32) -> Self {
        Self { number }
    }

    /// Takes the next message if it is there, else says that it may come.
    #[inline(always)]
    pub fn start(&mut self, memory: &impl EagerMemory) -> Progress {
        if memory.cell(self.number).has(self.number) {
            return self.take(memory);
        }
        let words = memory.words();
        // SYNC eager-full: see `EagerSender::park`.
        fence(Ordering::SeqCst);
        if is_offered(memory, End::Send, self.number) && self.pull(memory) {
            return Progress::Done;
        }
        if memory.is_placed() {
            // SYNC eager-armed (store): we are done with our buffer before the sender gets it.
            words.receiver.armed.store(phase(self.number, ARMED), Ordering::Release);
        }
        Progress::Pending
    }

    /// Whether the message is there.
    #[inline]
    pub fn is_due(&self, memory: &impl EagerMemory) -> bool {
        memory.cell(self.number).has(self.number) || (memory.is_placed() && self.is_placed(memory.words()))
    }

    /// Whether [`start`](Self::start) would find a message.
    pub fn is_expected(&self, memory: &impl EagerMemory) -> bool {
        memory.cell(self.number).has(self.number) || is_offered(memory, End::Send, self.number)
    }

    /// Takes the message, if it is there.
    #[inline(always)]
    pub fn poll(&mut self, memory: &impl EagerMemory) -> Progress {
        if memory.is_placed() && self.is_placed(memory.words()) {
            self.taken(memory.words());
            return Progress::Done;
        }
        if memory.cell(self.number).has(self.number) {
            // The sender has chosen the cell, so it will never claim our buffer for this number; after 2³⁰ messages the
            // number comes again, and must not find us armed.
            if memory.is_placed() {
                memory.words().receiver.armed.store(phase(self.number, 0), Ordering::Relaxed);
            }
            return self.take(memory);
        }
        Progress::Pending
    }

    /// Gives the message up that has not come. False if it is coming.
    pub fn cancel(&mut self, memory: &impl EagerMemory) -> bool {
        // SYNC eager-armed (load): who had our buffer and gave it back is done with it (`EagerSender::unclaim_buffer`).
        !memory.is_placed() || change_offer(memory, End::Recv, self.number, 0)
    }

    #[inline]
    fn is_placed(&self, words: &EagerWords) -> bool {
        // SYNC eager-armed (load): the phase before the bytes.
        words.receiver.armed.load(Ordering::Acquire) == phase(self.number, PLACED)
    }

    #[inline]
    fn take(&mut self, memory: &impl EagerMemory) -> Progress {
        memory.empty(self.number);
        self.taken(memory.words());
        Progress::Done
    }

    #[inline]
    fn taken(&mut self, words: &EagerWords) {
        self.number = self.number.wrapping_add(1);
        // SYNC eager-taken (store): the cell is read before it is given back.
        words.receiver.taken.store(self.number, Ordering::Release);
    }

    /// Takes a parked message out of the sender's buffer.
    #[cold]
    pub(crate) fn pull(&mut self, memory: &impl EagerMemory) -> bool {
        let is_ours = self.claim(memory);
        if is_ours {
            memory.place();
            self.release(memory);
        }
        is_ours
    }

    /// Has the sender's buffer, if the message is parked there, until `release`.
    pub fn claim(&self, memory: &impl EagerMemory) -> bool {
        // SYNC eager-parked (load): the phase before the bytes.
        change_offer(memory, End::Send, self.number, PULLING)
    }

    /// Gives the sender's buffer back: the message is parked there as before.
    pub fn unclaim(&self, words: &EagerWords) {
        // SYNC eager-parked (store): we are done with it.
        words.sender.parked.store(phase(self.number, WAITING), Ordering::Release);
    }

    /// Gives the sender's buffer back: the message is taken.
    pub fn release(&mut self, memory: &impl EagerMemory) {
        let pulled = phase(self.number, PULLED);
        self.taken(memory.words());
        // SYNC eager-parked (store): the bytes are read before the buffer is given back.
        memory.words().sender.parked.store(pulled, Ordering::Release);
        memory.wake_sender();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Both buffers, and what lies in cells, are numbers.
    struct Memory {
        words: EagerWords,
        cells: [(CellWord, Cell<u64>); CELLS as usize],
        buffers: [Cell<u64>; 2],
    }

    impl Memory {
        fn new() -> Self {
            let cells = std::array::from_fn(|_| (CellWord::new(), Cell::new(0)));
            Self { words: EagerWords::new(), cells, buffers: Default::default() }
        }

        /// Both ends, after so many messages.
        fn ends(&self, number: u32) -> (EagerSender, EagerReceiver) {
            self.words.receiver.taken.store(number, Ordering::Relaxed);
            (EagerSender::at(number), EagerReceiver::at(number))
        }

        fn send(&self, sender: &mut EagerSender, value: u64) -> Progress {
            self.buffers[0].set(value);
            sender.start(self)
        }
    }

    impl EagerMemory for Memory {
        fn words(&self) -> &EagerWords {
            &self.words
        }

        fn cell(&self, number: u32) -> &CellWord {
            &self.cells[(number % CELLS) as usize].0
        }

        fn fill(&self, number: u32) {
            self.cells[(number % CELLS) as usize].1.set(self.buffers[0].get());
        }

        fn empty(&self, number: u32) {
            self.buffers[1].set(self.cells[(number % CELLS) as usize].1.get());
        }

        fn place(&self) {
            self.buffers[1].set(self.buffers[0].get());
        }

        fn is_placed(&self) -> bool {
            true
        }

        fn wake_receiver(&self) {}

        fn wake_sender(&self) {}
    }

    #[test]
    fn a_number_that_comes_again_finds_no_message_of_its_last_time() {
        let memory = Memory::new();
        let (mut sender, mut receiver) = memory.ends(0);
        assert_eq!(memory.send(&mut sender, 7), Progress::Done);
        assert_eq!((receiver.start(&memory), memory.buffers[1].get()), (Progress::Done, 7), "out of a cell");
        // All others find the receiver armed, and leave cells alone.
        for number in (1..=4).map(|quarter: u32| (quarter << 30).wrapping_sub(1)).chain([0]) {
            let (mut sender, mut receiver) = memory.ends(number);
            assert_eq!(receiver.start(&memory), Progress::Pending, "{number} was not sent yet");
            assert_eq!(memory.send(&mut sender, number.into()), Progress::Done);
            assert_eq!((receiver.poll(&memory), memory.buffers[1].get()), (Progress::Done, number.into()));
        }
    }

    #[test]
    fn what_waits_in_cells_while_they_are_renewed_is_received() {
        let memory = Memory::new();
        let (mut sender, mut receiver) = memory.ends(RENEWAL - 2);
        (0..4).for_each(|value| assert_eq!(memory.send(&mut sender, value), Progress::Done));
        assert_eq!(memory.send(&mut sender, 4), Progress::Pending, "all cells are full");
        for value in 0..5 {
            assert_eq!((receiver.start(&memory), memory.buffers[1].get()), (Progress::Done, value));
        }
    }
}
