//! Messages to and from several ranks as one operation: requests that are started together and share their memory.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::task::Waker;

use ropeway_shm::Line;

use crate::attachment::Attachment;
use crate::memory::SharedMemory;
use crate::operation::Operation;
use crate::request::Persistent;
use crate::running::{Run, Running, watch_each};
use crate::sequence::{self, Lines, Place};
use crate::set::{retract_all, start_each, tell};
use crate::several::Several;
use crate::starts::Starts;
use crate::telling::Telling;
use crate::wait::Event;
use crate::wires::Reach;
use crate::{Communicator, Error, Favor, Status, WaitMode, notifier};

/// Sends out of one buffer and receives into another. Both are lent as long as it runs. What a start needs lies together.
#[repr(C, align(64))]
pub(crate) struct Exchange {
    attachment: Arc<Attachment>,
    requests: Box<[Persistent]>,
    /// This rank, among those that its neighbours are of.
    rank: u32,
    favor: Favor,
    /// Each has its channel, or will never have one. Channels come up one by one, in the first exchanges.
    is_bound: bool,
    /// They have started, and don't know it yet.
    is_news: bool,
    place: Place,
    pub(crate) input: SharedMemory,
    pub(crate) output: SharedMemory,
    /// How they start if they are bound: with as many sends as a cube has faces and three peers on this node, out of the exchange itself.
    starts: Starts<6, 3>,
}

/// What starts touch of an exchange.
const START_LINES: usize = (mem::offset_of!(Exchange, starts) + Starts::<6, 3>::START_BYTES).div_ceil(64);

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
        self.exchange.hear();
        if !self.exchange.watch(None)? {
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
        self.exchange.watch(Some(waker))
    }

    fn forget_waker(&self) {
        self.exchange.requests.iter().for_each(|request| request.operation().forget_waker());
    }
}

impl Several for ActiveExchange<'_> {
    fn each(&self) -> impl Iterator<Item = &(impl Event + ?Sized)> {
        self.exchange.running()
    }

    fn arm_for_all(&self, doorbell: u32) {
        self.exchange.starts.arm(doorbell);
    }

    fn disarm_for_all(&self) {
        self.exchange.starts.disarm();
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
        let (attachment, rank) = (among.attachment().clone(), among.rank());
        let starts = Starts::new(&attachment, &requests);
        let (favor, is_bound, is_news, place) = Default::default();
        let requests = requests.into_boxed_slice();
        Self { attachment, requests, rank, favor, is_bound, is_news, place, input, output, starts }
    }

    pub(crate) fn set_favor(&mut self, favor: Favor) {
        self.favor = favor;
        self.requests.iter_mut().for_each(|request| request.operation_mut().set_favor(favor));
    }

    pub(crate) fn start(&mut self) -> Result<ActiveExchange<'_>, Error> {
        if self.starts.is_spread() {
            self.pass();
        }
        if self.is_active() {
            return Err(Error::AlreadyActive);
        }
        self.attachment.check()?;
        self.input.slot_mut().lend();
        self.output.slot_mut().lend();
        self.is_news = self.is_bound;
        let started = match self.is_bound {
            true => self.starts.start(&mut self.requests, &self.attachment, self.favor),
            false => self.start_one_by_one(),
        };
        if started.is_err() {
            self.hear();
            retract_all(&mut self.requests);
            self.end(started)?;
        }
        Ok(ActiveExchange { exchange: self })
    }

    /// Its turn has come in the sequence of what the program starts.
    #[inline]
    fn pass(&mut self) {
        let first = Line::of(self);
        let Self { starts, place, .. } = self;
        sequence::pass(first, place, || {
            let [written, one, another] = starts.lines();
            Lines { own: (first, START_LINES), written, read: [one, another] }
        });
    }

    /// The first times.
    #[cold]
    fn start_one_by_one(&mut self) -> Result<(), Error> {
        let mut telling = Telling::default();
        start_each(&mut self.requests, &mut telling)?;
        // SYNC slot-waiter: all offers before all waiters.
        fence(Ordering::SeqCst);
        // Those that sleep are woken, and what nobody else would move is left to the daemon.
        for entry in self.requests.iter().filter_map(|request| request.operation().call_peer()) {
            telling.add(&self.attachment, &entry)?;
        }
        tell(telling, &mut self.requests, &self.attachment)
    }

    /// Requests learn that they have started.
    fn hear(&mut self) {
        if mem::take(&mut self.is_news) {
            for request in &mut self.requests {
                self.is_bound &= request.operation_mut().hear(&self.starts);
            }
        }
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
        self.hear();
        self.running_mut().for_each(Operation::come_to_wires);
        self.starts.learn(&self.attachment);
        if self.take_ended(0)? {
            return Ok(());
        }
        self.attachment.log().begin_wait(None);
        self.running_mut().for_each(Operation::begin_wait);
        self.starts.set_watching(true);
        let waited = self.wait_long(mode);
        self.starts.set_watching(false);
        self.requests.iter_mut().for_each(|request| request.operation_mut().end_wait());
        self.attachment.log().end_wait(None);
        waited
    }

    fn wait_long(&mut self, mode: WaitMode) -> Result<(), Error> {
        while !self.take_ended(u32::MAX)? {
            let attachment = Arc::clone(&self.attachment);
            attachment.look(Reach::Nowhere);
            if let Err(error) = attachment.wait(&ActiveExchange { exchange: self }, mode) {
                retract_all(&mut self.requests);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Has the notifier told when a request gets on, and this task if there is one. False if one has already, or none runs.
    fn watch(&self, waker: Option<&Waker>) -> Result<bool, Error> {
        self.attachment.notifier()?;
        self.starts.arm(notifier::DOORBELL);
        watch_each(self.running(), waker)
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
        self.hear();
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
        match outcome {
            Ok(()) if self.is_bound => self.starts.advance(&self.requests),
            Ok(()) => self.bind(),
            // Which of the messages have come and gone, each request knows.
            Err(_) => self.is_bound = false,
        }
        self.input.slot().reclaim();
        self.output.slot().reclaim();
        outcome
    }

    /// If all requests know how they will start from now on, so does the exchange. In the log each speaks for itself.
    #[cold]
    fn bind(&mut self) {
        let are_bound = self.requests.iter().all(|request| request.operation().is_bound());
        self.is_bound = are_bound && !self.attachment.log().is_on();
        if self.is_bound {
            self.starts.bind(&self.requests);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // What has started is given up otherwise than what has not.
        self.hear();
        self.requests.iter_mut().for_each(|request| request.operation_mut().leave_channel());
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
