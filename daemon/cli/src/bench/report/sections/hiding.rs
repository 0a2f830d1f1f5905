//! What goes on while the program computes.

use super::super::curves::{figures, meanwhile, subject};
use super::super::peers::{add_curves, best_forms};
use super::super::records::{Records, Row, groups};
use super::super::ruler::Scale;
use super::super::section::{Figure, Section};
use super::{classes, missing};

pub(super) fn overlap(records: &Records) -> Section {
    let guides = [(1.0, "all is hidden"), (0.0, "nothing is hidden")];
    let share = Share { bench: "overlap", metric: "d_o", label: "degree of overlapping, d_o", guides };
    let (figures, missing) = share.figures(records, "the overlap");
    Section {
        id: "overlap",
        title: "How much of a transfer hides behind computation",
        meaning: "d_o is the share of the transfer's time that computing between start and wait makes disappear, for the side that sends, receives \
                  or does both; the floor is what a program hides with a plain socket and threads of its own. \
                  Where it is near 1, start early and wait late; below 0 computing then slows the program down. \
                  Asleep leaves the core to the daemon, busy does not: with as many busy ranks as cores, leave the daemon one. \
                  Other libraries are shown with the form of their calls that hides most; a slow transfer has more to hide than a fast one.",
        missing,
        figures,
        ..Section::default()
    }
}

pub(super) fn asynchrony(records: &Records) -> Section {
    let guides = [(1.0, "goes on by itself"), (0.0, "goes on only in calls")];
    let share = Share { bench: "asynchrony", metric: "d_a", label: "degree of asynchrony, d_a", guides };
    let (figures, missing) = share.figures(records, "the asynchrony");
    Section {
        id: "asynchrony",
        title: "Whether receives go on by themselves",
        meaning: "d_a is the share of a receive that has happened when the program comes back from a long computation. Near 1 there is no need to \
                  call test in between; near 0 or below there would be.",
        missing,
        figures,
        ..Section::default()
    }
}

/// A share of communication, which is drawn over message sizes.
struct Share {
    bench: &'static str,
    metric: &'static str,
    label: &'static str,
    guides: [(f64, &'static str); 2],
}

impl Share {
    /// A figure for each setting and what is communicated there, or what is missing. Curves of several directions and libraries in
    /// one figure could not be told apart.
    fn figures(&self, records: &Records, what: &str) -> (Vec<Figure>, Vec<String>) {
        let Self { bench, metric, label, guides } = self;
        let rows = persistent(records, bench, metric);
        let best = best_forms(records, |of| of == *bench);
        let best: Vec<_> = best.into_iter().filter(|row| row.metric == *metric).collect();
        let mut drawn = Vec::new();
        for (place, rows) in groups(&rows, |row| (row.setting(), subject(row))) {
            let is_there = |row: &&Row| (row.setting(), subject(row)) == place;
            let there: Vec<_> = best.iter().copied().filter(is_there).collect();
            for mut figure in figures(&rows, (label, Scale::Linear), guides, meanwhile) {
                figure.title += &format!(", {}", place.1);
                add_curves(&mut figure, &there, |row| format!("{}, {}", row.peer, meanwhile(row)));
                drawn.push(figure);
            }
        }
        let others = format!("{what} of other libraries");
        let absent = [(drawn.is_empty(), what, *bench), (best.is_empty(), others.as_str(), "compare")];
        let absent = absent.into_iter().filter(|(is_absent, ..)| *is_absent);
        (drawn, absent.map(|(_, what, bench)| missing(records, what, bench)).collect())
    }
}

/// One-shot messages hide as much or less, and are in the records. What is compared by its class has a section of its own.
fn persistent<'a>(records: &'a Records, bench: &str, metric: &str) -> Vec<&'a Row> {
    let classified = classes::comparisons(records).concat();
    let is_classified = |row: &Row| classified.iter().any(|&other| std::ptr::eq(row, other));
    let rows = records.of(bench, metric).into_iter();
    rows.filter(|row| row.mode.as_deref() != Some("oneshot") && !is_classified(row)).collect()
}
