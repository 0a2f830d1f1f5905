//! What came of a comparison: records, and a table.

use ropeway_bench::{Compute, Doubts, Figure, Floor, Mode, Operation, Setting, Side, Size, Summary, Table};
use serde::Serialize;

use super::Flags;
use crate::bench::table::{self, carrier, counted_nodes, digits, footnote, median};
use crate::bench::verdict::{Verdict, is_time};
use crate::steps::Counters;

/// One line of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) bench: &'static str,
    pub(super) of: String,
    /// The collective, whether its time is compared or what of it hides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) op: Option<Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) side: Option<Side>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compute: Option<Compute>,
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
    #[serde(flatten)]
    pub(super) standing: Standing,
    pub(super) verdict: Verdict,
    /// The chance of such a difference if there were none.
    pub(super) p: f64,
    /// Whether there are more ranks than cores.
    pub(super) oversubscribed: bool,
    pub(super) version: &'static str,
    /// What the machine can do without us, in the runs of ours.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) floor: Option<Floor>,
    /// What our daemons and ranks have counted in all runs, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counters: Option<Counters>,
}

/// Ours beside theirs, run by run: they were neighbours in time.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Standing {
    /// Ours to theirs.
    Ratio { ratio: f64, ratio_min: f64, ratio_max: f64 },
    /// Ours less theirs, of shares: these may be near zero or below, where ratios mean nothing.
    Difference { difference: f64, difference_min: f64, difference_max: f64 },
}

impl Standing {
    pub(super) fn of(figure: &Figure, ours: &[f64], theirs: &[f64]) -> Self {
        let compared = |compare: fn(f64, f64) -> f64| {
            Summary::of(&ours.iter().zip(theirs).map(|(&ours, &theirs)| compare(ours, theirs)).collect::<Vec<_>>())
        };
        if figure.is_share() {
            let Summary { median, min, max, .. } = compared(|ours, theirs| ours - theirs);
            Self::Difference { difference: median, difference_min: min, difference_max: max }
        } else {
            let Summary { median, min, max, .. } = compared(|ours, theirs| ours / theirs);
            Self::Ratio { ratio: median, ratio_min: min, ratio_max: max }
        }
    }

    /// The figure, and from which to which it goes.
    fn cells(self) -> [String; 2] {
        match self {
            Self::Ratio { ratio, ratio_min, ratio_max } => {
                [digits(ratio), format!("{}-{}", digits(ratio_min), digits(ratio_max))]
            }
            Self::Difference { difference, difference_min, difference_max } => {
                [format!("{difference:+.3}"), format!("{difference_min:+.3} to {difference_max:+.3}")]
            }
        }
    }
}

pub(super) fn json(lines: &[Line]) -> String {
    lines.iter().map(|line| serde_json::to_string(line).expect("lines are plain structures") + "\n").collect()
}

/// Nothing without lines, as if all peers were left out.
pub(super) fn table(flags: &Flags, lines: &[Line]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let doubts = lines.iter().map(|line| line.summary.doubts).fold(Doubts::default(), Doubts::union);
    let setting = flags.setting();
    let Setting { ranks, nodes, cores, .. } = setting;
    let is_written = flags.touch || lines.iter().all(Line::is_about_share);
    let buffers = if is_written { "buffers written before each send" } else { "buffers untouched" };
    let is_of_programs = lines.iter().all(|line| line.mode == Mode::OneShot);
    let what = if is_of_programs { "blocking calls" } else { buffers };
    let nodes = counted_nodes(nodes);
    let heading = format!("{ranks} ranks, {nodes}, {}, {cores} cores, {what}", carrier(&setting));
    let tables = [speeds(lines), shares(lines)].concat();
    format!("Ropeway and others in turns; {heading}\n{tables}{}", footnote(doubts))
}

/// Of times and rates.
fn speeds(lines: &[Line]) -> String {
    let of_speeds: Vec<_> = lines.iter().filter(|line| !line.is_about_share() && is_best_form(line, lines)).collect();
    let mut heading = vec!["what", "peer", "bytes", "ours", "theirs", "unit", "ours/theirs", "spread", "Ropeway is"];
    if of_speeds.iter().any(|line| line.floor.is_some()) {
        heading.extend(["floor", ""]);
    }
    let mut table = Table::with_words(2, &heading);
    for line in &of_speeds {
        let [ratio, spread] = line.standing.cells();
        let (ours, theirs) = (median(&line.summary), digits(line.peer_median));
        let (bytes, unit) = (Size(line.bytes).to_string(), line.unit.to_owned());
        let mut cells =
            vec![line.what(), line.peer(), bytes, ours, theirs, unit, ratio, spread, line.verdict.to_string()];
        if let Some(Floor { name, median, .. }) = &line.floor {
            cells.extend([digits(*median), name.clone()]);
        }
        table.push(cells);
    }
    if of_speeds.is_empty() { String::new() } else { table.to_string() }
}

/// Of shares, beside what they are shares of.
fn shares(lines: &[Line]) -> String {
    let mut heading = vec!["share", "what", "peer", "bytes", "ours", "theirs", "difference", "spread", "Ropeway's is"];
    heading.extend(["of", "ours", "theirs", "unit"]);
    let mut table = Table::with_words(3, &heading);
    let mut is_empty = true;
    for line in lines.iter().filter(|line| is_best_form(line, lines)) {
        let whole = |other: &&Line| line.is_share_of(other) && other.peer_mode == line.peer_mode;
        let Some(whole) = lines.iter().find(whole) else { continue };
        let [difference, spread] = line.standing.cells();
        let mut cells = vec![line.metric.to_owned(), line.what(), line.peer(), Size(line.bytes).to_string()];
        cells.extend([median(&line.summary), digits(line.peer_median), difference, spread, line.verdict.to_string()]);
        cells.extend([
            whole.metric.to_owned(),
            median(&whole.summary),
            digits(whole.peer_median),
            whole.unit.to_owned(),
        ]);
        table.push(cells);
        is_empty = false;
    }
    if is_empty { String::new() } else { table.to_string() }
}

impl Line {
    /// Whether it is a share, or comes with one.
    fn is_about_share(&self) -> bool {
        matches!(self.of.as_str(), "overlap" | "asynchrony" | "persistence")
    }

    /// Whether the other one is what this is a share of.
    fn is_share_of(&self, other: &Self) -> bool {
        WHOLES.contains(&(self.metric, other.metric)) && self.contest() == other.contest()
    }

    /// What peers are compared in, but for the metric.
    fn contest(&self) -> impl PartialEq + use<'_> {
        (&self.of, self.op, self.side, self.compute, &self.setting, self.bytes, &self.peer)
    }

    /// What is done, and how our ranks wait.
    fn what(&self) -> String {
        // What a collective takes is called as the collective is.
        let op = self.op.map(|op| op.to_string()).filter(|op| *op != self.of);
        let side = self.side.map(|side| side.to_string());
        let compute = self.compute.map(|compute| compute.to_string());
        let call = (self.of == OVERHEAD).then(|| self.metric.to_owned());
        let words = [Some(self.of.clone()), call, op, side, compute, Some(self.setting.wait.clone())];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn peer(&self) -> String {
        format!("{} {}", self.peer, self.peer_mode)
    }
}

/// What was counted on our side, a line for each size: all its peers were beside the same runs of ours.
pub(super) fn counted(lines: &[Line]) -> String {
    let counted = |line: &Line| {
        let what = format!("{}, {}", line.what(), Size(line.bytes));
        table::counted(&what, line.counters.as_ref())
    };
    let mut counted: Vec<_> = lines.iter().map(counted).collect();
    counted.dedup();
    counted.concat()
}

/// Whether the peer does no better with its other kind of requests. The records have both.
fn is_best_form(line: &Line, lines: &[Line]) -> bool {
    let is_same = |other: &&Line| other.metric == line.metric && other.contest() == line.contest();
    let is_better = |other: &Line| {
        if is_time(line.metric) { other.peer_median < line.peer_median } else { other.peer_median > line.peer_median }
    };
    !lines.iter().filter(is_same).any(is_better)
}

/// What has figures of several calls.
const OVERHEAD: &str = "overhead";
/// Shares, and what they are shares of.
const WHOLES: [(&str, &str); 3] = [("d_o", "t_y"), ("d_a", "t_comm"), ("d_p", "o")];
