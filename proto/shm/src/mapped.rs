//! Copies into, out of and within memory that other processes may be writing.
//!
//! A plain Rust copy of such memory is a data race, and so undefined. These copies are opaque to the compiler: a string
//! instruction in inline assembly, or relaxed atomics where there is none. Torn content is then the worst that happens.

use std::ptr::NonNull;

/// Copies `bytes` bytes.
///
/// # Safety
/// Both ranges are mapped. They may overlap or change meanwhile; then the content is undefined, and nothing else.
#[inline]
pub(crate) unsafe fn copy(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for the ranges; the direction flag is clear by the ABI.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rsi") from.as_ptr() => _, inout("rdi") to.as_ptr() => _, inout("rcx") bytes => _,
            options(nostack, preserves_flags)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller vouches for the ranges.
    unsafe {
        copy_atomically(from, to, bytes);
    }
}

/// As [`copy`], for ranges that are likely to be tiny: a string instruction takes longer to begin than eight bytes to move.
///
/// # Safety
/// As for [`copy`].
#[inline]
pub(crate) unsafe fn copy_small(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    let (source, target) = (from.cast::<AtomicU64>(), to.cast::<AtomicU64>());
    if bytes != 8 || !source.is_aligned() || !target.is_aligned() {
        // SAFETY: the caller vouches for the ranges.
        return unsafe { copy(from, to, bytes) };
    }
    // SAFETY: the caller vouches for the ranges, and both are aligned.
    unsafe { target.as_ref().store(source.as_ref().load(Relaxed), Relaxed) }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
unsafe fn copy_atomically(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
    let mut at = 0;
    // SAFETY: every access is in the ranges the caller vouches for, and the word accesses are aligned.
    unsafe {
        if from.addr().get() % 8 == to.addr().get() % 8 {
            while at < bytes && !from.add(at).addr().get().is_multiple_of(8) {
                to.add(at)
                    .cast::<AtomicU8>()
                    .as_ref()
                    .store(from.add(at).cast::<AtomicU8>().as_ref().load(Relaxed), Relaxed);
                at += 1;
            }
            while at + 8 <= bytes {
                to.add(at)
                    .cast::<AtomicU64>()
                    .as_ref()
                    .store(from.add(at).cast::<AtomicU64>().as_ref().load(Relaxed), Relaxed);
                at += 8;
            }
        }
        while at < bytes {
            to.add(at)
                .cast::<AtomicU8>()
                .as_ref()
                .store(from.add(at).cast::<AtomicU8>().as_ref().load(Relaxed), Relaxed);
            at += 1;
        }
    }
}

/// Fills with zeros.
///
/// # Safety
/// The range is mapped.
pub(crate) unsafe fn clear(to: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller vouches for the range; nobody else uses free memory.
    unsafe { to.as_ptr().write_bytes(0, bytes) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_ways_of_copying_agree(bytes in proptest::collection::vec(any::<u8>(), 0..200), from in 0usize..9, to in 0usize..9) {
            let mut source = vec![0; from];
            source.extend(&bytes);
            let (mut atomic, mut string) = (vec![0u8; to + bytes.len()], vec![0u8; to + bytes.len()]);
            let address = |slice: &mut [u8]| NonNull::from(slice).cast::<u8>();
            // SAFETY: all ranges lie in vectors that live on.
            unsafe {
                copy_atomically(address(&mut source[from..]), address(&mut atomic[to..]), bytes.len());
                copy_small(address(&mut source[from..]), address(&mut string[to..]), bytes.len());
            }
            prop_assert_eq!(&atomic[to..], &bytes);
            prop_assert_eq!(&string[to..], &bytes);
        }
    }
}
