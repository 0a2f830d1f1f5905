//! Whoever connects to a daemon is served, if not at once.

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;

use ropeway::Session;
use ropeway::control::ControlSocket;
use ropeway_daemon::Daemon;
use ropeway_proto::control::{JobSpec, Request, encode};
use ropeway_proto::hello::VersionRange;
use ropeway_proto::{JobId, NodeId};

use crate::common::{Process, config, soon};

#[test]
fn who_comes_while_descriptors_are_short_is_served_when_there_are_some() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, told) = (directory.path().join("control"), directory.path().join("ready"));
    let ready = UnixDatagram::bind(&told).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -n 40; exec "$0" --socket "$1""#, env!("CARGO_BIN_EXE_ropewayd")]);
    let _daemon = Process::start(command.arg(&socket).env("NOTIFY_SOCKET", &told));
    ready.recv(&mut [0; 64]).unwrap();

    let mut crowd: Vec<UnixStream> = (0..64).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let mut last = crowd.pop().unwrap();
    drop(crowd);
    let spec = JobSpec::single_node(JobId(1), 1);
    last.write_all(&encode(&Request::CreateJob { versions: VersionRange::CURRENT, spec })).unwrap();
    assert_ne!(last.read(&mut [0; 64]).unwrap(), 0, "cut off");
}

/// Each of two daemons dials the other for one of the jobs, so there are two links between them.
#[test]
fn messages_of_jobs_that_daemons_dial_each_other_for_stay_in_order() {
    const MESSAGES: u32 = 200;
    for _ in 0..10 {
        let daemons = [(); 2].map(|()| Daemon::start(config()).unwrap());
        let [zero, one] = daemons.each_ref().map(|daemon| daemon.address().unwrap());
        let spec = |job, nodes| JobSpec { nodes: JobSpec::deal(2, nodes), ..JobSpec::single_node(JobId(job), 2) };
        let specs = [spec(1, &[zero, one]), spec(2, &[one, zero])];
        let create = |daemon: usize, job: usize, costs| {
            let mut launcher = ControlSocket::new(daemons[daemon].connect().unwrap());
            let node = NodeId((daemon ^ job) as u16);
            let costs = launcher.create_job(JobSpec { node, costs, ..specs[job].clone() }).unwrap();
            (launcher, costs)
        };
        let callers = std::thread::scope(|scope| {
            let create = &create;
            [0, 1].map(|job| scope.spawn(move || create(job, job, None))).map(|thread| thread.join().unwrap())
        });
        let _called = [0, 1].map(|job| create(1 - job, job, Some(callers[job].1)));
        let attach = |daemon: usize, job: usize| {
            let stream = daemons[daemon].connect().unwrap();
            Session::attach(stream, specs[job].job, (daemon ^ job) as u32).unwrap()
        };
        let attach = &attach;
        std::thread::scope(|scope| {
            for (daemon, job) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                scope.spawn(move || {
                    let session = attach(daemon, job);
                    let (world, peer) = (session.world(), 1 - session.world().rank());
                    let sends: Vec<_> = (0..MESSAGES)
                        .map(|number| {
                            let mut buffer = world.alloc::<u32>(1 + number as usize % 3 * 1500).unwrap();
                            buffer.fill(number);
                            world.isend(buffer, peer, 1).unwrap()
                        })
                        .collect();
                    let mut message = [0u32; 4000];
                    for number in 0..MESSAGES {
                        let count = soon(|| world.recv(&mut message, peer, 1).unwrap().count);
                        assert_eq!((count, message[0]), (1 + number as usize % 3 * 1500, number));
                    }
                    sends.into_iter().for_each(|send| _ = send.wait().unwrap());
                    world.barrier().unwrap();
                });
            }
        });
    }
}
