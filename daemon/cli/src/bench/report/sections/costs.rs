//! What messages cost their program.

use super::super::chart::Look;
use super::super::curves::{figures, mode};
use super::super::records::{Records, Row, groups};
use super::super::ruler::Scale;
use super::super::section::{Drawing, Figure, Section};
use super::super::strips::{Kind, Strip, Strips};
use super::missing;

pub(super) fn overhead(records: &Records) -> Section {
    let is_call = |row: &&Row| row.bench == "overhead" && row.unit == "ns";
    let rows: Vec<_> = records.rows.iter().filter(is_call).collect();
    let figures: Vec<_> =
        groups(&rows, Row::setting).into_iter().map(|(setting, rows)| bars(&setting, &rows)).collect();
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

fn bars(setting: &str, rows: &[&Row]) -> Figure {
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
    let size = smallest.map(|bytes| format!(", {} bytes", ropeway_bench::Size(bytes))).unwrap_or_default();
    Figure { title: format!("{setting}{size}"), note: String::new(), drawing: Drawing::Strips(strips) }
}

pub(super) fn persistence(records: &Records) -> Section {
    let rows = records.of("persistence", "d_p");
    let figures = figures(&rows, ("degree of persistence, d_p", Scale::Linear), &[(1.0, "all of it is set-up")], mode);
    Section {
        id: "persistence",
        title: "What early binding can save",
        meaning: "The share of set-up in a message's overhead, d_p = o_s / (o_s + o_i). A message that is sent many times saves this share of \
                  its overhead when it is bound once; bind first what has the highest d_p and is sent most often.",
        missing: if figures.is_empty() {
            vec![missing(records, "the degree of persistence", "persistence")]
        } else {
            Vec::new()
        },
        figures,
        ..Section::default()
    }
}
