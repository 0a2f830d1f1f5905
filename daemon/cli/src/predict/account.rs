//! Where a rank's time went, and what could be saved of it.
//!
//! By the model BOUM (Dimitrov, *Overlapping of Communication and Computation and Early Binding*, Mississippi State 2001,
//! chapter III), seen from each rank.

use std::collections::BTreeSet;
use std::ops::Range;

use ropeway_proto::event::OperationKind;

use crate::history::partners::Partners;
use crate::history::times::Times;
use crate::history::{History, RankHistory, RequestHistory};

/// The time of a rank, or of all together, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// From joining the job to leaving it: the sum of the next four.
    pub(crate) total_ns: u64,
    /// In the program.
    pub(crate) computing_ns: u64,
    /// In calls that register and start.
    pub(crate) overhead_ns: u64,
    /// Waiting for partners that had not started yet.
    pub(crate) late_ns: u64,
    /// Waiting for what had been started by both: transfer, and being woken.
    pub(crate) transfer_ns: u64,
    /// What registering repeated one-shot messages would save: their set-up, but once (eq. 3.12: `h·o_s` becomes `o_s`).
    pub(crate) persistence_ns: u64,
    /// The most that overlap could save: in each iteration the lesser of transfer waited for and computing beside it
    /// (eq. 3.28; all of the transfer could be overlapped, `d_o` = 1 in eq. 3.33).
    pub(crate) overlap_ns: u64,
}

impl Account {
    /// Of a rank. `o_s_ns`: set-up overhead of a message of so many bytes.
    pub(crate) fn of(history: &History, partners: &Partners, rank: usize, o_s_ns: impl Fn(u64) -> u64) -> Self {
        let told = &history.ranks[rank];
        let whole = Times::from(told.joined_ns..told.left_ns);
        let calls: Times = told.calls().map(|span| span.stretch()).collect();
        let waits = told.waiting();
        let (calls, free) = (calls.without(&waits), whole.without(&waits));
        let computing = free.without(&calls);
        let (late, in_flight) = waited_for(told, rank, partners);
        let transfer = waits.without(&late);
        Self {
            total_ns: whole.ns(),
            computing_ns: computing.ns(),
            overhead_ns: free.ns() - computing.ns(),
            late_ns: waits.ns() - transfer.ns(),
            transfer_ns: transfer.ns(),
            persistence_ns: repeated(told, o_s_ns),
            overlap_ns: hideable(told, &transfer, &computing.without(&in_flight)),
        }
    }

    /// All of them together.
    pub(crate) fn sum<'a>(accounts: impl IntoIterator<Item = &'a Self>) -> Self {
        accounts.into_iter().fold(Self::default(), |sum, other| Self {
            total_ns: sum.total_ns + other.total_ns,
            computing_ns: sum.computing_ns + other.computing_ns,
            overhead_ns: sum.overhead_ns + other.overhead_ns,
            late_ns: sum.late_ns + other.late_ns,
            transfer_ns: sum.transfer_ns + other.transfer_ns,
            persistence_ns: sum.persistence_ns.saturating_add(other.persistence_ns),
            overlap_ns: sum.overlap_ns + other.overlap_ns,
        })
    }

    /// How many times as fast it would be at most. `None` if there is more to save than all of its time: that can't be.
    pub(crate) fn speed_up(&self) -> Option<f64> {
        let left_ns = self.total_ns.checked_sub(self.persistence_ns.saturating_add(self.overlap_ns))?;
        match (self.total_ns, left_ns) {
            (0, _) => Some(1.0),
            (_, 0) => None,
            (total_ns, left_ns) => Some(total_ns as f64 / left_ns as f64),
        }
    }
}

/// While a rank waited for operations: when their partners had not come yet, and when both had, until the end. Of the
/// latter all is told, also what was before the wait: computing meanwhile hides something already.
fn waited_for(told: &RankHistory, rank: usize, partners: &Partners) -> (Times, Times) {
    let (mut late, mut in_flight) = (Vec::new(), Vec::new());
    for (index, request) in told.requests.iter().enumerate() {
        for (number, operation) in request.operations.iter().enumerate() {
            let Some(wait_ns) = operation.wait_ns else { continue };
            let end_ns = operation.end_ns.unwrap_or(told.left_ns);
            // Who never came is late to the end.
            let unknown_ns = if operation.end_ns.is_some() { operation.start.begin_ns } else { end_ns };
            let partner_ns = partners.last_start_ns((rank, index, number)).unwrap_or(unknown_ns);
            late.push(wait_ns..partner_ns.min(end_ns));
            in_flight.push(partner_ns.max(operation.start.begin_ns)..end_ns);
        }
    }
    (late.into_iter().collect(), in_flight.into_iter().collect())
}

/// The set-up of one-shot messages that were sent or received before, just so. Of collectives nobody knows it: calls that are not
/// registered take part in them at once.
fn repeated(told: &RankHistory, o_s_ns: impl Fn(u64) -> u64) -> u64 {
    let is_message = |kind| matches!(kind, OperationKind::SendOnce | OperationKind::RecvOnce);
    let requests = told.requests.iter().filter(|request| is_message(request.operation));
    let again = |request: &RequestHistory| request.operations.len().saturating_sub(1) as u64;
    // Whoever gives an overhead may give any.
    requests.map(|request| again(request).saturating_mul(o_s_ns(request.bytes))).fold(0, u64::saturating_add)
}

/// What of the transfer could hide behind the computing of its own iteration.
fn hideable(told: &RankHistory, transfer: &Times, computing: &Times) -> u64 {
    let lesser = |window: &Range<u64>| transfer.ns_within(window).min(computing.ns_within(window));
    iterations(told).iter().map(lesser).sum()
}

/// Whether something that is registered says when an iteration ends. One-shot messages alike are one request here, so that several of them
/// in an iteration look like several iterations.
pub(crate) fn has_marks(told: &RankHistory) -> bool {
    told.requests.iter().any(is_mark)
}

/// What is started but once repeats nothing.
fn is_mark(request: &RequestHistory) -> bool {
    request.operation.is_persistent() && request.operations.len() > 1
}

/// The iterations of a program: one ends when something is started again that was started in it already, something registered if
/// any of that is started more than once.
fn iterations(told: &RankHistory) -> Vec<Range<u64>> {
    let started = |(index, request): (usize, &'_ RequestHistory)| {
        request.operations.iter().map(move |operation| (operation.start.begin_ns, index)).collect::<Vec<_>>()
    };
    let mut starts: Vec<(u64, usize)> = told.requests.iter().enumerate().flat_map(started).collect();
    starts.sort_unstable();
    let has_marks = has_marks(told);
    let (mut begins, mut seen) = (Vec::new(), BTreeSet::new());
    for (at_ns, request) in starts {
        let counts = !has_marks || is_mark(&told.requests[request]);
        if begins.is_empty() || (counts && !seen.insert(request)) {
            begins.push(at_ns);
            seen = BTreeSet::from([request]);
        }
    }
    let ends = begins.iter().skip(1).copied().chain([told.left_ns]);
    begins.iter().zip(ends).map(|(&begin, end)| begin..end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{OperationHistory, Span};

    const MS: u64 = 1_000_000;

    fn span(begin_ms: u64, end_ms: u64) -> Span {
        Span { begin_ns: begin_ms * MS, end_ns: end_ms * MS, thread: 0 }
    }

    /// Operations as (start, wait, end) in ms; each start takes 1 ms.
    fn request(operation: OperationKind, peer: u32, operations: &[(u64, Option<u64>, u64)]) -> RequestHistory {
        let operation_of = |&(start, wait, end): &(u64, Option<u64>, u64)| OperationHistory {
            start: span(start, start + 1),
            wait_ns: wait.map(|wait| wait * MS),
            end_ns: Some(end * MS),
            is_ok: true,
            slot: 0,
        };
        let operations = operations.iter().map(operation_of).collect();
        RequestHistory { operation, comm: 0, peer: Some(peer), tag: Some(0), bytes: 8, init: None, operations }
    }

    fn rank(requests: Vec<RequestHistory>) -> RankHistory {
        let wait = |operation: &OperationHistory| {
            operation.wait_ns.zip(operation.end_ns).map(|(begin_ns, end_ns)| Span { begin_ns, end_ns, thread: 0 })
        };
        let waits = requests.iter().flat_map(|request| &request.operations).filter_map(wait).collect();
        RankHistory { left_ns: 100 * MS, waits, requests, ..RankHistory::default() }
    }

    fn account(ranks: Vec<RankHistory>, rank: usize, o_s_ns: u64) -> Account {
        let history =
            History { first_ranks: vec![0], duration_ns: 100 * MS, ranks, daemons: vec![], lost_by_daemons: vec![] };
        Account::of(&history, &Partners::of(&history), rank, |_| o_s_ns)
    }

    #[test]
    fn waiting_for_a_late_partner_is_told_from_transfer() {
        let recv = rank(vec![request(OperationKind::Recv, 1, &[(0, Some(10), 60)])]);
        let send = rank(vec![request(OperationKind::Send, 0, &[(40, Some(41), 50)])]);
        let account = account(vec![recv, send], 0, 0);
        assert_eq!((account.late_ns, account.transfer_ns), (30 * MS, 20 * MS));
        assert_eq!((account.overhead_ns, account.computing_ns, account.total_ns), (MS, 49 * MS, 100 * MS));
    }

    #[test]
    fn a_partner_who_came_after_the_end_was_not_waited_for() {
        let send = rank(vec![request(OperationKind::Send, 1, &[(0, Some(10), 20)])]);
        let recv = rank(vec![request(OperationKind::Recv, 0, &[(40, None, 50)])]);
        let account = account(vec![send, recv], 0, 0);
        assert_eq!((account.late_ns, account.transfer_ns), (0, 10 * MS));
    }

    #[test]
    fn who_never_came_is_late_to_the_end() {
        let all = OperationKind::Collective(ropeway_proto::collective::CollectiveKind::Allreduce);
        let hanging = |operation, peer| {
            let mut told = rank(vec![request(operation, peer, &[(0, Some(10), 60)])]);
            told.requests[0].operations[0].end_ns = None;
            told.waits = vec![span(10, 100)];
            told
        };
        let absent = || RankHistory { never_joined: true, left_ns: 100 * MS, ..RankHistory::default() };
        let recv = account(vec![hanging(OperationKind::Recv, 1), absent()], 0, 0);
        let reduced = account(vec![hanging(all, 0), hanging(all, 0), absent()], 0, 0);
        for account in [recv, reduced] {
            assert_eq!((account.late_ns, account.transfer_ns), (90 * MS, 0));
        }
    }

    #[test]
    fn transfer_hides_behind_the_computing_of_its_iteration_that_hides_nothing_yet() {
        // Two iterations of 50 ms. In the first: start, wait 30 ms, compute 19 ms. In the second it computes for 19 ms
        // while the message travels, waits for 10 ms more, and computes for 20 ms.
        let loops = [(0, Some(1), 31), (50, Some(70), 80)];
        let recv = rank(vec![request(OperationKind::Recv, 1, &loops)]);
        let send = rank(vec![request(OperationKind::Send, 0, &[(0, None, 1), (50, None, 51)])]);
        let account = account(vec![recv, send], 0, 0);
        assert_eq!(account.transfer_ns, 40 * MS);
        assert_eq!(account.overlap_ns, 19 * MS + 10 * MS);
        assert!((account.speed_up().unwrap() - 100.0 / 71.0).abs() < 1e-9);
    }

    #[test]
    fn only_what_is_registered_ends_an_iteration_if_any_of_it_is_started_again() {
        // Two messages alike in an iteration, and computing after the second.
        let alike = || request(OperationKind::RecvOnce, 1, &[(0, Some(1), 20), (20, Some(21), 40)]);
        let sends = || rank(vec![request(OperationKind::SendOnce, 0, &[(0, None, 1), (20, None, 21)])]);
        let overlap = |requests| account(vec![rank(requests), sends()], 0, 0).overlap_ns;
        assert_eq!(overlap(vec![alike()]), 19 * MS);
        let registered = |starts: &[_]| request(OperationKind::Send, 1, starts);
        assert_eq!(overlap(vec![alike(), registered(&[(41, None, 42)])]), 19 * MS);
        assert_eq!(overlap(vec![alike(), registered(&[(41, None, 42), (90, None, 91)])]), 38 * MS);
    }

    #[test]
    fn who_computes_in_another_thread_does_not_wait() {
        let waiting = |wait: (u64, u64), thread| Span { thread, ..span(wait.0, wait.1) };
        let call = |begin, thread| Span { thread, ..span(begin, begin + 1) };
        let waits = vec![waiting((10, 60), 0), waiting((40, 50), 1)];
        // The second thread comes at 20 and is last seen at 55.
        let told = RankHistory { publishes: vec![call(20, 1), call(54, 1)], waits, ..rank(vec![]) };
        assert_eq!(told.thread_count(), 2);
        let account = account(vec![told], 0, 0);
        assert_eq!(account.transfer_ns, (10 + 10 + 5) * MS);
        assert_eq!(account.computing_ns + account.overhead_ns, 75 * MS);
    }

    #[test]
    fn a_first_thread_that_only_registers_does_not_compute_while_others_wait() {
        let told = |thread| RankHistory {
            publishes: vec![span(5, 6)],
            waits: vec![Span { thread, ..span(10, 60) }],
            ..rank(vec![])
        };
        for thread in [0, 1] {
            assert_eq!(account(vec![told(thread)], 0, 0).transfer_ns, 50 * MS);
        }
    }

    #[test]
    fn no_more_than_all_can_be_saved() {
        let saving =
            |persistence_ns, overlap_ns| Account { total_ns: 100, persistence_ns, overlap_ns, ..Account::default() };
        assert_eq!(saving(40, 10).speed_up(), Some(2.0));
        for account in [saving(60, 40), saving(200, 0), saving(u64::MAX, 1)] {
            assert_eq!(account.speed_up(), None);
        }
        assert_eq!(Account::default().speed_up(), Some(1.0));
        let often: Vec<_> = (0..10).map(|number| (number * 5, None, number * 5 + 2)).collect();
        let ranks = vec![rank(vec![request(OperationKind::SendOnce, 1, &often)])];
        assert_eq!(account(ranks, 0, u64::MAX / 2).persistence_ns, u64::MAX);
    }

    #[test]
    fn messages_alike_could_be_set_up_once() {
        let often: Vec<_> = (0..10).map(|number| (number * 5, None, number * 5 + 2)).collect();
        let once = request(OperationKind::SendOnce, 2, &[(60, None, 62)]);
        let ranks = vec![rank(vec![request(OperationKind::SendOnce, 1, &often), once])];
        assert_eq!(account(ranks, 0, 500).persistence_ns, 9 * 500);
    }

    #[test]
    fn who_gets_a_broadcast_waits_for_its_root_alone() {
        let bcast = OperationKind::Collective(ropeway_proto::collective::CollectiveKind::Bcast);
        let members = |starts: [(u64, Option<u64>, u64); 3]| {
            starts.map(|operation| rank(vec![request(bcast, 0, &[operation])])).into_iter().collect()
        };
        let ranks = members([(20, None, 21), (0, Some(1), 41), (40, Some(41), 42)]);
        let account = account(ranks, 1, 0);
        assert_eq!((account.late_ns, account.transfer_ns), (19 * MS, 21 * MS));
    }
}
