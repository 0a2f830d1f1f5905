//! What a rank can still do that has no request or no memory left, and that what it can't do leaves nothing to others.

use std::sync::Barrier;
use std::thread::yield_now;

use ropeway::{ANY_SOURCE, Buffer, Communicator, Error};
use ropeway_daemon::Config;

use crate::common::{Cluster, all_requests_but, config, everybody_of, soon, unmet_request};

/// Short ones go from rank to rank within a node, long ones by the daemon.
const LENGTHS: [usize; 2] = [100, 100_000];

#[test]
fn who_has_no_request_left_still_sends_and_receives() {
    for nodes in [1, 2] {
        everybody_of(&Cluster::start(nodes, 2), 2, |world| {
            let other = 1 - world.rank();
            let _all = (world.rank() == 0).then(|| all_requests_but(0, &world));
            for length in LENGTHS {
                let (sent, mut received) = (vec![world.rank() as u8; length], vec![9u8; length]);
                world.sendrecv(&sent, other, 1, &mut received, other, 1).unwrap();
                world.sendrecv(&sent, other, 1, &mut received, ANY_SOURCE, 1).unwrap();
                let mut receive = || {
                    assert_eq!(world.probe(other, 2).unwrap().count, length);
                    assert!(world.iprobe(other, 2).unwrap().is_some());
                    world.recv(&mut received, other, 2).unwrap();
                };
                if world.rank() == 0 {
                    world.send(&sent, other, 2).unwrap();
                    receive();
                } else {
                    receive();
                    world.send(&sent, other, 2).unwrap();
                }
                assert!(received.iter().all(|&byte| u32::from(byte) == other));
            }
            assert_eq!(world.split(Some(0), 0).unwrap().unwrap().size(), 2);
            if world.rank() == 0 {
                let request = world.irecv(world.alloc::<u8>(1).unwrap(), 1, 1);
                assert!(matches!(request, Err(Error::TooManyRequests)));
            }
        });
    }
}

#[test]
fn a_sendrecv_without_memory_for_what_comes_has_sent_nothing() {
    let small = Config { job_memory_bytes_max: 16 << 20, ..config() };
    everybody_of(&Cluster::start_with(2, vec![small]), 2, |world| {
        if world.rank() == 0 {
            for source in [ANY_SOURCE, 1.into()] {
                let refused = soon(|| world.sendrecv(&[1u8], 1, 1, &mut vec![0u8; 64 << 20], source, 1));
                assert!(matches!(refused, Err(Error::OutOfMemory { .. })));
            }
            world.send(&[2u8], 1, 1).unwrap();
        } else {
            let mut received = [0u8];
            soon(|| world.recv(&mut received, 0, 1).unwrap());
            assert_eq!(received, [2]);
        }
    });
}

/// All of a rank's memory.
fn all_memory(world: &Communicator) -> Vec<Buffer<u8>> {
    let sizes = (0..24).rev().map(|power| 1 << power);
    sizes.flat_map(|size| std::iter::from_fn(move || world.alloc(size).ok())).collect()
}

#[test]
fn who_has_no_memory_to_agree_leaves_nothing_for_the_next_agreement() {
    let small = || Config { arena_bytes_max: 1 << 20, ..config() };
    everybody_of(&Cluster::start_with(2, vec![small(), small()]), 2, |world| {
        let all = (world.rank() == 0).then(|| all_memory(&world));
        let error = soon(|| world.split(Some(world.rank()), 0)).unwrap_err();
        match world.rank() {
            0 => assert!(matches!(error, Error::OutOfMemory { .. }), "{error}"),
            _ => assert!(matches!(error, Error::PeerFreed { rank: 0 }), "{error}"),
        }
        drop(all);
        let both = soon(|| world.split(Some(7), 0)).unwrap().unwrap();
        assert_eq!(both.size(), 2);
    });
}

/// Four messages each.
#[test]
fn a_neighbour_collective_that_is_refused_for_want_of_a_request_leaves_nothing_for_the_next_one() {
    let together = Barrier::new(2);
    everybody_of(&Cluster::start(2, 2), 2, |world| {
        let ring = world.cartesian(&[2], &[true]).unwrap();
        if world.rank() == 0 {
            let mut others = all_requests_but(3, &world);
            for left in (0..=3).rev() {
                let refused = ring.neighbor_alltoall_init::<u32>(1);
                assert!(matches!(refused, Err(Error::TooManyRequests)), "{left} requests left");
                others.extend((left > 0).then(|| unmet_request(&world, left - 1)));
            }
        }
        together.wait();
        let mut exchange = loop {
            match ring.neighbor_alltoall_init::<u32>(1) {
                Err(Error::TooManyRequests) => yield_now(),
                exchange => break exchange.unwrap(),
            }
        };
        together.wait();
        for round in 0..5 {
            exchange.input_mut().fill(10 * round + world.rank());
            soon(|| exchange.start().unwrap().wait().unwrap());
            assert_eq!(exchange.output(), [10 * round + 1 - world.rank(); 2]);
        }
    });
}
