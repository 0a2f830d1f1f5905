//! One-shot messages between ranks of a node, some of which go through lanes and some by the daemon: they keep their order.

mod common;

use std::sync::Barrier;
use std::thread;

use common::{Cluster, everybody, everywhere, pair, soon};
use fastrand::Rng;
use ropeway::{ANY_SOURCE, ANY_TAG, Buffer, Communicator, Error, Pending, Status, WaitMode};

/// Goes through a lane.
const SMALL: usize = 16;
/// Just fits into a cell, and just does not.
const EDGE: [usize; 2] = [4096, 4097];
/// The daemon announces it.
const LARGE: usize = 100_000;
const MANY: u32 = 100;
/// More than a lane holds, and less than the daemon keeps of what nobody has asked for.
const BURST: u32 = 30;

/// The part of this file that runs in processes of their own.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let session = ropeway::init().unwrap();
    let world = session.world();
    let send = |count: u32| (0..count).for_each(|number| world.send(&[number; 4], 0, 1).unwrap());
    match role.as_str() {
        "send_and_wait" => {
            send(5);
            println!("ready");
            let _ = world.recv(&mut [0u8], 0, 99);
        }
        "send_and_leave" => {
            send(5);
            println!("ready");
        }
        "wait" => {
            println!("ready");
            let _ = world.recv(&mut [0u8], 0, 99);
        }
        other => panic!("no such role: {other}"),
    }
}

fn number_of(message: &[u8]) -> u32 {
    u32::from_le_bytes(message[..4].try_into().unwrap())
}

fn message(number: u32, bytes: usize) -> Vec<u8> {
    let mut message = vec![number as u8; bytes];
    message[..4].copy_from_slice(&number.to_le_bytes());
    message
}

fn assert_is(message: &[u8], number: u32) {
    assert_eq!(number_of(message), number);
    assert!(message[4..].iter().all(|&byte| byte == number as u8), "message {number} is torn");
}

#[test]
fn small_blocking_messages_need_no_daemon() {
    for mode in [WaitMode::Polling, WaitMode::Blocking, WaitMode::Adaptive] {
        let cluster = Cluster::start(1, 2);
        let (zero, one) = pair(&cluster);
        zero.set_wait_mode(mode);
        one.set_wait_mode(mode);
        let before = cluster.counter(0, "commands");
        thread::scope(|scope| {
            scope.spawn(|| {
                let world = one.world();
                for number in 0..MANY {
                    let mut message = [0u32; 4];
                    world.recv(&mut message, 0, 1).unwrap();
                    assert_eq!(message, [number; 4]);
                    world.send(&message, 0, 2).unwrap();
                }
            });
            let world = zero.world();
            for number in 0..MANY {
                let mut message = [number; 4];
                world.send(&message.clone(), 1, 1).unwrap();
                let status = world.recv(&mut message, 1, ANY_TAG).unwrap();
                assert_eq!(status, Status { source: 1, tag: 2, bytes: 16, count: 4 });
                assert_eq!(message, [number; 4]);
            }
        });
        assert_eq!(cluster.counter(0, "commands"), before, "{mode}");
    }
}

#[test]
fn both_halves_of_an_exchange_need_no_daemon() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = pair(&cluster);
    let before = cluster.counter(0, "commands");
    let exchange = |world: Communicator| {
        let peer = 1 - world.rank();
        for number in 0..MANY {
            let mut theirs = [0u32];
            world.sendrecv(&[number + world.rank()], peer, 1, &mut theirs, peer, 1).unwrap();
            assert_eq!(theirs, [number + peer]);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| exchange(one.world()));
        exchange(zero.world());
    });
    assert_eq!(cluster.counter(0, "commands"), before);
}

#[test]
fn receives_that_do_not_wait_need_no_daemon() {
    let cluster = Cluster::start(1, 3);
    let sessions = [0, 1, 2].map(|rank| cluster.attach(rank));
    let before = cluster.counter(0, "commands");
    let exchange = |world: Communicator| {
        let (left, right) = ((world.rank() + 2) % 3, (world.rank() + 1) % 3);
        let alloc = || world.alloc::<u32>(2).unwrap();
        let mut buffers = vec![alloc(), alloc(), alloc(), alloc()];
        for number in 0..MANY {
            let mut next = || buffers.pop().unwrap();
            let receiving = [world.irecv(next(), left, 1).unwrap(), world.irecv(next(), right, ANY_TAG).unwrap()];
            let send = |mut buffer: Buffer<u32>, dest, tag| {
                buffer.copy_from_slice(&[number, world.rank()]);
                world.isend(buffer, dest, tag).unwrap()
            };
            let sending = [send(next(), right, 1), send(next(), left, 2)];
            for (receiving, source) in receiving.into_iter().zip([left, right]) {
                let (received, status) = receiving.wait().unwrap();
                assert_eq!((&received[..], status.source), (&[number, source][..], source));
                buffers.push(received);
            }
            buffers.extend(sending.map(|sending| sending.wait().unwrap().0));
        }
    };
    thread::scope(|scope| {
        for session in &sessions {
            scope.spawn(|| exchange(session.world()));
        }
    });
    assert_eq!(cluster.counter(0, "commands"), before);
}

#[test]
fn receives_of_every_kind_get_messages_in_the_order_they_were_posted_in() {
    everywhere(2, |world| {
        let mut random = Rng::with_seed(3);
        let irecv = |bytes, source| world.irecv(world.alloc::<u8>(bytes).unwrap(), source, ANY_TAG).unwrap();
        let mut next = 0;
        for _ in 0..4 * MANY {
            // Both draw the same numbers.
            let count = random.usize(1..12);
            let kinds: Vec<usize> = (0..count).map(|_| random.usize(0..6)).collect();
            let (is_late, is_reversed) = (random.bool(), random.bool());
            if is_late {
                // Nothing of earlier rounds is left, so what is sent now is kept for the receiver.
                world.barrier().unwrap();
            }
            if world.rank() == 0 {
                (next..next + count as u32).for_each(|number| world.send(&message(number, SMALL), 1, 0).unwrap());
                next += count as u32;
                if is_late {
                    world.barrier().unwrap();
                }
                continue;
            }
            if is_late {
                world.barrier().unwrap();
            }
            let mut received = vec![0; count];
            let mut pending: Vec<(usize, Running)> = Vec::new();
            for (place, kind) in kinds.into_iter().enumerate() {
                let mut content = [0; SMALL];
                match kind {
                    0..3 => pending.push((place, irecv(SMALL, 0.into()))),
                    3 => pending.push((place, irecv(LARGE, 0.into()))),
                    4 => pending.push((place, irecv(SMALL, ANY_SOURCE))),
                    _ => {
                        world.recv(&mut content, 0, 0).unwrap();
                        received[place] = number_of(&content);
                    }
                }
            }
            if is_reversed {
                pending.reverse();
            }
            for (place, pending) in pending {
                received[place] = number_of(&pending.wait().unwrap().0);
            }
            assert!(received.iter().copied().eq(next..next + count as u32), "{received:?}");
            next += count as u32;
        }
    });
}

#[test]
fn a_receive_that_was_withdrawn_gets_nothing() {
    everywhere(2, |world| {
        for round in 0..3 {
            if world.rank() == 0 {
                world.barrier().unwrap();
                (0..2u32).for_each(|number| world.send(&[number], 1, round).unwrap());
                continue;
            }
            let irecv = || world.irecv(world.alloc::<u32>(1).unwrap(), 0, round).unwrap();
            let (first, second, third) = (irecv(), irecv(), irecv());
            drop(first);
            assert!(third.cancel().unwrap().1.is_none());
            world.barrier().unwrap();
            assert_eq!(second.wait().unwrap().0[..], [0]);
            assert_eq!(irecv().wait().unwrap().0[..], [1]);
        }
    });
}

#[test]
fn messages_of_all_sizes_keep_their_order() {
    everywhere(2, |world| {
        let sizes = [SMALL, LARGE, SMALL, SMALL, EDGE[1], EDGE[0], 4, SMALL];
        for (number, bytes) in (0..400u32).zip(sizes.into_iter().cycle()) {
            if world.rank() == 0 {
                world.send(&message(number, bytes), 1, 0).unwrap();
            } else {
                let mut received = vec![0; LARGE];
                let status = world.recv(&mut received, 0, 0).unwrap();
                assert_eq!(status.count, bytes);
                assert_is(&received[..bytes], number);
            }
        }
    });
}

#[test]
fn a_lane_that_is_full_holds_nobody_up() {
    everywhere(2, |world| {
        if world.rank() == 0 {
            (0..BURST).for_each(|number| world.send(&[number], 1, (number % 2) as i32).unwrap());
            world.barrier().unwrap();
        } else {
            // All of them are here before the first is received, and those with the other tag first.
            world.barrier().unwrap();
            for number in (1..BURST).step_by(2).chain((0..BURST).step_by(2)) {
                let mut received = [0];
                world.recv(&mut received, 0, (number % 2) as i32).unwrap();
                assert_eq!(received, [number]);
            }
        }
    });
}

#[test]
fn a_receive_gets_its_message_before_those_posted_after_it() {
    everywhere(3, |world| {
        let alloc = || world.alloc::<u32>(1).unwrap();
        for round in 0..MANY {
            if world.rank() > 0 {
                (0..4).for_each(|number| world.send(&[4 * round + number], 0, 3).unwrap());
            } else {
                let anybody = world.irecv(alloc(), ANY_SOURCE, 3).unwrap();
                let second = world.irecv(alloc(), 1, ANY_TAG).unwrap();
                let (mut third, mut fourth) = ([0], [0]);
                world.recv(&mut third, 1, 3).unwrap();
                let (first, status) = anybody.wait().unwrap();
                let (second, _) = second.wait().unwrap();
                world.recv(&mut fourth, 1, 3).unwrap();
                // Who was first with anybody, has one less for the others.
                let of_one: Vec<u32> = if status.source == 1 {
                    vec![first[0], second[0], third[0], fourth[0]]
                } else {
                    vec![second[0], third[0], fourth[0]]
                };
                assert!(of_one.iter().copied().eq((4 * round..).take(of_one.len())), "{of_one:?}");
                for _ in 0..8 - 4 {
                    world.recv(&mut third, ANY_SOURCE, ANY_TAG).unwrap();
                }
            }
            world.barrier().unwrap();
        }
    });
}

#[test]
fn wildcards_find_what_lies_in_lanes_and_are_fair() {
    everybody((1, 4), |world| {
        if world.rank() > 0 {
            (0..6u32).for_each(|number| world.send(&[number], 0, number as i32).unwrap());
        }
        world.barrier().unwrap();
        if world.rank() == 0 {
            let mut next = [0u32; 4];
            for turn in 0..18 {
                let mut received = [0u32];
                let status = world.recv(&mut received, ANY_SOURCE, ANY_TAG).unwrap();
                let next = &mut next[status.source as usize];
                assert_eq!((received[0], status.tag), (*next, *next as i32));
                *next += 1;
                // All have sent all: nobody gets two turns before everybody had one.
                assert_eq!(*next, turn / 3 + 1);
            }
        }
    });
}

#[test]
fn a_probe_tells_of_the_message_that_is_received_next() {
    everywhere(2, |world| {
        let mut random = Rng::with_seed(7);
        for number in 0..MANY {
            let bytes = [SMALL, EDGE[0], LARGE][random.usize(0..3)];
            let source = if random.bool() { 0.into() } else { ANY_SOURCE };
            let is_patient = random.bool();
            if world.rank() == 0 {
                world.send(&message(number, bytes), 1, number as i32).unwrap();
                continue;
            }
            let status = if is_patient {
                world.probe(source, ANY_TAG).unwrap()
            } else {
                std::iter::repeat_with(|| world.iprobe(source, ANY_TAG).unwrap()).flatten().next().unwrap()
            };
            assert_eq!((status.source, status.tag, status.count), (0, number as i32, bytes));
            let mut received = vec![0; status.count];
            world.recv(&mut received, status.source, status.tag).unwrap();
            assert_is(&received, number);
        }
    });
}

#[test]
fn a_message_in_a_lane_is_truncated_and_consumed_like_any_other() {
    everywhere(2, |world| {
        for round in 0..3 {
            if world.rank() == 0 {
                world.send(&[1u8; SMALL], 1, 0).unwrap();
                world.send(&[2u8; SMALL], 1, 0).unwrap();
                world.send(&[3u8; SMALL - 1], 1, 0).unwrap();
                world.send(&[4u8; 1], 1, 0).unwrap();
            }
            if round == 0 {
                world.barrier().unwrap();
            }
            if world.rank() == 1 {
                let error = world.recv(&mut [0u8; SMALL - 1], 0, 0).unwrap_err();
                assert!(matches!(error, Error::Truncated { bytes: 16, capacity: 15 }), "{error}");
                let pending = world.irecv(world.alloc::<u8>(SMALL - 2).unwrap(), 0, 0).unwrap();
                let error = pending.wait().unwrap_err();
                assert!(matches!(error, Error::Truncated { bytes: 16, capacity: 14 }), "{error}");
                let error = world.recv(&mut [0u64; 2], 0, 0).unwrap_err();
                assert!(matches!(error, Error::SizeMismatch { bytes: 15, element_bytes: 8 }), "{error}");
                let mut last = [0u8];
                world.recv(&mut last, 0, 0).unwrap();
                assert_eq!(last, [4]);
            }
        }
    });
}

#[test]
fn a_withdrawn_operation_leaves_the_lane_to_others() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = pair(&cluster);
    let (zero, one) = (zero.world(), one.world());
    let alloc = |world: &Communicator, bytes| world.alloc::<u8>(bytes).unwrap();
    // A receive and a large send that are withdrawn, by name and by dropping.
    assert!(one.irecv(alloc(&one, 1), 0, 5).unwrap().cancel().unwrap().1.is_none());
    drop(one.irecv(alloc(&one, 1), ANY_SOURCE, 5).unwrap());
    assert!(zero.isend(alloc(&zero, LARGE), 1, 5).unwrap().cancel().unwrap().1.is_none());
    drop(zero.isend(alloc(&zero, LARGE), 1, 5).unwrap());
    let ping = || {
        zero.send(&[1u8], 1, 6).unwrap();
        one.recv(&mut [0u8], 0, 6).unwrap();
    };
    // What was dropped is noticed by the operations that come after it.
    let needs_daemon = || {
        let before = cluster.counter(0, "commands");
        ping();
        cluster.counter(0, "commands") != before
    };
    assert!((0..MANY).any(|_| !needs_daemon()));
}

#[test]
fn threads_of_both_ranks_share_a_lane() {
    everywhere(2, |world| {
        thread::scope(|scope| {
            for tag in 0..4 {
                let world = world.clone();
                scope.spawn(move || {
                    for number in 0..3 * MANY {
                        let bytes = if number % 17 == 0 { LARGE } else { SMALL };
                        if world.rank() == 0 {
                            world.send(&message(number, bytes), 1, tag).unwrap();
                        } else if bytes == SMALL && tag % 2 == 0 {
                            let pending = world.irecv(world.alloc(SMALL).unwrap(), 0, tag).unwrap();
                            assert_is(&pending.wait().unwrap().0, number);
                        } else {
                            let mut received = vec![0; LARGE];
                            let status = world.recv(&mut received, 0, tag).unwrap();
                            assert_is(&received[..status.count], number);
                        }
                    }
                });
            }
        });
    });
}

/// Whoever sleeps in a lane is woken by what it is not for, and goes on sleeping.
#[test]
fn threads_that_wait_for_one_sender_are_all_woken() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = pair(&cluster);
    zero.set_wait_mode(WaitMode::Blocking);
    one.set_wait_mode(WaitMode::Blocking);
    thread::scope(|scope| {
        for tag in 0..8 {
            let world = one.world();
            scope.spawn(move || {
                for number in 0..MANY {
                    if tag % 2 == 0 {
                        let pending = world.irecv(world.alloc::<u32>(1).unwrap(), 0, tag).unwrap();
                        assert_eq!(pending.wait().unwrap().0[..], [number]);
                        continue;
                    }
                    let mut received = [0];
                    world.recv(&mut received, 0, tag).unwrap();
                    assert_eq!(received, [number]);
                }
            });
        }
        let world = zero.world();
        (0..MANY).for_each(|number| (0..8).for_each(|tag| world.send(&[number], 1, tag).unwrap()));
    });
}

#[test]
fn what_a_rank_had_sent_before_it_was_killed_or_left_arrives() {
    for role in ["send_and_wait", "send_and_leave"] {
        for source in [1.into(), ANY_SOURCE] {
            let cluster = Cluster::start(1, 2);
            let zero = cluster.attach(0);
            let world = zero.world();
            let mut rank = cluster.spawn(1, role);
            if role == "send_and_wait" {
                rank.kill();
            } else {
                rank.child.wait().unwrap();
            }
            for number in 0..5u32 {
                let mut received = [0u32; 4];
                soon(|| world.recv(&mut received, source, 1).unwrap());
                assert_eq!(received, [number; 4]);
            }
            let error = soon(|| world.recv(&mut [0u32; 4], 1, 1).unwrap_err());
            assert!(matches!(error, Error::RankFailed { rank: 1 } | Error::RankLeft { rank: 1 }), "{error}");
            let error = soon(|| world.send(&[1u32], 1, 1).unwrap_err());
            assert!(matches!(error, Error::RankFailed { rank: 1 } | Error::RankLeft { rank: 1 }), "{error}");
        }
    }
}

#[test]
fn who_waits_in_a_lane_learns_of_its_senders_end() {
    for mode in [WaitMode::Polling, WaitMode::Blocking, WaitMode::Adaptive] {
        for is_killed in [true, false] {
            let cluster = Cluster::start(1, 3);
            let sessions = [cluster.attach(0), cluster.attach(2)];
            let mut rank = cluster.spawn(1, "wait");
            sessions[0].set_wait_mode(mode);
            let begins = Barrier::new(2);
            thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    let world = sessions[0].world();
                    let pending = world.irecv(world.alloc::<u8>(1).unwrap(), 1, 1).unwrap();
                    begins.wait();
                    let error = world.recv(&mut [0u8], 1, 1).unwrap_err();
                    assert_eq!(pending.wait().unwrap_err().to_string(), error.to_string());
                    error
                });
                begins.wait();
                if is_killed {
                    rank.kill();
                } else {
                    // Its last message is taken, and it leaves.
                    sessions[0].world().send(&[1u8], 1, 99).unwrap();
                    rank.child.wait().unwrap();
                }
                let error = soon(|| waiting.join().unwrap());
                match error {
                    Error::RankFailed { rank: 1 } if is_killed => {}
                    Error::RankLeft { rank: 1 } if !is_killed => {}
                    other => panic!("{other}"),
                }
            });
            // The others go on.
            sessions[1].world().send(&[3u8], 0, 1).unwrap();
            sessions[0].world().recv(&mut [0u8], 2, 1).unwrap();
        }
    }
}

/// A receive that runs, or its outcome.
type Running = Pending<u8>;

/// Random operations of every kind among four ranks. From each sender and with each tag, messages have to come in order: to
/// receives in the order in which they were posted.
#[test]
fn random_traffic_keeps_the_order_of_each_pair() {
    for seed in 0..6 {
        everywhere(4, |world| {
            let plan = Plan::of(seed);
            thread::scope(|scope| {
                scope.spawn(|| send_planned(&world, &plan));
                receive_planned(&world, &plan, seed);
            });
        });
    }
}

const TAGS: usize = 2;

/// Whom each rank sends what, in which order: (receiver, tag, bytes).
struct Plan(Vec<Vec<(u32, i32, usize)>>);

impl Plan {
    fn of(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let mut one = |_| {
            let bytes = match random.usize(0..10) {
                0 => LARGE,
                1 => EDGE[random.usize(0..2)],
                _ => SMALL,
            };
            (random.u32(0..4), random.i32(0..TAGS as i32), bytes)
        };
        Self((0..4).map(|_| (0..300).map(&mut one).collect()).collect())
    }

    fn expected(&self, rank: u32) -> usize {
        self.0.iter().flatten().filter(|&&(dest, _, _)| dest == rank).count()
    }
}

fn send_planned(world: &Communicator, plan: &Plan) {
    let mut numbers = [[0u32; TAGS]; 4];
    let mut pending: Vec<Running> = Vec::new();
    for (turn, &(dest, tag, bytes)) in plan.0[world.rank() as usize].iter().enumerate() {
        let number = &mut numbers[dest as usize][tag as usize];
        let content = message(*number, bytes);
        *number += 1;
        // Who sends to itself, or large, must not wait for its own receives.
        if turn % 3 == 0 || dest == world.rank() {
            let mut buffer: Buffer<u8> = world.alloc(bytes).unwrap();
            buffer.copy_from_slice(&content);
            pending.push(world.isend(buffer, dest, tag).unwrap());
        } else {
            world.send(&content, dest, tag).unwrap();
        }
    }
    pending.into_iter().for_each(|pending| drop(pending.wait().unwrap()));
}

fn receive_planned(world: &Communicator, plan: &Plan, seed: u64) {
    let mut random = Rng::with_seed(seed ^ u64::from(world.rank()));
    let mut next = [[0u32; TAGS]; 4];
    let mut check = |received: &[u8], status: Status| {
        let next = &mut next[status.source as usize][status.tag as usize];
        assert_is(&received[..status.count], *next);
        *next += 1;
    };
    let mut left = plan.expected(world.rank());
    while left > 0 {
        match random.usize(0..4) {
            0 => {
                let mut received = vec![0; LARGE];
                let status = world.recv(&mut received, ANY_SOURCE, ANY_TAG).unwrap();
                check(&received, status);
                left -= 1;
            }
            1 => {
                // What is probed is what is received.
                let found = world.probe(ANY_SOURCE, ANY_TAG).unwrap();
                let mut received = vec![0; found.count];
                let status = world.recv(&mut received, found.source, found.tag).unwrap();
                assert_eq!(status, found);
                check(&received, status);
                left -= 1;
            }
            2 => {
                let Some(found) = world.iprobe(ANY_SOURCE, ANY_TAG).unwrap() else { continue };
                let mut received = vec![0; LARGE];
                let status = world.recv(&mut received, found.source, ANY_TAG).unwrap();
                assert_eq!(status.source, found.source);
                check(&received, status);
                left -= 1;
            }
            _ => {
                let count = random.usize(1..5).min(left);
                let post = |_| world.irecv(world.alloc::<u8>(LARGE).unwrap(), ANY_SOURCE, ANY_TAG).unwrap();
                let pending: Vec<Running> = (0..count).map(post).collect();
                for pending in pending {
                    let (received, status) = pending.wait().unwrap();
                    check(&received, status);
                }
                left -= count;
            }
        }
    }
}
