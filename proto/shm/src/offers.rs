//! Starts that only offer a message, prepared for those who make many at once: all that these need lies side by side, in a few cache lines
//! instead of a few for each message, and the lines of the channels are fetched together.

use std::ptr::NonNull;
use std::sync::Arc;

use ropeway_proto::{End, Slot};
use smallvec::SmallVec;

use crate::channel::{Block, OpenChannel};
use crate::job::JobSegment;
use crate::listener::Listener;
use crate::prefetch::{prefetch, prepare_to_write_whole};
use crate::primitive::{AtomicU32, Ordering};
use crate::transfer::{Transfer, TransferWords};

/// The next messages of ends that start together. Each is left in its buffer, or goes into it, when somebody comes to wait for it or works
/// its wire. Those of so many ends lie in it.
pub struct Offers<const ENDS: usize> {
    offers: SmallVec<[Offer; ENDS]>,
    /// Keeps mapped where they lead.
    job: Arc<JobSegment>,
}

/// All kinds are made by a store of the message's number, with the same phase, to a word of the channel.
struct Offer {
    words: NonNull<Block>,
    /// What is stored.
    value: u32,
    /// Where, within the channel's words.
    at: Place,
    /// The request that offers.
    slot: u16,
    listener: Listener,
}

/// A word of a channel that offers are stored to.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
enum Place {
    Parked = Block::PARKED as u16,
    Armed = Block::ARMED as u16,
    LargeSend = Block::OFFERED[0] as u16,
    LargeRecv = Block::OFFERED[1] as u16,
}

// SAFETY: the pointers lead into the mapping that `job` keeps, which belongs to no thread, to atomics.
unsafe impl<const ENDS: usize> Send for Offers<ENDS> {}
// SAFETY: as above.
unsafe impl<const ENDS: usize> Sync for Offers<ENDS> {}

impl<const ENDS: usize> Offers<ENDS> {
    /// With room for so many ends.
    pub fn new(job: &Arc<JobSegment>, ends: usize) -> Self {
        Self { offers: SmallVec::with_capacity(ends), job: Arc::clone(job) }
    }

    /// No end is added any more.
    pub fn clear(&mut self) {
        self.offers.clear();
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.offers.is_empty()
    }

    /// Adds this end of a channel. Its next message has this number.
    pub fn add(&mut self, channel: &OpenChannel, end: End, number: u32) {
        debug_assert!(std::ptr::eq(channel.job(), &*self.job), "all are of one job");
        let at = match (channel.channel().is_small(), end) {
            (true, End::Send) => Place::Parked,
            (true, End::Recv) => Place::Armed,
            (false, End::Send) => Place::LargeSend,
            (false, End::Recv) => Place::LargeRecv,
        };
        let slot = channel.channel().end(end).slot as u16;
        let (words, value, listener) = (channel.block(), number << 2 | OFFERED, Listener::of(channel, end));
        self.offers.push(Offer { words, value, at, slot, listener });
    }

    /// Has the processor fetch what the others need of it.
    #[inline]
    pub fn fetch(&self) {
        // Of the list first, since how many there are is said at its end.
        prepare_to_write_whole(self);
        for offer in &self.offers {
            prefetch(NonNull::from(offer.word()).cast(), 1, true);
            offer.listener.fetch();
        }
    }

    /// Makes all offers. What goes over a wire is to be marked there, and behind a `SeqCst` fence [`wake_peers`](Self::wake_peers) follows.
    /// `until_ns`: until when the program is likely to come to wait, if it is likely to come at once.
    #[inline]
    pub fn make(&self, until_ns: Option<u64>) {
        for offer in &self.offers {
            if offer.at == Place::LargeSend {
                offer.transfer().leave_to_sender(until_ns);
            }
            // SYNC eager-parked, eager-armed, transfer-offer (store): our buffer is ready before the word.
            offer.word().store(offer.value, Ordering::Release);
        }
    }

    /// Wakes those that sleep at other ends on this node.
    #[inline]
    pub fn wake_peers(&self) {
        for offer in &self.offers {
            // SAFETY: `job` keeps it mapped.
            unsafe { offer.listener.wake((offer.words, offer.end()), &self.job) };
        }
    }

    /// Whether there are any of large messages.
    pub fn has_large(&self) -> bool {
        self.offers.iter().any(|offer| offer.large_end().is_some())
    }

    /// The requests of the large messages that both ends have offered, and whose other end does not wait, if that `is_left_to_waiters`.
    pub fn met(&self, is_left_to_waiters: bool) -> impl Iterator<Item = Slot> {
        self.offers.iter().filter_map(move |offer| {
            let (end, words) = (offer.large_end()?, offer.transfer());
            let is_left = is_left_to_waiters && words.is_watching(end.peer());
            (!is_left && Transfer::at(offer.value >> 2).is_met(words, end)).then_some(offer.slot.into())
        })
    }

    /// All messages have come and gone: the next ones are the next.
    #[inline]
    pub fn advance(&mut self) {
        self.offers.iter_mut().for_each(|offer| offer.value = offer.value.wrapping_add(1 << 2));
    }
}

impl Offer {
    #[inline]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: checked when the channel was opened, and mapped as long as the job is; there is such a word at each place.
        unsafe { self.words.cast::<u8>().add(self.at as usize).cast().as_ref() }
    }

    #[inline]
    fn transfer(&self) -> &TransferWords {
        // SAFETY: as above; `Block` consists of atomics.
        &unsafe { self.words.as_ref() }.transfer
    }

    fn end(&self) -> End {
        match self.at {
            Place::Parked | Place::LargeSend => End::Send,
            Place::Armed | Place::LargeRecv => End::Recv,
        }
    }

    fn large_end(&self) -> Option<End> {
        matches!(self.at, Place::LargeSend | Place::LargeRecv).then(|| self.end())
    }
}

/// The phase of a word that offers, whichever it is.
pub(crate) const OFFERED: u32 = 1;
