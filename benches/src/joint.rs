//! A collective in rounds, each of which has data of its own.

use std::time::Duration;

use ropeway::Communicator;
use ropeway_examples::Mode;

use crate::BenchError;
use crate::clock::now_ns;
use crate::contribution::Extent;
use crate::everyone::Everyone;
use crate::hiding::Communication;
use crate::method::Method;
use crate::operation::{CollectiveCall, Operation};
use crate::together::{Together, together};

/// One rank's part.
pub(crate) struct Joint {
    everyone: Everyone,
    together: Box<dyn Together>,
    is_barrier: bool,
    round: u64,
}

/// When a rank began a round, and when it had its result, by the clock of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
}

impl Joint {
    pub(crate) fn new(
        world: &Communicator,
        method: &Method,
        mode: Mode,
        call: CollectiveCall,
        bytes: usize,
    ) -> Result<Self, BenchError> {
        let together = together(world, method, mode, call, bytes)?;
        let is_barrier = call.operation == Operation::Barrier;
        Ok(Self { everyone: Everyone::of(world), together, is_barrier, round: 0 })
    }

    /// Whether it moves no data that could be checked.
    pub(crate) fn is_barrier(&self) -> bool {
        self.is_barrier
    }

    pub(crate) fn everyone(&self) -> &Everyone {
        &self.everyone
    }

    /// A round with new data at the edges of each block. `begin` returns when it is to begin, with the time.
    pub(crate) fn round(
        &mut self,
        begin: impl FnOnce(&Everyone) -> Result<u64, BenchError>,
        meanwhile: Option<&mut dyn FnMut()>,
    ) -> Result<Span, BenchError> {
        self.checked(Extent::Edges, |together, everyone| {
            let begin_ns = begin(everyone)?;
            together.round(meanwhile)?;
            Ok(Span { begin_ns, end_ns: now_ns()? })
        })
    }

    fn checked<R>(
        &mut self,
        extent: Extent,
        work: impl FnOnce(&mut dyn Together, &Everyone) -> Result<R, BenchError>,
    ) -> Result<R, BenchError> {
        self.round += 1;
        self.together.prepare(self.round, extent);
        let result = work(&mut *self.together, &self.everyone)?;
        self.together.check(self.round, extent)?;
        Ok(result)
    }
}

/// The time when nobody is missing any more.
pub(crate) fn when_all_are_there(everyone: &Everyone) -> Result<u64, BenchError> {
    everyone.meet()?;
    Ok(now_ns()?)
}

/// All ranks compute, and what counts is the slowest.
impl Communication for Joint {
    fn agree<const N: usize>(&self, decide: impl FnOnce() -> [u64; N]) -> Result<[u64; N], BenchError> {
        self.everyone.agree(decide)
    }

    fn meet(&self) -> Result<(), BenchError> {
        self.everyone.meet()
    }

    fn computes(&self) -> bool {
        true
    }

    fn transfer(&mut self, mut compute: impl FnMut()) -> Result<Duration, BenchError> {
        let Span { begin_ns, end_ns } = self.round(when_all_are_there, Some(&mut compute))?;
        Ok(Duration::from_nanos(end_ns - begin_ns))
    }

    fn that_count<const N: usize>(&self, times: [f64; N]) -> Result<Option<[f64; N]>, BenchError> {
        self.everyone.largest(times)
    }

    fn prove(&mut self) -> Result<(), BenchError> {
        self.checked(Extent::All, |together, _| together.round(None))?;
        self.checked(Extent::All, |together, _| together.round(Some(&mut || {})))
    }
}
