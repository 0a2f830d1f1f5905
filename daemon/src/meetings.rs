//! Meetings of a job on this node: where they lie, and the daemon's part in them.
//!
//! Members arrive, and do little work, by themselves. The daemon does what is more while all of them compute, piece by piece
//! and in turn, and sees to it that members learn when one is gone, and that nobody's buffers are given back while others
//! have their hands on them. What only members can do, who have the functions of the program's operators, it hands over.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use ropeway_engine::{CollectiveId, MeetingId};
use ropeway_proto::collective::CollectiveShape;
use ropeway_proto::operator::{ElementType, Operator};
use ropeway_proto::{ChannelId, Completion};
use ropeway_shm::{Arrival, Helped, Meeting};
use slab::Slab;

/// All meetings of a job.
#[derive(Default)]
pub(crate) struct Meetings {
    table: Slab<Entry>,
    /// Meetings with work to do.
    working: VecDeque<u32>,
    /// Those whose work is left to members that wait, and until when.
    left: VecDeque<(Instant, u32)>,
    /// Rounds that have come to what happens between the nodes.
    passed: VecDeque<CollectiveId>,
    leaving: Vec<(MeetingId, ChannelId)>,
    /// Those that are closed, and whose members don't know yet that nobody has their buffers in hand.
    closing: Vec<MeetingId>,
    /// The meeting of each collective between nodes.
    spanning: HashMap<CollectiveId, MeetingId>,
}

struct Entry {
    meeting: Meeting,
    footprint: u64,
    /// Members whose requests exist.
    members: usize,
    is_working: bool,
    /// The last round whose work before the nodes' turn was left to members that wait for it, and until when.
    left: Option<(u32, Instant)>,
    spanning: Option<Spanning>,
}

/// What is known of a meeting with members on other nodes.
pub(crate) struct Spanning {
    collective: CollectiveId,
    combination: Option<(Operator, ElementType)>,
    /// Memory for what is under way: place and size.
    memory: (u64, u64),
    /// Rounds that have gone on to the other nodes.
    rounds: u32,
    is_running: bool,
}

/// What is left of a meeting without members.
pub(crate) struct Empty {
    /// To be closed.
    pub(crate) collective: Option<CollectiveId>,
    /// To be given back: places and sizes.
    pub(crate) memory: Vec<(u64, u64)>,
}

/// Nobody: the daemon's own number where members have theirs.
const NOBODY: u32 = u32::MAX;
/// For how long work that other nodes wait for is left to members that seem to wait for it: one may be stopped.
const LEFT_FOR: Duration = Duration::from_millis(1);
/// More than little work has. Counters in shared memory may say anything.
const LITTLE_PIECES: u32 = 64;

impl Spanning {
    pub(crate) fn new(collective: CollectiveId, shape: &CollectiveShape, memory: (u64, u64)) -> Self {
        Self { collective, combination: shape.combination(), memory, rounds: 0, is_running: false }
    }
}

impl Meetings {
    /// Takes a meeting over that was just written down, and tells its members.
    pub(crate) fn add(&mut self, meeting: Meeting, footprint: u64, spanning: Option<Spanning>) -> MeetingId {
        meeting.announce();
        let collective = spanning.as_ref().map(|spanning| spanning.collective);
        let members = meeting.places().len();
        let id =
            MeetingId(
                self.table.insert(Entry { meeting, footprint, members, is_working: false, left: None, spanning })
                    as u32,
            );
        self.spanning.extend(collective.map(|collective| (collective, id)));
        id
    }

    /// A member arrives, who did not know of the meeting: so it is its first round.
    pub(crate) fn arrive(&mut self, id: MeetingId, member: u32) {
        let arrival = self.table.get(id.0 as usize).map(|entry| entry.meeting.arrive_for(member));
        if matches!(arrival, Some(Arrival::HasWork | Arrival::Passed)) {
            self.wish_work(id);
        }
    }

    /// The only member on this node arrives, who has seen the last round end.
    pub(crate) fn arrive_alone(&mut self, id: MeetingId) {
        if let Some(entry) = self.table.get_mut(id.0 as usize)
            && let Some(spanning) = entry.spanning.as_ref().filter(|spanning| !spanning.is_running)
            && entry.meeting.is_alone()
        {
            entry.meeting.arrive_alone(spanning.rounds);
            self.passed.extend(entry.take_passed());
        }
    }

    /// A member asks for the work to be done. Where other nodes wait for it, who sleeps is to help; the last to come has left it to us to wake
    /// him.
    pub(crate) fn wish_work(&mut self, id: MeetingId) {
        if let Some(entry) = self.table.get(id.0 as usize)
            && entry.spanning.is_some()
        {
            entry.meeting.wake_all();
        }
        self.note_work(id);
    }

    fn note_work(&mut self, id: MeetingId) {
        if let Some(entry) = self.table.get_mut(id.0 as usize)
            && !std::mem::replace(&mut entry.is_working, true)
        {
            self.working.push_back(id.0);
        }
    }

    /// Does a piece of each meeting that has work, or calls those who can. Says how many it did.
    pub(crate) fn do_pieces(&mut self, now: Instant) -> usize {
        while let Some(&(until, index)) = self.left.front()
            && until <= now
        {
            self.left.pop_front();
            self.note_work(MeetingId(index));
        }
        let mut pieces = 0;
        for _ in 0..self.working.len() {
            let Some(index) = self.working.pop_front() else { break };
            let Some(entry) = self.table.get_mut(index as usize) else { continue };
            let round = entry.meeting.working_round();
            let until = round.and_then(|round| entry.leave_until(round, now));
            let helped = match (round, until) {
                (Some(round), None) => entry.meeting.help(NOBODY, round, 1),
                _ => Helped::default(),
            };
            self.passed.extend(entry.take_passed());
            if helped.pieces > 0 {
                pieces += 1;
                self.working.push_back(index);
                continue;
            }
            entry.is_working = false;
            match until {
                Some(until) if self.left.contains(&(until, index)) => {}
                Some(until) => self.left.push_back((until, index)),
                None => entry.meeting.call_combiners(),
            }
        }
        pieces
    }

    /// When to look at what is left to members.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.left.front().map(|(until, _)| *until)
    }

    // ---- between nodes

    /// The next collective whose members on this node have all come and done what comes before.
    pub(crate) fn take_passed(&mut self) -> Option<CollectiveId> {
        self.passed.pop_front()
    }

    /// What happens between the nodes for a meeting, if anything does.
    pub(crate) fn collective(&self, id: MeetingId) -> Option<CollectiveId> {
        Some(self.table.get(id.0 as usize)?.spanning.as_ref()?.collective)
    }

    /// How a collective combines, if it does.
    pub(crate) fn combination(&self, collective: CollectiveId) -> Option<(Operator, ElementType)> {
        let id = self.spanning.get(&collective)?;
        self.table.get(id.0 as usize)?.spanning.as_ref()?.combination
    }

    /// What happens between the nodes is over. The meeting, if nobody is left of it.
    pub(crate) fn resume(&mut self, collective: CollectiveId, failure: Option<Completion>) -> Option<MeetingId> {
        let id = *self.spanning.get(&collective)?;
        let entry = self.table.get_mut(id.0 as usize)?;
        let spanning = entry.spanning.as_mut()?;
        spanning.is_running = false;
        let round = spanning.rounds.wrapping_sub(1);
        if let Some(failure) = failure {
            entry.meeting.close(&failure, None);
            self.closing.push(id);
        }
        // Of a meeting that is closed somebody's buffers may be gone.
        if entry.meeting.closed().is_none() && entry.meeting.resume(round) {
            self.note_work(id);
        }
        self.table[id.0 as usize].members.eq(&0).then_some(id)
    }

    /// There will be no further round of a collective.
    pub(crate) fn fail(&mut self, collective: CollectiveId, failure: &Completion) {
        let Some(&id) = self.spanning.get(&collective) else { return };
        if let Some(entry) = self.table.get(id.0 as usize) {
            entry.meeting.close(failure, None);
            self.closing.push(id);
        }
    }

    // ---- ending

    /// A member is gone; `left` is its index among the node's ranks, if it has gone by itself. True if its request, when one is named,
    /// can be freed now; if not, `take_left` will say so.
    pub(crate) fn leave(
        &mut self,
        id: MeetingId,
        request: Option<ChannelId>,
        (why, left): (&Completion, Option<u32>),
        is_alive: impl Fn(u32) -> bool,
    ) -> bool {
        let Some(entry) = self.table.get(id.0 as usize) else { return true };
        entry.finish_little();
        entry.meeting.close(why, left);
        self.closing.push(id);
        match request {
            Some(request) if !entry.is_out_of_use(is_alive) => {
                self.leaving.push((id, request));
                false
            }
            _ => {
                self.forget_member(id);
                true
            }
        }
    }

    /// Whether somebody waits for others to take their hands off.
    pub(crate) fn is_leaving(&self) -> bool {
        // When what happens between the nodes is over there is something to do in any case.
        let is_running = |id: &MeetingId| self.table.get(id.0 as usize).is_some_and(Entry::is_running);
        !self.leaving.is_empty() || !self.closing.iter().all(is_running)
    }

    /// Tells members of closed meetings whose buffers nobody uses any more.
    pub(crate) fn release_closed(&mut self, is_alive: impl Fn(u32) -> bool) {
        self.closing.retain(|id| {
            let Some(entry) = self.table.get(id.0 as usize) else { return false };
            let is_free = entry.is_out_of_use(&is_alive);
            if is_free {
                entry.meeting.release();
            }
            !is_free
        });
    }

    /// The next request whose buffers nobody uses any more, and the meeting it has left.
    pub(crate) fn take_left(&mut self, is_alive: impl Fn(u32) -> bool) -> Option<(MeetingId, ChannelId)> {
        let is_free = |(id, _): &(MeetingId, ChannelId)| {
            self.table.get(id.0 as usize).is_none_or(|entry| entry.is_out_of_use(&is_alive))
        };
        let index = self.leaving.iter().position(is_free)?;
        let (id, request) = self.leaving.swap_remove(index);
        self.forget_member(id);
        Some((id, request))
    }

    fn forget_member(&mut self, id: MeetingId) {
        if let Some(entry) = self.table.get_mut(id.0 as usize) {
            entry.members -= 1;
        }
    }

    /// What is left of a meeting all of whose members are gone, unless something is under way between the nodes.
    pub(crate) fn take_empty(&mut self, id: MeetingId) -> Option<Empty> {
        self.table.get(id.0 as usize).filter(|entry| entry.members == 0 && !entry.is_running())?;
        let entry = self.table.remove(id.0 as usize);
        self.closing.retain(|&other| other != id);
        let mut empty = Empty { collective: None, memory: vec![(entry.meeting.block(), entry.footprint)] };
        if let Some(spanning) = entry.spanning {
            self.spanning.remove(&spanning.collective);
            empty.collective = Some(spanning.collective);
            empty.memory.extend(Some(spanning.memory).filter(|(_, bytes)| *bytes > 0));
        }
        Some(empty)
    }
}

impl Entry {
    /// Until when the round's work is left to members that wait for it, in whose caches the data is.
    fn leave_until(&mut self, round: u32, now: Instant) -> Option<Instant> {
        if !self.meeting.has_pieces_before_nodes(round) || !self.meeting.is_watched() {
            return None;
        }
        let until = match self.left {
            Some((left, until)) if left == round => until,
            _ => now + LEFT_FOR,
        };
        self.left = Some((round, until));
        (now < until).then_some(until)
    }

    /// The collective between nodes, if its next round is due.
    fn take_passed(&mut self) -> Option<CollectiveId> {
        let spanning = self.spanning.as_mut()?;
        if spanning.is_running || self.meeting.passed() == spanning.rounds {
            return None;
        }
        spanning.is_running = true;
        spanning.rounds = spanning.rounds.wrapping_add(1);
        Some(spanning.collective)
    }

    /// What all have come for, and nobody has waited for yet, is done before one leaves: whoever waits later gets the result.
    fn finish_little(&self) {
        self.meeting.settle_parts();
        if let Some(round) = self.meeting.working_round().filter(|_| !self.meeting.has_much_work()) {
            self.meeting.help(NOBODY, round, LITTLE_PIECES);
        }
    }

    /// Whether nobody has his hands on the members' buffers any more.
    fn is_out_of_use(&self, is_alive: impl Fn(u32) -> bool) -> bool {
        !self.is_running() && self.meeting.is_out_of_use(is_alive)
    }

    fn is_running(&self) -> bool {
        self.spanning.as_ref().is_some_and(|spanning| spanning.is_running)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ropeway_proto::Layout;
    use ropeway_proto::collective::{CollectiveKind, CollectiveMember, Combination};
    use ropeway_proto::division::Span;
    use ropeway_proto::operator::Scalar;
    use ropeway_shm::{JobGeometry, JobSegment, MeetingPlan};

    use super::*;

    const ARENA_BYTES: u64 = 4 << 20;

    /// Two ranks of a node, each with a slot for each of two collectives.
    fn job() -> Arc<JobSegment> {
        let job = JobSegment::create(JobGeometry { local_ranks: 2, arena_bytes_max: ARENA_BYTES }).unwrap();
        for local_rank in 0..2 {
            job.reserve_arena(local_rank, 0..ARENA_BYTES).unwrap();
            job.reserve_slots(local_rank, 0..2).unwrap();
        }
        job.reserve_channels(0..1 << 20).unwrap();
        Arc::new(job)
    }

    /// A sum of `count` elements, whose arrays lie in the collective's half of each arena.
    fn sum(job: &Arc<JobSegment>, collective: u32, count: u64) -> Meeting {
        sum_of(job, collective, count, None)
    }

    /// The same of the first member here and the second on another node, if there is a span.
    fn sum_of(job: &Arc<JobSegment>, collective: u32, count: u64, span: Option<Span>) -> Meeting {
        let shape = Arc::new(CollectiveShape {
            kind: CollectiveKind::Allreduce,
            members: vec![0, 1],
            root: 0,
            combination: Some(Combination::Predefined(Operator::Sum.code(), ElementType::plain(Scalar::U64).code())),
            element_bytes: 8,
            counts: vec![count],
            is_reproducible: false,
            algorithm: None,
        });
        let member = |rank: u32| {
            let input = job.arena(rank).start + ARENA_BYTES / 2 * u64::from(collective);
            let member =
                CollectiveMember { shape: shape.clone(), number: 0, rank, input, output: input + ARENA_BYTES / 4 };
            job.write(&Layout::contiguous(input, 8 * count), 0, &vec![1; 8 * count as usize]).unwrap();
            member
        };
        let places = [(0, collective), (1, collective)];
        let here = if span.is_some() { 1 } else { 2 };
        let plan = MeetingPlan { members: (0..here).map(member).collect(), span };
        let block = job.channels().start + (512 << 10) * u64::from(collective);
        Meeting::write(job, block, &plan, &places[..here as usize]).unwrap()
    }

    fn assert_sums(job: &JobSegment, collective: u64, count: u64) {
        for local_rank in 0..2 {
            let output = job.arena(local_rank).start + ARENA_BYTES / 2 * collective + ARENA_BYTES / 4;
            let mut sums = vec![0; 8 * count as usize];
            job.read(&Layout::contiguous(output, 8 * count), 0, &mut sums).unwrap();
            assert!(sums.iter().all(|&byte| byte == 2), "collective {collective}, rank {local_rank}");
        }
    }

    /// Nobody waits, so all work is the daemon's: what comes late and is little does not wait for what was there before.
    #[test]
    fn meetings_take_turns_piece_by_piece() {
        let (job, mut meetings) = (job(), Meetings::default());
        let [large, small] = [(0, 100_000), (1, 10_000)].map(|(collective, count)| {
            let id = meetings.add(sum(&job, collective, count), 0, None);
            (0..2).for_each(|member| meetings.arrive(id, member));
            id
        });
        let is_working = |meetings: &Meetings, id: MeetingId| meetings.table[id.0 as usize].is_working;
        while is_working(&meetings, small) {
            assert!(is_working(&meetings, large));
            meetings.do_pieces(Instant::now());
        }
        assert_eq!(meetings.do_pieces(Instant::now()), 1, "the large one goes on");
        while is_working(&meetings, large) {
            meetings.do_pieces(Instant::now());
        }
        assert_sums(&job, 0, 100_000);
        assert_sums(&job, 1, 10_000);
    }

    #[test]
    fn what_all_have_come_for_is_done_before_one_leaves() {
        let (job, mut meetings) = (job(), Meetings::default());
        let id = meetings.add(sum(&job, 0, 1000), 0, None);
        (0..2).for_each(|member| meetings.arrive(id, member));
        let meeting = &meetings.table[id.0 as usize].meeting;
        assert!(meeting.is_due(1, 0) && !meeting.poll(1, 0), "it is left to who waits");
        let why = Completion::bare(ropeway_proto::Status::PeerFreed);
        assert!(meetings.leave(id, None, (&why, Some(0)), |_| true));
        assert!(meetings.table[id.0 as usize].meeting.poll(1, 0));
        assert_sums(&job, 0, 1000);
    }

    #[test]
    fn who_is_alone_has_come_once_in_each_round() {
        let (job, mut meetings) = (job(), Meetings::default());
        let input = job.arena(0).start;
        let span = Span { nodes: vec![0, 1], me: 0, input, output: input + ARENA_BYTES / 4 };
        let id = meetings.add(sum_of(&job, 0, 1, Some(span)), 0, Some(spanning()));
        for _ in 0..3 {
            meetings.arrive_alone(id);
            assert_eq!(meetings.take_passed(), Some(CollectiveId(0)));
            // Who says so again before the round is over has not come for the next one.
            meetings.arrive_alone(id);
            assert_eq!(meetings.take_passed(), None);
            assert_eq!(meetings.resume(CollectiveId(0), None), None);
        }
        assert!(meetings.table[id.0 as usize].meeting.poll(0, 2));
        let several = meetings.add(sum(&job, 1, 1), 0, Some(spanning()));
        meetings.arrive_alone(several);
        assert_eq!(meetings.take_passed(), None, "it has to wait for the others");
    }

    #[test]
    fn who_sleeps_is_woken_to_help_where_other_nodes_wait() {
        let bell = 1;
        for (spanning, woken) in [(None, 0), (Some(spanning()), 1)] {
            let (job, mut meetings) = (job(), Meetings::default());
            let id = meetings.add(sum(&job, 0, 100_000), 0, spanning);
            meetings.table[id.0 as usize].meeting.note_sleeper();
            job.slot(0, 0).unwrap().arm(bell);
            meetings.wish_work(id);
            let wake_ups = [0, 1].map(|rank| job.doorbell(rank, bell).unwrap().calls().wake_ups);
            assert_eq!(wake_ups, [woken, 0], "else the last to come does it");
        }
    }

    #[test]
    fn who_waits_for_a_round_that_is_given_up_learns_of_it_when_nobody_has_its_buffers_in_hand() {
        let (job, mut meetings) = (job(), Meetings::default());
        let id = meetings.add(sum(&job, 0, 100_000), 0, Some(spanning()));
        (0..2).for_each(|member| meetings.arrive(id, member));
        let given_up = |meetings: &Meetings| meetings.table[id.0 as usize].meeting.given_up(0);
        let set_running = |meetings: &mut Meetings, is_running| {
            meetings.table[id.0 as usize].spanning.as_mut().unwrap().is_running = is_running;
        };
        let why = Completion::bare(ropeway_proto::Status::RankFailed);
        set_running(&mut meetings, true);
        assert!(meetings.leave(id, None, (&why, None), |_| true));
        meetings.release_closed(|_| true);
        assert_eq!((given_up(&meetings), meetings.is_leaving()), (None, false), "messages of other nodes may come");
        set_running(&mut meetings, false);
        assert!(meetings.is_leaving());
        meetings.release_closed(|_| true);
        assert_eq!((given_up(&meetings), meetings.is_leaving()), (Some(why), false));
    }

    fn spanning() -> Spanning {
        let combination = None;
        Spanning { collective: CollectiveId(0), combination, memory: (0, 0), rounds: 0, is_running: false }
    }
}
