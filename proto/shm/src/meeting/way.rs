//! Which way a collective's data takes within a node.

use crate::collect_area::CollectArea;
use crate::job::JobSegment;
use crate::meeting_plan::MeetingPlan;
use crate::pair_area::PairArea;
use crate::relay_area::RelayArea;
use crate::share::SharedFunction;

/// How members get what others have.
#[repr(u8)]
pub(super) enum Way {
    /// All meet, and then share out the work.
    Together,
    /// Small broadcasts and scatters go through cells of the root.
    Relay(RelayArea),
    /// Small parts lie in cells of each member, until the root takes them.
    Collect(CollectArea),
    /// What is larger goes between the root and each of the others.
    Pairs(PairArea),
}

impl Way {
    /// What a plan goes by whose areas lie at `at`.
    pub(super) fn at(job: &JobSegment, at: u64, plan: &MeetingPlan, function: Option<&SharedFunction>) -> Self {
        let relay = || RelayArea::at(job, at, plan).map(Self::Relay);
        let collect = || CollectArea::at(job, at, plan, function).map(Self::Collect);
        let pairs = || PairArea::at(job, at, plan).map(Self::Pairs);
        relay().or_else(collect).or_else(pairs).unwrap_or(Self::Together)
    }

    pub(super) fn reset(&self) {
        match self {
            Self::Together => {}
            Self::Relay(area) => area.reset(),
            Self::Collect(area) => area.reset(),
            Self::Pairs(area) => area.reset(),
        }
    }
}
