//! Direct exchange in groups, a digit of the rank after the other; the vector gets shorter each time.
//!
//! In the round of radix k a group of k ranks cuts what it still holds into k pieces, and each of them combines one: k−1
//! messages at the same time. `[2, 2, …]` is recursive halving, `[p]` is direct exchange. Nearest ranks first keeps rank
//! order, and leaves the pieces in digit-reversed order, which is why they go back by the same way. Farthest first leaves
//! piece r with rank r, but mixes operands.
//! Source: seed 000 (reductions), §2.4, after Peterka et al., A configurable algorithm for parallel image-compositing
//! applications, SC 2009.

use super::{Generator, Kind, commutative, foreign, grouped};
use crate::builder::{Accumulator, Builder};
use crate::cost::Cost;
use crate::counts::Counts;
use crate::error::Unsuitable;
use crate::patterns::Digit;
use crate::shape::{Collective, Shape};
use crate::step::Side;

pub(super) static KIND: Kind = Kind {
    name: "radix-k",
    takes: "radices of 2 to 4096 each, such as 4,4,8",
    usual: &[],
    make: |parameters| match parameters.iter().min() {
        Some(0 | 1) => None,
        _ => Some(Box::new(RadixK { radices: parameters.into() })),
    },
    tries: |question| vec![radices(question.shape.size.max(1))],
};

struct RadixK {
    /// None: chosen by the size.
    radices: Vec<u32>,
}

impl Generator for RadixK {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        match shape.collective {
            Collective::Reduce { order, .. } | Collective::Allreduce { order, .. } => grouped(order)?,
            Collective::ReduceScatter { order, .. } => commutative(order)?,
            _ => return Err(Unsuitable::Operation),
        }
        let product = self.radices.iter().try_fold(1_u32, |product, &radix| product.checked_mul(radix));
        if self.radices.is_empty() || product == Some(shape.size) { Ok(()) } else { Err(Unsuitable::NeedsProduct) }
    }

    fn build(&self, b: &mut Builder) {
        let rounds = Digit::places(&self.radices(b.size));
        let me = b.me;
        match &b.shape.collective {
            &Collective::Reduce { root, count, .. } => {
                let operand = b.input(0, count);
                let home = if me == root { b.output(0, count) } else { b.scratch(count) };
                let mut sum = Accumulator::new(operand, home);
                let core = Core { me, rounds: &rounds, rank_of: &|rank| rank };
                core.reduce(b, root, &mut sum);
                if me == root {
                    sum.settle(b);
                }
            }
            &Collective::Allreduce { count, .. } => {
                let mut sum = Accumulator::new(b.input(0, count), b.output(0, count));
                let core = Core { me, rounds: &rounds, rank_of: &|rank| rank };
                core.allreduce(b, &mut sum);
                sum.settle(b);
            }
            Collective::ReduceScatter { counts, .. } => {
                let farthest_first: Vec<_> = rounds.iter().rev().copied().collect();
                let core = Core { me, rounds: &farthest_first, rank_of: &|rank| rank };
                let total = counts.offset(b.size);
                let operand = b.input(0, total);
                let home = b.scratch(total);
                let held = core.reduce_scatter(b, counts, &Accumulator::new(operand, home));
                let output = b.output(0, counts.count(me));
                b.copy(held.value(), output);
            }
            _ => unreachable!("other operations do not suit"),
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        cost(shape, &self.radices(shape.size))
    }
}

impl RadixK {
    fn radices(&self, size: u32) -> Vec<u32> {
        if self.radices.is_empty() { radices(size) } else { self.radices.clone() }
    }
}

/// Factors of a size: fours, a two, then other primes.
fn radices(mut size: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut factor = 4;
    while size > 1 {
        while size.is_multiple_of(factor) {
            found.push(factor);
            size /= factor;
        }
        factor = match factor {
            4 => 2,
            2 => 3,
            // The rest is a prime.
            _ if u64::from(factor) * u64::from(factor) > u64::from(size) => size,
            _ => factor + 2,
        };
    }
    found
}

/// What the rounds cost: down, and back for those who want it all.
pub(super) fn cost(shape: &Shape, radices: &[u32]) -> Cost {
    let size: u32 = radices.iter().product();
    let rounds = radices.len() as f64;
    let messages = radices.iter().map(|&radix| f64::from(radix - 1)).sum::<f64>();
    let startup = Cost::rounds(rounds).further_exchanges(messages - rounds);
    let down = |count: u64| {
        let elements = count as f64 * foreign(size);
        startup.moved(elements).combined(elements)
    };
    let back = |count: u64| startup.moved(count as f64 * foreign(size));
    match &shape.collective {
        Collective::Reduce { count, .. } | Collective::Allreduce { count, .. } => down(*count) + back(*count),
        Collective::ReduceScatter { counts, .. } => {
            down(counts.offset(shape.size)).copied(counts.offset(shape.size) as f64 / f64::from(size))
        }
        _ => Cost::default(),
    }
}

/// Participants whose number is the product of the radices, one of which is me.
pub(super) struct Core<'a> {
    pub(super) me: u32,
    pub(super) rounds: &'a [Digit],
    /// Who a member is.
    pub(super) rank_of: &'a dyn Fn(u32) -> u32,
}

impl Core<'_> {
    fn size(&self) -> u32 {
        self.rounds.iter().map(|round| round.radix).product()
    }

    /// Which pieces one holds before each round and after the last one: first and last.
    fn held(&self) -> Vec<(u32, u32)> {
        let mut held = vec![(0, self.size())];
        for round in self.rounds {
            held.push(sub_range(*held.last().expect("there is a first"), round, round.of(self.me)));
        }
        held
    }

    /// Combines the vector among the core: everybody ends with one piece of it, in its home.
    pub(super) fn reduce_scatter(&self, b: &mut Builder, pieces: &Counts, whole: &Accumulator) -> Accumulator {
        let mut sum = *whole;
        for (round, held) in self.rounds.iter().zip(self.held()) {
            let mine = round.of(self.me);
            let peer = |digit| (self.rank_of)(round.with(self.me, digit));
            let part = |digit| {
                let (first, last) = sub_range(held, round, digit);
                (pieces.span(held.0, first), pieces.span(first, last))
            };
            for distance in 1..round.radix {
                let digit = (mine + distance) % round.radix;
                let (offset, length) = part(digit);
                b.send(peer(digit), sum.value().part(offset, length));
            }
            let (offset, length) = part(mine);
            sum = sum.part(offset, length);
            (0..mine).rev().for_each(|digit| sum.recv(b, peer(digit), Side::Left));
            (mine + 1..round.radix).for_each(|digit| sum.recv(b, peer(digit), Side::Right));
        }
        sum
    }

    /// Everybody's pieces go back to everybody.
    pub(super) fn allreduce(&self, b: &mut Builder, whole: &mut Accumulator) {
        let pieces = Counts::even(whole.home().length, self.size());
        self.reduce_scatter(b, &pieces, whole).settle(b);
        for (round, held) in self.rounds.iter().zip(self.held()).rev() {
            let mine = round.of(self.me);
            let peer = |digit| (self.rank_of)(round.with(self.me, digit));
            let slice = |digit| {
                let (first, last) = sub_range(held, round, digit);
                whole.home().part(pieces.offset(first), pieces.span(first, last))
            };
            let others = (1..round.radix).map(|distance| (mine + distance) % round.radix);
            for digit in others.clone() {
                b.send(peer(digit), slice(mine));
            }
            for digit in others {
                b.recv(peer(digit), slice(digit));
            }
        }
        whole.set_home();
    }

    /// Everybody's pieces go back to one member.
    pub(super) fn reduce(&self, b: &mut Builder, root: u32, whole: &mut Accumulator) {
        let pieces = Counts::even(whole.home().length, self.size());
        self.reduce_scatter(b, &pieces, whole).settle(b);
        for (round, held) in self.rounds.iter().zip(self.held()).rev() {
            let (mine, roots) = (round.of(self.me), round.of(root));
            let peer = |digit| (self.rank_of)(round.with(self.me, digit));
            let slice = |digit| {
                let (first, last) = sub_range(held, round, digit);
                whole.home().part(pieces.offset(first), pieces.span(first, last))
            };
            if mine != roots {
                b.send(peer(roots), slice(mine));
                return;
            }
            for digit in (1..round.radix).map(|distance| (mine + distance) % round.radix) {
                b.recv(peer(digit), slice(digit));
            }
        }
        whole.set_home();
    }
}

/// The pieces that the member with this digit goes on with.
fn sub_range((first, last): (u32, u32), round: &Digit, digit: u32) -> (u32, u32) {
    let length = (last - first) / round.radix;
    (first + digit * length, first + (digit + 1) * length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radices_multiply_to_the_size() {
        for size in 1..500_u32 {
            assert_eq!(radices(size).iter().product::<u32>(), size);
        }
        assert_eq!(radices(128), [4, 4, 4, 2]);
        assert_eq!(radices(60), [4, 3, 5]);
    }
}
