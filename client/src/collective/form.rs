//! The forms of calls: which arrays belong to which collective, and how long they have to be.

use std::ops::Range;

use ropeway_proto::collective::{CollectiveKind, CollectiveShape};

use super::call::{Call, Counts};
use super::registration::in_place;
use crate::{Combine, Error, Plain};

/// A call with this rank's arrays.
pub(super) struct Form<'i, 'o, T> {
    pub(super) call: Call<'i>,
    /// `None` if the output holds it.
    pub(super) input: Option<&'i [T]>,
    pub(super) output: &'o mut [T],
}

impl<'i, 'o, T: Plain> Form<'i, 'o, T> {
    fn apart(call: Call<'i>, input: &'i [T], output: &'o mut [T]) -> Self {
        Self { call, input: Some(input), output }
    }

    fn in_place(call: Call<'i>, output: &'o mut [T]) -> Self {
        Self { call, input: None, output }
    }

    pub(super) fn bcast(array: &'o mut [T], root: u32) -> Self {
        Self::in_place(Call::new::<T>(CollectiveKind::Bcast, root, Counts::Alike(array.len())), array)
    }

    pub(super) fn gather(input: &'i [T], output: &'o mut [T], root: u32) -> Self {
        Self::apart(Call::new::<T>(CollectiveKind::Gather, root, Counts::Alike(input.len())), input, output)
    }

    pub(super) fn gather_in_place(array: &'o mut [T], root: u32, (rank, ranks): (u32, u32)) -> Self {
        let part = Counts::Alike(part_at_root(array.len(), rank == root, ranks));
        Self::in_place(Call::new::<T>(CollectiveKind::Gather, root, part), array)
    }

    pub(super) fn gatherv_in_place(array: &'o mut [T], counts: &'i [usize], root: u32) -> Self {
        Self::in_place(Call::new::<T>(CollectiveKind::Gather, root, Counts::each(counts)), array)
    }

    pub(super) fn gatherv(input: &'i [T], output: &'o mut [T], counts: &'i [usize], root: u32) -> Self {
        Self::apart(Call::new::<T>(CollectiveKind::Gather, root, Counts::each(counts)), input, output)
    }

    pub(super) fn scatter(input: &'i [T], output: &'o mut [T], root: u32) -> Self {
        Self::apart(Call::new::<T>(CollectiveKind::Scatter, root, Counts::Alike(output.len())), input, output)
    }

    pub(super) fn scatter_in_place(array: &'o mut [T], root: u32, (rank, ranks): (u32, u32)) -> Self {
        let part = Counts::Alike(part_at_root(array.len(), rank == root, ranks));
        Self::in_place(Call::new::<T>(CollectiveKind::Scatter, root, part), array)
    }

    pub(super) fn scatterv_in_place(array: &'o mut [T], counts: &'i [usize], root: u32) -> Self {
        Self::in_place(Call::new::<T>(CollectiveKind::Scatter, root, Counts::each(counts)), array)
    }

    pub(super) fn scatterv(input: &'i [T], output: &'o mut [T], counts: &'i [usize], root: u32) -> Self {
        Self::apart(Call::new::<T>(CollectiveKind::Scatter, root, Counts::each(counts)), input, output)
    }

    pub(super) fn allgather(input: &'i [T], output: &'o mut [T]) -> Self {
        Self::apart(Call::new::<T>(CollectiveKind::Allgather, 0, Counts::Alike(input.len())), input, output)
    }

    pub(super) fn allgather_in_place(array: &'o mut [T], ranks: u32) -> Self {
        let part = Counts::Alike(array.len() / ranks as usize);
        Self::in_place(Call::new::<T>(CollectiveKind::Allgather, 0, part), array)
    }

    pub(super) fn allgatherv(input: &'i [T], output: &'o mut [T], counts: &'i [usize]) -> Self {
        Self::apart(Call::new::<T>(CollectiveKind::Allgather, 0, Counts::each(counts)), input, output)
    }

    pub(super) fn allgatherv_in_place(array: &'o mut [T], counts: &'i [usize]) -> Self {
        Self::in_place(Call::new::<T>(CollectiveKind::Allgather, 0, Counts::each(counts)), array)
    }

    pub(super) fn alltoall(input: &'i [T], output: &'o mut [T], ranks: u32) -> Self {
        let part = Counts::Alike(input.len() / ranks as usize);
        Self::apart(Call::new::<T>(CollectiveKind::Alltoall, 0, part), input, output)
    }

    pub(super) fn alltoall_in_place(array: &'o mut [T], ranks: u32) -> Self {
        let part = Counts::Alike(array.len() / ranks as usize);
        Self::in_place(Call::new::<T>(CollectiveKind::Alltoall, 0, part), array)
    }

    pub(super) fn alltoallv(input: &'i [T], output: &'o mut [T], counts: &'i [usize]) -> Self {
        Self::apart(Call::new::<T>(CollectiveKind::Alltoall, 0, Counts::each(counts)), input, output)
    }

    pub(super) fn alltoallv_in_place(array: &'o mut [T], counts: &'i [usize]) -> Self {
        Self::in_place(Call::new::<T>(CollectiveKind::Alltoall, 0, Counts::each(counts)), array)
    }
}

/// Elements of a part, where the root's array has them all and everybody else's is one.
fn part_at_root(elements: usize, is_root: bool, ranks: u32) -> usize {
    if is_root { elements / ranks as usize } else { elements }
}

impl Form<'static, 'static, u8> {
    pub(super) fn barrier() -> Self {
        Self::apart(Call::new::<u8>(CollectiveKind::Barrier, 0, Counts::Alike(0)), &[], &mut [])
    }
}

/// With `kind` one of allreduce, scan and exscan.
impl<'i, 'o, T: Plain> Form<'i, 'o, T> {
    pub(super) fn reduction(
        kind: CollectiveKind,
        input: &'i [T],
        output: &'o mut [T],
        operator: impl Combine<T>,
    ) -> Self {
        Self::apart(Call::combining::<T>(kind, Counts::Alike(input.len()), operator), input, output)
    }

    pub(super) fn reduction_in_place(kind: CollectiveKind, array: &'o mut [T], operator: impl Combine<T>) -> Self {
        Self::in_place(Call::combining::<T>(kind, Counts::Alike(array.len()), operator), array)
    }

    pub(super) fn reduce(input: &'i [T], output: &'o mut [T], operator: impl Combine<T>, root: u32) -> Self {
        Self::reduction(CollectiveKind::Reduce, input, output, operator).with_root(root)
    }

    pub(super) fn reduce_in_place(array: &'o mut [T], operator: impl Combine<T>, root: u32) -> Self {
        Self::reduction_in_place(CollectiveKind::Reduce, array, operator).with_root(root)
    }

    pub(super) fn reduce_scatter(
        input: &'i [T],
        output: &'o mut [T],
        counts: &'i [usize],
        operator: impl Combine<T>,
    ) -> Self {
        Self::apart(Call::combining::<T>(CollectiveKind::ReduceScatter, Counts::each(counts), operator), input, output)
    }

    pub(super) fn reduce_scatter_block(input: &'i [T], output: &'o mut [T], operator: impl Combine<T>) -> Self {
        let part = Counts::Alike(output.len());
        Self::apart(Call::combining::<T>(CollectiveKind::ReduceScatter, part, operator), input, output)
    }

    pub(super) fn reduce_scatter_in_place(array: &'o mut [T], counts: &'i [usize], operator: impl Combine<T>) -> Self {
        Self::in_place(Call::combining::<T>(CollectiveKind::ReduceScatter, Counts::each(counts), operator), array)
    }

    pub(super) fn reduce_scatter_block_in_place(array: &'o mut [T], operator: impl Combine<T>, ranks: u32) -> Self {
        let part = Counts::Alike(array.len() / ranks as usize);
        Self::in_place(Call::combining::<T>(CollectiveKind::ReduceScatter, part, operator), array)
    }

    fn with_root(mut self, root: u32) -> Self {
        self.call = self.call.with_root(root);
        self
    }
}

/// What a rank's arrays have to be like, in elements.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    input: usize,
    output: usize,
    /// Elements before the input and before the output, if one array has both.
    in_place: (usize, usize),
    /// Elements of the output that change.
    filled: usize,
    /// An array that only the root has is not looked at elsewhere.
    needs_input: bool,
    needs_output: bool,
}

impl Extent {
    pub(super) fn of(shape: &CollectiveShape, rank: u32) -> Self {
        let (input, output) = shape.elements(rank);
        let is_root = rank == shape.root;
        let sends = is_root && shape.kind == CollectiveKind::Bcast;
        let is_first = rank == 0 && shape.kind == CollectiveKind::Exscan;
        let (input_at, output_at) = in_place(shape, rank);
        Self {
            input: if sends { output } else { input } as usize,
            output: output as usize,
            in_place: (input_at as usize, output_at as usize),
            filled: if sends || is_first { 0 } else { output as usize },
            needs_input: is_root || shape.kind != CollectiveKind::Scatter,
            needs_output: is_root || !matches!(shape.kind, CollectiveKind::Reduce | CollectiveKind::Gather),
        }
    }

    /// Checks the arrays of a call, before anything is done.
    pub(super) fn check<T>(&self, form: &Form<'_, '_, T>) -> Result<(), Error> {
        let is_long = |array, elements, expected| {
            if elements == expected { Ok(()) } else { Err(Error::WrongLength { array, elements, expected }) }
        };
        let Some(input) = form.input else {
            let both = (self.in_place.0 + self.input).max(self.in_place.1 + self.output);
            return is_long("array", form.output.len(), both);
        };
        if self.needs_input {
            is_long("input", input.len(), self.input)?;
        }
        if self.needs_output {
            is_long("output", form.output.len(), self.output)?;
        }
        Ok(())
    }

    /// What this rank contributes.
    pub(super) fn input<'a, T>(&self, form: &'a Form<'_, '_, T>) -> &'a [T] {
        match form.input {
            Some(input) => &input[..self.input],
            None => &form.output[self.in_place.0..][..self.input],
        }
    }

    /// The elements of the array that change.
    pub(super) fn output(&self, is_in_place: bool) -> Range<usize> {
        let begin = if is_in_place { self.in_place.1 } else { 0 };
        begin..begin + self.filled
    }
}
