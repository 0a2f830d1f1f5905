//! One node's part in a collective: its three buffers, and whose they are at the moment.
//!
//! They are the round's from its begin to its end, and nobody's between two rounds. Then they hold nothing, and nobody may write
//! to them: a participant looks, whenever a round begins and when all is over.

use ropeway_engine::{CollectiveId, NodeCollective};
use ropeway_proto::{Layout, NodeId};
use ropeway_schedule::check::reference::{Memory, UNWRITTEN, Value};
use ropeway_schedule::{Action, build};

use crate::message::{self, Buffer, UNTOUCHED};
use crate::workload::collective::CollectivePlan;

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
            for (index, &value) in (0..).zip(&values).filter(|&(_, &value)| value != UNWRITTEN) {
                let place = Layout::contiguous(buffer.layout.offset + index * plan.element_bytes, plan.element_bytes);
                message::write(memory, place, 0, &encode(value, plan.element_bytes));
            }
        }
    }

    /// Takes the buffers back when a round is over: what is in the output. Complains if what nobody may touch was touched.
    pub fn take_back(&self, plan: &CollectivePlan, round: u32, memory: &mut [u8]) -> Result<Vec<u8>, &'static str> {
        let brought = Memory::new(plan.part(self.me).0, round.into(), self.me, 0).input;
        let brought: Vec<u8> = brought.into_iter().flat_map(|value| encode(value, plan.element_bytes)).collect();
        let is_input_whole = self.input.read(memory, self.input.layout.bytes()) == brought;
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

/// A value as an element of any size: cut off, or repeated.
pub fn encode(value: Value, element_bytes: u64) -> Vec<u8> {
    value.to_le_bytes().into_iter().cycle().take(element_bytes as usize).collect()
}
