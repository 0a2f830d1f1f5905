//! The model's parameters of messages, with both ways to be told of their end side by side: a table for each place.

use ropeway_bench::Size;

use super::super::curves::unit;
use super::super::records::{Part, Records, Row, groups};
use super::super::section::Cells;
use crate::bench::digits;

/// A table for each place that both ways were measured in.
pub(super) fn tables(records: &Records) -> Vec<Cells> {
    let is_parameter = |row: &&Row| {
        row.bench == "overhead" && WAYS.contains(&row.wait.as_str()) && PARAMETERS.contains(&row.metric.as_str())
    };
    let rows: Vec<_> = records.rows.iter().filter(is_parameter).collect();
    let are_both_there = |rows: &[&Row]| WAYS.iter().all(|way| rows.iter().any(|row| row.wait == *way));
    let places = groups(&rows, Row::place).into_iter().filter(|(_, rows)| are_both_there(rows));
    places.map(|(place, rows)| table(&place, &rows)).collect()
}

/// Places that it could not be measured in, and why.
pub(super) fn missing(records: &Records) -> Vec<String> {
    let is_of_ways = |part: &&Part| part.command.contains(" overhead ") && part.command.contains(&WAYS.join(","));
    let reason = |part: &Part| {
        let why = part.why.as_ref()?;
        Some(format!("Left out: parameters of messages, polling and blocking. {}: {why}.", part.command))
    };
    records.parts.iter().filter(is_of_ways).filter_map(reason).collect()
}

/// A row for each size and parameter, a column for each way.
fn table(place: &str, rows: &[&Row]) -> Cells {
    let mut sizes: Vec<usize> = rows.iter().filter_map(|row| row.bytes).filter(|&bytes| bytes > 0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let row = |bytes: usize, &parameter: &&str| {
        let found = WAYS.map(|way| find(rows, (parameter, way, bytes)));
        let unit = found.iter().flatten().flatten().next().map(|row| unit(row)).filter(|unit| *unit != "ratio");
        let figures = found.map(|parts| parts.map(|parts| shown(&parts)).unwrap_or_default());
        let words = [Size(bytes).to_string(), parameter.to_owned(), unit.unwrap_or_default().to_owned()];
        words.into_iter().chain(figures).collect()
    };
    Cells {
        title: format!("Parameters of messages, {place}"),
        heading: ["bytes", "parameter", "unit"].into_iter().chain(WAYS).map(str::to_owned).collect(),
        rows: sizes.iter().flat_map(|&bytes| PARAMETERS.iter().map(move |name| row(bytes, name))).collect(),
        doubts: rows.iter().flat_map(|row| row.doubts()).collect(),
    }
}

/// What a parameter is the sum of, if all of that is there: `o` of its parts, others of themselves.
fn find<'a>(rows: &[&'a Row], (parameter, way, bytes): (&str, &str, usize)) -> Option<Vec<&'a Row>> {
    let parts: &[&str] = if parameter == "o" { &["o_s", "o_i"] } else { &[parameter] };
    let found = |metric: &&str| {
        // An empty message is that of all sizes.
        let bytes = if *metric == "o_i" { 0 } else { bytes };
        rows.iter().copied().find(|row| (&*row.metric, &*row.wait, row.bytes) == (*metric, way, Some(bytes)))
    };
    parts.iter().map(found).collect()
}

/// A sum, marked if any part is in doubt.
fn shown(parts: &[&Row]) -> String {
    let mark = if parts.iter().all(|row| row.doubts().is_empty()) { "" } else { "~" };
    format!("{mark}{}", digits(parts.iter().map(|row| row.median).sum()))
}

/// The two of the model; adaptive is one or the other.
const WAYS: [&str; 2] = ["polling", "blocking"];
const PARAMETERS: [&str; 6] = ["o_s", "o_i", "o", "b", "R", "d_p"];
