//! A job's collectives: where members meet on this node, and what the daemon does between that and other nodes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use ropeway_engine::{CollectiveId, CollectiveStep, CollectiveWork, MeetingId, NodeCollective};
use ropeway_proto::agreement::ShapeDigest;
use ropeway_proto::collective::{CollectiveMember, CollectiveShape};
use ropeway_proto::control::Refusal;
use ropeway_proto::division::{Division, Span};
use ropeway_proto::{ChannelId, CommId, Completion, Epoch, Layout, NodeId, Slot, Status};
use ropeway_schedule::{Algorithm, Schedule, Side};
use ropeway_shm::{Counter, Counters, JobSegment, Meeting, MeetingPlan, own_buffers};

use crate::job::Job;
use crate::meetings::{Meetings, Spanning};

/// Copies and combinations to be made between messages of collectives, piece by piece. Collectives take turns, however many steps each has
/// to do, and so do the steps of each.
#[derive(Default)]
pub(crate) struct Work {
    queue: VecDeque<(CollectiveId, Steps)>,
    /// Lists for those that have something to do again.
    spare: Vec<Steps>,
}

/// What a collective has to do, and how far each step has got.
type Steps = VecDeque<(CollectiveWork, u64)>;

/// Memory of a node for what is under way between the nodes.
struct Stage {
    input: u64,
    output: u64,
    scratch: u64,
    /// Where it lies, and how much it is.
    memory: (u64, u64),
}

/// What is done of a copy or combination before others have their turn, in bytes.
const PIECE_BYTES: u64 = 64 << 10;
/// How many pieces before the devices have theirs.
const PIECES_PER_CYCLE: usize = 4;

const TOO_MANY_STEPS: &str = "too many steps of collectives between nodes: free some, or have fewer segments";
const THEY_REGISTERED: &str = "members meet when the last of them registers";
const CHECKED: &str = "it was checked when they registered";

/// How a collective is divided between nodes, as this one sees it.
struct Spread {
    /// Participant of each member.
    nodes: Vec<u16>,
    participants: Vec<NodeId>,
    me: u16,
    between: CollectiveShape,
    schedule: Arc<Schedule>,
}

impl Job {
    /// Checks and passes on what a member says of a collective. False if it takes much memory, for which the member is to ask again: there is
    /// some more now.
    pub(crate) fn register(
        &mut self,
        (local_rank, slot): (u32, Slot),
        epoch: Epoch,
        comm: CommId,
        member: CollectiveMember,
    ) -> Result<bool, Refusal> {
        let invalid = |error: &dyn std::fmt::Display| Refusal::Invalid(error.to_string());
        member.shape.check().map_err(|error| invalid(&error))?;
        if member.rank >= member.shape.size() {
            return Err(Refusal::Invalid(format!("there is no member {}", member.rank)));
        }
        self.check_algorithm(&member.shape).map_err(Refusal::Invalid)?;
        let (input, output) = member.bytes();
        for (offset, bytes) in [(member.input, input), (member.output, output)] {
            let layout = Layout::contiguous(offset, bytes);
            if !layout.is_valid() {
                return Err(Refusal::Invalid("a buffer that can't be".into()));
            }
            self.check_layout(local_rank, &layout).map_err(|error| invalid(&error))?;
        }
        if let Some((members, spread)) = self.would_spread(comm, &member) {
            if !self.has_room_for(&spread) {
                return Err(Refusal::Invalid(TOO_MANY_STEPS.into()));
            }
            // There is some more memory now.
            if !self.prepare_stage(&members, &spread) {
                return Ok(false);
            }
        }
        self.make_sure_of_slot(local_rank, slot).map_err(|error| invalid(&error))?;
        self.engine.register((local_rank, slot), epoch, comm, member).map_err(|error| invalid(&error))?;
        self.carry_out_local_work();
        Ok(true)
    }

    /// Who would meet, and how it would be divided between nodes, if this member is the last to register it.
    fn would_spread(&mut self, comm: CommId, member: &CollectiveMember) -> Option<(Vec<CollectiveMember>, Spread)> {
        let members = self.engine.would_meet(comm, member).filter(|all| all.len() < member.shape.members.len())?;
        Some((members, self.spread(&member.shape)?))
    }

    /// Other nodes wait for as many steps of ours and no more: then they cut the link, for all jobs.
    fn has_room_for(&self, spread: &Spread) -> bool {
        self.engine.has_room_for_steps(spread.schedule.steps().len())
    }

    /// Whether there is memory for what a collective takes; if not, there is some more now.
    fn prepare_stage(&mut self, members: &[CollectiveMember], spread: &Spread) -> bool {
        let (_, bytes) = spread.stage(members, 0).memory;
        self.channels.prepare_space(&self.segment, bytes, self.quota_left())
    }

    /// Sets up where members meet.
    ///
    /// # Errors
    /// The bytes that this takes, if there is no memory for them.
    pub(crate) fn open_meeting(
        &mut self,
        comm: CommId,
        requests: &[ChannelId],
        members: Vec<CollectiveMember>,
    ) -> Result<MeetingId, u64> {
        let place = |&id: &ChannelId| self.engine.place_of(id).map(|(local_rank, slot, _)| (local_rank, slot));
        let places: Vec<_> = requests.iter().map(place).collect::<Option<_>>().expect(THEY_REGISTERED);
        let first = members.first().expect(THEY_REGISTERED).clone();
        if members.len() == first.shape.members.len() {
            return self.write_meeting(MeetingPlan { members, span: None }, &places, None);
        }
        let meeting = self.open_spanning(comm, members, &places);
        if meeting.is_err() {
            self.renounce(comm, &first);
        }
        meeting
    }

    fn open_spanning(
        &mut self,
        comm: CommId,
        members: Vec<CollectiveMember>,
        places: &[(u32, Slot)],
    ) -> Result<MeetingId, u64> {
        let first = members.first().expect(THEY_REGISTERED).clone();
        let spread = self.spread(&first.shape).expect(CHECKED);
        let stage = self.take_stage(&spread, &members)?;
        let span = Span { nodes: spread.nodes.clone(), me: spread.me, input: stage.input, output: stage.output };
        let collective = self.engine.open_collective(spread.collective(comm, &first, &stage).expect(CHECKED));
        let spanning = Spanning::new(collective, &first.shape, stage.memory);
        let plan = MeetingPlan { members, span: Some(span) };
        let meeting = self.write_meeting(plan, places, Some(spanning));
        if meeting.is_err() {
            self.engine.close_collective(collective);
            self.channels.give_space_back(stage.memory.0, stage.memory.1);
        }
        meeting
    }

    fn write_meeting(
        &mut self,
        plan: MeetingPlan,
        places: &[(u32, Slot)],
        spanning: Option<Spanning>,
    ) -> Result<MeetingId, u64> {
        let footprint = Meeting::footprint(&plan);
        let block = self.take_space(footprint)?;
        match Meeting::write(&self.segment, block, &plan, places) {
            Some(meeting) => Ok(self.meetings.add(meeting, footprint, spanning)),
            None => {
                self.channels.give_space_back(block, footprint);
                Err(footprint)
            }
        }
    }

    /// Memory of the job. `Err` says how much was asked for in vain.
    fn take_space(&mut self, bytes: u64) -> Result<u64, u64> {
        self.channels.take_space(&self.segment, bytes, self.quota_left()).ok_or(bytes)
    }

    /// A collective can't take place: the other nodes learn that when it is opened and closed. If there is no room even for that, they learn
    /// it when the job ends.
    pub(crate) fn renounce(&mut self, comm: CommId, member: &CollectiveMember) {
        let nowhere = Stage { input: 0, output: 0, scratch: 0, memory: (0, 0) };
        let spread = self.spread(&member.shape).filter(|spread| self.has_room_for(spread));
        if let Some(collective) = spread.and_then(|spread| spread.collective(comm, member, &nowhere)) {
            let id = self.engine.open_collective(collective);
            self.engine.close_collective(id);
        }
    }

    /// The nodes of a collective's members, and which of them each member's is. `None` if there is no such rank.
    fn participants(&self, shape: &CollectiveShape) -> Option<(Vec<u16>, Vec<NodeId>)> {
        let (mut nodes, mut participants) = (Vec::new(), Vec::new());
        let mut known = vec![None; self.engine.spec().nodes.len()];
        for &rank in &shape.members {
            let node = self.engine.spec().node_of(rank)?;
            nodes.push(*known[usize::from(node.0)].get_or_insert_with(|| {
                participants.push(node);
                participants.len() as u16 - 1
            }));
        }
        Some((nodes, participants))
    }

    fn spread(&mut self, shape: &CollectiveShape) -> Option<Spread> {
        let (nodes, participants) = self.participants(shape)?;
        let own = self.engine.spec().node;
        let me = participants.iter().position(|&node| node == own)? as u16;
        let between = Division::new(shape, &nodes)?.between();
        let schedule = self.schedules.get(&between, me)?;
        Some(Spread { nodes, participants, me, between, schedule })
    }

    /// Whether nodes can do what members want as they want it.
    fn check_algorithm(&self, shape: &CollectiveShape) -> Result<(), String> {
        let spread = self.participants(shape).filter(|(_, participants)| participants.len() > 1);
        match (spread.as_ref().and_then(|(nodes, _)| Division::new(shape, nodes)), &shape.algorithm) {
            (Some(division), _) => self.schedules.check(shape, &division.between()),
            (None, Some(name)) => name.parse::<Algorithm>().map(drop).map_err(|error| error.to_string()),
            (None, None) => Ok(()),
        }
    }

    /// Takes memory for what does not lie in the members' own buffers. `Err` says how much was asked for in vain.
    fn take_stage(&mut self, spread: &Spread, members: &[CollectiveMember]) -> Result<Stage, u64> {
        let (_, bytes) = spread.stage(members, 0).memory;
        let block = if bytes == 0 { 0 } else { self.take_space(bytes)? };
        Ok(spread.stage(members, block))
    }

    // ---- ending

    pub(crate) fn leave_meeting(&mut self, meeting: MeetingId, request: Option<ChannelId>, why: &Completion) {
        // Of a rank that is gone the other nodes hear by themselves, and may still need what it has sent.
        if let Some(collective) = self.meetings.collective(meeting).filter(|_| request.is_some()) {
            self.engine.abandon_collective(collective, *why);
        }
        let ports = &self.ports;
        let own = self.engine.spec().local_ranks();
        let has_gone_by_itself = matches!(why.status, Status::RankLeft | Status::PeerFreed);
        let left = (has_gone_by_itself && own.contains(&why.source)).then(|| why.source - own.start);
        let is_alive = |rank: u32| !ports[rank as usize].is_gone;
        let has_left = self.meetings.leave(meeting, request, (why, left), is_alive);
        if has_left {
            self.finish_leaving(meeting, request);
        }
    }

    /// A member has nothing to do with its meeting any more; the last one's memory is free.
    fn finish_leaving(&mut self, meeting: MeetingId, request: Option<ChannelId>) {
        if let Some(request) = request {
            let place = self.engine.place_of(request);
            if let Some(slot) = place.and_then(|(local_rank, slot, _)| self.segment.slot(local_rank, slot)) {
                slot.set_channel(0);
            }
            self.engine.handle_closed(request);
        }
        if let Some(empty) = self.meetings.take_empty(meeting) {
            empty.collective.into_iter().for_each(|collective| self.engine.close_collective(collective));
            empty.memory.into_iter().for_each(|(block, bytes)| self.channels.give_space_back(block, bytes));
        }
    }

    // ---- progress

    /// Does what is to be done for collectives. Says how much that was.
    pub(crate) fn progress_collectives(&mut self, counters: &Counters, now: Instant) -> usize {
        counters.add(Counter::SchedulesBuilt, self.schedules.take_built());
        let mut done = self.meetings.do_pieces(now);
        while let Some(collective) = self.meetings.take_passed() {
            self.engine.start_collective(collective);
            done += 1;
        }
        done += self.work_between_nodes();
        let (ports, mut left) = (&self.ports, Vec::new());
        let is_alive = |rank: u32| !ports[rank as usize].is_gone;
        self.meetings.release_closed(is_alive);
        while let Some(gone) = self.meetings.take_left(is_alive) {
            left.push(gone);
        }
        done += left.len();
        left.into_iter().for_each(|(meeting, request)| self.finish_leaving(meeting, Some(request)));
        done
    }

    fn work_between_nodes(&mut self) -> usize {
        let mut done = 0;
        for _ in 0..PIECES_PER_CYCLE {
            self.take_collective_work();
            let Some(over) = self.work.do_piece(&self.segment, &self.meetings) else { break };
            done += 1;
            over.into_iter().for_each(|step| self.engine.handle_collective_step(step));
        }
        done
    }

    fn take_collective_work(&mut self) {
        while let Some(work) = self.engine.poll_collective_work() {
            match work {
                CollectiveWork::Copy { step, .. } | CollectiveWork::Combine { step, .. } => self.work.add(step, work),
                CollectiveWork::Done { collective, failure } => self.end_round(collective, failure),
                CollectiveWork::Failed { collective, failure } => self.meetings.fail(collective, &failure),
            }
        }
    }

    /// What happens between the nodes is over.
    fn end_round(&mut self, collective: CollectiveId, failure: Option<Completion>) {
        if let Some(meeting) = self.meetings.resume(collective, failure) {
            self.finish_leaving(meeting, None);
        }
    }
}

impl Work {
    fn add(&mut self, CollectiveStep { collective, .. }: CollectiveStep, work: CollectiveWork) {
        match self.queue.iter_mut().find(|(other, _)| *other == collective) {
            Some((_, steps)) => steps.push_back((work, 0)),
            None => {
                let mut steps = self.spare.pop().unwrap_or_default();
                steps.push_back((work, 0));
                self.queue.push_back((collective, steps));
            }
        }
    }

    /// Does a piece of what has waited longest for its turn: the step, if it is over then. `None` if there is nothing to do.
    fn do_piece(&mut self, segment: &JobSegment, meetings: &Meetings) -> Option<Option<CollectiveStep>> {
        let (collective, mut steps) = self.queue.pop_front()?;
        let (work, at) = steps.pop_front()?;
        let went = do_piece_at((segment, meetings), work, at);
        steps.extend(went.err().map(|at| (work, at)));
        if steps.is_empty() {
            self.spare.push(steps)
        } else {
            self.queue.push_back((collective, steps))
        }
        Some(went.ok())
    }
}

/// Does what comes after so many bytes of a copy or combination. `Err` says where to go on.
fn do_piece_at(
    (segment, meetings): (&JobSegment, &Meetings),
    work: CollectiveWork,
    at: u64,
) -> Result<CollectiveStep, u64> {
    let end_of = |total: u64| total.min(at + PIECE_BYTES);
    let (step, total, end) = match work {
        CollectiveWork::Copy { step, from, to, bytes } => {
            let end = end_of(bytes);
            let (from, to) = (Layout::contiguous(from, bytes), Layout::contiguous(to, bytes));
            // What was checked when the collective was opened is still there.
            let _ = segment.copy(&from, at, &to, at, end - at);
            (step, bytes, end)
        }
        CollectiveWork::Combine { step, from, into, elements, side } => {
            let Some((operator, element)) = meetings.combination(step.collective) else { return Ok(step) };
            let total = elements * element.bytes() as u64;
            let end = end_of(total);
            let sources = if side == Side::Left { [from, into] } else { [into, from] };
            let elements = (end - at) / element.bytes() as u64;
            let _ = segment.fold(operator, element, (&sources, &[into]), at, elements);
            (step, total, end)
        }
        CollectiveWork::Done { .. } | CollectiveWork::Failed { .. } => unreachable!("these are no work"),
    };
    if end == total { Ok(step) } else { Err(end) }
}

impl Spread {
    /// What it takes beside the members' own buffers, if that lies at `block`.
    fn stage(&self, members: &[CollectiveMember], block: u64) -> Stage {
        let bytes = |elements: u64| elements.saturating_mul(self.between.element_bytes.into());
        let (own_input, own_output) = own_buffers(members, &self.nodes, self.me);
        let (input, output) = self.between.elements(self.me.into());
        let mut end = block;
        let mut take = |elements: u64| {
            let bytes = bytes(elements).checked_next_multiple_of(64).unwrap_or(u64::MAX);
            let behind = end.saturating_add(bytes);
            std::mem::replace(&mut end, behind)
        };
        let input = own_input.unwrap_or_else(|| take(input));
        let output = own_output.unwrap_or_else(|| take(output));
        let scratch = take(self.schedule.scratch_elements());
        Stage { input, output, scratch, memory: (block, end - block) }
    }

    /// What the engine is told. `None` if there are too many collectives.
    fn collective(&self, comm: CommId, member: &CollectiveMember, stage: &Stage) -> Option<NodeCollective> {
        Some(NodeCollective {
            number: NodeCollective::number(comm, member.number)?,
            participants: self.participants.clone(),
            members: member.shape.members.clone(),
            digest: ShapeDigest::of(&member.shape),
            schedule: Arc::clone(&self.schedule),
            element_bytes: member.shape.element_bytes.into(),
            input: stage.input,
            output: stage.output,
            scratch: stage.scratch,
        })
    }
}

#[cfg(test)]
mod tests {
    use ropeway_shm::JobGeometry;

    use super::*;

    const LARGE: u64 = 10 * PIECE_BYTES;
    const SMALL: u64 = 2 * PIECE_BYTES;

    /// What comes late and is little does not wait for what was there before, be that one large step or many.
    #[test]
    fn collectives_take_turns_piece_by_piece() {
        let arena_bytes_max = 2 * (LARGE + SMALL);
        let job = JobSegment::create(JobGeometry { local_ranks: 1, arena_bytes_max }).unwrap();
        job.reserve_arena(0, 0..arena_bytes_max).unwrap();
        let (input, output) = (job.arena(0).start, job.arena(0).start + LARGE + SMALL);
        job.write(&Layout::contiguous(input, LARGE + SMALL), 0, &vec![7; (LARGE + SMALL) as usize]).unwrap();
        for large_steps in [1, 2, 5] {
            job.write(&Layout::contiguous(output, LARGE + SMALL), 0, &vec![0; (LARGE + SMALL) as usize]).unwrap();
            let mut work = Work::default();
            let mut add = |collective, step, at, bytes| {
                let step = CollectiveStep { collective: CollectiveId(collective), step };
                work.add(step, CollectiveWork::Copy { step, from: input + at, to: output + at, bytes });
            };
            let bytes = LARGE / u64::from(large_steps);
            (0..large_steps).for_each(|step| add(0, step, u64::from(step) * bytes, bytes));
            add(1, 0, LARGE, SMALL);
            let meetings = Meetings::default();
            let over = std::iter::from_fn(|| work.do_piece(&job, &meetings));
            let ends: Vec<_> = over.enumerate().filter_map(|(piece, step)| Some((piece, step?.collective.0))).collect();
            assert!(ends.contains(&(3, 1)), "the fourth piece is the last one of the small step: {ends:?}");
            assert_eq!((ends.len() as u32, ends.last()), (large_steps + 1, Some(&(11, 0))));
            assert_all_copied(&job, output);
        }
    }

    fn assert_all_copied(job: &JobSegment, output: u64) {
        let mut copied = vec![0; (LARGE + SMALL) as usize];
        job.read(&Layout::contiguous(output, LARGE + SMALL), 0, &mut copied).unwrap();
        assert!(copied.iter().all(|&byte| byte == 7));
    }
}
