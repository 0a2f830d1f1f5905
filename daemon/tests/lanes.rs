//! Calls of collectives that threads of a rank begin, wait for and drop on the same lanes.

mod common;

use std::thread;

use common::{Cluster, asleep_in, soon};
use ropeway::{Communicator, Operator, PendingCollective};

/// Calls of a kind that may be under way.
const LANES: usize = 8;

type Call = PendingCollective<'static, u8>;

/// Begins one of those whose lanes this file uses. The output is not looked at elsewhere.
fn begin(world: &Communicator, bytes: usize) -> Call {
    world.iallreduce(&vec![1; bytes], vec![0; bytes].leak(), Operator::Sum).unwrap()
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
