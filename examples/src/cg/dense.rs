//! Dense matrices, for as much to compute as a matrix of that size can give.

use std::ops::Range;

use super::{Matrix, Rows};
use crate::random::SplitMix;

/// Blocks of columns of consecutive rows, each stored row by row.
#[derive(Clone, Debug)]
pub struct DenseRows {
    blocks: Vec<Block>,
}

#[derive(Clone, Debug)]
struct Block {
    columns: Range<usize>,
    /// In single precision, which holds them exactly: memory for half the bytes has to keep up with computing.
    elements: Vec<f32>,
}

impl Rows<DenseRows> {
    /// The rows `own` of a symmetric, positive definite system of `unknowns` that depends on `seed` alone.
    ///
    /// Elements are in [0, 1), but n on the diagonal: twice as much as the rest of a row, so that few iterations are enough.
    pub fn dense(unknowns: usize, own: Range<usize>, seed: u64) -> Self {
        let columns = |columns: Range<usize>| {
            let elements = own.clone().flat_map(|row| columns.clone().map(move |column| (row, column)));
            let elements = elements.map(|place| element(unknowns, place, seed)).collect();
            Block { columns, elements }
        };
        let near = columns(own.clone());
        let far = vec![columns(0..own.start), columns(own.end..unknowns)];
        let mut right_hand_side = vec![0.0; own.len()];
        let all = DenseRows { blocks: far.into_iter().chain([near]).collect() };
        all.multiply_add(&vec![1.0; unknowns], &mut right_hand_side);
        let DenseRows { blocks: mut far } = all;
        let near = far.pop().map(|near| Block { columns: 0..own.len(), ..near });
        Self { near: DenseRows { blocks: near.into_iter().collect() }, far: DenseRows { blocks: far }, right_hand_side }
    }
}

/// The same for a place and its mirror image.
fn element(unknowns: usize, (row, column): (usize, usize), seed: u64) -> f32 {
    if row == column {
        return unknowns as f32;
    }
    let place = row.min(column) * unknowns + row.max(column);
    SplitMix::stream(seed, place as u64).next_unit()
}

impl Matrix for DenseRows {
    fn multiply_add(&self, x: &[f64], product: &mut [f64]) {
        for Block { columns, elements } in self.blocks.iter().filter(|block| !block.columns.is_empty()) {
            let x = &x[columns.clone()];
            for (row, sum) in elements.chunks_exact(columns.len()).zip(product.iter_mut()) {
                *sum += dot(row, x);
            }
        }
    }
}

/// In eight lanes, which is several times as fast.
fn dot(a: &[f32], b: &[f64]) -> f64 {
    let ((a_lanes, a_rest), (b_lanes, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (a, b) in a_lanes.iter().zip(b_lanes) {
        for lane in 0..8 {
            sums[lane] += f64::from(a[lane]) * b[lane];
        }
    }
    sums.iter().sum::<f64>() + a_rest.iter().zip(b_rest).map(|(&a, b)| f64::from(a) * b).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block;
    use crate::cg::{Outcome, Settings, solve_alone};

    #[test]
    fn rows_do_not_depend_on_who_has_them() {
        let (unknowns, ranks) = (21, 4);
        let x: Vec<f64> = (0..unknowns).map(|index| (index * index % 13) as f64).collect();
        let mut expected = vec![0.0; unknowns];
        Rows::dense(unknowns, 0..unknowns, 7).near.multiply_add(&x, &mut expected);
        for rank in 0..ranks {
            let own = block(unknowns, rank, ranks);
            let rows = Rows::dense(unknowns, own.clone(), 7);
            let mut product = vec![0.0; own.len()];
            rows.near.multiply_add(&x[own.clone()], &mut product);
            rows.far.multiply_add(&x, &mut product);
            let distances = product.iter().zip(&expected[own]).map(|(a, b)| (a - b).abs());
            assert!(distances.fold(0.0, f64::max) < 1e-9);
        }
    }

    #[test]
    fn a_few_iterations_are_enough() {
        let settings = Settings { tolerance: 1e-10, iterations_max: 20 };
        let solution = solve_alone(&Rows::dense(300, 0..300, 1), settings);
        assert_eq!(solution.outcome, Outcome::Converged);
        assert!(solution.x.iter().all(|x| (x - 1.0).abs() < 1e-8));
    }
}
