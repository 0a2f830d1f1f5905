//! One-shot messages between ranks of this node without the daemon, over the post lanes of the job segment.
//!
//! Only what is small and simple goes that way: see `ropeway_shm::post`. All else takes the detour by the daemon, which matches
//! it; here it is seen to that both ways together keep the order of messages.

mod detour;
mod inbox;
mod kept;

use std::hint;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_proto::limits::POST_BYTES_MAX;
use ropeway_proto::{Completion, Endpoint, Rank, Slot};
use ropeway_shm::post::{LOCKERS, PostEnvelope, PostMemory, PostSender, RankWords, has_news};
use ropeway_shm::shelf::{Keys, ShelvedRecv, Turn};
use ropeway_shm::{JobSegment, PostLane};

use crate::commands::Entry;
use crate::wait::Event;

pub(crate) use detour::Detour;
use detour::Errand;
use inbox::Inbox;
pub(crate) use kept::Stage;

/// The ends of all lanes of this rank.
pub(crate) struct PostOffice {
    job: Arc<JobSegment>,
    local_rank: u32,
    /// Of the node.
    first_rank: Rank,
    /// By receiver.
    senders: Vec<Mutex<Outlet>>,
    inbox: Mutex<Inbox>,
}

/// The inbox, which nobody else uses now, the daemon neither.
struct OpenInbox<'a> {
    _turn: Option<Turn<'a>>,
    inbox: MutexGuard<'a, Inbox>,
}

impl Deref for OpenInbox<'_> {
    type Target = Inbox;

    fn deref(&self) -> &Inbox {
        &self.inbox
    }
}

impl DerefMut for OpenInbox<'_> {
    fn deref_mut(&mut self) -> &mut Inbox {
        &mut self.inbox
    }
}

/// The sending end of a lane.
#[derive(Default)]
struct Outlet {
    sender: PostSender,
    is_open: bool,
    /// Lockers that have memory.
    lockers: usize,
}

/// Which ranks of this node an endpoint may mean, beside our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbours {
    Nobody,
    One(u32),
    All,
}

/// What a look for a message has given.
pub(crate) enum Look<'a> {
    /// It was there.
    Found(Completion),
    /// There is none, not with the daemon either. What to wait for.
    NotYet(News<'a>),
    /// The daemon may have it, or knows why it will never come.
    AskDaemon,
}

impl PostOffice {
    /// That of a rank, which is among the node's at this index.
    pub(crate) fn new(job: Arc<JobSegment>, rank: Rank, local_rank: u32) -> Self {
        let local_ranks = if job.has_post() { job.geometry().local_ranks } else { 0 };
        let first_rank = rank - local_rank;
        let senders = (0..local_ranks).map(|_| Mutex::default()).collect();
        let inbox = Mutex::new(Inbox::new(job.clone(), local_rank, first_rank, local_ranks));
        Self { job, local_rank, first_rank, senders, inbox }
    }

    /// Sends a message through a lane, with so many looks for a free cell before the core is yielded, and for a free locker. False
    /// if it has to take the detour.
    #[inline]
    pub(crate) fn send(&self, endpoint: &Endpoint, message: &[u8], looks: u32) -> bool {
        let Some(dest) = self.neighbour(endpoint.peer) else { return false };
        if message.len() > POST_BYTES_MAX {
            return false;
        }
        let tag = endpoint.tag.unwrap_or_default();
        let envelope = PostEnvelope { comm: endpoint.comm, tag, bytes: message.len(), locker: 0 };
        let lane = self.lane_to(dest);
        let is_sent = self.send_to((dest, &lane), envelope, message, looks);
        if is_sent {
            self.wake((dest, &lane));
        }
        is_sent
    }

    fn send_to(
        &self,
        (dest, lane): (u32, &PostLane<'_>),
        mut envelope: PostEnvelope,
        message: &[u8],
        looks: u32,
    ) -> bool {
        let outlet = &mut *self.senders[dest as usize].lock().expect(NO_PANIC);
        // Without memory there is the detour.
        outlet.is_open = outlet.is_open || self.job.open_post_lane(self.local_rank, dest).is_ok();
        if !outlet.is_open || !outlet.sender.may_send(lane) || !has_room(&outlet.sender, lane, looks) {
            return false;
        }
        if envelope.is_long() {
            match find_locker(&outlet.sender, lane, looks) {
                Some(locker) if self.has_memory(outlet, dest, locker) => envelope.locker = locker,
                _ => return false,
            }
        }
        lane.write(outlet.sender.number(), &envelope, message);
        outlet.sender.send(lane, &envelope)
    }

    /// Whether this locker has memory, which lockers get a few at a time.
    fn has_memory(&self, outlet: &mut Outlet, dest: u32, locker: usize) -> bool {
        if locker == outlet.lockers {
            let next = locker..(locker + LOCKERS_AT_ONCE).min(LOCKERS);
            if self.job.open_post_lockers(self.local_rank, dest, next.clone()).is_ok() {
                outlet.lockers = next.end;
            }
        }
        locker < outlet.lockers
    }

    /// The daemon is about to be given a message to send by the operation on this slot.
    pub(crate) fn detour_send(self: &Arc<Self>, endpoint: &Endpoint, slot: Slot) -> Option<Detour> {
        let dest = self.neighbour(endpoint.peer)?;
        let lane = self.lane_to(dest);
        lane.words().count_detour();
        self.wake((dest, &lane));
        Some(Detour::new(self, slot, Errand::Send(dest)))
    }

    /// Whether messages come from there in a lane, as a rule.
    pub(crate) fn has_lane_from(&self, endpoint: &Endpoint) -> bool {
        self.neighbour(endpoint.peer).is_some()
    }

    /// Looks for a message from a neighbour, which is received if there is memory for it, else left where it is.
    pub(crate) fn look(&self, endpoint: &Endpoint, into: Option<&mut [u8]>) -> Look<'_> {
        self.look_into(&mut self.lock_inbox(), endpoint, into)
    }

    /// Receives a message from a neighbour, or keeps the receive if there is none yet.
    pub(crate) fn keep(&self, recv: ShelvedRecv, into: &mut [u8]) -> Look<'_> {
        let mut inbox = self.lock_inbox();
        match self.look_into(&mut inbox, &recv.endpoint, Some(into)) {
            Look::NotYet(News { source, .. }) if !inbox.keep(source, recv) => Look::AskDaemon,
            look => look,
        }
    }

    fn look_into(&self, inbox: &mut Inbox, endpoint: &Endpoint, into: Option<&mut [u8]>) -> Look<'_> {
        let Some(source) = self.neighbour(endpoint.peer) else { return Look::AskDaemon };
        let lane = self.lane_from(source);
        match inbox.take_from(source, endpoint, into) {
            Ok(found) => Look::Found(found),
            Err(_) if inbox.posted(source) > 0 || !lane.words().is_settled() || lane.sender().is_gone() => {
                Look::AskDaemon
            }
            Err(next) => Look::NotYet(News { lane, source, next }),
        }
    }

    /// How far a kept receive has got. Unless it still waits, it is kept no more. Needs a way to the daemon, which may get it.
    pub(crate) fn poll(&self, (source, slot): (u32, Slot), publish: impl Fn(&[Entry])) -> Stage {
        self.lock_inbox().poll(source, slot, publish)
    }

    /// A receive is kept no more. Where it was, if it did not wait.
    pub(crate) fn forget(&self, source: u32, slot: Slot) -> Option<Stage> {
        self.lock_inbox().forget(source, slot)
    }

    /// What a kept receive waits for that was told the number of the next message to come.
    pub(crate) fn news(&self, source: u32, next: u64) -> News<'_> {
        News { lane: self.lane_from(source), source, next }
    }

    /// A kept receive from this sender is with the daemon, as the operation on this slot.
    pub(crate) fn detour_kept(self: &Arc<Self>, source: u32, slot: Slot) -> Detour {
        Detour::new(self, slot, Errand::Recv(Neighbours::One(source)))
    }

    /// A receive or, without memory, a probe is about to be given to the daemon by the operation on this slot; unless there is a
    /// message for it.
    pub(crate) fn detour_recv(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        slot: Slot,
        into: Option<&mut [u8]>,
        publish: impl Fn(&[Entry]),
    ) -> Result<Completion, Option<Detour>> {
        let sources = self.neighbours(endpoint);
        if sources == Neighbours::Nobody {
            return Err(None);
        }
        let errand = if into.is_some() { Errand::Recv(sources) } else { Errand::Probe(sources) };
        let mut inbox = self.lock_inbox();
        inbox.post(sources);
        inbox.each(sources).for_each(|source| inbox.entrust(source, &publish));
        let found = inbox.take(sources, endpoint, into);
        match found {
            Some(found) => {
                inbox.unpost(sources);
                Ok(found)
            }
            None => Err(Some(Detour::new(self, slot, errand))),
        }
    }

    fn neighbours(&self, endpoint: &Endpoint) -> Neighbours {
        match self.neighbour(endpoint.peer) {
            Some(one) => Neighbours::One(one),
            None if endpoint.peer.is_none() && self.job.has_post() => Neighbours::All,
            None => Neighbours::Nobody,
        }
    }

    /// The index of a rank among the node's, if there is a lane to it.
    #[inline]
    fn neighbour(&self, peer: Option<Rank>) -> Option<u32> {
        let index = peer?.checked_sub(self.first_rank)?;
        let is_neighbour = (index as usize) < self.senders.len() && index != self.local_rank;
        is_neighbour.then_some(index)
    }

    fn lane_to(&self, dest: u32) -> PostLane<'_> {
        self.job.post_lane(self.local_rank, dest).expect(IS_NEIGHBOUR)
    }

    fn lane_from(&self, source: u32) -> PostLane<'_> {
        self.job.post_lane(source, self.local_rank).expect(IS_NEIGHBOUR)
    }

    #[inline]
    fn wake(&self, (dest, lane): (u32, &PostLane<'_>)) {
        let doorbells = lane.words().take_waiters();
        if doorbells != 0 {
            self.job.ring_all(dest, doorbells);
        }
    }

    fn lock_inbox(&self) -> OpenInbox<'_> {
        let mut inbox = self.inbox.lock().expect(NO_PANIC);
        let keys = self.job.post_rank(self.local_rank).map(RankWords::keys);
        let turn = keys.map(take_turn);
        if let Some(keys) = keys {
            inbox.take_note(keys.taken_over());
        }
        OpenInbox { _turn: turn, inbox }
    }
}

/// Whether there is a free cell, or soon is: a receiver that is at it needs our core at most, and a message that takes the detour
/// takes along all that follow until the receiver has caught up.
fn has_room(sender: &PostSender, lane: &PostLane<'_>, looks: u32) -> bool {
    let has_room_after = |wait: fn()| {
        wait();
        sender.has_room(lane)
    };
    if sender.has_room(lane) || (0..looks).any(|_| has_room_after(hint::spin_loop)) {
        return true;
    }
    let begin = Instant::now();
    while begin.elapsed() < FULL_TIME {
        if has_room_after(thread::yield_now) {
            return true;
        }
    }
    false
}

/// A locker that is free, or soon is, else one more: those that were used lately are in caches.
fn find_locker(sender: &PostSender, lane: &PostLane<'_>, looks: u32) -> Option<usize> {
    let look_again = |_| {
        hint::spin_loop();
        sender.free_locker(lane)
    };
    let soon = || (0..looks).find_map(look_again);
    sender.free_locker(lane).or_else(soon).or_else(|| sender.unused_locker())
}

/// Our turn, which the daemon's is short of.
#[inline]
fn take_turn(keys: &Keys) -> Turn<'_> {
    loop {
        match keys.take() {
            Some(turn) => return turn,
            None => thread::yield_now(),
        }
    }
}

/// A lane in which the next message has not come yet.
pub(crate) struct News<'a> {
    lane: PostLane<'a>,
    source: u32,
    next: u64,
}

impl News<'_> {
    /// The index of the sender among the node's ranks, and the number of the message.
    pub(crate) fn place(&self) -> (u32, u64) {
        (self.source, self.next)
    }
}

impl Event for News<'_> {
    fn has_happened(&self) -> bool {
        has_news(&self.lane, self.next)
    }

    fn arm(&self, doorbell: u32) {
        self.lane.words().arm(doorbell);
    }

    /// The number stays: another thread may have left the same. It costs one wake-up at most.
    fn disarm(&self) {}

    fn is_direct(&self) -> bool {
        true
    }
}

/// After this, a few wake-ups, a receiver that leaves the lane full is taken to compute.
const FULL_TIME: Duration = Duration::from_micros(200);
/// Lockers that get memory at once: 128 KiB.
const LOCKERS_AT_ONCE: usize = 8;
const NO_PANIC: &str = "nothing panics under this lock";
const IS_NEIGHBOUR: &str = "there is a lane to each neighbour";
