//! Which members of a collective share a member's core, where a node has more ranks than cores.
//!
//! ```text
//!   core 0   A comes ┊ yields → B comes ┊ looks ┊ round over, B comes again ┊ yields → A comes again ┊ looks …
//!   core 1   C comes ┊ yields → D comes ┊ looks ┊ round over, …
//! ```
//!
//! Who has come yields its core to those that have not. The last of a core would yield for nothing: none of the others there
//! can do anything before the round is over, and each that got the core would look, find nothing, and yield. So members note on which core they
//! come, and whoever finds that all others of its core have come looks instead. A round then takes one switch
//! fewer than the core has members, which is the least.
//!
//! It takes as long as on the core with most of them. The kernel spreads ranks evenly within some tens of milliseconds; until it has,
//! one at a time goes from a core to one that has two fewer.

use nix::sched::sched_getcpu;
use ropeway_shm::Meeting;

use crate::place::{STAY, go_to_one_of};
use crate::presence::now_ns;

/// What a member knows of its core. Nothing but time depends on it.
// No vector and no option in here: the compiler would mark in one of them that there is no `Attendance` yet, and each start would read that line.
pub(crate) struct CoreMates {
    /// The member's among those of the node.
    place: usize,
    /// Where it came last; [`NOWHERE`] before.
    core: u32,
    /// Places of all members there: the first `count`.
    members: Box<[usize]>,
    count: usize,
    /// How often members had changed their cores then.
    moves: u32,
    /// How many a core has if all have equally many.
    share: usize,
    /// When it last tried to go to another core; zero if it never has.
    tried_ns: u64,
}

const NOWHERE: u32 = u32::MAX;

impl CoreMates {
    /// `None` if others than the members may be on their cores too, who may have their turn at any time.
    pub(crate) fn of(meeting: &Meeting, member: u32) -> Option<Self> {
        let place = meeting.index(member).filter(|_| meeting.is_of_whole_node())?;
        let all = meeting.places().len();
        let share = all.div_ceil(meeting.cores().max(1));
        Some(Self { place, core: NOWHERE, members: vec![0; all].into(), count: 0, moves: 0, share, tried_ns: 0 })
    }

    /// The member is about to come for a round.
    #[inline]
    pub(crate) fn note(&mut self, meeting: &Meeting, round: u32) {
        // While ranks have cores of their own nothing is noted, and so nobody seems to have come.
        if meeting.outnumbers_cores() {
            self.note_core(meeting, round);
        }
    }

    #[inline(never)]
    fn note_core(&mut self, meeting: &Meeting, round: u32) {
        let Ok(here) = sched_getcpu().map(|core| core as u32) else { return };
        meeting.note_core(self.place, round, here);
        let moves = meeting.moves();
        if (self.core, self.moves) != (here, moves) {
            (self.core, self.moves) = (here, moves);
            self.find(meeting);
        }
        if self.count > self.share && self.mates().last() == Some(&self.place) {
            self.leave(meeting);
        }
    }

    /// Finds the members of its core.
    fn find(&mut self, meeting: &Meeting) {
        self.count = 0;
        for (place, found) in self.members.iter_mut().zip(meeting.on_core(self.core)) {
            *place = found;
            self.count += 1;
        }
    }

    fn mates(&self) -> &[usize] {
        &self.members[..self.count]
    }

    /// Whether all members of this core have come for the round.
    pub(crate) fn has_come(&self, meeting: &Meeting, round: u32) -> bool {
        self.count > 0 && self.mates().iter().all(|&place| meeting.is_said_to_come(place, round))
    }

    /// Goes to a core with fewer members, if it has not tried so just before.
    #[cold]
    fn leave(&mut self, meeting: &Meeting) {
        let now = now_ns();
        if now.saturating_sub(self.tried_ns) < STAY.as_nanos() as u64 {
            return;
        }
        self.tried_ns = now;
        go_to_one_of(|cores| self.better(meeting, cores));
    }

    /// Of these cores the one with the fewest members, if it has at least two fewer than this one.
    fn better(&self, meeting: &Meeting, cores: &mut dyn Iterator<Item = usize>) -> Option<usize> {
        let (members, core) = cores.map(|core| (meeting.on_core(core as u32).count(), core)).min()?;
        (members + 2 <= self.count).then_some(core)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ropeway_proto::collective::{CollectiveKind, CollectiveMember, CollectiveShape};
    use ropeway_shm::{JobGeometry, JobSegment, MeetingPlan};

    use super::*;

    /// A barrier of the first ranks of a node, who may run on two cores.
    fn meeting(ranks: u32, members: u32) -> Meeting {
        let job = JobSegment::create(JobGeometry { local_ranks: ranks, arena_bytes_max: 4096 }).unwrap();
        (0..ranks).for_each(|rank| job.reserve_slots(rank, 0..1).unwrap());
        job.reserve_channels(0..1 << 16).unwrap();
        job.add_cores(CORES);
        let shape = Arc::new(CollectiveShape {
            kind: CollectiveKind::Barrier,
            members: (0..members).collect(),
            root: 0,
            combination: None,
            element_bytes: 1,
            counts: Vec::new(),
            is_reproducible: false,
            algorithm: None,
        });
        let member = |rank| CollectiveMember { shape: shape.clone(), number: 0, rank, input: 0, output: 0 };
        let plan = MeetingPlan { members: (0..members).map(member).collect(), span: None };
        let places: Vec<_> = (0..members).map(|rank| (rank, 0)).collect();
        let block = job.channels().start;
        Meeting::write(&Arc::new(job), block, &plan, &places).unwrap()
    }

    #[test]
    fn who_comes_last_of_those_on_its_core_has_nobody_to_wait_for_there() {
        let meeting = meeting(3, 3);
        let mut third = CoreMates::of(&meeting, 2).unwrap();
        let here = sched_getcpu().unwrap() as u32;
        // Wherever the kernel has this thread run, the others are on no core of the machine until they come.
        third.note(&meeting, 0);
        assert!(third.has_come(&meeting, 0));
        (0..2).for_each(|place| meeting.note_core(place, 0, here));
        third.core = here;
        third.find(&meeting);
        assert_eq!(third.mates(), [0, 1, 2]);
        assert!(third.has_come(&meeting, 0) && !third.has_come(&meeting, 1));
        (0..3).for_each(|place| meeting.note_core(place, 1, here));
        assert!(third.has_come(&meeting, 1) && third.has_come(&meeting, 0));
    }

    #[test]
    fn others_on_a_core_are_looked_for_again_when_one_has_moved() {
        let meeting = meeting(3, 3);
        let mut first = CoreMates::of(&meeting, 0).unwrap();
        first.note(&meeting, 0);
        let here = first.core;
        meeting.note_core(1, 0, here);
        first.note(&meeting, 1);
        assert!(first.core != here || first.mates() == [0, 1]);
    }

    #[test]
    fn a_core_is_left_for_one_with_two_fewer() {
        let meeting = meeting(5, 5);
        let mut last = CoreMates::of(&meeting, 4).unwrap();
        for (cores, better) in [([0, 0, 0, 0, 0], Some(1)), ([0, 1, 0, 0, 0], Some(1)), ([0, 1, 1, 0, 0], None)] {
            (0..).zip(cores).for_each(|(place, core)| meeting.note_core(place, 0, core));
            last.core = 0;
            last.find(&meeting);
            assert_eq!(last.better(&meeting, &mut CORES.into_iter()), better, "{cores:?}");
        }
        assert_eq!(last.share, 3);
    }

    #[test]
    fn nothing_is_known_of_cores_that_others_may_be_on_or_that_each_rank_has_for_itself() {
        assert!(CoreMates::of(&meeting(3, 2), 0).is_none());
        let meeting = meeting(2, 2);
        let mut first = CoreMates::of(&meeting, 0).unwrap();
        first.note(&meeting, 0);
        assert!(!first.has_come(&meeting, 0));
    }

    const CORES: [usize; 2] = [0, 1];
}
