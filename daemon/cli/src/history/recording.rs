//! A history as lines of JSON: what `ropeway run --record` writes and `ropeway predict` reads.
//!
//! ```text
//! {"row":"recording","format":1,"version":"0.1.0","first_ranks":[0,2],"ranks":4,"cores":8,"duration_ns":…}
//! {"row":"rank","rank":0,"joined_ns":…,"left_ns":…,"lost":0,"publishes_ns":[[begin,end],…],"waits_ns":[[begin,end],…]}
//! {"row":"request","rank":0,"operation":"send","comm":0,"peer":1,"tag":0,"bytes":8192,"init_ns":[begin,end],
//!  "starts_ns":[…],"took_ns":[…],"waits_ns":[…],"ends_ns":[…],"failed":[]}
//! ```
//!
//! A rank whose program never came has `"never_joined":true`. Of a request's k-th operation: when it was started, how long the call took, when the program began to wait (`null` if it had
//! ended by then), and when the program knew of its end (`null` if it never did). One-shot requests that are alike are one row,
//! without an `init_ns`; `failed` lists operations by number. `publishes_threads`, `waits_threads`, `init_thread` and `starts_threads` say whose
//! calls those were, and are left out where all are the first thread's, 0. Times are nanoseconds since the first rank joined.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use ropeway_proto::event::OperationKind;
use serde::{Deserialize, Serialize};

use super::{History, OperationHistory, RankHistory, RequestHistory, Span};

/// What this build writes and reads.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(tag = "row", rename_all = "lowercase")]
enum Row {
    Recording(Header),
    Rank(RankRow),
    Request(RequestRow),
}

/// What there is to know of a recording as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    format: u32,
    /// Of Ropeway.
    pub(crate) version: String,
    pub(crate) first_ranks: Vec<u32>,
    pub(crate) ranks: usize,
    /// Of the machine it was recorded on.
    pub(crate) cores: usize,
    pub(crate) duration_ns: u64,
}

#[derive(Serialize, Deserialize)]
struct RankRow {
    rank: usize,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    never_joined: bool,
    joined_ns: u64,
    left_ns: u64,
    lost: u64,
    publishes_ns: Vec<(u64, u64)>,
    #[serde(default, skip_serializing_if = "are_first")]
    publishes_threads: Vec<u16>,
    waits_ns: Vec<(u64, u64)>,
    #[serde(default, skip_serializing_if = "are_first")]
    waits_threads: Vec<u16>,
}

#[derive(Serialize, Deserialize)]
struct RequestRow {
    rank: usize,
    operation: String,
    comm: u32,
    peer: Option<u32>,
    tag: Option<i32>,
    bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    init_ns: Option<(u64, u64)>,
    #[serde(default, skip_serializing_if = "is_first")]
    init_thread: u16,
    starts_ns: Vec<u64>,
    #[serde(default, skip_serializing_if = "are_first")]
    starts_threads: Vec<u16>,
    took_ns: Vec<u64>,
    waits_ns: Vec<Option<u64>>,
    ends_ns: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failed: Vec<usize>,
}

/// Why a file is not a recording.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    #[error("can't read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is no recording, which `ropeway run --record FILE …` makes: its first line is not the header", .0.display())]
    NoHeader(PathBuf),
    #[error("{} has format {found}; this ropeway reads {FORMAT}: record again, or read it with version {version}", path.display())]
    Format { path: PathBuf, found: u32, version: String },
    #[error("{}, line {line}: {why}; the recording is damaged", path.display())]
    Damaged { path: PathBuf, line: usize, why: String },
    #[error("{} tells of nothing: no rank of its program called `ropeway::init`", .0.display())]
    NobodyJoined(PathBuf),
}

/// Writes a history, but for what its daemons did.
pub(crate) fn write(history: &History, mut out: impl Write) -> io::Result<()> {
    let header = Header {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        first_ranks: history.first_ranks.clone(),
        ranks: history.ranks.len(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        duration_ns: history.duration_ns,
    };
    push(&mut out, &Row::Recording(header))?;
    for (rank, told) in history.ranks.iter().enumerate() {
        push(&mut out, &Row::Rank(rank_row(rank, told)))?;
        for request in &told.requests {
            push(&mut out, &Row::Request(request_row(rank, request)))?;
        }
    }
    out.flush()
}

fn push(out: &mut impl Write, row: &Row) -> io::Result<()> {
    serde_json::to_writer(&mut *out, row)?;
    out.write_all(b"\n")
}

/// Reads a recording.
pub(crate) fn read(path: &Path) -> Result<(Header, History), RecordingError> {
    let unreadable = |source| RecordingError::Unreadable { path: path.to_owned(), source };
    let mut lines = BufReader::new(File::open(path).map_err(unreadable)?).lines();
    let no_header = || RecordingError::NoHeader(path.to_owned());
    // What is not even text is no recording either.
    let first = lines.next().and_then(Result::ok).ok_or_else(no_header)?;
    let Ok(Row::Recording(header)) = serde_json::from_str(&first) else { return Err(no_header()) };
    if header.format != FORMAT {
        let (found, version) = (header.format, header.version);
        return Err(RecordingError::Format { path: path.to_owned(), found, version });
    }
    let (first_ranks, duration_ns) = (header.first_ranks.clone(), header.duration_ns);
    let mut history =
        History { first_ranks, duration_ns, ranks: Vec::new(), daemons: Vec::new(), lost_by_daemons: Vec::new() };
    let mut last = 1;
    for (number, line) in (2..).zip(lines) {
        let damaged = |why| RecordingError::Damaged { path: path.to_owned(), line: number, why };
        let row = serde_json::from_str(&line.map_err(unreadable)?).map_err(|error| damaged(error.to_string()))?;
        history.take(row).map_err(damaged)?;
        last = number;
    }
    if history.ranks.len() != header.ranks {
        let why = format!("{} ranks of {} are there", history.ranks.len(), header.ranks);
        return Err(RecordingError::Damaged { path: path.to_owned(), line: last, why });
    }
    if header.duration_ns == 0 {
        return Err(RecordingError::NobodyJoined(path.to_owned()));
    }
    Ok((header, history))
}

impl History {
    /// Rows come rank by rank, each rank's own first.
    fn take(&mut self, row: Row) -> Result<(), String> {
        match row {
            Row::Rank(row) if row.rank == self.ranks.len() => self.ranks.push(of_rank_row(&row)?),
            Row::Request(row) if row.rank + 1 == self.ranks.len() => {
                self.ranks[row.rank].requests.push(of_request_row(&row)?);
            }
            _ => return Err("a row that is out of place".to_owned()),
        }
        Ok(())
    }
}

fn rank_row(rank: usize, told: &RankHistory) -> RankRow {
    let pairs = |spans: &[Span]| spans.iter().map(|span| (span.begin_ns, span.end_ns)).collect();
    let threads = |spans: &[Span]| spans.iter().map(|span| span.thread).collect();
    let &RankHistory { never_joined, joined_ns, left_ns, lost, .. } = told;
    RankRow {
        rank,
        never_joined,
        joined_ns,
        left_ns,
        lost,
        publishes_ns: pairs(&told.publishes),
        publishes_threads: threads(&told.publishes),
        waits_ns: pairs(&told.waits),
        waits_threads: threads(&told.waits),
    }
}

fn of_rank_row(row: &RankRow) -> Result<RankHistory, String> {
    let spans = |pairs: &[(u64, u64)], threads: &[u16]| {
        let thread = of_each(threads, pairs.len())?;
        pairs.iter().enumerate().map(|(number, &pair)| span(pair, thread(number))).collect::<Result<_, _>>()
    };
    let &RankRow { never_joined, joined_ns, left_ns, lost, .. } = row;
    span((joined_ns, left_ns), 0)?;
    let publishes = spans(&row.publishes_ns, &row.publishes_threads)?;
    let waits = spans(&row.waits_ns, &row.waits_threads)?;
    Ok(RankHistory { never_joined, joined_ns, left_ns, lost, publishes, waits, requests: Vec::new() })
}

fn request_row(rank: usize, request: &RequestHistory) -> RequestRow {
    let operations = &request.operations;
    let has_failed = |operation: &OperationHistory| operation.end_ns.is_some() && !operation.is_ok;
    RequestRow {
        rank,
        operation: request.operation.name().to_owned(),
        comm: request.comm,
        peer: request.peer,
        tag: request.tag,
        bytes: request.bytes,
        init_ns: request.init.map(|init| (init.begin_ns, init.end_ns)),
        init_thread: request.init.map_or(0, |init| init.thread),
        starts_ns: operations.iter().map(|operation| operation.start.begin_ns).collect(),
        starts_threads: operations.iter().map(|operation| operation.start.thread).collect(),
        took_ns: operations.iter().map(|operation| operation.start.ns()).collect(),
        waits_ns: operations.iter().map(|operation| operation.wait_ns).collect(),
        ends_ns: operations.iter().map(|operation| operation.end_ns).collect(),
        failed: (0..operations.len()).filter(|&number| has_failed(&operations[number])).collect(),
    }
}

fn of_request_row(row: &RequestRow) -> Result<RequestHistory, String> {
    let count = row.starts_ns.len();
    if [row.took_ns.len(), row.waits_ns.len(), row.ends_ns.len()] != [count; 3] {
        return Err(UNEQUAL.to_owned());
    }
    let thread = of_each(&row.starts_threads, count)?;
    let operation = |number: usize| {
        let (begin_ns, end_ns) = (row.starts_ns[number], row.ends_ns[number]);
        let start = span((begin_ns, begin_ns.saturating_add(row.took_ns[number])), thread(number))?;
        let is_ok = end_ns.is_some() && !row.failed.contains(&number);
        Ok(OperationHistory { start, wait_ns: row.waits_ns[number], end_ns, is_ok, slot: 0 })
    };
    Ok(RequestHistory {
        operation: OperationKind::of_name(&row.operation).ok_or_else(|| format!("no operation {:?}", row.operation))?,
        comm: row.comm,
        peer: row.peer,
        tag: row.tag,
        bytes: row.bytes,
        init: row.init_ns.map(|init| span(init, row.init_thread)).transpose()?,
        operations: (0..count).map(operation).collect::<Result<_, String>>()?,
    })
}

fn span((begin_ns, end_ns): (u64, u64), thread: u16) -> Result<Span, String> {
    let is_span = begin_ns <= end_ns;
    is_span.then_some(Span { begin_ns, end_ns, thread }).ok_or_else(|| "a time ends before it begins".to_owned())
}

/// The thread of each of so many; the first one if none is named.
fn of_each(threads: &[u16], count: usize) -> Result<impl Fn(usize) -> u16, String> {
    let is_right = threads.is_empty() || threads.len() == count;
    is_right.then_some(|number| threads.get(number).copied().unwrap_or(0)).ok_or_else(|| UNEQUAL.to_owned())
}

fn are_first(threads: &[u16]) -> bool {
    threads.iter().all(is_first)
}

fn is_first(thread: &u16) -> bool {
    *thread == 0
}

const UNEQUAL: &str = "its lists are not equally long";

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let operation = |begin_ns, wait_ns, end_ns: Option<u64>, is_ok| {
            let start = Span { begin_ns, end_ns: begin_ns + 3, thread: 0 };
            OperationHistory { start, wait_ns, end_ns, is_ok, slot: 0 }
        };
        let in_thread_2 = |operation: OperationHistory| OperationHistory {
            start: Span { thread: 2, ..operation.start },
            ..operation
        };
        let send = RequestHistory {
            operation: OperationKind::Send,
            comm: 1,
            peer: Some(1),
            tag: Some(7),
            bytes: 64,
            init: Some(Span { begin_ns: 1, end_ns: 2, thread: 0 }),
            operations: vec![operation(10, Some(15), Some(20), true), operation(30, None, Some(40), false)],
        };
        let once = RequestHistory {
            operation: OperationKind::RecvOnce,
            peer: None,
            tag: None,
            init: None,
            operations: vec![in_thread_2(operation(50, Some(51), None, false))],
            ..send
        };
        let rank = |requests: Vec<_>| RankHistory {
            never_joined: requests.is_empty(),
            joined_ns: 0,
            left_ns: 100,
            lost: 2,
            publishes: vec![Span { begin_ns: 4, end_ns: 6, thread: 0 }],
            waits: vec![Span { begin_ns: 15, end_ns: 21, thread: 0 }, Span { begin_ns: 51, end_ns: 60, thread: 2 }],
            requests,
        };
        let ranks = vec![rank(vec![send, once]), rank(vec![])];
        History { first_ranks: vec![0, 1], duration_ns: 100, ranks, daemons: vec![], lost_by_daemons: vec![] }
    }

    fn read_text(text: &[u8]) -> Result<History, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let read = read(file.path()).map_err(|error| error.to_string());
        read.map(|(_, history)| history)
    }

    fn written() -> String {
        let mut text = Vec::new();
        write(&history(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_history_survives_its_recording() {
        assert_eq!(read_text(written().as_bytes()).unwrap(), history());
    }

    #[test]
    fn what_is_no_recording_is_refused_and_says_why() {
        for text in ["", "hello\n", "{}\n", "{\"traceEvents\":[]}\n"] {
            let error = read_text(text.as_bytes()).unwrap_err();
            assert!(error.contains("is no recording") && error.contains("ropeway run --record"), "{error}");
        }
        assert!(read_text(&[0xff, 0xfe, b'\n']).unwrap_err().contains("is no recording"));
        let later = written().replace("\"format\":1", "\"format\":2");
        assert!(read_text(later.as_bytes()).unwrap_err().contains("has format 2; this ropeway reads 1"));
    }

    #[test]
    fn damage_is_named_with_its_line() {
        let text = written();
        let lines: Vec<&str> = text.lines().collect();
        let cut = |count: usize| lines[..count].join("\n");
        assert!(read_text(cut(2).as_bytes()).unwrap_err().contains("line 2: 1 ranks of 2 are there"));
        let cases = [
            (text.replace("\"took_ns\":[3,3]", "\"took_ns\":[3]"), "line 3: its lists are not equally long"),
            (
                text.replace("\"waits_threads\":[0,2]", "\"waits_threads\":[2]"),
                "line 2: its lists are not equally long",
            ),
            (text.replace("\"send\"", "\"sned\""), "line 3: no operation \"sned\""),
            (text.replace("\"left_ns\":100", "\"left_ns\":-1"), "line 2: invalid value"),
            ([lines[0], lines[2]].join("\n"), "line 2: a row that is out of place"),
        ];
        for (text, complaint) in cases {
            let error = read_text(text.as_bytes()).unwrap_err();
            assert!(error.contains(complaint), "{error}");
        }
    }
}
