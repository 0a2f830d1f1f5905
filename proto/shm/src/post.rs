//! Post lanes: small one-shot messages from one rank of a node to another without the daemon.
//!
//! Each ordered pair of ranks has a lane of a few cells. A message goes into the next one only while the daemon has nothing to
//! do with the pair: it knows of no message from this sender that is not received yet, and of no receive that could take one.
//! So whatever lies in a lane is older than what the daemon has, and a receive looks into the lane first. Everything that does
//! not fit in there takes the *detour* by the daemon, which matches it as ever.
//!
//! What does not fit into its cell lies in one of the lane's lockers: the sender takes one whose last message was received.
//!
//! A cell is used for the messages `n`, `n + CELLS`, `n + 2 CELLS`, … Messages are received in any order, because tags may say
//! so; the sender waits for the cell of the oldest. The races, and why they are none: README.md, "Post lane".

use ropeway_proto::{CommId, Endpoint, Tag, limits};

use crate::primitive::{AtomicU32, AtomicU64, Ordering, fence};
use crate::shelf::{Keys, PlaceWords, ShelfWords};

/// Messages that a lane holds. The model checker gets to full lanes sooner with fewer.
pub const CELLS: u64 = if cfg!(loom) { 2 } else { 64 };

/// Longer messages that a lane holds: all may be.
pub const LOCKERS: usize = if cfg!(loom) { 1 } else { CELLS as usize };

/// What both ends of a lane say to each other beside its cells, each in the cache line of the one who writes it.
#[repr(C)]
pub struct LaneWords {
    sender: SenderWords,
    receiver: ReceiverWords,
    pub(crate) shelf: ShelfWords,
}

#[repr(C, align(64))]
struct SenderWords {
    /// The cells have memory.
    is_open: AtomicU32,
    /// Messages that have taken the detour.
    detoured: AtomicU32,
}

#[repr(C, align(64))]
struct ReceiverWords {
    /// How many of those were received.
    matched: AtomicU32,
    /// Receives and probes from this sender that are with the daemon.
    posted: AtomicU32,
    /// Doorbells to ring when something has come, a bit each.
    waiters: AtomicU64,
}

/// What concerns all lanes of a rank.
#[repr(C, align(64))]
pub struct RankWords {
    /// Its receives and probes from anybody that are with the daemon.
    posted: AtomicU32,
    /// It has died or left; written by the daemon.
    is_gone: AtomicU32,
    keys: Keys,
}

/// The head of a cell.
#[repr(C)]
pub struct CellWords {
    /// Lap of the message it is for, and phase.
    state: AtomicU32,
    comm: AtomicU32,
    tag: AtomicU32,
    /// The number of bytes, and above it that of the locker.
    bytes: AtomicU32,
}

/// What is known of a message in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostEnvelope {
    /// Communicator.
    pub comm: CommId,
    /// Tag.
    pub tag: Tag,
    /// Bytes, of which there are no more than fit into a locker.
    pub bytes: usize,
    /// Where they are, if they don't fit into the cell.
    pub locker: usize,
}

/// Where the words are.
pub trait PostMemory {
    /// Those of the lane.
    fn words(&self) -> &LaneWords;
    /// Those of the sending rank.
    fn sender(&self) -> &RankWords;
    /// Those of the receiving rank.
    fn receiver(&self) -> &RankWords;
    /// The cell of message `number`.
    fn cell(&self, number: u64) -> &CellWords;
    /// A place of the lane's shelf, or of some other one if there are not as many.
    fn place(&self, place: u32) -> &PlaceWords;
    /// What is told about the shelf.
    fn shelf(&self) -> &ShelfWords {
        &self.words().shelf
    }
    /// Whether a receive is with the daemon that could take a message of this lane.
    fn is_posted(&self) -> bool {
        self.words().receiver.posted.load(Ordering::Relaxed) + self.receiver().posted.load(Ordering::Relaxed) > 0
    }
}

// Phases of a cell in each lap.
const FREE: i32 = 0;
pub(crate) const FULL: i32 = 1;
pub(crate) const TAKEN: i32 = 2;
const LAP: u64 = 4;

/// Where the number of the locker begins in the word that says how many bytes there are.
const LOCKER_SHIFT: u32 = 24;
const _: () = assert!(limits::POST_BYTES_MAX < 1 << LOCKER_SHIFT && LOCKERS <= 1 << (u32::BITS - LOCKER_SHIFT));

/// The state of the cell of message `number` in this phase. Laps wrap; those that meet are neighbours.
fn state(number: u64, phase: i32) -> u32 {
    (number / CELLS * LAP) as u32 + phase as u32
}

impl LaneWords {
    /// Words of a lane without messages. In a segment of zeros they are there already; this makes some elsewhere.
    pub fn new() -> Self {
        let word = || AtomicU32::new(0);
        Self {
            sender: SenderWords { is_open: word(), detoured: word() },
            receiver: ReceiverWords { matched: word(), posted: word(), waiters: AtomicU64::new(0) },
            shelf: ShelfWords::new(),
        }
    }

    /// The cells have memory from now on.
    pub fn open(&self) {
        // SYNC post-open (store).
        self.sender.is_open.store(1, Ordering::Release);
    }

    /// Whether the cells have memory.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        // SYNC post-open (load).
        self.sender.is_open.load(Ordering::Acquire) != 0
    }

    /// Whether all messages that took the detour were received.
    #[inline]
    pub fn is_settled(&self) -> bool {
        // SYNC post-matched (load).
        self.sender.detoured.load(Ordering::Relaxed) == self.receiver.matched.load(Ordering::Acquire)
    }

    /// The sender is about to give a message to the daemon. Who waits has to be woken.
    pub fn count_detour(&self) {
        self.sender.detoured.fetch_add(1, Ordering::Relaxed);
        // SYNC post-waiter: see `take_waiters`.
        fence(Ordering::SeqCst);
    }

    /// It was withdrawn, and nobody has received it.
    pub fn uncount_detour(&self) {
        self.sender.detoured.fetch_sub(1, Ordering::Relaxed);
    }

    /// The receiver has got a message from the daemon.
    pub fn count_matched(&self) {
        // SYNC post-matched (store): what was older is received before the sender uses the lane again.
        self.receiver.matched.fetch_add(1, Ordering::Release);
    }

    /// So many receives from this sender are with the daemon.
    pub fn set_posted(&self, posted: u32) {
        set_posted(&self.receiver.posted, posted);
    }

    /// Leaves a doorbell's number, which is less than 64. The caller looks again before it sleeps.
    pub fn arm(&self, doorbell: u32) {
        self.receiver.waiters.fetch_or(1 << (doorbell % u64::BITS), Ordering::Relaxed);
        // SYNC post-waiter: see `take_waiters`.
        fence(Ordering::SeqCst);
    }

    /// The doorbells to ring for what was just written and fenced, a bit each.
    #[inline]
    pub fn take_waiters(&self) -> u64 {
        // SYNC post-waiter: a word and a fence before the waiters here, the waiters and a fence before the word in `arm`.
        match self.receiver.waiters.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.receiver.waiters.swap(0, Ordering::Relaxed),
        }
    }
}

impl RankWords {
    /// Of a rank that lives. In a segment of zeros they are there already; this makes some elsewhere.
    pub fn new() -> Self {
        Self { posted: AtomicU32::new(0), is_gone: AtomicU32::new(0), keys: Keys::new() }
    }

    /// Whose turn it is at the shelves of its lanes.
    #[inline]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// So many of its receives from anybody are with the daemon.
    pub fn set_posted(&self, posted: u32) {
        set_posted(&self.posted, posted);
    }

    /// It is gone. Who waits for it has to be woken.
    pub fn leave(&self) {
        // SYNC post-gone (store).
        self.is_gone.store(1, Ordering::Release);
        // SYNC post-waiter: see `LaneWords::take_waiters`.
        fence(Ordering::SeqCst);
    }

    /// Whether it has died or left.
    #[inline]
    pub fn is_gone(&self) -> bool {
        // SYNC post-gone (load): all it has sent is visible.
        self.is_gone.load(Ordering::Acquire) != 0
    }
}

fn set_posted(word: &AtomicU32, posted: u32) {
    word.store(posted, Ordering::Relaxed);
    // SYNC post-posted: `posted` before the cells here, the cell before `posted` in `PostSender::send`; with both fences either
    // the receiver sees the message, or the sender sees the receive and takes the message back.
    fence(Ordering::SeqCst);
}

impl CellWords {
    /// Of an empty cell. In a segment of zeros they are there already; this makes some elsewhere.
    pub fn new() -> Self {
        let word = || AtomicU32::new(0);
        Self { state: word(), comm: word(), tag: word(), bytes: word() }
    }

    /// The phase of the cell in the lap of message `number`; more once that was received, less while an older one is in it.
    #[inline]
    pub(crate) fn progress(&self, number: u64) -> i32 {
        // SYNC post-cell (load): the state before the bytes. SYNC post-free (load): the cell is read before it is written.
        self.state.load(Ordering::Acquire).wrapping_sub(state(number, FREE)) as i32
    }

    #[inline]
    fn fill(&self, number: u64, envelope: &PostEnvelope) {
        self.comm.store(envelope.comm.0, Ordering::Relaxed);
        self.tag.store(envelope.tag as u32, Ordering::Relaxed);
        self.bytes.store(envelope.bytes as u32 | (envelope.locker as u32) << LOCKER_SHIFT, Ordering::Relaxed);
        // SYNC post-cell (store): the bytes before the state.
        self.state.store(state(number, FULL), Ordering::Release);
    }

    #[inline]
    pub(crate) fn envelope(&self) -> PostEnvelope {
        let bytes = self.bytes.load(Ordering::Relaxed);
        PostEnvelope {
            comm: CommId(self.comm.load(Ordering::Relaxed)),
            tag: self.tag.load(Ordering::Relaxed) as Tag,
            bytes: (bytes as usize & ((1 << LOCKER_SHIFT) - 1)).min(limits::POST_BYTES_MAX),
            locker: (bytes >> LOCKER_SHIFT) as usize % LOCKERS,
        }
    }

    /// Takes message `number` for its receiver.
    #[inline]
    pub(crate) fn take(&self, number: u64) -> bool {
        self.claim(number, state(number, TAKEN))
    }

    /// Claims message `number` for its receiver, or back for its sender.
    #[inline]
    fn claim(&self, number: u64, next: u32) -> bool {
        // SYNC post-cell (load).
        self.state.compare_exchange(state(number, FULL), next, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

impl PostEnvelope {
    /// Whether it needs a locker.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.bytes > limits::POST_CELL_BYTES
    }

    /// Whether a receive at this endpoint, whose peer is the sender or any, may have the message.
    #[inline]
    pub fn suits(&self, endpoint: &Endpoint) -> bool {
        self.comm == endpoint.comm && endpoint.tag.is_none_or(|tag| tag == self.tag)
    }
}

/// The sending end of a lane. Threads take turns.
#[derive(Debug, Default)]
pub struct PostSender {
    number: u64,
    /// The last message in each locker that was used.
    lockers: Vec<u64>,
}

impl PostSender {
    /// Whether the next message may go through the lane: the detour is empty, and nobody waits at its end.
    #[inline]
    pub fn may_send(&self, memory: &impl PostMemory) -> bool {
        memory.words().is_settled() && !memory.is_posted() && !memory.receiver().is_gone()
    }

    /// Whether there is a cell for the next message.
    #[inline]
    pub fn has_room(&self, memory: &impl PostMemory) -> bool {
        memory.cell(self.number).progress(self.number) == FREE
    }

    /// A locker for the next message, if one that was used is free: the first, whose bytes are the likeliest to be in a cache.
    pub fn free_locker(&self, memory: &impl PostMemory) -> Option<usize> {
        self.lockers.iter().position(|&number| memory.cell(number).progress(number) > TAKEN)
    }

    /// A locker that was never used, the next one, if there is any.
    pub fn unused_locker(&self) -> Option<usize> {
        (self.lockers.len() < LOCKERS).then_some(self.lockers.len())
    }

    /// The number of the next message. Its cell may be filled while there is room.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Sends what was filled into the next cell or the envelope's locker, after which whoever waits has to be woken. False if the
    /// message has to take the detour, because a receive was posted there at the same time.
    #[inline]
    pub fn send(&mut self, memory: &impl PostMemory, envelope: &PostEnvelope) -> bool {
        let number = self.number;
        let cell = memory.cell(number);
        cell.fill(number, envelope);
        if envelope.is_long() {
            match self.lockers.get_mut(envelope.locker) {
                Some(last) => *last = number,
                None => self.lockers.push(number),
            }
        }
        self.number += 1;
        // SYNC post-posted, post-waiter: see `set_posted` and `LaneWords::take_waiters`.
        fence(Ordering::SeqCst);
        // What can't be taken back is received already. The number is used up, so nobody takes it for another message.
        !(memory.is_posted() && cell.claim(number, state(number + CELLS, FREE)))
    }
}

/// The receiving end of a lane. Threads take turns.
#[derive(Debug)]
pub struct PostReceiver {
    /// All messages before this one are received.
    head: u64,
    /// Messages from here on are not for us: a receive that is with the daemon came first, and they will be taken back.
    limit: u64,
}

impl Default for PostReceiver {
    fn default() -> Self {
        Self { head: 0, limit: u64::MAX }
    }
}

impl PostReceiver {
    /// The oldest message that `suits`, or else the number of the next one to come.
    #[inline]
    pub fn find(
        &mut self,
        memory: &impl PostMemory,
        suits: impl Fn(&PostEnvelope) -> bool,
    ) -> Result<(u64, PostEnvelope), u64> {
        self.find_before(u64::MAX, memory, suits)
    }

    /// As [`find`](Self::find), among messages before this number.
    #[inline]
    pub fn find_before(
        &mut self,
        end: u64,
        memory: &impl PostMemory,
        suits: impl Fn(&PostEnvelope) -> bool,
    ) -> Result<(u64, PostEnvelope), u64> {
        let end = end.min(self.limit);
        if !memory.words().is_open() {
            return Err(self.head);
        }
        let mut number = self.head;
        while number < end && number - self.head < CELLS {
            let cell = memory.cell(number);
            match cell.progress(number) {
                FULL => {
                    let envelope = cell.envelope();
                    if suits(&envelope) {
                        return Ok((number, envelope));
                    }
                }
                ..=TAKEN => break,
                _ if number == self.head => self.advance(memory),
                _ => {}
            }
            number += 1;
        }
        Err(number)
    }

    /// Takes a message that was found. False if its sender was faster and has taken it back. The caller reads the cell, and
    /// [frees](Self::free) it.
    #[inline]
    pub fn take(&self, memory: &impl PostMemory, number: u64) -> bool {
        memory.cell(number).take(number)
    }

    /// Gives the cell of a message back that was taken and read.
    #[inline]
    pub fn free(&mut self, memory: &impl PostMemory, number: u64) {
        // SYNC post-free (store): the bytes are read before the cell is free.
        memory.cell(number).state.store(state(number + CELLS, FREE), Ordering::Release);
        if number == self.head {
            self.advance(memory);
        }
    }

    /// The daemon has taken the shelf over, and closed the lane for what comes from this message on.
    pub fn keep_to(&mut self, limit: u64) {
        self.limit = limit;
    }

    #[inline]
    fn advance(&mut self, memory: &impl PostMemory) {
        self.head += 1;
        memory.shelf().head.store(self.head, Ordering::Relaxed);
    }

    /// A receive goes to the daemon, and says so: all others keep to what is here already.
    pub fn close(&mut self, memory: &impl PostMemory) {
        self.limit = u64::MAX;
        if let Err(next) = self.find(memory, |_| false) {
            self.limit = next;
        }
    }

    /// No receive is with the daemon any more.
    pub fn reopen(&mut self) {
        self.limit = u64::MAX;
    }
}

/// Whether a receiver has something to look at: message `next` has come, or something about the detour or the sender has changed.
#[inline]
pub fn has_news(memory: &impl PostMemory, next: u64) -> bool {
    let words = memory.words();
    let has_come = words.is_open() && memory.cell(next).progress(next) > FREE;
    has_come || !words.is_settled() || memory.sender().is_gone()
}
