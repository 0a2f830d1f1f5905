//! Figures that need no drawing.

use ropeway_bench::Size;

use super::super::curves::{mode, unit};
use super::super::records::{Records, Row};
use super::super::section::{Cells, Section};
use super::missing;
use crate::bench::digits;

pub(super) fn section(records: &Records) -> Section {
    let rows: Vec<_> = records.rows.iter().filter_map(|row| Some((meaning(row)?, row))).collect();
    let cells = rows.iter().map(|(meaning, row)| {
        let kind = row.mode.as_ref().map(|_| mode(row)).unwrap_or_default();
        let size = row.bytes.map(|bytes| Size(bytes).to_string()).unwrap_or_default();
        let pairs =
            row.pairs.map(|pairs| format!(", {pairs} pair{}", if pairs == 1 { "" } else { "s" })).unwrap_or_default();
        let floor = row.floor.zip(row.floor_name.as_ref()).map(|(floor, name)| format!("{} ({name})", digits(floor)));
        let words = [(*meaning).to_owned(), format!("{}{pairs}", row.setting()), kind, size];
        words
            .into_iter()
            .chain([
                format!("{} {}", digits(row.median), unit(row)),
                floor.unwrap_or_default(),
                row.doubts().join(", "),
            ])
            .collect()
    });
    let heading = ["what", "where", "messages", "bytes", "median", "floor", "doubts"];
    let table = Cells { heading: heading.map(str::to_owned).into(), rows: cells.collect(), ..Cells::default() };
    Section {
        id: "others",
        title: "Waiting, waking and working",
        meaning: "What waiting ranks and their daemons use of the processor, how soon a sleeping rank runs again, and what late partners do to \
                  others. If ranks share cores, let them wait with blocking or adaptive; the floor is what the machine itself takes.",
        missing: if rows.is_empty() {
            vec![missing(records, "these figures", "idle, wakeup, skew, cpu and message-rate")]
        } else {
            Vec::new()
        },
        tables: if rows.is_empty() { Vec::new() } else { vec![table] },
        ..Section::default()
    }
}

fn meaning(row: &Row) -> Option<&'static str> {
    Some(match row.metric.as_str() {
        "client_cpu" => "processor time of ranks that wait",
        "daemon_cpu" => "processor time of their daemons",
        "wakeup" => "from a start until a rank that slept runs again",
        "propagated" => "share of a receiver's delay that its sender notices",
        "client_s_per_gib" => "processor time of ranks for what they move",
        "daemon_s_per_gib" => "processor time of daemons for what is moved",
        "rate" if row.bench == "message-rate" => "small messages of all pairs together",
        "one_way" => "a message of a stream",
        _ => return None,
    })
}
