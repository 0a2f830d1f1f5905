//! Starts of large messages that are only offered: whoever waits first has the message move, if both ends have come.
//!
//! A start is one store to a word of its own end, where starting sets a flag in a word that both ends write. So many can share the
//! fence and the looks for sleepers that have to follow. An offer is turned into a start by whoever needs it, for its owner, too.

use ropeway_proto::End;

use super::{BOTH, Transfer, TransferMemory, TransferWords, flag, index};
use crate::joined::LONG_AGO;
use crate::primitive::Ordering;

// What has become of an offer.
const OFFERED: u32 = 1;
const TAKEN: u32 = 2;

impl Transfer {
    /// One end has started, and only says so. Behind a `SeqCst` fence the other one has to be woken if it sleeps. `until_ns`: until when a
    /// sender is likely to come to wait, if it is.
    #[inline]
    pub fn offer(self, words: &TransferWords, end: End, until_ns: Option<u64>) {
        if end == End::Send {
            words.until_ns.store(until_ns.unwrap_or(0), Ordering::Relaxed);
        }
        // SYNC transfer-offer (store): our buffer is ready before the word.
        words.offered[index(end)].store(self.number << 2 | OFFERED, Ordering::Release);
    }

    /// Whether the other end has started, too, and [`meet`](Self::meet) would get further.
    #[inline]
    pub fn is_met(self, memory: &impl TransferMemory, end: End) -> bool {
        let state = memory.words().state.load(Ordering::Relaxed);
        let is_offered = |end| self.offered_until(memory, end).is_some();
        let is_ahead = state >> 2 == self.number && state & BOTH != BOTH;
        is_ahead && (is_offered(end.peer()) || (state & flag(end.peer()) != 0 && is_offered(end)))
    }

    /// Until when a receiver leaves what both have offered to the sender, which is likely to come. Where both ends of many messages
    /// wait, each copies what it sends.
    pub fn left_to_sender_until(self, memory: &impl TransferMemory) -> Option<u64> {
        self.offered_until(memory, End::Send)
    }

    /// Until when an end is likely to come that has offered its message; else zero.
    fn offered_until(self, memory: &impl TransferMemory, end: End) -> Option<u64> {
        let words = memory.words();
        let offered = words.offered[index(end)].load(Ordering::Relaxed);
        match offered == self.number << 2 | OFFERED {
            true => Some(words.until_ns.load(Ordering::Relaxed)),
            false => self.started_until(memory, end, offered),
        }
    }

    /// The same of an end whose word speaks of an earlier message still, and which has started this one with others.
    fn started_until(self, memory: &impl TransferMemory, end: End, offered: u32) -> Option<u64> {
        let is_earlier = ((self.number << 2).wrapping_sub(offered) as i32) > 0;
        if is_earlier { memory.started_until(end, self.number) } else { None }
    }

    /// Takes an offer, or takes it back. False if there is none.
    fn change_offer(self, memory: &impl TransferMemory, end: End, to: u32) -> bool {
        let (word, number) = (&memory.words().offered[index(end)], self.number << 2);
        // SYNC transfer-offer, eager-joined (load): the owner's buffer is ready.
        let change = |seen| word.compare_exchange(seen, number | to, Ordering::Acquire, Ordering::Acquire);
        match change(number | OFFERED) {
            Ok(_) => true,
            Err(seen) => self.started_until(memory, end, seen).is_some() && change(seen).is_ok(),
        }
    }

    /// The message that moves, as both ends have started or offered it: for a helper that is no end and so knows no number.
    pub fn moving_or_met(memory: &impl TransferMemory) -> Option<Self> {
        let next = Self::next_of(memory.words());
        if [End::Send, End::Recv].iter().all(|&end| next.is_met(memory, end)) {
            next.meet(memory);
        }
        Self::moving(memory)
    }

    /// Starts what was offered. True if the message moves from now on.
    pub fn meet(self, memory: &impl TransferMemory) -> bool {
        let mut moves = false;
        for end in [End::Send, End::Recv] {
            moves |= self.change_offer(memory, end, TAKEN) && self.register(memory, end, None);
        }
        if moves {
            // Whoever came while one offer was taken and the other not yet may sleep.
            memory.wake(End::Send);
            memory.wake(End::Recv);
        }
        moves
    }

    /// Takes an offer back, or what has become of it. False if the message moves, or is about to.
    pub fn take_back(self, memory: &impl TransferMemory, end: End) -> bool {
        if self.change_offer(memory, end, 0) {
            return true;
        }
        let is_back = self.cancel(memory.words(), end);
        if is_back {
            memory.words().offered[index(end)].store(self.number << 2, Ordering::Relaxed);
        }
        is_back
    }
}

impl TransferWords {
    /// An end that is about to start with others says of its last message, which has this number, that it does not offer it.
    pub fn note_over(&self, end: End, number: u32) {
        self.offered[index(end)].store(number << 2, Ordering::Relaxed);
    }

    /// Takes an end's buffer out of use, for whoever gives it up, when the end starts nothing with others any more. False while the message
    /// moves, or is about to.
    pub fn withdraw(&self, end: End) -> bool {
        let word = &self.offered[index(end)];
        let offered = word.load(Ordering::Acquire);
        // SYNC transfer-state (load): after the pieces.
        let state = self.state.load(Ordering::Acquire);
        // Somebody has taken the offer, and will set the flag for its owner.
        if offered == state & !BOTH | TAKEN && state & flag(end) == 0 {
            return false;
        }
        // Who has seen an offer in this word finds another one now.
        let nothing = (state >> 2).wrapping_sub(LONG_AGO) << 2;
        if word.compare_exchange(offered, nothing, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        let withdrawn = self.state.fetch_update(Ordering::Acquire, Ordering::Acquire, |state| {
            (state & BOTH != BOTH).then_some(state & !flag(end))
        });
        withdrawn.is_ok()
    }
}
