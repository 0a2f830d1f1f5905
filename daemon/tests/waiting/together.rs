//! Messages, persistent requests and calls of collectives that are waited for together.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ropeway::{Communicator, Error, Operator, PendingCollective, Running, WaitMode, wait_all, wait_any};
use tokio::runtime::Builder;

use crate::common::{Cluster, everybody, soon};

const SUM: Operator = Operator::Sum;

#[test]
fn whatever_ends_first_is_found_first() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 2);
        let (zero, one) = (cluster.attach(0).world(), cluster.attach(1).world());
        let (mut total, mut ours) = ([0u64], [0u64]);
        let mut summing = zero.iallreduce(&[1], &mut total, SUM).unwrap();
        let mut receiving = zero.irecv(zero.alloc::<u8>(1).unwrap(), 1, 1).unwrap();
        let mut recv = zero.recv_init(zero.alloc::<u8>(1).unwrap(), 1, 2).unwrap();
        let mut registered = recv.start().unwrap();
        let mut halo = zero.graph(&[1], &[1]).unwrap().neighbor_alltoall_init::<u8>(1).unwrap();
        let mut exchanging = halo.start().unwrap();
        let mut running: [&mut dyn Running; 4] = [&mut registered, &mut summing, &mut receiving, &mut exchanging];
        one.send(&[5u8], 0, 1).unwrap();
        let (index, status) = soon(|| wait_any(&mut running).unwrap().expect("all run"));
        assert_eq!((index, status.source, status.count), (2, 1, 1));
        one.iallreduce(&[2], &mut ours, SUM).unwrap().wait().unwrap();
        let (index, _) = soon(|| wait_any(&mut running).unwrap().expect("three run"));
        assert_eq!(index, 1);
        let mut theirs = one.graph(&[0], &[0]).unwrap().neighbor_alltoall_init::<u8>(1).unwrap();
        theirs.input_mut()[0] = 7;
        let answering = theirs.start().unwrap();
        let (index, status) = soon(|| wait_any(&mut running).unwrap().expect("two run"));
        assert_eq!((index, status.source, status.count), (3, 0, 0));
        soon(|| answering.wait().unwrap());
        one.send_init(one.alloc::<u8>(1).unwrap(), 0, 2).unwrap().start().unwrap().wait().unwrap();
        let (index, status) = soon(|| wait_any(&mut running).unwrap().expect("one runs"));
        assert_eq!((index, status.source, status.count), (0, 1, 1));
        assert!(wait_any(&mut running).unwrap().is_none(), "nothing is left");
        assert_eq!(&*receiving.wait().unwrap().0, [5]);
        summing.wait().unwrap();
        assert_eq!((total, ours), ([3], [3]));
        assert_eq!(halo.output(), [7]);
    }
}

/// More than there are lanes, so that some turns are past when they are waited for; small, and in pieces.
#[test]
fn many_calls_are_waited_for_at_once() {
    for place in [(1, 3), (2, 4)] {
        everybody(place, |world| {
            for count in [1, 50_000] {
                let mut outputs = vec![vec![0u64; count]; 12];
                let begin = |(call, output)| world.iallreduce(&vec![call as u64; count], output, SUM).unwrap();
                let mut pending: Vec<PendingCollective<'_, u64>> =
                    outputs.iter_mut().map(Vec::as_mut_slice).enumerate().map(begin).collect();
                let mut running: Vec<&mut dyn Running> = pending.iter_mut().map(|one| one as _).collect();
                soon(|| wait_all(&mut running).unwrap());
                pending.into_iter().for_each(|one| one.wait().unwrap());
                for (call, output) in outputs.iter().enumerate() {
                    let total = call as u64 * u64::from(world.size());
                    assert!(output.iter().all(|&element| element == total), "call {call}");
                }
            }
        });
    }
}

/// Of small calls the second round of a lane goes straight from rank to rank, over wires that whoever waits has to look at.
#[test]
fn who_waits_for_late_ranks_of_other_nodes_hears_of_them_in_every_wait_mode() {
    const CALLS: u64 = 20;
    for mode in [WaitMode::Polling, WaitMode::Blocking, WaitMode::Adaptive] {
        let cluster = Cluster::start(2, 2);
        let sessions = [cluster.attach(0), cluster.attach(1)];
        sessions.iter().for_each(|session| session.set_wait_mode(mode));
        thread::scope(|scope| {
            for session in &sessions {
                scope.spawn(|| {
                    let world = session.world();
                    for call in 0..CALLS {
                        let mut total = [0];
                        if call % 2 == u64::from(world.rank()) {
                            compute();
                        }
                        let mut summing = world.iallreduce(&[call], &mut total, SUM).unwrap();
                        soon(|| wait_all(&mut [&mut summing]).unwrap());
                        summing.wait().unwrap();
                        assert_eq!(total, [2 * call], "{mode}");
                    }
                });
            }
        });
    }
}

/// For longer than others look before they sleep.
fn compute() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1) {
        thread::yield_now();
    }
}

/// One thread waits for a call while another has to have it ended first, to begin one more of its kind.
#[test]
fn who_waits_is_told_though_another_thread_takes_the_lane() {
    const CALLS: usize = 9;
    let cluster = Cluster::start(1, 2);
    let (zero, one) = (cluster.attach(0).world(), cluster.attach(1).world());
    let begin = |world: &Communicator| {
        let world = world.clone();
        // The output is not looked at elsewhere.
        let output: &'static mut [u64] = Box::leak(Box::new([0]));
        world.iallreduce(&[1], output, SUM).unwrap()
    };
    for round in 0..30 {
        let mut first = begin(&zero);
        let mut others: Vec<_> = (2..CALLS).map(|_| begin(&zero)).collect();
        let all_begun = Barrier::new(3);
        thread::scope(|scope| {
            scope.spawn(|| {
                all_begun.wait();
                others.push(begin(&zero));
            });
            scope.spawn(|| {
                all_begun.wait();
                if round % 2 == 0 {
                    let ended = wait_any(&mut [&mut first]).unwrap();
                    assert!(ended.is_some());
                } else {
                    Builder::new_current_thread().build().unwrap().block_on(async { first.await.unwrap() });
                }
            });
            all_begun.wait();
            let theirs: Vec<_> = (0..CALLS).map(|_| begin(&one)).collect();
            theirs.into_iter().for_each(|call| soon(|| call.wait().unwrap()));
        });
        others.into_iter().for_each(|call| soon(|| call.wait().unwrap()));
    }
}

#[test]
fn what_fails_is_said_and_the_rest_can_be_waited_for() {
    let cluster = Cluster::start(1, 3);
    let (zero, one, two) = (cluster.attach(0).world(), cluster.attach(1).world(), cluster.attach(2).world());
    let mut total = [0u64];
    let mut summing = zero.iallreduce(&[1], &mut total, SUM).unwrap();
    let mut receiving = zero.irecv(zero.alloc::<u8>(1).unwrap(), 1, 1).unwrap();
    let mut running: [&mut dyn Running; 2] = [&mut summing, &mut receiving];
    drop(two);
    let error = soon(|| wait_any(&mut running).unwrap_err());
    assert!(matches!(error, Error::RankLeft { rank: 2 }), "{error}");
    one.send(&[5u8], 0, 1).unwrap();
    assert_eq!(soon(|| wait_any(&mut running).unwrap().expect("a message")).0, 1);
    assert!(wait_any(&mut running).unwrap().is_none());
}

#[test]
fn what_has_failed_has_not_ended_well_for_who_asks_again() {
    let cluster = Cluster::start(1, 3);
    let (zero, one, two) = (cluster.attach(0).world(), cluster.attach(1).world(), cluster.attach(2).world());
    let ring = thread::scope(|scope| {
        for world in [&one, &two] {
            scope.spawn(|| drop(world.cartesian(&[3], &[true]).unwrap()));
        }
        zero.cartesian(&[3], &[true]).unwrap()
    });
    let (mut total, mut gathered) = ([0u64], [0u64; 2]);
    let mut summing = zero.iallreduce(&[1], &mut total, SUM).unwrap();
    let mut gathering = ring.ineighbor_allgather(&[1], &mut gathered).unwrap();
    drop(two);
    for running in [&mut summing as &mut dyn Running, &mut gathering] {
        let error = soon(|| wait_all(&mut [running]).unwrap_err());
        assert!(matches!(error, Error::RankLeft { rank: 2 }), "{error}");
    }
    let again = [summing.test(), gathering.test(), summing.wait().map(|()| true), gathering.wait().map(|()| true)];
    assert!(again.iter().all(|asked| matches!(asked, Err(Error::Inactive))), "{again:?}");
}

#[test]
fn what_runs_ends_with_its_session() {
    let cluster = Cluster::start(1, 2);
    let zero = cluster.attach(0).world();
    let mut total = [0u64];
    let mut summing = zero.iallreduce(&[1], &mut total, SUM).unwrap();
    let mut recv = zero.recv_init(zero.alloc::<u8>(1).unwrap(), 1, 2).unwrap();
    let mut receiving = recv.start().unwrap();
    let mut running: [&mut dyn Running; 2] = [&mut summing, &mut receiving];
    drop(cluster);
    for _ in 0..2 {
        let error = soon(|| wait_all(&mut running).unwrap_err());
        assert!(matches!(error, Error::DaemonGone), "{error}");
    }
    assert!(wait_any(&mut running).unwrap().is_none(), "nothing runs any more");
    assert_eq!(recv.buffer(), [0]);
}

#[test]
fn things_of_different_sessions_are_refused() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = (cluster.attach(0).world(), cluster.attach(1).world());
    let mut first = zero.ibarrier().unwrap();
    let mut second = one.ibarrier().unwrap();
    let error = wait_any(&mut [&mut first, &mut second]).unwrap_err();
    assert!(matches!(error, Error::MixedSessions), "{error}");
    soon(|| wait_all(&mut [&mut first]).unwrap());
    soon(|| wait_all(&mut [&mut second]).unwrap());
}
