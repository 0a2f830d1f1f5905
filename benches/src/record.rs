//! What has been measured, for programs. The keys are stable.

use std::collections::BTreeMap;
use std::fmt;

use ropeway::Operator;
use ropeway_examples::Mode;
use serde::{Deserialize, Serialize};

use crate::Plan;
use crate::computation::Compute;
use crate::method::Division;
use crate::notification::Notification;
use crate::operation::{CollectiveCall, Operation};
use crate::progress::Progress;
use crate::starts::Arrival;
use crate::statistics::{Doubt, Summary, significant};

/// What the ranks have found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What was measured, for example `half_rtt`.
    pub metric: String,
    /// In which unit.
    pub unit: String,
    /// Kind of messages.
    pub mode: Option<Mode>,
    /// How ranks waited, where that is compared.
    pub notification: Option<Notification>,
    /// Bytes of a message.
    pub bytes: Option<usize>,
    /// Idle links of the node's daemon meanwhile, beside a busy one; `None` if there were none of either.
    pub idle_links: Option<u32>,
    /// Who sends.
    pub side: Option<Side>,
    /// Pairs of ranks that send at once.
    pub pairs: Option<u32>,
    /// Messages that are started together.
    pub window: Option<usize>,
    /// How late a receiver is.
    pub delay_us: Option<f64>,
    /// What was done meanwhile.
    pub compute: Option<Compute>,
    /// What all ranks did together.
    pub collective: Option<CollectiveCall>,
    /// Who took part in that between the nodes.
    pub division: Option<Division>,
    /// By which algorithm, if that is known: if one was asked for, or ranks took part themselves.
    pub algorithm: Option<String>,
    /// Who drove the communication.
    pub progress: Option<Progress>,
    /// When the rank whose time it is came, where that makes a difference.
    pub arrival: Option<Arrival>,
    /// Windows that somebody came late to; they don't count.
    pub missed: Option<u64>,
    /// All bytes moved meanwhile, for the tool, which knows what that has cost the daemons.
    pub moved_bytes: Option<u64>,
    /// The samples.
    pub summary: Summary,
    /// Runs they come from.
    pub runs: u32,
    /// What the machine can do without us, measured in turns with it.
    pub floor: Option<Floor>,
}

impl Measured {
    /// The least that is to be said; everything else is `None`.
    pub fn new(metric: &str, unit: &str, summary: Summary, runs: u32) -> Self {
        Self {
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            mode: None,
            notification: None,
            bytes: None,
            idle_links: None,
            side: None,
            pairs: None,
            window: None,
            delay_us: None,
            compute: None,
            collective: None,
            division: None,
            algorithm: None,
            progress: None,
            arrival: None,
            missed: None,
            moved_bytes: None,
            summary,
            runs,
            floor: None,
        }
    }
}

/// Who sends in a benchmark, seen from the rank that keeps the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// One side, and that is the one that is measured.
    Send,
    /// One side, and the other is measured.
    Recv,
    /// Both sides at once.
    Both,
}

impl Side {
    pub(crate) const ALL: [Self; 3] = [Self::Send, Self::Recv, Self::Both];
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Send => "send",
            Self::Recv => "recv",
            Self::Both => "both",
        })
    }
}

/// The floor under a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// What it is.
    #[serde(rename = "floor_name")]
    pub name: String,
    /// Its median.
    #[serde(rename = "floor")]
    pub median: f64,
    /// Measured to floor; `None` of shares, which may be near zero or below, and beside other libraries, whose ratio counts there.
    #[serde(flatten)]
    pub ratio: Option<Ratio>,
}

/// Measured to floor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median over the runs.
    #[serde(rename = "ratio")]
    pub median: f64,
    /// The smallest of a run.
    #[serde(rename = "ratio_min")]
    pub min: f64,
    /// The largest of a run.
    #[serde(rename = "ratio_max")]
    pub max: f64,
}

impl Ratio {
    /// Of at least one ratio.
    pub(crate) fn of(ratios: &[f64]) -> Self {
        let Summary { min, median, max, .. } = Summary::of(ratios);
        Self { median, min, max }
    }
}

impl Floor {
    /// Of a share, such as of what is hidden, from at least one sample.
    pub(crate) fn of_share(name: &str, samples: &[f64]) -> Self {
        Self { name: name.to_owned(), median: Summary::of(samples).median, ratio: None }
    }

    /// Of several runs with a floor each, if there are any.
    pub fn of_runs<'a>(mut floors: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let first = floors.next()?;
        let medians: Vec<_> = [first].into_iter().chain(floors).map(|floor| floor.median).collect();
        Some(Self::of_share(&first.name, &medians))
    }

    /// Under times in microseconds of a message between nodes: how long its bytes are on the line.
    pub(crate) fn of_line(plan: &Plan, bytes: usize, times_us: &[f64]) -> Option<Self> {
        Some(Self::of_times("line rate", bytes as f64 * 8e6 / plan.line_rate? as f64, times_us))
    }

    /// Under times.
    pub(crate) fn of_times(name: &str, median: f64, times: &[f64]) -> Self {
        let ratios: Vec<_> = times.iter().map(|time| time / median).collect();
        Self { name: name.into(), median: significant(median), ratio: Some(Ratio::of(&ratios)) }
    }
}

/// Where it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// Ranks of the job.
    pub ranks: u32,
    /// Nodes of the job.
    pub nodes: u32,
    /// What moves the messages: `shm` or `tcp`.
    pub device: String,
    /// Wait mode of the ranks.
    pub wait: String,
    /// Whether each node has a network namespace of its own.
    pub netns: bool,
    /// Of the line between nodes, if it is limited.
    pub rate: Option<String>,
    /// Cores of the machine.
    pub cores: usize,
}

impl Setting {
    /// Whether there are more ranks than cores.
    pub fn is_oversubscribed(&self) -> bool {
        self.ranks as usize > self.cores
    }
}

/// One line of `--json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    bench: String,
    metric: String,
    unit: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<Mode>,
    ranks: u32,
    nodes: u32,
    device: String,
    wait: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<usize>,
    #[serde(flatten)]
    summary: Summary,
    runs: u32,
    cores: usize,
    oversubscribed: bool,
    version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_links: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<Side>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pairs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compute: Option<Compute>,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<Operator>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root: Option<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    uneven: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    division: Option<Division>,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<Progress>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arrival: Option<Arrival>,
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    netns: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    #[serde(flatten)]
    floor: Option<Floor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<BTreeMap<String, u64>>,
}

impl Record {
    /// Puts together what the ranks have found and what the tool knows.
    pub fn new(bench: &str, setting: &Setting, measured: &Measured) -> Self {
        let Measured {
            metric,
            unit,
            mode,
            notification,
            bytes,
            idle_links,
            side,
            pairs,
            window,
            delay_us,
            compute,
            collective,
            division,
            algorithm,
            progress,
            arrival,
            missed,
            moved_bytes: _,
            summary,
            runs,
            floor,
        } = measured.clone();
        let oversubscribed = setting.is_oversubscribed();
        let Setting { ranks, nodes, device, wait, netns, rate, cores } = setting.clone();
        let doubts = summary.doubts.and(Doubt::Oversubscribed, oversubscribed);
        Self {
            bench: bench.to_owned(),
            metric,
            unit,
            mode,
            ranks,
            nodes,
            device,
            wait: notification.map_or(wait, String::from),
            bytes,
            summary: Summary { doubts, ..summary },
            runs,
            cores,
            oversubscribed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            idle_links,
            side,
            pairs,
            window,
            delay_us,
            compute,
            op: collective.map(|call| call.operation),
            operator: collective.and_then(CollectiveCall::operator),
            root: collective.and_then(CollectiveCall::root),
            uneven: collective.is_some_and(|call| call.is_uneven),
            division,
            algorithm,
            progress,
            arrival,
            missed,
            netns,
            rate,
            floor,
            counters: None,
        }
    }

    /// Adds what daemons and ranks have counted.
    pub fn with_counters(self, counters: Option<BTreeMap<String, u64>>) -> Self {
        Self { counters, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Doubts;

    fn setting() -> Setting {
        Setting {
            ranks: 2,
            nodes: 1,
            device: "shm".into(),
            wait: "adaptive".into(),
            netns: false,
            rate: None,
            cores: 2,
        }
    }

    fn measured() -> Measured {
        let summary = Summary {
            min: 0.21,
            median: 0.22,
            ci95: [0.21, 0.23],
            p99: 0.31,
            max: 1.2,
            mean: 0.23,
            samples: 100_000,
            doubts: Doubts::default(),
        };
        Measured { mode: Some(Mode::Persistent), bytes: Some(8), ..Measured::new("half_rtt", "us", summary, 5) }
    }

    #[test]
    fn a_record_has_its_stable_keys() {
        let record = serde_json::to_string(&Record::new("latency", &setting(), &measured())).unwrap();
        let expected = r#"{"bench":"latency","metric":"half_rtt","unit":"us","mode":"persistent","ranks":2,"nodes":1,"device":"shm","wait":"adaptive","bytes":8,"min":0.21,"median":0.22,"ci95":[0.21,0.23],"p99":0.31,"max":1.2,"mean":0.23,"samples":100000,"runs":5,"cores":2,"oversubscribed":false,"version":"VERSION"}"#;
        assert_eq!(record, expected.replace("VERSION", env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn extra_keys_appear_where_they_apply() {
        let ratio = Ratio { median: 2.0, min: 1.5, max: 2.5 };
        let floor = Floor { name: "tcp".into(), median: 3.0, ratio: Some(ratio) };
        let measured =
            Measured { side: Some(Side::Both), pairs: Some(4), delay_us: Some(1e6), floor: Some(floor), ..measured() };
        let counters = BTreeMap::from([("frames_sent".to_owned(), 7)]);
        let record = Record::new("bandwidth", &setting(), &measured).with_counters(Some(counters));
        let json: serde_json::Value = serde_json::to_value(&record).unwrap();
        assert_eq!(json["side"], "both");
        assert_eq!((&json["pairs"], &json["delay_us"]), (&4.into(), &1e6.into()));
        assert_eq!(json["floor_name"], "tcp");
        assert_eq!(json["ratio_max"], 2.5);
        assert_eq!(json["counters"]["frames_sent"], 7);
        assert_eq!(serde_json::from_value::<Record>(json).unwrap(), record);
    }

    #[test]
    fn the_floor_of_a_share_has_no_ratio() {
        let floor = Some(Floor { name: "sockets and threads".into(), median: -0.1, ratio: None });
        let record = Record::new("overlap", &setting(), &Measured { floor, ..measured() });
        let json = serde_json::to_value(&record).unwrap();
        assert_eq!((&json["floor"], json.get("ratio")), (&(-0.1).into(), None));
        assert_eq!(serde_json::from_value::<Record>(json).unwrap(), record);
    }

    #[test]
    fn more_ranks_than_cores_are_a_doubt() {
        let setting = Setting { ranks: 3, ..setting() };
        let record = serde_json::to_value(Record::new("latency", &setting, &measured())).unwrap();
        assert_eq!(record["doubts"], serde_json::json!(["oversubscribed"]));
    }

    #[test]
    fn collectives_have_the_arguments_that_matter() {
        let of = |operation| {
            let collective = Some(CollectiveCall { root: 1, ..CollectiveCall::of(operation) });
            let (division, progress) = (Some(Division::Multigroup { groups: 2 }), Some(Progress::Client));
            let algorithm = Some("multigroup:4,2".to_owned());
            let measured = Measured { collective, division, algorithm, progress, missed: Some(2), ..measured() };
            serde_json::to_value(Record::new("coll", &setting(), &measured)).unwrap()
        };
        let (reduce, bcast) = (of(Operation::Reduce), of(Operation::Bcast));
        assert_eq!((&reduce["op"], &reduce["operator"], &reduce["root"]), (&"reduce".into(), &"sum".into(), &1.into()));
        assert_eq!((&bcast["op"], bcast.get("operator"), &bcast["missed"]), (&"bcast".into(), None, &2.into()));
        assert_eq!(of(Operation::Barrier).get("root"), None);
        assert_eq!(bcast.get("uneven"), None);
        let collective = Some(CollectiveCall::of(Operation::Allgather).uneven());
        let uneven = Record::new("coll", &setting(), &Measured { collective, ..measured() });
        let json = serde_json::to_value(&uneven).unwrap();
        assert_eq!((&json["op"], &json["uneven"]), (&"allgather".into(), &true.into()));
        assert_eq!(serde_json::from_value::<Record>(json).unwrap(), uneven);
        let how = ["division", "algorithm", "progress"].map(|key| bcast[key].as_str().unwrap());
        assert_eq!(how, ["multigroup:2", "multigroup:4,2", "client"]);
    }
}
