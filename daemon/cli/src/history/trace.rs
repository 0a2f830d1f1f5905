//! A history as Chrome's trace events, which Perfetto and chrome://tracing open.
//!
//! Each rank and each daemon is a process of the timeline. Of a rank: what each thread does (`compute`, calls, waits) as complete
//! events; each message and collective from its start to its end as an asynchronous event, with the first and the last byte that
//! a daemon has moved, or when both ends of a message had started that ranks of a node moved themselves; an arrow from the start
//! of a send to the wait that its message ended. Of a daemon: when it was awake, and the pieces of messages it moved.

use std::collections::HashMap;
use std::io::{self, Write};

use ropeway_examples::Size;
use ropeway_proto::event::{OperationKind, Piece};
use ropeway_proto::{End, Event, EventKind};
use serde::Serialize;
use serde_json::{Value, json};

use super::partners::{Message, Partners, Place, operation};
use super::{History, RankHistory, RequestHistory, Span};

/// A thread computes if it is in no call for so long.
const COMPUTING_NS: u64 = 1_000;

/// An event, as the format has it. Times are microseconds.
#[derive(Serialize)]
struct TraceEvent<'a> {
    ph: &'static str,
    name: &'a str,
    cat: &'static str,
    pid: usize,
    tid: usize,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Value::is_null")]
    args: Value,
}

/// Writes the events of a history.
pub(crate) fn write(history: &History, out: impl Write) -> io::Result<()> {
    let mut trace = Trace { history, out, is_first: true };
    trace.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    trace.name_processes()?;
    let (moved, partners) = (Moved::of(history), Partners::of(history));
    for (rank, told) in history.ranks.iter().enumerate() {
        trace.threads(rank, told)?;
        for (index, request) in told.requests.iter().enumerate() {
            trace.operations((rank, index), request, &moved, &partners)?;
        }
    }
    for message in &partners.messages {
        trace.arrow(message)?;
    }
    for (node, events) in history.daemons.iter().enumerate() {
        trace.daemon(trace.pid_of_daemon(node), events)?;
    }
    trace.out.write_all(b"\n]}\n")?;
    trace.out.flush()
}

struct Trace<'a, W> {
    history: &'a History,
    out: W,
    is_first: bool,
}

impl<W: Write> Trace<'_, W> {
    fn push(&mut self, event: &TraceEvent<'_>) -> io::Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.out.write_all(b",\n")?;
        }
        Ok(serde_json::to_writer(&mut self.out, event)?)
    }

    fn name_processes(&mut self) -> io::Result<()> {
        for rank in 0..self.history.ranks.len() {
            let told = &self.history.ranks[rank];
            let never = if told.never_joined { ", never joined" } else { "" };
            let name =
                format!("rank {rank} on node {}{never}{}", self.history.node_of(rank as u32), and_lost(told.lost));
            self.name_process(pid_of_rank(rank), &name)?;
        }
        for node in 0..self.history.daemons.len() {
            let lost = and_lost(self.history.lost_by_daemons[node]);
            self.name_process(self.pid_of_daemon(node), &format!("daemon of node {node}{lost}"))?;
        }
        Ok(())
    }

    fn name_process(&mut self, pid: usize, name: &str) -> io::Result<()> {
        self.push(&TraceEvent { args: json!({ "name": name }), ..event("M", "process_name", "__metadata", pid, 0) })
    }

    fn pid_of_daemon(&self, node: usize) -> usize {
        pid_of_rank(self.history.ranks.len()) + node
    }

    fn span(&mut self, name: &str, cat: &'static str, pid: usize, span: Span) -> io::Result<()> {
        let dur = Some(us(span.ns()));
        self.push(&TraceEvent { dur, ..event("X", name, cat, pid, span.begin_ns).on(span.thread) })
    }

    /// What the threads of a rank do.
    fn threads(&mut self, rank: usize, told: &RankHistory) -> io::Result<()> {
        let pid = pid_of_rank(rank);
        let calls = told.requests.iter().flat_map(|request| {
            let init = request.init.map(|span| (format!("init {}", describe(request)), span));
            let starts = request.operations.iter().map(|operation| (describe(request), operation.start));
            init.into_iter().chain(starts.map(|(what, span)| (format!("start {what}"), span)))
        });
        for (name, span) in calls {
            self.span(&name, "call", pid, span)?;
        }
        for &span in &told.publishes {
            self.span("publish", "call", pid, span)?;
        }
        for &span in &told.waits {
            self.span("wait", "wait", pid, span)?;
        }
        for span in told.computing().into_iter().filter(|span| span.ns() >= COMPUTING_NS) {
            self.span("compute", "compute", pid, span)?;
        }
        Ok(())
    }

    /// The operations of a request, from start to end.
    fn operations(
        &mut self,
        (rank, index): (usize, usize),
        request: &RequestHistory,
        moved: &Moved,
        partners: &Partners,
    ) -> io::Result<()> {
        let is_direct = self.is_within_a_node(rank, request);
        let name = describe(request);
        let cat = if matches!(request.operation, OperationKind::Collective(_)) { "collective" } else { "message" };
        let left_ns = self.history.ranks[rank].left_ns;
        for (number, operation) in request.operations.iter().enumerate() {
            let id = format!("{rank}.{index}.{number}");
            let mut step = |ph, name: &str, at_ns, args| {
                let event = event(ph, name, cat, pid_of_rank(rank), at_ns).on(operation.start.thread);
                self.push(&TraceEvent { id: Some(id.clone()), args, ..event })
            };
            step("b", &name, operation.start.begin_ns, json!({ "bytes": request.bytes, "comm": request.comm }))?;
            let place = (rank, index, number);
            if let Some((first_ns, last_ns)) = moved.bytes(place) {
                step("n", "first byte", first_ns, Value::Null)?;
                step("n", "last byte", last_ns, Value::Null)?;
            } else if let Some(other_ns) = partners.last_start_ns(place).filter(|_| is_direct) {
                step("n", "both started", other_ns.max(operation.start.begin_ns), Value::Null)?;
            }
            let end_ns = operation.end_ns.unwrap_or(left_ns);
            let outcome = match operation.end_ns {
                Some(_) if operation.is_ok => Value::Null,
                Some(_) => json!({ "outcome": "failed or withdrawn" }),
                None => json!({ "outcome": "has not ended" }),
            };
            step("e", &name, end_ns, outcome)?;
        }
        Ok(())
    }

    /// Whether it is a message whose other end is on this rank's node.
    fn is_within_a_node(&self, rank: usize, request: &RequestHistory) -> bool {
        let is_message = !matches!(request.operation, OperationKind::Collective(_));
        let of = |rank| self.history.node_of(rank);
        is_message && request.peer.is_some_and(|peer| of(peer) == of(rank as u32))
    }

    /// From the start of a send to the wait that its message ended.
    fn arrow(&mut self, &Message { send, recv }: &Message) -> io::Result<()> {
        let (from, to) = (operation(self.history, send), operation(self.history, recv));
        let (Some(_), Some(end_ns)) = (to.wait_ns, to.end_ns) else { return Ok(()) };
        let id = Some(format!("{}.{}.{}", send.0, send.1, send.2));
        let begin = event("s", "message", "arrow", pid_of_rank(send.0), from.start.begin_ns).on(from.start.thread);
        self.push(&TraceEvent { id: id.clone(), ..begin })?;
        let end = event("f", "message", "arrow", pid_of_rank(recv.0), end_ns).on(to.start.thread);
        self.push(&TraceEvent { id, bp: Some("e"), ..end })
    }

    fn daemon(&mut self, pid: usize, events: &[Event]) -> io::Result<()> {
        // On their way, the first to leave first: several may be alike.
        let mut open: Vec<(Piece, usize)> = Vec::new();
        for (number, event) in events.iter().enumerate() {
            match event.kind {
                EventKind::Awake { work } => {
                    let awake = self::event("X", "awake", "duty", pid, event.at_ns);
                    self.push(&TraceEvent { dur: Some(us(event.took_ns)), args: json!({ "work": work }), ..awake })?;
                }
                EventKind::PieceBegin(piece) => open.push((piece, number)),
                EventKind::PieceEnd(piece) => {
                    let Some(first) = open.iter().position(|(other, _)| *other == piece) else { continue };
                    let (_, number) = open.remove(first);
                    let (name, id) = (describe_piece(&piece), Some(format!("{pid}.{number}")));
                    let begin = self::event("b", &name, "piece", pid, events[number].at_ns);
                    self.push(&TraceEvent { id: id.clone(), ..begin })?;
                    self.push(&TraceEvent { id, ..self::event("e", &name, "piece", pid, event.at_ns) })?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// When the first and the last byte of operations were moved by daemons.
struct Moved(HashMap<Place, (u64, u64)>);

impl Moved {
    fn of(history: &History) -> Self {
        let mut begun: HashMap<(u32, u32), Vec<(u64, Place)>> = HashMap::new();
        for (rank, told) in history.ranks.iter().enumerate() {
            for (index, request) in told.requests.iter().enumerate() {
                for (number, operation) in request.operations.iter().enumerate() {
                    let on_slot = begun.entry((rank as u32, operation.slot)).or_default();
                    on_slot.push((operation.start.begin_ns, (rank, index, number)));
                }
            }
        }
        begun.values_mut().for_each(|on_slot| on_slot.sort_unstable());
        let mut moved = HashMap::new();
        for event in history.daemons.iter().flatten() {
            let (EventKind::PieceBegin(piece) | EventKind::PieceEnd(piece)) = event.kind else { continue };
            let Some(on_slot) = piece.of.and_then(|of| begun.get(&of)) else { continue };
            let after = on_slot.partition_point(|&(start_ns, _)| start_ns <= event.at_ns);
            if let Some(&(_, place)) = on_slot[..after].last() {
                moved.entry(place).or_insert((event.at_ns, event.at_ns)).1 = event.at_ns;
            }
        }
        Self(moved)
    }

    fn bytes(&self, place: Place) -> Option<(u64, u64)> {
        self.0.get(&place).copied()
    }
}

impl<'a> TraceEvent<'a> {
    fn on(self, thread: u16) -> Self {
        Self { tid: 1 + usize::from(thread), ..self }
    }
}

fn and_lost(events: u64) -> String {
    if events > 0 { format!(", {events} events lost") } else { String::new() }
}

/// From 1 on: viewers take process 0 and thread 0 for the idle ones of a kernel.
fn pid_of_rank(rank: usize) -> usize {
    rank + 1
}

fn event<'a>(ph: &'static str, name: &'a str, cat: &'static str, pid: usize, at_ns: u64) -> TraceEvent<'a> {
    TraceEvent { ph, name, cat, pid, tid: 1, ts: us(at_ns), dur: None, id: None, bp: None, args: Value::Null }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// What a request does, in a few words.
fn describe(request: &RequestHistory) -> String {
    let RequestHistory { operation, peer, tag, bytes, .. } = request;
    let name = operation.name().trim_end_matches("_once");
    let or_any = |number: Option<i64>| number.map_or_else(|| "any".to_owned(), |number| number.to_string());
    let (peer, tag) = (or_any(peer.map(i64::from)), or_any(tag.map(i64::from)));
    let size = Size(*bytes as usize);
    match operation {
        OperationKind::Collective(_) => format!("{name}, {size}"),
        OperationKind::Send | OperationKind::SendOnce => format!("{name} to {peer}, tag {tag}, {size}"),
        _ => format!("{name} from {peer}, tag {tag}, {size}"),
    }
}

fn describe_piece(piece: &Piece) -> String {
    let Piece { end, of, node, bytes } = piece;
    let size = Size(*bytes as usize);
    let whose = of.map_or_else(|| "of a collective".to_owned(), |(rank, _)| format!("of rank {rank}"));
    match end {
        End::Send => format!("{size} to node {}, {whose}", node.0),
        End::Recv => format!("{size} from node {}, {whose}", node.0),
    }
}

#[cfg(test)]
mod tests {
    use ropeway_proto::NodeId;

    use super::*;

    #[test]
    fn pieces_alike_end_one_after_the_other() {
        let piece = |bytes| Piece { end: End::Send, of: Some((0, 3)), node: NodeId(1), bytes };
        let at = |at_ns, kind| Event { at_ns, took_ns: 0, thread: 0, kind };
        let [begin, end]: [fn(Piece) -> EventKind; 2] = [EventKind::PieceBegin, EventKind::PieceEnd];
        let events = vec![
            at(1_000, begin(piece(64))),
            at(2_000, begin(piece(64))),
            at(3_000, begin(piece(8))),
            at(7_000, end(piece(64))),
            at(8_000, end(piece(64))),
            at(9_000, end(piece(8))),
            // The log was full.
            at(10_000, begin(piece(8))),
        ];
        let history = History {
            first_ranks: vec![0],
            duration_ns: 10_000,
            ranks: vec![],
            daemons: vec![events],
            lost_by_daemons: vec![0],
        };
        let mut text = Vec::new();
        write(&history, &mut text).unwrap();
        let trace: Value = serde_json::from_slice(&text).unwrap();
        let pieces = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == "piece");
        let mut times: std::collections::BTreeMap<_, Vec<f64>> = std::collections::BTreeMap::new();
        pieces.for_each(|event| {
            times.entry(event["id"].as_str().unwrap()).or_default().push(event["ts"].as_f64().unwrap())
        });
        let times: Vec<_> = times.into_values().collect();
        assert_eq!(times, [[1.0, 7.0], [2.0, 8.0], [3.0, 9.0]]);
    }
}
