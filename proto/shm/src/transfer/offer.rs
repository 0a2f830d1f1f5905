//! Starts of large messages that are only offered: whoever waits first has the message move, if both ends have come.
//!
//! A start is one store to a word of its own end, where starting sets a flag in a word that both ends write. So many can share the
//! fence and the looks for sleepers that have to follow. An offer is turned into a start by whoever needs it, for its owner, too.

use ropeway_proto::End;

use super::{BOTH, Transfer, TransferMemory, TransferWords, flag, index};
use crate::primitive::Ordering;

// What has become of an offer.
const OFFERED: u32 = 1;
#[cfg(not(loom))]
const _: () = assert!(OFFERED == crate::offers::OFFERED);
const TAKEN: u32 = 2;

impl Transfer {
    /// One end has started, and only says so. Behind a `SeqCst` fence the other one has to be woken if it sleeps. `until_ns`: until when a
    /// sender is likely to come to wait, if it is.
    #[inline]
    pub fn offer(self, words: &TransferWords, end: End, until_ns: Option<u64>) {
        if end == End::Send {
            words.leave_to_sender(until_ns);
        }
        // SYNC transfer-offer (store): our buffer is ready before the word.
        words.offered[index(end)].store(self.number << 2 | OFFERED, Ordering::Release);
    }

    /// Whether the other end has started, too, and [`meet`](Self::meet) would get further.
    #[inline]
    pub fn is_met(self, words: &TransferWords, end: End) -> bool {
        let state = words.state.load(Ordering::Relaxed);
        let is_offered = |end| words.is_offered(self.number, end);
        let is_ahead = state >> 2 == self.number && state & BOTH != BOTH;
        is_ahead && (is_offered(end.peer()) || (state & flag(end.peer()) != 0 && is_offered(end)))
    }

    /// Until when a receiver leaves what both have offered to the sender, which is likely to come. Where both ends of many messages
    /// wait, each copies what it sends.
    pub fn left_to_sender_until(self, words: &TransferWords) -> Option<u64> {
        words.is_offered(self.number, End::Send).then(|| words.until_ns.load(Ordering::Relaxed))
    }

    /// The message that moves, as both ends have started or offered it: for a helper that is no end and so knows no number.
    pub fn moving_or_met(memory: &impl TransferMemory) -> Option<Self> {
        let (words, next) = (memory.words(), Self::next_of(memory.words()));
        if [End::Send, End::Recv].iter().all(|&end| next.is_met(words, end)) {
            next.meet(memory);
        }
        Self::moving(memory)
    }

    /// Starts what was offered. True if the message moves from now on.
    pub fn meet(self, memory: &impl TransferMemory) -> bool {
        let mut moves = false;
        for end in [End::Send, End::Recv] {
            moves |= memory.words().change_offer(self.number, end, TAKEN) && self.register(memory, end, None);
        }
        if moves {
            // Whoever came while one offer was taken and the other not yet may sleep.
            memory.wake(End::Send);
            memory.wake(End::Recv);
        }
        moves
    }

    /// Takes an offer back, or what has become of it. False if the message moves, or is about to.
    pub fn take_back(self, words: &TransferWords, end: End) -> bool {
        if words.change_offer(self.number, end, 0) {
            return true;
        }
        let is_back = self.cancel(words, end);
        if is_back {
            words.offered[index(end)].store(0, Ordering::Relaxed);
        }
        is_back
    }
}

impl TransferWords {
    /// The sender is about to offer its message, and likely to come to wait until then, if at all.
    #[inline]
    pub(crate) fn leave_to_sender(&self, until_ns: Option<u64>) {
        self.until_ns.store(until_ns.unwrap_or(0), Ordering::Relaxed);
    }

    fn is_offered(&self, number: u32, end: End) -> bool {
        self.offered[index(end)].load(Ordering::Relaxed) == number << 2 | OFFERED
    }

    fn change_offer(&self, number: u32, end: End, to: u32) -> bool {
        let (offered, changed) = (number << 2 | OFFERED, number << 2 | to);
        // SYNC transfer-offer (load): the owner's buffer is ready.
        self.offered[index(end)].compare_exchange(offered, changed, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Takes an end's buffer out of use, for a daemon whose client gives it up. False while the message moves, or is about to.
    pub fn withdraw(&self, end: End) -> bool {
        let word = &self.offered[index(end)];
        let offered = word.load(Ordering::Acquire);
        if offered & BOTH == OFFERED && !self.change_offer(offered >> 2, end, 0) {
            return false;
        }
        // SYNC transfer-state (load): after the pieces.
        let state = self.state.load(Ordering::Acquire);
        // Somebody has taken the offer, and will set the flag for its owner.
        if offered == state & !BOTH | TAKEN && state & flag(end) == 0 {
            return false;
        }
        let withdrawn = self.state.fetch_update(Ordering::Acquire, Ordering::Acquire, |state| {
            (state & BOTH != BOTH).then_some(state & !flag(end))
        });
        if withdrawn.is_ok() {
            word.store(0, Ordering::Relaxed);
        }
        withdrawn.is_ok()
    }
}
