//! Whoever connects to a daemon is served, if not at once.

use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;

use ropeway_proto::JobId;
use ropeway_proto::control::{JobSpec, Request, encode};
use ropeway_proto::hello::VersionRange;

#[test]
fn who_comes_while_descriptors_are_short_is_served_when_there_are_some() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, told) = (directory.path().join("control"), directory.path().join("ready"));
    let ready = UnixDatagram::bind(&told).unwrap();
    let mut daemon = Command::new("sh")
        .args(["-c", r#"ulimit -n 40; exec "$0" --socket "$1""#, env!("CARGO_BIN_EXE_ropewayd")])
        .arg(&socket)
        .env("NOTIFY_SOCKET", &told)
        .spawn()
        .unwrap();
    ready.recv(&mut [0; 64]).unwrap();

    let mut crowd: Vec<UnixStream> = (0..64).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let mut last = crowd.pop().unwrap();
    drop(crowd);
    let spec = JobSpec::single_node(JobId(1), 1);
    last.write_all(&encode(&Request::CreateJob { versions: VersionRange::CURRENT, spec })).unwrap();
    assert_ne!(last.read(&mut [0; 64]).unwrap(), 0, "cut off");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}
