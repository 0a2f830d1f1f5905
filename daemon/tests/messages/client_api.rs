//! What the client library promises, with daemons below it: on one node and on two.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::thread;

use ropeway::{ANY_SOURCE, ANY_TAG, Communicator, Error, Request, Status, Strided, TAG_MAX, WaitMode, start_all};
use ropeway_proto::control::{Refusal, Reply, encode};

use crate::common::{Cluster, everywhere, pair, soon, test_of};

const SMALL: usize = 8;
/// Beyond the eager limit, and no multiple of the chunk.
const LARGE: usize = 200_003;

/// A send to the right neighbour and a receive from the left, started for some rounds.
fn exchange_in_a_ring(world: &Communicator, elements: usize, rounds: u32) {
    let (rank, size) = (world.rank(), world.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let mut send = world.send_init(world.alloc::<u32>(elements).unwrap(), right, 3).unwrap();
    let mut recv = world.recv_init(world.alloc::<u32>(elements).unwrap(), left, 3).unwrap();
    for round in 0..rounds {
        send.buffer_mut().fill(rank * 1000 + round);
        let receiving = recv.start().unwrap();
        let sending = send.start().unwrap();
        let status = receiving.wait().unwrap();
        assert_eq!((status.source, status.tag, status.count), (left, 3, elements));
        assert_eq!(sending.wait().unwrap().count, elements);
        assert!(recv.buffer().iter().all(|&element| element == left * 1000 + round));
    }
}

#[test]
fn persistent_messages_go_round_a_ring() {
    everywhere(3, |world| {
        for elements in [0, 1, SMALL, 2048, 2049, LARGE] {
            exchange_in_a_ring(&world, elements, 20);
        }
    });
}

#[test]
fn every_wait_mode_ends_the_wait() {
    for mode in [WaitMode::Polling, WaitMode::Blocking, WaitMode::Adaptive] {
        let cluster = Cluster::start(2, 2);
        thread::scope(|scope| {
            for rank in 0..2 {
                let cluster = &cluster;
                scope.spawn(move || {
                    let session = cluster.attach(rank);
                    session.set_wait_mode(mode);
                    assert_eq!(session.wait_mode(), mode);
                    exchange_in_a_ring(&session.world(), SMALL, 50);
                    exchange_in_a_ring(&session.world(), LARGE, 5);
                });
            }
        });
    }
}

#[test]
fn wildcards_receive_from_everybody() {
    everywhere(4, |world| {
        if world.rank() > 0 {
            return world.send(&[world.rank() as f64; 5], 0, 10 + world.rank() as i32).unwrap();
        }
        let mut seen = [false; 4];
        for _ in 1..4 {
            let mut message = [0.0f64; 8];
            let status = world.recv(&mut message, ANY_SOURCE, ANY_TAG).unwrap();
            assert_eq!(status.tag, 10 + status.source as i32);
            assert_eq!(status.count, 5);
            assert_eq!(message[..5], [f64::from(status.source); 5]);
            assert_eq!(message[5..], [0.0; 3]);
            seen[status.source as usize] = true;
        }
        assert_eq!(seen, [false, true, true, true]);
    });
}

#[test]
fn one_shot_messages_keep_their_order() {
    everywhere(2, |world| {
        for number in 0..300u32 {
            // Eager and rendezvous messages may not overtake each other either.
            let elements = if number % 7 == 0 { LARGE } else { SMALL };
            if world.rank() == 0 {
                world.send(&vec![number; elements], 1, 0).unwrap();
            } else {
                let mut message = vec![0; LARGE];
                let status = world.recv(&mut message, 0, ANY_TAG).unwrap();
                assert_eq!((message[0], status.count), (number, elements));
            }
        }
    });
}

#[test]
fn a_message_in_a_buffer_needs_no_copy_of_ours() {
    everywhere(2, |world| {
        let mut buffer = world.alloc::<u64>(LARGE).unwrap();
        if world.rank() == 0 {
            buffer.fill(9);
            world.send(&buffer[3..], 1, 1).unwrap();
        } else {
            let status = world.recv(&mut buffer[..LARGE - 3], 0, 1).unwrap();
            assert_eq!(status.count, LARGE - 3);
            assert_eq!((buffer[0], buffer[LARGE - 4], buffer[LARGE - 1]), (9, 9, 0));
        }
    });
}

#[test]
fn a_probe_tells_how_much_to_receive() {
    everywhere(2, |world| {
        if world.rank() == 0 {
            assert!(world.iprobe(1, 77).unwrap().is_none());
            world.barrier().unwrap();
            let status = world.probe(ANY_SOURCE, 77).unwrap();
            assert_eq!((status.source, status.count::<u16>()), (1, Some(21)));
            let mut message = vec![0u16; status.count::<u16>().unwrap()];
            world.recv(&mut message, status.source, status.tag).unwrap();
            assert_eq!(message, [6; 21]);
            assert!(world.iprobe(1, 77).unwrap().is_none());
        } else {
            world.barrier().unwrap();
            world.send(&[6u16; 21], 0, 77).unwrap();
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_column_arrives_as_a_row() {
    const ROWS: usize = 50;
    const COLUMNS: usize = 30;
    everywhere(2, |world| {
        let column = Strided { first: 4, blocks: ROWS, block_len: 1, stride: COLUMNS };
        let mut buffer = world.alloc::<u32>(ROWS * COLUMNS).unwrap();
        if world.rank() == 0 {
            buffer.iter_mut().zip(0..).for_each(|(element, index)| *element = index);
            let mut send = world.send_init_strided(buffer, column, 1, 0).unwrap();
            send.start().unwrap().wait().unwrap();
            let mut back = world.recv_init_strided(world.alloc::<u32>(ROWS * COLUMNS).unwrap(), column, 1, 1).unwrap();
            back.start().unwrap().wait().unwrap();
            let expected = |index: usize| if index % COLUMNS == 4 { index as u32 } else { 0 };
            assert!(back.buffer().iter().enumerate().all(|(index, &element)| element == expected(index)));
        } else {
            let mut recv = world.recv_init(world.alloc::<u32>(ROWS).unwrap(), 0, 0).unwrap();
            recv.start().unwrap().wait().unwrap();
            assert!(recv.buffer().iter().enumerate().all(|(row, &element)| element as usize == row * COLUMNS + 4));
            let row = recv.into_buffer();
            world.send_init(row, 0, 1).unwrap().start().unwrap().wait().unwrap();
        }
    });
}

#[test]
fn a_message_too_long_for_its_buffer_is_truncated() {
    everywhere(2, |world| {
        for elements in [SMALL, LARGE] {
            let bytes = elements as u64 * 4;
            if world.rank() == 0 {
                let mut send = world.send_init(world.alloc::<u32>(elements).unwrap(), 1, 0).unwrap();
                send.start().unwrap().wait().unwrap();
                world.send(send.buffer(), 1, 1).unwrap();
            } else {
                let mut recv = world.recv_init(world.alloc::<u32>(elements - 1).unwrap(), 0, 0).unwrap();
                let error = recv.start().unwrap().wait().unwrap_err();
                assert!(
                    matches!(error, Error::Truncated { bytes: b, capacity } if (b, capacity) == (bytes, bytes - 4))
                );
                let error = world.recv(&mut vec![0u32; elements - 1], 0, 1).unwrap_err();
                assert!(matches!(error, Error::Truncated { bytes: b, .. } if b == bytes), "{error}");
            }
            world.barrier().unwrap();
        }
    });
}

#[test]
fn a_message_of_half_elements_is_refused() {
    everywhere(2, |world| {
        for bytes in [12, 1204, LARGE * 8 + 4] {
            let is_told =
                |error| matches!(error, Error::SizeMismatch { bytes: b, element_bytes: 8 } if b == bytes as u64);
            if world.rank() == 0 {
                world.send(&vec![1u8; bytes], 1, 0).unwrap();
                let mut send = world.send_init(world.alloc::<u8>(bytes).unwrap(), 1, 1).unwrap();
                (0..9).for_each(|_| assert!(send.start().unwrap().wait().is_ok()));
                world.barrier().unwrap();
            } else {
                let elements = bytes.div_ceil(8);
                assert!(is_told(world.recv(&mut vec![0u64; elements], 0, 0).unwrap_err()));
                let mut recv = world.recv_init(world.alloc::<u64>(elements).unwrap(), 0, 1).unwrap();
                (0..9).for_each(|_| assert!(is_told(recv.start().unwrap().wait().unwrap_err()), "{bytes} bytes"));
                world.barrier().unwrap();
            }
        }
    });
}

#[test]
fn a_cancelled_receive_can_be_started_again() {
    everywhere(2, |world| {
        for elements in [SMALL, LARGE] {
            if world.rank() == 0 {
                let mut recv = world.recv_init(world.alloc::<u8>(elements).unwrap(), 1, 0).unwrap();
                assert!(recv.start().unwrap().cancel().unwrap().is_none());
                world.barrier().unwrap();
                assert_eq!(recv.start().unwrap().wait().unwrap().count, elements);
            } else {
                let mut send = world.send_init(world.alloc::<u8>(elements).unwrap(), 0, 0).unwrap();
                world.barrier().unwrap();
                send.start().unwrap().wait().unwrap();
            }
        }
    });
}

#[test]
fn a_pending_receive_is_withdrawn_by_cancel_and_by_drop() {
    everywhere(2, |world| {
        let buffer = || world.alloc::<u32>(SMALL).unwrap();
        if world.rank() == 0 {
            let (buffer, outcome) = world.irecv(buffer(), 1, ANY_TAG).unwrap().cancel().unwrap();
            assert!(outcome.is_none());
            drop(world.irecv(buffer, ANY_SOURCE, 5).unwrap());
            world.barrier().unwrap();
            let mut pending = world.irecv(world.alloc::<u32>(SMALL).unwrap(), 1, 5).unwrap();
            let status = loop {
                match pending.test().unwrap() {
                    Some(status) => break status,
                    None => thread::yield_now(),
                }
            };
            let (buffer, again) = pending.wait().unwrap();
            assert_eq!((status, buffer[0]), (again, 42));
        } else {
            world.barrier().unwrap();
            let mut message = buffer();
            message.fill(42);
            world.isend(message, 0, 5).unwrap().wait().unwrap();
        }
    });
}

#[test]
fn a_dropped_active_is_found_again() {
    everywhere(2, |world| {
        let buffer = world.alloc::<u32>(SMALL).unwrap();
        if world.rank() == 0 {
            let mut recv = world.recv_init(buffer, 1, 0).unwrap();
            let _ = recv.start().unwrap();
            assert!(matches!(recv.start(), Err(Error::AlreadyActive)));
            assert!(catch_unwind(AssertUnwindSafe(|| recv.buffer()[0])).is_err());
            world.barrier().unwrap();
            let mut active = recv.active().unwrap();
            while active.test().unwrap().is_none() {
                thread::yield_now();
            }
            assert!(matches!(active.wait(), Err(Error::Inactive)));
            assert!(recv.active().is_none());
            assert_eq!(recv.into_buffer()[0], 8);
        } else {
            let mut send = world.send_init(buffer, 0, 0).unwrap();
            send.buffer_mut().fill(8);
            world.barrier().unwrap();
            send.start().unwrap().wait().unwrap();
        }
    });
}

#[test]
fn a_request_dropped_while_active_frees_its_buffer_in_the_end() {
    everywhere(2, |world| {
        let peer = 1 - world.rank();
        for round in 0..200 {
            let mut recv = world.recv_init(world.alloc::<u8>(1 << 20).unwrap(), peer, 100 + round).unwrap();
            let _ = recv.start().unwrap();
            drop(recv);
        }
        world.barrier().unwrap();
        exchange_in_a_ring(&world, LARGE, 3);
    });
}

#[test]
fn a_request_freed_before_it_was_matched_keeps_its_place() {
    everywhere(2, |world| {
        let buffer = || world.alloc::<u32>(SMALL).unwrap();
        if world.rank() == 0 {
            drop(world.recv_init(buffer(), 1, 0).unwrap());
            let mut second = world.recv_init(buffer(), 1, 0).unwrap();
            assert_eq!(second.start().unwrap().wait().unwrap().count, SMALL);
            world.barrier().unwrap();
        } else {
            let mut first = world.send_init(buffer(), 0, 0).unwrap();
            let mut second = world.send_init(buffer(), 0, 0).unwrap();
            second.start().unwrap().wait().unwrap();
            world.barrier().unwrap();
            assert!(matches!(first.start().unwrap().wait(), Err(Error::PeerFreed { rank: 0 })));
        }
        world.barrier().unwrap();
    });
}

#[test]
fn a_channel_whose_other_end_is_freed_says_so() {
    everywhere(2, |world| {
        let buffer = world.alloc::<u32>(LARGE).unwrap();
        if world.rank() == 0 {
            let mut recv = world.recv_init(buffer, 1, 0).unwrap();
            recv.start().unwrap().wait().unwrap();
            world.barrier().unwrap();
            assert!(matches!(recv.start().unwrap().wait(), Err(Error::PeerFreed { rank: 1 })));
        } else {
            let mut send = world.send_init(buffer, 0, 0).unwrap();
            send.start().unwrap().wait().unwrap();
            drop(send);
            world.barrier().unwrap();
        }
        world.barrier().unwrap();
    });
}

#[test]
fn requests_started_together_end_one_by_one() {
    const COUNT: usize = 40;
    everywhere(2, |world| {
        let peer = 1 - world.rank();
        let buffer = || world.alloc::<u32>(SMALL).unwrap();
        let tags = 0..COUNT as i32;
        if world.rank() == 0 {
            let mut sends: Vec<_> = tags.map(|tag| world.send_init(buffer(), peer, tag).unwrap()).collect();
            for _ in 0..3 {
                start_all(&mut sends).unwrap().wait_all().unwrap();
            }
            return;
        }
        let mut recvs: Vec<_> = tags.map(|tag| world.recv_init(buffer(), peer, tag).unwrap()).collect();
        let mut ended = vec![0; COUNT];
        let mut set = start_all(&mut recvs).unwrap();
        while let Some((index, status)) = set.wait_any().unwrap() {
            assert_eq!(status.tag, index as i32);
            ended[index] += 1;
        }
        assert!(set.is_empty() && set.test_any().unwrap().is_none());
        let mut set = start_all(&mut recvs).unwrap().with_wait_mode(WaitMode::Blocking);
        let mut some = Vec::new();
        while set.wait_some(&mut some).unwrap() > 0 {}
        some.iter().for_each(|&(index, _)| ended[index] += 1);
        start_all(&mut recvs).unwrap().wait_all().unwrap();
        assert_eq!(ended, vec![2; COUNT]);
    });
}

#[test]
fn sends_and_receives_of_different_types_start_together() {
    everywhere(2, |world| {
        let peer = 1 - world.rank();
        let mut send = world.send_init(world.alloc::<f64>(10).unwrap(), peer, 0).unwrap();
        let mut recv = world.recv_init(world.alloc::<f64>(10).unwrap(), peer, 0).unwrap();
        let mut bytes: Box<dyn Request> = match world.rank() {
            0 => Box::new(world.send_init(world.alloc::<u8>(3).unwrap(), 1, 1).unwrap()),
            _ => Box::new(world.recv_init(world.alloc::<u8>(3).unwrap(), 0, 1).unwrap()),
        };
        send.buffer_mut().fill(2.5);
        let mut requests: [&mut dyn Request; 3] = [&mut send, &mut recv, &mut bytes];
        start_all(&mut requests).unwrap().wait_all().unwrap();
        assert_eq!(recv.buffer(), [2.5; 10]);
    });
}

#[test]
fn a_set_with_an_active_request_starts_nothing() {
    everywhere(2, |world| {
        let peer = 1 - world.rank();
        let recv = |tag| world.recv_init(world.alloc::<u8>(1).unwrap(), peer, tag).unwrap();
        let mut recvs = [recv(0), recv(1)];
        let _ = recvs[1].start().unwrap();
        assert!(matches!(start_all(&mut recvs), Err(Error::AlreadyActive)));
        assert!(recvs[0].active().is_none());
        world.barrier().unwrap();
    });
}

#[test]
fn threads_share_a_communicator() {
    everywhere(2, |world| {
        let peer = 1 - world.rank();
        thread::scope(|scope| {
            for tag in 0..6 {
                let world = &world;
                scope.spawn(move || {
                    for round in 0..100u32 {
                        let mut answer = [0u32; 4];
                        let status = world.sendrecv(&[round; 4], peer, tag, &mut answer, peer, tag).unwrap();
                        assert_eq!((status.tag, answer), (tag, [round; 4]));
                    }
                });
            }
        });
    });
}

#[test]
fn ten_thousand_channels_fit_between_two_ranks() {
    const CHANNELS: i32 = 10_000;
    everywhere(2, |world| {
        let buffer = || world.alloc::<u32>(1).unwrap();
        if world.rank() == 0 {
            let mut sends: Vec<_> = (0..CHANNELS).map(|tag| world.send_init(buffer(), 1, tag).unwrap()).collect();
            sends.iter_mut().zip(0..).for_each(|(send, number)| send.buffer_mut()[0] = number);
            start_all(&mut sends).unwrap().wait_all().unwrap();
        } else {
            let mut recvs: Vec<_> = (0..CHANNELS).map(|tag| world.recv_init(buffer(), 0, tag).unwrap()).collect();
            start_all(&mut recvs).unwrap().wait_all().unwrap();
            assert!(recvs.iter().zip(0..).all(|(recv, number)| recv.buffer()[0] == number));
        }
    });
}

#[test]
fn wrong_arguments_are_errors_before_anything_is_sent() {
    everywhere(2, |world| {
        let buffer = || world.alloc::<u32>(4).unwrap();
        assert!(matches!(world.send(&[1u8], 2, 0), Err(Error::RankOutOfRange { rank: 2, size: 2 })));
        assert!(matches!(world.recv(&mut [1u8], 7, 0), Err(Error::RankOutOfRange { rank: 7, size: 2 })));
        assert!(matches!(world.send_init(buffer(), 9, 0), Err(Error::RankOutOfRange { rank: 9, size: 2 })));
        assert!(matches!(world.recv_init(buffer(), 0, -1), Err(Error::BadTag { tag: -1 })));
        assert!(matches!(world.irecv(buffer(), ANY_SOURCE, TAG_MAX + 1), Err(Error::BadTag { .. })));
        let part = Strided { first: 1, blocks: 2, block_len: 1, stride: 3 };
        let error = world.send_init_strided(buffer(), part, 0, 0).unwrap_err();
        assert!(matches!(error, Error::LayoutOutOfBounds { end: 5, elements: 4 }));
        assert!(matches!(world.alloc::<u64>(1 << 60), Err(Error::OutOfMemory { .. })));
        assert!(matches!(world.alloc::<u64>(1 << 40), Err(Error::OutOfMemory { .. })));
    });
}

#[test]
fn sessions_are_not_mixed() {
    let cluster = Cluster::start(1, 2);
    let (first, second) = (cluster.attach(0).world(), cluster.attach(1).world());
    let buffer = second.alloc::<u8>(1).unwrap();
    assert!(matches!(first.send_init(buffer, 1, 0), Err(Error::ForeignBuffer)));
    let recv = |world: &Communicator| world.recv_init(world.alloc::<u8>(1).unwrap(), 0, 0).unwrap();
    assert!(matches!(start_all(&mut [recv(&first), recv(&second)]), Err(Error::MixedSessions)));
}

#[test]
fn a_program_without_a_launcher_is_a_job_of_one() {
    let world = ropeway::init().unwrap().world();
    assert_eq!((world.rank(), world.size()), (0, 1));
    exchange_in_a_ring(&world, SMALL, 10);
    exchange_in_a_ring(&world, LARGE, 3);
    world.barrier().unwrap();
    let mut message = world.alloc::<u32>(LARGE).unwrap();
    message.fill(7);
    let sending = world.isend(message, 0, 1).unwrap();
    let status = world.probe(0, 1).unwrap();
    let mut received = vec![0; LARGE];
    assert_eq!(world.recv(&mut received, ANY_SOURCE, 1).unwrap(), Status { count: LARGE, ..status });
    assert_eq!(sending.wait().unwrap().0[..], received);
}

/// Started by the next test with a daemon that is of another build.
#[test]
fn alone_beside_another_build() {
    if std::env::var_os("ROPEWAY_SOCKET").is_some_and(|socket| !socket.is_empty()) {
        assert_eq!(ropeway::init().unwrap().world().size(), 1);
    }
}

#[test]
fn a_program_without_a_launcher_leaves_a_daemon_of_another_build_alone() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let other = thread::spawn(move || {
        let (mut asking, _) = listener.accept().unwrap();
        let mut length = [0; 4];
        asking.read_exact(&mut length).unwrap();
        asking.read_exact(&mut vec![0; u32::from_le_bytes(length) as usize]).unwrap();
        asking.write_all(&encode(&Reply::Refused(Refusal::OtherBuild))).unwrap();
    });
    let program = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &test_of(module_path!(), "alone_beside_another_build")])
        .env("ROPEWAY_SOCKET", &socket)
        .output();
    let program = program.unwrap();
    assert!(program.status.success(), "{}", String::from_utf8_lossy(&program.stdout));
    soon(|| other.join().unwrap());
}

#[test]
fn a_rank_that_has_left_is_named() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 2);
        let (stays, leaves) = (cluster.attach(0).world(), cluster.attach(1));
        let mut recv = stays.recv_init(stays.alloc::<u8>(1).unwrap(), 1, 0).unwrap();
        let mut active = recv.start().unwrap();
        assert!(active.test().unwrap().is_none());
        drop(leaves);
        assert!(matches!(active.wait(), Err(Error::RankLeft { rank: 1 })));
    }
}

#[test]
fn whoever_waits_learns_that_the_daemon_is_gone() {
    for mode in [WaitMode::Polling, WaitMode::Blocking, WaitMode::Adaptive] {
        let mut cluster = Cluster::start(1, 2);
        let world = cluster.attach(0).world();
        let mut recv = world.recv_init(world.alloc::<u8>(1).unwrap(), 1, 0).unwrap();
        let active = recv.start().unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(move || active.wait_with(mode));
            cluster.daemons.remove(0).stop().unwrap();
            let error = waiter.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::DaemonGone | Error::Evicted { .. }), "{error}");
        });
        assert_eq!(recv.buffer(), [0]);
        assert!(recv.start().is_err());
        assert!(world.send(&[1u8], 1, 0).is_err());
    }
}

/// Starts within a node need no daemon, so they don't ask for it.
#[test]
fn whoever_starts_what_can_not_arrive_without_the_daemon_learns_it_by_waiting() {
    for elements in [SMALL, LARGE] {
        let mut cluster = Cluster::start(1, 2);
        let (zero, one) = pair(&cluster);
        let mut send = zero.world().send_init(zero.world().alloc::<u8>(elements).unwrap(), 1, 0).unwrap();
        let mut recv = one.world().recv_init(one.world().alloc::<u8>(elements).unwrap(), 0, 0).unwrap();
        for _ in 0..3 {
            let receiving = recv.start().unwrap();
            send.start().unwrap().wait().unwrap();
            receiving.wait().unwrap();
        }
        cluster.daemons.remove(0).stop().unwrap();
        let is_told = |error: &Error| matches!(error, Error::DaemonGone | Error::Evicted { .. });
        let error = soon(|| recv.start().and_then(|active| active.wait()).unwrap_err());
        assert!(is_told(&error), "{elements}: {error}");
        // A few small ones go where a receiver would find them.
        let error = soon(|| {
            loop {
                if let Err(error) = send.start().and_then(|active| active.wait()) {
                    break error;
                }
            }
        });
        assert!(is_told(&error), "{elements}: {error}");
    }
}

#[test]
fn start_and_wait_allocate_nothing() {
    everywhere(2, |world| {
        let peer = 1 - world.rank();
        let buffer = |elements| world.alloc::<u8>(elements).unwrap();
        for elements in [SMALL, LARGE] {
            let mut send = world.send_init(buffer(elements), peer, 0).unwrap();
            let mut recvs = [world.recv_init(buffer(elements), peer, 0).unwrap()];
            let allocated = allocation_counter::measure(|| {
                for _ in 0..20 {
                    let mut receiving = start_all(&mut recvs).unwrap();
                    let sending = send.start().unwrap();
                    receiving.wait_any().unwrap();
                    sending.wait().unwrap();
                }
            });
            assert_eq!(allocated.count_total, 0);
        }
    });
}
