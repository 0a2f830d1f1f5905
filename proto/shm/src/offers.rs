//! Starts that only offer a message, prepared for those who make many at once: all that these need lies side by side, in a few cache lines
//! instead of a few for each message, and the lines of the channels are fetched together.

use std::ptr::NonNull;
use std::sync::Arc;

use ropeway_proto::{End, Slot};
use smallvec::SmallVec;

use crate::channel::{Block, OpenChannel};
use crate::eager::{EagerReceiver, EagerSender};
use crate::job::JobSegment;
use crate::listener::Listener;
use crate::prefetch::prefetch;
use crate::transfer::Transfer;

/// The next messages of ends that start together. Each is left in its buffer, or goes into it, when somebody comes to wait for it or works
/// its wire. Those of so many ends lie in it.
pub struct Offers<const ENDS: usize> {
    offers: SmallVec<[Offer; ENDS]>,
    /// Keeps mapped where they lead.
    job: Arc<JobSegment>,
}

struct Offer {
    /// Of the channel.
    words: NonNull<Block>,
    message: Message,
    listener: Listener,
}

/// What is offered.
#[derive(Clone, Copy)]
enum Message {
    Send(EagerSender),
    Recv(EagerReceiver),
    /// With the request.
    Large(Transfer, End, Slot),
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

    /// Adds an end that sends small messages, the next of which is this one.
    pub fn add_send(&mut self, channel: &OpenChannel, sender: EagerSender) {
        self.add(channel, Message::Send(sender), End::Send);
    }

    /// The same of one that receives.
    pub fn add_recv(&mut self, channel: &OpenChannel, receiver: EagerReceiver) {
        self.add(channel, Message::Recv(receiver), End::Recv);
    }

    /// The same of an end of a channel for large ones.
    pub fn add_large(&mut self, channel: &OpenChannel, transfer: Transfer, end: End) {
        self.add(channel, Message::Large(transfer, end, channel.channel().end(end).slot), end);
    }

    fn add(&mut self, channel: &OpenChannel, message: Message, end: End) {
        debug_assert!(std::ptr::eq(channel.job(), &*self.job), "all are of one job");
        self.offers.push(Offer { words: channel.block(), message, listener: Listener::of(channel, end) });
    }

    /// Has the processor fetch what the others need of it.
    #[inline]
    pub fn fetch(&self) {
        prefetch(NonNull::from(self).cast(), size_of::<Self>(), true);
        for Offer { words, message, listener } in &self.offers {
            // SAFETY: as for `Offer::block`. Only addresses are taken.
            let Block { eager, transfer, .. } = unsafe { words.as_ref() };
            let line = match message {
                Message::Send(_) => NonNull::from(eager.sender_words()).cast(),
                Message::Recv(_) => NonNull::from(eager.receiver_words()).cast(),
                Message::Large(..) => NonNull::from(transfer).cast(),
            };
            prefetch(line, 1, true);
            listener.fetch();
        }
    }

    /// Makes all offers. Behind a `SeqCst` fence [`wake_peers`](Self::wake_peers) follows. `until_ns`: until when the program is likely to come to
    /// wait, if it is likely to come at once.
    #[inline]
    pub fn make(&self, until_ns: Option<u64>) {
        for Offer { words, message, listener } in &self.offers {
            // SAFETY: checked when the channel was opened, and mapped as long as `job` lives; `Block` consists of atomics.
            let Block { eager, transfer, .. } = unsafe { words.as_ref() };
            match message {
                Message::Send(sender) => sender.offer(eager),
                Message::Recv(receiver) => receiver.offer(eager),
                Message::Large(large, end, _) => large.offer(transfer, *end, until_ns),
            }
            // SAFETY: as for the block.
            unsafe { listener.mark_due() };
        }
    }

    /// Wakes those that sleep at other ends on this node.
    #[inline]
    pub fn wake_peers(&self) {
        for Offer { listener, .. } in &self.offers {
            // SAFETY: as for the block.
            unsafe { listener.wake(&self.job) };
        }
    }

    /// Whether there are any of large messages.
    pub fn has_large(&self) -> bool {
        self.offers.iter().any(|offer| matches!(offer.message, Message::Large(..)))
    }

    /// The requests of the large messages that both ends have offered, and whose other end does not wait, if that `is_left_to_waiters`.
    pub fn met(&self, is_left_to_waiters: bool) -> impl Iterator<Item = Slot> {
        self.offers.iter().filter_map(move |offer| {
            let Message::Large(large, end, slot) = offer.message else { return None };
            // SAFETY: as for the block.
            let words = &unsafe { offer.words.as_ref() }.transfer;
            let is_left = is_left_to_waiters && words.is_watching(end.peer());
            (!is_left && large.is_met(words, end)).then_some(slot)
        })
    }

    /// All messages have come and gone: the next ones are the next.
    #[inline]
    pub fn advance(&mut self) {
        for Offer { message, .. } in &mut self.offers {
            match message {
                Message::Send(sender) => *sender = sender.next(),
                Message::Recv(receiver) => *receiver = receiver.next(),
                Message::Large(transfer, ..) => *transfer = transfer.next(),
            }
        }
    }
}
