//! Whoever keeps messages until they are asked for may do the steps in turn.

use std::collections::HashMap;

use ropeway_schedule::{Action, Schedule, build_all};

use crate::every::algorithms;
use crate::shapes::shapes;

/// Does everybody's steps in turn, as far as what they wait for has come; the first step that somebody does not get past.
fn stuck(schedules: &[Schedule]) -> Option<(u32, Action)> {
    // Messages on their way, and signals, by sender and receiver.
    let (mut messages, mut signals) = (HashMap::<_, u32>::new(), HashMap::<_, u32>::new());
    let mut rest: Vec<_> = schedules.iter().map(|schedule| schedule.steps().iter().peekable()).collect();
    loop {
        let mut has_moved = false;
        for (me, steps) in (0..).zip(&mut rest) {
            let take = |mail: &mut HashMap<(u32, u32), u32>, from: u32| match mail.get_mut(&(from, me)) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    true
                }
                _ => false,
            };
            while let Some(step) = steps.peek() {
                let is_done = match step.action {
                    Action::Recv { peer, .. } => take(&mut messages, peer),
                    Action::Wait { peer } => take(&mut signals, peer),
                    _ => true,
                };
                if !is_done {
                    break;
                }
                match step.action {
                    Action::Send { peer, .. } => *messages.entry((me, peer)).or_default() += 1,
                    Action::Signal { peer } => *signals.entry((me, peer)).or_default() += 1,
                    _ => {}
                }
                steps.next();
                has_moved = true;
            }
        }
        if !has_moved {
            return (0..).zip(&mut rest).find_map(|(me, steps)| steps.peek().map(|step| (me, step.action)));
        }
    }
}

#[test]
fn nobody_waits_for_a_later_step() {
    for size in 1..=17 {
        for shape in shapes(size, &[0, size - 1], 23) {
            for algorithm in algorithms(size) {
                let Ok(schedules) = build_all(&shape, &algorithm) else { continue };
                assert_eq!(stuck(&schedules), None, "{algorithm} for {shape:?}");
            }
        }
    }
}
