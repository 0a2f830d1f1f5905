//! Which slots of the rank's request table are free, and what waits to become so.

use std::collections::VecDeque;
use std::ops::Range;

use ropeway_proto::limits::{PASSING_SLOTS, SLOTS_PER_RANK};
use ropeway_proto::{Epoch, Slot};

use crate::memory::Memory;
use crate::post::Detour;

/// The slot allocator. It knows the last epoch of every slot, since a new user goes on counting from there.
#[derive(Default)]
pub(crate) struct SlotTable {
    free: Vec<(Slot, Epoch)>,
    /// Slots below this were in use before.
    touched: u32,
    /// Slots below this have memory.
    reserved: u32,
    reap: VecDeque<Retired>,
}

/// A slot whose last operation still runs, and the buffer the operation may use until it ends.
struct Retired {
    slot: Slot,
    epoch: Epoch,
    memory: Memory,
    detour: Option<Detour>,
}

/// How long a slot is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    /// As long as the program likes.
    Lasting,
    /// Until the call returns.
    Passing,
}

/// What asking for a slot gives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A slot and its last epoch.
    Slot(Slot, Epoch),
    /// None, unless memory is reserved for these.
    NeedsReserve(Range<u32>),
    /// None.
    Full,
}

impl SlotTable {
    pub(crate) fn take(&mut self, stay: Stay) -> Taken {
        let left = self.free.len() + (SLOTS_PER_RANK - self.touched) as usize;
        if stay == Stay::Lasting && left <= PASSING_SLOTS as usize {
            return Taken::Full;
        }
        if let Some((slot, epoch)) = self.free.pop() {
            return Taken::Slot(slot, epoch);
        }
        if self.touched < self.reserved {
            self.touched += 1;
            return Taken::Slot(self.touched - 1, 0);
        }
        match (self.reserved + SLOTS_STEP).min(SLOTS_PER_RANK) {
            end if end > self.reserved => Taken::NeedsReserve(self.reserved..end),
            _ => Taken::Full,
        }
    }

    pub(crate) fn set_reserved(&mut self, slots: u32) {
        self.reserved = self.reserved.max(slots);
    }

    /// Takes a slot back that nobody refers to any more.
    pub(crate) fn release(&mut self, slot: Slot, epoch: Epoch) {
        self.free.push((slot, epoch));
    }

    /// Takes a slot back whose operation `epoch` still runs; slot and buffer become free when it has ended.
    pub(crate) fn retire(&mut self, slot: Slot, epoch: Epoch, memory: Memory, detour: Option<Detour>) {
        self.reap.push_back(Retired { slot, epoch, memory, detour });
    }

    /// Frees what has ended meanwhile, looking at up to `limit` retired slots, oldest first.
    pub(crate) fn reap(&mut self, limit: usize, is_done: impl Fn(Slot, Epoch) -> bool) {
        for _ in 0..limit.min(self.reap.len()) {
            let Some(retired) = self.reap.pop_front() else { return };
            if is_done(retired.slot, retired.epoch) {
                retired.memory.reclaim();
                drop(retired.detour);
                self.free.push((retired.slot, retired.epoch));
            } else {
                self.reap.push_back(retired);
            }
        }
    }
}

/// The table's memory grows by this many slots: 64 KiB.
const SLOTS_STEP: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(slots: u32) -> SlotTable {
        let mut table = SlotTable::default();
        table.set_reserved(slots);
        table
    }

    #[test]
    fn the_table_grows_in_steps_up_to_its_limit() {
        let mut table = SlotTable::default();
        assert_eq!(table.take(Stay::Lasting), Taken::NeedsReserve(0..SLOTS_STEP));
        table.set_reserved(SLOTS_PER_RANK);
        for slot in 0..SLOTS_PER_RANK - PASSING_SLOTS {
            assert_eq!(table.take(Stay::Lasting), Taken::Slot(slot, 0));
        }
        assert_eq!(table.take(Stay::Lasting), Taken::Full);
        table.release(7, 3);
        assert_eq!(table.take(Stay::Lasting), Taken::Slot(7, 3));
    }

    #[test]
    fn the_last_slots_are_for_calls_that_give_them_back() {
        let mut table = table(SLOTS_PER_RANK);
        while table.take(Stay::Lasting) != Taken::Full {}
        let mut passing: Vec<_> = (0..PASSING_SLOTS).map(|_| table.take(Stay::Passing)).collect();
        assert_eq!(table.take(Stay::Passing), Taken::Full);
        let Some(Taken::Slot(slot, epoch)) = passing.pop() else { unreachable!() };
        table.release(slot, epoch);
        assert_eq!(table.take(Stay::Lasting), Taken::Full);
        assert_eq!(table.take(Stay::Passing), Taken::Slot(slot, epoch));
    }

    #[test]
    fn a_slot_is_reused_with_its_epoch() {
        let mut table = table(2);
        assert_eq!(table.take(Stay::Lasting), Taken::Slot(0, 0));
        table.release(0, 41);
        assert_eq!(table.take(Stay::Lasting), Taken::Slot(0, 41));
    }

    #[test]
    fn a_retired_slot_is_free_only_when_its_operation_has_ended() {
        let mut table = table(2);
        assert_eq!((table.take(Stay::Lasting), table.take(Stay::Lasting)), (Taken::Slot(0, 0), Taken::Slot(1, 0)));
        table.retire(0, 5, Memory::Borrowed, None);
        table.retire(1, 6, Memory::Borrowed, None);
        table.reap(usize::MAX, |slot, epoch| (slot, epoch) == (1, 6));
        assert_eq!(table.take(Stay::Lasting), Taken::Slot(1, 6));
        assert_eq!(table.take(Stay::Lasting), Taken::NeedsReserve(2..2 + SLOTS_STEP));
        table.reap(usize::MAX, |_, _| true);
        assert_eq!(table.take(Stay::Lasting), Taken::Slot(0, 5));
    }

    #[test]
    fn reaping_is_bounded_and_fair() {
        let mut table = table(3);
        for _ in 0..3 {
            table.take(Stay::Lasting);
        }
        (0..3).for_each(|slot| table.retire(slot, 1, Memory::Borrowed, None));
        table.reap(2, |slot, _| slot == 2);
        assert_eq!(table.take(Stay::Lasting), Taken::NeedsReserve(3..3 + SLOTS_STEP));
        table.reap(1, |slot, _| slot == 2);
        assert_eq!(table.take(Stay::Lasting), Taken::Slot(2, 1));
    }
}
