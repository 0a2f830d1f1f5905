//! What a schedule consists of: steps over slices of three buffers.

/// Where a slice lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// What the participant brings. Never written to.
    Input,
    /// Where the result belongs; in place, also what the participant brings.
    Output,
    /// The schedule's own, [`Schedule::scratch_elements`] long. Its content means nothing between two executions.
    Scratch,
}

/// A contiguous part of a buffer, in elements: so a schedule does not depend on the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub struct Slice {
    pub buffer: Buffer,
    pub offset: u64,
    pub length: u64,
}

impl Slice {
    /// The first `length` elements of a buffer.
    pub const fn first(buffer: Buffer, length: u64) -> Self {
        Self { buffer, offset: 0, length }
    }

    /// One past the last element.
    pub const fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// A part, counted from the start of this slice.
    #[must_use]
    pub fn part(&self, offset: u64, length: u64) -> Self {
        assert!(offset + length <= self.length, "a part lies inside of its whole");
        Self { buffer: self.buffer, offset: self.offset + offset, length }
    }

    /// Whether an element is in both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.buffer == other.buffer && self.offset < other.end() && other.offset < self.end()
    }
}

/// On which side of the accumulated value a new operand stands. It matters if the operator does not commute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// `into = from ∘ into`.
    Left,
    /// `into = into ∘ from`.
    Right,
}

/// What a step does.
///
/// Messages need no tags: the k-th `Send` to a peer meets its k-th `Recv` from us, in the order of the steps, whatever
/// the order of execution; likewise the k-th `Signal` and the k-th `Wait`. So each pair is a channel that is bound once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Action {
    /// Done when the slice may be written to again.
    Send { peer: u32, from: Slice },
    /// Done when the message is there.
    Recv { peer: u32, into: Slice },
    /// Applies the operator element by element.
    Combine { from: Slice, into: Slice, side: Side },
    /// Both slices are equally long and do not overlap.
    Copy { from: Slice, into: Slice },
    /// A message without payload. Done at once.
    Signal { peer: u32 },
    /// Done when the signal is there.
    Wait { peer: u32 },
}

impl Action {
    /// The slice it reads besides the one it writes to.
    pub const fn reads(&self) -> Option<Slice> {
        match *self {
            Self::Send { from, .. } | Self::Combine { from, .. } | Self::Copy { from, .. } => Some(from),
            Self::Recv { .. } | Self::Signal { .. } | Self::Wait { .. } => None,
        }
    }

    /// The slice it writes to.
    pub const fn writes(&self) -> Option<Slice> {
        match *self {
            Self::Recv { into, .. } | Self::Combine { into, .. } | Self::Copy { into, .. } => Some(into),
            Self::Send { .. } | Self::Signal { .. } | Self::Wait { .. } => None,
        }
    }
}

/// A vertex of the schedule's graph. What must be done before it: [`Schedule::after`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub action: Action,
    /// Its dependencies, a range of the schedule's table.
    after: (u32, u32),
}

/// What one participant does: a directed acyclic graph of steps.
///
/// Pure data: it can be executed any number of times, and each participant makes its own without talking to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    me: u32,
    size: u32,
    steps: Vec<Step>,
    /// Dependencies of all steps, one after the other: one allocation instead of one a step.
    edges: Vec<u32>,
    scratch_elements: u64,
}

impl Schedule {
    /// One without steps.
    pub const fn new(me: u32, size: u32) -> Self {
        Self { me, size, steps: Vec::new(), edges: Vec::new(), scratch_elements: 0 }
    }

    /// The participant it was made for.
    pub const fn me(&self) -> u32 {
        self.me
    }

    /// How many participants there are.
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Its steps; an index into them names a step.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The steps that must be done before this one: smaller indices, ascending.
    pub fn after(&self, step: u32) -> &[u32] {
        let (start, end) = self.steps[step as usize].after;
        &self.edges[start as usize..end as usize]
    }

    /// How much scratch memory it needs.
    pub const fn scratch_elements(&self) -> u64 {
        self.scratch_elements
    }

    /// Adds scratch memory, and says where it is.
    pub fn add_scratch(&mut self, length: u64) -> Slice {
        let slice = Slice { buffer: Buffer::Scratch, offset: self.scratch_elements, length };
        self.scratch_elements += length;
        slice
    }

    /// Adds a step that waits for others, and says its index. What it must wait for is the caller's business; `check`
    /// refuses schedules where it is too little.
    pub fn push(&mut self, action: Action, after: &[u32]) -> u32 {
        let start = index(self.edges.len());
        self.edges.extend_from_slice(after);
        self.edges[start as usize..].sort_unstable();
        self.steps.push(Step { action, after: (start, index(self.edges.len())) });
        index(self.steps.len() - 1)
    }

    /// The edges the other way around: an executor counts down what a step still waits for.
    pub fn dependents(&self) -> Dependents {
        let length = index(self.steps.len());
        let edges = (0..length).flat_map(|step| self.after(step).iter().map(move |&other| (other, step)));
        let mut edges: Vec<_> = edges.collect();
        edges.sort_unstable();
        let starts = (0..=length).map(|step| index(edges.partition_point(|&(other, _)| other < step))).collect();
        Dependents { starts, steps: edges.into_iter().map(|(_, step)| step).collect() }
    }

    /// Gives back what it holds beyond its content.
    pub fn shrink(&mut self) {
        self.steps.shrink_to_fit();
        self.edges.shrink_to_fit();
    }
}

/// The steps that wait for each step. Made once, by whoever executes a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependents {
    starts: Vec<u32>,
    steps: Vec<u32>,
}

impl Dependents {
    /// The steps that wait for this one, ascending.
    pub fn of(&self, step: u32) -> &[u32] {
        let step = step as usize;
        &self.steps[self.starts[step] as usize..self.starts[step + 1] as usize]
    }
}

fn index(length: usize) -> u32 {
    u32::try_from(length).expect("a schedule has fewer than four billion steps and dependencies")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependents_are_the_edges_the_other_way_around() {
        let mut schedule = Schedule::new(0, 2);
        let wait = |schedule: &mut Schedule, after: &[u32]| schedule.push(Action::Wait { peer: 1 }, after);
        let first = wait(&mut schedule, &[]);
        let second = wait(&mut schedule, &[first]);
        let third = wait(&mut schedule, &[second, first]);
        assert_eq!(schedule.after(third), [first, second]);
        let dependents = schedule.dependents();
        assert_eq!((dependents.of(first), dependents.of(second)), (&[second, third][..], &[third][..]));
        assert!(dependents.of(third).is_empty());
    }
}
