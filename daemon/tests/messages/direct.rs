//! Direct channels: messages that the daemon does not touch, between ranks of one node or over a wire.

use std::time::{Duration, Instant};

use ropeway::{Communicator, Error, Favor, RecvRequest, SendRequest, WaitMode, start_all};
use ropeway_daemon::Config;

use crate::common::{Cluster, asleep_in, channel, config, kill_amid, pair, soon, wait_for_line};

const LARGE: usize = 1 << 20;
/// In which a daemon copies that.
const PIECES: u64 = LARGE as u64 / (64 << 10);
/// Beside the cell's word, in the cell, in the receiver's buffer, and in pieces.
const SIZES: [usize; 4] = [8, 56, 4096, 300_000];
/// Small messages between nodes use a wire, whose ends are the same as those of a direct channel.
const NODES: [usize; 2] = [1, 2];

/// Sends `byte` over the channel. Returns what both ends know of it.
fn exchange(send: &mut SendRequest<u8>, recv: &mut RecvRequest<u8>, byte: u8) {
    send.buffer_mut().fill(byte);
    let receiving = recv.start().unwrap();
    let sending = send.start().unwrap();
    let status = receiving.wait().unwrap();
    sending.wait().unwrap();
    assert_eq!((status.source, status.tag, status.count), (0, 1, recv.buffer().len()));
    assert!(recv.buffer().iter().all(|&other| other == byte));
}

/// The part of this file that runs in processes of their own.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let session = ropeway::init().unwrap();
    let world = session.world();
    println!("ready");
    match role.as_str() {
        "storm" => {
            let mut storm = Storm::new(&world, 0);
            while storm.round().is_ok() {}
        }
        "duel" => {
            let mut storm = Storm::new(&world, 1 - world.rank());
            let error = (0..).find_map(|_| storm.round().err()).unwrap();
            println!("{error}");
        }
        other => panic!("no such role: {other}"),
    }
}

/// Messages of all sizes both ways at once, and one that the daemon copies.
struct Storm {
    sends: Vec<SendRequest<u8>>,
    recvs: Vec<RecvRequest<u8>>,
    number: u8,
}

impl Storm {
    fn new(world: &Communicator, peer: u32) -> Self {
        let sizes = || SIZES.into_iter().chain([LARGE]);
        let favor = |bytes| if bytes == LARGE { Favor::Overlap } else { Favor::Learnt };
        let memory = |bytes| world.alloc(bytes).unwrap();
        let send = |bytes| world.send_init(memory(bytes), peer, bytes as i32).unwrap().favor(favor(bytes));
        let recv = |bytes| world.recv_init(memory(bytes), peer, bytes as i32).unwrap().favor(favor(bytes));
        Self { sends: sizes().map(send).collect(), recvs: sizes().map(recv).collect(), number: 0 }
    }

    /// Every third message is sent before it is asked for.
    fn round(&mut self) -> Result<(), Error> {
        self.number = self.number.wrapping_add(1);
        let number = self.number;
        self.sends.iter_mut().for_each(|send| send.buffer_mut().fill(number));
        if number.is_multiple_of(3) {
            let sending = start_all(&mut self.sends)?;
            start_all(&mut self.recvs)?.wait_all()?;
            sending.wait_all()?;
        } else {
            let receiving = start_all(&mut self.recvs)?;
            start_all(&mut self.sends)?.wait_all()?;
            receiving.wait_all()?;
        }
        assert!(self.recvs.iter().all(|recv| recv.buffer().iter().all(|&byte| byte == number)));
        Ok(())
    }
}

/// More than caches hold, and buffers and messages that are no whole lines: they are copied past the caches from the third window on.
#[test]
fn windows_of_large_messages_arrive() {
    const MESSAGES: usize = 37;
    let cluster = Cluster::start(1, 2);
    let (zero, one) = pair(&cluster);
    let mut channels: Vec<_> =
        (0..MESSAGES).map(|more| channel(&zero.world(), &one.world(), LARGE + 4 * more + 3)).collect();
    for window in 1..=4 {
        for (byte, (send, _)) in (window..).zip(&mut channels) {
            send.buffer_mut().fill(byte);
        }
        let (mut sends, mut recvs): (Vec<_>, Vec<_>) = channels.into_iter().unzip();
        let receiving = start_all(&mut recvs).unwrap();
        let sending = start_all(&mut sends).unwrap();
        receiving.wait_all().unwrap();
        sending.wait_all().unwrap();
        for (byte, recv) in (window..).zip(&recvs) {
            assert!(recv.buffer().iter().all(|&other| other == byte), "window {window}, message {byte}");
        }
        channels = sends.into_iter().zip(recvs).collect();
    }
}

#[test]
fn messages_pass_the_daemon_by() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = pair(&cluster);
    for bytes in SIZES {
        let (mut send, mut recv) = channel(&zero.world(), &one.world(), bytes);
        // The first may go through the daemon, which binds the channel meanwhile.
        exchange(&mut send, &mut recv, 1);
        exchange(&mut send, &mut recv, 2);
        let commands = cluster.counter(0, "commands");
        for byte in 3..100 {
            exchange(&mut send, &mut recv, byte);
        }
        // Until it is learnt that the program waits at once, the daemon is asked to copy large messages.
        let allowed = if bytes > 8192 { 100 } else { 0 };
        assert!(cluster.counter(0, "commands") - commands <= allowed, "{bytes} bytes");
    }
}

#[test]
fn a_message_that_favors_overlap_moves_while_both_ends_compute() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = pair(&cluster);
    let (mut send, recv) = channel(&zero.world(), &one.world(), LARGE);
    let mut recv = recv.favor(Favor::Overlap);
    exchange(&mut send, &mut recv, 1);
    for byte in 2..10 {
        send.buffer_mut().fill(byte);
        let copies = cluster.counter(0, "payload_copies");
        let sending = send.start().unwrap();
        let receiving = recv.start().unwrap();
        // Neither end waits, and yet it comes.
        soon(|| {
            while cluster.counter(0, "payload_copies") - copies < PIECES {
                std::thread::yield_now();
            }
        });
        receiving.wait().unwrap();
        sending.wait().unwrap();
        assert!(recv.buffer().iter().all(|&other| other == byte));
    }
}

#[test]
fn ranks_that_compute_on_all_cores_move_their_messages_when_they_wait() {
    // Those that have not come yet count as awake.
    let ranks = std::thread::available_parallelism().unwrap().get().max(2);
    let cluster = Cluster::start(1, ranks as u32);
    let (zero, one) = pair(&cluster);
    let (mut send, mut recv) = channel(&zero.world(), &one.world(), LARGE);
    exchange(&mut send, &mut recv, 1);
    exchange(&mut send, &mut recv, 2);
    let commands = cluster.counter(0, "commands");
    for byte in 3..20 {
        send.buffer_mut().fill(byte);
        let receiving = recv.start().unwrap();
        let sending = send.start().unwrap();
        compute();
        receiving.wait().unwrap();
        sending.wait().unwrap();
        assert!(recv.buffer().iter().all(|&other| other == byte));
    }
    assert_eq!(cluster.counter(0, "commands"), commands);
}

/// For so long that nobody expects it to wait at once.
fn compute() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(200) {
        std::hint::spin_loop();
    }
}

#[test]
fn a_message_that_favors_latency_leaves_the_daemon_alone() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = pair(&cluster);
    let (send, recv) = channel(&zero.world(), &one.world(), LARGE);
    let (mut send, mut recv) = (send.favor(Favor::Latency), recv.favor(Favor::Latency));
    exchange(&mut send, &mut recv, 1);
    exchange(&mut send, &mut recv, 2);
    let (commands, copies) = (cluster.counter(0, "commands"), cluster.counter(0, "payload_copies"));
    (3..10).for_each(|byte| exchange(&mut send, &mut recv, byte));
    assert_eq!(cluster.counter(0, "commands"), commands);
    // It may still be busy with the first one, which it was asked for, and then looks at the channel once more.
    assert!(cluster.counter(0, "payload_copies") - copies <= PIECES);
}

#[test]
fn a_sender_gets_ahead_by_four_small_messages() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = pair(&cluster);
    for bytes in [8, 4096] {
        let (mut send, mut recv) = channel(&zero.world(), &one.world(), bytes);
        exchange(&mut send, &mut recv, 9);
        for byte in 0..4 {
            send.buffer_mut().fill(byte);
            send.start().unwrap().wait().unwrap();
        }
        send.buffer_mut().fill(4);
        let mut fifth = send.start().unwrap();
        assert_eq!(fifth.test().unwrap(), None);
        for byte in 0..5 {
            recv.start().unwrap().wait().unwrap();
            assert!(recv.buffer().iter().all(|&other| other == byte), "{byte}");
        }
        fifth.wait().unwrap();
    }
}

#[test]
fn a_started_receive_can_be_taken_back_and_started_again() {
    for nodes in NODES {
        let cluster = Cluster::start(nodes, 2);
        let (zero, one) = pair(&cluster);
        for bytes in SIZES {
            let (mut send, mut recv) = channel(&zero.world(), &one.world(), bytes);
            exchange(&mut send, &mut recv, 1);
            for byte in 2..20 {
                assert_eq!(recv.start().unwrap().cancel().unwrap(), None);
                exchange(&mut send, &mut recv, byte);
            }
        }
    }
}

#[test]
fn a_sleeping_receiver_is_woken_by_its_sender() {
    for nodes in NODES {
        let cluster = Cluster::start(nodes, 2);
        let (zero, one) = pair(&cluster);
        for bytes in SIZES {
            let (mut send, mut recv) = channel(&zero.world(), &one.world(), bytes);
            exchange(&mut send, &mut recv, 1);
            std::thread::scope(|scope| {
                let asleep = asleep_in(scope, || recv.start().unwrap().wait_with(WaitMode::Blocking).unwrap());
                send.start().unwrap().wait_with(WaitMode::Blocking).unwrap();
                soon(|| asleep.join().unwrap());
            });
        }
    }
}

#[test]
fn an_end_that_is_freed_is_reported_and_its_messages_still_arrive() {
    for nodes in NODES {
        let cluster = Cluster::start(nodes, 2);
        let (zero, one) = pair(&cluster);
        for bytes in SIZES {
            let (mut send, mut recv) = channel(&zero.world(), &one.world(), bytes);
            exchange(&mut send, &mut recv, 1);
            if bytes <= 8192 {
                send.start().unwrap().wait().unwrap();
            }
            drop(send);
            if bytes <= 8192 {
                recv.start().unwrap().wait().unwrap();
            }
            let error = soon(|| recv.start().unwrap().wait().unwrap_err());
            assert!(matches!(error, Error::PeerFreed { rank: 0 }), "{error}");
        }
    }
}

/// Cells of 8 KiB messages take 32 KiB a channel, of which this memory has room for a few hundred; a wire has 256 names.
#[test]
fn memory_of_channels_is_used_again() {
    for nodes in NODES {
        let small = || Config { job_memory_bytes_max: 16 << 20, ..config() };
        let cluster = Cluster::start_with(2, vec![small(); nodes]);
        let (zero, one) = pair(&cluster);
        for round in 0..2000 {
            let (mut send, mut recv) = channel(&zero.world(), &one.world(), 8192);
            if round % 100 == 0 {
                exchange(&mut send, &mut recv, round as u8);
                exchange(&mut send, &mut recv, 1);
            }
        }
        let commands = || (0..nodes).map(|node| cluster.counter(node, "commands")).sum::<u64>();
        let is_direct = || {
            let (mut send, mut recv) = channel(&zero.world(), &one.world(), 8192);
            exchange(&mut send, &mut recv, 0);
            let before = commands();
            (0..20).for_each(|byte| exchange(&mut send, &mut recv, byte));
            commands() - before < 20
        };
        // Names are given back when both nodes have heard that a channel is gone; until then messages are the daemons'.
        // How long that takes depends on who else wants the cores.
        assert!((0..10_000).any(|_| is_direct()), "on {nodes} nodes");
    }
}

/// Kills a rank again and again at random moments. Its peer gets an error that names it, at once, and the daemon serves the
/// next one as if nothing had been.
#[test]
fn a_rank_killed_in_the_middle_harms_nobody() {
    for round in 0..40 {
        let cluster = Cluster::start(NODES[round % 2], 2);
        let session = cluster.attach(0);
        let mut storm = Storm::new(&session.world(), 1);
        let rank = cluster.spawn(1, module_path!(), "storm");
        let (rounds, after) = (fastrand::u32(0..40), Duration::from_micros(fastrand::u64(0..2000)));
        for _ in 0..rounds {
            storm.round().unwrap();
        }
        let error = kill_amid(rank, after, || storm.round());
        assert!(matches!(error, Error::RankFailed { rank: 1 }), "killed {after:?} after {rounds} rounds: {error}");
        // What is active is given up with its requests, whoever was copying what.
        drop(storm);
    }
}

/// Both ends in processes of their own, either of which is killed at a random moment.
#[test]
fn a_process_is_told_that_its_peer_was_killed() {
    for round in 0..30 {
        let cluster = Cluster::start(NODES[round % 2], 2);
        let mut ranks = [0, 1].map(|rank| cluster.spawn(rank, module_path!(), "duel"));
        let (victim, after) = (fastrand::usize(0..2), Duration::from_micros(fastrand::u64(0..5000)));
        std::thread::sleep(after);
        ranks[victim].kill();
        let survivor = &mut ranks[1 - victim];
        soon(|| wait_for_line(&mut survivor.output, &format!("rank {victim} has failed")));
        assert!(survivor.child.wait().unwrap().success(), "rank {victim} was killed after {after:?}");
    }
}
