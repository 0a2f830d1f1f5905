//! Cache lines that are fetched before they are needed.

use std::ptr::NonNull;

/// Has the processor fetch what will be read, or written, without waiting for it. Of lines that another core has written each takes as
/// long as a message, but all of them together hardly longer than one.
#[inline]
pub(crate) fn prefetch(at: NonNull<u8>, bytes: usize, is_written: bool) {
    #[cfg(target_arch = "x86_64")]
    for line in (0..bytes).step_by(LINE_BYTES) {
        let line = at.as_ptr().wrapping_add(line);
        // SAFETY: it changes nothing that a program sees, and does nothing where nothing is mapped.
        unsafe {
            if is_written {
                std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
            } else {
                std::arch::asm!("prefetcht0 [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes, is_written);
}

/// Has the processor fetch the first bytes of something that is about to be written.
#[cfg(not(loom))]
#[inline]
pub fn prepare_to_write<T>(what: &T, bytes: usize) {
    prefetch(NonNull::from(what).cast(), bytes, true);
}

/// The same of all of it, wherever in a line it begins.
#[cfg(not(loom))]
#[inline]
pub fn prepare_to_write_whole<T>(what: &T) {
    prefetch(NonNull::from(what).cast(), size_of::<T>() + LINE_BYTES - 1, true);
}

const LINE_BYTES: usize = 64;

/// Where a cache line is, to be fetched at another time, when it may not be there any more: a hint.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line(*const u8);

#[cfg(not(loom))]
impl Line {
    /// No line.
    pub const NONE: Self = Self(std::ptr::null());

    /// The first one of something.
    #[inline]
    pub fn of<T>(what: &T) -> Self {
        Self(std::ptr::from_ref(what).cast())
    }

    /// So many lines behind it.
    #[inline]
    pub fn plus(self, lines: usize) -> Self {
        Self(self.0.wrapping_add(lines * LINE_BYTES))
    }

    /// Has the processor fetch it, to be written.
    #[inline]
    pub fn prepare_to_write(self) {
        if let Some(at) = NonNull::new(self.0.cast_mut()) {
            prefetch(at, 1, true);
        }
    }

    /// The same, to be read.
    #[inline]
    pub fn prepare_to_read(self) {
        if let Some(at) = NonNull::new(self.0.cast_mut()) {
            prefetch(at, 1, false);
        }
    }
}
