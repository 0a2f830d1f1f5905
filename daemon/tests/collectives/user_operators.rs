//! Reductions by functions of the program, and reproducible ones, against a loop in a single process.

use std::fmt::Debug;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use nix::sys::signal::{Signal, raise};
use ropeway::{
    Collective, Combine, Communicator, Error, Favor, Operator, Plain, Reproducible, Session, UserOperator, WaitMode,
};

use crate::common::storm::{Storm, kill_in_storms};
use crate::common::{Cluster, asleep_in, everybody, everybody_of, soon, uneven};

/// Nodes and ranks.
const PLACES: [(usize, u32); 9] = [(1, 1), (1, 2), (1, 3), (1, 8), (2, 2), (2, 5), (3, 7), (4, 4), (4, 8)];
const ROUNDS: usize = 3;

/// An operator, and what ranks contribute.
#[derive(Clone)]
struct Case<T: Plain> {
    operator: UserOperator<T>,
    combine: fn(&mut T, &T),
    /// Of a rank in a round, by index.
    element: fn(usize, usize, usize) -> T,
}

impl<T: Plain + Send + PartialEq + Debug> Case<T> {
    fn new(combine: fn(&mut T, &T), element: fn(usize, usize, usize) -> T) -> Self {
        Self { operator: UserOperator::new(combine), combine, element }
    }

    fn commutative(combine: fn(&mut T, &T), element: fn(usize, usize, usize) -> T) -> Self {
        Self { operator: UserOperator::commutative(combine), combine, element }
    }

    /// What a loop over these ranks makes of their elements.
    fn folded(&self, ranks: Range<usize>, round: usize, index: usize) -> T {
        let mut elements = ranks.map(|rank| (self.element)(rank, round, index));
        let mut result = elements.next().unwrap();
        elements.for_each(|element| (self.combine)(&mut result, &element));
        result
    }

    /// Runs rounds of a collective. `wanted` says which ranks and which index an element of the output is made of.
    fn rounds(
        &self,
        mut collective: Collective<T>,
        rank: usize,
        wanted: impl Fn(usize) -> Option<(Range<usize>, usize)>,
    ) {
        for round in 0..ROUNDS {
            for (index, place) in collective.input_mut().iter_mut().enumerate() {
                *place = (self.element)(rank, round, index);
            }
            collective.start().unwrap().wait().unwrap();
            for (at, found) in collective.output().iter().enumerate() {
                if let Some((ranks, index)) = wanted(at) {
                    assert_eq!(*found, self.folded(ranks, round, index), "round {round}, element {at} of rank {rank}");
                }
            }
        }
    }

    /// All kinds of reductions one by one, which asks nothing of the operator.
    fn one_by_one(&self, world: &Communicator, count: usize) {
        self.all_kinds(world, count, Reproducible(&self.operator));
    }

    /// All kinds of reductions, by operators that keep what they promise.
    fn grouped(&self, world: &Communicator, count: usize) {
        self.all_kinds(world, count, &self.operator);
    }

    /// All kinds of reductions, apart and in place.
    fn all_kinds(&self, world: &Communicator, count: usize, operator: impl Combine<T> + Copy) {
        let (rank, size) = (world.rank() as usize, world.size());
        let all = |index| Some((0..size as usize, index));
        for root in [0, size - 1] {
            self.rounds(world.reduce_init(count, operator, root).unwrap(), rank, all);
        }
        self.rounds(world.allreduce_init(count, operator).unwrap(), rank, all);
        self.rounds(world.allreduce_in_place_init(count, operator).unwrap(), rank, all);
        let counts = uneven(size as usize, count);
        let before: usize = counts[..rank].iter().sum();
        self.rounds(world.reduce_scatter_init(&counts, operator).unwrap(), rank, |index| all(before + index));
        let including = |index| Some((0..rank + 1, index));
        self.rounds(world.scan_init(count, operator).unwrap(), rank, including);
        self.rounds(world.scan_in_place_init(count, operator).unwrap(), rank, including);
        let excluding = |index| (rank > 0).then_some((0..rank, index));
        self.rounds(world.exscan_init(count, operator).unwrap(), rank, excluding);
        self.rounds(world.exscan_in_place_init(count, operator).unwrap(), rank, excluding);
    }
}

/// Neither commutative nor associative: every order and every grouping gives something else.
fn chain(left: &mut u64, right: &u64) {
    *left = left.wrapping_mul(31).wrapping_add(*right);
}

fn number(rank: usize, round: usize, index: usize) -> u64 {
    (rank as u64 + 1) * 1_000_003 + round as u64 * 7919 + index as u64 * 31
}

/// Maps x ↦ a·x + b, one after the other: associative, and not commutative.
fn then(first: &mut [u64; 2], second: &[u64; 2]) {
    *first = [second[0].wrapping_mul(first[0]), second[0].wrapping_mul(first[1]).wrapping_add(second[1])];
}

fn map(rank: usize, round: usize, index: usize) -> [u64; 2] {
    [2 * rank as u64 + 3, number(rank, round, index)]
}

fn plus(left: &mut u64, right: &u64) {
    *left = left.wrapping_add(*right);
}

/// The world, and the same ranks so that neighbours are on different nodes.
fn in_blocks_and_in_turns(place: (usize, u32), act: impl Fn(&Communicator) + Sync) {
    everybody(place, |world| {
        act(&world);
        act(&world.split(Some(0), (world.rank() * 3 % 7) as i32).unwrap().unwrap());
    });
}

#[test]
fn nodes_combine_their_own_and_keep_the_order() {
    let (then, plus) = (Case::new(then, map), Case::commutative(plus, number));
    for place in PLACES {
        in_blocks_and_in_turns(place, |comm| {
            for count in [0, 1, 7, 9001] {
                then.grouped(comm, count);
                plus.grouped(comm, count);
            }
        });
    }
}

/// Payload that the nodes of a reduction send each other, in arrays of one rank.
fn arrays_sent(combine: impl Combine<u64> + Copy + Sync, keys: fn(u32) -> i32, is_scattered: bool) -> f64 {
    const COUNT: usize = 24_000;
    let cluster = Cluster::start(2, 6);
    let bytes = || (0..2).map(|node| cluster.counter(node, "bytes_sent")).sum::<u64>();
    let sent = Mutex::new(0);
    everybody_of(&cluster, 6, |world| {
        let comm = world.split(Some(0), keys(world.rank())).unwrap().unwrap();
        let mut sum = if is_scattered {
            comm.reduce_scatter_block_init(COUNT / 6, combine).unwrap()
        } else {
            comm.allreduce_init(COUNT, combine).unwrap()
        };
        world.barrier().unwrap();
        let before = bytes();
        world.barrier().unwrap();
        sum.start().unwrap().wait().unwrap();
        world.barrier().unwrap();
        sent.lock().unwrap().clone_from(&(bytes() - before));
    });
    let sent = *sent.lock().unwrap();
    sent as f64 / (COUNT * size_of::<u64>()) as f64
}

/// Six ranks on two nodes: nodes send each other one result each, or what their three ranks have.
#[test]
fn what_nodes_combine_need_not_be_sent() {
    let (ordered, commutative) = (UserOperator::new(plus), UserOperator::commutative(plus));
    let blocks: fn(u32) -> i32 = |rank| rank as i32;
    let turns: fn(u32) -> i32 = |rank| (rank % 3) as i32;
    let assert_sent = |sent: f64, arrays: f64| assert!((arrays..arrays + 0.1).contains(&sent), "{sent}, not {arrays}");
    assert_sent(arrays_sent(&ordered, blocks, false), 2.0);
    assert_sent(arrays_sent(&ordered, turns, false), 6.0);
    assert_sent(arrays_sent(&commutative, turns, false), 2.0);
    assert_sent(arrays_sent(Reproducible(&ordered), blocks, false), 6.0);
    // Of each half the other node's result.
    assert_sent(arrays_sent(&ordered, blocks, true), 1.0);
    assert_sent(arrays_sent(Reproducible(&ordered), blocks, true), 3.0);
}

/// More bytes than are combined at once.
type Row = [u32; 3000];

#[test]
fn ranks_are_combined_in_order() {
    let chain = Case::new(chain, number);
    for place in PLACES {
        everybody(place, |world| {
            for count in [0, 1, 7, 15_001] {
                chain.one_by_one(&world, count);
            }
        });
    }
}

#[test]
fn the_order_is_that_of_the_communicator() {
    let chain = Case::new(chain, number);
    for (nodes, size) in [(1, 3), (2, 5), (3, 7)] {
        everybody((nodes, size), |world| {
            // Neighbours are on different nodes.
            let key = (world.rank() * 3 % 7) as i32;
            let shuffled = world.split(Some(0), key).unwrap().unwrap();
            for count in [1, 9001] {
                chain.one_by_one(&shuffled, count);
            }
        });
    }
}

#[test]
fn elements_may_be_large_and_need_no_power_of_two() {
    let row = Case::<Row>::new(
        |left, right| left.iter_mut().zip(right).for_each(|(left, right)| *left = left.wrapping_mul(31) ^ right),
        |rank, round, index| std::array::from_fn(|column| number(rank, round, index * 7 + column) as u32),
    );
    let colour = Case::<[u8; 3]>::new(
        |left, right| *left = [left[1].wrapping_add(right[0]), left[2].wrapping_sub(right[1]), left[0] ^ right[2]],
        |rank, round, index| std::array::from_fn(|channel| number(rank, round, index * 3 + channel) as u8),
    );
    for place in [(1, 3), (2, 3), (3, 5)] {
        everybody(place, |world| {
            for count in [1, 5] {
                row.one_by_one(&world, count);
            }
            colour.one_by_one(&world, 9001);
        });
    }
}

/// Sums of these differ with every grouping.
fn float(rank: usize, index: usize) -> f64 {
    10f64.powi((rank as i32 * 5) % 17) / 3.0 + 0.1 * (index + rank) as f64
}

#[test]
fn a_reproducible_sum_is_the_same_on_any_number_of_nodes() {
    const SIZE: u32 = 7;
    let sum = |ranks: Range<usize>, index| ranks.map(|rank| float(rank, index)).reduce(|sum, next| sum + next).unwrap();
    let by_nodes = |index| sum(0..4, index) + sum(4..7, index);
    assert!((0..10).any(|index| by_nodes(index) != sum(0..7, index)), "the order makes a difference");
    for nodes in [1, 2, 3, 4, 7] {
        everybody((nodes, SIZE), |world| {
            let rank = world.rank() as usize;
            for count in [1, 7, 20_001] {
                let mut total = world.allreduce_init::<f64>(count, Reproducible(Operator::Sum)).unwrap();
                total.input_mut().iter_mut().enumerate().for_each(|(index, place)| *place = float(rank, index));
                total.start().unwrap().wait().unwrap();
                let bits = total.output().iter().map(|sum| sum.to_bits());
                assert!(bits.eq((0..count).map(|index| sum(0..7, index).to_bits())), "{nodes} nodes");
            }
            let all = Reproducible(Operator::Sum);
            let (input, mut output) = ([float(rank, 0)], [0.0]);
            world.scan(&input, &mut output, all).unwrap();
            assert_eq!(output[0].to_bits(), sum(0..rank + 1, 0).to_bits());
            world.iexscan(&input, &mut output, all).unwrap().wait().unwrap();
            assert!(rank == 0 || output[0].to_bits() == sum(0..rank, 0).to_bits());
            world.reduce(&input, &mut output, all, SIZE - 1).unwrap();
            assert!(rank + 1 < SIZE as usize || output[0].to_bits() == sum(0..7, 0).to_bits());
            let vector: [f64; SIZE as usize] = std::array::from_fn(|index| float(rank, index));
            world.reduce_scatter_block(&vector, &mut output, all).unwrap();
            assert_eq!(output[0].to_bits(), sum(0..7, rank).to_bits());
        });
    }
}

/// The first start of what goes straight from rank to rank is the daemons', those that follow are the ranks'.
#[test]
fn the_same_floats_have_the_same_sum_at_every_start() {
    const COUNT: usize = 7;
    for (nodes, size) in [(2, 2), (3, 3), (4, 4), (5, 5), (8, 8), (2, 5), (1, 4)] {
        everybody((nodes, size), |world| {
            let rank = world.rank() as usize;
            let fill = |input: &mut [f64]| {
                input.iter_mut().enumerate().for_each(|(index, place)| *place = float(rank, index));
            };
            let mut first = None;
            for _ in 0..2 {
                let mut total = world.allreduce_init::<f64>(COUNT, Operator::Sum).unwrap();
                fill(total.input_mut());
                for start in 0..4 {
                    total.start().unwrap().wait().unwrap();
                    let bits: Vec<_> = total.output().iter().map(|sum| sum.to_bits()).collect();
                    assert_eq!(&bits, first.get_or_insert_with(|| bits.clone()), "{size} ranks, start {start}");
                }
            }
            let mut ahead = world.scan_init::<f64>(COUNT, Operator::Sum).unwrap();
            fill(ahead.input_mut());
            let mut starts = (0..4).map(|_| {
                ahead.start().unwrap().wait().unwrap();
                ahead.output().iter().map(|sum| sum.to_bits()).collect::<Vec<_>>()
            });
            let first = starts.next().unwrap();
            starts.for_each(|bits| assert_eq!(bits, first, "scan of {size} ranks"));
        });
    }
}

/// Calls share what is registered as long as they are by the same operator.
#[test]
fn calls_by_one_operator_are_alike() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 3);
        everybody_of(&cluster, 3, |world| {
            let rank = world.rank() as usize;
            let (first, second) = (Case::new(chain, number), Case::new(|left, right| *left ^= *right << 1, number));
            for round in 0..20 {
                for case in [&first, &second, &first.clone()] {
                    let input = [number(rank, round, 0)];
                    let mut output = [0];
                    world.allreduce(&input, &mut output, &case.operator).unwrap();
                    assert_eq!(output, [case.folded(0..3, round, 0)]);
                    output[0] = input[0];
                    let pending = world.iscan_in_place(&mut output, &case.operator).unwrap();
                    pending.wait().unwrap();
                    assert_eq!(output, [case.folded(0..rank + 1, round, 0)]);
                }
            }
        });
        // On each rank: a lane of each operator for blocking calls, and eight for others.
        let registered: u64 = (0..nodes).map(|node| cluster.counter(node, "collectives_registered")).sum();
        assert_eq!(registered, 3 * 2 * (1 + 8));
    }
}

/// A sum that tells when so many elements other than zero were added in threads of the library.
fn counted(combinations: usize) -> (UserOperator<u64>, Receiver<()>) {
    let (tell, told) = channel();
    let left = AtomicUsize::new(combinations);
    let operator = UserOperator::new(move |sum: &mut u64, other: &u64| {
        *sum += other;
        let counts = *other != 0 && thread::current().name() == Some("ropeway-combine");
        if counts && left.fetch_sub(1, Ordering::Relaxed) == 1 {
            tell.send(()).unwrap();
        }
    });
    (operator, told)
}

/// From its start on a rank's program is not needed: its process combines without it.
#[test]
fn it_ends_though_everybody_computes() {
    const COUNT: usize = 50_000;
    for nodes in [1, 2, 3] {
        let cluster = Cluster::start(nodes, 3);
        let sessions: Vec<Session> = (0..3).map(|rank| cluster.attach(rank)).collect();
        // Each node combines its own, and then for itself what all nodes have.
        let (operator, is_combined) = counted((3 - nodes + nodes * (nodes - 1)) * COUNT);
        let mut sums: Vec<_> = thread::scope(|scope| {
            let init = |session: &Session| session.world().allreduce_init::<u64>(COUNT, &operator).unwrap();
            let inits: Vec<_> = sessions.iter().map(|session| scope.spawn(move || init(session))).collect();
            inits.into_iter().map(|sum| sum.join().unwrap().favor(Favor::Overlap)).collect()
        });
        for sum in &mut sums {
            sum.input_mut().fill(5);
            // It runs on without its `Active`.
            drop(sum.start().unwrap());
        }
        soon(|| is_combined.recv().unwrap());
        for sum in &mut sums {
            soon(|| while sum.active().unwrap().test().unwrap().is_none() {});
            assert!(sum.output().iter().all(|&total| total == 15));
        }
    }
}

/// Memory is given back, and used for what is registered next, while combiners may be at it.
#[test]
fn freeing_what_is_being_combined_harms_nobody() {
    const COUNT: usize = 20_000;
    let chain = UserOperator::new(chain);
    for nodes in [1, 2] {
        everybody((nodes, 3), |world| {
            for round in 0..40 {
                let mut links = world.allreduce_init::<u64>(COUNT, &chain).unwrap().favor(Favor::Overlap);
                links.input_mut().fill(1);
                let linking = links.start().unwrap();
                if world.rank() != round % 3 {
                    match linking.wait() {
                        Ok(_) => assert!(links.output().iter().all(|&link| link == (31 + 1) * 31 + 1)),
                        Err(error) => {
                            assert!(matches!(error, Error::PeerFreed { .. } | Error::NodeGaveUp { .. }), "{error}")
                        }
                    }
                }
            }
        });
    }
}

/// The part of this file that runs in processes of their own.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let session = ropeway::init().unwrap();
    let world = session.world();
    match role.as_str() {
        "storm" => storm(&world).rage(),
        "stop" => {
            let mut sum = world.allreduce_init::<u64>(STOPPED_COUNT, &counted(0).0).unwrap();
            sum.input_mut().fill(1);
            let summing = sum.start().unwrap();
            println!("ready");
            raise(Signal::SIGSTOP).unwrap();
            summing.wait().unwrap();
        }
        "panic" => {
            println!("ready");
            let panics = Arc::new(AtomicBool::new(false));
            let operator = UserOperator::new({
                let panics = Arc::clone(&panics);
                move |left: &mut u64, right: &u64| {
                    assert!(!panics.load(Ordering::Relaxed), "what an operator may do");
                    *left += right;
                }
            });
            let mut sum = world.allreduce_init::<u64>(1, &operator).unwrap();
            sum.start().unwrap().wait().unwrap();
            world.recv(&mut [0u8], 0, 0).unwrap();
            panics.store(true, Ordering::Relaxed);
            // On one node the last to come does little work at once, from the second round on; else it is done when the other node
            // has answered.
            let _ = sum.start().and_then(|summing| summing.wait());
        }
        other => panic!("no such role: {other}"),
    }
}

/// Whose wait began before all had registered does not count as waiting when it is over.
#[test]
fn who_has_waited_is_not_taken_to_wait_on() {
    const COUNT: usize = 50_000;
    let cluster = Cluster::start(1, 2);
    let (zero, one) = (cluster.attach(0).world(), cluster.attach(1).world());
    let (operator, is_combined) = counted(COUNT);
    let mut first = zero.allreduce_init::<u64>(COUNT, &operator).unwrap().favor(Favor::Overlap);
    let mut second = thread::scope(|scope| {
        let waiting = first.start().unwrap();
        asleep_in(scope, || waiting.wait_with(WaitMode::Blocking).unwrap());
        let mut second = one.allreduce_init::<u64>(COUNT, &operator).unwrap().favor(Favor::Latency);
        second.start().unwrap().wait().unwrap();
        second.favor(Favor::Overlap)
    });
    for sum in [&mut first, &mut second] {
        sum.input_mut().fill(1);
        drop(sum.start().unwrap());
    }
    soon(|| is_combined.recv().unwrap());
    for sum in [&mut first, &mut second] {
        soon(|| while sum.active().unwrap().test().unwrap().is_none() {});
    }
}

const STOPPED_COUNT: usize = 50_000;

/// Any process of a member may do the work, so one that has stopped delays nobody.
#[test]
fn it_ends_though_a_member_has_stopped() {
    let cluster = Cluster::start(1, 2);
    let session = cluster.attach(0);
    let init = thread::spawn({
        let world = session.world();
        move || {
            let (operator, is_combined) = counted(STOPPED_COUNT);
            let sum = world.allreduce_init::<u64>(STOPPED_COUNT, &operator).unwrap();
            (sum.favor(Favor::Overlap), is_combined)
        }
    });
    let other = cluster.spawn(1, module_path!(), "stop");
    other.wait_until_stopped();
    let (mut sum, is_combined) = init.join().unwrap();
    sum.input_mut().fill(2);
    let mut summing = sum.start().unwrap();
    soon(|| is_combined.recv().unwrap());
    soon(|| while summing.test().unwrap().is_none() {});
    drop(summing);
    assert!(sum.output().iter().all(|&total| total == 3));
}

#[test]
fn an_operator_that_panics_ends_its_process() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 2);
        let session = cluster.attach(0);
        let mut other = cluster.spawn(1, module_path!(), "panic");
        let world = session.world();
        let operator = UserOperator::new(|left: &mut u64, right: &u64| *left += right);
        let mut sum = world.allreduce_init::<u64>(1, &operator).unwrap();
        soon(|| sum.start().unwrap().wait().unwrap());
        let summing = sum.start().unwrap();
        world.send(&[0u8], 1, 0).unwrap();
        if nodes == 1 {
            let error = soon(|| summing.wait().unwrap_err());
            assert!(matches!(error, Error::RankFailed { rank: 1 }), "{error}");
        }
        // Between nodes each combines for itself, and has what it needs for that.
        let ended = soon(|| other.child.wait().unwrap());
        assert_eq!(ended.signal(), Some(Signal::SIGABRT as i32));
    }
}

fn storm(world: &Communicator) -> Storm {
    let operator = UserOperator::new(chain);
    Storm::new([7, 50_000].map(|count| world.allreduce_init(count, &operator).unwrap()), (31 + 1) * 31 + 1)
}

#[test]
fn a_rank_killed_in_the_middle_harms_nobody() {
    kill_in_storms(module_path!(), 20, storm);
}
