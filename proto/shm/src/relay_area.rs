//! Where the relay of a meeting lies in the job segment.
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
use crate::meeting::{Meeting, MeetingPlan};
use crate::prefetch::prefetch;
use crate::relay::{self, RelayMemory, RelayWords, TakenWord};

/// Larger messages are not relayed: they are copied from the root's buffer when all have come.
pub(crate) const RELAYED_BYTES_MAX: u64 = 8 << 10;
/// Of those that are relayed the root's start leaves larger ones in its buffer: it would take longer than a start may to copy them.
pub(crate) const PUT_BYTES_MAX: usize = 1 << 10;
/// What all cells take together, if their number is not limited otherwise.
const CELLS_BYTES: u64 = 4 << 10;
/// Of large messages fewer would make a root wait.
const CELLS_MIN: u64 = 4;
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
    /// Of each member.
    buffers: Vec<NonNull<u8>>,
    bytes: usize,
    root: usize,
    taken_seen: AtomicU32,
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
        let buffer = |member: &CollectiveMember| job.range(member.output, bytes);
        Some(Self {
            words: lines.cast(),
            // SAFETY: the range has a line for each member behind the first one.
            taken: unsafe { lines.add(LINE_BYTES as usize) }.cast(),
            cells: all_cells,
            count: cells(bytes) as u32,
            cell_bytes: cell_bytes(bytes) as usize,
            buffers: plan.members.iter().map(buffer).collect::<Option<_>>()?,
            bytes: bytes as usize,
            root: plan.members.first()?.shape.root as usize,
            taken_seen: AtomicU32::new(0),
        })
    }

    /// Starts anew. Nobody else knows it yet.
    pub(crate) fn reset(&self) {
        self.words().reset();
        (0..self.buffers.len()).for_each(|member| self.taken(member).reset());
        (0..self.count).for_each(|number| self.cell(number).reset());
    }

    fn words(&self) -> &RelayWords {
        // SAFETY: checked in `at`, and mapped as long as the meeting that owns this; it consists of atomics.
        unsafe { self.words.as_ref() }
    }

    fn taken(&self, member: usize) -> &TakenWord {
        assert!(member < self.buffers.len());
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
        if self.is_root() { relay::send(self, number) } else { self.receive(number) }
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
            true => relay::settle(self, number),
            false => self.receive(number),
        }
    }

    fn receive(&self, number: u32) -> Progress {
        relay::receive(self, self.area.taken(self.member as usize), number)
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
        (0..self.area.buffers.len()).filter(|&member| member != self.area.root).map(|member| self.area.taken(member))
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
                    mapped::copy_small(self.area.buffers[self.area.root], self.area.payload(number), self.area.bytes);
                }
            }
            is_open
        };
        // Its own buffer nobody takes away from the root while it is at it.
        if self.is_root() { fill() } else { self.meeting.with_hands_on(self.member, fill) }
    }

    fn empty(&self, number: u32) {
        // SAFETY: as above.
        unsafe {
            mapped::copy_small(self.area.payload(number), self.area.buffers[self.member as usize], self.area.bytes);
        }
    }

    fn fetch_ahead(&self, number: u32) {
        prefetch(NonNull::from(self.area.cell(number)).cast(), self.area.cell_bytes, false);
    }

    fn wake_all(&self, _: u32) {
        self.meeting.wake_all();
    }
}

/// Bytes of a message, if they go through cells.
fn message_bytes(plan: &MeetingPlan) -> Option<u64> {
    let shape = &plan.members.first().filter(|_| plan.span.is_none() && plan.members.len() > 1)?.shape;
    let bytes = shape.counts.first()?.checked_mul(shape.element_bytes.into())?;
    (shape.kind == CollectiveKind::Bcast && (1..=RELAYED_BYTES_MAX).contains(&bytes)).then_some(bytes)
}

/// A power of two, so that message numbers may overflow.
fn cells(bytes: u64) -> u64 {
    (CELLS_BYTES / cell_bytes(bytes)).max(CELLS_MIN).next_power_of_two()
}

pub(crate) fn cell_bytes(bytes: u64) -> u64 {
    (WORD_BYTES + bytes).next_multiple_of(LINE_BYTES)
}
