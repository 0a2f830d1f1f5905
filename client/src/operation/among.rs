//! Waiting for an operation, alone or among others that are waited for afterwards and may fail while this one never ends.

use std::cell::Cell;
use std::time::Duration;

use super::{Operation, Phase};
use crate::patience::Patience;
use crate::wait::{Event, WaitMode};
use crate::wires::Reach;
use crate::{Error, Status};

/// What is waited for afterwards.
pub(crate) trait Others {
    /// Whether there may be any.
    const ARE_ANY: bool;
    /// Whether there are any left.
    fn are_left(&self) -> bool;
    /// Over which wires they come.
    fn reach(&self) -> Reach<'_>;
    /// Whether one of them gets on if it is looked at.
    fn have_news(&self) -> bool;
    /// Takes what has ended, and gets the others on. An error if one has failed.
    fn take_ended(&mut self) -> Result<(), Error>;
}

/// No others.
pub(super) struct Nobody;

impl Others for Nobody {
    const ARE_ANY: bool = false;

    fn are_left(&self) -> bool {
        false
    }

    fn reach(&self) -> Reach<'_> {
        Reach::Nowhere
    }

    fn have_news(&self) -> bool {
        false
    }

    fn take_ended(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl Operation {
    /// Waits for the end of the operation.
    pub(crate) fn wait(&mut self, mode: WaitMode) -> Result<Status, Error> {
        self.wait_among(&mut Nobody, mode)
    }

    /// The same, unless one of the others has failed before.
    pub(crate) fn wait_among(&mut self, others: &mut impl Others, mode: WaitMode) -> Result<Status, Error> {
        self.come_to_wires();
        match self.conclude(0) {
            Some(outcome) => outcome,
            None => self.wait_long(others, mode),
        }
    }

    fn wait_long(&mut self, others: &mut impl Others, mode: WaitMode) -> Result<Status, Error> {
        if self.phase == Phase::Inactive {
            return Err(Error::Inactive);
        }
        self.attachment.log().begin_wait(Some(self.slot));
        self.begin_wait();
        let mode = self.attachment.mode_for(self.bytes_by_daemon().unwrap_or(0), mode);
        let outcome = loop {
            if let Err(error) = self.attachment.wait(&Among::new(self, others), mode) {
                self.retract();
                break Err(error);
            }
            if let Some(outcome) = self.conclude(u32::MAX) {
                break outcome;
            }
            if let Err(error) = others.take_ended() {
                break Err(error);
            }
        };
        self.end_wait();
        self.attachment.log().end_wait(Some(self.slot));
        outcome
    }
}

/// Happens when the operation gets on, or it is time to look at the others and they have news. Nobody wakes us for those: most end before
/// this one, and to be woken for each would take longer than all the rest.
struct Among<'a, O> {
    operation: &'a Operation,
    others: &'a O,
    /// Looks until the others are looked at.
    looks: Cell<u32>,
    sleeps: Cell<u32>,
}

/// Looks at the operation for one at the others.
const LOOKS: u32 = 256;
/// The first time that we sleep without looking at the others; each further one is twice as long, up to [`SLEEP_DOUBLINGS`] times.
const SLEEP: Duration = Duration::from_millis(10);
const SLEEP_DOUBLINGS: u32 = 6;

impl<'a, O: Others> Among<'a, O> {
    fn new(operation: &'a Operation, others: &'a O) -> Self {
        Self { operation, others, looks: Cell::new(LOOKS), sleeps: Cell::new(0) }
    }

    fn have_news(&self) -> bool {
        let left = self.looks.get() - 1;
        self.looks.set(if left == 0 { LOOKS } else { left });
        if left > 0 {
            return false;
        }
        // Nobody reads the wires for us that only the others need.
        let others = self.others.reach();
        if !self.operation.reach().covers(others) {
            self.operation.attachment.wires().work(others);
        }
        self.others.have_news()
    }
}

impl<O: Others> Event for Among<'_, O> {
    #[inline]
    fn has_happened(&self) -> bool {
        self.operation.has_happened() || (O::ARE_ANY && self.have_news())
    }

    fn arm(&self, doorbell: u32) {
        self.operation.arm(doorbell);
        // Before we sleep.
        self.looks.set(1);
    }

    fn disarm(&self) {
        self.operation.disarm();
    }

    fn is_direct(&self) -> bool {
        self.operation.is_direct()
    }

    fn is_last_on_core(&self) -> bool {
        self.operation.is_last_on_core()
    }

    fn reach(&self) -> Reach<'_> {
        self.operation.reach()
    }

    fn was_left(&self) -> bool {
        self.operation.was_left()
    }

    fn needs_daemon(&self) -> bool {
        self.operation.needs_daemon()
    }

    fn patience(&self) -> Option<&Patience> {
        self.operation.patience()
    }

    fn teaches(&self) -> bool {
        // News of others come at any time.
        !O::ARE_ANY || self.operation.has_happened()
    }

    fn sleeps_for(&self) -> Option<Duration> {
        let doublings = self.sleeps.replace(self.sleeps.get().saturating_add(1)).min(SLEEP_DOUBLINGS);
        self.others.are_left().then_some(SLEEP * 2_u32.pow(doublings))
    }
}
