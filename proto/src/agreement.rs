//! Whether members of a collective who live on different nodes have registered the same.
//!
//! Nodes can't compare shapes, which may be long; they compare digests, which are 16 bytes and still tell what differs.

use std::fmt;

use crate::collective::{CollectiveShape, Combination};
use crate::ids::Rank;

/// A shape in four words: the same for the same shapes, and others for others, but for one pair in 2³².
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShapeDigest {
    operation: u8,
    is_reproducible: bool,
    /// Codes of operator and element; 0 for none, all ones for one of the program, but for the last bit if it commutes.
    combination: u16,
    root: u32,
    /// Checksum of counts and size of elements.
    counts: u32,
    /// Checksum of what is left: members and algorithm.
    rest: u32,
}

/// In what two members differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Difference {
    /// One has a broadcast where the other has a reduction.
    Operation = 1,
    /// The root.
    Root = 2,
    /// Operator, type of elements, or whether the result is to be reproducible.
    Operator = 3,
    /// Counts, or bytes of an element.
    Counts = 4,
    /// The communicator's members, or the algorithm that was asked for.
    Otherwise = 5,
    /// Whatever it is, it sends messages of other lengths, which came before news of it.
    Lengths = 6,
}

/// What a node says of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// A member that lives there.
    pub rank: Rank,
    /// What it has registered.
    pub digest: ShapeDigest,
    /// Another member, of any node, that has registered something else, and in what it differs.
    pub dissenter: Option<(Rank, Difference)>,
}

impl ShapeDigest {
    /// The digest of a shape.
    pub fn of(shape: &CollectiveShape) -> Self {
        let (sum, sum_u32) = (checksum::<8>, checksum::<4>);
        let counts = sum(shape.element_bytes, shape.counts.iter().map(|count| count.to_le_bytes()));
        let members = sum_u32(shape.size(), shape.members.iter().map(|rank| rank.to_le_bytes()));
        let algorithm = shape.algorithm.as_deref().unwrap_or_default();
        Self {
            operation: shape.kind as u8,
            is_reproducible: shape.is_reproducible,
            combination: match shape.combination {
                None => 0,
                Some(Combination::Predefined(operator, element)) => u16::from_le_bytes([operator, element]),
                Some(Combination::User { is_commutative }) => u16::MAX - u16::from(is_commutative),
            },
            root: shape.root,
            counts,
            rest: crc32c::crc32c_append(members, algorithm.as_bytes()),
        }
    }

    /// In what first another one differs.
    pub fn difference(&self, other: &Self) -> Option<Difference> {
        let operator = |digest: &Self| (digest.combination, digest.is_reproducible);
        let alike = [
            (Difference::Operation, self.operation == other.operation),
            (Difference::Root, self.root == other.root),
            (Difference::Operator, operator(self) == operator(other)),
            (Difference::Counts, self.counts == other.counts),
            (Difference::Otherwise, self.rest == other.rest),
        ];
        alike.into_iter().find(|(_, is_alike)| !is_alike).map(|(difference, _)| difference)
    }

    pub(crate) fn to_bits(self) -> (u64, u64) {
        let [low, high] = self.combination.to_le_bytes();
        let how = u32::from_le_bytes([self.operation, u8::from(self.is_reproducible), low, high]);
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        (pair(how, self.root), pair(self.counts, self.rest))
    }

    pub(crate) fn from_bits((first, second): (u64, u64)) -> Self {
        let [operation, is_reproducible, low, high] = (first as u32).to_le_bytes();
        Self {
            operation,
            is_reproducible: is_reproducible != 0,
            combination: u16::from_le_bytes([low, high]),
            root: (first >> 32) as u32,
            counts: second as u32,
            rest: (second >> 32) as u32,
        }
    }
}

fn checksum<const N: usize>(seed: u32, words: impl Iterator<Item = [u8; N]>) -> u32 {
    words.fold(crc32c::crc32c(&seed.to_le_bytes()), |sum, word| crc32c::crc32c_append(sum, &word))
}

impl Statement {
    /// Who differs from a member that has registered `digest`, as far as this tells, and in what.
    pub fn dissenter_from(&self, digest: &ShapeDigest) -> Option<(Rank, Difference)> {
        digest.difference(&self.digest).map(|difference| (self.rank, difference)).or(self.dissenter)
    }
}

impl Difference {
    const ALL: [Self; 6] = [Self::Operation, Self::Root, Self::Operator, Self::Counts, Self::Otherwise, Self::Lengths];

    /// The code as it stands in frames and in memory.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The difference with this code, if there is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|difference| difference.code() == code)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operation => "another operation",
            Self::Root => "another root",
            Self::Operator => "another operator, or another type of elements",
            Self::Counts => "other counts, or elements of another size",
            Self::Otherwise => "other members, or another algorithm",
            Self::Lengths => "its messages have other lengths",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::CollectiveKind;
    use proptest::prelude::*;

    const USER: Combination = Combination::User { is_commutative: false };

    fn shape() -> CollectiveShape {
        CollectiveShape {
            kind: CollectiveKind::Reduce,
            members: vec![4, 5, 6],
            root: 1,
            combination: Some(Combination::Predefined(1, 2)),
            element_bytes: 8,
            counts: vec![7],
            is_reproducible: false,
            algorithm: None,
        }
    }

    #[test]
    fn a_digest_tells_what_differs() {
        let (one, digest) = (shape(), ShapeDigest::of(&shape()));
        let cases = [
            (CollectiveShape { kind: CollectiveKind::Bcast, root: 0, ..one.clone() }, Difference::Operation),
            (CollectiveShape { root: 2, ..one.clone() }, Difference::Root),
            (CollectiveShape { combination: Some(USER), ..one.clone() }, Difference::Operator),
            (CollectiveShape { combination: Some(Combination::Predefined(2, 1)), ..one.clone() }, Difference::Operator),
            (CollectiveShape { is_reproducible: true, ..one.clone() }, Difference::Operator),
            (CollectiveShape { counts: vec![8], ..one.clone() }, Difference::Counts),
            (CollectiveShape { element_bytes: 4, counts: vec![14], ..one.clone() }, Difference::Counts),
            (CollectiveShape { members: vec![4, 6, 5], ..one.clone() }, Difference::Otherwise),
            (CollectiveShape { algorithm: Some("ring".into()), ..one.clone() }, Difference::Otherwise),
        ];
        assert_eq!(digest.difference(&ShapeDigest::of(&one)), None);
        for (other, difference) in cases {
            assert_eq!(digest.difference(&ShapeDigest::of(&other)), Some(difference), "{other:?}");
            assert_eq!(Difference::from_code(difference.code()), Some(difference));
        }
        assert_eq!((Difference::from_code(0), Difference::from_code(7)), (None, None));
    }

    #[test]
    fn whether_an_operator_commutes_is_agreed_on() {
        let digest = |is_commutative| {
            let combination = Some(Combination::User { is_commutative });
            ShapeDigest::of(&CollectiveShape { combination, ..shape() })
        };
        assert_eq!(digest(true).difference(&digest(false)), Some(Difference::Operator));
    }

    #[test]
    fn a_statement_names_whom_its_hearer_differs_from() {
        let (digest, other) = (ShapeDigest::of(&shape()), ShapeDigest::of(&CollectiveShape { root: 0, ..shape() }));
        let agreed = Statement { rank: 3, digest, dissenter: None };
        let disputed = Statement { dissenter: Some((4, Difference::Root)), ..agreed };
        assert_eq!(agreed.dissenter_from(&digest), None);
        assert_eq!(agreed.dissenter_from(&other), Some((3, Difference::Root)));
        assert_eq!(disputed.dissenter_from(&digest), Some((4, Difference::Root)));
        assert_eq!(disputed.dissenter_from(&other), Some((3, Difference::Root)));
    }

    proptest! {
        #[test]
        fn a_digest_keeps_its_bits(root in any::<u32>(), counts in any::<Vec<u64>>(), is_reproducible in any::<bool>()) {
            let digest = ShapeDigest::of(&CollectiveShape { root, counts, is_reproducible, ..shape() });
            prop_assert_eq!(ShapeDigest::from_bits(digest.to_bits()), digest);
        }
    }
}
