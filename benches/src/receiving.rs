//! How much of a receive goes on by itself while the program computes and does not call the library: the procedure, wherever it is received.
//!
//! ```text
//!   both ranks begin together; t_comm  = recv ───────────── wait
//!   both ranks begin together; t_async = recv ┊ long computation ┊ wait, without the computation
//!   d_a = 1 − t_async / t_comm
//! ```

use std::hint;
use std::time::{Duration, Instant};

use crate::BenchError;
use crate::allocations::measured;
use crate::computation::{Compute, Worker};
use crate::exchange::Exchange;
use crate::pair::Pair;
use crate::plan::Effort;
use crate::statistics::Summary;

/// What each batch has given: medians of its rounds, and what follows from them.
#[derive(Default)]
pub(crate) struct Batches {
    pub(crate) d_a: Vec<f64>,
    t_comm: Vec<f64>,
    t_async: Vec<f64>,
    /// The part of `t_async` before the computation.
    t_start: Vec<f64>,
}

impl Batches {
    fn add(&mut self, rounds: &[[Parts; 2]]) {
        let median = |time: fn(&[Parts; 2]) -> f64| Summary::of(&rounds.iter().map(time).collect::<Vec<_>>()).median;
        let t_comm = median(|[alone, _]| alone.iter().sum());
        let t_async = median(|[_, with]| with.iter().sum());
        self.d_a.push(1.0 - t_async / t_comm);
        self.t_comm.push(t_comm);
        self.t_async.push(t_async);
        self.t_start.push(median(|[_, with]| with[0]));
    }

    /// Name, unit and samples of each metric; empty in ranks that don't keep the time.
    pub(crate) fn metrics(&self) -> [(&'static str, &'static str, &[f64]); 4] {
        [
            ("d_a", "ratio", &self.d_a),
            ("t_comm", "us", &self.t_comm),
            ("t_async", "us", &self.t_async),
            ("t_start", "us", &self.t_start),
        ]
    }
}

/// Microseconds in start and in wait.
pub(crate) type Parts = [f64; 2];

/// Where messages are received.
pub(crate) trait Reception {
    /// Has the rank that keeps the time decide, and tells the other.
    fn agree<const N: usize>(&self, decide: impl FnOnce() -> [u64; N]) -> Result<[u64; N], BenchError>;
    /// Whether this is the side that receives, which keeps the time.
    fn leads(&self) -> bool;
    /// Time of a message inside of start and wait, with this between them.
    fn receive(&mut self, compute: impl FnOnce()) -> Result<Parts, BenchError>;
}

/// A kind of computation, and what has been found with it.
pub(crate) struct Timing {
    worker: Worker,
    effort: Effort,
    pub(crate) batches: Batches,
}

impl Timing {
    /// Rounds before a run.
    pub(crate) const WARMUP: u64 = 5;

    pub(crate) fn new(compute: Compute, effort: Effort) -> Self {
        Self { worker: Worker::new(compute), effort, batches: Batches::default() }
    }

    /// A run.
    pub(crate) fn measure(&mut self, reception: &mut impl Reception) -> Result<(), BenchError> {
        let mut times = Vec::new();
        for _ in 0..self.effort.warmup {
            times.push(reception.receive(|| ())?.iter().sum::<f64>());
        }
        let t_comm = Duration::from_secs_f64(Summary::of(&times).median / 1e6);
        let computation = (t_comm * LONGER).max(COMPUTATION_MIN);
        let (worker, effort) = (&mut self.worker, self.effort);
        let [amount, rounds, in_batch] = reception.agree(|| {
            let t_round = (t_comm + computation).as_secs_f64();
            let rounds = effort.rounds(t_round, ROUNDS_MIN, ROUNDS_MAX);
            let in_batch = ((BATCH_S / t_round) as u64).max(ROUNDS_MIN).min(rounds);
            [worker.amount(computation), rounds, in_batch]
        })?;
        for _ in 0..rounds.div_ceil(in_batch) {
            let round = |_| Ok([self.repeated(reception, 0)?, self.repeated(reception, amount)?]);
            let rounds: Vec<_> = (0..in_batch).map(round).collect::<Result<_, BenchError>>()?;
            if reception.leads() {
                self.batches.add(&rounds);
            }
        }
        Ok(())
    }

    /// The second of two receives that are alike, as [`Hiding`](crate::hiding::Hiding) does it.
    fn repeated(&mut self, reception: &mut impl Reception, amount: u64) -> Result<Parts, BenchError> {
        reception.receive(|| self.worker.work(amount))?;
        reception.receive(|| self.worker.work(amount))
    }
}

/// Takes the time of a receive.
pub(crate) struct Stopwatch {
    /// What reading the clock adds to a time.
    tick: Duration,
}

impl Stopwatch {
    pub(crate) fn new() -> Self {
        let times: Vec<f64> = (0..101).map(|_| Instant::now().elapsed().as_secs_f64()).collect();
        Self { tick: Duration::from_secs_f64(Summary::of(&times).median) }
    }

    /// Of one that begins and ends like this, with a computation between.
    pub(crate) fn parts<T>(
        &self,
        start: impl FnOnce() -> Result<T, BenchError>,
        compute: impl FnOnce(),
        wait: impl FnOnce(T) -> Result<(), BenchError>,
    ) -> Result<Parts, BenchError> {
        let begin = Instant::now();
        let message = start()?;
        let started = Instant::now();
        compute();
        // The first reading after a computation comes out of cold caches, which is nothing that a message costs.
        hint::black_box(Instant::now());
        let computed = Instant::now();
        wait(message)?;
        let waited = Instant::now();
        // Never nothing, to be divided by.
        let inside = |time: Duration| time.saturating_sub(self.tick).as_secs_f64().max(1e-9) * 1e6;
        Ok([inside(started - begin), inside(waited - computed)])
    }
}

/// One of two ranks, of which the one that leads receives and the other sends; and what has been found.
pub(crate) struct Receiver {
    message: Message,
    pub(crate) timing: Timing,
}

/// As the two ranks have it.
struct Message {
    pair: Pair,
    exchange: Exchange,
    stopwatch: Stopwatch,
}

impl Receiver {
    pub(crate) fn new(pair: &Pair, exchange: Exchange, timing: Timing) -> Self {
        Self { message: Message { pair: pair.clone(), exchange, stopwatch: Stopwatch::new() }, timing }
    }

    /// A run.
    pub(crate) fn measure(&mut self) -> Result<(), BenchError> {
        self.timing.measure(&mut self.message)
    }
}

impl Reception for Message {
    fn agree<const N: usize>(&self, decide: impl FnOnce() -> [u64; N]) -> Result<[u64; N], BenchError> {
        self.pair.agree(decide)
    }

    fn leads(&self) -> bool {
        self.pair.leads
    }

    fn receive(&mut self, compute: impl FnOnce()) -> Result<Parts, BenchError> {
        let Self { pair, exchange, stopwatch } = self;
        exchange.prepare();
        pair.begin_together()?;
        let parts = if !pair.leads {
            exchange.start_send()?;
            exchange.wait()?;
            Parts::default()
        } else if let Some(recv) = exchange.registered_recv() {
            measured(|| stopwatch.parts(|| Ok(recv.start()?), compute, |active| Ok(active.wait().map(drop)?)))?
        } else {
            let receiving = &mut *exchange;
            let start = move || receiving.start_recv().map(|()| receiving);
            stopwatch.parts(start, compute, Exchange::wait)?
        };
        exchange.verify()?;
        Ok(parts)
    }
}

/// How many times as long as communication computation takes.
const LONGER: u32 = 10;
/// Even for the shortest message long enough for everybody to be woken up.
const COMPUTATION_MIN: Duration = Duration::from_micros(500);
/// A batch, whose medians are one sample, takes so long or has so many rounds.
const BATCH_S: f64 = 10e-3;
const ROUNDS_MIN: u64 = 3;
const ROUNDS_MAX: u64 = 3000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_by_itself_is_what_a_computation_in_between_saves() {
        let mut batches = Batches::default();
        // Alone 10 µs; of 8 before the computation and 0 after it, of 2 and 3, of 1 and 19.
        batches.add(&[[[4.0, 6.0], [8.0, 0.0]]; 3]);
        batches.add(&[[[1.0, 9.0], [2.0, 3.0]]]);
        batches.add(&[[[1.0, 9.0], [1.0, 19.0]]]);
        assert_eq!(batches.d_a, [1.0 - 0.8, 0.5, -1.0]);
        assert_eq!((&batches.t_comm, &batches.t_async), (&vec![10.0; 3], &vec![8.0, 5.0, 20.0]));
        assert_eq!(batches.t_start, [8.0, 2.0, 1.0]);
    }

    #[test]
    fn a_batch_is_as_its_medians() {
        let mut batches = Batches::default();
        // The rounds of one kind need not be those of the other.
        batches.add(&[[[1.0, 9.0], [5.0, 0.0]], [[1.0, 19.0], [1.0, 1.0]], [[1.0, 1.0], [2.0, 8.0]]]);
        let metrics = batches.metrics().map(|(name, unit, samples)| (name, unit, samples.to_vec()));
        let expected = [("d_a", "ratio", 0.5), ("t_comm", "us", 10.0), ("t_async", "us", 5.0), ("t_start", "us", 2.0)];
        assert_eq!(metrics, expected.map(|(name, unit, sample)| (name, unit, vec![sample])));
    }
}
