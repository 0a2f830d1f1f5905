//! What all ranks do together.

use ropeway_bench::Size;

use super::super::curves::figures;
use super::super::records::{Records, Row};
use super::super::ruler::Scale;
use super::super::section::{Cells, Section};
use super::missing;
use crate::bench::digits;

pub(super) fn section(records: &Records) -> Section {
    let rows = records.of("coll", "latency");
    let (persistent, other): (Vec<&Row>, Vec<&Row>) =
        rows.into_iter().partition(|row| row.mode.as_deref() == Some("persistent"));
    let name = |row: &Row| match (&row.op, &row.division) {
        (Some(op), Some(division)) => format!("{op}, {division}"),
        (op, _) => op.clone().unwrap_or_default(),
    };
    let figures = figures(&persistent, ("until the last has its result, µs", Scale::Log), &[], name);
    Section {
        id: "collectives",
        title: "How long collectives take",
        meaning: "From the moment at which all ranks begin until the last has its result, persistent; lower is better. The table has what a call that \
                  is not registered costs, and how much of each hides behind computation: register those that are called in every \
                  iteration, and compute between start and wait where d_o is near 1.",
        missing: if figures.is_empty() { vec![missing(records, "collectives", "coll")] } else { Vec::new() },
        figures,
        tables: if persistent.is_empty() { Vec::new() } else { vec![table(records, &persistent, &other)] },
    }
}

/// A row for each figure: the other form, and what hides.
fn table(records: &Records, persistent: &[&Row], other: &[&Row]) -> Cells {
    let hidden = records.of("coll", "d_o");
    let key = |row: &Row| (row.op.clone(), row.division.clone(), row.setting(), row.bytes);
    let find = |rows: &[&Row], like: &Row, compute: Option<&str>| {
        let is_it = |row: &&&Row| {
            key(row) == key(like) && row.compute.as_deref() == compute && (compute.is_none() || row.mode == like.mode)
        };
        rows.iter().find(is_it).map(|row| digits(row.median)).unwrap_or_default()
    };
    let row = |row: &&Row| {
        let size = row.bytes.map(|bytes| Size(bytes).to_string()).unwrap_or_default();
        let name = row.op.clone().unwrap_or_default();
        let name = row.division.as_ref().map_or_else(|| name.clone(), |division| format!("{name}, {division}"));
        let times = [digits(row.median), find(other, row, None)];
        let shares = ["sleep", "busy"].map(|compute| find(&hidden, row, Some(compute)));
        [name, row.setting(), size].into_iter().chain(times).chain(shares).collect()
    };
    let heading = ["operation", "where", "bytes", "persistent, µs", "one-shot, µs", "d_o asleep", "d_o busy"];
    Cells {
        title: "Persistent and one-shot".into(),
        heading: heading.map(str::to_owned).into(),
        rows: persistent.iter().map(row).collect(),
    }
}
