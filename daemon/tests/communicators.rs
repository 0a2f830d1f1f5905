//! Communicators beside the world: who is in them, what never meets, and what neighbours exchange.

mod common;

use std::thread;

use common::{Cluster, everywhere, soon};
use ropeway::{ANY_SOURCE, ANY_TAG, Collective, Communicator, Error, NeighborCollective, Operator, Session, start_all};

/// A message to the right and one from the left, persistent and one-shot.
fn exchange_in_a_ring(ring: &Communicator, label: u32) {
    let (rank, size) = (ring.rank(), ring.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let mut send = ring.send_init(ring.alloc::<u32>(3).unwrap(), right, 1).unwrap();
    let mut recv = ring.recv_init(ring.alloc::<u32>(3).unwrap(), left, 1).unwrap();
    send.buffer_mut().fill(label + rank);
    for _ in 0..3 {
        let receiving = recv.start().unwrap();
        let sending = send.start().unwrap();
        assert_eq!(receiving.wait().unwrap().source, left);
        assert_eq!(sending.wait().unwrap().source, rank);
    }
    assert_eq!(recv.buffer(), [label + left; 3]);
    let mut message = [0; 3];
    let status = ring.sendrecv(&[label + rank; 3], right, 1, &mut message, ANY_SOURCE, 1).unwrap();
    assert_eq!((status.source, message), (left, [label + left; 3]));
}

/// Runs `act` as every rank of a job on one node, where collectives are.
fn on_one_node(ranks: u32, act: impl Fn(Communicator) + Sync) {
    let cluster = Cluster::start(1, ranks);
    let sessions: Vec<Session> = (0..ranks).map(|rank| cluster.attach(rank)).collect();
    thread::scope(|scope| {
        for session in &sessions {
            scope.spawn(|| act(session.world()));
        }
    });
}

#[test]
fn messages_of_a_duplicate_never_meet_those_of_its_original() {
    everywhere(2, |world| {
        let copy = world.dup().unwrap();
        assert_eq!((copy.rank(), copy.size(), copy.group()), (world.rank(), 2, world.group()));
        if world.rank() == 0 {
            let mut sends = [&copy, &world].map(|comm| comm.send_init(comm.alloc(1).unwrap(), 1, 5).unwrap());
            sends[0].buffer_mut()[0] = 30u32;
            sends[1].buffer_mut()[0] = 40;
            copy.send(&[10u32], 1, 5).unwrap();
            world.send(&[20u32], 1, 5).unwrap();
            start_all(&mut sends).unwrap().wait_all().unwrap();
        } else {
            let mut recvs = [&world, &copy].map(|comm| comm.recv_init(comm.alloc::<u32>(1).unwrap(), 0, 5).unwrap());
            let mut message = [0u32];
            assert_eq!(world.recv(&mut message, ANY_SOURCE, ANY_TAG).unwrap().source, 0);
            assert_eq!(message, [20]);
            assert!(world.iprobe(ANY_SOURCE, ANY_TAG).unwrap().is_none());
            assert_eq!(copy.probe(ANY_SOURCE, ANY_TAG).unwrap().tag, 5);
            copy.recv(&mut message, ANY_SOURCE, ANY_TAG).unwrap();
            assert_eq!(message, [10]);
            start_all(&mut recvs).unwrap().wait_all().unwrap();
            assert_eq!((recvs[0].buffer()[0], recvs[1].buffer()[0]), (40, 30));
        }
        world.barrier().unwrap();
    });
}

/// Far more than fit a block: the ranks agree on further ones on the way.
#[test]
fn duplicates_of_duplicates_are_all_apart() {
    everywhere(2, |world| {
        let part = world.split(Some(0), 0).unwrap().unwrap();
        let mut all = vec![world.clone(), part.clone(), part.dup().unwrap()];
        for number in 0..60 {
            let origin = &all[number % 3];
            all.push(origin.dup().unwrap());
        }
        let peer = 1 - world.rank();
        let send = |(comm, number): (&Communicator, u32)| {
            let mut message = comm.alloc(1).unwrap();
            message[0] = number;
            comm.isend(message, peer, 0).unwrap()
        };
        let numbers = 0..all.len() as u32;
        let sends: Vec<_> = all.iter().zip(numbers.clone()).map(send).collect();
        for (comm, number) in all.iter().zip(numbers).rev() {
            let mut message = [u32::MAX];
            comm.recv(&mut message, ANY_SOURCE, ANY_TAG).unwrap();
            assert_eq!(message, [number]);
        }
        sends.into_iter().for_each(|send| drop(send.wait().unwrap()));
    });
}

#[test]
fn a_split_numbers_by_key_and_then_by_rank() {
    everywhere(6, |world| {
        let rank = world.rank();
        let half = world.split(Some(7 + rank % 2), -(rank as i32)).unwrap().unwrap();
        assert_eq!((half.size(), half.rank()), (3, 2 - rank / 2));
        let of_world: Vec<_> = (0..3).map(|number| half.group().translate(number, world.group())).collect();
        assert_eq!(of_world, [4, 2, 0].map(|other| Some(other + rank % 2)));
        exchange_in_a_ring(&half, 100 * (rank % 2));
        half.barrier().unwrap();
        // The same keys: ranks stay in order. Some want nothing.
        let first = world.split((rank != 3).then_some(u32::MAX), 5).unwrap();
        let expected = [Some(0), Some(1), Some(2), None, Some(3), Some(4)][rank as usize];
        assert_eq!(first.as_ref().map(Communicator::rank), expected);
        if let Some(first) = first {
            exchange_in_a_ring(&first, 1000);
            let alone = first.split(Some(first.rank()), 0).unwrap().unwrap();
            assert_eq!((alone.rank(), alone.size()), (0, 1));
            exchange_in_a_ring(&alone, 2000);
        }
    });
}

#[test]
fn groups_that_overlap_have_communicators_that_do_not() {
    everywhere(4, |world| {
        let all = world.group();
        let groups = [&[0, 1, 2][..], &[3, 1, 2], &[0, 3], &[2, 1], &[2, 1]].map(|ranks| all.include(ranks).unwrap());
        let comms = groups.each_ref().map(|group| world.create(group).unwrap());
        for (group, comm) in groups.iter().zip(&comms) {
            assert_eq!(all.translate(world.rank(), group), comm.as_ref().map(Communicator::rank));
        }
        for (comm, label) in comms.iter().zip([100, 200, 300, 400, 500]) {
            if let Some(comm) = comm {
                exchange_in_a_ring(comm, label);
            }
        }
        if let [Some(first), ..] = &comms {
            assert!(first.create(&groups[1].intersection(first.group())).is_ok());
            let error = first.create(&groups[1]).unwrap_err();
            assert!(matches!(error, Error::BadGroup { .. }), "{error}");
        }
        assert!(world.create(&all.include(&[]).unwrap()).unwrap().is_none());
    });
}

/// Each thread has a duplicate, and makes communicators of it while others do.
#[test]
fn threads_make_communicators_at_the_same_time() {
    everywhere(3, |world| {
        let bases: Vec<_> = (0..4).map(|_| world.dup().unwrap()).collect();
        thread::scope(|scope| {
            for (base, label) in bases.iter().zip([1000, 2000, 3000, 4000]) {
                scope.spawn(move || {
                    let made: Vec<_> = (0..8).map(|key| base.split(Some(0), key).unwrap().unwrap()).collect();
                    made.iter().zip(label..).for_each(|(comm, label)| exchange_in_a_ring(comm, label));
                });
            }
        });
    });
}

/// Sums up what everybody has, and expects it to come to that.
fn sum_up(sum: &mut Collective<u64>, own: u64, expected: u64) {
    sum.input_mut().fill(own);
    sum.start().unwrap().wait().unwrap();
    assert!(sum.output().iter().all(|&total| total == expected));
}

#[test]
fn disjoint_communicators_have_collectives_at_once() {
    on_one_node(6, |world| {
        let rank = u64::from(world.rank());
        let colour = rank % 3;
        let pair = world.split(Some(colour as u32), -(rank as i32)).unwrap().unwrap();
        let again = pair.dup().unwrap();
        let init = |comm: &Communicator, count| comm.allreduce_init::<u64>(count, Operator::Sum).unwrap();
        // Different counts in each group: if they met, they would not agree.
        let count = 100 * (colour as usize + 1);
        let (mut ours, mut others, mut all) = (init(&pair, count), init(&again, 1), init(&world, 7));
        let mut turns = pair.bcast_init::<u64>(count, 1).unwrap();
        for round in 0..20 {
            sum_up(&mut ours, rank + round, 2 * colour + 3 + 2 * round);
            sum_up(&mut all, rank, 15);
            sum_up(&mut others, 1, 2);
            turns.output_mut().fill(rank);
            turns.start().unwrap().wait().unwrap();
            // Numbered by falling rank: the last is the first of the job.
            assert!(turns.output().iter().all(|&root| root == colour));
        }
    });
}

#[test]
fn collectives_of_one_communicator_run_at_once_in_any_order() {
    on_one_node(4, |world| {
        let trio = world.split((world.rank() != 1).then_some(0), -(world.rank() as i32)).unwrap();
        let Some(trio) = trio else { return };
        let rank = u64::from(trio.rank());
        let mut running = vec![
            trio.allreduce_init::<u64>(4000, Operator::Sum).unwrap(),
            trio.bcast_init(3, 2).unwrap(),
            trio.allgather_init(&[2, 0, 5000]).unwrap(),
            trio.allreduce_init(1, Operator::Max).unwrap(),
            trio.alltoall_init(10).unwrap(),
        ];
        for round in 0..30 {
            for (collective, label) in running.iter_mut().zip(0..) {
                collective.input_mut().fill(100 * label + rank + round);
            }
            running[1].output_mut().fill(rank + round);
            // Everybody starts with another one, one of them backwards.
            let start = (rank + round) as usize % running.len();
            running.rotate_left(start);
            if rank == 1 {
                running.reverse();
            }
            start_all(&mut running).unwrap().wait_all().unwrap();
            if rank == 1 {
                running.reverse();
            }
            running.rotate_right(start);
            assert!(running[0].output().iter().all(|&sum| sum == 3 + 3 * round));
            assert_eq!(running[1].output(), [2 + round; 3]);
            assert_eq!(running[2].output()[..3], [200 + round, 200 + round, 202 + round]);
            assert_eq!(running[3].output(), [302 + round]);
            assert!(running[4].output().iter().enumerate().all(|(at, &from)| from == 400 + at as u64 / 10 + round));
        }
    });
}

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

/// Rounds of a collective with blocks of `count`, against `expected` from slot and element; `None` is what stays.
fn neighbour_rounds(
    collective: &mut NeighborCollective<u32>,
    rank: u32,
    count: usize,
    expected: impl Fn(usize, usize, u32) -> Option<u32>,
) {
    for round in 0..4 {
        collective.output_mut().fill(UNTOUCHED);
        for (at, element) in collective.input_mut().iter_mut().enumerate() {
            *element = sent(rank, at / count, at % count, round);
        }
        collective.start().unwrap().wait().unwrap();
        for (at, &found) in collective.output().iter().enumerate() {
            let (slot, index) = (at / count, at % count);
            let wanted = expected(slot, index, round).unwrap_or(UNTOUCHED);
            assert_eq!(found, wanted, "rank {rank}, block {slot}, element {index}, round {round}");
        }
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
        }
        let lengths: Vec<usize> = graph.sources().map(|source| source.unwrap() as usize).collect();
        let mut gather = graph.neighbor_allgatherv_init::<u8>(graph.rank() as usize, &lengths).unwrap();
        gather.input_mut().fill(graph.rank() as u8);
        gather.start().unwrap().wait().unwrap();
        let expected: &[u8] = [&[2, 2][..], &[1], &[1, 2, 2]][graph.rank() as usize];
        assert_eq!(gather.output(), expected);
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

#[test]
fn an_exchange_dropped_while_it_runs_frees_its_memory_in_the_end() {
    everywhere(2, |world| {
        let ring = world.cartesian(&[2], &[true]).unwrap();
        for _ in 0..200 {
            let mut exchange = ring.neighbor_allgather_init::<u8>(1 << 20).unwrap();
            let _ = exchange.start().unwrap();
        }
        world.barrier().unwrap();
        exchange_in_a_ring(&ring, 0);
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

#[test]
fn errors_name_ranks_of_the_communicator() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 3);
        let sessions: [Session; 3] = [0, 1, 2].map(|rank| cluster.attach(rank));
        let pair = |session: &Session| {
            let world = session.world();
            let group = world.group().include(&[2, 0]).unwrap();
            world.create(&group).unwrap()
        };
        let [first, outsider, last] = &sessions;
        let (ours, theirs) = thread::scope(|scope| {
            let theirs = scope.spawn(|| pair(last).unwrap());
            (pair(first).unwrap(), theirs.join().unwrap())
        });
        assert!(pair(outsider).is_none());
        assert_eq!((ours.rank(), theirs.rank()), (1, 0));
        assert!(matches!(ours.send(&[1u8], 2, 0), Err(Error::RankOutOfRange { rank: 2, size: 2 })));
        let mut recv = ours.recv_init(ours.alloc::<u8>(1).unwrap(), 0, 0).unwrap();
        let receiving = recv.start().unwrap();
        drop(theirs);
        let [_first, _outsider, last] = sessions;
        drop(last);
        let error = soon(|| receiving.wait().unwrap_err());
        assert!(matches!(error, Error::RankLeft { rank: 0 }), "{error}");
        assert!(matches!(ours.send(&[1u8], 0, 0), Err(Error::RankLeft { rank: 0 })));
    }
}

/// The part of this file that runs in processes of their own.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let world = ropeway::init().unwrap().world();
    println!("ready");
    match role.as_str() {
        "member" => {
            let group = world.group().include(&[2, 0]).unwrap();
            let pair = world.create(&group).unwrap().unwrap();
            pair.send(&[7u8], 1, 0).unwrap();
        }
        "silent" => {}
        role => unreachable!("nobody plays {role}"),
    }
    // Until it is killed.
    let _ = world.recv(&mut [0u8], world.rank(), 0);
}

#[test]
fn a_member_that_dies_is_named_by_its_number() {
    let cluster = Cluster::start(1, 3);
    let world = cluster.attach(0).world();
    let mut member = cluster.spawn(2, "member");
    let pair = world.create(&world.group().include(&[2, 0]).unwrap()).unwrap().unwrap();
    assert_eq!(pair.recv(&mut [0u8], ANY_SOURCE, 0).unwrap().source, 0);
    let mut recv = pair.recv_init(pair.alloc::<u8>(1).unwrap(), 0, 0).unwrap();
    let receiving = recv.start().unwrap();
    let any = pair.irecv(pair.alloc::<u8>(1).unwrap(), ANY_SOURCE, 9).unwrap();
    let mut sum = pair.allreduce_init::<u64>(1, Operator::Sum).unwrap();
    let summing = sum.start().unwrap();
    member.kill();
    let errors = soon(|| [receiving.wait().unwrap_err(), any.wait().unwrap_err(), summing.wait().unwrap_err()]);
    assert!(errors.iter().all(|error| matches!(error, Error::RankFailed { rank: 0 })), "{errors:?}");
}

#[test]
fn a_stranger_that_dies_is_not_taken_for_a_member() {
    let cluster = Cluster::start(1, 3);
    let (zero, one) = common::pair(&cluster);
    let mut outsider = cluster.spawn(2, "silent");
    let make = |session: &Session| {
        let world = session.world();
        world.create(&world.group().include(&[0, 1]).unwrap()).unwrap().unwrap()
    };
    let (ours, theirs) = thread::scope(|scope| {
        let theirs = scope.spawn(|| make(&one));
        (make(&zero), theirs.join().unwrap())
    });
    let any = ours.irecv(ours.alloc::<u8>(1).unwrap(), ANY_SOURCE, 0).unwrap();
    let mut from_one = ours.recv_init(ours.alloc::<u8>(1).unwrap(), 1, 0).unwrap();
    let receiving = from_one.start().unwrap();
    outsider.kill();
    let error = soon(|| any.wait().unwrap_err());
    assert!(matches!(error, Error::OutsiderGone { rank: 2 }), "{error}");
    let mut send = theirs.send_init(theirs.alloc::<u8>(1).unwrap(), 0, 0).unwrap();
    send.start().unwrap().wait().unwrap();
    receiving.wait().unwrap();
}

/// Though the other neighbour, who is alive, never comes.
#[test]
fn an_exchange_with_a_dead_neighbour_fails_at_once() {
    for count in [1, 100_000] {
        let cluster = Cluster::start(1, 3);
        let (zero, _one) = common::pair(&cluster);
        let mut neighbour = cluster.spawn(2, "silent");
        let ring = zero.world().cartesian(&[3], &[true]).unwrap();
        let mut exchange = ring.neighbor_alltoall_init::<u64>(count).unwrap();
        exchange.input_mut().fill(1);
        let exchanging = exchange.start().unwrap();
        neighbour.kill();
        let error = soon(|| exchanging.wait().unwrap_err());
        assert!(matches!(error, Error::RankFailed { rank: 2 }), "{error}");
        assert_eq!(exchange.input()[0], 1);
        assert!(exchange.active().is_none());
    }
}
