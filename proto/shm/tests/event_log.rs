//! Logs of events: written by threads of one process, read by another, and full.

#![cfg(not(loom))]

use std::thread;

use ropeway_proto::{Event, EventKind};
use ropeway_shm::EventLog;

fn start(thread: u16, at_ns: u64) -> Event {
    Event { at_ns, took_ns: 1, thread, kind: EventKind::Start { slot: 3 } }
}

#[test]
fn another_process_reads_what_was_written() {
    let log = EventLog::create(10).unwrap();
    let writer = EventLog::map(log.fd().try_clone_to_owned().unwrap()).unwrap();
    writer.push(&start(0, 5));
    writer.push(&start(0, 6));
    drop(writer);
    assert_eq!(log.events().collect::<Vec<_>>(), [start(0, 5), start(0, 6)]);
    assert_eq!(log.lost(), 0);
}

#[test]
fn a_full_log_keeps_its_beginning_and_counts_the_rest() {
    let log = EventLog::create(3).unwrap();
    (0..10).for_each(|at_ns| log.push(&start(0, at_ns)));
    assert_eq!(log.events().map(|event| event.at_ns).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(log.lost(), 7);
}

#[test]
fn threads_write_at_once_and_each_in_its_order() {
    let log = EventLog::create(4000).unwrap();
    thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || (0..1000).for_each(|at_ns| log.push(&start(thread, at_ns))));
        }
    });
    for thread in 0..4 {
        let times = log.events().filter(|event| event.thread == thread).map(|event| event.at_ns);
        assert!(times.eq(0..1000), "thread {thread}");
    }
}

#[test]
fn the_room_of_a_log_is_that_of_its_bytes() {
    let log = EventLog::create(EventLog::events_in(4096)).unwrap();
    (0..4096).for_each(|at_ns| log.push(&start(0, at_ns)));
    assert_eq!(log.events().count() as u64, EventLog::events_in(4096));
}

#[test]
fn a_file_is_no_log() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4096).unwrap();
    assert!(EventLog::map(file.into()).is_err());
}

#[test]
fn the_clock_goes_on() {
    let before = EventLog::now_ns();
    assert!(EventLog::now_ns() >= before && before > 0);
}
