//! Many ranks, each a process, on several nodes.
//!
//! Rounds of many collectives at once: one rank stops in the middle, after it has started them, and they end for all others while it
//! stands still. And each operation by every algorithm.

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::Range;

use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::Pid;
use ropeway::{Collective, Communicator, Error, Operator, UserOperator, start_all};
use ropeway_schedule::Algorithm;

use crate::common::{Cluster, Rank, wait_for_line};

/// Nodes and ranks.
const PLACES: [(usize, u32); 6] = [(1, 2), (2, 2), (2, 5), (3, 7), (4, 11), (4, 16)];
/// Elements of a small vector, and of one with more work than the last to come does alone.
const COUNTS: [usize; 2] = [7, 5_001];
const ROUNDS: u64 = 5;
/// Elements for each algorithm: fewer than ranks, and more that 3, 7 and 16 do not divide.
const FEW_AND_MANY: [usize; 4] = [0, 1, 7, 1000];
/// Algorithms beside those that stand for a name alone.
const FURTHER: [&str; 7] =
    ["k-nomial:3", "standard-exchange:3", "radix-k:2,2", "bruck:3", "linear-pipeline:2", "cayley:2", "multileader:2,1"];
/// The round in which one of the ranks stops.
const STOP: u64 = 3;

/// What all elements of a rank's input are in a round.
fn input(rank: u32, round: u64) -> u64 {
    (u64::from(rank) + 1) * (round + 3)
}

fn sum(ranks: Range<u32>, round: u64) -> u64 {
    ranks.map(|rank| input(rank, round)).sum()
}

/// What an element of a rank's output is to be in a round, if that is defined.
type Expected = Box<dyn Fn(u64, usize) -> Option<u64>>;

/// A collective by its name, or why there is none, and what is to come of it.
type Registered = (&'static str, Result<Collective<u64>, Error>, Expected);

/// One of each that moves data.
fn movements(world: &Communicator, root: u32, count: usize) -> Vec<Registered> {
    let size = world.size();
    let uneven = uneven(size, count);
    let owners: Vec<u32> = (0..size).flat_map(|rank| vec![rank; uneven[rank as usize]]).collect();
    let owner = move |round, index: usize| Some(input(owners[index], round));
    let from_root = move |round, _| Some(input(root, round));
    let part = count / size as usize;
    let from_each = move |round, index: usize| Some(input((index / part.max(1)) as u32, round));
    vec![
        ("bcast", world.bcast_init(count, root), Box::new(from_root) as Expected),
        ("scatter", world.scatterv_init(&uneven, root), Box::new(from_root)),
        ("gather", world.gatherv_init(&uneven, root), Box::new(owner.clone())),
        ("allgather", world.allgatherv_init(&uneven), Box::new(owner)),
        ("alltoall", world.alltoall_init(part), Box::new(from_each)),
    ]
}

/// One of each that combines.
fn reductions(world: &Communicator, root: u32, count: usize) -> Vec<Registered> {
    let (rank, size) = (world.rank(), world.size());
    let total = move |round, _| Some(sum(0..size, round));
    let until = move |round, _| Some(sum(0..rank + 1, round));
    let before = move |round, _| (rank > 0).then(|| sum(0..rank, round));
    let add = Operator::Sum;
    vec![
        ("allreduce", world.allreduce_init(count, add), Box::new(total) as Expected),
        ("reduce", world.reduce_init(count, add, root), Box::new(total)),
        ("reduce-scatter", world.reduce_scatter_init(&uneven(size, count), add), Box::new(total)),
        ("scan", world.scan_init(count, add), Box::new(until)),
        ("exscan", world.exscan_init(count, add), Box::new(before)),
    ]
}

/// One of each that combines, by a function for which the order matters.
fn ordered_reductions(world: &Communicator, root: u32, count: usize) -> Vec<Registered> {
    let (rank, size) = (world.rank(), world.size());
    let total = move |round, _| Some(composed(0..size, round));
    let until = move |round, _| Some(composed(0..rank + 1, round));
    let before = move |round, _| (rank > 0).then(|| composed(0..rank, round));
    let compose = &UserOperator::new(compose);
    vec![
        ("ordered allreduce", world.allreduce_init(count, compose), Box::new(total) as Expected),
        ("ordered reduce", world.reduce_init(count, compose, root), Box::new(total)),
        ("ordered reduce-scatter", world.reduce_scatter_init(&uneven(size, count), compose), Box::new(total)),
        ("ordered scan", world.scan_init(count, compose), Box::new(until)),
        ("ordered exscan", world.exscan_init(count, compose), Box::new(before)),
    ]
}

/// Counts of the ranks that differ, some of them zero.
fn uneven(size: u32, count: usize) -> Vec<usize> {
    (0..size as usize).map(|rank| (count / 7 + rank % 3).min(count)).collect()
}

/// Appends a line `x → ax + b` to another; a is the upper half, b the lower one. Associative, but not commutative.
fn compose(first: &mut u64, second: &u64) {
    let parts = |line: u64| ((line >> 32) as u32, line as u32);
    let ((a, b), (c, d)) = (parts(*first), parts(*second));
    *first = u64::from(a.wrapping_mul(c)) << 32 | u64::from(b.wrapping_mul(c).wrapping_add(d));
}

fn composed(ranks: Range<u32>, round: u64) -> u64 {
    let lines = ranks.map(|rank| input(rank, round));
    lines
        .reduce(|mut first, second| {
            compose(&mut first, &second);
            first
        })
        .unwrap()
}

/// One of each collective that repeats itself, small and large.
fn register(world: &Communicator, root: u32) -> Vec<(Collective<u64>, Expected)> {
    let of = |count| movements(world, root, count).into_iter().chain(reductions(world, root, count));
    let made = COUNTS.into_iter().flat_map(of).map(|(_, collective, expected)| (collective.unwrap(), expected));
    let mut all: Vec<_> = made.collect();
    // Each rank starts them in another order.
    let first = world.rank() as usize % all.len();
    all.rotate_left(first);
    all
}

/// Fills what is brought to a round, and looks at what has come of it.
fn round_of(collective: &mut Collective<u64>, expected: &Expected, (rank, round): (u32, u64), what: &str) {
    collective.output_mut().fill(u64::MAX);
    collective.input_mut().fill(input(rank, round));
    collective.start().unwrap().wait().unwrap();
    check(collective, expected, round, what);
}

fn check(collective: &Collective<u64>, expected: &Expected, round: u64, what: &str) {
    for (index, &found) in collective.output().iter().enumerate() {
        assert!(expected(round, index).is_none_or(|wanted| found == wanted), "{what}, round {round}, element {index}");
    }
}

/// The part of this file that runs in processes of their own.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let session = ropeway::init().unwrap();
    println!("ready");
    match role.as_str() {
        "algorithms" => try_algorithms(&session.world()),
        who_stops => run_rounds(&session.world(), who_stops.parse().unwrap()),
    }
    println!("done");
}

fn run_rounds(world: &Communicator, who_stops: u32) {
    let (rank, size) = (world.rank(), world.size());
    let ring = world.cartesian(&[size], &[true]).unwrap();
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let mut halo = ring.neighbor_allgather_init::<u64>(COUNTS[1]).unwrap();
    let (mut collectives, expected): (Vec<_>, Vec<_>) = register(world, who_stops).into_iter().unzip();
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
            check(collective, expected, round, "beside others");
        }
        println!("round {round} is over");
        // Calls that wait for everybody.
        world.barrier().unwrap();
        let mut doubled = [input(rank, round)];
        world.allreduce_in_place(&mut doubled, Operator::Max).unwrap();
        assert_eq!(doubled, [input(size - 1, round)]);
    }
}

/// Tells what was done by which algorithm.
fn try_algorithms(world: &Communicator) {
    let names = Algorithm::all().into_iter().map(|algorithm| algorithm.to_string());
    for (at, name) in names.chain(FURTHER.map(str::to_owned)).enumerate() {
        let by_name = world.with_algorithm(&name);
        for (further, count) in FEW_AND_MANY.into_iter().enumerate() {
            // The first, the last, and some in between.
            let root = ((at + further) as u32 * 5 + world.size() - 1) % world.size();
            let kinds = [movements, reductions, ordered_reductions].map(|kind| kind(&by_name, root, count));
            for (operation, collective, expected) in kinds.into_iter().flatten() {
                match collective {
                    Ok(mut collective) => {
                        let what = format!("{operation} of {count} by {name}, root {root}");
                        (0..2).for_each(|round| round_of(&mut collective, &expected, (world.rank(), round), &what));
                        println!("done by {}: {operation}", name.split(':').next().unwrap());
                    }
                    Err(error) => assert_unsuitable(&name, operation, &error),
                }
            }
        }
        match by_name.barrier_init() {
            Ok(mut barrier) => {
                for _ in 0..2 {
                    barrier.start().unwrap().wait().unwrap();
                }
                println!("done by {}: barrier", name.split(':').next().unwrap());
            }
            Err(error) => assert_unsuitable(&name, "barrier", &error),
        }
    }
}

fn assert_unsuitable(name: &str, operation: &str, error: &Error) {
    let why = error.to_string();
    assert!(why.contains(&format!("{name} can't be used for this")), "{operation}: {why}");
}

#[test]
fn collectives_end_for_all_others_while_a_rank_that_has_started_them_is_stopped() {
    for (nodes, size) in PLACES {
        let cluster = Cluster::start(nodes, size);
        let who_stops = size / 2;
        let mut ranks: Vec<Rank> =
            (0..size).map(|rank| cluster.spawn(rank, module_path!(), &who_stops.to_string())).collect();
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

/// The pairs of algorithm and operation that ranks in processes have done.
fn done_by_processes((nodes, size): (usize, u32)) -> BTreeSet<String> {
    let cluster = Cluster::start(nodes, size);
    let ranks: Vec<Rank> = (0..size).map(|rank| cluster.spawn(rank, module_path!(), "algorithms")).collect();
    let mut told = Vec::new();
    std::thread::scope(|scope| {
        // All are listened to at once: nobody waits for room to say what it has done.
        let listen = |mut rank: Rank| {
            scope.spawn(move || {
                let mut told = String::new();
                rank.output.read_to_string(&mut told).unwrap();
                assert!(rank.child.wait().unwrap().success(), "{told}");
                told
            })
        };
        let listening: Vec<_> = ranks.into_iter().map(listen).collect();
        told.extend(listening.into_iter().map(|told| told.join().unwrap()));
    });
    told[0].lines().filter_map(|line| line.strip_prefix("done by ")).map(str::to_owned).collect()
}

#[test]
fn every_algorithm_gives_what_a_loop_would_with_ranks_in_processes() {
    let done: BTreeSet<_> = [(2, 2), (3, 7), (4, 16)].into_iter().flat_map(done_by_processes).collect();
    let by: BTreeSet<_> = done.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(by, Algorithm::names().map(|(name, _)| name).collect());
    assert_eq!(done.iter().filter(|line| line.starts_with("linear:")).count(), 16);
}
