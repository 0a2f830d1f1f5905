//! Small gathers and reductions within a node: everybody leaves a part and is done, and the root takes the parts when all are there.
//!
//! From each member to the root goes a [relay] that only the root receives of. So a member gets as far ahead of the root, and of
//! those who are late, as there are cells, and waits for nobody; only the root waits for all.
//!
//! Nobody wakes the root before it can get on. The races, and why they are none: README.md, "Collecting".

use crate::eager::Progress;
use crate::relay::{self, RelayMemory, TakenWord};

/// What moves bytes and combines them. The protocol decides who may call what when.
pub trait CollectMemory {
    /// The relays of all members but the root.
    fn ways(&self) -> impl Iterator<Item = impl RelayMemory>;
    /// The root's word.
    fn taken(&self) -> &TakenWord;
    /// Makes the root's output of the parts in the cells of this round, and of its own. The root's.
    fn combine(&self, round: u32);
}

/// Whether all parts of this round are there, or where the root may fetch them. Who has just left one, and put a fence behind it, knows by
/// this whether to wake the root: of two who leave theirs at once one sees the other's.
#[inline]
pub fn have_all_come(memory: &impl CollectMemory, round: u32) -> bool {
    memory.ways().all(|way| relay::has_come(&way, round))
}

/// The root takes the parts of this round, if all are there.
pub fn collect(memory: &impl CollectMemory, round: u32) -> Progress {
    if !memory.ways().all(|way| relay::fetch(&way, round)) {
        return Progress::Pending;
    }
    memory.combine(round);
    memory.taken().give_back(round);
    memory.ways().for_each(|way| relay::go_on(&way, round));
    Progress::Done
}
