//! On which cores the members of a meeting come, where there are more ranks than cores. Hints: nothing but time depends on them.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::meeting::Meeting;
use crate::round::is_past;

/// A member's, on a line that it alone writes.
#[repr(C)]
pub(crate) struct Whereabouts {
    /// Rounds that it has come for.
    come: AtomicU32,
    /// Where it came last.
    core: AtomicU32,
}

impl Whereabouts {
    pub(crate) fn reset(&self) {
        self.come.store(0, Ordering::Relaxed);
        self.core.store(u32::MAX, Ordering::Relaxed);
    }

    fn is_on(&self, core: u32) -> bool {
        self.core.load(Ordering::Relaxed) == core
    }
}

impl Meeting {
    /// Whether all ranks of the node are members, and no others.
    pub fn is_of_whole_node(&self) -> bool {
        !self.is_spanning() && self.places().len() == self.job().geometry().local_ranks as usize
    }

    /// Whether more ranks are awake than there are cores.
    #[inline]
    pub fn outnumbers_cores(&self) -> bool {
        self.job().outnumbers_cores()
    }

    /// Whether fewer ranks are awake than there are cores.
    pub fn has_free_core(&self) -> bool {
        self.job().has_free_core()
    }

    /// How many cores the ranks of the node may run on.
    pub fn cores(&self) -> usize {
        self.job().cores() as usize
    }

    /// The member at this place is about to come for a round, on this core.
    pub fn note_core(&self, place: usize, round: u32, core: u32) {
        if let Some(whereabouts) = self.whereabouts(place) {
            whereabouts.come.store(round.wrapping_add(1), Ordering::Relaxed);
            if !whereabouts.is_on(core) {
                whereabouts.core.store(core, Ordering::Relaxed);
                self.moves_word().fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// How often members have come on another core than before.
    pub fn moves(&self) -> u32 {
        self.moves_word().load(Ordering::Relaxed)
    }

    /// Places of the members that came on this core when they came last.
    pub fn on_core(&self, core: u32) -> impl Iterator<Item = usize> {
        let is_there = move |&place: &usize| self.whereabouts(place).is_some_and(|whereabouts| whereabouts.is_on(core));
        (0..self.places().len()).filter(is_there)
    }

    /// Of so many sections, which the cores share out, the first one of the core where the member at this place came last. `None` while
    /// ranks have cores of their own.
    pub(crate) fn section_of_core(&self, place: usize, sections: usize) -> Option<usize> {
        let core = self.whereabouts(place)?.core.load(Ordering::Relaxed);
        let before = if self.outnumbers_cores() { self.job().cores_before(core as usize)? } else { return None };
        // How many cores there are may just be changing.
        Some((before * sections / self.cores().max(1)).min(sections - 1))
    }

    /// Whether the member at this place has said that it comes for this round, or a later one.
    pub fn is_said_to_come(&self, place: usize, round: u32) -> bool {
        let come = self.whereabouts(place).map_or(0, |whereabouts| whereabouts.come.load(Ordering::Relaxed));
        is_past(come, round)
    }
}
