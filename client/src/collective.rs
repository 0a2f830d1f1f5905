//! Collectives: operations of all ranks of a communicator together.
//!
//! All are registered. A program registers those it repeats itself ([`registration`]); for calls that it makes just so
//! ([`blocking`], [`nonblocking`]) the communicator keeps what it has registered for calls alike ([`cache`]).

mod blocking;
mod cache;
mod call;
mod crossing;
mod element;
mod fetch;
mod form;
mod lane;
mod nonblocking;
mod operator;
mod peer_processes;
mod pending;
mod registration;
mod roomy;

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use crate::buffer;
use crate::plain::element_bytes;
use crate::request::{Persistent, Request, sealed::Sealed};
use crate::{Active, Error, Favor, Plain};

pub(crate) use cache::Collectives;
pub(crate) use crossing::{Crossing, Part};
pub use element::{Located, Numeric, Reducible};
pub(crate) use operator::Function;
pub use operator::{Combine, Reproducible, UserOperator};
pub use pending::PendingCollective;

/// A registered collective and its buffers.
///
/// All ranks of the communicator register the same collectives in the same order, and start each as often as the others.
/// Several may run at once, started in any order. From its start on a rank is not needed any more: a collective ends though
/// ranks that have started it compute, sleep or are stopped. Only while a rank does a piece of the work itself, in a start as the last
/// to come, a wait or a test, the others depend on it: one that is stopped in those microseconds holds them up until it goes on. So does one
/// that is stopped while it receives from another node for its whole node: a matter of microseconds, too, and of the first 200 of a wait.
///
/// ```no_run
/// # fn example() -> Result<(), ropeway::Error> {
/// let world = ropeway::init()?.world();
/// let mut sum = world.allreduce_init::<f64>(1000, ropeway::Operator::Sum)?;
/// for step in 0..100 {
///     sum.input_mut().fill(step as f64);
///     let summing = sum.start()?;
///     // … compute …
///     summing.wait()?;
///     let _total = sum.output()[0];
/// }
/// # Ok(())
/// # }
/// ```
pub struct Collective<T: Plain> {
    persistent: Persistent,
    /// Where they lie in the memory, in elements.
    input: Range<usize>,
    output: Range<usize>,
    element: PhantomData<T>,
}

impl<T: Plain> Collective<T> {
    /// What this rank contributes. Empty if it contributes nothing; the same as the output if it works in place, as the root of
    /// a broadcast does. Panics if an operation runs whose `Active` was dropped.
    pub fn input(&self) -> &[T] {
        &self.all()[self.input.clone()]
    }

    /// As [`input`](Self::input), to write. Panics, too.
    pub fn input_mut(&mut self) -> &mut [T] {
        let range = self.input.clone();
        &mut self.all_mut()[range]
    }

    /// What this rank gets. Empty if it gets nothing. Panics if an operation runs whose `Active` was dropped.
    pub fn output(&self) -> &[T] {
        &self.all()[self.output.clone()]
    }

    /// As [`output`](Self::output), to write. Panics, too.
    pub fn output_mut(&mut self) -> &mut [T] {
        let range = self.output.clone();
        &mut self.all_mut()[range]
    }

    /// Says what more work than a few microseconds is optimised for.
    pub fn favor(mut self, favor: Favor) -> Self {
        self.persistent.operation_mut().set_favor(favor);
        self
    }

    /// Starts the operation: this rank has come.
    pub fn start(&mut self) -> Result<Active<'_>, Error> {
        Request::start(self)
    }

    /// The running operation, if its [`Active`] was dropped without waiting.
    pub fn active(&mut self) -> Option<Active<'_>> {
        Request::active(self)
    }

    fn elements(&self) -> usize {
        self.input.end.max(self.output.end)
    }

    fn all(&self) -> &[T] {
        buffer::elements(self.persistent.memory(), self.elements())
    }

    fn all_mut(&mut self) -> &mut [T] {
        let elements = self.elements();
        buffer::elements_mut(self.persistent.memory_mut(), elements)
    }
}

impl Collective<u8> {
    /// The same, as elements of that type.
    fn of<T: Plain>(self) -> Collective<T> {
        let elements = |bytes: Range<usize>| bytes.start / element_bytes::<T>()..bytes.end / element_bytes::<T>();
        let Self { persistent, input, output, .. } = self;
        Collective { persistent, input: elements(input), output: elements(output), element: PhantomData }
    }
}

impl<T: Plain> Request for Collective<T> {}

impl<T: Plain> Sealed for Collective<T> {
    fn persistent(&self) -> &Persistent {
        &self.persistent
    }

    fn persistent_mut(&mut self) -> &mut Persistent {
        &mut self.persistent
    }
}

impl<T: Plain> fmt::Debug for Collective<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.persistent.fmt(f)
    }
}
