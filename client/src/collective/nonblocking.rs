//! Collectives called just so, which go on by themselves.

use ropeway_proto::collective::CollectiveKind;

use super::form::Form;
use crate::{Combine, Communicator, Error, PendingCollective, Plain};

/// Collective calls that only begin; [`PendingCollective::wait`] ends them. Blocking calls and these don't belong together: if one
/// rank begins a collective so, all do.
///
/// # Errors
/// Those of blocking calls: at once what is said before anything is sent, and by [`PendingCollective::wait`] whatever befalls it later.
///
/// ```no_run
/// # fn example() -> Result<(), ropeway::Error> {
/// let world = ropeway::init()?.world();
/// let mut norm = [0.0];
/// let summing = world.iallreduce(&[2.5], &mut norm, ropeway::Operator::Sum)?;
/// // … compute …
/// summing.wait()?;
/// # Ok(())
/// # }
/// ```
impl Communicator {
    /// Begins a barrier: it has ended when every rank has begun it.
    pub fn ibarrier(&self) -> Result<PendingCollective<'static, u8>, Error> {
        self.begin(Form::barrier())
    }

    /// Begins [`bcast`](Self::bcast).
    pub fn ibcast<'o, T: Plain>(&self, array: &'o mut [T], root: u32) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::bcast(array, root))
    }

    /// Begins [`reduce`](Self::reduce).
    pub fn ireduce<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
        operator: impl Combine<T>,
        root: u32,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::reduce(input, output, operator, root))
    }

    /// Begins [`reduce_in_place`](Self::reduce_in_place).
    pub fn ireduce_in_place<'o, T: Plain>(
        &self,
        array: &'o mut [T],
        operator: impl Combine<T>,
        root: u32,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::reduce_in_place(array, operator, root))
    }

    /// Begins [`allreduce`](Self::allreduce).
    pub fn iallreduce<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
        operator: impl Combine<T>,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::reduction(CollectiveKind::Allreduce, input, output, operator))
    }

    /// Begins [`allreduce_in_place`](Self::allreduce_in_place).
    pub fn iallreduce_in_place<'o, T: Plain>(
        &self,
        array: &'o mut [T],
        operator: impl Combine<T>,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::reduction_in_place(CollectiveKind::Allreduce, array, operator))
    }

    /// Begins [`reduce_scatter`](Self::reduce_scatter).
    pub fn ireduce_scatter<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
        counts: &[usize],
        operator: impl Combine<T>,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::reduce_scatter(input, output, counts, operator))
    }

    /// Begins [`reduce_scatter_block`](Self::reduce_scatter_block).
    pub fn ireduce_scatter_block<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
        operator: impl Combine<T>,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::reduce_scatter_block(input, output, operator))
    }

    /// Begins [`reduce_scatter_in_place`](Self::reduce_scatter_in_place).
    pub fn ireduce_scatter_in_place<'o, T: Plain>(
        &self,
        array: &'o mut [T],
        counts: &[usize],
        operator: impl Combine<T>,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::reduce_scatter_in_place(array, counts, operator))
    }

    /// Begins [`reduce_scatter_block_in_place`](Self::reduce_scatter_block_in_place).
    pub fn ireduce_scatter_block_in_place<'o, T: Plain>(
        &self,
        array: &'o mut [T],
        operator: impl Combine<T>,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::reduce_scatter_block_in_place(array, operator, self.size()))
    }

    /// Begins [`scan`](Self::scan).
    pub fn iscan<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
        operator: impl Combine<T>,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::reduction(CollectiveKind::Scan, input, output, operator))
    }

    /// Begins [`scan_in_place`](Self::scan_in_place).
    pub fn iscan_in_place<'o, T: Plain>(
        &self,
        array: &'o mut [T],
        operator: impl Combine<T>,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::reduction_in_place(CollectiveKind::Scan, array, operator))
    }

    /// Begins [`exscan`](Self::exscan).
    pub fn iexscan<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
        operator: impl Combine<T>,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::reduction(CollectiveKind::Exscan, input, output, operator))
    }

    /// Begins [`exscan_in_place`](Self::exscan_in_place).
    pub fn iexscan_in_place<'o, T: Plain>(
        &self,
        array: &'o mut [T],
        operator: impl Combine<T>,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::reduction_in_place(CollectiveKind::Exscan, array, operator))
    }

    /// Begins [`gather`](Self::gather).
    pub fn igather<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
        root: u32,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::gather(input, output, root))
    }

    /// Begins [`gatherv`](Self::gatherv).
    pub fn igatherv<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
        counts: &[usize],
        root: u32,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::gatherv(input, output, counts, root))
    }

    /// Begins [`gather_in_place`](Self::gather_in_place).
    pub fn igather_in_place<'o, T: Plain>(
        &self,
        array: &'o mut [T],
        root: u32,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::gather_in_place(array, root, (self.rank(), self.size())))
    }

    /// Begins [`gatherv_in_place`](Self::gatherv_in_place).
    pub fn igatherv_in_place<'o, T: Plain>(
        &self,
        array: &'o mut [T],
        counts: &[usize],
        root: u32,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::gatherv_in_place(array, counts, root))
    }

    /// Begins [`scatter`](Self::scatter).
    pub fn iscatter<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
        root: u32,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::scatter(input, output, root))
    }

    /// Begins [`scatterv`](Self::scatterv).
    pub fn iscatterv<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
        counts: &[usize],
        root: u32,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::scatterv(input, output, counts, root))
    }

    /// Begins [`scatter_in_place`](Self::scatter_in_place).
    pub fn iscatter_in_place<'o, T: Plain>(
        &self,
        array: &'o mut [T],
        root: u32,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::scatter_in_place(array, root, (self.rank(), self.size())))
    }

    /// Begins [`scatterv_in_place`](Self::scatterv_in_place).
    pub fn iscatterv_in_place<'o, T: Plain>(
        &self,
        array: &'o mut [T],
        counts: &[usize],
        root: u32,
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::scatterv_in_place(array, counts, root))
    }

    /// Begins [`allgather`](Self::allgather).
    pub fn iallgather<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::allgather(input, output))
    }

    /// Begins [`allgather_in_place`](Self::allgather_in_place).
    pub fn iallgather_in_place<'o, T: Plain>(&self, array: &'o mut [T]) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::allgather_in_place(array, self.size()))
    }

    /// Begins [`allgatherv`](Self::allgatherv).
    pub fn iallgatherv<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
        counts: &[usize],
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::allgatherv(input, output, counts))
    }

    /// Begins [`allgatherv_in_place`](Self::allgatherv_in_place).
    pub fn iallgatherv_in_place<'o, T: Plain>(
        &self,
        array: &'o mut [T],
        counts: &[usize],
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::allgatherv_in_place(array, counts))
    }

    /// Begins [`alltoall`](Self::alltoall).
    pub fn ialltoall<'o, T: Plain>(&self, input: &[T], output: &'o mut [T]) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::alltoall(input, output, self.size()))
    }

    /// Begins [`alltoall_in_place`](Self::alltoall_in_place).
    pub fn ialltoall_in_place<'o, T: Plain>(&self, array: &'o mut [T]) -> Result<PendingCollective<'o, T>, Error> {
        self.begin(Form::alltoall_in_place(array, self.size()))
    }

    /// Begins [`alltoallv`](Self::alltoallv).
    pub fn ialltoallv<'o, T: Plain>(
        &self,
        input: &[T],
        output: &'o mut [T],
        counts: &[usize],
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.check_pairs(counts)?;
        self.begin(Form::alltoallv(input, output, counts))
    }

    /// Begins [`alltoallv_in_place`](Self::alltoallv_in_place).
    pub fn ialltoallv_in_place<'o, T: Plain>(
        &self,
        array: &'o mut [T],
        counts: &[usize],
    ) -> Result<PendingCollective<'o, T>, Error> {
        self.check_swaps(counts)?;
        self.begin(Form::alltoallv_in_place(array, counts))
    }
}
