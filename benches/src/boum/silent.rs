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

/// What a rank computes from one exchange to the next.
pub(super) struct Laps {
    since: Instant,
    /// Seconds.
    laps: Vec<f64>,
}

impl Laps {
    pub(super) fn begin() -> Self {
        Self { since: Instant::now(), laps: Vec::new() }
    }

    /// With messages, ranks would meet here.
    pub(super) fn lap(&mut self) {
        let now = Instant::now();
        self.laps.push((now - self.since).as_secs_f64());
        self.since = now;
    }

    /// What they would take all together, if messages took no time: of each lap what the slowest rank takes, because the others wait for it.
    /// A call of all ranks, with as many laps.
    pub(super) fn together(mut self, world: &Communicator) -> Result<f64, Error> {
        world.allreduce_in_place(&mut self.laps, Operator::Max)?;
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
            let laps = Laps { since: Instant::now(), laps: laps.to_vec() };
            assert!((laps.together(&world).unwrap() - 12.0).abs() < 1e-9);
        });
    }
}
