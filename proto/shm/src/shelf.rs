//! The shelf of a post lane: receives that wait for messages of the lane, where the daemon can get them.
//!
//! A receive that is begun before it is waited for stays with its rank, which takes what comes through the lane. But the rank may
//! compute when a message finds no room there and takes the detour. Then the daemon, which has got the message, takes the receives
//! over: those that messages in the lane are for are told so, the others are with the daemon from now on, as if they had been posted
//! there in the first place.
//!
//! Who reads or changes what receives and messages have to do with each other holds the rank's [`Keys`]: its own threads one
//! after the other, or the daemon.

use ropeway_proto::{CommId, Command, Endpoint, Epoch, Layout, Rank, Slot, Tag};

use crate::post::{CELLS, CellWords, FULL, PostEnvelope, PostMemory, TAKEN};
use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// Receives that lie on a shelf at most.
pub const PLACES: u32 = if cfg!(loom) { 3 } else { 1024 };

/// A receive into one block of memory, from the sender of the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShelvedRecv {
    /// Of its operation.
    pub slot: Slot,
    /// Of its operation, should the daemon get it.
    pub epoch: Epoch,
    /// Whose messages it takes.
    pub endpoint: Endpoint,
    /// Where they go.
    pub layout: Layout,
}

impl From<ShelvedRecv> for Command {
    fn from(recv: ShelvedRecv) -> Self {
        let ShelvedRecv { slot, epoch, endpoint, layout } = recv;
        Self::Recv { slot, epoch, endpoint, layout }
    }
}

/// What has become of a receive on the shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It lies there.
    Waiting,
    /// This message of the lane is for it.
    Assigned(u64, PostEnvelope),
    /// It is with the daemon.
    Entrusted,
}

/// Whose turn it is. Senders look at the rank's other words, and a processor fetches cache lines in pairs: so it has a pair of its own.
#[repr(C, align(128))]
pub struct Keys {
    holder: AtomicU32,
    /// How often the daemon has taken a shelf over.
    taken_over: AtomicU32,
}

/// What the receiver tells about a lane, and the daemon when it has taken the shelf over.
#[repr(C, align(128))]
pub struct ShelfWords {
    /// All messages before this one are received.
    pub(crate) head: AtomicU64,
    /// Messages from here on are not for the lane's receives.
    limit: AtomicU64,
    /// Places that were ever used.
    places: AtomicU32,
    /// Receives that lie there and are the rank's.
    waiting: AtomicU32,
}

/// Where a receive lies.
#[repr(C, align(64))]
pub struct PlaceWords {
    state: AtomicU64,
    /// Receives lie in the order of these numbers.
    order: AtomicU64,
    offset: AtomicU64,
    bytes: AtomicU64,
    slot: AtomicU32,
    epoch: AtomicU32,
    comm: AtomicU32,
    tag: AtomicU32,
    has_tag: AtomicU32,
}

const EMPTY: u64 = 0;
const WAITING: u64 = 1;
const ENTRUSTED: u64 = 2;
const ASSIGNED: u64 = 3;

const NOBODY: u32 = 0;
const RANK: u32 = 1;
const DAEMON: u32 = 2;

impl Keys {
    pub(crate) fn new() -> Self {
        Self { holder: AtomicU32::new(NOBODY), taken_over: AtomicU32::new(0) }
    }

    /// The rank's turn, if it isn't the daemon's. Its threads come one after the other.
    #[inline]
    pub fn take(&self) -> Option<Turn<'_>> {
        self.take_for(RANK)
    }

    /// The daemon's turn, if it isn't the rank's.
    pub fn take_for_daemon(&self) -> Option<Turn<'_>> {
        self.take_for(DAEMON)
    }

    #[inline]
    fn take_for(&self, holder: u32) -> Option<Turn<'_>> {
        // SYNC shelf-keys: whoever comes next sees all that was done before.
        let taken = self.holder.compare_exchange(NOBODY, holder, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Turn(self))
    }

    /// The daemon has died, maybe in its turn.
    pub fn end_daemons_turn(&self) {
        let _ = self.holder.compare_exchange(DAEMON, NOBODY, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// How often the daemon has taken over a shelf. Read in the rank's turn.
    #[inline]
    pub fn taken_over(&self) -> u32 {
        self.taken_over.load(Ordering::Relaxed)
    }
}

/// Ends when it is dropped.
pub struct Turn<'a>(&'a Keys);

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        // SYNC shelf-keys.
        self.0.holder.store(NOBODY, Ordering::Release);
    }
}

impl ShelfWords {
    pub(crate) fn new() -> Self {
        let word = || AtomicU64::new(0);
        Self { head: word(), limit: word(), places: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    /// Places that were ever used.
    pub fn used_places(&self) -> u32 {
        self.places.load(Ordering::Relaxed).min(PLACES)
    }

    /// Receives that lie there and are the rank's.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Where the daemon has closed the lane when it took the shelf over.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }
}

impl PlaceWords {
    /// Of an empty place. In a segment of zeros they are there already; this makes some elsewhere.
    pub fn new() -> Self {
        let (word, half) = (|| AtomicU64::new(0), || AtomicU32::new(0));
        Self {
            state: word(),
            order: word(),
            offset: word(),
            bytes: word(),
            slot: half(),
            epoch: half(),
            comm: half(),
            tag: half(),
            has_tag: half(),
        }
    }

    fn put(&self, order: u64, recv: &ShelvedRecv) {
        let ShelvedRecv { slot, epoch, endpoint, layout } = recv;
        self.order.store(order, Ordering::Relaxed);
        self.offset.store(layout.offset, Ordering::Relaxed);
        self.bytes.store(layout.block_bytes, Ordering::Relaxed);
        self.slot.store(*slot, Ordering::Relaxed);
        self.epoch.store(*epoch, Ordering::Relaxed);
        self.comm.store(endpoint.comm.0, Ordering::Relaxed);
        self.tag.store(endpoint.tag.unwrap_or_default() as u32, Ordering::Relaxed);
        self.has_tag.store(endpoint.tag.is_some().into(), Ordering::Relaxed);
        self.state.store(WAITING, Ordering::Relaxed);
    }

    fn get(&self, source: Rank) -> ShelvedRecv {
        let tag = self.tag.load(Ordering::Relaxed) as Tag;
        let endpoint = Endpoint {
            comm: CommId(self.comm.load(Ordering::Relaxed)),
            peer: Some(source),
            tag: (self.has_tag.load(Ordering::Relaxed) != 0).then_some(tag),
        };
        ShelvedRecv {
            slot: self.slot.load(Ordering::Relaxed),
            epoch: self.epoch.load(Ordering::Relaxed),
            endpoint,
            layout: Layout::contiguous(self.offset.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed)),
        }
    }
}

/// What the receiver knows of a shelf.
#[derive(Debug, Default)]
pub struct Shelf {
    /// Places that were used and are empty.
    empty: Vec<u32>,
    places: u32,
    /// Of the last one.
    order: u64,
}

impl Shelf {
    /// A place for one more receive, if there is any.
    pub fn find_place(&self) -> Option<u32> {
        self.empty.last().copied().or_else(|| (self.places < PLACES).then_some(self.places))
    }

    /// Puts a receive behind all others, on a place that was found.
    pub fn put(&mut self, memory: &impl PostMemory, place: u32, recv: &ShelvedRecv) {
        if self.empty.pop().is_none() {
            self.places += 1;
            memory.shelf().places.store(self.places, Ordering::Relaxed);
        }
        self.order += 1;
        memory.place(place).put(self.order, recv);
        let words = memory.shelf();
        words.waiting.store(words.waiting() + 1, Ordering::Relaxed);
    }

    /// Takes a receive away.
    pub fn clear(&mut self, memory: &impl PostMemory, place: u32) {
        let (words, state) = (memory.shelf(), &memory.place(place).state);
        if state.load(Ordering::Relaxed) == WAITING {
            words.waiting.store(words.waiting() - 1, Ordering::Relaxed);
        }
        state.store(EMPTY, Ordering::Relaxed);
        self.empty.push(place);
    }
}

/// What has become of the receive on a place.
pub fn fate(memory: &impl PostMemory, place: u32) -> Fate {
    match memory.place(place).state.load(Ordering::Relaxed) {
        EMPTY | WAITING => Fate::Waiting,
        ENTRUSTED => Fate::Entrusted,
        assigned => {
            let number = assigned - ASSIGNED;
            Fate::Assigned(number, memory.cell(number).envelope())
        }
    }
}

/// The daemon, in its turn, takes over what lies on so many places of a lane's shelf. Receives that no message in the lane is for are
/// its own then, in this order; the source is the sender's rank.
///
/// What is read here was written by a client: it may be anything, and another the next time.
pub fn take_over(memory: &impl PostMemory, places: u32, source: Rank) -> Vec<ShelvedRecv> {
    let places = 0..places.min(PLACES);
    let is_waiting = |&place: &u32| memory.place(place).state.load(Ordering::Relaxed) == WAITING;
    let waiting = places.filter(is_waiting).take(memory.shelf().waiting() as usize);
    // Read once: an order that changes while it is sorted by may end the daemon.
    let mut waiting: Vec<(u64, u32)> =
        waiting.map(|place| (memory.place(place).order.load(Ordering::Relaxed), place)).collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    waiting.sort_unstable();
    let mut waiting: Vec<(u32, ShelvedRecv)> =
        waiting.into_iter().map(|(_, place)| (place, memory.place(place).get(source))).collect();
    // SYNC post-posted: from here on messages take the detour, and those that do not are seen below.
    memory.words().set_posted(waiting.len() as u32);
    assign(memory, &mut waiting);
    memory.words().set_posted(waiting.len() as u32);
    for (place, _) in &waiting {
        memory.place(*place).state.store(ENTRUSTED, Ordering::Relaxed);
    }
    memory.shelf().waiting.store(0, Ordering::Relaxed);
    memory.receiver().keys().taken_over.fetch_add(1, Ordering::Relaxed);
    waiting.into_iter().map(|(_, recv)| recv).collect()
}

/// Gives the messages that are in the lane to the receives they are for, which are waiting no more.
fn assign(memory: &impl PostMemory, waiting: &mut Vec<(u32, ShelvedRecv)>) {
    let shelf = memory.shelf();
    let head = shelf.head.load(Ordering::Relaxed);
    let mut number = head;
    while memory.words().is_open() && number.wrapping_sub(head) < CELLS {
        let cell = memory.cell(number);
        match cell.progress(number) {
            FULL => assign_one(memory, (number, cell), waiting),
            ..=TAKEN => break,
            _ => {}
        }
        number = number.wrapping_add(1);
    }
    shelf.limit.store(number, Ordering::Relaxed);
}

fn assign_one(memory: &impl PostMemory, (number, cell): (u64, &CellWords), waiting: &mut Vec<(u32, ShelvedRecv)>) {
    let envelope = cell.envelope();
    let Some(first) = waiting.iter().position(|(_, recv)| envelope.suits(&recv.endpoint)) else { return };
    // Unless its sender takes it back.
    if cell.take(number) {
        let (place, _) = waiting.remove(first);
        memory.place(place).state.store(ASSIGNED.wrapping_add(number), Ordering::Relaxed);
    }
}
