//! The work of a collective within a node, cut anywhere: what a share of it reads and writes.
//!
//! All buffers are at hand, so no schedule is needed: work is a list of tasks, each over vectors of so many elements, and a
//! share of it a range of elements of all tasks one behind the other. Elements are combined in the order of the members,
//! whoever does it, so results depend neither on who comes when nor on how the work is cut.

mod spanning;
mod within;

use std::ops::{Range, RangeInclusive};
use std::slice;
use std::sync::{Arc, Mutex};

use ropeway_proto::collective::{CollectiveMember, CollectiveShape};
use ropeway_proto::operator::{ElementType, Operator};

use crate::cache;
use crate::job::{JobSegment, OutOfBounds};
use crate::prefetch::prefetch;
use crate::user_function::UserFunction;

pub use spanning::own_buffers;
pub(crate) use spanning::{after, before, opener};
pub(crate) use within::{between_pairs, within};

/// Work on memory of the segment.
pub(crate) struct Share {
    tasks: Vec<Task>,
    element_bytes: u64,
    operator: ShareOperator,
    /// About how many are read and written by all tasks.
    work_bytes: u64,
    /// From how many on copies go past the caches. Asked for here, because a start must not ask the system.
    streamed_bytes_min: u64,
}

/// A function of this process, which all stages of a meeting combine by: only one of them at a time.
pub(crate) type SharedFunction = Arc<Mutex<Box<dyn UserFunction>>>;

/// How elements are combined.
enum ShareOperator {
    /// They are not.
    None,
    Predefined(Operator, ElementType),
    /// `None` in a process that has not the function: in the daemon.
    User(Option<SharedFunction>),
}

#[derive(Debug)]
struct Task {
    /// Elements of the tasks before it.
    at: u64,
    length: u64,
    act: Act,
}

/// What is done with the elements of vectors that begin at these offsets.
#[derive(Debug)]
enum Act {
    /// Copied to several places.
    Copy { from: u64, to: Vec<u64> },
    /// Each copied to its place, which may be the other's: two members swap parts.
    Exchange { from: [u64; 2], to: [u64; 2] },
    /// Combined, in this order, and the result copied to several places.
    Fold { from: Vec<u64>, to: Vec<u64> },
    /// `to[k] = from[0] ∘ … ∘ from[k]`; or, if there are so many more of `from` than of `to`, up to `from[more + k]`.
    Scan { from: Vec<u64>, to: Vec<u64> },
    /// The same without the last. What would be nothing is left as it is.
    Exscan { from: Vec<u64>, to: Vec<u64> },
}

/// Where copies go past the caches at the earliest, and at the latest.
const STREAMED_BYTES: RangeInclusive<u64> = 16 << 20..=64 << 20;
/// Another vector to read or write takes as long as so many bytes more of a long one: some 11 ns.
const VECTOR_BYTES: u64 = 448;
/// Page tables for more would be large themselves.
const POPULATED_BYTES_MAX: u64 = 1 << 30;

impl Act {
    /// The same without what it need not do. `None` if nothing is left.
    fn simplified(mut self) -> Option<Self> {
        if let Self::Fold { from, to } = &mut self
            && let [from] = from[..]
        {
            self = Self::Copy { from, to: std::mem::take(to) };
        }
        match &mut self {
            Self::Copy { from, to } => to.retain(|to| to != from),
            Self::Fold { from, to } if from.is_empty() => to.clear(),
            _ => {}
        }
        match &self {
            Self::Copy { to, .. } | Self::Fold { to, .. } | Self::Scan { to, .. } | Self::Exscan { to, .. } => {
                (!to.is_empty()).then_some(self)
            }
            Self::Exchange { .. } => Some(self),
        }
    }

    /// Where the vectors lie that it reads, and that it writes.
    fn offsets(&self) -> (&[u64], &[u64]) {
        match self {
            Self::Copy { from, to } => (slice::from_ref(from), &to[..]),
            Self::Exchange { from, to } => (&from[..], &to[..]),
            Self::Fold { from, to } | Self::Scan { from, to } | Self::Exscan { from, to } => (&from[..], &to[..]),
        }
    }

    /// How many vectors are read or written besides one.
    fn vectors(&self) -> u64 {
        let vectors = match self {
            Self::Copy { to, .. } => to.len(),
            Self::Exchange { from, to } => from.len() + to.len() - 1,
            Self::Fold { from, to } => from.len() + to.len() - 1,
            Self::Scan { from, to } | Self::Exscan { from, to } => from.len() + to.len(),
        };
        vectors as u64
    }
}

impl Share {
    fn new(shape: &CollectiveShape) -> Self {
        let operator = ShareOperator::of(shape);
        let (earliest, latest) = STREAMED_BYTES.into_inner();
        Self {
            tasks: Vec::new(),
            element_bytes: shape.element_bytes.into(),
            operator,
            work_bytes: 0,
            streamed_bytes_min: (cache::largest_bytes() / 2).clamp(earliest, latest),
        }
    }

    /// Has elements combined by this function, if it is a user's operator that combines them.
    pub(crate) fn set_function(&mut self, function: &SharedFunction) {
        if let ShareOperator::User(place) = &mut self.operator {
            *place = Some(Arc::clone(function));
        }
    }

    /// Whether this process can do it: it has the function, if one is needed.
    pub(crate) fn is_doable(&self) -> bool {
        let only_copies = || self.tasks.iter().all(|task| matches!(task.act, Act::Copy { .. }));
        !matches!(self.operator, ShareOperator::User(None)) || only_copies()
    }

    fn push(&mut self, length: u64, act: Act) {
        if length > 0
            && let Some(act) = act.simplified()
        {
            let bytes = length.saturating_mul(self.element_bytes).saturating_mul(act.vectors());
            self.work_bytes = self.work_bytes.saturating_add(bytes);
            self.tasks.push(Task { at: self.units(), length, act });
        }
    }

    /// Into how many units the work can be cut.
    pub(crate) fn units(&self) -> u64 {
        self.tasks.last().map_or(0, |last| last.at + last.length)
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Bytes of all units.
    pub(crate) fn bytes(&self) -> u64 {
        self.units().saturating_mul(self.element_bytes)
    }

    /// About how many bytes are read and written.
    pub(crate) fn work_bytes(&self) -> u64 {
        self.work_bytes
    }

    /// The same, and what it takes to go from one vector to another.
    pub(crate) fn effort_bytes(&self) -> u64 {
        let effort = |task: &Task| {
            let bytes = task.length.saturating_mul(self.element_bytes);
            bytes.saturating_add(VECTOR_BYTES).saturating_mul(task.act.vectors())
        };
        self.tasks.iter().map(effort).fold(0, u64::saturating_add)
    }

    /// Enters what the work touches into this process's page table, unless that is too much.
    pub(crate) fn populate(&self, job: &JobSegment) {
        let bytes = |task: &Task| task.length.saturating_mul(self.element_bytes);
        let total = self.tasks.iter().map(|task| bytes(task).saturating_mul(1 + task.act.vectors()));
        if total.fold(0, u64::saturating_add) > POPULATED_BYTES_MAX {
            return;
        }
        for task in &self.tasks {
            let (from, to) = task.act.offsets();
            from.iter().chain(to).for_each(|&offset| job.segment().populate(offset, bytes(task)));
        }
    }

    /// Has the processor fetch what the work of some units, which are few, reads and writes: most of it was last written by another
    /// core. What is written comes first: of what is read the first lines are needed at once anyway.
    pub(crate) fn prefetch(&self, job: &JobSegment, units: Range<u64>) {
        for (task, elements) in self.parts(units) {
            let (skipped, bytes) = self.in_bytes(&elements);
            let (from, to) = task.act.offsets();
            for (offsets, is_written) in [(to, true), (from, false)] {
                for start in offsets.iter().filter_map(|&offset| job.range(offset + skipped, bytes)) {
                    prefetch(start, bytes as usize, is_written);
                }
            }
        }
    }

    /// Does the work of some units.
    pub(crate) fn work(&self, job: &JobSegment, units: Range<u64>) -> Result<(), OutOfBounds> {
        self.parts(units).try_for_each(|(task, elements)| self.act(job, &task.act, &elements))
    }

    /// The tasks that these units are of, and which elements of each.
    fn parts(&self, units: Range<u64>) -> impl Iterator<Item = (&Task, Range<u64>)> {
        let first = self.tasks.partition_point(|task| task.at + task.length <= units.start);
        let Range { start, end } = units;
        let tasks = self.tasks[first..].iter().take_while(move |task| task.at < end);
        tasks.map(move |task| (task, start.max(task.at) - task.at..end.min(task.at + task.length) - task.at))
    }

    /// How far into a vector elements begin, and how long they are.
    fn in_bytes(&self, elements: &Range<u64>) -> (u64, u64) {
        (elements.start * self.element_bytes, (elements.end - elements.start) * self.element_bytes)
    }

    fn act(&self, job: &JobSegment, act: &Act, elements: &Range<u64>) -> Result<(), OutOfBounds> {
        match act {
            Act::Copy { from, to } => self.spread(job, *from, to, elements),
            Act::Exchange { from, to } => {
                let (skipped, bytes) = self.in_bytes(elements);
                let [from, to] = [from, to].map(|offsets| offsets.map(|offset| offset + skipped));
                job.exchange(from, to, bytes)
            }
            Act::Fold { from, to } => self.fold(job, from, to, elements),
            Act::Scan { from, to } => {
                let more = from.len() - to.len();
                match &from[..=more] {
                    [from] => self.spread(job, *from, &to[..1], elements)?,
                    first => self.fold(job, first, &to[..1], elements)?,
                }
                let mut others = to.windows(2).zip(&from[more + 1..]);
                others.try_for_each(|(to, &from)| self.fold(job, &[to[0], from], &to[1..], elements))
            }
            Act::Exscan { from, to } => self.fold_before(job, from, to, elements),
        }
    }

    /// Whether copies go past the caches, because what is read and what is written is more than they hold: a third faster then, and a tenth
    /// with writing the inputs and reading the results, which come from memory either way. Of half as much the results would be read there.
    fn is_streamed(&self) -> bool {
        self.work_bytes >= self.streamed_bytes_min
    }

    /// Copies elements of a vector to the same place of others. In place, they are there already.
    fn spread(&self, job: &JobSegment, from: u64, to: &[u64], elements: &Range<u64>) -> Result<(), OutOfBounds> {
        let (skipped, bytes) = self.in_bytes(elements);
        let copy = if self.is_streamed() { JobSegment::stream } else { JobSegment::copy_range };
        to.iter().filter(|&&to| to != from).try_for_each(|to| copy(job, from + skipped, to + skipped, bytes))
    }

    fn fold(&self, job: &JobSegment, from: &[u64], into: &[u64], elements: &Range<u64>) -> Result<(), OutOfBounds> {
        let bytes = elements.start * self.element_bytes..elements.end * self.element_bytes;
        match &self.operator {
            ShareOperator::Predefined(operator, element) => {
                let count = elements.end - elements.start;
                job.fold(*operator, *element, (from, into), bytes.start, count)
            }
            ShareOperator::User(Some(function)) => {
                let mut function = function.lock().expect("a function that panics ends its process");
                job.fold_by(&mut **function, (from, into), bytes)
            }
            ShareOperator::None | ShareOperator::User(None) => Ok(()),
        }
    }

    fn fold_before(
        &self,
        job: &JobSegment,
        from: &[u64],
        into: &[u64],
        elements: &Range<u64>,
    ) -> Result<(), OutOfBounds> {
        let bytes = elements.start * self.element_bytes..elements.end * self.element_bytes;
        match &self.operator {
            ShareOperator::Predefined(operator, element) => {
                let count = elements.end - elements.start;
                job.fold_before(*operator, *element, (from, into), bytes.start, count)
            }
            ShareOperator::User(Some(function)) => {
                let mut function = function.lock().expect("a function that panics ends its process");
                job.fold_before_by(&mut **function, (from, into), bytes)
            }
            ShareOperator::None | ShareOperator::User(None) => Ok(()),
        }
    }
}

impl ShareOperator {
    fn of(shape: &CollectiveShape) -> Self {
        match shape.combination() {
            Some((operator, element)) if operator.is_defined_for(element) => Self::Predefined(operator, element),
            _ if shape.has_user_operator() => Self::User(None),
            _ => Self::None,
        }
    }
}

/// The shape that all of these say alike.
fn common_shape(members: &[CollectiveMember]) -> Option<&CollectiveShape> {
    let shape = &members.first()?.shape;
    (members.iter().all(|member| member.shape == *shape) && shape.check().is_ok()).then_some(shape)
}
