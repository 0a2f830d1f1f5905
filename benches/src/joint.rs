//! A collective in rounds, each of which has data of its own.

use ropeway::Communicator;

use crate::BenchError;
use crate::allocations::measured;
use crate::clock::{Span, now_ns};
use crate::contribution::Extent;
use crate::everyone::Everyone;
use crate::hiding::Communication;
use crate::operation::{CollectiveCall, Operation};
use crate::together::{Means, Together, together};

/// One rank's part.
pub(crate) struct Joint {
    everyone: Everyone,
    together: Box<dyn Together>,
    is_barrier: bool,
    round: u64,
}

impl Joint {
    pub(crate) fn new(
        world: &Communicator,
        means: Means<'_>,
        call: CollectiveCall,
        bytes: usize,
    ) -> Result<Self, BenchError> {
        let together = together(world, means, call, bytes)?;
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

    /// A round with new data at the edges of each block, from when this rank began until it had its result. `begin` returns
    /// when it is to begin, with the time.
    pub(crate) fn round(
        &mut self,
        begin: impl FnOnce(&Everyone) -> Result<u64, BenchError>,
        meanwhile: Option<&mut dyn FnMut()>,
    ) -> Result<Span, BenchError> {
        self.checked(Extent::Edges, |together, everyone| {
            let begin_ns = begin(everyone)?;
            measured(|| together.round(meanwhile))?;
            Ok(Span::since(begin_ns)?)
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

/// All ranks compute, and what counts is from when the first one began until the last one is done. With more ranks than cores
/// each rank's own time would leave out what others did before it had a core.
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

    fn transfer(&mut self, mut compute: impl FnMut()) -> Result<Span, BenchError> {
        self.round(when_all_are_there, Some(&mut compute))
    }

    fn that_count<const N: usize>(&self, spans: [Span; N]) -> Result<Option<[f64; N]>, BenchError> {
        self.everyone.longest(spans)
    }

    fn prove(&mut self) -> Result<(), BenchError> {
        self.checked(Extent::All, |together, _| together.round(None))?;
        self.checked(Extent::All, |together, _| together.round(Some(&mut || {})))
    }
}
