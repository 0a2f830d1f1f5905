//! The questions that the page answers, in the order in which a reader has them.

mod collectives;
mod costs;
mod hiding;
mod others;
mod predictions;
mod rivals;
mod segments;
mod speed;

use super::records::Records;
use super::section::Section;

pub(super) fn of(records: &Records) -> Vec<Section> {
    vec![
        speed::latency(records),
        speed::bandwidth(records),
        rivals::section(records),
        costs::overhead(records),
        costs::persistence(records),
        hiding::overlap(records),
        hiding::asynchrony(records),
        collectives::section(records),
        predictions::section(records),
        segments::section(records),
        others::section(records),
    ]
}

/// What is said instead of figures that there are no records for.
fn missing(what: &str, command: &str) -> String {
    format!("Left out: {what}, for want of records of ropeway bench {command}.")
}
