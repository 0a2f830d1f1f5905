//! The command ring against a queue, against liars, and between two processes.
#![cfg(not(loom))]

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use proptest::prelude::*;
use ropeway_proto::{Completion, Status};
use ropeway_shm::ring::{RingConsumer, RingProducer, RingWords};
use ropeway_shm::{ControlSegment, JobGeometry, JobSegment};

#[derive(Clone, Debug)]
enum Operation {
    Push(usize),
    Stage(usize),
    Pop,
    Arm,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        (0usize..4).prop_map(Operation::Push),
        (0usize..4).prop_map(Operation::Stage),
        Just(Operation::Pop),
        Just(Operation::Arm)
    ]
}

proptest! {
    #[test]
    fn the_ring_agrees_with_a_queue(operations in proptest::collection::vec(operation(), 0..200)) {
        const CAPACITY: usize = 4;
        let words = Arc::new(RingWords::<CAPACITY>::new());
        let (mut producer, mut consumer) = (RingProducer::new(Arc::clone(&words)), RingConsumer::new(words));
        let (mut queue, mut staged, mut number, mut is_asleep) = (VecDeque::new(), VecDeque::new(), 0, false);
        for operation in operations {
            match operation {
                Operation::Push(count) | Operation::Stage(count) => {
                    let entries: Vec<[u64; 8]> = (0..count).map(|offset| [number + offset as u64; 8]).collect();
                    let is_push = matches!(operation, Operation::Push(_));
                    let written = if is_push { producer.push(&entries) } else { producer.stage(&entries) };
                    prop_assert_eq!(written, count.min(CAPACITY - queue.len() - staged.len()));
                    staged.extend(&entries[..written]);
                    number += written as u64;
                    if is_push {
                        queue.append(&mut staged);
                        prop_assert_eq!(producer.must_wake(), is_asleep);
                        is_asleep = false;
                    }
                }
                Operation::Pop => prop_assert_eq!(consumer.pop(), Ok(queue.pop_front())),
                Operation::Arm => {
                    is_asleep = consumer.arm();
                    prop_assert_eq!(is_asleep, queue.is_empty());
                }
            }
        }
    }
}

#[test]
fn a_producer_that_claims_too_much_is_found_out() {
    let words = Arc::new(RingWords::<4>::new());
    let mut consumer = RingConsumer::new(Arc::clone(&words));
    // Two producers on one ring: each believes to have room, and together they overrun it.
    let (mut first, mut second) = (RingProducer::new(Arc::clone(&words)), RingProducer::new(words));
    assert_eq!(first.push(&[[1; 8]; 4]), 4);
    for _ in 0..4 {
        consumer.pop().unwrap();
    }
    assert_eq!(first.push(&[[2; 8]; 4]), 4);
    assert_eq!(second.push(&[[3; 8]; 3]), 3);
    let violation = consumer.pop().unwrap_err();
    assert_eq!(violation.capacity, 4);
}

/// Makes a descriptor known to the next process that is started, and to no other: this file starts only one.
fn inherit(descriptor: &OwnedFd) -> String {
    fcntl(descriptor, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
    descriptor.as_raw_fd().to_string()
}

const GEOMETRY: JobGeometry = JobGeometry { local_ranks: 2, arena_bytes_max: 1 << 20 };
const MESSAGES: u64 = 50_000;

/// The client's part of [`two_processes_share_a_ring_and_a_slot`], played by another process.
#[test]
fn client_role() {
    let (Ok(control), Ok(job)) = (std::env::var("TEST_CONTROL_FD"), std::env::var("TEST_JOB_FD")) else { return };
    // SAFETY: the parent has left these open for us, and nobody else in this process knows them.
    let take = |number: String| unsafe { OwnedFd::from_raw_fd(number.parse().unwrap()) };
    let control = Arc::new(ControlSegment::map(take(control)).unwrap());
    let job = JobSegment::map(take(job), GEOMETRY).unwrap();
    let (mut producer, slot, doorbell) = (control.producer(), job.slot(1, 7).unwrap(), job.doorbell(1, 5).unwrap());
    for number in 1..=MESSAGES {
        while producer.push(&[[number; 8]]) == 0 {
            std::thread::yield_now();
        }
        // Every now and then the answer is awaited, asleep.
        if number % 100 == 0 {
            let epoch = (number / 100) as u32;
            loop {
                let seen = doorbell.listen();
                slot.arm(5);
                if slot.is_done(epoch) {
                    slot.disarm();
                    break;
                }
                doorbell.sleep(seen, None);
            }
            assert_eq!(slot.completion().unwrap().bytes, number);
        }
    }
}

#[test]
fn two_processes_share_a_ring_and_a_slot() {
    let control = Arc::new(ControlSegment::create().unwrap());
    let job = JobSegment::create(GEOMETRY).unwrap();
    job.reserve_slots(1, 0..64).unwrap();
    let (control_fd, job_fd) = (control.fd().try_clone_to_owned().unwrap(), job.fd().try_clone_to_owned().unwrap());
    let mut client = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "client_role"])
        .env("TEST_CONTROL_FD", inherit(&control_fd))
        .env("TEST_JOB_FD", inherit(&job_fd))
        .spawn()
        .unwrap();
    let (mut consumer, slot) = (control.consumer(), job.slot(1, 7).unwrap());
    let mut expected = 1;
    while expected <= MESSAGES {
        let Some(entry) = consumer.pop().unwrap() else {
            assert!(client.try_wait().unwrap().is_none_or(|status| status.success()), "the client has failed");
            std::thread::yield_now();
            continue;
        };
        assert_eq!(entry, [expected; 8]);
        if expected % 100 == 0 {
            let completion = Completion { status: Status::Success, source: 0, tag: 0, bytes: expected };
            if let Some(doorbell) = slot.complete((expected / 100) as u32, &completion) {
                job.doorbell(1, doorbell).unwrap().wake();
            }
        }
        expected += 1;
    }
    assert!(client.wait().unwrap().success());
}
