//! What the demonstration has shown.

use ropeway_bench::{Summary, Table, significant};
use ropeway_examples::Mode;
use ropeway_examples::jacobi::{Solution, relative_difference};
use serde::Serialize;

use super::task::Solved;
use crate::bench::digits;
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

/// Time of one-shot messages alone to that of persistent ones, in runs that were neighbours in time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Speedup {
    speedup: f64,
    speedup_min: f64,
    speedup_max: f64,
}

pub(super) fn speedup(oneshot: &[Run], persistent: &[Run]) -> Speedup {
    let pairs = oneshot.iter().zip(persistent);
    let ratios: Vec<f64> = pairs.map(|(a, b)| a.messages_ms / b.messages_ms.max(f64::MIN_POSITIVE)).collect();
    let Summary { median, min, max, .. } = Summary::of(&ratios);
    Speedup { speedup: median, speedup_min: min, speedup_max: max }
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
            setup_ms: summary(|run| run.setup_ms).median,
            messages_ms: messages.median,
            messages_ms_min: messages.min,
            messages_ms_max: messages.max,
            speedup,
            rank_cpu_s: summary(|run| run.rank_cpu_s).median,
            daemon_cpu_s: summary(|run| run.daemon_cpu_s).median,
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
        "in communication",
        "messages alone ms",
        "speed-up",
        "CPU s ranks",
        "CPU s daemons",
        "correct",
    ]);
    for report in reports {
        let spread = |median, min, max| format!("{} ({}-{})", digits(median), digits(min), digits(max));
        let speedup = |s: Speedup| spread(s.speedup, s.speedup_min, s.speedup_max);
        table.push(vec![
            report.mode.to_string(),
            report.nodes.to_string(),
            spread(report.total_ms, report.total_ms_min, report.total_ms_max),
            digits(report.communication_ms),
            spread(report.messages_ms, report.messages_ms_min, report.messages_ms_max),
            report.speedup.map_or_else(|| "-".to_owned(), speedup),
            digits(report.rank_cpu_s),
            digits(report.daemon_cpu_s),
            if report.correct { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    let worst = reports.iter().map(|report| report.relative_difference).fold(0.0, f64::max);
    format!(
        "Jacobi's method, {size} unknowns, {ranks} ranks, {iterations} iterations, waiting {wait}\n\n{table}\n\
         Medians of {runs} runs (smallest-largest). Time in communication includes waiting for ranks that still compute;\n\
         messages alone are the same exchanges without computing, and the speed-up from early binding is theirs.\n\
         Largest relative difference to the serial solution: {worst:.1e}.\n"
    )
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
        let speedup = speedup(&oneshot, &persistent);
        assert_eq!(speedup, Speedup { speedup: 3.0, speedup_min: 2.0, speedup_max: 4.0 });
        let report = Report::of(Mode::Persistent, (4, 2), "adaptive", &reference(), &persistent, Some(speedup));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["correct"], true);
        assert_eq!(json["speedup"], 3.0);
        assert_eq!(json["communication_ms_max"], 10.0);
        assert!(table(&[report]).contains("3.000 (2.000-4.000)"));
    }
}
