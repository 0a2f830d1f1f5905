//! Independent progress of collectives between nodes: whoever has started one is not needed for it any more, whatever it waits for, and
//! whatever it did the times before.

use std::io::BufRead;
use std::sync::{Barrier, Mutex};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, gettid};
use ropeway::{Collective, Communicator, Operator, WaitMode};

use crate::common::{Cluster, everybody, everybody_of, soon, until_asleep};

/// So large that a member leaves the work to whoever waits, or the daemon.
const COUNT: usize = 10_007;
/// Rounds after which a request is known to be waited for at once.
const ROUNDS: u64 = 30;

fn sum(world: &Communicator) -> Collective<u64> {
    world.allreduce_init(COUNT, Operator::Sum).unwrap()
}

fn at_once(sum: &mut Collective<u64>) {
    (0..ROUNDS).for_each(|_| _ = sum.start().unwrap().wait().unwrap());
}

/// The part of this file that runs in a process of its own: comes for a last round, and says who waits for it.
#[test]
fn rank_role() {
    if std::env::var("TEST_ROLE").is_err() {
        return;
    }
    println!("ready");
    let session = ropeway::init().unwrap();
    let mut sum = sum(&session.world());
    at_once(&mut sum);
    let summing = sum.start().unwrap();
    println!("waits: {}", gettid());
    summing.wait_with(WaitMode::Blocking).unwrap();
}

#[test]
fn collectives_are_waited_for_in_any_order() {
    for places in [(2, 4), (3, 5)] {
        everybody(places, |world| {
            let mut order = fastrand::Rng::with_seed(world.rank().into());
            let mut sums = [sum(&world), sum(&world)];
            for round in 0..100 {
                sums.iter_mut().for_each(|sum| sum.input_mut().fill(round));
                for index in in_any_order(&mut order) {
                    let _ = sums[index].start().unwrap();
                }
                for index in in_any_order(&mut order) {
                    soon(|| sums[index].active().unwrap().wait().unwrap());
                    assert_eq!(sums[index].output()[COUNT - 1], round * u64::from(world.size()));
                }
            }
        });
    }
}

fn in_any_order(rng: &mut fastrand::Rng) -> [usize; 2] {
    if rng.bool() { [0, 1] } else { [1, 0] }
}

#[test]
fn who_has_started_may_wait_for_who_has_ended() {
    everybody((2, 4), |world| {
        let mut sum = sum(&world);
        at_once(&mut sum);
        let summing = sum.start().unwrap();
        match world.rank() {
            0 => {
                soon(|| summing.wait().unwrap());
                [2, 3].iter().for_each(|&rank| world.send(&[1u8], rank, 1).unwrap());
            }
            1 => _ = soon(|| summing.wait().unwrap()),
            _ => {
                soon(|| world.recv(&mut [0u8], 0, 1).unwrap());
                summing.wait().unwrap();
            }
        }
    });
}

/// The one who waits seems to be about to do what other nodes need, but is stopped; the other one of its node computes.
#[test]
fn nobody_needs_one_who_is_stopped_while_he_waits() {
    let cluster = Cluster::start(2, 4);
    let (process, are_done) = (Mutex::new(cluster.spawn(3, module_path!(), "waits")), Barrier::new(3));
    everybody_of(&cluster, 3, |world| {
        let mut sum = sum(&world);
        at_once(&mut sum);
        if world.rank() < 2 {
            sum.start().unwrap().wait().unwrap();
            are_done.wait();
            return;
        }
        let mut waits = process.lock().unwrap();
        let pid = Pid::from_raw(waits.child.id() as i32);
        let says_thread = |line: String| line.rsplit_once("waits: ")?.1.parse().ok();
        let thread = (&mut waits.output).lines().find_map(|line| says_thread(line.unwrap())).unwrap();
        until_asleep(Pid::from_raw(thread));
        kill(pid, Signal::SIGSTOP).unwrap();
        waits.wait_until_stopped();
        let summing = sum.start().unwrap();
        soon(|| are_done.wait());
        kill(pid, Signal::SIGCONT).unwrap();
        summing.wait().unwrap();
        assert!(waits.child.wait().unwrap().success());
    });
}
