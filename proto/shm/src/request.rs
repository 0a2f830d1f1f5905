//! Request slots: where the daemon says that an operation has ended. Byte map: `ropeway_proto::completion`.

use ropeway_proto::{Completion, Epoch, Status};

use crate::primitive::{AtomicU32, AtomicU64, Ordering, fence};

/// One slot of a request table, one cache line.
#[repr(C, align(64))]
pub struct RequestSlot {
    /// The last operation that has ended.
    epoch: AtomicU32,
    /// Doorbell of whoever waits, plus one; zero if nobody does.
    waiter: AtomicU32,
    status: AtomicU32,
    source: AtomicU32,
    tag: AtomicU32,
    /// Messages the daemon has moved over the direct channel for this end.
    channel_number: AtomicU32,
    bytes: AtomicU64,
    /// Where the request's direct channel lies; zero while it has none.
    channel: AtomicU64,
    /// How often the messages that start together with this request's have started, if it is the one that says so for all of them.
    round: AtomicU32,
    /// Whether the program waits for that round, and so moves what can be moved. A hint.
    watching: AtomicU32,
    /// Until when the program was last likely to come to wait for a round. A hint.
    round_until_ns: AtomicU64,
    reserved_end: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<RequestSlot>() == 64);

impl RequestSlot {
    /// A slot whose operation 0 has ended. In a segment of zeros it is there already; this makes one elsewhere, for tests.
    pub fn new() -> Self {
        let word = || AtomicU32::new(0);
        Self {
            epoch: word(),
            waiter: word(),
            status: word(),
            source: word(),
            tag: word(),
            channel_number: word(),
            bytes: AtomicU64::new(0),
            channel: AtomicU64::new(0),
            round: word(),
            watching: word(),
            round_until_ns: AtomicU64::new(0),
            reserved_end: AtomicU64::new(0),
        }
    }

    /// Ends operation `epoch`. Returns the number of the doorbell to ring, if somebody waits; the number comes from the
    /// client and may be anything.
    pub fn complete(&self, epoch: Epoch, completion: &Completion) -> Option<u32> {
        self.status.store(completion.status.code(), Ordering::Relaxed);
        self.source.store(completion.source, Ordering::Relaxed);
        self.tag.store(completion.tag as u32, Ordering::Relaxed);
        self.bytes.store(completion.bytes, Ordering::Relaxed);
        // SYNC slot-done (store): the outcome before the word that announces it.
        self.epoch.store(epoch, Ordering::Release);
        self.take_waiter()
    }

    /// The number of the doorbell to ring for what was just written, if somebody waits for it.
    #[inline]
    pub fn take_waiter(&self) -> Option<u32> {
        // SYNC slot-waiter: the word before the waiter here, the waiter before the word in `arm`; with both fences at
        // least one side sees the other.
        fence(Ordering::SeqCst);
        self.take_waiter_behind_fence()
    }

    /// Whether it would find somebody.
    #[inline]
    pub(crate) fn has_waiter_behind_fence(&self) -> bool {
        self.waiter.load(Ordering::Relaxed) != 0
    }

    /// As [`take_waiter`](Self::take_waiter), for many slots behind one SeqCst fence.
    #[inline]
    pub(crate) fn take_waiter_behind_fence(&self) -> Option<u32> {
        match self.waiter.load(Ordering::Relaxed) {
            0 => None,
            _ => self.waiter.swap(0, Ordering::Relaxed).checked_sub(1),
        }
    }

    /// The request has a direct channel at `block` from now on, or with zero none any more.
    pub fn set_channel(&self, block: u64) {
        self.channel_number.store(0, Ordering::Relaxed);
        // SYNC slot-channel (store): the channel is written down before anybody looks for it.
        self.channel.store(block, Ordering::Release);
    }

    /// The daemon has moved so many messages over the channel for this end. Before the completion that tells of it.
    pub fn set_channel_number(&self, number: u32) {
        self.channel_number.store(number, Ordering::Relaxed);
    }

    /// The request's direct channel and how many of its messages the daemon has moved, if it has one.
    #[inline]
    pub fn channel(&self) -> Option<(u64, u32)> {
        // SYNC slot-channel (load).
        match self.channel.load(Ordering::Acquire) {
            0 => None,
            block => Some((block, self.channel_number.load(Ordering::Relaxed))),
        }
    }

    /// Whether operation `epoch` has ended. The client's: it knows which one it has started.
    #[inline]
    pub fn is_done(&self, epoch: Epoch) -> bool {
        // SYNC slot-done (load).
        self.epoch.load(Ordering::Acquire) == epoch
    }

    /// How the operation ended, once it has. `None` if the daemon is newer and its status unknown.
    pub fn completion(&self) -> Option<Completion> {
        Some(Completion {
            status: Status::from_code(self.status.load(Ordering::Relaxed))?,
            source: self.source.load(Ordering::Relaxed),
            tag: self.tag.load(Ordering::Relaxed) as i32,
            bytes: self.bytes.load(Ordering::Relaxed),
        })
    }

    /// All messages that start together with this request's have started: offers, behind which a `SeqCst` fence has to follow, and looks for those
    /// that sleep. Its owner's.
    #[inline]
    pub fn begin_round(&self) {
        // SYNC offered-round (store): all buffers are ready before the round.
        self.round.store(self.round.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }

    /// The program is likely to come to wait for the round until then.
    #[inline]
    pub fn set_round_until(&self, until_ns: u64) {
        self.round_until_ns.store(until_ns, Ordering::Relaxed);
    }

    /// How often they have.
    #[inline]
    pub fn round(&self) -> u32 {
        // SYNC offered-round (load).
        self.round.load(Ordering::Acquire)
    }

    /// The program waits for the round from now on, or no more.
    pub fn set_watching(&self, is_watching: bool) {
        self.watching.store(is_watching.into(), Ordering::Relaxed);
    }

    /// Whether it does.
    #[inline]
    pub fn is_watching(&self) -> bool {
        self.watching.load(Ordering::Relaxed) != 0
    }

    /// Until when the program was last likely to come to wait for a round.
    #[inline]
    pub fn round_until_ns(&self) -> u64 {
        self.round_until_ns.load(Ordering::Relaxed)
    }

    /// Leaves a doorbell's number. The caller looks again before it sleeps.
    pub fn arm(&self, doorbell: u32) {
        self.waiter.store(doorbell.wrapping_add(1), Ordering::Relaxed);
        // SYNC slot-waiter: see `complete`.
        fence(Ordering::SeqCst);
    }

    /// Takes the number back.
    pub fn disarm(&self) {
        self.waiter.store(0, Ordering::Relaxed);
    }
}
