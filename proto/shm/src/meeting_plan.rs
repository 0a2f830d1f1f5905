//! What is written down of a meeting, for its members to read.

use std::sync::Arc;

use ropeway_proto::collective::{CollectiveMember, CollectiveShape};
use ropeway_proto::division::Span;
use serde::{Deserialize, Serialize};

/// What is written down of a meeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeetingPlan {
    /// The members on this node, in order.
    pub members: Vec<CollectiveMember>,
    /// Of what the others know, if there are members on other nodes.
    pub span: Option<Span>,
}

/// The same as it lies in the segment, where each member reads it.
#[derive(Serialize, Deserialize)]
struct Description {
    shape: Arc<CollectiveShape>,
    members: Vec<DescribedMember>,
    span: Option<Span>,
}

/// Of a member: number, rank, where its input and its output lie.
#[derive(Serialize, Deserialize)]
struct DescribedMember(u32, u32, u64, u64);

impl From<&MeetingPlan> for Description {
    fn from(MeetingPlan { members, span }: &MeetingPlan) -> Self {
        let shape = Arc::clone(&members.first().expect("a meeting has members").shape);
        debug_assert!(members.iter().all(|member| member.shape == shape), "all members say it alike");
        let described = |member: &CollectiveMember| {
            let CollectiveMember { number, rank, input, output, .. } = *member;
            DescribedMember(number, rank, input, output)
        };
        Self { shape, members: members.iter().map(described).collect(), span: span.clone() }
    }
}

impl From<Description> for MeetingPlan {
    fn from(Description { shape, members, span }: Description) -> Self {
        let member = |DescribedMember(number, rank, input, output)| {
            let shape = Arc::clone(&shape);
            CollectiveMember { shape, number, rank, input, output }
        };
        Self { members: members.into_iter().map(member).collect(), span }
    }
}

impl MeetingPlan {
    /// As bytes.
    pub(crate) fn describe(&self) -> Vec<u8> {
        serde_json::to_vec(&Description::from(self)).expect("registrations have no maps with odd keys")
    }

    /// The plan of which these are the bytes.
    pub(crate) fn read(description: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Description>(description).ok().map(Self::from)
    }
}
