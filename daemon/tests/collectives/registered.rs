//! Collectives of ranks of one and of several nodes, against what a single process would compute.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex, mpsc};

use nix::unistd::gettid;
use ropeway::{Collective, Communicator, Difference, Error, Favor, Operator, Session, WaitMode, start_all};

use crate::common::storm::{Storm, kill_in_storms};
use crate::common::{Cluster, everybody, everybody_of, soon, uneven, until_asleep};

/// Nothing, one element, odd numbers, and more than one rank should do alone.
const COUNTS: [usize; 5] = [0, 1, 7, 1000, 30_001];
/// Nodes and ranks.
const PLACES: [(usize, u32); 10] = [(1, 1), (1, 2), (1, 3), (1, 4), (1, 7), (1, 8), (2, 2), (2, 5), (3, 7), (4, 4)];
const ROUNDS: u64 = 3;

/// Runs `act` as each rank of a communicator whose ranks are in the order of their nodes, and of one whose are not.
fn in_both_orders((nodes, size): (usize, u32), act: impl Fn(Communicator) + Sync) {
    everybody((nodes, size), |world| {
        act(world.clone());
        if nodes > 1 {
            // 0, 3, …, 1, 4, …, 2, 5, …
            act(world.split(Some(0), world.rank() as i32 % 3).unwrap().unwrap());
        }
    });
}

/// What rank `rank` contributes in a round, as element `index`.
fn element(rank: usize, round: u64, index: usize) -> u64 {
    (rank as u64 + 1) * 1_000_003 + round * 7919 + index as u64 * 31
}

/// Runs rounds of a collective: inputs are filled, outputs compared with what `expected` says of their elements.
fn rounds(collective: &mut Collective<u64>, rank: usize, expected: impl Fn(u64, usize) -> Option<u64>) {
    for round in 0..ROUNDS {
        collective.output_mut().fill(u64::MAX);
        for (index, place) in collective.input_mut().iter_mut().enumerate() {
            *place = element(rank, round, index);
        }
        collective.start().unwrap().wait().unwrap();
        for (index, &found) in collective.output().iter().enumerate() {
            if let Some(wanted) = expected(round, index) {
                assert_eq!(found, wanted, "round {round}, element {index} of rank {rank}");
            }
        }
    }
}

/// Which rank's part element `index` of all parts is in, and where in that part.
fn part_of(counts: &[usize], mut index: usize) -> (usize, usize) {
    for (rank, &count) in counts.iter().enumerate() {
        if index < count {
            return (rank, index);
        }
        index -= count;
    }
    unreachable!("the element is in a part")
}

#[test]
fn a_broadcast_gives_everybody_what_the_root_has() {
    for (nodes, size) in PLACES {
        in_both_orders((nodes, size), |world| {
            let rank = world.rank() as usize;
            for (root, count) in (0..size).flat_map(|root| COUNTS.map(|count| (root, count))) {
                let mut bcast = world.bcast_init::<u64>(count, root).unwrap();
                for round in 0..ROUNDS {
                    let value = |index| element(root as usize, round, index);
                    for (index, place) in bcast.output_mut().iter_mut().enumerate() {
                        *place = if rank == root as usize { value(index) } else { 0 };
                    }
                    bcast.start().unwrap().wait().unwrap();
                    assert!(bcast.output().iter().enumerate().all(|(index, &found)| found == value(index)));
                }
            }
        });
    }
}

/// It may be ahead by as many messages as there are cells, four of these sizes, and nobody else is needed for them.
#[test]
fn a_root_gets_ahead_with_small_messages() {
    gets_ahead::<127>();
    gets_ahead::<300>();
}

fn gets_ahead<const CAST: usize>() {
    let cluster = Cluster::start(1, 3);
    let sessions: Vec<Session> = (0..3).map(|rank| cluster.attach(rank)).collect();
    let init = |session: &Session| session.world().bcast_init::<u64>(CAST, 1).unwrap();
    let mut casts: Vec<_> = std::thread::scope(|scope| {
        let inits: Vec<_> = sessions.iter().map(|session| scope.spawn(move || init(session))).collect();
        inits.into_iter().map(|cast| cast.join().unwrap()).collect()
    });
    let mut root = casts.remove(1);
    for first in (0..40).step_by(5) {
        for number in first..first + 4 {
            root.output_mut().fill(number);
            root.start().unwrap().wait().unwrap();
        }
        // There is no room for the fifth before everybody has taken the first.
        root.output_mut().fill(first + 4);
        let mut parked = root.start().unwrap();
        assert!(parked.test().unwrap().is_none());
        for number in first..first + 5 {
            for (receiver, cast) in casts.iter_mut().enumerate() {
                assert_eq!(number == first && receiver < 2, root_waits(&mut root), "{number} {receiver}");
                cast.start().unwrap().wait().unwrap();
                assert_eq!(cast.output(), [number; CAST]);
            }
        }
    }
    // What it has sent before it leaves can still be had.
    root.output_mut().fill(99);
    root.start().unwrap().wait().unwrap();
    drop(root);
    for cast in &mut casts {
        cast.start().unwrap().wait().unwrap();
        assert_eq!(cast.output(), [99; CAST]);
        let error = soon(|| cast.start().and_then(|active| active.wait()).unwrap_err());
        assert!(matches!(error, Error::PeerFreed { rank: 1 }), "{error}");
    }
}

/// Its start was all it did, and some wait already when it comes.
#[test]
fn nobody_waits_for_a_root_that_computes() {
    let cluster = Cluster::start(1, 3);
    let worlds = [0, 1, 2].map(|rank| cluster.attach(rank).world());
    for count in [10, 127, 300, 1000, 5000] {
        std::thread::scope(|scope| {
            for world in &worlds {
                scope.spawn(move || {
                    let mut cast = world.bcast_init::<u64>(count, 0).unwrap();
                    for round in 0..20 {
                        match world.rank() {
                            0 => {
                                cast.output_mut().fill(round);
                                let casting = cast.start().unwrap();
                                (1..3).for_each(|rank| assert!(world.recv(&mut [0u8], rank, 0).is_ok()));
                                casting.wait().unwrap();
                            }
                            rank => {
                                let mode =
                                    [WaitMode::Blocking, WaitMode::Adaptive][(u64::from(rank) + round) as usize % 2];
                                let casting = cast.start().unwrap();
                                soon(|| casting.wait_with(mode).unwrap());
                                assert!(cast.output().iter().all(|&found| found == round));
                                world.send(&[1u8], 0, 0).unwrap();
                            }
                        }
                    }
                });
            }
        });
    }
}

fn root_waits(root: &mut Collective<u64>) -> bool {
    root.active().is_some_and(|mut active| active.test().unwrap().is_none())
}

#[test]
fn parts_are_gathered_and_scattered() {
    for (nodes, size) in PLACES {
        in_both_orders((nodes, size), |world| {
            let rank = world.rank() as usize;
            for count in COUNTS {
                let counts = uneven(size as usize, count);
                let before: usize = counts[..rank].iter().sum();
                let gathered = |round, index| {
                    let (from, within) = part_of(&counts, index);
                    Some(element(from, round, within))
                };
                rounds(&mut world.allgatherv_init(&counts).unwrap(), rank, gathered);
                for root in [0, size / 2, size - 1] {
                    rounds(&mut world.gatherv_init(&counts, root).unwrap(), rank, gathered);
                    let scattered = |round, index| Some(element(root as usize, round, before + index));
                    rounds(&mut world.scatterv_init(&counts, root).unwrap(), rank, scattered);
                }
                let mut in_place = world.allgatherv_in_place_init(&counts).unwrap();
                for (index, place) in in_place.input_mut().iter_mut().enumerate() {
                    *place = element(rank, 0, index);
                }
                in_place.start().unwrap().wait().unwrap();
                for (index, &found) in in_place.output().iter().enumerate() {
                    assert_eq!(Some(found), gathered(0, index));
                }
            }
        });
    }
}

#[test]
fn everybody_gets_a_part_of_everybody() {
    for (nodes, size) in PLACES {
        in_both_orders((nodes, size), |world| {
            let rank = world.rank() as usize;
            for count in COUNTS.map(|count| count / size as usize) {
                let alike = |round, index: usize| {
                    let (from, within) = (index / count.max(1), index % count.max(1));
                    Some(element(from, round, rank * count + within))
                };
                rounds(&mut world.alltoall_init(count).unwrap(), rank, alike);
                let all = size as usize;
                let counts: Vec<usize> = (0..all * all).map(|pair| (pair * 5 + count) % (count + 2)).collect();
                let to_us: Vec<usize> = (0..all).map(|from| counts[from * all + rank]).collect();
                let uneven = |round, index| {
                    let (from, within) = part_of(&to_us, index);
                    let before: usize = counts[from * all..from * all + rank].iter().sum();
                    Some(element(from, round, before + within))
                };
                rounds(&mut world.alltoallv_init(&counts).unwrap(), rank, uneven);
            }
        });
    }
}

#[test]
fn inputs_are_combined() {
    for (nodes, size) in PLACES {
        in_both_orders((nodes, size), |world| {
            let (rank, all) = (world.rank() as usize, size as usize);
            let sum = |ranks: std::ops::Range<usize>, round, index| -> u64 {
                ranks.map(|rank| element(rank, round, index)).fold(0, u64::wrapping_add)
            };
            for count in COUNTS {
                let total = |round, index| Some(sum(0..all, round, index));
                rounds(&mut world.allreduce_init(count, Operator::Sum).unwrap(), rank, total);
                for root in [0, size - 1] {
                    rounds(&mut world.reduce_init(count, Operator::Sum, root).unwrap(), rank, total);
                }
                let until = |round, index| Some(sum(0..rank + 1, round, index));
                rounds(&mut world.scan_init(count, Operator::Sum).unwrap(), rank, until);
                let before = |round, index| Some(if rank == 0 { u64::MAX } else { sum(0..rank, round, index) });
                rounds(&mut world.exscan_init(count, Operator::Sum).unwrap(), rank, before);
                let counts = uneven(size as usize, count / all);
                let first: usize = counts[..rank].iter().sum();
                let own = |round, index| Some(sum(0..all, round, first + index));
                rounds(&mut world.reduce_scatter_init(&counts, Operator::Sum).unwrap(), rank, own);
            }
        });
    }
}

/// Sums of floats depend on how they are grouped; programs that decide by them must all decide alike.
#[test]
fn everybody_gets_the_same_sum_to_the_bit() {
    for (nodes, size) in PLACES {
        let sums = Mutex::new(Vec::new());
        everybody((nodes, size), |world| {
            let sum = COUNTS.map(|count| {
                let mut sum = vec![if world.rank() == 0 { 1e16 } else { 1.0 }; count];
                world.allreduce_in_place(&mut sum, Operator::Sum).unwrap();
                sum
            });
            sums.lock().unwrap().push(sum);
        });
        let mut sums = sums.into_inner().unwrap();
        sums.dedup();
        assert_eq!(sums.len(), 1, "{size} ranks on {nodes} nodes");
    }
}

/// Nothing is looked up or made any more, whoever is root and whether members share their node; and of small ones without a root the daemon is
/// told once a round between nodes, by who comes last.
#[test]
fn starts_and_waits_allocate_nothing_and_take_a_command_at_most() {
    const ROUNDS: u64 = 50;
    const LARGE: usize = 20_000;
    for (nodes, size, of_the_last) in [(1, 4, 0), (2, 4, ROUNDS), (2, 2, ROUNDS)] {
        let cluster = Cluster::start(nodes, size);
        let all_have = Barrier::new(size as usize);
        everybody_of(&cluster, size, |world| {
            let rank = world.rank();
            let of_each = ROUNDS * u64::from(size) / nodes as u64;
            let collectives = [
                (world.allreduce_init::<u64>(10, Operator::Sum), of_the_last),
                (world.exscan_init(10, Operator::Max), of_the_last),
                (world.alltoall_init(3), of_the_last),
                (world.reduce_init(10, Operator::Sum, 1), of_each),
                (world.gather_init(3, size - 1), of_each),
                (world.bcast_init(10, 1), of_each),
                (world.scatter_init(LARGE, 0), of_each),
                (world.allreduce_init(LARGE, Operator::Sum), of_each),
            ];
            for (collective, commands) in collectives {
                let mut collective = collective.unwrap();
                // Nor does the first start, though nobody knows yet where the members meet.
                let started = allocation_counter::measure(|| drop(collective.start().unwrap()));
                assert_eq!(started.count_total, 0, "of rank {rank}'s first start");
                collective.active().unwrap().wait().unwrap();
                let mut run = |rounds| {
                    for _ in 0..rounds {
                        collective.start().unwrap().wait().unwrap();
                    }
                };
                run(3);
                all_have.wait();
                let counted = |name| (0..nodes).map(|node| cluster.counter(node, name)).sum::<u64>();
                let [before, built] = ["commands", "schedules_built"].map(counted);
                let allocated = allocation_counter::measure(|| {
                    run(ROUNDS);
                });
                assert_eq!(allocated.count_total, 0, "of rank {rank}");
                all_have.wait();
                let told = counted("commands") - before;
                assert!(told <= commands * nodes as u64, "{told} commands of {size} ranks on {nodes} nodes");
                assert_eq!(counted("schedules_built"), built);
                all_have.wait();
            }
        });
    }
}

#[test]
fn in_place_the_input_becomes_the_output() {
    for nodes in [1, 2, 4] {
        everybody((nodes, 4), in_place_everywhere);
    }
}

fn in_place_everywhere(world: Communicator) {
    let rank = world.rank() as u64;
    let in_place = |make: &dyn Fn(usize) -> Result<Collective<u64>, Error>, expected: [u64; 4]| {
        for count in COUNTS {
            let mut collective = make(count).unwrap();
            collective.input_mut().fill(rank + 1);
            collective.start().unwrap().wait().unwrap();
            assert!(collective.output().iter().all(|&found| found == expected[rank as usize]));
        }
    };
    in_place(&|count| world.allreduce_in_place_init(count, Operator::Sum), [10; 4]);
    in_place(&|count| world.scan_in_place_init(count, Operator::Sum), [1, 3, 6, 10]);
    in_place(&|count| world.exscan_in_place_init(count, Operator::Sum), [1, 1, 3, 6]);
}

#[test]
fn nobody_passes_a_barrier_before_all_have_come() {
    let arrived = AtomicU32::new(0);
    for nodes in [1, 2, 3] {
        arrived.store(0, Ordering::SeqCst);
        everybody((nodes, 5), |world| {
            let mut barrier = world.barrier_init().unwrap();
            for round in 1..200 {
                arrived.fetch_add(1, Ordering::SeqCst);
                barrier.start().unwrap().wait().unwrap();
                assert!(arrived.load(Ordering::SeqCst) >= 5 * round);
            }
        });
    }
}

#[test]
fn several_run_at_once_started_in_any_order() {
    for nodes in [1, 2, 3] {
        everybody((nodes, 3), several_at_once);
    }
}

fn several_at_once(world: Communicator) {
    let rank = world.rank();
    let mut sums: Vec<_> = (0..4).map(|_| world.allreduce_init::<u64>(5000, Operator::Sum).unwrap()).collect();
    for round in 0..50 {
        for (index, sum) in sums.iter_mut().enumerate() {
            sum.input_mut().fill(u64::from(rank) + index as u64 * 10 + round);
        }
        if rank == 1 {
            sums.reverse();
        }
        start_all(&mut sums).unwrap().wait_all().unwrap();
        if rank == 1 {
            sums.reverse();
        }
        for (index, sum) in sums.iter().enumerate() {
            assert!(sum.output().iter().all(|&total| total == 3 + 3 * (index as u64 * 10 + round)));
        }
    }
}

#[test]
fn sleeping_ranks_are_woken_by_the_last_to_come() {
    for (nodes, count) in [(1, 1), (1, 100_000), (2, 1), (2, 100_000)] {
        let (tell, told) = mpsc::channel();
        let told = Mutex::new(told);
        everybody((nodes, 3), |world| {
            let mut sum = world.allreduce_init::<u64>(count, Operator::Max).unwrap();
            for round in 0..10 {
                sum.input_mut().fill(round + u64::from(world.rank()));
                if world.rank() == 2 {
                    (0..2).for_each(|_| until_asleep(told.lock().unwrap().recv().unwrap()));
                }
                let summing = sum.start().unwrap();
                if world.rank() != 2 {
                    tell.send(gettid()).unwrap();
                }
                summing.wait_with(WaitMode::Blocking).unwrap();
                assert!(sum.output().iter().all(|&max| max == round + 2));
            }
        });
    }
}

/// From its start on a rank is not needed: large work is done by the daemon if nobody waits.
#[test]
fn it_ends_though_everybody_computes() {
    for nodes in [1, 2, 3] {
        ends_though_everybody_computes(nodes);
    }
}

/// A fourth of the pieces that there are. A daemon that waits for other nodes sleeps now and then.
const LOOKS_MAX: u32 = 16;

fn ends_though_everybody_computes(nodes: usize) {
    let cluster = Cluster::start(nodes, 3);
    let sessions: Vec<Session> = (0..3).map(|rank| cluster.attach(rank)).collect();
    let init = |session: &Session| session.world().allreduce_init::<u64>(300_000, Operator::Sum).unwrap();
    let mut sums: Vec<_> = std::thread::scope(|scope| {
        let inits: Vec<_> = sessions.iter().map(|session| scope.spawn(move || init(session))).collect();
        inits.into_iter().map(|sum| sum.join().unwrap().favor(Favor::Overlap)).collect()
    });
    for round in 0..5 {
        sums.iter_mut().for_each(|sum| sum.input_mut().fill(round));
        let sleeps = || cluster.counter(0, "sleeps");
        let (mut slept, mut looks) = (sleeps(), 0);
        let mut running: Vec<_> = sums.iter_mut().map(|sum| sum.start().unwrap()).collect();
        // Who looks does a piece, so nobody looks but when the daemon has found nothing more to do and sleeps: it may have slept before
        // it heard of this, and does while other nodes work.
        soon(|| {
            while looks == 0 || running[0].test().unwrap().is_none() {
                while sleeps() == slept {
                    std::thread::yield_now();
                }
                (slept, looks) = (sleeps(), looks + 1);
            }
        });
        assert!(looks <= LOOKS_MAX, "{looks} looks on {nodes} nodes: the daemon leaves work to others");
        drop(running);
        for sum in &mut sums {
            if let Some(active) = sum.active() {
                active.wait().unwrap();
            }
            assert!(sum.output().iter().all(|&total| total == 3 * round));
        }
    }
}

#[test]
fn members_that_say_different_things_are_told() {
    // On one node, on two that differ within themselves, and on two that differ from each other.
    for (nodes, ranks, divisor) in [(1, 2, 1), (2, 4, 2), (2, 4, 1)] {
        everybody((nodes, ranks), |world| {
            let count = |rank: u32| 10 + (rank / divisor) as usize;
            let mut sum = world.allreduce_init::<u64>(count(world.rank()), Operator::Sum).unwrap();
            let error = soon(|| sum.start().unwrap().wait().unwrap_err());
            let Error::Mismatch { rank, difference: Difference::Counts } = error else { panic!("{error}") };
            assert_ne!(count(rank), count(world.rank()), "{error}");
        });
    }
}

/// Their messages would not meet, so nobody could notice by them.
#[test]
fn nodes_that_do_different_things_are_told() {
    everybody((2, 4), |world| {
        let (me, is_first) = (world.rank(), |rank: u32| rank < 2);
        let mut data = [u64::from(me); 10];
        let error = soon(|| match is_first(me) {
            true => world.bcast(&mut data, 0).unwrap_err(),
            false => world.bcast(&mut data, 3).unwrap_err(),
        });
        let Error::Mismatch { rank, difference: Difference::Root } = error else { panic!("{error}") };
        assert_ne!(is_first(rank), is_first(me), "{error}");
        let error = soon(|| match is_first(me) {
            true => world.barrier().unwrap_err(),
            false => world.allreduce_in_place(&mut data, Operator::Sum).unwrap_err(),
        });
        let Error::Mismatch { rank, difference: Difference::Operation } = error else { panic!("{error}") };
        assert_ne!(is_first(rank), is_first(me), "{error}");
    });
}

#[test]
fn a_member_that_leaves_is_named() {
    for nodes in [1, 2] {
        member_leaves(nodes);
    }
}

fn member_leaves(nodes: usize) {
    let cluster = Cluster::start(nodes, 2);
    let (zero, one) = (cluster.attach(0), cluster.attach(1));
    let mut sum = zero.world().allreduce_init::<u64>(10, Operator::Sum).unwrap();
    let mut other = one.world().allreduce_init::<u64>(10, Operator::Sum).unwrap();
    let theirs = other.start().unwrap();
    sum.start().unwrap().wait().unwrap();
    theirs.wait().unwrap();
    let waiting = sum.start().unwrap();
    drop(other);
    let error = soon(|| waiting.wait().unwrap_err());
    assert!(matches!(error, Error::PeerFreed { rank: 1 }), "{error}");
    let mut unmet = zero.world().barrier_init().unwrap();
    let waiting = unmet.start().unwrap();
    drop(one);
    let error = soon(|| waiting.wait().unwrap_err());
    assert!(matches!(error, Error::RankLeft { rank: 1 }), "{error}");
}

/// A reduction needs nothing of those who don't have the root: they may end before others have begun.
#[test]
fn who_has_done_its_part_may_leave_before_others_come() {
    let cluster = Cluster::start(3, 3);
    let [zero, one, two] = [0, 1, 2].map(|rank| cluster.attach(rank));
    let init = |session: &Session| session.world().reduce_init::<u64>(1, Operator::Sum, 0).unwrap();
    let (mut root, mut early) = (init(&zero), init(&one));
    root.input_mut()[0] = 1;
    early.input_mut()[0] = 20;
    let reducing = root.start().unwrap();
    soon(|| early.start().unwrap().wait().unwrap());
    drop((early, one));
    // So its node has heard of it.
    let error = soon(|| two.world().recv(&mut [0u8], 1, 0).unwrap_err());
    assert!(matches!(error, Error::RankLeft { rank: 1 }), "{error}");
    let mut late = init(&two);
    late.input_mut()[0] = 300;
    soon(|| late.start().unwrap().wait().unwrap());
    soon(|| reducing.wait().unwrap());
    assert_eq!(root.output(), [321]);
}

/// A broadcast gets to the other nodes though somebody on the root's node has not come, and to him when he comes.
#[test]
fn other_nodes_do_not_wait_for_who_only_receives_on_the_roots_node() {
    let cluster = Cluster::start(2, 5);
    let sessions: Vec<_> = (0..5).map(|rank| cluster.attach(rank)).collect();
    for count in [10, 100_000] {
        let init = |session: &Session| session.world().bcast_init::<u64>(count, 1).unwrap();
        let mut spreading: Vec<_> = sessions.iter().map(init).collect();
        for round in 0..20 {
            spreading[1].input_mut().fill(round);
            // Ranks 0 to 2 live on the root's node.
            let late = [0, 2][round as usize % 2];
            let order = [[1, 2 - late, 4, 3], [3, 2 - late, 1, 4]][round as usize / 2 % 2];
            order.iter().for_each(|&rank| drop(spreading[rank].start().unwrap()));
            let wait_for = |spreading: &mut [Collective<u64>]| {
                soon(|| spreading.iter_mut().for_each(|one| assert!(one.active().unwrap().wait().is_ok())));
            };
            wait_for(&mut spreading[3..]);
            drop(spreading[late].start().unwrap());
            wait_for(&mut spreading[..3]);
            for (rank, one) in spreading.iter().enumerate() {
                assert!(one.output().iter().all(|&found| found == round), "rank {rank} in round {round}");
            }
        }
    }
}

/// The part of this file that runs in processes of their own.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    assert_eq!(role, "storm");
    let session = ropeway::init().unwrap();
    storm(&session.world()).rage();
}

fn storm(world: &Communicator) -> Storm {
    Storm::new([7, 100_000].map(|count| world.allreduce_init(count, Operator::Sum).unwrap()), 3)
}

#[test]
fn a_rank_killed_in_the_middle_harms_nobody() {
    kill_in_storms(module_path!(), 30, storm);
}

#[test]
fn who_takes_much_memory_of_nodes_gets_it_little_by_little() {
    const COUNT: usize = 1 << 20;
    // Members' buffers are no buffers of a node with several ranks: of each vector of 8 MiB it needs its own.
    let cluster = Cluster::start(2, 4);
    everybody_of(&cluster, 4, |world| {
        let rank = world.rank() as usize;
        let mut sums = world.allreduce_init(COUNT, Operator::Sum).unwrap();
        for (index, place) in sums.input_mut().iter_mut().enumerate() {
            *place = element(rank, 0, index);
        }
        sums.start().unwrap().wait().unwrap();
        let is_right = |(index, &sum): (usize, &u64)| sum == (0..4).map(|rank| element(rank, 0, index)).sum::<u64>();
        assert!(sums.output().iter().enumerate().all(is_right));
    });
    assert_eq!(
        cluster.counter(0, "collectives_registered"),
        2,
        "each was registered once, however often it was asked for"
    );
}
