//! How much of the communication hides behind computation: the procedure, whatever is communicated.
//!
//! ```text
//!   t_y   start ─────────────────── wait      communication alone
//!   t_x         compute                       computation alone, a tenth longer
//!   t_o   start compute ─────────── wait      both:  d_o = (t_x + t_y − t_o) / t_y
//! ```
//!
//! That is the degree of overlapping of Dimitrov, "Overlapping of Communication and Computation and Early Binding" (2001),
//! chapter III, which has t_x > t_y: of a computation that is shorter only a part of the communication could hide, t_x / t_y.
//! Availability is what is left of the processor: with twice the computation the communication ends before it,
//! and what the whole takes longer than the computation is what communicating cost.

use std::time::Duration;

use crate::BenchError;
use crate::clock::{Span, now_ns};
use crate::computation::{Compute, Worker};
use crate::plan::Effort;
use crate::statistics::Summary;

/// What may hide: something between a start and a wait, which several ranks have a part in.
pub(crate) trait Communication {
    /// Has the rank that keeps the time decide, and tells the others.
    fn agree<const N: usize>(&self, decide: impl FnOnce() -> [u64; N]) -> Result<[u64; N], BenchError>;
    /// Returns when all others have called it too.
    fn meet(&self) -> Result<(), BenchError>;
    /// Whether this rank computes during communication.
    fn computes(&self) -> bool;
    /// When this rank does it, with this between start and wait.
    fn transfer(&mut self, compute: impl FnMut()) -> Result<Span, BenchError>;
    /// How many microseconds each took, from all ranks' spans, for the rank that keeps the time.
    fn that_count<const N: usize>(&self, spans: [Span; N]) -> Result<Option<[f64; N]>, BenchError>;
    /// Checks all data once, if transfers check only some of it.
    fn prove(&mut self) -> Result<(), BenchError> {
        Ok(())
    }
}

/// A kind of computation, and what has been found with it.
pub(crate) struct Hiding {
    worker: Worker,
    effort: Effort,
    pub(crate) batches: Batches,
}

impl Hiding {
    /// Rounds before a run.
    pub(crate) const WARMUP: u64 = 5;

    pub(crate) fn new(compute: Compute, effort: Effort) -> Self {
        Self { worker: Worker::new(compute), effort, batches: Batches::default() }
    }

    /// A run: batches of rounds, each with all parts in turn. The first one only warms up.
    pub(crate) fn measure(&mut self, communication: &mut impl Communication) -> Result<(), BenchError> {
        communication.prove()?;
        let mut times = Vec::new();
        for _ in 0..self.effort.warmup {
            times.push(self.transfer(communication, 0)?.us() / 1e6);
        }
        let t_y = Summary::of(&times).median;
        let (worker, effort) = (&mut self.worker, self.effort);
        let [mut amount, rounds, in_batch] = communication.agree(|| {
            let t_round = (t_y * TIMES_PER_ROUND).max(ROUND_S_MIN);
            let rounds = effort.rounds(t_round, ROUNDS_MIN, ROUNDS_MAX);
            let in_batch = ((BATCH_S / t_round) as u64).max(ROUNDS_MIN).min(rounds);
            [worker.amount(Duration::from_secs_f64(LONGER * t_y)), rounds, in_batch]
        })?;
        let mut warming_up = Batches::default();
        for batch in 0..=rounds.div_ceil(in_batch) {
            let rounds = self.batch(communication, amount, in_batch)?;
            [amount] = communication.agree(|| {
                let [t_y, t_x] = if batch == 0 { warming_up.add(&rounds) } else { self.batches.add(&rounds) };
                [longer(amount, t_x, t_y)]
            })?;
        }
        communication.prove()
    }

    /// Microseconds of each part in each round, for the rank that keeps the time.
    fn batch(
        &mut self,
        communication: &mut impl Communication,
        amount: u64,
        count: u64,
    ) -> Result<Vec<[f64; PARTS]>, BenchError> {
        let rounds: Vec<_> = (0..count).map(|_| self.round(communication, amount)).collect::<Result<_, _>>()?;
        rounds.into_iter().filter_map(|round| communication.that_count(round).transpose()).collect()
    }

    /// When this rank did each part.
    fn round(&mut self, communication: &mut impl Communication, amount: u64) -> Result<[Span; PARTS], BenchError> {
        Ok([
            self.repeated(communication, 0)?,
            self.compute(communication, amount)?,
            self.repeated(communication, amount)?,
            self.compute(communication, 2 * amount)?,
            self.repeated(communication, 2 * amount)?,
        ])
    }

    /// The second of two transfers that are alike. Iterative programs do the same each time, so a library may go by what a program did
    /// the last time; no program computes every other time only.
    fn repeated(&mut self, communication: &mut impl Communication, amount: u64) -> Result<Span, BenchError> {
        self.transfer(communication, amount)?;
        self.transfer(communication, amount)
    }

    /// Computation alone, of those who compute during communication.
    fn compute(&mut self, communication: &mut impl Communication, amount: u64) -> Result<Span, BenchError> {
        communication.meet()?;
        let begin_ns = now_ns()?;
        if communication.computes() {
            self.worker.work(amount);
        }
        Ok(Span::since(begin_ns)?)
    }

    /// Communication, with this much computation between start and wait.
    fn transfer(&mut self, communication: &mut impl Communication, amount: u64) -> Result<Span, BenchError> {
        let computes = communication.computes();
        communication.transfer(|| {
            if computes {
                self.worker.work(amount);
            }
        })
    }
}

/// The amount of work that takes longer than communication by as much as it should, if this amount took `t_x`. Follows
/// communication as its speed changes, not a single batch that was disturbed.
fn longer(amount: u64, t_x: f64, t_y: f64) -> u64 {
    (amount as f64 * (LONGER * t_y / t_x).clamp(0.5, 2.0)).max(1.0).round() as u64
}

/// What each batch has given: medians of its rounds, and what follows from them.
#[derive(Default)]
pub(crate) struct Batches {
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

    /// The degree of overlapping in each batch; empty in ranks that don't keep the time, as the others.
    pub(crate) fn d_o(&self) -> &[f64] {
        &self.d_o
    }

    /// The samples of this metric, if there are any.
    pub(crate) fn samples_of(&self, metric: &str) -> Option<&[f64]> {
        let is_wanted = |&(name, _, samples): &(&str, &str, &[f64])| name == metric && !samples.is_empty();
        self.metrics().into_iter().find(is_wanted).map(|(_, _, samples)| samples)
    }

    /// Name, unit and samples of each metric.
    pub(crate) fn metrics(&self) -> [(&'static str, &'static str, &[f64]); 5] {
        [
            ("d_o", "ratio", &self.d_o),
            ("t_x", "us", &self.t_x),
            ("t_y", "us", &self.t_y),
            ("t_o", "us", &self.t_o),
            ("availability", "ratio", &self.availability),
        ]
    }
}

/// Communication, computation, both, twice the computation, both.
const PARTS: usize = 5;
/// Of the computation, in units of the time that communication takes: by so much that noise does not make it the shorter one.
const LONGER: f64 = 1.1;
/// In units of the time that communication takes, if all of it hides.
const TIMES_PER_ROUND: f64 = 2.0 + 9.0 * LONGER;
/// What a round takes however fast communication is: ranks meet, write and check their data, and sleep no shorter than they can.
const ROUND_S_MIN: f64 = 100e-6;
/// A batch, whose medians are one sample, takes so long or has so many rounds.
const BATCH_S: f64 = 20e-3;
const ROUNDS_MIN: u64 = 3;
const ROUNDS_MAX: u64 = 3000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_is_what_both_together_save() {
        let mut batches = Batches::default();
        assert_eq!(batches.add(&[[10.0, 8.0, 10.0, 16.0, 18.0]; 3]), [10.0, 8.0]);
        batches.add(&[[10.0, 8.0, 18.0, 16.0, 26.0]]);
        batches.add(&[[10.0, 8.0, 20.0, 16.0, 16.0]]);
        assert_eq!(batches.d_o(), [0.8, 0.0, -0.2]);
        assert_eq!(batches.availability, [0.8, 0.0, 1.0]);
    }

    #[test]
    fn computation_is_made_longer_than_communication() {
        // An amount takes as many microseconds as it has hundreds.
        let amount = (0..4).fold(1000, |amount, _| longer(amount, amount as f64 / 100.0, 40.0));
        assert_eq!(amount, 4400);
        assert_eq!(longer(amount, 44.0, 40.0), amount);
        assert_eq!(longer(amount, 1.0, 40.0), 2 * amount);
        assert_eq!(longer(1, 1000.0, 1.0), 1);
    }
}
