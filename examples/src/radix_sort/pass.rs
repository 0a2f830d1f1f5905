//! The passes of a rank.

use std::time::{Duration, Instant};

use ropeway::{Buffer, Collective, Communicator, Error};

use super::digits::Digit;
use super::route::Route;
use crate::{Variant, timed};

/// Sorts the keys of all ranks, as often as one likes. What can be prepared is.
#[derive(Debug)]
pub struct Sorter {
    world: Communicator,
    bits: u32,
    /// Everybody's counts, rank by rank.
    counts: Collective<u32>,
    own_counts: Vec<u32>,
    /// This rank's keys in order of a digit, and those that come for it.
    ordered: Buffer<u32>,
    incoming: Buffer<u32>,
}

/// Where a rank's time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Everything.
    pub total: Duration,
    /// Within start and wait of the allgather.
    pub allgather: Duration,
    /// Sending keys where they belong.
    pub redistribution: Duration,
}

impl Sorter {
    /// Prepares to sort `keys` keys of each rank, by digits of so many bits.
    pub fn new(world: &Communicator, keys: usize, bits: u32) -> Result<Self, Error> {
        let radix = Digit::radix(bits);
        Ok(Self {
            world: world.clone(),
            bits,
            counts: world.allgather_in_place_init(radix)?,
            own_counts: vec![0; radix],
            ordered: world.alloc(keys)?,
            incoming: world.alloc(keys)?,
        })
    }

    /// Sorts. Afterwards rank 0 has the least keys, and each rank as many as before.
    ///
    /// # Panics
    /// If there are not as many keys as were prepared for.
    pub fn sort(&mut self, keys: &mut [u32], variant: Variant) -> Result<Times, Error> {
        assert_eq!(keys.len(), self.ordered.len(), "all ranks have prepared for so many keys");
        let (begin, mut times) = (Instant::now(), Times::default());
        for digit in Digit::all(self.bits) {
            self.pass(digit, keys, variant, &mut times)?;
        }
        times.total = begin.elapsed();
        Ok(times)
    }

    fn pass(&mut self, digit: Digit, keys: &mut [u32], variant: Variant, times: &mut Times) -> Result<(), Error> {
        digit.count(keys, &mut self.own_counts);
        self.counts.input_mut().copy_from_slice(&self.own_counts);
        variant.run(&mut self.counts, &mut times.allgather, || {
            digit.order(keys, &mut self.own_counts, &mut self.ordered);
        })?;
        let rank = self.world.rank() as usize;
        let route = Route::new(self.counts.output(), Digit::radix(self.bits), keys.len(), rank);
        timed(&mut times.redistribution, || self.redistribute(&route))?;
        route.merge(&self.incoming, keys);
        Ok(())
    }

    /// Pairwise exchange: in each round everybody sends to one rank and receives from another.
    fn redistribute(&mut self, route: &Route) -> Result<(), Error> {
        let (rank, ranks) = (self.world.rank(), self.world.size());
        let to = |rank: u32| route.to[rank as usize].clone();
        let from = |rank: u32| route.from[rank as usize].clone();
        self.incoming[from(rank)].copy_from_slice(&self.ordered[to(rank)]);
        for distance in 1..ranks {
            let (dest, source) = ((rank + distance) % ranks, (rank + ranks - distance) % ranks);
            let (message, into) = (&self.ordered[to(dest)], &mut self.incoming[from(source)]);
            self.world.sendrecv(message, dest, KEYS, into, source, KEYS)?;
        }
        Ok(())
    }
}

const KEYS: i32 = 1;
