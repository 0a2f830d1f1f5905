//! How an operation ends that is over when the program comes to wait for it: the way most waits end.

use ropeway_proto::{End, completion};

use super::{Kind, Operation, Phase};
use crate::Status;

impl Operation {
    /// The outcome of an operation that nobody else has to be asked about, if it is over and all went well.
    #[inline]
    pub(crate) fn take_at_once(&mut self) -> Option<Status> {
        match self.phase {
            _ if self.attachment.log().is_on() || self.attachment.has_begun_on_wires() => None,
            Phase::Ended(completion::Status::Success) if self.kind == Kind::Member => self.take_met(),
            Phase::Direct => self.take_moved(),
            Phase::Daemon => self.take_done(),
            _ => None,
        }
    }

    /// The same of what the daemon has ended while the program computed.
    #[inline(never)]
    fn take_done(&mut self) -> Option<Status> {
        let is_done = self.attachment.request_slot(self.slot).is_done(self.epoch);
        let completion =
            self.completion().filter(|completion| is_done && completion.status == completion::Status::Success)?;
        let arrived = self.judge(Some(completion)).ok()?;
        self.attachment.note_late_presence();
        self.retract();
        Some(arrived)
    }

    /// The same of a collective that was over when it was started.
    #[inline]
    fn take_met(&mut self) -> Option<Status> {
        self.let_go();
        self.arrived
    }

    /// The same of a message that was moved while the program computed.
    #[inline(never)]
    fn take_moved(&mut self) -> Option<Status> {
        let (direct, arrived) = (self.direct.as_mut()?, self.arrived?);
        if !direct.has_ended(0) {
            return None;
        }
        // What goes over a wire has cost a system call, if it left in the start, so the clock costs little, and nobody else would look.
        let has_left = direct.wire().is_some() && matches!(self.end, Some((End::Send, _)));
        if has_left || direct.is_prompt(self.favor) {
            self.come_promptly();
        } else {
            self.attachment.note_late_presence();
        }
        if self.wire().is_some() {
            self.note_taken();
        }
        self.let_go();
        Some(arrived)
    }

    /// The same of a [large](Self::is_large) message that was started quietly, in a job of one node.
    #[inline(always)]
    pub(crate) fn take_quietly(&mut self) -> Option<Status> {
        let direct = self.direct.as_mut().filter(|_| self.phase == Phase::Direct && !self.is_told)?;
        if direct.was_noted() || !direct.has_moved() {
            return None;
        }
        self.let_go_short();
        self.arrived
    }

    /// The same of any [large](Self::is_large) message.
    #[inline]
    pub(crate) fn take_large(&mut self) -> Option<Status> {
        let direct = self.direct.as_mut().filter(|_| self.phase == Phase::Direct)?;
        if (self.is_told && self.attachment.has_begun_on_wires()) || !direct.has_moved() {
            return None;
        }
        if direct.was_noted() {
            self.note_arrival();
        } else if self.is_told {
            self.attachment.come_unseen();
        }
        self.let_go_short();
        self.arrived
    }

    /// The program waits for a message that stays on the node and is there, and whose start was noted.
    #[cold]
    fn note_arrival(&mut self) {
        if self.direct.as_ref().is_some_and(|direct| direct.is_prompt(self.favor)) {
            self.come_promptly();
        } else {
            self.attachment.note_late_presence();
        }
    }

    /// The program may have been seen before, when it waited for something else.
    #[cold]
    fn come_promptly(&mut self) {
        self.attachment.note_presence();
        if let Some(direct) = &mut self.direct {
            direct.learn(self.attachment.presence());
        }
    }

    /// The same of a [short](Self::is_short) operation that has ended in its start: the way most waits end.
    #[inline]
    pub(crate) fn take_ended(&mut self) -> Option<Status> {
        if self.phase != Phase::Ended(completion::Status::Success) {
            return None;
        }
        self.let_go_short();
        self.arrived
    }

    /// The same of a short operation that had not.
    #[inline]
    pub(crate) fn take_short(&mut self) -> Option<Status> {
        let direct = self.direct.as_mut().filter(|_| self.phase == Phase::Direct)?;
        if !direct.has_ended_small() {
            return None;
        }
        self.let_go_short();
        self.arrived
    }
}
