//! What the ranks tell each other.

use std::time::Duration;

use ropeway::{Collective, Communicator, Error, Operator};

use crate::{Variant, block, timed};

/// The communication of an iteration, each with something to compute `meanwhile`.
pub trait Exchange {
    /// What can go wrong.
    type Error;

    /// Gives this rank's part of a vector to all, and returns all parts, one behind the other.
    fn gather(&mut self, part: &[f64], meanwhile: impl FnOnce()) -> Result<&[f64], Self::Error>;

    /// The sum of what all ranks have.
    fn sum(&mut self, mine: f64, meanwhile: impl FnOnce()) -> Result<f64, Self::Error>;
}

/// The exchange between the ranks of a communicator: two collectives, bound once.
#[derive(Debug)]
pub struct AmongRanks {
    variant: Variant,
    parts: Collective<f64>,
    sums: Collective<f64>,
    /// Time within the allgather, and within the allreduces.
    pub gathering: Duration,
    /// See [`gathering`](Self::gathering).
    pub summing: Duration,
}

impl AmongRanks {
    /// Binds the collectives for a system of `unknowns`.
    pub fn new(world: &Communicator, unknowns: usize, variant: Variant) -> Result<Self, Error> {
        let counts: Vec<usize> = (0..world.size()).map(|rank| block(unknowns, rank, world.size()).len()).collect();
        Ok(Self {
            variant,
            parts: world.allgatherv_in_place_init(&counts)?,
            sums: world.allreduce_init(1, Operator::Sum)?,
            gathering: Duration::ZERO,
            summing: Duration::ZERO,
        })
    }
}

impl Exchange for AmongRanks {
    type Error = Error;

    fn gather(&mut self, part: &[f64], meanwhile: impl FnOnce()) -> Result<&[f64], Error> {
        timed(&mut self.gathering, || self.parts.input_mut().copy_from_slice(part));
        self.variant.run(&mut self.parts, &mut self.gathering, meanwhile)?;
        Ok(self.parts.output())
    }

    fn sum(&mut self, mine: f64, meanwhile: impl FnOnce()) -> Result<f64, Error> {
        self.sums.input_mut()[0] = mine;
        self.variant.run(&mut self.sums, &mut self.summing, meanwhile)?;
        Ok(self.sums.output()[0])
    }
}
