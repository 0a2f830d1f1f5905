//! What all ranks say alike when they call a collective.

use std::borrow::Cow;

use ropeway_proto::Rank;
use ropeway_proto::collective::{CollectiveKind, CollectiveShape};
use ropeway_proto::operator::Operator;

use super::registration::combination;
use crate::plain::element_bytes;
use crate::{Plain, Reducible};

/// What all ranks say alike. Equal calls share what is registered for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    pub(super) kind: CollectiveKind,
    /// Zero if there is none.
    pub(super) root: u32,
    pub(super) combination: Option<(u8, u8)>,
    pub(super) element_bytes: u32,
    pub(super) counts: Counts<'a>,
}

/// Elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counts<'a> {
    /// Of the vector; or of each part, where the operation deals in parts.
    Alike(usize),
    /// Of each rank's part; or from each rank to each.
    Each(Cow<'a, [usize]>),
}

impl<'a> Call<'a> {
    pub(super) fn new<T: Plain>(kind: CollectiveKind, root: u32, counts: Counts<'a>) -> Self {
        Self { kind, root, combination: None, element_bytes: element_bytes::<T>() as u32, counts }
    }

    pub(super) fn combining<T: Reducible>(kind: CollectiveKind, counts: Counts<'a>, operator: Operator) -> Self {
        Self { combination: combination::<T>(operator), ..Self::new::<T>(kind, 0, counts) }
    }

    /// To be remembered.
    pub(super) fn into_owned(self) -> Call<'static> {
        let counts = match self.counts {
            Counts::Alike(count) => Counts::Alike(count),
            Counts::Each(counts) => Counts::Each(Cow::Owned(counts.into_owned())),
        };
        Call { counts, ..self }
    }

    /// As it is registered.
    pub(super) fn shape(&self, members: Vec<Rank>) -> CollectiveShape {
        let counts = match &self.counts {
            Counts::Alike(_) if self.kind == CollectiveKind::Barrier => vec![],
            Counts::Alike(count) if self.deals_in_parts() => vec![*count as u64; members.len()],
            Counts::Alike(count) => vec![*count as u64],
            Counts::Each(counts) => counts.iter().map(|&count| count as u64).collect(),
        };
        let Self { kind, root, combination, element_bytes, .. } = *self;
        CollectiveShape { kind, members, root, combination, element_bytes, counts, is_reproducible: false }
    }

    /// About the largest array any rank has for it, in bytes. The same on all ranks.
    pub(super) fn bytes(&self, ranks: u32) -> u64 {
        let elements = match &self.counts {
            Counts::Alike(count) if self.deals_in_parts() || self.kind == CollectiveKind::Alltoall => {
                *count as u64 * u64::from(ranks)
            }
            Counts::Alike(count) => *count as u64,
            Counts::Each(counts) => counts.iter().map(|&count| count as u64).sum(),
        };
        elements * u64::from(self.element_bytes)
    }

    /// Whether there is a count for each rank.
    fn deals_in_parts(&self) -> bool {
        matches!(
            self.kind,
            CollectiveKind::ReduceScatter
                | CollectiveKind::Gather
                | CollectiveKind::Scatter
                | CollectiveKind::Allgather
        )
    }
}
