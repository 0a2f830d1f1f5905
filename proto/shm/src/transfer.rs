//! Large messages of a direct channel: copied in pieces by whoever has nothing better to do.
//!
//! Once both ends have started, the message is one copy from buffer to buffer. Its pieces are dealt out by a counter: to
//! the daemon, if it was asked, and to the ends while they wait. Whoever finishes the last piece ends both operations. So
//! nobody who waits depends on somebody who computes.

mod offer;

use ropeway_proto::End;

use crate::joined::LONG_AGO;
use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// The words of the transfer, one cache line.
#[repr(C, align(64))]
pub struct TransferWords {
    /// Number of the message, and which ends have started it. With both, it moves.
    state: AtomicU32,
    /// Pieces that are copied.
    done: AtomicU32,
    /// Number of the message and the next piece to be copied.
    cursor: AtomicU64,
    /// Which ends are waiting, and so will help. A hint: nothing depends on it but who is asked to copy.
    watching: AtomicU32,
    /// How many messages in a row have begun when nothing of their buffers could be left in the caches. A hint.
    cold: AtomicU32,
    /// The end that is to copy first, and until when: nanoseconds of whatever clock the ends share, behind its flag. A hint, too.
    first: AtomicU64,
    /// Of each end, number of the message and what has become of its offer to start it.
    offered: [AtomicU32; 2],
    /// Until when a sender that has offered is likely to come and copy first; else zero. A hint.
    until_ns: AtomicU64,
    /// How much the node had copied when the last message began; zero if that is not known. A hint.
    copied_before: AtomicU64,
}

/// To count smaller ones would have all who copy on a node write the same word for little each.
pub(crate) const STREAMED_BYTES_MIN: u64 = 256 << 10;
/// When so much was copied since the last message of a channel, and so twice as much read and written, its buffers are in no cache any more.
const CACHED_BYTES_MAX: u64 = 32 << 20;
/// Once may be chance, and what went past the caches has to be fetched from memory the next time.
const COLD_TIMES: u32 = 2;

const _: () = assert!(cfg!(loom) || size_of::<TransferWords>() == 64);

pub(crate) fn index(end: End) -> usize {
    match end {
        End::Send => 0,
        End::Recv => 1,
    }
}

fn flag(end: End) -> u32 {
    match end {
        End::Send => 1,
        End::Recv => 2,
    }
}

/// What copies pieces and wakes the ends.
pub trait TransferMemory {
    /// The words.
    fn words(&self) -> &TransferWords;
    /// Pieces of a message.
    fn pieces(&self) -> u32;
    /// Copies a piece.
    fn copy(&self, piece: u32);
    /// Wakes an end if it sleeps. Everything written before is visible to it if it does not.
    fn wake(&self, end: End);
    /// If an end that starts with others has started this message with them: until when it is likely to come to wait; else zero.
    fn started_until(&self, _end: End, _number: u32) -> Option<u64> {
        None
    }
}

const BOTH: u32 = 3;
/// Message numbers wrap here, so that they fit beside the flags.
const NUMBERS: u32 = u32::MAX >> 2;

impl TransferWords {
    /// Words of a channel without messages.
    pub fn new() -> Self {
        let word = || AtomicU32::new(0);
        let (cursor, first) = (AtomicU64::new(0), AtomicU64::new(0));
        let (offered, until_ns) = ([word(), word()], AtomicU64::new(0));
        let (cold, copied_before) = (word(), AtomicU64::new(0));
        let words = Self {
            state: word(),
            done: word(),
            cursor,
            watching: word(),
            cold,
            first,
            offered,
            until_ns,
            copied_before,
        };
        words.reset();
        words
    }

    /// Starts anew. Nobody else knows the channel yet.
    pub fn reset(&self) {
        self.state.store(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.watching.store(0, Ordering::Relaxed);
        self.first.store(0, Ordering::Relaxed);
        self.offered.iter().for_each(|word| word.store(LONG_AGO.wrapping_neg() << 2, Ordering::Relaxed));
        self.until_ns.store(0, Ordering::Relaxed);
        self.cold.store(0, Ordering::Relaxed);
        self.copied_before.store(0, Ordering::Relaxed);
        // Message 0 has no piece left until both ends have started it.
        self.cursor.store(u64::from(u32::MAX), Ordering::Relaxed);
    }

    /// An end waits from now on, and will copy what there is to copy.
    #[inline]
    pub fn watch(&self, end: End) {
        self.watching.fetch_or(flag(end), Ordering::Relaxed);
    }

    /// An end waits no more.
    #[inline]
    pub fn look_away(&self, end: End) {
        self.watching.fetch_and(!flag(end), Ordering::Relaxed);
    }

    /// The first piece of a message is copied. `copied_bytes` of the largest messages were copied on the node before.
    pub fn begin_copying(&self, copied_bytes: u64) {
        let before = self.copied_before.load(Ordering::Relaxed);
        self.copied_before.store(copied_bytes.max(1), Ordering::Relaxed);
        let is_cold = before > 0 && copied_bytes.wrapping_sub(before) >= CACHED_BYTES_MAX;
        let cold = if is_cold { self.cold.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
        self.cold.store(cold, Ordering::Relaxed);
    }

    /// Whether the message is to be copied past the caches, since nothing of its buffers stays there until the next one.
    pub fn is_streamed(&self) -> bool {
        self.cold.load(Ordering::Relaxed) >= COLD_TIMES
    }

    /// Whether an end waits.
    #[inline]
    pub fn is_watching(&self, end: End) -> bool {
        self.watching.load(Ordering::Relaxed) & flag(end) != 0
    }
}

/// What an end, or a helper, knows of its own: the message it is about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transfer {
    number: u32,
}

impl Transfer {
    /// The transfer whose next message has this number.
    #[inline]
    pub fn at(number: u32) -> Self {
        Self { number: number & NUMBERS }
    }

    /// The message that moves, if one does, for a helper that is no end and so knows no number.
    fn moving(memory: &impl TransferMemory) -> Option<Self> {
        // SYNC transfer-state (load).
        let state = memory.words().state.load(Ordering::Acquire);
        (state & BOTH == BOTH).then_some(Self { number: state >> 2 })
    }

    /// The message's.
    pub fn number(self) -> u32 {
        self.number
    }

    /// The message that moves or is to move next.
    pub fn next_of(words: &TransferWords) -> Self {
        // SYNC transfer-state (load).
        Self { number: words.state.load(Ordering::Acquire) >> 2 }
    }

    /// One end has started. True if the other had already: then the message moves from now on, and the first piece is
    /// [left](Self::is_left_to) to this end until then, if it is likely to copy it at once.
    #[inline]
    pub fn start(self, memory: &impl TransferMemory, end: End, until_ns: Option<u64>) -> bool {
        let moves = self.come(memory.words(), end);
        if moves {
            self.set_off(memory, end, until_ns);
        }
        moves
    }

    /// One end has started. True if the other had already: then [`set_off`](Self::set_off) follows.
    #[inline]
    pub fn come(self, words: &TransferWords, end: End) -> bool {
        // An end comes once for each message, so adding its flag sets it, in one access to a line that may be far.
        // SYNC transfer-state (store, load): our buffer is ready before the flag; the other's is ready after its flag.
        words.state.fetch_add(flag(end), Ordering::AcqRel) & BOTH == flag(end.peer())
    }

    /// Both ends have started, `end` as the second.
    #[inline]
    pub fn set_off(self, memory: &impl TransferMemory, end: End, until_ns: Option<u64>) {
        self.deal_out(memory.words(), end, until_ns);
        memory.wake(end.peer());
    }

    /// As [`start`](Self::start), without waking anybody.
    #[inline]
    fn register(self, memory: &impl TransferMemory, end: End, until_ns: Option<u64>) -> bool {
        let is_second = self.come(memory.words(), end);
        if is_second {
            self.deal_out(memory.words(), end, until_ns);
        }
        is_second
    }

    /// Both ends have started, `end` as the second.
    #[inline(never)]
    fn deal_out(self, words: &TransferWords, end: End, until_ns: Option<u64>) {
        words.done.store(0, Ordering::Relaxed);
        words.first.store(until_ns.map_or(0, |until| until << 2 | u64::from(flag(end))), Ordering::Relaxed);
        // SYNC transfer-cursor (store): both buffers are ready before pieces are dealt out.
        words.cursor.store(u64::from(self.number) << 32, Ordering::Release);
    }

    /// Whether the message is all there.
    #[inline]
    pub fn is_over(self, words: &TransferWords) -> bool {
        // SYNC transfer-state (load): the pieces before the end.
        words.state.load(Ordering::Acquire) >> 2 != self.number
    }

    /// Whether there are pieces to be copied.
    #[inline]
    pub fn has_pieces(self, memory: &impl TransferMemory) -> bool {
        let cursor = memory.words().cursor.load(Ordering::Relaxed);
        (cursor >> 32) as u32 == self.number && (cursor as u32) < memory.pieces()
    }

    /// Until when the first piece is left to that end, if nobody has taken it.
    #[inline]
    pub fn is_left_to(self, end: End, words: &TransferWords) -> Option<u64> {
        // SYNC transfer-cursor (load): to whom it is left was said before.
        let is_untouched = words.cursor.load(Ordering::Acquire) == u64::from(self.number) << 32;
        let first = words.first.load(Ordering::Relaxed);
        (is_untouched && first & u64::from(BOTH) == u64::from(flag(end))).then_some(first >> 2)
    }

    /// Copies up to `limit` pieces; says how many.
    #[inline]
    pub fn help(self, memory: &impl TransferMemory, limit: u32) -> u32 {
        let words = memory.words();
        for copied in 0..limit {
            let Some(piece) = self.claim(memory) else { return copied };
            memory.copy(piece);
            // SYNC transfer-done: everybody's pieces before the end, which the last one declares.
            if words.done.fetch_add(1, Ordering::AcqRel).wrapping_add(1) == memory.pieces() {
                // SYNC transfer-state (store): the pieces before the end.
                words.state.store(((self.number + 1) & NUMBERS) << 2, Ordering::Release);
                memory.wake(End::Send);
                memory.wake(End::Recv);
                return copied + 1;
            }
        }
        limit
    }

    /// Takes a start back. False if the message moves.
    pub fn cancel(self, words: &TransferWords, end: End) -> bool {
        let (alone, nobody) = (self.number << 2 | flag(end), self.number << 2);
        words.state.compare_exchange(alone, nobody, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The message after this one.
    #[inline]
    pub fn next(self) -> Self {
        Self::at(self.number + 1)
    }

    #[inline]
    fn claim(self, memory: &impl TransferMemory) -> Option<u32> {
        let cursor = &memory.words().cursor;
        let mut seen = cursor.load(Ordering::Relaxed);
        loop {
            let (number, piece) = ((seen >> 32) as u32, seen as u32);
            if number != self.number || piece >= memory.pieces() {
                return None;
            }
            // SYNC transfer-cursor (load): both buffers are ready.
            match cursor.compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(piece),
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn messages_go_past_the_caches_if_much_else_was_copied_between_them_again_and_again() {
        let words = TransferWords::new();
        let mut copied_bytes = 10 * CACHED_BYTES_MAX;
        let mut next_after = |bytes| {
            copied_bytes += bytes;
            words.begin_copying(copied_bytes);
            words.is_streamed()
        };
        let far = CACHED_BYTES_MAX;
        assert_eq!([0, far, far - 1, far, 1, far].map(&mut next_after), [false; 6], "once may be chance");
        assert_eq!([far, far, far - 1, far].map(&mut next_after), [true, true, false, false]);
    }
}
