//! The inner parts, each alone: what criterion times (`benches/micro.rs`) and an instruction counter counts
//! (`benches/count-instructions`).
//!
//! Nothing here waits, sleeps or asks the system for anything, so that what is measured is the part itself.

mod engine_pair;

pub use engine_pair::EnginePair;

use std::hint::black_box;
use std::io;
use std::sync::Arc;

use ropeway_schedule::{BuildError, Collective, CostTable, Counts, Order, Schedule, Shape, build, select};
use ropeway_shm::ring::Entry;
use ropeway_shm::{Consumer, ControlSegment, Producer, RingViolation};

/// A command ring with both of its ends, in a control segment as clients have one.
pub struct CommandRing {
    producer: Producer,
    consumer: Consumer,
}

impl CommandRing {
    /// An empty one.
    ///
    /// # Errors
    /// If the system gives no memory for it.
    pub fn create() -> io::Result<Self> {
        let segment = Arc::new(ControlSegment::create()?);
        Ok(Self { producer: segment.producer(), consumer: segment.consumer() })
    }

    /// The way of one command: pushed, with the question whether the daemon has to be woken, and popped. Gives what came out.
    ///
    /// # Errors
    /// Never: both ends tell the truth.
    pub fn pass(&mut self, entry: &Entry) -> Result<Option<Entry>, RingViolation> {
        self.producer.push(std::slice::from_ref(entry));
        // Nobody sleeps; but a client asks after every push.
        black_box(self.producer.must_wake());
        self.consumer.pop()
    }
}

/// The shapes whose schedules are generated: an allreduce and an allgather of `size` participants, 1024 elements of 8 bytes
/// from each.
pub fn shapes(size: u32) -> [Shape; 2] {
    let allreduce = Collective::Allreduce { count: COUNT, order: Order::Any };
    let allgather = Collective::Allgather { counts: Counts::each(&vec![COUNT; size as usize]) };
    [allreduce, allgather].map(|collective| Shape::new(size, collective))
}

/// What a daemon does for a new shape: chooses the algorithm, and makes the schedule of one participant, the first.
///
/// # Errors
/// Never for what [`shapes`] gives.
pub fn generate(shape: &Shape) -> Result<Schedule, BuildError> {
    let choice = select(shape, ELEMENT_BYTES, &CostTable::default());
    build(shape, &choice.algorithm, 0)
}

const COUNT: u64 = 1024;
const ELEMENT_BYTES: u64 = 8;
