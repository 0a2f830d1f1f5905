//! What all ranks do together.

use ropeway_bench::Size;

use super::super::curves::figures;
use super::super::records::{Records, Row};
use super::super::ruler::Scale;
use super::super::section::{Cells, Section};
use super::missing;

pub(super) fn section(records: &Records) -> Section {
    let rows = records.of("coll", "latency");
    let (persistent, other): (Vec<&Row>, Vec<&Row>) =
        rows.into_iter().partition(|row| row.mode.as_deref() == Some("persistent"));
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
fn table<'a>(records: &'a Records, persistent: &[&'a Row], other: &[&'a Row]) -> Cells {
    let hidden = records.of("coll", "d_o");
    let key = |row: &Row| (row.op.clone(), row.division.clone(), row.setting(), row.bytes);
    let find = |rows: &[&'a Row], like: &Row, compute: Option<&str>| {
        let is_it = |row: &&Row| {
            key(row) == key(like) && row.compute.as_deref() == compute && (compute.is_none() || row.mode == like.mode)
        };
        rows.iter().copied().find(is_it)
    };
    let found = |row: &&'a Row| {
        let [asleep, busy] = ["sleep", "busy"].map(|compute| find(&hidden, row, Some(compute)));
        [Some(*row), find(other, row, None), asleep, busy]
    };
    let cells = |row: &&'a Row| {
        let size = row.bytes.map(|bytes| Size(bytes).to_string()).unwrap_or_default();
        let figures = found(row).map(|found| found.map(Row::marked).unwrap_or_default());
        [name(row), row.setting(), size].into_iter().chain(figures).collect()
    };
    let doubts = persistent.iter().flat_map(&found).flatten().flat_map(Row::doubts).collect();
    let heading = ["operation", "where", "bytes", "persistent, µs", "one-shot, µs", "d_o asleep", "d_o busy"];
    Cells {
        title: "Persistent and one-shot".into(),
        heading: heading.map(str::to_owned).into(),
        rows: persistent.iter().map(cells).collect(),
        doubts,
    }
}

/// The operation, and who takes part in it between nodes if that is not as usual.
fn name(row: &Row) -> String {
    let division = row.division.as_ref().map(|division| format!(", {division}")).unwrap_or_default();
    format!("{}{division}", row.op.as_deref().unwrap_or_default())
}
