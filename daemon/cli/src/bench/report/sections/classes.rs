//! The four-way classification: how programs wait, and who drives their messages meanwhile.

use ropeway_bench::Size;

use super::super::chart::Look;
use super::super::curves::doings;
use super::super::records::{Records, Row, groups};
use super::super::section::{Drawing, Figure, Section};
use super::super::strips::{Kind, Strip, Strips};
use super::missing;

pub(super) fn section(records: &Records) -> Section {
    // Of messages that may go one way, those that go both ways say most; the others are in the records.
    let is_shown = |row: &Row| row.bench == "asynchrony" || row.side.as_deref() == Some("both");
    let figures: Vec<_> =
        comparisons(records).into_iter().filter(|rows| is_shown(rows[0])).map(|rows| figure(&rows)).collect();
    Section {
        id: "classes",
        title: "How to wait, and who drives messages",
        meaning: "The four classes of Dimitrov 2001: a program waits by polling or blocking, and its messages are driven by the daemons all the \
                  time, or by the program alone while it waits, which is a baseline to compare with. What the daemons' bars are longer than \
                  the program's is what independent progress is worth; if blocking does as well as polling, waiting need not cost a core.",
        missing: if figures.is_empty() {
            let what = "the four classes (--wait polling,blocking --progress both)";
            vec![missing(records, what, "asynchrony")]
        } else {
            Vec::new()
        },
        figures,
        ..Section::default()
    }
}

/// Persistent messages that differ in nothing but their class, of both ways to wait and both kinds of progress.
pub(super) fn comparisons(records: &Records) -> Vec<Vec<&Row>> {
    let is_of_class = |row: &&Row| {
        let is_share = matches!((&*row.bench, &*row.metric), ("asynchrony", "d_a") | ("overlap", "d_o"));
        is_share && row.op.is_none() && row.mode.as_deref() == Some("persistent") && row.wait != "adaptive"
    };
    let rows: Vec<_> = records.rows.iter().filter(is_of_class).collect();
    let alike = groups(&rows, |row| (row.bench.clone(), row.place(), row.bytes, row.side.clone(), row.compute.clone()));
    let is_complete = |rows: &Vec<&Row>| {
        let differs = |of: fn(&Row) -> Option<&str>| rows.iter().any(|row| of(row) != of(rows[0]));
        differs(|row| Some(&row.wait)) && differs(|row| row.progress.as_deref())
    };
    alike.into_iter().map(|(_, rows)| rows).filter(is_complete).collect()
}

fn figure(rows: &[&Row]) -> Figure {
    let strip = |row: &&Row| {
        let (number, driver) =
            if row.progress.as_deref() == Some("client") { (1, "the program") } else { (0, "daemons") };
        Strip {
            label: format!("{}, driven by {driver}", row.wait),
            value: row.median,
            spread: row.ci95,
            look: Look::Marked(number),
            verdict: None,
            doubts: row.doubts(),
        }
    };
    let first = rows[0];
    let unit = if first.metric == "d_a" { "degree of asynchrony, d_a" } else { "degree of overlapping, d_o" };
    let size = first.bytes.map(|bytes| format!(", {} bytes", Size(bytes))).unwrap_or_default();
    let strips = Strips { kind: Kind::Bars, unit: unit.into(), strips: rows.iter().map(strip).collect() };
    Figure { title: format!("{}{size}", first.place()), note: doings(first), drawing: Drawing::Strips(strips) }
}
