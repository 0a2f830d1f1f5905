//! What the demonstration has shown.

use ropeway_bench::{Summary, Table, significant};
use ropeway_examples::Mode;
use ropeway_examples::jacobi::{Solution, relative_difference};
use serde::Serialize;

use super::task::Solved;
use crate::bench::{counted_nodes, digits};
use crate::steps::Seen;

/// One run, judged.
pub(super) struct Run {
    total_ms: f64,
    communication_ms: f64,
    setup_ms: f64,
    messages_ms: f64,
    rank_cpu_s: f64,
    daemon_cpu_s: f64,
    difference: f64,
    is_correct: bool,
}

impl Run {
    /// Compares what the ranks have found with the serial solution.
    pub(super) fn judge(solved: &Solved, seen: &Seen, reference: &Solution) -> Self {
        let difference = relative_difference(&solved.x, &reference.x);
        let same_way = solved.ranks_agree && solved.iterations == reference.iterations;
        Self {
            total_ms: solved.total_ms,
            communication_ms: solved.communication_ms,
            setup_ms: solved.setup_ms,
            messages_ms: solved.messages_ms,
            rank_cpu_s: solved.rank_cpu_s,
            daemon_cpu_s: seen.daemon_cpu.as_secs_f64(),
            difference,
            is_correct: same_way && difference <= DIFFERENCE_MAX,
        }
    }
}

/// All runs of one kind of messages on so many nodes: one line of `--json`. The keys are stable.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    demo: &'static str,
    mode: Mode,
    ranks: u32,
    nodes: u32,
    wait: String,
    size: usize,
    iterations: usize,
    runs: usize,
    total_ms: f64,
    total_ms_min: f64,
    total_ms_max: f64,
    communication_ms: f64,
    communication_ms_min: f64,
    communication_ms_max: f64,
    setup_ms: f64,
    messages_ms: f64,
    messages_ms_min: f64,
    messages_ms_max: f64,
    #[serde(flatten)]
    speedup: Option<Speedup>,
    rank_cpu_s: f64,
    daemon_cpu_s: f64,
    relative_difference: f64,
    correct: bool,
    version: &'static str,
}

/// What early binding is worth: one-shot to persistent messages, in runs that were neighbours in time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Speedup {
    /// Of the messages alone.
    speedup: f64,
    speedup_min: f64,
    speedup_max: f64,
    /// With set-up, which is paid once: of all iterations of one solve.
    speedup_with_setup: f64,
    /// After so many iterations binding has paid off; `None`: never.
    break_even_iterations: Option<u64>,
}

impl Speedup {
    pub(super) fn of(oneshot: &[Run], persistent: &[Run], iterations: usize) -> Self {
        let ratio = |of: fn(&Run) -> f64| {
            let pairs = oneshot.iter().zip(persistent);
            Summary::of(&pairs.map(|(a, b)| of(a) / of(b).max(f64::MIN_POSITIVE)).collect::<Vec<_>>())
        };
        let Summary { median: speedup, min, max, .. } = ratio(|run| run.messages_ms);
        let with_setup = ratio(|run| run.setup_ms + run.messages_ms).median;
        let gain = |of: fn(&Run) -> f64| median(oneshot, of) - median(persistent, of);
        let (paid_ms, saved_ms) = (-gain(|run| run.setup_ms), gain(|run| run.messages_ms) / iterations as f64);
        let break_even = (paid_ms.max(0.0) / saved_ms).ceil();
        Self {
            speedup,
            speedup_min: min,
            speedup_max: max,
            speedup_with_setup: with_setup,
            break_even_iterations: (saved_ms > 0.0).then_some(break_even as u64),
        }
    }
}

fn median(runs: &[Run], of: fn(&Run) -> f64) -> f64 {
    Summary::of(&runs.iter().map(of).collect::<Vec<_>>()).median
}

impl Report {
    pub(super) fn of(
        mode: Mode,
        (ranks, nodes): (u32, u32),
        wait: &str,
        reference: &Solution,
        runs: &[Run],
        speedup: Option<Speedup>,
    ) -> Self {
        let summary = |figure: fn(&Run) -> f64| Summary::of(&runs.iter().map(figure).collect::<Vec<_>>());
        let (total, communication) = (summary(|run| run.total_ms), summary(|run| run.communication_ms));
        let messages = summary(|run| run.messages_ms);
        Self {
            demo: "jacobi",
            mode,
            ranks,
            nodes,
            wait: wait.to_owned(),
            size: reference.x.len(),
            iterations: reference.iterations,
            runs: runs.len(),
            total_ms: total.median,
            total_ms_min: total.min,
            total_ms_max: total.max,
            communication_ms: communication.median,
            communication_ms_min: communication.min,
            communication_ms_max: communication.max,
            setup_ms: median(runs, |run| run.setup_ms),
            messages_ms: messages.median,
            messages_ms_min: messages.min,
            messages_ms_max: messages.max,
            speedup,
            rank_cpu_s: median(runs, |run| run.rank_cpu_s),
            daemon_cpu_s: median(runs, |run| run.daemon_cpu_s),
            relative_difference: significant(summary(|run| run.difference).max),
            correct: runs.iter().all(|run| run.is_correct),
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    pub(super) fn is_correct(&self) -> bool {
        self.correct
    }
}

/// For people.
pub(super) fn table(reports: &[Report]) -> String {
    let Some(first) = reports.first() else { return String::new() };
    let Report { size, ranks, iterations, runs, wait, .. } = first;
    let mut table = Table::new(&[
        "messages",
        "nodes",
        "total ms",
        "comm. ms",
        "set-up ms",
        "messages ms",
        "speed-up",
        "CPU s ranks",
        "daemons",
        "correct",
    ]);
    reports.iter().for_each(|report| table.push(report.row()));
    let worst = reports.iter().map(|report| report.relative_difference).fold(0.0, f64::max);
    let pay_off: String = reports.iter().filter_map(Report::pay_off).collect();
    format!(
        "Jacobi's method, {size} unknowns, {ranks} ranks, {iterations} iterations, waiting {wait}\n\n{table}\n\
         Medians of {runs} runs (smallest-largest). Communication includes set-up, and waiting for ranks that compute.\n\
         \"Messages\" are the same exchanges again without computing; the speed-up from early binding is theirs.\n\
         {pay_off}\
         Largest relative difference to the serial solution: {worst:.1e}.\n"
    )
}

impl Report {
    fn row(&self) -> Vec<String> {
        let spread = |median, min, max| format!("{} ({}-{})", digits(median), digits(min), digits(max));
        vec![
            self.mode.to_string(),
            self.nodes.to_string(),
            spread(self.total_ms, self.total_ms_min, self.total_ms_max),
            digits(self.communication_ms),
            digits(self.setup_ms),
            spread(self.messages_ms, self.messages_ms_min, self.messages_ms_max),
            self.speedup.map_or_else(|| "-".to_owned(), |s| spread(s.speedup, s.speedup_min, s.speedup_max)),
            digits(self.rank_cpu_s),
            digits(self.daemon_cpu_s),
            if self.correct { "yes" } else { "NO" }.to_owned(),
        ]
    }

    /// When binding pays off.
    fn pay_off(&self) -> Option<String> {
        let (nodes, speedup) = (counted_nodes(self.nodes), self.speedup?);
        let with_setup = format!("On {nodes}, with set-up, it is {}", digits(speedup.speedup_with_setup));
        Some(match speedup.break_even_iterations {
            Some(iterations) => format!("{with_setup}: binding has paid off after iteration {iterations}.\n"),
            None => format!("{with_setup}: binding does not pay off here, the messages are not faster.\n"),
        })
    }
}

/// What single precision allows.
const DIFFERENCE_MAX: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn reference() -> Solution {
        let (total, communication) = (Duration::ZERO, Duration::ZERO);
        Solution { x: vec![1.0, 2.0], iterations: 5, converged: true, total, communication }
    }

    fn solved(communication_ms: f64, x: &[f32]) -> Solved {
        Solved {
            mode: Mode::OneShot,
            total_ms: 10.0,
            communication_ms,
            setup_ms: 0.5,
            messages_ms: communication_ms,
            rank_cpu_s: 0.1,
            iterations: 5,
            ranks_agree: true,
            x: x.to_vec(),
        }
    }

    fn judged(communication_ms: f64) -> Run {
        Run::judge(&solved(communication_ms, &[1.0, 2.0]), &Seen::default(), &reference())
    }

    #[test]
    fn only_the_right_solution_found_the_right_way_is_correct() {
        let is_correct = |solved: Solved| Run::judge(&solved, &Seen::default(), &reference()).is_correct;
        assert!(is_correct(solved(1.0, &[1.0, 2.0])));
        assert!(!is_correct(solved(1.0, &[1.0, 2.001])));
        assert!(!is_correct(solved(1.0, &[1.0])));
        assert!(!is_correct(Solved { ranks_agree: false, ..solved(1.0, &[1.0, 2.0]) }));
        assert!(!is_correct(Solved { iterations: 6, ..solved(1.0, &[1.0, 2.0]) }));
    }

    #[test]
    fn a_report_compares_neighbours() {
        let oneshot: Vec<_> = [2.0, 30.0, 4.0].into_iter().map(judged).collect();
        let persistent: Vec<_> = [1.0, 10.0, 1.0].into_iter().map(judged).collect();
        let speedup = Speedup::of(&oneshot, &persistent, 5);
        assert_eq!((speedup.speedup, speedup.speedup_min, speedup.speedup_max), (3.0, 2.0, 4.0));
        let report = Report::of(Mode::Persistent, (4, 2), "adaptive", &reference(), &persistent, Some(speedup));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["correct"], true);
        assert_eq!(json["speedup"], 3.0);
        assert_eq!(json["communication_ms_max"], 10.0);
        assert!(table(&[report]).contains("3.000 (2.000-4.000)"));
    }

    #[test]
    fn binding_pays_off_when_it_has_saved_what_it_cost() {
        let with_setup = |setup_ms, messages_ms| Run { setup_ms, ..judged(messages_ms) };
        let break_even = |oneshot, persistent| Speedup::of(&[oneshot], &[persistent], 10).break_even_iterations;
        // Costs 3 ms more once, saves 0.5 ms in each of ten iterations.
        assert_eq!(break_even(with_setup(1.0, 10.0), with_setup(4.0, 5.0)), Some(6));
        assert_eq!(break_even(with_setup(1.0, 10.0), with_setup(0.5, 5.0)), Some(0));
        assert_eq!(break_even(with_setup(1.0, 5.0), with_setup(4.0, 5.0)), None);
        let speedup = Speedup::of(&[with_setup(1.0, 10.0)], &[with_setup(5.0, 5.0)], 10);
        assert_eq!((speedup.speedup, speedup.speedup_with_setup), (2.0, 1.1));
    }
}
