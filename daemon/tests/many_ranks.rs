//! Many ranks, each a process, on several nodes: rounds of many collectives at once. One rank stops in the middle, after it has
//! started them: they end for all others while it stands still.

mod common;

use common::{Cluster, Rank, wait_for_line};
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::Pid;
use ropeway::{Collective, Communicator, Error, Operator, start_all};

/// Nodes and ranks.
const PLACES: [(usize, u32); 6] = [(1, 2), (2, 2), (2, 5), (3, 7), (4, 11), (4, 16)];
/// Elements of a small vector, and of one with more work than the last to come does alone.
const COUNTS: [usize; 2] = [7, 5_001];
const ROUNDS: u64 = 5;
/// The round in which one of the ranks stops.
const STOP: u64 = 3;

/// What all elements of a rank's input are in a round.
fn input(rank: u32, round: u64) -> u64 {
    (u64::from(rank) + 1) * (round + 3)
}

fn sum(ranks: std::ops::Range<u32>, round: u64) -> u64 {
    ranks.map(|rank| input(rank, round)).sum()
}

/// What an element of a rank's output is to be in a round, if that is defined.
type Expected = Box<dyn Fn(u64, usize) -> Option<u64>>;

/// One of each collective that repeats itself, small and large.
fn register(world: &Communicator, root: u32) -> Result<Vec<(Collective<u64>, Expected)>, Error> {
    let (rank, size) = (world.rank(), world.size());
    let mut all: Vec<(Collective<u64>, Expected)> = Vec::new();
    for count in COUNTS {
        let uneven: Vec<usize> = (0..size as usize).map(|rank| count / 7 + rank % 3).collect();
        let owners: Vec<u32> = (0..size).flat_map(|rank| vec![rank; uneven[rank as usize]]).collect();
        let owner = move |round, index: usize| Some(input(owners[index], round));
        let total = move |round, _| Some(sum(0..size, round));
        let from_root = move |round, _| Some(input(root, round));
        let before = move |round, _| (rank > 0).then(|| sum(0..rank, round));
        let part = count / size as usize;
        let from_each = move |round, index: usize| Some(input((index / part.max(1)) as u32, round));
        all.extend([
            (world.allreduce_init(count, Operator::Sum)?, Box::new(total) as Expected),
            (world.reduce_init(count, Operator::Sum, root)?, Box::new(total)),
            (world.reduce_scatter_init(&uneven, Operator::Sum)?, Box::new(total)),
            (world.scan_init(count, Operator::Sum)?, Box::new(move |round, _| Some(sum(0..rank + 1, round)))),
            (world.exscan_init(count, Operator::Sum)?, Box::new(before)),
            (world.bcast_init(count, root)?, Box::new(from_root)),
            (world.scatterv_init(&uneven, root)?, Box::new(from_root)),
            (world.gatherv_init(&uneven, root)?, Box::new(owner.clone())),
            (world.allgatherv_init(&uneven)?, Box::new(owner)),
            (world.alltoall_init(part)?, Box::new(from_each)),
        ]);
    }
    // Each rank starts them in another order.
    let first = rank as usize % all.len();
    all.rotate_left(first);
    Ok(all)
}

/// The part of this file that runs in processes of their own.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let who_stops: u32 = role.parse().unwrap();
    let session = ropeway::init().unwrap();
    println!("ready");
    let world = session.world();
    let (rank, size) = (world.rank(), world.size());
    let ring = world.cartesian(&[size], &[true]).unwrap();
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let mut halo = ring.neighbor_allgather_init::<u64>(COUNTS[1]).unwrap();
    let (mut collectives, expected): (Vec<_>, Vec<_>) = register(&world, who_stops).unwrap().into_iter().unzip();
    for round in 0..ROUNDS {
        for collective in &mut collectives {
            collective.output_mut().fill(u64::MAX);
            collective.input_mut().fill(input(rank, round));
        }
        let running = start_all(&mut collectives).unwrap();
        let (mut least, mut parts) = ([0; COUNTS[0]], vec![0; size as usize]);
        let minimizing = world.iallreduce(&[input(rank, round); COUNTS[0]], &mut least, Operator::Min).unwrap();
        let gathering = world.iallgather(&[input(rank, round)], &mut parts).unwrap();
        let passing = world.ibarrier().unwrap();
        halo.input_mut().fill(input(rank, round));
        let exchanging = halo.start().unwrap();
        let mut beside = [0; 2];
        let asking = ring.ineighbor_allgather(&[input(rank, round)], &mut beside).unwrap();
        if (rank, round) == (who_stops, STOP) {
            raise(Signal::SIGSTOP).unwrap();
        }
        running.wait_all().unwrap();
        gathering.wait().unwrap();
        minimizing.wait().unwrap();
        passing.wait().unwrap();
        exchanging.wait().unwrap();
        asking.wait().unwrap();
        assert_eq!(beside, [left, right].map(|rank| input(rank, round)));
        assert_eq!([halo.output()[0], halo.output()[COUNTS[1]]], beside);
        assert_eq!(least, [input(0, round); COUNTS[0]]);
        assert!((0..size).all(|rank| parts[rank as usize] == input(rank, round)));
        for (collective, expected) in collectives.iter().zip(&expected) {
            for (index, &found) in collective.output().iter().enumerate() {
                assert!(expected(round, index).is_none_or(|wanted| found == wanted), "round {round}, element {index}");
            }
        }
        println!("round {round} is over");
        // Calls that wait for everybody.
        world.barrier().unwrap();
        let mut doubled = [input(rank, round)];
        world.allreduce_in_place(&mut doubled, Operator::Max).unwrap();
        assert_eq!(doubled, [input(size - 1, round)]);
    }
    println!("done");
}

#[test]
fn collectives_end_for_all_others_while_a_rank_that_has_started_them_is_stopped() {
    for (nodes, size) in PLACES {
        let cluster = Cluster::start(nodes, size);
        let who_stops = size / 2;
        let mut ranks: Vec<Rank> = (0..size).map(|rank| cluster.spawn(rank, &who_stops.to_string())).collect();
        let stopped = who_stops as usize;
        ranks[stopped].wait_until_stopped();
        for (_, rank) in ranks.iter_mut().enumerate().filter(|(rank, _)| *rank != stopped) {
            wait_for_line(&mut rank.output, &format!("round {STOP} is over"));
        }
        let pid = Pid::from_raw(ranks[stopped].child.id() as i32);
        kill(pid, Signal::SIGCONT).unwrap();
        for rank in &mut ranks {
            wait_for_line(&mut rank.output, "done");
            assert!(rank.child.wait().unwrap().success());
        }
    }
}
