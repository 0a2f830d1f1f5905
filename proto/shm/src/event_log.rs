//! A log of events in a segment of its own: one process writes, and whoever made it reads, even if the writer was killed.
//!
//! ```text
//!  0          8        64            112
//!  +----------+--------+-------------+-------------+----
//!  | claimed  |   0    |   event 0   |   event 1   | …
//!  +----------+--------+-------------+-------------+----
//! ```
//!
//! A thread claims the next place and writes its event there, the first word last: an event whose first word is zero was not
//! finished. When all places are taken, events are only counted.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use nix::sys::stat::fstat;
use nix::time::{ClockId, clock_gettime};
use ropeway_proto::event::{EVENT_WORDS, Event};

use crate::primitive::{AtomicU64, Ordering};
use crate::segment::{Segment, SegmentError};

/// A log.
pub struct EventLog {
    segment: Segment,
    places: u64,
}

type Place = [AtomicU64; EVENT_WORDS];

const HEADER_BYTES: u64 = 64;
const PLACE_BYTES: u64 = size_of::<Place>() as u64;

impl EventLog {
    /// An empty log for so many events. Its memory exists from now on.
    pub fn create(events: u64) -> io::Result<Self> {
        let bytes = HEADER_BYTES + events * PLACE_BYTES;
        let segment = Segment::create("ropeway-log", bytes)?;
        segment.reserve(0, bytes)?;
        Ok(Self { segment, places: events })
    }

    /// Maps a log that somebody else has made.
    pub fn map(fd: OwnedFd) -> Result<Self, SegmentError> {
        let bytes = fstat(&fd).map_err(io::Error::from)?.st_size as u64;
        let places = bytes.saturating_sub(HEADER_BYTES) / PLACE_BYTES;
        let segment = Segment::map(fd, HEADER_BYTES + places * PLACE_BYTES)?;
        Ok(Self { segment, places })
    }

    /// The descriptor, to be handed to the process that writes.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.segment.fd()
    }

    /// How many events a log of so many bytes has room for.
    pub fn events_in(bytes: u64) -> u64 {
        bytes.saturating_sub(HEADER_BYTES) / PLACE_BYTES
    }

    /// The time, as events have it: nanoseconds of `CLOCK_MONOTONIC`.
    #[inline]
    pub fn now_ns() -> u64 {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Linux has this clock");
        now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
    }

    /// Writes an event, or counts it if the log is full. No allocation, no system call.
    pub fn push(&self, event: &Event) {
        let index = self.claimed().fetch_add(1, Ordering::Relaxed);
        let Some(place) = self.place(index) else { return };
        let words = event.encode();
        for (word, value) in place.iter().zip(words).skip(1) {
            word.store(value, Ordering::Relaxed);
        }
        // SYNC event-written: whoever sees the first word sees the others.
        place[0].store(words[0], Ordering::Release);
    }

    /// The events that are there, in the order of their writing.
    pub fn events(&self) -> impl Iterator<Item = Event> {
        let claimed = self.claimed().load(Ordering::Relaxed).min(self.places);
        (0..claimed).filter_map(|index| {
            let place = self.place(index)?;
            // SYNC event-written: the first word first.
            let first = place[0].load(Ordering::Acquire);
            let mut words = [first; EVENT_WORDS];
            for (word, value) in words.iter_mut().zip(place).skip(1) {
                *word = value.load(Ordering::Relaxed);
            }
            Event::decode(words)
        })
    }

    /// Events there was no room for.
    pub fn lost(&self) -> u64 {
        self.claimed().load(Ordering::Relaxed).saturating_sub(self.places)
    }

    fn claimed(&self) -> &AtomicU64 {
        // SAFETY: an atomic.
        unsafe { self.segment.shared(0) }.expect("the header is there")
    }

    fn place(&self, index: u64) -> Option<&Place> {
        // SAFETY: an array of atomics.
        (index < self.places).then(|| unsafe { self.segment.shared(HEADER_BYTES + index * PLACE_BYTES) })?
    }
}
