//! How much of a receive goes on by itself while the program computes and does not call the library.
//!
//! ```text
//!   both ranks meet; t_comm  = recv ───────────── wait
//!   both ranks meet; t_async = recv ┊ long computation ┊ wait, without the computation
//!   d_a = 1 − t_async / t_comm
//! ```

use std::time::{Duration, Instant};

use ropeway::Session;
use ropeway_examples::Mode;

use crate::computation::{Compute, Worker};
use crate::exchange::Exchange;
use crate::pair::Pair;
use crate::plan::Class;
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
        let case = Case { mode, compute, class, bytes };
        let receiver = pair.map(|pair| Asynchrony::new(pair, plan, case)).transpose()?;
        entrants.push((case, receiver, Batches::default()));
    }
    for _ in 0..plan.runs {
        for (case, receiver, batches) in &mut entrants {
            session.set_wait_mode(case.class.notification.0);
            let run = || receiver.as_mut().map_or(Ok(()), |receiver| receiver.measure(batches));
            console.step(&case.label(), run)?;
        }
    }
    for (case, _, batches) in &entrants {
        let Case { mode, compute, class: Class { notification, progress }, .. } = *case;
        let metrics = [
            ("d_a", "ratio", &batches.d_a),
            ("t_comm", "us", &batches.t_comm),
            ("t_async", "us", &batches.t_async),
            ("t_start", "us", &batches.t_start),
        ];
        for (metric, unit, samples) in metrics.into_iter().filter(|(_, _, samples)| !samples.is_empty()) {
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
    bytes: usize,
}

impl Case {
    fn label(self) -> String {
        format!("{}, {}, {}", self.mode, self.class, self.compute)
    }
}

/// What each batch has given: medians of its rounds, and what follows from them.
#[derive(Default)]
struct Batches {
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
}

/// Microseconds in start and in wait.
type Parts = [f64; 2];

struct Asynchrony {
    pair: Pair,
    exchange: Exchange,
    worker: Worker,
    /// What reading the clock adds to a time.
    tick: Duration,
    rounds: Option<u64>,
    warmup: u64,
    time: Duration,
}

impl Asynchrony {
    fn new(pair: &Pair, plan: &Plan, case: Case) -> Result<Self, BenchError> {
        let Case { mode, compute, class, bytes } = case;
        Ok(Self {
            pair: pair.clone(),
            exchange: Exchange::new(pair, mode, class.progress, bytes, Side::Recv)?,
            worker: Worker::new(compute),
            tick: tick(),
            rounds: plan.iters,
            warmup: plan.warmup.unwrap_or(WARMUP).max(1),
            time: plan.effort(CONTESTANTS * plan.classes().count(), WARMUP).time,
        })
    }

    fn measure(&mut self, batches: &mut Batches) -> Result<(), BenchError> {
        let mut times = Vec::new();
        for _ in 0..self.warmup {
            times.push(self.receive(None)?.iter().sum::<f64>());
        }
        let t_comm = Duration::from_secs_f64(Summary::of(&times).median / 1e6);
        let computation = (t_comm * LONGER).max(COMPUTATION_MIN);
        let (worker, wanted, time) = (&mut self.worker, self.rounds, self.time.as_secs_f64());
        let [amount, rounds, in_batch] = self.pair.agree(|| {
            let t_round = (t_comm + computation).as_secs_f64();
            let rounds = wanted.unwrap_or(((time / t_round) as u64).clamp(ROUNDS_MIN, 3000));
            let in_batch = ((BATCH_S / t_round) as u64).max(ROUNDS_MIN).min(rounds);
            [worker.amount(computation), rounds, in_batch]
        })?;
        for _ in 0..rounds.div_ceil(in_batch) {
            let round = |_| Ok([self.receive(None)?, self.receive(Some(amount))?]);
            let rounds: Vec<_> = (0..in_batch).map(round).collect::<Result<_, BenchError>>()?;
            if self.pair.leads {
                batches.add(&rounds);
            }
        }
        Ok(())
    }

    /// Time inside of the library, with this computation between start and wait.
    fn receive(&mut self, amount: Option<u64>) -> Result<Parts, BenchError> {
        let Self { pair, exchange, worker, tick, .. } = self;
        exchange.prepare();
        pair.meet()?;
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
const WARMUP: u64 = 5;
/// Persistent and one-shot, busy and asleep.
const CONTESTANTS: usize = 4;
