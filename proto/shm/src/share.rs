//! The work of a collective within a node, cut anywhere: what a share of it reads and writes.
//!
//! All members' buffers are at hand, so no schedule is needed: a share is a range of units, and a unit an element of the
//! vector, of the parts one behind the other, or of what goes from each to each. Elements are combined in the order of the
//! members, whoever does it, so results depend neither on who comes when nor on how the work is cut.

use std::ops::Range;

use ropeway_proto::Layout;
use ropeway_proto::collective::{CollectiveKind, CollectiveMember, CollectiveShape};
use ropeway_proto::operator::{ElementType, Operator};

use crate::job::{JobSegment, OutOfBounds};

/// The work of all members.
pub(crate) struct Share {
    shape: CollectiveShape,
    /// Each member's, as offsets in the segment.
    inputs: Vec<u64>,
    outputs: Vec<u64>,
    element_bytes: u64,
    combination: Option<(Operator, ElementType)>,
    /// What moves where, in order, for operations that deal in parts.
    parts: Vec<Part>,
}

/// Elements that stay together.
struct Part {
    /// First unit and number of units.
    at: u64,
    length: u64,
    /// Offsets in the segment, or of a vector that several members have.
    from: u64,
    to: u64,
}

impl Share {
    /// `None` if the members don't say the same, or not all are there, in order.
    pub(crate) fn new(members: &[CollectiveMember]) -> Option<Self> {
        let shape = members.first()?.shape.clone();
        let is_alike =
            |(rank, member): (usize, &CollectiveMember)| member.rank as usize == rank && member.shape == shape;
        if members.len() != shape.members.len() || !members.iter().enumerate().all(is_alike) {
            return None;
        }
        shape.check().ok()?;
        let offsets = |of: fn(&CollectiveMember) -> u64| members.iter().map(of).collect();
        let mut share = Self {
            inputs: offsets(|member| member.input),
            outputs: offsets(|member| member.output),
            element_bytes: shape.element_bytes.into(),
            combination: shape.combination(),
            parts: Vec::new(),
            shape,
        };
        share.parts = share.cut();
        Some(share)
    }

    fn cut(&self) -> Vec<Part> {
        let (shape, bytes, root) = (&self.shape, self.element_bytes, self.shape.root as usize);
        let mut parts = Vec::new();
        let mut at = 0;
        let mut push = |length: u64, from: u64, to: u64| {
            parts.push(Part { at, length, from, to });
            at += length;
        };
        match shape.kind {
            CollectiveKind::Gather | CollectiveKind::Scatter => {
                let mut before = 0;
                for rank in 0..shape.size() {
                    let (length, own) = (shape.part(rank), rank as usize);
                    let (from, to) = match shape.kind {
                        CollectiveKind::Gather => (self.inputs[own], self.outputs[root] + before * bytes),
                        _ => (self.inputs[root] + before * bytes, self.outputs[own]),
                    };
                    push(length, from, to);
                    before += length;
                }
            }
            CollectiveKind::Allgather | CollectiveKind::ReduceScatter => {
                for rank in 0..shape.size() {
                    push(shape.part(rank), self.inputs[rank as usize], self.outputs[rank as usize]);
                }
            }
            CollectiveKind::Alltoall => {
                let mut filled = vec![0; shape.members.len()];
                for from in 0..shape.size() {
                    let mut before = 0;
                    for to in 0..shape.size() {
                        let (length, target) = (shape.pair(from, to), to as usize);
                        let source = self.inputs[from as usize] + before * bytes;
                        push(length, source, self.outputs[target] + filled[target] * bytes);
                        before += length;
                        filled[target] += length;
                    }
                }
            }
            _ => {}
        }
        parts
    }

    /// Into how many units the work can be cut.
    pub(crate) fn units(&self) -> u64 {
        match self.parts.last() {
            Some(last) => last.at + last.length,
            None => self.shape.counts.first().copied().unwrap_or(0),
        }
    }

    /// About how many bytes are read and written.
    pub(crate) fn work_bytes(&self) -> u64 {
        let members = self.inputs.len() as u64;
        let factor = match self.shape.kind {
            CollectiveKind::Allreduce | CollectiveKind::Scan | CollectiveKind::Exscan => 2 * members,
            CollectiveKind::Bcast
            | CollectiveKind::Reduce
            | CollectiveKind::ReduceScatter
            | CollectiveKind::Allgather => members,
            _ => 1,
        };
        self.units().saturating_mul(self.element_bytes).saturating_mul(factor)
    }

    /// Does the work of some units.
    pub(crate) fn work(&self, job: &JobSegment, units: Range<u64>) -> Result<(), OutOfBounds> {
        if units.is_empty() {
            return Ok(());
        }
        match self.shape.kind {
            CollectiveKind::Barrier => Ok(()),
            CollectiveKind::Bcast => self.spread(job, self.shape.root as usize, &units),
            CollectiveKind::Reduce => self.fold(job, self.outputs[self.shape.root as usize], &units),
            CollectiveKind::Allreduce => {
                self.fold(job, self.outputs[0], &units)?;
                self.spread(job, 0, &units)
            }
            CollectiveKind::Scan => self.scan(job, &units),
            CollectiveKind::Exscan => self.exscan(job, &units),
            _ => self.each_part(&units, |part, within| match self.shape.kind {
                CollectiveKind::ReduceScatter => {
                    let whole = part.at + within.start..part.at + within.end;
                    // The result begins where the member's part does, not where the vector does.
                    self.fold(job, part.to.wrapping_sub(part.at * self.element_bytes), &whole)
                }
                CollectiveKind::Allgather => self
                    .outputs
                    .iter()
                    .try_for_each(|&output| self.copy(job, part.from, output + part.at * self.element_bytes, &within)),
                _ => self.copy(job, part.from, part.to, &within),
            }),
        }
    }

    /// The parts that have some of the units, and which of their own elements those are.
    fn each_part(
        &self,
        units: &Range<u64>,
        mut act: impl FnMut(&Part, Range<u64>) -> Result<(), OutOfBounds>,
    ) -> Result<(), OutOfBounds> {
        let first = self.parts.partition_point(|part| part.at + part.length <= units.start);
        for part in self.parts[first..].iter().take_while(|part| part.at < units.end) {
            let within = units.start.max(part.at) - part.at..units.end.min(part.at + part.length) - part.at;
            if !within.is_empty() {
                act(part, within)?;
            }
        }
        Ok(())
    }

    /// Copies one member's output to all others'.
    fn spread(&self, job: &JobSegment, from: usize, units: &Range<u64>) -> Result<(), OutOfBounds> {
        self.outputs.iter().try_for_each(|&to| self.copy(job, self.outputs[from], to, units))
    }

    /// Copies elements of one vector to the same place of another. In place, they are there already.
    fn copy(&self, job: &JobSegment, from: u64, to: u64, elements: &Range<u64>) -> Result<(), OutOfBounds> {
        if from == to {
            return Ok(());
        }
        let (skipped, bytes) =
            (elements.start * self.element_bytes, (elements.end - elements.start) * self.element_bytes);
        let (from, to) = (Layout::contiguous(from + skipped, bytes), Layout::contiguous(to + skipped, bytes));
        job.copy(&from, 0, &to, 0, bytes)
    }

    /// Combines elements of all inputs.
    fn fold(&self, job: &JobSegment, into: u64, elements: &Range<u64>) -> Result<(), OutOfBounds> {
        self.combine(job, &self.inputs, into, elements)
    }

    fn combine(&self, job: &JobSegment, sources: &[u64], into: u64, elements: &Range<u64>) -> Result<(), OutOfBounds> {
        let Some((operator, element)) = self.combination else { return Ok(()) };
        let skipped = elements.start * self.element_bytes;
        job.fold(operator, element, (sources, skipped), into.wrapping_add(skipped), elements.end - elements.start)
    }

    fn scan(&self, job: &JobSegment, units: &Range<u64>) -> Result<(), OutOfBounds> {
        self.copy(job, self.inputs[0], self.outputs[0], units)?;
        (1..self.inputs.len()).try_for_each(|rank| {
            let sources = [self.outputs[rank - 1], self.inputs[rank]];
            self.combine(job, &sources, self.outputs[rank], units)
        })
    }

    /// From the last to the first, because in place an output takes the place of an input that those behind it need.
    fn exscan(&self, job: &JobSegment, units: &Range<u64>) -> Result<(), OutOfBounds> {
        (1..self.inputs.len())
            .rev()
            .try_for_each(|rank| self.combine(job, &self.inputs[..rank], self.outputs[rank], units))
    }
}
