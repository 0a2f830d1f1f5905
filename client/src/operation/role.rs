//! What an operation is to a collective: which member, where it meets the others, and what goes straight from rank to rank, if anything does.

use std::task::Waker;

use super::crossing::Crossed;
use crate::Error;
use crate::attachment::Attachment;
use crate::attendance::{Attendance, Member};
use crate::memory::Memory;
use crate::presence::{Favor, Moment, Presence};

/// Its part in a collective. What a start needs comes first, so that it is in as few cache lines as can be.
#[repr(C, align(64))]
pub(super) struct Role {
    /// Its messages, if the collective needs nobody between the ranks.
    pub(super) crossed: Option<Box<Crossed>>,
    /// Where the members meet, once that is known.
    pub(super) attendance: Option<Attendance>,
    pub(super) member: Member,
}

impl Role {
    pub(super) fn of(member: Member) -> Self {
        Self { crossed: None, attendance: None, member }
    }

    pub(super) fn set_favor(&mut self, favor: Favor) {
        self.crossed.iter_mut().for_each(|crossed| crossed.set_favor(favor));
    }

    /// The daemon was told of the start.
    pub(super) fn told(&mut self, moment: &Moment) {
        self.attendance.iter_mut().for_each(|attendance| attendance.told(moment));
        self.crossed.iter_mut().for_each(|crossed| crossed.told(moment));
    }

    /// What was started has left.
    pub(super) fn learn(&mut self, attachment: &Attachment) {
        self.crossed.iter_mut().for_each(|crossed| crossed.learn(attachment));
    }

    /// The program, which has come, waits.
    pub(super) fn begin_wait(&mut self, presence: &Presence) {
        self.attendance.iter_mut().for_each(|attendance| attendance.begin_wait(presence));
        self.crossed.iter_mut().for_each(|crossed| crossed.begin_wait(presence));
    }

    /// The program waits no more.
    pub(super) fn end_wait(&mut self, presence: &Presence) {
        self.attendance.iter_mut().for_each(|attendance| attendance.end_wait(presence));
        self.crossed.iter().for_each(|crossed| crossed.end_wait(presence));
    }

    /// Has this task told when a message between ranks gets on. False if one has already.
    pub(super) fn watch(&self, waker: Option<&Waker>) -> Result<bool, Error> {
        self.crossed.as_ref().map_or(Ok(true), |crossed| crossed.watch(waker))
    }

    pub(super) fn forget_waker(&self) {
        self.crossed.iter().for_each(|crossed| crossed.forget_waker());
    }

    pub(super) fn retract(&mut self) {
        self.crossed.iter_mut().for_each(|crossed| crossed.retract());
    }

    /// Leaves the collective's memory to messages that are under way.
    pub(super) fn leave(&self, memory: Memory) -> Memory {
        match &self.crossed {
            Some(crossed) => memory.leave_to(crossed.shelf()),
            None => memory,
        }
    }
}
