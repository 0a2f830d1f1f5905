//! All ranks of a job, which measure together. Rank 0 keeps the time.

use ropeway::Communicator;

use crate::clock::Span;
use crate::{BenchError, gather};

/// All of them, seen from one.
#[derive(Clone, Debug)]
pub(crate) struct Everyone {
    world: Communicator,
}

impl Everyone {
    pub(crate) fn of(world: &Communicator) -> Self {
        Self { world: world.clone() }
    }

    /// Has rank 0 decide, and tells the others.
    pub(crate) fn agree<const N: usize>(&self, decide: impl FnOnce() -> [u64; N]) -> Result<[u64; N], BenchError> {
        let mut decision = [0; N];
        if self.world.rank() == 0 {
            decision = decide();
            for rank in 1..self.world.size() {
                self.world.send(&decision, rank, AGREE)?;
            }
        } else {
            self.world.recv(&mut decision, 0, AGREE)?;
        }
        Ok(decision)
    }

    /// Returns when all have called it.
    pub(crate) fn meet(&self) -> Result<(), BenchError> {
        Ok(self.world.barrier()?)
    }

    /// The largest of all ranks' figures, one by one, for rank 0.
    pub(crate) fn largest<const N: usize>(&self, figures: [f64; N]) -> Result<Option<[f64; N]>, BenchError> {
        let all = gather(&self.world, figures)?;
        let largest = |all: Vec<[f64; N]>| all.into_iter().fold([f64::NEG_INFINITY; N], larger_ones);
        Ok(all.map(largest))
    }

    /// Microseconds from the first rank's begin to the last one's end, of one after the other, for rank 0.
    pub(crate) fn longest<const N: usize>(&self, spans: [Span; N]) -> Result<Option<[f64; N]>, BenchError> {
        let first = self.largest(spans.map(|span| -(span.begin_ns as f64)))?;
        let last = self.largest(spans.map(|span| span.end_ns as f64))?;
        let longest = |(first, last): ([f64; N], [f64; N])| std::array::from_fn(|at| (last[at] + first[at]) / 1e3);
        Ok(first.zip(last).map(longest))
    }
}

fn larger_ones<const N: usize>(left: [f64; N], right: [f64; N]) -> [f64; N] {
    std::array::from_fn(|index| left[index].max(right[index]))
}

const AGREE: i32 = 105;
