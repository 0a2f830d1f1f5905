//! What can be compared, and which figures come of it.

use std::fmt;
use std::io;
use std::str::FromStr;

use ropeway_examples::Mode;
use serde::{Deserialize, Serialize};

use crate::computation::Compute;
use crate::operation::{Operation, UnknownOperation};
use crate::record::{Floor, Side};
use crate::statistics::Summary;
use crate::{Console, Measured};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Half a round trip, of all pairs of ranks at once.
    Latency,
    /// Windows of up to 64 messages from the lower half of the ranks to the upper.
    Bandwidth,
    /// Every rank sends to its right and receives from its left.
    Exchange,
    /// What all ranks do together.
    Collective(Operation),
    /// How much of a message, or of a collective, hides behind computation.
    Overlap(Option<Operation>),
    /// How much of a receive goes on while the program computes.
    Asynchrony,
    /// The share of set-up in a message's overhead, and what binding saves of its time.
    Persistence,
    /// What the calls cost that start a message, and the one that finds it has ended.
    Overhead,
    /// A program of blocking calls that sorts integers, as NPB's IS.
    IntegerSort,
    /// A program of blocking calls that solves a linear system, as NPB's CG.
    ConjugateGradients,
}

/// A contest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contest {
    /// Which.
    pub kind: Kind,
    /// Whether messages are written anew before each send.
    pub touch: bool,
    /// How long a batch takes.
    pub batch_s: f64,
}

/// A figure that a contest makes of each size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What it is.
    pub metric: &'static str,
    /// In which unit.
    pub unit: &'static str,
    /// Who sends, where that is compared.
    pub side: Option<Side>,
    /// What is computed meanwhile.
    pub compute: Option<Compute>,
}

impl Kind {
    /// Those of pairs and rings.
    pub const OF_MESSAGES: [Self; 3] = [Self::Latency, Self::Bandwidth, Self::Exchange];
    /// What part of communication needs no waiting, or no repeating, and what calls cost: as the benchmarks of these names find out.
    pub const OF_BENCHMARKS: [Self; 4] = [Self::Overlap(None), Self::Asynchrony, Self::Persistence, Self::Overhead];
    /// Programs that neither register anything nor overlap.
    pub const OF_KERNELS: [Self; 2] = [Self::IntegerSort, Self::ConjugateGradients];

    /// The collective, if it is the time of one.
    pub fn operation(self) -> Option<Operation> {
        match self {
            Self::Collective(operation) => Some(operation),
            _ => None,
        }
    }

    /// Whether both sides do what a benchmark of ours does, and not rounds that fill batches.
    pub fn is_benchmark(self) -> bool {
        matches!(self, Self::Overlap(_) | Self::Asynchrony | Self::Persistence | Self::Overhead)
    }

    /// How our side calls: all of it once, or anew each time.
    pub fn mode(self) -> Mode {
        if Self::OF_KERNELS.contains(&self) { Mode::OneShot } else { Mode::Persistent }
    }

    /// How the other side does, in turns.
    pub fn rival_forms(self) -> &'static [&'static str] {
        match self {
            // A window is many messages at once, and what overlaps has begun before it ends: neither has a blocking form.
            Self::Bandwidth | Self::Overlap(_) | Self::Asynchrony | Self::Overhead => &["persistent", "nonblocking"],
            Self::Latency | Self::Exchange | Self::Collective(_) => &["persistent", "nonblocking", "blocking"],
            // Both kinds of messages make one figure.
            Self::Persistence => &["persistent"],
            Self::IntegerSort | Self::ConjugateGradients => &["blocking"],
        }
    }

    /// All figures of a size, in the order in which both sides tell them.
    pub fn figures(self) -> Vec<Figure> {
        let one = |metric, unit| vec![Figure { metric, unit, side: None, compute: None }];
        match self {
            Self::Latency => one("half_rtt", "us"),
            Self::Bandwidth => one("bandwidth", "MB/s"),
            Self::Exchange => one("rate", "msg/s"),
            Self::Collective(_) => one("latency", "us"),
            Self::IntegerSort | Self::ConjugateGradients => one("time", "us"),
            Self::Overlap(_) | Self::Asynchrony | Self::Persistence | Self::Overhead => {
                let figures = |(side, compute)| {
                    self.figures_of_case().iter().map(move |&(metric, unit)| Figure { metric, unit, side, compute })
                };
                self.cases().into_iter().flat_map(figures).collect()
            }
        }
    }

    /// Who sends, and what is computed meanwhile, one after the other.
    pub(super) fn cases(self) -> Vec<(Option<Side>, Option<Compute>)> {
        let computing = |side| Compute::ALL.map(|compute| (side, Some(compute)));
        match self {
            Self::Overlap(None) => Side::ALL.into_iter().flat_map(|side| computing(Some(side))).collect(),
            Self::Overlap(Some(_)) => computing(None).into(),
            Self::Asynchrony => computing(Some(Side::Recv)).into(),
            _ => vec![(None, None)],
        }
    }

    /// Name and unit of the figures of each case. A share comes first, then what it is a share of.
    pub(super) fn figures_of_case(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Overlap(_) => &[("d_o", "ratio"), ("t_y", "us"), ("availability", "ratio")],
            Self::Asynchrony => &[("d_a", "ratio"), ("t_comm", "us"), ("t_async", "us")],
            Self::Persistence => &[("d_p", "ratio"), ("o", "ns"), ("o_s", "ns"), ("o_i", "ns"), ("saved", "ratio")],
            Self::Overhead => &[("start_send", "ns"), ("start_recv", "ns"), ("wait_done", "ns")],
            _ => &[],
        }
    }
}

impl Figure {
    /// Whether it is a share, so that differences say more than ratios.
    pub fn is_share(&self) -> bool {
        self.unit == "ratio"
    }

    /// Tells the tool its samples, if this rank keeps the time.
    pub(super) fn tell(
        &self,
        console: &mut Console,
        label: &str,
        (kind, bytes): (Kind, usize),
        samples: &[f64],
        floor: Option<Floor>,
    ) -> io::Result<()> {
        if samples.is_empty() {
            return Ok(());
        }
        let &Self { metric, unit, side, compute } = self;
        let measured = Measured::new(metric, unit, Summary::in_unit(unit, samples), 1);
        console
            .outcome(label, Measured { mode: Some(kind.mode()), bytes: Some(bytes), side, compute, floor, ..measured })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Exchange => "exchange",
            Self::Collective(operation) => return operation.fmt(f),
            Self::Overlap(None) => "overlap",
            Self::Overlap(Some(operation)) => return f.pad(&format!("{OVERLAP_OF}{operation}")),
            Self::Asynchrony => "asynchrony",
            Self::Persistence => "persistence",
            Self::Overhead => "overhead",
            Self::IntegerSort => "is",
            Self::ConjugateGradients => "cg",
        })
    }
}

/// A word that is not a [`Kind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "is neither latency, bandwidth, exchange, overlap, overlap:OPERATION, asynchrony, persistence, overhead, is nor cg, and {0}"
)]
pub struct UnknownKind(UnknownOperation);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        let named = || [&Self::OF_MESSAGES[..], &Self::OF_BENCHMARKS, &Self::OF_KERNELS].concat();
        let operation = |word: &str| word.parse().map_err(UnknownKind);
        match word.strip_prefix(OVERLAP_OF) {
            Some(word) => operation(word).map(|operation| Self::Overlap(Some(operation))),
            None => {
                let named = named().into_iter().find(|kind| kind.to_string() == word);
                named.map_or_else(|| operation(word).map(Self::Collective), Ok)
            }
        }
    }
}

const OVERLAP_OF: &str = "overlap:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_survive_their_names() {
        let overlaps = Operation::ALL.map(|operation| Kind::Overlap(Some(operation)));
        let others = [&Kind::OF_MESSAGES[..], &Kind::OF_BENCHMARKS].concat();
        for kind in
            others.into_iter().chain(Kind::OF_KERNELS).chain(overlaps).chain(Operation::ALL.map(Kind::Collective))
        {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert!("overlap:latency".parse::<Kind>().is_err() && "asynchrony:bcast".parse::<Kind>().is_err());
    }

    #[test]
    fn shares_come_with_what_they_are_shares_of() {
        let figures = Kind::Overlap(None).figures();
        assert_eq!(figures.len(), 3 * 2 * 3);
        for (share, whole) in [("d_o", "t_y"), ("d_a", "t_comm"), ("d_p", "o")] {
            let kind = Kind::OF_BENCHMARKS.into_iter().find(|kind| kind.figures()[0].metric == share).unwrap();
            assert!(kind.is_benchmark() && kind.figures()[0].is_share());
            assert_eq!((kind.figures()[1].metric, kind.figures()[1].is_share()), (whole, false));
        }
    }
}
