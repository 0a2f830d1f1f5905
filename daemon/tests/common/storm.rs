//! Collectives of three ranks that go on until one of them is killed.

use std::thread;
use std::time::Duration;

use ropeway::{Collective, Communicator, Error};

use super::{Cluster, follows_a_kill, kill_amid};

/// A small and a large allreduce in turns, of nothing but ones.
pub(crate) struct Storm {
    sums: [Collective<u64>; 2],
    total: u64,
}

impl Storm {
    /// Of these, which make `total` of three ones.
    pub(crate) fn new(sums: [Collective<u64>; 2], total: u64) -> Self {
        Self { sums, total }
    }

    fn round(&mut self) -> Result<(), Error> {
        for sum in &mut self.sums {
            sum.input_mut().fill(1);
            sum.start()?.wait()?;
            assert!(sum.output().iter().all(|&total| total == self.total));
        }
        Ok(())
    }

    /// The part of a rank in a process of its own.
    pub(crate) fn rage(mut self) {
        println!("ready");
        while self.round().is_ok() {}
    }
}

/// Kills rank 2 in the middle of so many storms, on one to three nodes: rank 0 learns why it ends. Processes that play "storm" of
/// this module rage.
pub(crate) fn kill_in_storms(module: &str, count: u64, new: fn(&Communicator) -> Storm) {
    for number in 0..count {
        let cluster = Cluster::start(1 + number as usize % 3, 3);
        let session = cluster.attach(0);
        let init = thread::spawn({
            let world = session.world();
            move || new(&world)
        });
        let mut storm = init.join().unwrap();
        let (_neighbour, victim) = (cluster.spawn(1, module, "storm"), cluster.spawn(2, module, "storm"));
        (0..number % 5).for_each(|_| storm.round().unwrap());
        let error = kill_amid(victim, Duration::from_micros(50 + number * 331 % 2000), || storm.round());
        assert!(follows_a_kill(&cluster, &error), "{error}");
    }
}
