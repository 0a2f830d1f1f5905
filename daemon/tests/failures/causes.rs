//! What everybody sees when a process, a link or a daemon fails: an error that names the cause, within a second.

use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, setrlimit};
use ropeway::control::ControlSocket;
use ropeway::{
    ANY_SOURCE, ANY_TAG, Communicator, Error, Favor, MemoryLimit, Operator, Reproducible, WaitMode, start_all,
};
use ropeway_daemon::Config;
use ropeway_proto::JobId;
use ropeway_proto::control::{DaemonAddress, JobSpec};
use ropeway_proto::hello::{ClusterKey, VersionRange};

use crate::common::{Cable, Cluster, Cut, Process, config, noticed, pair, soon};

const EAGER: usize = 8;
const LARGE: usize = 1 << 20;

/// The part of this file that runs in processes of their own.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    if role == "cramped" {
        return cramped();
    }
    let session = ropeway::init().unwrap();
    let world = session.world();
    println!("ready");
    match role.as_str() {
        "send_for_ever" => {
            for bytes in [EAGER, LARGE].iter().cycle() {
                world.send(&vec![7u8; *bytes], 0, 1).unwrap();
            }
        }
        "receive_for_ever" => loop {
            world.recv(&mut vec![0u8; LARGE], 0, 1).unwrap();
        },
        "idle" => drop(world.recv(&mut [0u8], ANY_SOURCE, ANY_TAG)),
        "leave" => {}
        other => panic!("no such role: {other}"),
    }
}

/// A rank with less address space than a job takes.
fn cramped() {
    setrlimit(Resource::RLIMIT_AS, 8 << 30, 8 << 30).unwrap();
    let error = ropeway::init().unwrap_err().to_string();
    assert!(error.contains("bytes of address space") && error.contains("ulimit -v"), "{error}");
    println!("ready");
}

#[test]
fn a_rank_without_room_for_the_segment_is_told_what_to_do() {
    Cluster::start(1, 1).spawn(0, module_path!(), "cramped");
}

/// Ranks 0 and 2 go on with each other.
fn others_go_on(zero: &Communicator, two: &Communicator) {
    std::thread::scope(|scope| {
        scope.spawn(|| two.send(&[1u32, 2, 3], 0, 5).unwrap());
        let mut message = [0u32; 3];
        zero.recv(&mut message, 2, 5).unwrap();
        assert_eq!(message, [1, 2, 3]);
    });
}

/// Who waits for all is not kept waiting by a rank that never comes when another is gone.
#[test]
fn waiting_for_all_ends_when_one_of_several_peers_leaves() {
    for (nodes, leaver, bytes) in
        [1, 3].into_iter().flat_map(|nodes| [(nodes, 1, LARGE), (nodes, 2, LARGE), (nodes, 1, 8), (nodes, 2, 8)])
    {
        for mode in [WaitMode::Polling, WaitMode::Blocking, WaitMode::Adaptive] {
            let cluster = Cluster::start(nodes, 3);
            let mut sessions: Vec<_> = (0..3).map(|rank| cluster.attach(rank)).collect();
            let world = sessions[0].world();
            let recv = |source| world.recv_init(world.alloc::<u8>(bytes).unwrap(), source, 1).unwrap();
            let mut recvs = [recv(1), recv(2)];
            let receiving = start_all(&mut recvs).unwrap().with_wait_mode(mode);
            drop(sessions.remove(leaver));
            let outcome = noticed(|| receiving.wait_all());
            let who = outcome.as_ref().unwrap_err();
            assert!(matches!(*who, Error::RankLeft { rank } if rank == leaver as u32), "{nodes}, {bytes}: {who}");
        }
    }
}

#[test]
fn waiting_for_all_ends_when_a_peer_frees_one_of_several_requests() {
    for (nodes, bytes, freed) in [1, 2]
        .into_iter()
        .flat_map(|nodes| [8, LARGE].into_iter().flat_map(move |bytes| [0, 1].map(|freed| (nodes, bytes, freed))))
    {
        let cluster = Cluster::start(nodes, 2);
        let (zero, one) = pair(&cluster);
        let ends = [1, 2].map(|tag| {
            let send = one.world().send_init(one.world().alloc::<u8>(bytes).unwrap(), 0, tag).unwrap();
            (send, zero.world().recv_init(zero.world().alloc::<u8>(bytes).unwrap(), 1, tag).unwrap())
        });
        let (mut sends, mut recvs): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let (receiving, sending) = (start_all(&mut recvs).unwrap(), start_all(&mut sends).unwrap());
        soon(|| receiving.wait_all().unwrap());
        sending.wait_all().unwrap();
        let receiving = start_all(&mut recvs).unwrap();
        drop(sends.remove(freed));
        let error = noticed(|| receiving.wait_all().unwrap_err());
        assert!(matches!(error, Error::PeerFreed { .. }), "{nodes} nodes, {bytes} bytes, {freed}: {error}");
    }
}

#[test]
fn ranks_that_can_not_agree_without_one_that_has_left_all_hear_of_it_and_agree_without_it() {
    for (nodes, ranks) in [(1, 3), (1, 6), (2, 5), (3, 7)] {
        let cluster = Cluster::start(nodes, ranks);
        let mut sessions: Vec<_> = (0..ranks).map(|rank| cluster.attach(rank)).collect();
        sessions.remove(1);
        noticed(|| {
            std::thread::scope(|scope| {
                for session in &sessions {
                    scope.spawn(|| {
                        let world = session.world();
                        world.split(Some(0), 0).map(drop).unwrap_err();
                        let survivors = world.group().exclude(&[1]).unwrap();
                        let small = world.create(&survivors).unwrap().unwrap();
                        let mut sum = [0u32];
                        small.allreduce(&[1], &mut sum, Operator::Sum).unwrap();
                        assert_eq!(sum, [ranks - 1]);
                    });
                }
            });
        });
    }
}

#[test]
fn who_frees_a_collective_or_leaves_is_named_on_all_nodes() {
    for (leaves, count) in
        [false, true].into_iter().flat_map(|leaves| [1, EAGER, LARGE / 8].map(|count| (leaves, count)))
    {
        let cluster = Cluster::start(4, 4);
        let (all_summed, all_told) = (Barrier::new(4), Barrier::new(if leaves { 3 } else { 4 }));
        let part = &|rank| {
            let session = cluster.attach(rank);
            let world = session.world();
            let mut sum = world.allreduce_init::<u64>(count, Operator::Sum).unwrap().favor(Favor::Overlap);
            soon(|| sum.start().unwrap().wait().unwrap());
            all_summed.wait();
            if rank == 2 {
                drop(sum);
                if !leaves {
                    all_told.wait();
                }
                return;
            }
            let error = noticed(|| sum.start().and_then(|active| active.wait().map(drop)).unwrap_err());
            all_told.wait(); // Whoever leaves before is another cause.
            assert!(matches!(error, Error::PeerFreed { rank: 2 } | Error::RankLeft { rank: 2 }), "{rank}: {error}");
        };
        std::thread::scope(|scope| (0..4).for_each(|rank| drop(scope.spawn(move || part(rank)))));
    }
}

#[test]
fn a_rank_that_ends_without_having_joined_has_left() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 3);
        let connect = |rank| {
            let mut stream = cluster.daemon_of(rank).connect().unwrap();
            ControlSocket::expect(&mut stream, cluster.job, rank).unwrap();
            stream
        };
        let zero = ropeway::Session::attach(connect(0), cluster.job, 0).unwrap();
        let (one, two) = (connect(1), connect(2));
        let world = zero.world();
        let receiving = world.irecv(world.alloc::<u8>(8).unwrap(), 2, 1).unwrap();
        drop(two);
        let error = noticed(|| receiving.wait().unwrap_err());
        assert!(matches!(error, Error::RankLeft { rank: 2 }), "{error}");
        // Whoever joins is expected as long as it stays.
        let one = ropeway::Session::attach(one, cluster.job, 1).unwrap();
        world.send(&[5u8], 1, 0).unwrap();
        assert_eq!(one.world().recv(&mut [0u8], 0, 0).unwrap().count, 1);
    }
}

#[test]
fn a_client_killed_while_sending_fails_its_receivers() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 3);
        let (zero, two) = (cluster.attach(0), cluster.attach(2));
        let mut rank = cluster.spawn(1, module_path!(), "send_for_ever");
        let world = zero.world();
        for _ in 0..20 {
            world.recv(&mut vec![0u8; LARGE], 1, 1).unwrap();
        }
        rank.kill();
        let error = noticed(|| {
            loop {
                // What it had sent before still arrives.
                if let Err(error) = world.recv(&mut vec![0u8; LARGE], 1, 1) {
                    break error;
                }
            }
        });
        assert!(matches!(error, Error::RankFailed { rank: 1 }), "{error}");
        others_go_on(&world, &two.world());
    }
}

#[test]
fn a_client_killed_while_receiving_fails_its_senders() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 3);
        let (zero, two) = (cluster.attach(0), cluster.attach(2));
        let mut rank = cluster.spawn(1, module_path!(), "receive_for_ever");
        let world = zero.world();
        for _ in 0..20 {
            world.send(&vec![0u8; LARGE], 1, 1).unwrap();
        }
        rank.kill();
        let error = noticed(|| {
            loop {
                if let Err(error) = world.send(&vec![0u8; LARGE], 1, 1) {
                    break error;
                }
            }
        });
        assert!(matches!(error, Error::RankFailed { rank: 1 }), "{error}");
        others_go_on(&world, &two.world());
    }
}

#[test]
fn a_client_killed_while_idle_fails_those_who_wait_for_it() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 3);
        let (zero, two) = (cluster.attach(0), cluster.attach(2));
        let mut rank = cluster.spawn(1, module_path!(), "idle");
        let world = zero.world();
        let mut recv = world.recv_init(world.alloc::<u8>(LARGE).unwrap(), 1, 3).unwrap();
        let active = recv.start().unwrap();
        rank.kill();
        let error = noticed(|| active.wait().unwrap_err());
        assert!(matches!(error, Error::RankFailed { rank: 1 }), "{error}");
        // And so does everything that is started later.
        let error = noticed(|| recv.start().and_then(|active| active.wait()).unwrap_err());
        assert!(matches!(error, Error::RankFailed { rank: 1 }), "{error}");
        others_go_on(&world, &two.world());
    }
}

#[test]
fn a_wildcard_receive_learns_of_a_death() {
    let cluster = Cluster::start(1, 3);
    let (zero, _two) = (cluster.attach(0), cluster.attach(2));
    let mut rank = cluster.spawn(1, module_path!(), "idle");
    let world = zero.world();
    let pending = world.irecv(world.alloc::<u8>(1).unwrap(), ANY_SOURCE, ANY_TAG).unwrap();
    rank.kill();
    let error = noticed(|| pending.wait().unwrap_err());
    assert!(matches!(error, Error::RankFailed { rank: 1 }), "{error}");
}

#[test]
fn a_rank_that_leaves_is_told_from_one_that_dies() {
    let cluster = Cluster::start(1, 2);
    let zero = cluster.attach(0);
    let mut rank = cluster.spawn(1, module_path!(), "leave");
    rank.child.wait().unwrap();
    let error = noticed(|| zero.world().recv(&mut [0u8], 1, 1).unwrap_err());
    assert!(matches!(error, Error::RankLeft { rank: 1 }), "{error}");
}

#[test]
fn a_daemon_that_stops_is_noticed_in_every_wait_mode() {
    for mode in [WaitMode::Polling, WaitMode::Blocking, WaitMode::Adaptive] {
        let mut cluster = Cluster::start(1, 2);
        let zero = cluster.attach(0);
        zero.set_wait_mode(mode);
        let daemon = cluster.daemons.remove(0);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| zero.world().recv(&mut [0u8], 1, 1).unwrap_err());
            daemon.stop().unwrap();
            let error = noticed(|| waiting.join().unwrap());
            assert!(matches!(error, Error::DaemonGone), "{mode}: {error}");
        });
        let error = noticed(|| zero.world().send(&[0u8], 1, 1).unwrap_err());
        assert!(matches!(error, Error::DaemonGone), "{mode}: {error}");
    }
}

#[test]
fn a_daemon_that_is_killed_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ropewayd.sock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ropewayd"));
    let mut daemon = Process::start(command.args(["--socket".as_ref(), path.as_os_str()]).stderr(Stdio::null()));
    let give_up = Instant::now() + Duration::from_secs(20);
    let connect = || {
        loop {
            match UnixStream::connect(&path) {
                Ok(stream) => return stream,
                Err(error) => assert!(Instant::now() < give_up, "{error}"),
            }
            std::thread::yield_now();
        }
    };
    let job = JobId(77);
    let mut launcher = ControlSocket::new(connect());
    let spec = JobSpec::single_node(job, 2);
    launcher.create_job(spec).unwrap();
    let session = ropeway::Session::attach(connect(), job, 0).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| session.world().recv(&mut [0u8], 1, 1).unwrap_err());
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        let error = noticed(|| waiting.join().unwrap());
        assert!(matches!(error, Error::DaemonGone), "{error}");
    });
}

#[test]
fn a_daemon_ends_cleanly_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ropewayd.sock");
    let notify = folder.path().join("notify.sock");
    let manager = std::os::unix::net::UnixDatagram::bind(&notify).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ropewayd"));
    command.args(["--socket".as_ref(), path.as_os_str()]).env("NOTIFY_SOCKET", &notify);
    let mut daemon = Process::start(command.stderr(Stdio::null()));
    let mut message = [0; 64];
    let count = manager.recv(&mut message).unwrap();
    assert!(message[..count].starts_with(b"READY=1"));
    assert!(UnixStream::connect(&path).is_ok());
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(daemon.id() as i32), nix::sys::signal::Signal::SIGTERM).unwrap();
    let status = soon(|| daemon.wait().unwrap());
    assert!(status.success(), "{status}");
    assert!(!path.exists(), "the control socket is left behind");
}

fn link_failure(how: Cut) {
    let wires = std::sync::Mutex::new(Vec::new());
    let route = |address: DaemonAddress| {
        let cable = Cable::to(address.link);
        let link = cable.address;
        wires.lock().unwrap().push(cable);
        DaemonAddress { link, ..address }
    };
    // Silence is to be noticed soon.
    let quick = || Config { link_timeout: Duration::from_millis(600), ..config() };
    let cluster = Cluster::start_over(2, vec![quick(), quick()], route);
    let (zero, one) = (cluster.attach(0), cluster.attach(1));
    let (zero, one) = (zero.world(), one.world());
    zero.send(&[1u8], 1, 1).unwrap();
    one.recv(&mut [0u8], 0, 1).unwrap();
    std::thread::scope(|scope| {
        let near = scope.spawn(|| zero.recv(&mut [0u8], 1, 1).unwrap_err());
        let far = scope.spawn(|| one.recv(&mut [0u8], 0, 1).unwrap_err());
        // Node 0 dials node 1, so the connection goes through the cable to node 1.
        wires.lock().unwrap()[1].cut(how);
        let (near, far) = noticed(|| (near.join().unwrap(), far.join().unwrap()));
        assert!(matches!(near, Error::PeerLost { node: 1 }), "{near}");
        assert!(matches!(far, Error::PeerLost { node: 0 }), "{far}");
    });
}

#[test]
fn a_link_that_closes_fails_both_sides() {
    link_failure(Cut::Close);
}

#[test]
fn a_rank_that_panics_has_failed() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = pair(&cluster);
    let panics = std::thread::spawn(move || {
        let _session = one;
        panic!("as is to be seen");
    });
    assert!(panics.join().is_err());
    let error = noticed(|| zero.world().recv(&mut [0u8], 1, 1).unwrap_err());
    assert!(matches!(error, Error::RankFailed { rank: 1 }), "{error}");
}

#[test]
fn a_link_that_falls_silent_fails_both_sides() {
    link_failure(Cut::Silence);
}

#[test]
fn unequal_protocol_versions_are_refused_by_name() {
    let newer = VersionRange { min: 8, max: 9 };
    let daemon = ropeway_daemon::Daemon::start(Config { versions: newer, ..Config::default() }).unwrap();
    let error = ropeway::Session::attach(daemon.connect().unwrap(), JobId(1), 0).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("8 to 9") && text.contains(&VersionRange::CURRENT.to_string()), "{text}");
    let mut launcher = ControlSocket::new(daemon.connect().unwrap());
    let spec = JobSpec::single_node(JobId(1), 1);
    assert!(launcher.create_job(spec).is_err());
}

#[test]
fn a_daemon_of_another_version_or_cluster_is_refused() {
    let VersionRange { min, max } = VersionRange::CURRENT;
    let newer = Config { versions: VersionRange { min, max: max + 1 }, ..config() };
    let stranger = Config { key: ClusterKey([1; 32]), ..config() };
    // With a version in common they talk.
    let cluster = Cluster::start_with(2, vec![config(), newer]);
    let (zero, one) = (cluster.attach(0), cluster.attach(1));
    zero.world().send(&[1u8], 1, 1).unwrap();
    one.world().recv(&mut [0u8], 0, 1).unwrap();

    let cluster = Cluster::start_with(2, vec![config(), stranger]);
    let zero = cluster.attach(0);
    let error = zero.world().recv(&mut [0u8], 1, 1).unwrap_err();
    assert!(matches!(error, Error::PeerLost { node: 1 }), "{error}");
}

#[test]
fn memory_that_is_not_there_is_an_error_at_alloc() {
    let small = Config { job_memory_bytes_max: 32 << 20, ..config() };
    let cluster = Cluster::start_with(1, vec![small]);
    let session = cluster.attach(0);
    let world = session.world();
    let kept = world.alloc::<u8>(8 << 20).unwrap();
    let error = world.alloc::<u8>(64 << 20).unwrap_err();
    let available = available(&error, MemoryLimit::Job);
    assert!(error.to_string().contains("job_memory_bytes_max"), "{error}");
    // And what there is can still be had, but no more.
    assert!(world.alloc::<u8>(available + 64).is_err());
    assert_eq!(world.alloc::<u8>(available).unwrap().len() + kept.len(), 32 << 20);
}

#[test]
fn an_arena_that_is_full_is_named_with_what_is_free_in_it() {
    let small = Config { arena_bytes_max: 4 << 20, ..config() };
    let cluster = Cluster::start_with(1, vec![small]);
    let session = cluster.attach(0);
    let world = session.world();
    let [first, _second] = [3, 1].map(|count| world.alloc::<u8>(count << 20).unwrap());
    let error = world.alloc::<u8>(1).unwrap_err();
    assert_eq!(available(&error, MemoryLimit::Arena), 0);
    assert!(error.to_string().contains("arena_bytes_max"), "{error}");
    drop(first);
    let error = world.alloc::<u8>((3 << 20) + 1).unwrap_err();
    assert_eq!(available(&error, MemoryLimit::Arena), 3 << 20);
    assert_eq!(world.alloc::<u8>(3 << 20).unwrap().len(), 3 << 20);
}

/// What could have been had, of a request that this limit was in the way of.
fn available(error: &Error, by: MemoryLimit) -> usize {
    let Error::OutOfMemory { available, limit, .. } = *error else { panic!("{error}") };
    assert_eq!(limit, by, "{error}");
    available as usize
}

#[test]
fn memory_for_gathered_inputs_that_is_not_there_is_named() {
    const COUNT: usize = 1 << 19;
    let small = Config { job_memory_bytes_max: 32 << 20, ..config() };
    let cluster = Cluster::start_with(4, vec![small, config()]);
    let all_told = Barrier::new(4);
    let act = &|rank| {
        let session = cluster.attach(rank);
        // Two ranks' arrays take half of the quota; all four ranks' inputs do not fit the rest.
        let mut sum = session.world().allreduce_init::<u64>(COUNT, Reproducible(Operator::Sum)).unwrap();
        let error = soon(|| sum.start().unwrap().wait().unwrap_err());
        all_told.wait(); // Whoever leaves before is another reason.
        match rank {
            0 | 1 => assert!(matches!(error, Error::NoMemory { bytes } if bytes >= 24 << 20), "{error}"),
            _ => assert!(matches!(error, Error::NodeGaveUp { .. }), "{error}"),
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|rank| drop(scope.spawn(move || act(rank)))));
}

#[test]
fn an_ended_job_lets_its_ranks_go() {
    let mut cluster = Cluster::start(1, 2);
    let session = cluster.attach(0);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| session.world().recv(&mut [0u8], 1, 1).unwrap_err());
        cluster.launchers.clear();
        let error = noticed(|| waiting.join().unwrap());
        assert!(matches!(error, Error::Evicted { .. } | Error::DaemonGone), "{error}");
    });
    let again = ropeway::Session::attach(cluster.daemons[0].connect().unwrap(), cluster.job, 1);
    assert!(again.is_err());
}
