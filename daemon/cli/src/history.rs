//! What the processes of a job have done, put together from their logs.
//!
//! | module | what |
//! |---|---|
//! | `told` | a rank's events, made into requests and their operations |
//! | [`partners`] | which operations belong together across ranks |
//! | [`times`] | arithmetic of stretches of time |
//! | [`trace`] | a timeline for Perfetto and chrome://tracing |
//! | [`recording`] | the same as lines of JSON, written and read |
//!
//! Times are nanoseconds since the first rank joined.

pub(crate) mod partners;
pub(crate) mod recording;
pub(crate) mod times;
mod told;
pub(crate) mod trace;

use std::collections::BTreeMap;
use std::ops::Range;

use ropeway_proto::Event;
use ropeway_proto::event::OperationKind;

use crate::history::times::Times;
use crate::launch::Logs;

/// A job, from the moment its first rank joined.
#[derive(Debug, PartialEq)]
pub(crate) struct History {
    /// The first rank of each node.
    pub(crate) first_ranks: Vec<u32>,
    pub(crate) duration_ns: u64,
    pub(crate) ranks: Vec<RankHistory>,
    /// Of those daemons that have kept a log, by node: what they wrote, and when, by the same clock.
    pub(crate) daemons: Vec<Vec<Event>>,
    /// Of the same, events they had no room for.
    pub(crate) lost_by_daemons: Vec<u64>,
}

/// What a rank has done.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RankHistory {
    /// Its program has done nothing that we know of.
    pub(crate) never_joined: bool,
    pub(crate) joined_ns: u64,
    /// When it left, was killed, or had no room to write.
    pub(crate) left_ns: u64,
    /// Events it had no room for.
    pub(crate) lost: u64,
    /// Times it put commands into its ring.
    pub(crate) publishes: Vec<Span>,
    pub(crate) waits: Vec<Span>,
    pub(crate) requests: Vec<RequestHistory>,
}

/// A registered request; or all one-shot ones that are alike, which could be one.
#[derive(Debug, PartialEq)]
pub(crate) struct RequestHistory {
    pub(crate) operation: OperationKind,
    pub(crate) comm: u32,
    /// A rank of the job: the other end, or the root of a collective.
    pub(crate) peer: Option<u32>,
    /// Of a collective its number among those of its communicator.
    pub(crate) tag: Option<i32>,
    pub(crate) bytes: u64,
    /// Its registration. Each one-shot request has its own, as the beginning of its operation.
    pub(crate) init: Option<Span>,
    pub(crate) operations: Vec<OperationHistory>,
}

/// An operation of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OperationHistory {
    /// The call that started it.
    pub(crate) start: Span,
    /// When the program began to wait, if it had not ended by then.
    pub(crate) wait_ns: Option<u64>,
    /// When the program knew of its end.
    pub(crate) end_ns: Option<u64>,
    pub(crate) is_ok: bool,
    /// On which slot, for what a daemon says of it.
    pub(crate) slot: u32,
}

/// A time, and which thread spent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) thread: u16,
}

/// What a thread has done.
struct Thread {
    number: u16,
    /// From its first call or wait to the end of its last. The first thread: from the beginning to the end.
    whole: Times,
    /// The end of its last call or wait.
    last_ns: u64,
    calls: Times,
    waits: Times,
}

impl RankHistory {
    /// What each call of the library took.
    pub(crate) fn calls(&self) -> impl Iterator<Item = Span> {
        let of_request = |request: &'_ RequestHistory| {
            let starts = request.operations.iter().map(|operation| operation.start);
            request.init.into_iter().chain(starts).collect::<Vec<_>>()
        };
        self.requests.iter().flat_map(of_request).chain(self.publishes.iter().copied())
    }

    /// What each thread did beside calls and waits.
    pub(crate) fn computing(&self) -> Vec<Span> {
        let beside = |Thread { number: thread, whole, calls, waits, .. }: Thread| {
            let free = whole.without(&calls).without(&waits);
            let span = move |stretch: Range<u64>| Span { begin_ns: stretch.start, end_ns: stretch.end, thread };
            free.stretches().map(span).collect::<Vec<_>>()
        };
        self.threads().into_iter().flat_map(beside).collect()
    }

    /// When it waited, and none of its threads did anything else. Of threads that don't use the library nobody knows.
    pub(crate) fn waiting(&self) -> Times {
        let waits: Times = self.waits.iter().map(Span::stretch).collect();
        // A first thread that only registers often does no more than wait for the others to end.
        let used = |thread: &Thread| thread.whole.without(&(thread.last_ns..self.left_ns).into());
        let others = |thread: Thread| used(&thread).without(&thread.waits).stretches().collect::<Vec<_>>();
        waits.without(&self.threads().into_iter().flat_map(others).collect())
    }

    /// How many threads have used the library.
    pub(crate) fn thread_count(&self) -> usize {
        self.threads().len()
    }

    fn threads(&self) -> Vec<Thread> {
        let mut spans: BTreeMap<u16, [Vec<Span>; 2]> = BTreeMap::new();
        self.calls().for_each(|span| spans.entry(span.thread).or_default()[0].push(span));
        self.waits.iter().for_each(|&span| spans.entry(span.thread).or_default()[1].push(span));
        let thread = |(number, [calls, waits]): (u16, [Vec<Span>; 2])| {
            let all = || calls.iter().chain(&waits);
            let begin_ns = all().map(|span| span.begin_ns).min().unwrap_or(self.joined_ns);
            let last_ns = all().map(|span| span.end_ns).max().unwrap_or(self.left_ns);
            let whole = if number > 0 { begin_ns..last_ns } else { self.joined_ns..self.left_ns };
            let times = |spans: &[Span]| spans.iter().map(Span::stretch).collect();
            Thread { number, whole: whole.into(), last_ns, calls: times(&calls), waits: times(&waits) }
        };
        spans.into_iter().map(thread).collect()
    }
}

impl Span {
    pub(crate) fn stretch(&self) -> Range<u64> {
        self.begin_ns..self.end_ns
    }

    pub(crate) fn ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }
}

impl History {
    /// Of a job that ended at `end_ns`, by the clock of its logs.
    pub(crate) fn of(logs: &Logs, first_ranks: Vec<u32>, end_ns: u64) -> Self {
        let sorted = |mut events: Vec<Event>| {
            events.sort_by_key(|event| event.at_ns);
            events
        };
        let ranks: Vec<Vec<Event>> = logs.ranks().iter().map(|log| sorted(log.events().collect())).collect();
        let begin_ns = ranks.iter().filter_map(|events| events.first()).map(|event| event.at_ns).min();
        let begin_ns = begin_ns.unwrap_or(end_ns);
        // What daemons did before the first rank came was for nobody's message.
        let shifted = |events: Vec<Event>| -> Vec<Event> {
            let later = events.into_iter().filter(|event| event.at_ns >= begin_ns);
            later.map(|event| Event { at_ns: event.at_ns - begin_ns, ..event }).collect()
        };
        let duration_ns = end_ns - begin_ns;
        let told = |(events, lost)| told::rank(&shifted(events), lost, duration_ns);
        Self {
            first_ranks,
            duration_ns,
            ranks: ranks.into_iter().zip(logs.ranks().iter().map(|log| log.lost())).map(told).collect(),
            daemons: logs.daemons().iter().map(|log| shifted(sorted(log.events().collect()))).collect(),
            lost_by_daemons: logs.daemons().iter().map(|log| log.lost()).collect(),
        }
    }

    /// The node of a rank.
    pub(crate) fn node_of(&self, rank: u32) -> usize {
        self.first_ranks.partition_point(|&first| first <= rank) - 1
    }
}
