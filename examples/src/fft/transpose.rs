//! The transposition of a matrix whose lines are dealt to the ranks.

use std::ops::Range;

use ropeway::{Collective, Communicator, Error};
use rustfft::num_complex::Complex32;

use super::Times;
use crate::{block, timed};

/// A transposition in segments, each of them an all-to-all that is bound once.
///
/// Before it, a rank has a block of the lines; after it a block of the columns, stored as lines.
///
/// ```text
///   cut by lines          cut by columns                  after, on rank 1
///  rank 0  ─ segment 0    │ │ : │ │                      its columns, as lines:
///          ─ segment 1    │ │ : │ │                      segments bring places 0, 1, 0, 1 of all of them,
///  rank 1  ─ segment 0    │ │ : │ │                      or all of some of them
///          ─ segment 1    0 1   0 1  ◄ segments
/// ```
#[derive(Debug)]
pub struct Transpose {
    pieces: Pieces,
    exchanges: Vec<Collective<[f32; 2]>>,
}

/// Which lines make a segment.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    /// Some of those each rank has before: they leave one after the other.
    Lines,
    /// Some of those each rank has afterwards: they arrive one after the other.
    Columns,
}

impl Transpose {
    pub(super) fn new(
        world: &Communicator,
        lines: usize,
        columns: usize,
        cut: Cut,
        segments: u32,
    ) -> Result<Self, Error> {
        let pieces = Pieces { lines, columns, cut, segments, rank: world.rank(), ranks: world.size() };
        let bind = |segment| world.alltoallv_init(&pieces.counts(segment));
        let exchanges = (0..segments).map(bind).collect::<Result<_, _>>()?;
        Ok(Self { pieces, exchanges })
    }

    /// Sends a segment of this rank's lines on its way.
    pub(super) fn start(&mut self, segment: u32, lines: &[Complex32], times: &mut Times) -> Result<(), Error> {
        let exchange = &mut self.exchanges[segment as usize];
        timed(&mut times.packing, || self.pieces.pack(segment, lines, exchange.input_mut()));
        let _found_again_by_finish = timed(&mut times.communication, || exchange.start())?;
        Ok(())
    }

    /// Waits for a segment, and puts it into this rank's columns.
    pub(super) fn finish(&mut self, segment: u32, columns: &mut [Complex32], times: &mut Times) -> Result<(), Error> {
        let exchange = &mut self.exchanges[segment as usize];
        let active = exchange.active().expect("the segment has been started");
        timed(&mut times.communication, || active.wait())?;
        timed(&mut times.packing, || self.pieces.unpack(segment, exchange.output(), columns));
        Ok(())
    }

    /// Places of a segment within this rank's lines, or columns if those are cut.
    pub(super) fn own(&self, segment: u32) -> Range<usize> {
        let Pieces { lines, columns, cut, rank, ranks, .. } = self.pieces;
        let (cut_ones, count) = match cut {
            Cut::Lines => (self.pieces.lines_of(segment, rank), lines),
            Cut::Columns => (self.pieces.columns_of(segment, rank), columns),
        };
        let first = block(count, rank, ranks).start;
        cut_ones.start - first..cut_ones.end - first
    }
}

/// Which elements a segment takes where.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    lines: usize,
    columns: usize,
    cut: Cut,
    segments: u32,
    rank: u32,
    ranks: u32,
}

impl Pieces {
    /// Lines of which `rank` has something in a segment.
    fn lines_of(&self, segment: u32, rank: u32) -> Range<usize> {
        let own = block(self.lines, rank, self.ranks);
        if matches!(self.cut, Cut::Lines) { self.segment(own, segment) } else { own }
    }

    /// Columns of which `rank` gets something in a segment.
    fn columns_of(&self, segment: u32, rank: u32) -> Range<usize> {
        let own = block(self.columns, rank, self.ranks);
        if matches!(self.cut, Cut::Columns) { self.segment(own, segment) } else { own }
    }

    fn segment(&self, own: Range<usize>, segment: u32) -> Range<usize> {
        let part = block(own.len(), segment, self.segments);
        own.start + part.start..own.start + part.end
    }

    /// Elements from each rank to each.
    fn counts(&self, segment: u32) -> Vec<usize> {
        let pairs = (0..self.ranks).flat_map(|from| (0..self.ranks).map(move |to| (from, to)));
        pairs.map(|(from, to)| self.lines_of(segment, from).len() * self.columns_of(segment, to).len()).collect()
    }

    /// For each rank what it gets of this rank's lines, line by line.
    fn pack(&self, segment: u32, lines: &[Complex32], message: &mut [[f32; 2]]) {
        let first = block(self.lines, self.rank, self.ranks).start;
        let mut places = message.iter_mut();
        for to in 0..self.ranks {
            let columns = self.columns_of(segment, to);
            for line in self.lines_of(segment, self.rank) {
                let line = &lines[(line - first) * self.columns..][..self.columns];
                for (element, place) in line[columns.clone()].iter().zip(&mut places) {
                    *place = [element.re, element.im];
                }
            }
        }
    }

    /// What came from each rank, into this rank's columns.
    fn unpack(&self, segment: u32, message: &[[f32; 2]], columns: &mut [Complex32]) {
        let first = block(self.columns, self.rank, self.ranks).start;
        let mut elements = message.iter();
        for from in 0..self.ranks {
            for line in self.lines_of(segment, from) {
                for (column, &[re, im]) in self.columns_of(segment, self.rank).zip(&mut elements) {
                    columns[(column - first) * self.lines + line] = Complex32 { re, im };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exchanges all segments between all ranks, without any, and returns what they have in the end.
    fn transposed(lines: usize, columns: usize, cut: Cut, segments: u32, ranks: u32) -> Vec<Complex32> {
        let pieces = |rank| Pieces { lines, columns, cut, segments, rank, ranks };
        let element = |index: usize| Complex32 { re: index as f32, im: -(index as f32) };
        let part_of = |rank| {
            let block = block(lines, rank, ranks);
            (block.start * columns..block.end * columns).map(element).collect::<Vec<_>>()
        };
        let mut after: Vec<_> =
            (0..ranks).map(|rank| vec![Complex32::default(); block(columns, rank, ranks).len() * lines]).collect();
        for segment in 0..segments {
            let counts = pieces(0).counts(segment);
            let count = |from: u32, to: u32| counts[(from * ranks + to) as usize];
            let mut sent: Vec<Vec<[f32; 2]>> = (0..ranks)
                .map(|from| {
                    let mut message = vec![[f32::NAN; 2]; (0..ranks).map(|to| count(from, to)).sum()];
                    pieces(from).pack(segment, &part_of(from), &mut message);
                    message
                })
                .collect();
            for to in 0..ranks {
                let message: Vec<_> = (0..ranks)
                    .flat_map(|from| sent[from as usize].drain(..count(from, to)).collect::<Vec<_>>())
                    .collect();
                pieces(to).unpack(segment, &message, &mut after[to as usize]);
            }
        }
        after.concat()
    }

    #[test]
    fn lines_become_columns_however_they_are_cut() {
        for (lines, columns, segments, ranks) in
            [(1, 1, 1, 1), (4, 6, 1, 2), (5, 3, 2, 3), (16, 32, 5, 3), (3, 4, 8, 3)]
        {
            let expected: Vec<_> =
                (0..lines * columns).map(|place| (place % lines * columns + place / lines) as f32).collect();
            for cut in [Cut::Lines, Cut::Columns] {
                let found = transposed(lines, columns, cut, segments, ranks);
                assert!(found.iter().all(|element| element.im == -element.re));
                assert_eq!(found.iter().map(|element| element.re).collect::<Vec<_>>(), expected, "{cut:?}");
            }
        }
    }
}
