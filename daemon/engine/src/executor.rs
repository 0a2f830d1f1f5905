//! Runs a node's part of collectives: a round goes from start to `Done` through all steps of the schedule, each as soon as
//! those it waits for have ended.
//!
//! Steps end in the middle of everything, even within their own start. So an end is put into a queue, and what follows from
//! it is done at the end of each input of the engine. Starting a round allocates nothing: counters are copied from the plan,
//! and queues have room for all steps of all collectives.

use std::sync::Arc;

use ropeway_proto::agreement::Difference;
use ropeway_proto::{Completion, Status};
use ropeway_schedule::Action;

use crate::collective::{CollectiveId, CollectiveStep, CollectiveWork, Plan};
use crate::engine::Engine;

impl Engine {
    /// Begins a round: what the node's ranks bring is in place. Failures come out as [`CollectiveWork::Done`], at once if
    /// the collective has failed before.
    ///
    /// # Panics
    /// If a round runs already.
    pub fn start_collective(&mut self, id: CollectiveId) {
        let collective = self.collectives.entry(id);
        assert!(!collective.is_running, "a collective runs one round at a time");
        if collective.failure.is_some() {
            return self.finish_round(id);
        }
        let plan = Arc::clone(&collective.plan);
        collective.pending.copy_from_slice(&plan.predecessors);
        collective.round = collective.round.wrapping_add(1);
        collective.is_running = true;
        for step in (0..).zip(&plan.predecessors).filter(|&(_, &count)| count == 0).map(|(step, _)| step) {
            self.start_step(id, &plan, step);
        }
        if self.collectives.entry(id).active == 0 {
            self.finish_round(id);
        }
        self.run_collectives();
    }

    /// A copy or combination is done.
    pub fn handle_collective_step(&mut self, step: CollectiveStep) {
        self.collectives.ended.push_back((step, Completion::bare(Status::Success)));
        self.run_collectives();
    }

    /// The next thing to do for a collective.
    pub fn poll_collective_work(&mut self) -> Option<CollectiveWork> {
        self.collectives.work.pop_front()
    }

    /// Does what follows from the steps that have ended.
    pub(crate) fn run_collectives(&mut self) {
        while let Some((step, completion)) = self.collectives.ended.pop_front() {
            self.end_step(step, completion);
        }
    }

    fn start_step(&mut self, id: CollectiveId, plan: &Plan, step: u32) {
        let collective = self.collectives.entry(id);
        collective.active += 1;
        let (channel, round) = (collective.channels[step as usize], collective.round);
        if let Some(channel) = channel {
            self.requests[channel].epoch = round;
        }
        let why = "it was opened with the collective";
        let name = CollectiveStep { collective: id, step };
        match plan.action(step) {
            Action::Send { .. } | Action::Signal { .. } => self.start_send(channel.expect(why)),
            Action::Recv { .. } | Action::Wait { .. } => self.start_recv(channel.expect(why)),
            Action::Copy { from, .. } | Action::Combine { from, .. } if from.is_empty() => {
                self.collectives.ended.push_back((name, Completion::bare(Status::Success)));
            }
            Action::Copy { from, into } => {
                let (from, to, bytes) = (plan.offset(from), plan.offset(into), plan.bytes(from));
                self.collectives.work.push_back(CollectiveWork::Copy { step: name, from, to, bytes });
            }
            Action::Combine { from, into, side } => {
                let (from, into, elements) = (plan.offset(from), plan.offset(into), from.length);
                self.collectives.work.push_back(CollectiveWork::Combine { step: name, from, into, elements, side });
            }
        }
    }

    fn end_step(&mut self, CollectiveStep { collective: id, step }: CollectiveStep, completion: Completion) {
        let collective = self.collectives.entry(id);
        let plan = Arc::clone(&collective.plan);
        collective.active = collective.active.checked_sub(1).expect("a step ends once");
        let has_failed = collective.failure.is_some();
        match self.why_failed((id, &plan), step, completion) {
            // What ends now is what was under way.
            _ if has_failed => {}
            Some(failure) if failure.status == Status::Mismatch => {
                self.note_difference(id, (failure.source, Difference::Lengths))
            }
            Some(failure) => self.renounce(id, failure),
            None => {
                for &next in plan.dependents.of(step) {
                    let pending = &mut self.collectives.entry(id).pending[next as usize];
                    *pending -= 1;
                    if *pending == 0 {
                        self.start_step(id, &plan, next);
                    }
                }
            }
        }
        // Nothing waits in a circle: if nothing is under way, all is done, or the rest never will be.
        if self.collectives.entry(id).active == 0 {
            self.finish_round(id);
        }
    }

    /// What a step's end says about its collective.
    fn why_failed(&self, (id, plan): (CollectiveId, &Plan), step: u32, completion: Completion) -> Option<Completion> {
        let expected = match plan.action(step) {
            Action::Recv { into, .. } => plan.bytes(into),
            Action::Wait { .. } => 0,
            _ => completion.bytes,
        };
        match (completion.status, plan.peer(step)) {
            (Status::Success, _) if completion.bytes == expected => None,
            // Too short is as bad as too long: the other node does something else.
            (Status::Success | Status::Truncated, Some(node)) => {
                let rank = self.first_member(plan, node).unwrap_or(completion.source);
                Some(Completion::mismatch((rank, Difference::Lengths)))
            }
            (Status::PeerFreed | Status::RankFailed | Status::RankLeft, Some(node)) => {
                Some(self.why_parted(id, plan, node))
            }
            _ => Some(completion),
        }
    }

    fn finish_round(&mut self, id: CollectiveId) {
        let collective = self.collectives.entry(id);
        collective.is_running = false;
        let (failure, farewell) = (collective.failure, collective.farewell);
        self.collectives.work.push_back(CollectiveWork::Done { collective: id, failure });
        if let Some(farewell) = farewell {
            self.renounce(id, farewell);
        }
    }
}
