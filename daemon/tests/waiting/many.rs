//! Waiting: for many at once, with many at once.

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, gettid};
use ropeway::{Session, WaitMode, start_all};

use crate::common::{Cluster, Process, asleep_in, channel, pair, soon, test_of, until_asleep};

fn cpu_time_of_thread() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap())
}

/// Of all threads, however long others had the cores.
fn cpu_time() -> Duration {
    Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap())
}

/// Half of the requests from another node, half from this one.
#[test]
fn waiting_for_any_of_hundreds_takes_no_time_and_finds_the_one() {
    const REQUESTS: usize = 500;
    let cluster = Cluster::start(2, 4);
    let sessions = [0, 1, 3].map(|rank| cluster.attach(rank));
    let [session, near, far] = sessions.each_ref();
    let world = session.world();
    let source = |index: usize| if index.is_multiple_of(2) { near } else { far };
    let rank = |index: usize| if index.is_multiple_of(2) { 1 } else { 3 };
    let mut recvs: Vec<_> = (0..REQUESTS)
        .map(|index| world.recv_init(world.alloc::<u8>(8).unwrap(), rank(index), index as i32).unwrap())
        .collect();
    let send = |index: usize| {
        let world = source(index).world();
        let mut send = world.send_init(world.alloc::<u8>(8).unwrap(), 0, index as i32).unwrap();
        send.buffer_mut().fill(index as u8);
        send.start().unwrap().wait().unwrap();
    };
    let mut set = start_all(&mut recvs).unwrap().with_wait_mode(WaitMode::Blocking);
    for index in [3, 498, 0, 77] {
        let (ended, used) = std::thread::scope(|scope| {
            let waiting = asleep_in(scope, || {
                let before = cpu_time_of_thread();
                let ended = set.wait_any().unwrap();
                (ended, cpu_time_of_thread() - before)
            });
            send(index);
            soon(|| waiting.join().unwrap())
        });
        assert_eq!(ended.map(|(found, _)| found), Some(index));
        assert!(used < Duration::from_millis(15), "waited by looking: {used:?}");
    }
}

/// Though its session polls.
#[test]
fn a_call_with_neighbours_waits_as_it_is_told() {
    let cluster = Cluster::start(1, 2);
    let sessions = [0, 1].map(|rank| cluster.attach(rank));
    let ring = |rank: usize| sessions[rank].world().cartesian(&[2], &[true]).unwrap();
    sessions[0].set_wait_mode(WaitMode::Polling);
    let (tell, told) = mpsc::channel();
    let (beside, used) = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let (ring, mut beside) = (ring(0), [0; 2]);
            let gathering = ring.ineighbor_allgather(&[1u8], &mut beside).unwrap();
            let before = cpu_time_of_thread();
            tell.send(gettid()).unwrap();
            gathering.wait_with(WaitMode::Blocking).unwrap();
            (beside, cpu_time_of_thread() - before)
        });
        let ring = ring(1);
        until_asleep(told.recv().unwrap());
        ring.neighbor_allgather(&[7u8], &mut [0; 2]).unwrap();
        soon(|| waiting.join().unwrap())
    });
    assert_eq!(beside, [7; 2]);
    assert!(used < Duration::from_millis(15), "waited by looking: {used:?}");
}

/// A completion wakes the thread that waits for it, and not those that wait for something else.
#[test]
fn a_completion_wakes_one_thread() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = (cluster.attach(0).world(), cluster.attach(1).world());
    let recv = |tag| zero.recv_init(zero.alloc::<u8>(8).unwrap(), 1, tag).unwrap();
    let mut recvs: Vec<_> = (0..8).map(recv).collect();
    let mut sends: Vec<_> = (0..8).map(|tag| one.send_init(one.alloc::<u8>(8).unwrap(), 0, tag).unwrap()).collect();
    std::thread::scope(|scope| {
        let waiters: Vec<_> = recvs
            .iter_mut()
            .map(|recv| {
                asleep_in(scope, || {
                    let usage = || getrusage(UsageWho::RUSAGE_THREAD).unwrap();
                    let before = usage().voluntary_context_switches();
                    recv.start().unwrap().wait_with(WaitMode::Blocking).unwrap();
                    usage().voluntary_context_switches() - before
                })
            })
            .collect();
        for (send, waiter) in sends.iter_mut().zip(waiters) {
            send.start().unwrap().wait().unwrap();
            // Once for the answer to the registration at most, once for the message, and some for taking turns.
            let switches = waiter.join().unwrap();
            assert!(switches <= 6, "woken {switches} times");
        }
    });
}

#[test]
fn sleeps_and_wake_ups_among_ranks_are_counted() {
    let mut cluster = Cluster::start(1, 2);
    let (zero, one) = pair(&cluster);
    let (mut send, mut recv) = channel(&zero.world(), &one.world(), 8);
    let mut counted = |name: &str| {
        cluster.launchers[0].count().unwrap();
        cluster.counter(0, name)
    };
    // The first message may still be the daemon's, the second is the ranks' own.
    for _ in 0..2 {
        let [sleeps, wake_ups, system_calls] = ["rank_sleeps", "wake_ups", "system_calls"].map(&mut counted);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| recv.start().unwrap().wait_with(WaitMode::Blocking).unwrap());
            soon(|| while counted("rank_sleeps") == sleeps {});
            send.start().unwrap().wait().unwrap();
            soon(|| waiting.join().unwrap());
        });
        assert!(counted("wake_ups") > wake_ups);
        assert!(counted("system_calls") >= system_calls + 2);
    }
}

/// Has this thread, and those it starts from now on, run on two cores at most.
fn stay_on_two_cores() {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cores = (0..CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap());
    let mut two = CpuSet::new();
    cores.take(2).for_each(|core| two.set(core).unwrap());
    sched_setaffinity(Pid::from_raw(0), &two).unwrap();
}

/// Every rank receives from its left while it sends to its right, so that all have to get their turn; between nodes, and with
/// the largest message, the daemons too.
fn go_round(session: &Session, rounds: u32) {
    let world = session.world();
    let (right, left) = ((world.rank() + 1) % world.size(), (world.rank() + world.size() - 1) % world.size());
    for bytes in [8, 8192, 100_000] {
        let mut send = world.send_init(world.alloc::<u8>(bytes).unwrap(), right, 0).unwrap();
        let mut recv = world.recv_init(world.alloc::<u8>(bytes).unwrap(), left, 0).unwrap();
        for round in 0..rounds {
            send.buffer_mut().fill(round as u8);
            let receiving = recv.start().unwrap();
            let sending = send.start().unwrap();
            receiving.wait().unwrap();
            sending.wait().unwrap();
            assert!(recv.buffer().iter().all(|&byte| byte == round as u8));
        }
    }
}

/// Started by the next test in a process of its own, whose time is not that of other tests.
#[test]
fn crowd() {
    const ROUNDS: u32 = 100;
    if std::env::var_os("TEST_ROLE").is_none() {
        return;
    }
    stay_on_two_cores();
    for (nodes, ranks) in [(1, 8), (1, 16), (2, 8), (2, 16)] {
        for mode in [WaitMode::Polling, WaitMode::Blocking, WaitMode::Adaptive] {
            let cluster = Cluster::start(nodes, ranks);
            let sessions: Vec<Session> = (0..ranks).map(|rank| cluster.attach(rank)).collect();
            let before = cpu_time();
            std::thread::scope(|scope| {
                for session in &sessions {
                    session.set_wait_mode(mode);
                    scope.spawn(|| go_round(session, ROUNDS));
                }
            });
            // If each message had to wait for the end of somebody's time slice, those would be two milliseconds and more for each.
            let messages = 3 * ROUNDS * ranks;
            let (used, limit) = (cpu_time() - before, Duration::from_millis(messages.into()));
            assert!(used < limit, "{ranks} ranks, {nodes} nodes, {mode}: {used:?}");
        }
    }
}

#[test]
fn more_ranks_than_cores_make_progress_in_every_wait_mode() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &test_of(module_path!(), "crowd")]).env("TEST_ROLE", "crowd").stdout(Stdio::piped());
    let program = Process::start(&mut command).output();
    let said = String::from_utf8_lossy(&program.stdout);
    assert!(program.status.success() && said.contains("1 passed"), "{said}");
}
