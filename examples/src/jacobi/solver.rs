//! The iteration, and how long it took.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use super::{Exchange, System};

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Solved when no element of x changes by more than this in an iteration, relative to the largest one.
    pub tolerance: f64,
    /// Given up after so many iterations.
    pub iterations_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { tolerance: 1e-6, iterations_max: 10_000 }
    }
}

/// What a rank has in the end. All ranks have the same x.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The solution, as far as it got.
    pub x: Vec<f32>,
    /// Iterations it took.
    pub iterations: usize,
    /// Whether it was solved to the tolerance.
    pub converged: bool,
    /// Time of all iterations.
    pub total: Duration,
    /// Time within it that this rank spent in its [`Exchange`].
    pub communication: Duration,
}

/// Solves the system together with the other ranks. `system` has the rows of this rank.
pub fn solve<E: Exchange>(system: &System, exchange: &mut E, settings: Settings) -> Result<Solution, E::Error> {
    let mut x = vec![0.0; system.unknowns()];
    let mut part = vec![0.0; system.rows().len()];
    let (begin, mut communication) = (Instant::now(), Duration::ZERO);
    let (mut iterations, mut converged) = (0, false);
    while !converged && iterations < settings.iterations_max {
        let extremes = sweep(system, &x, &mut part);
        let sent = Instant::now();
        exchange.gather_parts(&part, &mut x)?;
        let Extremes { change, size } = exchange.maximum(extremes)?;
        communication += sent.elapsed();
        iterations += 1;
        // Where all is infinite nothing is larger than its share.
        converged = size.is_finite() && change <= settings.tolerance * size;
    }
    Ok(Solution { x, iterations, converged, total: begin.elapsed(), communication })
}

/// The same messages as in a solution of the system once more without computing, so that nobody waits for a rank that
/// computes. How long they take.
pub fn exchange_only<E: Exchange>(
    system: &System,
    exchange: &mut E,
    solution: &Solution,
) -> Result<Duration, E::Error> {
    let mut x = solution.x.clone();
    let part = x[system.rows()].to_vec();
    let begin = Instant::now();
    for _ in 0..solution.iterations {
        exchange.gather_parts(&part, &mut x)?;
        exchange.maximum(Extremes::default())?;
    }
    Ok(begin.elapsed())
}

/// Solves a whole system in this process alone.
pub fn solve_serially(system: &System, settings: Settings) -> Solution {
    match solve(system, &mut Alone, settings) {
        Ok(solution) => solution,
        Err(never) => match never {},
    }
}

/// The largest difference of two vectors, relative to the largest element of `reference`.
pub fn relative_difference(vector: &[f32], reference: &[f32]) -> f64 {
    if vector.len() != reference.len() {
        return f64::INFINITY;
    }
    let pairs = vector.iter().zip(reference).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    let (difference, size) = pairs.fold((0.0, 0.0), |(difference, size): (f64, f64), (a, b)| {
        // NaN would get lost in `max`.
        let distance = if a.is_finite() { (a - b).abs() } else { f64::INFINITY };
        (difference.max(distance), size.max(b.abs()))
    });
    if difference == 0.0 { 0.0 } else { difference / size }
}

/// What decides whether to go on: the largest change of an element of x, and the largest element.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extremes {
    /// Largest change.
    pub change: f64,
    /// Largest magnitude.
    pub size: f64,
}

impl Extremes {
    /// The larger of each. The order in which ranks are combined does not matter.
    pub fn max(self, other: Self) -> Self {
        Self { change: self.change.max(other.change), size: self.size.max(other.size) }
    }
}

/// One iteration for the rows of `system`: the next part of x.
fn sweep(system: &System, x: &[f32], part: &mut [f32]) -> Extremes {
    let mut extremes = Extremes::default();
    for (next, row) in part.iter_mut().zip(system.rows()) {
        let (coefficients, right_hand_side) = system.equation(row);
        let residual = f64::from(right_hand_side) - dot(coefficients, x);
        *next = (f64::from(x[row]) + residual / f64::from(coefficients[row])) as f32;
        let change = f64::from((*next - x[row]).abs());
        // NaN would get lost in `max`.
        let size = if next.is_finite() { f64::from(next.abs()) } else { f64::INFINITY };
        extremes = extremes.max(Extremes { change, size });
    }
    extremes
}

/// Adds up in double precision, in eight lanes: fast, and in the same order whoever has the row.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    let (a_lanes, a_rest) = a.as_chunks::<LANES>();
    let (b_lanes, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..LANES {
            sums[lane] += f64::from(a[lane]) * f64::from(b[lane]);
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
    sums.iter().sum::<f64>() + rest
}

/// The communication of a rank that has all rows.
struct Alone;

impl Exchange for Alone {
    type Error = Infallible;

    fn gather_parts(&mut self, part: &[f32], x: &mut [f32]) -> Result<(), Infallible> {
        x.copy_from_slice(part);
        Ok(())
    }

    fn maximum(&mut self, extremes: Extremes) -> Result<Extremes, Infallible> {
        Ok(extremes)
    }
}

const LANES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use crate::block;

    #[test]
    fn the_known_solution_is_found() {
        for unknowns in [1, 2, 37, 300] {
            let solution = solve_serially(&System::generate(unknowns, 0..unknowns, 1), Settings::default());
            assert!(solution.converged && solution.iterations <= 30, "{} iterations", solution.iterations);
            assert!(relative_difference(&solution.x, &vec![1.0; unknowns]) < 1e-5);
        }
    }

    #[test]
    fn it_gives_up_in_the_end() {
        let settings = Settings { iterations_max: 3, ..Settings::default() };
        let solution = solve_serially(&System::generate(50, 0..50, 1), settings);
        assert!(!solution.converged);
        assert_eq!(solution.iterations, 3);
    }

    #[test]
    fn what_is_no_number_solves_nothing() {
        // The right-hand side is infinite, then x is, and then it is NaN.
        let system = System::from_matrix(2, vec![3e38, 2e38, 2e38, 3e38]).unwrap();
        for iterations_max in [1, 2, 3] {
            assert!(!solve_serially(&system, Settings { iterations_max, ..Settings::default() }).converged);
        }
    }

    #[test]
    fn differences_are_relative_and_see_nonsense() {
        assert_eq!(relative_difference(&[1.0, 9.0], &[1.0, 10.0]), 0.1);
        assert_eq!(relative_difference(&[f32::NAN], &[1.0]), f64::INFINITY);
        assert_eq!(relative_difference(&[1.0], &[1.0, 1.0]), f64::INFINITY);
    }

    type Letter = (Vec<f32>, Extremes);

    /// Ranks that are threads, and tell one another everything.
    struct Threads {
        to: Vec<Sender<Letter>>,
        from: Vec<Receiver<Letter>>,
        extremes: Extremes,
    }

    impl Exchange for Threads {
        type Error = Infallible;

        fn gather_parts(&mut self, part: &[f32], x: &mut [f32]) -> Result<(), Infallible> {
            self.to.iter().for_each(|to| to.send((part.to_vec(), Extremes::default())).unwrap());
            let parts: Vec<f32> = self.from.iter().flat_map(|from| from.recv().unwrap().0).collect();
            x.copy_from_slice(&parts);
            Ok(())
        }

        fn maximum(&mut self, extremes: Extremes) -> Result<Extremes, Infallible> {
            self.to.iter().for_each(|to| to.send((Vec::new(), extremes)).unwrap());
            self.extremes = self.from.iter().map(|from| from.recv().unwrap().1).fold(extremes, Extremes::max);
            Ok(self.extremes)
        }
    }

    #[test]
    fn any_number_of_ranks_finds_the_same_bits() {
        let (unknowns, ranks) = (101, 4);
        let serial = solve_serially(&System::generate(unknowns, 0..unknowns, 5), Settings::default());
        let mut ends: Vec<_> = (0..ranks).map(|_| (Vec::new(), Vec::new())).collect();
        for from in 0..ranks as usize {
            for to in 0..ranks as usize {
                let (sender, receiver) = channel();
                ends[from].0.push(sender);
                ends[to].1.push(receiver);
            }
        }
        let run = |(rank, (to, from)): (usize, _)| {
            std::thread::spawn(move || {
                let system = System::generate(unknowns, block(unknowns, rank as u32, ranks), 5);
                let Ok(solution) =
                    solve(&system, &mut Threads { to, from, extremes: Extremes::default() }, Settings::default());
                solution
            })
        };
        let threads: Vec<_> = ends.into_iter().enumerate().map(run).collect();
        for solution in threads.into_iter().map(|thread| thread.join().unwrap()) {
            assert_eq!(solution.x, serial.x);
            assert_eq!(solution.iterations, serial.iterations);
        }
    }
}
