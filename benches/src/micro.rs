//! The inner parts, each alone: what criterion times (`benches/micro.rs`) and an instruction counter counts
//! (`benches/count-instructions`).
//!
//! Nothing here waits, sleeps or asks the system for anything, so that what is measured is the part itself.

mod engine_pair;

pub use engine_pair::EnginePair;

use std::hint::black_box;
use std::io;
use std::sync::Arc;

use ropeway_proto::operator::{ElementType, Operator, Scalar};
use ropeway_schedule::{BuildError, Collective, CostTable, Counts, Order, Schedule, Shape, build, select};
use ropeway_shm::ring::Entry;
use ropeway_shm::{Consumer, ControlSegment, JobGeometry, JobSegment, OutOfBounds, Producer, RingViolation};

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

/// Two arrays of a job segment, which are combined as collectives do it.
pub struct Arrays {
    segment: JobSegment,
    bytes: u64,
}

impl Arrays {
    /// Of so many bytes each.
    ///
    /// # Errors
    /// If the system gives no memory for them.
    pub fn create(bytes: u64) -> io::Result<Self> {
        let segment = JobSegment::create(JobGeometry { local_ranks: 1, arena_bytes_max: 2 * bytes })?;
        segment.reserve_arena(0, 0..2 * bytes)?;
        Ok(Self { segment, bytes })
    }

    /// The second becomes both, combined. With no operator it becomes the first.
    ///
    /// # Errors
    /// Never: the arrays lie in the segment.
    pub fn combine(&self, operator: Option<Operator>, scalar: Scalar) -> Result<(), OutOfBounds> {
        let element = ElementType { scalar, is_located: false };
        let first = self.segment.arena(0).start;
        let second = first + self.bytes;
        let sources = [first, second];
        let sources = if operator.is_some() { &sources[..] } else { &sources[..1] };
        let elements = self.bytes / element.bytes() as u64;
        self.segment.fold(operator.unwrap_or(Operator::Sum), element, (sources, &[second]), 0, elements)
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
