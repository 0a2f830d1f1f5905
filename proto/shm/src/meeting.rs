//! Where the members of a collective meet within a node: who comes last sees to it that the work is done.
//!
//! ```text
//!  0        64       128      192      256          256 + 64 × members
//!  +--------+--------+--------+--------+------------+-------------------------+
//!  | counts | rounds | pieces | closed | a line for | the shape and where the |
//!  |        |        |        |        | each       | buffers lie, JSON       |
//!  +--------+--------+--------+--------+------------+-------------------------+
//! ```
//!
//! All buffers lie in the segment, so anybody can do anybody's part once everybody has come. A round's work is cut into
//! pieces, which are dealt out by counters. Slight work is one piece, which the last to come does at once. Of more, those
//! who wait take pieces, so that a start takes the same time whatever there is to do; and if it is much and nobody waits,
//! the daemon does. Whoever finishes the last piece ends the round for all. So nobody who
//! has come is needed any more, be it computing, asleep or stopped; but who is stopped with a piece in hand, which he took while he waited
//! or tested or which his start had to do, holds up that round until he goes on or is gone.
//!
//! Small broadcasts and scatters go through a [relay](crate::relay) instead: their root need not wait for the others. Of small
//! gathers and reductions the root [collects](crate::collect) the parts: only it waits. Of larger broadcasts, gathers and scatters
//! each member and the root are a [pair](crate::pairs): nobody else need have come for what goes between them.
//!
//! If there are members on other nodes the work has two stages. Whoever finishes the first one tells the daemon, which sees to
//! what happens between the nodes and then opens the second one. A broadcast need not wait for those who only receive: the
//! arrival of one member opens the first stage, and whoever is the last of all members and the daemon the second one.
//!
//! Elements are combined by a user-defined operator in the members' processes alone, so the daemon takes no such pieces,
//! however little the work is. It calls the members' combiners instead: threads that work while their programs compute.

mod alone;
mod ending;
mod watching;
mod way;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex};

use ropeway_proto::{Layout, Slot};

use crate::collect_area::{CollectArea, Collected};
use crate::eager::Progress;
use crate::job::JobSegment;
use crate::meeting_plan::MeetingPlan;
use crate::pair_area::{PairArea, Paired};
use crate::relay_area::{RelayArea, Relayed};
use crate::request::RequestSlot;
use crate::round::{RoundWords, SECTIONS};
use crate::share;
use crate::stage::{Outline, Stage, Weight};
use crate::user_function::UserFunction;
use crate::whereabouts::Whereabouts;

use way::Way;

#[repr(C)]
struct MeetingWords {
    rounds: RoundWords,
    closed: ClosedWords,
}

#[repr(C, align(64))]
struct ClosedWords {
    /// Why there will be no further round: a status code, zero while there may be; and above it the rank of the job, or node, that is the
    /// cause. One word, for a second cause may take the place of the first.
    why: AtomicU64,
    /// What else the completion says, as its tag.
    what: AtomicU32,
    /// How many rounds may still end although somebody has left, with [`IS_COUNT`](ending::IS_COUNT) set; zero if none may.
    until: AtomicU64,
    /// Nobody has his hands on the members' buffers any more, since there will be no further round.
    is_released: AtomicU32,
    /// Bytes of the description behind the members' lines.
    described: AtomicU32,
    members: AtomicU32,
    /// How often members have come on another core than before. A hint.
    moves: AtomicU32,
}

/// What a member says of itself.
#[repr(C, align(64))]
struct MemberWords {
    local_rank: AtomicU32,
    slot: AtomicU32,
    /// It is doing pieces: other members' buffers are in use.
    is_busy: AtomicU32,
    whereabouts: Whereabouts,
}

const WORDS_BYTES: u64 = size_of::<MeetingWords>() as u64;
const MEMBER_BYTES: u64 = size_of::<MemberWords>() as u64;

/// The daemon's number among the members.
const NOBODY: u32 = u32::MAX;

/// A meeting, as one process sees it. What an arrival needs comes first, so that it is in as few cache lines as can be.
// Lists are boxed slices: in a vector the compiler would mark that a member knows of no meeting yet, and each start would read that line, too.
#[repr(C)]
pub struct Meeting {
    words: NonNull<MeetingWords>,
    /// Of the stages, of which there are one or two.
    outlines: [Outline; 2],
    /// Who opens the first stage, if not the last.
    opener: Option<u32>,
    /// How many have to come for a round: the members, and the daemon if one of them is enough for it.
    parties: u32,
    /// Of a round. What may need the daemon is much.
    weight: Weight,
    is_spanning: bool,
    way: Way,
    members: NonNull<MemberWords>,
    slots: Box<[NonNull<RequestSlot>]>,
    stages: Box<[Stage]>,
    /// The members' numbers, ascending.
    ranks: Box<[u32]>,
    job: Arc<JobSegment>,
    places: Box<[(u32, Slot)]>,
    block: u64,
}

// SAFETY: the pointers lead into the mapping that `job` keeps, to atomics.
unsafe impl Send for Meeting {}
// SAFETY: as above.
unsafe impl Sync for Meeting {}

/// How an arrival went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The round is over.
    Done,
    /// It goes on: others have not come, or are at work, or little is left to do, for whoever waits first.
    Pending,
    /// Everybody has come, and there is more work than one should do who may have better to do.
    HasWork,
    /// Everybody has come, and other nodes wait: the daemon has to be told. It sees to the work, if there is any before its turn, and
    /// [wakes](Meeting::wake_all) those who sleep to help.
    Passed,
}

/// What helping has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Helped {
    /// Pieces done.
    pub pieces: u32,
    /// It is the daemon's turn now: it has to be told.
    pub has_passed: bool,
}

impl Meeting {
    /// What a meeting of so many members, planned like this, needs.
    pub fn footprint(plan: &MeetingPlan) -> u64 {
        let before = before_relay(plan.members.len(), plan.describe().len());
        before + RelayArea::footprint(plan) + CollectArea::footprint(plan) + PairArea::footprint(plan)
    }

    /// Writes a meeting down: its plan and the request each member has. The daemon's part.
    pub fn write(job: &Arc<JobSegment>, block: u64, plan: &MeetingPlan, places: &[(u32, Slot)]) -> Option<Self> {
        let description = plan.describe();
        let at = block + WORDS_BYTES + places.len() as u64 * MEMBER_BYTES;
        job.write(&Layout::contiguous(at, description.len() as u64), 0, &description).ok()?;
        // SAFETY: `MeetingWords` consists of atomics.
        let words: &MeetingWords = unsafe { job.segment().shared(block) }?;
        words.rounds.reset();
        let closed = &words.closed;
        for word in [&closed.moves, &closed.what, &closed.is_released] {
            word.store(0, Ordering::Relaxed);
        }
        for word in [&closed.why, &closed.until] {
            word.store(0, Ordering::Relaxed);
        }
        words.closed.described.store(description.len() as u32, Ordering::Relaxed);
        words.closed.members.store(places.len() as u32, Ordering::Relaxed);
        for (index, &(local_rank, slot)) in places.iter().enumerate() {
            // SAFETY: `MemberWords` consists of atomics.
            let member: &MemberWords =
                unsafe { job.segment().shared(block + WORDS_BYTES + index as u64 * MEMBER_BYTES) }?;
            member.local_rank.store(local_rank, Ordering::Relaxed);
            member.slot.store(slot, Ordering::Relaxed);
            member.is_busy.store(0, Ordering::Relaxed);
            member.whereabouts.reset();
        }
        let meeting = Self::on(job, block, (plan, description.len()), places, None)?;
        meeting.way.reset();
        Some(meeting)
    }

    /// The meeting at `block`. A member's part, who has the function if the operator is a user's; `None` if what is there is no
    /// meeting.
    pub fn read(job: &Arc<JobSegment>, block: u64, function: Option<Box<dyn UserFunction>>) -> Option<Self> {
        // SAFETY: `MeetingWords` consists of atomics.
        let words: &MeetingWords = unsafe { job.segment().shared(block) }?;
        let (described, count) =
            (words.closed.described.load(Ordering::Relaxed), words.closed.members.load(Ordering::Relaxed));
        let places: Option<Vec<_>> = (0..count)
            .map(|index| {
                // SAFETY: `MemberWords` consists of atomics.
                let member: &MemberWords =
                    unsafe { job.segment().shared(block + WORDS_BYTES + u64::from(index) * MEMBER_BYTES) }?;
                Some((member.local_rank.load(Ordering::Relaxed), member.slot.load(Ordering::Relaxed)))
            })
            .collect();
        let at = block + WORDS_BYTES + u64::from(count) * MEMBER_BYTES;
        let mut description = vec![0; described as usize];
        job.read(&Layout::contiguous(at, described.into()), 0, &mut description).ok()?;
        let plan = MeetingPlan::read(&description)?;
        let meeting = Self::on(job, block, (&plan, description.len()), &places?, function)?;
        // Any member does work on all members' buffers: each page it touches for the first time would cost as much as the work.
        let large = meeting.stages.iter().filter(|stage| stage.weight > Weight::Slight);
        large.for_each(|stage| stage.share.populate(job));
        Some(meeting)
    }

    fn on(
        job: &Arc<JobSegment>,
        block: u64,
        (plan, described): (&MeetingPlan, usize),
        places: &[(u32, Slot)],
        function: Option<Box<dyn UserFunction>>,
    ) -> Option<Self> {
        // SAFETY: both consist of atomics; the lines of the members were checked one by one.
        let (words, lines) = unsafe {
            (job.segment().shared::<MeetingWords>(block)?, job.segment().shared::<MemberWords>(block + WORDS_BYTES)?)
        };
        let slots: Option<Box<[_]>> =
            places.iter().map(|&(local_rank, slot)| Some(NonNull::from(job.slot(local_rank, slot)?))).collect();
        job.range(block, WORDS_BYTES + places.len() as u64 * MEMBER_BYTES)?;
        let mut shares = match &plan.span {
            None => vec![share::within(&plan.members)?],
            Some(span) => vec![share::before(&plan.members, span)?, share::after(&plan.members, span)?],
        };
        let function = function.map(|function| Arc::new(Mutex::new(function)));
        if let Some(function) = &function {
            shares.iter_mut().for_each(|share| share.set_function(function));
        }
        let has_user_operator = plan.members.first()?.shape.has_user_operator();
        let stages: Box<[_]> =
            shares.into_iter().map(|share| Stage::new(share, has_user_operator)).collect::<Option<_>>()?;
        let at = block + before_relay(places.len(), described);
        let way = Way::at(job, at, plan, function.as_ref());
        let weight = match stages.iter().map(|stage| stage.weight).max()? {
            // There are no pieces.
            _ if matches!(way, Way::Relay(_) | Way::Collect(_)) => Weight::Slight,
            _ if has_user_operator => Weight::Much,
            Weight::Little if plan.span.is_some() => Weight::Much,
            weight => weight,
        };
        let opener = plan.span.as_ref().and_then(|span| share::opener(&plan.members, span));
        let outline = |stage: usize| stages.get(stage).map_or(Outline::NONE, Stage::outline);
        Some(Self {
            words: NonNull::from(words),
            outlines: [0, 1].map(outline),
            opener,
            parties: places.len() as u32 + u32::from(opener.is_some()),
            weight,
            is_spanning: plan.span.is_some(),
            members: NonNull::from(lines),
            stages,
            slots: slots?,
            places: places.into(),
            ranks: plan.members.iter().map(|member| member.rank).collect(),
            way,
            block,
            job: Arc::clone(job),
        })
    }

    /// Where it lies.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Whether there is so much work that the daemon may have to do it.
    pub fn has_much_work(&self) -> bool {
        self.weight == Weight::Much
    }

    /// Whether there are members on other nodes.
    pub fn is_spanning(&self) -> bool {
        self.is_spanning
    }

    /// How many stages a round has.
    #[inline]
    fn stage_count(&self) -> usize {
        1 + usize::from(self.is_spanning)
    }

    /// Stages are counted over all rounds.
    fn stage_number(&self, round: u32, stage: usize) -> u32 {
        round.wrapping_mul(self.stage_count() as u32).wrapping_add(stage as u32)
    }

    /// A member is about to come: the lines that it writes then come while it fetches other things, for which counting would wait.
    #[inline]
    pub fn prepare_to_arrive(&self) {
        if matches!(self.way, Way::Together) {
            self.words().rounds.prepare_to_arrive();
            if self.weight > Weight::Slight {
                self.words().rounds.prepare_to_open();
            }
        }
    }

    /// A member has come for round `round`.
    pub fn arrive(&self, member: u32, round: u32) -> Arrival {
        if let Some(relayed) = self.relayed(member) {
            return if relayed.start(round) == Progress::Done { Arrival::Done } else { Arrival::Pending };
        }
        if let Some(collected) = self.collected(member) {
            return collected.arrive(round);
        }
        if let Some(paired) = self.paired(member) {
            return paired.arrive(round);
        }
        let is_last = self.words().rounds.arrive(self.parties());
        let stage = match self.opener {
            None if is_last => 0,
            Some(opener) if opener == member => 0,
            // What happens between the nodes has happened already.
            Some(_) if is_last => 1,
            _ => return Arrival::Pending,
        };
        self.begin_stage(member, round, stage)
    }

    #[inline]
    fn parties(&self) -> u64 {
        self.parties.into()
    }

    /// Everybody this stage needs has come.
    fn begin_stage(&self, member: u32, round: u32, index: usize) -> Arrival {
        let stage = self.outlines[index];
        if stage.is_empty {
            return if self.closed().is_some() { Arrival::Pending } else { self.arrive_at_end(round, index) };
        }
        let at_once = if member == NOBODY { Weight::Little } else { Weight::Slight };
        if stage.weight <= at_once && stage.is_doable {
            return self.do_all(member, round, index);
        }
        self.words().rounds.open(self.stage_number(round, index), stage.pieces);
        if index + 1 < self.stage_count() {
            return Arrival::Passed;
        }
        self.wake_all();
        if stage.weight == Weight::Little { Arrival::Pending } else { Arrival::HasWork }
    }

    /// Arrives for a member that has started its first round without knowing of the meeting. The daemon's part.
    ///
    /// A relayed message stays where it is: the member looks for it itself, and would do so in vain once the root has used the
    /// cell again. So does a root for what it collects.
    pub fn arrive_for(&self, member: u32) -> Arrival {
        let is_receiver = self.relayed(member).is_some_and(|relayed| !relayed.is_root());
        let is_collector = self.collected(member).is_some_and(|collected| collected.is_root());
        if is_receiver || is_collector { Arrival::Pending } else { self.arrive(member, 0) }
    }

    /// Little work: nobody else need know of it.
    fn do_all(&self, member: u32, round: u32, stage: usize) -> Arrival {
        let is_done = self.with_hands_on(member, || {
            let is_open = self.closed().is_none();
            if is_open {
                self.stages[stage].do_all(&self.job);
            }
            is_open
        });
        if is_done { self.arrive_at_end(round, stage) } else { Arrival::Pending }
    }

    /// A stage is over when everybody has come.
    fn arrive_at_end(&self, round: u32, stage: usize) -> Arrival {
        if self.end_stage(round, stage) { Arrival::Passed } else { Arrival::Done }
    }

    /// Does something with the members' buffers. `member`: on whose behalf.
    pub(crate) fn with_hands_on<R>(&self, member: u32, act: impl FnOnce() -> R) -> R {
        let Some(line) = self.member(member) else { return act() };
        line.is_busy.fetch_add(1, Ordering::Relaxed);
        // SYNC meeting-busy: busy before the closed word here, the closed word before busy in `is_out_of_use`.
        fence(Ordering::SeqCst);
        let result = act();
        // SYNC meeting-busy: the work before the hands are off.
        line.is_busy.fetch_sub(1, Ordering::Release);
        result
    }

    /// A stage is over. True if it is the daemon's turn now.
    fn end_stage(&self, round: u32, stage: usize) -> bool {
        let has_passed = stage + 1 < self.stage_count();
        if has_passed {
            self.words().rounds.pass(round.wrapping_add(1));
        } else {
            self.words().rounds.end(round);
            self.wake_all();
        }
        has_passed
    }

    /// How many rounds have come to what happens between the nodes. The daemon's part.
    pub fn passed(&self) -> u32 {
        self.words().rounds.passed()
    }

    /// What happens between the nodes has happened: what comes after is due as soon as all have come, and done at once if it is little. True
    /// if there is work now. The daemon's part.
    pub fn resume(&self, round: u32) -> bool {
        let has_all = self.opener.is_none() || self.words().rounds.arrive(self.parties());
        has_all && self.begin_stage(NOBODY, round, 1) == Arrival::HasWork
    }

    /// Whether [`poll`](Self::poll) or [`help`](Self::help) would get further.
    #[inline]
    pub fn is_due(&self, member: u32, round: u32) -> bool {
        if let Some(relayed) = self.relayed(member) {
            relayed.is_due(round)
        } else if let Some(collected) = self.collected(member) {
            collected.is_due(round)
        } else if let Some(paired) = self.paired(member) {
            paired.is_over(round) || paired.is_due()
        } else {
            // Once it is closed nobody takes any.
            self.words().rounds.is_over(round) || (self.has_pieces(round) && self.closed().is_none())
        }
    }

    /// Whether the round is over for a member that has come for it.
    #[inline]
    pub fn poll(&self, member: u32, round: u32) -> bool {
        if let Some(relayed) = self.relayed(member) {
            relayed.poll(round) == Progress::Done
        } else if let Some(collected) = self.collected(member) {
            collected.poll(round) == Progress::Done
        } else if let Some(paired) = self.paired(member) {
            paired.is_over(round)
        } else {
            self.words().rounds.is_over(round)
        }
    }

    #[inline]
    fn paired(&self, member: u32) -> Option<Paired<'_>> {
        let Way::Pairs(area) = &self.way else { return None };
        Some(Paired { area, meeting: self, member, index: self.index(member) })
    }

    #[inline]
    fn relayed(&self, member: u32) -> Option<Relayed<'_>> {
        if let Way::Relay(area) = &self.way { Some(Relayed { area, meeting: self, member }) } else { None }
    }

    #[inline]
    fn collected(&self, member: u32) -> Option<Collected<'_>> {
        if let Way::Collect(area) = &self.way { Some(Collected { area, meeting: self, member }) } else { None }
    }

    /// Whether the round has pieces nobody has taken, and this process may.
    #[inline]
    pub fn has_pieces(&self, round: u32) -> bool {
        self.weight > Weight::Slight && self.doable_stage(round).is_some()
    }

    /// The stage of the round that has pieces nobody has taken.
    fn unfinished_stage(&self, round: u32) -> Option<usize> {
        let has_pieces = |&stage: &usize| {
            self.words().rounds.has_pieces(self.stage_number(round, stage), self.outlines[stage].pieces)
        };
        (0..self.stage_count()).find(has_pieces)
    }

    /// The same, if this process can do it.
    fn doable_stage(&self, round: u32) -> Option<usize> {
        self.unfinished_stage(round).filter(|&stage| self.outlines[stage].is_doable)
    }

    /// Whether the round has pieces before the daemon's turn, for which other nodes wait.
    pub fn has_pieces_before_nodes(&self, round: u32) -> bool {
        self.is_spanning && self.unfinished_stage(round) == Some(0)
    }

    /// The round that has work, for who is no member and so knows none.
    pub fn working_round(&self) -> Option<u32> {
        if let Some(paired) = self.paired(NOBODY) {
            return paired.due_round();
        }
        let round = self.words().rounds.ended();
        self.has_pieces(round).then_some(round)
    }

    /// Does up to `limit` pieces. `member`: on whose behalf, so that the daemon knows whose hands are on the buffers.
    pub fn help(&self, member: u32, round: u32, limit: u32) -> Helped {
        if let Some(paired) = self.paired(member) {
            return Helped { pieces: paired.help(limit), has_passed: false };
        }
        let mut helped = Helped::default();
        if !self.has_pieces(round) {
            return helped;
        }
        let section = self.section(member);
        self.with_hands_on(member, || {
            while helped.pieces < limit
                && self.closed().is_none()
                && let Some(has_passed) = self.do_piece(round, section)
            {
                helped.pieces += 1;
                helped.has_passed |= has_passed;
            }
        });
        helped
    }

    /// `None` if there was none left; else whether it was the last one before the daemon's turn.
    fn do_piece(&self, round: u32, section: u32) -> Option<bool> {
        let (rounds, index) = (&self.words().rounds, self.doable_stage(round)?);
        let stage = &self.stages[index];
        let piece = rounds.claim(self.stage_number(round, index), stage.pieces, section)?;
        stage.do_piece(&self.job, piece);
        Some(rounds.finish(stage.pieces) && self.end_stage(round, index))
    }

    /// Tells the members where the meeting lies. The daemon's part.
    pub fn announce(&self) {
        self.each_slot(|slot| slot.set_channel(self.block));
    }

    /// The request of each member: index of its rank among the node's, slot.
    pub fn places(&self) -> &[(u32, Slot)] {
        &self.places
    }

    fn each_slot(&self, act: impl Fn(&RequestSlot)) {
        // SAFETY: checked when the meeting was opened.
        self.slots.iter().for_each(|slot| act(unsafe { slot.as_ref() }));
    }

    pub(crate) fn rounds(&self) -> &RoundWords {
        &self.words().rounds
    }

    pub(crate) fn weight(&self) -> Weight {
        self.weight
    }

    #[inline]
    fn words(&self) -> &MeetingWords {
        // SAFETY: checked when the meeting was opened, and mapped as long as `job` lives; it consists of atomics.
        unsafe { self.words.as_ref() }
    }

    fn member(&self, member: u32) -> Option<&MemberWords> {
        self.line(self.index(member)?)
    }

    /// Where a member lies among those of the node. `None` for the daemon, which counts as nobody.
    pub fn index(&self, member: u32) -> Option<usize> {
        // Without members on other nodes they are numbered as they lie.
        match self.ranks.get(member as usize) {
            Some(&rank) if rank == member => Some(member as usize),
            _ => self.ranks.binary_search(&member).ok(),
        }
    }

    /// Where somebody begins to look for pieces: members share the sections out, or, where some have to share a core, the cores do. What
    /// was read and written in the last round is in a core's caches, whichever of its ranks did it.
    fn section(&self, member: u32) -> u32 {
        let Some(index) = self.index(member) else { return 0 };
        let sections = SECTIONS as usize;
        self.section_of_core(index, sections).unwrap_or(index * sections / self.slots.len()) as u32
    }

    pub(crate) fn whereabouts(&self, index: usize) -> Option<&Whereabouts> {
        self.line(index).map(|line| &line.whereabouts)
    }

    pub(crate) fn moves_word(&self) -> &AtomicU32 {
        &self.words().closed.moves
    }

    pub(crate) fn job(&self) -> &JobSegment {
        &self.job
    }

    fn line(&self, index: usize) -> Option<&MemberWords> {
        // SAFETY: there are as many lines as slots.
        (index < self.slots.len()).then(|| unsafe { self.members.add(index).as_ref() })
    }
}

/// Bytes of a meeting before its relay, what it collects, or its pairs.
fn before_relay(members: usize, described: usize) -> u64 {
    WORDS_BYTES + members as u64 * MEMBER_BYTES + (described as u64).next_multiple_of(64)
}
