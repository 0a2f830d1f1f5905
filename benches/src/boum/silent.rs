//! Programs with their messages left out, so that only their computing is left.

use std::time::Instant;

use ropeway::{Communicator, Error, Operator, Plain};
use ropeway_examples::jacobi::Swap;

/// A swap in which nobody is told anything. What others would have said stays what it was.
pub(super) struct Silent;

impl<T: Plain> Swap<T> for Silent {
    fn new(_: &Communicator, _: i32, _: impl Fn(u32) -> usize) -> Result<Self, Error> {
        Ok(Self)
    }

    fn swap(&mut self, _: &[T], _: impl FnMut(u32, &[T])) -> Result<(), Error> {
        Ok(())
    }
}

/// What a rank computes from one exchange to the next. All ranks start each lap together, as in the program: they compete for the machine's
/// memory, and their cores pause, as they do there.
pub(super) struct Laps<'a> {
    world: &'a Communicator,
    since: Instant,
    /// Seconds.
    laps: Vec<f64>,
}

impl<'a> Laps<'a> {
    /// A call of all ranks.
    pub(super) fn begin(world: &'a Communicator) -> Result<Self, Error> {
        world.barrier()?;
        Ok(Self { world, since: Instant::now(), laps: Vec::new() })
    }

    /// With messages, ranks would exchange them here. A call of all ranks.
    pub(super) fn lap(&mut self) -> Result<(), Error> {
        self.laps.push(self.since.elapsed().as_secs_f64());
        self.world.barrier()?;
        self.since = Instant::now();
        Ok(())
    }

    /// What they would take all together, if messages took no time: of each lap what the slowest rank takes, because the others wait for it.
    /// A call of all ranks, with as many laps.
    pub(super) fn together(mut self) -> Result<f64, Error> {
        self.world.allreduce_in_place(&mut self.laps, Operator::Max)?;
        Ok(self.laps.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::everybody;

    #[test]
    fn the_slowest_of_each_lap_counts() {
        everybody((1, 2), |world| {
            let laps = [[1.0, 5.0, 2.0], [4.0, 1.0, 3.0]][world.rank() as usize];
            let laps = Laps { world: &world, since: Instant::now(), laps: laps.to_vec() };
            assert!((laps.together().unwrap() - 12.0).abs() < 1e-9);
        });
    }
}
