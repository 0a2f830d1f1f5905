//! Programs with an event loop of their own: futures under a real executor, and the event descriptor.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ropeway::{Communicator, Error, Operator, Session};
use tokio::runtime::{Builder, Runtime};

use crate::common::{Cluster, asleep_in, soon};

/// In a cell, in the receiver's buffer, and in pieces; between nodes eager and rendezvous.
const SIZES: [usize; 3] = [8, 4096, 500_000];

fn single_threaded() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

async fn exchange(world: Communicator, bytes: usize, rounds: u32) {
    let peer = 1 - world.rank();
    let mut send = world.send_init(world.alloc::<u8>(bytes).unwrap(), peer, bytes as i32).unwrap();
    let mut recv = world.recv_init(world.alloc::<u8>(bytes).unwrap(), peer, bytes as i32).unwrap();
    for round in 0..rounds {
        send.buffer_mut().fill(round as u8);
        let receiving = recv.start().unwrap();
        let sending = send.start().unwrap();
        let status = receiving.await.unwrap();
        sending.await.unwrap();
        assert_eq!((status.source, status.count), (peer, bytes));
        assert!(recv.buffer().iter().all(|&byte| byte == round as u8), "round {round}");
    }
}

/// Both ranks are tasks of one thread: neither may block it.
#[test]
fn ranks_that_share_a_thread_exchange_messages() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 2);
        let sessions = [cluster.attach(0), cluster.attach(1)];
        for bytes in SIZES {
            let worlds = sessions.each_ref().map(Session::world);
            single_threaded().block_on(async {
                let [zero, one] = worlds.map(|world| exchange(world, bytes, 300));
                tokio::join!(zero, one)
            });
        }
    }
}

#[test]
fn tasks_on_several_threads_exchange_messages() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 2);
        let sessions = [cluster.attach(0), cluster.attach(1)];
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let tasks: Vec<_> = SIZES
            .iter()
            .flat_map(|&bytes| sessions.each_ref().map(|session| exchange(session.world(), bytes, 100)))
            .map(|task| runtime.spawn(task))
            .collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
}

#[test]
fn one_shot_operations_can_be_awaited() {
    let cluster = Cluster::start(2, 2);
    let (zero, one) = (cluster.attach(0).world(), cluster.attach(1).world());
    single_threaded().block_on(async {
        let receiving = one.irecv(one.alloc::<u32>(4).unwrap(), 0, 3).unwrap().into_future();
        let mut message = zero.alloc::<u32>(4).unwrap();
        message.copy_from_slice(&[1, 2, 3, 4]);
        let (_, sent) = zero.isend(message, 1, 3).unwrap().await.unwrap();
        let (received, status) = receiving.await.unwrap();
        assert_eq!((&*received, status.count, sent.count), (&[1, 2, 3, 4][..], 4, 4));
    });
}

/// Two ranks as tasks of one thread, on one node and on two, with few elements and with many.
fn on_two_ranks<F: Future<Output = ()>>(program: impl Fn(Communicator, usize) -> F) {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 2);
        let sessions = [cluster.attach(0), cluster.attach(1)];
        for count in SIZES {
            let worlds = sessions.each_ref().map(Session::world);
            single_threaded().block_on(async {
                let [zero, one] = worlds.map(|world| program(world, count));
                tokio::join!(zero, one)
            });
        }
    }
}

async fn exchange_with_neighbours(world: Communicator, count: usize) {
    let ring = world.cartesian(&[2], &[true]).unwrap();
    let mut halo = ring.neighbor_alltoall_init::<u8>(count).unwrap();
    for round in 0..100 {
        halo.input_mut().fill(round + ring.rank() as u8);
        halo.start().unwrap().await.unwrap();
        assert!(halo.output().iter().all(|&byte| byte == round + 1 - ring.rank() as u8), "round {round}");
    }
}

#[test]
fn exchanges_with_neighbours_can_be_awaited() {
    on_two_ranks(exchange_with_neighbours);
}

async fn call_with_neighbours(world: Communicator, count: usize) {
    let ring = world.cartesian(&[2], &[true]).unwrap();
    let (own, other) = (ring.rank() as u8, 1 - ring.rank() as u8);
    for round in 0..20 {
        let (mut gathered, mut exchanged) = (vec![0; 2 * count], vec![0; 2 * count]);
        let gathering = ring.ineighbor_allgather(&vec![round + own; count], &mut gathered).unwrap();
        let exchanging = ring.ineighbor_alltoall(&vec![round + own + 100; 2 * count], &mut exchanged).unwrap();
        exchanging.await.unwrap();
        gathering.await.unwrap();
        assert!(gathered.iter().all(|&byte| byte == round + other), "round {round}");
        assert!(exchanged.iter().all(|&byte| byte == round + other + 100), "round {round}");
    }
}

#[test]
fn calls_with_neighbours_can_be_awaited() {
    on_two_ranks(call_with_neighbours);
}

/// Of different lengths.
async fn call_with_neighbours_that_differ(world: Communicator, count: usize) {
    let (own, other) = (world.rank() as u8, 1 - world.rank() as u8);
    let graph = world.graph(&[other.into()], &[other.into()]).unwrap();
    let lengths = [own, other].map(|rank| count + usize::from(rank));
    for round in 0..20 {
        let (mut gathered, mut exchanged) = (vec![0; lengths[1]], vec![0; lengths[1]]);
        let gathering =
            graph.ineighbor_allgatherv(&vec![round + own; lengths[0]], &mut gathered, &lengths[1..]).unwrap();
        let input = vec![round + own + 100; lengths[0]];
        let exchanging = graph.ineighbor_alltoallv(&input, &mut exchanged, &lengths[..1], &lengths[1..]).unwrap();
        exchanging.await.unwrap();
        gathering.await.unwrap();
        assert!(gathered.iter().all(|&byte| byte == round + other), "round {round}");
        assert!(exchanged.iter().all(|&byte| byte == round + other + 100), "round {round}");
    }
}

#[test]
fn calls_with_neighbours_that_differ_can_be_awaited() {
    on_two_ranks(call_with_neighbours_that_differ);
}

async fn add_up(world: Communicator, count: usize, rounds: u64) {
    for round in 0..rounds {
        let (mut sum, mut all) = (vec![0; count], vec![0; 2 * count]);
        let summing = world.iallreduce(&vec![round; count], &mut sum, Operator::Sum).unwrap();
        let gathering = world.iallgather(&vec![world.rank(); count], &mut all).unwrap();
        gathering.await.unwrap();
        summing.await.unwrap();
        assert!(sum.iter().all(|&total| total == 2 * round), "round {round}");
        assert!(all.iter().enumerate().all(|(index, &rank)| rank as usize == index / count));
    }
}

#[test]
fn calls_of_collectives_can_be_awaited() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 2);
        let sessions = [cluster.attach(0), cluster.attach(1)];
        for count in [1, 1000, 60_000] {
            let worlds = sessions.each_ref().map(Session::world);
            single_threaded().block_on(async {
                let [zero, one] = worlds.map(|world| add_up(world, count, 20));
                tokio::join!(zero, one)
            });
            let worlds = sessions.each_ref().map(Session::world);
            let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
            let tasks = worlds.map(|world| runtime.spawn(add_up(world, count, 20)));
            runtime.block_on(async {
                for task in tasks {
                    task.await.unwrap();
                }
            });
        }
    }
}

#[test]
fn a_call_whose_future_is_dropped_ends_by_itself() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = (cluster.attach(0).world(), cluster.attach(1).world());
    let (mut forgotten, mut ours, mut theirs) = ([7u8], [0u8], [2u8]);
    single_threaded().block_on(async {
        let casting = zero.ibcast(&mut forgotten, 1).unwrap().into_future();
        let aborted = tokio::select! {
            biased;
            _ = casting => false,
            () = async {} => true,
        };
        assert!(aborted);
    });
    assert_eq!(forgotten, [7]);
    soon(|| one.ibcast(&mut [1u8], 1).unwrap().wait().unwrap());
    let casting = one.ibcast(&mut theirs, 1).unwrap();
    soon(|| zero.ibcast(&mut ours, 1).unwrap().wait().unwrap());
    soon(|| casting.wait().unwrap());
    assert_eq!((forgotten, ours), ([7], [2]));
}

#[test]
fn a_future_that_is_dropped_lets_its_operation_run_on() {
    let cluster = Cluster::start(1, 2);
    let (zero, one) = (cluster.attach(0).world(), cluster.attach(1).world());
    let mut recv = one.recv_init(one.alloc::<u8>(8).unwrap(), 0, 1).unwrap();
    let mut send = zero.send_init(zero.alloc::<u8>(8).unwrap(), 1, 1).unwrap();
    single_threaded().block_on(async {
        let receiving = recv.start().unwrap().into_future();
        let aborted = tokio::select! {
            biased;
            _ = receiving => false,
            () = async {} => true,
        };
        assert!(aborted);
    });
    send.buffer_mut().fill(4);
    send.start().unwrap().wait().unwrap();
    soon(|| recv.active().expect("it runs on").wait().unwrap());
    assert!(recv.buffer().iter().all(|&byte| byte == 4));
}

#[test]
fn a_session_that_ends_ends_its_futures() {
    let cluster = Cluster::start(1, 2);
    let session = cluster.attach(0);
    let world = session.world();
    let mut recv = world.recv_init(world.alloc::<u8>(8).unwrap(), 1, 1).unwrap();
    let receiving = recv.start().unwrap().into_future();
    let waiting = std::thread::scope(|scope| {
        let waiting = asleep_in(scope, || single_threaded().block_on(receiving));
        drop(cluster);
        soon(|| waiting.join().unwrap())
    });
    assert!(matches!(waiting, Err(Error::DaemonGone)), "{waiting:?}");
}

#[test]
fn the_event_descriptor_tells_a_poll_loop() {
    for nodes in [1, 2] {
        let cluster = Cluster::start(nodes, 2);
        let (session, peer) = (cluster.attach(0), cluster.attach(1));
        let (world, other) = (session.world(), peer.world());
        let mut recv = world.recv_init(world.alloc::<u32>(1).unwrap(), 1, 1).unwrap();
        let sender = std::thread::spawn(move || {
            let mut send = other.send_init(other.alloc::<u32>(1).unwrap(), 0, 1).unwrap();
            for number in 0..200 {
                send.buffer_mut()[0] = number;
                send.start().unwrap().wait().unwrap();
            }
        });
        for number in 0..200 {
            let mut receiving = recv.start().unwrap();
            while receiving.test().unwrap().is_none() {
                receiving.notify().unwrap();
                let mut sources = [PollFd::new(session.event_fd().unwrap(), PollFlags::POLLIN)];
                assert_eq!(poll(&mut sources, PollTimeout::from(2000u16)), Ok(1), "nothing was told");
                nix::unistd::read(session.event_fd().unwrap(), &mut [0; 8]).unwrap();
            }
            assert_eq!(recv.buffer()[0], number);
        }
        sender.join().unwrap();
    }
}

#[test]
fn the_event_descriptor_tells_of_exchanges() {
    let cluster = Cluster::start(2, 2);
    let (session, peer) = (cluster.attach(0), cluster.attach(1));
    let init = |world: Communicator| {
        let ring = world.cartesian(&[2, 1], &[true, false]).unwrap();
        ring.neighbor_allgather_init::<u32>(1).unwrap()
    };
    let (mut halo, world) = (init(session.world()), peer.world());
    let neighbour = std::thread::spawn(move || {
        let mut halo = init(world);
        for number in 0..100 {
            halo.input_mut()[0] = number;
            halo.start().unwrap().wait().unwrap();
        }
    });
    for number in 0..100 {
        let mut exchanging = halo.start().unwrap();
        while !exchanging.test().unwrap() {
            exchanging.notify().unwrap();
            let mut sources = [PollFd::new(session.event_fd().unwrap(), PollFlags::POLLIN)];
            assert_eq!(poll(&mut sources, PollTimeout::from(2000u16)), Ok(1), "nothing was told");
            nix::unistd::read(session.event_fd().unwrap(), &mut [0; 8]).unwrap();
        }
        assert_eq!(halo.output()[..2], [number; 2]);
    }
    neighbour.join().unwrap();
}

#[test]
fn the_event_descriptor_is_silent_while_nothing_ends() {
    let cluster = Cluster::start(1, 2);
    let session = cluster.attach(0);
    let world = session.world();
    let mut recv = world.recv_init(world.alloc::<u32>(1).unwrap(), 1, 1).unwrap();
    let mut receiving = recv.start().unwrap();
    receiving.notify().unwrap();
    let is_rung = || {
        let mut sources = [PollFd::new(session.event_fd().unwrap(), PollFlags::POLLIN)];
        poll(&mut sources, PollTimeout::from(50u16)).unwrap() == 1
    };
    // The registration may still be answered: that is a step, not the end.
    if is_rung() {
        nix::unistd::read(session.event_fd().unwrap(), &mut [0; 8]).unwrap();
        assert_eq!(receiving.test().unwrap(), None);
        receiving.notify().unwrap();
    }
    assert!(!is_rung(), "rung for nothing");
    assert_eq!(receiving.test().unwrap(), None);
}
