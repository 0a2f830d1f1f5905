//! Collectives called just so, which return when this rank's part is done.

use ropeway_proto::collective::CollectiveKind;

use super::form::Form;
use crate::{Combine, Communicator, Error, Plain};

/// Collective calls. All ranks make the same ones in the same order, with equal counts, roots and operators; ranks that don't may
/// wait for each other for ever.
///
/// Arrays may lie anywhere; they are copied into registered memory, which the communicator keeps for calls that are alike: of 64
/// kinds, and up to 64 MiB. A program that repeats itself saves the copies by the persistent forms, such as
/// [`allreduce_init`](Self::allreduce_init). Arrays may be empty; counts are elements.
///
/// # Errors
/// Before anything is sent, and without a trace: [`Error::WrongLength`] if an array's length does not fit,
/// [`Error::RootOutOfRange`] if there is no such root, [`Error::BadCollective`] if there are too many or too few counts, or if the
/// operator is not defined for the elements; [`Error::OutOfMemory`] if there is no room for copies, [`Error::Refused`] if the algorithm that is asked for
/// can't do it. Later, whatever may befall a registered collective: another rank has called something else
/// ([`Error::Mismatch`]), is gone ([`Error::RankFailed`], [`Error::RankLeft`]), or its node is ([`Error::PeerLost`]).
///
/// ```no_run
/// # fn example() -> Result<(), ropeway::Error> {
/// let world = ropeway::init()?.world();
/// let mut dot = [0.0];
/// for step in 0..100 {
///     let local = [f64::from(step) * 0.5];
///     world.allreduce(&local, &mut dot, ropeway::Operator::Sum)?;
/// }
/// # Ok(())
/// # }
/// ```
impl Communicator {
    /// Waits until every rank has called it.
    pub fn barrier(&self) -> Result<(), Error> {
        self.call(Form::barrier())
    }

    /// Gives everybody the root's array.
    pub fn bcast<T: Plain>(&self, array: &mut [T], root: u32) -> Result<(), Error> {
        self.call(Form::bcast(array, root))
    }

    /// Combines everybody's inputs into the root's output. Other ranks' outputs are not looked at.
    pub fn reduce<T: Plain>(
        &self,
        input: &[T],
        output: &mut [T],
        operator: impl Combine<T>,
        root: u32,
    ) -> Result<(), Error> {
        self.call(Form::reduce(input, output, operator, root))
    }

    /// As [`reduce`](Self::reduce), with one array; those of ranks other than the root stay as they are.
    pub fn reduce_in_place<T: Plain>(
        &self,
        array: &mut [T],
        operator: impl Combine<T>,
        root: u32,
    ) -> Result<(), Error> {
        self.call(Form::reduce_in_place(array, operator, root))
    }

    /// Combines everybody's inputs into everybody's output. All get the same to the bit.
    pub fn allreduce<T: Plain>(&self, input: &[T], output: &mut [T], operator: impl Combine<T>) -> Result<(), Error> {
        self.call(Form::reduction(CollectiveKind::Allreduce, input, output, operator))
    }

    /// As [`allreduce`](Self::allreduce), with one array.
    pub fn allreduce_in_place<T: Plain>(&self, array: &mut [T], operator: impl Combine<T>) -> Result<(), Error> {
        self.call(Form::reduction_in_place(CollectiveKind::Allreduce, array, operator))
    }

    /// Combines everybody's inputs, which are as long as all counts together; rank `r` gets the part of `counts[r]` elements behind
    /// those of the ranks before it. All ranks give all counts.
    pub fn reduce_scatter<T: Plain>(
        &self,
        input: &[T],
        output: &mut [T],
        counts: &[usize],
        operator: impl Combine<T>,
    ) -> Result<(), Error> {
        self.call(Form::reduce_scatter(input, output, counts, operator))
    }

    /// As [`reduce_scatter`](Self::reduce_scatter), in parts as long as the output: the input has one for each rank.
    pub fn reduce_scatter_block<T: Plain>(
        &self,
        input: &[T],
        output: &mut [T],
        operator: impl Combine<T>,
    ) -> Result<(), Error> {
        self.call(Form::reduce_scatter_block(input, output, operator))
    }

    /// As [`reduce_scatter`](Self::reduce_scatter), with one array, of which this rank's part becomes its output. The rest stays as it
    /// is.
    pub fn reduce_scatter_in_place<T: Plain>(
        &self,
        array: &mut [T],
        counts: &[usize],
        operator: impl Combine<T>,
    ) -> Result<(), Error> {
        self.call(Form::reduce_scatter_in_place(array, counts, operator))
    }

    /// As [`reduce_scatter_in_place`](Self::reduce_scatter_in_place), in as many equal parts as there are ranks.
    pub fn reduce_scatter_block_in_place<T: Plain>(
        &self,
        array: &mut [T],
        operator: impl Combine<T>,
    ) -> Result<(), Error> {
        self.call(Form::reduce_scatter_block_in_place(array, operator, self.size()))
    }

    /// Combines the inputs up to and with this rank's.
    pub fn scan<T: Plain>(&self, input: &[T], output: &mut [T], operator: impl Combine<T>) -> Result<(), Error> {
        self.call(Form::reduction(CollectiveKind::Scan, input, output, operator))
    }

    /// As [`scan`](Self::scan), with one array.
    pub fn scan_in_place<T: Plain>(&self, array: &mut [T], operator: impl Combine<T>) -> Result<(), Error> {
        self.call(Form::reduction_in_place(CollectiveKind::Scan, array, operator))
    }

    /// Combines the inputs before this rank's. The first rank's output stays as it is.
    pub fn exscan<T: Plain>(&self, input: &[T], output: &mut [T], operator: impl Combine<T>) -> Result<(), Error> {
        self.call(Form::reduction(CollectiveKind::Exscan, input, output, operator))
    }

    /// As [`exscan`](Self::exscan), with one array.
    pub fn exscan_in_place<T: Plain>(&self, array: &mut [T], operator: impl Combine<T>) -> Result<(), Error> {
        self.call(Form::reduction_in_place(CollectiveKind::Exscan, array, operator))
    }

    /// Puts everybody's inputs, all of one length, one behind the other into the root's output. Other ranks' outputs are not
    /// looked at.
    pub fn gather<T: Plain>(&self, input: &[T], output: &mut [T], root: u32) -> Result<(), Error> {
        self.call(Form::gather(input, output, root))
    }

    /// As [`gather`](Self::gather), of `counts[rank]` elements from each. All ranks give all counts.
    pub fn gatherv<T: Plain>(&self, input: &[T], output: &mut [T], counts: &[usize], root: u32) -> Result<(), Error> {
        self.call(Form::gatherv(input, output, counts, root))
    }

    /// As [`gather`](Self::gather), with one array: the root's has everybody's parts, its own already in place; that of others is their
    /// part.
    pub fn gather_in_place<T: Plain>(&self, array: &mut [T], root: u32) -> Result<(), Error> {
        self.call(Form::gather_in_place(array, root, (self.rank(), self.size())))
    }

    /// As [`gather_in_place`](Self::gather_in_place), of `counts[rank]` elements from each. All ranks give all counts.
    pub fn gatherv_in_place<T: Plain>(&self, array: &mut [T], counts: &[usize], root: u32) -> Result<(), Error> {
        self.call(Form::gatherv_in_place(array, counts, root))
    }

    /// Gives everybody a part, as long as the output, of the root's input. Other ranks' inputs are not looked at.
    pub fn scatter<T: Plain>(&self, input: &[T], output: &mut [T], root: u32) -> Result<(), Error> {
        self.call(Form::scatter(input, output, root))
    }

    /// As [`scatter`](Self::scatter), of `counts[rank]` elements to each. All ranks give all counts.
    pub fn scatterv<T: Plain>(&self, input: &[T], output: &mut [T], counts: &[usize], root: u32) -> Result<(), Error> {
        self.call(Form::scatterv(input, output, counts, root))
    }

    /// As [`scatter`](Self::scatter), with one array: the root's has everybody's parts, and stays as it is; that of others becomes their
    /// part.
    pub fn scatter_in_place<T: Plain>(&self, array: &mut [T], root: u32) -> Result<(), Error> {
        self.call(Form::scatter_in_place(array, root, (self.rank(), self.size())))
    }

    /// As [`scatter_in_place`](Self::scatter_in_place), of `counts[rank]` elements to each. All ranks give all counts.
    pub fn scatterv_in_place<T: Plain>(&self, array: &mut [T], counts: &[usize], root: u32) -> Result<(), Error> {
        self.call(Form::scatterv_in_place(array, counts, root))
    }

    /// Puts everybody's inputs, all of one length, one behind the other into everybody's output.
    pub fn allgather<T: Plain>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.call(Form::allgather(input, output))
    }

    /// As [`allgather`](Self::allgather); the input is this rank's part of the array.
    pub fn allgather_in_place<T: Plain>(&self, array: &mut [T]) -> Result<(), Error> {
        self.call(Form::allgather_in_place(array, self.size()))
    }

    /// As [`allgather`](Self::allgather), of `counts[rank]` elements from each. All ranks give all counts.
    pub fn allgatherv<T: Plain>(&self, input: &[T], output: &mut [T], counts: &[usize]) -> Result<(), Error> {
        self.call(Form::allgatherv(input, output, counts))
    }

    /// As [`allgatherv`](Self::allgatherv); the input is this rank's part of the array.
    pub fn allgatherv_in_place<T: Plain>(&self, array: &mut [T], counts: &[usize]) -> Result<(), Error> {
        self.call(Form::allgatherv_in_place(array, counts))
    }

    /// Gives rank `r` the `r`-th of as many equal parts of the input as there are ranks; the output gets a part from each.
    pub fn alltoall<T: Plain>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.call(Form::alltoall(input, output, self.size()))
    }

    /// As [`alltoall`](Self::alltoall), with one array: what comes takes the place of what goes.
    pub fn alltoall_in_place<T: Plain>(&self, array: &mut [T]) -> Result<(), Error> {
        self.call(Form::alltoall_in_place(array, self.size()))
    }

    /// Gives `counts[from * size + to]` elements of rank `from`'s input to rank `to`: inputs have a part for each rank that gets it,
    /// outputs one of each that gives it, in order. All ranks give all counts.
    pub fn alltoallv<T: Plain>(&self, input: &[T], output: &mut [T], counts: &[usize]) -> Result<(), Error> {
        self.check_pairs(counts)?;
        self.call(Form::alltoallv(input, output, counts))
    }

    /// As [`alltoallv`](Self::alltoallv), with one array: what comes takes the place of what goes, so as many elements must go from each
    /// rank to each other as back.
    pub fn alltoallv_in_place<T: Plain>(&self, array: &mut [T], counts: &[usize]) -> Result<(), Error> {
        self.check_swaps(counts)?;
        self.call(Form::alltoallv_in_place(array, counts))
    }
}
