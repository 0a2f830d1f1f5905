//! Requests that are started together.

use std::fmt;
use std::sync::Arc;

use crate::attachment::Attachment;
use crate::log::Log;
use crate::operation::Others;
use crate::presence::Moment;
use crate::request::Request;
use crate::several::Several;
use crate::telling::Telling;
use crate::wait::{Event, WaitMode};
use crate::wires::Reach;
use crate::{Error, Status};

/// Starts all requests, telling the daemon of all at once. They must belong to one session.
///
/// If one of them is already active, none is started. No allocation, and no system call while the daemon and whoever waits for this are awake.
pub fn start_all<R: Request>(requests: &mut [R]) -> Result<ActiveSet<'_, R>, Error> {
    if requests.iter().any(|request| request.persistent().operation().is_active()) {
        return Err(Error::AlreadyActive);
    }
    let session = |request: &R| Arc::as_ptr(request.persistent().operation().attachment());
    if requests.windows(2).any(|pair| !std::ptr::eq(session(&pair[0]), session(&pair[1]))) {
        return Err(Error::MixedSessions);
    }
    let Some(first) = requests.first() else { return Ok(ActiveSet::new(requests, WaitMode::default())) };
    let attachment = first.persistent().operation().attachment();
    attachment.check()?;
    let (attachment, mode) = (Arc::clone(attachment), attachment.wait_mode());
    if let Err(error) = start_idle(requests, &attachment) {
        retract_all(requests);
        return Err(error);
    }
    Ok(ActiveSet::new(requests, mode))
}

/// Starts all of them, of one session none of which is active.
fn start_idle<R: Request>(requests: &mut [R], attachment: &Attachment) -> Result<(), Error> {
    let mut telling = Telling::default();
    start_each(requests, &mut telling)?;
    tell(telling, requests, attachment)
}

/// All of them are started: the daemon is told, and they know when it was.
pub(crate) fn tell<R: Request>(telling: Telling, requests: &mut [R], attachment: &Attachment) -> Result<(), Error> {
    if let Some(moment) = telling.publish(attachment)? {
        requests.iter_mut().for_each(|request| request.persistent_mut().operation_mut().told(&moment));
    }
    Ok(())
}

/// Starts all of them, of which the daemon is still to be told.
pub(crate) fn start_each<R: Request>(requests: &mut [R], telling: &mut Telling) -> Result<(), Error> {
    let moment = Moment::default();
    for several in requests.chunks_mut(PREPARED) {
        several.iter().for_each(|request| request.persistent().operation().prepare_to_start());
        for request in several {
            let operation = request.persistent_mut().operation_mut();
            if let Some(entry) = operation.start(&moment) {
                telling.add(operation.attachment(), &entry)?;
            }
        }
    }
    Ok(())
}

/// The session is over, and every operation with it.
pub(crate) fn retract_all<R: Request>(requests: &mut [R]) {
    requests.iter_mut().for_each(|request| request.persistent_mut().operation_mut().retract());
}

/// Running operations of requests that were started together.
///
/// When an operation fails, the call that notices returns the error; the other operations run on, and the set goes on
/// working for them. Dropping the set lets them run too; [`Request::active`] finds them again.
#[must_use = "the operations have to be waited for"]
pub struct ActiveSet<'a, R> {
    requests: &'a mut [R],
    mode: WaitMode,
}

impl<'a, R: Request> ActiveSet<'a, R> {
    /// Of requests some of which run.
    pub(crate) fn new(requests: &'a mut [R], mode: WaitMode) -> Self {
        Self { requests, mode }
    }

    /// Waits in this mode from now on, instead of the session's.
    pub fn with_wait_mode(mut self, mode: WaitMode) -> Self {
        self.mode = mode;
        self
    }

    /// Waits until all operations have ended. Returns early if one has failed.
    pub fn wait_all(mut self) -> Result<(), Error> {
        if let Some((last, bytes)) = self.last_by_daemon() {
            let attachment = self.requests[last].persistent().operation().attachment();
            let mode = attachment.mode_for(bytes, self.mode);
            self.wait_for(last, mode)?;
        }
        for index in 0..self.requests.len() {
            if self.requests[index].persistent().operation().is_active() {
                self.wait_for(index, self.mode)?;
            }
        }
        Ok(())
    }

    /// Waits for one of the operations, unless another one has failed before.
    fn wait_for(&mut self, index: usize, mode: WaitMode) -> Result<(), Error> {
        let (before, rest) = self.requests.split_at_mut(index);
        let Some((request, after)) = rest.split_first_mut() else { return Ok(()) };
        request.persistent_mut().operation_mut().wait_among(&mut Rest([before, after]), mode).map(drop)
    }

    /// The last operation that the daemon ends, and the bytes of all those. When that is over the others are too, as a rule, so waiting
    /// for it first needs one wake-up and not many. `None` if they are with several peers: one may fail while another never comes.
    fn last_by_daemon(&self) -> Option<(usize, u64)> {
        let operations = self.requests.iter().map(|request| request.persistent().operation());
        let mut by_daemon =
            operations.enumerate().filter_map(|(index, one)| Some((index, one.bytes_by_daemon()?, one.peer())));
        let (first, bytes, peer) = by_daemon.next()?;
        peer?;
        by_daemon
            .try_fold((first, bytes), |(_, sum), (index, bytes, other)| (other == peer).then_some((index, sum + bytes)))
    }

    /// Waits until some operation has ended; its index and outcome. `None` when no operation is left.
    pub fn wait_any(&mut self) -> Result<Option<(usize, Status)>, Error> {
        if let Some(log) = self.log() {
            log.begin_wait(None);
        }
        let ended = self.until_any();
        if let Some(log) = self.log() {
            log.end_wait(None);
        }
        ended
    }

    fn until_any(&mut self) -> Result<Option<(usize, Status)>, Error> {
        loop {
            // What is over needs no waiting for; and what has happened while we waited may be a step on the way only.
            let ended = self.test_any()?;
            if ended.is_some() || !self.wait_for_one()? {
                return Ok(ended);
            }
        }
    }

    /// Waits until at least one operation has ended, and appends index and outcome of all that have.
    ///
    /// Returns how many were appended: 0 when no operation was left.
    pub fn wait_some(&mut self, ended: &mut Vec<(usize, Status)>) -> Result<usize, Error> {
        if let Some(log) = self.log() {
            log.begin_wait(None);
        }
        let some = self.until_some(ended);
        if let Some(log) = self.log() {
            log.end_wait(None);
        }
        some
    }

    fn until_some(&mut self, ended: &mut Vec<(usize, Status)>) -> Result<usize, Error> {
        let before = ended.len();
        while ended.len() == before && self.wait_for_one()? {
            self.test_some(ended)?;
        }
        Ok(ended.len() - before)
    }

    fn test_some(&mut self, ended: &mut Vec<(usize, Status)>) -> Result<(), Error> {
        for (index, request) in self.requests.iter_mut().enumerate() {
            let operation = request.persistent_mut().operation_mut();
            if operation.is_active() && operation.has_happened() {
                ended.extend(operation.test()?.map(|status| (index, status)));
            }
        }
        Ok(())
    }

    /// Index and outcome of an operation that has ended, if there is one. Does not wait.
    pub fn test_any(&mut self) -> Result<Option<(usize, Status)>, Error> {
        for (index, request) in self.requests.iter_mut().enumerate() {
            let operation = request.persistent_mut().operation_mut();
            if operation.is_active()
                && let Some(status) = operation.test()?
            {
                return Ok(Some((index, status)));
            }
        }
        Ok(None)
    }

    /// Whether every operation has ended and its outcome was taken.
    pub fn is_empty(&self) -> bool {
        self.running().next().is_none()
    }

    /// Waits until some operation has ended; `false` if none is left.
    pub(crate) fn wait_for_one(&mut self) -> Result<bool, Error> {
        let Some(first) = self.running().next() else { return Ok(false) };
        let attachment = first.persistent().operation().attachment();
        attachment.look(Reach::Nowhere);
        match attachment.wait(self, self.mode) {
            Ok(()) => Ok(true),
            Err(error) => {
                retract_all(self.requests);
                Err(error)
            }
        }
    }

    /// The session's log. Without requests there is nothing to wait for.
    fn log(&self) -> Option<&Log> {
        self.requests.first().map(|first| first.persistent().operation().attachment().log())
    }

    fn running(&self) -> impl Iterator<Item = &R> {
        self.requests.iter().filter(|request| request.persistent().operation().is_active())
    }
}

/// All others than the one that is waited for.
struct Rest<'a, R>([&'a mut [R]; 2]);

impl<R: Request> Others for Rest<'_, R> {
    const ARE_ANY: bool = true;

    fn are_left(&self) -> bool {
        let mut requests = self.0.iter().flat_map(|part| part.iter());
        requests.any(|request| request.persistent().operation().is_active())
    }

    fn reach(&self) -> Reach<'_> {
        let operations = self.0.iter().flat_map(|part| part.iter()).map(|request| request.persistent().operation());
        let active = operations.filter(|operation| operation.is_active());
        active.map(Event::reach).fold(Reach::Nowhere, Reach::and)
    }

    fn have_news(&self) -> bool {
        let operations = self.0.iter().flat_map(|part| part.iter()).map(|request| request.persistent().operation());
        operations.filter(|operation| operation.is_active()).any(Event::has_happened)
    }

    fn take_ended(&mut self) -> Result<(), Error> {
        let requests = self.0.iter_mut().flat_map(|part| part.iter_mut());
        let operations = requests.map(|request| request.persistent_mut().operation_mut());
        for operation in operations.filter(|operation| operation.is_active() && operation.has_happened()) {
            if let Some(outcome) = operation.conclude(1) {
                outcome?;
            }
        }
        Ok(())
    }
}

impl<R: Request> Several for ActiveSet<'_, R> {
    fn each(&self) -> impl Iterator<Item = &(impl Event + ?Sized)> {
        self.running().map(|request| request.persistent().operation())
    }
}

impl<R: Request> fmt::Debug for ActiveSet<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.requests.iter().map(|request| request.persistent())).finish()
    }
}

/// The first lines of so many requests are about as many as a processor fetches at once.
const PREPARED: usize = 8;
