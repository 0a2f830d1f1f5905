//! Starts that only offer a message, prepared for those who make many at once: all that these need lies side by side, in a few cache lines
//! instead of a few for each message, and the lines of the channels are fetched together.

use std::iter;
use std::ptr::NonNull;
use std::sync::Arc;

use ropeway_proto::End;
use smallvec::SmallVec;

use crate::channel::{Block, OpenChannel};
use crate::eager::{EagerReceiver, EagerSender};
use crate::job::JobSegment;
use crate::prefetch::prefetch;
use crate::request::RequestSlot;
use crate::transfer::Transfer;
use crate::wire::WireWords;

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
    Large(Transfer, End),
}

/// Who is to hear of it.
#[derive(Clone, Copy)]
enum Listener {
    /// The other end's request, and its rank on this node.
    Peer(NonNull<RequestSlot>, u32),
    /// Whoever works the wire, and the channel's name there.
    Wire(NonNull<WireWords>, u16),
    Nobody,
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
        self.add(channel, Message::Large(transfer, end), end);
    }

    fn add(&mut self, channel: &OpenChannel, message: Message, end: End) {
        debug_assert!(std::ptr::eq(channel.job(), &*self.job), "all are of one job");
        let listener = match (channel.wire(), end) {
            (Some((wire, index)), End::Send) => Listener::Wire(wire, index),
            (Some(_), End::Recv) => Listener::Nobody,
            (None, _) => Listener::Peer(channel.slot(end.peer()), channel.channel().end(end.peer()).local_rank),
        };
        self.offers.push(Offer { words: channel.block(), message, listener });
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
            if let Listener::Peer(slot, _) = listener {
                prefetch(slot.cast(), 1, false);
            }
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
                Message::Large(large, end) => large.offer(transfer, *end, until_ns),
            }
            if let Listener::Wire(wire, index) = listener {
                // SAFETY: as for the block.
                unsafe { wire.as_ref() }.due.mark(usize::from(*index));
            }
        }
    }

    /// Wakes those that sleep at other ends on this node.
    #[inline]
    pub fn wake_peers(&self) {
        for Offer { listener, .. } in &self.offers {
            if let Listener::Peer(slot, local_rank) = listener
                // SAFETY: as for the block.
                && let Some(doorbell) = unsafe { slot.as_ref() }.take_waiter_behind_fence()
            {
                self.ring(*local_rank, doorbell);
            }
        }
    }

    #[cold]
    fn ring(&self, local_rank: u32, doorbell: u32) {
        if let Some(doorbell) = self.job.doorbell(local_rank, doorbell) {
            doorbell.wake();
        }
    }

    /// Whether there are any of large messages.
    pub fn has_large(&self) -> bool {
        self.offers.iter().any(|offer| matches!(offer.message, Message::Large(..)))
    }

    /// The places, in the order in which they were added, of the large messages that both ends have offered.
    pub fn met(&self) -> impl Iterator<Item = usize> {
        let is_met = |offer: &Offer| match offer.message {
            // SAFETY: as for the block.
            Message::Large(transfer, end) => transfer.is_met(&unsafe { offer.words.as_ref() }.transfer, end),
            _ => false,
        };
        iter::zip(0.., &self.offers).filter(move |(_, offer)| is_met(offer)).map(|(place, _)| place)
    }

    /// All messages have come and gone: the next ones are the next.
    #[inline]
    pub fn advance(&mut self) {
        for Offer { message, .. } in &mut self.offers {
            match message {
                Message::Send(sender) => *sender = sender.next(),
                Message::Recv(receiver) => *receiver = receiver.next(),
                Message::Large(transfer, _) => *transfer = transfer.next(),
            }
        }
    }
}
