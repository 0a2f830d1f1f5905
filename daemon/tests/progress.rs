//! Independent progress: a rank that has started its requests and then stops, or computes for ever, delays nobody.

mod common;

use common::{Cluster, channel, config, pair, soon};
use nix::sys::signal::{Signal, raise};
use ropeway::start_all;
use ropeway_daemon::Config;

const EAGER: usize = 100;
const LARGE: usize = 3 << 20;

/// The part of this file that runs in processes of their own.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let session = ropeway::init().unwrap();
    let world = session.world();
    let mut sends = [EAGER, LARGE].map(|bytes| {
        let mut buffer = world.alloc::<u8>(bytes).unwrap();
        buffer.fill(bytes as u8 + 1);
        world.send_init(buffer, 0, 1).unwrap()
    });
    let mut recvs = [EAGER, LARGE].map(|bytes| world.recv_init(world.alloc::<u8>(bytes).unwrap(), 0, 2).unwrap());
    let sending = start_all(&mut sends).unwrap();
    let receiving = start_all(&mut recvs).unwrap();
    println!("ready");
    match role.as_str() {
        "stop" => raise(Signal::SIGSTOP).unwrap(),
        "compute" => loop {
            std::hint::spin_loop();
        },
        other => panic!("no such role: {other}"),
    }
    sending.wait_all().unwrap();
    receiving.wait_all().unwrap();
    assert!(recvs.iter().all(|recv| recv.buffer().iter().all(|&byte| byte == 5)));
    println!("done");
}

fn peers_complete(nodes: usize, role: &str) {
    let cluster = Cluster::start(nodes, 2);
    let session = cluster.attach(0);
    let world = session.world();
    let mut rank = cluster.spawn(1, role);
    if role == "stop" {
        rank.wait_until_stopped();
    }
    soon(|| {
        let mut recvs = [EAGER, LARGE].map(|bytes| world.recv_init(world.alloc::<u8>(bytes).unwrap(), 1, 1).unwrap());
        start_all(&mut recvs).unwrap().wait_all().unwrap();
        for (recv, bytes) in recvs.iter().zip([EAGER, LARGE]) {
            assert!(recv.buffer().iter().all(|&byte| byte == bytes as u8 + 1));
        }
        for bytes in [EAGER, LARGE] {
            let mut buffer = world.alloc::<u8>(bytes).unwrap();
            buffer.fill(5);
            let mut send = world.send_init(buffer, 1, 2).unwrap();
            send.start().unwrap().wait().unwrap();
        }
    });
    if role == "stop" {
        let pid = nix::unistd::Pid::from_raw(rank.child.id() as i32);
        nix::sys::signal::kill(pid, Signal::SIGCONT).unwrap();
        common::wait_for_line(&mut rank.output, "done");
    }
}

#[test]
fn a_stopped_rank_delays_nobody_on_its_node() {
    peers_complete(1, "stop");
}

#[test]
fn a_stopped_rank_delays_nobody_on_another_node() {
    peers_complete(2, "stop");
}

#[test]
fn a_computing_rank_delays_nobody_on_its_node() {
    peers_complete(1, "compute");
}

#[test]
fn a_computing_rank_delays_nobody_on_another_node() {
    peers_complete(2, "compute");
}

#[test]
fn large_messages_between_nodes_are_not_copied_in_user_space() {
    let cluster = Cluster::start(2, 2);
    let (near, far) = (cluster.attach(0), cluster.attach(1));
    let (near, far) = (near.world(), far.world());
    let copies = || cluster.counter(0, "payload_copies") + cluster.counter(1, "payload_copies");
    let mut send = near.send_init(near.alloc::<u8>(1 << 20).unwrap(), 1, 0).unwrap();
    let mut recv = far.recv_init(far.alloc::<u8>(1 << 20).unwrap(), 0, 0).unwrap();
    let before = copies();
    for round in 0..64 {
        send.buffer_mut().fill(round);
        let (receiving, sending) = (recv.start().unwrap(), send.start().unwrap());
        receiving.wait().unwrap();
        sending.wait().unwrap();
        assert!(recv.buffer().iter().all(|&byte| byte == round));
    }
    assert_eq!(copies() - before, 0);
}

/// Over a wire and over the link, small and large, persistent and one-shot.
#[test]
fn a_channel_whose_receiver_does_not_come_delays_no_other() {
    const MESSAGES: usize = 40;
    const SIZES: [usize; 3] = [8, 8192, 1 << 20];
    for has_wires in [true, false] {
        let cluster = Cluster::start_with(2, vec![Config { has_wires, ..config() }; 2], |address| address);
        let (zero, one) = pair(&cluster);
        let (near, far) = (zero.world(), one.world());
        let mut blocked = SIZES.map(|bytes| channel(&near, &far, bytes));
        let mut free = SIZES.map(|bytes| channel(&near, &far, bytes));
        let pending: Vec<_> = (0..MESSAGES)
            .flat_map(|_| SIZES.map(|bytes| near.isend(near.alloc::<u8>(bytes).unwrap(), 1, 2).unwrap()))
            .collect();
        std::thread::scope(|scope| {
            let recvs = blocked.each_mut().map(|(send, recv)| {
                scope.spawn(move || (0..MESSAGES).for_each(|_| _ = send.start().unwrap().wait().unwrap()));
                recv
            });
            for byte in 0..MESSAGES as u8 {
                for (send, recv) in &mut free {
                    send.buffer_mut().fill(byte);
                    let receiving = recv.start().unwrap();
                    soon(|| send.start().unwrap().wait().unwrap());
                    soon(|| receiving.wait().unwrap());
                    assert!(recv.buffer().iter().all(|&other| other == byte));
                }
            }
            for recv in recvs {
                (0..MESSAGES).for_each(|_| _ = recv.start().unwrap().wait().unwrap());
            }
        });
        let mut message = vec![0u8; 1 << 20];
        for (index, sending) in pending.into_iter().enumerate() {
            assert_eq!(far.recv(&mut message, 0, 2).unwrap().count, SIZES[index % SIZES.len()]);
            sending.wait().unwrap();
        }
    }
}
