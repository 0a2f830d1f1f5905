//! Parameters of the model, from a file.

use std::path::Path;

use ropeway::WaitMode;
use ropeway_bench::boum::{Costs, Figure};
use serde::Deserialize;

use crate::bench::counted_nodes;
use crate::failure::Failure;

/// Reads what messages cost in a job of so many nodes whose ranks wait so; as those that the file begins with, if nobody says how.
pub(super) fn read(path: &Path, nodes: u32, wait: Option<WaitMode>) -> Result<Costs, Failure> {
    let records = records(path)?;
    let here = |record: &&Record| record.bench == "boum" && record.nodes == nodes && record.figure.is_parameter();
    let first = records.iter().find(here).map(|record| record.wait.clone());
    let wait = wait.map(|wait| wait.to_string()).or(first);
    let chosen: Vec<_> = records.iter().filter(here).filter(|record| Some(&record.wait) == wait.as_ref()).collect();
    if let Some(other) = chosen.iter().find(|record| record.line() != chosen[0].line()) {
        let (first, other) = (chosen[0].line(), other.line());
        let why = format!("{} has parameters of {first} and of {other}: keep those of one", path.display());
        return Err(Failure::Other(why));
    }
    let figures: Vec<_> = chosen.into_iter().map(|record| record.figure.clone()).collect();
    Costs::of(&figures).map_err(|error| {
        let setting = [Some(counted_nodes(nodes)), wait.clone()].into_iter().flatten().collect::<Vec<_>>().join(", ");
        // What was looked for, or the same would be missing again.
        let nodes = if nodes > 1 { format!(" --nodes {nodes}") } else { String::new() };
        let wait = wait.map(|wait| format!(" --wait {wait}")).unwrap_or_default();
        let file = path.display();
        Failure::Other(format!("{file}, {setting}: {error}; measure them with: ropeway bench boum{nodes}{wait} --json"))
    })
}

fn records(path: &Path) -> Result<Vec<Record>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Other(format!("can't read {}: {error}", path.display())))?;
    let parse = |(index, line)| {
        let wrong = |error| {
            let line = format!("{}: line {} is no record of bench boum", path.display(), index + 1);
            Failure::Other(format!("{line} ({error}): name a file that `ropeway bench boum --json` has printed"))
        };
        serde_json::from_str(line).map_err(wrong)
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(parse).collect()
}

/// A line of the file, as far as it matters here.
#[derive(Deserialize)]
struct Record {
    bench: String,
    nodes: u32,
    wait: String,
    #[serde(default)]
    netns: bool,
    #[serde(default)]
    rate: Option<String>,
    #[serde(flatten)]
    figure: Figure,
}

impl Record {
    /// What messages between nodes went over.
    fn line(&self) -> String {
        match (&self.rate, self.netns) {
            (Some(rate), _) => format!("a line of {rate}"),
            (None, true) => "namespaces".to_owned(),
            (None, false) if self.nodes == 1 => "shared memory".to_owned(),
            (None, false) => "loopback".to_owned(),
        }
    }
}
