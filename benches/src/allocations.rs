//! How often memory is allocated in the calls that are measured: never by what was registered, because all that `start` and `wait`
//! need is there after `init`.
//!
//! A benchmark says of its calls that they are [`measured`]. What it allocates around them, such as room for samples, does not count;
//! nor do other threads, nor the rounds that prove a collective's data, the first of which finds where its members meet.
//!
//! The allocator that can count belongs to every program that links this crate, whether it counts or not. It writes the zeros of zeroed
//! memory, and copies what grows: nothing of that belongs into calls that are measured.

use std::cell::Cell;

thread_local! {
    /// How often so far; `None` if nobody wants to know.
    static SO_FAR: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Counts what is allocated in the measured calls of this thread while it works.
pub(crate) fn counted<R>(work: impl FnOnce() -> R) -> (R, u64) {
    SO_FAR.set(Some(0));
    let result = work();
    (result, SO_FAR.take().unwrap_or_default())
}

/// Does calls that are measured, with nothing around them. They must not be measured within others, which would count twice.
pub(crate) fn measured<R>(calls: impl FnOnce() -> R) -> R {
    let Some(before) = SO_FAR.get() else { return calls() };
    let mut result = None;
    let allocated = allocation_counter::measure(|| result = Some(calls()));
    SO_FAR.set(Some(before + allocated.count_total));
    result.expect("the calls have been done")
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    fn allocate() -> u64 {
        *black_box(Box::new(1))
    }

    #[test]
    fn what_surrounds_measured_calls_does_not_count() {
        let work = || allocate() + measured(|| allocate() + allocate()) + allocate() + measured(allocate);
        assert_eq!(counted(work), (5, 3));
        assert_eq!(counted(allocate), (1, 0));
        assert_eq!(measured(allocate), 1);
        assert_eq!(SO_FAR.get(), None);
    }
}
