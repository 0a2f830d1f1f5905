//! Ranks and links that are gone. Nothing here is fast, and nothing here may forget anybody: whoever waits for what
//! can't come any more gets an error that names the cause.
//!
//! Messages that were sent before are still delivered: a failure travels behind them on the same link.

use ropeway_proto::{ChannelId, Completion, Envelope, Frame, NodeId, Rank, Status};

use crate::engine::{Arrival, Engine, LocalRank, RankState, StashId};
use crate::error::ProtocolError;
use crate::matching::{Content, Message};
use crate::request::{Kind, RecvPhase, Request, SendPhase};
use crate::stash::StashState;

impl Engine {
    /// A local rank's process has died (`has_failed`) or left. Its requests end with it, and everybody is told.
    pub fn handle_client_gone(&mut self, local_rank: u32, has_failed: bool) {
        let why = if has_failed { Status::RankFailed } else { Status::RankLeft };
        for id in self.requests.select(|request| request.is_of_client(local_rank)) {
            self.abandon_direct(id, why);
            self.abandon_meeting(id, why);
            self.abandon(id);
        }
        let local = std::mem::take(&mut self.locals[local_rank as usize]);
        self.drop_unexpected(local);
        let rank = self.rank_of(local_rank);
        self.bindings.forget(|envelope| is_of_rank(envelope, rank));
        self.completions.retain(|completion| completion.local_rank != local_rank);
        self.pair_received.retain(|&(_, dest), _| dest != rank);
        self.locals[local_rank as usize].is_gone = true;
        for node in 0..self.outgoing.len() {
            self.push_frame(NodeId(node as u16), Frame::RankGone { rank, has_failed });
        }
    }

    /// The link to a node is lost for good. `interrupted` is what was arriving over it, if anything was.
    pub fn handle_link_down(&mut self, node: NodeId, interrupted: Option<Arrival>) {
        if std::mem::replace(&mut self.is_lost[usize::from(node.0)], true) {
            return;
        }
        self.outgoing[usize::from(node.0)].clear();
        let failure = Completion { source: u32::from(node.0), ..Completion::bare(Status::PeerLost) };
        if let Some(Arrival::Stash(stash)) = interrupted {
            self.break_stash(stash, failure);
        }
        self.end_wire(node);
        let spec = self.config.spec.clone();
        let is_there = |rank| spec.node_of(rank) == Some(node);
        self.bindings.forget(|envelope| is_there(envelope.source) || is_there(envelope.dest));
        self.fail_all(failure, |request| request.node == node, is_there);
        self.fail_gatherings(is_there, failure);
        self.end_collectives_of_node(node);
        self.agreements.settle_with(node);
        self.run_collectives();
    }

    pub(crate) fn handle_rank_gone(&mut self, from: NodeId, rank: Rank, has_failed: bool) -> Result<(), ProtocolError> {
        if self.config.spec.node_of(rank) != Some(from) {
            return Err(ProtocolError::ForeignRank { from: from.0, source_rank: rank, dest: rank });
        }
        self.ranks[rank as usize] = if has_failed { RankState::Failed } else { RankState::Left };
        let status = if has_failed { Status::RankFailed } else { Status::RankLeft };
        let failure = Completion { source: rank, ..Completion::bare(status) };
        self.bindings.forget(|envelope| is_of_rank(envelope, rank));
        let is_with_gone = |request: &Request| request.step().is_none() && request.peer() == Some(rank);
        self.fail_all(failure, is_with_gone, |other| other == rank);
        self.end_collectives_of_rank(rank);
        if self.why_deserted(from).is_some() {
            self.desert(from, failure);
            self.end_wire_if_lost(from);
        }
        // Who has left another node may have done its part before; if not, its node says so.
        if has_failed || from == self.config.spec.node {
            self.fail_gatherings(|other| other == rank, failure);
        }
        Ok(())
    }

    /// No rank of a node is left: nobody there will open or start a collective any more. But a round that was begun goes on, if
    /// all it needs is bound; if not, it has to end.
    fn desert(&mut self, node: NodeId, failure: Completion) {
        let first = self.first_rank(node);
        let is_its =
            |envelope: &Envelope| envelope.comm.is_reserved() && (envelope.source == first || envelope.dest == first);
        for (from, recv) in self.bindings.waiting_recvs(is_its) {
            self.push_frame(from, Frame::Unbind { channel: recv, cause: None });
        }
        self.bindings.forget(is_its);
        if node == self.config.spec.node {
            self.agreements.clear();
            let is_vain =
                |request: &Request| request.step().is_some() && request.is_unbound_send() && request.is_active();
            for id in self.requests.select(is_vain) {
                self.complete(id, failure);
            }
        }
    }

    /// Why messages with the request's peer are impossible, if they are.
    ///
    /// A wildcard receive is hopeless only when every other rank is gone.
    pub(crate) fn unreachable(&self, id: ChannelId) -> Option<Completion> {
        let request = &self.requests[id];
        if let Some(step) = request.step() {
            let absent = || self.why_absent(step.collective, request.node);
            // Nor does anybody bind what a node sends that is deserted itself.
            let own = || request.is_unbound_send().then(|| self.why_deserted(self.config.spec.node)).flatten();
            return self.why_lost(request.node).or_else(absent).or_else(own);
        }
        if let Some(peer) = request.peer() {
            return self.why_gone(peer);
        }
        let own = self.rank_of(request.local_rank);
        let mut others = (0..self.config.spec.size()).filter(|&rank| rank != own).map(|rank| self.why_gone(rank));
        let first = others.next()??;
        others.all(|gone| gone.is_some()).then_some(first)
    }

    /// What an operation ends with whose channel's other end was freed.
    pub(crate) fn peer_freed(&self, id: ChannelId) -> Completion {
        let peer = self.requests[id].peer().expect("only single receives and probes have wildcards");
        Completion { source: peer, ..Completion::bare(Status::PeerFreed) }
    }

    /// Whether the sender's node will say, sooner or later, that a receive is bound or never will be.
    pub(crate) fn is_bind_answered(&self, id: ChannelId) -> bool {
        let request = &self.requests[id];
        if request.step().is_some() { self.why_lost(request.node).is_none() } else { self.unreachable(id).is_none() }
    }

    pub(crate) fn why_gone(&self, rank: Rank) -> Option<Completion> {
        let node = self.config.spec.node_of(rank)?;
        match self.ranks[rank as usize] {
            RankState::Failed => Some(Completion { source: rank, ..Completion::bare(Status::RankFailed) }),
            RankState::Left => Some(Completion { source: rank, ..Completion::bare(Status::RankLeft) }),
            RankState::Alive => self.why_lost(node),
        }
    }

    /// Whether all ranks of a node are gone.
    pub fn is_deserted(&self, node: NodeId) -> bool {
        self.why_deserted(node).is_some()
    }

    /// Why a node does nothing by itself any more, if that is so: all of its ranks are gone.
    pub(crate) fn why_deserted(&self, node: NodeId) -> Option<Completion> {
        self.why_all_gone(self.config.spec.ranks_of(node))
    }

    /// Why these ranks do nothing any more, if all of them are gone.
    pub(crate) fn why_all_gone(&self, mut ranks: impl Iterator<Item = Rank>) -> Option<Completion> {
        let first = self.why_gone(ranks.next()?)?;
        let is_gone = |rank| self.ranks[rank as usize] != RankState::Alive;
        ranks.all(is_gone).then_some(first)
    }

    fn why_lost(&self, node: NodeId) -> Option<Completion> {
        let failure = Completion { source: u32::from(node.0), ..Completion::bare(Status::PeerLost) };
        self.is_lost[usize::from(node.0)].then_some(failure)
    }

    /// Fails every operation that waits for one of the gone, and drops what they had promised.
    fn fail_all(
        &mut self,
        failure: Completion,
        is_with_gone: impl Fn(&Request) -> bool,
        is_gone: impl Fn(Rank) -> bool,
    ) {
        for local in &mut self.locals {
            let promised = local.unexpected.take_if(|message| {
                matches!(message.content, Content::Announced { .. }) && is_gone(message.envelope.source)
            });
            promised.iter().filter_map(Message::announcer).for_each(|node| self.announced[usize::from(node.0)] -= 1);
        }
        // An orderly leave does not end wildcard receives: whoever leaves has sent what it wanted to send.
        let ends_wildcards = failure.status != Status::RankLeft;
        let affected = self.requests.select(|request| match request.peer() {
            // Who its members are is known elsewhere.
            None if matches!(request.kind, Kind::Member(_)) => false,
            Some(_) => is_with_gone(request),
            None => true,
        });
        for id in affected {
            let request = &self.requests[id];
            match &request.kind {
                Kind::Recv(recv) if recv.phase == RecvPhase::Orphaned => self.remove_persistent(id),
                Kind::Send(send) if send.phase == SendPhase::Orphaned => self.discard_orphan(id),
                // Its message is here already; only the copy is to be made.
                Kind::Recv(recv) if recv.phase == RecvPhase::Copying => {}
                _ if !request.is_active() => {}
                _ if request.peer().is_none() && !ends_wildcards && self.unreachable(id).is_none() => {}
                _ => self.fail(id, failure),
            }
        }
    }

    /// The rest of a stashed message will never come.
    fn break_stash(&mut self, stash: StashId, failure: Completion) {
        let Some(stashed) = self.stash.find_mut(stash) else { return };
        match std::mem::replace(&mut stashed.state, StashState::Broken) {
            StashState::Arriving { taker: None, is_wanted: true } => {}
            StashState::Arriving { taker, .. } => {
                self.drop_stash(stash);
                if let Some(operation) = taker.filter(|&operation| self.find_operation(operation).is_some()) {
                    self.complete(operation.request, failure);
                }
            }
            StashState::Complete | StashState::Broken => {}
        }
    }

    fn fail(&mut self, id: ChannelId, failure: Completion) {
        self.unpost(id);
        self.complete(id, failure);
    }

    /// Takes a one-shot receive or probe out of the queues it waits in.
    fn unpost(&mut self, id: ChannelId) {
        let request = &self.requests[id];
        // Steps of collectives are persistent, and nobody's.
        if request.is_persistent() {
            return;
        }
        let local = &mut self.locals[request.local_rank as usize];
        match &request.kind {
            Kind::Recv(_) => {
                local.posted.remove(request.pattern(), id);
            }
            Kind::Probe => local.probes.retain(|&(_, other)| other != id),
            _ => {}
        }
    }

    /// Removes a request whose client is gone, telling nobody: `RankGone` will.
    fn abandon(&mut self, id: ChannelId) {
        self.expect_no_more(id);
        if let Some(recv) = self.requests[id].recv_mut() {
            let mut stashed = std::mem::take(&mut recv.stashed);
            while let Some(stash) = stashed.pop(&mut self.stash) {
                self.drop_stash(stash);
            }
        }
        if self.part_from_wiring(id) {
            return;
        }
        if self.requests[id].is_persistent() {
            self.remove_persistent(id);
        } else {
            self.requests.remove(id);
        }
    }

    fn drop_unexpected(&mut self, mut local: LocalRank) {
        for message in local.unexpected.take_if(|_| true) {
            match message.content {
                Content::Stashed(stash) => self.drop_stash(stash),
                Content::Announced { node, .. } => self.announced[usize::from(node.0)] -= 1,
            }
        }
    }
}

/// Whether it is that of a channel of the rank. Those of nodes outlive the ranks that stand for them.
fn is_of_rank(envelope: &Envelope, rank: Rank) -> bool {
    !envelope.comm.is_reserved() && (envelope.source == rank || envelope.dest == rank)
}
