//! Ends that start with others: a word in the slot of one request says how often all of them have started, and each channel says which of its
//! messages was started with which round.
//!
//! ```text
//!  channel   | joined: slot + 1, origin |        message n was started if
//!  slot      | round                    |          round = n − origin
//! ```
//!
//! It says so as long as the channel's own word, which offers a message else, speaks of an earlier one. Whoever takes the message changes that word,
//! which decides who that is; so does everybody in whose hands it comes another way.

use ropeway_proto::Slot;

use crate::request::RequestSlot;

/// What a channel says of an end that starts with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Of the request that says how often they have started.
    slot: Slot,
    /// Number of the message that was started with round 0.
    origin: u32,
}

/// Words that speak of a message so far back were never changed, or their end is out of use.
pub(crate) const LONG_AGO: u32 = 1 << 28;

impl Joined {
    /// Of an end whose next message, which has this number, is started with the next round of this request of its rank.
    pub fn new((number, slot): (Slot, &RequestSlot), next: u32) -> Self {
        Self { slot: number, origin: next.wrapping_sub(slot.round()).wrapping_sub(1) }
    }

    /// Of the request that says how often they have started.
    pub(crate) fn slot(self) -> Slot {
        self.slot
    }

    /// Never zero.
    pub(crate) fn to_word(self) -> u64 {
        (u64::from(self.slot) + 1) << 32 | u64::from(self.origin)
    }

    /// Zero stands for none.
    pub(crate) fn from_word(word: u64) -> Option<Self> {
        let slot = ((word >> 32) as u32).checked_sub(1)?;
        Some(Self { slot, origin: word as u32 })
    }

    /// If the request has just begun the round that a message is of: until when its program was last likely to come to wait.
    pub fn started_until(self, slot: &RequestSlot, number: u32) -> Option<u64> {
        (self.behind(slot, number) == 0).then(|| slot.round_until_ns())
    }

    /// Whether all messages up to the one before `next` were started, and at most `next` itself.
    #[cfg(not(loom))]
    pub(crate) fn is_at(self, slot: &RequestSlot, next: u32) -> bool {
        self.behind(slot, next) <= 1
    }

    /// How many messages before this one was the last that was started. Numbers are compared modulo 2³⁰.
    fn behind(self, slot: &RequestSlot, number: u32) -> u32 {
        number.wrapping_sub(slot.round().wrapping_add(self.origin)) & (u32::MAX >> 2)
    }

    /// By how many rounds those are ahead that start the same messages, modulo 2³⁰.
    #[cfg(not(loom))]
    pub(crate) fn lead_of(self, others: Self) -> u32 {
        self.origin.wrapping_sub(others.origin)
    }
}
