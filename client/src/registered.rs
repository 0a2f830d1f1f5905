//! Registered sends and receives.

use std::fmt;
use std::marker::PhantomData;

use crate::buffer::{self, Buffer};
use crate::request::{Persistent, Request, sealed::Sealed};
use crate::{Active, Error, Favor, Plain};

/// A registered send: the same buffer to the same rank with the same tag, whenever it is started.
///
/// Made by [`Communicator::send_init`](crate::Communicator::send_init).
pub type SendRequest<T> = Registered<T, Outgoing>;

/// A registered receive: from the same rank, with the same tag, into the same buffer, whenever it is started.
///
/// Made by [`Communicator::recv_init`](crate::Communicator::recv_init).
pub type RecvRequest<T> = Registered<T, Incoming>;

/// The way of a [`SendRequest`].
#[derive(Debug)]
pub enum Outgoing {}

/// The way of a [`RecvRequest`].
#[derive(Debug)]
pub enum Incoming {}

/// A registered request and its buffer.
///
/// Dropping it frees it, at the latest when a running operation has ended.
pub struct Registered<T: Plain, Way> {
    persistent: Persistent,
    elements: usize,
    kind: PhantomData<(T, Way)>,
}

impl<T: Plain, Way> Registered<T, Way> {
    pub(crate) fn new(persistent: Persistent, elements: usize) -> Self {
        Self { persistent, elements, kind: PhantomData }
    }

    /// Says what its large messages are optimised for. Both ends may say it; the one that starts later decides.
    pub fn favor(mut self, favor: Favor) -> Self {
        self.persistent.operation_mut().set_favor(favor);
        self
    }

    /// Starts the operation. No allocation, and no system call while the daemon and whoever waits for this are awake.
    pub fn start(&mut self) -> Result<Active<'_>, Error> {
        Request::start(self)
    }

    /// The running operation, if its [`Active`] was dropped without waiting.
    pub fn active(&mut self) -> Option<Active<'_>> {
        Request::active(self)
    }

    /// The whole buffer. Panics if an operation runs whose `Active` was dropped.
    pub fn buffer(&self) -> &[T] {
        buffer::elements(self.persistent.memory(), self.elements)
    }

    /// The whole buffer, to write. Panics if an operation runs whose `Active` was dropped.
    pub fn buffer_mut(&mut self) -> &mut [T] {
        buffer::elements_mut(self.persistent.memory_mut(), self.elements)
    }

    /// Frees the request and gives its buffer back. Panics if an operation runs whose `Active` was dropped.
    pub fn into_buffer(self) -> Buffer<T> {
        Buffer::new(self.persistent.into_memory(), self.elements)
    }
}

impl<T: Plain, Way> Request for Registered<T, Way> {}

impl<T: Plain, Way> Sealed for Registered<T, Way> {
    fn persistent(&self) -> &Persistent {
        &self.persistent
    }

    fn persistent_mut(&mut self) -> &mut Persistent {
        &mut self.persistent
    }
}

impl<T: Plain, Way> fmt::Debug for Registered<T, Way> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.persistent.fmt(f)
    }
}
