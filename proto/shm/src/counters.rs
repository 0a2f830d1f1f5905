//! Counted facts of a daemon, in a segment of their own so that others can read them, even after a crash.
//!
//! What ranks do without it is counted in the job segment, and added when somebody asks the daemon to.

use std::io;

use crate::primitive::{AtomicU64, Ordering};
use crate::segment::Segment;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter { $($(#[$doc])* $name,)* }

        impl Counter {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name for people and records.
            pub fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }
    };
}

counters! {
    /// Commands taken from rings.
    CommandsHandled = "commands",
    /// Frames sent to other nodes.
    FramesSent = "frames_sent",
    /// Frames received from other nodes.
    FramesReceived = "frames_received",
    /// Bytes sent to other nodes, headers included.
    BytesSent = "bytes_sent",
    /// Bytes received from other nodes, headers included.
    BytesReceived = "bytes_received",
    /// Times that payload was copied in user space.
    PayloadCopies = "payload_copies",
    /// Bytes of it.
    PayloadBytesCopied = "payload_bytes_copied",
    /// Queue entries looked at while matching.
    EntriesVisited = "entries_visited",
    /// Channels bound and one-shot messages matched.
    MessagesMatched = "matches",
    /// System calls of the duty cycle, and those of daemon and ranks on wires and doorbells.
    SystemCalls = "system_calls",
    /// Times the daemon was kept from its work for 100 ms or longer.
    Absences = "absences",
    /// Times the daemon went to sleep.
    Sleeps = "sleeps",
    /// Times a thread of a rank went to sleep.
    RankSleeps = "rank_sleeps",
    /// Times a thread of a rank was woken, by the daemon or by another rank.
    WakeUps = "wake_ups",
    /// Schedules of collectives between nodes that were made.
    SchedulesBuilt = "schedules_built",
    /// Collectives registered, by each member.
    CollectivesRegistered = "collectives_registered",
    /// Clients cut off.
    ClientsEvicted = "clients_evicted",
}

/// A table of counters.
pub struct Counters {
    segment: Segment,
}

type Table = [AtomicU64; 64];
const _: () = assert!(Counter::ALL.len() <= 64);

impl Counters {
    /// All zero.
    pub fn create() -> io::Result<Self> {
        let segment = Segment::create("ropeway-counters", 4096)?;
        segment.reserve(0, 4096)?;
        Ok(Self { segment })
    }

    /// Counts.
    pub fn add(&self, counter: Counter, amount: u64) {
        self.table()[counter as usize].fetch_add(amount, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn value(&self, counter: Counter) -> u64 {
        self.table()[counter as usize].load(Ordering::Relaxed)
    }

    /// All counts, by label.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Counter::ALL.iter().map(|&counter| (counter.label(), self.value(counter)))
    }

    fn table(&self) -> &Table {
        // SAFETY: a table of atomics.
        unsafe { self.segment.shared(0) }.expect("the segment is a page")
    }
}
