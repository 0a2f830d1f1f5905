//! Starts that only offer messages, prepared for those who make many at once: one word says of all of them that they have started, and one look
//! at each peer whether it sleeps, however many messages go there.

use std::ptr::NonNull;
use std::sync::Arc;

use ropeway_proto::{End, Slot};
use smallvec::SmallVec;

use crate::channel::OpenChannel;
use crate::job::JobSegment;
use crate::joined::Joined;
use crate::listener::ring;
use crate::prefetch::{Line, prefetch, prepare_to_write_whole};
use crate::request::RequestSlot;

/// The next messages of ends that start together. Each is left in its buffer, or goes into it, when somebody comes to wait for it or works
/// its wire. What is needed of so many peers of this node lies in it.
#[repr(C)]
pub struct Offers<const PEERS: usize> {
    /// Of the request that says so for all of them, in `job`. `None` if there are no requests.
    own: Option<NonNull<RequestSlot>>,
    peers: SmallVec<[Peer; PEERS]>,
    /// What most starts don't need.
    rest: Box<Rest>,
}

struct Rest {
    large: Vec<Large>,
    /// The request that says that all have started.
    slot: Slot,
    /// Other ends whose owner did not say yet with which others they start.
    strangers: Vec<Peer>,
    /// Keeps mapped where all leads.
    job: Arc<JobSegment>,
}

/// Ends of a rank of this node that are at the other ends of some, and start together.
struct Peer {
    /// Where they say that they have started, and leave word if they sleep.
    slot: NonNull<RequestSlot>,
    local_rank: u32,
    /// In which round they are while they start the same messages, less ours, modulo 2³⁰.
    lead: u32,
}

/// A message that is copied in pieces, by a daemon if it is asked.
struct Large {
    /// Our request.
    slot: u16,
    /// Who has the other end.
    peer: u16,
}

// SAFETY: the pointers lead into the mapping that `job` keeps, which belongs to no thread, to atomics.
unsafe impl<const PEERS: usize> Send for Offers<PEERS> {}
// SAFETY: as above.
unsafe impl<const PEERS: usize> Sync for Offers<PEERS> {}

impl<const PEERS: usize> Offers<PEERS> {
    /// With room for so many ends, at whose other ends there are so many ranks of this node. They are of a rank's requests the first of which has
    /// this slot.
    pub fn new(job: &Arc<JobSegment>, (local_rank, first): (u32, Option<Slot>), (peers, ends): (usize, usize)) -> Self {
        let own = first.and_then(|slot| job.slot(local_rank, slot)).map(NonNull::from);
        let (large, strangers) = (Vec::with_capacity(ends), Vec::with_capacity(ends));
        let rest = Rest { large, strangers, slot: first.unwrap_or_default(), job: Arc::clone(job) };
        Self { own, peers: SmallVec::with_capacity(peers), rest: Box::new(rest) }
    }

    /// No end is added any more.
    pub fn clear(&mut self) {
        self.peers.clear();
        self.rest.large.clear();
        self.rest.strangers.clear();
    }

    /// Adds this end of a channel. Its next message has this number.
    pub fn add(&mut self, channel: &OpenChannel, end: End, next: u32) {
        debug_assert!(std::ptr::eq(channel.job(), &*self.rest.job), "all are of one job");
        let Some(joined) = channel.join(end, self.rest.slot, next) else { return };
        if channel.is_wired() {
            return;
        }
        // SAFETY: it was just checked; the slot consists of atomics.
        let is_at_it = |(theirs, slot): &(Joined, NonNull<RequestSlot>)| theirs.is_at(unsafe { slot.as_ref() }, next);
        let theirs = channel.others_of(end.peer()).filter(is_at_it);
        let local_rank = channel.channel().end(end.peer()).local_rank;
        let Some((theirs, slot)) = theirs else {
            self.rest.strangers.push(Peer { slot: channel.slot(end.peer()), local_rank, lead: 0 });
            return;
        };
        let lead = joined.lead_of(theirs);
        let peer = self.peers.iter().position(|known| (known.slot, known.lead) == (slot, lead));
        let peer = peer.unwrap_or_else(|| {
            self.peers.push(Peer { slot, local_rank, lead });
            self.peers.len() - 1
        });
        if !channel.channel().is_small() {
            let slot = channel.channel().end(end).slot as u16;
            self.rest.large.push(Large { slot, peer: peer as u16 });
        }
    }

    /// Whether some other ends were not ready to be started for, so that all should be added again: until then
    /// [`wake_strangers`](Self::wake_strangers) follows each [`wake_peers`](Self::wake_peers).
    pub fn has_strangers(&self) -> bool {
        !self.rest.strangers.is_empty()
    }

    /// Has the processor fetch what the others need of it.
    #[inline]
    pub fn fetch(&self) {
        // Of the list first, since how many there are is said at its end.
        prepare_to_write_whole(&self.peers);
        if let Some(own) = self.own {
            prefetch(own.cast(), 1, true);
        }
        self.peers.iter().for_each(|peer| prefetch(peer.slot.cast(), 1, false));
    }

    /// What a start touches of the slots: of its own, and of the first two peers.
    pub fn lines(&self) -> [Line; 3] {
        let peer = |number| self.peers.get(number).map(|peer: &Peer| Line::of(peer.slot()));
        let own = self.own().map(Line::of);
        [own, peer(0), peer(1)].map(|line| line.unwrap_or(Line::NONE))
    }

    /// Makes all offers. What goes over a wire is to be marked there, and behind a `SeqCst` fence [`wake_peers`](Self::wake_peers) follows.
    #[inline]
    pub fn make(&self) {
        self.own().into_iter().for_each(RequestSlot::begin_round);
    }

    /// The program is likely to come to wait at once, until then at the latest: it copies first what it sends.
    #[inline]
    pub fn leave_to_senders(&self, until_ns: u64) {
        self.own().into_iter().for_each(|own| own.set_round_until(until_ns));
    }

    /// Wakes those that sleep at other ends on this node.
    #[inline]
    pub fn wake_peers(&self) {
        self.peers.iter().for_each(|peer| self.wake(peer));
    }

    /// The same of ends that were not ready.
    #[cold]
    pub fn wake_strangers(&self) {
        self.rest.strangers.iter().for_each(|peer| self.wake(peer));
    }

    #[inline]
    fn wake(&self, peer: &Peer) {
        if let Some(doorbell) = peer.slot().take_waiter_behind_fence() {
            ring(&self.rest.job, peer.local_rank, doorbell);
        }
    }

    /// Leaves a doorbell's number where peers look for it, beside those that each end leaves. The caller looks again before it sleeps.
    pub fn arm(&self, doorbell: u32) {
        self.own().into_iter().for_each(|own| own.arm(doorbell));
    }

    /// Takes the number back.
    pub fn disarm(&self) {
        self.own().into_iter().for_each(RequestSlot::disarm);
    }

    /// Whether there are any large messages within the node.
    pub fn has_large(&self) -> bool {
        !self.rest.large.is_empty()
    }

    /// The program waits for what it has started from now on, or no more: it moves what can be moved.
    pub fn set_watching(&self, is_watching: bool) {
        self.own().into_iter().for_each(|own| own.set_watching(is_watching));
    }

    /// The requests of the large messages that both ends have offered, and whose other end does not wait, if that `is_left_to_waiters`.
    #[inline]
    pub fn met(&self, is_left_to_waiters: bool) -> impl Iterator<Item = Slot> {
        let round = self.own().map_or(0, RequestSlot::round);
        let has_come = move |peer: &Peer| {
            let slot = peer.slot();
            let is_there = slot.round().wrapping_sub(round.wrapping_add(peer.lead)) << 2 == 0;
            is_there && !(is_left_to_waiters && slot.is_watching())
        };
        // Those that most often are none are not looked at.
        let large = self.peers.iter().any(has_come).then(|| self.rest.large.iter()).into_iter().flatten();
        large.filter(move |large| has_come(&self.peers[usize::from(large.peer)])).map(|large| large.slot.into())
    }

    fn own(&self) -> Option<&RequestSlot> {
        // SAFETY: checked when it was made, and mapped as long as `job` lives; the slot consists of atomics.
        self.own.map(|own| unsafe { own.as_ref() })
    }
}

impl Peer {
    #[inline]
    fn slot(&self) -> &RequestSlot {
        // SAFETY: checked when it was added, and mapped as long as the job is; the slot consists of atomics.
        unsafe { self.slot.as_ref() }
    }
}
