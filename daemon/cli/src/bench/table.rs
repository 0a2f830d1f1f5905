//! What a benchmark has found, as a table and as JSON.

use ropeway_bench::{
    Bench, Doubt, Doubts, Floor, Measured, Progress, Ratio, Record, Setting, Side, Size, Summary, Table, s_per_gib,
};

use super::wide::{self, Column};
use crate::steps::{ALLOCATIONS, Counters, Seen};

/// What has been measured so far.
pub(super) struct Results {
    bench: Bench,
    setting: Setting,
    with_counters: bool,
    lines: Vec<Record>,
    results: Vec<(Measured, Seen)>,
}

impl Results {
    pub(super) fn new(bench: Bench, setting: Setting, with_counters: bool) -> Self {
        Self { bench, setting, with_counters, lines: Vec::new(), results: Vec::new() }
    }

    pub(super) fn add(&mut self, mut measured: Measured, seen: Seen) {
        let doubts = &mut measured.summary.doubts;
        *doubts = doubts.and(Doubt::Oversubscribed, self.setting.is_oversubscribed());
        let counters = seen.counters.clone().filter(|_| self.with_counters);
        let daemon = self.of_daemons(&measured, &seen);
        self.lines.push(Record::new(&self.bench.to_string(), &self.setting, &measured).with_counters(counters));
        self.results.push((measured, seen));
        if let Some(daemon) = daemon {
            self.lines.push(Record::new(&self.bench.to_string(), &self.setting, &daemon));
            self.results.push((daemon, Seen::default()));
        }
    }

    /// What it has cost the daemons, which the ranks can't know.
    fn of_daemons(&self, clients: &Measured, seen: &Seen) -> Option<Measured> {
        let (metric, figure) = match (self.bench, clients.moved_bytes) {
            (Bench::Idle, _) => ("daemon_cpu", seen.daemon_cpu.as_secs_f64() / seen.elapsed.as_secs_f64() * 100.0),
            (Bench::Cpu, Some(moved_bytes)) => ("daemon_s_per_gib", s_per_gib(seen.daemon_cpu, moved_bytes)),
            _ => return None,
        };
        let summary = Summary::of(&[figure]);
        Some(Measured { metric: metric.to_owned(), summary, floor: None, ..clients.clone() })
    }

    pub(super) fn json(&self) -> String {
        let line = |record| serde_json::to_string(record).expect("records are plain structures") + "\n";
        self.lines.iter().map(line).collect()
    }

    /// Whether there are several metrics, so that each row has to say which is its.
    fn is_mixed(&self) -> bool {
        self.results.windows(2).any(|pair| pair[0].0.metric != pair[1].0.metric)
    }

    pub(super) fn heading(&self) -> String {
        let what = match self.results.first() {
            _ if self.bench == Bench::Idle => "CPU time while waiting, percent".to_owned(),
            Some((Measured { collective: Some(call), unit, .. }, _)) if self.bench == Bench::Coll => {
                format!("{call}: latency, {unit}, and d_o")
            }
            Some((first, _)) if !self.is_mixed() => format!("{}, {}", first.metric, first.unit),
            _ => self.bench.to_string(),
        };
        let mut algorithms = self.results.iter().map(|(measured, _)| measured.algorithm.as_deref());
        let by = algorithms.next().flatten().filter(|name| algorithms.all(|other| other == Some(*name)));
        let by = by.map(|name| format!(" by {name}")).unwrap_or_default();
        let runs = self
            .results
            .first()
            .map(|(first, _)| if first.runs == 1 { ", 1 run".to_owned() } else { format!(", {} runs", first.runs) });
        heading(&format!("{what}{by}"), &self.setting) + &runs.unwrap_or_default() + "\n"
    }

    pub(super) fn table(&self) -> Table {
        if self.bench == Bench::Idle {
            return self.idle_table();
        }
        if self.bench == Bench::Coll {
            return wide::coll_table(self.results.iter().map(|(measured, _)| measured));
        }
        if let Some(metrics) = wide::metrics(self.bench) {
            return wide::table(metrics, self.results.iter().map(|(measured, _)| measured));
        }
        let is_mixed = self.is_mixed();
        let columns = self.columns();
        let mut heading = if is_mixed { vec!["metric", "unit"] } else { Vec::new() };
        heading.push("messages");
        heading.extend(columns.iter().map(|(name, _)| *name));
        heading.extend(["bytes", "min", "median", "p99", "max", "samples"]);
        if self.results.iter().any(|(measured, _)| measured.floor.is_some()) {
            heading.extend(["floor", "ratio", ""]);
        }
        let mut table = Table::with_words(if is_mixed { 3 } else { 1 }, &heading);
        for (measured, _) in &self.results {
            let mut row = if is_mixed { vec![measured.metric.clone(), measured.unit.clone()] } else { Vec::new() };
            row.push(kind(measured));
            row.extend(columns.iter().map(|(_, cell)| cell(measured)));
            row.extend(figures(measured));
            table.push(row);
        }
        table
    }

    /// The columns that say what is different between the rows besides messages and their size.
    fn columns(&self) -> Vec<Column> {
        let results: Vec<_> = self.results.iter().map(|(measured, _)| measured).collect();
        let mut columns = Vec::from_iter(wide::wait(&results));
        if results.iter().any(|measured| measured.pairs.is_some()) {
            columns.push(("pairs", |measured| measured.pairs.map_or_else(String::new, |pairs| pairs.to_string())));
        }
        if results.iter().any(|measured| measured.window.is_some()) {
            columns.push(("window", |measured| measured.window.map_or_else(String::new, |window| window.to_string())));
        }
        columns
    }

    fn idle_table(&self) -> Table {
        let mut table = Table::new(&["who", "percent of a core"]);
        for (measured, _) in &self.results {
            let who = if measured.metric == "client_cpu" { "all ranks" } else { "daemons" };
            table.push(vec![who.to_owned(), digits(measured.summary.median)]);
        }
        table
    }

    /// What the marks in the table mean.
    pub(super) fn footnote(&self) -> String {
        let doubts = self.results.iter().map(|(measured, _)| measured.summary.doubts);
        footnote(doubts.fold(Doubts::default(), Doubts::union))
    }

    /// What was counted, a line for each result.
    pub(super) fn counted(&self) -> String {
        let wait = wide::wait(&self.results.iter().map(|(measured, _)| measured).collect::<Vec<_>>());
        let mut text = String::new();
        for (measured, seen) in self.results.iter().filter(|_| self.with_counters) {
            let metric = self.is_mixed().then(|| measured.metric.clone());
            let wait = wait.map(|(_, cell)| cell(measured));
            let what = [metric, Some(kind(measured)), wait].into_iter().flatten().chain(details(measured));
            text += &counted(&what.collect::<Vec<_>>().join(", "), seen.counters.as_ref());
        }
        text
    }
}

/// What is different between results of a kind: the side that was timed, the computation beside it, the pairs and the size.
fn details(measured: &Measured) -> impl Iterator<Item = String> {
    let Measured { side, compute, collective, pairs, .. } = *measured;
    let beside = compute.map(|compute| {
        let of = side.filter(|side| *side != Side::Both).map(|side| format!("{side}, "));
        let of = of.or(collective.map(|call| format!("{call}, ")));
        format!("{}{compute}", of.unwrap_or_default())
    });
    let pairs = pairs.map(|pairs| if pairs == 1 { "1 pair".to_owned() } else { format!("{pairs} pairs") });
    [beside, pairs, size(measured)].into_iter().flatten()
}

/// What was counted while this was measured, without what never happened, unless that is to be known; nothing if nobody looked.
pub(super) fn counted(what: &str, counters: Option<&Counters>) -> String {
    let Some(counters) = counters else { return String::new() };
    let counts = counters.iter().filter(|(label, count)| **count > 0 || *label == ALLOCATIONS);
    let counts = counts.map(|(label, count)| format!("{label} {count}"));
    format!("counted, {what}: {}\n", counts.collect::<Vec<_>>().join(", "))
}

/// What a table shows, and where it was measured.
pub(super) fn heading(what: &str, setting: &Setting) -> String {
    let Setting { ranks, nodes, wait, cores, .. } = setting;
    format!("{what}; {ranks} ranks, {}, {}, {wait}, {cores} cores", counted_nodes(*nodes), carrier(setting))
}

/// What carries the messages.
pub(super) fn carrier(setting: &Setting) -> String {
    let Setting { device, netns, rate, .. } = setting;
    let netns = if *netns { " between namespaces" } else { "" };
    let rate = rate.as_ref().map(|rate| format!(" at {rate}")).unwrap_or_default();
    format!("{device}{netns}{rate}")
}

/// Kind of messages, which way they go, who came when, what is beside them, and whether they belong to a baseline.
fn kind(measured: &Measured) -> String {
    let Measured { mode, side, idle_links, progress, division, arrival, .. } = measured;
    let when = arrival.map(|arrival| format!(", {arrival}")).unwrap_or_default();
    let both = if *side == Some(Side::Both) { ", both ways" } else { "" };
    let links = if idle_links.is_some() { ", beside links" } else { "" };
    let baseline = match (progress, division) {
        (Some(Progress::Client), Some(division)) => format!(", {division}"),
        (Some(progress @ Progress::Client), None) => format!(", {progress}"),
        _ => String::new(),
    };
    format!("{}{baseline}{both}{when}{links}", mode.map(|mode| mode.to_string()).unwrap_or_default())
}

pub(super) fn size(measured: &Measured) -> Option<String> {
    measured.bytes.map(|bytes| Size(bytes).to_string())
}

/// The cells from the size on: figures, samples, and the floor if there is one.
pub(super) fn figures(measured: &Measured) -> Vec<String> {
    let Measured { summary, floor, .. } = measured;
    let mut cells = vec![size(measured).unwrap_or_default()];
    cells.extend([digits(summary.min), median(summary), digits(summary.p99), digits(summary.max)]);
    cells.push(summary.samples.to_string());
    if let Some(Floor { name, median, ratio }) = floor {
        let spread = ratio.map(|Ratio { min, max, .. }| format!("({}-{}) of ", digits(min), digits(max)));
        let ratio = ratio.map(|ratio| digits(ratio.median));
        cells.extend([digits(*median), ratio.unwrap_or_default(), spread.unwrap_or_default() + name]);
    }
    cells
}

/// The median, marked if it is in doubt.
pub(super) fn median(summary: &Summary) -> String {
    let mark = if summary.doubts.is_empty() { "" } else { "~" };
    format!("{mark}{}", digits(summary.median))
}

/// What these doubts mean, a line for each.
pub(crate) fn footnote(doubts: Doubts) -> String {
    doubts.iter().map(|doubt| format!("~ in doubt ({doubt}): {}\n", doubt.explanation())).collect()
}

/// So many nodes, in words.
pub(crate) fn counted_nodes(nodes: u32) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

/// Four digits, or all before the point.
pub(crate) fn digits(value: f64) -> String {
    // Without a minus sign before what is shown as zero.
    let value = if value.abs() < 0.0005 { 0.0 } else { value };
    let size = value.abs();
    let before_point = if size < 1.0 { 1 } else { size.log10() as usize + 1 };
    format!("{value:.*}", 4usize.saturating_sub(before_point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_doubt_is_marked_and_explained() {
        let summary = Summary::of(&[1.0, 2.0, 3.0]);
        assert_eq!(median(&summary), "~2.000");
        assert_eq!(
            footnote(summary.doubts),
            "~ in doubt (spread): the median is uncertain by more than 10 %, or 0.1 of a share\n"
        );
        assert_eq!(median(&Summary::of(&[2.0; 3])), "2.000");
        assert_eq!(footnote(Doubts::default()), "");
    }

    #[test]
    fn what_never_happened_is_left_out_but_for_allocations() {
        let counters = [(ALLOCATIONS, 0), ("bytes", 8), ("copies", 0), ("frames", 1)];
        let counters = Counters::from(counters.map(|(label, count)| (label.to_owned(), count)));
        let line = "counted, persistent, 8: allocations 0, bytes 8, frames 1\n";
        assert_eq!(counted("persistent, 8", Some(&counters)), line);
        assert_eq!(counted("persistent, 8", None), "");
    }

    #[test]
    fn numbers_have_four_digits() {
        let shown: Vec<_> =
            [0.123_45, 1.234_56, 12.3456, 1234.56, 123_456.7, 0.0, -12.3456, -0.0001].into_iter().map(digits).collect();
        assert_eq!(shown, ["0.123", "1.235", "12.35", "1235", "123457", "0.000", "-12.35", "0.000"]);
    }
}
