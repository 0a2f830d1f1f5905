//! What a small collective between nodes of one rank each is made of: a message from each rank straight to each other that needs it, and
//! what is left to be done when all have come.
//!
//! Schedules of daemons save messages, and combine on the way. Where messages are small and ranks few, what counts is how often somebody has to
//! wait for another: here once. It costs (p − 1) messages of each rank, so it is for few ranks.

use ropeway_proto::collective::{CollectiveKind as Kind, CollectiveShape};
use ropeway_proto::limits::BUFFER_ALIGN;
use ropeway_proto::operator::{ElementType, Operator};
use ropeway_shm::JobSegment;

/// A part of a member's memory: where it lies in the segment, and how much it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
}

/// What one member does in a round.
#[derive(Debug)]
pub(crate) struct Crossing {
    /// What comes from whom, and where to.
    pub(crate) received: Vec<(u32, Part)>,
    /// What goes to whom.
    pub(crate) sent: Vec<(u32, Part)>,
    /// What is copied when all has come and gone, and where to.
    copies: Vec<(Part, u64)>,
    fold: Option<Fold>,
    /// Something goes between any two members.
    pub(crate) joins_all: bool,
}

/// What is combined when all has come and gone, in the order of the members.
#[derive(Debug)]
struct Fold {
    operator: Operator,
    element: ElementType,
    operands: Vec<u64>,
    into: u64,
    elements: u64,
}

/// Where a member's memory lies in the segment.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) input: u64,
    pub(super) output: u64,
    /// For operands, and for what can't come to its place before all has gone.
    pub(super) scratch: u64,
}

/// Bytes of scratch memory that a member needs.
pub(super) fn scratch_bytes(shape: &CollectiveShape, me: u32) -> u64 {
    let (_, output) = shape.elements(me);
    match shape.kind {
        Kind::Alltoall => output * u64::from(shape.element_bytes),
        kind if kind.combines() => u64::from(shape.size()) * operand_bytes(shape, me),
        _ => 0,
    }
}

/// Room for an operand that has come from another member.
fn operand_bytes(shape: &CollectiveShape, me: u32) -> u64 {
    (operand_elements(shape, me) * u64::from(shape.element_bytes)).next_multiple_of(BUFFER_ALIGN)
}

/// Elements of what a member combines.
fn operand_elements(shape: &CollectiveShape, me: u32) -> u64 {
    if shape.kind == Kind::ReduceScatter { shape.part(me) } else { shape.counts[0] }
}

/// A member of a collective, and where its memory lies.
struct Place<'a> {
    shape: &'a CollectiveShape,
    me: u32,
    memory: Places,
}

impl Crossing {
    /// Of member `me`.
    pub(super) fn new(shape: &CollectiveShape, me: u32, memory: Places) -> Self {
        let place = Place { shape, me, memory };
        let others = || (0..shape.size()).filter(|&other| other != me);
        let received = others().filter_map(|other| Some((other, place.incoming(other)?))).collect();
        let sent = others().filter_map(|other| Some((other, place.outgoing(other)?))).collect();
        Self { received, sent, copies: place.copies(), fold: place.fold(), joins_all: !shape.kind.has_root() }
    }

    /// Does what is left when all has come and gone.
    pub(crate) fn finish(&self, job: &JobSegment) {
        // All of it lies in this rank's own memory, which is there.
        for &(Part { at, bytes }, to) in &self.copies {
            let _ = job.copy_range(at, to, bytes);
        }
        if let Some(Fold { operator, element, operands, into, elements }) = &self.fold {
            let _ = job.fold(*operator, *element, (operands, &[*into]), 0, *elements);
        }
    }
}

impl Place<'_> {
    fn part(&self, begin: u64, before: u64, elements: u64) -> Part {
        let element_bytes = u64::from(self.shape.element_bytes);
        Part { at: begin + before * element_bytes, bytes: elements * element_bytes }
    }

    /// What goes to another member, if anything does.
    fn outgoing(&self, to: u32) -> Option<Part> {
        let Self { shape, me, memory: Places { input, output, .. } } = *self;
        let (is_root, to_root) = (me == shape.root, to == shape.root);
        match shape.kind {
            Kind::Barrier => Some(self.part(input, 0, 0)),
            Kind::Bcast => is_root.then(|| self.part(output, 0, shape.counts[0])),
            Kind::Reduce => to_root.then(|| self.part(input, 0, shape.counts[0])),
            Kind::Allreduce => Some(self.part(input, 0, shape.counts[0])),
            Kind::Scan | Kind::Exscan => (to > me).then(|| self.part(input, 0, shape.counts[0])),
            Kind::ReduceScatter => Some(self.part(input, shape.before(to), shape.part(to))),
            Kind::Gather => to_root.then(|| self.part(input, 0, shape.part(me))),
            Kind::Scatter => is_root.then(|| self.part(input, shape.before(to), shape.part(to))),
            Kind::Allgather => Some(self.part(input, 0, shape.part(me))),
            Kind::Alltoall => Some(self.part(input, self.pairs_before(to, |other| (me, other)), shape.pair(me, to))),
        }
    }

    /// Where what comes from another member is to lie, if anything comes.
    fn incoming(&self, from: u32) -> Option<Part> {
        let Self { shape, me, memory: Places { output, .. } } = *self;
        let (is_root, from_root) = (me == shape.root, from == shape.root);
        match shape.kind {
            Kind::Barrier => Some(self.part(output, 0, 0)),
            Kind::Bcast => from_root.then(|| self.part(output, 0, shape.counts[0])),
            Kind::Reduce => is_root.then(|| self.operand(from)),
            Kind::Scan | Kind::Exscan => (from < me).then(|| self.operand(from)),
            Kind::Allreduce | Kind::ReduceScatter => Some(self.operand(from)),
            Kind::Gather => is_root.then(|| self.part(output, shape.before(from), shape.part(from))),
            Kind::Scatter => from_root.then(|| self.part(output, 0, shape.part(me))),
            Kind::Allgather => Some(self.part(output, shape.before(from), shape.part(from))),
            Kind::Alltoall => Some(self.swapped(from)),
        }
    }

    /// What `from` has for us in an alltoall: in its place, unless that is what goes there first.
    fn swapped(&self, from: u32) -> Part {
        let Places { input, output, scratch } = self.memory;
        let begin = if input == output { scratch } else { output };
        self.part(begin, self.pairs_before(from, |other| (other, self.me)), self.shape.pair(from, self.me))
    }

    /// Elements of the parts of an alltoall before that of a member.
    fn pairs_before(&self, member: u32, pair: impl Fn(u32) -> (u32, u32)) -> u64 {
        let elements = |(from, to)| self.shape.pair(from, to);
        (0..member).map(|other| elements(pair(other))).sum()
    }

    /// Where another member's operand lies when it has come.
    fn operand(&self, from: u32) -> Part {
        let begin = self.memory.scratch + u64::from(from) * operand_bytes(self.shape, self.me);
        self.part(begin, 0, operand_elements(self.shape, self.me))
    }

    /// This member's own part, if it has to be copied; and what has come to scratch memory.
    fn copies(&self) -> Vec<(Part, u64)> {
        let Self { shape, me, memory: Places { input, output, .. } } = *self;
        let is_root = me == shape.root;
        let own = match shape.kind {
            Kind::Gather if is_root => Some((self.part(input, 0, shape.part(me)), shape.before(me))),
            Kind::Scatter if is_root => Some((self.part(input, shape.before(me), shape.part(me)), 0)),
            Kind::Allgather => Some((self.part(input, 0, shape.part(me)), shape.before(me))),
            Kind::Alltoall => {
                let before = |pair: fn(u32, u32) -> (u32, u32)| self.pairs_before(me, |other| pair(me, other));
                let from = self.part(input, before(|me, other| (me, other)), shape.pair(me, me));
                Some((from, before(|me, other| (other, me))))
            }
            _ => None,
        };
        let own = own.map(|(from, before)| (from, self.part(output, before, 0).at));
        let others = (0..shape.size()).filter(|&other| shape.kind == Kind::Alltoall && other != me).map(|from| {
            let to = self.part(output, self.pairs_before(from, |other| (other, me)), 0);
            (self.swapped(from), to.at)
        });
        own.into_iter().chain(others).filter(|&(Part { at, bytes }, to)| at != to && bytes > 0).collect()
    }

    fn fold(&self) -> Option<Fold> {
        let Self { shape, me, memory: Places { input, output, .. } } = *self;
        let (operator, element) = shape.combination()?;
        let own = match shape.kind {
            Kind::ReduceScatter => Some(self.part(input, shape.before(me), 0).at),
            Kind::Exscan => None,
            _ => Some(input),
        };
        let operand = |member: u32| if member == me { own } else { self.incoming(member).map(|operand| operand.at) };
        let operands: Vec<_> = (0..shape.size()).filter_map(operand).collect();
        let gets_result = (shape.kind != Kind::Reduce || me == shape.root) && !operands.is_empty();
        let elements = operand_elements(shape, me);
        gets_result.then_some(Fold { operator, element, operands, into: output, elements })
    }
}
