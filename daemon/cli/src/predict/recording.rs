//! What a recorded program would gain.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use ropeway_bench::boum::Costs;
use ropeway_examples::Table;
use ropeway_proto::event::OperationKind;
use serde_json::{Value, json};

use super::account::{Account, has_marks};
use super::parameters;
use crate::failure::Failure;
use crate::history::partners::Partners;
use crate::history::recording::{self, Header};
use crate::history::{History, RankHistory};

/// Where the ranks' time went, and what could be saved.
pub(super) struct Prediction {
    header: Header,
    /// None of those that never joined.
    ranks: Vec<Option<Account>>,
    /// Events that were lost.
    lost: u64,
    set_up: SetUp,
    /// Ranks of which several threads have used the library.
    threaded: Vec<usize>,
    /// Ranks that have registered nothing that says where their iterations end.
    unmarked: Vec<usize>,
}

/// What setting up a message costs, in nanoseconds, and who says so.
enum SetUp {
    Given(u64),
    /// By size.
    Measured(Box<Costs>),
    /// The median of the recorded calls that set one-shot messages up, and start them: more than the set-up alone.
    Recorded(u64),
    /// Without a one-shot message there is nothing to save.
    Unknown,
}

/// Predicts from a recording. What setting up a message costs is given, or found in a file of parameters; else it is at most what
/// the calls took there.
pub(super) fn recorded(file: &Path, set_up: (Option<Duration>, Option<&Path>)) -> Result<Prediction, Failure> {
    let (header, history) = recording::read(file).map_err(Failure::other)?;
    let set_up = match set_up {
        (Some(o_s), _) => SetUp::Given(o_s.as_nanos() as u64),
        (None, Some(path)) => SetUp::Measured(Box::new(parameters::read(path, header.first_ranks.len() as u32, None)?)),
        (None, None) => SetUp::recorded(&history),
    };
    let partners = Partners::of(&history);
    let account = |rank: usize| {
        let has_joined = !history.ranks[rank].never_joined;
        has_joined.then(|| Account::of(&history, &partners, rank, |bytes| set_up.of(bytes)))
    };
    let ranks = (0..history.ranks.len()).map(account).collect();
    let lost = history.ranks.iter().map(|told| told.lost).sum();
    let those = |is_it: fn(&RankHistory) -> bool| {
        let all = history.ranks.iter().enumerate();
        all.filter(|(_, told)| is_it(told)).map(|(rank, _)| rank).collect::<Vec<_>>()
    };
    let threaded = those(|told| told.thread_count() > 1);
    let unmarked = those(|told| told.requests.iter().any(|request| request.operations.len() > 1) && !has_marks(told));
    Ok(Prediction { header, ranks, lost, set_up, threaded, unmarked })
}

impl SetUp {
    fn recorded(history: &History) -> Self {
        let is_message = |kind| matches!(kind, OperationKind::SendOnce | OperationKind::RecvOnce);
        let requests = history.ranks.iter().flat_map(|told| &told.requests);
        let messages = requests.filter(|request| is_message(request.operation));
        let mut took: Vec<u64> = messages.flat_map(|request| &request.operations).map(|one| one.start.ns()).collect();
        took.sort_unstable();
        took.get(took.len() / 2).map_or(Self::Unknown, |&median| Self::Recorded(median))
    }

    /// Of a message of so many bytes.
    fn of(&self, bytes: u64) -> u64 {
        match self {
            Self::Given(ns) | Self::Recorded(ns) => *ns,
            Self::Measured(costs) => (costs.message(bytes as usize).set_up * NS_PER_S).round() as u64,
            Self::Unknown => 0,
        }
    }

    /// If it is the same for all messages.
    fn of_all(&self) -> Option<u64> {
        match self {
            Self::Given(ns) | Self::Recorded(ns) => Some(*ns),
            Self::Measured(_) | Self::Unknown => None,
        }
    }
}

impl fmt::Display for SetUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(ns) => write!(f, "o_s = {ns} ns, as given"),
            Self::Measured(_) => f.write_str("o_s of each size, as measured"),
            Self::Recorded(ns) => {
                write!(f, "at most {ns} ns each, the median call with its start: o_s is less, see --overhead")
            }
            Self::Unknown => f.write_str("here are none"),
        }
    }
}

impl Prediction {
    /// An object a rank, then all of them, one a line.
    pub(super) fn json(&self) -> String {
        let ranks = self.ranks.iter().enumerate().map(|(rank, account)| match account {
            Some(account) => self.record(json!(rank), account),
            None => json!({ "rank": rank, "never_joined": true }),
        });
        let all = self.record(json!("all"), &self.all());
        ranks.chain([all]).map(|record| format!("{record}\n")).collect()
    }

    fn all(&self) -> Account {
        Account::sum(self.ranks.iter().flatten())
    }

    fn record(&self, rank: Value, account: &Account) -> Value {
        json!({
            "rank": rank,
            "total_ns": account.total_ns,
            "computing_ns": account.computing_ns,
            "overhead_ns": account.overhead_ns,
            "late_ns": account.late_ns,
            "transfer_ns": account.transfer_ns,
            "persistence_saves_ns": account.persistence_ns,
            "overlap_saves_max_ns": account.overlap_ns,
            "speed_up_max": account.speed_up(),
            "o_s_ns": self.set_up.of_all(),
            "lost": self.lost,
        })
    }

    fn table(&self) -> Table {
        let heading = ["rank", "total", "computing", "calls", "late", "transfer", "persistence", "overlap", "speed-up"];
        let mut table = Table::new(&heading);
        let ranks = self.ranks.iter().enumerate();
        let joined = ranks.filter_map(|(rank, account)| account.map(|account| (rank.to_string(), account)));
        for (name, account) in joined.chain([("all".to_owned(), self.all())]) {
            let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
            let parts = [account.computing_ns, account.overhead_ns, account.late_ns, account.transfer_ns];
            let savings = [account.persistence_ns, account.overlap_ns];
            let mut row = vec![name, ms(account.total_ns)];
            row.extend(parts.into_iter().chain(savings).map(ms));
            row.push(account.speed_up().map_or_else(|| "-".to_owned(), |speed_up| format!("{speed_up:.2}")));
            table.push(row);
        }
        table
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "calls: registering and starting. late: waiting for partners that had not started yet.".to_owned(),
            "transfer: waiting for what both had started, and being woken.".to_owned(),
            format!("persistence: saved if one-shot messages alike were registered once ({}).", self.set_up),
            "One-shot collectives are left out.".to_owned(),
            "overlap: saved at most if transfer hid behind the computing of its iteration.".to_owned(),
        ];
        if self.ranks.iter().flatten().any(|account| account.speed_up().is_none()) {
            let why = "More could be saved than all of the time of a rank without a speed-up, which can't be: messages are not set up so slowly here.";
            notes.push(why.to_owned());
        }
        if !self.unmarked.is_empty() {
            let why = "nothing registered is started again, so that an iteration is taken to end where a message like one in it begins. If it has several alike, more can hide.";
            notes.push(format!("{}: {why}", ranks(&self.unmarked)));
        }
        if !self.threaded.is_empty() {
            let why = "several threads have used the library, and waiting is only while all of them wait.";
            notes.push(format!("{}: {why}", ranks(&self.threaded)));
        }
        if self.header.ranks > self.header.cores {
            notes.push("There were more ranks than cores: who waited made room for who computed.".to_owned());
        }
        let absent = self.ranks.iter().enumerate().filter(|(_, account)| account.is_none());
        let absent: Vec<_> = absent.map(|(rank, _)| rank).collect();
        if !absent.is_empty() {
            let ranks = listed(&absent);
            notes.push(format!("Never joined, and in no sum: rank {ranks}. Its program did not call `ropeway::init`."));
        }
        if self.lost > 0 {
            notes.push(format!("{} events were lost: the end of the run is missing.", self.lost));
        }
        notes
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Header { ranks, cores, duration_ns, version, .. } = &self.header;
        let (nodes, seconds) = (self.header.first_ranks.len(), *duration_ns as f64 / 1e9);
        writeln!(
            f,
            "ranks: {ranks}, nodes: {nodes}, cores: {cores}, {seconds:.3} s, ropeway {version}; times in ms\n"
        )?;
        writeln!(f, "{}", self.table())?;
        self.notes().iter().try_for_each(|note| writeln!(f, "{note}"))?;
        writeln!(f, "\n{}", advice(&self.all()))
    }
}

/// Who is meant.
fn ranks(those: &[usize]) -> String {
    format!("{} {}", if those.len() > 1 { "Ranks" } else { "Rank" }, listed(those))
}

fn listed(ranks: &[usize]) -> String {
    ranks.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// What to do first: about the largest part of what is not computing.
fn advice(all: &Account) -> &'static str {
    let parts = [
        (all.late_ns, "Late partners take most: divide the work more evenly, or start earlier what others wait for."),
        (
            all.transfer_ns,
            "Transfer takes most: start it as soon as its data is there, and wait when its result is needed.",
        ),
        (all.overhead_ns, "Calls take most: register what is repeated, and send fewer and larger messages."),
    ];
    let (most, what) = parts.into_iter().max_by_key(|&(ns, _)| ns).expect("there are three");
    if most < all.total_ns / LITTLE {
        "Nearly all of the time is computing: there is little to gain here."
    } else {
        what
    }
}

const NS_PER_S: f64 = 1e9;
/// The share of the time that is not worth the work: one in so many.
const LITTLE: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_most_is_to_be_changed_first() {
        let spent = |late_ns, transfer_ns, overhead_ns| {
            advice(&Account { total_ns: 1000, late_ns, transfer_ns, overhead_ns, ..Account::default() })
        };
        assert!(spent(100, 50, 20).contains("divide the work"));
        assert!(spent(10, 50, 20).contains("start it as soon"));
        assert!(spent(10, 50, 60).contains("register what is repeated"));
        assert!(spent(10, 10, 19).contains("little to gain"));
    }
}
