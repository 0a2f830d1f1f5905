//! Round trips between the first and the last rank.

use std::time::{Duration, Instant};

use crate::BenchError;
use crate::allocations::measured;
use crate::pair::Pair;
use crate::pattern;
use crate::plan::Effort;
use crate::race::Contestant;
use crate::trip::Trip;

/// A ping-pong over something. A sample is half the time of a round trip, in microseconds.
pub(crate) struct PingPong<T> {
    pair: Pair,
    trip: T,
    effort: Effort,
    /// Round trips so far, the same number on both sides.
    trips: u64,
}

impl<T: Trip> PingPong<T> {
    pub(crate) fn new(pair: &Pair, trip: T, effort: Effort) -> Self {
        Self { pair: pair.clone(), trip, effort, trips: 0 }
    }

    /// A round trip that finds out that the other side is ready as well, and so many that count; how long those took. One follows the
    /// other without a pause, or the first that counts would come before its receive has started.
    fn trips(&mut self, count: u64) -> Result<Duration, BenchError> {
        let mut all_right = true;
        let mut begin = Instant::now();
        for left in (0..=count).rev() {
            self.trips += 1;
            if self.pair.leads {
                pattern::stamp(self.trip.outgoing()?, self.trips);
                self.trip.arm()?;
                self.trip.send()?;
                self.trip.recv()?;
                all_right &= pattern::has_stamp(self.trip.incoming(), self.trips);
            } else {
                self.trip.arm()?;
                self.trip.recv()?;
                all_right &= pattern::has_stamp(self.trip.incoming(), self.trips);
                pattern::stamp(self.trip.outgoing()?, self.trips);
                if left > 0 {
                    // Before the answer, which invites the next message, and right before it, as they may leave together.
                    self.trip.arm()?;
                }
                self.trip.send()?;
            }
            if left == count {
                begin = Instant::now();
            }
        }
        let elapsed = begin.elapsed();
        // Whoever checks a message while the last answer leaves takes the core from the daemon that sends it, and the other side still counts.
        self.trip.outgoing()?;
        if all_right { Ok(elapsed) } else { Err(self.wrong_data(0)) }
    }

    /// A batch of round trips with data of its own, which is checked afterwards.
    fn batch(&mut self, trips: u64) -> Result<Duration, BenchError> {
        let seed = self.trips;
        pattern::fill(self.trip.outgoing()?, seed ^ u64::from(self.pair.leads));
        let elapsed = measured(|| self.trips(trips))?;
        match pattern::first_wrong(self.trip.incoming(), seed ^ u64::from(!self.pair.leads)) {
            None => Ok(elapsed),
            Some(byte) => Err(self.wrong_data(byte)),
        }
    }

    fn wrong_data(&self, byte: usize) -> BenchError {
        BenchError::WrongData { contestant: T::NAME.to_owned(), bytes: self.trip.incoming().len(), byte }
    }
}

impl<T: Trip> Contestant for PingPong<T> {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        let effort = self.effort;
        let per_trip = self.batch(effort.warmup)?.as_secs_f64() / effort.warmup as f64;
        let [batches, trips] = self.pair.agree(|| effort.batches(per_trip, BATCH_S))?;
        let mut samples = Vec::new();
        for _ in 0..batches {
            let elapsed = self.batch(trips)?;
            if self.pair.leads {
                samples.push(elapsed.as_secs_f64() * 1e6 / (2 * trips) as f64);
            }
        }
        Ok(samples)
    }
}

/// Round trips before a run.
pub(crate) const WARMUP: u64 = 50;
/// Long enough for the clock, which takes some 40 ns.
const BATCH_S: f64 = 10e-6;
