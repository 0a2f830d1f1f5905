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
//!
//! The daemons combine between the nodes, and can't by a user's operator, nor one by one what a node's members have brought. So of some
//! reductions [`Operands`] are brought together first, and combined on each node that needs the result:
//!
//! | reduction | before | between the nodes | after |
//! |---|---|---|---|
//! | by a user's operator | combine the inputs | operands, one of each node | combine them |
//! | in another order than that of the nodes, or one by one (reproducible) | pack | operands, all inputs | combine them |
//!
//! To a reduce's root they come by a gather, of a reduce-scatter each node gets what belongs to its members by an alltoall, and everything
//! else is an allgather. If each member has a node of its own, daemons combine one by one, too.
//!
//! Participants are numbered in the order in which their first members come, and what is packed lies in the order of
//! participants: *node by node*.

use serde::{Deserialize, Serialize};

use crate::collective::{CollectiveKind, CollectiveShape, Combination};

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
    /// Of each participant, ascending.
    members: Vec<Vec<u32>>,
}

/// What nodes bring together of a reduction that they can't combine on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// One of each node: what its members' inputs combine to.
    Nodes,
    /// Every member's input.
    Members,
}

impl<'a> Division<'a> {
    /// `nodes` says the participant of each member. `None` if these can't be: they are not numbered as they come.
    pub fn new(shape: &'a CollectiveShape, nodes: &'a [u16]) -> Option<Self> {
        let mut members: Vec<Vec<u32>> = Vec::new();
        for (member, &node) in (0..).zip(nodes) {
            match usize::from(node) {
                node if node < members.len() => members[node].push(member),
                node if node == members.len() => members.push(vec![member]),
                _ => return None,
            }
        }
        (nodes.len() == shape.members.len()).then_some(Self { shape, nodes, members })
    }

    /// How many nodes take part.
    pub fn participants(&self) -> usize {
        self.members.len()
    }

    /// The members on a node, ascending.
    pub fn on(&self, participant: u16) -> impl Iterator<Item = u32> + '_ {
        self.members[usize::from(participant)].iter().copied()
    }

    /// All members, node by node.
    pub fn node_by_node(&self) -> impl Iterator<Item = u32> + '_ {
        self.members.iter().flatten().copied()
    }

    /// Whether that is the order of the members, too.
    pub fn is_in_order(&self) -> bool {
        self.nodes.is_sorted()
    }

    /// What is brought together uncombined; `None` if daemons combine between the nodes, or nothing is combined.
    pub fn operands(&self) -> Option<Operands> {
        let shape = self.shape;
        let keeps_order = matches!(shape.kind, CollectiveKind::Scan | CollectiveKind::Exscan)
            || shape.combination == Some(Combination::User { is_commutative: false });
        let is_each_alone = self.participants() == shape.members.len();
        match shape.combination {
            None => None,
            _ if keeps_order && !self.is_in_order() => Some(Operands::Members),
            _ if shape.is_reproducible && !is_each_alone => Some(Operands::Members),
            Some(Combination::User { .. }) => Some(Operands::Nodes),
            Some(Combination::Predefined(..)) => None,
        }
    }

    /// Elements that an operand has for a node.
    pub fn operand_elements(&self, participant: u16) -> u64 {
        match self.shape.kind {
            CollectiveKind::ReduceScatter => self.parts(participant),
            _ => self.shape.counts.iter().sum(),
        }
    }

    /// Elements of the parts of a node's members.
    fn parts(&self, participant: u16) -> u64 {
        self.on(participant).map(|member| self.shape.part(member)).sum()
    }

    /// What happens between the nodes; its members are the participants.
    pub fn between(&self) -> CollectiveShape {
        let shape = self.shape;
        let root = self.nodes[shape.root as usize];
        let kind = match (shape.kind, self.operands()) {
            (CollectiveKind::Reduce, Some(_)) => CollectiveKind::Gather,
            (CollectiveKind::ReduceScatter, Some(_)) => CollectiveKind::Alltoall,
            (_, Some(_)) => CollectiveKind::Allgather,
            (CollectiveKind::Scan, None) => CollectiveKind::Exscan,
            (kind, None) => kind,
        };
        CollectiveShape {
            kind,
            members: (0..self.participants() as u32).collect(),
            root: if kind.has_root() { root.into() } else { 0 },
            combination: shape.combination.filter(|_| kind.combines()),
            counts: self.counts_between(),
            ..shape.clone()
        }
    }

    /// In no more steps than there are members, or pairs of nodes, or counts: whoever registers a large collective must not keep a daemon
    /// from everybody else.
    fn counts_between(&self) -> Vec<u64> {
        let nodes = || 0..self.participants() as u16;
        let members = |node: u16| self.members[usize::from(node)].len() as u64;
        let pairs = |pair: &dyn Fn(u16, u16) -> u64| -> Vec<u64> {
            nodes().flat_map(|from| nodes().map(move |to| pair(from, to))).collect()
        };
        let elements: Vec<u64> = match self.operands() {
            Some(_) => nodes().map(|node| self.operand_elements(node)).collect(),
            None => Vec::new(),
        };
        let brought = |operands, from: u16, to: u16| match operands {
            Operands::Nodes => elements[usize::from(to)],
            Operands::Members => elements[usize::from(to)] * members(from),
        };
        match (self.shape.kind, self.operands()) {
            (CollectiveKind::ReduceScatter, Some(operands)) => pairs(&|from, to| brought(operands, from, to)),
            (_, Some(operands)) => nodes().map(|from| brought(operands, from, from)).collect(),
            (
                CollectiveKind::ReduceScatter
                | CollectiveKind::Gather
                | CollectiveKind::Scatter
                | CollectiveKind::Allgather,
                None,
            ) => nodes().map(|node| self.parts(node)).collect(),
            (CollectiveKind::Alltoall, None) if self.shape.counts.len() == 1 => {
                pairs(&|from, to| self.shape.counts[0] * members(from) * members(to))
            }
            (CollectiveKind::Alltoall, None) => {
                let row = |from: u32, to: u16| self.on(to).map(|to| self.shape.pair(from, to)).sum::<u64>();
                pairs(&|from, to| self.on(from).map(|from| row(from, to)).sum())
            }
            _ => self.shape.counts.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Combination;
    use crate::limits::RANKS_PER_JOB_MAX;
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
    fn one_count_for_all_pairs_adds_up_as_one_for_each() {
        for nodes in [[0, 0, 0, 1, 1], [0, 1, 0, 1, 2], [0, 1, 2, 3, 4], [0; 5]] {
            let between = |counts| Division::new(&shape(CollectiveKind::Alltoall, counts), &nodes).unwrap().between();
            assert_eq!(between(&[3]), between(&[3; 25]));
        }
    }

    /// There are 2³⁴ pairs of members.
    #[test]
    fn as_many_members_as_can_be_are_divided_at_once() {
        const NODES: u32 = 1 << 9;
        let size = RANKS_PER_JOB_MAX;
        let nodes: Vec<u16> = (0..size).map(|rank| (rank % 2) as u16).collect();
        let large = |kind, counts: &[u64]| CollectiveShape { members: (0..size).collect(), ..shape(kind, counts) };
        let alltoall = large(CollectiveKind::Alltoall, &[1]);
        assert_eq!(alltoall.elements(7), (size.into(), size.into()));
        let half = u64::from(size / 2);
        assert_eq!(Division::new(&alltoall, &nodes).unwrap().between().counts, [half * half; 4]);

        let nodes: Vec<u16> = (0..size).map(|rank| (rank % NODES) as u16).collect();
        let reduction = large(CollectiveKind::ReduceScatter, &vec![1; size as usize]);
        let user = Some(Combination::User { is_commutative: true });
        let between = Division::new(&CollectiveShape { combination: user, ..reduction }, &nodes).unwrap().between();
        assert_eq!((between.counts.len(), between.counts[5]), (NODES.pow(2) as usize, u64::from(size / NODES)));
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

    const REDUCTIONS: [CollectiveKind; 3] =
        [CollectiveKind::Reduce, CollectiveKind::Allreduce, CollectiveKind::ReduceScatter];

    fn reduction(kind: CollectiveKind) -> CollectiveShape {
        let counts: &[u64] = if kind == CollectiveKind::ReduceScatter { &[1, 0, 2, 3, 1] } else { &[7] };
        shape(kind, counts)
    }

    /// What happens between nodes if operands come together, so many of each.
    fn assert_brought(shape: &CollectiveShape, nodes: &[u16], operands: [u64; 3]) {
        assert_eq!(shape.check(), Ok(()));
        let division = Division::new(shape, nodes).unwrap();
        let (between, lengths) = (division.between(), [0, 1, 2].map(|node| division.operand_elements(node)));
        let (kind, counts) = match shape.kind {
            CollectiveKind::Reduce => (CollectiveKind::Gather, operands.map(|each| each * 7).to_vec()),
            CollectiveKind::ReduceScatter => (
                CollectiveKind::Alltoall,
                operands.iter().flat_map(|each| lengths.map(|length| each * length)).collect(),
            ),
            _ => (CollectiveKind::Allgather, operands.map(|each| each * 7).to_vec()),
        };
        assert_eq!((between.kind, between.combination, between.counts.clone()), (kind, None, counts));
        assert_eq!(between.check(), Ok(()));
    }

    const IN_ORDER: [u16; 5] = [0, 0, 1, 1, 2];
    const MIXED: [u16; 5] = [0, 1, 0, 1, 2];

    #[test]
    fn daemons_combine_what_they_can() {
        for kind in REDUCTIONS {
            let free = reduction(kind);
            assert_eq!(Division::new(&free, &MIXED).unwrap().between().kind, kind);
            let reproducible = CollectiveShape { is_reproducible: true, ..free };
            assert_brought(&reproducible, &IN_ORDER, [2, 2, 1]);
            let each_alone = Division::new(&reproducible, &[0, 1, 2, 3, 4]).unwrap().between();
            assert_eq!((each_alone.kind, each_alone.is_reproducible), (kind, true));
        }
    }

    #[test]
    fn by_a_users_operator_nodes_combine_what_is_in_order_or_commutes() {
        for kind in REDUCTIONS {
            let user = |is_commutative, is_reproducible| {
                let combination = Some(Combination::User { is_commutative });
                CollectiveShape { combination, is_reproducible, ..reduction(kind) }
            };
            assert_brought(&user(false, false), &IN_ORDER, [1; 3]);
            assert_brought(&user(false, false), &MIXED, [2, 2, 1]);
            assert_brought(&user(true, false), &MIXED, [1; 3]);
            assert_brought(&user(true, true), &IN_ORDER, [2, 2, 1]);
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
