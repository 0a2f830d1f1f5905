//! How much of the communication hides behind computation.
//!
//! ```text
//!   t_y   start ─────────────────── wait      communication alone
//!   t_x         compute                       computation alone, of the same length
//!   t_o   start compute ─────────── wait      both:  d_o = (t_x + t_y − t_o) / t_y
//! ```
//!
//! Availability is what is left of the processor: with twice the computation the communication ends before it, and what
//! the whole takes longer than the computation is what communicating cost.

use std::time::{Duration, Instant};

use ropeway::Session;
use ropeway_examples::Mode;

use crate::computation::{Compute, Worker};
use crate::exchange::Exchange;
use crate::pair::Pair;
use crate::record::{Floor, Side};
use crate::statistics::Summary;
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    for &size in &plan.sizes {
        for side in [Side::Send, Side::Recv, Side::Both] {
            run_one(console, plan, pair.as_ref(), size.0, side)?;
        }
    }
    Ok(())
}

/// All kinds of messages and of computation take turns.
fn run_one(
    console: &mut Console,
    plan: &Plan,
    pair: Option<&Pair>,
    bytes: usize,
    side: Side,
) -> Result<(), BenchError> {
    let mut entrants = Vec::new();
    for &mode in &plan.modes {
        for compute in Compute::ALL {
            let overlap = pair.map(|pair| Overlap::new(pair, plan, Case { mode, compute, bytes, side })).transpose()?;
            entrants.push((Case { mode, compute, bytes, side }, overlap, Batches::default()));
        }
    }
    for _ in 0..plan.runs {
        for (case, overlap, batches) in &mut entrants {
            let run = || overlap.as_mut().map_or(Ok(()), |overlap| overlap.measure(batches));
            console.step(&case.label(), run)?;
        }
    }
    for (case, _, batches) in &entrants {
        batches.tell(console, plan, *case)?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Case {
    mode: Mode,
    compute: Compute,
    bytes: usize,
    side: Side,
}

impl Case {
    fn label(self) -> String {
        let Self { mode, compute, side, .. } = self;
        format!("{mode}, {side}, {compute}")
    }
}

/// What each batch has given: medians of its rounds, and what follows from them.
#[derive(Default)]
struct Batches {
    d_o: Vec<f64>,
    availability: Vec<f64>,
    t_x: Vec<f64>,
    t_y: Vec<f64>,
    t_o: Vec<f64>,
}

impl Batches {
    /// Takes the rounds of a batch; returns the medians of communication and computation.
    fn add(&mut self, rounds: &[[f64; PARTS]]) -> [f64; 2] {
        let median = |part: usize| Summary::of(&rounds.iter().map(|round| round[part]).collect::<Vec<_>>()).median;
        let [t_y, t_x, t_o, twice, t_o_twice] = std::array::from_fn(median);
        self.d_o.push((t_x + t_y - t_o) / t_y);
        self.availability.push(1.0 - (t_o_twice - twice) / t_y);
        self.t_x.push(t_x);
        self.t_y.push(t_y);
        self.t_o.push(t_o);
        [t_y, t_x]
    }

    fn tell(&self, console: &mut Console, plan: &Plan, case: Case) -> Result<(), BenchError> {
        let metrics = [
            ("d_o", "", &self.d_o),
            ("t_x", "us", &self.t_x),
            ("t_y", "us", &self.t_y),
            ("t_o", "us", &self.t_o),
            ("availability", "", &self.availability),
        ];
        for (metric, unit, samples) in metrics {
            if samples.is_empty() {
                continue;
            }
            let measured = Measured {
                mode: Some(case.mode),
                bytes: Some(case.bytes),
                side: Some(case.side),
                compute: Some(case.compute),
                floor: if metric == "t_y" { Floor::of_line(plan, case.bytes, samples) } else { None },
                ..Measured::new(metric, unit, Summary::of(samples), plan.runs)
            };
            console.outcome(&case.label(), measured)?;
        }
        Ok(())
    }
}

struct Overlap {
    pair: Pair,
    side: Side,
    exchange: Exchange,
    worker: Worker,
    rounds: Option<u64>,
    warmup: u64,
    time: Duration,
}

impl Overlap {
    fn new(pair: &Pair, plan: &Plan, case: Case) -> Result<Self, BenchError> {
        Ok(Self {
            pair: pair.clone(),
            side: case.side,
            exchange: Exchange::new(pair, case.mode, case.bytes, case.side)?,
            worker: Worker::new(case.compute),
            rounds: plan.iters,
            warmup: plan.warmup.unwrap_or(WARMUP).max(1),
            time: plan.effort(CONTESTANTS, WARMUP).time,
        })
    }

    /// A run: batches of rounds, each with all parts in turn. The first one only warms up.
    fn measure(&mut self, batches: &mut Batches) -> Result<(), BenchError> {
        let mut times = Vec::new();
        for _ in 0..self.warmup {
            times.push(self.transfer(0)?.as_secs_f64());
        }
        let t_y = Summary::of(&times).median;
        let (worker, wanted, time) = (&mut self.worker, self.rounds, self.time.as_secs_f64());
        let [mut amount, rounds, in_batch] = self.pair.agree(|| {
            let t_round = t_y * TIMES_PER_ROUND;
            let rounds = wanted.unwrap_or(((time / t_round) as u64).clamp(ROUNDS_MIN, 3000));
            let in_batch = ((BATCH_S / t_round) as u64).max(ROUNDS_MIN).min(rounds);
            [worker.amount(Duration::from_secs_f64(t_y)), rounds, in_batch]
        })?;
        let mut warming_up = Batches::default();
        for batch in 0..=rounds.div_ceil(in_batch) {
            let rounds: Vec<_> = (0..in_batch).map(|_| self.round(amount)).collect::<Result<_, _>>()?;
            [amount] = self.pair.agree(|| {
                let [t_y, t_x] = if batch == 0 { warming_up.add(&rounds) } else { batches.add(&rounds) };
                // Follows communication as its speed changes, not a single batch that was disturbed.
                [(amount as f64 * (t_y / t_x).clamp(0.5, 2.0)).max(1.0) as u64]
            })?;
        }
        Ok(())
    }

    /// Microseconds of each part.
    fn round(&mut self, amount: u64) -> Result<[f64; PARTS], BenchError> {
        let parts = [
            self.transfer(0)?,
            self.compute(amount)?,
            self.transfer(amount)?,
            self.compute(2 * amount)?,
            self.transfer(2 * amount)?,
        ];
        Ok(parts.map(|part| part.as_secs_f64() * 1e6))
    }

    /// Computation alone. The peer does the same if it does so during communication.
    fn compute(&mut self, amount: u64) -> Result<Duration, BenchError> {
        self.pair.meet()?;
        let begin = Instant::now();
        if self.pair.leads || self.side == Side::Both {
            self.worker.work(amount);
        }
        Ok(begin.elapsed())
    }

    /// Communication, with this much computation between start and wait.
    fn transfer(&mut self, amount: u64) -> Result<Duration, BenchError> {
        let Self { pair, side, exchange, worker, .. } = self;
        exchange.prepare();
        let elapsed = match (*side, pair.leads) {
            (Side::Both, _) => {
                pair.meet()?;
                let begin = Instant::now();
                exchange.start_recv()?;
                exchange.start_send()?;
                worker.work(amount);
                exchange.wait()?;
                begin.elapsed()
            }
            (Side::Send, true) => {
                // The receiver is ready.
                pair.await_go()?;
                let begin = Instant::now();
                exchange.start_send()?;
                worker.work(amount);
                exchange.wait()?;
                begin.elapsed()
            }
            (Side::Recv, true) => {
                let begin = Instant::now();
                exchange.start_recv()?;
                pair.go()?;
                worker.work(amount);
                exchange.wait()?;
                begin.elapsed()
            }
            (Side::Send, false) => {
                exchange.start_recv()?;
                pair.go()?;
                exchange.wait()?;
                Duration::ZERO
            }
            (Side::Recv, false) => {
                pair.await_go()?;
                exchange.start_send()?;
                exchange.wait()?;
                Duration::ZERO
            }
        };
        exchange.verify()?;
        Ok(elapsed)
    }
}

/// Communication, computation, both, twice the computation, both.
const PARTS: usize = 5;
/// In units of the time that communication takes.
const TIMES_PER_ROUND: f64 = 7.0;
/// A batch, whose medians are one sample, takes so long or has so many rounds.
const BATCH_S: f64 = 20e-3;
const ROUNDS_MIN: u64 = 3;
const WARMUP: u64 = 5;
/// Persistent and one-shot, busy and asleep. Data is written and checked too.
const CONTESTANTS: usize = 6;
