//! The system of equations, or one rank's rows of it.

use std::ops::Range;

use crate::random::SplitMix;

/// Some consecutive rows of a dense system `A·x = b`, or all of them.
///
/// The right-hand side is `A·(1, …, 1)`, so the solution is known: all ones.
#[derive(Clone, Debug)]
pub struct System {
    unknowns: usize,
    rows: Range<usize>,
    /// The rows, one after the other.
    coefficients: Vec<f32>,
    right_hand_side: Vec<f32>,
}

/// Jacobi's method may not converge: some row's diagonal element does not outweigh the rest of the row.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "the matrix is not diagonally dominant: in row {row} the diagonal element is {diagonal}, but the other elements sum up \
     to {others} in magnitude; Jacobi's method needs it to be larger"
)]
pub struct NotDominant {
    /// The first such row, counted from 1.
    pub row: usize,
    /// Its diagonal element.
    pub diagonal: f32,
    /// Sum of the magnitudes of its other elements.
    pub others: f64,
}

impl System {
    /// Rows `rows` of a system of `unknowns` equations that depends on `seed` alone.
    ///
    /// Elements are in [0, 1), and each diagonal element is twice the sum of the rest of its row. The error then halves in
    /// each iteration.
    pub fn generate(unknowns: usize, rows: Range<usize>, seed: u64) -> Self {
        let mut coefficients = Vec::with_capacity(rows.len() * unknowns);
        for row in rows.clone() {
            let mut random = SplitMix::stream(seed, row as u64);
            let begin = coefficients.len();
            coefficients.extend((0..unknowns).map(|_| random.next_unit()));
            let line = &mut coefficients[begin..];
            line[row] = 0.0;
            line[row] = (2.0 * magnitude(line)).max(1.0) as f32;
        }
        Self::new(unknowns, rows, coefficients)
    }

    /// All rows of a matrix that is given row by row.
    ///
    /// # Panics
    /// If there are not `unknowns²` coefficients.
    pub fn from_matrix(unknowns: usize, coefficients: Vec<f32>) -> Result<Self, NotDominant> {
        assert_eq!(coefficients.len(), unknowns * unknowns, "the matrix is square");
        let system = Self::new(unknowns, 0..unknowns, coefficients);
        match (0..unknowns).find_map(|row| system.why_not_dominant(row)) {
            Some(refusal) => Err(refusal),
            None => Ok(system),
        }
    }

    fn new(unknowns: usize, rows: Range<usize>, coefficients: Vec<f32>) -> Self {
        let row_sum = |row: &[f32]| row.iter().copied().map(f64::from).sum::<f64>() as f32;
        let right_hand_side = coefficients.chunks(unknowns.max(1)).map(row_sum).collect();
        Self { unknowns, rows, coefficients, right_hand_side }
    }

    /// The part of a whole system that holds `rows`.
    pub fn block(&self, rows: Range<usize>) -> Self {
        let begin = rows.start - self.rows.start;
        let coefficients = &self.coefficients[begin * self.unknowns..(begin + rows.len()) * self.unknowns];
        Self::new(self.unknowns, rows, coefficients.to_vec())
    }

    /// Unknowns of the whole system.
    pub fn unknowns(&self) -> usize {
        self.unknowns
    }

    /// Which rows these are.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The coefficients of a row and its right-hand side.
    pub fn equation(&self, row: usize) -> (&[f32], f32) {
        let index = row - self.rows.start;
        (&self.coefficients[index * self.unknowns..][..self.unknowns], self.right_hand_side[index])
    }

    fn why_not_dominant(&self, row: usize) -> Option<NotDominant> {
        let line = self.equation(row).0;
        let diagonal = line[row];
        let others = magnitude(&line[..row]) + magnitude(&line[row + 1..]);
        (f64::from(diagonal.abs()) <= others).then_some(NotDominant { row: row + 1, diagonal, others })
    }
}

fn magnitude(elements: &[f32]) -> f64 {
    elements.iter().map(|element| f64::from(element.abs())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_does_not_depend_on_its_block() {
        let whole = System::generate(20, 0..20, 7);
        let part = System::generate(20, 5..9, 7);
        for row in 5..9 {
            assert_eq!(whole.equation(row), part.equation(row));
            assert_eq!(whole.equation(row), whole.block(row..row + 1).equation(row));
        }
        assert_ne!(whole.equation(5), System::generate(20, 5..6, 8).equation(5));
    }

    #[test]
    fn the_first_row_that_is_not_dominant_is_named() {
        let matrix = vec![2.0, -1.0, 0.5, 0.5, -3.0, 1.0, 1.0, 2.0, -3.0];
        let refusal = System::from_matrix(3, matrix).unwrap_err();
        assert_eq!(refusal, NotDominant { row: 3, diagonal: -3.0, others: 3.0 });
        assert!(System::from_matrix(2, vec![2.0, -1.9, 0.0, -1.0]).is_ok());
    }
}
