//! Memory for what a program's own sockets send and receive.
//!
//! The kernel copies it from and to the beginning of its pages. Where the target of a copy is 1 to 31 bytes behind the source, modulo a page,
//! some processors, AMD's Zen 4 among them, go byte by byte: 64 KiB take 28 µs instead of 1.5. Large memory that an allocator gives out lies 16
//! bytes behind the beginning of a page, so all that is received would be that slow. A floor should not be.

use std::ops::{Deref, DerefMut};

/// Elements that begin in the middle of a page.
pub(crate) struct MidPage<T> {
    /// Does not grow, and so stays where it is.
    all: Vec<T>,
    begin: usize,
    count: usize,
}

impl<T: Clone> MidPage<T> {
    /// So many of the same. An element has a size.
    pub(crate) fn new(element: T, count: usize) -> Self {
        let all = vec![element; count + PAGE_BYTES / size_of::<T>()];
        let bytes = (MIDDLE + PAGE_BYTES - all.as_ptr().addr() % PAGE_BYTES) % PAGE_BYTES;
        Self { all, begin: bytes / size_of::<T>(), count }
    }
}

impl<T> Deref for MidPage<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.all[self.begin..][..self.count]
    }
}

impl<T> DerefMut for MidPage<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.all[self.begin..][..self.count]
    }
}

const PAGE_BYTES: usize = 4096;
const MIDDLE: usize = PAGE_BYTES / 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_there_and_begins_far_from_where_pages_begin() {
        for count in [0, 1, 1000, 1 << 20] {
            let (bytes, mut words) = (MidPage::new(7u8, count), MidPage::new([1u64; 2], count));
            words.fill([2; 2]);
            assert!(*bytes == vec![7; count] && *words == vec![[2; 2]; count]);
            for addr in [bytes.as_ptr().addr(), words.as_ptr().addr()] {
                assert!((MIDDLE - 16..=MIDDLE).contains(&(addr % PAGE_BYTES)), "{addr:#x}");
            }
        }
    }
}
