use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};

use ropeway_proto::control::{DaemonAddress, decode};
use ropeway_proto::hello::ClusterKey;

use super::*;
use crate::config::Config;
use crate::embed::{Prepared, prepare};

/// A program's end of its connection, and the client it is to the daemon.
struct Program {
    stream: UnixStream,
    client: usize,
}

impl Program {
    fn connect(server: &mut Server) -> Self {
        let (stream, theirs) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        Self { stream, client: server.serve(theirs).unwrap() }
    }

    /// Asks for something; the answer, if it is there.
    fn ask(&mut self, server: &mut Server, request: Request) -> Option<Reply> {
        server.handle_request(self.client, request, Instant::now()).unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Option<Reply> {
        let mut bytes = vec![0; 4096];
        let count = self.stream.read(&mut bytes).ok()?;
        bytes.truncate(count);
        decode(&mut bytes).unwrap()
    }
}

/// A daemon with a job of two ranks, whose quota is larger than the machine.
fn server_with_ranks() -> (Server, [Program; 2]) {
    let config = Config {
        job_memory_bytes_max: u64::MAX,
        arena_bytes_max: TOO_MUCH,
        ..Config::on_loopback(ClusterKey([9; 32]))
    };
    let Prepared { mut server, .. } = prepare(config, None).unwrap();
    let mut programs = [0, 1].map(|_| Program::connect(&mut server));
    let (versions, build) = (VersionRange::CURRENT, ropeway_shm::BUILD);
    let spec = JobSpec::single_node(JobId(1), 2);
    programs[0].ask(&mut server, Request::CreateJob { versions, spec }).unwrap();
    for (rank, program) in (0..).zip(&mut programs) {
        program.ask(&mut server, Request::Attach { versions, job: JobId(1), rank, build }).unwrap();
    }
    (server, programs)
}

/// More than a machine has; a few jobs with arenas of this still fit the address space.
const TOO_MUCH: u64 = 1 << 42;

/// Takes as long to drop as somebody wants.
struct Slow(Receiver<()>);

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.0.recv();
    }
}

#[test]
fn who_waits_for_memory_that_is_given_back_keeps_nobody_else_waiting() {
    let (mut server, [mut greedy, mut modest]) = server_with_ranks();
    let (allow, may_end) = channel();
    server.burials.bury(Slow(may_end));
    for _ in 0..2 {
        assert_eq!(greedy.ask(&mut server, Request::Reserve { arena_bytes: TOO_MUCH }), None);
    }
    let reserved = modest.ask(&mut server, Request::Reserve { arena_bytes: 4096 });
    assert_eq!(reserved, Some(Reply::Reserved { arena_bytes: 4096 }));
    assert_eq!(server.answer_heirs(), 0);

    drop::<std::sync::mpsc::Sender<()>>(allow);
    while server.burials.pending().is_some() {
        std::thread::yield_now();
    }
    assert_eq!(server.answer_heirs(), 1);
    let refused = greedy.answer();
    assert!(matches!(refused, Some(Reply::Refused(Refusal::OutOfMemory { .. }))), "{refused:?}");
    // Nothing is given back any more: this is answered at once.
    assert!(greedy.ask(&mut server, Request::Reserve { arena_bytes: TOO_MUCH }).is_some());
}

#[test]
fn who_may_not_have_so_much_does_not_wait_for_it() {
    let (mut server, [mut greedy, _modest]) = server_with_ranks();
    let (_allow, may_end) = channel();
    server.burials.bury(Slow(may_end));
    let refused = greedy.ask(&mut server, Request::Reserve { arena_bytes: TOO_MUCH + 1 });
    assert!(matches!(refused, Some(Reply::Refused(Refusal::OutOfMemory { .. }))), "{refused:?}");
}

#[test]
fn who_has_gone_waits_for_nothing() {
    let (mut server, [_creator, mut greedy]) = server_with_ranks();
    let (_allow, may_end) = channel();
    server.burials.bury(Slow(may_end));
    assert_eq!(greedy.ask(&mut server, Request::Reserve { arena_bytes: TOO_MUCH }), None);
    server.remove_client(greedy.client);
    assert!(server.heirs.is_empty());
}

#[test]
fn a_job_with_too_many_ranks_is_told_so() {
    let (mut server, [_creator, mut other]) = server_with_ranks();
    let spec = JobSpec::single_node(JobId(2), 1000);
    let refused = other.ask(&mut server, Request::CreateJob { versions: VersionRange::CURRENT, spec });
    let Some(Reply::Refused(refusal)) = refused else { panic!("{refused:?}") };
    assert!(refusal.to_string().contains("1000 ranks on a node, each with arena_bytes_max"), "{refusal}");
}

#[test]
fn a_job_with_nodes_that_no_link_may_go_to_is_refused() {
    for (address, is_refused) in [("192.0.2.1:7", true), ("[2001:db8::1]:7", true), ("127.0.0.1:7", false)] {
        let (mut server, [_creator, mut other]) = server_with_ranks();
        let addresses = ["127.0.0.1:9", address].map(|link| DaemonAddress { daemon: 1, link: link.parse().unwrap() });
        let spec = JobSpec { nodes: JobSpec::deal(2, &addresses), ..JobSpec::single_node(JobId(2), 2) };
        let request = |spec| Request::CreateJob { versions: VersionRange::CURRENT, spec };
        match other.ask(&mut server, request(spec)) {
            Some(Reply::Refused(refusal)) if is_refused => {
                assert!(refusal.to_string().contains(&format!("refusing to link to {address}")), "{refusal}");
            }
            Some(Reply::JobCreated { .. }) if !is_refused => {}
            other => panic!("{address}: {other:?}"),
        }
    }
}
