//! What the engine allocates: little per channel, and nothing per message.

use std::net::SocketAddr;

use std::sync::Arc;

use ropeway_engine::{Arrival, CollectiveId, CollectiveWork, Config, Engine, NodeCollective, StashWork};
use ropeway_proto::agreement::ShapeDigest;
use ropeway_proto::control::{DaemonAddress, JobSpec, NodeSpec};
use ropeway_proto::{CommId, Command, Endpoint, JobId, Layout, NodeId, Rank};
use ropeway_schedule::{Algorithm, Collective, Order, Shape, build};

/// Two nodes of one rank each, or one node of two ranks, without any memory of their own.
struct Engines {
    engines: Vec<Engine>,
    epoch: u32,
    ended: usize,
}

impl Engines {
    fn new(ranks_per_node: &[u32]) -> Self {
        let mut first_rank = 0;
        let node = |&ranks: &u32| {
            let address = DaemonAddress { daemon: 1, link: SocketAddr::from(([127, 0, 0, 1], 1)) };
            let node = NodeSpec { address: Some(address), first_rank, ranks };
            first_rank += ranks;
            node
        };
        let nodes: Vec<_> = ranks_per_node.iter().map(node).collect();
        let spec = |node| JobSpec { nodes: nodes.clone(), node: NodeId(node), ..JobSpec::single_node(JobId(1), 0) };
        let engines = (0..nodes.len() as u16).map(|node| Engine::new(Config::new(spec(node)))).collect();
        Self { engines, epoch: 0, ended: 0 }
    }

    fn command(&mut self, rank: Rank, command: Command) {
        let node = self.engines[0].spec().node_of(rank).unwrap().0;
        let engine = &mut self.engines[usize::from(node)];
        let local_rank = rank - engine.spec().local_ranks().start;
        engine.handle_command(local_rank, command).unwrap();
    }

    fn channels(&mut self, count: u32, bytes: u64) {
        let (endpoint, layout) =
            (|peer| Endpoint { comm: CommId::WORLD, peer: Some(peer), tag: Some(1) }, Layout::contiguous(0, bytes));
        let epoch = 1;
        for slot in 0..count {
            self.command(0, Command::InitSend { slot, epoch, endpoint: endpoint(1), layout });
            self.command(1, Command::InitRecv { slot, epoch, endpoint: endpoint(0), layout });
            self.settle();
        }
        self.epoch = 1;
    }

    /// One message on each of `slots` channels, sends first or receives first.
    fn exchange(&mut self, slots: u32, is_early: bool) {
        self.epoch += 1;
        let epoch = self.epoch;
        for rank in if is_early { [0, 1] } else { [1, 0] } {
            for slot in 0..slots {
                self.command(rank, Command::Start { slot, epoch });
            }
            self.settle();
        }
    }

    /// The same collective on all nodes.
    fn collective(&mut self, count: u64, algorithm: &Algorithm) -> CollectiveId {
        let size = self.engines.len() as u32;
        let shape = Shape::new(size, Collective::Allreduce { count, order: Order::Any });
        let participants: Vec<_> = (0..size as u16).map(NodeId).collect();
        let ids = (0..size).map(|me| {
            self.engines[me as usize].open_collective(NodeCollective {
                number: 0,
                participants: participants.clone(),
                members: (0..size).collect(),
                digest: ShapeDigest::default(),
                schedule: Arc::new(build(&shape, algorithm, me).unwrap()),
                element_bytes: 8,
                input: 0,
                output: 1 << 20,
                scratch: 1 << 21,
            })
        });
        ids.collect::<Vec<_>>()[0]
    }

    /// One round, begun by each node as soon as all before it have done what they can.
    fn round(&mut self, id: CollectiveId) {
        for me in 0..self.engines.len() {
            self.engines[me].start_collective(id);
            self.settle();
        }
    }

    fn work(&mut self, node: usize) -> bool {
        let mut is_busy = false;
        while let Some(work) = self.engines[node].poll_collective_work() {
            is_busy = true;
            match work {
                CollectiveWork::Copy { step, .. } | CollectiveWork::Combine { step, .. } => {
                    self.engines[node].handle_collective_step(step);
                }
                CollectiveWork::Done { failure, .. } => {
                    assert_eq!(failure, None);
                    self.ended += 1;
                }
                CollectiveWork::Failed { failure, .. } => panic!("{failure:?}"),
            }
        }
        is_busy
    }

    fn settle(&mut self) {
        let mut is_busy = true;
        while is_busy {
            is_busy = false;
            for from in 0..self.engines.len() {
                while let Some(work) = self.engines[from].poll_stash_work() {
                    if let StashWork::Copy { stash, operation, .. } = work {
                        self.engines[from].handle_copied(stash, operation);
                    }
                }
                is_busy |= self.work(from);
                for to in 0..self.engines.len() {
                    while let Some(transmit) = self.engines[from].poll_transmit(NodeId(to as u16)) {
                        is_busy = true;
                        if let Some(token) = transmit.token {
                            self.engines[from].handle_transmitted(token, transmit.frame.payload_bytes().into());
                        }
                        let arrival: Arrival =
                            self.engines[to].handle_frame(NodeId(from as u16), transmit.frame).unwrap().arrival;
                        self.engines[to].handle_arrived(arrival);
                    }
                }
                while self.engines[from].poll_completion().is_some() {
                    self.ended += 1;
                }
            }
        }
    }
}

#[test]
fn an_idle_bound_channel_costs_at_most_256_bytes() {
    const CHANNELS: u32 = 10_000;
    for bytes in [8, 1 << 20] {
        let mut engines = None;
        let used = allocation_counter::measure(|| {
            let engines = engines.insert(Engines::new(&[2]));
            engines.channels(CHANNELS, bytes);
        });
        let per_channel = used.bytes_current / i64::from(CHANNELS);
        assert!(per_channel <= 256, "{per_channel} bytes per channel, both of its ends");
        assert_eq!(engines.unwrap().engines[0].leftovers().requests, 2 * CHANNELS as usize);
    }
}

#[test]
fn start_allocates_nothing() {
    const CHANNELS: u32 = 8;
    const CYCLES: usize = 2000;
    for (nodes, bytes, is_early) in [
        (&[1, 1][..], 8, false),
        (&[1, 1], 8, true),
        (&[1, 1], 1 << 20, false),
        (&[1, 1], 1 << 20, true),
        (&[2], 8, false),
        (&[2], 1 << 20, false),
    ] {
        let mut engines = Engines::new(nodes);
        engines.channels(CHANNELS, bytes);
        for _ in 0..100 {
            engines.exchange(CHANNELS, is_early);
        }
        engines.ended = 0;
        let used = allocation_counter::measure(|| (0..CYCLES).for_each(|_| engines.exchange(CHANNELS, is_early)));
        assert_eq!(engines.ended, 2 * CHANNELS as usize * CYCLES);
        assert_eq!(used.count_total, 0, "{bytes} bytes on nodes of {nodes:?}, early: {is_early}");
    }
}

#[test]
fn starting_a_collective_allocates_nothing() {
    const ROUNDS: usize = 500;
    for count in [8, 10_000] {
        for algorithm in ["ring", "recursive-doubling", "binomial", "linear-pipeline"] {
            let mut engines = Engines::new(&[1; 5]);
            let id = engines.collective(count, &algorithm.parse().unwrap());
            for _ in 0..100 {
                engines.round(id);
            }
            engines.ended = 0;
            let used = allocation_counter::measure(|| (0..ROUNDS).for_each(|_| engines.round(id)));
            assert_eq!(engines.ended, 5 * ROUNDS);
            assert_eq!(used.count_total, 0, "{count} elements, {algorithm}");
        }
    }
}
