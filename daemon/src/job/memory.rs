//! What memory the ranks of a job have, and where in it what they say lies.

use ropeway_proto::control::{MemoryLimit, Refusal};
use ropeway_proto::{Layout, Slot, limits};

use super::{Job, Offence};
use crate::config::memory_available;

/// Why a rank does not get memory.
pub(crate) struct Shortage {
    requested: u64,
    available: u64,
    limit: MemoryLimit,
    /// The job and the rank may have so much, but the node has not.
    pub(crate) is_of_node: bool,
}

impl From<Shortage> for Refusal {
    fn from(Shortage { requested, available, limit, .. }: Shortage) -> Self {
        Self::OutOfMemory { requested, available, limit }
    }
}

/// Slots whose pages are made sure of at once.
const SLOTS_PER_RESERVATION: u32 = 1024;
/// Much memory is reserved so much at a time. The kernel takes a millisecond for these pages, in which the daemon moves nothing.
pub(crate) const RESERVED_AT_ONCE: u64 = 4 << 20;

impl Job {
    /// Makes a rank's arena usable up to `bytes`, or less, if the node and the quota have the memory for all of it. Who wants more asks
    /// again, so that others have their turn meanwhile.
    pub(crate) fn reserve_arena(&mut self, local_rank: u32, bytes: u64) -> Result<u64, Shortage> {
        let quota_left = self.quota_left();
        let port = &mut self.ports[local_rank as usize];
        let more = bytes.saturating_sub(port.arena_reserved);
        let node_left = memory_available().unwrap_or(u64::MAX);
        let arena_left = self.segment.geometry().arena_bytes_max - port.arena_reserved;
        let limits = [(arena_left, MemoryLimit::Arena), (quota_left, MemoryLimit::Job), (node_left, MemoryLimit::Node)];
        let (available, limit) = limits.into_iter().min_by_key(|&(left, _)| left).expect("there are three");
        let is_of_node = more <= quota_left.min(arena_left);
        if more > available {
            return Err(Shortage { requested: bytes, available, limit, is_of_node });
        }
        let reserved = port.arena_reserved + more.min(RESERVED_AT_ONCE);
        let done = self.segment.reserve_arena(local_rank, port.arena_reserved..reserved);
        done.map_err(|_| Shortage { requested: bytes, available: 0, limit: MemoryLimit::Node, is_of_node })?;
        port.arena_reserved = reserved;
        Ok(reserved)
    }

    pub(crate) fn quota_left(&self) -> u64 {
        let arenas: u64 = self.ports.iter().map(|port| port.arena_reserved).sum();
        self.memory_bytes_max.saturating_sub(arenas + self.channels.reserved_bytes())
    }

    /// The slot's page exists from now on.
    pub(crate) fn make_sure_of_slot(&mut self, local_rank: u32, slot: Slot) -> Result<(), Offence> {
        let port = &mut self.ports[local_rank as usize];
        if slot >= port.slots_reserved {
            let slots = (slot + 1).next_multiple_of(SLOTS_PER_RESERVATION).min(limits::SLOTS_PER_RANK);
            self.segment.reserve_slots(local_rank, port.slots_reserved..slots).map_err(Offence::NoMemory)?;
            port.slots_reserved = slots;
        }
        Ok(())
    }

    pub(crate) fn check_layout(&self, local_rank: u32, layout: &Layout) -> Result<(), Offence> {
        let arena = self.segment.arena(local_rank);
        let usable = arena.start..arena.start + self.ports[local_rank as usize].arena_reserved;
        // The layout is valid, so this does not overflow.
        let (offset, end) = (layout.offset, layout.offset + layout.span());
        // Where nothing lies does not matter, but no address may be made of a place outside of the segment.
        let is_inside = end <= usable.end && (layout.bytes() == 0 || usable.contains(&offset));
        if is_inside { Ok(()) } else { Err(Offence::OutsideArena { offset, end }) }
    }
}
