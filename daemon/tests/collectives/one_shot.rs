//! Collectives that are called just so, against what a single process would compute.

use std::ops::Range;
use std::sync::Barrier;

use ropeway::{Communicator, Error, Operator, PendingCollective};
use ropeway_daemon::Config;

use crate::common::{Cluster, config, everybody, everybody_of, part, soon, uneven};

/// Nodes and ranks.
const PLACES: [(usize, u32); 9] = [(1, 1), (1, 2), (1, 3), (1, 5), (1, 8), (2, 2), (2, 5), (3, 4), (4, 6)];
/// Nothing, one element, an odd number, and more than one rank should do alone.
const COUNTS: [usize; 4] = [0, 1, 7, 3001];

/// What rank `rank` contributes.
fn input(rank: usize, elements: usize) -> Vec<u64> {
    (0..elements as u64).map(|index| (rank as u64 + 1) * 1_000_003 + index * 31).collect()
}

/// The inputs of these ranks, added.
fn sum(ranks: Range<usize>, elements: usize) -> Vec<u64> {
    let mut total = vec![0; elements];
    for rank in ranks {
        total.iter_mut().zip(input(rank, elements)).for_each(|(sum, element)| *sum += element);
    }
    total
}

/// Makes a call both ways, twice: by what the first has registered the second goes too.
macro_rules! both_ways {
    ($world:ident, $call:ident, $icall:ident($($argument:expr),*), $array:ident: $before:expr => $after:expr) => {
        for _ in 0..2 {
            let mut $array = $before;
            $world.$call($($argument),*).unwrap();
            assert_eq!($array, $after, "{} of {:?}", stringify!($call), $world);
            let mut $array = $before;
            $world.$icall($($argument),*).unwrap().wait().unwrap();
            assert_eq!($array, $after, "{} of {:?}", stringify!($icall), $world);
        }
    };
}

const SUM: Operator = Operator::Sum;

fn reductions(world: &Communicator, count: usize) {
    let (rank, ranks) = (world.rank() as usize, world.size() as usize);
    let (own, total) = (input(rank, count), sum(0..ranks, count));
    let zeros = || vec![0; count];
    both_ways!(world, allreduce, iallreduce(&own, &mut out, SUM), out: zeros() => total);
    both_ways!(world, allreduce_in_place, iallreduce_in_place(&mut out, SUM), out: own.clone() => total);
    both_ways!(world, scan, iscan(&own, &mut out, SUM), out: zeros() => sum(0..rank + 1, count));
    both_ways!(world, scan_in_place, iscan_in_place(&mut out, SUM), out: own.clone() => sum(0..rank + 1, count));
    let before = |first: Vec<u64>| if rank == 0 { first } else { sum(0..rank, count) };
    both_ways!(world, exscan, iexscan(&own, &mut out, SUM), out: vec![9; count] => before(vec![9; count]));
    both_ways!(world, exscan_in_place, iexscan_in_place(&mut out, SUM), out: own.clone() => before(own.clone()));
    for root in 0..world.size() {
        let at_root = |there: &[u64], elsewhere: &[u64]| if world.rank() == root { there } else { elsewhere }.to_vec();
        let (blank, after) = (at_root(&zeros(), &[8]), at_root(&total, &[8]));
        both_ways!(world, reduce, ireduce(&own, &mut out, SUM, root), out: blank.clone() => after);
        let after = at_root(&total, &own);
        both_ways!(world, reduce_in_place, ireduce_in_place(&mut out, SUM, root), out: own.clone() => after);
    }
    let counts = uneven(ranks, count);
    let all = counts.iter().sum();
    let (own, expected) = (input(rank, all), sum(0..ranks, all)[part(&counts, rank)].to_vec());
    let blank = vec![0; expected.len()];
    both_ways!(world, reduce_scatter, ireduce_scatter(&own, &mut out, &counts, SUM), out: blank.clone() => expected);
    // In place it is a part of the array, of which nothing else changes.
    let with = |part: Range<usize>, expected: &[u64], own: &[u64]| {
        let mut array = own.to_vec();
        array[part].copy_from_slice(expected);
        array
    };
    let after = with(part(&counts, rank), &expected, &own);
    both_ways!(world, reduce_scatter_in_place, ireduce_scatter_in_place(&mut out, &counts, SUM), out: own.clone() => after);
    let (own, expected) = (input(rank, count * ranks), sum(0..ranks, count * ranks)[rank * count..][..count].to_vec());
    both_ways!(world, reduce_scatter_block, ireduce_scatter_block(&own, &mut out, SUM), out: zeros() => expected);
    let after = with(rank * count..(rank + 1) * count, &expected, &own);
    both_ways!(world, reduce_scatter_block_in_place, ireduce_scatter_block_in_place(&mut out, SUM), out: own.clone() => after);
}

#[test]
fn inputs_are_combined() {
    for (nodes, size) in PLACES {
        everybody((nodes, size), |world| COUNTS.into_iter().for_each(|count| reductions(&world, count)));
    }
}

/// Everybody's inputs one behind the other.
fn joined(counts: &[usize]) -> Vec<u64> {
    counts.iter().enumerate().flat_map(|(rank, &count)| input(rank, count)).collect()
}

fn to_and_from_a_root(world: &Communicator, count: usize, root: u32) {
    let (rank, ranks) = (world.rank() as usize, world.size() as usize);
    let at_root = |there: &[u64], elsewhere: &[u64]| if world.rank() == root { there } else { elsewhere }.to_vec();
    let (alike, counts) = (vec![count; ranks], uneven(ranks, count));
    let message = input(root as usize, count);
    both_ways!(world, bcast, ibcast(&mut out, root), out: at_root(&message, &vec![0; count]) => message);

    let (own, all) = (input(rank, count), joined(&alike));
    let (blank, after) = (at_root(&vec![0; all.len()], &[8]), at_root(&all, &[8]));
    both_ways!(world, gather, igather(&own, &mut out, root), out: blank.clone() => after);
    let (own, all) = (input(rank, counts[rank]), joined(&counts));
    let (blank, after) = (at_root(&vec![0; all.len()], &[8]), at_root(&all, &[8]));
    both_ways!(world, gatherv, igatherv(&own, &mut out, &counts, root), out: blank.clone() => after);

    let (all, own) = (at_root(&joined(&alike), &[8]), input(rank, count));
    both_ways!(world, scatter, iscatter(&all, &mut out, root), out: vec![0; count] => own);
    let (all, own) = (at_root(&joined(&counts), &[]), input(rank, counts[rank]));
    both_ways!(world, scatterv, iscatterv(&all, &mut out, &counts, root), out: vec![0; own.len()] => own);
}

/// This rank's part in place, among others that are to be filled.
fn with_own(counts: &[usize], rank: usize) -> Vec<u64> {
    let mut array = vec![0; counts.iter().sum()];
    array[part(counts, rank)].copy_from_slice(&input(rank, counts[rank]));
    array
}

fn in_place_at_a_root(world: &Communicator, count: usize, root: u32) {
    let (rank, ranks) = (world.rank() as usize, world.size() as usize);
    let at_root = |there: &[u64], elsewhere: &[u64]| if world.rank() == root { there } else { elsewhere }.to_vec();
    let (alike, counts) = (vec![count; ranks], uneven(ranks, count));
    let before = |counts: &[usize]| at_root(&with_own(counts, rank), &input(rank, counts[rank]));
    let after = |counts: &[usize]| at_root(&joined(counts), &input(rank, counts[rank]));
    both_ways!(world, gather_in_place, igather_in_place(&mut out, root), out: before(&alike) => after(&alike));
    both_ways!(world, gatherv_in_place, igatherv_in_place(&mut out, &counts, root), out: before(&counts) => after(&counts));
    let before = |counts: &[usize]| at_root(&joined(counts), &vec![0; counts[rank]]);
    both_ways!(world, scatter_in_place, iscatter_in_place(&mut out, root), out: before(&alike) => after(&alike));
    both_ways!(world, scatterv_in_place, iscatterv_in_place(&mut out, &counts, root), out: before(&counts) => after(&counts));
}

fn to_everybody(world: &Communicator, count: usize) {
    let (rank, ranks) = (world.rank() as usize, world.size() as usize);
    let (alike, counts) = (vec![count; ranks], uneven(ranks, count));
    let (own, all) = (input(rank, count), joined(&alike));
    both_ways!(world, allgather, iallgather(&own, &mut out), out: vec![0; all.len()] => all);
    both_ways!(world, allgather_in_place, iallgather_in_place(&mut out), out: with_own(&alike, rank) => all);
    let (own, all) = (input(rank, counts[rank]), joined(&counts));
    both_ways!(world, allgatherv, iallgatherv(&own, &mut out, &counts), out: vec![0; all.len()] => all);
    both_ways!(world, allgatherv_in_place, iallgatherv_in_place(&mut out, &counts), out: with_own(&counts, rank) => all);

    let own = input(rank, count * ranks);
    let ours = |from| input(from, count * ranks)[rank * count..][..count].to_vec();
    let expected: Vec<u64> = (0..ranks).flat_map(ours).collect();
    both_ways!(world, alltoall, ialltoall(&own, &mut out), out: vec![0; own.len()] => expected);
    both_ways!(world, alltoall_in_place, ialltoall_in_place(&mut out), out: own.clone() => expected);
    let counts: Vec<usize> = (0..ranks * ranks).map(|pair| (pair * 5 + count) % (count + 2)).collect();
    let from_all = |from: usize| {
        let row = &counts[from * ranks..][..ranks];
        input(from, row.iter().sum())[part(row, rank)].to_vec()
    };
    let own = input(rank, counts[rank * ranks..][..ranks].iter().sum());
    let expected: Vec<u64> = (0..ranks).flat_map(from_all).collect();
    both_ways!(world, alltoallv, ialltoallv(&own, &mut out, &counts), out: vec![0; expected.len()] => expected);
    let pair = |one: usize, other: usize| (one.max(other) * 5 + one.min(other) + count) % (count + 2);
    let counts: Vec<usize> = (0..ranks * ranks).map(|index| pair(index / ranks, index % ranks)).collect();
    let row = |from: usize| &counts[from * ranks..][..ranks];
    let own = input(rank, row(rank).iter().sum());
    let from_all = |from: usize| input(from, row(from).iter().sum())[part(row(from), rank)].to_vec();
    let expected: Vec<u64> = (0..ranks).flat_map(from_all).collect();
    both_ways!(world, alltoallv_in_place, ialltoallv_in_place(&mut out, &counts), out: own.clone() => expected);
}

#[test]
fn arrays_go_where_they_belong() {
    for (nodes, size) in PLACES {
        everybody((nodes, size), |world| {
            for count in COUNTS {
                (0..size).for_each(|root| to_and_from_a_root(&world, count, root));
                (0..size).for_each(|root| in_place_at_a_root(&world, count, root));
                to_everybody(&world, count);
            }
        });
    }
}

#[test]
fn structs_travel_whole() {
    everybody((1, 3), |world| {
        let own = [[u64::from(world.rank()), 5, 7]; 2];
        let mut all = [[0; 3]; 6];
        world.allgather(&own, &mut all).unwrap();
        assert_eq!(all.map(|element| element[0]), [0, 0, 1, 1, 2, 2]);
        let mut to_us = [[0; 3]; 6];
        world.alltoall(&all, &mut to_us).unwrap();
        assert!(to_us.iter().all(|&element| element == own[0]));
    });
}

#[test]
fn calls_alike_register_once() {
    let cluster = Cluster::start(1, 2);
    let registered = || cluster.counter(0, "collectives_registered");
    let (met, measured) = (Barrier::new(3), Barrier::new(3));
    std::thread::scope(|scope| {
        for session in [cluster.attach(0), cluster.attach(1)] {
            let (met, measured) = (&met, &measured);
            scope.spawn(move || {
                let mut array = [1u32; 5];
                for round in 0..20 {
                    // Handles of the same communicator, and forms with the same registered arrays, share.
                    session.world().allreduce_in_place(&mut array, Operator::Max).unwrap();
                    session.world().allreduce(&[round; 5], &mut array, Operator::Max).unwrap();
                    if round == 0 {
                        met.wait();
                        measured.wait();
                    }
                }
                for _ in 0..20 {
                    session.world().ibarrier().unwrap().wait().unwrap();
                }
                session.world().allreduce_in_place(&mut [1i32; 5], Operator::Max).unwrap();
            });
        }
        met.wait();
        assert_eq!(registered(), 2);
        measured.wait();
    });
    // Eight barriers that take turns, and a reduction of other elements.
    assert_eq!(registered(), 2 + 2 * 8 + 2);
}

/// Calls `alltoallv` and compares.
fn exchange(world: &Communicator, counts: &[usize]) {
    let (rank, ranks) = (world.rank() as usize, world.size() as usize);
    let row = |from: usize| &counts[from * ranks..][..ranks];
    let all = |from: usize| input(from, row(from).iter().sum());
    let expected: Vec<u64> = (0..ranks).flat_map(|from| all(from)[part(row(from), rank)].to_vec()).collect();
    let mut output = vec![0; expected.len()];
    world.alltoallv(&all(rank), &mut output, counts).unwrap();
    assert!(output == expected, "{counts:?} in {world:?}");
}

/// A program that deals its data sends about as much to each rank, but never quite the same; or a few elements to some.
#[test]
fn exchanges_of_counts_that_change_a_little_register_once() {
    let places = [(1, 2), (2, 3), (3, 7)];
    for ((nodes, size), (least, more)) in places.into_iter().flat_map(|place| [(place, (3000, 60)), (place, (9, 8))]) {
        let cluster = Cluster::start(nodes, size);
        everybody_of(&cluster, size, |world| {
            for round in 0..20 {
                let is_sent = |pair: usize| least > 9 || pair % 3 != 2;
                let count = |pair| if is_sent(pair) { least + (pair * 7 + round * 13) % more } else { 0 };
                let counts: Vec<usize> = (0..(size * size) as usize).map(count).collect();
                exchange(&world, &counts);
            }
        });
        let registered: u64 = (0..nodes).map(|node| cluster.counter(node, "collectives_registered")).sum();
        assert_eq!(registered, u64::from(size));
    }
}

#[test]
fn large_exchanges_on_a_node_register_nothing_for_their_counts() {
    let size = 4;
    let cluster = Cluster::start(1, size);
    everybody_of(&cluster, size, |world| {
        let ranks = size as usize;
        for round in 0..30 {
            // From much to nothing, and more and more: copied twice at first, and then once.
            let count = |pair: usize| (pair * 7919 + round * 104_729) % 5 * [1000, 5000, 12_000][round / 10];
            let mut counts: Vec<usize> = (0..ranks * ranks).map(count).collect();
            counts[round % (ranks * ranks)] = 9001;
            exchange(&world, &counts);
        }
    });
    // A barrier, where everybody's memory lies, who everybody is, and whether all may read it.
    assert_eq!(cluster.counter(0, "collectives_registered"), 4 * u64::from(size));
}

#[test]
fn more_may_be_on_their_way_than_are_registered() {
    everybody((1, 3), |world| {
        let ranks = world.size() as usize;
        for round in 0..5 {
            let mut outputs = vec![vec![0; 100]; 30];
            let begin = |(call, output)| {
                let own: Vec<u64> =
                    input(world.rank() as usize, 100).iter().map(|element| element + call as u64).collect();
                world.iallreduce(&own, output, SUM).unwrap()
            };
            let mut pending: Vec<PendingCollective<'_, u64>> =
                outputs.iter_mut().map(Vec::as_mut_slice).enumerate().map(begin).collect();
            // Everybody waits in an order of his own, and not for all of them.
            pending.rotate_left(round * (1 + world.rank() as usize));
            if world.rank() == 1 {
                pending.reverse();
            }
            drop(pending.remove(3));
            while !pending[0].test().unwrap() {
                std::thread::yield_now();
            }
            pending.into_iter().for_each(|pending| pending.wait().unwrap());
            let expected = |call: usize| -> Vec<u64> {
                sum(0..ranks, 100).iter().map(|element| element + (call * ranks) as u64).collect()
            };
            let filled = outputs.iter().enumerate().filter(|&(call, output)| *output == expected(call)).count();
            let blank = outputs.iter().filter(|output| output.iter().all(|&element| element == 0)).count();
            assert_eq!((filled, blank), (29, 1));
        }
    });
}

/// A rank that has begun is not needed any more, though it computes and others come later.
#[test]
fn it_ends_though_some_compute() {
    let all_done = Barrier::new(3);
    everybody((1, 3), |world| {
        let mut total = [0];
        let summing = world.iallreduce(&[u64::from(world.rank())], &mut total, SUM).unwrap();
        if world.rank() == 0 {
            all_done.wait();
            soon(|| summing.wait().unwrap());
        } else {
            summing.wait().unwrap();
            all_done.wait();
        }
        assert_eq!(total, [3]);
    });
}

#[test]
fn what_runs_when_its_kind_is_forgotten_ends_all_the_same() {
    let one_has_begun = Barrier::new(2);
    everybody((1, 2), |world| {
        let rank = world.rank();
        let mut total = [0];
        // More kinds than are remembered; rank 1 begins them all before rank 0 comes, and asks for the first only.
        let mut arrays: Vec<_> = (0..200).map(|count| vec![rank; count]).collect();
        if rank == 0 {
            one_has_begun.wait();
        }
        let summing = world.iallreduce(&[1], &mut total, SUM).unwrap();
        for (count, array) in arrays.iter_mut().enumerate() {
            let running = world.ibcast(array, count as u32 % 2).unwrap();
            if rank == 0 {
                running.wait().unwrap();
                assert!(array.iter().all(|&root| root == count as u32 % 2));
            }
        }
        if rank == 1 {
            one_has_begun.wait();
        }
        summing.wait().unwrap();
        assert_eq!(total, [2]);
    });
}

/// Numbers that are the same on all ranks.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

#[test]
fn thousands_of_mixed_calls_stay_in_step() {
    everybody((1, 4), |world| {
        let (rank, ranks) = (world.rank() as usize, world.size() as usize);
        let mut dice = Dice(1);
        for step in 0..300 {
            let (count, root) = (dice.roll(60), dice.roll(ranks));
            match dice.roll(7) {
                0 => reductions(&world, count),
                1 => to_and_from_a_root(&world, count, root as u32),
                6 => in_place_at_a_root(&world, count, root as u32),
                2 => to_everybody(&world, count),
                3 => {
                    let mut array = input(rank, count);
                    world.allreduce_in_place(&mut array, SUM).unwrap();
                    assert_eq!(array, sum(0..ranks, count));
                }
                // Begun, and waited for by some only.
                4 => {
                    let mut outputs = vec![vec![0; count]; 1 + dice.roll(20)];
                    let own = input(rank, count);
                    for output in &mut outputs {
                        let scanning = world.iscan(&own, output, SUM).unwrap();
                        if (step + rank) % 3 == 0 {
                            scanning.wait().unwrap();
                        }
                    }
                }
                _ => world.ibarrier().unwrap().wait().unwrap(),
            }
        }
    });
}

#[test]
fn forgotten_kinds_give_their_memory_back() {
    let small = Config { arena_bytes_max: 96 << 20, ..config() };
    let cluster = Cluster::start_with(2, vec![small]);
    everybody_of(&cluster, 2, |world| {
        // Three times what a rank can have, in arrays that all differ.
        for count in (4 << 20..).step_by(64).take(75) {
            world.bcast(&mut vec![1u8; count], 0).unwrap();
        }
    });
}

#[test]
fn arrays_that_do_not_fit_are_refused_before_anything_is_sent() {
    let cluster = Cluster::start(1, 2);
    everybody_of(&cluster, 2, |world| {
        let refused = |result: Result<(), Error>| result.unwrap_err().to_string();
        let wrong = refused(world.allreduce(&[1u8; 4], &mut [0; 3], Operator::Sum));
        assert_eq!(wrong, "the collective has an output of 4 elements, not of 3");
        let wrong = refused(world.alltoall(&[1u8; 5], &mut [0; 5]));
        assert_eq!(wrong, "the collective has an input of 4 elements, not of 5");
        let wrong = refused(world.allgather_in_place(&mut [1u8; 3]));
        assert_eq!(wrong, "the collective has an array of 2 elements, not of 3");
        let wrong = refused(world.allgatherv(&[1u8], &mut [0; 3], &[1, 1, 1]));
        assert_eq!(wrong, "no such collective: 3 counts where 2 are needed");
        let wrong = refused(world.alltoallv(&[1u8; 2], &mut [0; 2], &[1]));
        assert_eq!(wrong, "no such collective: 1 counts where 4 are needed");
        let wrong = refused(world.alltoallv(&[1u8; 4], &mut [0; 4], &[1, 3, 2, 2]));
        let elements = if world.rank() == 0 { 3 } else { 5 };
        assert_eq!(wrong, format!("the collective has an output of {elements} elements, not of 4"));
        let wrong = refused(world.bcast(&mut [1u8], 2));
        assert_eq!(wrong, "root 2 is out of range in a communicator of 2");
        // What one rank alone gets wrong and mends costs the others nothing.
        if world.rank() == 0 {
            world.gather(&[7u8], &mut [0; 3], 0).unwrap_err();
        }
        let mut gathered = [0u8; 2];
        world.gather(&[7u8], &mut gathered, 0).unwrap();
        assert_eq!(gathered, if world.rank() == 0 { [7; 2] } else { [0; 2] });
    });
    assert_eq!(cluster.counter(0, "collectives_registered"), 2, "only what was right is registered");
}

#[test]
fn what_is_remembered_keeps_nobody_in_the_job() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = (cluster.attach(0), cluster.attach(1));
    let world = zero.world();
    let other = std::thread::spawn(move || {
        let mut array = [1u64; 3];
        one.world().allreduce_in_place(&mut array, SUM).unwrap();
        // A handle outlives the communicator and the session.
        let summing = one.world().iallreduce_in_place(&mut array, SUM).unwrap();
        drop(one);
        summing.wait().unwrap();
        array
    });
    let mut array = [1u64; 3];
    world.allreduce_in_place(&mut array, SUM).unwrap();
    world.iallreduce_in_place(&mut array, SUM).unwrap().wait().unwrap();
    assert_eq!((array, other.join().unwrap()), ([4; 3], [4; 3]));
    let left = soon(|| world.recv(&mut [0u8], 1, 0).unwrap_err());
    assert!(matches!(left, Error::RankLeft { rank: 1 }), "{left}");
    let alone = soon(|| world.allreduce_in_place(&mut array, SUM).unwrap_err());
    assert!(matches!(alone, Error::RankLeft { rank: 1 } | Error::PeerFreed { rank: 1 }), "{alone}");
}
