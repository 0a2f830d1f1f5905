//! Rounds of a collective that all ranks begin at the same moment of the clock they share.
//!
//! ```text
//!             window k          window k+1         window k+2
//!   rank 0   ┤round├┈┈┈┈┈┈┈┈┈┈┈┤round├┈┈┈┈┈┈┈┈┈┈┈┤round├
//!   rank 1   ┤round├┈┈┈┈┈┈┈┈┈┈┈┤ro … und├┈┈┈┈┈┈┈┈ ┤round├
//!   rank 2   ┤roun … d├┈┈┈┈┈┈┈┈┤round├┈┈┈┈┈┈┈┈┈┈┈    ┤round├      too late: this window does not count
//!            └───────┘ what is measured: from the window's start until the last rank has its result
//! ```
//!
//! Ranks that come out of a barrier have left it one by one, and ranks that call a collective back to back overlap its rounds;
//! a timetable does neither: Worsch, Reussner, Augustin, "On Benchmarking Collective MPI Operations" (EuroPVM/MPI 2002);
//! Hunold, Carpen-Amarie, "Reproducible MPI Benchmarking Is Still Not As Easy As You Think" (TPDS 2016).
//!
//! With more ranks than cores not all can begin at once. Windows are widened until most of them count, and the moment that
//! still is in time with them.

use std::time::Instant;

use crate::BenchError;
use crate::clock::{Span, now_ns, wait_until};
use crate::everyone::Everyone;
use crate::hiding::Communication;
use crate::joint::{Joint, when_all_are_there};
use crate::plan::Effort;
use crate::statistics::Summary;

/// Runs of one collective by the clock.
pub(crate) struct Timetable {
    effort: Effort,
    windows: Windows,
}

impl Timetable {
    pub(crate) fn new(effort: Effort) -> Self {
        Self { effort, windows: Windows::default() }
    }

    /// Windows so far that somebody came late to.
    pub(crate) fn missed(&self) -> u64 {
        self.windows.missed
    }

    /// One run: microseconds of each window that counts, for rank 0.
    pub(crate) fn measure(&mut self, joint: &mut Joint) -> Result<Vec<f64>, BenchError> {
        joint.prove()?;
        self.windows.fit(self.warm_up(joint)?);
        let wanted = self.effort.rounds(self.windows.length_ns() as f64 / 1e9, ROUNDS_MIN, ROUNDS_MAX);
        let mut samples = Vec::new();
        loop {
            let left = wanted.saturating_sub(samples.len() as u64).min(BATCH as u64);
            let now = now_ns()?;
            let length = self.windows.length_ns();
            // Two windows ahead, so that everybody has heard of it.
            let [begin_ns, length_ns, count] = joint.everyone().agree(|| [now + 2 * length, length, left])?;
            if count == 0 {
                break;
            }
            let batch = Batch { begin_ns, length_ns, count: count as usize };
            if let Some(times) = batch.measure(joint)? {
                samples.extend(self.windows.learn(&times[..batch.count]));
            }
        }
        joint.prove()?;
        Ok(samples)
    }

    /// How long a round takes with everything that belongs to it, in nanoseconds. The first ones register what ranks meet by, which would
    /// make windows so wide that all sleep between them.
    fn warm_up(&self, joint: &mut Joint) -> Result<u64, BenchError> {
        (0..self.effort.warmup).try_for_each(|_| joint.round(when_all_are_there, None).map(drop))?;
        let mut times = Vec::new();
        for _ in 0..self.effort.warmup {
            let begin = Instant::now();
            joint.round(when_all_are_there, None)?;
            times.push(begin.elapsed().as_nanos() as f64);
        }
        Ok(Summary::of(&times).median as u64)
    }
}

/// How long windows are, as rank 0 has learnt.
#[derive(Debug, Default)]
struct Windows {
    /// For rounds as short as they have been; a run may begin while somebody else has the cores. Zero before.
    fitting_ns: u64,
    /// How often most were missed.
    widenings: u32,
    missed: u64,
}

impl Windows {
    /// Makes room for rounds of this length.
    fn fit(&mut self, round_ns: u64) {
        let fitting_ns = (ROOM * round_ns).max(LENGTH_MIN_NS);
        self.fitting_ns = if self.fitting_ns == 0 { fitting_ns } else { self.fitting_ns.min(fitting_ns) };
    }

    fn length_ns(&self) -> u64 {
        self.fitting_ns << self.widenings.min(WIDENINGS_MAX)
    }

    /// Takes the times of a batch, endless for those who came late; returns those that count.
    fn learn(&mut self, times: &[f64]) -> Vec<f64> {
        let counting: Vec<f64> = times.iter().copied().filter(|time| time.is_finite()).collect();
        self.missed += (times.len() - counting.len()) as u64;
        if counting.len() * 2 < times.len() {
            self.widenings += 1;
        }
        counting
    }
}

/// Some windows, one behind the other.
struct Batch {
    begin_ns: u64,
    length_ns: u64,
    count: usize,
}

impl Batch {
    /// The times of the slowest in microseconds, endless if somebody came late, for rank 0.
    fn measure(&self, joint: &mut Joint) -> Result<Option<[f64; BATCH]>, BenchError> {
        let (mut times, mut begins, mut ends) = ([0.0; BATCH], [0.0; BATCH], [f64::INFINITY; BATCH]);
        for index in 0..self.count {
            let start_ns = self.begin_ns + index as u64 * self.length_ns;
            let Span { begin_ns, end_ns } = joint.round(|_| Ok(wait_until(start_ns)?), None)?;
            let is_late = begin_ns - start_ns > self.length_ns / IN_TIME;
            times[index] = if is_late { f64::INFINITY } else { (end_ns - start_ns) as f64 / 1e3 };
            (begins[index], ends[index]) = ((begin_ns - self.begin_ns) as f64, (end_ns - self.begin_ns) as f64);
        }
        if joint.is_barrier() {
            check_barrier(joint.everyone(), begins, ends)?;
        }
        joint.everyone().largest(times)
    }
}

/// A barrier has no data to be wrong. It must not let anybody out before everybody is in.
fn check_barrier(everyone: &Everyone, begins: [f64; BATCH], ends: [f64; BATCH]) -> Result<(), BenchError> {
    let last_in = everyone.largest(begins)?;
    let first_out = everyone.largest(ends.map(|end| -end))?.map(|ends| ends.map(|end| -end));
    let mut rounds = last_in.iter().flatten().zip(first_out.iter().flatten());
    if rounds.any(|(last_in, first_out)| first_out < last_in) { Err(BenchError::OpenBarrier) } else { Ok(()) }
}

/// Windows that are measured before ranks tell each other.
const BATCH: usize = 64;
/// A window is so many times as long as a round.
const ROOM: u64 = 3;
const LENGTH_MIN_NS: u64 = 50_000;
/// Then they are minutes long.
const WIDENINGS_MAX: u32 = 22;
/// Whoever begins within this part of a window is in time.
const IN_TIME: u64 = 10;
const ROUNDS_MIN: u64 = 10;
const ROUNDS_MAX: u64 = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_room_for_the_shortest_rounds() {
        let mut windows = Windows::default();
        windows.fit(1_000_000);
        assert_eq!(windows.length_ns(), 3_000_000);
        windows.fit(20_000);
        assert_eq!(windows.length_ns(), 60_000);
        windows.fit(10);
        assert_eq!(windows.length_ns(), LENGTH_MIN_NS);
        windows.fit(1_000_000);
        assert_eq!(windows.length_ns(), LENGTH_MIN_NS);
    }

    #[test]
    fn windows_that_most_miss_are_widened() {
        let mut windows = Windows { fitting_ns: 100, ..Windows::default() };
        assert_eq!(windows.learn(&[1.0, f64::INFINITY, 2.0, 3.0]), [1.0, 2.0, 3.0]);
        assert_eq!((windows.length_ns(), windows.missed), (100, 1));
        assert_eq!(windows.learn(&[f64::INFINITY, f64::INFINITY, 2.0]), [2.0]);
        assert_eq!((windows.length_ns(), windows.missed), (200, 3));
    }
}
