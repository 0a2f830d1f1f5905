//! Registering collectives.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use ropeway_proto::collective::{CollectiveKind as Kind, CollectiveMember, CollectiveShape, ShapeError};
use ropeway_proto::control;
use ropeway_proto::limits::{BUFFER_ALIGN, CONTROL_BYTES_MAX};

use super::call::{Call, Counts};
use super::crossing::{self, Crossing, Places};
use super::operator::Function;
use crate::operation::Prepared;
use crate::request::Persistent;
use crate::{Collective, Combine, Communicator, Error, Plain};

/// Where input and output lie in the memory of a collective.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    /// Side by side.
    Apart,
    /// The input is the output, or the one is that part of the other that is this rank's.
    InPlace,
}

/// Elements before this rank's input and before its output, in an array that has both in place.
pub(super) fn in_place(shape: &CollectiveShape, rank: u32) -> (u64, u64) {
    match shape.kind {
        Kind::Allgather => (shape.before(rank), 0),
        Kind::Gather if rank == shape.root => (shape.before(rank), 0),
        Kind::ReduceScatter => (0, shape.before(rank)),
        Kind::Scatter if rank == shape.root => (0, shape.before(rank)),
        _ => (0, 0),
    }
}

/// The registrations of collectives, which are then started again and again. All ranks make the same ones in the same order,
/// with equal counts, roots and operators. Counts are elements, and may be 0. Who has no input or no output sees an empty one.
///
/// Forms with a `v` and [`reduce_scatter_init`](Self::reduce_scatter_init) have parts of different lengths, and all ranks give all
/// counts. In place, input and output share one buffer, which saves memory; all ranks register the same form.
///
/// # Errors
/// [`Error::RootOutOfRange`] if there is no such root; [`Error::BadCollective`] if there are too many or too few counts, if they add
/// up to more than 1 TiB, or if the operator is not defined for the elements; [`Error::OutOfMemory`] if there is no room for the
/// buffers. That the ranks have registered different things is said by the first [`wait`](crate::Active::wait):
/// [`Error::Mismatch`].
impl Communicator {
    /// Registers a barrier: nobody gets past it before everybody has come.
    pub fn barrier_init(&self) -> Result<Collective<u8>, Error> {
        self.collective(&Call::new::<u8>(Kind::Barrier, 0, Counts::Alike(0)), Placement::Apart)
    }

    /// Registers a broadcast: everybody's output becomes the `count` elements of the root's, which are its input too. Others have
    /// no input.
    pub fn bcast_init<T: Plain>(&self, count: usize, root: u32) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Bcast, root, Counts::Alike(count)), Placement::Apart)
    }

    /// Registers that everybody's inputs of `count` elements go to the root, whose output has them one behind the other. Others have
    /// no output.
    pub fn gather_init<T: Plain>(&self, count: usize, root: u32) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Gather, root, Counts::Alike(count)), Placement::Apart)
    }

    /// As [`gather_init`](Self::gather_init); the root's input is its part of its output.
    pub fn gather_in_place_init<T: Plain>(&self, count: usize, root: u32) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Gather, root, Counts::Alike(count)), Placement::InPlace)
    }

    /// As [`gather_init`](Self::gather_init), of `counts[rank]` elements from each.
    pub fn gatherv_init<T: Plain>(&self, counts: &[usize], root: u32) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Gather, root, Counts::each(counts)), Placement::Apart)
    }

    /// As [`gatherv_init`](Self::gatherv_init); the root's input is its part of its output.
    pub fn gatherv_in_place_init<T: Plain>(&self, counts: &[usize], root: u32) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Gather, root, Counts::each(counts)), Placement::InPlace)
    }

    /// Registers that the root's input goes to all: rank `r` gets the `r`-th of as many parts of `count` elements as there are ranks.
    /// Others have no input.
    pub fn scatter_init<T: Plain>(&self, count: usize, root: u32) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Scatter, root, Counts::Alike(count)), Placement::Apart)
    }

    /// As [`scatter_init`](Self::scatter_init); the root's output is its part of its input.
    pub fn scatter_in_place_init<T: Plain>(&self, count: usize, root: u32) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Scatter, root, Counts::Alike(count)), Placement::InPlace)
    }

    /// As [`scatter_init`](Self::scatter_init), of `counts[rank]` elements to each.
    pub fn scatterv_init<T: Plain>(&self, counts: &[usize], root: u32) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Scatter, root, Counts::each(counts)), Placement::Apart)
    }

    /// As [`scatterv_init`](Self::scatterv_init); the root's output is its part of its input.
    pub fn scatterv_in_place_init<T: Plain>(&self, counts: &[usize], root: u32) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Scatter, root, Counts::each(counts)), Placement::InPlace)
    }

    /// Registers that everybody's inputs of `count` elements go to everybody, whose outputs have them one behind the other.
    pub fn allgather_init<T: Plain>(&self, count: usize) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Allgather, 0, Counts::Alike(count)), Placement::Apart)
    }

    /// As [`allgather_init`](Self::allgather_init); the input is this rank's part of the output.
    pub fn allgather_in_place_init<T: Plain>(&self, count: usize) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Allgather, 0, Counts::Alike(count)), Placement::InPlace)
    }

    /// As [`allgather_init`](Self::allgather_init), of `counts[rank]` elements from each.
    pub fn allgatherv_init<T: Plain>(&self, counts: &[usize]) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Allgather, 0, Counts::each(counts)), Placement::Apart)
    }

    /// As [`allgatherv_init`](Self::allgatherv_init); the input is this rank's part of the output.
    pub fn allgatherv_in_place_init<T: Plain>(&self, counts: &[usize]) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Allgather, 0, Counts::each(counts)), Placement::InPlace)
    }

    /// Registers that `count` elements go from each rank to each: input and output have a part of `count` for each rank, in order.
    pub fn alltoall_init<T: Plain>(&self, count: usize) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Alltoall, 0, Counts::Alike(count)), Placement::Apart)
    }

    /// As [`alltoall_init`](Self::alltoall_init), with one buffer for input and output: what comes takes the place of what goes.
    pub fn alltoall_in_place_init<T: Plain>(&self, count: usize) -> Result<Collective<T>, Error> {
        self.collective(&Call::new::<T>(Kind::Alltoall, 0, Counts::Alike(count)), Placement::InPlace)
    }

    /// Registers that `counts[from * size + to]` elements go from rank `from` to rank `to`: inputs have a part for each rank that gets
    /// it, outputs one of each that gives it, in order. All ranks give all counts.
    pub fn alltoallv_init<T: Plain>(&self, counts: &[usize]) -> Result<Collective<T>, Error> {
        self.check_pairs(counts)?;
        self.collective(&Call::new::<T>(Kind::Alltoall, 0, Counts::each(counts)), Placement::Apart)
    }

    /// As [`alltoallv_init`](Self::alltoallv_init), with one buffer for input and output: what comes takes the place of what goes, so
    /// as many elements must go from each rank to each other as back.
    pub fn alltoallv_in_place_init<T: Plain>(&self, counts: &[usize]) -> Result<Collective<T>, Error> {
        self.check_swaps(counts)?;
        self.collective(&Call::new::<T>(Kind::Alltoall, 0, Counts::each(counts)), Placement::InPlace)
    }
}

/// Those that combine.
impl Communicator {
    /// Registers a reduction: the root's output of `count` elements is everybody's input of as many, combined. Others have no
    /// output.
    pub fn reduce_init<T: Plain>(
        &self,
        count: usize,
        operator: impl Combine<T>,
        root: u32,
    ) -> Result<Collective<T>, Error> {
        let call = Call::combining(Kind::Reduce, Counts::Alike(count), operator).with_root(root);
        self.collective(&call, Placement::Apart)
    }

    /// As [`reduce_init`](Self::reduce_init), with one buffer for the root's input and output.
    pub fn reduce_in_place_init<T: Plain>(
        &self,
        count: usize,
        operator: impl Combine<T>,
        root: u32,
    ) -> Result<Collective<T>, Error> {
        let call = Call::combining(Kind::Reduce, Counts::Alike(count), operator).with_root(root);
        self.collective(&call, Placement::InPlace)
    }

    /// Registers a reduction whose result goes to everybody: input and output have `count` elements. All get the same to the bit.
    pub fn allreduce_init<T: Plain>(&self, count: usize, operator: impl Combine<T>) -> Result<Collective<T>, Error> {
        self.collective(&Call::combining(Kind::Allreduce, Counts::Alike(count), operator), Placement::Apart)
    }

    /// As [`allreduce_init`](Self::allreduce_init), with one buffer for input and output.
    pub fn allreduce_in_place_init<T: Plain>(
        &self,
        count: usize,
        operator: impl Combine<T>,
    ) -> Result<Collective<T>, Error> {
        self.collective(&Call::combining(Kind::Allreduce, Counts::Alike(count), operator), Placement::InPlace)
    }

    /// Registers a reduction of which each rank gets a part: inputs are as long as all counts together, and the output of rank `r`
    /// is the part of `counts[r]` elements behind those of the ranks before it.
    pub fn reduce_scatter_init<T: Plain>(
        &self,
        counts: &[usize],
        operator: impl Combine<T>,
    ) -> Result<Collective<T>, Error> {
        self.collective(&Call::combining(Kind::ReduceScatter, Counts::each(counts), operator), Placement::Apart)
    }

    /// As [`reduce_scatter_init`](Self::reduce_scatter_init); the output is this rank's part of the input, and the rest of the input
    /// stays as it is.
    pub fn reduce_scatter_in_place_init<T: Plain>(
        &self,
        counts: &[usize],
        operator: impl Combine<T>,
    ) -> Result<Collective<T>, Error> {
        self.collective(&Call::combining(Kind::ReduceScatter, Counts::each(counts), operator), Placement::InPlace)
    }

    /// As [`reduce_scatter_init`](Self::reduce_scatter_init), in parts of `count` elements.
    pub fn reduce_scatter_block_init<T: Plain>(
        &self,
        count: usize,
        operator: impl Combine<T>,
    ) -> Result<Collective<T>, Error> {
        self.collective(&Call::combining(Kind::ReduceScatter, Counts::Alike(count), operator), Placement::Apart)
    }

    /// As [`reduce_scatter_block_init`](Self::reduce_scatter_block_init); the output is this rank's part of the input, and the rest of
    /// the input stays as it is.
    pub fn reduce_scatter_block_in_place_init<T: Plain>(
        &self,
        count: usize,
        operator: impl Combine<T>,
    ) -> Result<Collective<T>, Error> {
        self.collective(&Call::combining(Kind::ReduceScatter, Counts::Alike(count), operator), Placement::InPlace)
    }

    /// Registers a prefix reduction: each rank gets the inputs up to and with its own, combined. Input and output have `count`
    /// elements.
    pub fn scan_init<T: Plain>(&self, count: usize, operator: impl Combine<T>) -> Result<Collective<T>, Error> {
        self.collective(&Call::combining(Kind::Scan, Counts::Alike(count), operator), Placement::Apart)
    }

    /// As [`scan_init`](Self::scan_init), with one buffer for input and output.
    pub fn scan_in_place_init<T: Plain>(
        &self,
        count: usize,
        operator: impl Combine<T>,
    ) -> Result<Collective<T>, Error> {
        self.collective(&Call::combining(Kind::Scan, Counts::Alike(count), operator), Placement::InPlace)
    }

    /// Registers a prefix reduction without one's own input: each rank gets the inputs before its own, combined. Rank 0's output
    /// stays as it is. Input and output have `count` elements.
    pub fn exscan_init<T: Plain>(&self, count: usize, operator: impl Combine<T>) -> Result<Collective<T>, Error> {
        self.collective(&Call::combining(Kind::Exscan, Counts::Alike(count), operator), Placement::Apart)
    }

    /// As [`exscan_init`](Self::exscan_init), with one buffer for input and output.
    pub fn exscan_in_place_init<T: Plain>(
        &self,
        count: usize,
        operator: impl Combine<T>,
    ) -> Result<Collective<T>, Error> {
        self.collective(&Call::combining(Kind::Exscan, Counts::Alike(count), operator), Placement::InPlace)
    }
}

impl Communicator {
    /// One count would be taken for everybody's.
    pub(super) fn check_pairs(&self, counts: &[usize]) -> Result<(), Error> {
        let (found, expected) = (counts.len(), self.size() as usize * self.size() as usize);
        let why = || ShapeError::Counts { found, expected }.to_string();
        if found == expected { Ok(()) } else { Err(Error::BadCollective { why: why() }) }
    }

    /// In place, what comes needs the place of what goes.
    pub(super) fn check_swaps(&self, counts: &[usize]) -> Result<(), Error> {
        self.check_pairs(counts)?;
        let ranks = self.size() as usize;
        let mut pairs = (0..ranks).flat_map(|one| (0..one).map(move |other| (other, one)));
        match pairs.find(|(one, other)| counts[one * ranks + other] != counts[other * ranks + one]) {
            None => Ok(()),
            Some((one, other)) => {
                let (there, back) = (counts[one * ranks + other], counts[other * ranks + one]);
                let why = format!(
                    "in place as many elements go from rank {one} to rank {other} as back, not {there} and {back}"
                );
                Err(Error::BadCollective { why })
            }
        }
    }

    fn collective<T: Plain>(&self, call: &Call<'_>, placement: Placement) -> Result<Collective<T>, Error> {
        let shape = call.clone().by(self.algorithm()).shape(self.members());
        check(&shape)?;
        self.register(shape, placement, call.function()).map(Collective::of)
    }

    /// Registers a shape that was checked. Its elements are bytes so far.
    pub(super) fn register(
        &self,
        mut shape: CollectiveShape,
        placement: Placement,
        function: Option<&Function>,
    ) -> Result<Collective<u8>, Error> {
        check_length(&shape)?;
        let (rank, element_bytes) = (self.rank(), shape.element_bytes as usize);
        let (input, output) = place(&shape, rank, placement);
        let bytes =
            |elements: Range<u64>| elements.start as usize * element_bytes..elements.end as usize * element_bytes;
        let (input, output) = (bytes(input), bytes(output));
        let does_cross = shape.decide_to_go_straight(|rank| self.attachment().wired_node_of(rank));
        let scratch = (input.end.max(output.end) as u64).next_multiple_of(BUFFER_ALIGN);
        let scratch_bytes = if does_cross { crossing::scratch_bytes(&shape, rank) } else { 0 };
        let memory = self.attachment().allocate(scratch + scratch_bytes)?;
        let offset = |start: usize| memory.offset() + start as u64;
        let place = Places { input: offset(input.start), output: offset(output.start), scratch: offset(0) + scratch };
        let crossing = does_cross.then(|| Crossing::new(&shape, rank, place));
        let shape = Arc::new(shape);
        let number = self.collectives().next_number();
        let member = CollectiveMember { shape, number, rank, input: place.input, output: place.output };
        let channels = crossing.map(|crossing| Prepared::new(self, number, crossing)).transpose();
        let registered = channels.and_then(|channels| {
            Persistent::register(self.membership(), memory, self.id(), member, function, channels)
        });
        // Unless the session is over.
        if registered.is_err() && self.attachment().check().is_ok() {
            self.collectives().take_back_number(number);
        }
        Ok(Collective { persistent: registered?, input, output, element: PhantomData })
    }
}

/// The elements of a rank's memory that are its input and its output.
fn place(shape: &CollectiveShape, rank: u32, placement: Placement) -> (Range<u64>, Range<u64>) {
    let (input, output) = shape.elements(rank);
    // Apart means on cache lines of their own.
    let line = BUFFER_ALIGN.div_ceil(shape.element_bytes.into());
    let (input_at, output_at) = match placement {
        Placement::Apart => (0, if output == 0 { 0 } else { input.next_multiple_of(line) }),
        Placement::InPlace => in_place(shape, rank),
    };
    // What the root of a broadcast sends is its output.
    let input = if shape.kind == Kind::Bcast && rank == shape.root { output } else { input };
    (input_at..input_at + input, output_at..output_at + output)
}

/// Checks that the daemon can be told of it, which all ranks find alike.
fn check_length(shape: &CollectiveShape) -> Result<(), Error> {
    if (shape.members.len() + shape.counts.len()) * NUMBER_BYTES_MAX <= SHAPE_BYTES_MAX {
        return Ok(());
    }
    let bytes = control::encode(shape).len();
    let why = || {
        let (ranks, counts) = (shape.members.len(), shape.counts.len());
        format!(
            "to register {ranks} ranks and {counts} counts takes {bytes} bytes, of {SHAPE_BYTES_MAX}: \
             have equal counts, or fewer ranks exchange at a time"
        )
    };
    if bytes <= SHAPE_BYTES_MAX { Ok(()) } else { Err(Error::BadCollective { why: why() }) }
}

/// Digits of a count, and a comma.
const NUMBER_BYTES_MAX: usize = 21;
/// Bytes of a shape, beside which a member says where its arrays are.
const SHAPE_BYTES_MAX: usize = CONTROL_BYTES_MAX - 1024;

/// Checks what can be checked without the other ranks.
pub(super) fn check(shape: &CollectiveShape) -> Result<(), Error> {
    shape.check().map_err(|error| match error {
        ShapeError::Root { root, .. } => Error::RootOutOfRange { root, size: shape.size() },
        error => Error::BadCollective { why: error.to_string() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alltoall(ranks: u32, counts: Vec<u64>) -> CollectiveShape {
        CollectiveShape {
            kind: Kind::Alltoall,
            members: (0..ranks).collect(),
            root: 0,
            combination: None,
            element_bytes: 8,
            counts,
            is_reproducible: false,
            algorithm: None,
        }
    }

    #[test]
    fn what_the_daemon_could_not_read_is_refused_here() {
        let each = |ranks: u32| alltoall(ranks, vec![1000; (ranks * ranks) as usize]);
        assert!(check_length(&each(450)).is_ok() && check_length(&alltoall(100_000, vec![1])).is_ok());
        let error = check_length(&each(512)).unwrap_err().to_string();
        assert!(error.contains("512 ranks and 262144 counts"), "{error}");
    }
}
