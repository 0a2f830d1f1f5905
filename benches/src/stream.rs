//! What one message of many costs that go one way, one after the other: N sends, and one reply.

use std::time::{Duration, Instant};

use ropeway::Session;
use ropeway_examples::Mode;

use crate::allocations::measured;
use crate::floor::Handover;
use crate::pair::Pair;
use crate::pattern;
use crate::plan::Effort;
use crate::race::{Contestant, Metric, race_modes};
use crate::trip::{OneShot, Persistent, Tcp, Trip};
use crate::{BenchError, Console, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    let floor_name = if plan.crosses_nodes() { "tcp stream" } else { "cache lines, memcpy" };
    let metric = Metric { name: "one_way", unit: "us", floor: floor_name };
    let contestant = |pair: &Pair, mode, bytes| contestant(pair, mode, bytes, plan);
    let floor = |pair: &Pair, bytes| floor(session, pair, bytes, plan);
    race_modes((session, pair.as_ref()), console, plan, &metric, contestant, floor)
}

fn contestant(pair: &Pair, mode: Mode, bytes: usize, plan: &Plan) -> Result<Box<dyn Contestant>, BenchError> {
    let effort = plan.effort(CONTESTANTS * plan.notification.len(), WARMUP);
    Ok(match mode {
        Mode::Persistent => Box::new(OneWay::new(pair, Persistent::new(pair, bytes)?, effort)),
        Mode::OneShot => Box::new(OneWay::new(pair, OneShot::new(pair, bytes)?, effort)),
    })
}

fn floor(session: &Session, pair: &Pair, bytes: usize, plan: &Plan) -> Result<Box<dyn Contestant>, BenchError> {
    let effort = plan.effort(CONTESTANTS * plan.notification.len(), WARMUP);
    if plan.crosses_nodes() {
        return Ok(Box::new(OneWay::new(pair, Tcp::new(pair, bytes, &plan.addresses)?, effort)));
    }
    Ok(Box::new(Handover::new(session, pair, bytes, effort.time)))
}

/// Streams over something. A sample is the time for one message, in microseconds.
struct OneWay<T> {
    pair: Pair,
    trip: T,
    effort: Effort,
    /// Messages of all streams so far, the same number on both sides.
    messages: u64,
}

impl<T: Trip> OneWay<T> {
    fn new(pair: &Pair, trip: T, effort: Effort) -> Self {
        Self { pair: pair.clone(), trip, effort, messages: 0 }
    }

    /// A stream with data of its own, which is checked; how long it took.
    fn stream(&mut self) -> Result<Duration, BenchError> {
        let seed = self.messages;
        self.messages += SENDS + 1;
        pattern::fill(self.trip.outgoing()?, seed ^ u64::from(self.pair.leads));
        // The first message has to find a receiver that is ready.
        self.trip.arm()?;
        self.pair.meet()?;
        let begin = Instant::now();
        let all_right = measured(|| if self.pair.leads { self.send_all(seed) } else { self.recv_all(seed) })?;
        let elapsed = begin.elapsed();
        let wrong = (!all_right).then_some(0);
        match wrong.or_else(|| pattern::first_wrong(self.trip.incoming(), seed ^ u64::from(!self.pair.leads))) {
            None => Ok(elapsed),
            Some(byte) => {
                let bytes = self.trip.incoming().len();
                Err(BenchError::WrongData { contestant: T::NAME.to_owned(), bytes, byte })
            }
        }
    }

    /// Whether the reply is right.
    fn send_all(&mut self, first: u64) -> Result<bool, BenchError> {
        for number in first..first + SENDS {
            pattern::stamp(self.trip.outgoing()?, number);
            self.trip.send()?;
        }
        self.trip.recv()?;
        Ok(pattern::has_stamp(self.trip.incoming(), first + SENDS))
    }

    /// Whether all messages were right.
    fn recv_all(&mut self, first: u64) -> Result<bool, BenchError> {
        let mut all_right = true;
        for number in first..first + SENDS {
            self.trip.arm()?;
            self.trip.recv()?;
            all_right &= pattern::has_stamp(self.trip.incoming(), number);
        }
        pattern::stamp(self.trip.outgoing()?, first + SENDS);
        self.trip.send()?;
        Ok(all_right)
    }
}

impl<T: Trip> Contestant for OneWay<T> {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        let begin = Instant::now();
        (0..self.effort.warmup).try_for_each(|_| self.stream().map(drop))?;
        let stream_s = begin.elapsed().as_secs_f64() / self.effort.warmup as f64;
        let [streams] = self.pair.agree(|| [self.effort.rounds(stream_s, 3, 100_000)])?;
        let mut samples = Vec::new();
        for _ in 0..streams {
            let elapsed = self.stream()?;
            if self.pair.leads {
                samples.push(elapsed.as_secs_f64() * 1e6 / (SENDS + 1) as f64);
            }
        }
        Ok(samples)
    }
}

/// Messages before the reply.
const SENDS: u64 = 100;
const WARMUP: u64 = 1;
const CONTESTANTS: usize = 3;
