//! Eager and rendezvous forms, and the task lists that the thesis prints.

use ropeway_schedule::check::{Delivery, Execution, check, execute};
use ropeway_schedule::form::Form;
use ropeway_schedule::tasks::{control, rounds};
use ropeway_schedule::{Collective, Counts, Schedule, Shape, build_all};

fn allgather(size: u32, algorithm: &str) -> (Shape, Vec<Schedule>) {
    let shape = Shape::new(size, Collective::Allgather { counts: Counts::same(4) });
    let schedules = build_all(&shape, &algorithm.parse().unwrap()).unwrap();
    (shape, schedules)
}

fn formed(form: Form, schedules: &[Schedule]) -> Vec<Schedule> {
    schedules.iter().map(|schedule| form.apply(schedule)).collect()
}

fn run(shape: &Shape, schedules: &[Schedule]) -> Execution {
    execute(shape, schedules, Delivery::Rendezvous, |_| 0).unwrap()
}

/// Rounds as lines, with an empty one between them.
fn printed(shape: &Shape, schedules: &[Schedule], me: usize) -> String {
    let rounds = rounds(&schedules[me], &run(shape, schedules));
    let lines = |round: &Vec<_>| round.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    rounds.iter().map(lines).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn the_eager_standard_exchange_is_that_of_table_4_1() {
    let (shape, schedules) = allgather(8, "standard-exchange:1");
    let eager = formed(Form::Eager { block: 4 }, &schedules);
    check(&shape, &eager).unwrap();
    let table = "\
recv from 1
send to 1
wait (1 recv CQ) from 1

recv from 2
recv from 2
send to 2
send to 2
wait (2 recv CQ) from 2

recv from 4
recv from 4
recv from 4
recv from 4
send to 4
send to 4
send to 4
send to 4
wait (4 recv CQ) from 4";
    assert_eq!(printed(&shape, &eager, 0), table);
}

#[test]
fn the_barrier_is_that_of_table_2_2() {
    let shape = Shape::new(8, Collective::Barrier);
    let schedules = build_all(&shape, &"recursive-doubling".parse().unwrap()).unwrap();
    let rounds = rounds(&schedules[0], &run(&shape, &schedules));
    let queue: Vec<_> = control(&rounds).iter().map(ToString::to_string).collect();
    let table = ["send_enable (1)", "wait (1)", "send_enable (2)", "wait (2)", "send_enable (4)", "wait (4, signal)"];
    assert_eq!(queue, table);
    for (round, peer) in rounds.iter().zip([1, 2, 4]) {
        let tasks: Vec<_> = round.iter().take(2).map(ToString::to_string).collect();
        assert_eq!(tasks, [format!("recv from {peer}"), format!("send to {peer}")]);
    }
}

#[test]
fn in_the_rendezvous_form_each_send_waits_for_the_receiver() {
    let (shape, schedules) = allgather(8, "standard-exchange:1");
    let rendezvous = formed(Form::Rendezvous, &schedules);
    let one = |peer| {
        let lines = [
            format!("cts to {peer}"),
            format!("recv from {peer}"),
            format!("wait (cts) from {peer}"),
            format!("send to {peer}"),
            format!("wait (1 recv CQ) from {peer}"),
        ];
        lines.join("\n")
    };
    assert_eq!(printed(&shape, &rendezvous, 0), [1, 2, 4].map(one).join("\n\n"));
    // All receivers can be ready at once: no round trip but the first.
    assert_eq!(check(&shape, &rendezvous).unwrap().depth, 3 + 1);
}

#[test]
fn forms_send_what_the_thesis_counts() {
    for (size, ports, messages) in [(8, 1, 3), (9, 2, 4), (16, 3, 6), (4, 3, 3)] {
        let (shape, schedules) = allgather(size, &format!("standard-exchange:{ports}"));
        let eager = check(&shape, &formed(Form::Eager { block: 4 }, &schedules)).unwrap();
        assert_eq!(eager.messages, u64::from(size * (size - 1)));
        let rendezvous = check(&shape, &formed(Form::Rendezvous, &schedules)).unwrap();
        let messages = u64::from(size * messages);
        assert_eq!((rendezvous.messages, rendezvous.signals), (messages, messages));
    }
}

#[test]
fn every_form_of_every_algorithm_is_right() {
    let mut random = fastrand::Rng::with_seed(4);
    for size in [2, 5, 8] {
        for shape in crate::shapes::shapes(size, &[1], 13) {
            for algorithm in ropeway_schedule::Algorithm::all() {
                let Ok(schedules) = build_all(&shape, &algorithm) else { continue };
                for form in [Form::Eager { block: 1 }, Form::Eager { block: 5 }, Form::Rendezvous] {
                    let schedules = formed(form, &schedules);
                    if let Err(error) = check(&shape, &schedules) {
                        panic!("{algorithm} for {shape:?} as {form:?}: {error}");
                    }
                    let shuffled = execute(&shape, &schedules, Delivery::Rendezvous, |ready| random.usize(..ready));
                    assert!(shuffled.unwrap().agrees_with(&run(&shape, &schedules)));
                }
            }
        }
    }
}
