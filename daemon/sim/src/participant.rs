//! One node's part in a collective: its three buffers, and whose they are at the moment.
//!
//! They are the round's from its begin to its end, and nobody's between two rounds. Then they hold nothing, and nobody may write
//! to them: a participant looks, whenever a round begins and when all is over.

use ropeway_engine::{CollectiveId, NodeCollective};
use ropeway_proto::{Layout, NodeId};
use ropeway_schedule::check::reference::{Memory, UNWRITTEN, Value, combine};
use ropeway_schedule::{Action, Order, Side, build};

use crate::message::{Buffer, UNTOUCHED};
use crate::workload::collective::{CollectivePlan, VALUE_BYTES};

/// A participant's place: which of the workload's collectives, and which of its participants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub struct Seat {
    pub collective: usize,
    pub me: u32,
}

/// What a participant is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its node has not opened the collective yet.
    Unopened,
    /// Between two rounds.
    Idle(CollectiveId),
    /// In a round.
    Running(CollectiveId),
    /// There will be no further round.
    Failed(CollectiveId),
    /// Done with it.
    Closed,
}

/// A participant.
#[derive(Debug)]
pub struct Participant {
    /// What it is doing.
    pub state: State,
    /// Rounds it has begun and not failed in.
    pub rounds: u32,
    /// Messages and signals that it sends in a round.
    pub sends: u64,
    /// What it will tell its engine.
    pub told: Option<NodeCollective>,
    me: u32,
    input: Buffer,
    output: Buffer,
    scratch: Buffer,
}

impl Participant {
    /// One that is about to take part.
    pub fn new(plan: &CollectivePlan, me: u32, number: u64, memory: &mut Vec<u8>) -> Self {
        let (shape, algorithm) = plan.part(me);
        let schedule = build(shape, algorithm, me).expect("the algorithm suits the shape");
        let mut allocate =
            |elements: u64| Buffer::allocate(memory, Layout::contiguous(0, elements * plan.element_bytes));
        let is_send = |action| matches!(action, Action::Send { .. } | Action::Signal { .. });
        let mut this = Self {
            state: State::Unopened,
            rounds: 0,
            sends: schedule.steps().iter().filter(|step| is_send(step.action)).count() as u64,
            told: None,
            me,
            input: allocate(shape.input_elements(me)),
            output: allocate(shape.output_elements(me)),
            scratch: allocate(schedule.scratch_elements()),
        };
        this.told = Some(NodeCollective {
            number,
            participants: plan.nodes.iter().map(|&node| NodeId(node)).collect(),
            members: plan.members.clone(),
            digest: plan.digest(me),
            schedule: schedule.into(),
            element_bytes: plan.element_bytes,
            input: this.input.layout.offset,
            output: this.output.layout.offset,
            scratch: this.scratch.layout.offset,
        });
        this
    }

    /// What it waits for, if it does.
    pub fn waits_for(&self) -> Option<String> {
        let Self { state, rounds, .. } = self;
        (*state != State::Closed).then(|| format!("{state:?} after {rounds} rounds"))
    }

    /// Whether nobody has written to its buffers between two rounds.
    pub fn is_untouched(&self, memory: &[u8]) -> bool {
        self.buffers().iter().all(|buffer| buffer.is_untouched_beyond(memory, 0))
    }

    /// Puts what it brings to a round in its place.
    pub fn bring(&self, plan: &CollectivePlan, round: u32, memory: &mut [u8]) {
        let Memory { input, output, .. } = Memory::new(plan.part(self.me).0, round.into(), self.me, 0);
        for (buffer, values) in [(&self.input, input), (&self.output, output)] {
            let elements = memory[buffer.layout.offset as usize..].chunks_mut(plan.element_bytes as usize);
            let written = elements.zip(values).filter(|&(_, value)| value != UNWRITTEN);
            written.for_each(|(element, value)| encode(value, element));
        }
    }

    /// Takes the buffers back when a round is over: what is in the output. Complains if what nobody may touch was touched.
    pub fn take_back(&self, plan: &CollectivePlan, round: u32, memory: &mut [u8]) -> Result<Vec<u8>, &'static str> {
        let brought = Memory::new(plan.part(self.me).0, round.into(), self.me, 0).input;
        let mut elements = memory[self.input.layout.offset as usize..].chunks(plan.element_bytes as usize).zip(brought);
        let is_input_whole = elements.all(|(element, value)| stands_for(element, value));
        let is_inside = self.buffers().iter().all(|buffer| buffer.is_untouched_beyond(memory, buffer.layout.bytes()));
        let output = self.output.read(memory, self.output.layout.bytes());
        self.buffers().iter().for_each(|buffer| buffer.fill(memory, UNTOUCHED));
        match (is_input_whole, is_inside) {
            (false, _) => Err("its input has changed"),
            (_, false) => Err("something outside of its buffers was written to"),
            _ => Ok(output),
        }
    }

    const fn buffers(&self) -> [&Buffer; 3] {
        [&self.input, &self.output, &self.scratch]
    }
}

/// Whether an element of any size stands for a value: is it, repeated, or its beginning.
pub fn stands_for(element: &[u8], value: Value) -> bool {
    element.chunks(VALUE_BYTES as usize).all(|lane| value.to_le_bytes().starts_with(lane))
}

/// Makes an element stand for a value.
fn encode(value: Value, element: &mut [u8]) {
    for lane in element.chunks_mut(VALUE_BYTES as usize) {
        lane.copy_from_slice(&value.to_le_bytes()[..lane.len()]);
    }
}

/// Combines elements of so many bytes, each eight bytes on their own. Sums begin with the sums of beginnings.
pub fn combine_elements(order: Order, element_bytes: u64, into: &mut [u8], from: &[u8], side: Side) {
    let elements = into.chunks_mut(element_bytes as usize).zip(from.chunks(element_bytes as usize));
    for (into, from) in elements {
        for (into, from) in into.chunks_mut(VALUE_BYTES as usize).zip(from.chunks(VALUE_BYTES as usize)) {
            let (own, other) = (decode(into), decode(from));
            let combined = if side == Side::Left { combine(order, other, own) } else { combine(order, own, other) };
            encode(combined, into);
        }
    }
}

/// The value that up to eight bytes are the beginning of; zero where it was cut off.
fn decode(lane: &[u8]) -> Value {
    lane.iter().rev().fold(0, |value, &byte| value << 8 | Value::from(byte))
}
