//! Grids and graphs, and what neighbours exchange in them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
use std::thread;

use nix::unistd::{Pid, gettid};
use ropeway::{Error, NeighborCollective, Session, WaitMode, wait_all};
use ropeway_daemon::Config;
use ropeway_proto::limits::WIRE_BYTES_MAX;

use crate::common::{self, Cluster, Rank, everybody, everybody_of, everywhere, soon, until_asleep};

/// What lies in block `slot` of a rank's input, element `index`.
fn sent(rank: u32, slot: usize, index: usize, round: u32) -> u32 {
    (rank * 16 + slot as u32) * 100_000 + index as u32 * 10 + round
}

/// Who is a step further in this direction of a grid: 0 is down in the first dimension, 1 up, 2 down in the second …
fn neighbour(dims: &[u32], periodic: &[bool], rank: u32, direction: usize) -> Option<u32> {
    let (dimension, is_up) = (direction / 2, direction % 2 == 1);
    let stride: u32 = dims[dimension + 1..].iter().product();
    let (length, coord) = (dims[dimension], rank / stride % dims[dimension]);
    let there = if is_up { (coord + 1) % length } else { (coord + length - 1) % length };
    let is_over_the_edge = if is_up { there == 0 } else { there == length - 1 };
    (periodic[dimension] || !is_over_the_edge).then(|| rank - coord * stride + there * stride)
}

const UNTOUCHED: u32 = u32::MAX;

/// What a rank sends in a round: so many elements, in blocks of `count`.
fn input(rank: u32, elements: usize, count: usize, round: u32) -> Vec<u32> {
    (0..elements).map(|at| sent(rank, at / count, at % count, round)).collect()
}

/// Rounds of a collective with blocks of `count`, against `expected` from slot and element; `None` is what stays.
fn neighbour_rounds(
    collective: &mut NeighborCollective<u32>,
    rank: u32,
    count: usize,
    expected: impl Fn(usize, usize, u32) -> Option<u32>,
) {
    for round in 0..4 {
        collective.output_mut().fill(UNTOUCHED);
        let brought = input(rank, collective.input().len(), count, round);
        collective.input_mut().copy_from_slice(&brought);
        collective.start().unwrap().wait().unwrap();
        check(collective.output(), rank, count, |slot, index| expected(slot, index, round));
    }
}

fn check(output: &[u32], rank: u32, count: usize, expected: impl Fn(usize, usize) -> Option<u32>) {
    for (at, &found) in output.iter().enumerate() {
        let (slot, index) = (at / count, at % count);
        let wanted = expected(slot, index).unwrap_or(UNTOUCHED);
        assert_eq!(found, wanted, "rank {rank}, block {slot}, element {index}");
    }
}

#[test]
fn neighbours_of_a_grid_exchange_what_a_single_process_would() {
    let shapes: [(&[u32], &[bool]); 7] = [
        (&[6], &[true]),
        (&[6], &[false]),
        (&[2, 3], &[true, false]),
        (&[3, 2], &[false, true]),
        (&[6, 1], &[false, true]),
        (&[1, 3, 2], &[true, true, true]),
        (&[1, 1, 6], &[false, true, false]),
    ];
    everywhere(6, |world| {
        for (dims, periodic) in shapes {
            let grid = world.cartesian(dims, periodic).unwrap();
            let rank = grid.rank();
            let beside = |direction| neighbour(dims, periodic, rank, direction);
            let all: Vec<_> = (0..2 * dims.len()).map(beside).collect();
            assert_eq!(grid.sources().collect::<Vec<_>>(), all);
            assert_eq!(grid.destinations().collect::<Vec<_>>(), all);
            // Nothing, little, and beyond what is sent at once.
            for count in [0, 1, 3, 5000] {
                let mut gather = grid.neighbor_allgather_init(count).unwrap();
                assert_eq!((gather.input().len(), gather.output().len()), (count, all.len() * count));
                let gathered = |slot, index, round| beside(slot).map(|from| sent(from, 0, index, round));
                neighbour_rounds(&mut gather, rank, count, gathered);
                // What comes from below was sent up, and the other way round.
                let exchanged = |slot, index, round| beside(slot).map(|from| sent(from, slot ^ 1, index, round));
                neighbour_rounds(&mut grid.neighbor_alltoall_init(count).unwrap(), rank, count, exchanged);
                // The same, called just so.
                for round in 0..4 {
                    let mut output = vec![UNTOUCHED; all.len() * count];
                    let (one, each) = (input(rank, count, count, round), input(rank, all.len() * count, count, round));
                    match round % 2 {
                        0 => grid.neighbor_allgather(&one, &mut output).unwrap(),
                        _ => grid.ineighbor_allgather(&one, &mut output).unwrap().wait().unwrap(),
                    }
                    check(&output, rank, count, |slot, index| gathered(slot, index, round));
                    output.fill(UNTOUCHED);
                    match round % 2 {
                        0 => grid.ineighbor_alltoall(&each, &mut output).unwrap().wait().unwrap(),
                        _ => grid.neighbor_alltoall(&each, &mut output).unwrap(),
                    }
                    check(&output, rank, count, |slot, index| exchanged(slot, index, round));
                }
            }
        }
    });
}

#[test]
fn grids_tell_who_is_where() {
    everywhere(6, |world| {
        let grid = world.cartesian(&[2, 3], &[false, true]).unwrap();
        let rank = grid.rank();
        let (row, column) = (rank / 3, rank % 3);
        assert_eq!(
            (grid.dims(), grid.periodic(), grid.coords()),
            (&[2, 3][..], &[false, true][..], &[row, column][..])
        );
        assert_eq!(grid.coords_of(5).unwrap(), [1, 2]);
        assert!(matches!(grid.coords_of(6), Err(Error::RankOutOfRange { rank: 6, size: 6 })));
        assert_eq!((grid.rank_of(&[1, -1]), grid.rank_of(&[2, 0])), (Some(5), None));
        let along_the_row = (Some(row * 3 + (column + 1) % 3), Some(row * 3 + (column + 2) % 3));
        assert_eq!(grid.shift(1, 2), along_the_row);
        assert_eq!(grid.shift(0, 1), if row == 0 { (None, Some(rank + 3)) } else { (Some(rank - 3), None) });
        let error = world.cartesian(&[2, 2], &[false; 2]).unwrap_err();
        assert!(matches!(error, Error::BadTopology { .. }), "{error}");

        let line = grid.sub(&[false, true]).unwrap();
        assert_eq!((line.size(), line.rank(), line.dims(), line.periodic()), (3, column, &[3][..], &[true][..]));
        let mut halo = line.neighbor_allgather_init::<u32>(1).unwrap();
        halo.input_mut()[0] = rank;
        halo.start().unwrap().wait().unwrap();
        assert_eq!(halo.output(), [row * 3 + (column + 2) % 3, row * 3 + (column + 1) % 3]);
        let alone = grid.sub(&[false, false]).unwrap();
        assert_eq!((alone.size(), alone.dims().len()), (1, 0));
        alone.neighbor_alltoall_init::<u32>(9).unwrap().start().unwrap().wait().unwrap();
        assert!(matches!(grid.sub(&[true]), Err(Error::BadTopology { .. })));
    });
}

/// 0 → 1 twice, 1 → 2, everybody → itself, 2 → 0 nothing at all.
#[test]
fn a_graph_has_the_edges_it_was_given() {
    everywhere(3, |world| {
        let (sources, destinations): (&[u32], &[u32]) = match world.rank() {
            0 => (&[2, 0], &[1, 0, 1]),
            1 => (&[0, 1, 0], &[1, 2]),
            _ => (&[1, 2], &[2, 0]),
        };
        let graph = world.graph(sources, destinations).unwrap();
        let (to, from): (&[usize], &[usize]) = match graph.rank() {
            0 => (&[1, 2, 3], &[0, 2]),
            1 => (&[4, 5], &[1, 4, 3]),
            _ => (&[6, 0], &[5, 6]),
        };
        let mut uneven = graph.neighbor_alltoallv_init::<u32>(to, from).unwrap();
        for round in 0..3 {
            let first = graph.rank() * 100 + round;
            uneven.input_mut().iter_mut().zip(first..).for_each(|(element, value)| *element = value);
            uneven.start().unwrap().wait().unwrap();
            let expected: &[u32] = match graph.rank() {
                0 => &[1, 2],
                1 => &[0, 100, 101, 102, 103, 3, 4, 5],
                _ => &[104, 105, 106, 107, 108, 200, 201, 202, 203, 204, 205],
            };
            assert!(uneven.output().iter().zip(expected).all(|(&found, &value)| found == value + round));
            assert_eq!(uneven.output().len(), expected.len());
            let (mut dropped, mut output) = (vec![0; expected.len()], vec![0; expected.len()]);
            // Its messages are not those of the next one.
            let zeros = vec![0; uneven.input().len()];
            drop(graph.ineighbor_alltoallv(&zeros, &mut dropped, to, from).unwrap());
            graph.neighbor_alltoallv(uneven.input(), &mut output, to, from).unwrap();
            assert_eq!(output, uneven.output());
        }
        let lengths: Vec<usize> = graph.sources().map(|source| source.unwrap() as usize).collect();
        let mut gather = graph.neighbor_allgatherv_init::<u8>(graph.rank() as usize, &lengths).unwrap();
        gather.input_mut().fill(graph.rank() as u8);
        gather.start().unwrap().wait().unwrap();
        let expected: &[u8] = [&[2, 2][..], &[1], &[1, 2, 2]][graph.rank() as usize];
        assert_eq!(gather.output(), expected);
        let (mut dropped, mut output) = (vec![0; expected.len()], vec![0; expected.len()]);
        let nines = vec![9; graph.rank() as usize];
        drop(graph.ineighbor_allgatherv(&nines, &mut dropped, &lengths).unwrap());
        graph.neighbor_allgatherv(gather.input(), &mut output, &lengths).unwrap();
        assert_eq!(output, expected);
        assert!(matches!(world.graph(&[3], &[]), Err(Error::RankOutOfRange { rank: 3, size: 3 })));
        let error = graph.neighbor_alltoallv_init::<u8>(&[1], from).unwrap_err();
        assert!(matches!(error, Error::BadCollective { .. }), "{error}");
    });
}

#[test]
fn exchanges_run_at_once_and_are_found_again() {
    everywhere(3, |world| {
        let ring = world.cartesian(&[3], &[true]).unwrap();
        let init = || ring.neighbor_alltoall_init::<u32>(2000).unwrap();
        let (mut first, mut second) = (init(), init());
        for round in 0..10 {
            first.input_mut().fill(10 * ring.rank() + round);
            second.input_mut().fill(1000 * ring.rank() + round);
            if ring.rank() == 1 {
                let _ = second.start().unwrap();
                let _ = first.start().unwrap();
            } else {
                let _ = first.start().unwrap();
                let _ = second.start().unwrap();
            }
            assert!(matches!(first.start(), Err(Error::AlreadyActive)));
            let mut active = second.active().unwrap();
            while !active.test().unwrap() {
                thread::yield_now();
            }
            assert!(matches!(active.test(), Err(Error::Inactive)));
            first.active().unwrap().wait().unwrap();
            assert!(first.active().is_none());
            let left = (ring.rank() + 2) % 3;
            assert_eq!((first.output()[0], second.output()[0]), (10 * left + round, 1000 * left + round));
        }
    });
}

/// Begun one after the other, and ended in any order or not at all: each gets what belongs to it.
#[test]
fn calls_run_at_once_beside_registered_ones() {
    everywhere(3, |world| {
        let ring = world.cartesian(&[3], &[true]).unwrap();
        let (rank, left) = (ring.rank(), (ring.rank() + 2) % 3);
        let mut registered = ring.neighbor_allgather_init::<u32>(1).unwrap();
        for count in [1, 3000, 20_000] {
            let mut outputs = vec![vec![UNTOUCHED; 2 * count]; 6];
            registered.input_mut()[0] = 77 + rank;
            let exchanging = registered.start().unwrap();
            let begin = |(number, output)| {
                let number = number as u32;
                ring.ineighbor_allgather(&vec![100 * number + rank; count], output).unwrap()
            };
            let mut running: Vec<_> = outputs.iter_mut().map(Vec::as_mut_slice).enumerate().map(begin).collect();
            // Each drops another one, and waits in an order of his own.
            running.rotate_left(rank as usize);
            drop(running.remove(2));
            while !running[0].test().unwrap() {
                thread::yield_now();
            }
            let last = running.pop().unwrap();
            let mut received = world.irecv(world.alloc::<u8>(1).unwrap(), left, 5).unwrap();
            world.send(&[1u8], (rank + 1) % 3, 5).unwrap();
            let (mut first, mut second) = (running.remove(1), running.remove(1));
            wait_all(&mut [&mut first, &mut received, &mut second]).unwrap();
            [first, second, last].into_iter().for_each(|one| one.wait().unwrap());
            running.into_iter().for_each(|one| one.wait().unwrap());
            exchanging.wait().unwrap();
            assert_eq!(registered.output()[0], 77 + left);
            let dropped = (2 + rank as usize) % 6;
            for (number, output) in (0..).zip(&outputs).filter(|&(number, _)| number != dropped) {
                let from = |rank| 100 * number as u32 + rank;
                assert!(output[..count].iter().all(|&found| found == from(left)), "call {number}");
                assert!(output[count..].iter().all(|&found| found == from((rank + 1) % 3)), "call {number}");
            }
        }
    });
}

#[test]
fn calls_with_arrays_that_do_not_fit_are_refused_before_anything_is_sent() {
    everywhere(2, |world| {
        let line = world.cartesian(&[2], &[false]).unwrap();
        let refused = |result: Result<(), Error>| result.unwrap_err().to_string();
        let wrong = refused(line.neighbor_allgather(&[1u8; 2], &mut [0; 3]));
        assert_eq!(wrong, "the collective has an output of 4 elements, not of 3");
        let wrong = refused(line.neighbor_alltoall(&[1u8; 5], &mut [0; 4]));
        assert_eq!(wrong, "the collective has an input of 4 elements, not of 5");
        let wrong = refused(line.neighbor_alltoallv(&[1u8; 2], &mut [0; 2], &[2], &[1, 1]));
        assert_eq!(wrong, "no such collective: 1 counts for 2 destinations");
        let wrong = refused(line.neighbor_allgatherv(&[1u8; 2], &mut [0; 2], &[1, 1, 0]));
        assert_eq!(wrong, "no such collective: 3 counts for 2 sources");
        let mut beside = [9; 2];
        line.neighbor_allgather(&[world.rank()], &mut beside).unwrap();
        assert_eq!(beside, if world.rank() == 0 { [9, 1] } else { [0, 9] });
        // Longer than expected.
        let count = 1 + world.rank() as usize;
        let outcome = line.neighbor_allgatherv(&vec![5u64; count], &mut [0; 2], &[1, 1]);
        assert_eq!(matches!(outcome, Err(Error::Truncated { .. })), world.rank() == 0, "{outcome:?}");
    });
}

/// Two hundred need ten times the memory there is.
#[test]
fn an_exchange_dropped_while_it_runs_frees_its_memory_in_the_end() {
    for nodes in [1, 2] {
        let config = || Config { arena_bytes_max: 64 << 20, ..common::config() };
        let cluster = Cluster::start_with(2, (0..nodes).map(|_| config()).collect());
        thread::scope(|scope| {
            for rank in 0..2 {
                let cluster = &cluster;
                scope.spawn(move || {
                    let ring = cluster.attach(rank).world().cartesian(&[2], &[true]).unwrap();
                    for _ in 0..200 {
                        let mut exchange = ring.neighbor_allgather_init::<u8>(1 << 20).unwrap();
                        let _ = exchange.start().unwrap();
                        drop(exchange);
                        ring.barrier().unwrap();
                    }
                    let mut last = ring.neighbor_allgather_init::<u32>(1).unwrap();
                    last.input_mut()[0] = rank;
                    last.start().unwrap().wait().unwrap();
                    assert_eq!(last.output(), [1 - rank; 2]);
                });
            }
        });
    }
}

/// Within a node, small messages and large ones.
#[test]
fn what_both_have_started_arrives_though_one_drops_it_before_anybody_waits() {
    everybody((1, 2), |world| {
        let ring = world.cartesian(&[2], &[true]).unwrap();
        let rank = ring.rank();
        for count in [1, 2000, 40_000] {
            let mut exchange = ring.neighbor_alltoall_init::<u32>(count).unwrap();
            // Daemons start the first round; the second is the ranks' own.
            for round in 0..2 {
                exchange.input_mut().fill(100 * round + rank);
                exchange.start().unwrap().wait().unwrap();
            }
            exchange.input_mut().fill(7 + rank);
            let _ = exchange.start().unwrap();
            ring.barrier().unwrap();
            if rank == 0 {
                drop(exchange);
                ring.barrier().unwrap();
            } else {
                ring.barrier().unwrap();
                soon(|| exchange.active().unwrap().wait()).unwrap();
                assert!(exchange.output().iter().all(|&element| element == 7));
            }
        }
    });
}

/// One waits while the other computes, or comes only when the first sleeps already.
#[test]
fn who_waits_copies_for_a_neighbour_who_computes() {
    /// The thread that waits, or is about to.
    static WAITING: AtomicI32 = AtomicI32::new(0);
    everywhere(2, |world| {
        let ring = world.cartesian(&[2], &[true]).unwrap();
        for count in [1, 300, 2000, 14_000, 40_000] {
            let mut exchange = ring.neighbor_alltoall_init::<u32>(count).unwrap();
            for round in 0..24 {
                let (rank, waits) = (ring.rank(), round % 2);
                let mode = [WaitMode::Blocking, WaitMode::Adaptive, WaitMode::Polling][round as usize % 3];
                exchange.input_mut().fill(100 * round + rank);
                exchange.output_mut().fill(0);
                if rank == waits {
                    let exchanging = exchange.start().unwrap();
                    WAITING.store(gettid().as_raw(), Relaxed);
                    soon(|| exchanging.wait_with(mode)).unwrap();
                    WAITING.store(0, Relaxed);
                    ring.send(&[1u8], 1 - rank, 0).unwrap();
                } else {
                    if round % 4 >= 2 && mode != WaitMode::Polling {
                        soon(|| {
                            while WAITING.load(Relaxed) == 0 {
                                thread::yield_now();
                            }
                        });
                        until_asleep(Pid::from_raw(WAITING.load(Relaxed)));
                    }
                    let exchanging = exchange.start().unwrap();
                    ring.recv(&mut [0u8], 1 - rank, 0).unwrap();
                    exchanging.wait().unwrap();
                }
                assert!(exchange.output().iter().all(|&element| element == 100 * round + 1 - rank));
            }
        }
    });
}

#[test]
fn an_exchange_allocates_nothing_once_it_is_registered() {
    everywhere(2, |world| {
        let grid = world.cartesian(&[2, 1], &[true, true]).unwrap();
        for count in [10, 50_000] {
            let mut exchange = grid.neighbor_alltoall_init::<u8>(count).unwrap();
            let allocated = allocation_counter::measure(|| {
                for _ in 0..10 {
                    exchange.start().unwrap().wait().unwrap();
                }
            });
            assert_eq!(allocated.count_total, 0);
        }
    });
}

/// However many neighbours are on other nodes: four messages go and four come, each too large for a wire.
#[test]
fn a_start_is_a_command_at_most() {
    const ROUNDS: u64 = 20;
    let cluster = Cluster::start(4, 4);
    let all_have = Barrier::new(4);
    everybody_of(&cluster, 4, |world| {
        let grid = world.cartesian(&[2, 2], &[true; 2]).unwrap();
        let mut exchange = grid.neighbor_alltoall_init::<u8>(WIRE_BYTES_MAX as usize + 1).unwrap();
        let mut run = |rounds| (0..rounds).for_each(|_| exchange.start().unwrap().wait().unwrap());
        run(3);
        all_have.wait();
        let commands = || cluster.counter(world.rank() as usize, "commands");
        let before = commands();
        run(ROUNDS);
        assert_eq!(commands() - before, ROUNDS, "of rank {}", world.rank());
        all_have.wait();
    });
}

/// 26 messages are too large for a wire, and 24 fit in an entry of the ring.
#[test]
fn what_does_not_fit_in_one_command_comes_with_it() {
    const ROUNDS: u64 = 20;
    const BYTES: usize = WIRE_BYTES_MAX as usize + 1;
    let cluster = Cluster::start(2, 2);
    let all_have = Barrier::new(2);
    everybody_of(&cluster, 2, |world| {
        let neighbours = [1 - world.rank(); 13];
        let graph = world.graph(&neighbours, &neighbours).unwrap();
        let mut exchange = graph.neighbor_alltoall_init::<u8>(BYTES).unwrap();
        let mut run = |rounds| {
            for round in 0..rounds {
                let blocks = exchange.input_mut().chunks_mut(BYTES).zip(0..);
                blocks.for_each(|(block, index)| block.fill(11 * round as u8 + index));
                exchange.start().unwrap().wait().unwrap();
                let mut blocks = exchange.output().chunks(BYTES).zip(0..);
                assert!(blocks.all(|(block, index)| block.iter().all(|&byte| byte == 11 * round as u8 + index)));
            }
        };
        run(3);
        all_have.wait();
        let commands = || cluster.counter(world.rank() as usize, "commands");
        let before = commands();
        run(ROUNDS);
        assert_eq!(commands() - before, 2 * ROUNDS, "of rank {}", world.rank());
        all_have.wait();
    });
}

/// Cells of tiny messages are full then, and are emptied when the receiver waits.
#[test]
fn a_sender_gets_as_far_ahead_of_a_receiver_that_computes_as_there_are_cells() {
    const AHEAD: u32 = ropeway_shm::eager::CELLS;
    for nodes in [1, 2] {
        let (has_sent, has_started) = (AtomicU32::new(0), AtomicU32::new(0));
        everybody_of(&Cluster::start(nodes, 2), 2, |world| {
            let (sources, targets): (&[u32], &[u32]) = if world.rank() == 0 { (&[], &[1]) } else { (&[0], &[]) };
            let graph = world.graph(sources, targets).unwrap();
            let mut exchange = graph.neighbor_alltoall_init::<u32>(2).unwrap();
            for round in 0..10 * AHEAD {
                // Who was further ahead before sleeps until its message is wanted.
                while round % 7 == 6 && world.rank() == 0 && has_started.load(Relaxed) <= round {
                    thread::yield_now();
                }
                exchange.input_mut().fill(round);
                let exchanging = exchange.start().unwrap();
                if world.rank() == 1 {
                    has_started.store(round + 1, Relaxed);
                }
                while round % 7 == 6 && world.rank() == 1 && has_sent.load(Relaxed) < round + AHEAD {
                    thread::yield_now();
                }
                exchanging.wait().unwrap();
                assert!(exchange.output().iter().all(|&element| element == round));
                if world.rank() == 0 {
                    has_sent.store(round + 1, Relaxed);
                }
            }
        });
    }
}

/// The part of this file that runs in a process of its own: a rank that does nothing until it is killed, at first or after it has
/// started a third round.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let world = ropeway::init().unwrap().world();
    println!("ready");
    if role == "receives" {
        let mut exchange = world.graph(&[0], &[]).unwrap().neighbor_alltoall_init::<u32>(1).unwrap();
        (0..3).for_each(|_| exchange.start().unwrap().wait().unwrap());
        world.send(&[1u8], 0, 0).unwrap();
        let _ = world.recv(&mut [0u8], world.rank(), 0);
    } else if role != "silent" {
        let ring = world.cartesian(&[2], &[true]).unwrap();
        let mut exchange = ring.neighbor_alltoall_init::<u32>(role.parse().unwrap()).unwrap();
        exchange.start().unwrap().wait().unwrap();
        exchange.start().unwrap().wait().unwrap();
        exchange.input_mut().fill(7);
        let _ = exchange.start().unwrap();
        world.send(&[1u8], 0, 0).unwrap();
        // Dropping the exchange would be something else.
        let _ = world.recv(&mut [0u8], world.rank(), 0);
    }
    let _ = world.recv(&mut [0u8], world.rank(), 0);
}

/// Two rounds of an exchange with a neighbour in a process of its own, which starts a third one.
fn after_two_rounds(cluster: &Cluster, count: usize) -> (Session, Rank, NeighborCollective<u32>) {
    let session = cluster.attach(0);
    let neighbour = cluster.spawn(1, module_path!(), &count.to_string());
    let ring = session.world().cartesian(&[2], &[true]).unwrap();
    let mut exchange = ring.neighbor_alltoall_init(count).unwrap();
    exchange.start().unwrap().wait().unwrap();
    exchange.start().unwrap().wait().unwrap();
    (session, neighbour, exchange)
}

#[test]
fn what_a_dead_neighbour_had_started_arrives() {
    for count in [1, 2000, 40_000] {
        let cluster = Cluster::start(1, 2);
        let (session, mut neighbour, mut exchange) = after_two_rounds(&cluster, count);
        let exchanging = exchange.start().unwrap();
        session.world().recv(&mut [0u8], 1, 0).unwrap();
        neighbour.kill();
        assert!(matches!(session.world().barrier(), Err(Error::RankFailed { rank: 1 })));
        soon(|| exchanging.wait()).unwrap();
        assert!(exchange.output().iter().all(|&element| element == 7));
    }
}

/// However it starts: with others or by itself, within a node or over a wire.
#[test]
fn an_exchange_whose_neighbour_dies_after_some_rounds_fails_from_then_on() {
    for (nodes, count) in [(1, 1), (1, 2000), (1, 40_000), (2, 1), (2, 2000), (2, 14_000), (2, 40_000)] {
        let cluster = Cluster::start(nodes, 2);
        let (session, mut neighbour, mut exchange) = after_two_rounds(&cluster, count);
        session.world().recv(&mut [0u8], 1, 0).unwrap();
        neighbour.kill();
        // What it had started before may have come.
        let exchanging = exchange.start().unwrap();
        let _ = soon(|| exchanging.wait());
        for _ in 0..2 {
            let error = soon(|| exchange.start().unwrap().wait().unwrap_err());
            assert!(matches!(error, Error::RankFailed { rank: 1 }), "{nodes} nodes, {count}: {error}");
        }
    }
}

/// What it has sent before it notices lies in cells, or with the connection, which nobody reads who only sends until credit is short.
#[test]
fn who_only_sends_to_a_dead_neighbour_notices_soon() {
    for (nodes, more_rounds) in [(1, 1), (2, 64)] {
        let cluster = Cluster::start(nodes, 2);
        let session = cluster.attach(0);
        let mut neighbour = cluster.spawn(1, module_path!(), "receives");
        let mut exchange = session.world().graph(&[], &[1]).unwrap().neighbor_alltoall_init::<u32>(1).unwrap();
        let mut round = || soon(|| exchange.start().unwrap().wait());
        (0..3).for_each(|_| round().unwrap());
        session.world().recv(&mut [0u8], 1, 0).unwrap();
        neighbour.kill();
        assert!(matches!(session.world().barrier(), Err(Error::RankFailed { rank: 1 })));
        let error = (0..=more_rounds).find_map(|_| round().err());
        assert!(matches!(error, Some(Error::RankFailed { rank: 1 })), "{nodes} nodes: {error:?}");
        assert!(matches!(round(), Err(Error::RankFailed { rank: 1 })));
    }
}

/// Though the other neighbour, who is alive, never comes.
#[test]
fn an_exchange_with_a_dead_neighbour_fails_at_once() {
    for count in [1, 100_000] {
        let cluster = Cluster::start(1, 3);
        let (zero, _one) = common::pair(&cluster);
        let mut neighbour = cluster.spawn(2, module_path!(), "silent");
        let ring = zero.world().cartesian(&[3], &[true]).unwrap();
        let mut exchange = ring.neighbor_alltoall_init::<u64>(count).unwrap();
        exchange.input_mut().fill(1);
        let exchanging = exchange.start().unwrap();
        neighbour.kill();
        let error = soon(|| exchanging.wait().unwrap_err());
        assert!(matches!(error, Error::RankFailed { rank: 2 }), "{error}");
        assert_eq!(exchange.input()[0], 1);
        assert!(exchange.active().is_none());
        let error = soon(|| exchange.start().unwrap().wait().unwrap_err());
        assert!(matches!(error, Error::RankFailed { rank: 2 }), "{error}");
        let mut output = vec![0u64; 2 * count];
        let error = soon(|| ring.neighbor_allgather(&vec![1; count], &mut output).unwrap_err());
        assert!(matches!(error, Error::RankFailed { rank: 2 }), "{error}");
    }
}
