//! What to measure.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use crate::computation::Compute;
use crate::contest::Contest;
use crate::method::{Division, Method};
use crate::notification::Notification;
use crate::operation::CollectiveCall;
use crate::progress::Progress;
use ropeway_examples::{Mode, Size};
use serde::{Deserialize, Serialize};

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bench {
    /// Half a round trip.
    Latency,
    /// Many sends and one reply.
    Stream,
    /// A window of messages.
    Bandwidth,
    /// Windows of small messages, of one pair of ranks and of many.
    MessageRate,
    /// What set-up, start and wait cost.
    Overhead,
    /// How much of that early binding saves.
    Persistence,
    /// CPU time of ranks and daemons for what they move.
    Cpu,
    /// Ranks that wait and do nothing else.
    Idle,
    /// From a start to a rank that slept.
    Wakeup,
    /// What a sender notices of a receiver that is late.
    Skew,
    /// Messages behind computation.
    Overlap,
    /// Receives that go on by themselves.
    Asynchrony,
    /// A collective of all ranks.
    Coll,
    /// The same as somebody else, beside them.
    Compare,
    /// The parameters of the model of that name.
    Boum,
}

impl fmt::Display for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Latency => "latency",
            Self::Stream => "stream",
            Self::Bandwidth => "bandwidth",
            Self::MessageRate => "message-rate",
            Self::Overhead => "overhead",
            Self::Persistence => "persistence",
            Self::Cpu => "cpu",
            Self::Idle => "idle",
            Self::Wakeup => "wakeup",
            Self::Skew => "skew",
            Self::Overlap => "overlap",
            Self::Asynchrony => "asynchrony",
            Self::Coll => "coll",
            Self::Compare => "compare",
            Self::Boum => "boum",
        })
    }
}

/// What all ranks have to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Which benchmark.
    pub bench: Bench,
    /// Message sizes.
    pub sizes: Vec<Size>,
    /// Kinds of messages.
    pub modes: Vec<Mode>,
    /// Rounds in a run; chosen by time if not given.
    pub iters: Option<u64>,
    /// Rounds before each run.
    pub warmup: Option<u64>,
    /// Runs of each contestant.
    pub runs: u32,
    /// How long to be idle, or late.
    pub seconds: f64,
    /// Where each node can be reached by the others without Ropeway.
    pub addresses: Vec<IpAddr>,
    /// Bits a second of the line between nodes, if it is limited.
    pub line_rate: Option<u64>,
    /// Whether each rank shall stay on one core.
    pub pin: bool,
    /// The collectives to measure, if not messages.
    pub collectives: Vec<CollectiveCall>,
    /// How they are done, in turns.
    pub methods: Vec<Method>,
    /// Who drives messages where that makes a difference, in turns.
    pub progress: Vec<Progress>,
    /// How ranks wait where that is compared, in turns.
    pub notification: Vec<Notification>,
    /// Idle links to measure beside, with a busy one, in turns with none.
    pub beside_links: Option<u32>,
    /// What to compare, if that is the benchmark.
    pub contest: Option<Contest>,
    /// Whether ranks count how often memory is allocated in the calls that are measured.
    pub counts_allocations: bool,
}

impl Plan {
    /// Whether messages between the first and the last rank cross nodes.
    pub(crate) fn crosses_nodes(&self) -> bool {
        self.addresses.len() > 1
    }

    /// How collectives are done and called: each method in each mode, but for what ranks drive themselves, which is always
    /// registered.
    pub(crate) fn forms(&self) -> impl Iterator<Item = (&Method, Mode)> {
        let forms = self.methods.iter().flat_map(|method| self.modes.iter().map(move |&mode| (method, mode)));
        forms.filter(|(method, mode)| method.division == Division::TwoLevel || *mode == Mode::Persistent)
    }

    /// Kinds of messages beside what is computed meanwhile, and of each the classes, one after the other.
    pub(crate) fn kinds(&self, computations: &[Compute]) -> impl Iterator<Item = (Mode, Compute, Class)> {
        let kinds = self.modes.iter().flat_map(move |&mode| computations.iter().map(move |&compute| (mode, compute)));
        kinds.flat_map(move |(mode, compute)| self.classes().map(move |class| (mode, compute, class)))
    }

    /// How ranks wait, and who drives messages meanwhile.
    pub(crate) fn classes(&self) -> impl Iterator<Item = Class> {
        self.notification
            .iter()
            .flat_map(|&notification| self.progress.iter().map(move |&progress| Class { notification, progress }))
    }

    /// What one of so many contestants does in a run, so that all runs of a size take about a second.
    pub(crate) fn effort(&self, contestants: usize, warmup: u64) -> Effort {
        let time = Duration::from_secs(1) / (self.runs.max(1) * contestants.max(1) as u32);
        Effort { iters: self.iters, warmup: self.warmup.unwrap_or(warmup).max(1), time }
    }
}

/// A class of the four-way classification (see [`Notification`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) notification: Notification,
    pub(crate) progress: Progress,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.notification, self.progress)
    }
}

/// How much is done in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) iters: Option<u64>,
    /// Rounds that don't count, at least one.
    pub(crate) warmup: u64,
    /// How long a run shall take.
    pub(crate) time: Duration,
}

impl Effort {
    /// As many rounds as fit in this time.
    pub(crate) fn lasting(time: Duration, warmup: u64) -> Self {
        Self { iters: None, warmup, time }
    }

    /// Rounds of a run, at least one: those the user asked for, or between `min` and `max` by how long one takes.
    pub(crate) fn rounds(self, round_s: f64, min: u64, max: u64) -> u64 {
        let by_time = || ((self.time.as_secs_f64() / round_s) as u64).clamp(min, max);
        self.iters.unwrap_or_else(by_time).max(1)
    }

    /// The same in batches that last long enough for a clock: how many, and of how many rounds.
    pub(crate) fn batches(self, round_s: f64, batch_s: f64) -> [u64; 2] {
        let iters = self.rounds(round_s, 10, 1_000_000);
        let rounds = (batch_s / round_s).ceil().clamp(1.0, iters as f64) as u64;
        [iters.div_ceil(rounds), rounds]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_follow_the_user_or_the_clock() {
        let by_time = Effort { iters: None, warmup: 1, time: Duration::from_millis(100) };
        assert_eq!(by_time.rounds(1e-3, 5, 1000), 100);
        assert_eq!(by_time.rounds(1.0, 5, 1000), 5);
        assert_eq!(by_time.rounds(0.0, 5, 1000), 1000);
        assert_eq!(Effort { iters: Some(7), ..by_time }.rounds(1.0, 10, 1000), 7);
        assert_eq!(by_time.batches(1e-3, 1e-2), [10, 10]);
        assert_eq!(by_time.batches(1.0, 1e-2), [10, 1]);
        assert_eq!(Effort { iters: Some(7), ..by_time }.batches(1e-3, 1.0), [1, 7]);
    }
}
