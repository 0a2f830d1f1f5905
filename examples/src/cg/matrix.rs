//! The matrix, or one rank's rows of it.

use std::ops::Range;

use super::relative_difference;
use crate::matrix_market::SparseMatrix;

/// Rows of a matrix, as far as a solver is concerned.
pub trait Matrix {
    /// Adds the product with `x` to `product`, which has a place for each row.
    fn multiply_add(&self, x: &[f64], product: &mut [f64]);
}

/// Consecutive rows of a sparse matrix: of each row the elements that are not zero, from left to right.
///
/// ```text
///   first    0       2           5     6         row i has elements first[i]..first[i + 1]
///   columns  0   3   0   1   4   2
///   values  4.0 1.0 1.0 4.0 2.0 4.0
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SparseRows {
    first: Vec<usize>,
    columns: Vec<usize>,
    values: Vec<f64>,
}

/// Conjugate gradients are for symmetric matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the matrix is not symmetric: element {row}, {column} differs from element {column}, {row}; conjugate gradients need \
     it to be"
)]
pub struct NotSymmetric {
    /// Row of an element, counted from 1.
    pub row: usize,
    /// Its column, counted from 1.
    pub column: usize,
}

impl SparseRows {
    fn new() -> Self {
        Self { first: vec![0], columns: vec![], values: vec![] }
    }

    fn push_row(&mut self, elements: impl IntoIterator<Item = (usize, f64)>) {
        for (column, value) in elements {
            self.columns.push(column);
            self.values.push(value);
        }
        self.first.push(self.columns.len());
    }

    /// Rows `rows` of the discrete Poisson equation on a grid of `side` by `side` points with fixed borders: 4 on the
    /// diagonal, −1 for each neighbour.
    pub fn poisson(side: usize, rows: Range<usize>) -> Self {
        let mut matrix = Self::new();
        for point in rows {
            let (y, x) = (point / side, point % side);
            let neighbours = [
                (y > 0).then(|| (point - side, -1.0)),
                (x > 0).then(|| (point - 1, -1.0)),
                Some((point, 4.0)),
                (x + 1 < side).then_some((point + 1, -1.0)),
                (y + 1 < side).then_some((point + side, -1.0)),
            ];
            matrix.push_row(neighbours.into_iter().flatten());
        }
        matrix
    }

    /// Rows `rows` of a matrix that was read.
    pub fn from_matrix(matrix: &SparseMatrix, rows: Range<usize>) -> Result<Self, NotSymmetric> {
        let elements = &matrix.elements;
        let differs = |&(&(row, column), value): &(&(usize, usize), &f64)| elements.get(&(column, row)) != Some(value);
        if let Some((&(row, column), _)) = elements.iter().find(differs) {
            return Err(NotSymmetric { row: row + 1, column: column + 1 });
        }
        let mut part = Self::new();
        for row in rows {
            part.push_row(elements.range((row, 0)..(row + 1, 0)).map(|(&(_, column), &value)| (column, value)));
        }
        Ok(part)
    }

    /// How many rows these are.
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sum of each row: the right-hand side of a system whose solution is all ones.
    pub fn row_sums(&self) -> Vec<f64> {
        (0..self.len()).map(|row| self.elements(row).map(|(_, value)| value).sum()).collect()
    }

    /// How far `x` is from solving the system whose solution is all ones: the length of `b − A·x` relative to that of
    /// `b`. These have to be all rows.
    pub fn residual(&self, x: &[f64]) -> f64 {
        let mut product = vec![0.0; self.len()];
        self.multiply_add(x, &mut product);
        relative_difference(&product, &self.row_sums())
    }

    fn elements(&self, row: usize) -> impl Iterator<Item = (usize, f64)> {
        let range = self.first[row]..self.first[row + 1];
        self.columns[range.clone()].iter().copied().zip(self.values[range].iter().copied())
    }
}

impl Matrix for SparseRows {
    fn multiply_add(&self, x: &[f64], product: &mut [f64]) {
        for (row, sum) in product.iter_mut().enumerate() {
            let elements = self.elements(row);
            *sum += elements.map(|(column, value)| value * x[column]).sum::<f64>();
        }
    }
}

/// A rank's rows of the system `A·x = b`, in two halves: what needs this rank's own part of a vector only, and what
/// needs the others'.
///
/// The right-hand side is `A·(1, …, 1)`, so the solution is known: all ones.
#[derive(Clone, Debug)]
pub struct Rows<M = SparseRows> {
    /// The elements in the columns of this rank, counted from its first.
    pub near: M,
    /// The other elements.
    pub far: M,
    /// The right-hand side.
    pub right_hand_side: Vec<f64>,
}

impl Rows {
    /// Halves the rows of the rank that has the part `own` of each vector.
    pub fn new(rows: &SparseRows, own: Range<usize>) -> Self {
        let (mut near, mut far) = (SparseRows::new(), SparseRows::new());
        for row in 0..rows.len() {
            let in_own = |&(column, _): &(usize, f64)| own.contains(&column);
            near.push_row(rows.elements(row).filter(in_own).map(|(column, value)| (column - own.start, value)));
            far.push_row(rows.elements(row).filter(|element| !in_own(element)));
        }
        Self { near, far, right_hand_side: rows.row_sums() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block;

    #[test]
    fn poisson_couples_neighbours_on_the_grid() {
        let matrix = SparseRows::poisson(3, 0..9);
        assert_eq!(matrix.elements(0).collect::<Vec<_>>(), [(0, 4.0), (1, -1.0), (3, -1.0)]);
        assert_eq!(matrix.elements(4).collect::<Vec<_>>(), [(1, -1.0), (3, -1.0), (4, 4.0), (5, -1.0), (7, -1.0)]);
        assert_eq!(matrix.elements(5).collect::<Vec<_>>(), [(2, -1.0), (4, -1.0), (5, 4.0), (8, -1.0)]);
        let part = SparseRows::poisson(3, 4..6);
        assert_eq!(part.elements(1).collect::<Vec<_>>(), matrix.elements(5).collect::<Vec<_>>());
    }

    #[test]
    fn halves_add_up_to_the_product() {
        let (side, ranks) = (7, 4);
        let unknowns = side * side;
        let x: Vec<f64> = (0..unknowns).map(|index| (index * index % 31) as f64).collect();
        let mut expected = vec![0.0; unknowns];
        SparseRows::poisson(side, 0..unknowns).multiply_add(&x, &mut expected);
        for rank in 0..ranks {
            let own = block(unknowns, rank, ranks);
            let rows = Rows::new(&SparseRows::poisson(side, own.clone()), own.clone());
            let mut product = vec![0.0; own.len()];
            rows.near.multiply_add(&x[own.clone()], &mut product);
            rows.far.multiply_add(&x, &mut product);
            assert_eq!(product, expected[own]);
        }
    }

    #[test]
    fn an_element_without_its_mirror_image_is_named() {
        let matrix =
            |elements: &[((usize, usize), f64)]| SparseMatrix { size: 3, elements: elements.iter().copied().collect() };
        let lopsided = matrix(&[((0, 0), 1.0), ((1, 2), 5.0), ((2, 1), 4.0)]);
        assert_eq!(SparseRows::from_matrix(&lopsided, 0..3), Err(NotSymmetric { row: 2, column: 3 }));
        let symmetric = matrix(&[((0, 0), 1.0), ((1, 2), 5.0), ((2, 1), 5.0)]);
        let rows = SparseRows::from_matrix(&symmetric, 1..3).unwrap();
        assert_eq!(rows.elements(1).collect::<Vec<_>>(), [(1, 5.0)]);
    }
}
