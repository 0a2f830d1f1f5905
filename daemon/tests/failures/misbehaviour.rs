//! Clients that lie are cut off with a reason; the daemon and everybody else go on.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use fastrand::Rng;
use proptest::prelude::*;
use ropeway_daemon::Daemon;
use ropeway_proto::batch::BATCH_COMMANDS;
use ropeway_proto::collective::{CollectiveKind, CollectiveMember, CollectiveShape};
use ropeway_proto::control::{self, Attached, JobSpec, Refusal, Reply, Request};
use ropeway_proto::hello::VersionRange;
use ropeway_proto::{Batch, CommId, Command, Endpoint, JobId, Layout};
use ropeway_shm::shelf::{Shelf, ShelvedRecv};
use ropeway_shm::{ControlSegment, JobGeometry, JobSegment, Producer, descriptor, eventfd};

use crate::common::{Cluster, config};

/// A client without the library's manners.
struct Liar {
    stream: UnixStream,
    inbox: Vec<u8>,
    producer: Producer,
    bell: std::os::fd::OwnedFd,
    arena: std::ops::Range<u64>,
    segment: JobSegment,
}

impl Liar {
    fn attach(stream: UnixStream, job: JobId, rank: u32) -> Self {
        use std::io::Write;
        let request = Request::Attach { versions: VersionRange::CURRENT, job, rank, build: ropeway_shm::BUILD };
        (&stream).write_all(&control::encode(&request)).unwrap();
        let (mut inbox, mut descriptors) = (Vec::new(), Vec::new());
        let attached = loop {
            let mut buffer = [0; 4096];
            let count = descriptor::receive(stream.as_fd(), &mut buffer, &mut descriptors).unwrap();
            inbox.extend(&buffer[..count]);
            match control::decode::<Reply>(&mut inbox).unwrap() {
                Some(Reply::Attached(attached)) => break attached,
                Some(other) => panic!("{other:?}"),
                None => {}
            }
        };
        let mut descriptors = descriptors.into_iter();
        let mut next = || descriptors.next().unwrap();
        let Attached { local_ranks, arena_bytes_max, local_index, .. } = attached;
        let segment = JobSegment::map(next(), JobGeometry { local_ranks, arena_bytes_max }).unwrap();
        let control = Arc::new(ControlSegment::map(next()).unwrap());
        let arena = segment.arena(local_index);
        Self { stream, inbox, producer: control.producer(), bell: next(), arena, segment }
    }

    fn push(&mut self, words: [u64; 8]) {
        assert_eq!(self.producer.push(&[words]), 1);
        eventfd::ring(self.bell.as_fd()).unwrap();
    }

    /// Waits until the daemon cuts the connection; the reason it gave.
    fn reason(&mut self) -> Option<String> {
        use std::io::Read;
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = self.stream.read(&mut buffer) {
            self.inbox.extend(&buffer[..count]);
        }
        let mut reason = None;
        while let Ok(Some(reply)) = control::decode::<Reply>(&mut self.inbox) {
            if let Reply::Evicted { reason: text } = reply {
                reason = Some(text);
            }
        }
        reason
    }
}

/// Asks the daemon for something, and waits for the reply.
fn ask(mut stream: &UnixStream, request: &Request) -> Reply {
    use std::io::{Read, Write};
    stream.write_all(&control::encode(request)).unwrap();
    let mut inbox = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "cut off");
        inbox.extend(&buffer[..count]);
        if let Some(reply) = control::decode::<Reply>(&mut inbox).unwrap() {
            return reply;
        }
    }
}

fn endpoint(peer: u32) -> Endpoint {
    Endpoint { comm: CommId::WORLD, peer: Some(peer), tag: Some(0) }
}

/// The reason for which a client that pushes these commands is cut off.
fn reason_for(commands: impl FnOnce(&Liar) -> Vec<[u64; 8]>) -> String {
    let cluster = Cluster::start(1, 3);
    let honest = (cluster.attach(0), cluster.attach(2));
    let mut liar = Liar::attach(cluster.daemons[0].connect().unwrap(), cluster.job, 1);
    for words in commands(&liar) {
        liar.push(words);
    }
    let reason = liar.reason().expect("a reason was given");
    // Its peers see it fail, and the others go on.
    let error = honest.0.world().recv(&mut [0u8], 1, 0).unwrap_err();
    assert!(matches!(error, ropeway::Error::RankFailed { rank: 1 }), "{error}");
    honest.0.world().send(&[1u8], 2, 0).unwrap();
    honest.1.world().recv(&mut [0u8], 0, 0).unwrap();
    reason
}

#[test]
fn a_library_of_another_build_is_refused_before_it_has_any_memory() {
    let cluster = Cluster::start(1, 1);
    let build = ropeway_shm::BUILD.wrapping_add(1);
    let request = Request::Attach { versions: VersionRange::CURRENT, job: cluster.job, rank: 0, build };
    let reply = ask(&cluster.daemons[0].connect().unwrap(), &request);
    assert_eq!(reply, Reply::Refused(Refusal::OtherBuild));
    let greeted =
        |build| ask(&cluster.daemons[0].connect().unwrap(), &Request::Greet { versions: VersionRange::CURRENT, build });
    assert_eq!([build, ropeway_shm::BUILD].map(greeted), [Reply::Refused(Refusal::OtherBuild), Reply::Greeted]);
    // The rank is still to be had.
    cluster.attach(0);
}

#[test]
fn a_buffer_outside_of_the_arena_is_refused() {
    let reason = reason_for(|_| {
        let layout = Layout::contiguous(0, 64);
        vec![Command::InitRecv { slot: 0, epoch: 1, endpoint: endpoint(0), layout }.encode()]
    });
    assert!(reason.contains("outside of its arena"), "{reason}");
}

#[test]
fn memory_that_was_not_reserved_is_refused() {
    let reason = reason_for(|liar| {
        let layout = Layout::contiguous(liar.arena.start, 64);
        vec![Command::Send { slot: 0, epoch: 1, endpoint: endpoint(0), layout }.encode()]
    });
    assert!(reason.contains("outside of its arena"), "{reason}");
}

#[test]
fn much_memory_comes_little_by_little() {
    const WANTED: u64 = 11 << 20;
    let cluster = Cluster::start(1, 2);
    let liar = Liar::attach(cluster.daemons[0].connect().unwrap(), cluster.job, 1);
    let mut reserved = 0;
    let mut grow = |arena_bytes| match ask(&liar.stream, &Request::Reserve { arena_bytes }) {
        Reply::Reserved { arena_bytes } => Ok(arena_bytes - std::mem::replace(&mut reserved, arena_bytes)),
        Reply::Refused(refusal) => Err(refusal),
        other => panic!("{other:?}"),
    };
    // A step takes about a millisecond, and between two of them others have their turn.
    assert_eq!([WANTED; 4].map(|wanted| grow(wanted).unwrap() >> 20), [4, 4, 3, 0]);
    // What can't be had as a whole is refused at once.
    assert!(matches!(grow(1 << 60), Err(Refusal::OutOfMemory { .. })));
    assert_eq!(grow(WANTED).unwrap(), 0);
}

/// The daemon copies what lay in its stash to where the receive is: nothing, but an address is made of it.
#[test]
fn an_empty_buffer_outside_of_the_segment_is_refused() {
    for offset in [1 << 46, (1 << 47) - 1] {
        let reason = reason_for(|_| {
            let (empty, outside) = (Layout::contiguous(0, 0), Layout::contiguous(offset, 0));
            let send = Command::Send { slot: 0, epoch: 1, endpoint: endpoint(1), layout: empty };
            vec![send.encode(), Command::Recv { slot: 1, epoch: 1, endpoint: endpoint(1), layout: outside }.encode()]
        });
        assert!(reason.contains("outside of its arena"), "{reason}");
    }
}

/// A daemon that is told to stop sends first what it knows of its ranks: else all of them are lost with it.
#[test]
fn who_hangs_up_is_heard_of_though_its_daemon_stops_at_once() {
    for _ in 0..20 {
        let mut cluster = Cluster::start(2, 3);
        let (zero, two) = (cluster.attach(0), cluster.attach(2));
        let liar = Liar::attach(cluster.daemons[0].connect().unwrap(), cluster.job, 1);
        zero.world().send(&[1u8], 2, 0).unwrap();
        two.world().recv(&mut [0u8], 0, 0).unwrap();
        let receiving = two.world().irecv(two.world().alloc::<u8>(8).unwrap(), 1, 0).unwrap();
        drop(liar);
        cluster.daemons.remove(0).stop().unwrap();
        let error = receiving.wait().unwrap_err();
        assert!(matches!(error, ropeway::Error::RankFailed { rank: 1 }), "{error}");
    }
}

/// The daemon reads its ring before it registers, finds out, and has nobody left to answer.
#[test]
fn who_registers_after_nonsense_in_its_ring_is_cut_off() {
    use std::io::Write;
    let cluster = Cluster::start(1, 2);
    let honest = cluster.attach(0);
    let mut liar = Liar::attach(cluster.daemons[0].connect().unwrap(), cluster.job, 1);
    let shape = CollectiveShape {
        kind: CollectiveKind::Barrier,
        members: vec![0, 1],
        root: 0,
        combination: None,
        element_bytes: 1,
        counts: Vec::new(),
        is_reproducible: false,
        algorithm: None,
    };
    let member = CollectiveMember { shape: shape.into(), number: 0, rank: 1, input: 0, output: 0 };
    assert_eq!(liar.producer.push(&[[u64::MAX; 8]]), 1);
    // It is not told of the ring.
    let register = Request::Register { slot: 0, epoch: 1, comm: 0, member };
    (&liar.stream).write_all(&control::encode(&register)).unwrap();
    assert!(liar.reason().is_some());
    honest.world().send(&[1u8], 0, 0).unwrap();
}

#[test]
fn a_wrong_epoch_is_refused() {
    let reason = reason_for(|_| {
        let layout = Layout::contiguous(0, 0);
        vec![Command::InitSend { slot: 3, epoch: 9, endpoint: endpoint(0), layout }.encode()]
    });
    assert!(reason.contains("epoch 9 where 1 was due"), "{reason}");
}

/// The daemon gets receives from a shelf as if they had been asked for.
#[test]
fn what_lies_on_a_shelf_is_checked() {
    let mut random = Rng::with_seed(11);
    for round in 0..30 {
        let cluster = Cluster::start(1, 3);
        let honest = (cluster.attach(0), cluster.attach(2));
        let mut liar = Liar::attach(cluster.daemons[0].connect().unwrap(), cluster.job, 1);
        liar.segment.open_post_shelf(0, 1, 0..4).unwrap();
        let (lane, mut shelf) = (liar.segment.post_lane(0, 1).unwrap(), Shelf::default());
        for place in 0..random.u32(1..5) {
            let endpoint = Endpoint { comm: CommId(random.u32(0..3)), peer: None, tag: Some(random.i32(..)) };
            let layout = Layout::contiguous(random.u64(..), random.u64(..));
            let (slot, epoch) = (random.u32(..) >> random.u32(0..32), random.u32(0..3));
            shelf.put(&lane, place, &ShelvedRecv { slot, epoch, endpoint, layout });
        }
        let world = honest.0.world();
        let detour = world.isend(world.alloc::<u8>(1 << 20).unwrap(), 1, 0).unwrap();
        assert!(liar.reason().is_some(), "round {round}");
        detour.wait().unwrap_err();
        honest.0.world().send(&[1u8], 2, 0).unwrap();
        honest.1.world().recv(&mut [0u8], 0, 0).unwrap();
    }
}

#[test]
fn a_rank_outside_of_the_job_is_refused() {
    let reason = reason_for(|_| {
        let layout = Layout::contiguous(0, 0);
        vec![Command::Send { slot: 0, epoch: 1, endpoint: endpoint(3), layout }.encode()]
    });
    assert!(reason.contains("rank 3 is outside of a job of 3"), "{reason}");
}

#[test]
fn a_start_of_nothing_is_refused() {
    let reason = reason_for(|_| vec![Command::Start { slot: 5, epoch: 1 }.encode()]);
    assert!(reason.contains("slot 5 has no request"), "{reason}");
}

#[test]
fn an_entry_of_too_many_commands_is_refused() {
    let mut batch = Batch::new();
    assert!(batch.add(&Command::Tend { node: 0 }.encode()));
    let [count, more] = [(12, 1), (12, BATCH_COMMANDS as u64 + 1)].map(|(op, count)| op | count << 8);
    let mut words = batch.encode();
    assert_eq!(words[0], count);
    words[0] = more;
    let reason = reason_for(|_| vec![words]);
    assert!(reason.contains("25 commands"), "{reason}");
    let reason = reason_for(|_| {
        batch.add(&Command::Start { slot: 5, epoch: 1 }.encode());
        vec![batch.encode()]
    });
    assert!(reason.contains("slot 5 has no request"), "{reason}");
}

#[test]
fn a_double_start_is_refused() {
    let reason = reason_for(|_| {
        let layout = Layout::contiguous(0, 0);
        vec![
            Command::InitRecv { slot: 0, epoch: 1, endpoint: endpoint(0), layout }.encode(),
            Command::Start { slot: 0, epoch: 2 }.encode(),
            Command::Start { slot: 0, epoch: 3 }.encode(),
        ]
    });
    assert!(reason.contains("slot 0"), "{reason}");
}

#[test]
fn garbage_on_the_control_socket_is_refused() {
    use std::io::Write;
    let cluster = Cluster::start(1, 2);
    let mut liar = Liar::attach(cluster.daemons[0].connect().unwrap(), cluster.job, 1);
    liar.stream.write_all(&[0xff; 64]).unwrap();
    let reason = liar.reason().expect("a reason was given");
    assert!(reason.contains("too long"), "{reason}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever stands in the ring: an error at most, and the daemon goes on.
    #[test]
    fn random_entries_never_harm_the_daemon(
        entries in proptest::collection::vec((1u64..9, any::<[u64; 8]>(), any::<bool>()), 1..40)
    ) {
        let daemon = Daemon::start(config()).unwrap();
        let mut launcher = ropeway::control::ControlSocket::new(daemon.connect().unwrap());
        let spec = JobSpec::single_node(JobId(5), 2);
        launcher.create_job(spec).unwrap();
        let mut liar = Liar::attach(daemon.connect().unwrap(), JobId(5), 1);
        for (op, mut words, is_tame) in entries {
            // Some entries are nearly right, so that they get further than the decoder.
            words[0] = words[0] & !0xffff_ff00_0000_00ff | op;
            if is_tame {
                words = [op | (words[1] & 3) << 32, words[2] & 3, words[3] & 1, words[4] & 0xffff, words[5] & 0xff, 0, 1, 0];
                words[5] = words[4];
            }
            if liar.producer.push(&[words]) == 0 {
                break;
            }
        }
        eventfd::ring(liar.bell.as_fd()).unwrap();
        let honest = ropeway::Session::attach(daemon.connect().unwrap(), JobId(5), 0).unwrap();
        honest.world().send(&[1u8], 0, 9).unwrap();
        honest.world().recv(&mut [0u8], 0, 9).unwrap();
        drop(liar);
        daemon.stop().unwrap();
    }
}

/// More than the daemon takes from a ring at a time.
#[test]
fn what_was_asked_for_before_the_end_is_done() {
    const COMMANDS: u32 = 2000;
    let cluster = Cluster::start(1, 2);
    let mut leaver = Liar::attach(cluster.daemons[0].connect().unwrap(), cluster.job, 1);
    for epoch in 1..=COMMANDS {
        leaver.push(Command::Probe { slot: 0, epoch, endpoint: endpoint(0), wait: false }.encode());
    }
    assert_eq!(ask(&leaver.stream, &Request::Detach), Reply::Detached);
    assert_eq!(cluster.counter(0, "commands"), u64::from(COMMANDS));
}
