use std::net::{TcpListener, TcpStream as StdTcpStream};

use mio::Poll;
use ropeway_proto::hello::{ClusterKey, VersionRange};

use super::*;

const TIMEOUT: Duration = Duration::from_secs(60);
const READY: Readiness = Readiness { is_readable: true, is_writable: true, is_ending: false };

/// Two daemons each of which has dialled the other, with both links up.
fn crossed() -> [(Links, Poll); 2] {
    let mut daemons = [1, 2].map(|daemon| {
        let hello = Hello { versions: VersionRange::CURRENT, daemon, key: ClusterKey([9; 32]), wire: None };
        (Links::new(hello, TIMEOUT, false), Poll::new().unwrap())
    });
    let now = Instant::now();
    for caller in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialling = StdTcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let dialled = Dialled { daemon: 2 - caller as u64, wire: None, from: NodeId(caller as u16) };
        for (index, stream, dialled) in [(caller, dialling, Some(dialled)), (1 - caller, accepted, None)] {
            stream.set_nonblocking(true).unwrap();
            let (links, poll) = &mut daemons[index];
            links.add(TcpStream::from_std(stream), dialled, poll.registry(), now).unwrap();
        }
    }
    let is_up = |(links, _): &(Links, Poll)| links.links.iter().all(|(_, link)| matches!(link.state, State::Up(_)));
    while !daemons.iter().all(is_up) {
        // In opposite orders, so that each prefers another one.
        (0..2).for_each(|index| assert!(daemons[0].0.handle_event(index, READY, now).is_none()));
        (0..2).rev().for_each(|index| assert!(daemons[1].0.handle_event(index, READY, now).is_none()));
    }
    daemons
}

#[test]
fn of_two_links_to_a_daemon_one_carries_all_that_is_sent() {
    for (links, _) in crossed() {
        let spare: Vec<bool> = links.links.iter().map(|(_, link)| link.is_spare).collect();
        assert!(matches!(spare[..], [true, false] | [false, true]), "{spare:?}");
    }
}

#[test]
fn two_links_to_a_daemon_are_lost_together() {
    let [(mut links, _poll), (mut others, _)] = crossed();
    let (mut jobs, counters, now) = (Jobs::new(), Counters::create().unwrap(), Instant::now());
    links.routes.push(Route { job: JobId(1), node: NodeId(1), daemon: 2, deadline: now + TIMEOUT });
    others.links.remove(0);
    (0..2).for_each(|index| _ = links.handle_event(index, READY, now));
    while !links.is_empty() {
        links.progress(&mut jobs, &counters, now);
    }
    assert!(links.routes.is_empty());
}
