//! Proves that the schedules of all participants fit together and do what they should.
//!
//! 1. Every step is in bounds, and waits only for steps before it.
//! 2. Every send meets a receive of the same length, every signal a wait.
//! 3. Steps that touch the same elements, and not only read them, are ordered by dependencies: so every order of execution
//!    that keeps to them computes the same.
//! 4. Nothing waits in a circle, even if no message is sent before its receiver is ready.
//! 5. One execution by a reference interpreter gives the right answer; with 3, so do all.
//! 6. Nobody gets past a barrier before it has heard, directly or not, of everybody.
//! 7. An allreduce gives everybody the same, even by an operator that is not associative, as sums of floats are not.

mod execute;
mod links;
pub mod reference;

pub use execute::{Delivery, Execution, execute, trace};

use crate::error::ShapeError;
use crate::hazard::Hazards;
use crate::shape::{Collective, Order, Shape};
use crate::step::{Action, Buffer, Schedule, Slice, Step};

/// What is wrong with schedules. Steps are named by participant and index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum CheckError {
    /// Nothing can be right for this.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// One schedule for each, in order.
    #[error("the schedule of participant {me} is missing, or made for another size")]
    Missing { me: u32 },
    /// A slice leaves its buffer.
    #[error("step {step} of {me} touches {slice:?}, out of bounds")]
    OutOfBounds { me: u32, step: u32, slice: Slice },
    /// The input is not ours to change.
    #[error("step {step} of {me} writes to the input")]
    WritesInput { me: u32, step: u32 },
    /// Slices of one step that differ in length, or overlap.
    #[error("step {step} of {me} has slices that do not fit each other")]
    Slices { me: u32, step: u32 },
    /// A peer that does not exist, or is oneself.
    #[error("step {step} of {me} names {peer} as its peer")]
    Peer { me: u32, step: u32, peer: u32 },
    /// Dependencies point back.
    #[error("step {step} of {me} waits for a step that is not before it")]
    Forward { me: u32, step: u32 },
    /// A message that nobody expects, or one that never comes.
    #[error("{sender} sends {sent} {what} to {receiver}, which expects {expected}")]
    Unmatched { sender: u32, receiver: u32, what: &'static str, sent: usize, expected: usize },
    /// A message of another length than expected.
    #[error("message {index} from {sender} to {receiver} has {sent} elements, expected are {expected}")]
    MessageLength { sender: u32, receiver: u32, index: usize, sent: u64, expected: u64 },
    /// Two steps that may be done in any order, but must not.
    #[error("step {step} of {me} touches what step {other} does, and does not wait for it")]
    Race { me: u32, step: u32, other: u32 },
    /// A circle.
    #[error("step {step} of {me} is never done: it waits in a circle")]
    Stuck { me: u32, step: u32 },
    /// An element that was never given a value.
    #[error("step {step} of {me} reads what nothing was written to")]
    Unwritten { me: u32, step: u32 },
    /// Another result than the operation's.
    #[error("element {element} of {me}'s output is wrong")]
    Wrong { me: u32, element: usize },
    /// Operands that are grouped otherwise than at participant 0, so that floats are rounded otherwise.
    #[error("element {element} of {me}'s output may differ from that of 0 in its last bits")]
    Unequal { me: u32, element: usize },
    /// A barrier that does not hold.
    #[error("{me} may get past the barrier before {late} has come")]
    Early { me: u32, late: u32 },
}

/// What is known of schedules that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Messages with payload, of all participants.
    pub messages: u64,
    /// Messages without.
    pub signals: u64,
    /// Elements sent.
    pub elements: u64,
    /// Steps of all participants.
    pub steps: u64,
    /// Messages that wait for each other, at most: the length of the critical path.
    pub depth: u32,
    /// The most scratch memory that a participant needs.
    pub scratch_elements: u64,
}

/// Proves everybody's schedules right, or says what is wrong.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(shape: &Shape, schedules: &[Schedule]) -> Result<Proof, CheckError> {
    let proof = check_structure(shape, schedules)?;
    // The order does not matter any more, so any one will do.
    let execution = execute(shape, schedules, Delivery::Rendezvous, |_| 0)?;
    reference::compare(shape, &execution)?;
    if let Collective::Allreduce { count, .. } = shape.collective {
        let lawless = Shape { collective: Collective::Allreduce { count, order: Order::Fixed }, ..*shape };
        reference::check_equal(&execute(&lawless, schedules, Delivery::Rendezvous, |_| 0)?, shape.size)?;
    }
    Ok(proof)
}

/// The same without results: 1 to 4 and 6. It needs no memory for vectors.
///
/// # Errors
/// The first thing that is wrong.
pub fn check_structure(shape: &Shape, schedules: &[Schedule]) -> Result<Proof, CheckError> {
    shape.check()?;
    for me in 0..shape.size {
        let schedule =
            schedules.get(me as usize).filter(|schedule| schedule.me() == me && schedule.size() == shape.size);
        let schedule = schedule.ok_or(CheckError::Missing { me })?;
        check_steps(shape, schedule)?;
        check_races(schedule)?;
    }
    // Each message has both ends' dependencies there, so that circles show.
    let execution = trace(shape, schedules)?;
    if shape.collective == Collective::Barrier {
        check_barrier(schedules, &execution)?;
    }
    Ok(prove(schedules, &execution))
}

fn prove(schedules: &[Schedule], execution: &Execution) -> Proof {
    let mut proof = Proof { depth: execution.depth(), ..Proof::default() };
    for schedule in schedules {
        proof.steps += schedule.steps().len() as u64;
        proof.scratch_elements = proof.scratch_elements.max(schedule.scratch_elements());
        for step in schedule.steps() {
            match step.action {
                Action::Send { from, .. } => {
                    proof.messages += 1;
                    proof.elements += from.length;
                }
                Action::Signal { .. } => proof.signals += 1,
                _ => {}
            }
        }
    }
    proof
}

fn check_steps(shape: &Shape, schedule: &Schedule) -> Result<(), CheckError> {
    let me = schedule.me();
    for (step, Step { action, .. }) in (0..).zip(schedule.steps()) {
        for slice in action.reads().into_iter().chain(action.writes()) {
            let length = match slice.buffer {
                Buffer::Input => shape.input_elements(me),
                Buffer::Output => shape.output_elements(me),
                Buffer::Scratch => schedule.scratch_elements(),
            };
            if slice.offset.checked_add(slice.length).is_none_or(|end| end > length) {
                return Err(CheckError::OutOfBounds { me, step, slice });
            }
        }
        if action.writes().is_some_and(|slice| slice.buffer == Buffer::Input) {
            return Err(CheckError::WritesInput { me, step });
        }
        match *action {
            Action::Combine { from, into, .. } | Action::Copy { from, into } => {
                if from.length != into.length || from.overlaps(&into) {
                    return Err(CheckError::Slices { me, step });
                }
            }
            Action::Send { peer, .. } | Action::Recv { peer, .. } | Action::Signal { peer } | Action::Wait { peer } => {
                if peer >= shape.size || peer == me {
                    return Err(CheckError::Peer { me, step, peer });
                }
            }
        }
        if schedule.after(step).iter().any(|&other| other >= step) {
            return Err(CheckError::Forward { me, step });
        }
    }
    Ok(())
}

fn check_races(schedule: &Schedule) -> Result<(), CheckError> {
    let me = schedule.me();
    let mut hazards = Hazards::new();
    // What each step waits for, directly or not; made when a dependency is missed for the first time, which is rare.
    let mut ancestors: Option<Vec<Vec<bool>>> = None;
    for (step, Step { action, .. }) in (0..).zip(schedule.steps()) {
        let after = schedule.after(step);
        for other in hazards.add(step, action) {
            let is_ordered = after.binary_search(&other).is_ok()
                || ancestors.get_or_insert_with(|| all_ancestors(schedule))[step as usize][other as usize];
            if !is_ordered {
                return Err(CheckError::Race { me, step, other });
            }
        }
    }
    Ok(())
}

fn all_ancestors(schedule: &Schedule) -> Vec<Vec<bool>> {
    let mut ancestors: Vec<Vec<bool>> = Vec::with_capacity(schedule.steps().len());
    for step in 0..schedule.steps().len() as u32 {
        let mut mine = vec![false; step as usize];
        for &other in schedule.after(step) {
            mine[other as usize] = true;
            mine.iter_mut().zip(&ancestors[other as usize]).for_each(|(mine, theirs)| *mine |= theirs);
        }
        ancestors.push(mine);
    }
    ancestors
}

/// Follows who has heard of whom, from step to step.
fn check_barrier(schedules: &[Schedule], execution: &Execution) -> Result<(), CheckError> {
    let size = schedules.len();
    let mut known: Vec<Vec<Vec<bool>>> = schedules.iter().map(|one| vec![Vec::new(); one.steps().len()]).collect();
    let mut by_rank = vec![vec![false; size]; size];
    by_rank.iter_mut().enumerate().for_each(|(me, known)| known[me] = true);
    let learn = |known: &mut Vec<bool>, other: &[bool]| {
        known.iter_mut().zip(other).for_each(|(known, other)| *known |= other);
    };
    for &(me, step) in execution.order() {
        let schedule = &schedules[me as usize];
        let mut knows = vec![false; size];
        knows[me as usize] = true;
        for &other in schedule.after(step) {
            learn(&mut knows, &known[me as usize][other as usize]);
        }
        if let Action::Wait { peer } | Action::Recv { peer, .. } = schedule.steps()[step as usize].action {
            learn(&mut knows, &known[peer as usize][execution.partner(me, step) as usize]);
        }
        learn(&mut by_rank[me as usize], &knows);
        known[me as usize][step as usize] = knows;
    }
    for (me, knows) in (0..).zip(&by_rank) {
        if let Some(late) = knows.iter().position(|&is_known| !is_known) {
            return Err(CheckError::Early { me, late: late as u32 });
        }
    }
    Ok(())
}
