//! Cache lines that somebody is about to need, fetched all at once instead of one after the other.

use std::ptr::{self, NonNull};

use crate::prefetch::prefetch;

/// Has the processor fetch the first bytes of something that is about to be written.
#[inline]
pub fn prepare_to_write<T>(what: &T, bytes: usize) {
    prefetch(NonNull::from(what).cast(), bytes, true);
}

/// Lines that are needed again and again. They need not be mapped any more.
#[derive(Debug, Default)]
pub struct Ahead {
    /// Addresses; of a line that is written, one more.
    lines: [usize; LINES],
    count: usize,
}

impl Ahead {
    /// Where something begins that is read, or written, too. What there is no room for is fetched when it is needed.
    pub(crate) fn add<T>(&mut self, what: &T, is_written: bool) {
        if let Some(free) = self.lines.get_mut(self.count) {
            *free = ptr::from_ref(what).addr() & !1 | usize::from(is_written);
            self.count += 1;
        }
    }

    /// Has the processor fetch them.
    #[inline]
    pub fn fetch(&self) {
        for line in &self.lines[..self.count] {
            if let Some(at) = NonNull::new(ptr::without_provenance_mut(line & !1)) {
                prefetch(at, 1, line & 1 != 0);
            }
        }
    }
}

/// About as many as a processor fetches at once.
const LINES: usize = 24;
