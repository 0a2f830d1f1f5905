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
    /// `None` before the first one.
    since: Option<Instant>,
    /// Seconds.
    laps: Vec<f64>,
}

impl<'a> Laps<'a> {
    /// The first call of `lap` begins the first one.
    pub(super) fn new(world: &'a Communicator) -> Self {
        Self { world, since: None, laps: Vec::new() }
    }

    /// Ends a lap where ranks would exchange messages, and begins the next one. A call of all ranks.
    pub(super) fn lap(&mut self) -> Result<(), Error> {
        self.laps.extend(self.since.map(|since| since.elapsed().as_secs_f64()));
        self.world.barrier()?;
        self.since = Some(Instant::now());
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
            let laps = Laps { laps: laps.to_vec(), ..Laps::new(&world) };
            assert!((laps.together().unwrap() - 12.0).abs() < 1e-9);
        });
    }
}
