//! The pairs of a meeting: where their words lie, and what goes between them.

use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

use ropeway_proto::collective::CollectiveKind;

use crate::collect_area::CollectArea;
use crate::job::JobSegment;
use crate::meeting::{Arrival, Meeting};
use crate::meeting_plan::MeetingPlan;
use crate::pairs::{EarlyWord, PairWords};
use crate::relay_area::RelayArea;
use crate::share::{self, Share};
use crate::stage::{Stage, Weight};

const LINE_BYTES: u64 = 64;

/// The pairs of a meeting, as one process sees them.
pub(crate) struct PairArea {
    early: NonNull<EarlyWord>,
    words: NonNull<PairWords>,
    /// What goes between each member and the root.
    stages: Vec<Stage>,
    root: usize,
}

impl PairArea {
    /// What the pairs of such a meeting need: nothing if it has none.
    pub(crate) fn footprint(plan: &MeetingPlan) -> u64 {
        if is_rooted(plan) { LINE_BYTES * (1 + plan.members.len() as u64) } else { 0 }
    }

    /// The pairs at `at`, if such a meeting has any.
    pub(crate) fn at(job: &JobSegment, at: u64, plan: &MeetingPlan) -> Option<Self> {
        if !is_rooted(plan) {
            return None;
        }
        let lines = job.range(at, Self::footprint(plan))?;
        let shares = share::between_pairs(&plan.members)?;
        let all = shares.iter().map(Share::work_bytes).fold(0, u64::saturating_add);
        Some(Self {
            early: lines.cast(),
            // SAFETY: the range has a line for each member behind the first one.
            words: unsafe { lines.add(LINE_BYTES as usize) }.cast(),
            stages: shares.into_iter().map(|share| Stage::among(share, false, all)).collect::<Option<_>>()?,
            root: plan.members.first()?.shape.root as usize,
        })
    }

    /// Starts anew. Nobody else knows it yet.
    pub(crate) fn reset(&self) {
        self.early().reset();
        (0..self.stages.len()).for_each(|index| self.words(index).reset());
    }

    pub(crate) fn root(&self) -> usize {
        self.root
    }

    /// How many pairs there are: as many as members.
    pub(crate) fn count(&self) -> usize {
        self.stages.len()
    }

    /// A member has come for a round. True if its pair, or of the root another one, may be due.
    pub(crate) fn come(&self, index: usize, round: u32) -> bool {
        let own = self.words(index);
        if index == self.root {
            own.come_as_root(round, self.early())
        } else {
            own.come(round, self.root_words(), self.early())
        }
    }

    /// The round of which this pair has pieces that nobody has taken.
    #[inline]
    pub(crate) fn due(&self, index: usize) -> Option<u32> {
        self.words(index).due(self.root_words(), self.stages[index].pieces)
    }

    /// Does a piece of this round and half. `None` if none is left; else whether the pair is over now.
    pub(crate) fn do_piece(&self, job: &JobSegment, (index, half): (usize, usize), round: u32) -> Option<bool> {
        let (words, stage) = (self.words(index), &self.stages[index]);
        let piece = words.claim(round, self.root_words(), stage.pieces, half)?;
        stage.do_piece(job, piece);
        Some(words.finish(stage.pieces))
    }

    /// Whether the root has come for this pair's next round.
    pub(crate) fn has_root_for(&self, index: usize) -> bool {
        self.root_words().has_come(self.rounds(index))
    }

    #[inline]
    pub(crate) fn is_over(&self, index: usize, round: u32) -> bool {
        self.words(index).is_over(round, self.stages[index].pieces)
    }

    /// How many rounds of this pair are over.
    pub(crate) fn rounds(&self, index: usize) -> u32 {
        self.words(index).rounds(self.stages[index].pieces)
    }

    fn early(&self) -> &EarlyWord {
        // SAFETY: checked in `at`, and mapped as long as the meeting that owns this; it consists of atomics.
        unsafe { self.early.as_ref() }
    }

    fn root_words(&self) -> &PairWords {
        self.words(self.root)
    }

    fn words(&self, index: usize) -> &PairWords {
        assert!(index < self.stages.len());
        // SAFETY: as above, and there is a line for each member.
        unsafe { self.words.add(index).as_ref() }
    }
}

/// A member of pairs, or the daemon, which is in none.
pub(crate) struct Paired<'a> {
    pub(crate) area: &'a PairArea,
    pub(crate) meeting: &'a Meeting,
    /// Its number among the members.
    pub(crate) member: u32,
    /// Where it lies among those of the node.
    pub(crate) index: Option<usize>,
}

impl Paired<'_> {
    pub(crate) fn is_root(&self) -> bool {
        self.index == Some(self.area.root())
    }

    /// A member has come for a round.
    pub(crate) fn arrive(&self, round: u32) -> Arrival {
        let Some(index) = self.index else { return Arrival::Pending };
        let (meeting, root) = (self.meeting, self.area.root());
        let may_be_due = self.area.come(index, round);
        match meeting.weight() {
            Weight::Slight => {
                // A piece of each pair: whose members lie about rounds must not keep the daemon, which comes for them in the first.
                if index == root {
                    self.help(self.area.count() as u32);
                } else if may_be_due {
                    self.help(1);
                }
                return if self.is_over(round) { Arrival::Done } else { Arrival::Pending };
            }
            // All who have come, and wait, can do their own.
            _ if index == root => meeting.wake_all(),
            // The root does it if it waits, and we do not.
            _ if may_be_due => meeting.wake_behind_fence(root),
            _ => {}
        }
        if may_be_due && meeting.has_much_work() { Arrival::HasWork } else { Arrival::Pending }
    }

    /// Whether the round is over for this member: the root's when all pairs' are.
    pub(crate) fn is_over(&self, round: u32) -> bool {
        match self.index {
            Some(index) if !self.is_root() => self.area.is_over(index, round),
            _ => self.meeting.rounds().is_over(round),
        }
    }

    /// The pairs whose pieces are for us: our own; and all others if we are the root, or the daemon, or have the core that a member would need
    /// for its own.
    fn pairs(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, all) = (self.index.unwrap_or(0), self.area.count());
        let is_for_all = self.index.is_none() || self.is_root() || self.meeting.job().outnumbers_cores();
        (0..if is_for_all { all } else { 1 }).map(move |distance| (first + distance) % all)
    }

    /// Whether one of them has pieces that nobody has taken.
    pub(crate) fn is_due(&self) -> bool {
        self.due_round().is_some()
    }

    /// The round of which it does.
    pub(crate) fn due_round(&self) -> Option<u32> {
        // Of its own pair the root may have done all already.
        if !self.is_root() && self.index.is_some_and(|index| !self.area.has_root_for(index)) {
            return None;
        }
        let is_open = |&round: &u32| self.meeting.closed_for(round).is_none();
        self.pairs().find_map(|index| self.area.due(index).filter(is_open))
    }

    /// Does up to `limit` pieces; says how many.
    pub(crate) fn help(&self, limit: u32) -> u32 {
        if !self.is_due() {
            return 0;
        }
        let mut pieces = 0;
        let mut work = |index: usize, half: usize| {
            while pieces < limit
                && let Some(round) = self.area.due(index)
                && self.meeting.closed_for(round).is_none()
                && let Some(is_over) = self.area.do_piece(self.meeting.job(), (index, half), round)
            {
                pieces += 1;
                if is_over {
                    self.end(index, round);
                }
            }
        };
        let half_of_core = self.index.and_then(|index| self.meeting.section_of_core(index, 2));
        self.meeting.with_hands_on(self.member, || match half_of_core {
            // What is this core's of all pairs, and then what the other one has not got to.
            Some(half) => {
                [half, 1 - half].into_iter().for_each(|half| self.pairs().for_each(|index| work(index, half)));
            }
            None => self.pairs().for_each(|index| {
                let half = usize::from(self.index != Some(index));
                [half, 1 - half].into_iter().for_each(|half| work(index, half));
            }),
        });
        pieces
    }

    /// A pair is over; with the last one the root's round is.
    fn end(&self, index: usize, round: u32) {
        let rounds = self.meeting.rounds();
        let is_last = rounds.arrive(self.area.count() as u64);
        if is_last {
            rounds.end(round);
        }
        // SYNC slot-waiter: one fence for both slots; see `RequestSlot::complete`.
        fence(Ordering::SeqCst);
        self.meeting.wake_behind_fence(index);
        if is_last {
            self.meeting.wake_behind_fence(self.area.root());
        }
    }
}

/// Whether each member needs something of the root alone, or the root of each, and not so little that it is relayed or collected.
fn is_rooted(plan: &MeetingPlan) -> bool {
    let of_one_node = || plan.members.first().filter(|_| plan.span.is_none() && plan.members.len() > 1);
    of_one_node().is_some_and(|first| match first.shape.kind {
        CollectiveKind::Bcast | CollectiveKind::Scatter => RelayArea::footprint(plan) == 0,
        CollectiveKind::Gather => CollectArea::footprint(plan) == 0,
        _ => false,
    })
}
