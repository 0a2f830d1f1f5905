//! What to measure.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use crate::contest::Contest;
use ropeway_examples::Mode;
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
    /// The same as somebody else, beside them.
    Compare,
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
            Self::Compare => "compare",
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
    /// Whether messages between the first and the last rank cross nodes.
    pub crosses_nodes: bool,
    /// Where the first rank can be reached by the last without Ropeway.
    pub address: IpAddr,
    /// Bits a second of the line between nodes, if it is limited.
    pub line_rate: Option<u64>,
    /// Whether each rank shall stay on one core.
    pub pin: bool,
    /// What to compare, if that is the benchmark.
    pub contest: Option<Contest>,
}

impl Plan {
    /// What one of so many contestants does in a run, so that all runs of a size take about a second.
    pub(crate) fn effort(&self, contestants: usize, warmup: u64) -> Effort {
        let time = Duration::from_secs(1) / (self.runs.max(1) * contestants.max(1) as u32);
        Effort { iters: self.iters, warmup: self.warmup.unwrap_or(warmup).max(1), time }
    }
}

/// How much is done in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    iters: Option<u64>,
    /// Rounds that don't count, at least one.
    pub(crate) warmup: u64,
    /// How long a run shall take.
    pub(crate) time: Duration,
}

impl Effort {
    /// Rounds of a run, at least one: those the user asked for, or between `min` and `max` by how long one takes.
    pub(crate) fn rounds(self, round_s: f64, min: u64, max: u64) -> u64 {
        let by_time = || ((self.time.as_secs_f64() / round_s) as u64).clamp(min, max);
        self.iters.unwrap_or_else(by_time).max(1)
    }
}

/// Bytes of a message. As text, with a suffix K, M or G for powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Size(pub usize);

/// Not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a size from 1 to 1G, such as 8, 64K or 1M")]
pub struct BadSize;

impl FromStr for Size {
    type Err = BadSize;

    fn from_str(word: &str) -> Result<Self, BadSize> {
        let (digits, shift) = match word.char_indices().next_back() {
            Some((end, 'k' | 'K')) => (&word[..end], 10),
            Some((end, 'm' | 'M')) => (&word[..end], 20),
            Some((end, 'g' | 'G')) => (&word[..end], 30),
            _ => (word, 0),
        };
        let number: usize = digits.parse().map_err(|_| BadSize)?;
        let bytes = number.checked_mul(1 << shift).ok_or(BadSize)?;
        if (1..=1 << 30).contains(&bytes) { Ok(Self(bytes)) } else { Err(BadSize) }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, suffix) = match self.0 {
            0 => (0, ""),
            bytes if bytes % (1 << 30) == 0 => (bytes >> 30, "G"),
            bytes if bytes % (1 << 20) == 0 => (bytes >> 20, "M"),
            bytes if bytes % (1 << 10) == 0 => (bytes >> 10, "K"),
            bytes => (bytes, ""),
        };
        f.pad(&format!("{number}{suffix}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        let parsed: Vec<_> =
            ["8", "1K", "64k", "1M", "1G"].iter().map(|word| word.parse::<Size>().unwrap().0).collect();
        assert_eq!(parsed, [8, 1024, 65_536, 1 << 20, 1 << 30]);
        for word in ["", "K", "0", "8B", "2G", "-1", "99999999999999999999", "18446744073709551615K", "ä"] {
            assert_eq!(word.parse::<Size>(), Err(BadSize), "{word}");
        }
    }

    #[test]
    fn rounds_follow_the_user_or_the_clock() {
        let by_time = Effort { iters: None, warmup: 1, time: Duration::from_millis(100) };
        assert_eq!(by_time.rounds(1e-3, 5, 1000), 100);
        assert_eq!(by_time.rounds(1.0, 5, 1000), 5);
        assert_eq!(by_time.rounds(0.0, 5, 1000), 1000);
        assert_eq!(Effort { iters: Some(7), ..by_time }.rounds(1.0, 10, 1000), 7);
    }

    #[test]
    fn sizes_are_printed_as_they_are_written() {
        for word in ["1", "1000", "1K", "1025", "64K", "3M", "1G"] {
            assert_eq!(word.parse::<Size>().unwrap().to_string(), word);
        }
        assert_eq!(Size(0).to_string(), "0");
    }
}
