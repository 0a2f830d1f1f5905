//! Independent progress: a rank that has started its requests and then stops, or computes for ever, delays nobody.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{self, Signal, raise};
use nix::unistd::Pid;
use ropeway::{Communicator, Error, WaitMode, start_all};
use ropeway_daemon::Config;

use crate::common::{self, Cluster, channel, config, pair, soon};

const EAGER: usize = 100;
/// The largest of which the receive is not left to the daemon, though its program computes.
const KEPT: usize = 48 << 10;
const LARGE: usize = 3 << 20;
/// More than a connection holds.
const WINDOW: i32 = 200;
/// Of three ranks the first two are on one node.
const NEIGHBOUR: u32 = 1;
const FAR: u32 = 2;
/// Many times as long as somebody polls before it asks first. Nothing tells when that is so.
const POLLED: Duration = Duration::from_millis(3);
const STOPS: u32 = 40;

/// The part of this file that runs in processes of their own.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let session = ropeway::init().unwrap();
    let world = session.world();
    if let Some(role) = role.strip_prefix("window-") {
        return receive_window(&world, role);
    }
    if role == "polls" {
        return poll(&world);
    }
    let mut sends = [EAGER, LARGE].map(|bytes| {
        let mut buffer = world.alloc::<u8>(bytes).unwrap();
        buffer.fill(bytes as u8 + 1);
        world.send_init(buffer, 0, 1).unwrap()
    });
    let mut recvs = [EAGER, LARGE].map(|bytes| world.recv_init(world.alloc::<u8>(bytes).unwrap(), 0, 2).unwrap());
    let sending = start_all(&mut sends).unwrap();
    let receiving = start_all(&mut recvs).unwrap();
    println!("ready");
    be_away(&role);
    sending.wait_all().unwrap();
    receiving.wait_all().unwrap();
    assert!(recvs.iter().all(|recv| recv.buffer().iter().all(|&byte| byte == 5)));
    println!("done");
}

fn be_away(role: &str) {
    match role {
        "stop" => raise(Signal::SIGSTOP).unwrap(),
        "compute" => loop {
            std::hint::spin_loop();
        },
        other => panic!("no such role: {other}"),
    }
}

/// Receives from another node, and says to its neighbour that it has begun to; until the others have enough of it.
fn poll(world: &Communicator) {
    let mut recv = world.recv_init(world.alloc::<u8>(EAGER).unwrap(), FAR, 0).unwrap();
    println!("ready");
    let mut round = || -> Result<(), Error> {
        let receiving = recv.start()?;
        world.send(&[0u8], NEIGHBOUR, 1)?;
        receiving.wait_with(WaitMode::Polling).map(drop)
    };
    while round().is_ok() {}
}

/// Starts a window of receives and is away, or waits for something else first.
fn receive_window(world: &Communicator, role: &str) {
    let recv = |tag| world.recv_init(world.alloc::<u8>(KEPT).unwrap(), 0, tag).unwrap();
    let mut recvs: Vec<_> = (0..WINDOW).map(recv).collect();
    println!("ready");
    // So that all of it is on the wire.
    start_all(&mut recvs).unwrap().wait_all().unwrap();
    let receiving = start_all(&mut recvs).unwrap();
    world.send(&[1u8], 0, WINDOW).unwrap();
    match role {
        "wait" => assert_eq!(world.recv(&mut [0u8], 0, WINDOW).unwrap().count, 1),
        other => be_away(other),
    }
    receiving.wait_all().unwrap();
    assert!((0..WINDOW).zip(&recvs).all(|(tag, recv)| recv.buffer().iter().all(|&byte| byte == tag as u8)));
    println!("done");
}

/// The window fills the wire, and nobody waits for what comes over it.
fn window_is_sent(role: &str) {
    let cluster = Cluster::start(2, 2);
    let session = cluster.attach(0);
    let world = session.world();
    let send = |tag| world.send_init(world.alloc::<u8>(KEPT).unwrap(), 1, tag).unwrap();
    let mut sends: Vec<_> = (0..WINDOW).map(send).collect();
    let mut rank = cluster.spawn(1, module_path!(), &format!("window-{role}"));
    soon(|| start_all(&mut sends).unwrap().wait_all().unwrap());
    (0..WINDOW).zip(&mut sends).for_each(|(tag, send)| send.buffer_mut().fill(tag as u8));
    assert_eq!(soon(|| world.recv(&mut [0u8], 1, WINDOW).unwrap().count), 1);
    if role == "stop" {
        rank.wait_until_stopped();
    }
    soon(|| start_all(&mut sends).unwrap().wait_all().unwrap());
    if role == "stop" {
        signal::kill(Pid::from_raw(rank.child.id() as i32), Signal::SIGCONT).unwrap();
    }
    if role != "compute" {
        soon(|| world.send(&[1u8], 1, WINDOW).unwrap());
        common::wait_for_line(&mut rank.output, "done");
    }
}

#[test]
fn who_waits_for_something_else_delays_nobody_who_sends_to_its_started_receives() {
    window_is_sent("wait");
}

#[test]
fn a_stopped_rank_delays_nobody_who_sends_to_its_started_receives() {
    window_is_sent("stop");
}

#[test]
fn a_computing_rank_delays_nobody_who_sends_to_its_started_receives() {
    window_is_sent("compute");
}

#[test]
fn one_that_is_stopped_after_it_has_polled_for_long_delays_nobody_on_its_node() {
    let cluster = Cluster::start(2, 3);
    let rank = cluster.spawn(0, module_path!(), "polls");
    let pid = Pid::from_raw(rank.child.id() as i32);
    let (all_ready, has_stopped, has_received) = (Barrier::new(2), Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let session = cluster.attach(NEIGHBOUR);
            let world = session.world();
            let mut recv = world.recv_init(world.alloc::<u8>(EAGER).unwrap(), FAR, 0).unwrap();
            all_ready.wait();
            for _ in 0..STOPS {
                soon(|| world.recv(&mut [0u8], 0, 1).unwrap());
                thread::sleep(POLLED);
                signal::kill(pid, Signal::SIGSTOP).unwrap();
                rank.wait_until_stopped();
                has_stopped.wait();
                soon(|| recv.start().unwrap().wait().unwrap());
                signal::kill(pid, Signal::SIGCONT).unwrap();
                has_received.wait();
            }
        });
        let session = cluster.attach(FAR);
        let world = session.world();
        let send_to = |rank| world.send_init(world.alloc::<u8>(EAGER).unwrap(), rank, 0).unwrap();
        let (mut to_stopped, mut to_neighbour) = (send_to(0), send_to(NEIGHBOUR));
        all_ready.wait();
        for _ in 0..STOPS {
            has_stopped.wait();
            soon(|| to_neighbour.start().unwrap().wait().unwrap());
            has_received.wait();
            soon(|| to_stopped.start().unwrap().wait().unwrap());
        }
    });
}

fn peers_complete(nodes: usize, role: &str) {
    let cluster = Cluster::start(nodes, 2);
    let session = cluster.attach(0);
    let world = session.world();
    let mut rank = cluster.spawn(1, module_path!(), role);
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
        signal::kill(Pid::from_raw(rank.child.id() as i32), Signal::SIGCONT).unwrap();
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
        let cluster = Cluster::start_with(2, vec![Config { has_wires, ..config() }; 2]);
        let (zero, one) = pair(&cluster);
        let (near, far) = (zero.world(), one.world());
        let mut blocked = SIZES.map(|bytes| channel(&near, &far, bytes));
        let mut free = SIZES.map(|bytes| channel(&near, &far, bytes));
        let pending: Vec<_> = (0..MESSAGES)
            .flat_map(|_| SIZES.map(|bytes| near.isend(near.alloc::<u8>(bytes).unwrap(), 1, 2).unwrap()))
            .collect();
        let commands = std::thread::scope(|scope| {
            let recvs = blocked.each_mut().map(|(send, recv)| {
                scope.spawn(move || (0..MESSAGES).for_each(|_| _ = send.start().unwrap().wait().unwrap()));
                recv
            });
            let before = cluster.counter(1, "commands");
            for byte in 0..MESSAGES as u8 {
                for (send, recv) in &mut free {
                    send.buffer_mut().fill(byte);
                    let receiving = recv.start().unwrap();
                    soon(|| send.start().unwrap().wait().unwrap());
                    soon(|| receiving.wait().unwrap());
                    assert!(recv.buffer().iter().all(|&other| other == byte));
                }
            }
            let commands = cluster.counter(1, "commands") - before;
            for recv in recvs {
                (0..MESSAGES).for_each(|_| _ = recv.start().unwrap().wait().unwrap());
            }
            commands
        });
        // Over the link each start is one; over a wire a receiver that has started may as well go on by itself.
        assert!(has_wires || commands == (MESSAGES * SIZES.len()) as u64, "{commands} commands");
        let mut message = vec![0u8; 1 << 20];
        for (index, sending) in pending.into_iter().enumerate() {
            assert_eq!(far.recv(&mut message, 0, 2).unwrap().count, SIZES[index % SIZES.len()]);
            sending.wait().unwrap();
        }
    }
}
