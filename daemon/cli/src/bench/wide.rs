//! Tables of benchmarks with several metrics: a column for each, with its median.

use ropeway_bench::{Bench, Floor, Measured, Progress, Table};

use super::table::{digits, figures, median, size};

/// The metrics of a benchmark that has several for each kind of message, the most important first.
pub(super) fn metrics(bench: Bench) -> Option<&'static [&'static str]> {
    match bench {
        Bench::Overlap => Some(&["d_o", "t_x", "t_y", "t_o", "availability"]),
        Bench::Asynchrony => Some(&["d_a", "t_comm", "t_async", "t_start"]),
        _ => None,
    }
}

/// One row for as many results as there are metrics.
pub(super) fn table<'a>(metrics: &[&str], results: impl Iterator<Item = &'a Measured>) -> Table {
    let results: Vec<_> = results.collect();
    let has_collectives = results.iter().any(|measured| measured.collective.is_some());
    let what = if has_collectives { "collective" } else { "side" };
    let how = how(&results);
    let mut heading = vec!["messages"];
    heading.extend(how.iter().map(|(name, _)| *name));
    heading.extend([what, "compute", "bytes"]);
    heading.extend(metrics);
    heading.extend(["min", "max", "samples"]);
    let has_floor = |column: &usize| results.chunks(metrics.len()).any(|row| row[*column].floor.is_some());
    let with_floor: Vec<_> = (0..metrics.len()).filter(has_floor).collect();
    let floors: Vec<_> = with_floor.iter().map(|&column| format!("floor of {}", metrics[column])).collect();
    heading.extend(floors.iter().flat_map(|floor| [floor, ""]));
    let words = how.len() + if has_collectives { 2 } else { 1 };
    let mut table = Table::with_words(words, &heading);
    for row in results.chunks(metrics.len()) {
        let Measured { mode, side, collective, compute, summary, .. } = row[0];
        let what = side.map(|side| side.to_string()).or(collective.map(|call| call.to_string()));
        let mut cells = vec![mode.map(|mode| mode.to_string()).unwrap_or_default()];
        cells.extend(how.iter().map(|(_, cell)| cell(row[0])));
        cells.extend([
            what.unwrap_or_default(),
            compute.map(|compute| compute.to_string()).unwrap_or_default(),
            size(row[0]).unwrap_or_default(),
        ]);
        cells.extend(row.iter().map(|measured| median(&measured.summary)));
        cells.extend([digits(summary.min), digits(summary.max), summary.samples.to_string()]);
        cells.extend(with_floor.iter().flat_map(|&column| floor(row[column])));
        table.push(cells);
    }
    table
}

/// The floor of a metric, and what it is.
fn floor(measured: &Measured) -> [String; 2] {
    let Some(Floor { name, median, ratio }) = &measured.floor else { return Default::default() };
    let ratio = ratio.map(|ratio| format!(": {} is {} times it", measured.metric, digits(ratio.median)));
    [digits(*median), name.clone() + &ratio.unwrap_or_default()]
}

/// One row for the latency of a collective and the medians of what follows it: what hides of it, and what its start takes.
pub(super) fn coll_table<'a>(results: impl Iterator<Item = &'a Measured>) -> Table {
    let results: Vec<_> = results.collect();
    let rows = || results.chunk_by(|_, next| beside_latency(next).is_some());
    // Not every form has a start of its own.
    let fullest = rows().max_by_key(|row| row.len()).unwrap_or_default();
    let beside: Vec<_> = fullest.iter().filter_map(|measured| beside_latency(measured)).collect();
    let how = how(&results);
    let mut heading = vec!["calls"];
    heading.extend(how.iter().map(|(name, _)| *name));
    heading.extend(["bytes", "min", "median", "p99", "max", "samples", "missed"]);
    heading.extend(beside.iter().map(String::as_str));
    let has_floor = results.iter().any(|measured| measured.floor.is_some());
    heading.extend(has_floor.then_some("floor of start, ns"));
    let mut table = Table::with_words(1 + how.len(), &heading);
    for row in rows() {
        let Measured { mode, missed, .. } = row[0];
        let mut cells = vec![mode.map(|mode| mode.to_string()).unwrap_or_default()];
        cells.extend(how.iter().map(|(_, cell)| cell(row[0])));
        cells.extend(figures(row[0]));
        cells.push(missed.unwrap_or_default().to_string());
        cells.extend((1..=beside.len()).map(|at| row.get(at).map(|one| median(&one.summary)).unwrap_or_default()));
        let floor = || row.iter().find_map(|measured| measured.floor.as_ref()).map(|floor| digits(floor.median));
        cells.extend(has_floor.then(|| floor().unwrap_or_default()));
        table.push(cells);
    }
    table
}

/// The column of what is measured beside the latency of a collective.
fn beside_latency(measured: &Measured) -> Option<String> {
    let Measured { metric, compute, arrival, unit, .. } = measured;
    let hidden = compute.map(|compute| format!("{metric} {compute}"));
    // Of `start_waking` the second word says enough.
    let call = metric.trim_start_matches("start_");
    hidden.or_else(|| arrival.map(|arrival| format!("{arrival} {call}, {unit}")))
}

/// A column's name, and what it says of a result.
pub(super) type Column = (&'static str, fn(&Measured) -> String);

/// The column that says how ranks waited, if that was compared.
pub(super) fn wait(results: &[&Measured]) -> Option<Column> {
    let is_compared = results.windows(2).any(|pair| pair[0].notification != pair[1].notification);
    is_compared.then_some(("wait", |measured| measured.notification.map(String::from).unwrap_or_default()))
}

/// The columns that say how it was done: how ranks waited if that was compared, and who drove it if baselines were measured too.
fn how(results: &[&Measured]) -> Vec<Column> {
    let progress: Column =
        ("progress", |measured| measured.progress.map(|progress| progress.to_string()).unwrap_or_default());
    let division: Column = ("division", |measured| measured.division.map(String::from).unwrap_or_default());
    let algorithm: Column = ("algorithm", |measured| measured.algorithm.clone().unwrap_or_default());
    let mut columns = Vec::from_iter(wait(results));
    match results.iter().find(|measured| measured.progress == Some(Progress::Client)) {
        None => {}
        Some(Measured { division: None, .. }) => columns.push(progress),
        Some(_) => columns.extend([progress, division, algorithm]),
    }
    columns
}
