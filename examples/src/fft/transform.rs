//! The six steps, and what they are compared with.

use std::f64::consts::TAU;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ropeway::{Communicator, Error};
use rustfft::algorithm::Radix4;
use rustfft::num_complex::{Complex32, Complex64};
use rustfft::{Fft, FftDirection, FftPlanner};

use super::Transpose;
use super::transpose::Cut;
use crate::random::SplitMix;
use crate::{block, timed};

/// The points as a matrix, as square as powers of two can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows, which are not more than columns.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
}

/// Points that can't be dealt to these ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitSize {
    /// Not a power of two.
    #[error("{0} points are not a power of two; {next} would be", next = .0.next_power_of_two())]
    NotPowerOfTwo(usize),
    /// More ranks than rows.
    #[error("{ranks} ranks are too many for {rows} rows of {columns} points; use at most -n {rows}")]
    #[expect(missing_docs, reason = "the fields are named after what they hold")]
    TooManyRanks { ranks: u32, rows: usize, columns: usize },
}

impl Shape {
    /// The shape of so many points, of which each of the ranks has at least a row.
    pub fn new(points: usize, ranks: u32) -> Result<Self, UnfitSize> {
        if !points.is_power_of_two() {
            return Err(UnfitSize::NotPowerOfTwo(points));
        }
        let rows = 1 << (points.ilog2() / 2);
        let columns = points / rows;
        if ranks as usize > rows {
            Err(UnfitSize::TooManyRanks { ranks, rows, columns })
        } else {
            Ok(Self { rows, columns })
        }
    }

    /// The points that a rank has at first.
    pub fn before(self, rank: u32, ranks: u32) -> Range<usize> {
        let rows = block(self.rows, rank, ranks);
        rows.start * self.columns..rows.end * self.columns
    }

    /// The points that a rank has in the end. The same as at first, unless rows or columns can't be dealt evenly.
    pub fn after(self, rank: u32, ranks: u32) -> Range<usize> {
        let columns = block(self.columns, rank, ranks);
        columns.start * self.rows..columns.end * self.rows
    }
}

/// Where a rank's time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Everything.
    pub total: Duration,
    /// Transforms of columns and rows, and twiddle factors.
    pub transforms: Duration,
    /// Copies into and out of messages.
    pub packing: Duration,
    /// Within start and wait of the collectives.
    pub communication: Duration,
}

/// A transform that is prepared once: all-to-alls, twiddle factors, memory.
pub struct Transform {
    segments: u32,
    /// Steps 1, 4 and 6.
    to_columns: Transpose,
    to_rows: Transpose,
    to_order: Transpose,
    columns: Lines,
    rows: Lines,
    /// ω_n^(c·s) for the columns of this rank.
    twiddles: Vec<Complex32>,
}

/// A rank's columns or rows, and how one of them is transformed.
struct Lines {
    len: usize,
    points: Vec<Complex32>,
    fft: Arc<dyn Fft<f32>>,
    scratch: Vec<Complex32>,
}

impl Transform {
    /// Prepares the transform, its transpositions cut in so many segments.
    pub fn new(world: &Communicator, shape: Shape, segments: u32) -> Result<Self, Error> {
        let Shape { rows, columns } = shape;
        let (rank, ranks) = (world.rank(), world.size());
        let own_columns = block(columns, rank, ranks);
        Ok(Self {
            segments,
            to_columns: Transpose::new(world, rows, columns, Cut::Columns, segments)?,
            to_rows: Transpose::new(world, columns, rows, Cut::Lines, segments)?,
            to_order: Transpose::new(world, rows, columns, Cut::Lines, segments)?,
            columns: Lines::new(own_columns.len(), rows),
            rows: Lines::new(block(rows, rank, ranks).len(), columns),
            twiddles: own_columns.flat_map(|column| (0..rows).map(move |row| twiddle(shape, column, row))).collect(),
        })
    }

    /// Transforms all ranks' points: from [`Shape::before`] to [`Shape::after`].
    ///
    /// # Panics
    /// If there are not as many as that.
    pub fn run(&mut self, before: &[Complex32], after: &mut [Complex32]) -> Result<Times, Error> {
        let (begin, mut times) = (Instant::now(), Times::default());
        for segment in 0..self.segments {
            self.to_columns.start(segment, before, &mut times)?;
        }
        for segment in 0..self.segments {
            self.to_columns.finish(segment, &mut self.columns.points, &mut times)?;
            let ready = self.to_columns.own(segment);
            let twiddles = &self.twiddles[ready.start * self.columns.len..];
            timed(&mut times.transforms, || {
                let points = self.columns.transform(ready);
                points.iter_mut().zip(twiddles).for_each(|(point, twiddle)| *point *= twiddle);
            });
            self.to_rows.start(segment, &self.columns.points, &mut times)?;
        }
        for segment in 0..self.segments {
            self.to_rows.finish(segment, &mut self.rows.points, &mut times)?;
        }
        for segment in 0..self.segments {
            let next = self.to_order.own(segment);
            timed(&mut times.transforms, || {
                self.rows.transform(next);
            });
            self.to_order.start(segment, &self.rows.points, &mut times)?;
        }
        for segment in 0..self.segments {
            self.to_order.finish(segment, after, &mut times)?;
        }
        times.total = begin.elapsed();
        Ok(times)
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transform").field("segments", &self.segments).finish_non_exhaustive()
    }
}

impl Lines {
    fn new(count: usize, len: usize) -> Self {
        let fft = FftPlanner::new().plan_fft_forward(len);
        let scratch = vec![Complex32::default(); fft.get_inplace_scratch_len()];
        Self { len, points: vec![Complex32::default(); count * len], fft, scratch }
    }

    /// Transforms some of the lines, and returns them.
    fn transform(&mut self, lines: Range<usize>) -> &mut [Complex32] {
        let points = &mut self.points[lines.start * self.len..lines.end * self.len];
        self.fft.process_with_scratch(points, &mut self.scratch);
        points
    }
}

fn twiddle(shape: Shape, column: usize, row: usize) -> Complex32 {
    let angle = -TAU * (column * row) as f64 / (shape.rows * shape.columns) as f64;
    Complex32 { re: angle.cos() as f32, im: angle.sin() as f32 }
}

/// Some points of a signal that depends on `seed` alone: noise in the unit square.
pub fn signal(seed: u64, points: Range<usize>) -> Vec<Complex32> {
    let noise = |point| {
        let mut random = SplitMix::stream(seed, point as u64);
        Complex32 { re: random.next_unit(), im: random.next_unit() }
    };
    points.map(noise).collect()
}

/// Transforms all points, as many as a [`Shape`] has, in this process alone, in double precision.
pub fn transform_serially(points: &[Complex32]) -> Vec<Complex64> {
    let wider = |point: &Complex32| Complex64 { re: point.re.into(), im: point.im.into() };
    let mut points: Vec<_> = points.iter().map(wider).collect();
    // Every algorithm that a planner may choose takes its time to be compiled, in each precision.
    Radix4::new(points.len(), FftDirection::Forward).process(&mut points);
    points
}

/// The length of the difference of two vectors, relative to that of `reference`.
pub fn relative_error(vector: &[[f32; 2]], reference: &[Complex64]) -> f64 {
    let pairs = vector.iter().zip(reference);
    let differences = pairs.map(|(&[re, im], b)| (Complex64 { re: re.into(), im: im.into() } - b).norm_sqr());
    let size: f64 = reference.iter().map(Complex64::norm_sqr).sum();
    (differences.sum::<f64>() / size).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_as_square_as_can_be() {
        assert_eq!(Shape::new(1 << 10, 4), Ok(Shape { rows: 32, columns: 32 }));
        assert_eq!(Shape::new(1 << 11, 32), Ok(Shape { rows: 32, columns: 64 }));
        assert_eq!(Shape::new(1, 1), Ok(Shape { rows: 1, columns: 1 }));
        assert_eq!(Shape::new(1 << 11, 33), Err(UnfitSize::TooManyRanks { ranks: 33, rows: 32, columns: 64 }));
        assert_eq!(Shape::new(1000, 1).unwrap_err().to_string(), "1000 points are not a power of two; 1024 would be");
    }

    #[test]
    fn ranks_have_all_points_before_and_after() {
        let shape = Shape::new(1 << 7, 3).unwrap();
        for of_rank in [Shape::before, Shape::after] {
            let points: Vec<_> = (0..3).flat_map(|rank| of_rank(shape, rank, 3)).collect();
            assert_eq!(points, (0..128).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_wave_is_one_point_of_the_serial_transform() {
        let wave: Vec<_> = (0..16).map(|point| twiddle(Shape { rows: 4, columns: 4 }, point, 3)).collect();
        let mut expected = [[0.0; 2]; 16];
        expected[16 - 3] = [16.0, 0.0];
        let transformed = transform_serially(&wave);
        assert!(relative_error(&expected, &transformed) < 1e-6);
        expected.swap(3, 13);
        assert!(relative_error(&expected, &transformed) > 1.0);
    }
}
