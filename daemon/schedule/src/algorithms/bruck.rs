//! Bruck's algorithms: exchange with ranks 1, b, b², … further, b = k+1, for any size and any number of ports k.
//!
//! ⌈log_b p⌉ rounds. Blocks are collected in memory of their own, counted from one's own rank, and turned at the end.
//! *Allgather*: after the round of distance d one has the d·b blocks from its own on; the last round brings only what is
//! missing. *Alltoall*: the block for rank r+i goes the distances of the digits of i, one after the other; so a block
//! travels several times, and only short ones should.
//! Source: Bruck, Ho, Kipnis, Upfal, Weathersby, Efficient algorithms for all-to-all communications in multiport
//! message-passing systems, IEEE TPDS 8(11), 1997, §3 and §4. Seed 001, §4.2.2, turns the directions around, and then the
//! order at the end too.

use super::{Generator, Kind, foreign};
use crate::builder::Builder;
use crate::cost::Cost;
use crate::counts::{Counts, PairCounts};
use crate::error::Unsuitable;
use crate::patterns::{Rotation, digits_needed};
use crate::shape::{Collective, Shape};
use crate::step::Slice;

pub(super) static KIND: Kind = Kind {
    name: "bruck",
    takes: "1 to 4096 ports",
    usual: &[1],
    make: |parameters| match *parameters {
        [ports] if ports > 0 => Some(Box::new(Bruck { ports })),
        _ => None,
    },
    tries: |_| [1, 2, 3].map(|ports| vec![ports]).into(),
};

struct Bruck {
    ports: u32,
}

impl Generator for Bruck {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        match shape.collective {
            Collective::Allgather { .. } | Collective::Alltoall { counts: PairCounts::Same(_) } => Ok(()),
            Collective::Alltoall { .. } => Err(Unsuitable::NeedsSameCounts),
            _ => Err(Unsuitable::Operation),
        }
    }

    fn build(&self, b: &mut Builder) {
        match &b.shape.collective {
            Collective::Allgather { counts } => self.allgather(b, counts),
            &Collective::Alltoall { counts: PairCounts::Same(count) } => self.alltoall(b, count),
            _ => unreachable!("other operations do not suit"),
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let rounds = f64::from(digits_needed(self.ports + 1, shape.size));
        let messages = self.messages(shape.size).len() as f64;
        let startup = Cost::rounds(rounds).further_exchanges(messages - rounds);
        match &shape.collective {
            Collective::Allgather { counts } => {
                let total = counts.offset(shape.size) as f64;
                startup.moved(total * foreign(shape.size)).copied(total)
            }
            Collective::Alltoall { counts: PairCounts::Same(count) } => {
                let travelling = self.travelling(shape.size) as f64 * *count as f64;
                let all = f64::from(shape.size) * *count as f64;
                startup.moved(travelling).copied(2.0 * travelling + 2.0 * all)
            }
            _ => Cost::default(),
        }
    }
}

impl Bruck {
    /// Distance and digit of each message.
    fn messages(&self, size: u32) -> Vec<(u32, u32)> {
        let base = self.ports + 1;
        let distances = (0..digits_needed(base, size)).map(|digit| base.pow(digit));
        let all = distances.flat_map(|distance| (1..base).map(move |digit| (distance, digit)));
        all.filter(|&(distance, digit)| u64::from(digit) * u64::from(distance) < u64::from(size)).collect()
    }

    /// Blocks of an alltoall that one participant sends.
    fn travelling(&self, size: u32) -> usize {
        let messages = self.messages(size);
        messages
            .iter()
            .map(|&(distance, digit)| runs(size, self.ports + 1, distance, digit).map(|run| run.len()).sum::<usize>())
            .sum()
    }

    fn allgather(&self, b: &mut Builder, counts: &Counts) {
        let me = Rotation::new(b.me, b.size);
        let from_me = turned(counts, me, b.size);
        let length = counts.count(b.me);
        let own = if b.shape.is_in_place { b.output(counts.offset(b.me), length) } else { b.input(0, length) };
        let held = b.scratch(counts.offset(b.size));
        b.copy(own, held.part(0, length));
        for (distance, digit) in self.messages(b.size) {
            let (first, blocks) = (digit * distance, distance.min(b.size - digit * distance));
            // My receiver counts from its own rank: what it lacks is what I have first.
            let (to, from) = (me.rank(b.size - first), me.rank(first));
            b.send(to, held.part(0, from_me.offset(blocks)));
            b.recv(from, held.part(from_me.offset(first), from_me.span(first, first + blocks)));
        }
        // My rank's block begins the rest of the output, rank 0's the part before it.
        let up_to_last = from_me.offset(b.size - b.me);
        let rest = held.length - up_to_last;
        let (upper, lower) = (b.output(counts.offset(b.me), up_to_last), b.output(0, rest));
        b.copy(held.part(0, up_to_last), upper);
        b.copy(held.part(up_to_last, rest), lower);
    }

    fn alltoall(&self, b: &mut Builder, count: u64) {
        let base = self.ports + 1;
        let me = Rotation::new(b.me, b.size);
        let held = b.scratch(count * u64::from(b.size));
        let blocks = |first: u32, number: u32| held.part(u64::from(first) * count, u64::from(number) * count);
        let mine = |b: &Builder, first: u32, number: u32| b.input(u64::from(first) * count, u64::from(number) * count);
        // Block i is the one for the rank i places further.
        let (upper, lower) = (mine(b, b.me, b.size - b.me), mine(b, 0, b.me));
        b.copy(upper, blocks(0, b.size - b.me));
        b.copy(lower, blocks(b.size - b.me, b.me));
        for (distance, digit) in self.messages(b.size) {
            let runs: Vec<_> = runs(b.size, base, distance, digit).collect();
            let length = runs.iter().map(|run| run.len() as u64 * count).sum();
            let (outgoing, incoming) = (b.scratch(length), b.scratch(length));
            let mut at = 0;
            let mut places: Vec<(Slice, u64)> = Vec::with_capacity(runs.len());
            for run in runs {
                let slice = blocks(run.start, run.end - run.start);
                b.copy(slice, outgoing.part(at, slice.length));
                places.push((slice, at));
                at += slice.length;
            }
            b.send(me.rank(digit * distance), outgoing);
            b.recv(me.rank(b.size - digit * distance), incoming);
            for (slice, at) in places {
                b.copy(incoming.part(at, slice.length), slice);
            }
        }
        // Block i has come from the rank i places before.
        for index in 0..b.size {
            let block = b.output(u64::from(me.rank(b.size - index)) * count, count);
            b.copy(blocks(index, 1), block);
        }
    }
}

/// Blocks whose number has this digit in the place of this distance.
fn runs(size: u32, base: u32, distance: u32, digit: u32) -> impl Iterator<Item = std::ops::Range<u32>> {
    let period = u64::from(distance) * u64::from(base);
    let first = u64::from(digit * distance);
    (0..).map(move |turn| first + turn * period).take_while(move |&start| start < u64::from(size)).map(move |start| {
        let end = (start + u64::from(distance)).min(u64::from(size));
        start as u32..end as u32
    })
}

/// Counts in the order one meets them from a rank on.
fn turned(counts: &Counts, from: Rotation, size: u32) -> Counts {
    match counts.same_count() {
        Some(count) => Counts::same(count),
        None => Counts::each(&(0..size).map(|index| counts.count(from.rank(index))).collect::<Vec<_>>()),
    }
}
