//! Tables of benchmarks with several metrics: a column for each, with its median.

use ropeway_bench::{Bench, Measured, Size, Table};

use super::digits;

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
    let mut heading = vec!["messages", "side", "compute", "bytes"];
    heading.extend(metrics);
    heading.extend(["min", "max", "samples", "floor", ""]);
    let mut table = Table::new(&heading);
    let results: Vec<_> = results.collect();
    for row in results.chunks(metrics.len()) {
        let Measured { mode, side, compute, bytes, summary, .. } = row[0];
        let mut cells = vec![
            mode.map(|mode| mode.to_string()).unwrap_or_default(),
            side.map(|side| side.to_string()).unwrap_or_default(),
            compute.map(|compute| compute.to_string()).unwrap_or_default(),
            bytes.map(|bytes| Size(bytes).to_string()).unwrap_or_default(),
        ];
        cells.extend(row.iter().map(|measured| digits(measured.summary.median)));
        cells.extend([digits(summary.min), digits(summary.max), summary.samples.to_string()]);
        if let Some((metric, floor)) = row.iter().find_map(|found| Some((&found.metric, found.floor.as_ref()?))) {
            cells.extend([
                digits(floor.median),
                format!("{}: {metric} is {} times it", floor.name, digits(floor.ratio)),
            ]);
        }
        table.push(cells);
    }
    table
}
