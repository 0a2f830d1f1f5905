//! Collectives: when participants open them, begin rounds and close, and the work that engines ask for in between.

use std::collections::HashMap;

use ropeway_engine::{CollectiveId, CollectiveStep, CollectiveWork, NodeCollective};
use ropeway_proto::{CommId, Completion, Layout, NodeId, Rank, Status};

use super::{Cluster, Event};
use crate::message;
use crate::participant::{Participant, Seat, State, combine_elements};
use crate::workload::collective::{CollectivePlan, GiveUp};

/// All participants of a workload's collectives.
#[derive(Default)]
pub(super) struct Collectives {
    /// By collective and place.
    participants: Vec<Vec<Participant>>,
    /// Whose an engine's collectives are.
    seats: HashMap<(u16, CollectiveId), Seat>,
}

impl Cluster {
    /// Makes all participants, who open their collectives sooner or later.
    pub(super) fn seat_participants(&mut self) {
        for (collective, plan) in self.workload.collectives.clone().iter().enumerate() {
            // Spread over communicators and numbers that messages of ranks have, too.
            let number = NodeCollective::number(CommId(collective as u32 % 2), collective as u32 / 2);
            let mut participants = Vec::new();
            for (me, &node) in (0..).zip(&plan.nodes) {
                let memory = &mut self.memory[usize::from(node)];
                participants.push(Participant::new(plan, me, number.expect("few collectives"), memory));
                self.continue_later(Seat { collective, me });
            }
            self.collectives.participants.push(participants);
        }
    }

    /// Participants, with their places.
    pub fn participants(&self) -> impl Iterator<Item = (Seat, &Participant)> {
        let all = self.collectives.participants.iter().enumerate();
        all.flat_map(|(collective, all)| (0..).zip(all).map(move |(me, one)| (Seat { collective, me }, one)))
    }

    /// Looks at all buffers once more, when everything is over.
    pub(super) fn look_at_participants(&mut self) {
        let strays = self.participants().filter(|(seat, one)| !one.is_untouched(&self.memory[self.node_of(*seat)]));
        let complaints: Vec<_> =
            strays.map(|(seat, _)| format!("{seat:?} was written to after its last round")).collect();
        self.history.complaints.extend(complaints);
    }

    /// Takes down which rounds a rank that dies or leaves has taken part in.
    pub(super) fn note_gone(&mut self, rank: Rank) {
        let seats = self.participants().filter(|(seat, _)| self.members(*seat).contains(&rank));
        let rounds: Vec<_> = seats.map(|(seat, participant)| (seat, participant.rounds)).collect();
        for (seat, rounds) in rounds {
            // Of several ranks the first one counts: no round begins without it.
            self.history.gone_after.entry(seat).or_insert(rounds);
        }
    }

    fn plan(&self, seat: Seat) -> &CollectivePlan {
        &self.workload.collectives[seat.collective]
    }

    fn node_of(&self, seat: Seat) -> usize {
        usize::from(self.plan(seat).nodes[seat.me as usize])
    }

    fn participant(&mut self, seat: Seat) -> &mut Participant {
        &mut self.collectives.participants[seat.collective][seat.me as usize]
    }

    /// The ranks of a participant's node that are members.
    fn members(&self, seat: Seat) -> Vec<Rank> {
        let here = self.workload.spec.ranks_of(NodeId(self.node_of(seat) as u16));
        self.plan(seat).members.iter().copied().filter(|rank| here.contains(rank)).collect()
    }
}

// ---- from open to close

impl Cluster {
    fn continue_later(&mut self, seat: Seat) {
        let delay = self.think_ns(seat);
        self.schedule(self.now + delay, Event::Continue(seat));
    }

    fn think_ns(&mut self, seat: Seat) -> u64 {
        let slowest = self.members(seat).iter().map(|&rank| self.workload.programs[rank as usize].slowness).max();
        let longest = self.workload.delays.think_ns * slowest.expect("a participant has members");
        self.rng.u64(..longest)
    }

    /// A participant does what comes next for it.
    pub(super) fn continue_collective(&mut self, seat: Seat) {
        let is_present = |rank: &Rank| self.clients[*rank as usize].is_some();
        match self.collectives.participants[seat.collective][seat.me as usize].state {
            State::Unopened => self.open(seat),
            State::Idle(id) if self.is_over(seat) => self.close(seat, id),
            // If one of its members is gone, its engine will say so.
            State::Idle(id) if self.members(seat).iter().all(is_present) => self.begin_round(seat, id),
            // A round begun now ends at once.
            State::Failed(id) if self.rng.bool() => self.begin_round(seat, id),
            State::Failed(id) => self.close(seat, id),
            State::Idle(_) | State::Running(_) | State::Closed => {}
        }
    }

    /// Whether a participant closes the collective instead of beginning a further round.
    fn is_over(&self, seat: Seat) -> bool {
        let rounds = self.collectives.participants[seat.collective][seat.me as usize].rounds;
        let CollectivePlan { rounds: all, give_up, .. } = *self.plan(seat);
        let gives_up = |give_up: GiveUp| give_up.me == seat.me && give_up.rounds == rounds && !give_up.is_midway;
        rounds == all || give_up.is_some_and(gives_up)
    }

    fn open(&mut self, seat: Seat) {
        let told = self.participant(seat).told.take().expect("it is opened once");
        let node = self.node_of(seat);
        // Nobody is left who would register it.
        if self.members(seat).iter().all(|&rank| self.clients[rank as usize].is_none()) {
            self.participant(seat).state = State::Closed;
            return;
        }
        let id = self.engines[node].open_collective(told);
        self.participant(seat).state = State::Idle(id);
        self.collectives.seats.insert((node as u16, id), seat);
        self.continue_later(seat);
        self.collect(node as u16);
    }

    fn close(&mut self, seat: Seat, id: CollectiveId) {
        let node = self.node_of(seat);
        let rounds = self.plan(seat).rounds;
        let participant = self.participant(seat);
        if matches!(participant.state, State::Idle(_)) && participant.rounds < rounds {
            self.history.gave_up.insert(seat);
        }
        self.engines[node].close_collective(id);
        self.collectives.seats.remove(&(node as u16, id));
        self.participant(seat).state = State::Closed;
        self.collect(node as u16);
    }

    fn begin_round(&mut self, seat: Seat, id: CollectiveId) {
        let node = self.node_of(seat);
        let plan = &self.workload.collectives[seat.collective];
        let participant = &mut self.collectives.participants[seat.collective][seat.me as usize];
        if !participant.is_untouched(&self.memory[node]) {
            self.history.complaints.push(format!("{seat:?} was written to between two rounds"));
        }
        participant.bring(plan, participant.rounds, &mut self.memory[node]);
        participant.state = State::Running(id);
        self.history.begin_round(seat);
        let gives_up = |give_up: &GiveUp| give_up.me == seat.me && give_up.rounds == participant.rounds;
        if plan.give_up.filter(gives_up).is_some() {
            let delay = self.think_ns(seat);
            self.schedule(self.now + delay, Event::GiveUp(seat));
        }
        self.engines[node].start_collective(id);
        self.collect(node as u16);
    }

    /// A participant's ranks free the collective, whatever it is doing.
    pub(super) fn give_up(&mut self, seat: Seat) {
        let (State::Running(id) | State::Idle(id)) = self.participant(seat).state else { return };
        self.history.gave_up.insert(seat);
        let node = self.node_of(seat);
        let why = Completion { source: self.members(seat)[0], ..Completion::bare(Status::PeerFreed) };
        self.engines[node].abandon_collective(id, why);
        self.collect(node as u16);
    }
}

// ---- what an engine asks for

impl Cluster {
    pub(super) fn collect_collective_work(&mut self, node: u16) {
        while let Some(work) = self.engines[usize::from(node)].poll_collective_work() {
            match work {
                CollectiveWork::Copy { .. } | CollectiveWork::Combine { .. } => {
                    let at = self.now + self.rng.u64(..self.workload.delays.copy_ns);
                    self.schedule(at, Event::Work(node, work));
                }
                CollectiveWork::Done { collective, failure } => self.end_round((node, collective), failure),
                CollectiveWork::Failed { collective, failure } => self.fail((node, collective), failure),
            }
        }
    }

    fn end_round(&mut self, (node, id): (u16, CollectiveId), failure: Option<Completion>) {
        let seat = self.collectives.seats[&(node, id)];
        let plan = &self.workload.collectives[seat.collective];
        let participant = &mut self.collectives.participants[seat.collective][seat.me as usize];
        if participant.state != State::Running(id) {
            self.history.complaints.push(format!("{seat:?}: a round has ended that did not run: {participant:?}"));
            return;
        }
        let output = participant.take_back(plan, participant.rounds, &mut self.memory[usize::from(node)]);
        let output = output.unwrap_or_else(|complaint| {
            self.history.complaints.push(format!("{seat:?}, round {}: {complaint}", participant.rounds));
            Vec::new()
        });
        participant.state = if failure.is_some() { State::Failed(id) } else { State::Idle(id) };
        participant.rounds += u32::from(failure.is_none());
        self.history.end_round(seat, failure, output);
        self.continue_later(seat);
    }

    fn fail(&mut self, (node, id): (u16, CollectiveId), failure: Completion) {
        let seat = self.collectives.seats[&(node, id)];
        if self.participant(seat).state != State::Idle(id) {
            self.history.complaints.push(format!("{seat:?} fails beside its rounds: {failure:?}"));
        }
        self.participant(seat).state = State::Failed(id);
        self.history.failures.push((seat, failure));
        self.continue_later(seat);
    }

    /// Makes a copy or combination.
    pub(super) fn work(&mut self, node: u16, work: CollectiveWork) {
        let memory = &mut self.memory[usize::from(node)];
        let step: CollectiveStep = match work {
            CollectiveWork::Copy { step, from, to, bytes } => {
                let content = message::read(memory, Layout::contiguous(from, bytes), 0, bytes);
                message::write(memory, Layout::contiguous(to, bytes), 0, &content);
                step
            }
            CollectiveWork::Combine { step, from, into, elements, side } => {
                let seat = self.collectives.seats[&(node, step.collective)];
                let plan = &self.workload.collectives[seat.collective];
                let order = plan.part(seat.me).0.collective.order().expect("only reductions combine");
                let bytes = elements * plan.element_bytes;
                let operand = message::read(memory, Layout::contiguous(from, bytes), 0, bytes);
                let into = &mut memory[into as usize..][..bytes as usize];
                combine_elements(order, plan.element_bytes, into, &operand, side);
                step
            }
            CollectiveWork::Done { .. } | CollectiveWork::Failed { .. } => unreachable!("that is no work"),
        };
        self.engines[usize::from(node)].handle_collective_step(step);
        self.collect(node);
    }
}
