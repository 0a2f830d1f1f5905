//! Small messages that both ends only offer to exchange: no start copies anything, whoever waits first does.
//!
//! | | says | is copied by |
//! |---|---|---|
//! | the sender's start | `parked` = `WAITING n` | the receiver, when it waits: `WAITING → PULLING` |
//! | the receiver's start | `armed` = `ARMED n` | the sender, when it waits: `WAITING → 0`, then `ARMED → WRITING` |
//!
//! So a start is one store, and many can share the fence and the looks for sleepers that have to follow. Both ends begin with
//! `parked`: who gets that copies, and the other one waits for him.

use ropeway_proto::End;

use super::{
    ARMED, EagerMemory, EagerReceiver, EagerSender, EagerWords, OFFERED, PLACED, PULLED, Progress, WAITING, phase,
};
use crate::primitive::Ordering;

/// Whether an end offers its buffer for message `number`.
#[inline]
pub(super) fn is_offered(memory: &impl EagerMemory, end: End, number: u32) -> bool {
    offers(memory, (end, number), memory.words().offer(end).load(Ordering::Relaxed))
}

/// Takes an offer, or takes it back. False if there is none.
#[inline]
pub(super) fn change_offer(memory: &impl EagerMemory, end: End, number: u32, to: u32) -> bool {
    let change = |seen| offers(memory, (end, number), seen).then_some(phase(number, to));
    // SYNC eager-armed, eager-parked, eager-joined (load).
    memory.words().offer(end).fetch_update(Ordering::Acquire, Ordering::Acquire, change).is_ok()
}

/// Whether an end whose word is this offers a message: the word says so, or speaks of an earlier message still, and this one was started with others.
#[inline]
fn offers(memory: &impl EagerMemory, (end, number): (End, u32), word: u32) -> bool {
    let is_earlier = (phase(number, 0).wrapping_sub(word) as i32) > 0;
    word == phase(number, OFFERED) || (is_earlier && memory.has_started(end, number))
}

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
    pub fn has_met(&self, memory: &impl EagerMemory) -> bool {
        let parked = memory.words().sender.parked.load(Ordering::Relaxed);
        parked == phase(self.number, PULLED)
            || (offers(memory, (End::Send, self.number), parked) && self.is_awaited(memory))
    }

    /// Goes on with a message that was offered: copies it if the receiver has come, too.
    #[inline]
    pub fn meet(&mut self, memory: &impl EagerMemory) -> Progress {
        if self.is_pulled(memory.words()) {
            return self.advance(memory);
        }
        if !self.is_awaited(memory) || !self.cancel(memory) {
            return Progress::Pending;
        }
        if self.claim_buffer(memory) {
            return self.place(memory);
        }
        // The receive was taken back just now. It may have begun anew, and sleep.
        self.offer(memory.words());
        memory.wake_receiver();
        Progress::Pending
    }

    fn is_awaited(&self, memory: &impl EagerMemory) -> bool {
        is_offered(memory, End::Recv, self.number)
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
        self.is_parked(memory) || self.is_due(memory)
    }

    /// Takes the message that was offered, or that its sender or a daemon has copied.
    #[inline]
    pub fn meet(&mut self, memory: &impl EagerMemory) -> Progress {
        if !self.is_parked(memory) || !self.claim(memory) {
            return self.poll(memory);
        }
        // The sender won't claim our buffer for this number any more; after 2³⁰ messages the number comes again.
        memory.words().receiver.armed.store(phase(self.number, 0), Ordering::Relaxed);
        memory.place();
        self.release(memory);
        Progress::Done
    }

    /// The next message's.
    pub fn number(&self) -> u32 {
        self.number
    }

    fn is_parked(&self, memory: &impl EagerMemory) -> bool {
        is_offered(memory, End::Send, self.number)
    }
}

/// Copies a message that both ends have offered and neither has come to wait for: what a daemon does before an end is given up.
pub fn settle(memory: &impl EagerMemory) {
    let words = memory.words();
    let number = words.taken();
    let (sender, receiver) = (EagerSender::at(number), EagerReceiver::at(number));
    if !sender.is_awaited(memory) || !receiver.claim(memory) {
        return;
    }
    if !sender.claim_buffer(memory) {
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
