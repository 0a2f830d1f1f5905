//! What messages cost their program.

use ropeway_bench::Size;

use super::super::chart::Look;
use super::super::curves::{figures, mode};
use super::super::peers::{add_curves, best_forms};
use super::super::records::{Records, Row, groups};
use super::super::ruler::Scale;
use super::super::section::{Cells, Drawing, Figure, Section};
use super::super::strips::{Kind, Strip, Strips};
use super::missing;
use crate::bench::digits;

pub(super) fn overhead(records: &Records) -> Section {
    let is_call = |row: &&Row| row.bench == "overhead" && row.unit == "ns";
    let rows: Vec<_> = records.rows.iter().filter(is_call).collect();
    let figures: Vec<_> = groups(&rows, Row::place).iter().map(|(_, rows)| bars(&usual(rows))).collect();
    Section {
        id: "overhead",
        title: "What a message costs its program",
        meaning: "Time that the program itself spends in each call, for the smallest message measured. What is set up once (o_s) is paid again \
                  with every one-shot message; start and wait remain. If they are small beside your computation, send as often as you like.",
        missing: if figures.is_empty() { vec![missing(records, "the cost of calls", "overhead")] } else { Vec::new() },
        figures,
        ..Section::default()
    }
}

/// Those waited for as usual, or in the first way there is: a call takes about as long in all of them, and the model's parameters say
/// more.
fn usual<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let waits = groups(rows, |row| row.wait.clone());
    let usual = waits.iter().position(|(wait, _)| wait == "adaptive").unwrap_or_default();
    waits.into_iter().nth(usual).map(|(_, rows)| rows).unwrap_or_default()
}

fn bars(rows: &[&Row]) -> Figure {
    let setting = rows.first().map(|row| row.setting()).unwrap_or_default();
    let smallest = rows.iter().filter_map(|row| row.bytes.filter(|&bytes| bytes > 0)).min();
    // What an empty message takes is said again with every size; once is enough.
    let empty = rows.iter().find(|row| row.bytes == Some(0));
    let shown = rows.iter().filter(|row| row.bytes == smallest).chain(empty);
    let strip = |row: &&Row| {
        let (number, form) =
            if row.mode.as_deref() == Some("oneshot") { (1, ", one-shot") } else { (0, ", persistent") };
        let (name, form) = match row.metric.as_str() {
            "o_s" => ("init and free (o_s)", ""),
            "o_i" => ("start to end of an empty message (o_i)", ""),
            "start_send" => ("start of a send", form),
            "start_recv" => ("start of a receive", form),
            "wait_done" => ("wait for what is done", form),
            "start_first" => ("start of a send that may wake the daemon", form),
            "start_bare" => ("what a start has to write", form),
            other => (other, form),
        };
        let spread = row.ci95;
        Strip {
            label: format!("{name}{form}"),
            value: row.median,
            spread,
            look: Look::Marked(number),
            verdict: None,
            doubts: row.doubts(),
        }
    };
    let strips = Strips { kind: Kind::Bars, unit: "ns".into(), strips: shown.map(strip).collect() };
    let size = smallest.map(|bytes| format!(", {} bytes", Size(bytes))).unwrap_or_default();
    Figure { title: format!("{setting}{size}"), note: String::new(), drawing: Drawing::Strips(strips) }
}

pub(super) fn persistence(records: &Records) -> Section {
    let rows = records.of("persistence", "d_p");
    let guides = [(1.0, "all of it is set-up")];
    let mut figures = figures(&rows, ("degree of persistence, d_p", Scale::Linear), &guides, mode);
    let best = best_forms(records, |of| of == "persistence");
    for (figure, (setting, _)) in figures.iter_mut().zip(groups(&rows, Row::setting)) {
        let is_there = |row: &&Row| row.metric == "d_p" && row.setting() == setting;
        let there: Vec<_> = best.iter().copied().filter(is_there).collect();
        add_curves(figure, &there, |row| row.peer.clone());
    }
    let absent = [
        (figures.is_empty(), "the degree of persistence", "persistence"),
        (best.is_empty(), "the degree of persistence of other libraries", "compare"),
    ];
    Section {
        id: "persistence",
        title: "What early binding can save",
        meaning: "The share of set-up in a message's overhead, d_p = o_s / (o_s + o_i). A message that is sent many times saves this share of \
                  its overhead when it is bound once; bind first what has the highest d_p and is sent most often. A library whose init does \
                  next to nothing has a low d_p, and does the work again in each start: what binding saves of its messages' time says more.",
        missing: absent
            .into_iter()
            .filter(|(is_absent, ..)| *is_absent)
            .map(|(_, what, bench)| missing(records, what, bench))
            .collect(),
        figures,
        tables: if best.is_empty() { Vec::new() } else { vec![saved(&best)] },
    }
}

/// Overhead and what binding saves, of Ropeway and others.
fn saved(rows: &[&Row]) -> Cells {
    let figure = |rows: &[&Row], metric: &str, value: fn(&Row) -> f64| {
        rows.iter().find(|row| row.metric == metric).map(|row| digits(value(row))).unwrap_or_default()
    };
    let cells = |who: &str, rows: &[&Row], value: fn(&Row) -> f64| {
        let first = rows[0];
        let size = Size(first.bytes.unwrap_or_default()).to_string();
        let figures = ["d_p", "o_s", "o_i", "saved"].map(|metric| figure(rows, metric, value));
        [first.setting(), size, who.to_owned()].into_iter().chain(figures).collect()
    };
    let mut table = Vec::new();
    for (_, rows) in groups(rows, |row| (row.setting(), row.bytes)) {
        table.push(cells("Ropeway", &rows, |row| row.median));
        for (peer, rows) in groups(&rows, |row| row.peer.clone()) {
            table.push(cells(&peer, &rows, |row| row.peer_median));
        }
    }
    let heading = ["where", "bytes", "library", "d_p", "o_s, ns", "o_i, ns", "saved"];
    Cells {
        title: "What binding saves of a message's time".into(),
        heading: heading.map(str::to_owned).into(),
        rows: table,
        ..Cells::default()
    }
}
