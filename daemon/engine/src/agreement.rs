//! Whether the nodes of a collective mean the same by it. Their schedules fit each other only if their members have registered
//! the same; of others some steps would wait for ever, and some would take what was not meant for them.
//!
//! * The node of the first member tells all others what it is, when it opens the collective: one [`Frame::Shape`] each, in front of
//!   all that it sends for it. The others compare. So agreeing costs a frame for each node, and nobody waits for it.
//! * Whoever learns of a difference tells everybody, and gives the collective up: it is *void*. Others learn that before they
//!   see its steps unbound, so they know the cause.
//! * A node that closes the collective before it has heard from the first one compares later: that one may still wait.
//! * Of what is void nothing is bound any more: who asks is told why, and nobody is left waiting.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use ropeway_proto::agreement::{Difference, Statement};
use ropeway_proto::{ChannelId, Completion, Envelope, Frame, NodeId, Rank};

use crate::collective::{CollectiveId, NodeCollective, Plan};
use crate::engine::Engine;
use crate::error::ProtocolError;

/// What is known of collectives, by number.
#[derive(Default)]
pub(crate) struct Agreements {
    table: HashMap<u64, Agreement>,
}

enum Agreement {
    /// This node has not opened it; the first member's has, and says this.
    Heard(Statement),
    /// This node has opened it.
    Opened(Opened),
    /// Its members differ.
    Void(Statement),
}

struct Opened {
    plan: Arc<Plan>,
    /// `None` once it is closed.
    collective: Option<CollectiveId>,
    /// Nothing is to come from the first member's node.
    is_settled: bool,
}

/// What a node remembers. Beyond that, members that differ are noticed by the lengths of their messages at best.
const AGREEMENTS_MAX: usize = 1 << 16;

impl Agreements {
    fn is_void(&self, number: u64) -> bool {
        matches!(self.table.get(&number), Some(Agreement::Void(_)))
    }

    /// Collectives that one node has closed or not opened yet while another one says what they are.
    pub(crate) fn unsettled(&self) -> usize {
        self.table.values().filter(|agreement| !matches!(agreement, Agreement::Void(_))).count()
    }

    /// From a node whose link is lost nothing is to come.
    pub(crate) fn settle_with(&mut self, node: NodeId) {
        self.table.retain(|_, agreement| {
            let Agreement::Opened(opened) = agreement else { return true };
            opened.is_settled |= opened.plan.node.participants[0] == node;
            opened.collective.is_some() || !opened.is_settled
        });
    }

    /// Nobody here opens anything any more.
    pub(crate) fn clear(&mut self) {
        self.table.clear();
    }

    fn insert(&mut self, number: u64, agreement: Agreement) {
        if self.table.len() < AGREEMENTS_MAX || self.table.contains_key(&number) {
            self.table.insert(number, agreement);
        }
    }
}

impl Engine {
    /// This node opens a collective: why it is void, if it is.
    pub(crate) fn agree(&mut self, id: CollectiveId, plan: &Arc<Plan>) -> Option<Completion> {
        if self.why_deserted(self.config.spec.node).is_some() {
            return None; // Whoever depends on this node knows that.
        }
        let (own, number) = (self.own_statement(plan), plan.node.number);
        let is_first = plan.node.participants[0] == self.config.spec.node;
        let heard = match self.agreements.table.get(&number) {
            Some(Agreement::Heard(heard) | Agreement::Void(heard)) => Some(*heard),
            Some(Agreement::Opened(_)) | None => None,
        };
        let dissenter = heard.and_then(|heard| heard.dissenter_from(&own.digest));
        if dissenter.is_some() && !self.agreements.is_void(number) {
            self.dispute(number, &plan.node.participants, Statement { dissenter, ..own });
        } else if dissenter.is_none() {
            if is_first {
                self.state(number, &plan.node.participants, own);
            }
            let is_settled = is_first || heard.is_some() || self.is_lost[usize::from(plan.node.participants[0].0)];
            let opened = Opened { plan: Arc::clone(plan), collective: Some(id), is_settled };
            self.agreements.insert(number, Agreement::Opened(opened));
        }
        dissenter.map(Completion::mismatch)
    }

    /// This node closes a collective.
    pub(crate) fn close_agreement(&mut self, number: u64) {
        if let Entry::Occupied(mut entry) = self.agreements.table.entry(number)
            && let Agreement::Opened(opened) = entry.get_mut()
        {
            opened.collective = None;
            if opened.is_settled {
                entry.remove();
            }
        }
    }

    /// Another node says what its members have registered.
    pub(crate) fn handle_shape(
        &mut self,
        from: NodeId,
        number: u64,
        statement: Statement,
    ) -> Result<(), ProtocolError> {
        let (source_rank, dissenter) = (statement.rank, statement.dissenter.map_or(0, |(rank, _)| rank));
        if source_rank.max(dissenter) >= self.config.spec.size() {
            return Err(ProtocolError::ForeignRank { from: from.0, source_rank, dest: dissenter });
        }
        if self.why_deserted(self.config.spec.node).is_some() {
            return Ok(());
        }
        match self.agreements.table.get_mut(&number) {
            None if statement.dissenter.is_some() => self.avoid(number, statement),
            None => self.agreements.insert(number, Agreement::Heard(statement)),
            Some(Agreement::Heard(heard)) => {
                let dissenter = statement.dissenter_from(&heard.digest);
                let heard = Statement { dissenter, ..*heard };
                if dissenter.is_some() {
                    self.avoid(number, heard);
                }
            }
            Some(Agreement::Opened(opened)) => {
                let (plan, collective) = (Arc::clone(&opened.plan), opened.collective);
                let own = self.own_statement(&plan);
                match statement.dissenter_from(&own.digest) {
                    Some(dissenter) => self.dispute_opened(&plan, collective, own, dissenter),
                    None => self.settle(number),
                }
            }
            Some(Agreement::Void(_)) => {}
        }
        Ok(())
    }

    /// A member on another node has registered something else, as a message of it tells.
    pub(crate) fn note_difference(&mut self, id: CollectiveId, dissenter: (Rank, Difference)) {
        let plan = Arc::clone(&self.collectives.entry(id).plan);
        let own = self.own_statement(&plan);
        self.dispute_opened(&plan, Some(id), own, dissenter);
    }

    /// Tells the nodes of a collective that their members differ. It is void from now on.
    pub(crate) fn dispute(&mut self, number: u64, participants: &[NodeId], statement: Statement) {
        self.state(number, participants, statement);
        self.avoid(number, statement);
    }

    fn dispute_opened(&mut self, plan: &Plan, id: Option<CollectiveId>, own: Statement, dissenter: (Rank, Difference)) {
        let statement = Statement { dissenter: Some(dissenter), ..own };
        self.dispute(plan.node.number, &plan.node.participants, statement);
        if let Some(id) = id {
            self.renounce(id, Completion::mismatch(dissenter));
        }
    }

    /// The first member's node means the same.
    fn settle(&mut self, number: u64) {
        if let Some(Agreement::Opened(opened)) = self.agreements.table.get_mut(&number) {
            opened.is_settled = true;
            if opened.collective.is_none() {
                self.agreements.table.remove(&number);
            }
        }
    }

    fn state(&mut self, number: u64, participants: &[NodeId], statement: Statement) {
        let own = self.config.spec.node;
        for &node in participants.iter().filter(|&&node| node != own) {
            self.push_frame(node, Frame::Shape { number, statement });
        }
    }

    /// Nothing of a collective is bound any more: who waits for that is told.
    fn avoid(&mut self, number: u64, statement: Statement) {
        self.agreements.insert(number, Agreement::Void(statement));
        let is_its = |envelope: &Envelope| NodeCollective::number_of(envelope) == Some(number);
        for (from, recv) in self.bindings.waiting_recvs(is_its) {
            self.refuse_if_void(from, number, recv);
        }
        self.bindings.forget(is_its);
    }

    /// Answers a node that wants to bind a step of a collective that is void, and so may not know yet. False if it is not.
    pub(crate) fn refuse_if_void(&mut self, from: NodeId, number: u64, recv: ChannelId) -> bool {
        let Some(Agreement::Void(statement)) = self.agreements.table.get(&number) else { return false };
        let statement = *statement;
        self.push_frame(from, Frame::Shape { number, statement });
        self.push_frame(from, Frame::Unbind { channel: recv, cause: None });
        true
    }

    /// What the members of a collective on this node say.
    fn own_statement(&self, plan: &Plan) -> Statement {
        let rank = self.first_member(plan, self.config.spec.node).unwrap_or(self.rank_of(0));
        Statement { rank, digest: plan.node.digest, dissenter: None }
    }
}
