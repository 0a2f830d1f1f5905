//! Registered collectives whose input and output share a buffer, against what a single process would compute.

use ropeway::{Collective, Communicator, Error, Operator, Reproducible, UserOperator};

use crate::common::{everybody, part, uneven};

/// Nothing, one element, odd numbers, and more than one rank should do alone.
const COUNTS: [usize; 5] = [0, 1, 7, 333, 10_007];
/// Nodes and ranks: every size up to six on one node, and on several.
const PLACES: [(usize, u32); 11] =
    [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (2, 2), (2, 3), (2, 5), (3, 6), (4, 4)];
const ROUNDS: u64 = 2;
/// In places that nothing is to be written to.
const BLANK: u64 = u64::MAX;

/// Runs `act` as each rank of a communicator whose ranks are in the order of their nodes, and of one whose are not.
fn in_both_orders(act: impl Fn(Communicator) + Sync) {
    for (nodes, size) in PLACES {
        everybody((nodes, size), |world| {
            act(world.clone());
            if nodes > 1 {
                act(world.split(Some(0), world.rank() as i32 % 3).unwrap().unwrap());
            }
        });
    }
}

/// What rank `rank` has in a round.
fn array(rank: usize, round: u64, elements: usize) -> Vec<u64> {
    (0..elements as u64).map(|index| (rank as u64 + 1) * 1_000_003 + round * 7919 + index * 31).collect()
}

/// All ranks' arrays, added.
fn total(ranks: usize, round: u64, elements: usize) -> Vec<u64> {
    let ranks = ranks as u64;
    let first = ranks * (ranks + 1) / 2 * 1_000_003 + ranks * round * 7919;
    (0..elements as u64).map(|index| first + ranks * index * 31).collect()
}

/// Runs rounds: `before` says what the input is, and `after` what the output has to be.
fn rounds(
    mut collective: Collective<u64>,
    before: impl Fn(u64) -> Vec<u64>,
    after: impl Fn(u64) -> Vec<u64>,
) -> Collective<u64> {
    for round in 0..ROUNDS {
        collective.output_mut().fill(BLANK);
        collective.input_mut().copy_from_slice(&before(round));
        collective.start().unwrap().wait().unwrap();
        assert_eq!(collective.output(), after(round), "round {round} of {collective:?}");
    }
    collective
}

/// As the root, or else nothing.
fn at_root(world: &Communicator, root: u32, array: Vec<u64>) -> Vec<u64> {
    if world.rank() == root { array } else { Vec::new() }
}

fn gathers(world: &Communicator, counts: &[usize], root: u32, gather: Collective<u64>) {
    let rank = world.rank() as usize;
    let joined = |round| counts.iter().enumerate().flat_map(|(rank, &count)| array(rank, round, count)).collect();
    let gather = rounds(gather, |round| array(rank, round, counts[rank]), |round| at_root(world, root, joined(round)));
    if world.rank() == root {
        assert_eq!(gather.input(), &gather.output()[part(counts, rank)], "they share a buffer");
    }
}

fn scatters(world: &Communicator, counts: &[usize], root: u32, scatter: Collective<u64>) {
    let (rank, all) = (world.rank() as usize, counts.iter().sum());
    let mut scatter = rounds(
        scatter,
        |round| at_root(world, root, array(root as usize, round, all)),
        |round| array(root as usize, round, all)[part(counts, rank)].to_vec(),
    );
    if world.rank() == root {
        let before = array(root as usize, ROUNDS - 1, all);
        assert_eq!(scatter.input(), before, "what the root has stays as it is");
        scatter.output_mut().fill(BLANK);
        assert!(scatter.input()[part(counts, rank)].iter().all(|&element| element == BLANK), "they share a buffer");
    }
}

#[test]
fn the_roots_own_part_is_in_place_already() {
    in_both_orders(|world| {
        let ranks = world.size() as usize;
        for (root, count) in (0..world.size()).flat_map(|root| COUNTS.map(|count| (root, count))) {
            let (alike, counts) = (vec![count; ranks], uneven(ranks, count));
            gathers(&world, &alike, root, world.gather_in_place_init(count, root).unwrap());
            gathers(&world, &counts, root, world.gatherv_in_place_init(&counts, root).unwrap());
            scatters(&world, &alike, root, world.scatter_in_place_init(count, root).unwrap());
            scatters(&world, &counts, root, world.scatterv_in_place_init(&counts, root).unwrap());
        }
    });
}

#[test]
fn blocks_are_gathered_and_scattered() {
    in_both_orders(|world| {
        let (rank, ranks) = (world.rank() as usize, world.size() as usize);
        for count in COUNTS {
            let own = |round| array(rank, round, count);
            let joined = |round| (0..ranks).flat_map(|rank| array(rank, round, count)).collect();
            rounds(world.allgather_init(count).unwrap(), own, joined);
            rounds(world.allgather_in_place_init(count).unwrap(), own, joined);
            let summed = |round| total(ranks, round, ranks * count)[rank * count..][..count].to_vec();
            let whole = |round| array(rank, round, ranks * count);
            rounds(world.reduce_scatter_block_init(count, Operator::Sum).unwrap(), whole, summed);
            for root in 0..world.size() {
                let gather = world.gather_init(count, root).unwrap();
                rounds(gather, own, |round| at_root(&world, root, joined(round)));
                let whole = |round| at_root(&world, root, array(root as usize, round, ranks * count));
                let part = |round| array(root as usize, round, ranks * count)[rank * count..][..count].to_vec();
                rounds(world.scatter_init(count, root).unwrap(), whole, part);
            }
        }
    });
}

#[test]
fn a_part_of_the_input_becomes_the_output() {
    let sum = UserOperator::new(|left: &mut u64, right: &u64| *left += right);
    in_both_orders(|world| {
        let (rank, ranks) = (world.rank() as usize, world.size() as usize);
        for count in COUNTS {
            let (alike, counts) = (vec![count; ranks], uneven(ranks, count));
            let check = |counts: &[usize], reduce_scatter: Collective<u64>| {
                let (all, own) = (counts.iter().sum(), part(counts, rank));
                let summed = |round| total(ranks, round, all)[own.clone()].to_vec();
                let ended = rounds(reduce_scatter, |round| array(rank, round, all), summed);
                let mut left = array(rank, ROUNDS - 1, all);
                left[own.clone()].copy_from_slice(&summed(ROUNDS - 1));
                assert_eq!(ended.input(), left, "the rest of the input stays as it is");
            };
            check(&alike, world.reduce_scatter_block_in_place_init(count, Operator::Sum).unwrap());
            check(&counts, world.reduce_scatter_in_place_init(&counts, Operator::Sum).unwrap());
            check(&counts, world.reduce_scatter_in_place_init(&counts, Reproducible(Operator::Sum)).unwrap());
            check(&counts, world.reduce_scatter_in_place_init(&counts, &sum).unwrap());
        }
    });
}

#[test]
fn the_roots_input_becomes_the_result() {
    in_both_orders(|world| {
        let (rank, ranks) = (world.rank() as usize, world.size() as usize);
        for (root, count) in (0..world.size()).flat_map(|root| COUNTS.map(|count| (root, count))) {
            let reduce = world.reduce_in_place_init(count, Operator::Sum, root).unwrap();
            let result = |round| at_root(&world, root, total(ranks, round, count));
            rounds(reduce, |round| array(rank, round, count), result);
        }
    });
}

#[test]
fn what_comes_takes_the_place_of_what_goes() {
    in_both_orders(|world| {
        let (rank, ranks) = (world.rank() as usize, world.size() as usize);
        for count in COUNTS.map(|count| count / ranks) {
            // As much from one to another as back.
            let pair = |one: usize, other: usize| (one.max(other) * 5 + one.min(other) + count) % (count + 2);
            let alike = vec![count; ranks * ranks];
            let counts: Vec<usize> = (0..ranks * ranks).map(|index| pair(index / ranks, index % ranks)).collect();
            let check = |counts: &[usize], alltoall: Collective<u64>| {
                let row = |from: usize| &counts[from * ranks..][..ranks];
                let sent = |from: usize, round| array(from, round, row(from).iter().sum());
                let from = |from: usize, round| sent(from, round)[part(row(from), rank)].to_vec();
                rounds(
                    alltoall,
                    |round| sent(rank, round),
                    |round| (0..ranks).flat_map(|rank| from(rank, round)).collect(),
                );
            };
            check(&alike, world.alltoall_in_place_init(count).unwrap());
            check(&counts, world.alltoallv_in_place_init(&counts).unwrap());
        }
    });
}

/// Some ranks may save the memory while others do not.
#[test]
fn an_alltoall_may_be_in_place_on_some_ranks_only() {
    everybody((1, 5), |world| {
        let (rank, ranks) = (world.rank() as usize, world.size() as usize);
        for count in COUNTS {
            let alltoall = if rank % 2 == 0 { world.alltoall_in_place_init(count) } else { world.alltoall_init(count) };
            let sent = |rank, round| array(rank, round, ranks * count);
            let from = |from, round| sent(from, round)[rank * count..][..count].to_vec();
            rounds(
                alltoall.unwrap(),
                |round| sent(rank, round),
                |round| (0..ranks).flat_map(|rank| from(rank, round)).collect(),
            );
        }
    });
}

#[test]
fn what_can_not_be_is_refused() {
    everybody((1, 3), |world| {
        let refused = |made: Result<Collective<u64>, Error>| made.unwrap_err().to_string();
        let counts = [0, 1, 2, 1, 0, 3, 2, 4, 0];
        let why = "no such collective: in place as many elements go from rank 1 to rank 2 as back, not 3 and 4";
        assert_eq!(refused(world.alltoallv_in_place_init(&counts)), why);
        assert_eq!(world.alltoallv_in_place(&mut [0u64; 3], &counts).unwrap_err().to_string(), why);
        let why = "no such collective: 8 counts where 9 are needed";
        assert_eq!(refused(world.alltoallv_in_place_init(&counts[1..])), why);
        let error = world.gather_in_place_init::<u64>(1, 3).unwrap_err();
        assert!(matches!(error, Error::RootOutOfRange { root: 3, size: 3 }), "{error}");
        assert_eq!(refused(world.bcast_init(1, 7)), "root 7 is out of range in a communicator of 3");
        let error = world.scatter_in_place(&mut [0u64; 3], 3).unwrap_err();
        assert!(matches!(error, Error::RootOutOfRange { root: 3, size: 3 }), "{error}");
        // The root's array has everybody's parts, the others' their own.
        let mut array = vec![0u64; if world.rank() == 0 { 4 } else { 1 }];
        if world.rank() == 0 {
            let why = "the collective has an array of 3 elements, not of 4";
            assert_eq!(world.gather_in_place(&mut array, 0).unwrap_err().to_string(), why);
        }
        world.gather_in_place(&mut array[..if world.rank() == 0 { 3 } else { 1 }], 0).unwrap();
    });
}
