//! What the members of a collective agree on when they register it.
//!
//! Members are numbered in the order of their communicator; `rank` here is such a number. A collective operation is registered
//! by all members, the k-th of one with the k-th of all others, and bound when the last has come.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::Rank;
use crate::limits::{CROSSING_BYTES_MAX, CROSSING_MEMBERS_MAX, MESSAGE_BYTES_MAX, RANKS_PER_JOB_MAX};
use crate::operator::{ElementType, Operator};

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CollectiveKind {
    /// Nobody goes on before everybody has come.
    Barrier,
    /// The root's buffer goes to everybody.
    Bcast,
    /// Everybody's inputs, combined, to the root.
    Reduce,
    /// Everybody's inputs, combined, to everybody.
    Allreduce,
    /// Everybody's inputs, combined, a part to each.
    ReduceScatter,
    /// The inputs up to and with one's own, combined.
    Scan,
    /// The inputs before one's own, combined; the first member's output is left as it is.
    Exscan,
    /// Everybody's inputs, one behind the other, to the root.
    Gather,
    /// The root's input, a part to each.
    Scatter,
    /// Everybody's inputs, one behind the other, to everybody.
    Allgather,
    /// A part of each input to each.
    Alltoall,
}

impl CollectiveKind {
    /// Whether it has a root.
    pub fn has_root(self) -> bool {
        matches!(self, Self::Bcast | Self::Reduce | Self::Gather | Self::Scatter)
    }

    /// Whether it combines.
    pub fn combines(self) -> bool {
        matches!(self, Self::Reduce | Self::Allreduce | Self::ReduceScatter | Self::Scan | Self::Exscan)
    }
}

/// How elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Combination {
    /// By a predefined operator: codes of operator and type of an element.
    Predefined(u8, u8),
    /// By a function of the program, which its processes have and no daemon has. Elements are bytes.
    User {
        /// Whether operands may change places.
        is_commutative: bool,
    },
}

/// What all members say alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub struct CollectiveShape {
    pub kind: CollectiveKind,
    /// Ranks of the job, by number.
    pub members: Vec<Rank>,
    /// Number of the root; zero if there is none.
    pub root: u32,
    /// How elements are combined, if they are.
    pub combination: Option<Combination>,
    pub element_bytes: u32,
    /// Elements: of the vector; or of each member's part, where the operation deals in parts; or, of an alltoall, from each
    /// member to each, row by row of senders, or one for all of them.
    pub counts: Vec<u64>,
    /// Whether the result is to be the same to the last bit wherever the members live: combined in their order, one by one.
    #[serde(default)]
    pub is_reproducible: bool,
    /// What happens between nodes, by the name of an algorithm; chosen by its costs if there is none.
    #[serde(default)]
    pub algorithm: Option<String>,
}

/// What one member says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub struct CollectiveMember {
    /// Of many members on a node it is kept once: it has a number for each of them, or even each pair.
    pub shape: Arc<CollectiveShape>,
    /// Which collective of its communicator this is.
    pub number: u32,
    /// The member's own number.
    pub rank: u32,
    /// Where its buffers lie in the segment: input and output. The same if it works in place.
    pub input: u64,
    pub output: u64,
}

/// Why a registration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum ShapeError {
    #[error("a collective needs at least one member, and no rank twice")]
    Members,
    #[error("root {root} is outside of {members} members")]
    Root { root: u32, members: usize },
    #[error("{found} counts where {expected} are needed")]
    Counts { found: usize, expected: usize },
    #[error("the counts are larger than any message")]
    TooLarge,
    #[error("{operator} is not defined for these elements")]
    Operator { operator: String },
    #[error("this operation needs an operator, or must not have one")]
    Combination,
}

impl CollectiveShape {
    /// How many members.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// Predefined operator and elements; `None` if there is none, or nothing is combined.
    pub fn combination(&self) -> Option<(Operator, ElementType)> {
        let Some(Combination::Predefined(operator, element)) = self.combination else { return None };
        Operator::from_code(operator).zip(ElementType::from_code(element))
    }

    /// Whether elements are combined by a function of the program.
    pub fn has_user_operator(&self) -> bool {
        matches!(self.combination, Some(Combination::User { .. }))
    }

    /// Whether results are rounded, and so depend on which elements are combined first: sums and products of floats.
    fn is_rounded(&self) -> bool {
        let is_rounded = |(operator, element): (Operator, ElementType)| {
            matches!(operator, Operator::Sum | Operator::Prod) && !element.scalar.is_integer()
        };
        self.combination().is_some_and(is_rounded)
    }

    /// Decides whether, after the first round, messages go straight from rank to rank; all members decide alike. If so the first round, which
    /// is the daemons', is to come to the same sums as those that follow: they combine in the order of ranks. `node_of` says where a rank
    /// lives, if that node has wires.
    pub fn decide_to_go_straight(&mut self, node_of: impl Fn(Rank) -> Option<usize>) -> bool {
        let goes_straight = self.can_go_straight(node_of);
        self.is_reproducible |= goes_straight && self.is_rounded();
        goes_straight
    }

    /// If messages are small, and the members few, on a node each.
    fn can_go_straight(&self, node_of: impl Fn(Rank) -> Option<usize>) -> bool {
        let mut nodes: Vec<_> = self.members.iter().map(|&rank| node_of(rank)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let is_each_alone = nodes.len() == self.members.len() && nodes.iter().all(Option::is_some);
        let largest = self.counts.iter().max().map_or(0, |&count| count.saturating_mul(self.element_bytes.into()));
        is_each_alone
            && (2..=CROSSING_MEMBERS_MAX).contains(&self.members.len())
            && largest.saturating_mul(self.members.len() as u64 - 1) <= CROSSING_BYTES_MAX
            && self.algorithm.is_none()
            && !self.has_user_operator()
    }

    /// Checks what can be checked without the other members.
    pub fn check(&self) -> Result<(), ShapeError> {
        let size = self.members.len();
        let mut sorted = self.members.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if size == 0 || sorted.len() != size || size > RANKS_PER_JOB_MAX as usize {
            return Err(ShapeError::Members);
        }
        if self.root as usize >= size {
            return Err(ShapeError::Root { root: self.root, members: size });
        }
        let expected = match self.kind {
            CollectiveKind::Barrier => 0,
            CollectiveKind::ReduceScatter
            | CollectiveKind::Gather
            | CollectiveKind::Scatter
            | CollectiveKind::Allgather => size,
            CollectiveKind::Alltoall if self.counts.len() != 1 => size * size,
            _ => 1,
        };
        if self.counts.len() != expected {
            return Err(ShapeError::Counts { found: self.counts.len(), expected });
        }
        let elements = self.counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(count));
        let has_pairs = self.kind == CollectiveKind::Alltoall && self.counts.len() == 1;
        let pairs = if has_pairs { size as u64 * size as u64 } else { 1 };
        let bytes = elements.and_then(|sum| sum.checked_mul(pairs)?.checked_mul(self.element_bytes.into()));
        if self.element_bytes == 0 || bytes.is_none_or(|bytes| bytes > MESSAGE_BYTES_MAX) {
            return Err(ShapeError::TooLarge);
        }
        match (self.kind.combines(), self.combination, self.combination()) {
            (false, None, _) | (true, Some(Combination::User { .. }), _) => Ok(()),
            (true, _, Some((operator, element))) if !operator.is_defined_for(element) => {
                Err(ShapeError::Operator { operator: operator.to_string() })
            }
            (true, _, Some((_, element))) if element.bytes() == self.element_bytes as usize => Ok(()),
            _ => Err(ShapeError::Combination),
        }
    }

    /// Elements of a member's part, where the operation deals in parts.
    pub fn part(&self, rank: u32) -> u64 {
        self.counts[rank as usize]
    }

    /// Elements before a member's part.
    pub fn before(&self, rank: u32) -> u64 {
        self.counts[..rank as usize].iter().sum()
    }

    /// Elements that `from` has for `to` in an alltoall.
    pub fn pair(&self, from: u32, to: u32) -> u64 {
        match self.counts[..] {
            [count] => count,
            _ => self.counts[(from * self.size() + to) as usize],
        }
    }

    /// Elements of a member's input and output.
    pub fn elements(&self, rank: u32) -> (u64, u64) {
        let all = || self.counts.iter().sum();
        let for_root = |elements: u64| if rank == self.root { elements } else { 0 };
        match self.kind {
            CollectiveKind::Barrier => (0, 0),
            // One buffer, the output.
            CollectiveKind::Bcast => (0, self.counts[0]),
            CollectiveKind::Reduce => (self.counts[0], for_root(self.counts[0])),
            CollectiveKind::Allreduce | CollectiveKind::Scan | CollectiveKind::Exscan => {
                (self.counts[0], self.counts[0])
            }
            CollectiveKind::ReduceScatter => (all(), self.part(rank)),
            CollectiveKind::Gather => (self.part(rank), for_root(all())),
            CollectiveKind::Scatter => (for_root(all()), self.part(rank)),
            CollectiveKind::Allgather => (self.part(rank), all()),
            CollectiveKind::Alltoall if self.counts.len() == 1 => {
                let sum = self.counts[0] * u64::from(self.size());
                (sum, sum)
            }
            CollectiveKind::Alltoall => {
                let sum = |pair: &dyn Fn(u32) -> u64| (0..self.size()).map(pair).sum();
                (sum(&|to| self.pair(rank, to)), sum(&|from| self.pair(from, rank)))
            }
        }
    }
}

impl CollectiveMember {
    /// Bytes of its input and output.
    pub fn bytes(&self) -> (u64, u64) {
        let (input, output) = self.shape.elements(self.rank);
        let bytes = u64::from(self.shape.element_bytes);
        (input * bytes, output * bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: CollectiveKind, ranks: u32, count: u64) -> CollectiveShape {
        CollectiveShape {
            kind,
            members: (0..ranks).collect(),
            root: 0,
            combination: None,
            element_bytes: 8,
            counts: vec![count],
            is_reproducible: false,
            algorithm: None,
        }
    }

    #[test]
    fn only_what_differs_for_each_pair_of_ranks_adds_up() {
        let largest = MESSAGE_BYTES_MAX / 8;
        for ranks in [1, 2, 64, 1024] {
            let pairs = u64::from(ranks * ranks);
            for (kind, count) in [(CollectiveKind::Bcast, largest), (CollectiveKind::Alltoall, largest / pairs)] {
                assert!(of(kind, ranks, count).check().is_ok(), "{kind:?}, {ranks} ranks");
                assert!(matches!(of(kind, ranks, count + 1).check(), Err(ShapeError::TooLarge)), "{kind:?}");
            }
        }
    }
}
