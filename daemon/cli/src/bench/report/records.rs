//! Records of benchmarks, as `ropeway bench … --json` prints them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::machine::Machine;
use crate::bench::digits;
use crate::bench::verdict::Verdict;

/// All that a page is made of.
#[derive(Default)]
pub(super) struct Records {
    /// As they were read or measured.
    pub(super) text: String,
    /// Of benchmarks.
    pub(super) rows: Vec<Row>,
    /// Where they were measured, if they say so.
    pub(super) machine: Option<Machine>,
    /// Benchmarks that were asked for, with or without success.
    pub(super) parts: Vec<Part>,
}

/// What was measured once. What a benchmark has not is empty; what no figure shows is not here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Row {
    pub(super) bench: String,
    pub(super) metric: String,
    pub(super) unit: String,
    pub(super) mode: Option<String>,
    pub(super) ranks: u32,
    pub(super) nodes: u32,
    pub(super) wait: String,
    pub(super) bytes: Option<usize>,
    pub(super) median: f64,
    pub(super) side: Option<String>,
    pub(super) compute: Option<String>,
    pub(super) progress: Option<String>,
    pub(super) division: Option<String>,
    pub(super) op: Option<String>,
    /// A program, and how large its problem is.
    pub(super) application: Option<String>,
    pub(super) size: Option<usize>,
    pub(super) pairs: Option<u32>,
    pub(super) netns: bool,
    pub(super) rate: Option<String>,
    pub(super) oversubscribed: bool,
    pub(super) version: String,
    pub(super) floor_name: Option<String>,
    pub(super) floor: Option<f64>,
    pub(super) of: String,
    pub(super) touched: bool,
    pub(super) peer: String,
    pub(super) peer_mode: String,
    pub(super) peer_median: f64,
    pub(super) ratio: f64,
    pub(super) ratio_min: f64,
    pub(super) ratio_max: f64,
    pub(super) verdict: Option<Verdict>,
    pub(super) predicted: Option<f64>,
    pub(super) segments: Option<u32>,
    pub(super) s_best: Option<f64>,
    pub(super) ci95: Option<[f64; 2]>,
    doubts: Vec<String>,
}

impl Row {
    /// Why the figure can't be trusted, in words.
    pub(super) fn doubts(&self) -> Vec<String> {
        let mut doubts = self.doubts.clone();
        if self.oversubscribed && !doubts.iter().any(|doubt| doubt == OVERSUBSCRIBED) {
            doubts.push(OVERSUBSCRIBED.to_owned());
        }
        doubts
    }

    /// The median as it stands in a table, marked if it is in doubt.
    pub(super) fn marked(&self) -> String {
        format!("{}{}", if self.doubts().is_empty() { "" } else { "~" }, digits(self.median))
    }

    /// Times of programs in milliseconds, not seconds.
    pub(super) fn in_ms(&self) -> Self {
        if self.unit != "s" {
            return self.clone();
        }
        let ms = |seconds: f64| seconds * 1e3;
        let (median, predicted) = (ms(self.median), self.predicted.map(ms));
        Self { unit: "ms".to_owned(), median, predicted, ci95: self.ci95.map(|ends| ends.map(ms)), ..self.clone() }
    }

    /// The place, and how ranks wait if not as usual.
    pub(super) fn setting(&self) -> String {
        match self.wait.as_str() {
            "" | "adaptive" => self.place(),
            wait => format!("{}, {wait}", self.place()),
        }
    }

    /// Nodes and the line between them, and ranks if there are not two.
    pub(super) fn place(&self) -> String {
        let mut words = match self.nodes {
            0 | 1 => "one node".to_owned(),
            2 => "two nodes".to_owned(),
            more => format!("{more} nodes"),
        };
        match (&self.rate, self.netns) {
            (Some(rate), _) => words += &format!(", a line of {rate}"),
            (None, true) => words += ", namespaces",
            (None, false) if self.nodes > 1 => words += ", loopback TCP",
            (None, false) => {}
        }
        match self.ranks {
            1 => words += ", 1 rank",
            2 => {}
            ranks => words += &format!(", {ranks} ranks"),
        }
        words
    }
}

/// A benchmark of a suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Part {
    /// What to type for it.
    pub(super) command: String,
    /// How long it took.
    pub(super) seconds: f64,
    /// Why there is nothing of it, or not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

/// A line that is no record.
#[derive(Debug, thiserror::Error)]
#[error(
    "line {line} is not a record of ropeway bench --json ({error}): name a file of what such a command has printed"
)]
pub(super) struct BadRecord {
    line: usize,
    error: serde_json::Error,
}

impl Records {
    /// One record a line.
    pub(super) fn parse(text: &str) -> Result<Self, BadRecord> {
        let mut records = Self { text: text.to_owned(), ..Self::default() };
        for (line, record) in (1..).zip(text.lines()).filter(|(_, record)| !record.trim().is_empty()) {
            records.add(record).map_err(|error| BadRecord { line, error })?;
        }
        Ok(records)
    }

    fn add(&mut self, record: &str) -> Result<(), serde_json::Error> {
        let value: Value = serde_json::from_str(record)?;
        match (value["bench"].as_str(), value["metric"].as_str()) {
            (Some(REPORT), Some(MACHINE)) => self.machine = Some(serde_json::from_value(value)?),
            (Some(REPORT), Some(PART)) => self.parts.push(serde_json::from_value(value)?),
            (Some(_), Some(_)) => self.rows.push(serde_json::from_value(value)?),
            _ => return Err(serde::de::Error::missing_field("bench or metric")),
        }
        Ok(())
    }

    /// The rows of a benchmark's metric.
    pub(super) fn of(&self, bench: &str, metric: &str) -> Vec<&Row> {
        self.rows.iter().filter(|row| row.bench == bench && row.metric == metric).collect()
    }
}

/// What a report says of itself, as a record.
pub(super) fn line(metric: &'static str, said: impl Serialize) -> String {
    #[derive(Serialize)]
    struct Line<T> {
        bench: &'static str,
        metric: &'static str,
        #[serde(flatten)]
        said: T,
    }
    serde_json::to_string(&Line { bench: REPORT, metric, said }).expect("lines are plain structures") + "\n"
}

/// Rows that belong together, in the order of their first.
pub(super) fn groups<'a, K: PartialEq>(rows: &[&'a Row], key: impl Fn(&Row) -> K) -> Vec<(K, Vec<&'a Row>)> {
    let mut groups: Vec<(K, Vec<&Row>)> = Vec::new();
    for &row in rows {
        let key = key(row);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups
}

const REPORT: &str = "report";
pub(super) const MACHINE: &str = "machine";
pub(super) const PART: &str = "part";
const OVERSUBSCRIBED: &str = "oversubscribed";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let good = r#"{"bench":"latency","metric":"half_rtt","nodes":2,"median":3.5,"unheard_of":1}"#;
        let records = Records::parse(&format!("{good}\n\n{good}\n")).unwrap();
        assert_eq!((records.rows.len(), records.rows[1].median), (2, 3.5));
        let error = |text: &str| Records::parse(text).err().unwrap().to_string();
        assert!(error(&format!("{good}\n{{}}")).starts_with("line 2 is not a record of ropeway bench --json ("));
        assert!(error("bandwidth, MB/s; 2 ranks").starts_with("line 1 is not a record"));
    }

    #[test]
    fn what_a_report_says_of_itself_is_read_again() {
        let part = Part { command: "ropeway bench latency".into(), seconds: 5.0, why: None };
        let records = Records::parse(&line(PART, &part)).unwrap();
        assert_eq!((records.rows.len(), records.parts[0].command.as_str()), (0, "ropeway bench latency"));
    }

    #[test]
    fn settings_say_what_is_unusual() {
        let row = Row { nodes: 1, ranks: 2, wait: "adaptive".into(), ..Row::default() };
        assert_eq!(row.setting(), "one node");
        let row = Row { nodes: 2, ranks: 4, rate: Some("1gbit".into()), wait: "polling".into(), ..row };
        assert_eq!(row.setting(), "two nodes, a line of 1gbit, 4 ranks, polling");
    }
}
