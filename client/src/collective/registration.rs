//! Registering collectives.

use std::marker::PhantomData;
use std::ops::Range;

use ropeway_proto::collective::{CollectiveKind, CollectiveMember, CollectiveShape, ShapeError};
use ropeway_proto::limits::BUFFER_ALIGN;
use ropeway_proto::operator::Operator;

use crate::plain::element_bytes;
use crate::request::Persistent;
use crate::terms::Terms;
use crate::{Collective, Communicator, Error, Plain, Reducible};

/// Where input and output lie in the memory of a collective.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// Side by side.
    Apart,
    /// The input is the output, or the part of it that is this rank's.
    InPlace,
}

/// How elements are combined.
pub(super) fn combination<T: Reducible>(operator: Operator) -> Option<(u8, u8)> {
    Some((operator.code(), T::ELEMENT.code()))
}

/// Elements before this rank's input, in an array that has input and output in place.
pub(super) fn input_in_place(shape: &CollectiveShape, rank: u32) -> u64 {
    if shape.kind == CollectiveKind::Allgather { shape.before(rank) } else { 0 }
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
    pub fn reduce_init<T: Reducible>(
        &self,
        count: usize,
        operator: Operator,
        root: u32,
    ) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Reduce, count, operator, root, Placement::Apart)
    }

    /// Registers a reduction whose result goes to everybody.
    pub fn allreduce_init<T: Reducible>(&self, count: usize, operator: Operator) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Allreduce, count, operator, 0, Placement::Apart)
    }

    /// As [`allreduce_init`](Self::allreduce_init), with one buffer for input and output.
    pub fn allreduce_in_place_init<T: Reducible>(
        &self,
        count: usize,
        operator: Operator,
    ) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Allreduce, count, operator, 0, Placement::InPlace)
    }

    /// Registers a reduction of which each rank gets a part: rank `r` the `counts[r]` elements that are its.
    pub fn reduce_scatter_init<T: Reducible>(
        &self,
        counts: &[usize],
        operator: Operator,
    ) -> Result<Collective<T>, Error> {
        let kind = CollectiveKind::ReduceScatter;
        self.collective(kind, 0, combination::<T>(operator), each(counts), Placement::Apart)
    }

    /// Registers a prefix reduction: each rank gets the inputs up to and with its own, combined.
    pub fn scan_init<T: Reducible>(&self, count: usize, operator: Operator) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Scan, count, operator, 0, Placement::Apart)
    }

    /// As [`scan_init`](Self::scan_init), with one buffer for input and output.
    pub fn scan_in_place_init<T: Reducible>(&self, count: usize, operator: Operator) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Scan, count, operator, 0, Placement::InPlace)
    }

    /// Registers a prefix reduction without one's own input. The first rank's output stays as it is.
    pub fn exscan_init<T: Reducible>(&self, count: usize, operator: Operator) -> Result<Collective<T>, Error> {
        self.reduction(CollectiveKind::Exscan, count, operator, 0, Placement::Apart)
    }

    /// As [`exscan_init`](Self::exscan_init), with one buffer for input and output.
    pub fn exscan_in_place_init<T: Reducible>(&self, count: usize, operator: Operator) -> Result<Collective<T>, Error> {
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
        self.check_pairs(counts)?;
        self.collective(CollectiveKind::Alltoall, 0, None, each(counts), Placement::Apart)
    }

    /// One count would be taken for everybody's.
    pub(super) fn check_pairs(&self, counts: &[usize]) -> Result<(), Error> {
        let (found, expected) = (counts.len(), self.size() as usize * self.size() as usize);
        let why = || ShapeError::Counts { found, expected }.to_string();
        if found == expected { Ok(()) } else { Err(Error::BadCollective { why: why() }) }
    }

    fn reduction<T: Reducible>(
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
        let (members, element_bytes) = (self.members(), element_bytes::<T>() as u32);
        let shape = CollectiveShape { kind, members, root, combination, element_bytes, counts, is_reproducible: false };
        check(&shape)?;
        self.register(shape, placement).map(Collective::of)
    }

    /// Registers a shape that was checked. Its elements are bytes so far.
    pub(super) fn register(&self, shape: CollectiveShape, placement: Placement) -> Result<Collective<u8>, Error> {
        let (rank, element_bytes) = (self.rank(), shape.element_bytes as usize);
        let (input, output) = place(&shape, rank, placement);
        let bytes =
            |elements: Range<u64>| elements.start as usize * element_bytes..elements.end as usize * element_bytes;
        let (input, output) = (bytes(input), bytes(output));
        let memory = self.attachment().allocate(input.end.max(output.end) as u64)?;
        let offset = |range: &Range<usize>| memory.offset() + range.start as u64;
        let (number, begin) = (self.collectives().next_number(), (offset(&input), offset(&output)));
        let member = CollectiveMember { shape, number, rank, input: begin.0, output: begin.1 };
        let persistent = Persistent::register(self.membership(), memory, Terms::Collective, self.id(), member)?;
        Ok(Collective { persistent, input, output, element: PhantomData })
    }
}

/// The elements of a rank's memory that are its input and its output.
fn place(shape: &CollectiveShape, rank: u32, placement: Placement) -> (Range<u64>, Range<u64>) {
    let (input, output) = shape.elements(rank);
    // Apart means on cache lines of their own.
    let line = BUFFER_ALIGN.div_ceil(shape.element_bytes.into());
    let (input_at, output_at) = match placement {
        Placement::Apart => (0, if output == 0 { 0 } else { input.next_multiple_of(line) }),
        Placement::InPlace => (input_in_place(shape, rank), 0),
    };
    // What the root of a broadcast sends is its output.
    let input = if shape.kind == CollectiveKind::Bcast && rank == shape.root { output } else { input };
    (input_at..input_at + input, output_at..output_at + output)
}

/// Checks what can be checked without the other ranks.
pub(super) fn check(shape: &CollectiveShape) -> Result<(), Error> {
    shape.check().map_err(|error| Error::BadCollective { why: error.to_string() })
}

fn each(counts: &[usize]) -> Vec<u64> {
    counts.iter().map(|&count| count as u64).collect()
}
