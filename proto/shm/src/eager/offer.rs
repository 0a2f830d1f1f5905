//! Small messages that both ends only offer to exchange: no start copies anything, whoever waits first does.
//!
//! | | says | is copied by |
//! |---|---|---|
//! | the sender's start | `parked` = `WAITING n` | the receiver, when it waits: `WAITING → PULLING` |
//! | the receiver's start | `armed` = `ARMED n` | the sender, when it waits: `WAITING → 0`, then `ARMED → WRITING` |
//!
//! So a start is one store, and many can share the fence and the looks for sleepers that have to follow. Both ends begin with
//! `parked`: who gets that copies, and the other one waits for him.

use super::{ARMED, EagerMemory, EagerReceiver, EagerSender, EagerWords, PLACED, PULLED, Progress, WAITING, phase};
use crate::primitive::Ordering;

impl EagerSender {
    /// The next message's.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Offers the next message. Behind a `SeqCst` fence the receiver has to be woken if it sleeps.
    #[inline]
    pub fn offer(&self, words: &EagerWords) {
        // SYNC eager-parked (store): the bytes before the phase.
        words.sender.parked.store(phase(self.number, WAITING), Ordering::Release);
    }

    /// Whether [`meet`](Self::meet) would get further with a message that was offered.
    #[inline]
    pub fn has_met(&self, words: &EagerWords) -> bool {
        let parked = words.sender.parked.load(Ordering::Relaxed);
        parked == phase(self.number, PULLED) || (parked == phase(self.number, WAITING) && self.is_awaited(words))
    }

    /// Goes on with a message that was offered: copies it if the receiver has come, too.
    #[inline]
    pub fn meet(&mut self, memory: &impl EagerMemory) -> Progress {
        let words = memory.words();
        if self.is_pulled(words) {
            return self.advance(memory);
        }
        if !self.is_awaited(words) || !self.cancel(words) {
            return Progress::Pending;
        }
        if self.claim_buffer(words) {
            return self.place(memory);
        }
        // The receive was taken back just now. It may have begun anew, and sleep.
        self.offer(words);
        memory.wake_receiver();
        Progress::Pending
    }

    fn is_awaited(&self, words: &EagerWords) -> bool {
        words.receiver.armed.load(Ordering::Relaxed) == phase(self.number, ARMED)
    }
}

impl EagerReceiver {
    /// Offers to take the next message. Behind a `SeqCst` fence the sender has to be woken if it sleeps.
    #[inline]
    pub fn offer(&self, words: &EagerWords) {
        // SYNC eager-armed (store): we are done with our buffer before the sender gets it.
        words.receiver.armed.store(phase(self.number, ARMED), Ordering::Release);
    }

    /// Whether [`meet`](Self::meet) would get further.
    #[inline]
    pub fn has_met(&self, memory: &impl EagerMemory) -> bool {
        self.is_parked(memory.words()) || self.is_due(memory)
    }

    /// Takes the message that was offered, or that its sender or a daemon has copied.
    #[inline]
    pub fn meet(&mut self, memory: &impl EagerMemory) -> Progress {
        let words = memory.words();
        if !self.is_parked(words) || !self.claim(words) {
            return self.poll(memory);
        }
        // The sender won't claim our buffer for this number any more; after 2³⁰ messages the number comes again.
        words.receiver.armed.store(phase(self.number, 0), Ordering::Relaxed);
        memory.place();
        self.release(memory);
        Progress::Done
    }

    /// The next message's.
    pub fn number(&self) -> u32 {
        self.number
    }

    fn is_parked(&self, words: &EagerWords) -> bool {
        words.sender.parked.load(Ordering::Relaxed) == phase(self.number, WAITING)
    }
}

/// Copies a message that both ends have offered and neither has come to wait for: what a daemon does before an end is given up.
pub fn settle(memory: &impl EagerMemory) {
    let words = memory.words();
    let number = words.taken();
    let (sender, receiver) = (EagerSender::at(number), EagerReceiver::at(number));
    if !sender.is_awaited(words) || !receiver.claim(words) {
        return;
    }
    if !sender.claim_buffer(words) {
        // The receive was taken back just now.
        return receiver.unclaim(words);
    }
    memory.place();
    // SYNC eager-armed, eager-parked (store): the bytes before the phases.
    words.receiver.armed.store(phase(number, PLACED), Ordering::Release);
    words.sender.parked.store(phase(number, PULLED), Ordering::Release);
    memory.wake_receiver();
    memory.wake_sender();
}
