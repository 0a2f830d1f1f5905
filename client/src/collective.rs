//! Collectives: operations of all ranks of a communicator together, registered once.

use std::fmt;
use std::marker::PhantomData;

use ropeway_proto::collective::{CollectiveKind, CollectiveMember, CollectiveShape};
use ropeway_proto::limits::BUFFER_ALIGN;
use ropeway_proto::operator::{ElementType, Operator, Scalar};

use crate::buffer::{self, Buffer};
use crate::plain::element_bytes;
use crate::request::{Persistent, Request, sealed::Sealed};
use crate::terms::Terms;
use crate::{Active, Communicator, Error, Favor, Plain};

/// Elements that the predefined operators combine: integers and floats.
pub trait Numeric: Plain {
    /// How the daemon calls it.
    #[doc(hidden)]
    const SCALAR: Scalar;
}

macro_rules! numeric {
    ($($type:ty => $scalar:ident),*) => { $(impl Numeric for $type { const SCALAR: Scalar = Scalar::$scalar; })* };
}

numeric!(
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64
);

/// A registered collective and its buffers.
///
/// All ranks of the communicator register the same collectives in the same order, and start each as often as the others.
/// Several may run at once, started in any order. From its start on a rank is not needed any more: a collective ends though
/// ranks that have started it compute, sleep or are stopped.
///
/// ```no_run
/// # fn example() -> Result<(), ropeway::Error> {
/// let world = ropeway::init()?.world();
/// let mut sum = world.allreduce_init::<f64>(1000, ropeway::Operator::Sum)?;
/// for step in 0..100 {
///     sum.input_mut().fill(step as f64);
///     let summing = sum.start()?;
///     // … compute …
///     summing.wait()?;
///     let _total = sum.output()[0];
/// }
/// # Ok(())
/// # }
/// ```
pub struct Collective<T: Plain> {
    persistent: Persistent,
    input: usize,
    output: usize,
    /// Elements from the start of the memory to the output.
    output_at: usize,
    input_at: usize,
    element: PhantomData<T>,
}

impl<T: Plain> Collective<T> {
    /// What this rank contributes. Empty if it contributes nothing; the same as the output if it works in place. Panics if an
    /// operation runs whose `Active` was dropped.
    pub fn input(&self) -> &[T] {
        &self.all()[self.input_at..self.input_at + self.input]
    }

    /// As [`input`](Self::input), to write.
    pub fn input_mut(&mut self) -> &mut [T] {
        let range = self.input_at..self.input_at + self.input;
        &mut self.all_mut()[range]
    }

    /// What this rank gets. Empty if it gets nothing.
    pub fn output(&self) -> &[T] {
        &self.all()[self.output_at..self.output_at + self.output]
    }

    /// As [`output`](Self::output), to write: the root of a broadcast does.
    pub fn output_mut(&mut self) -> &mut [T] {
        let range = self.output_at..self.output_at + self.output;
        &mut self.all_mut()[range]
    }

    /// Says what more work than a few microseconds is optimised for.
    pub fn favor(mut self, favor: Favor) -> Self {
        self.persistent.operation_mut().set_favor(favor);
        self
    }

    /// Starts the operation: this rank has come.
    pub fn start(&mut self) -> Result<Active<'_>, Error> {
        Request::start(self)
    }

    /// The running operation, if its [`Active`] was dropped without waiting.
    pub fn active(&mut self) -> Option<Active<'_>> {
        Request::active(self)
    }

    fn elements(&self) -> usize {
        (self.output_at + self.output).max(self.input_at + self.input)
    }

    fn all(&self) -> &[T] {
        buffer::elements(self.persistent.memory(), self.elements())
    }

    fn all_mut(&mut self) -> &mut [T] {
        let elements = self.elements();
        buffer::elements_mut(self.persistent.memory_mut(), elements)
    }
}

impl<T: Plain> Request for Collective<T> {}

impl<T: Plain> Sealed for Collective<T> {
    fn persistent(&self) -> &Persistent {
        &self.persistent
    }

    fn persistent_mut(&mut self) -> &mut Persistent {
        &mut self.persistent
    }
}

impl<T: Plain> fmt::Debug for Collective<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.persistent.fmt(f)
    }
}

/// Where input and output lie in the memory of a collective.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Placement {
    /// Side by side.
    Apart,
    /// The input is the output, or the part of it that is this rank's.
    InPlace,
}

/// How elements are combined.
fn combination<T: Numeric>(operator: Operator) -> Option<(u8, u8)> {
    let element = ElementType { scalar: T::SCALAR, is_located: false };
    Some((operator.code(), element.code()))
}

/// The registrations. Each has to be called by all ranks, in the same order.
impl Communicator {
    /// Registers a barrier: nobody gets past it before everybody has come.
    pub fn barrier_init(&self) -> Result<Collective<u8>, Error> {
        self.collective(CollectiveKind::Barrier, 0, None, vec![], Placement::Apart)
    }

    /// Registers a broadcast of `count` elements: the root's output becomes everybody's.
    pub fn bcast_init<T: Plain>(&self, count: usize, root: u32) -> Result<Collective<T>, Error> {
        self.collective(CollectiveKind::Bcast, root, None, vec![count as u64], Placement::Apart)
    }

    /// Registers a reduction: the root's output is everybody's input, combined.
    pub fn reduce_init<T: Numeric>(&self, count: usize, operator: Operator, root: u32) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Reduce, count, operator, root, Placement::Apart)
    }

    /// Registers a reduction whose result goes to everybody.
    pub fn allreduce_init<T: Numeric>(&self, count: usize, operator: Operator) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Allreduce, count, operator, 0, Placement::Apart)
    }

    /// As [`allreduce_init`](Self::allreduce_init), with one buffer for input and output.
    pub fn allreduce_in_place_init<T: Numeric>(
        &self,
        count: usize,
        operator: Operator,
    ) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Allreduce, count, operator, 0, Placement::InPlace)
    }

    /// Registers a reduction of which each rank gets a part: rank `r` the `counts[r]` elements that are its.
    pub fn reduce_scatter_init<T: Numeric>(
        &self,
        counts: &[usize],
        operator: Operator,
    ) -> Result<Collective<T>, Error> {
        let kind = CollectiveKind::ReduceScatter;
        self.collective(kind, 0, combination::<T>(operator), each(counts), Placement::Apart)
    }

    /// Registers a prefix reduction: each rank gets the inputs up to and with its own, combined.
    pub fn scan_init<T: Numeric>(&self, count: usize, operator: Operator) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Scan, count, operator, 0, Placement::Apart)
    }

    /// As [`scan_init`](Self::scan_init), with one buffer for input and output.
    pub fn scan_in_place_init<T: Numeric>(&self, count: usize, operator: Operator) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Scan, count, operator, 0, Placement::InPlace)
    }

    /// Registers a prefix reduction without one's own input. The first rank's output stays as it is.
    pub fn exscan_init<T: Numeric>(&self, count: usize, operator: Operator) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Exscan, count, operator, 0, Placement::Apart)
    }

    /// As [`exscan_init`](Self::exscan_init), with one buffer for input and output.
    pub fn exscan_in_place_init<T: Numeric>(&self, count: usize, operator: Operator) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Exscan, count, operator, 0, Placement::InPlace)
    }

    /// Registers that everybody's `counts[rank]` elements go to the root, one behind the other.
    pub fn gather_init<T: Plain>(&self, counts: &[usize], root: u32) -> Result<Collective<T>, Error> {
        self.collective(CollectiveKind::Gather, root, None, each(counts), Placement::Apart)
    }

    /// Registers that each rank gets its `counts[rank]` elements of the root's input.
    pub fn scatter_init<T: Plain>(&self, counts: &[usize], root: u32) -> Result<Collective<T>, Error> {
        self.collective(CollectiveKind::Scatter, root, None, each(counts), Placement::Apart)
    }

    /// Registers that everybody's `counts[rank]` elements go to everybody, one behind the other.
    pub fn allgather_init<T: Plain>(&self, counts: &[usize]) -> Result<Collective<T>, Error> {
        self.collective(CollectiveKind::Allgather, 0, None, each(counts), Placement::Apart)
    }

    /// As [`allgather_init`](Self::allgather_init); the input is this rank's part of the output.
    pub fn allgather_in_place_init<T: Plain>(&self, counts: &[usize]) -> Result<Collective<T>, Error> {
        self.collective(CollectiveKind::Allgather, 0, None, each(counts), Placement::InPlace)
    }

    /// Registers that `count` elements go from each rank to each.
    pub fn alltoall_init<T: Plain>(&self, count: usize) -> Result<Collective<T>, Error> {
        self.collective(CollectiveKind::Alltoall, 0, None, vec![count as u64], Placement::Apart)
    }

    /// Registers that `counts[from * size + to]` elements go from rank to rank; all ranks give all counts.
    pub fn alltoallv_init<T: Plain>(&self, counts: &[usize]) -> Result<Collective<T>, Error> {
        self.collective(CollectiveKind::Alltoall, 0, None, each(counts), Placement::Apart)
    }

    fn reduction<T: Numeric>(
        &self,
        kind: CollectiveKind,
        count: usize,
        operator: Operator,
        root: u32,
        placement: Placement,
    ) -> Result<Collective<T>, Error> {
        self.collective(kind, root, combination::<T>(operator), vec![count as u64], placement)
    }

    fn collective<T: Plain>(
        &self,
        kind: CollectiveKind,
        root: u32,
        combination: Option<(u8, u8)>,
        counts: Vec<u64>,
        placement: Placement,
    ) -> Result<Collective<T>, Error> {
        let (members, rank) = (self.members(), self.rank());
        let element_bytes = element_bytes::<T>() as u32;
        let shape = CollectiveShape { kind, members, root, combination, element_bytes, counts };
        shape.check().map_err(|error| Error::BadCollective { why: error.to_string() })?;
        let (input, output) = shape.elements(rank);
        let (input, output) = (input as usize, output as usize);
        // Apart means on cache lines of their own.
        let line = (BUFFER_ALIGN as usize).div_ceil(element_bytes as usize).max(1);
        let (input_at, output_at) = match placement {
            Placement::Apart => (0, if output == 0 { 0 } else { input.next_multiple_of(line) }),
            Placement::InPlace if kind == CollectiveKind::Allgather => (shape.before(rank) as usize, 0),
            Placement::InPlace => (0, 0),
        };
        let elements = (output_at + output).max(input_at + input);
        let buffer: Buffer<T> = self.alloc(elements)?;
        let offset = |at: usize| buffer.offset() + (at * element_bytes as usize) as u64;
        let (input_offset, output_offset) = (offset(input_at), offset(output_at));
        let number = self.next_collective();
        let member = CollectiveMember { shape, number, rank, input: input_offset, output: output_offset };
        let persistent =
            Persistent::register(self.membership(), buffer.into_memory(), Terms::Collective, self.id(), member)?;
        Ok(Collective { persistent, input, output, output_at, input_at, element: PhantomData })
    }
}

fn each(counts: &[usize]) -> Vec<u64> {
    counts.iter().map(|&count| count as u64).collect()
}
