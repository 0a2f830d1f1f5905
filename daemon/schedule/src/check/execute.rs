//! The reference interpreter: executes all participants' schedules, in any order their dependencies allow.

use super::CheckError;
use super::links::Links;
use super::reference::{Memory, ONLY_ROUND, UNWRITTEN, Value, apply};
use crate::shape::{Order, Shape};
use crate::step::{Action, Dependents, Schedule, Slice};

/// When a send is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// At once: the message is kept until it is asked for.
    Eager,
    /// When it is received.
    Rendezvous,
}

/// What came of executing schedules.
pub struct Execution {
    /// None, if it is only traced.
    memories: Vec<Memory>,
    order: Vec<(u32, u32)>,
    levels: Vec<Vec<u32>>,
    links: Links,
}

impl Execution {
    /// The steps, by participant and index, in the order they were done.
    pub fn order(&self) -> &[(u32, u32)] {
        &self.order
    }

    /// The step at the other end of a message or signal.
    pub fn partner(&self, me: u32, step: u32) -> u32 {
        self.links.partner(me, step)
    }

    /// How many messages had to come one after the other for a step to be done, with its own.
    pub fn level(&self, me: u32, step: u32) -> u32 {
        self.levels[me as usize][step as usize]
    }

    /// The largest level: the length of the critical path, in messages.
    pub fn depth(&self) -> u32 {
        self.levels.iter().flatten().copied().max().unwrap_or(0)
    }

    /// Whether both have the same outputs.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.memories.iter().map(|memory| &memory.output).eq(other.memories.iter().map(|memory| &memory.output))
    }

    pub(super) fn output(&self, me: u32) -> &[Value] {
        &self.memories[me as usize].output
    }
}

/// Executes everybody's schedules. Of n steps that could be done next, `choose(n)` says which one is; it must be below n.
///
/// The result is compared with nothing; that is [`check`](super::check)'s.
///
/// # Errors
/// If messages do not match, if steps wait in a circle, or read what was never written.
pub fn execute(
    shape: &Shape,
    schedules: &[Schedule],
    delivery: Delivery,
    choose: impl FnMut(usize) -> usize,
) -> Result<Execution, CheckError> {
    let memory = |one: &Schedule| Memory::new(shape, ONLY_ROUND, one.me(), one.scratch_elements());
    run(shape, schedules, delivery, schedules.iter().map(memory).collect(), choose)
}

/// Follows everybody's messages without any payload, so that vectors may be as long as they like.
///
/// # Errors
/// If messages do not match, or steps wait in a circle.
pub fn trace(shape: &Shape, schedules: &[Schedule]) -> Result<Execution, CheckError> {
    run(shape, schedules, Delivery::Rendezvous, Vec::new(), |_| 0)
}

fn run(
    shape: &Shape,
    schedules: &[Schedule],
    delivery: Delivery,
    memories: Vec<Memory>,
    mut choose: impl FnMut(usize) -> usize,
) -> Result<Execution, CheckError> {
    let links = Links::new(schedules)?;
    let levels = schedules.iter().map(|one| vec![0; one.steps().len()]).collect();
    let execution = Execution { memories, order: Vec::new(), levels, links };
    let mut machine = Machine {
        schedules,
        delivery,
        operator: shape.collective.order().unwrap_or_default(),
        dependents: schedules.iter().map(Schedule::dependents).collect(),
        missing: schedules.iter().map(missing).collect(),
        posted: schedules.iter().map(|one| vec![false; one.steps().len()]).collect(),
        mail: schedules.iter().map(|one| vec![None; one.steps().len()]).collect(),
        ready: Vec::new(),
        execution,
    };
    for (me, missing) in (0..).zip(&machine.missing) {
        machine.ready.extend((0..).zip(missing).filter(|&(_, &missing)| missing == 0).map(|(step, _)| (me, step)));
    }
    while !machine.ready.is_empty() {
        let chosen = choose(machine.ready.len());
        let (me, step) = machine.ready.swap_remove(chosen);
        machine.begin(me, step)?;
    }
    machine.finish()
}

struct Machine<'a> {
    schedules: &'a [Schedule],
    delivery: Delivery,
    operator: Order,
    dependents: Vec<Dependents>,
    /// Dependencies that are not done yet.
    missing: Vec<Vec<u32>>,
    /// Whether a message's end has begun.
    posted: Vec<Vec<bool>>,
    /// What came for a step that has not begun.
    mail: Vec<Vec<Option<Vec<Value>>>>,
    ready: Vec<(u32, u32)>,
    execution: Execution,
}

impl Machine<'_> {
    fn begin(&mut self, me: u32, step: u32) -> Result<(), CheckError> {
        match self.schedules[me as usize].steps()[step as usize].action {
            Action::Copy { from, into } => {
                let values = self.read(me, step, from)?;
                self.write(me, into, &values);
                self.done(me, step);
            }
            Action::Combine { from, into, side } => {
                let values = self.read(me, step, from)?;
                // Both operands must have a value.
                let mut result = self.read(me, step, into)?;
                apply(self.operator, &mut result, &values, side);
                self.write(me, into, &result);
                self.done(me, step);
            }
            Action::Send { peer, from } => {
                self.posted[me as usize][step as usize] = true;
                let partner = self.execution.partner(me, step);
                let is_awaited = self.posted[peer as usize][partner as usize];
                if is_awaited || self.delivery == Delivery::Eager {
                    let values = self.read(me, step, from)?;
                    let level = self.start_level(me, step).max(self.start_level(peer, partner)) + 1;
                    self.raise(me, step, level);
                    self.raise(peer, partner, level);
                    self.done(me, step);
                    self.mail[peer as usize][partner as usize] = Some(values);
                }
                if is_awaited {
                    self.receive(peer, partner);
                }
            }
            Action::Recv { peer, .. } => {
                self.posted[me as usize][step as usize] = true;
                let partner = self.execution.partner(me, step);
                if self.mail[me as usize][step as usize].is_some() {
                    self.receive(me, step);
                } else if self.posted[peer as usize][partner as usize] {
                    self.begin(peer, partner)?;
                }
            }
            Action::Signal { peer } => {
                let partner = self.execution.partner(me, step);
                self.raise(peer, partner, self.start_level(me, step) + 1);
                self.done(me, step);
                self.mail[peer as usize][partner as usize] = Some(Vec::new());
                if self.posted[peer as usize][partner as usize] {
                    self.done(peer, partner);
                }
            }
            Action::Wait { .. } => {
                self.posted[me as usize][step as usize] = true;
                if self.mail[me as usize][step as usize].is_some() {
                    self.done(me, step);
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self, me: u32, step: u32) {
        let values = self.mail[me as usize][step as usize].take().expect("the message has come");
        let action = self.schedules[me as usize].steps()[step as usize].action;
        let into = action.writes().expect("a message is received into memory");
        self.write(me, into, &values);
        self.done(me, step);
    }

    /// The level of what a step waits for.
    fn start_level(&self, me: u32, step: u32) -> u32 {
        let after = self.schedules[me as usize].after(step);
        after.iter().map(|&other| self.execution.level(me, other)).max().unwrap_or(0)
    }

    fn raise(&mut self, me: u32, step: u32, level: u32) {
        let at = &mut self.execution.levels[me as usize][step as usize];
        *at = level.max(*at);
    }

    fn done(&mut self, me: u32, step: u32) {
        self.raise(me, step, self.start_level(me, step));
        self.execution.order.push((me, step));
        for &dependent in self.dependents[me as usize].of(step) {
            let missing = &mut self.missing[me as usize][dependent as usize];
            *missing -= 1;
            if *missing == 0 {
                self.ready.push((me, dependent));
            }
        }
    }

    fn read(&mut self, me: u32, step: u32, slice: Slice) -> Result<Vec<Value>, CheckError> {
        let Some(memory) = self.execution.memories.get_mut(me as usize) else { return Ok(Vec::new()) };
        let values = memory.buffer(slice.buffer)[slice.offset as usize..slice.end() as usize].to_vec();
        if values.contains(&UNWRITTEN) { Err(CheckError::Unwritten { me, step }) } else { Ok(values) }
    }

    fn write(&mut self, me: u32, slice: Slice, values: &[Value]) {
        if let Some(memory) = self.execution.memories.get_mut(me as usize) {
            memory.buffer(slice.buffer)[slice.offset as usize..slice.end() as usize].copy_from_slice(values);
        }
    }

    fn finish(self) -> Result<Execution, CheckError> {
        let mut is_done: Vec<_> = self.schedules.iter().map(|one| vec![false; one.steps().len()]).collect();
        for &(me, step) in &self.execution.order {
            is_done[me as usize][step as usize] = true;
        }
        for (me, is_done) in (0..).zip(&is_done) {
            if let Some(step) = is_done.iter().position(|&is_done| !is_done) {
                return Err(CheckError::Stuck { me, step: step as u32 });
            }
        }
        Ok(self.execution)
    }
}

fn missing(schedule: &Schedule) -> Vec<u32> {
    (0..schedule.steps().len() as u32).map(|step| schedule.after(step).len() as u32).collect()
}
