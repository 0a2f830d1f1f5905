//! How a collective whose members live on several nodes is divided: what happens within each node before and after, and what
//! happens between the nodes, each of which takes part as one *participant*.
//!
//! | operation | before, on each node | between the nodes | after, on each node |
//! |---|---|---|---|
//! | barrier, bcast | | the same | bcast: to all |
//! | reduce, allreduce | combine the inputs | the same | allreduce: to all |
//! | reduce-scatter | combine the inputs | the same, with the parts of a node as one | a part to each |
//! | scan, exscan | combine the inputs | exscan | scan what came and the inputs |
//! | gather(v), scatter(v), allgather(v), alltoall(v) | pack, by node | the same, with the parts of a node as one | unpack |
//! | a reduction in rank order: reproducible, by a user's operator, or a scan of mixed members | pack | gather or allgather of all inputs | combine |
//!
//! Participants are numbered in the order in which their first members come, and what is packed lies in the order of
//! participants: *node by node*.

use serde::{Deserialize, Serialize};

use crate::collective::{CollectiveKind, CollectiveShape};

/// What a node's members know of the other nodes, and of the node's own memory for what is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// For each member, the participant that its node is.
    pub nodes: Vec<u16>,
    /// Which of them this node is.
    pub me: u16,
    /// Where in the segment lies what this node brings.
    pub input: u64,
    /// Where what it gets.
    pub output: u64,
}

/// A collective and the nodes of its members.
#[derive(Clone, Debug)]
pub struct Division<'a> {
    shape: &'a CollectiveShape,
    nodes: &'a [u16],
    participants: usize,
}

impl<'a> Division<'a> {
    /// `nodes` says the participant of each member. `None` if these can't be: they are not numbered as they come.
    pub fn new(shape: &'a CollectiveShape, nodes: &'a [u16]) -> Option<Self> {
        let mut participants = 0;
        for &node in nodes {
            match usize::from(node) {
                node if node < participants => {}
                node if node == participants => participants += 1,
                _ => return None,
            }
        }
        (nodes.len() == shape.members.len()).then_some(Self { shape, nodes, participants })
    }

    /// How many nodes take part.
    pub fn participants(&self) -> usize {
        self.participants
    }

    /// The members on a node, ascending.
    pub fn on(&self, participant: u16) -> impl Iterator<Item = u32> + '_ {
        (0..self.shape.size()).filter(move |&member| self.nodes[member as usize] == participant)
    }

    /// All members, node by node.
    pub fn node_by_node(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.participants as u16).flat_map(|participant| self.on(participant))
    }

    /// Whether that is the order of the members, too.
    pub fn is_in_order(&self) -> bool {
        self.nodes.is_sorted()
    }

    /// Whether all inputs are brought together before any are combined: so that what is combined with what depends neither
    /// on the nodes nor on who lives where.
    pub fn gathers(&self) -> bool {
        let is_prefix = matches!(self.shape.kind, CollectiveKind::Scan | CollectiveKind::Exscan);
        let keeps_order = self.shape.is_reproducible || self.shape.has_user_operator();
        self.shape.kind.combines() && (keeps_order || (is_prefix && !self.is_in_order()))
    }

    /// Elements of one member's input where all inputs are brought together.
    pub fn vector(&self) -> u64 {
        self.shape.counts.iter().sum()
    }

    /// What happens between the nodes; its members are the participants.
    pub fn between(&self) -> CollectiveShape {
        let shape = self.shape;
        let root = self.nodes[shape.root as usize];
        let kind = match shape.kind {
            CollectiveKind::Reduce if self.gathers() => CollectiveKind::Gather,
            kind if kind.combines() && self.gathers() => CollectiveKind::Allgather,
            CollectiveKind::Scan => CollectiveKind::Exscan,
            kind => kind,
        };
        CollectiveShape {
            kind,
            members: (0..self.participants as u32).collect(),
            root: if kind.has_root() { root.into() } else { 0 },
            combination: shape.combination.filter(|_| kind.combines()),
            counts: self.counts_between(),
            ..shape.clone()
        }
    }

    fn counts_between(&self) -> Vec<u64> {
        let nodes = || 0..self.participants as u16;
        let each = |part: &dyn Fn(u32) -> u64| nodes().map(|node| self.on(node).map(part).sum()).collect();
        match self.shape.kind {
            _ if self.gathers() => each(&|_| self.vector()),
            CollectiveKind::ReduceScatter
            | CollectiveKind::Gather
            | CollectiveKind::Scatter
            | CollectiveKind::Allgather => each(&|member| self.shape.part(member)),
            CollectiveKind::Alltoall => {
                let pair = |from: u32, to: u32| self.shape.pair(from, to);
                let row = |from, to| self.on(from).map(|from| self.on(to).map(|to| pair(from, to)).sum::<u64>()).sum();
                nodes().flat_map(|from| nodes().map(move |to| (from, to))).map(|(from, to)| row(from, to)).collect()
            }
            _ => self.shape.counts.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Combination;
    use crate::operator::{ElementType, Operator, Scalar};

    fn shape(kind: CollectiveKind, counts: &[u64]) -> CollectiveShape {
        let element = ElementType { scalar: Scalar::F64, is_located: false };
        CollectiveShape {
            kind,
            members: vec![4, 5, 6, 7, 8],
            root: 0,
            combination: kind.combines().then(|| Combination::Predefined(Operator::Sum.code(), element.code())),
            element_bytes: 8,
            counts: counts.to_vec(),
            is_reproducible: false,
            algorithm: None,
        }
    }

    #[test]
    fn parts_of_a_node_are_one_part() {
        let gather = CollectiveShape { root: 3, ..shape(CollectiveKind::Gather, &[1, 2, 3, 4, 5]) };
        let division = Division::new(&gather, &[0, 1, 0, 1, 2]).unwrap();
        let between = division.between();
        assert_eq!((between.members.len(), between.root, &between.counts[..]), (3, 1, &[4, 6, 5][..]));
        assert_eq!(division.node_by_node().collect::<Vec<_>>(), [0, 2, 1, 3, 4]);
        assert_eq!(between.check(), Ok(()));
    }

    #[test]
    fn pairs_of_nodes_add_up() {
        let alltoall = shape(CollectiveKind::Alltoall, &[2]);
        let between = Division::new(&alltoall, &[0, 0, 0, 1, 1]).unwrap().between();
        assert_eq!(between.counts, [18, 12, 12, 8]);
        assert_eq!(between.check(), Ok(()));
    }

    #[test]
    fn a_scan_is_an_exscan_between_nodes_unless_its_members_are_mixed() {
        let scan = shape(CollectiveKind::Scan, &[7]);
        let in_order = Division::new(&scan, &[0, 0, 1, 1, 2]).unwrap().between();
        assert_eq!((in_order.kind, &in_order.counts[..]), (CollectiveKind::Exscan, &[7][..]));
        let mixed = Division::new(&scan, &[0, 1, 0, 1, 2]).unwrap().between();
        assert_eq!((mixed.kind, &mixed.counts[..]), (CollectiveKind::Allgather, &[14, 14, 7][..]));
        assert_eq!((in_order.check(), mixed.check()), (Ok(()), Ok(())));
    }

    #[test]
    fn inputs_are_brought_together_if_their_order_counts() {
        for kind in [CollectiveKind::Reduce, CollectiveKind::Allreduce, CollectiveKind::ReduceScatter] {
            let counts: &[u64] = if kind == CollectiveKind::ReduceScatter { &[1, 0, 2, 3, 1] } else { &[7] };
            let free = shape(kind, counts);
            let reproducible = CollectiveShape { is_reproducible: true, ..free.clone() };
            let user = CollectiveShape { combination: Some(Combination::User), ..free.clone() };
            assert_eq!(Division::new(&free, &[0, 0, 1, 1, 2]).unwrap().between().kind, kind);
            for shape in [reproducible, user] {
                assert_eq!(shape.check(), Ok(()));
                let between = Division::new(&shape, &[0, 0, 1, 1, 2]).unwrap().between();
                let to_root = kind == CollectiveKind::Reduce;
                assert_eq!(between.kind, if to_root { CollectiveKind::Gather } else { CollectiveKind::Allgather });
                assert_eq!((&between.counts[..], between.combination), (&[14, 14, 7][..], None));
                assert_eq!(between.check(), Ok(()));
            }
        }
    }

    #[test]
    fn nodes_are_numbered_as_they_come() {
        let barrier = shape(CollectiveKind::Barrier, &[]);
        assert!(Division::new(&barrier, &[0, 0, 1, 2, 1]).is_some());
        assert!(Division::new(&barrier, &[0, 2, 1, 0, 0]).is_none());
        assert!(Division::new(&barrier, &[0, 0]).is_none());
    }
}
