//! Communicators beside the world: who is in them, and what never meets.

use std::thread;

use ropeway::{ANY_SOURCE, ANY_TAG, Collective, Communicator, Error, Operator, Session, start_all};

use crate::common::{self, Cluster, everywhere, soon};

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
fn ranks_of_a_node_are_split_off_in_their_order() {
    for (nodes, expected) in [(1, vec![vec![0, 1, 2, 3, 4]]), (2, vec![vec![0, 1, 2], vec![3, 4]])] {
        let cluster = Cluster::start(nodes, 5);
        thread::scope(|scope| {
            for rank in 0..5 {
                let (session, expected) = (cluster.attach(rank), &expected);
                scope.spawn(move || {
                    let world = session.world();
                    let mut members = expected.iter().find(|members| members.contains(&rank)).unwrap().clone();
                    let node = world.split_by_node().unwrap();
                    assert_eq!(node.group(), &world.group().include(&members).unwrap());
                    exchange_in_a_ring(&node, 100 * members[0]);
                    // In whatever order they are.
                    let reversed = world.split(Some(0), -(rank as i32)).unwrap().unwrap();
                    members.reverse();
                    assert_eq!(reversed.split_by_node().unwrap().group(), &world.group().include(&members).unwrap());
                });
            }
        });
    }
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

/// Collectives between nodes are messages, too, and some go straight from rank to rank; a receive for anything must not get them.
#[test]
fn a_receive_for_anything_gets_nothing_of_collectives() {
    for (nodes, size) in [(1, 4), (2, 4), (4, 4)] {
        let cluster = Cluster::start(nodes, size);
        common::everybody_of(&cluster, size, |world| {
            let (rank, size) = (world.rank(), world.size());
            let left = (rank + size - 1) % size;
            let anything = world.irecv(world.alloc::<u32>(3).unwrap(), ANY_SOURCE, ANY_TAG).unwrap();
            for elements in [3, 20_000] {
                let mut registered = world.allreduce_init::<u32>(elements, Operator::Sum).unwrap();
                for _ in 0..4 {
                    registered.input_mut().fill(rank);
                    registered.start().unwrap().wait().unwrap();
                    assert!(registered.output().iter().all(|&sum| sum == size * (size - 1) / 2));
                    let mut all = vec![0; elements * size as usize];
                    world.allgather(&vec![rank; elements], &mut all).unwrap();
                    assert!(all.chunks(elements).zip(0..).all(|(part, other)| part.iter().all(|&from| from == other)));
                    world.bcast(&mut all[..elements], 1).unwrap();
                    assert!(world.iprobe(ANY_SOURCE, ANY_TAG).unwrap().is_none());
                }
            }
            world.barrier().unwrap();
            world.send(&[rank; 3], (rank + 1) % size, 7).unwrap();
            let (received, status) = anything.wait().unwrap();
            assert_eq!((status.source, status.tag, &received[..]), (left, 7, &[left; 3][..]));
        });
    }
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
            trio.allgatherv_init(&[2, 0, 5000]).unwrap(),
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

#[test]
fn a_communicator_of_one_does_not_need_the_others() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 2);
        let (zero, one) = common::pair(&cluster);
        let world = zero.world();
        let alone = world.create(&world.group().include(&[0]).unwrap()).unwrap().unwrap();
        drop(one);
        let error = soon(|| world.recv(&mut [0u8], 1, 0).unwrap_err());
        assert!(matches!(error, Error::RankLeft { rank: 1 }), "{error}");
        exchange_in_a_ring(&alone, 5);
        alone.barrier().unwrap();
        exchange_in_a_ring(&alone.dup().unwrap(), 6);
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
    let mut member = cluster.spawn(2, module_path!(), "member");
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
    let mut outsider = cluster.spawn(2, module_path!(), "silent");
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
