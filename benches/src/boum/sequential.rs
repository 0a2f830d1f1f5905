//! The sequential runs, which say what computing costs.

use std::time::Instant;

use ropeway_examples::cg::{self, Rows};
use ropeway_examples::fft::{Butterflies, signal};
use ropeway_examples::jacobi::{self, System};

use super::application::{Algorithm, SEED};
use super::cg::SETTINGS;
use super::workload::{Messages, Workload};
use crate::statistics::Summary;

/// A sequential run of a program: the median of several. Times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequential {
    algorithm: Algorithm,
    size: usize,
    /// `T_s`
    pub time: Summary,
    /// Iterations; a transform has one.
    pub iterations: u64,
    /// Of a transform, each of its steps.
    steps: Vec<f64>,
}

impl Sequential {
    /// Runs it so often, after once to warm up.
    pub fn measure(algorithm: Algorithm, size: usize, runs: u32) -> Self {
        match algorithm {
            Algorithm::Jacobi => {
                let system = System::generate(size, 0..size, SEED);
                Self::of_solver(algorithm, size, runs, || {
                    let solution = jacobi::solve_serially(&system, jacobi::Settings::default());
                    (solution.total.as_secs_f64(), solution.iterations)
                })
            }
            Algorithm::Cg => {
                let rows = Rows::dense(size, 0..size, SEED);
                Self::of_solver(algorithm, size, runs, || {
                    let solution = cg::solve_alone(&rows, SETTINGS);
                    (solution.times.total.as_secs_f64(), solution.iterations)
                })
            }
            Algorithm::Fft => Self::of_transform(size, runs),
        }
    }

    fn of_solver(algorithm: Algorithm, size: usize, runs: u32, mut solve: impl FnMut() -> (f64, usize)) -> Self {
        let (_, iterations) = solve();
        let times: Vec<f64> = (0..runs).map(|_| solve().0).collect();
        Self { algorithm, size, time: Summary::of(&times), iterations: iterations as u64, steps: Vec::new() }
    }

    fn of_transform(size: usize, runs: u32) -> Self {
        let butterflies = Butterflies::new(size);
        let input: Vec<_> = signal(SEED, 0..size).iter().map(|point| [point.re, point.im]).collect();
        let mut points = input.clone();
        let mut run = || -> Vec<f64> {
            points.copy_from_slice(&input);
            let mut step = |step| {
                let begin = Instant::now();
                butterflies.run(&mut points, step..step + 1);
                begin.elapsed().as_secs_f64()
            };
            (0..butterflies.steps()).map(&mut step).collect()
        };
        run();
        let all: Vec<_> = (0..runs).map(|_| run()).collect();
        let of_step = |step: usize| Summary::of(&all.iter().map(|steps| steps[step]).collect::<Vec<_>>()).median;
        Self {
            algorithm: Algorithm::Fft,
            size,
            time: Summary::of(&all.iter().map(|steps| steps.iter().sum()).collect::<Vec<_>>()),
            iterations: 1,
            steps: (0..butterflies.steps()).map(of_step).collect(),
        }
    }

    /// `t_c = T_s / f(n)`, where f(n) is k·n² for a solver (3.17, 3.24) and n·log n for a transform (3.36).
    pub fn operation(&self) -> f64 {
        let size = self.size as f64;
        let operations = match self.algorithm {
            Algorithm::Jacobi | Algorithm::Cg => self.iterations as f64 * size * size,
            Algorithm::Fft => size * size.log2(),
        };
        self.time.median / operations
    }

    /// What each of so many ranks has to do, by (3.18) and (3.38).
    ///
    /// Requests that are bound once are started once an iteration. The small messages by which solvers know whether to go on
    /// are counted too.
    pub fn workload(&self, ranks: u32) -> Workload {
        let (size, others) = (self.size, u64::from(ranks) - 1);
        let part = |element_bytes: usize| size.div_ceil(ranks as usize) * element_bytes;
        let messages = |bytes, count| Messages { bytes, count };
        let messages = match self.algorithm {
            Algorithm::Jacobi => vec![messages(part(4), 2 * others), messages(16, 2 * others)],
            Algorithm::Cg => vec![messages(part(8), 2 * others), messages(8, 4 * others)],
            Algorithm::Fft => vec![messages(part(POINT_BYTES), ranks.ilog2().into())],
        };
        let computation = self.time.median / (self.iterations as f64 * f64::from(ranks));
        Workload { iterations: self.iterations, computation, messages }
    }

    /// What each of so many ranks computes in a global step of a transform, `t_c·m_e` of (3.43): its share of the first log p
    /// steps of the sequential run, which are those. They go through all memory, so an average step would tell less.
    pub fn global_step(&self, ranks: u32) -> f64 {
        let steps = &self.steps[..ranks.ilog2() as usize];
        steps.iter().sum::<f64>() / (steps.len().max(1) as f64 * f64::from(ranks))
    }
}

/// Complex, in single precision.
const POINT_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequential_run_is_dealt_to_the_ranks() {
        let found = Sequential {
            algorithm: Algorithm::Jacobi,
            size: 1024,
            time: Summary::of(&[0.022]),
            iterations: 22,
            steps: Vec::new(),
        };
        let operation = 0.022 / (22.0 * 1024.0 * 1024.0);
        assert!((found.operation() - operation).abs() < 1e-6 * operation);
        let workload = found.workload(4);
        assert!((workload.computation - 0.001 / 4.0).abs() < 1e-9);
        assert_eq!((workload.iterations, workload.messages[0]), (22, Messages { bytes: 1024, count: 6 }));
    }

    #[test]
    fn a_transform_has_a_message_for_each_global_step() {
        let found = Sequential::measure(Algorithm::Fft, 1 << 10, 2);
        assert_eq!(found.workload(4).messages, [Messages { bytes: 2048, count: 2 }]);
        assert!(found.global_step(4) > 0.0 && found.global_step(4) < found.time.max);
        assert_eq!(found.steps.len(), 10);
    }

    #[test]
    fn both_solvers_have_few_iterations() {
        for algorithm in [Algorithm::Jacobi, Algorithm::Cg] {
            let found = Sequential::measure(algorithm, 64, 1);
            assert!((3..=40).contains(&found.iterations), "{algorithm}: {}", found.iterations);
            assert!(found.operation() > 0.0);
        }
    }
}
