//! Meetings of a job on this node: where they lie, and the daemon's part in them.
//!
//! Members arrive, and do little work, by themselves. The daemon does what is more while all of them compute, piece by piece
//! and in turn, and sees to it that members learn when one is gone, and that nobody's buffers are given back while others
//! have their hands on them.

use std::collections::VecDeque;
use std::sync::Arc;

use ropeway_engine::MeetingId;
use ropeway_proto::collective::CollectiveMember;
use ropeway_proto::{ChannelId, Completion, Slot};
use ropeway_shm::{Arrival, JobSegment, Meeting};
use slab::Slab;

/// All meetings of a job.
#[derive(Default)]
pub(crate) struct Meetings {
    table: Slab<Entry>,
    /// Meetings with work to do.
    working: VecDeque<u32>,
    leaving: Vec<(MeetingId, ChannelId)>,
}

struct Entry {
    meeting: Meeting,
    footprint: u64,
    /// Members whose requests exist.
    members: usize,
    is_working: bool,
}

/// Nobody: the daemon's own number where members have theirs.
const NOBODY: u32 = u32::MAX;

impl Meetings {
    /// Sets a meeting up at `block` and tells its members. `None` if they say different things.
    pub(crate) fn open(
        &mut self,
        job: &Arc<JobSegment>,
        block: u64,
        members: &[CollectiveMember],
        places: &[(u32, Slot)],
    ) -> Option<MeetingId> {
        let meeting = Meeting::write(job, block, members, places)?;
        meeting.announce();
        let footprint = Meeting::footprint(members);
        let entry = Entry { meeting, footprint, members: members.len(), is_working: false };
        Some(MeetingId(self.table.insert(entry) as u32))
    }

    /// A member arrives, who did not know of the meeting: so it is its first round.
    pub(crate) fn arrive(&mut self, id: MeetingId, member: u32) {
        let arrival = self.table.get(id.0 as usize).map(|entry| entry.meeting.arrive(member, 0));
        if arrival == Some(Arrival::HasWork) {
            self.wish_work(id);
        }
    }

    /// A member asks for the work to be done.
    pub(crate) fn wish_work(&mut self, id: MeetingId) {
        if let Some(entry) = self.table.get_mut(id.0 as usize)
            && !std::mem::replace(&mut entry.is_working, true)
        {
            self.working.push_back(id.0);
        }
    }

    /// Does a piece of each meeting that has work. Says how many.
    pub(crate) fn do_pieces(&mut self) -> usize {
        let mut pieces = 0;
        for _ in 0..self.working.len() {
            let Some(index) = self.working.pop_front() else { break };
            let Some(entry) = self.table.get_mut(index as usize) else { continue };
            let done = entry.meeting.working_round().map_or(0, |round| entry.meeting.help(NOBODY, round, 1));
            if done > 0 {
                pieces += 1;
                self.working.push_back(index);
            } else {
                entry.is_working = false;
            }
        }
        pieces
    }

    /// A member is gone. True if its request, when one is named, can be freed now; if not, `take_left` will say so.
    pub(crate) fn leave(
        &mut self,
        id: MeetingId,
        request: Option<ChannelId>,
        why: &Completion,
        is_alive: impl Fn(u32) -> bool,
    ) -> bool {
        let Some(entry) = self.table.get(id.0 as usize) else { return true };
        entry.meeting.close(why.status, why.source);
        match request {
            Some(request) if !entry.meeting.is_out_of_use(is_alive) => {
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
        !self.leaving.is_empty()
    }

    /// The next request whose buffers nobody uses any more, and the meeting it has left.
    pub(crate) fn take_left(&mut self, is_alive: impl Fn(u32) -> bool) -> Option<(MeetingId, ChannelId)> {
        let is_free = |(id, _): &(MeetingId, ChannelId)| {
            self.table.get(id.0 as usize).is_none_or(|entry| entry.meeting.is_out_of_use(&is_alive))
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

    /// The memory of a meeting all of whose members are gone: place and size.
    pub(crate) fn take_empty(&mut self, id: MeetingId) -> Option<(u64, u64)> {
        let is_empty = self.table.get(id.0 as usize).is_some_and(|entry| entry.members == 0);
        is_empty.then(|| self.table.remove(id.0 as usize)).map(|entry| (entry.meeting.block(), entry.footprint))
    }
}
