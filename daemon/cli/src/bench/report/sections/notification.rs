//! The model's parameters of messages, with both ways to be told of their end side by side: a table for each place.

use ropeway_bench::Size;

use super::super::curves::unit;
use super::super::records::{Part, Records, Row, groups};
use super::super::section::Cells;
use crate::bench::digits;

/// A table for each place that both ways were measured in.
pub(super) fn tables(records: &Records) -> Vec<Cells> {
    let is_parameter = |row: &&Row| {
        row.bench == "overhead" && WAYS.contains(&row.wait.as_str()) && METRICS.contains(&row.metric.as_str())
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

fn table(place: &str, rows: &[&Row]) -> Cells {
    let find = |metric: &str, way: &str, bytes: usize| {
        // An empty message is that of all sizes.
        let bytes = if metric == "o_i" { 0 } else { bytes };
        rows.iter().copied().find(|row| (&*row.metric, &*row.wait, row.bytes) == (metric, way, Some(bytes)))
    };
    let cell = |column: &str, way: &str, bytes: usize| match column {
        "o" => {
            let parts = ["o_s", "o_i"].map(|part| find(part, way, bytes));
            parts.into_iter().collect::<Option<Vec<_>>>().map(|parts| {
                let is_sure = parts.iter().all(|row| row.doubts().is_empty());
                let mark = if is_sure { "" } else { "~" };
                format!("{mark}{}", digits(parts.iter().map(|row| row.median).sum()))
            })
        }
        metric => find(metric, way, bytes).map(Row::marked),
    };
    let columns = || COLUMNS.iter().flat_map(|column| WAYS.map(|way| (*column, way)));
    let head = |(column, way): (&str, &str)| {
        let of_metric = rows.iter().find(|row| row.metric == if column == "o" { "o_s" } else { column });
        let unit = of_metric.map(|row| unit(row)).filter(|unit| *unit != "ratio");
        format!("{column} {way}{}", unit.map(|unit| format!(", {unit}")).unwrap_or_default())
    };
    let mut sizes: Vec<usize> = rows.iter().filter_map(|row| row.bytes).filter(|&bytes| bytes > 0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let row = |&bytes: &usize| {
        let cells = columns().map(|(column, way)| cell(column, way, bytes).unwrap_or_default());
        [Size(bytes).to_string()].into_iter().chain(cells).collect()
    };
    Cells {
        title: format!("Parameters of messages, {place}"),
        heading: ["bytes".to_owned()].into_iter().chain(columns().map(head)).collect(),
        rows: sizes.iter().map(row).collect(),
        doubts: rows.iter().flat_map(|row| row.doubts()).collect(),
    }
}

/// The two of the model; adaptive is one or the other.
const WAYS: [&str; 2] = ["polling", "blocking"];
const METRICS: [&str; 5] = ["o_s", "o_i", "b", "R", "d_p"];
const COLUMNS: [&str; 6] = ["o_s", "o_i", "o", "b", "R", "d_p"];
