//! What the steps of a schedule work on.

use std::ops::Range;

use ropeway::Operator;
use ropeway_schedule::{Buffer, Schedule, Slice};

use crate::contribution::{Contribution, Element};
use crate::mid_page::MidPage;

/// One rank's input, output and scratch, one behind the other: so a step may read one of them and write to another.
pub(crate) struct Memory<T> {
    operator: Operator,
    pub(crate) elements: MidPage<T>,
    input: Range<usize>,
    output: Range<usize>,
}

impl<T: Element> Memory<T> {
    pub(crate) fn new(contribution: &Contribution, schedule: &Schedule) -> Self {
        let Contribution { call, rank, size, count, .. } = *contribution;
        let (operator, shape) = (call.operator, call.shape(size, count));
        let input = 0..shape.input_elements(rank) as usize;
        let output = input.end..input.end + shape.output_elements(rank) as usize;
        let elements = MidPage::new(T::of(operator, 0), output.end + schedule.scratch_elements() as usize);
        Self { operator, elements, input, output }
    }

    pub(crate) fn input_mut(&mut self) -> &mut [T] {
        &mut self.elements[self.input.clone()]
    }

    pub(crate) fn output(&self) -> &[T] {
        &self.elements[self.output.clone()]
    }

    pub(crate) fn output_mut(&mut self) -> &mut [T] {
        &mut self.elements[self.output.clone()]
    }

    /// Where a slice is among the elements.
    pub(crate) fn place(&self, slice: Slice) -> Range<usize> {
        let start = match slice.buffer {
            Buffer::Input => self.input.start,
            Buffer::Output => self.output.start,
            Buffer::Scratch => self.output.end,
        };
        start + slice.offset as usize..start + slice.end() as usize
    }

    pub(crate) fn copy(&mut self, from: &Range<usize>, into: &Range<usize>) {
        self.elements.copy_within(from.clone(), into.start);
    }

    pub(crate) fn combine(&mut self, from: &Range<usize>, into: &Range<usize>) {
        let (from, into) = apart(&mut self.elements, from, into);
        combine(self.operator, from, into);
    }
}

/// Two places that do not overlap: one to read, one to write.
fn apart<'a, T>(elements: &'a mut [T], from: &Range<usize>, into: &Range<usize>) -> (&'a [T], &'a mut [T]) {
    if from.end <= into.start {
        let (left, right) = elements.split_at_mut(into.start);
        (&left[from.clone()], &mut right[..into.len()])
    } else {
        let (left, right) = elements.split_at_mut(from.start);
        (&right[..from.len()], &mut left[into.clone()])
    }
}

/// Element by element, in a loop for each operator.
fn combine<T: Element>(operator: Operator, from: &[T], into: &mut [T]) {
    macro_rules! loops {
        ($($name:ident)*) => {
            match operator {
                $(Operator::$name => into.iter_mut().zip(from).for_each(|(into, &from)| {
                    *into = T::combine(Operator::$name, from, *into);
                }),)*
            }
        };
    }
    loops!(Sum Prod Min Max BitAnd BitOr BitXor And Or Xor MinLoc MaxLoc);
}
