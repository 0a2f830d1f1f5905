//! A wire: a connection between two nodes of a job for the small messages of bound channels, worked by whoever has time.
//!
//! ```text
//!  0       64      128     192    384        576      640           8832            + 2 × 128 KiB   + 2 × 128 KiB
//!  +-------+-------+-------+------+----------+--------+-------------+---------------+---------------+
//!  | out   | in    | order | due  | starving | watch  | channels    | bytes to be   | bytes that    |
//!  |       |       |       |      |          |        | 1024 × u64  | sent          | have come     |
//!  +-------+-------+-------+------+----------+--------+-------------+---------------+---------------+
//! ```
//!
//! Everything that is known of the connection lies in the job segment, so it does not matter who goes on with it: a rank that
//! waits, for itself and its neighbours, or the daemon while they compute or sleep. Each direction has a [`Turn`]. The
//! connection's bytes are `proto::wire`; a message is taken out of its sender's channel when it is put into the buffer or, if it is
//! large, when it leaves ([`load`]), and put into its receiver's channel when it is there as a whole, or received there ([`straight`], [`order`]). Between
//! two turns a buffer is most often empty, so there are two of each kind, and who begins takes the one of his core: its lines are in his cache.

mod load;
mod order;
mod receive;
mod straight;
mod watch;

use std::hint;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use nix::sched::sched_getcpu;
use ropeway_proto::limits::{WIRE_BYTES_MAX, WIRE_CHANNELS};
use ropeway_proto::wire::WIRE_HEADER_BYTES;
use ropeway_proto::{End, Status, WireFrame};

use crate::channel::{Channel, OpenChannel};
use crate::job::JobSegment;
use crate::mapped;
use crate::turn::{Due, Guard, Marks, Turn, Went};

use load::{Lent, Load};
use order::Order;

pub use receive::Received;

#[repr(C)]
pub(crate) struct WireWords {
    out: Stream,
    input: Stream,
    order: Order,
    /// Channels with something to be sent.
    pub(crate) due: Due<{ WIRE_CHANNELS / 64 }>,
    /// Channels with a message and no credit to send it.
    pub(crate) starving: Due<{ WIRE_CHANNELS / 64 }>,
    watch: WatchWords,
    /// Where the channel of each name lies, and in the upper bits which of those that had the name it is; zero if none has.
    channels: [AtomicU64; WIRE_CHANNELS],
}

/// One direction: the part of its buffers that holds bytes, all in one of them.
#[repr(C, align(64))]
struct Stream {
    turn: Turn,
    start: AtomicU32,
    end: AtomicU32,
    /// The connection had no room, and the daemon was told to wait for some.
    is_stuck: AtomicU32,
    /// The last large message was there as a whole when it was received.
    comes_whole: AtomicU32,
    /// Frames and bytes that went through.
    frames: AtomicU64,
    bytes: AtomicU64,
    /// Times that the connection was asked to move some.
    system_calls: AtomicU64,
}

#[repr(C, align(64))]
struct WatchWords {
    /// Ranks that sleep and can't receive for themselves.
    sleepers: AtomicU32,
    /// The daemon receives for them.
    watch: Guard,
    /// The daemon looks now and then for what was forgotten.
    guard: Guard,
    /// The daemon was asked to send what is due, and has not begun.
    is_called: AtomicU32,
    /// The connection is lost, or one side has said what can't be.
    is_broken: AtomicU32,
    /// Bytes that have to be there before the daemon is woken; zero for any.
    low_water: AtomicU32,
    /// Ranks that others have received for and that have not come since: bits of their indices modulo 64.
    expected: AtomicU64,
}

const WORDS_BYTES: u64 = size_of::<WireWords>() as u64;
const BUFFER_BYTES: u32 = 128 << 10;
/// For each direction.
const BUFFERS: u32 = 2;
const BUFFERS_BYTES: u64 = BUFFERS as u64 * BUFFER_BYTES as u64;
const HEADER_BYTES: u32 = WIRE_HEADER_BYTES as u32;
/// Looks at somebody who receives; longer than that takes unless his core is taken away.
const RECEIVE_SPINS: u32 = 40;
/// System calls with which the daemon sends at once, each of which takes tens of microseconds if it takes much.
const ROUNDS_OF_DAEMON: u32 = 16;
/// Offsets in a segment are below 2⁴⁷ and those of channels multiples of 64.
const PLACE_BITS: u32 = 41;

const _: () = assert!(WORDS_BYTES == 8832);
const _: () = assert!(WIRE_BYTES_MAX + WIRE_HEADER_BYTES as u64 <= BUFFER_BYTES as u64);

/// One side of a wire, as one process sees it.
pub struct Wire {
    /// In `job`.
    words: NonNull<WireWords>,
    /// `BUFFERS` of `BUFFER_BYTES` each, in `job`.
    out: NonNull<u8>,
    input: NonNull<u8>,
    block: u64,
    /// What it calls itself when it takes a turn.
    holder: u32,
    /// The connection, once the process has it.
    socket: OnceLock<OwnedFd>,
    /// Keeps all of that mapped.
    job: Arc<JobSegment>,
}

// SAFETY: the pointers lead into the mapping that `job` keeps, to atomics and bytes that are copied opaquely, or by the kernel.
unsafe impl Send for Wire {}
// SAFETY: as above.
unsafe impl Sync for Wire {}

/// Whoever works a wire has to find the channels that use it.
pub trait WireChannels {
    /// The channel with this name.
    fn find(&mut self, index: u16) -> Option<&OpenChannel>;
}

/// How sending went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Everything that was due has left, or there is no connection.
    All,
    /// Somebody else is at it and sees to it.
    Busy,
    /// A part has left, which has taken the daemon long enough: it has to come back.
    Part,
    /// The connection is full, or lost just now: when it has room again, somebody has to come back. The first to notice tells the daemon.
    Full {
        /// Whether this is the first.
        is_news: bool,
    },
}

impl WireWords {
    pub(crate) fn at(job: &JobSegment, block: u64) -> Option<&Self> {
        // SAFETY: `WireWords` consists of atomics.
        unsafe { job.segment().shared(block) }
    }
}

impl Stream {
    fn reset(&self) {
        self.turn.reset();
        let Self { start, end, is_stuck, comes_whole, frames, bytes, system_calls, .. } = self;
        [start, end, is_stuck, comes_whole].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        [frames, bytes, system_calls].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// The filled part of a buffer, whatever others have written there. If it is empty, of the buffer of this core.
    fn filled(&self) -> Range<u32> {
        let start = self.start.load(Ordering::Relaxed).min(BUFFERS * BUFFER_BYTES - 1);
        let end = self.end.load(Ordering::Relaxed).clamp(start, buffer_of(start).end);
        if start < end {
            return start..end;
        }
        let front = sched_getcpu().map_or(0, |core| core as u32 % BUFFERS) * BUFFER_BYTES;
        front..front
    }

    /// Notes which part is filled. An empty one begins anew at the front.
    fn set_filled(&self, filled: &mut Range<u32>) {
        if filled.start == filled.end {
            let front = buffer_of(filled.start.saturating_sub(1)).start;
            *filled = front..front;
        }
        self.start.store(filled.start, Ordering::Relaxed);
        self.end.store(filled.end, Ordering::Relaxed);
    }

    /// Counts what went through. Whoever has the turn.
    fn count(&self, frames: u32, bytes: u32) {
        add(&self.frames, frames);
        add(&self.bytes, bytes);
    }

    /// Counts a system call. Whoever has the turn.
    fn count_system_call(&self) {
        add(&self.system_calls, 1);
    }

    fn traffic(&self) -> Traffic {
        Traffic { frames: self.frames.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

impl Wire {
    /// What a wire needs.
    pub const FOOTPRINT: u64 = WORDS_BYTES + 2 * BUFFERS_BYTES;

    /// The wire at `block`. `None` if there is no room for one. `local_rank`: who works it; `None` is the daemon.
    pub fn open(job: &Arc<JobSegment>, block: u64, local_rank: Option<u32>) -> Option<Self> {
        let buffers = |direction: u64| job.range(block + WORDS_BYTES + direction * BUFFERS_BYTES, BUFFERS_BYTES);
        Some(Self {
            words: NonNull::from(WireWords::at(job, block)?),
            out: buffers(0)?,
            input: buffers(1)?,
            block,
            holder: holder(local_rank),
            socket: OnceLock::new(),
            job: Arc::clone(job),
        })
    }

    /// Writes a fresh wire down. The daemon's part, before anybody else knows it.
    pub fn write(&self) {
        let WireWords { out, input, order, due, starving, watch, channels } = self.words();
        out.reset();
        input.reset();
        order.reset();
        due.reset();
        starving.reset();
        let WatchWords { sleepers, watch, guard, is_called, is_broken, low_water, expected } = watch;
        watch.reset();
        guard.reset();
        [sleepers, is_called, is_broken, low_water].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        expected.store(0, Ordering::Relaxed);
        channels.iter().for_each(|channel| channel.store(0, Ordering::Relaxed));
    }

    /// Where it lies.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// The process has the connection now.
    pub fn set_socket(&self, socket: OwnedFd) {
        // There is one connection; a second descriptor of it would be as good.
        let _ = self.socket.set(socket);
    }

    // ---- names

    /// Gives a name to the channel at `block`, of the `generation`-th that had it. The daemon's part.
    pub fn name(&self, index: u16, block: u64, generation: u32) {
        let word = block >> 6 | u64::from(generation) << PLACE_BITS;
        // SYNC wire-name (store): the channel is written down before it has a name.
        self.words().channels[usize::from(index)].store(word, Ordering::Release);
    }

    /// What a name stands for now: another word whenever it stands for another channel.
    pub(crate) fn named(&self, index: usize) -> Option<u64> {
        // SYNC wire-name (load).
        Some(self.words().channels.get(index)?.load(Ordering::Acquire))
    }

    /// The channel that such a word stands for. A rank's part: it believes what the channel says of itself.
    pub(crate) fn open_named(&self, word: u64) -> Option<OpenChannel> {
        let block = (word & ((1 << PLACE_BITS) - 1)) << 6;
        Channel::read(&self.job, block).filter(|_| word != 0)?.on(&self.job)
    }

    /// Takes a name back, unless somebody is at work who may just be using it. The daemon's part.
    pub fn forget(&self, index: u16) -> bool {
        let WireWords { out, input, channels, .. } = self.words();
        // What we have inherited nobody else gets.
        let is_ours = |turn: &Turn| self.is_broken() && turn.is_held_by(self.holder);
        let turns = [&out.turn, &input.turn];
        let taken = turns.map(|turn| !is_ours(turn) && turn.take(self.holder));
        let is_free = turns.iter().all(|turn| turn.is_held_by(self.holder));
        if is_free {
            channels[usize::from(index)].store(0, Ordering::Relaxed);
        }
        for (turn, _) in turns.iter().zip(taken).filter(|(_, taken)| *taken) {
            turn.give_back();
        }
        is_free
    }

    // ---- sending

    /// Marks a channel with something to be sent.
    pub fn mark_due(&self, index: u16) {
        self.words().due.mark(index);
    }

    /// The same of several.
    #[inline]
    pub fn mark_all_due(&self, marks: Marks) {
        self.words().due.mark_all(marks);
    }

    /// Whether there is anything to be sent.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.words().due.is_any()
    }

    /// Whether somebody is sending just now. Who receives meanwhile sleeps in the kernel until the connection is free, which
    /// takes several times as long, and longer still if the sender has to wake him.
    #[inline]
    pub fn is_sending(&self) -> bool {
        self.words().out.turn.is_taken()
    }

    /// Somebody who receives is soon done: not to sleep in the kernel until then.
    fn let_receive(&self) {
        let input = &self.words().input;
        (0..RECEIVE_SPINS).take_while(|_| input.turn.is_taken()).for_each(|_| hint::spin_loop());
    }

    /// Sends what is due, unless somebody else is at it.
    pub fn send(&self, channels: &mut impl WireChannels) -> Sent {
        let Some(socket) = self.socket.get().filter(|_| !self.is_broken()) else { return Sent::All };
        let out = &self.words().out;
        // However much ranks mark meanwhile, the daemon has others to serve.
        let mut rounds = if self.holder == holder(None) { ROUNDS_OF_DAEMON } else { u32::MAX };
        let mut is_news = false;
        let went = out.turn.work(self.holder, &self.words().due, || {
            let went = self.send_due(socket, channels, &mut rounds);
            // Within the turn: who sends the rest would say so before, else.
            let (is_stuck, was_stuck) = (u32::from(went == Went::Stuck), out.is_stuck.load(Ordering::Relaxed));
            out.is_stuck.store(is_stuck, Ordering::Relaxed);
            is_news = is_stuck > was_stuck || self.is_broken();
            went
        });
        match went {
            None => Sent::Busy,
            Some(Went::Stuck) => Sent::Full { is_news },
            Some(Went::Paused) => Sent::Part,
            Some(Went::Through) => Sent::All,
        }
    }

    /// Whether the connection had no room when somebody last tried: who finds none, too, tells nobody.
    pub fn is_stuck(&self) -> bool {
        self.words().out.is_stuck.load(Ordering::Relaxed) != 0
    }

    fn send_due(&self, socket: &OwnedFd, channels: &mut impl WireChannels, rounds: &mut u32) -> Went {
        let out = &self.words().out;
        // What lies in shared memory is read once: others could change it between a check and its use.
        let mut load = Load::new(out.filled(), true);
        loop {
            let Some(left) = rounds.checked_sub(1) else { return Went::Paused };
            *rounds = left;
            let is_all = self.fill_all(&mut load, channels);
            if load.filled.is_empty() {
                return Went::Through;
            }
            self.let_receive();
            out.count_system_call();
            match self.hand_over(socket, &mut load, channels) {
                Ok(()) if is_all && load.filled.is_empty() => return Went::Through,
                Ok(()) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Went::Stuck,
                    io::ErrorKind::Interrupted => {}
                    _ => {
                        self.break_off();
                        return Went::Stuck;
                    }
                },
            }
        }
    }

    /// Moves what channels have to say to the buffer. False if there was no room for all of it.
    fn fill_all(&self, load: &mut Load, channels: &mut impl WireChannels) -> bool {
        let WireWords { due, out, .. } = self.words();
        let is_all = due.take_while(|index| match channels.find(index) {
            Some(open) => self.fill(load, index, open),
            None => true,
        });
        out.set_filled(&mut load.filled);
        is_all
    }

    /// Moves what a channel has to say to the buffer, or lends it. False if there was no room for it.
    fn fill(&self, load: &mut Load, index: u16, open: &OpenChannel) -> bool {
        if open.is_said() {
            return true;
        }
        let channel = open.peer_index();
        if open.channel().wired().is_some_and(|wired| wired.end == End::Recv) {
            let has_room = load.has_room(0);
            if let Some(count) = has_room.then(|| open.announce()).flatten() {
                self.put(&mut load.filled, WireFrame::Taken { channel, count }, 0);
            }
            return has_room;
        }
        let bytes = open.channel().bytes() as u32;
        if load.may_lend(bytes)
            && let Some(number) = open.claim()
        {
            self.put_header(load.filled.end, WireFrame::Message { channel, number, bytes });
            load.lend(Lent { index, number, bytes, header: load.filled.end });
            return true;
        }
        while load.has_room(bytes) {
            let at = load.filled.end + HEADER_BYTES;
            // SAFETY: there is room for header and message, which was just checked.
            let to = unsafe { self.out.add(at as usize) };
            let Some(number) = open.pull(to, self.block + WORDS_BYTES + u64::from(at)) else {
                open.note_starving();
                return true;
            };
            self.put(&mut load.filled, WireFrame::Message { channel, number, bytes }, bytes);
        }
        false
    }

    /// Writes a header in front of the `bytes` that lie in the buffer already. There is room.
    fn put(&self, filled: &mut Range<u32>, frame: WireFrame, bytes: u32) {
        self.put_header(filled.end, frame);
        filled.end += HEADER_BYTES + bytes;
        self.words().out.count(1, HEADER_BYTES + bytes);
    }

    /// Writes a header. There is room.
    fn put_header(&self, at: u32, frame: WireFrame) {
        let header = frame.encode();
        // SAFETY: the header is ours, and the caller vouches for room in our mapped buffer.
        unsafe {
            mapped::copy(NonNull::from(&header).cast(), self.out.add(at as usize), WIRE_HEADER_BYTES);
        }
    }

    /// Says the last word about a channel, behind its last message; it leaves with the next `send`. False if that is not
    /// possible yet: come back. The daemon's part.
    pub fn say_end(&self, index: u16, why: Status, channels: &mut impl WireChannels) -> bool {
        let WireWords { out, due, .. } = self.words();
        if !out.turn.take(self.holder) {
            return false;
        }
        let mut load = Load::new(out.filled(), false);
        let is_all = self.fill_all(&mut load, channels) && load.has_room(0);
        let filled = &mut load.filled;
        let is_said = match channels.find(index) {
            Some(open) if is_all && (open.has_peer_ended() || !open.has_unsent()) => {
                self.put(filled, WireFrame::End { channel: open.peer_index(), why }, 0);
                open.note_said();
                true
            }
            Some(_) => false,
            None => true,
        };
        out.set_filled(filled);
        out.turn.give_back();
        // So that somebody sends, though no channel has a message.
        due.mark(index);
        is_said
    }

    fn words(&self) -> &WireWords {
        // SAFETY: checked when the wire was opened, and mapped as long as `job` lives; `WireWords` consists of atomics.
        unsafe { self.words.as_ref() }
    }
}

/// What went over a wire in one direction, modulo 2⁶⁴.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages and credit.
    pub frames: u64,
    /// All bytes.
    pub bytes: u64,
}

/// Adds to a count that nobody else changes.
fn add(word: &AtomicU64, more: u32) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more.into()), Ordering::Relaxed);
}

/// The buffer that has this byte.
fn buffer_of(at: u32) -> Range<u32> {
    let front = at / BUFFER_BYTES * BUFFER_BYTES;
    front..front + BUFFER_BYTES
}

fn holder(local_rank: Option<u32>) -> u32 {
    local_rank.map_or(1, |rank| rank + 2)
}
