//! Where the parts of small gathers and reductions lie in the job segment.
//!
//! ```text
//!  0        64                  64 + 64 × members          + cells × members
//!  +--------+-------------------+--------------------------+
//!  | root's | a line for each   | cells of each: a word,   |
//!  |        |                   | and bytes                |
//!  +--------+-------------------+--------------------------+
//! ```

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use ropeway_proto::collective::{CollectiveKind, CollectiveMember};

use crate::collect::{self, CollectMemory};
use crate::eager::{CellWord, Progress};
use crate::job::JobSegment;
use crate::mapped;
use crate::meeting::{Arrival, Meeting};
use crate::meeting_plan::MeetingPlan;
use crate::relay::{self, RelayMemory, RelayWords, TakenWord};
use crate::relay_area::{self, CELLS_MIN, LINE_BYTES, PUT_BYTES_MAX, RELAYED_BYTES_MAX, WORD_BYTES, cell_bytes};
use crate::share::{self, SharedFunction};
use crate::stage::{LITTLE_BYTES, Stage, Weight};

/// Each process knows of all cells what to do with them, so there are not more of all members, unless these are many.
const CELLS_OF_ALL: u64 = 256;

/// The parts of a meeting's members, as one process sees them.
pub(crate) struct CollectArea {
    /// The root's.
    taken: NonNull<TakenWord>,
    /// Of each member.
    words: NonNull<RelayWords>,
    cells: NonNull<u8>,
    /// How many each member has.
    count: u32,
    cell_bytes: usize,
    /// What each member gives.
    parts: Vec<(NonNull<u8>, usize)>,
    root: usize,
    taken_seen: AtomicU32,
    /// What the root does with the parts in the first cells of all, in the second ones, and so on.
    stages: Vec<Stage>,
}

/// What a member does with it.
pub(crate) struct Collected<'a> {
    pub(crate) area: &'a CollectArea,
    pub(crate) meeting: &'a Meeting,
    pub(crate) member: u32,
}

/// From this member to the root, as another one or itself works it.
struct Way<'a> {
    of: &'a Collected<'a>,
    from: usize,
}

impl CollectArea {
    /// What the parts of such a meeting need: nothing if it has none.
    pub(crate) fn footprint(plan: &MeetingPlan) -> u64 {
        let members = plan.members.len() as u64;
        let all_cells = |bytes| members * cells(bytes, members) * cell_bytes(bytes);
        part_bytes_max(plan).map_or(0, |bytes| before_cells(members) + all_cells(bytes))
    }

    /// The parts at `at`, if such a meeting has any, combined by this function if it is a user's that does. Memory is checked here, once.
    pub(crate) fn at(job: &JobSegment, at: u64, plan: &MeetingPlan, function: Option<&SharedFunction>) -> Option<Self> {
        let bytes = part_bytes_max(plan)?;
        let members = plan.members.len() as u64;
        let (count, cell_bytes) = (cells(bytes, members) as u32, cell_bytes(bytes));
        let lines = job.range(at, Self::footprint(plan))?;
        let cells_at = at + before_cells(members);
        let shape = &plan.members.first()?.shape;
        let part = |member: &CollectiveMember| {
            let bytes = part_bytes(member);
            Some((job.range(member.input, bytes)?, bytes as usize))
        };
        let mut given = plan.members.clone();
        let stage = |number: u32| {
            for (index, member) in (0..).zip(&mut given).filter(|(index, _)| *index != u64::from(shape.root)) {
                member.input = cells_at + payload_at(index, (number, count), cell_bytes);
            }
            let mut share = share::within(&given)?;
            function.into_iter().for_each(|function| share.set_function(function));
            Stage::new(share, shape.has_user_operator())
        };
        Some(Self {
            taken: lines.cast(),
            // SAFETY: the range has a line for each member behind the first one.
            words: unsafe { lines.add(LINE_BYTES as usize) }.cast(),
            // SAFETY: and the cells behind those.
            cells: unsafe { lines.add(before_cells(members) as usize) },
            count,
            cell_bytes: cell_bytes as usize,
            parts: plan.members.iter().map(part).collect::<Option<_>>()?,
            root: shape.root as usize,
            taken_seen: AtomicU32::new(0),
            stages: (0..count).map(stage).collect::<Option<_>>()?,
        })
    }

    /// Starts anew. Nobody else knows it yet.
    pub(crate) fn reset(&self) {
        self.taken().reset();
        for member in 0..self.parts.len() {
            self.words(member).reset();
            (0..self.count).for_each(|number| self.cell(member, number).reset());
        }
    }

    /// How many rounds have ended for a member: the root, or one whose part was put into a cell.
    pub(crate) fn rounds(&self, index: usize) -> u32 {
        let taken = self.taken().count();
        if index == self.root {
            return taken;
        }
        let is_put = |&more: &u32| self.cell(index, taken.wrapping_add(more)).has(taken.wrapping_add(more));
        let put = (0..self.count).take_while(is_put);
        taken.wrapping_add(put.count() as u32)
    }

    fn taken(&self) -> &TakenWord {
        // SAFETY: checked in `at`, and mapped as long as the meeting that owns this; it consists of atomics.
        unsafe { self.taken.as_ref() }
    }

    fn words(&self, member: usize) -> &RelayWords {
        assert!(member < self.parts.len());
        // SAFETY: as above, and there is a line for each member.
        unsafe { self.words.add(member).as_ref() }
    }

    fn cell(&self, member: usize, number: u32) -> &CellWord {
        // SAFETY: as above; each cell begins with its word.
        unsafe { self.payload(member, number).sub(WORD_BYTES as usize).cast::<CellWord>().as_ref() }
    }

    fn payload(&self, member: usize, number: u32) -> NonNull<u8> {
        assert!(member < self.parts.len());
        let at = payload_at(member as u64, (number, self.count), self.cell_bytes as u64);
        // SAFETY: it is inside of the cells, of which each member has as many.
        unsafe { self.cells.add(at as usize) }
    }
}

impl Collected<'_> {
    /// The member has come for a round. A root that is the last to come takes it at once if that is little work.
    #[inline]
    pub(crate) fn arrive(&self, round: u32) -> Arrival {
        let progress = match self.is_root() {
            false => relay::send(&self.own_way(), round),
            true if self.area.stages[0].weight == Weight::Slight => collect::collect(self, round),
            true => Progress::Pending,
        };
        if progress == Progress::Done { Arrival::Done } else { Arrival::Pending }
    }

    /// Whether [`poll`](Self::poll) would get further.
    #[inline]
    pub(crate) fn is_due(&self, round: u32) -> bool {
        if self.is_root() { self.have_all_come(round) } else { relay::can_settle(&self.own_way(), round) }
    }

    /// Goes on.
    #[inline]
    pub(crate) fn poll(&self, round: u32) -> Progress {
        if self.is_root() { collect::collect(self, round) } else { relay::settle(&self.own_way(), round) }
    }

    /// Puts a part into its cell that the member has started and not waited for, if there is room. The daemon's, which looks after who goes.
    pub(crate) fn settle(&self) {
        if !self.is_root() {
            relay::settle(&self.own_way(), self.area.rounds(self.member as usize));
        }
    }

    pub(crate) fn have_all_come(&self, round: u32) -> bool {
        collect::have_all_come(self, round)
    }

    pub(crate) fn is_root(&self) -> bool {
        self.member as usize == self.area.root
    }

    fn own_way(&self) -> Way<'_> {
        Way { of: self, from: self.member as usize }
    }
}

impl CollectMemory for Collected<'_> {
    fn ways(&self) -> impl Iterator<Item = impl RelayMemory> {
        (0..self.area.parts.len()).filter(|&from| from != self.area.root).map(|from| Way { of: self, from })
    }

    fn taken(&self) -> &TakenWord {
        self.area.taken()
    }

    fn combine(&self, round: u32) {
        self.area.stages[(round % self.area.count) as usize].do_all(self.meeting.job());
    }
}

impl RelayMemory for Way<'_> {
    fn words(&self) -> &RelayWords {
        self.of.area.words(self.from)
    }

    fn cells(&self) -> u32 {
        self.of.area.count
    }

    fn parks(&self) -> bool {
        self.of.area.parts[self.from].1 > PUT_BYTES_MAX
    }

    fn cell(&self, number: u32) -> &CellWord {
        self.of.area.cell(self.from, number)
    }

    fn receivers(&self) -> impl Iterator<Item = &TakenWord> {
        [self.of.area.taken()].into_iter()
    }

    fn taken_seen(&self) -> &AtomicU32 {
        &self.of.area.taken_seen
    }

    fn fill(&self, number: u32) -> bool {
        let (meeting, area) = (self.of.meeting, self.of.area);
        let (part, bytes) = area.parts[self.from];
        let fill = || {
            let is_open = meeting.closed_for(number).is_none();
            if is_open {
                // SAFETY: both ranges are mapped, and the cell has room.
                unsafe { mapped::copy_small(part, area.payload(self.from, number), bytes) };
            }
            is_open
        };
        // Its own buffer nobody takes away from a member while it is at it.
        if self.of.is_root() { meeting.with_hands_on(self.of.member, fill) } else { fill() }
    }

    fn empty(&self, _: u32) {}

    fn wake_all(&self, number: u32) {
        let (meeting, root) = (self.of.meeting, self.of.area.root);
        // SYNC slot-waiter, collect-last: the part before the looks at who sleeps and who has come; see `RequestSlot::complete`.
        fence(Ordering::SeqCst);
        if self.of.is_root() {
            meeting.wake_behind_fence(self.from);
        } else if meeting.is_awaited_behind_fence(root) && self.of.have_all_come(number) {
            meeting.wake_behind_fence(root);
        }
    }
}

/// What a member gives.
fn part_bytes(member: &CollectiveMember) -> u64 {
    let shape = &member.shape;
    let elements = if shape.kind == CollectiveKind::Gather { shape.part(member.rank) } else { shape.counts[0] };
    elements.saturating_mul(shape.element_bytes.into())
}

/// Bytes of the largest part, if parts go through cells: all together so little that the root takes them at once.
fn part_bytes_max(plan: &MeetingPlan) -> Option<u64> {
    let of_one_node = plan.span.is_none() && plan.members.len() > 1;
    let is_collected = |member: &CollectiveMember| {
        let has_parts = matches!(member.shape.kind, CollectiveKind::Gather | CollectiveKind::Reduce);
        has_parts && member.shape.check().is_ok()
    };
    if !of_one_node || !plan.members.iter().all(is_collected) {
        return None;
    }
    let parts = || plan.members.iter().map(part_bytes);
    let is_little = parts().fold(0, u64::saturating_add) <= LITTLE_BYTES;
    parts().max().filter(|bytes| is_little && (1..=RELAYED_BYTES_MAX).contains(bytes))
}

fn before_cells(members: u64) -> u64 {
    LINE_BYTES * (1 + members)
}

/// Where a member's part of a round lies behind the first cell. `number`: of the round, and how many cells a member has.
fn payload_at(member: u64, (number, cells): (u32, u32), cell_bytes: u64) -> u64 {
    (member * u64::from(cells) + u64::from(number % cells)) * cell_bytes + WORD_BYTES
}

/// How many cells each of so many members has: so many rounds it may be ahead. Where ranks share cores, all of a core then do many rounds in a
/// turn of theirs.
fn cells(bytes: u64, members: u64) -> u64 {
    relay_area::cells(bytes).min((CELLS_OF_ALL / members).max(CELLS_MIN).next_power_of_two())
}
