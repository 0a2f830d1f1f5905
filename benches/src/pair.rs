//! Two ranks that measure: the first and the last, so that with several nodes the messages cross them, or one of many pairs.

use std::io;
use std::net::{IpAddr, TcpStream};

use ropeway::Communicator;

use crate::BenchError;
use crate::clock::{now_ns, spin_until};
use crate::connection;

/// One of the two.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) world: Communicator,
    pub(crate) peer: u32,
    /// Whether this is the lower of the two, which keeps the time.
    pub(crate) leads: bool,
}

impl Pair {
    /// `None` for the ranks between the two, which only look on.
    pub(crate) fn of(world: &Communicator) -> Option<Self> {
        let last = world.size() - 1;
        let peer = if world.rank() == 0 { last } else { 0 };
        let is_in = world.rank() == 0 || world.rank() == last;
        is_in.then(|| Self { world: world.clone(), peer, leads: world.rank() == 0 })
    }

    /// The pair of a rank of the lower half and its partner in the upper half, if it is one of the first `pairs`.
    pub(crate) fn opposite(world: &Communicator, pairs: u32) -> Option<Self> {
        let (peer, leads) = opposite(world.rank(), world.size(), pairs)?;
        Some(Self { world: world.clone(), peer, leads })
    }

    /// This rank and another one; `None` if that is itself.
    pub(crate) fn with(world: &Communicator, peer: u32) -> Option<Self> {
        let leads = world.rank() < peer;
        (peer != world.rank()).then(|| Self { world: world.clone(), peer, leads })
    }

    /// Has the leader decide, and tells the other.
    pub(crate) fn agree<const N: usize>(&self, decide: impl FnOnce() -> [u64; N]) -> Result<[u64; N], BenchError> {
        let mut decision = [0; N];
        if self.leads {
            decision = decide();
            self.world.send(&decision, self.peer, AGREE)?;
        } else {
            self.world.recv(&mut decision, self.peer, AGREE)?;
        }
        Ok(decision)
    }

    /// Tells the leader the other's figures.
    pub(crate) fn tell<const N: usize>(&self, mut figures: [f64; N]) -> Result<Option<[f64; N]>, BenchError> {
        if self.leads {
            self.world.recv(&mut figures, self.peer, TELL)?;
        } else {
            self.world.send(&figures, self.peer, TELL)?;
        }
        Ok(self.leads.then_some(figures))
    }

    /// Returns when the other one has called it too.
    pub(crate) fn meet(&self) -> Result<(), BenchError> {
        self.world.sendrecv(&[0u8], self.peer, MEET, &mut [0u8], self.peer, MEET)?;
        Ok(())
    }

    /// Returns to both at the same moment of the clock they share, which it says. Who meets leaves one after the other, and if the receiver
    /// comes second, a short message is there before it has started.
    pub(crate) fn begin_together(&self) -> Result<u64, BenchError> {
        self.meet()?;
        let now_ns = now_ns()?;
        let [moment_ns] = self.agree(|| [now_ns + AHEAD_NS])?;
        spin_until(moment_ns)?;
        Ok(moment_ns)
    }

    /// Tells the other one to go on.
    pub(crate) fn go(&self) -> Result<(), BenchError> {
        Ok(self.world.send(&[0u8], self.peer, GO)?)
    }

    /// Returns when the other one says so.
    pub(crate) fn await_go(&self) -> Result<(), BenchError> {
        self.world.recv(&mut [0u8], self.peer, GO)?;
        Ok(())
    }

    /// A plain TCP connection between the two processes, on nodes with these addresses.
    pub(crate) fn connect(&self, addresses: &[IpAddr]) -> Result<TcpStream, BenchError> {
        let leader = if self.leads { self.world.rank() } else { self.peer };
        let address = addresses[node_of(leader, self.world.size(), addresses.len() as u32)];
        if self.leads {
            let listener = connection::listen(address)?;
            let port = listener.local_addr()?.port();
            self.agree(|| [u64::from(port)])?;
            return Ok(connection::accept(&listener)?);
        }
        let [port] = self.agree(|| unreachable!("the leader decides"))?;
        let port = u16::try_from(port).map_err(io::Error::other)?;
        Ok(connection::connect((address, port).into())?)
    }
}

/// A rank's partner in the other half, and whether it is itself in the lower one. Of an odd number of ranks the one in the
/// middle has none, so that on two nodes all pairs cross.
fn opposite(rank: u32, size: u32, pairs: u32) -> Option<(u32, bool)> {
    let distance = size.div_ceil(2);
    let leader = rank.checked_sub(distance).unwrap_or(rank);
    let leads = leader == rank;
    let peer = if leads { rank + distance } else { leader };
    (leader < pairs && leader + distance < size).then_some((peer, leads))
}

/// The node of a rank: ranks are dealt in blocks, and the first `size % nodes` nodes get one more.
fn node_of(rank: u32, size: u32, nodes: u32) -> usize {
    let (each, larger) = (size / nodes, size % nodes);
    let in_larger = larger * (each + 1);
    let node = if rank < in_larger { rank / (each + 1) } else { larger + (rank - in_larger) / each };
    node as usize
}

/// Longer than a message takes, and not so long that anybody falls asleep.
const AHEAD_NS: u64 = 20_000;
const AGREE: i32 = 100;
const MEET: i32 = 102;
const GO: i32 = 103;
const TELL: i32 = 104;

#[cfg(test)]
mod tests {
    use ropeway_proto::control::{DaemonAddress, JobSpec};

    use super::*;

    #[test]
    fn everybody_but_the_middle_has_a_partner() {
        let partners = |size, pairs| (0..size).map(|rank| opposite(rank, size, pairs)).collect::<Vec<_>>();
        assert_eq!(partners(4, 2), [Some((2, true)), Some((3, true)), Some((0, false)), Some((1, false))]);
        assert_eq!(partners(3, 1), [Some((2, true)), None, Some((0, false))]);
        assert_eq!(partners(4, 1), [Some((2, true)), None, Some((0, false)), None]);
    }

    #[test]
    fn ranks_are_on_the_nodes_they_are_dealt_to() {
        for (nodes, ranks) in (1..=4).flat_map(|nodes| (nodes..=9).map(move |ranks| (nodes, ranks))) {
            let addresses = vec![DaemonAddress { daemon: 0, link: ([127, 0, 0, 1], 1).into() }; nodes as usize];
            let dealt = JobSpec::deal(ranks, &addresses).into_iter().enumerate();
            let expected = dealt.flat_map(|(node, spec)| (0..spec.ranks).map(move |_| node));
            assert!(expected.eq((0..ranks).map(|rank| node_of(rank, ranks, nodes))), "{ranks} ranks on {nodes} nodes");
        }
    }
}
