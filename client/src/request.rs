//! Persistent requests: registered once, then started and waited for again and again.

use std::fmt;

use ropeway_proto::collective::CollectiveMember;
use ropeway_proto::{CommId, Command, End, Endpoint, Epoch, Slot};
use ropeway_shm::ArenaSlot;

use crate::attendance::Member;
use crate::collective::Function;
use crate::commands::Entry;
use crate::communicator::Membership;
use crate::memory::Memory;
use crate::operation::{Operation, Prepared};
use crate::presence::Moment;
use crate::terms::Terms;
use crate::wait::WaitMode;
use crate::{Error, Status};

/// A persistent request: a [`SendRequest`](crate::SendRequest), a [`RecvRequest`](crate::RecvRequest), or a box of one.
///
/// Starting borrows the request until the operation is waited for, so that its buffer can't be touched meanwhile:
///
/// ```compile_fail,E0502
/// # use ropeway::{Error, Request, SendRequest};
/// # fn example(mut request: SendRequest<f64>) -> Result<(), Error> {
/// let active = request.start()?;
/// println!("{}", request.buffer()[0]); // the daemon may be using it
/// active.wait()?;
/// # Ok(()) }
/// ```
///
/// Nor can it be started twice:
///
/// ```compile_fail,E0499
/// # use ropeway::{Error, Request, SendRequest};
/// # fn example(mut request: SendRequest<f64>) -> Result<(), Error> {
/// let first = request.start()?;
/// let second = request.start()?;
/// first.wait()?;
/// # Ok(()) }
/// ```
pub trait Request: sealed::Sealed {
    /// Starts the operation. No allocation, and no system call while the daemon and whoever waits for this are awake.
    fn start(&mut self) -> Result<Active<'_>, Error> {
        self.persistent_mut().start()
    }

    /// The running operation, if its [`Active`] was dropped without waiting.
    fn active(&mut self) -> Option<Active<'_>> {
        let request = self.persistent_mut();
        request.operation.is_active().then_some(Active { request })
    }
}

impl<R: Request + ?Sized> Request for &mut R {}

impl<R: Request + ?Sized> Request for Box<R> {}

/// A running operation.
///
/// Dropping it lets the operation run on; [`Request::active`] finds it again. Leaking it is no different.
#[must_use = "the operation has to be waited for"]
pub struct Active<'a> {
    request: &'a mut Persistent,
}

impl Active<'_> {
    /// Waits until the operation has ended, in the session's wait mode.
    // Each kind has a function of its own, because a program that has computed finds none of it in its core's caches. Only what is large, stays
    // on the node and has moved meanwhile is taken right here, as it is started: on a busy host a page of code takes longer to come back than
    // some lines of the one that is there.
    #[inline(always)]
    pub fn wait(self) -> Result<Status, Error> {
        let operation = &mut self.request.operation;
        if operation.is_short() {
            let ended = operation.take_ended();
            return ended.map_or_else(|| self.wait_for_short(), Ok);
        }
        if operation.is_large() {
            let ended = operation.take_quietly();
            return ended.map_or_else(|| self.wait_for_large(), Ok);
        }
        self.wait_for_other()
    }

    #[inline(never)]
    fn wait_for_short(self) -> Result<Status, Error> {
        let ended = self.request.operation.take_short();
        ended.map_or_else(|| self.wait_on(), Ok)
    }

    #[inline(never)]
    fn wait_for_large(self) -> Result<Status, Error> {
        let ended = self.request.operation.take_large();
        ended.map_or_else(|| self.wait_on(), Ok)
    }

    #[inline(never)]
    fn wait_for_other(self) -> Result<Status, Error> {
        let ended = self.request.operation.take_at_once();
        ended.map_or_else(|| self.wait_on(), Ok)
    }

    #[inline(never)]
    fn wait_on(self) -> Result<Status, Error> {
        let mode = self.request.operation.attachment().wait_mode();
        self.wait_with(mode)
    }

    /// Waits until the operation has ended, in this mode.
    pub fn wait_with(self, mode: WaitMode) -> Result<Status, Error> {
        self.request.operation.wait(mode)
    }

    /// The outcome, if the operation has ended; `None` if it still runs. The outcome can be taken once.
    pub fn test(&mut self) -> Result<Option<Status>, Error> {
        self.request.operation.test()
    }

    /// Makes the session's [event descriptor](crate::Session::event_fd) readable when the operation gets on, or has already.
    ///
    /// Most steps are the end, but not all are: then [`test`](Self::test) says so, and this is to be called again; so it is after a wait in
    /// which this operation was one of several, since the wait has it wake a thread instead.
    pub fn notify(&mut self) -> Result<(), Error> {
        let operation = &self.request.operation;
        if !operation.watch(None)? {
            operation.attachment().notifier()?.ring();
        }
        Ok(())
    }

    /// Withdraws the operation. If it was too late for that, waits for its end and returns the outcome. The buffer of a receive that
    /// was withdrawn may hold anything. The start of a collective that was withdrawn is none: the others of its round wait for the next one.
    pub fn cancel(self) -> Result<Option<Status>, Error> {
        let mode = self.request.operation.attachment().wait_mode();
        self.request.operation.cancel(mode)
    }
}

impl Active<'_> {
    pub(crate) fn operation(&self) -> &Operation {
        &self.request.operation
    }
}

impl fmt::Debug for Active<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Active").field(self.request).finish()
    }
}

/// What all persistent requests have in common: all but the type of the elements.
pub struct Persistent {
    operation: Operation,
}

impl Persistent {
    /// Registers with the daemon, without waiting for it: the ring keeps order, so it has registered before it starts.
    /// Everything it could object to was checked here.
    pub(crate) fn init(
        membership: &Membership,
        memory: impl Into<Memory>,
        terms: Terms,
        end: (End, Endpoint),
        command: impl FnOnce(Slot, Epoch) -> Command,
    ) -> Result<Self, Error> {
        Self::begin_init(Operation::new(membership, memory, terms)?, end, command)
    }

    /// The same, of an operation that is there.
    pub(crate) fn begin_init(
        operation: Operation,
        end: (End, Endpoint),
        command: impl FnOnce(Slot, Epoch) -> Command,
    ) -> Result<Self, Error> {
        let mut operation = operation.with_end(end);
        operation.begin(command)?;
        // Nothing moves yet: the buffer is still the application's.
        operation.retract();
        Ok(Self { operation })
    }

    /// Registers a collective with the daemon, which checks it. `function` combines, if the operator is the program's;
    /// `channels` if its messages go straight from rank to rank. The others hear of these last, when nothing can be missing any more: they
    /// would find what is left of a part the next time.
    pub(crate) fn register(
        membership: &Membership,
        memory: ArenaSlot,
        comm: CommId,
        member: CollectiveMember,
        function: Option<&Function>,
        channels: Option<Prepared>,
    ) -> Result<Self, Error> {
        let number = member.rank;
        let role = Member { number, function: function.cloned() };
        let mut operation = Operation::new(membership, memory, Terms::Collective)?.with_member(role);
        let combiner =
            function.map(|function| Ok((membership.attachment.combiner()?, function.clone()))).transpose()?;
        let logged = membership.attachment.log().is_on().then(|| member.clone());
        let place = operation.begin_registration();
        let registered = membership.attachment.register(place, comm, member);
        if matches!(registered, Err(Error::Refused(_))) {
            operation.take_back_registration();
        }
        registered?;
        if let Some((combiner, function)) = combiner {
            combiner.add(place.0, number, function);
        }
        if let Some(member) = logged {
            operation.note_member(comm, &member);
        }
        if let Some(channels) = channels {
            let crossed = channels.begin(operation.attachment())?;
            operation.cross(crossed);
        }
        Ok(Self { operation })
    }

    pub(crate) fn operation(&self) -> &Operation {
        &self.operation
    }

    pub(crate) fn operation_mut(&mut self) -> &mut Operation {
        &mut self.operation
    }

    #[inline(always)]
    fn start(&mut self) -> Result<Active<'_>, Error> {
        if self.operation.is_active() {
            return Err(Error::AlreadyActive);
        }
        if self.operation.is_short() {
            self.start_short();
            return Ok(Active { request: self });
        }
        if self.operation.is_large() {
            return match self.operation.start_quietly() {
                Some(false) => Ok(Active { request: self }),
                Some(true) => self.set_off(),
                None => self.start_large(),
            };
        }
        self.start_not_direct()
    }

    /// What is no message within the node. In a function of its own, so that programs have only what starts of those need.
    #[inline(never)]
    fn start_not_direct(&mut self) -> Result<Active<'_>, Error> {
        if self.operation.is_only_told() { self.start_told() } else { self.start_other() }
    }

    /// Sends or receives what is small at once if the other end has come, which needs no daemon. If there is no session any more, waiting will
    /// tell.
    #[inline(never)]
    fn start_short(&mut self) {
        self.operation.start_short();
    }

    /// Offers the message to the other end, as [`start_short`](Self::start_short) does.
    #[inline(never)]
    fn start_large(&mut self) -> Result<Active<'_>, Error> {
        if self.operation.start_large(&Moment::default()) {
            self.ask_to_move()?;
        }
        Ok(Active { request: self })
    }

    /// The other end had offered its message already.
    #[inline(never)]
    fn set_off(&mut self) -> Result<Active<'_>, Error> {
        if self.operation.set_off() {
            self.ask_to_move()?;
        }
        Ok(Active { request: self })
    }

    /// Tells the daemon, and nobody else.
    #[inline]
    fn start_told(&mut self) -> Result<Active<'_>, Error> {
        let entry = self.operation.start_told();
        self.publish(&entry)?;
        Ok(Active { request: self })
    }

    #[inline(never)]
    fn start_other(&mut self) -> Result<Active<'_>, Error> {
        self.operation.attachment().check()?;
        self.start_elsewhere()?;
        Ok(Active { request: self })
    }

    #[cold]
    fn ask_to_move(&mut self) -> Result<(), Error> {
        let moment = self.publish(&self.operation.ask_to_move())?;
        self.operation.told(&moment);
        Ok(())
    }

    #[inline(never)]
    fn start_elsewhere(&mut self) -> Result<(), Error> {
        let entry = self.operation.start_elsewhere(&Moment::default());
        let told = entry.map(|entry| self.publish(&entry)).transpose()?;
        let left = self.operation.attachment().wires().leave_now().then(Moment::default);
        if let Some(moment) = left.or(told) {
            self.operation.told(&moment);
        }
        Ok(())
    }

    /// Tells the daemon of a start; says when.
    #[inline]
    fn publish(&mut self, entry: &Entry) -> Result<Moment, Error> {
        let told = self.operation.attachment().publish_one(entry);
        if told.is_err() {
            self.operation.retract();
        }
        told
    }

    /// The buffer. Only [`into_memory`](Self::into_memory) takes it away, and the request with it.
    pub(crate) fn memory(&self) -> &ArenaSlot {
        self.operation.memory().expect(HAS_MEMORY)
    }

    pub(crate) fn memory_mut(&mut self) -> &mut ArenaSlot {
        self.operation.memory_mut().expect(HAS_MEMORY)
    }

    /// Frees the request and keeps its buffer.
    pub(crate) fn into_memory(mut self) -> ArenaSlot {
        assert!(!self.operation.is_active(), "the request is active: the daemon may be using its buffer");
        self.operation.take_memory().expect(HAS_MEMORY)
    }
}

impl Request for Persistent {}

impl sealed::Sealed for Persistent {
    fn persistent(&self) -> &Persistent {
        self
    }

    fn persistent_mut(&mut self) -> &mut Persistent {
        self
    }
}

impl Drop for Persistent {
    fn drop(&mut self) {
        self.operation.free();
    }
}

impl fmt::Debug for Persistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("terms", self.operation.terms())
            .field("is_active", &self.operation.is_active())
            .finish()
    }
}

pub(crate) mod sealed {
    use super::Persistent;

    /// Keeps [`Request`](super::Request) ours: what a request is, only this crate knows.
    pub trait Sealed {
        /// The request without its element type.
        fn persistent(&self) -> &Persistent;
        /// The request without its element type, to change.
        fn persistent_mut(&mut self) -> &mut Persistent;
    }

    impl<R: Sealed + ?Sized> Sealed for &mut R {
        fn persistent(&self) -> &Persistent {
            (**self).persistent()
        }

        fn persistent_mut(&mut self) -> &mut Persistent {
            (**self).persistent_mut()
        }
    }

    impl<R: Sealed + ?Sized> Sealed for Box<R> {
        fn persistent(&self) -> &Persistent {
            (**self).persistent()
        }

        fn persistent_mut(&mut self) -> &mut Persistent {
            (**self).persistent_mut()
        }
    }
}

const HAS_MEMORY: &str = "a request keeps its buffer until it is freed";
