//! Who is faster, if that can be said.

use std::fmt;

use ropeway_bench::{Summary, permutation_test};
use serde::{Deserialize, Serialize};

/// Of one contestant against another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Verdict {
    #[serde(rename = "faster")]
    Faster,
    #[serde(rename = "slower")]
    Slower,
    /// Its share is larger, which may be good or bad.
    #[serde(rename = "more")]
    More,
    /// Its share is smaller.
    #[serde(rename = "less")]
    Less,
    /// Such a difference may well be chance.
    #[serde(rename = "no difference shown")]
    NoDifferenceShown,
    /// However large a difference, so few runs would not show it.
    #[serde(rename = "too few runs")]
    TooFewRuns,
}

impl Verdict {
    /// Whether they differ.
    pub(super) fn is_decided(self) -> bool {
        !matches!(self, Self::NoDifferenceShown | Self::TooFewRuns)
    }

    /// Where there is little room.
    pub(super) fn in_short(self) -> String {
        if self == Self::NoDifferenceShown { "undecided".to_owned() } else { self.to_string() }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::More => "more",
            Self::Less => "less",
            Self::NoDifferenceShown => "no difference shown",
            Self::TooFewRuns => "too few runs",
        })
    }
}

/// From figures of both, one for each run, and the chance of such figures if there was no difference.
pub(super) fn verdict(ours: &[f64], theirs: &[f64], metric: &str) -> (Verdict, f64) {
    let p = permutation_test(ours, theirs);
    let is_less = Summary::of(ours).median < Summary::of(theirs).median;
    let verdict = match is_less == is_time(metric) {
        _ if ours.len().min(theirs.len()) < RUNS_MIN => Verdict::TooFewRuns,
        _ if p >= P_MAX => Verdict::NoDifferenceShown,
        _ if is_share(metric) => {
            if is_less {
                Verdict::Less
            } else {
                Verdict::More
            }
        }
        true => Verdict::Faster,
        false => Verdict::Slower,
    };
    (verdict, p)
}

/// Whether less of it is better.
pub(super) fn is_time(metric: &str) -> bool {
    TIMES.contains(&metric)
}

/// Whether it is a share, which may be near zero or below.
pub(super) fn is_share(metric: &str) -> bool {
    matches!(metric, "d_o" | "d_a" | "d_p" | "availability" | "saved")
}

const TIMES: [&str; 12] = [
    "half_rtt",
    "latency",
    "time",
    "t_y",
    "t_comm",
    "t_async",
    "o",
    "o_s",
    "o_i",
    "start_send",
    "start_recv",
    "wait_done",
];
const P_MAX: f64 = 0.05;
/// Of 4 and 4 runs 2 of 70 permutations are as far apart as can be; of 3 and 3 it would be 2 of 20, more than `P_MAX`.
const RUNS_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_time_and_more_bandwidth_are_faster() {
        let (less, more) = ([1.0, 1.1, 1.2, 1.0], [2.0, 2.1, 2.2, 2.0]);
        assert_eq!(verdict(&less, &more, "half_rtt").0, Verdict::Faster);
        assert_eq!(verdict(&more, &less, "latency").0, Verdict::Slower);
        assert_eq!(verdict(&more, &less, "bandwidth").0, Verdict::Faster);
        assert_eq!(verdict(&more, &less, "d_o").0, Verdict::More);
        assert_eq!(verdict(&less, &more, "d_p").0, Verdict::Less);
    }

    #[test]
    fn few_runs_show_nothing() {
        let (few, p) = verdict(&[1.0, 1.1, 1.2], &[2.0, 2.1, 2.2], "half_rtt");
        assert_eq!(few, Verdict::TooFewRuns);
        assert!(p > P_MAX);
        let mixed = verdict(&[1.0, 4.0, 5.0, 8.0], &[2.0, 3.0, 6.0, 7.0], "half_rtt");
        assert_eq!(mixed.0, Verdict::NoDifferenceShown);
    }
}
