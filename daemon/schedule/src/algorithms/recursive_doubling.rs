//! Exchange with ranks 1, 2, 4, … away.
//!
//! ⌈log2 p⌉ rounds, in each of which everybody sends all it has: best for small vectors. Sizes beyond a power of two are
//! folded first ([`Fold`]). Scans send one way only, to ranks 1, 2, 4, … further (Hillis, Steele, Data parallel algorithms,
//! CACM 29(12), 1986), which suits any size. Source: Thakur, Rabenseifner, Gropp, IJHPCA 19(1), 2005, §4.4; the barrier is
//! that of seed 001 (Inozemtsev 2014), table 2.2.

use super::standard_exchange::{barrier, exchange_blocks};
use super::{Generator, Kind, grouped, log2};
use crate::builder::{Accumulator, Builder};
use crate::cost::Cost;
use crate::error::Unsuitable;
use crate::patterns::{Digit, Fold, Role, digits_needed, power_of};
use crate::shape::{Collective, Shape};
use crate::step::Side;

pub(super) static KIND: Kind = Kind::plain::<RecursiveDoubling>("recursive-doubling");

#[derive(Default)]
struct RecursiveDoubling;

impl Generator for RecursiveDoubling {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        match shape.collective {
            Collective::Barrier | Collective::Allgather { .. } if power_of(2, shape.size).is_none() => {
                Err(Unsuitable::NeedsPower { base: 2 })
            }
            Collective::Barrier | Collective::Allgather { .. } => Ok(()),
            Collective::Allreduce { order, .. } | Collective::Scan { order, .. } | Collective::Exscan { order, .. } => {
                grouped(order)
            }
            _ => Err(Unsuitable::Operation),
        }
    }

    fn build(&self, b: &mut Builder) {
        let halvings = digits_needed(2, b.size) as usize;
        match &b.shape.collective {
            Collective::Barrier => barrier(b, 2),
            Collective::Allgather { counts } => exchange_blocks(b, counts, 2),
            &Collective::Allreduce { count, .. } => {
                let mut sum = Accumulator::new(b.input(0, count), b.output(0, count));
                let fold = Fold::new(b.size, None);
                folded(b, &fold, &mut sum, |b, core, sum| {
                    let rounds = Digit::places(&vec![2; fold.core().ilog2() as usize]);
                    exchange(b, &rounds, core, |core| fold.rank(core), sum);
                });
            }
            &Collective::Scan { count, .. } => {
                let mut sum = Accumulator::new(b.input(0, count), b.output(0, count));
                scan(b, halvings, &mut sum);
                sum.settle(b);
            }
            &Collective::Exscan { count, .. } => exscan(b, halvings, count),
            _ => unreachable!("other operations do not suit"),
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let rounds = log2(shape.size);
        match &shape.collective {
            Collective::Barrier => Cost::rounds(rounds),
            Collective::Allgather { counts } => {
                Cost::rounds(rounds).moved(counts.offset(shape.size) as f64 * super::foreign(shape.size))
            }
            Collective::Allreduce { count, .. } => {
                let core = f64::from(shape.size.ilog2());
                let folding = if shape.size.is_power_of_two() { 0.0 } else { 2.0 };
                let count = *count as f64;
                Cost::rounds(core + folding).moved((core + folding) * count).combined((core + folding / 2.0) * count)
            }
            Collective::Scan { count, .. } | Collective::Exscan { count, .. } => {
                let is_exscan = matches!(shape.collective, Collective::Exscan { .. });
                let each = if is_exscan { 2.0 } else { 1.0 };
                Cost::rounds(rounds).moved(rounds * *count as f64).combined(each * rounds * *count as f64)
            }
            _ => Cost::default(),
        }
    }
}

/// Does something among a power of two of participants, for all of them, in the sum's home.
pub(super) fn folded(
    b: &mut Builder,
    fold: &Fold,
    sum: &mut Accumulator,
    among_core: impl FnOnce(&mut Builder, u32, &mut Accumulator),
) {
    match fold.role(b.me) {
        Role::Folded { proxy } => {
            b.send(proxy, sum.value());
            b.recv(proxy, sum.home());
        }
        Role::Proxy { core, folded, side } => {
            sum.recv(b, folded, side);
            among_core(b, core, sum);
            sum.settle(b);
            b.send(folded, sum.home());
        }
        Role::Single { core } => {
            among_core(b, core, sum);
            sum.settle(b);
        }
    }
}

/// Everybody of a group tells all it has to all others of it, digit by digit. All combine that in rank order and from the left,
/// so that they get the same to the bit.
pub(super) fn exchange(
    b: &mut Builder,
    rounds: &[Digit],
    me: u32,
    rank_of: impl Fn(u32) -> u32,
    sum: &mut Accumulator,
) {
    for round in rounds {
        let mine = round.of(me);
        let peer = |digit| rank_of(round.with(me, digit));
        for distance in 1..round.radix {
            b.send(peer((mine + distance) % round.radix), sum.value());
        }
        sum.recv_before(b, (0..mine).map(peer));
        (mine + 1..round.radix).for_each(|digit| sum.recv(b, peer(digit), Side::Right));
    }
}

/// After the round of distance d, everybody has combined the 2d operands that end with its own.
fn scan(b: &mut Builder, rounds: usize, sum: &mut Accumulator) {
    for distance in (0..rounds).map(|round| 1 << round) {
        if b.me + distance < b.size {
            b.send(b.me + distance, sum.value());
        }
        if b.me >= distance {
            sum.recv(b, b.me - distance, Side::Left);
        }
    }
}

/// A scan, and beside it the same without one's own operand.
fn exscan(b: &mut Builder, rounds: usize, count: u64) {
    let operand = b.input(0, count);
    let output = b.output(0, count);
    let is_in_place = operand == output;
    let window = b.scratch(count);
    let mut sum = Accumulator::new(operand, window);
    if is_in_place && b.me > 0 {
        // The result takes the operand's place.
        sum.settle(b);
    }
    for distance in (0..rounds).map(|round| 1 << round) {
        if b.me + distance < b.size {
            b.send(b.me + distance, sum.value());
        }
        if b.me < distance {
            continue;
        }
        let before = b.scratch(count);
        b.recv(b.me - distance, before);
        if distance == 1 {
            b.copy(before, output);
        } else {
            b.combine(before, output, Side::Left);
        }
        // Who has nobody further to tell needs no window.
        if b.me + 2 * distance < b.size {
            sum.settle(b);
            b.combine(before, sum.home(), Side::Left);
        }
    }
}
