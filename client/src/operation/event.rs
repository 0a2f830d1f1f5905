//! An operation as something to wait for.

use super::{Crossed, Operation, Phase};
use crate::attendance::Attendance;
use crate::patience::Patience;
use crate::wait::Event;
use crate::wires::Reach;

impl Event for Operation {
    #[inline]
    fn has_happened(&self) -> bool {
        match self.phase {
            Phase::Inactive | Phase::Ended(_) | Phase::Posted => true,
            Phase::Daemon => self.attachment.request_slot(self.slot).is_done(self.epoch),
            Phase::Kept => {
                let (source, next) = self.in_lane.awaited;
                let entrusted = self.epoch.wrapping_add(1);
                self.attachment.post().news(source, next).has_happened()
                    || self.attachment.request_slot(self.slot).is_done(entrusted)
            }
            Phase::Direct => self.direct.as_ref().is_some_and(|direct| direct.is_due()),
            Phase::Meeting => self.attendance().is_some_and(Attendance::is_due),
            Phase::Crossing => self.has_crossed(),
        }
    }

    fn is_direct(&self) -> bool {
        match self.phase {
            Phase::Meeting => !self.attendance().is_some_and(Attendance::is_spanning),
            Phase::Direct | Phase::Kept => true,
            _ => false,
        }
    }

    fn is_last_on_core(&self) -> bool {
        self.phase == Phase::Meeting && self.attendance().is_some_and(Attendance::is_last_on_core)
    }

    fn reach(&self) -> Reach<'_> {
        match self.wire() {
            Some(wire) if self.phase == Phase::Direct => Reach::One(wire),
            _ => self.crossed().map_or(Reach::Nowhere, Crossed::reach),
        }
    }

    fn was_left(&self) -> bool {
        self.is_left
    }

    fn needs_daemon(&self) -> bool {
        match self.phase {
            Phase::Meeting => self.attendance().is_some_and(Attendance::is_spanning),
            Phase::Direct => self.wire().is_none(),
            Phase::Crossing => self.crossed().is_some_and(Crossed::needs_daemon),
            _ => true,
        }
    }

    fn patience(&self) -> Option<&Patience> {
        (self.end.is_some() || self.role.is_some()).then_some(&self.patience)
    }

    fn arm(&self, doorbell: u32) {
        // Another thread may give a kept receive to the daemon.
        if self.phase == Phase::Kept {
            let (source, next) = self.in_lane.awaited;
            self.attachment.post().news(source, next).arm(doorbell);
        }
        if let Some(crossed) = self.crossed() {
            crossed.arm(doorbell);
        }
        if let Some(attendance) = self.attendance() {
            attendance.arm();
        }
        self.attachment.request_slot(self.slot).arm(doorbell);
    }

    fn disarm(&self) {
        if let Some(crossed) = self.crossed() {
            crossed.disarm();
        }
        if let Some(attendance) = self.attendance() {
            attendance.disarm();
        }
        self.attachment.request_slot(self.slot).disarm();
    }
}
