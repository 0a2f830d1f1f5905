//! The questions that the page answers, in the order in which a reader has them.

mod classes;
mod collectives;
mod costs;
mod hiding;
mod notification;
mod others;
mod predictions;
mod reading;
mod rivals;
mod segments;
mod speed;

use super::records::{Part, Records};
use super::section::Section;

pub(super) fn of(records: &Records) -> Vec<Section> {
    vec![
        reading::marks(),
        speed::latency(records),
        speed::bandwidth(records),
        rivals::section(records),
        rivals::transparency(records),
        costs::overhead(records),
        costs::persistence(records),
        hiding::overlap(records),
        hiding::asynchrony(records),
        classes::section(records),
        collectives::section(records),
        predictions::section(records),
        segments::section(records),
        others::section(records),
        reading::words(),
    ]
}

/// What is said instead of figures that there are no records for: why a benchmark has made none, if it was asked.
fn missing(records: &Records, what: &str, bench: &str) -> String {
    let of_bench = |part: &&Part| part.command.split(' ').nth(2) == Some(bench);
    match records.parts.iter().filter(of_bench).find_map(|part| part.why.as_ref().zip(Some(&part.command))) {
        Some((why, command)) => format!("Left out: {what}. {command}: {why}."),
        None => format!("Left out: {what}, for want of records of ropeway bench {bench}."),
    }
}
