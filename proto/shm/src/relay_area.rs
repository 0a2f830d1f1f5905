//! Where the relay of a meeting lies in the job segment: of a small broadcast, or of a small scatter, whose parts travel as one message.
//!
//! ```text
//!  0        64                  64 + 64 × members          + cells   
//!  +--------+-------------------+--------------------------+
//!  | root's | a line for each   | cells: a word, and bytes |
//!  +--------+-------------------+--------------------------+
//! ```

use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use ropeway_proto::collective::{CollectiveKind, CollectiveMember};

use crate::eager::{CellWord, Progress};
use crate::job::JobSegment;
use crate::mapped;
use crate::meeting::Meeting;
use crate::meeting_plan::MeetingPlan;
use crate::prefetch::prefetch;
use crate::relay::{self, RelayMemory, RelayWords, TakenWord};

/// Larger messages are not relayed: they are copied from the root's buffer when all have come.
pub(crate) const RELAYED_BYTES_MAX: u64 = 8 << 10;
/// The same of scatters, whose members read but a part of what is copied. Of larger ones each member copies its part from the root's buffer: on
/// 2 ranks parts of 1 KiB take 0.15 µs longer by way of a cell when both come at once, of 4 KiB 0.7 µs.
const SCATTERED_BYTES_MAX: u64 = 2 << 10;
/// Of those that are relayed the root's start leaves larger ones in its buffer: it would take longer than a start may to copy them.
pub(crate) const PUT_BYTES_MAX: usize = 1 << 10;
/// What all cells take together, if their number is not limited otherwise.
const CELLS_BYTES: u64 = 4 << 10;
/// Of large messages fewer would make a root wait.
pub(crate) const CELLS_MIN: u64 = 4;
pub(crate) const LINE_BYTES: u64 = 64;
/// A cell's word, before its payload.
pub(crate) const WORD_BYTES: u64 = 8;

/// The relay of a meeting, as one process sees it.
pub(crate) struct RelayArea {
    words: NonNull<RelayWords>,
    taken: NonNull<TakenWord>,
    cells: NonNull<u8>,
    /// How many.
    count: u32,
    cell_bytes: usize,
    /// Where the root has the message.
    source: NonNull<u8>,
    bytes: usize,
    /// What each member gets of it.
    parts: Vec<Part>,
    root: usize,
    taken_seen: AtomicU32,
}

/// What a member gets of a message.
struct Part {
    /// Where it begins.
    at: usize,
    bytes: usize,
    to: NonNull<u8>,
}

/// What a member does with it.
pub(crate) struct Relayed<'a> {
    pub(crate) area: &'a RelayArea,
    pub(crate) meeting: &'a Meeting,
    pub(crate) member: u32,
}

impl RelayArea {
    /// What the relay of such a meeting needs: nothing if it has none.
    pub(crate) fn footprint(plan: &MeetingPlan) -> u64 {
        message_bytes(plan)
            .map_or(0, |bytes| LINE_BYTES * (1 + plan.members.len() as u64) + cells(bytes) * cell_bytes(bytes))
    }

    /// The relay at `at`, if such a meeting has one. Its memory is checked here, once.
    pub(crate) fn at(job: &JobSegment, at: u64, plan: &MeetingPlan) -> Option<Self> {
        let bytes = message_bytes(plan)?;
        let members = plan.members.len() as u64;
        let lines = job.range(at, LINE_BYTES * (1 + members))?;
        let all_cells = job.range(at + LINE_BYTES * (1 + members), cells(bytes) * cell_bytes(bytes))?;
        let shape = &plan.members.first()?.shape;
        let root = plan.members.get(shape.root as usize)?;
        let part = |member: &CollectiveMember| {
            let (at, own) = part_of(member, bytes);
            let to = job.range(member.output, own).filter(|_| at + own <= bytes)?;
            Some(Part { at: at as usize, bytes: own as usize, to })
        };
        let source = if shape.kind == CollectiveKind::Scatter { root.input } else { root.output };
        Some(Self {
            words: lines.cast(),
            // SAFETY: the range has a line for each member behind the first one.
            taken: unsafe { lines.add(LINE_BYTES as usize) }.cast(),
            cells: all_cells,
            count: cells(bytes) as u32,
            cell_bytes: cell_bytes(bytes) as usize,
            source: job.range(source, bytes)?,
            bytes: bytes as usize,
            parts: plan.members.iter().map(part).collect::<Option<_>>()?,
            root: shape.root as usize,
            taken_seen: AtomicU32::new(0),
        })
    }

    /// Starts anew. Nobody else knows it yet.
    pub(crate) fn reset(&self) {
        self.words().reset();
        (0..self.parts.len()).for_each(|member| self.taken(member).reset());
        (0..self.count).for_each(|number| self.cell(number).reset());
    }

    fn words(&self) -> &RelayWords {
        // SAFETY: checked in `at`, and mapped as long as the meeting that owns this; it consists of atomics.
        unsafe { self.words.as_ref() }
    }

    fn taken(&self, member: usize) -> &TakenWord {
        assert!(member < self.parts.len());
        // SAFETY: as above, and there is a line for each member.
        unsafe { self.taken.add(member).as_ref() }
    }

    fn cell(&self, number: u32) -> &CellWord {
        // SAFETY: as above; `at` has checked all cells, and each begins with its word.
        unsafe { self.payload(number).sub(WORD_BYTES as usize).cast::<CellWord>().as_ref() }
    }

    fn payload(&self, number: u32) -> NonNull<u8> {
        let at = (number % self.count) as usize * self.cell_bytes + WORD_BYTES as usize;
        // SAFETY: it is inside of the cells.
        unsafe { self.cells.add(at) }
    }
}

impl Relayed<'_> {
    /// The member has come for message `number`.
    #[inline]
    pub(crate) fn start(&self, number: u32) -> Progress {
        if self.is_root() { self.keep_own(relay::send(self, number)) } else { self.receive(number) }
    }

    /// Whether there is a message for the member.
    pub(crate) fn has_come(&self, number: u32) -> bool {
        !self.is_root() && relay::has_come(self, number)
    }

    /// Whether [`poll`](Self::poll) would get further.
    #[inline]
    pub(crate) fn is_due(&self, number: u32) -> bool {
        if self.is_root() { relay::can_settle(self, number) } else { self.has_come(number) }
    }

    /// Goes on.
    #[inline]
    pub(crate) fn poll(&self, number: u32) -> Progress {
        match self.is_root() {
            true => self.keep_own(relay::settle(self, number)),
            false => self.receive(number),
        }
    }

    fn receive(&self, number: u32) -> Progress {
        relay::receive(self, self.area.taken(self.member as usize), number)
    }

    /// The root takes its own part when it is done with the message.
    #[inline]
    fn keep_own(&self, progress: Progress) -> Progress {
        let Part { at, bytes, to } = self.area.parts[self.area.root];
        // SAFETY: a part lies within the message.
        let from = unsafe { self.area.source.add(at) };
        if progress == Progress::Done && from != to {
            // SAFETY: both ranges are mapped.
            unsafe { mapped::copy_small(from, to, bytes) };
        }
        progress
    }

    pub(crate) fn is_root(&self) -> bool {
        self.member as usize == self.area.root
    }
}

impl RelayMemory for Relayed<'_> {
    fn words(&self) -> &RelayWords {
        self.area.words()
    }

    fn cells(&self) -> u32 {
        self.area.count
    }

    fn parks(&self) -> bool {
        self.area.bytes > PUT_BYTES_MAX
    }

    fn cell(&self, number: u32) -> &CellWord {
        self.area.cell(number)
    }

    fn receivers(&self) -> impl Iterator<Item = &TakenWord> {
        (0..self.area.parts.len()).filter(|&member| member != self.area.root).map(|member| self.area.taken(member))
    }

    fn taken_seen(&self) -> &AtomicU32 {
        &self.area.taken_seen
    }

    fn fill(&self, number: u32) -> bool {
        let fill = || {
            let is_open = self.meeting.closed().is_none();
            if is_open {
                // SAFETY: both ranges are mapped, and the cell has room.
                unsafe {
                    mapped::copy_small(self.area.source, self.area.payload(number), self.area.bytes);
                }
            }
            is_open
        };
        // Its own buffer nobody takes away from the root while it is at it.
        if self.is_root() { fill() } else { self.meeting.with_hands_on(self.member, fill) }
    }

    fn empty(&self, number: u32) {
        let Part { at, bytes, to } = self.area.parts[self.member as usize];
        // SAFETY: as above, and a part lies within the message.
        unsafe { mapped::copy_small(self.area.payload(number).add(at), to, bytes) };
    }

    fn fetch_ahead(&self, number: u32) {
        prefetch(NonNull::from(self.area.cell(number)).cast(), self.area.cell_bytes, false);
    }

    fn wake_all(&self, _: u32) {
        self.meeting.wake_all();
    }
}

/// Bytes of a message, if it goes through cells: what all get, or the parts of all.
fn message_bytes(plan: &MeetingPlan) -> Option<u64> {
    let first = plan.members.first().filter(|_| plan.span.is_none() && plan.members.len() > 1)?;
    let shape = Some(&first.shape).filter(|shape| shape.check().is_ok())?;
    let bytes_max = match shape.kind {
        CollectiveKind::Bcast => RELAYED_BYTES_MAX,
        CollectiveKind::Scatter => SCATTERED_BYTES_MAX,
        _ => return None,
    };
    let elements = shape.counts.iter().try_fold(0, |sum: u64, count| sum.checked_add(*count))?;
    let bytes = elements.checked_mul(shape.element_bytes.into())?;
    (1..=bytes_max).contains(&bytes).then_some(bytes)
}

/// Where a member's part of a message of so many bytes begins, and its bytes.
fn part_of(member: &CollectiveMember, bytes: u64) -> (u64, u64) {
    let CollectiveMember { shape, rank, .. } = member;
    let bytes_of = |elements: u64| elements * u64::from(shape.element_bytes);
    match shape.kind {
        CollectiveKind::Scatter => (bytes_of(shape.before(*rank)), bytes_of(shape.part(*rank))),
        _ => (0, bytes),
    }
}

/// A power of two, so that message numbers may overflow.
pub(crate) fn cells(bytes: u64) -> u64 {
    (CELLS_BYTES / cell_bytes(bytes)).max(CELLS_MIN).next_power_of_two()
}

pub(crate) fn cell_bytes(bytes: u64) -> u64 {
    (WORD_BYTES + bytes).next_multiple_of(LINE_BYTES)
}
