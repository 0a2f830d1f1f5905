//! The control segment of one client: its command ring, and whether it waits. Mapped by that client and the daemon only.

use std::io;
use std::ops::Deref;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ropeway_proto::limits::{RING_ENTRIES, WIRED_NODES_MAX};

use crate::ring::{RingConsumer, RingProducer, RingWords};
use crate::segment::{Segment, SegmentError};

/// What lies in the segment, from its start.
#[repr(C)]
struct Content {
    ring: RingWords<RING_ENTRIES>,
    awake: Awake,
    asleep: Asleep,
}

/// What the client does while it is awake.
#[repr(C, align(64))]
struct Awake {
    /// How many of its threads wait: whether anybody would notice that the daemon is quick.
    waiting: AtomicU32,
    /// How often it has come to wait after the start of something large, by what it has done since.
    waits: [AtomicU32; 4],
}

/// What the client has the daemon do while it sleeps or computes.
#[repr(C, align(64))]
struct Asleep {
    /// How often it counts among the sleepers of the wire to each node, which the daemon takes off if the client ends before it has.
    wires: [AtomicU32; WIRED_NODES_MAX],
}

/// What a program has done since it started something large, as it comes to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SinceStart {
    /// Nothing that is known of.
    AtOnce,
    /// It has computed, and has only sent.
    ComputedSending,
    /// Most likely it has computed, and it has not only sent.
    ComputedBothWays,
    /// It has computed, and has not sent.
    ComputedReceiving,
}

const BYTES: u64 = (size_of::<Content>() as u64).next_multiple_of(4096);

/// A mapped control segment.
pub struct ControlSegment {
    segment: Segment,
    /// What the client has counted. Adding to the words in the segment would have to wait for their line, which the daemon reads all the time.
    waits: [AtomicU32; 4],
}

/// A segment's ring.
#[derive(Clone)]
pub struct CommandRing {
    words: NonNull<RingWords<RING_ENTRIES>>,
    /// Keeps them mapped.
    _segment: Arc<ControlSegment>,
}

// SAFETY: the pointer leads into the mapping that the segment keeps, to atomics.
unsafe impl Send for CommandRing {}
// SAFETY: as above.
unsafe impl Sync for CommandRing {}

/// The client's end of the command ring.
pub type Producer = RingProducer<CommandRing>;

/// The daemon's end of the command ring.
pub type Consumer = RingConsumer<CommandRing>;

impl ControlSegment {
    /// Creates one, with all its pages.
    pub fn create() -> io::Result<Self> {
        let segment = Segment::create("ropeway-control", BYTES)?;
        segment.reserve(0, BYTES)?;
        Ok(Self::of(segment))
    }

    /// Maps the one the daemon has handed over.
    pub fn map(fd: OwnedFd) -> Result<Self, SegmentError> {
        Ok(Self::of(Segment::map(fd, BYTES)?))
    }

    fn of(segment: Segment) -> Self {
        // Else one start of each 64 takes 10 µs until the ring has been used once.
        segment.populate(0, BYTES);
        Self { segment, waits: Default::default() }
    }

    /// The descriptor, to be handed to the client.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.segment.fd()
    }

    /// The producer's end of the fresh ring.
    pub fn producer(self: &Arc<Self>) -> Producer {
        RingProducer::new(CommandRing::of(self))
    }

    /// The consumer's end of the fresh ring.
    pub fn consumer(self: &Arc<Self>) -> Consumer {
        RingConsumer::new(CommandRing::of(self))
    }

    /// A thread of the client waits from now on, and does not sleep.
    pub fn begin_wait(&self) {
        self.content().awake.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// It waits no more, or goes to sleep.
    pub fn end_wait(&self) {
        self.content().awake.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a thread of the client waits and does not sleep. A hint: the daemon only decides by it how to idle.
    pub fn is_waiting(&self) -> bool {
        self.content().awake.waiting.load(Ordering::Relaxed) != 0
    }

    /// The client has come to wait after a start.
    #[inline]
    pub fn count_wait(&self, since: SinceStart) {
        let count = self.waits[since as usize].fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.content().awake.waits[since as usize].store(count, Ordering::Relaxed);
    }

    /// How often it has, modulo 2³², in the order of [`SinceStart`]. A hint too.
    pub fn waits(&self) -> [u32; 4] {
        self.content().awake.waits.each_ref().map(|waits| waits.load(Ordering::Relaxed))
    }

    /// The client counts among the sleepers of the wire to that node from now on. Who is killed just before this call, or just after
    /// [`unmark_sleep`](Self::unmark_sleep), stays there.
    pub fn mark_sleep(&self, node: u16) {
        if let Some(count) = self.content().asleep.wires.get(usize::from(node)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It is to be taken off, once. False if the daemon has done that.
    pub fn unmark_sleep(&self, node: u16) -> bool {
        let less = |count: u32| count.checked_sub(1);
        let count = self.content().asleep.wires.get(usize::from(node));
        count.is_none_or(|count| count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok())
    }

    /// How often a client that is gone is to be taken off. The daemon's part.
    pub fn take_sleeps(&self, node: u16) -> u32 {
        self.content().asleep.wires.get(usize::from(node)).map_or(0, |count| count.swap(0, Ordering::Relaxed))
    }

    #[inline]
    fn content(&self) -> &Content {
        // SAFETY: `Content` consists of atomics and padding.
        unsafe { self.segment.shared(0) }.expect("every control segment has this size")
    }
}

impl CommandRing {
    fn of(segment: &Arc<ControlSegment>) -> Self {
        Self { words: NonNull::from(&segment.content().ring), _segment: Arc::clone(segment) }
    }
}

impl Deref for CommandRing {
    type Target = RingWords<RING_ENTRIES>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        // SAFETY: it was taken from a reference, and the mapping lives as long as the segment.
        unsafe { self.words.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::resource::{UsageWho, getrusage};

    #[test]
    fn no_command_waits_for_a_page() {
        let created = Arc::new(ControlSegment::create().unwrap());
        let mapped = Arc::new(ControlSegment::map(created.fd().try_clone_to_owned().unwrap()).unwrap());
        let (mut producer, mut consumer) = (mapped.producer(), created.consumer());
        let faults = || getrusage(UsageWho::RUSAGE_THREAD).unwrap().minor_page_faults();
        let before = faults();
        for number in 0..RING_ENTRIES as u64 {
            assert_eq!(producer.push(&[[number; 8]]), 1);
            assert_eq!(consumer.pop(), Ok(Some([number; 8])));
        }
        // The test's own code may be new.
        assert!(faults() - before < 16, "{} pages were touched for the first time", faults() - before);
    }
}
