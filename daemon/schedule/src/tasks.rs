//! Schedules as the task lists of a network card that progresses collectives by itself.
//!
//! Such a card (CORE-Direct) has queues of tasks and can wait for the completion of others, but does not look into messages. The lists are
//! those of seed 001 (Inozemtsev 2014): table 4.1 for allgather, table 2.2 for the barrier.

use std::fmt;

use crate::check::Execution;
use crate::step::{Action, Schedule};

/// A task of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Task {
    Recv {
        peer: u32,
    },
    /// Says that a receive is posted.
    Cts {
        peer: u32,
    },
    /// Waits for that in front of a send.
    AwaitCts {
        peer: u32,
    },
    Send {
        peer: u32,
    },
    /// Waits for so many messages of the round.
    Wait {
        peer: u32,
        messages: u32,
    },
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recv { peer } => write!(f, "recv from {peer}"),
            Self::Cts { peer } => write!(f, "cts to {peer}"),
            Self::AwaitCts { peer } => write!(f, "wait (cts) from {peer}"),
            Self::Send { peer } => write!(f, "send to {peer}"),
            Self::Wait { peer, messages } => write!(f, "wait ({messages} recv CQ) from {peer}"),
        }
    }
}

/// A task of the queue that drives the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Control {
    /// Lets the next send to this peer go.
    SendEnable { peer: u32 },
    /// Waits for a message; the last one tells the host.
    Wait { peer: u32, is_last: bool },
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SendEnable { peer } => write!(f, "send_enable ({peer})"),
            Self::Wait { peer, is_last: false } => write!(f, "wait ({peer})"),
            Self::Wait { peer, is_last: true } => write!(f, "wait ({peer}, signal)"),
        }
    }
}

/// A participant's tasks, round by round: receives, sends, and the waits that end the round.
///
/// Where there are messages, signals are what announces receives; in a barrier they are the messages.
pub fn rounds(schedule: &Schedule, execution: &Execution) -> Vec<Vec<Task>> {
    let has_messages =
        schedule.steps().iter().any(|step| matches!(step.action, Action::Send { .. } | Action::Recv { .. }));
    let level = |step| execution.level(schedule.me(), step);
    // Level and place within the round.
    let mut tasks: Vec<((u32, u8), Task)> = Vec::new();
    for (index, step) in (0..).zip(schedule.steps()) {
        match step.action {
            Action::Recv { peer, .. } => tasks.push(((level(index), RECVS), Task::Recv { peer })),
            Action::Send { peer, .. } => {
                let awaits = |&other: &u32| matches!(schedule.steps()[other as usize].action, Action::Wait { .. });
                if schedule.after(index).iter().any(awaits) {
                    tasks.push(((level(index), SENDS), Task::AwaitCts { peer }));
                }
                tasks.push(((level(index), SENDS), Task::Send { peer }));
            }
            // The receive that it announces is the next step.
            Action::Signal { peer } if has_messages => tasks.push(((level(index + 1), RECVS), Task::Cts { peer })),
            Action::Signal { peer } => tasks.push(((level(index) + 1, SENDS), Task::Send { peer })),
            Action::Wait { peer } if !has_messages => tasks.push(((level(index), RECVS), Task::Recv { peer })),
            Action::Wait { .. } | Action::Combine { .. } | Action::Copy { .. } => {}
        }
    }
    tasks.sort_by_key(|&(place, _)| place);
    let by_level = tasks.chunk_by(|((a, _), _), ((b, _), _)| a == b);
    by_level.map(|round| with_waits(round.iter().map(|&(_, task)| task).collect())).collect()
}

/// The queue that drives a participant's other queues.
pub fn control(rounds: &[Vec<Task>]) -> Vec<Control> {
    let mut queue: Vec<_> = rounds
        .iter()
        .flatten()
        .filter_map(|task| match *task {
            Task::Send { peer } => Some(Control::SendEnable { peer }),
            Task::Wait { peer, .. } => Some(Control::Wait { peer, is_last: false }),
            _ => None,
        })
        .collect();
    if let Some(Control::Wait { is_last, .. }) = queue.last_mut() {
        *is_last = true;
    }
    queue
}

fn with_waits(mut round: Vec<Task>) -> Vec<Task> {
    let mut waits: Vec<(u32, u32)> = Vec::new();
    for task in &round {
        if let Task::Recv { peer } = *task {
            match waits.iter_mut().find(|(waited, _)| *waited == peer) {
                Some((_, messages)) => *messages += 1,
                None => waits.push((peer, 1)),
            }
        }
    }
    round.extend(waits.into_iter().map(|(peer, messages)| Task::Wait { peer, messages }));
    round
}

const RECVS: u8 = 0;
const SENDS: u8 = 1;
