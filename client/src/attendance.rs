//! A member's part in the meeting of a collective: it arrives, and works while it waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ropeway_proto::Completion;
use ropeway_shm::{Arrival, JobSegment, Meeting};

use crate::collective::Function;
use crate::core_mates::CoreMates;
use crate::direct::Started;
use crate::presence::{Favor, Habit, Moment, Presence};

/// A member of a collective.
pub(crate) struct Member {
    /// Its number among the members.
    pub(crate) number: u32,
    /// By which elements are combined, if it is the program's.
    pub(crate) function: Option<Function>,
}

/// A member, and where it stands. What a start needs comes first, as in [`Meeting`] and in the role that it belongs to: it is two cache lines.
#[repr(C)]
pub(crate) struct Attendance {
    member: u32,
    round: u32,
    /// Why it did not come for this round.
    refused: Option<Completion>,
    /// We have done the last piece before the daemon's turn, and it does not know yet.
    has_passed: bool,
    is_watching: bool,
    /// It may sleep, and the others know.
    may_sleep: AtomicBool,
    /// Whether the last field is anything: it lies in a line that a start needs only then.
    may_share_core: bool,
    habit: Habit,
    meeting: Meeting,
    /// Who shares its core, if that can be known.
    core_mates: Option<CoreMates>,
}

impl Attendance {
    /// The member of the meeting at `block`, before or in its first round. `None` if there is no meeting.
    pub(crate) fn open(job: &Arc<JobSegment>, block: u64, member: &Member) -> Option<Self> {
        let meeting = Meeting::read(job, block, member.function.as_ref().map(Function::prepare))?;
        let member = member.number;
        let core_mates = CoreMates::of(&meeting, member);
        let may_share_core = core_mates.is_some();
        let habit = Habit::default();
        let (has_passed, is_watching, may_sleep, refused) = Default::default();
        Some(Self {
            member,
            round: 0,
            refused,
            has_passed,
            is_watching,
            may_sleep,
            may_share_core,
            habit,
            meeting,
            core_mates,
        })
    }

    /// Arrives for the next round. `Err` says why there will never be one.
    pub(crate) fn start(&mut self, presence: &Presence, favor: Favor, moment: &Moment) -> Result<Started, Completion> {
        self.meeting.prepare_to_arrive();
        self.refused = self.meeting.refusal(self.member, self.round);
        if let Some(why) = self.refused {
            return Err(why);
        }
        if self.may_share_core
            && let Some(core_mates) = &mut self.core_mates
        {
            core_mates.note(&self.meeting, self.round);
        }
        let tells_daemon = match self.meeting.arrive(self.member, self.round) {
            Arrival::Done => {
                self.round = self.round.wrapping_add(1);
                return Ok(Started::Done);
            }
            Arrival::Passed => true,
            Arrival::HasWork => {
                !self.habit.is_prompt(favor) && !self.meeting.is_watched() && self.asks_daemon(presence, favor)
            }
            Arrival::Pending => false,
        };
        if self.meeting.has_much_work() {
            if tells_daemon {
                self.habit.begin_told(presence);
            } else {
                self.habit.begin(presence, favor, moment);
            }
        }
        Ok(if tells_daemon { Started::NeedsCopy } else { Started::Pending })
    }

    /// Whether it meets nobody, so that the daemon arrives for it.
    pub(crate) fn is_alone(&self) -> bool {
        self.meeting.is_alone()
    }

    /// Other nodes wait for what comes before their turn, and whether we wait soon, or are stopped, nobody knows; for the rest a core has to be
    /// free, if there are no other nodes.
    fn asks_daemon(&self, presence: &Presence, favor: Favor) -> bool {
        self.meeting.is_spanning() || self.habit.asks_daemon(presence, favor, self.meeting.has_free_core())
    }

    /// The daemon was told of the start.
    pub(crate) fn told(&mut self, moment: &Moment) {
        if self.meeting.has_much_work() {
            self.habit.told(moment);
        }
    }

    /// Whether [`poll`](Self::poll) would get further.
    pub(crate) fn is_due(&self) -> bool {
        self.meeting.is_due(self.member, self.round) || self.meeting.given_up(self.round).is_some()
    }

    /// Whether nobody else on this core has anything to do before the round is over.
    pub(crate) fn is_last_on_core(&self) -> bool {
        self.core_mates.as_ref().is_some_and(|core_mates| core_mates.has_come(&self.meeting, self.round))
    }

    /// Whether the round is over, after up to `pieces` pieces of its work.
    pub(crate) fn poll(&mut self, pieces: u32) -> Option<Result<(), Completion>> {
        // Of what somebody did not come for to give it, nothing is left to do either.
        if let Some(why) = self.refused.take() {
            return Some(Err(why));
        }
        if self.has_ended() {
            return Some(Ok(()));
        }
        if pieces > 0 {
            self.has_passed |= self.meeting.help(self.member, self.round, pieces).has_passed;
        }
        // What came to an end before the end counts.
        let given_up = self.meeting.given_up(self.round);
        if self.has_ended() { Some(Ok(())) } else { given_up.map(Err) }
    }

    fn has_ended(&mut self) -> bool {
        let has_ended = self.meeting.poll(self.member, self.round);
        if has_ended {
            self.round = self.round.wrapping_add(1);
            // A task that was told looks again, and nothing else says that it is done with the doorbell.
            self.disarm();
        }
        has_ended
    }

    /// Whether the daemon has to be told that it is its turn; it counts as told then.
    pub(crate) fn take_passed(&mut self) -> bool {
        std::mem::take(&mut self.has_passed)
    }

    /// Why there will be no further round, if that is so.
    pub(crate) fn closed(&self) -> Option<Completion> {
        self.meeting.closed()
    }

    /// Whether it goes on to other nodes, and so needs the daemon.
    pub(crate) fn is_spanning(&self) -> bool {
        self.meeting.is_spanning()
    }

    /// A doorbell is about to be left at the request, and a fence behind it.
    pub(crate) fn arm(&self) {
        if !self.may_sleep.swap(true, Ordering::Relaxed) {
            self.meeting.note_sleeper();
        }
    }

    /// Nobody sleeps there any more.
    pub(crate) fn disarm(&self) {
        if self.may_sleep.load(Ordering::Relaxed) {
            self.may_sleep.store(false, Ordering::Relaxed);
            self.meeting.forget_sleeper();
        }
    }

    /// The program begins to wait. Whether somebody does matters where the daemon would have to be told otherwise.
    pub(crate) fn begin_wait(&mut self, presence: &Presence) {
        if self.meeting.has_much_work() {
            self.habit.learn(presence);
            self.habit.begin_wait(presence);
            self.meeting.watch(self.member);
            self.is_watching = true;
        }
    }

    /// The program waits no more. It may have begun to before it knew of the meeting.
    pub(crate) fn end_wait(&mut self, presence: &Presence) {
        if std::mem::take(&mut self.is_watching) {
            self.habit.end_wait(presence);
            self.meeting.look_away(self.member);
        }
    }
}
