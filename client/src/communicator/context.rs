//! Contexts: the numbers that keep the messages of different communicators apart.
//!
//! Each rank of a job owns an equal share of all contexts and gives blocks of it, none of them twice, to the communicators it
//! founds. So no two communicators of a job share a context, whoever creates them at the same time in whatever order; two that
//! overlap must not, and two that don't may register collectives with one daemon, which knows those by context.
//!
//! ```text
//!  0                 share                   2 · share                       2^30
//!  | rank 0's          | rank 1's              | …                              |
//!  | world's | a | b … | c | d | …             |
//!  | it | its duplicates' … |
//! ```
//!
//! A communicator's block begins with its own context; the rest is for duplicates, which get blocks too. What a duplicate gets
//! depends on how many there were before, and on nothing else: so all members know it without a message.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use ropeway_proto::limits::RANKS_PER_JOB_MAX;
use ropeway_proto::{CommId, Rank};

/// What all clones of a communicator share.
#[derive(Debug)]
pub(crate) struct Context {
    id: CommId,
    /// For duplicates.
    spare: Mutex<Block>,
}

/// The contexts that a rank can still give to communicators it founds.
#[derive(Debug)]
pub(crate) struct Share {
    next: AtomicU32,
    end: u32,
}

/// Some contexts, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    begin: u32,
    end: u32,
}

impl Context {
    /// Of a communicator that has this block.
    pub(crate) fn new(block: Block) -> Self {
        let spare = Mutex::new(Block { begin: block.begin + 1, ..block });
        Self { id: CommId(block.begin), spare }
    }

    pub(crate) fn id(&self) -> CommId {
        self.id
    }

    /// The communicator our own messages travel on, so that they never meet the program's.
    pub(crate) fn internal(&self) -> CommId {
        CommId(self.id.0 | INTERNAL)
    }

    /// A block for the next duplicate. `None` if all is given away.
    pub(crate) fn take_part(&self) -> Option<Block> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).take_part()
    }

    /// Duplicates get parts of this block from now on.
    pub(crate) fn refill(&self, block: Block) {
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = block;
    }
}

impl Share {
    /// The share of a rank in a job of `size`.
    pub(crate) fn of(rank: Rank, size: u32) -> Self {
        let contexts = CONTEXTS / size;
        let begin = if rank == 0 { Block::of_world(size).end } else { rank * contexts };
        Self { next: AtomicU32::new(begin), end: (rank + 1) * contexts }
    }

    /// Takes a block. `None` if too little is left.
    pub(crate) fn take(&self) -> Option<Block> {
        let after = |begin: u32| begin.checked_add(BLOCK).filter(|&end| end <= self.end);
        let taken = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
        taken.ok().and_then(Block::from_word)
    }

    /// Takes a block back that nobody used, unless others were taken after it: then it is lost.
    pub(crate) fn give_back(&self, block: Block) {
        let _ = self.next.compare_exchange(block.end, block.begin, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Block {
    /// The one of all ranks of a job: half a share, so that the world can be duplicated often.
    pub(crate) fn of_world(size: u32) -> Self {
        Self { begin: CommId::WORLD.0, end: CONTEXTS / size / 2 }
    }

    /// How a founder calls the block it has taken, or that it had none.
    pub(crate) fn to_word(block: Option<Self>) -> u32 {
        block.map_or(NONE, |block| block.begin)
    }

    /// What a founder has said.
    pub(crate) fn from_word(begin: u32) -> Option<Self> {
        (begin < CONTEXTS).then(|| Self { begin, end: begin + BLOCK })
    }

    /// Takes a sixteenth: many duplicates, and some of those of them, before anybody has to be asked.
    fn take_part(&mut self) -> Option<Self> {
        let left = self.end - self.begin;
        let part = Self { begin: self.begin, end: self.begin + (left / 16).max(1) };
        (left > 0).then(|| {
            self.begin = part.end;
            part
        })
    }
}

/// Set in the number of a communicator's private twin. Nodes set the bit above it (`CommId::RESERVED`).
const INTERNAL: u32 = 1 << 30;
/// What is left below for communicators.
const CONTEXTS: u32 = INTERNAL;
/// Contexts a new communicator gets: itself, and fifteen duplicates before its members have to agree on more.
const BLOCK: u32 = 16;
const NONE: u32 = u32::MAX;

// In the largest job too every rank can found some hundreds.
const _: () = assert!(CONTEXTS / RANKS_PER_JOB_MAX / 2 >= 256 * BLOCK && CONTEXTS < CommId::RESERVED);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Duplicates of duplicates, as far as the blocks reach.
    fn duplicate(context: &Context, depth: u32, found: &mut Vec<CommId>) {
        found.push(context.id());
        for _ in 0..if depth > 0 { 5 } else { 0 } {
            if let Some(part) = context.take_part() {
                duplicate(&Context::new(part), depth - 1, found);
            }
        }
    }

    #[test]
    fn no_two_communicators_of_a_job_share_a_context() {
        for size in [1, 2, 3, 1000, RANKS_PER_JOB_MAX] {
            let mut found = Vec::new();
            duplicate(&Context::new(Block::of_world(size)), 4, &mut found);
            let founders = BTreeSet::from([0, 1, size / 2, size - 1].map(|rank| rank.min(size - 1)));
            for founder in founders {
                let share = Share::of(founder, size);
                (0..20).filter_map(|_| share.take()).for_each(|block| duplicate(&Context::new(block), 2, &mut found));
            }
            let all = found.len();
            assert!(found.iter().all(|id| id.0 < CONTEXTS));
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len(), all, "in a job of {size}");
        }
    }

    #[test]
    fn a_share_ends() {
        let share = Share::of(5, RANKS_PER_JOB_MAX);
        let blocks = std::iter::from_fn(|| share.take()).count() as u32;
        assert_eq!(blocks, CONTEXTS / RANKS_PER_JOB_MAX / BLOCK);
        assert_eq!(Block::to_word(share.take()), NONE);
        assert_eq!(Block::from_word(NONE), None);
    }

    #[test]
    fn a_block_that_is_given_back_is_taken_again() {
        let share = Share::of(1, 4);
        let first = share.take().unwrap();
        share.give_back(first);
        assert_eq!(share.take(), Some(first));
        let second = share.take().unwrap();
        share.give_back(first);
        assert_ne!(share.take(), Some(second), "others were taken after the first");
    }

    #[test]
    fn a_communicator_has_fifteen_duplicates_for_nothing() {
        let context = Context::new(Block::from_word(160).unwrap());
        let ids: Vec<_> = std::iter::from_fn(|| context.take_part()).map(|part| Context::new(part).id().0).collect();
        assert_eq!(ids, (161..176).collect::<Vec<_>>());
        context.refill(Block::from_word(320).unwrap());
        assert_eq!(context.take_part(), Some(Block { begin: 320, end: 321 }));
    }
}
