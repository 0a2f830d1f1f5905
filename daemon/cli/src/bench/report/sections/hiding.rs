//! What goes on while the program computes.

use super::super::curves::{circumstances, figures};
use super::super::records::{Records, Row};
use super::super::ruler::Scale;
use super::super::section::Section;
use super::{classes, missing};

pub(super) fn overlap(records: &Records) -> Section {
    let rows = persistent(records, "overlap", "d_o");
    let guides = [(1.0, "all is hidden"), (0.0, "nothing is hidden")];
    let figures = figures(&rows, ("degree of overlapping, d_o", Scale::Linear), &guides, circumstances);
    Section {
        id: "overlap",
        title: "How much of a transfer hides behind computation",
        meaning: "d_o is the share of the transfer's time that computing between start and wait makes disappear, for the side that sends, receives \
                  or does both; the floor is what a program hides with a plain socket and threads of its own. \
                  Where it is near 1, start early and wait late; below 0 computing then slows the program down. \
                  Asleep leaves the core to the daemon, busy does not: with as many busy ranks as cores, leave the daemon one.",
        missing: if figures.is_empty() { vec![missing(records, "the overlap", "overlap")] } else { Vec::new() },
        figures,
        ..Section::default()
    }
}

pub(super) fn asynchrony(records: &Records) -> Section {
    let rows = persistent(records, "asynchrony", "d_a");
    let guides = [(1.0, "goes on by itself"), (0.0, "goes on only in calls")];
    let figures = figures(&rows, ("degree of asynchrony, d_a", Scale::Linear), &guides, circumstances);
    Section {
        id: "asynchrony",
        title: "Whether receives go on by themselves",
        meaning: "d_a is the share of a receive that has happened when the program comes back from a long computation. Near 1 there is no need to \
                  call test in between; near 0 or below there would be.",
        missing: if figures.is_empty() { vec![missing(records, "the asynchrony", "asynchrony")] } else { Vec::new() },
        figures,
        ..Section::default()
    }
}

/// One-shot messages hide as much or less, and are in the records. What is compared by its class has a section of its own.
fn persistent<'a>(records: &'a Records, bench: &str, metric: &str) -> Vec<&'a Row> {
    let classified = classes::comparisons(records).concat();
    let is_classified = |row: &Row| classified.iter().any(|&other| std::ptr::eq(row, other));
    let rows = records.of(bench, metric).into_iter();
    rows.filter(|row| row.mode.as_deref() != Some("oneshot") && !is_classified(row)).collect()
}
