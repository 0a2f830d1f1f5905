//! Each checker refuses a history in which its property does not hold, and says so.

use std::iter::repeat_n;

use ropeway_engine::Leftovers;
use ropeway_proto::control::JobSpec;
use ropeway_proto::{CommId, Completion, Rank, Status};
use ropeway_schedule::check::reference::Results;
use ropeway_schedule::{Collective, Order, Shape};
use ropeway_sim::checker::{
    agreement, barrier, exactly_once, in_order, message_count, nothing_left_over, right_bytes, right_results,
    terminates, truthful, undisturbed,
};
use ropeway_sim::cluster::Cluster;
use ropeway_sim::history::{Ended, History, Received, Stream};
use ropeway_sim::message;
use ropeway_sim::participant::Seat;
use ropeway_sim::workload::Workload;
use ropeway_sim::workload::collective::{CollectivePlan, Dissent};

const RANKS: u32 = 3;
const STREAM: Stream = Stream { comm: CommId::WORLD, source: 0, dest: 1, tag: 5, channel: Some(0) };
/// Of messages that say which ones they are, and of those that are too short for that.
const BYTES: [u64; 2] = [20, 4];

/// A rank on each of three nodes.
fn spec() -> JobSpec {
    Workload::of_collectives(1, repeat_n(1, RANKS as usize), |_| Vec::new()).spec
}

/// Three messages of so many bytes, all of which are received.
fn messages(bytes: u64) -> History {
    let mut history = History::default();
    for _ in 0..3 {
        let index = history.start_send(STREAM, bytes);
        history.sent[index].fate = Some(Status::Success);
        let content = Some(message::content(history.sent[index].id, bytes));
        let posted = history.start_recv();
        history.received.push(Received { stream: STREAM, posted, bytes, content });
    }
    check_messages(&history).unwrap();
    history
}

/// What is checked of messages, in this order.
fn check_messages(history: &History) -> Result<(), String> {
    right_bytes::check(history)?;
    exactly_once::check(history, &spec())?;
    in_order::check(history)?;
    truthful::check(history, &spec())
}

fn assert_refused(result: Result<(), String>, why: &str) {
    let error = result.expect_err(why);
    assert!(error.starts_with(why), "{error}");
}

/// The history of three messages, changed.
fn assert_messages_refused(bytes: u64, why: &str, change: impl FnOnce(&mut History)) {
    let mut history = messages(bytes);
    change(&mut history);
    assert_refused(check_messages(&history), why);
}

#[test]
fn messages_that_change_places_are_found() {
    for bytes in BYTES {
        assert_messages_refused(bytes, "in order: ", |history| {
            let [first, second, _] = &mut history.received[..] else { panic!("three messages") };
            std::mem::swap(&mut first.content, &mut second.content);
        });
        assert_messages_refused(bytes, "in order: ", |history| {
            let [first, _, third] = &mut history.received[..] else { panic!("three messages") };
            std::mem::swap(&mut first.posted, &mut third.posted);
        });
    }
}

#[test]
fn a_message_that_is_received_twice_is_found() {
    for (bytes, why) in
        BYTES.into_iter().zip(["exactly once: received twice", "exactly once: 4 messages received of 3"])
    {
        assert_messages_refused(bytes, why, |history| {
            let again = Received { posted: history.start_recv(), ..history.received[2].clone() };
            history.received.push(again);
        });
    }
    // Also in place of another one.
    assert_messages_refused(BYTES[0], "exactly once: received twice", |history| {
        history.received[1].content = history.received[0].content.clone();
    });
}

#[test]
fn a_message_that_is_lost_or_was_cancelled_is_found() {
    for bytes in BYTES {
        let why = "exactly once: 2 messages received of 3";
        assert_messages_refused(bytes, why, |history| drop(history.received.pop()));
    }
    let why = "exactly once: received although its send was cancelled";
    assert_messages_refused(BYTES[0], why, |history| history.sent[1].fate = Some(Status::Cancelled));
    // There may be a reason.
    let mut history = messages(BYTES[0]);
    history.received.pop();
    history.given_up.insert(STREAM);
    check_messages(&history).unwrap();
}

#[test]
fn a_byte_that_changes_is_found() {
    for bytes in BYTES {
        for at in 0..bytes as usize {
            assert_messages_refused(bytes, "right bytes: nobody has sent", |history| {
                history.received[1].content.as_mut().unwrap()[at] ^= 1;
            });
        }
        assert_messages_refused(bytes, "right bytes: nobody has sent", |history| history.received[1].bytes += 1);
        let other = Stream { tag: 6, ..STREAM };
        assert_messages_refused(bytes, "right bytes: nobody has sent", |history| history.received[1].stream = other);
        assert_messages_refused(bytes, "right bytes: a guard", |history| history.complaints.push("a guard".to_owned()));
    }
}

/// What an operation with rank 1 ended with, at rank 0.
fn ended(status: Status, source: Rank) -> Ended {
    let completion = Completion { source, ..Completion::bare(status) };
    Ended { rank: 0, peer: Some(1), stream: Some(STREAM), was_cancelled: false, completion }
}

#[test]
fn an_end_that_nothing_explains_is_found() {
    let statuses = [Status::RankFailed, Status::RankLeft, Status::PeerLost, Status::PeerFreed, Status::Cancelled];
    for status in statuses {
        let lie = |change: &dyn Fn(&mut History)| {
            let mut history = messages(BYTES[0]);
            history.ended.push(ended(status, 1));
            change(&mut history);
            check_messages(&history)
        };
        assert_refused(lie(&|_| {}), "truthful: ");
        let explain = |history: &mut History| {
            history.faults.failed.insert(1);
            history.faults.left.insert(1);
            history.faults.cut.extend([(0, 1), (1, 0)]);
            history.given_up.insert(STREAM);
            history.ended[0].was_cancelled = true;
        };
        assert_eq!(lie(&explain), Ok(()), "{status:?}");
        // Somebody else has failed, and so on.
        assert_refused(
            lie(&|history| {
                history.faults.failed.insert(2);
                history.faults.left.insert(2);
                history.faults.cut.extend([(0, 2), (2, 0)]);
            }),
            "truthful: ",
        );
        if status != Status::Cancelled {
            let of_another = |history: &mut History| {
                explain(history);
                history.faults.failed.insert(2);
                history.faults.left.insert(2);
                history.ended[0].completion.source = 2;
            };
            assert_refused(lie(&of_another), "truthful: ");
        }
    }
    assert_messages_refused(BYTES[0], "truthful: ", |history| history.ended.push(ended(Status::Success, 1)));
}

fn plan(collective: Collective, algorithm: &str) -> CollectivePlan {
    CollectivePlan::of_all(&spec(), Shape::new(RANKS, collective), algorithm.parse().unwrap(), 2)
}

fn seat(me: u32) -> Seat {
    Seat { collective: 0, me }
}

#[test]
fn a_barrier_that_is_passed_early_is_found() {
    let plans = [plan(Collective::Barrier, "dissemination")];
    let mut history = History::default();
    for _ in 0..2 {
        (0..RANKS).for_each(|me| history.begin_round(seat(me)));
        (0..RANKS).for_each(|me| history.end_round(seat(me), None, Vec::new()));
    }
    barrier::check(&history, &plans).unwrap();

    // Rank 2 comes when 0 is through already; or to the first round only.
    for comes_late in [true, false] {
        let mut history = History::default();
        for round in 0..2 {
            (0..2).for_each(|me| history.begin_round(seat(me)));
            if round == 0 {
                history.begin_round(seat(2));
            }
            history.end_round(seat(0), None, Vec::new());
            if round == 1 && comes_late {
                history.begin_round(seat(2));
            }
            history.end_round(seat(1), None, Vec::new());
            if round == 0 || comes_late {
                history.end_round(seat(2), None, Vec::new());
            }
        }
        assert_refused(barrier::check(&history, &plans), "barrier: 0 is past round 1");
    }
}

#[test]
fn a_wrong_result_is_found() {
    let plans = [plan(Collective::Allreduce { count: 2, order: Order::Any }, "linear")];
    let rounds = || {
        let mut history = History::default();
        for (round, me) in (0..2).flat_map(|round| (0..RANKS).map(move |me| (round, me))) {
            history.begin_round(seat(me));
            let results = Results::new(&plans[0].shape, round);
            let output = results.of(me).into_iter().flat_map(|(_, value)| value.to_le_bytes()).collect();
            history.end_round(seat(me), None, output);
        }
        history
    };
    right_results::check(&rounds(), &plans).unwrap();
    for (round, me, at) in [(0, 0, 0), (0, 2, 15), (1, 1, 8)] {
        let mut history = rounds();
        history.rounds.get_mut(&seat(me)).unwrap()[round].end.as_mut().unwrap().output[at] ^= 1;
        let why = format!("right results: element {} of {me} in round {round}", at / 8);
        assert_refused(right_results::check(&history, &plans), &why);
    }
    // Of the round before.
    let mut history = rounds();
    let of_zero = history.rounds.get_mut(&seat(0)).unwrap();
    of_zero[1].end = of_zero[0].end.clone();
    assert_refused(right_results::check(&history, &plans), "right results: element 0 of 0 in round 1");
}

#[test]
fn a_failure_of_a_collective_that_nothing_explains_is_found() {
    let plans = [plan(Collective::Barrier, "dissemination")];
    let statuses = [
        (Status::RankFailed, 1),
        (Status::RankLeft, 1),
        (Status::PeerLost, 1),
        (Status::PeerFreed, 0),
        (Status::NodeGaveUp, 1),
        (Status::Mismatch, 1),
    ];
    for (status, source) in statuses {
        let failure = Completion { source, ..Completion::bare(status) };
        for is_in_round in [true, false] {
            let mut history = History::default();
            if is_in_round {
                history.begin_round(seat(0));
                history.end_round(seat(0), Some(failure), Vec::new());
            } else {
                history.failures.push((seat(0), failure));
            }
            assert_refused(truthful::check_collectives(&history, &spec(), &plans), "truthful: ");
            history.faults.failed.insert(1);
            history.faults.left.insert(1);
            history.faults.cut.extend([(0, 1), (1, 0)]);
            history.gave_up.extend([seat(0), seat(1)]);
            let plans = if status == Status::Mismatch { [dissenting()] } else { plans.clone() };
            assert_eq!(truthful::check_collectives(&history, &spec(), &plans), Ok(()), "{status:?}");
        }
    }
}

/// A barrier that node 1 takes for something else.
fn dissenting() -> CollectivePlan {
    let plan = plan(Collective::Barrier, "dissemination");
    let shape = Shape::new(RANKS, Collective::Bcast { root: 0, count: 1 });
    CollectivePlan { dissent: Some(Dissent { me: 1, shape, algorithm: "linear".parse().unwrap() }), ..plan }
}

#[test]
fn a_difference_that_is_called_something_else_is_found() {
    let told = |status| {
        let mut history = History::default();
        history.failures.push((seat(0), Completion { source: 1, ..Completion::bare(status) }));
        history
    };
    agreement::check(&told(Status::Mismatch), &[dissenting()]).unwrap();
    assert_refused(agreement::check(&told(Status::NodeGaveUp), &[dissenting()]), "agreement: ");
}

/// A job that does two rounds of an allreduce.
fn job() -> Cluster {
    let plans = |_: &JobSpec| vec![plan(Collective::Allreduce { count: 2, order: Order::Any }, "linear")];
    Cluster::new(Workload::of_collectives(1, repeat_n(1, RANKS as usize), plans), false)
}

#[test]
fn a_job_that_stands_still_is_found() {
    let mut job = job();
    assert_refused(terminates::check(&job), "terminates: nothing happens any more");
    assert_refused(undisturbed::check(job.history(), &job), "undisturbed: 0 has ended 0 rounds");
    job.run().unwrap();
    terminates::check(&job).unwrap();
    undisturbed::check(job.history(), &job).unwrap();
}

#[test]
fn a_message_too_many_or_too_few_is_found() {
    let mut job = job();
    job.run().unwrap();
    let sent = job.messages_sent();
    assert_eq!(message_count::check(&job, sent), Ok(()));
    for sent in [sent - 1, sent + 1] {
        assert_refused(message_count::check(&job, sent), &format!("message count: {sent} instead of"));
    }
}

#[test]
fn what_is_left_over_is_found() {
    let clean = [Leftovers::default(); 2];
    let with = |request| [Leftovers::default(), Leftovers { requests: request, ..Leftovers::default() }];
    for has_faults in [false, true] {
        assert_eq!(nothing_left_over::check(has_faults, (&clean, &clean), 0), Ok(()));
        let when_left = nothing_left_over::check(has_faults, (&clean, &with(1)), 0);
        assert_refused(when_left, "nothing left over: when all clients had left");
        let stashed = nothing_left_over::check(has_faults, (&clean, &clean), 1);
        assert_refused(stashed, "nothing left over: 1 stashed payloads");
    }
    let when_done = nothing_left_over::check(false, (&with(1), &clean), 0);
    assert_refused(when_done, "nothing left over: when all clients were done");
    assert_eq!(nothing_left_over::check(true, (&with(1), &clean), 0), Ok(()), "a message may lie unasked for");
}
