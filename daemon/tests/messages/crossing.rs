//! Small collectives between nodes of one rank each: after the first round messages go straight from rank to rank.

use std::sync::Barrier;
use std::thread::yield_now;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use ropeway::{Collective, Communicator, Error, Favor, Operator, WaitMode, start_all};
use ropeway_daemon::Config;
use ropeway_proto::limits::CROSSING_BYTES_MAX;

use crate::common::{Cluster, all_requests_but, config, everybody_of, kill_amid, pair, soon, unmet_request};

/// The largest sum of so many numbers that goes straight between two ranks, and one that does not.
const LARGEST: usize = CROSSING_BYTES_MAX as usize / 8;
const COUNTS: [usize; 5] = [0, 1, 1024, LARGEST, LARGEST + 1];

/// Ten times what a program that comes to wait at once takes for it.
const COMPUTING: Duration = Duration::from_micros(200);

fn sum_of(world: &Communicator, count: usize) -> Collective<u64> {
    world.allreduce_init(count, Operator::Sum).unwrap()
}

/// A round in which everybody brings its rank and the round's number.
fn add_up(world: &Communicator, sum: &mut Collective<u64>, round: u64) {
    sum.input_mut().fill(u64::from(world.rank()) + round);
    soon(|| sum.start().unwrap().wait().unwrap());
    let size = u64::from(world.size());
    assert!(sum.output().iter().all(|&total| total == size * (size - 1) / 2 + size * round), "round {round}");
}

/// The part of this file that runs in processes of their own.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let session = ropeway::init().unwrap();
    let world = session.world();
    let (mut sum, mut bcast) = (sum_of(&world, 8), world.bcast_init::<u64>(8, 0).unwrap());
    println!("ready");
    match role.as_str() {
        "adds up" => loop {
            sum.start().unwrap().wait().unwrap();
        },
        "listens" => loop {
            bcast.start().unwrap().wait().unwrap();
        },
        "stops" => {
            (0..2).for_each(|round| add_up(&world, &mut sum, round));
            sum.input_mut().fill(2 + u64::from(world.rank()));
            let _running = sum.start().unwrap();
            raise(Signal::SIGSTOP).unwrap();
        }
        other => panic!("no such role: {other}"),
    }
}

#[test]
fn from_the_second_round_on_ranks_that_wait_need_no_daemon() {
    let cluster = Cluster::start(2, 2);
    let commands = || (0..2).map(|node| cluster.counter(node, "commands")).sum::<u64>();
    let counted = Barrier::new(2);
    everybody_of(&cluster, 2, |world| {
        for count in COUNTS {
            let mut sum = sum_of(&world, count).favor(Favor::Latency);
            (0..3).for_each(|round| add_up(&world, &mut sum, round));
            counted.wait();
            let before = commands();
            counted.wait();
            (0..100).for_each(|round| add_up(&world, &mut sum, round));
            counted.wait();
            let asked = commands() - before;
            // Whoever fails leaves, which the others would count.
            counted.wait();
            // Whoever has not used a wire for a while tells the daemon that it does again.
            assert_eq!(asked <= 40, count <= LARGEST, "{count}: {asked} commands");
        }
    });
}

#[test]
fn programs_that_compute_get_their_results_whoever_sends_for_them() {
    let cluster = Cluster::start(2, 2);
    let commands = || (0..2).map(|node| cluster.counter(node, "commands")).sum::<u64>();
    let counted = Barrier::new(2);
    everybody_of(&cluster, 2, |world| {
        for favor in [Favor::Learnt, Favor::Overlap] {
            let mut sum = sum_of(&world, 8).favor(favor);
            let mut round = |number: u64| {
                sum.input_mut().fill(number);
                let running = sum.start().unwrap();
                let begin = Instant::now();
                while begin.elapsed() < COMPUTING {
                    yield_now();
                }
                soon(|| running.wait().unwrap());
                assert!(sum.output().iter().all(|&total| total == 2 * number));
            };
            (0..3).for_each(&mut round);
            counted.wait();
            let before = commands();
            counted.wait();
            (0..100).for_each(&mut round);
            counted.wait();
            let asked = commands() - before;
            counted.wait();
            // The daemon does it if it was told to; else as it is awake, or not.
            assert!(favor == Favor::Learnt || asked > 40, "{asked} commands");
        }
    });
}

#[test]
fn several_run_at_once_in_any_order_and_wait_mode() {
    for (nodes, mode) in [(2, WaitMode::Blocking), (3, WaitMode::Adaptive), (4, WaitMode::Polling)] {
        everybody_of(&Cluster::start(nodes, nodes as u32), nodes as u32, |world| {
            let mut sums: Vec<_> = (1..=5).map(|count| sum_of(&world, 40 * count)).collect();
            let size = u64::from(world.size());
            for round in 0..50 {
                sums.rotate_left(world.rank() as usize);
                sums.iter_mut().for_each(|sum| sum.input_mut().fill(round));
                let mut running = start_all(&mut sums).unwrap().with_wait_mode(mode);
                let mut ended = Vec::new();
                while soon(|| running.wait_some(&mut ended).unwrap()) > 0 {}
                assert_eq!(ended.len(), 5);
                assert!(sums.iter().all(|sum| sum.output().iter().all(|&total| total == size * round)));
                sums.rotate_right(world.rank() as usize);
            }
        });
    }
}

#[test]
fn a_root_that_only_sends_is_heard() {
    let cluster = Cluster::start(2, 2);
    everybody_of(&cluster, 2, |world| {
        let mut bcast = world.bcast_init::<u64>(1, 0).unwrap();
        for round in 0..500 {
            if world.rank() == 0 {
                bcast.output_mut()[0] = round;
            }
            soon(|| bcast.start().unwrap().wait().unwrap());
            assert_eq!(bcast.output()[0], round);
        }
    });
}

#[test]
fn without_wires_daemons_carry_the_messages() {
    let plain = || Config { has_wires: false, ..config() };
    let cluster = Cluster::start_with(3, vec![plain(), config(), plain()]);
    let commands = || (0..3).map(|node| cluster.counter(node, "commands")).sum::<u64>();
    let counted = Barrier::new(3);
    everybody_of(&cluster, 3, |world| {
        for count in COUNTS {
            let mut sum = sum_of(&world, count).favor(Favor::Latency);
            (0..3).for_each(|round| add_up(&world, &mut sum, round));
            counted.wait();
            let before = commands();
            counted.wait();
            (0..20).for_each(|round| add_up(&world, &mut sum, round));
            counted.wait();
            // Each start is one at least: from the second round on ranks would need none.
            let asked = commands() - before;
            // Whoever fails leaves, which the others would count.
            counted.wait();
            assert!(asked >= 3 * 20, "{count}: {asked} commands");
        }
    });
}

#[test]
fn a_rank_that_has_started_is_not_needed_any_more() {
    let cluster = Cluster::start(2, 2);
    let rank = cluster.spawn(1, module_path!(), "stops");
    let session = cluster.attach(0);
    let world = session.world();
    let (mut sum, _bcast) = (sum_of(&world, 8), world.bcast_init::<u64>(8, 0).unwrap());
    (0..2).for_each(|round| add_up(&world, &mut sum, round));
    rank.wait_until_stopped();
    add_up(&world, &mut sum, 2);
}

#[test]
fn one_that_leaves_after_a_round_has_sent_what_others_need_for_it() {
    for _ in 0..50 {
        let cluster = Cluster::start(2, 2);
        let (zero, one) = pair(&cluster);
        let (mut sum, mut other) = (sum_of(&zero.world(), 8), sum_of(&one.world(), 8));
        for _ in 0..3 {
            let theirs = other.start().unwrap();
            sum.start().unwrap().wait().unwrap();
            theirs.wait().unwrap();
        }
        let ours = sum.start().unwrap();
        other.start().unwrap().wait().unwrap();
        drop((other, one));
        soon(|| ours.wait().unwrap());
        let error = soon(|| sum.start().unwrap().wait().unwrap_err());
        assert!(matches!(error, Error::PeerFreed { rank: 1 } | Error::RankLeft { rank: 1 }), "{error}");
    }
}

#[test]
fn whoever_fails_tells_those_who_wait_for_it() {
    let cluster = Cluster::start(3, 3);
    let sessions = [0, 1, 2].map(|rank| cluster.attach(rank));
    let [mut root, mut listener, mut leaver] =
        sessions.each_ref().map(|session| session.world().bcast_init::<u64>(8, 0).unwrap());
    for _ in 0..3 {
        let (one, two) = (listener.start().unwrap(), leaver.start().unwrap());
        root.start().unwrap().wait().unwrap();
        soon(|| one.wait().unwrap());
        soon(|| two.wait().unwrap());
    }
    drop(leaver);
    let error = soon(|| {
        loop {
            if let Err(error) = root.start().unwrap().wait() {
                break error;
            }
        }
    });
    assert!(matches!(error, Error::PeerFreed { rank: 2 }), "{error}");
    // The root has nothing to do with it any more, so nothing comes.
    let error = soon(|| {
        loop {
            if let Err(error) = listener.start().unwrap().wait() {
                break error;
            }
        }
    });
    assert!(matches!(error, Error::PeerFreed { rank: 0 }), "{error}");
    for failed in [&mut root, &mut listener] {
        assert!(soon(|| failed.start().unwrap().wait()).is_err(), "it never runs again");
    }
}

#[test]
fn whoever_hears_that_a_rank_has_freed_it_is_not_named_in_its_place() {
    for _ in 0..20 {
        let cluster = Cluster::start(3, 3);
        let sessions = [0, 1, 2].map(|rank| cluster.attach(rank));
        let mut sums = Vec::from(sessions.each_ref().map(|session| sum_of(&session.world(), 8)));
        for _ in 0..3 {
            let running: Vec<_> = sums.iter_mut().map(|sum| sum.start().unwrap()).collect();
            for active in running {
                soon(|| active.wait().unwrap());
            }
        }
        drop(sums.pop());
        for sum in sums.iter_mut().rev() {
            let error = soon(|| sum.start().unwrap().wait().unwrap_err());
            assert!(matches!(error, Error::PeerFreed { rank: 2 }), "{error}");
            // What rank 1 may have told the next one by then has come.
            let late = sessions[1].world().isend(sessions[1].world().alloc::<u8>(1 << 20).unwrap(), 0, 1).unwrap();
            sessions[0].world().recv(&mut vec![0u8; 1 << 20], 1, 1).unwrap();
            late.wait().unwrap();
        }
    }
}

#[test]
fn a_rank_that_is_killed_is_named_also_by_those_it_sends_nothing() {
    for role in ["adds up", "listens"] {
        let cluster = Cluster::start(3, 3);
        let sessions = [cluster.attach(0), cluster.attach(1)];
        let [mut own, mut others] = sessions.each_ref().map(|session| {
            let world = session.world();
            (sum_of(&world, 8), world.bcast_init::<u64>(8, 0).unwrap(), world)
        });
        let rank = cluster.spawn(2, module_path!(), role);
        let round = |(sum, bcast, world): &mut (Collective<u64>, Collective<u64>, Communicator), number: u64| {
            if role == "listens" {
                return bcast.start()?.wait().map(drop);
            }
            sum.input_mut().fill(u64::from(world.rank()) + number);
            sum.start()?.wait().map(drop)
        };
        std::thread::scope(|scope| {
            let theirs = scope.spawn(|| {
                let mut numbers = 0..;
                loop {
                    if let Err(error) = round(&mut others, numbers.next().unwrap()) {
                        break error;
                    }
                }
            });
            let mut numbers = 0..;
            let error = kill_amid(rank, Duration::from_millis(50), || round(&mut own, numbers.next().unwrap()));
            assert!(matches!(error, Error::RankFailed { rank: 2 }), "{error}");
            let error = soon(|| theirs.join().unwrap());
            assert!(matches!(error, Error::RankFailed { rank: 2 }), "{error}");
        });
    }
}

/// Each of its messages needs a request, and the collective one more.
#[test]
fn a_collective_that_is_refused_for_want_of_a_request_leaves_nothing_for_the_next_one() {
    let together = Barrier::new(3);
    everybody_of(&Cluster::start(3, 3), 3, |world| {
        if world.rank() == 0 {
            let mut others = all_requests_but(4, &world);
            for left in (0..=4).rev() {
                let refused = world.allreduce_init::<u64>(8, Operator::Sum);
                assert!(matches!(refused, Err(Error::TooManyRequests)), "{left} requests left");
                others.extend((left > 0).then(|| unmet_request(&world, left - 1)));
            }
        }
        together.wait();
        let mut sum = loop {
            match world.allreduce_init(8, Operator::Sum) {
                Err(Error::TooManyRequests) => yield_now(),
                sum => break sum.unwrap(),
            }
        };
        together.wait();
        (0..5).for_each(|round| add_up(&world, &mut sum, round));
    });
}
