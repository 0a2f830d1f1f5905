//! The explanation in words and as JSON.

use ropeway_bench::{Operation, Size, Table, torus};
use ropeway_proto::division::Operands;
use ropeway_schedule::tasks::{self, Task};
use ropeway_schedule::{Action, Buffer, BuildError, Candidate, Schedule, Side, Slice, Step, Unsuitable};
use serde::Serialize;

use super::Explanation;
use crate::bench::digits;

#[derive(Serialize)]
struct Record<'a> {
    operation: &'a str,
    between_nodes: &'a str,
    ranks: u32,
    participants: u32,
    bytes: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    uneven: bool,
    element_bytes: u64,
    algorithm: String,
    is_chosen: bool,
    goes_straight: bool,
    predicted_ns: f64,
    costs: Costs,
    costs_from: &'a str,
    candidates: Vec<CandidateRecord>,
    refused: Vec<String>,
    messages: u64,
    signals: u64,
    bytes_sent: u64,
    messages_between_nodes: u64,
    bytes_between_nodes: u64,
    depth: u32,
    steps: u64,
    scratch_bytes_max: u64,
    schedules: Vec<Vec<StepRecord>>,
}

#[derive(Serialize)]
struct Costs {
    overhead_ns: f64,
    latency_ns: f64,
    byte_ns: f64,
    combine_byte_ns: f64,
    copy_byte_ns: f64,
}

#[derive(Serialize)]
struct CandidateRecord {
    algorithm: String,
    predicted_ns: f64,
    rounds: f64,
    further_messages: f64,
    handled_messages: f64,
    moved_bytes: f64,
    combined_bytes: f64,
    copied_bytes: f64,
}

#[derive(Default, Serialize)]
struct StepRecord {
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<SliceRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    into: Option<SliceRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<&'static str>,
    round: u32,
    after: Vec<u32>,
}

#[derive(Serialize)]
struct SliceRecord {
    buffer: &'static str,
    offset: u64,
    length: u64,
}

impl Explanation {
    pub(super) fn json(&self) -> String {
        let (shape, table, proof) = (self.shape(), self.table(), &self.proof);
        let (messages_between_nodes, bytes_between_nodes) = self.sent_between_nodes();
        let record = Record {
            operation: self.job.operation.name(),
            between_nodes: shape.collective.name(),
            ranks: self.job.ranks,
            participants: shape.size,
            bytes: self.job.bytes,
            uneven: self.job.is_uneven,
            element_bytes: self.job.element_bytes,
            algorithm: self.shown.algorithm.to_string(),
            is_chosen: self.is_chosen(),
            goes_straight: self.job.goes_straight,
            predicted_ns: self.shown.time_ns,
            costs: Costs {
                overhead_ns: table.overhead_ns,
                latency_ns: table.latency_ns,
                byte_ns: table.byte_ns,
                combine_byte_ns: table.combine_byte_ns,
                copy_byte_ns: table.copy_byte_ns,
            },
            costs_from: &self.job.costs_from,
            candidates: self.choice.candidates.iter().map(|one| self.candidate(one)).collect(),
            refused: self.choice.refused.iter().map(ToString::to_string).collect(),
            messages: proof.messages,
            signals: proof.signals,
            bytes_sent: proof.elements * self.job.element_bytes,
            messages_between_nodes,
            bytes_between_nodes,
            depth: proof.depth,
            steps: proof.steps,
            scratch_bytes_max: proof.scratch_elements * self.job.element_bytes,
            schedules: self.schedules.iter().map(|schedule| self.step_records(schedule)).collect(),
        };
        serde_json::to_string(&record).expect("records are plain structures") + "\n"
    }

    fn candidate(&self, one: &Candidate) -> CandidateRecord {
        let bytes = |elements: f64| elements * self.job.element_bytes as f64;
        CandidateRecord {
            algorithm: one.algorithm.to_string(),
            predicted_ns: one.time_ns,
            rounds: one.cost.rounds,
            further_messages: one.cost.further,
            handled_messages: one.cost.handled(),
            moved_bytes: bytes(one.cost.moved),
            combined_bytes: bytes(one.cost.combined),
            copied_bytes: bytes(one.cost.copied),
        }
    }

    fn is_chosen(&self) -> bool {
        self.shown.algorithm == self.choice.algorithm
    }

    fn step_records(&self, schedule: &Schedule) -> Vec<StepRecord> {
        let record = |(index, step): (u32, &Step)| {
            let (action, peer, side) = match step.action {
                Action::Send { peer, .. } => ("send", Some(peer), None),
                Action::Recv { peer, .. } => ("recv", Some(peer), None),
                Action::Combine { side: Side::Left, .. } => ("combine", None, Some("left")),
                Action::Combine { side: Side::Right, .. } => ("combine", None, Some("right")),
                Action::Copy { .. } => ("copy", None, None),
                Action::Signal { peer } => ("signal", Some(peer), None),
                Action::Wait { peer } => ("wait", Some(peer), None),
            };
            StepRecord {
                action,
                peer,
                from: step.action.reads().map(SliceRecord::new),
                into: step.action.writes().map(SliceRecord::new),
                side,
                round: self.execution.level(schedule.me(), index),
                after: schedule.after(index).to_vec(),
            }
        };
        (0..).zip(schedule.steps()).map(record).collect()
    }

    pub(super) fn text(&self) -> String {
        let mut text = self.heading();
        if self.job.operation.has_neighbors() {
            text += CHANNELS;
        } else {
            text += &self.costs();
            text += &format!("\n{}", self.candidates());
            text += &self.reasons();
            if self.job.goes_straight {
                text += STRAIGHT;
            }
        }
        text += &format!("\n{}", self.summary());
        text + &format!("\n{}", self.participants())
    }

    pub(super) fn steps_of(&self, participant: u32) -> String {
        format!("\nSteps of participant {participant}:\n{}", self.steps(&self.schedules[participant as usize]))
    }

    /// Everybody's tasks, round by round, and the queue that drives them.
    pub(super) fn tasks(&self) -> String {
        let one = |schedule: &Schedule| {
            let rounds = tasks::rounds(schedule, &self.execution);
            let lines = |round: &Vec<Task>| round.iter().map(|task| format!("{task}\n")).collect::<String>();
            let queue: Vec<_> = tasks::control(&rounds).iter().map(ToString::to_string).collect();
            format!(
                "\nTasks of participant {}:\n{}control: {}\n",
                schedule.me(),
                rounds.iter().map(lines).collect::<Vec<_>>().join("\n"),
                queue.join(", ")
            )
        };
        self.schedules.iter().map(one).collect()
    }

    fn heading(&self) -> String {
        let (shape, job) = (self.shape(), &self.job);
        let operation = job.operation;
        let size = Size(job.bytes as usize);
        let what = if operation == Operation::Barrier {
            operation.to_string()
        } else {
            let average = if job.is_uneven { " on average" } else { "" };
            let count = job.bytes / job.element_bytes;
            format!("{operation} of {size}{average} ({count} elements of {} bytes)", job.element_bytes)
        };
        let who = if operation.has_neighbors() {
            let lengths: Vec<_> = torus(job.ranks).iter().map(u32::to_string).collect();
            format!("{} ranks on {} nodes, a closed grid of {}", job.ranks, job.nodes, lengths.join(" x "))
        } else if shape.size == job.ranks {
            format!("{} ranks, each a participant of its own", job.ranks)
        } else {
            format!("{} ranks on {} nodes; a node's ranks take part as one", job.ranks, shape.size)
        };
        format!("{what} by {who}\n{}", self.between())
    }

    fn costs(&self) -> String {
        let table = self.table();
        format!(
            "cost: overhead {} ns at each end of a message, latency {} ns; a byte {} ns, to combine {} ns, to copy {} ns\n\
             costs from: {}\n",
            table.overhead_ns,
            table.latency_ns,
            table.byte_ns,
            table.combine_byte_ns,
            table.copy_byte_ns,
            self.job.costs_from
        )
    }

    /// What nodes do instead of the operation itself.
    fn between(&self) -> String {
        let (name, job) = (self.shape().collective.name(), &self.job);
        match job.operands {
            Some(Operands::Nodes) => {
                format!("between nodes: {name} of a result of each, which are combined after that\n")
            }
            Some(Operands::Members) => format!("between nodes: {name} of all inputs, which are combined after that\n"),
            None if name != job.operation.name() => format!("between nodes: {name}\n"),
            None => String::new(),
        }
    }

    /// What each candidate would cost, and out of what.
    fn candidates(&self) -> Table {
        let mut table = Table::with_words(
            1,
            &["algorithm", "predicted us", "rounds", "further", "handled", "moved", "combined", "copied"],
        );
        let mut shown = self.choice.candidates.clone();
        // Asked for with parameters that are not among those tried.
        if !shown.iter().any(|one| one.algorithm == self.shown.algorithm) {
            shown.push(self.shown.clone());
        }
        for one in &shown {
            let mark = match (one.algorithm == self.choice.algorithm, one.algorithm == self.shown.algorithm) {
                (true, _) => " (chosen)",
                (false, true) => " (asked for)",
                (false, false) => "",
            };
            let bytes = |elements: f64| ((elements * self.job.element_bytes as f64).round() as u64).to_string();
            table.push(vec![
                format!("{}{mark}", one.algorithm),
                digits(one.time_ns / 1e3),
                one.cost.rounds.to_string(),
                one.cost.further.to_string(),
                one.cost.handled().to_string(),
                bytes(one.cost.moved),
                bytes(one.cost.combined),
                bytes(one.cost.copied),
            ]);
        }
        table
    }

    /// Why the chosen one, if it is not predicted to be the fastest; and why others that do this operation can't be used here.
    fn reasons(&self) -> String {
        let fastest = &self.choice.candidates[0].algorithm;
        let mut text = match self.is_chosen() && fastest != &self.choice.algorithm {
            true => format!("{} is about as fast as {fastest}, with fewer messages to handle\n", self.choice.algorithm),
            false => String::new(),
        };
        for error in &self.choice.refused {
            match error {
                BuildError::Unsuitable { reason: Unsuitable::Operation, .. } | BuildError::Shape(_) => {}
                BuildError::Unsuitable { algorithm, reason, .. } => text += &format!("not {algorithm}: {reason}\n"),
            }
        }
        text
    }

    fn summary(&self) -> String {
        let proof = &self.proof;
        let bytes = |elements: u64| elements * self.job.element_bytes;
        let between_nodes = match self.sent_between_nodes() {
            // Nodes that take part send to nobody else.
            (messages, _) if messages == proof.messages => String::new(),
            (messages, bytes) => format!("between nodes: {messages} of the messages, with {bytes} bytes\n"),
        };
        format!(
            "{}: {} messages with {} bytes, {} signals, depth {}; {} steps, at most {} bytes of scratch memory each\n\
             {between_nodes}\
             checked: every message matched, no circles, everything in bounds, no races\n",
            self.shown.algorithm,
            proof.messages,
            bytes(proof.elements),
            proof.signals,
            proof.depth,
            proof.steps,
            bytes(proof.scratch_elements)
        )
    }

    /// How many messages leave their node, and their bytes.
    fn sent_between_nodes(&self) -> (u64, u64) {
        let node = |participant: u32| self.job.places[participant as usize];
        let (mut messages, mut bytes) = (0, 0);
        for schedule in &self.schedules {
            for step in schedule.steps() {
                if let Action::Send { peer, from } = step.action
                    && node(peer) != node(schedule.me())
                {
                    messages += 1;
                    bytes += from.length * self.job.element_bytes;
                }
            }
        }
        (messages, bytes)
    }

    fn participants(&self) -> String {
        let heading = ["participant", "steps", "sends", "receives", "combines", "bytes sent", "scratch bytes"];
        let mut table = Table::new(&heading);
        for schedule in self.schedules.iter().take(PARTICIPANTS_SHOWN) {
            let count = |is: fn(&Action) -> bool| schedule.steps().iter().filter(|step| is(&step.action)).count();
            let sent: u64 = schedule.steps().iter().map(|step| sent_elements(&step.action)).sum();
            table.push(vec![
                schedule.me().to_string(),
                schedule.steps().len().to_string(),
                count(|action| matches!(action, Action::Send { .. } | Action::Signal { .. })).to_string(),
                count(|action| matches!(action, Action::Recv { .. } | Action::Wait { .. })).to_string(),
                count(|action| matches!(action, Action::Combine { .. })).to_string(),
                (sent * self.job.element_bytes).to_string(),
                (schedule.scratch_elements() * self.job.element_bytes).to_string(),
            ]);
        }
        let hidden = self.schedules.len().saturating_sub(PARTICIPANTS_SHOWN);
        if hidden == 0 { table.to_string() } else { format!("{table}… and {hidden} more; --json has all\n") }
    }

    fn steps(&self, schedule: &Schedule) -> String {
        let mut table = Table::with_words(4, &["step", "round", "action", "waits for"]);
        for (index, step) in (0..).zip(schedule.steps()).take(STEPS_SHOWN) {
            let after: Vec<_> = schedule.after(index).iter().map(ToString::to_string).collect();
            table.push(vec![
                index.to_string(),
                self.execution.level(schedule.me(), index).to_string(),
                words(&step.action),
                after.join(" "),
            ]);
        }
        match schedule.steps().len().saturating_sub(STEPS_SHOWN) {
            _ if schedule.steps().is_empty() => "none: there is nothing to do\n".to_owned(),
            0 => table.to_string(),
            hidden => format!("{table}… and {hidden} more; --json has all\n"),
        }
    }
}

impl SliceRecord {
    fn new(slice: Slice) -> Self {
        Self { buffer: buffer_name(slice.buffer), offset: slice.offset, length: slice.length }
    }
}

fn sent_elements(action: &Action) -> u64 {
    if let Action::Send { from, .. } = action { from.length } else { 0 }
}

const fn buffer_name(buffer: Buffer) -> &'static str {
    match buffer {
        Buffer::Input => "input",
        Buffer::Output => "output",
        Buffer::Scratch => "scratch",
    }
}

fn words(action: &Action) -> String {
    let slice = |slice: &Slice| format!("{}[{}..{}]", buffer_name(slice.buffer), slice.offset, slice.end());
    match action {
        Action::Send { peer, from } => format!("send {} to {peer}", slice(from)),
        Action::Recv { peer, into } => format!("recv {} from {peer}", slice(into)),
        Action::Combine { from, into, side: Side::Left } => format!("{1} = {0} ∘ {1}", slice(from), slice(into)),
        Action::Combine { from, into, side: Side::Right } => format!("{1} = {1} ∘ {0}", slice(from), slice(into)),
        Action::Copy { from, into } => format!("{} = {}", slice(into), slice(from)),
        Action::Signal { peer } => format!("signal {peer}"),
        Action::Wait { peer } => format!("wait for {peer}"),
    }
}

/// What neighbours have instead of a choice.
const CHANNELS: &str = "\
no schedule that nodes carry out, and no choice: each message has a persistent channel of its own, which is bound at init. Within a node ranks
move it themselves, between nodes it goes as all messages do. Steps are what each rank starts and gets, all at once.
";
/// What becomes of small collectives of few ranks that have a node each.
const STRAIGHT: &str = "\
daemons do this the first time. So small, and by few ranks that have a node each, it goes straight from rank to rank after that: each sends what
others need, and combines what it needs itself (unless --algorithm names one, as programs may)
";
const PARTICIPANTS_SHOWN: usize = 16;
const STEPS_SHOWN: usize = 48;
