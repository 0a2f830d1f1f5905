//! Calls of collectives that threads of a rank begin, wait for and drop on the same lanes.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};
use std::thread;

use ropeway::{Communicator, PendingCollective, WaitMode, wait_any};
use tokio::runtime::Builder;

use crate::common::{Cluster, asleep_in, soon};

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

/// Of a task that waits for one call only.
struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn tasks_that_have_ended_are_forgotten() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = (cluster.attach(0).world(), cluster.attach(1).world());
    let tasks: Vec<Weak<Task>> = (0..10 * LANES).map(|_| await_one(&zero, &one)).collect();
    let kept = tasks.iter().filter(|task| task.strong_count() > 0).count();
    // The last on each lane may be known where completions are heard of.
    assert!(kept <= LANES, "{kept}");
}

/// A task that waits for a late rank.
fn await_one(zero: &Communicator, one: &Communicator) -> Weak<Task> {
    let task = Arc::new(Task);
    let waker = Waker::from(task.clone());
    let mut context = Context::from_waker(&waker);
    let mut awaited = pin!(begin(zero, 1).into_future());
    assert!(awaited.as_mut().poll(&mut context).is_pending());
    wait_for(vec![begin(one, 1)]);
    soon(|| while awaited.as_mut().poll(&mut context).is_pending() {});
    Arc::downgrade(&task)
}
