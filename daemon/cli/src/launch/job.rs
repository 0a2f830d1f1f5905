//! A job, as the daemons know it.

use ropeway::control::ControlSocket;
use ropeway::{JobId, Session};
use ropeway_proto::NodeId;
use ropeway_proto::control::{JobSpec, NodeSpec};

use super::daemons::{Patience, random_bytes};
use super::{Daemons, LaunchError};

/// A job that exists on all its daemons, until this is dropped.
pub(crate) struct Job {
    pub(super) id: JobId,
    nodes: Vec<NodeSpec>,
    /// While these are open the daemons keep the job.
    launchers: Vec<ControlSocket>,
}

impl Job {
    pub(crate) fn create(daemons: &Daemons, ranks: u32) -> Result<Self, LaunchError> {
        Self::create_with(daemons, ranks, &Patience { until: None, events: None })
    }

    /// The same, with so much patience.
    pub(super) fn create_with(daemons: &Daemons, ranks: u32, patience: &Patience<'_>) -> Result<Self, LaunchError> {
        if ranks < daemons.nodes() {
            return Err(LaunchError::TooFewRanks { nodes: daemons.nodes() });
        }
        let id = JobId(u64::from_ne_bytes(random_bytes().map_err(LaunchError::system("naming the job"))?));
        let nodes = match daemons.nodes() {
            1 => JobSpec::single_node(id, ranks).nodes,
            _ => JobSpec::deal(ranks, &daemons.addresses()),
        };
        // The first daemon's costs are the job's.
        let mut costs = None;
        let create = |node| {
            let spec = JobSpec { job: id, nodes: nodes.clone(), node: NodeId(node as u16), costs };
            let (launcher, answer) = daemons.ask(node, &ControlSocket::creation(spec), patience)?;
            costs = Some(ControlSocket::costs(answer)?);
            Ok(launcher)
        };
        let launchers = (0..nodes.len()).map(create).collect::<Result<_, LaunchError>>()?;
        Ok(Self { id, nodes, launchers })
    }

    /// Returns when daemons have done what ranks have asked for until now, and have counted what ranks have done without them.
    pub(super) fn settle(&mut self) -> Result<(), LaunchError> {
        // What one node registers sets off up to three messages between it and another.
        let rounds = if self.launchers.len() == 1 { 1 } else { 4 };
        for _ in 0..rounds {
            self.launchers.iter_mut().try_for_each(ControlSocket::count).map_err(LaunchError::Counting)?;
        }
        Ok(())
    }

    /// The first rank of each node.
    pub(super) fn first_ranks(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.first_rank).collect()
    }

    /// Becomes a rank, in this process.
    pub(crate) fn attach(&self, daemons: &Daemons, rank: u32) -> Result<Session, LaunchError> {
        let stream = daemons.connect(self.node_of(rank)).map_err(LaunchError::system("connecting to the daemon"))?;
        Ok(Session::attach(stream, self.id, rank)?)
    }

    /// The node a rank belongs to.
    pub(super) fn node_of(&self, rank: u32) -> usize {
        self.nodes.partition_point(|node| node.first_rank <= rank) - 1
    }
}
