//! One-shot messages between ranks of a node without the daemon, and what becomes of them if it is needed, or somebody dies.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fastrand::Rng;
use ropeway::{ANY_SOURCE, ANY_TAG, Buffer, Communicator, Error, Status, WaitMode};

use crate::common::numbered::{EDGES, LARGE, SMALL, assert_is, message};
use crate::common::{Cluster, all_requests_but, everybody, everywhere, pair, soon};

const MANY: u32 = 100;
/// More than a lane holds.
const BURST: u32 = 90;

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
        // In cells and in lockers.
        for (number, bytes) in (0..MANY).zip([SMALL, EDGES[1], EDGES[2]].into_iter().cycle()) {
            let mut theirs = vec![0; bytes];
            world.sendrecv(&message(number + world.rank(), bytes), peer, 1, &mut theirs, peer, 1).unwrap();
            assert_is(&theirs, number + peer);
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
fn a_lane_that_is_full_holds_nobody_up() {
    for bytes in [SMALL, EDGES[2]] {
        everywhere(2, |world| {
            if world.rank() == 0 {
                let isend = |number| {
                    let mut buffer = world.alloc(bytes).unwrap();
                    buffer.copy_from_slice(&message(number, bytes));
                    world.isend(buffer, 1, (number % 2) as i32).unwrap()
                };
                let sending: Vec<_> = (0..BURST).map(isend).collect();
                world.barrier().unwrap();
                sending.into_iter().for_each(|sending| drop(sending.wait().unwrap()));
            } else {
                // All of them are here before the first is received, and those with the other tag first.
                world.barrier().unwrap();
                for number in (1..BURST).step_by(2).chain((0..BURST).step_by(2)) {
                    let mut received = vec![0; bytes];
                    world.recv(&mut received, 0, (number % 2) as i32).unwrap();
                    assert_is(&received, number);
                }
            }
        });
    }
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
            let bytes = [SMALL, EDGES[0], EDGES[1], LARGE][random.usize(0..4)];
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
            let mut rank = cluster.spawn(1, module_path!(), role);
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
            let mut rank = cluster.spawn(1, module_path!(), "wait");
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

/// Whoever looks for something else on this rank receives for it, too.
#[test]
fn a_receive_that_is_cancelled_while_another_thread_receives_for_it_loses_nothing() {
    const MESSAGES: u64 = 4000;
    let cluster = Cluster::start(1, 2);
    let (zero, one) = pair(&cluster);
    let (near, far) = (zero.world(), one.world());
    let (mut due, mut lost, are_all_here) = (0, 0, AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| (0..MESSAGES).for_each(|number| near.send(&[number], 1, 1).unwrap()));
        for _ in 0..2 {
            scope.spawn(|| {
                while !are_all_here.load(Ordering::Relaxed) {
                    assert_eq!(far.iprobe(0, 2).unwrap(), None);
                }
            });
        }
        while due < MESSAGES {
            let receiving = far.irecv(far.alloc::<u64>(1).unwrap(), 0, 1).unwrap();
            if let (buffer, Some(_)) = receiving.cancel().unwrap() {
                (due, lost) = (buffer[0] + 1, lost + buffer[0] - due);
            }
        }
        are_all_here.store(true, Ordering::Relaxed);
    });
    assert_eq!(lost, 0);
}

#[test]
fn a_send_that_is_refused_for_want_of_requests_sends_nothing() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = pair(&cluster);
    let (zero, one) = (zero.world(), one.world());
    let all = all_requests_but(0, &zero);
    let isend = |number: u8| {
        let mut buffer = zero.alloc(1)?;
        buffer[0] = number;
        zero.isend(buffer, 1, 2)?.wait()
    };
    assert!(matches!(isend(1), Err(Error::TooManyRequests)));
    drop(all);
    soon(|| while isend(2).is_err() {});
    let mut received = [0u8];
    soon(|| one.recv(&mut received, 0, 2).unwrap());
    assert_eq!(received, [2]);
}
