//! One-shot messages between ranks of a node, some of which go through lanes and some by the daemon: they keep their order.

use std::thread;

use fastrand::Rng;
use ropeway::{ANY_SOURCE, ANY_TAG, Buffer, Communicator, Pending, Status};

use crate::common::everywhere;
use crate::common::numbered::{EDGES, LARGE, SMALL, assert_is, message, number_of};

/// A send or receive that runs.
type Running = Pending<u8>;

const ROUNDS: u32 = 100;
const TAGS: usize = 2;

#[test]
fn messages_of_all_sizes_keep_their_order() {
    everywhere(2, |world| {
        let sizes = [SMALL, LARGE, SMALL, SMALL, EDGES[3], EDGES[1], EDGES[0], 4, EDGES[2], SMALL];
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
fn receives_of_every_kind_get_messages_in_the_order_they_were_posted_in() {
    everywhere(2, |world| {
        let mut random = Rng::with_seed(3);
        let irecv = |bytes, source| world.irecv(world.alloc::<u8>(bytes).unwrap(), source, ANY_TAG).unwrap();
        let mut next = 0;
        for _ in 0..4 * ROUNDS {
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
fn receives_begun_while_messages_come_get_them_in_order() {
    const MESSAGES: u32 = 1000;
    everywhere(2, |world| {
        for _ in 0..ROUNDS {
            // Both begin at once, so that messages come between the looks of a receive at the lane.
            world.barrier().unwrap();
            if world.rank() == 0 {
                (0..MESSAGES).for_each(|number| world.send(&message(number, SMALL), 1, 0).unwrap());
                continue;
            }
            let irecv = |_| world.irecv(world.alloc::<u8>(SMALL).unwrap(), 0, 0).unwrap();
            let pending: Vec<Running> = (0..MESSAGES).map(irecv).collect();
            for (number, pending) in (0..).zip(pending) {
                assert_is(&pending.wait().unwrap().0, number);
            }
        }
    });
}

#[test]
fn a_receive_gets_its_message_before_those_posted_after_it() {
    everywhere(3, |world| {
        let alloc = || world.alloc::<u32>(1).unwrap();
        for round in 0..ROUNDS {
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

/// Whom each rank sends what, in which order: (receiver, tag, bytes).
struct Plan(Vec<Vec<(u32, i32, usize)>>);

impl Plan {
    fn of(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let mut one = |_| {
            let bytes = match random.usize(0..10) {
                0 => LARGE,
                1 => EDGES[random.usize(0..4)],
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
