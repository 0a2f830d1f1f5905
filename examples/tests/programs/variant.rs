//! When the blocking and the overlapped variant compute.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use ropeway::{Communicator, Operator};
use ropeway_examples::Variant;

use crate::common::Cluster;

/// Rank 0 runs an allreduce in a variant with something to do meanwhile; rank 1 does `before` and then comes too.
fn run(variant: Variant, meanwhile: impl FnOnce(), before: impl FnOnce() + Send) {
    let cluster = Cluster::start(1, 2);
    let [zero, one] = [0, 1].map(|rank| cluster.attach(rank));
    let sum = |world: &Communicator| world.allreduce_init::<u32>(1, Operator::Sum).unwrap();
    std::thread::scope(|scope| {
        // Owns the session: if it fails, rank 0 does not wait for ever.
        scope.spawn(move || {
            let one = one;
            let mut sum = sum(&one.world());
            sum.input_mut()[0] = 30;
            before();
            sum.start().unwrap().wait().unwrap();
        });
        let (mut sum, mut communication) = (sum(&zero.world()), Duration::ZERO);
        sum.input_mut()[0] = 4;
        variant.run(&mut sum, &mut communication, meanwhile).unwrap();
        assert_eq!(sum.output(), [34]);
        assert!(communication > Duration::ZERO);
    });
}

#[test]
fn the_overlapped_variant_computes_before_the_others_have_come() {
    let (tell, told) = mpsc::channel();
    run(
        Variant::Overlapped,
        move || tell.send(()).unwrap(),
        move || told.recv_timeout(Duration::from_secs(60)).expect("rank 0 computes"),
    );
}

#[test]
fn the_blocking_variant_computes_after_all_have_come() {
    let has_come = AtomicBool::new(false);
    run(Variant::Blocking, || assert!(has_come.load(Ordering::SeqCst)), || has_come.store(true, Ordering::SeqCst));
}
