//! Names of benchmarks, and what each does if it is not told otherwise.

use std::fmt;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use ropeway::WaitMode;
use ropeway_bench::Bench;

/// A benchmark's name.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Name {
    /// Half a round trip, in microseconds.
    Latency,
    /// A hundred sends and one reply: the time for each, in microseconds.
    Stream,
    /// Windows of 64 messages (of fewer that are larger than 4M), one way and both ways, in 10^6 bytes a second.
    Bandwidth,
    /// Windows of up to 64 small messages, of 1, 2, 4 … pairs of ranks at once, in messages a second.
    MessageRate,
    /// What calls cost without the transfer, in nanoseconds, and its weight beside the transfer.
    Overhead,
    /// The share of set-up in a message's overhead, which persistent messages save (d_p).
    Persistence,
    /// CPU time of ranks and of daemons, in seconds for each GiB moved.
    Cpu,
    /// CPU time of ranks blocked in wait, and of their daemons, in percent of a core.
    Idle,
    /// From a start until a receiver that slept in the kernel runs again, in microseconds.
    Wakeup,
    /// What a sender notices of a receiver that pauses between start and wait, in percent of the pause.
    Skew,
    /// How much of communication hides behind computation (d_o): 1 is all.
    Overlap,
    /// How much of a receive goes on while the program computes (d_a): 1 is all.
    Asynchrony,
    /// A collective of all ranks: until the last has its result, in microseconds, and how much hides.
    Coll,
    /// Messages and collectives beside every MPI library found, in turns: the ratio to each.
    Compare,
    /// Programs of blocking calls beside every MPI library found, in turns: the ratio to each.
    Transparency,
    /// The parameters of the model BOUM, and its predictions beside what programs take.
    Boum,
    /// A transform whose messages are cut in 1, 2, 4 … 64 segments, beside the prediction.
    Segments,
}

/// What a benchmark needs, and does if it is not told otherwise.
pub(super) struct Defaults {
    pub(super) bench: Bench,
    pub(super) ranks_min: u32,
    pub(super) runs: u32,
    pub(super) seconds: u32,
    pub(super) wait: WaitMode,
    pub(super) sizes: &'static [usize],
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word().get_name())
    }
}

impl Name {
    /// What it measures, in a line.
    pub(super) fn about(self) -> String {
        self.word().get_help().expect("every benchmark says what it measures").to_string()
    }

    fn word(self) -> PossibleValue {
        self.to_possible_value().expect("no benchmark is hidden")
    }

    /// Whether it is about Ropeway and other libraries, in turns.
    pub(super) fn is_contest(self) -> bool {
        matches!(self, Self::Compare | Self::Transparency)
    }

    pub(super) fn defaults(self) -> Defaults {
        let pair = |bench| Defaults { ranks_min: 2, ..Defaults::of_one(bench) };
        match self {
            Self::Latency => pair(Bench::Latency),
            Self::Stream => pair(Bench::Stream),
            Self::Bandwidth => pair(Bench::Bandwidth),
            Self::MessageRate => Defaults { sizes: &[8, 64, 1 << 10], ..pair(Bench::MessageRate) },
            Self::Overhead => pair(Bench::Overhead),
            Self::Persistence => pair(Bench::Persistence),
            Self::Cpu => pair(Bench::Cpu),
            Self::Idle => Defaults { runs: 1, seconds: 5, ..Defaults::of_one(Bench::Idle) },
            Self::Wakeup => Defaults { wait: WaitMode::Blocking, sizes: &[8], ..pair(Bench::Wakeup) },
            Self::Skew => Defaults { runs: 1, seconds: 1, sizes: &SKEW_SIZES, ..pair(Bench::Skew) },
            Self::Overlap => Defaults { sizes: &OVERLAP_SIZES, ..pair(Bench::Overlap) },
            Self::Asynchrony => Defaults { sizes: &ASYNCHRONY_SIZES, ..pair(Bench::Asynchrony) },
            Self::Coll => pair(Bench::Coll),
            Self::Compare | Self::Transparency => pair(Bench::Compare),
            Self::Boum => Defaults { sizes: &BOUM_SIZES, ..Defaults::of_one(Bench::Boum) },
            Self::Segments => pair(Bench::Boum),
        }
    }
}

impl Defaults {
    fn of_one(bench: Bench) -> Self {
        Self { bench, ranks_min: 1, runs: 5, seconds: 0, wait: WaitMode::Adaptive, sizes: &SIZES }
    }
}

const SIZES: [usize; 4] = [8, 1 << 10, 64 << 10, 1 << 20];
const OVERLAP_SIZES: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];
const ASYNCHRONY_SIZES: [usize; 5] = [8, 1 << 10, 64 << 10, 1 << 20, 4 << 20];
const BOUM_SIZES: [usize; 5] = [0, 8, 1 << 10, 64 << 10, 1 << 20];
const SKEW_SIZES: [usize; 7] = [1, 64, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20];
