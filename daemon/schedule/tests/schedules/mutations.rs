//! Schedules with something wrong are refused, whatever it is.

use ropeway_schedule::check::{CheckError, check};
use ropeway_schedule::{Action, Algorithm, Collective, Counts, Order, Schedule, Shape, Slice, build_all};

/// The same schedule, with its steps changed. A step that is dropped takes its dependencies with it.
fn rewrite(schedule: &Schedule, change: impl Fn(u32, Action) -> Option<Action>) -> Schedule {
    let mut rewritten = Schedule::new(schedule.me(), schedule.size());
    rewritten.add_scratch(schedule.scratch_elements());
    let mut places: Vec<Option<u32>> = Vec::new();
    for (index, step) in (0..).zip(schedule.steps()) {
        let after: Vec<_> = schedule.after(index).iter().filter_map(|&other| places[other as usize]).collect();
        places.push(change(index, step.action).map(|action| rewritten.push(action, &after)));
    }
    rewritten
}

fn victims() -> Vec<(Shape, Vec<Schedule>)> {
    let shapes = [
        (Collective::Allreduce { count: 9, order: Order::Any }, "ring"),
        (Collective::Allreduce { count: 9, order: Order::Rank }, "recursive-doubling"),
        (Collective::Allreduce { count: 9, order: Order::Rank }, "recursive-halving"),
        (Collective::Reduce { root: 2, count: 9, order: Order::Rank }, "pipelined-tree:2"),
        (Collective::Allgather { counts: Counts::same(2) }, "bruck"),
        (Collective::Gather { root: 3, counts: Counts::same(2) }, "binomial"),
        (Collective::Barrier, "dissemination"),
    ];
    let build = |(collective, name): (Collective, &str)| {
        let shape = Shape::new(6, collective);
        let schedules = build_all(&shape, &name.parse::<Algorithm>().unwrap()).unwrap();
        check(&shape, &schedules).unwrap();
        (shape, schedules)
    };
    shapes.into_iter().map(build).collect()
}

/// Applies a change to each step of each schedule in turn, and has it checked.
fn mutate(change: impl Fn(Action) -> Option<Option<Action>>) -> Vec<CheckError> {
    let mut errors = Vec::new();
    for (shape, schedules) in victims() {
        for me in 0..schedules.len() {
            for at in 0..schedules[me].steps().len() as u32 {
                let Some(mutant) = change(schedules[me].steps()[at as usize].action) else { continue };
                let mut mutated = schedules.clone();
                mutated[me] = rewrite(&schedules[me], |index, action| if index == at { mutant } else { Some(action) });
                match check(&shape, &mutated) {
                    Ok(_) => panic!("step {at} of {me} in {shape:?} may be {mutant:?}"),
                    Err(error) => errors.push(error),
                }
            }
        }
    }
    assert!(errors.len() > 20);
    errors
}

fn with_slices(action: Action, change: impl Fn(Slice) -> Slice) -> Option<Action> {
    match action {
        Action::Send { peer, from } => Some(Action::Send { peer, from: change(from) }),
        Action::Recv { peer, into } => Some(Action::Recv { peer, into: change(into) }),
        Action::Combine { from, into, side } => Some(Action::Combine { from: change(from), into, side }),
        Action::Copy { from, into } => Some(Action::Copy { from: change(from), into }),
        Action::Signal { .. } | Action::Wait { .. } => None,
    }
}

#[test]
fn a_dropped_step_is_found() {
    let errors = mutate(|_| Some(None));
    assert!(errors.iter().any(|error| matches!(error, CheckError::Unmatched { .. })));
}

#[test]
fn a_swapped_peer_is_found() {
    let other = |peer| (peer + 1) % 6;
    mutate(|action| match action {
        Action::Send { peer, from } => Some(Some(Action::Send { peer: other(peer), from })),
        Action::Recv { peer, into } => Some(Some(Action::Recv { peer: other(peer), into })),
        Action::Signal { peer } => Some(Some(Action::Signal { peer: other(peer) })),
        Action::Wait { peer } => Some(Some(Action::Wait { peer: other(peer) })),
        _ => None,
    });
}

#[test]
fn a_slice_out_of_bounds_is_found() {
    let errors = mutate(|action| Some(Some(with_slices(action, |slice| Slice { offset: 1 << 40, ..slice })?)));
    assert!(errors.iter().all(|error| matches!(error, CheckError::OutOfBounds { .. })));
    mutate(|action| Some(Some(with_slices(action, |slice| Slice { offset: u64::MAX, ..slice })?)));
}

#[test]
fn a_slice_that_is_too_short_is_found() {
    mutate(|action| Some(Some(with_slices(action, |slice| Slice { length: slice.length - 1, ..slice })?)));
}

#[test]
fn an_operand_on_the_wrong_side_is_found_if_the_operator_does_not_commute() {
    let shape = Shape::new(6, Collective::Allreduce { count: 3, order: Order::Rank });
    let schedules = build_all(&shape, &"recursive-doubling".parse().unwrap()).unwrap();
    let mut mutated = schedules.clone();
    mutated[1] = rewrite(&schedules[1], |_, action| match action {
        Action::Combine { from, into, side } => {
            use ropeway_schedule::Side::{Left, Right};
            Some(Action::Combine { from, into, side: if side == Left { Right } else { Left } })
        }
        other => Some(other),
    });
    assert!(matches!(check(&shape, &mutated), Err(CheckError::Wrong { .. })));
}

#[test]
fn a_missing_dependency_is_found() {
    for (shape, schedules) in victims() {
        let mut found = 0;
        for me in 0..schedules.len() {
            let without = |at: u32| {
                let mut rewritten = Schedule::new(me as u32, shape.size);
                rewritten.add_scratch(schedules[me].scratch_elements());
                for (index, step) in (0..).zip(schedules[me].steps()) {
                    rewritten.push(step.action, if index == at { &[] } else { schedules[me].after(index) });
                }
                rewritten
            };
            for at in (0..schedules[me].steps().len() as u32).filter(|&at| !schedules[me].after(at).is_empty()) {
                let mut mutated = schedules.clone();
                mutated[me] = without(at);
                match check(&shape, &mutated) {
                    Err(CheckError::Race { .. } | CheckError::Early { .. }) => found += 1,
                    other => panic!("step {at} of {me} in {shape:?} need not wait: {other:?}"),
                }
            }
        }
        assert!(found > 0);
    }
}

#[test]
fn waiting_in_a_circle_is_found() {
    let shape = Shape::new(2, Collective::Barrier);
    let schedules: Vec<_> = (0..2)
        .map(|me| {
            let mut schedule = Schedule::new(me, 2);
            let waited = schedule.push(Action::Wait { peer: 1 - me }, &[]);
            schedule.push(Action::Signal { peer: 1 - me }, &[waited]);
            schedule
        })
        .collect();
    assert_eq!(check(&shape, &schedules), Err(CheckError::Stuck { me: 0, step: 0 }));
}

#[test]
fn a_schedule_for_another_participant_is_refused() {
    let (shape, mut schedules) = victims().swap_remove(0);
    schedules.swap(1, 2);
    assert_eq!(check(&shape, &schedules), Err(CheckError::Missing { me: 1 }));
    schedules.truncate(1);
    assert_eq!(check(&shape, &schedules), Err(CheckError::Missing { me: 1 }));
}
