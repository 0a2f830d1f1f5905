//! Messages to and from several ranks as one operation: requests that are started together and share their memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::Waker;

use ropeway_shm::Ahead;

use crate::attachment::Attachment;
use crate::memory::SharedMemory;
use crate::operation::Operation;
use crate::request::Persistent;
use crate::running::{Run, Running, watch_each};
use crate::set::{ActiveSet, retract_all, start_each};
use crate::several::Several;
use crate::telling::Telling;
use crate::wait::Event;
use crate::{Communicator, Error, Favor, Status, WaitMode};

/// Sends out of one buffer and receives into another. Both are lent as long as it runs.
pub(crate) struct Exchange {
    attachment: Arc<Attachment>,
    /// This rank, among those that its neighbours are of.
    rank: u32,
    requests: Vec<Persistent>,
    /// What starts touch besides them.
    ahead: Ahead,
    /// That is all of it: every request has its channel, or will have none.
    is_ahead_known: bool,
    pub(crate) input: SharedMemory,
    pub(crate) output: SharedMemory,
}

/// A running exchange with all neighbours.
///
/// Dropping it lets the messages travel on; [`NeighborCollective::active`](crate::NeighborCollective::active) finds it again.
/// Leaking it is no different.
///
/// It can be awaited, and waited for [beside others](crate::wait_any).
#[must_use = "the exchange has to be waited for"]
pub struct ActiveExchange<'a> {
    exchange: &'a mut Exchange,
}

impl ActiveExchange<'_> {
    /// Waits until all messages have come and gone, in the session's wait mode.
    ///
    /// If one can't, because a neighbour is gone, the others are withdrawn.
    pub fn wait(self) -> Result<(), Error> {
        let mode = self.exchange.attachment.wait_mode();
        self.wait_with(mode)
    }

    /// As [`wait`](Self::wait), in this mode.
    pub fn wait_with(self, mode: WaitMode) -> Result<(), Error> {
        if !self.exchange.is_active() {
            return Err(Error::Inactive);
        }
        let waited = self.exchange.wait(mode);
        self.exchange.end(waited)
    }

    /// Whether all messages have come and gone. That can be learnt once.
    pub fn test(&mut self) -> Result<bool, Error> {
        if !self.exchange.is_active() {
            return Err(Error::Inactive);
        }
        match self.exchange.test() {
            Ok(false) => Ok(false),
            ended => self.exchange.end(ended.map(drop)).map(|()| true),
        }
    }

    /// Makes the session's [event descriptor](crate::Session::event_fd) readable when the exchange gets on, or has already.
    ///
    /// Most steps are not the end: [`test`](Self::test) says so, and then this is to be called again; so it is after a wait in which this
    /// exchange was one of several, since the wait has it wake a thread instead.
    pub fn notify(&mut self) -> Result<(), Error> {
        if !watch_each(self.exchange.running(), None)? {
            self.exchange.attachment.notifier()?.ring();
        }
        Ok(())
    }
}

impl Running for ActiveExchange<'_> {}

impl Run for ActiveExchange<'_> {
    fn is_running(&self) -> bool {
        self.exchange.is_active()
    }

    fn attachment(&self) -> &Arc<Attachment> {
        &self.exchange.attachment
    }

    fn event(&self) -> &dyn Event {
        self
    }

    fn take_outcome(&mut self) -> Result<Option<Status>, Error> {
        let status = Status { source: self.exchange.rank, tag: 0, bytes: 0, count: 0 };
        Ok(self.test()?.then_some(status))
    }

    fn watch(&self, waker: &Waker) -> Result<bool, Error> {
        watch_each(self.exchange.running(), Some(waker))
    }

    fn forget_waker(&self) {
        self.exchange.requests.iter().for_each(|request| request.operation().forget_waker());
    }
}

impl Several for ActiveExchange<'_> {
    fn each(&self) -> impl Iterator<Item = &(impl Event + ?Sized)> {
        self.exchange.running()
    }
}

impl Exchange {
    /// Of requests that use these memories. Receives come first, so that sends find them.
    pub(crate) fn new(
        among: &Communicator,
        mut requests: Vec<Persistent>,
        input: SharedMemory,
        output: SharedMemory,
    ) -> Self {
        requests.iter_mut().for_each(|request| request.operation_mut().offer());
        let (ahead, is_ahead_known) = Default::default();
        Self {
            attachment: among.attachment().clone(),
            rank: among.rank(),
            requests,
            ahead,
            is_ahead_known,
            input,
            output,
        }
    }

    pub(crate) fn set_favor(&mut self, favor: Favor) {
        self.requests.iter_mut().for_each(|request| request.operation_mut().set_favor(favor));
    }

    pub(crate) fn start(&mut self) -> Result<ActiveExchange<'_>, Error> {
        if self.is_active() {
            return Err(Error::AlreadyActive);
        }
        self.attachment.check()?;
        self.input.slot_mut().lend();
        self.output.slot_mut().lend();
        let started = self.start_all();
        if started.is_err() {
            retract_all(&mut self.requests);
            self.end(started)?;
        }
        Ok(ActiveExchange { exchange: self })
    }

    fn start_all(&mut self) -> Result<(), Error> {
        self.ahead.fetch();
        let mut telling = Telling::default();
        start_each(&mut self.requests, &mut telling)?;
        // SYNC slot-waiter: all offers before all waiters.
        fence(Ordering::SeqCst);
        // Those that sleep are woken, and what nobody else would move is left to the daemon.
        for entry in self.requests.iter().filter_map(|request| request.operation().call_peer()) {
            telling.add(&self.attachment, &entry)?;
        }
        telling.publish(&mut self.requests)
    }

    pub(crate) fn active(&mut self) -> Option<ActiveExchange<'_>> {
        self.is_active().then_some(ActiveExchange { exchange: self })
    }

    fn is_active(&self) -> bool {
        self.input.slot().is_lent()
    }

    fn running(&self) -> impl Iterator<Item = &Operation> {
        self.requests.iter().map(Persistent::operation).filter(|operation| operation.is_active())
    }

    fn running_mut(&mut self) -> impl Iterator<Item = &mut Operation> {
        self.requests.iter_mut().map(Persistent::operation_mut).filter(|operation| operation.is_active())
    }

    /// Waits for all requests, or for the first that fails.
    fn wait(&mut self, mode: WaitMode) -> Result<(), Error> {
        self.running_mut().for_each(Operation::come_to_wires);
        if self.take_ended(0)? {
            return Ok(());
        }
        self.attachment.log().begin_wait(None);
        self.running_mut().for_each(Operation::begin_wait);
        let waited = self.wait_long(mode);
        self.requests.iter_mut().for_each(|request| request.operation_mut().end_wait());
        self.attachment.log().end_wait(None);
        waited
    }

    fn wait_long(&mut self, mode: WaitMode) -> Result<(), Error> {
        while !self.take_ended(u32::MAX)? {
            ActiveSet::new(&mut self.requests, mode).wait_for_one()?;
        }
        Ok(())
    }

    /// Takes what has ended, copying up to `pieces` pieces of each large message. Whether that is all.
    fn take_ended(&mut self, pieces: u32) -> Result<bool, Error> {
        let mut is_over = true;
        for operation in self.running_mut() {
            match operation.conclude(pieces) {
                Some(outcome) => drop(outcome?),
                None => is_over = false,
            }
        }
        Ok(is_over)
    }

    /// Whether all requests have ended.
    fn test(&mut self) -> Result<bool, Error> {
        let mut is_over = true;
        for operation in self.running_mut() {
            is_over &= operation.test()?.is_some();
        }
        Ok(is_over)
    }

    /// Ends what still runs after a failure, and takes the memory back.
    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        for operation in self.running_mut() {
            let mode = operation.attachment().wait_mode();
            // The exchange has failed already, and this one may well fail for the same reason.
            let _ = operation.cancel(mode);
        }
        if !self.is_ahead_known {
            self.look_ahead();
        }
        self.input.slot().reclaim();
        self.output.slot().reclaim();
        outcome
    }

    /// Channels come up one by one, in the first exchanges.
    #[cold]
    fn look_ahead(&mut self) {
        let mut ahead = Ahead::default();
        self.is_ahead_known = true;
        for request in &self.requests {
            self.is_ahead_known &= request.operation().look_ahead(&mut ahead);
        }
        self.ahead = ahead;
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.requests).finish()
    }
}

impl fmt::Debug for ActiveExchange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActiveExchange").field(self.exchange).finish()
    }
}
