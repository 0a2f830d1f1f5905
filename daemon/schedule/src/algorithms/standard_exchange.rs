//! Recursive doubling with k peers a round: ranks exchange with those that differ in one digit to base k+1.
//!
//! log_{k+1} p rounds, for powers of k+1. Blocks land where they belong, and peers are the same in both directions.
//! Source: seed 001 (Inozemtsev 2014), §4.2.1 and table 4.1; the text prints the peers of Bruck's algorithm, figures 4.1
//! and 4.2 show these.

use super::linear::place_own;
use super::recursive_doubling::exchange;
use super::{Generator, Kind, foreign, grouped};
use crate::builder::{Accumulator, Builder};
use crate::cost::Cost;
use crate::counts::Counts;
use crate::error::Unsuitable;
use crate::patterns::{Digit, power_of};
use crate::shape::{Collective, Shape};

pub(super) static KIND: Kind = Kind {
    name: "standard-exchange",
    takes: "1 to 4096 ports",
    usual: &[1],
    make: |parameters| match *parameters {
        [ports] if ports > 0 => Some(Box::new(StandardExchange { ports })),
        _ => None,
    },
    tries: |_| [1, 2, 3, 7].map(|ports| vec![ports]).into(),
};

struct StandardExchange {
    ports: u32,
}

impl Generator for StandardExchange {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        match shape.collective {
            Collective::Barrier | Collective::Allgather { .. } => {}
            Collective::Allreduce { order, .. } => grouped(order)?,
            _ => return Err(Unsuitable::Operation),
        }
        let base = self.ports + 1;
        if power_of(base, shape.size).is_some() { Ok(()) } else { Err(Unsuitable::NeedsPower { base }) }
    }

    fn build(&self, b: &mut Builder) {
        let base = self.ports + 1;
        match &b.shape.collective {
            Collective::Barrier => barrier(b, base),
            Collective::Allgather { counts } => exchange_blocks(b, counts, base),
            &Collective::Allreduce { count, .. } => {
                let mut sum = Accumulator::new(b.input(0, count), b.output(0, count));
                exchange(b, &rounds(base, b.size), b.me, |rank| rank, &mut sum);
                sum.settle(b);
            }
            _ => unreachable!("other operations do not suit"),
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let rounds = rounds(self.ports + 1, shape.size).len() as f64;
        let ports = f64::from(self.ports);
        let startup = Cost::rounds(rounds).further_exchanges(rounds * (ports - 1.0));
        match &shape.collective {
            Collective::Allgather { counts } => startup.moved(counts.offset(shape.size) as f64 * foreign(shape.size)),
            Collective::Allreduce { count, .. } => {
                let elements = rounds * ports * *count as f64;
                startup.moved(elements).combined(elements)
            }
            _ => startup,
        }
    }
}

fn rounds(base: u32, size: u32) -> Vec<Digit> {
    Digit::places(&vec![base; power_of(base, size).expect("only powers suit") as usize])
}

/// In each round one learns of everybody its peers have learnt of.
pub(super) fn barrier(b: &mut Builder, base: u32) {
    let mut heard = Vec::new();
    for round in rounds(base, b.size) {
        let peers = others(round, b.me);
        peers.iter().for_each(|&peer| b.signal(peer));
        heard.extend(peers.iter().map(|&peer| b.wait(peer)));
        b.hold_until(heard.iter().copied());
    }
}

/// Before the round of stride s everybody has the s blocks of its group, and tells them to its peers.
pub(super) fn exchange_blocks(b: &mut Builder, counts: &Counts, base: u32) {
    place_own(b, counts);
    for round in rounds(base, b.size) {
        let group = |b: &Builder, rank: u32| {
            let first = rank - rank % round.stride;
            b.output(counts.offset(first), counts.span(first, first + round.stride))
        };
        let peers = others(round, b.me);
        let held = group(b, b.me);
        for &peer in &peers {
            b.send(peer, held);
        }
        for &peer in &peers {
            let blocks = group(b, peer);
            b.recv(peer, blocks);
        }
    }
}

fn others(round: Digit, me: u32) -> Vec<u32> {
    let mine = round.of(me);
    (1..round.radix).map(|distance| round.with(me, (mine + distance) % round.radix)).collect()
}
