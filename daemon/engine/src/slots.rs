//! Request slots: which request is on a slot, and which epoch a command on it must carry.

use ropeway_proto::limits::SLOTS_PER_RANK;
use ropeway_proto::{ChannelId, Endpoint, Epoch, Layout, NodeId, Slot};

use crate::engine::Engine;
use crate::error::Violation;
use crate::request::Request;

/// One slot of a rank's request table.
#[derive(Clone, Copy)]
pub(crate) struct SlotState {
    /// Its place in the table of requests, or `NO_REQUEST`.
    request: u32,
    pub(crate) epoch: Epoch,
}

impl Default for SlotState {
    fn default() -> Self {
        Self { request: NO_REQUEST, epoch: 0 }
    }
}

const NO_REQUEST: u32 = u32::MAX;
/// By how many a rank's slots grow.
const SLOT_BLOCK: usize = 512;

impl Engine {
    pub(crate) fn slot_state(&mut self, local_rank: u32, slot: Slot) -> &mut SlotState {
        let slots = &mut self.locals[local_rank as usize].slots;
        if slots.len() <= slot as usize {
            // By blocks, not by doubling, for the same reason as the table of requests.
            let count = (slot as usize + 1).next_multiple_of(SLOT_BLOCK);
            slots.reserve_exact(count - slots.len());
            slots.resize(count, SlotState::default());
        }
        &mut slots[slot as usize]
    }

    /// The request on a slot.
    pub(crate) fn request_of(&self, state: SlotState) -> Option<ChannelId> {
        self.requests.occupant(state.request)
    }

    /// Begins an operation on a slot.
    pub(crate) fn advance(
        &mut self,
        local_rank: u32,
        slot: Slot,
        epoch: Epoch,
    ) -> Result<Option<ChannelId>, Violation> {
        let state = self.slot_state(local_rank, slot);
        let expected = state.epoch.wrapping_add(1);
        if epoch != expected {
            return Err(Violation::WrongEpoch { slot, found: epoch, expected });
        }
        state.epoch = epoch;
        let state = *state;
        Ok(self.request_of(state))
    }

    /// Puts a new request on an empty slot.
    pub(crate) fn open_slot(
        &mut self,
        local_rank: u32,
        slot: Slot,
        epoch: Epoch,
        endpoint: Endpoint,
        layout: Layout,
    ) -> Result<ChannelId, Violation> {
        if endpoint.comm.is_reserved() {
            return Err(Violation::ReservedComm { comm: endpoint.comm });
        }
        if self.requests.len_of_ranks() + self.bindings.freed() >= self.requests_max() {
            return Err(Violation::TooManyRequests);
        }
        let node = match endpoint.peer {
            None => self.config.spec.node,
            Some(rank) => self
                .config
                .spec
                .node_of(rank)
                .ok_or(Violation::RankOutOfRange { rank, size: self.config.spec.size() })?,
        };
        // Last, because who is refused uses the slot again as if nothing had been.
        if self.advance(local_rank, slot, epoch)?.is_some() {
            return Err(Violation::SlotInUse { slot });
        }
        let mut request = Request::new((local_rank, slot), epoch, endpoint, layout);
        request.node = node;
        let id = self.requests.insert(request);
        self.slot_state(local_rank, slot).request = id.index;
        Ok(id)
    }

    /// Freed requests keep their place until the other end has met them. A program whose other ends never come would
    /// otherwise make the daemon remember them without limit.
    pub(crate) fn requests_max(&self) -> usize {
        self.requests_max_of(self.config.spec.node)
    }

    /// The same of another node: more than so many of its requests never wait here.
    pub(crate) fn requests_max_of(&self, node: NodeId) -> usize {
        2 * SLOTS_PER_RANK as usize * self.config.spec.ranks_of(node).len()
    }

    /// Takes a request off its slot; says which epoch the slot has come to.
    pub(crate) fn close_slot(&mut self, local_rank: u32, slot: Slot) -> Epoch {
        let state = self.slot_state(local_rank, slot);
        state.request = NO_REQUEST;
        state.epoch
    }

    /// The request to be started by a command.
    pub(crate) fn idle_request(&mut self, local_rank: u32, slot: Slot, epoch: Epoch) -> Result<ChannelId, Violation> {
        let id = self.advance(local_rank, slot, epoch)?.ok_or(Violation::NoRequest { slot })?;
        let request = &self.requests[id];
        let is_idle = request.is_persistent() && !request.is_active() && !request.is_freeing;
        if is_idle { Ok(id) } else { Err(Violation::WrongState { slot }) }
    }
}
