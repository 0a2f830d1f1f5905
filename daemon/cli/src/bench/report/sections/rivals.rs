//! Ropeway beside other libraries: messages and collectives, and programs that gain nothing from either being registered.

use ropeway_bench::Size;

use super::super::chart::Look;
use super::super::peers::{best_forms, speed_up};
use super::super::records::{Records, Row, groups};
use super::super::section::{Drawing, Figure, Section};
use super::super::strips::{Kind, Strip, Strips};
use super::missing;

pub(super) fn section(records: &Records) -> Section {
    // Shares have figures of their own, and no ratios.
    let is_share = |of: &str| matches!(of, "overlap" | "asynchrony" | "persistence");
    let figures = figures(&best_forms(records, |of| !is_share(of)));
    Section {
        id: "peers",
        title: "Beside other libraries",
        meaning: "How many times as fast Ropeway is as the best form of each library found, measured in turns in one run; the bar is from the \
                  lowest to the highest run. Right of 1 Ropeway is faster, if the word beside the figure says so: it is that of a permutation \
                  test. Take neither for faster where it is undecided, because runs that differ by chance alone would often be as far apart, \
                  or where there are too few runs to tell.",
        missing: if figures.is_empty() { vec![missing(records, "other libraries", "compare")] } else { Vec::new() },
        figures,
        ..Section::default()
    }
}

pub(super) fn transparency(records: &Records) -> Section {
    let rows: Vec<_> = records.rows.iter().filter(|row| row.bench == "transparency").collect();
    let figures = figures(&rows);
    let missing = if figures.is_empty() {
        vec![missing(records, "one-shot programs beside other libraries", "transparency")]
    } else {
        Vec::new()
    };
    Section {
        id: "transparency",
        title: "One-shot programs",
        meaning: "Programs that register nothing: an integer sort (is) and conjugate gradients (cg) of blocking calls, computing included, beside \
                  the same over other libraries: what moving a program to Ropeway costs or gains before anything is registered or \
                  overlapped. As above, right of 1 Ropeway is faster if the word beside the figure says so. Bytes are those of a rank's \
                  keys, or of its part of the solution.",
        figures,
        missing,
        ..Section::default()
    }
}

fn figures(rows: &[&Row]) -> Vec<Figure> {
    let figures = groups(rows, |row| (what(row), row.setting()));
    figures.into_iter().map(|((what, setting), rows)| figure(&what, &setting, &rows)).collect()
}

/// What is compared. Of overhead each call has a figure of its own.
fn what(row: &Row) -> String {
    if row.of == "overhead" { format!("{}, {}", row.of, row.metric) } else { row.of.clone() }
}

fn figure(what: &str, setting: &str, rows: &[&Row]) -> Figure {
    let mut peers: Vec<&str> = Vec::new();
    let mut strips = Vec::new();
    for row in rows {
        if !peers.contains(&row.peer.as_str()) {
            peers.push(&row.peer);
        }
        let number = peers.iter().position(|peer| *peer == row.peer).unwrap_or_default();
        let (value, spread) = speed_up(row);
        let size =
            if what == "barrier" { String::new() } else { format!("{} bytes, ", Size(row.bytes.unwrap_or_default())) };
        strips.push(Strip {
            label: format!("{size}{}, {}", row.peer, row.peer_mode),
            value,
            spread: Some(spread),
            look: Look::Marked(number),
            verdict: row.verdict,
            doubts: row.doubts(),
        });
    }
    let strips = Strips { kind: Kind::Ratios, unit: "times as fast".into(), strips };
    Figure { title: format!("{what}, {setting}"), note: String::new(), drawing: Drawing::Strips(strips) }
}
