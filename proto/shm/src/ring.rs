//! The command ring: entries of one cache line, one producer, one consumer, nobody trusted.
//!
//! The protocol, its races and why they are none: README.md beside this folder.

use std::ops::Deref;
use std::ptr::NonNull;

use crate::prefetch::prefetch;
use crate::primitive::{AtomicU32, AtomicU64, Ordering, fence};

/// Words of an entry.
pub const ENTRY_WORDS: usize = 8;

/// So many entries are fetched before they are written: memory takes longer than a start.
const PREFETCHED: usize = 3;

/// An entry, as it lies in the ring.
pub type Entry = [u64; ENTRY_WORDS];

/// The shared part of a ring with `N` entries: atomics only.
#[repr(C)]
pub struct RingWords<const N: usize> {
    /// Entries ever published. Written by the producer.
    tail: Line<AtomicU32>,
    /// Entries ever taken. Written by the consumer.
    head: Line<AtomicU32>,
    /// Whether the consumer sleeps, or is about to.
    asleep: Line<AtomicU32>,
    entries: [[AtomicU64; ENTRY_WORDS]; N],
}

impl<const N: usize> RingWords<N> {
    /// An empty ring. In a segment of zeros it is there already; this makes one elsewhere, for tests.
    pub fn new() -> Self {
        let line = || Line(AtomicU32::new(0));
        let entry = |_| std::array::from_fn(|_| AtomicU64::new(0));
        Self { tail: line(), head: line(), asleep: line(), entries: std::array::from_fn(entry) }
    }
}

impl<const N: usize> RingWords<N> {
    /// Something is about to be published: the lines for it come meanwhile.
    #[inline]
    pub fn prepare_to_push(&self) {
        prefetch(NonNull::from(&self.tail).cast(), size_of::<AtomicU32>(), true);
        prefetch(NonNull::from(&self.asleep).cast(), size_of::<AtomicU32>(), false);
    }
}

/// A word alone on its two cache lines, so that the neighbour's writes don't slow its reader down.
#[repr(C, align(128))]
struct Line<T>(T);

/// The consumer's index and the producer's can't both be right: the other side lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ring claims {claimed} entries and has room for {capacity}")]
pub struct RingViolation {
    /// Entries it claims to hold.
    pub claimed: u32,
    /// Entries it can hold.
    pub capacity: u32,
}

/// The side that publishes entries. There is one for each ring.
pub struct RingProducer<R> {
    ring: R,
    tail: u32,
    /// The consumer's index when last looked at: usually enough to know that there is room.
    head_seen: u32,
}

/// The side that takes entries. There is one for each ring.
pub struct RingConsumer<R> {
    ring: R,
    head: u32,
    tail_seen: u32,
}

impl<const N: usize, R: Deref<Target = RingWords<N>>> RingProducer<R> {
    /// Becomes the producer of a fresh ring.
    pub fn new(ring: R) -> Self {
        Self { ring, tail: 0, head_seen: 0 }
    }

    /// The ring.
    pub fn ring(&self) -> &R {
        &self.ring
    }

    /// Publishes as many of the entries as there is room for, behind those that are staged, with one store. Says how many.
    #[inline]
    pub fn push(&mut self, entries: &[Entry]) -> usize {
        let count = self.stage(entries);
        // SYNC ring-publish (store): the entries before the index that covers them.
        self.ring.tail.0.store(self.tail, Ordering::Release);
        count
    }

    /// Writes as many of the entries as there is room for. The consumer sees them with the next `push`. Says how many.
    #[inline]
    pub fn stage(&mut self, entries: &[Entry]) -> usize {
        let mut room = self.room();
        if room < entries.len() {
            // SYNC ring-taken (load): what the consumer has taken may be overwritten.
            self.head_seen = self.ring.head.0.load(Ordering::Acquire);
            room = self.room();
        }
        let count = room.min(entries.len());
        for (offset, entry) in entries[..count].iter().enumerate() {
            let slot = &self.ring.entries[self.tail.wrapping_add(offset as u32) as usize % N];
            for (word, &value) in slot.iter().zip(entry) {
                word.store(value, Ordering::Relaxed);
            }
        }
        self.tail = self.tail.wrapping_add(count as u32);
        // The consumer has read them a lap ago, and the next pushes would have to wait for them.
        let next = self.tail as usize % N;
        let soon = &self.ring.entries[next..(next + PREFETCHED).min(N)];
        prefetch(NonNull::from(soon).cast(), size_of_val(soon), true);
        count
    }

    /// Whether the consumer sleeps, so that it would have to be woken. A hint.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        self.ring.asleep.0.load(Ordering::Relaxed) != 0
    }

    /// Whether the consumer has to be woken for what was pushed. Asked after every push; true once for each sleep.
    #[inline]
    pub fn must_wake(&self) -> bool {
        // SYNC ring-asleep: the index before the flag here, the flag before the index in `RingConsumer::arm`; with
        // both fences at least one side sees the other.
        fence(Ordering::SeqCst);
        self.ring.asleep.0.load(Ordering::Relaxed) != 0 && self.ring.asleep.0.swap(0, Ordering::Relaxed) != 0
    }

    #[inline]
    fn room(&self) -> usize {
        // A consumer that lies about its index gets no more than a full ring.
        N.saturating_sub(self.tail.wrapping_sub(self.head_seen) as usize)
    }
}

impl<const N: usize, R: Deref<Target = RingWords<N>>> RingConsumer<R> {
    /// Becomes the consumer of a fresh ring.
    pub fn new(ring: R) -> Self {
        Self { ring, head: 0, tail_seen: 0 }
    }

    /// Takes the oldest entry: a copy, which nobody can change any more.
    pub fn pop(&mut self) -> Result<Option<Entry>, RingViolation> {
        if self.head == self.tail_seen && !self.look()? {
            return Ok(None);
        }
        let slot = &self.ring.entries[self.head as usize % N];
        let entry = std::array::from_fn(|word| slot[word].load(Ordering::Relaxed));
        self.head = self.head.wrapping_add(1);
        // SYNC ring-taken (store): the copy before the index that gives the place back.
        self.ring.head.0.store(self.head, Ordering::Release);
        Ok(Some(entry))
    }

    /// Announces that the consumer is about to sleep. False, and nothing announced, if an entry is there.
    pub fn arm(&mut self) -> bool {
        self.ring.asleep.0.store(1, Ordering::Relaxed);
        // SYNC ring-asleep: see `RingProducer::must_wake`.
        fence(Ordering::SeqCst);
        // A ring that lies is not empty: `pop` will say so.
        let is_empty = self.head == self.tail_seen && !self.look().unwrap_or(true);
        if !is_empty {
            self.disarm();
        }
        is_empty
    }

    /// The consumer is awake, whoever woke it.
    pub fn disarm(&mut self) {
        self.ring.asleep.0.store(0, Ordering::Relaxed);
    }

    /// Whether more was published.
    fn look(&mut self) -> Result<bool, RingViolation> {
        // SYNC ring-publish (load).
        let tail = self.ring.tail.0.load(Ordering::Acquire);
        let claimed = tail.wrapping_sub(self.head);
        if claimed as usize > N {
            return Err(RingViolation { claimed, capacity: N as u32 });
        }
        self.tail_seen = tail;
        Ok(claimed > 0)
    }
}
