//! Conjugate gradients for a five-point stencil on a torus, whose rows are dealt in blocks to the ranks.
//!
//! ```text
//!   q = A·p              needs a row from above and one from below: two sendrecv
//!   α = r·r / p·q        an allreduce of 8 bytes
//!   x = x + α·p, r = r − α·q
//!   β = r'·r' / r·r      an allreduce of 8 bytes
//!   p = r' + β·p
//! ```
//!
//! A is 5 on its diagonal and −1 for each of a point's four neighbours. Its eigenvalues lie between 1 and 9, so each iteration
//! halves the error at least, whatever the size; as in the kernel CG there are 25.
//!
//! D. Bailey et al., *The NAS Parallel Benchmarks*, 1991; M. R. Hestenes and E. Stiefel, *Methods of Conjugate Gradients for Solving
//! Linear Systems*, 1952.

use ropeway::{Communicator, Error, Operator};

use super::Kernel;
use crate::BenchError;

pub(super) struct ConjugateGradients {
    world: Communicator,
    /// Points of a row.
    width: usize,
    /// A rank's part of the right side, of the solution, of the residual, and of the product.
    b: Vec<f64>,
    x: Vec<f64>,
    r: Vec<f64>,
    q: Vec<f64>,
    /// The direction, with the row above and the one below.
    p: Vec<f64>,
}

impl ConjugateGradients {
    /// With `bytes` bytes of x on each rank, less what does not fill a row. There are at most as many points in a row as rows on
    /// a rank.
    pub(super) fn new(world: &Communicator, bytes: usize) -> Self {
        let points = (bytes / size_of::<f64>()).max(1);
        let mut width = 1;
        while 4 * width * width <= points {
            width *= 2;
        }
        let points = points - points % width;
        let (first, all) = (world.rank() as usize * points, world.size() as usize * points);
        let zeros = || vec![0.0; points];
        Self {
            b: (first..first + points).map(|point| right_side(point, width, all)).collect(),
            x: zeros(),
            r: zeros(),
            q: zeros(),
            p: vec![0.0; points + 2 * width],
            width,
            world: world.clone(),
        }
    }

    /// q = A·p.
    fn multiply(&mut self) -> Result<(), Error> {
        let (world, width) = (&self.world, self.width);
        let (ranks, me) = (world.size(), world.rank());
        let (above, below) = ((me + ranks - 1) % ranks, (me + 1) % ranks);
        let (top, rest) = self.p.split_at_mut(width);
        let (own, bottom) = rest.split_at_mut(self.x.len());
        world.sendrecv(&own[own.len() - width..], below, DOWN, top, above, DOWN)?;
        world.sendrecv(&own[..width], above, UP, bottom, below, UP)?;
        for (row, products) in self.q.chunks_exact_mut(width).enumerate() {
            let [above, here, below] = [row, row + 1, row + 2].map(|row| &self.p[row * width..][..width]);
            for column in 0..width {
                let left = here[if column == 0 { width - 1 } else { column - 1 }];
                let right = here[if column == width - 1 { 0 } else { column + 1 }];
                products[column] = 5.0 * here[column] - left - right - above[column] - below[column];
            }
        }
        Ok(())
    }

    /// The dot product of all ranks' parts.
    fn dot(&self, left: &[f64], right: &[f64]) -> Result<f64, Error> {
        let own: f64 = left.iter().zip(right).map(|(left, right)| left * right).sum();
        let mut sum = [0.0];
        self.world.allreduce(&[own], &mut sum, Operator::Sum)?;
        Ok(sum[0])
    }

    fn own(&self) -> std::ops::Range<usize> {
        self.width..self.width + self.x.len()
    }
}

impl Kernel for ConjugateGradients {
    fn round(&mut self) -> Result<(), Error> {
        let own = self.own();
        self.x.fill(0.0);
        self.r.copy_from_slice(&self.b);
        self.p[own.clone()].copy_from_slice(&self.b);
        let first = self.dot(&self.r, &self.r)?;
        let mut rr = first;
        for _ in 0..ITERATIONS {
            // Tiny systems are solved before: there is nothing left to divide by.
            if rr <= first * SOLVED {
                break;
            }
            self.multiply()?;
            let alpha = rr / self.dot(&self.p[own.clone()], &self.q)?;
            let changes = self.p[own.clone()].iter().zip(&self.q);
            for ((x, r), (p, q)) in self.x.iter_mut().zip(&mut self.r).zip(changes) {
                *x += alpha * p;
                *r -= alpha * q;
            }
            let before = rr;
            rr = self.dot(&self.r, &self.r)?;
            let beta = rr / before;
            for (p, r) in self.p[own.clone()].iter_mut().zip(&self.r) {
                *p = r + beta * *p;
            }
        }
        Ok(())
    }

    /// x is what b was made from.
    fn check(&self) -> Result<(), BenchError> {
        let first = self.world.rank() as usize * self.x.len();
        let right: Vec<f64> = (first..first + self.x.len()).map(solution).collect();
        let wrong: Vec<f64> = self.x.iter().zip(&right).map(|(x, right)| x - right).collect();
        let difference = (self.dot(&wrong, &wrong)? / self.dot(&right, &right)?).sqrt();
        let is_right = difference <= DIFFERENCE_MAX;
        is_right.then_some(()).ok_or(BenchError::WrongResult { program: "cg".into(), difference })
    }
}

/// x at a point.
fn solution(point: usize) -> f64 {
    (point % 7 + 1) as f64
}

/// b at a point, of so many: A times the solution.
fn right_side(point: usize, width: usize, all: usize) -> f64 {
    let column = point % width;
    let begin = point - column;
    let [left, right] = [width - 1, 1].map(|step| solution(begin + (column + step) % width));
    let [above, below] = [all - width, width].map(|step| solution((point + step) % all));
    5.0 * solution(point) - left - right - above - below
}

/// NPB's `cgitmax`.
const ITERATIONS: usize = 25;
/// Of r·r: nothing but rounding.
const SOLVED: f64 = 1e-30;
/// Of x, after 25 iterations that each halve the error: 2·√9·2⁻²⁵ = 1.8e-7.
const DIFFERENCE_MAX: f64 = 1e-6;
const DOWN: i32 = 1;
const UP: i32 = 2;

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::cluster::everybody;

    /// What A·x is at each point, by the definition.
    fn product(x: &[f64], width: usize) -> Vec<f64> {
        let rows = x.len() / width;
        let at = |row: usize, column: usize| x[row % rows * width + column % width];
        let product = |point: usize| {
            let (row, column) = (point / width, point % width);
            let neighbours =
                [(row + 1, column), (row + rows - 1, column), (row, column + 1), (row, column + width - 1)];
            5.0 * at(row, column) - neighbours.into_iter().map(|(row, column)| at(row, column)).sum::<f64>()
        };
        (0..x.len()).map(product).collect()
    }

    #[test]
    fn the_solution_solves_the_system_on_any_number_of_ranks() {
        for ((nodes, ranks), bytes) in CROWDS.into_iter().flat_map(|crowd| BYTES.map(|bytes| (crowd, bytes))) {
            let parts = Mutex::new(vec![(Vec::new(), Vec::new()); ranks as usize]);
            let width = Mutex::new(0);
            everybody((nodes, ranks), |world| {
                let mut gradients = ConjugateGradients::new(&world, bytes);
                for _ in 0..2 {
                    gradients.round().unwrap();
                    gradients.check().unwrap();
                }
                *width.lock().unwrap() = gradients.width;
                parts.lock().unwrap()[world.rank() as usize] = (gradients.x, gradients.b);
            });
            let (x, b): (Vec<_>, Vec<_>) = parts.into_inner().unwrap().into_iter().unzip();
            let (product, b) = (product(&x.concat(), width.into_inner().unwrap()), b.concat());
            assert!(
                product.iter().zip(&b).all(|(product, b)| (product - b).abs() < 1e-4),
                "{ranks} ranks, {bytes} bytes"
            );
        }
    }

    #[test]
    fn a_solution_that_is_wrong_is_noticed_by_all() {
        everybody((1, 2), |world| {
            let mut gradients = ConjugateGradients::new(&world, BYTES[1]);
            gradients.round().unwrap();
            if world.rank() == 1 {
                gradients.x[0] += 0.01;
            }
            assert!(matches!(gradients.check(), Err(BenchError::WrongResult { .. })));
        });
    }

    const CROWDS: [(usize, u32); 5] = [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4)];
    /// A single point, and rows that don't fill the whole of it.
    const BYTES: [usize; 2] = [8, 3000];
}
