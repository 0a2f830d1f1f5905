//! Calls of collectives that threads of a rank begin, wait for and drop on the same lanes.

mod common;

use std::thread;

use common::{Cluster, asleep_in, soon};
use ropeway::{Communicator, PendingCollective, WaitMode, wait_any};
use tokio::runtime::Builder;

/// Calls of a kind that may be under way.
const LANES: usize = 8;

type Call = PendingCollective<'static, u8>;

/// Begins a broadcast of rank 1. The array is not looked at elsewhere.
fn begin(world: &Communicator, bytes: usize) -> Call {
    world.ibcast(vec![0; bytes].leak(), 1).unwrap()
}

fn begin_all(world: &Communicator, bytes: usize) -> Vec<Call> {
    (0..LANES).map(|_| begin(world, bytes)).collect()
}

fn wait_for(calls: Vec<Call>) {
    calls.into_iter().for_each(|call| soon(|| call.wait().unwrap()));
}

#[test]
fn who_gives_a_call_up_waits_for_nobody() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = (cluster.attach(0).world(), cluster.attach(1).world());
    let mut calls = begin_all(&zero, 1);
    let mut theirs = Vec::new();
    thread::scope(|scope| {
        let next = asleep_in(scope, || begin(&zero, 1));
        let first = calls.remove(0);
        soon(|| drop(first));
        theirs.push(begin(&one, 1));
        calls.push(next.join().unwrap());
        theirs.push(begin(&one, 1));
        calls.push(begin(&zero, 1));
        // The second is past, and the last one on its lane is waited for.
        let (second, next) = (calls.remove(0), calls.pop().unwrap());
        let waiting = asleep_in(scope, || next.wait().unwrap());
        soon(|| drop(second));
        theirs.extend((0..LANES).map(|_| begin(&one, 1)));
        soon(|| waiting.join().unwrap());
    });
    wait_for(calls);
    wait_for(theirs);
}

/// While another thread takes what is past, so large that it takes a while, off the same lane.
#[test]
fn who_waits_is_told_though_another_thread_has_the_lane_for_a_moment() {
    const BYTES: usize = 2 << 20;
    let cluster = Cluster::start(1, 2);
    let session = cluster.attach(0);
    session.set_wait_mode(WaitMode::Blocking);
    let (zero, one) = (session.world(), cluster.attach(1).world());
    let (mut calls, mut theirs) = (begin_all(&zero, BYTES), vec![begin(&one, BYTES)]);
    for round in 0..20 {
        let mut last = begin(&zero, BYTES);
        let mut past = calls.remove(0);
        thread::scope(|scope| {
            let taking = scope.spawn(|| while !past.test().unwrap() {});
            let waiting = asleep_in(scope, || {
                if round % 2 == 0 {
                    assert!(wait_any(&mut [&mut last]).unwrap().is_some());
                } else {
                    Builder::new_current_thread().build().unwrap().block_on(async { last.await.unwrap() });
                }
            });
            taking.join().unwrap();
            theirs.extend((0..LANES).map(|_| begin(&one, BYTES)));
            soon(|| waiting.join().unwrap());
        });
        wait_for(std::mem::replace(&mut calls, begin_all(&zero, BYTES)));
        wait_for(std::mem::replace(&mut theirs, vec![begin(&one, BYTES)]));
    }
    theirs.extend((1..LANES).map(|_| begin(&one, BYTES)));
    wait_for(calls);
    wait_for(theirs);
}

/// Though that is waited for by the thread that had waited for the end of this one, to begin it.
#[test]
fn who_waits_for_a_call_does_not_wait_for_the_one_after_it() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = (cluster.attach(0).world(), cluster.attach(1).world());
    for _ in 0..20 {
        let mut calls = begin_all(&zero, 1);
        let first = calls.remove(0);
        thread::scope(|scope| {
            let next = asleep_in(scope, || soon(|| begin(&zero, 1).wait().unwrap()));
            let waiting = asleep_in(scope, || first.wait().unwrap());
            let mut theirs = vec![begin(&one, 1)];
            soon(|| waiting.join().unwrap());
            theirs.extend((0..LANES).map(|_| begin(&one, 1)));
            soon(|| next.join().unwrap());
            wait_for(theirs);
        });
        wait_for(calls);
    }
}
