//! The iteration, and how long it took.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use super::{Exchange, Matrix, Rows, SparseRows};
use crate::timed;

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Solved when the residual is not larger than this, relative to the right-hand side.
    pub tolerance: f64,
    /// Given up after so many iterations.
    pub iterations_max: usize,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Solved to the tolerance.
    Converged,
    /// Too many iterations.
    GaveUp,
    /// A direction was found in which `p·A·p` is not positive.
    NotPositiveDefinite,
}

/// What a rank has in the end.
#[derive(Clone, Debug)]
pub struct Solution {
    /// This rank's part of the solution.
    pub x: Vec<f64>,
    /// Iterations it took.
    pub iterations: usize,
    /// How it ended.
    pub outcome: Outcome,
    /// The residual as the iteration knows it, relative to the right-hand side.
    pub residual: f64,
    /// How long it took.
    pub times: Times,
}

/// Time of all iterations, and of what this rank has computed in them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Everything, communication included.
    pub total: Duration,
    /// Products with the matrix.
    pub products: Duration,
    /// Sums and scalar products of vectors.
    pub vectors: Duration,
}

/// Solves the system together with the other ranks.
pub fn solve<M: Matrix, E: Exchange>(
    rows: &Rows<M>,
    exchange: &mut E,
    settings: Settings,
) -> Result<Solution, E::Error> {
    let mut times = Times::default();
    let mut x = vec![0.0; rows.right_hand_side.len()];
    let mut q = x.clone();
    let mut r = rows.right_hand_side.clone();
    let mut p = r.clone();
    let right_hand_side = exchange.sum(dot(&r, &r), || ())?;
    let enough = settings.tolerance * settings.tolerance * right_hand_side;
    let (mut residual, mut iterations) = (right_hand_side, 0);
    let begin = Instant::now();
    let outcome = loop {
        if residual <= enough {
            break Outcome::Converged;
        }
        if iterations == settings.iterations_max {
            break Outcome::GaveUp;
        }
        q.fill(0.0);
        let all = exchange.gather(&p, || timed(&mut times.products, || rows.near.multiply_add(&p, &mut q)))?;
        timed(&mut times.products, || rows.far.multiply_add(all, &mut q));
        let curvature = timed(&mut times.vectors, || dot(&p, &q));
        let curvature = exchange.sum(curvature, || ())?;
        if curvature <= 0.0 || curvature.is_nan() {
            break Outcome::NotPositiveDefinite;
        }
        let alpha = residual / curvature;
        let mine = timed(&mut times.vectors, || {
            add_scaled(&mut r, -alpha, &q);
            dot(&r, &r)
        });
        let previous = residual;
        residual = exchange.sum(mine, || timed(&mut times.vectors, || add_scaled(&mut x, alpha, &p)))?;
        timed(&mut times.vectors, || p.iter_mut().zip(&r).for_each(|(p, r)| *p = r + residual / previous * *p));
        iterations += 1;
    };
    times.total = begin.elapsed();
    let residual = if residual == 0.0 { 0.0 } else { (residual / right_hand_side).sqrt() };
    Ok(Solution { x, iterations, outcome, residual, times })
}

/// Solves a whole system in this process alone.
pub fn solve_serially(matrix: &SparseRows, settings: Settings) -> Solution {
    solve_alone(&Rows::new(matrix, 0..matrix.len()), settings)
}

/// Solves a system whose rows are all on this rank, so that all elements are near.
pub fn solve_alone<M: Matrix>(rows: &Rows<M>, settings: Settings) -> Solution {
    match solve(rows, &mut Alone, settings) {
        Ok(solution) => solution,
        Err(never) => match never {},
    }
}

/// The length of the difference of two vectors, relative to `reference`.
pub fn relative_difference(vector: &[f64], reference: &[f64]) -> f64 {
    let difference: f64 = vector.iter().zip(reference).map(|(a, b)| (a - b) * (a - b)).sum();
    if difference == 0.0 { 0.0 } else { (difference / dot(reference, reference)).sqrt() }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add_scaled(vector: &mut [f64], factor: f64, other: &[f64]) {
    vector.iter_mut().zip(other).for_each(|(element, other)| *element += factor * other);
}

/// The communication of a rank that has all rows: none.
struct Alone;

impl Exchange for Alone {
    type Error = Infallible;

    fn gather(&mut self, _part: &[f64], meanwhile: impl FnOnce()) -> Result<&[f64], Infallible> {
        meanwhile();
        Ok(&[])
    }

    fn sum(&mut self, mine: f64, meanwhile: impl FnOnce()) -> Result<f64, Infallible> {
        meanwhile();
        Ok(mine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix_market::SparseMatrix;

    const SETTINGS: Settings = Settings { tolerance: 1e-12, iterations_max: 1000 };

    fn diagonal(values: &[f64]) -> SparseRows {
        let elements = values.iter().enumerate().map(|(index, &value)| ((index, index), value)).collect();
        SparseRows::from_matrix(&SparseMatrix { size: values.len(), elements }, 0..values.len()).unwrap()
    }

    #[test]
    fn the_known_solution_is_found() {
        for side in [1, 2, 13, 40] {
            let solution = solve_serially(&SparseRows::poisson(side, 0..side * side), SETTINGS);
            assert_eq!(solution.outcome, Outcome::Converged);
            assert!(solution.residual <= 1e-12);
            assert!(relative_difference(&solution.x, &vec![1.0; side * side]) < 1e-10);
        }
    }

    #[test]
    fn as_many_iterations_as_there_are_eigenvalues() {
        assert_eq!(solve_serially(&diagonal(&[2.0, 5.0, 2.0, 2.0, 5.0, 9.0]), SETTINGS).iterations, 3);
    }

    #[test]
    fn it_says_why_it_ended() {
        let few = Settings { iterations_max: 2, ..SETTINGS };
        let solution = solve_serially(&SparseRows::poisson(10, 0..100), few);
        assert_eq!((solution.outcome, solution.iterations), (Outcome::GaveUp, 2));
        assert_eq!(solve_serially(&diagonal(&[1.0, -3.0]), SETTINGS).outcome, Outcome::NotPositiveDefinite);
        let nothing = solve_serially(&diagonal(&[0.0, 0.0]), SETTINGS);
        assert_eq!((nothing.outcome, nothing.residual), (Outcome::Converged, 0.0));
    }
}
