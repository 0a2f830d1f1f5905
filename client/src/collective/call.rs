//! What all ranks say alike when they call a collective.

use std::borrow::Cow;
use std::sync::Arc;

use ropeway_proto::Rank;
use ropeway_proto::collective::{CollectiveKind, CollectiveShape};

use super::operator::{Combining, Function};
use crate::plain::element_bytes;
use crate::{Combine, Plain};

/// What all ranks say alike. Equal calls share what is registered for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call<'a> {
    pub(super) kind: CollectiveKind,
    /// Zero if there is none.
    pub(super) root: u32,
    pub(super) combining: Option<Combining>,
    pub(super) element_bytes: u32,
    pub(super) counts: Counts<'a>,
    /// By which the nodes do it, if that matters to the program.
    pub(super) algorithm: Option<Arc<str>>,
}

/// Elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counts<'a> {
    /// Of the vector; or of each part, where the operation deals in parts.
    Alike(usize),
    /// Of each rank's part; or from each rank to each.
    Each(Cow<'a, [usize]>),
}

impl<'a> Counts<'a> {
    pub(super) fn each(counts: &'a [usize]) -> Self {
        Self::Each(Cow::Borrowed(counts))
    }
}

impl<'a> Call<'a> {
    pub(super) fn new<T: Plain>(kind: CollectiveKind, root: u32, counts: Counts<'a>) -> Self {
        Self { kind, root, combining: None, element_bytes: element_bytes::<T>() as u32, counts, algorithm: None }
    }

    pub(super) fn combining<T: Plain>(kind: CollectiveKind, counts: Counts<'a>, operator: impl Combine<T>) -> Self {
        Self { combining: Some(operator.combining()), ..Self::new::<T>(kind, 0, counts) }
    }

    pub(super) fn by(self, algorithm: Option<&Arc<str>>) -> Self {
        Self { algorithm: algorithm.cloned(), ..self }
    }

    pub(super) fn with_root(self, root: u32) -> Self {
        Self { root, ..self }
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
        CollectiveShape {
            kind: self.kind,
            members,
            root: self.root,
            combination: self.combining.as_ref().map(|combining| combining.combination),
            element_bytes: self.element_bytes,
            counts,
            is_reproducible: self.combining.as_ref().is_some_and(|combining| combining.is_reproducible),
            algorithm: self.algorithm.as_deref().map(str::to_owned),
        }
    }

    /// The function that combines, if it is a user's.
    pub(super) fn function(&self) -> Option<&Function> {
        self.combining.as_ref()?.function.as_ref()
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
