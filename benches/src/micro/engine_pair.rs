//! The engines of two nodes, told at once what the other one says.

use std::net::SocketAddr;

use ropeway_engine::{Config, Engine};
use ropeway_proto::control::{DaemonAddress, JobSpec, NodeSpec};
use ropeway_proto::{CommId, Command, Endpoint, Epoch, JobId, Layout, NodeId};

/// Two nodes of one rank each, and a channel from rank 0 to rank 1. There is no memory and no link: engines touch neither.
pub struct EnginePair {
    engines: [Engine; 2],
    epoch: Epoch,
}

impl EnginePair {
    /// A bound channel for messages of `bytes`: eager up to 8 KiB, else rendezvous.
    ///
    /// # Panics
    /// If an engine refuses what a well-behaved client or engine says.
    pub fn new(bytes: u64) -> Self {
        let address = DaemonAddress { daemon: 1, link: SocketAddr::from(([127, 0, 0, 1], 1)) };
        let nodes = [0, 1].map(|first_rank| NodeSpec { address: Some(address), first_rank, ranks: 1 });
        let job = JobSpec { nodes: nodes.to_vec(), ..JobSpec::single_node(JobId(1), 0) };
        let engine = |node| Engine::new(Config::new(JobSpec { node: NodeId(node), ..job.clone() }));
        let mut pair = Self { engines: [engine(0), engine(1)], epoch: 1 };

        let (slot, epoch, layout) = (SLOT, pair.epoch, Layout::contiguous(0, bytes));
        let endpoint = |peer| Endpoint { comm: CommId::WORLD, peer: Some(peer), tag: Some(0) };
        pair.command(0, Command::InitSend { slot, epoch, endpoint: endpoint(1), layout });
        pair.command(1, Command::InitRecv { slot, epoch, endpoint: endpoint(0), layout });
        pair.settle();
        pair
    }

    /// One message into a receive that is started: all that both engines do from the commands to the completions.
    ///
    /// # Panics
    /// If it does not end at both ends.
    pub fn message(&mut self) {
        self.epoch += 1;
        let start = Command::Start { slot: SLOT, epoch: self.epoch };
        self.command(1, start);
        let early = self.settle();
        self.command(0, start);
        assert_eq!((early, self.settle()), (0, 2), "completions before and after the send is started");
    }

    fn command(&mut self, node: usize, command: Command) {
        self.engines[node].handle_command(0, command).expect("a command of a well-behaved client");
    }

    /// Carries frames over until there are none. Says how many operations have ended.
    fn settle(&mut self) -> usize {
        while self.carry(0, 1) | self.carry(1, 0) {}
        let ended = |engine: &mut Engine| std::iter::from_fn(|| engine.poll_completion()).count();
        self.engines.iter_mut().map(ended).sum()
    }

    /// Carries what one engine has to say to the other. Says whether there was anything.
    fn carry(&mut self, from: u16, to: u16) -> bool {
        let mut is_busy = false;
        while let Some(transmit) = self.engines[usize::from(from)].poll_transmit(NodeId(to)) {
            is_busy = true;
            if let Some(token) = transmit.token {
                let sent = transmit.frame.payload_bytes().into();
                self.engines[usize::from(from)].handle_transmitted(token, sent);
            }
            let receiver = &mut self.engines[usize::from(to)];
            let placement = receiver.handle_frame(NodeId(from), transmit.frame).expect("a frame of an engine");
            receiver.handle_arrived(placement.arrival);
        }
        is_busy
    }
}

const SLOT: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_either_protocol_end_again_and_again() {
        for bytes in [8, 64 << 10, 1 << 20] {
            let mut pair = EnginePair::new(bytes);
            (0..100).for_each(|_| pair.message());
        }
    }
}
