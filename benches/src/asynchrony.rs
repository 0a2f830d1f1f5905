//! How much of a receive goes on by itself while the program computes and does not call the library.
//!
//! ```text
//!   both ranks begin together; t_comm  = recv ───────────── wait
//!   both ranks begin together; t_async = recv ┊ long computation ┊ wait, without the computation
//!   d_a = 1 − t_async / t_comm
//! ```

use std::time::{Duration, Instant};

use ropeway::Session;
use ropeway_examples::Mode;

use crate::computation::{Compute, Worker};
use crate::exchange::Exchange;
use crate::pair::Pair;
use crate::plan::{Class, Effort};
use crate::record::{Floor, Side};
use crate::statistics::Summary;
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    for &size in &plan.sizes {
        run_one((session, pair.as_ref()), console, plan, size.0, &Compute::ALL)?;
    }
    Ok(())
}

/// All kinds of messages, classes and these kinds of computation take turns.
pub(crate) fn run_one(
    (session, pair): (&Session, Option<&Pair>),
    console: &mut Console,
    plan: &Plan,
    bytes: usize,
    computations: &[Compute],
) -> Result<(), BenchError> {
    let mut entrants = Vec::new();
    for (mode, compute, class) in plan.kinds(computations) {
        let case = Case { mode, compute, class };
        let effort = plan.effort(CONTESTANTS * plan.classes().count(), Receiver::WARMUP);
        let receiver = |pair: &Pair| {
            let exchange = Exchange::new(pair, mode, class.progress, bytes, Side::Recv)?;
            Ok::<_, BenchError>(Receiver::new(pair, exchange, compute, effort))
        };
        entrants.push((case, pair.map(receiver).transpose()?));
    }
    for _ in 0..plan.runs {
        for (case, receiver) in &mut entrants {
            session.set_wait_mode(case.class.notification.0);
            console.step(&case.label(), || receiver.as_mut().map_or(Ok(()), Receiver::measure))?;
        }
    }
    for (case, receiver) in &entrants {
        let Case { mode, compute, class: Class { notification, progress }, .. } = *case;
        let metrics = receiver.iter().flat_map(|receiver| receiver.batches.metrics());
        for (metric, unit, samples) in metrics.filter(|(_, _, samples)| !samples.is_empty()) {
            let measured = Measured {
                mode: Some(mode),
                notification: Some(notification),
                bytes: Some(bytes),
                side: Some(Side::Recv),
                compute: Some(compute),
                progress: Some(progress),
                floor: if metric == "t_comm" { Floor::of_line(plan, bytes, samples) } else { None },
                ..Measured::new(metric, unit, Summary::of(samples), plan.runs)
            };
            console.outcome(&case.label(), measured)?;
        }
    }
    Ok(())
}

/// What is received, and what is computed meanwhile.
#[derive(Clone, Copy)]
struct Case {
    mode: Mode,
    compute: Compute,
    class: Class,
}

impl Case {
    fn label(self) -> String {
        format!("{}, {}, {}", self.mode, self.class, self.compute)
    }
}

/// What each batch has given: medians of its rounds, and what follows from them.
#[derive(Default)]
pub(crate) struct Batches {
    d_a: Vec<f64>,
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
type Parts = [f64; 2];

/// One of two ranks, of which the one that leads receives and the other sends; and what has been found.
pub(crate) struct Receiver {
    pair: Pair,
    exchange: Exchange,
    worker: Worker,
    /// What reading the clock adds to a time.
    tick: Duration,
    effort: Effort,
    pub(crate) batches: Batches,
}

impl Receiver {
    /// Rounds before a run.
    pub(crate) const WARMUP: u64 = 5;

    pub(crate) fn new(pair: &Pair, exchange: Exchange, compute: Compute, effort: Effort) -> Self {
        let (pair, worker) = (pair.clone(), Worker::new(compute));
        Self { pair, exchange, worker, tick: tick(), effort, batches: Batches::default() }
    }

    /// A run.
    pub(crate) fn measure(&mut self) -> Result<(), BenchError> {
        let mut times = Vec::new();
        for _ in 0..self.effort.warmup {
            times.push(self.receive(None)?.iter().sum::<f64>());
        }
        let t_comm = Duration::from_secs_f64(Summary::of(&times).median / 1e6);
        let computation = (t_comm * LONGER).max(COMPUTATION_MIN);
        let (worker, effort) = (&mut self.worker, self.effort);
        let [amount, rounds, in_batch] = self.pair.agree(|| {
            let t_round = (t_comm + computation).as_secs_f64();
            let rounds = effort.rounds(t_round, ROUNDS_MIN, ROUNDS_MAX);
            let in_batch = ((BATCH_S / t_round) as u64).max(ROUNDS_MIN).min(rounds);
            [worker.amount(computation), rounds, in_batch]
        })?;
        for _ in 0..rounds.div_ceil(in_batch) {
            let round = |_| Ok([self.repeated(None)?, self.repeated(Some(amount))?]);
            let rounds: Vec<_> = (0..in_batch).map(round).collect::<Result<_, BenchError>>()?;
            if self.pair.leads {
                self.batches.add(&rounds);
            }
        }
        Ok(())
    }

    /// The second of two receives that are alike, as [`Hiding`](crate::hiding::Hiding) does it.
    fn repeated(&mut self, amount: Option<u64>) -> Result<Parts, BenchError> {
        self.receive(amount)?;
        self.receive(amount)
    }

    /// Time inside of the library, with this computation between start and wait.
    fn receive(&mut self, amount: Option<u64>) -> Result<Parts, BenchError> {
        let Self { pair, exchange, worker, tick, .. } = self;
        exchange.prepare();
        pair.begin_together()?;
        let begin = Instant::now();
        exchange.start_recv()?;
        exchange.start_send()?;
        let started = Instant::now();
        if let (Some(amount), true) = (amount, pair.leads) {
            worker.work(amount);
        }
        let computed = Instant::now();
        exchange.wait()?;
        let waited = Instant::now();
        exchange.verify()?;
        // Never nothing, to be divided by.
        let inside = |time: Duration| time.saturating_sub(*tick).as_secs_f64().max(1e-9) * 1e6;
        Ok([inside(started - begin), inside(waited - computed)])
    }
}

/// How far apart two readings of the clock are with nothing between them.
fn tick() -> Duration {
    let times: Vec<f64> = (0..101).map(|_| Instant::now().elapsed().as_secs_f64()).collect();
    Duration::from_secs_f64(Summary::of(&times).median)
}

/// How many times as long as communication computation takes.
const LONGER: u32 = 10;
/// Even for the shortest message long enough for everybody to be woken up.
const COMPUTATION_MIN: Duration = Duration::from_micros(500);
/// A batch, whose medians are one sample, takes so long or has so many rounds.
const BATCH_S: f64 = 10e-3;
const ROUNDS_MIN: u64 = 3;
const ROUNDS_MAX: u64 = 3000;
/// Persistent and one-shot, busy and asleep.
const CONTESTANTS: usize = 4;
