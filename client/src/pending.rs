//! One-shot operations that run while the program does something else.

use std::fmt;
use std::marker::PhantomData;

use ropeway_proto::{Command, Completion, Endpoint, Layout, completion};

use crate::communicator::Membership;
use crate::operation::Operation;
use crate::plain::element_bytes;
use crate::terms::Terms;
use crate::wait::WaitMode;
use crate::{Buffer, Error, Plain, Status};

/// A running [`isend`](crate::Communicator::isend) or [`irecv`](crate::Communicator::irecv), which owns its buffer.
///
/// Dropping it withdraws the operation if it has not matched yet.
///
/// An operation that fails takes its buffer along: [`wait`](Self::wait), [`wait_with`](Self::wait_with) and [`cancel`](Self::cancel) return
/// the error alone, and the memory is free again. What was in the buffer of a send, and is still needed, the program keeps elsewhere.
#[must_use = "the operation is withdrawn when this is dropped"]
pub struct Pending<T: Plain> {
    operation: Operation,
    elements: usize,
    /// Set when `test` has found it.
    outcome: Option<Status>,
    element: PhantomData<T>,
}

impl<T: Plain> Pending<T> {
    pub(crate) fn send(
        membership: &Membership,
        buffer: Buffer<T>,
        endpoint: Endpoint,
        terms: Terms,
    ) -> Result<Self, Error> {
        let elements = buffer.len();
        Ok(Self::new(begin_send(membership, buffer, endpoint, terms)?, elements))
    }

    pub(crate) fn recv(membership: &Membership, buffer: Buffer<T>, endpoint: Endpoint) -> Result<Self, Error> {
        let elements = buffer.len();
        Ok(Self::new(begin_recv(membership, buffer, endpoint)?, elements))
    }

    fn new(operation: Operation, elements: usize) -> Self {
        Self { operation, elements, outcome: None, element: PhantomData }
    }

    /// Waits until the operation has ended, and gives the buffer back.
    ///
    /// # Errors
    /// How the operation has failed, without the buffer: [`Error::Truncated`] or [`Error::SizeMismatch`] if the message does not fit,
    /// [`Error::RankFailed`], [`Error::RankLeft`], [`Error::OutsiderGone`] or [`Error::PeerLost`] if whoever it is from or for is gone, or may be,
    /// [`Error::DaemonGone`] or [`Error::Evicted`] if the session is over.
    pub fn wait(self) -> Result<(Buffer<T>, Status), Error> {
        let mode = self.operation.attachment().wait_mode();
        self.wait_with(mode)
    }

    /// As [`wait`](Self::wait), in this mode.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait); the buffer is gone then, too.
    pub fn wait_with(mut self, mode: WaitMode) -> Result<(Buffer<T>, Status), Error> {
        let status = match self.outcome {
            Some(status) => status,
            None => self.operation.wait(mode)?,
        };
        Ok((self.take_buffer(), status))
    }

    /// The outcome, if the operation has ended; `None` if it still runs. [`wait`](Self::wait) then gives the buffer back at
    /// once.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait), once.
    pub fn test(&mut self) -> Result<Option<Status>, Error> {
        if self.outcome.is_none() {
            self.outcome = self.operation.test()?;
        }
        Ok(self.outcome)
    }

    /// Withdraws the operation. If it was too late for that, waits for its end and returns the outcome as well.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait), if it was too late and the operation failed; the buffer is gone then, too.
    pub fn cancel(mut self) -> Result<(Buffer<T>, Option<Status>), Error> {
        let mode = self.operation.attachment().wait_mode();
        let outcome = match self.outcome {
            Some(status) => Some(status),
            None => self.operation.cancel(mode)?,
        };
        Ok((self.take_buffer(), outcome))
    }

    pub(crate) fn operation(&self) -> &Operation {
        &self.operation
    }

    /// The buffer of an operation that has ended, once.
    pub(crate) fn take_buffer(&mut self) -> Buffer<T> {
        let memory = self.operation.take_memory().expect("the buffer is taken by the call that ends us");
        Buffer::new(memory, self.elements)
    }
}

/// An operation on a whole buffer, which it owns from now on, that has all it needs and has not begun: from here on only the end of the session
/// keeps it from going on.
pub(crate) struct Ready {
    operation: Operation,
    layout: Layout,
}

impl Ready {
    pub(crate) fn of<T: Plain>(membership: &Membership, buffer: Buffer<T>, terms: Terms) -> Result<Self, Error> {
        let layout = layout_of(&buffer);
        Ok(Self { operation: Operation::new(membership, buffer.into_memory(), terms)?, layout })
    }

    pub(crate) fn to_receive<T: Plain>(membership: &Membership, buffer: Buffer<T>) -> Result<Self, Error> {
        let terms = Terms::Recv { capacity: buffer.bytes(), element_bytes: element_bytes::<T>() };
        Self::of(membership, buffer, terms)
    }

    pub(crate) fn send(self, endpoint: Endpoint) -> Result<Operation, Error> {
        let Self { mut operation, layout } = self;
        let memory = operation.memory().expect("it was just given one");
        let message = &memory.as_bytes()[..layout.bytes() as usize];
        if operation.attachment().send(&endpoint, message)? {
            operation.end_at_once(Completion::bare(completion::Status::Success));
        } else {
            operation.begin(|slot, epoch| Command::Send { slot, epoch, endpoint, layout })?;
        }
        Ok(operation)
    }

    pub(crate) fn receive(self, endpoint: Endpoint) -> Result<Operation, Error> {
        let Self { mut operation, layout } = self;
        operation.begin_recv(endpoint, layout)?;
        Ok(operation)
    }
}

/// Begins to send the whole buffer, which the operation owns from now on. A message that has left can't be called back for want of a slot.
fn begin_send<T: Plain>(
    membership: &Membership,
    buffer: Buffer<T>,
    endpoint: Endpoint,
    terms: Terms,
) -> Result<Operation, Error> {
    Ready::of(membership, buffer, terms)?.send(endpoint)
}

/// Begins to receive into the whole buffer, which the operation owns from now on.
fn begin_recv<T: Plain>(membership: &Membership, buffer: Buffer<T>, endpoint: Endpoint) -> Result<Operation, Error> {
    Ready::to_receive(membership, buffer)?.receive(endpoint)
}

fn layout_of<T: Plain>(buffer: &Buffer<T>) -> Layout {
    Layout::contiguous(buffer.offset(), buffer.bytes())
}

impl<T: Plain> Drop for Pending<T> {
    fn drop(&mut self) {
        if self.operation.is_active() {
            self.operation.withdraw();
        }
    }
}

impl<T: Plain> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("terms", self.operation.terms())
            .field("is_active", &self.operation.is_active())
            .finish()
    }
}
