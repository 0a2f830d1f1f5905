//! What came of a comparison: records, and a table.

use ropeway_bench::{Doubts, Mode, Setting, Size, Summary, Table};
use serde::Serialize;

use super::Flags;
use crate::bench::table::{self, counted_nodes, digits, footnote, median};
use crate::bench::verdict::{Verdict, is_time};
use crate::steps::Counters;

/// One line of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) bench: &'static str,
    pub(super) of: String,
    pub(super) metric: &'static str,
    pub(super) unit: &'static str,
    pub(super) mode: Mode,
    #[serde(flatten)]
    pub(super) setting: Setting,
    pub(super) bytes: usize,
    pub(super) touched: bool,
    #[serde(flatten)]
    pub(super) summary: Summary,
    pub(super) runs: u32,
    pub(super) peer: String,
    pub(super) peer_mode: &'static str,
    pub(super) peer_median: f64,
    pub(super) ratio: f64,
    pub(super) ratio_min: f64,
    pub(super) ratio_max: f64,
    pub(super) verdict: Verdict,
    /// The chance of such a difference if there were none.
    pub(super) p: f64,
    pub(super) version: &'static str,
    /// What our daemons and ranks have counted in all runs, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counters: Option<Counters>,
}

pub(super) fn json(lines: &[Line]) -> String {
    lines.iter().map(|line| serde_json::to_string(line).expect("lines are plain structures") + "\n").collect()
}

/// Nothing without lines, as if all peers were left out.
pub(super) fn table(flags: &Flags, lines: &[Line]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let heading = ["what", "peer", "bytes", "ours", "theirs", "unit", "ours/theirs", "spread", "Ropeway is"];
    let mut table = Table::with_words(2, &heading);
    for line in lines.iter().filter(|line| is_best_form(line, lines)) {
        let what = format!("{}, {}", line.of, line.setting.wait);
        let peer = format!("{} {}", line.peer, line.peer_mode);
        let spread = format!("{}-{}", digits(line.ratio_min), digits(line.ratio_max));
        let (ours, theirs) = (median(&line.summary), digits(line.peer_median));
        let (bytes, unit) = (Size(line.bytes).to_string(), line.unit.to_owned());
        table.push(vec![what, peer, bytes, ours, theirs, unit, digits(line.ratio), spread, line.verdict.to_string()]);
    }
    let doubts = lines.iter().map(|line| line.summary.doubts).fold(Doubts::default(), Doubts::union);
    let Setting { ranks, nodes, device, cores, .. } = flags.setting();
    let buffers = if flags.touch { "buffers written before each send" } else { "buffers untouched" };
    let is_of_programs = lines.iter().all(|line| line.mode == Mode::OneShot);
    let what = if is_of_programs { "blocking calls" } else { buffers };
    let nodes = counted_nodes(nodes);
    let heading = format!("{ranks} ranks, {nodes}, {device}, {cores} cores, {what}");
    format!("Ropeway and others in turns; {heading}\n{table}{}", footnote(doubts))
}

/// What was counted on our side, a line for each size: all its peers were beside the same runs of ours.
pub(super) fn counted(lines: &[Line]) -> String {
    let counted = |line: &Line| {
        let what = format!("{}, {}, {}", line.of, line.setting.wait, Size(line.bytes));
        table::counted(&what, line.counters.as_ref())
    };
    let mut counted: Vec<_> = lines.iter().map(counted).collect();
    counted.dedup();
    counted.concat()
}

/// Whether the peer does no better with its other kind of requests. The records have both.
fn is_best_form(line: &Line, lines: &[Line]) -> bool {
    let is_same = |other: &&Line| {
        (&other.of, &other.setting, other.bytes, &other.peer) == (&line.of, &line.setting, line.bytes, &line.peer)
    };
    let is_better = |other: &Line| {
        if is_time(line.metric) { other.peer_median < line.peer_median } else { other.peer_median > line.peer_median }
    };
    !lines.iter().filter(is_same).any(is_better)
}
