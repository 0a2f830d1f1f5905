//! Matrices while they are filled.

use std::collections::BTreeMap;

use super::Problem;
use super::lines::number;

/// Where the elements of a file go.
pub(super) trait Elements {
    type Value: Copy;

    /// The largest matrix that can be held.
    const SIZE_MAX: usize;

    /// A matrix of zeros.
    fn new(size: usize) -> Self;

    /// A finite number, or why it is none.
    fn parse(word: &str) -> Result<Self::Value, Problem>;

    /// Sets an element, with indices from 0. Whether it was not set before.
    fn put(&mut self, row: usize, column: usize, value: Self::Value) -> bool;
}

/// All elements, row by row.
pub(super) struct Dense {
    pub(super) size: usize,
    pub(super) values: Vec<f32>,
    is_set: Vec<bool>,
}

impl Elements for Dense {
    type Value = f32;

    /// Four gigabytes of elements.
    const SIZE_MAX: usize = 1 << 15;

    fn new(size: usize) -> Self {
        Self { size, values: vec![0.0; size * size], is_set: vec![false; size * size] }
    }

    fn parse(word: &str) -> Result<f32, Problem> {
        let value: f32 = number(word, "a number")?;
        if value.is_finite() { Ok(value) } else { Err(not_finite(word, "single")) }
    }

    fn put(&mut self, row: usize, column: usize, value: f32) -> bool {
        let index = row * self.size + column;
        self.values[index] = value;
        !std::mem::replace(&mut self.is_set[index], true)
    }
}

/// Only the elements that are given.
pub(super) struct Sparse {
    pub(super) size: usize,
    pub(super) values: BTreeMap<(usize, usize), f64>,
}

impl Elements for Sparse {
    type Value = f64;

    /// Two gigabytes of an x.
    const SIZE_MAX: usize = 1 << 28;

    fn new(size: usize) -> Self {
        Self { size, values: BTreeMap::new() }
    }

    fn parse(word: &str) -> Result<f64, Problem> {
        let value: f64 = number(word, "a number")?;
        if value.is_finite() { Ok(value) } else { Err(not_finite(word, "double")) }
    }

    fn put(&mut self, row: usize, column: usize, value: f64) -> bool {
        self.values.insert((row, column), value).is_none()
    }
}

fn not_finite(word: &str, precision: &'static str) -> Problem {
    Problem::NotFinite { word: word.to_owned(), precision }
}
