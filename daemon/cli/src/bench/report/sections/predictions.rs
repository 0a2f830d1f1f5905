//! What the model says of programs, and what they do.

use ropeway_bench::Size;

use super::super::chart::{Axis, Chart, Curve, Look, Point};
use super::super::curves::{mode, unit};
use super::super::records::{Records, Row, groups};
use super::super::ruler::Scale;
use super::super::section::{Cells, Drawing, Figure, Section};
use super::{missing, notification};
use crate::bench::digits;

pub(super) fn section(records: &Records) -> Section {
    let rows: Vec<_> = records.rows.iter().filter(|row| row.bench == "boum").map(Row::in_ms).collect();
    let (compared, parameters): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.predicted.is_some());
    let metrics = groups(&compared, |row| (row.metric.clone(), row.unit.clone()));
    let figures: Vec<_> = metrics.iter().map(|((metric, unit), rows)| scatter(metric, unit, rows)).collect();
    let (of_programs, of_messages): (Vec<&Row>, Vec<&Row>) =
        parameters.into_iter().partition(|row| row.application.is_some());
    let parameters = [("Parameters of the programs", of_programs), ("Parameters of the model", of_messages)];
    let parameters = parameters.iter().filter(|(_, rows)| !rows.is_empty());
    let parameters = parameters.map(|(title, rows)| parameter_table(title, rows));
    let compared = if compared.is_empty() { None } else { Some(table(&compared)) };
    let without_figures = figures.is_empty().then(|| missing(records, "predictions", "boum"));
    Section {
        id: "boum",
        title: "Whether the model predicts programs",
        meaning: "Each mark is a program: its time predicted by BOUM (Dimitrov 2001) from the parameters below, and measured. Within the band the \
                  error is at most 10 %: there the model can be asked what a program would gain (ropeway predict). Far off the \
                  line, measure instead.",
        missing: without_figures.into_iter().chain(notification::missing(records)).collect(),
        tables: compared.into_iter().chain(parameters).chain(notification::tables(records)).collect(),
        figures,
    }
}

fn scatter(metric: &str, unit: &str, rows: &[&Row]) -> Figure {
    let point = |row: &&Row| Some(Point { x: row.predicted?, y: row.median, interval: row.ci95, doubts: row.doubts() });
    let curve = |(number, (name, rows)): (usize, (String, Vec<&Row>))| {
        let points = rows.iter().filter_map(point).collect();
        Curve { name, look: Look::Lone(number), points }
    };
    let curves = groups(rows, program).into_iter().enumerate().map(curve).collect();
    let axis = |what: &str| Axis { label: format!("{what}, {unit}"), scale: Scale::Log };
    let (x, y) = (axis("predicted"), axis("measured"));
    let chart = Chart { x, y, curves, guides: Vec::new(), best: None, around_equal: Some(0.1) };
    let note = "On the line the prediction is right.".into();
    Figure { title: what(metric).to_owned(), note, drawing: Drawing::Chart(chart) }
}

/// The program, and by which kind of messages it was done.
fn program(row: &Row) -> String {
    let mode = row.mode.as_ref().map(|_| format!(", {}", mode(row)));
    format!("{}{}", row.application.as_deref().unwrap_or_default(), mode.unwrap_or_default())
}

/// A metric in words.
fn what(metric: &str) -> &str {
    match metric {
        "execution" => "time of the program",
        "communication" => "time of its messages",
        "S_c" => "speed-up of messages by early binding",
        "S_c_with_set_up" => "the same with the set-up",
        other => other,
    }
}

fn table(rows: &[&Row]) -> Cells {
    let row = |row: &&Row| {
        let predicted = row.predicted.unwrap_or_default();
        let size = row.size.map(|size| Size(size).to_string()).unwrap_or_default();
        let words = [program(row), size, what(&row.metric).to_owned(), row.setting()];
        let error = format!("{:+.1} %", (predicted / row.median - 1.0) * 100.0);
        let figures = [digits(predicted), digits(row.median), unit(row).to_owned(), error, row.doubts().join(", ")];
        words.into_iter().chain(figures).collect()
    };
    let heading = ["program", "size", "what", "where", "predicted", "measured", "unit", "error", "doubts"];
    let heading = heading.map(str::to_owned).into();
    let rows = rows.iter().map(row).collect();
    Cells { title: "Predicted and measured".into(), heading, rows, ..Cells::default() }
}

/// A row for each size or program, a column for each parameter.
fn parameter_table(title: &str, rows: &[&Row]) -> Cells {
    let column = |row: &Row| format!("{}, {}", row.metric, unit(row)).trim_end_matches(", ").to_owned();
    let columns: Vec<_> = groups(rows, column).into_iter().map(|(column, _)| column).collect();
    let of = |row: &Row| match (&row.application, row.size.or(row.bytes)) {
        (Some(application), size) => format!("{application}, {}", Size(size.unwrap_or_default())),
        (None, bytes) => format!("{}, {} bytes", mode(row), Size(bytes.unwrap_or_default())),
    };
    let cells = |((of, setting), found): ((String, String), Vec<&Row>)| {
        let value = |name: &String| found.iter().find(|row| column(row) == *name).map(|row| row.marked());
        let values = columns.iter().map(|name| value(name).unwrap_or_default());
        [of, setting].into_iter().chain(values).collect()
    };
    let doubts = rows.iter().flat_map(|row| row.doubts()).collect();
    let rows = groups(rows, |row| (of(row), row.setting())).into_iter().map(cells).collect();
    let heading = ["of", "where"].map(str::to_owned).into_iter().chain(columns.clone()).collect();
    Cells { title: title.to_owned(), heading, rows, doubts }
}
