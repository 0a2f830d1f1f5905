//! The words of small messages: of each end, and of a cell.

use ropeway_proto::End;

use super::{CELLS_MAX, CLAIMED, OFFERED, phase};
use crate::joined::{Joined, LONG_AGO};
use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// Words that both ends use, each in the cache line of the one who writes it most.
#[repr(C)]
pub struct EagerWords {
    pub(super) sender: SenderWords,
    pub(super) receiver: ReceiverWords,
}

#[repr(C, align(64))]
pub(super) struct SenderWords {
    /// Number and phase of a message that stays in the sender's buffer.
    pub(super) parked: AtomicU32,
    /// Why no message will go to the other end any more: the code of a status, zero while one may.
    closed: AtomicU32,
    /// With which others the sender starts, if it does.
    joined: AtomicU64,
}

#[repr(C, align(64))]
pub(super) struct ReceiverWords {
    /// How many messages the receiver has taken.
    pub(super) taken: AtomicU32,
    /// Number and phase of the message that may go straight into the receiver's buffer.
    pub(super) armed: AtomicU32,
    /// Why no message will come from the other end any more.
    closed: AtomicU32,
    /// With which others the receiver starts, if it does.
    joined: AtomicU64,
}

/// The word of a cell: number of the message in it, plus one.
#[repr(C)]
pub struct CellWord {
    full: AtomicU32,
}

impl EagerWords {
    /// Words of a channel without messages. In a segment [`reset`](Self::reset) makes them; this makes some elsewhere.
    pub fn new() -> Self {
        let (word, joined) = (|| AtomicU32::new(0), || AtomicU64::new(0));
        let sender = SenderWords { parked: word(), closed: word(), joined: joined() };
        let receiver = ReceiverWords { taken: word(), armed: word(), closed: word(), joined: joined() };
        let words = Self { sender, receiver };
        words.reset();
        words
    }

    /// Starts anew. Nobody else knows the channel yet.
    pub fn reset(&self) {
        let Self { sender, receiver } = self;
        [&sender.closed, &receiver.taken, &receiver.closed].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        [&sender.joined, &receiver.joined].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        [&sender.parked, &receiver.armed]
            .iter()
            .for_each(|word| word.store(phase(LONG_AGO.wrapping_neg(), 0), Ordering::Relaxed));
    }

    /// With which others an end starts, if it does.
    #[inline]
    pub fn joined(&self, end: End) -> Option<Joined> {
        // SYNC eager-joined (load).
        Joined::from_word(self.joined_word(end).load(Ordering::Acquire))
    }

    /// From its next message on, which has this number, an end starts with others. Its own part, between two messages.
    pub fn join(&self, end: End, joined: Joined, next: u32) {
        // Nobody takes the last one again, whichever way it came: it looks as if it was of the round that has begun.
        self.offer(end).store(phase(next.wrapping_sub(1), 0), Ordering::Relaxed);
        // SYNC eager-joined (store).
        self.joined_word(end).store(joined.to_word(), Ordering::Release);
    }

    #[inline]
    fn joined_word(&self, end: End) -> &AtomicU64 {
        match end {
            End::Send => &self.sender.joined,
            End::Recv => &self.receiver.joined,
        }
    }

    /// The word that offers an end's buffer.
    #[inline]
    pub(super) fn offer(&self, end: End) -> &AtomicU32 {
        match end {
            End::Send => &self.sender.parked,
            End::Recv => &self.receiver.armed,
        }
    }

    /// Why the other end is gone, if it is: the code of a status, else zero.
    #[cfg(not(loom))]
    pub(crate) fn closed(&self, end: End) -> &AtomicU32 {
        match end {
            End::Send => &self.sender.closed,
            End::Recv => &self.receiver.closed,
        }
    }

    /// How many messages the receiver has taken.
    pub fn taken(&self) -> u32 {
        // SYNC eager-taken (load).
        self.receiver.taken.load(Ordering::Acquire)
    }

    /// Takes an end's buffer out of use, for whoever gives it up. False while the other end is copying.
    pub fn withdraw(&self, end: End) -> bool {
        // SYNC eager-joined: it has left the others before its word is another one, which whoever saw it with them will not expect.
        self.joined_word(end).store(0, Ordering::Relaxed);
        let nothing = phase(self.taken().wrapping_sub(LONG_AGO), 0);
        // SYNC eager-armed, eager-parked (load): after the copy.
        let withdrawn = self
            .offer(end)
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |seen| (seen & 3 != CLAIMED).then_some(nothing));
        withdrawn.is_ok()
    }

    /// Whoever was copying from or to this end's buffer is gone, and nobody else will: it is as if he had not begun.
    pub(crate) fn void_claim(&self, end: End) {
        let void = |seen: u32| (seen & 3 == CLAIMED).then_some(seen & !3 | OFFERED);
        // If there is no claim there is nothing to be done. SYNC eager-armed, eager-parked (store): what the kernel may have written before.
        let _ = self.offer(end).fetch_update(Ordering::Release, Ordering::Relaxed, void);
    }
}

impl CellWord {
    /// An empty cell's.
    pub fn new() -> Self {
        Self { full: AtomicU32::new(0) }
    }

    /// Starts anew. Nobody else knows the channel yet.
    pub fn reset(&self) {
        self.full.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn put(&self, number: u32) {
        // SYNC eager-cell (store): the bytes before the word that announces them.
        self.full.store(number.wrapping_add(1), Ordering::Release);
    }

    #[inline]
    pub(crate) fn has(&self, number: u32) -> bool {
        // SYNC eager-cell (load).
        self.full.load(Ordering::Acquire) == number.wrapping_add(1)
    }

    /// Says of nothing but the last messages before `number` that it has them. The sender's.
    pub(super) fn renew(&self, number: u32) {
        let age = number.wrapping_sub(self.full.load(Ordering::Relaxed));
        if age >= CELLS_MAX {
            self.full.store(number.wrapping_add(1 << 31), Ordering::Relaxed);
        }
    }
}
