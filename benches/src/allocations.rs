//! How often memory is allocated in the calls that are measured: never by what was registered, because all that `start` and `wait`
//! need is there after `init`.
//!
//! A benchmark says of its calls that they are [`measured`]. What it allocates around them, such as room for samples, does not count;
//! nor do the rounds that prove a collective's data, the first of which finds where its members meet.
//!
//! It is the tool's allocator that counts; without it nothing does.

use std::cell::Cell;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats};

thread_local! {
    /// How often so far; `None` if nobody wants to know.
    static SO_FAR: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Counts what the process allocates in the measured calls of this thread.
pub(crate) fn counted<R>(work: impl FnOnce() -> R) -> (R, u64) {
    SO_FAR.set(Some(0));
    let result = work();
    (result, SO_FAR.take().unwrap_or_default())
}

/// Does calls that are measured, with nothing around them. They must not be measured within others, which would count twice.
pub(crate) fn measured<R>(calls: impl FnOnce() -> R) -> R {
    let Some(before) = SO_FAR.get() else { return calls() };
    let allocations = Region::new(&INSTRUMENTED_SYSTEM);
    let result = calls();
    let Stats { allocations, reallocations, .. } = allocations.change();
    SO_FAR.set(Some(before + (allocations + reallocations) as u64));
    result
}
