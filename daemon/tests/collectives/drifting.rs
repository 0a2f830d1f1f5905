//! Collectives again and again, without a barrier: ranks drift apart as far as each kind lets them, and more so where they share cores.

use ropeway::{Collective, Communicator, Operator};

use crate::common::everybody;

/// Registers one of so many elements, of rank 0 if it has a root.
type Register = fn(&Communicator, usize) -> Collective<u64>;
/// What is to be at a place of a rank's result: of so many elements, in this round.
type Expected = fn((u64, u64), usize, usize, u64) -> Option<u64>;

const KINDS: [(&str, Register, Expected); 8] = [
    ("bcast", |world, count| world.bcast_init(count, 0).unwrap(), |_, _, _, round| Some(value(0, round))),
    (
        "reduce",
        |world, count| world.reduce_init(count, Operator::Sum, 0).unwrap(),
        |ranks, _, _, round| (ranks.0 == 0).then(|| sum(ranks.1, round)),
    ),
    (
        "allreduce",
        |world, count| world.allreduce_init(count, Operator::Sum).unwrap(),
        |ranks, _, _, round| Some(sum(ranks.1, round)),
    ),
    (
        "gather",
        |world, count| world.gather_init(count, 0).unwrap(),
        |ranks, count, at, round| (ranks.0 == 0).then(|| value((at / count) as u64, round)),
    ),
    ("scatter", |world, count| world.scatter_init(count, 0).unwrap(), |_, _, _, round| Some(value(0, round))),
    ("allgather", |world, count| world.allgather_init(count).unwrap(), of_each),
    ("alltoall", |world, count| world.alltoall_init(count).unwrap(), of_each),
    (
        "scan",
        |world, count| world.scan_init(count, Operator::Sum).unwrap(),
        |ranks, _, _, round| Some(sum(ranks.0 + 1, round)),
    ),
];

/// What a rank gives.
fn value(rank: u64, round: u64) -> u64 {
    round * 100 + rank
}

/// What the first so many ranks give together.
fn sum(ranks: u64, round: u64) -> u64 {
    (0..ranks).map(|rank| value(rank, round)).sum()
}

fn of_each(_: (u64, u64), count: usize, at: usize, round: u64) -> Option<u64> {
    Some(value((at / count) as u64, round))
}

/// `sizes`: how many elements, and how many rounds of them.
fn drift((nodes, ranks): (usize, u32), sizes: &'static [(usize, u64)]) {
    everybody((nodes, ranks), |world| {
        let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
        for &(count, rounds) in sizes {
            for (name, register, expected) in KINDS {
                let mut collective = register(&world, count);
                for round in 0..rounds {
                    let mine = value(rank, round);
                    match name {
                        "bcast" if rank == 0 => collective.output_mut().fill(mine),
                        "bcast" => {}
                        _ => collective.input_mut().fill(mine),
                    }
                    collective.start().unwrap().wait().unwrap();
                    let is_right = |(at, &found): (usize, &u64)| {
                        expected((rank, size), count, at, round).is_none_or(|expected| found == expected)
                    };
                    let output = collective.output();
                    assert!(output.iter().enumerate().all(is_right), "{name} of {count}, rank {rank}, round {round}");
                }
            }
        }
    });
}

#[test]
fn ranks_of_a_node_that_drift_apart_have_the_right_results() {
    drift((1, 5), &[(1, 4000), (128, 2000), (1500, 200), (20_000, 20)]);
}

#[test]
fn ranks_of_several_nodes_that_drift_apart_have_the_right_results() {
    drift((2, 4), &[(1, 300), (128, 200), (8192, 40)]);
}
