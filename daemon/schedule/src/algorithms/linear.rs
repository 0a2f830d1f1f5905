//! Everybody with the root, or with everybody, directly: no step waits for another participant's step but those it must.
//!
//! Few steps and the most messages; best for few participants, and the only choice where nobody knows others' counts.
//! Reductions are folded from the left, so their result is the same to the last bit whatever happens.

use super::pairwise::{combine_blocks, each_other};
use super::{Generator, Kind};
use crate::builder::Builder;
use crate::cost::Cost;
use crate::counts::{Counts, PairCounts};
use crate::error::Unsuitable;
use crate::neighborhood::Neighborhood;
use crate::shape::{Collective, Shape};
use crate::step::{Side, Slice};

pub(super) static KIND: Kind = Kind::plain::<Linear>("linear");

#[derive(Default)]
struct Linear;

impl Generator for Linear {
    fn suits(&self, _: &Shape) -> Result<(), Unsuitable> {
        Ok(())
    }

    fn build(&self, b: &mut Builder) {
        match &b.shape.collective {
            Collective::Barrier => barrier(b),
            &Collective::Bcast { root, count } => bcast(b, root, count),
            &Collective::Reduce { root, count, .. } => reduce(b, root, count),
            &Collective::Allreduce { count, .. } => {
                reduce(b, 0, count);
                let output = b.output(0, count);
                spread(b, 0, output);
            }
            Collective::ReduceScatter { counts, .. } => {
                let operands = combine_blocks(b, counts, false);
                finish_blocks(b, counts, &operands);
            }
            &Collective::Scan { count, .. } => scan(b, count),
            &Collective::Exscan { count, .. } => exscan(b, count),
            Collective::Gather { root, counts } => gather(b, *root, counts),
            Collective::Scatter { root, counts } => scatter(b, *root, counts),
            Collective::Allgather { counts } => allgather(b, counts),
            Collective::Alltoall { counts } => alltoall(b, counts),
            Collective::NeighborAllgather { neighborhood, count } => neighbors(b, neighborhood, *count, false),
            Collective::NeighborAlltoall { neighborhood, count } => neighbors(b, neighborhood, *count, true),
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let p = f64::from(shape.size);
        let others = p - 1.0;
        let directly = |block: f64| Cost::rounds(1).further(others - 1.0).moved(others * block);
        let exchanges = Cost::rounds(1).further_exchanges(others - 1.0);
        let rest = |counts: &Counts| (counts.offset(shape.size) as f64) * others / p;
        match &shape.collective {
            Collective::Barrier => directly(0.0) + directly(0.0),
            Collective::Bcast { count, .. } => directly(*count as f64),
            Collective::Reduce { count, .. } => directly(*count as f64).combined(others * *count as f64),
            Collective::Allreduce { count, .. } => {
                directly(*count as f64).combined(others * *count as f64) + directly(*count as f64)
            }
            Collective::ReduceScatter { counts, .. } => {
                exchanges.moved(rest(counts)).combined(rest(counts)).copied(rest(counts) / others)
            }
            Collective::Scan { count, .. } | Collective::Exscan { count, .. } => {
                Cost::rounds(others).moved(others * *count as f64).combined(others * *count as f64)
            }
            Collective::Gather { counts, .. } | Collective::Scatter { counts, .. } => directly(0.0).moved(rest(counts)),
            Collective::Allgather { counts } => exchanges.moved(rest(counts)),
            Collective::Alltoall { counts } => {
                let mine = counts.row(shape.size, 0).offset(shape.size) as f64;
                let copied = if shape.is_in_place { mine } else { 0.0 };
                exchanges.moved(mine * others / p).copied(copied)
            }
            Collective::NeighborAllgather { neighborhood, count }
            | Collective::NeighborAlltoall { neighborhood, count } => {
                let most = (0..shape.size).map(|rank| neighborhood.destinations(rank).len()).max().unwrap_or(0) as f64;
                Cost::rounds(most.min(1.0)).further_exchanges(most - 1.0).moved(most * *count as f64)
            }
        }
    }
}

fn barrier(b: &mut Builder) {
    if b.me == 0 {
        let arrived: Vec<_> = (1..b.size).map(|peer| b.wait(peer)).collect();
        b.hold_until(arrived);
        (1..b.size).for_each(|peer| b.signal(peer));
    } else {
        b.signal(0);
        b.wait(0);
    }
}

fn bcast(b: &mut Builder, root: u32, count: u64) {
    let (input, output) = (b.input(0, count), b.output(0, count));
    if b.me == root {
        // From the input: nobody waits for the copy.
        for peer in (0..b.size).filter(|&peer| peer != root) {
            b.send(peer, input);
        }
        b.copy(input, output);
    } else {
        b.recv(root, output);
    }
}

/// What the root has goes to everybody, in place.
fn spread(b: &mut Builder, root: u32, slice: Slice) {
    if b.me == root {
        for peer in (0..b.size).filter(|&peer| peer != root) {
            b.send(peer, slice);
        }
    } else {
        b.recv(root, slice);
    }
}

/// All operands come to the root, which folds them from the left.
fn reduce(b: &mut Builder, root: u32, count: u64) {
    let input = b.input(0, count);
    if b.me != root {
        b.send(root, input);
        return;
    }
    let home = b.output(0, count);
    let operands: Vec<_> = (0..b.size)
        .map(|peer| {
            if peer == b.me {
                return input;
            }
            // The first operand may come to where the result begins, unless mine is there.
            let is_first = peer == 0 && input != home;
            let operand = if is_first { home } else { b.scratch(count) };
            b.recv(peer, operand);
            operand
        })
        .collect();
    b.fold_left(&operands, home);
}

/// My block out of everybody's operands. In place, the output still held my operand.
pub(super) fn finish_blocks(b: &mut Builder, counts: &Counts, operands: &[Slice]) {
    let length = counts.count(b.me);
    let output = b.output(0, length);
    if b.shape.is_in_place {
        let result = b.scratch(length);
        b.fold_left(operands, result);
        b.copy(result, output);
    } else {
        b.fold_left(operands, output);
    }
}

fn scan(b: &mut Builder, count: u64) {
    let (input, output) = (b.input(0, count), b.output(0, count));
    if b.me == 0 {
        b.copy(input, output);
    } else if input == output {
        let before = b.scratch(count);
        b.recv(b.me - 1, before);
        b.combine(before, output, Side::Left);
    } else {
        b.recv(b.me - 1, output);
        b.combine(input, output, Side::Right);
    }
    if b.me + 1 < b.size {
        b.send(b.me + 1, output);
    }
}

fn exscan(b: &mut Builder, count: u64) {
    let (input, output) = (b.input(0, count), b.output(0, count));
    let is_last = b.me + 1 == b.size;
    if b.me == 0 {
        if !is_last {
            b.send(1, input);
        }
        return;
    }
    // What goes on includes mine, what is left here does not.
    let before = b.scratch(count);
    if is_last {
        b.recv(b.me - 1, output);
        return;
    }
    b.recv(b.me - 1, before);
    let next = b.scratch(count);
    b.copy(before, next);
    b.combine(input, next, Side::Right);
    b.send(b.me + 1, next);
    b.copy(before, output);
}

fn gather(b: &mut Builder, root: u32, counts: &Counts) {
    if b.me != root {
        let block = b.input(0, counts.count(b.me));
        b.send(root, block);
        return;
    }
    place_own(b, counts);
    for peer in (0..b.size).filter(|&peer| peer != root) {
        let block = b.output(counts.offset(peer), counts.count(peer));
        b.recv(peer, block);
    }
}

/// My own block comes to its place among the others', unless it is there already.
pub(super) fn place_own(b: &mut Builder, counts: &Counts) -> Slice {
    let block = b.output(counts.offset(b.me), counts.count(b.me));
    if !b.shape.is_in_place_at(b.me) {
        let own = b.input(0, block.length);
        b.copy(own, block);
    }
    block
}

fn scatter(b: &mut Builder, root: u32, counts: &Counts) {
    let output = b.output(0, counts.count(b.me));
    if b.me != root {
        b.recv(root, output);
        return;
    }
    // In place or not, the root's blocks are in its input.
    let whole = Slice::first(crate::step::Buffer::Input, counts.offset(b.size));
    for peer in (0..b.size).filter(|&peer| peer != root) {
        b.send(peer, whole.part(counts.offset(peer), counts.count(peer)));
    }
    if !b.shape.is_in_place {
        b.copy(whole.part(counts.offset(root), counts.count(root)), output);
    }
}

fn allgather(b: &mut Builder, counts: &Counts) {
    // From the input: nobody waits for the copy.
    let length = counts.count(b.me);
    let own = if b.shape.is_in_place { b.output(counts.offset(b.me), length) } else { b.input(0, length) };
    for (to, _) in each_other(b.me, b.size) {
        b.send(to, own);
    }
    for (_, from) in each_other(b.me, b.size) {
        let block = b.output(counts.offset(from), counts.count(from));
        b.recv(from, block);
    }
    place_own(b, counts);
}

fn alltoall(b: &mut Builder, counts: &PairCounts) {
    let exchange = super::pairwise::Blocks::of(b, counts);
    for (to, _) in each_other(b.me, b.size) {
        b.send(to, exchange.outgoing(to));
    }
    for (_, from) in each_other(b.me, b.size) {
        b.recv(from, exchange.incoming(from));
    }
    b.copy(exchange.outgoing(b.me), exchange.incoming(b.me));
}

fn neighbors(b: &mut Builder, neighborhood: &Neighborhood, count: u64, has_own_blocks: bool) {
    let block = |index: usize| index as u64 * count;
    let outgoing = |b: &Builder, index| b.input(if has_own_blocks { block(index) } else { 0 }, count);
    let mut to_myself = Vec::new();
    for (index, &peer) in neighborhood.destinations(b.me).iter().enumerate() {
        let slice = outgoing(b, index);
        if peer == b.me {
            to_myself.push(slice);
        } else {
            b.send(peer, slice);
        }
    }
    let mut to_myself = to_myself.into_iter();
    for index in neighborhood.arrivals(b.me) {
        let slice = b.output(block(index), count);
        let peer = neighborhood.sources(b.me)[index];
        if peer == b.me {
            let own = to_myself.next().expect("a shape's edges have two ends");
            b.copy(own, slice);
        } else {
            b.recv(peer, slice);
        }
    }
}
