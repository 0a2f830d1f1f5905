//! Wires: small messages between nodes that ranks move themselves while they wait, and the daemons while they do not.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use ropeway::{Error, Favor, RecvRequest, SendRequest, Session, WaitMode, start_all};
use ropeway_daemon::Config;
use ropeway_proto::batch::BATCH_COMMANDS;
use ropeway_proto::limits::{WIRE_BYTES_MAX, WIRE_CHANNELS};

use crate::common::{Cluster, asleep_in, channel, config, pair, soon};

/// The last one is received by the daemon while its program computes.
const SIZES: [usize; 5] = [0, 8, 4096, 8192, WIRE_BYTES_MAX as usize];

fn exchange(send: &mut SendRequest<u8>, recv: &mut RecvRequest<u8>, byte: u8) {
    send.buffer_mut().fill(byte);
    let receiving = recv.start().unwrap();
    let sending = send.start().unwrap();
    sending.wait().unwrap();
    let status = soon(|| receiving.wait().unwrap());
    assert_eq!((status.source, status.tag, status.count), (0, 1, recv.buffer().len()));
    assert!(recv.buffer().iter().all(|&other| other == byte));
}

/// The part of this file that runs in processes of their own.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let session = ropeway::init().unwrap();
    let world = session.world();
    let mut send = world.send_init(world.alloc::<u64>(1).unwrap(), 0, 1).unwrap();
    println!("ready");
    match role.as_str() {
        // Sends and leaves at once.
        "hasty" => {
            for number in 0..8 {
                send.buffer_mut()[0] = number;
                send.start().unwrap().wait().unwrap();
            }
        }
        other => panic!("no such role: {other}"),
    }
}

#[test]
fn while_ranks_wait_the_daemons_are_left_alone() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    for bytes in SIZES {
        let (send, recv) = channel(&zero.world(), &one.world(), bytes);
        let (mut send, mut recv) = (send.favor(Favor::Latency), recv.favor(Favor::Latency));
        exchange(&mut send, &mut recv, 1);
        exchange(&mut send, &mut recv, 2);
        let commands = |node| cluster.counter(node, "commands");
        let before = [commands(0), commands(1)];
        let frames = cluster.counter(0, "frames_sent");
        std::thread::scope(|scope| {
            // Where the receive has to start first, nothing would leave while nobody waits for it.
            scope.spawn(|| (0..100).all(|_| recv.start().unwrap().wait().is_ok()));
            assert!((0..100).all(|_| send.start().unwrap().wait().is_ok()));
        });
        // Whoever has not used a wire for a while tells the daemon that it does again.
        let asked: u64 = (0..2).map(|node| commands(node) - before[node]).sum();
        assert!(asked <= 20, "{bytes} bytes: {asked} commands");
        // Counted by the daemon, though not moved by it; it looks every millisecond or two.
        soon(|| while cluster.counter(0, "frames_sent") - frames < 100 {});
    }
}

#[test]
fn who_waits_for_an_answer_before_his_question_is_known_to_come_at_once() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    let (mut question, mut asked) = channel(&zero.world(), &one.world(), 8192);
    let (mut answer, mut answered) = channel(&one.world(), &zero.world(), 8192);
    let mut leaves_in_start = |is_looked_for: bool| {
        let (mut receiving, mut answering) = (asked.start().unwrap(), answered.start().unwrap());
        let asking = question.start().unwrap();
        let is_early = is_looked_for && receiving.test().unwrap().is_some();
        assert!(answering.test().unwrap().is_none());
        if !is_early {
            receiving.wait().unwrap();
        }
        answer.start().unwrap().wait().unwrap();
        answering.wait().unwrap();
        // It has left long since: nobody looks when the program comes for it.
        asking.wait().unwrap();
        is_early
    };
    // The machine may take the core away between a start and the wait.
    let early = (0..500).filter(|round| leaves_in_start(round % 5 == 4)).count();
    assert!(early <= 5, "{early} of 100 questions left before anybody waited");
}

#[test]
fn a_message_leaves_while_its_sender_computes() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    for bytes in SIZES {
        let (mut send, mut recv) = channel(&zero.world(), &one.world(), bytes);
        exchange(&mut send, &mut recv, 1);
        for byte in 2..10 {
            send.buffer_mut().fill(byte);
            // Whatever it has learnt: nobody waits for the send before the message has arrived.
            let sending = send.start().unwrap();
            soon(|| recv.start().unwrap().wait().unwrap());
            assert!(recv.buffer().iter().all(|&other| other == byte));
            sending.wait().unwrap();
        }
    }
}

#[test]
fn a_receiver_that_sleeps_is_woken_whoever_sends() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    let (mut send, mut recv) = channel(&zero.world(), &one.world(), 8);
    exchange(&mut send, &mut recv, 1);
    for round in 0..200u64 {
        std::thread::scope(|scope| {
            let asleep = scope.spawn(|| recv.start().unwrap().wait_with(WaitMode::Blocking).unwrap());
            // Before it sleeps, while it falls asleep, and when it does.
            std::thread::sleep(Duration::from_micros(round * 7 % 300));
            send.start().unwrap().wait_with(WaitMode::Blocking).unwrap();
            soon(|| asleep.join().unwrap());
        });
    }
}

#[test]
fn a_sender_gets_ahead_and_its_messages_follow_while_it_computes() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    for bytes in SIZES {
        let (mut send, mut recv) = channel(&zero.world(), &one.world(), bytes);
        exchange(&mut send, &mut recv, 9);
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            // It waits for room.
            asleep_in(scope, move || {
                // More than the receiver's side has room for: the rest has to be moved when there is.
                for byte in 0..8 {
                    send.buffer_mut().fill(byte);
                    send.start().unwrap().wait().unwrap();
                }
                // It does nothing for its messages until they have arrived.
                told.recv().unwrap();
            });
            for byte in 0..8 {
                soon(|| recv.start().unwrap().wait().unwrap());
                assert!(recv.buffer().iter().all(|&other| other == byte), "{byte}");
            }
            tell.send(()).unwrap();
        });
    }
}

/// Behind messages that fill the wire's buffer a last word finds no room at first.
#[test]
fn who_frees_a_request_behind_large_messages_is_heard_of_while_he_computes() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    let bytes = WIRE_BYTES_MAX as usize;
    let mut sends: Vec<_> =
        (2..6).map(|tag| zero.world().send_init(zero.world().alloc::<u8>(bytes).unwrap(), 1, tag).unwrap()).collect();
    let mut recvs: Vec<_> =
        (2..6).map(|tag| one.world().recv_init(one.world().alloc::<u8>(bytes).unwrap(), 0, tag).unwrap()).collect();
    for round in 0..20 {
        let (mut freed, mut told) = channel(&zero.world(), &one.world(), 8);
        exchange(&mut freed, &mut told, round);
        exchange(&mut freed, &mut told, round);
        let receiving = ropeway::start_all(&mut recvs).unwrap();
        let sending = ropeway::start_all(&mut sends).unwrap();
        drop(freed);
        let error = soon(|| told.start().unwrap().wait().unwrap_err());
        assert!(matches!(error, Error::PeerFreed { .. }), "round {round}: {error}");
        soon(|| receiving.wait_all().unwrap());
        sending.wait_all().unwrap();
    }
}

/// A large message that its program does not wait for is received by the daemon.
#[test]
fn who_has_got_a_message_and_frees_its_receive_is_heard_of() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    for bytes in SIZES {
        let (mut send, mut recv) = channel(&zero.world(), &one.world(), bytes);
        exchange(&mut send, &mut recv, 1);
        drop(recv);
        // It goes on until what there is room for is full.
        let error = soon(|| (0..1000).find_map(|_| send.start().and_then(|sending| sending.wait()).err()));
        assert!(matches!(error, Some(Error::PeerFreed { .. })), "{bytes} bytes: {error:?}");
    }
}

#[test]
fn what_leaves_late_arrives_while_its_receiver_computes() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    for favor in [Favor::Learnt, Favor::Overlap, Favor::Latency] {
        let (mut send, recv) = channel(&zero.world(), &one.world(), WIRE_BYTES_MAX as usize);
        let mut recv = recv.favor(favor);
        let received = || cluster.counter(1, "bytes_received");
        for byte in 0..10 {
            send.buffer_mut().fill(byte);
            let before = received();
            let receiving = recv.start().unwrap();
            // The send ends when its message has left, so the receive has been announced, though nobody waits for it.
            soon(|| send.start().unwrap().wait().unwrap());
            if favor == Favor::Overlap {
                soon(|| while received() - before < WIRE_BYTES_MAX {});
            }
            soon(|| receiving.wait().unwrap());
            assert!(recv.buffer().iter().all(|&other| other == byte));
        }
    }
}

#[test]
fn a_receive_that_is_given_up_leaves_its_message_to_the_next() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    for (bytes, favor) in SIZES.into_iter().flat_map(|bytes| [(bytes, Favor::Overlap), (bytes, Favor::Latency)]) {
        let (mut send, recv) = channel(&zero.world(), &one.world(), bytes);
        let mut recv = recv.favor(favor);
        exchange(&mut send, &mut recv, 1);
        for byte in 2..20 {
            assert!(recv.start().unwrap().cancel().unwrap().is_none());
            exchange(&mut send, &mut recv, byte);
        }
    }
}

#[test]
fn channels_beyond_those_a_wire_serves_use_the_link() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    let (from, to) = (zero.world(), one.world());
    let mut channels: Vec<_> = (0..WIRE_CHANNELS + 44).map(|_| channel(&from, &to, 8)).collect();
    for round in 0..3 {
        for (index, (send, recv)) in channels.iter_mut().enumerate() {
            exchange(send, recv, (round * 50 + index) as u8);
        }
    }
    let (wired, linked) = channels.split_at_mut(WIRE_CHANNELS);
    let commands_of = |channels: &mut [(SendRequest<u8>, RecvRequest<u8>)]| {
        let commands = || [0, 1].map(|node| cluster.counter(node, "commands"));
        let before = commands();
        channels.iter_mut().for_each(|(send, recv)| exchange(send, recv, 7));
        let after = commands();
        [0, 1].map(|node| after[node] - before[node])
    };
    let starts = linked.len() as u64;
    assert_eq!(commands_of(linked), [starts; 2], "over the link each start is a command");
    // Now and then one is asked to send what nobody came to wait for.
    assert!(commands_of(wired).into_iter().all(|count| count < WIRE_CHANNELS as u64 / 4), "over the wire few are");
}

#[test]
fn without_wires_the_link_carries_everything() {
    let plain = || Config { has_wires: false, ..config() };
    for configs in [vec![plain(), plain()], vec![plain(), config()], vec![config(), plain()]] {
        let cluster = Cluster::start_with(2, configs);
        goes_over_the_link(&cluster, &SIZES);
    }
}

#[test]
fn over_the_link_a_start_is_one_command() {
    goes_over_the_link(&Cluster::start(2, 2), &[WIRE_BYTES_MAX as usize + 1, 1 << 20]);
}

/// Each start is a command, of the sender as of the receiver: over a wire few are, as both wait.
fn goes_over_the_link(cluster: &Cluster, sizes: &[usize]) {
    let (zero, one) = pair(cluster);
    for &bytes in sizes {
        let (send, recv) = channel(&zero.world(), &one.world(), bytes);
        let (mut send, mut recv) = (send.favor(Favor::Latency), recv.favor(Favor::Latency));
        exchange(&mut send, &mut recv, 1);
        let commands = |node| cluster.counter(node, "commands");
        let before = [commands(0), commands(1)];
        (0..50).for_each(|byte| exchange(&mut send, &mut recv, byte));
        assert_eq!([commands(0) - before[0], commands(1) - before[1]], [50, 50], "{bytes} bytes");
    }
}

#[test]
fn requests_that_are_started_together_are_as_few_commands_as_can_be() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    let bytes = WIRE_BYTES_MAX as usize + 1;
    // One more than fit in an entry.
    let channels = (0..=BATCH_COMMANDS).map(|_| channel(&zero.world(), &one.world(), bytes));
    let (mut sends, mut recvs): (Vec<_>, Vec<_>) = channels.unzip();
    for round in 0..4 {
        let before = [0, 1].map(|node| cluster.counter(node, "commands"));
        for (index, send) in sends.iter_mut().enumerate() {
            send.buffer_mut().fill(round * 50 + index as u8);
        }
        let receiving = start_all(&mut recvs).unwrap();
        start_all(&mut sends).unwrap().wait_all().unwrap();
        receiving.wait_all().unwrap();
        for (index, recv) in recvs.iter().enumerate() {
            assert!(
                recv.buffer().iter().all(|&byte| byte == round * 50 + index as u8),
                "round {round}, channel {index}"
            );
        }
        let after = [0, 1].map(|node| cluster.counter(node, "commands"));
        assert!(round == 0 || [0, 1].map(|node| after[node] - before[node]) == [2; 2], "{before:?} to {after:?}");
    }
}

#[test]
fn what_a_rank_has_sent_arrives_though_it_is_gone() {
    for _ in 0..10 {
        let cluster = Cluster::start(2, 2);
        let zero = cluster.attach(0);
        let world = zero.world();
        let mut recv = world.recv_init(world.alloc::<u64>(1).unwrap(), 1, 1).unwrap();
        let mut rank = cluster.spawn(1, module_path!(), "hasty");
        rank.child.wait().unwrap();
        for number in 0..8 {
            soon(|| recv.start().unwrap().wait().unwrap());
            assert_eq!(recv.buffer()[0], number);
        }
        let error = soon(|| recv.start().unwrap().wait().unwrap_err());
        // It frees its request, then leaves; which of the two is noticed first is a matter of luck.
        assert!(matches!(error, Error::PeerFreed { rank: 1 } | Error::RankLeft { rank: 1 }), "{error}");
    }
}

#[test]
fn what_has_come_before_the_other_daemon_ends_is_received() {
    for _ in 0..5 {
        for bytes in [0, 8, 4096, WIRE_BYTES_MAX as usize] {
            let mut cluster = Cluster::start(2, 2);
            let (zero, one) = pair(&cluster);
            let (mut send, mut recv) = channel(&zero.world(), &one.world(), bytes);
            exchange(&mut send, &mut recv, 1);
            exchange(&mut send, &mut recv, 1);
            for byte in 2..5 {
                send.buffer_mut().fill(byte);
                send.start().unwrap().wait().unwrap();
            }
            cluster.daemons.remove(0).stop().unwrap();
            let error = soon(|| one.world().recv(&mut [0u8], 0, 2).unwrap_err());
            assert!(matches!(error, Error::PeerLost { .. }), "{error}");
            for byte in 2..5 {
                soon(|| recv.start().unwrap().wait().unwrap());
                assert!(recv.buffer().iter().all(|&other| other == byte), "{byte}");
            }
            let error = soon(|| recv.start().unwrap().wait().unwrap_err());
            assert!(matches!(error, Error::PeerLost { .. }), "{error}");
        }
    }
}

#[test]
fn neighbours_move_each_others_messages() {
    let cluster = Cluster::start(2, 6);
    let sessions: Vec<Session> = (0..6).map(|rank| cluster.attach(rank)).collect();
    std::thread::scope(|scope| {
        for (rank, session) in sessions.iter().enumerate() {
            scope.spawn(move || {
                let (world, peer) = (session.world(), (rank as u32 + 3) % 6);
                let mut send = world.send_init(world.alloc::<u64>(1).unwrap(), peer, 0).unwrap();
                let mut recv = world.recv_init(world.alloc::<u64>(1).unwrap(), peer, 0).unwrap();
                let modes = [WaitMode::Polling, WaitMode::Blocking, WaitMode::Adaptive];
                for round in 0..500 {
                    send.buffer_mut()[0] = round;
                    let receiving = recv.start().unwrap();
                    send.start().unwrap().wait().unwrap();
                    receiving.wait_with(modes[(rank + round as usize / 100) % 3]).unwrap();
                    assert_eq!(recv.buffer()[0], round);
                }
            });
        }
    });
}

/// A large message over the link, answered by a small one over `answers`: how long it takes to and fro.
fn answered(
    to: (&mut SendRequest<u8>, &mut RecvRequest<u8>),
    answers: (&mut SendRequest<u8>, &mut RecvRequest<u8>),
) -> Duration {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                let answered = answers.1.start().unwrap();
                to.0.start().unwrap().wait().unwrap();
                answered.wait().unwrap();
            }
        });
        for _ in 0..ROUNDS {
            to.1.start().unwrap().wait().unwrap();
            answers.0.start().unwrap().wait().unwrap();
        }
    });
    begin.elapsed()
}

const ROUNDS: u32 = 200;

#[test]
fn who_waits_for_the_link_gives_and_gets_credit_on_wires() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    let (mut send, mut recv) = channel(&zero.world(), &one.world(), 1 << 17);
    let (mut wired, mut of_wired) = channel(&one.world(), &zero.world(), 1);
    let (mut linked, mut of_linked) = channel(&one.world(), &zero.world(), WIRE_BYTES_MAX as usize + 1);
    // In turns, so that both meet the same machine; looks of the daemon, at most one a millisecond, would be an order of magnitude more.
    let mut times = [Duration::ZERO; 2];
    for _ in 0..5 {
        times[0] += answered((&mut send, &mut recv), (&mut wired, &mut of_wired));
        times[1] += answered((&mut send, &mut recv), (&mut linked, &mut of_linked));
    }
    assert!(times[0] < times[1] * 2, "over wires {:?}, over the link {:?}", times[0], times[1]);
}

#[test]
fn who_waits_for_all_hears_of_a_failure_over_another_wire() {
    let cluster = Cluster::start(3, 3);
    let (zero, one, two) = (cluster.attach(0), cluster.attach(1), cluster.attach(2));
    let (mut never, from_one) = channel(&one.world(), &zero.world(), 8);
    let (mut freed, from_two) = channel(&two.world(), &zero.world(), 8);
    let mut receives = [from_one, from_two];
    for send in [&mut never, &mut freed] {
        send.start().unwrap().wait().unwrap();
    }
    soon(|| start_all(&mut receives).unwrap().wait_all().unwrap());
    std::thread::scope(|scope| {
        let waiting = asleep_in(scope, || start_all(&mut receives).unwrap().wait_all());
        drop(freed);
        let error = soon(|| waiting.join().unwrap().unwrap_err());
        assert!(matches!(error, Error::PeerFreed { rank: 2 }), "{error}");
    });
    drop(never);
}
