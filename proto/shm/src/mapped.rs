//! Copies into, out of and within memory that other processes may be writing.
//!
//! A plain Rust copy of such memory is a data race, and so undefined. These copies are opaque to the compiler: a string
//! instruction in inline assembly, or relaxed atomics where there is none. Torn content is then the worst that happens.

use std::ptr::NonNull;

/// Moves lines, of which there is at least one, each loaded as a whole before it is stored by this instruction.
#[cfg(target_arch = "x86_64")]
macro_rules! move_lines {
    ($store:literal, $from:expr, $to:expr, $lines:expr) => {
        std::arch::asm!(
            "2:",
            "movdqu {a}, [{from}]", "movdqu {b}, [{from} + 16]", "movdqu {c}, [{from} + 32]", "movdqu {d}, [{from} + 48]",
            concat!($store, " [{to}], {a}"), concat!($store, " [{to} + 16], {b}"),
            concat!($store, " [{to} + 32], {c}"), concat!($store, " [{to} + 48], {d}"),
            "add {from}, 64", "add {to}, 64",
            "dec {lines}",
            "jnz 2b",
            from = inout(reg) $from.as_ptr() => _, to = inout(reg) $to.as_ptr() => _, lines = inout(reg) $lines => _,
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            options(nostack)
        )
    };
}

/// Copies `bytes` bytes.
///
/// # Safety
/// Both ranges are mapped. They may overlap or change meanwhile; then the content is undefined, and nothing else.
#[inline]
pub(crate) unsafe fn copy(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller vouches for the ranges.
    unsafe {
        match is_slow_string(from, to, bytes) {
            true => copy_lines(from, to, bytes),
            false => copy_string(from, to, bytes),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller vouches for the ranges.
    unsafe {
        copy_atomically(from, to, bytes);
    }
}

/// # Safety
/// As for [`copy`].
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_string(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller vouches for the ranges; the direction flag is clear by the ABI.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rsi") from.as_ptr() => _, inout("rdi") to.as_ptr() => _, inout("rcx") bytes => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Whether a string instruction would go byte by byte: on some processors, AMD's Zen 4 among them, it does where the target is a little behind
/// the source, modulo a page. 64 KiB take 28 µs then, and 1.5 else.
#[cfg(target_arch = "x86_64")]
#[inline]
fn is_slow_string(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) -> bool {
    let behind = to.addr().get().wrapping_sub(from.addr().get()) % PAGE_BYTES;
    bytes >= LINES_BYTES_MIN && (1..BYTEWISE_BEHIND).contains(&behind)
}

/// Takes 1.2 times as long as a string instruction that is fast.
///
/// # Safety
/// As for [`copy`], of at least a line.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn copy_lines(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    let lines = bytes / LINE_BYTES;
    let done = lines * LINE_BYTES;
    // SAFETY: the caller vouches for the ranges and that there is a line; the registers are declared.
    unsafe {
        move_lines!("movdqu", from, to, lines);
        copy_string(from.add(done), to.add(done), bytes - done);
    }
}

#[cfg(target_arch = "x86_64")]
const PAGE_BYTES: usize = 4096;
/// From so much on it is no longer slow.
#[cfg(target_arch = "x86_64")]
const BYTEWISE_BEHIND: usize = 32;
/// Less does not matter.
#[cfg(target_arch = "x86_64")]
const LINES_BYTES_MIN: usize = 256;

/// As [`copy`], but writes past the caches: memory is not read before it is overwritten, and what lies in the caches stays there. For
/// so much that nothing of it would be left in them when it is read.
///
/// # Safety
/// As for [`copy`].
pub(crate) unsafe fn stream(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        // Lines are written as a whole.
        let head = to.as_ptr().align_offset(LINE_BYTES).min(bytes);
        let lines = (bytes - head) / LINE_BYTES;
        // SAFETY: all three parts are within the ranges that the caller vouches for.
        unsafe {
            copy(from, to, head);
            stream_lines(from.add(head), to.add(head), lines);
            let done = head + lines * LINE_BYTES;
            copy(from.add(done), to.add(done), bytes - done);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller vouches for the ranges.
    unsafe {
        copy(from, to, bytes);
    }
}

/// # Safety
/// As for [`copy`], of so many lines; `to` is the beginning of one.
#[cfg(target_arch = "x86_64")]
unsafe fn stream_lines(from: NonNull<u8>, to: NonNull<u8>, lines: usize) {
    if lines == 0 {
        return;
    }
    // SAFETY: the caller vouches for the ranges; the registers are declared. Such stores are weakly ordered, hence the fence.
    unsafe {
        move_lines!("movntdq", from, to, lines);
        std::arch::asm!("sfence", options(nostack));
    }
}

#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// As [`copy`], for ranges that are likely to be tiny: a string instruction takes longer to begin than a few words to move.
///
/// # Safety
/// As for [`copy`].
#[inline]
pub(crate) unsafe fn copy_small(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    let are_aligned = (from.addr().get() | to.addr().get()).is_multiple_of(8);
    // SAFETY: the caller vouches for the ranges, and words are only copied where both are aligned.
    unsafe {
        match bytes {
            8 if are_aligned => copy_words(from, to, 8),
            ..=WORDS_BYTES_MAX if are_aligned && bytes.is_multiple_of(4) => copy_several_words(from, to, bytes),
            _ => copy(from, to, bytes),
        }
    }
}

/// So much is moved word by word.
const WORDS_BYTES_MAX: usize = 64;

/// Apart, so that a single word takes no more instructions than it must.
#[inline(never)]
unsafe fn copy_several_words(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    // SAFETY: as for the caller.
    unsafe { copy_words(from, to, bytes) }
}

/// # Safety
/// As for [`copy`], of aligned ranges of words and maybe half a word more.
#[inline(always)]
unsafe fn copy_words(from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
    let (source, target) = (from.cast::<AtomicU64>(), to.cast::<AtomicU64>());
    let words = bytes / 8;
    // SAFETY: the caller vouches for all of it.
    unsafe {
        for word in 0..words {
            target.add(word).as_ref().store(source.add(word).as_ref().load(Relaxed), Relaxed);
        }
        if !bytes.is_multiple_of(8) {
            let (source, target) = (source.add(words).cast::<AtomicU32>(), target.add(words).cast::<AtomicU32>());
            target.as_ref().store(source.as_ref().load(Relaxed), Relaxed);
        }
    }
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

    #[repr(align(8))]
    struct Words([u8; 128]);

    #[test]
    fn small_copies_are_whole_and_no_longer() {
        let mut source = Words(std::array::from_fn(|at| at as u8));
        for (bytes, from, to) in
            (0..=100).flat_map(|bytes| [(bytes, 0, 0), (bytes, 8, 16), (bytes, 4, 8), (bytes, 3, 0)])
        {
            let mut target = Words([u8::MAX; 128]);
            let address = |part: &mut [u8]| NonNull::from(part).cast::<u8>();
            // SAFETY: both ranges lie in arrays that live on.
            unsafe { copy_small(address(&mut source.0[from..]), address(&mut target.0[to..]), bytes) };
            let mut expected = [u8::MAX; 128];
            expected[to..to + bytes].copy_from_slice(&source.0[from..from + bytes]);
            assert_eq!(target.0, expected, "{bytes} from {from} to {to}");
        }
    }

    /// Also within the same memory, to lower addresses: nothing is overwritten before it was copied.
    #[test]
    fn copies_to_a_little_behind_modulo_a_page_are_whole() {
        let content: Vec<u8> = (0..3 * PAGE_BYTES).map(|at| (at % 251) as u8).collect();
        let (mut source, from) = (content.clone(), 2000);
        for behind in 1..BYTEWISE_BEHIND {
            for bytes in [LINES_BYTES_MIN, 1000, PAGE_BYTES] {
                let mut target = vec![0u8; 3 * PAGE_BYTES];
                let address = |slice: &mut [u8]| NonNull::from(slice).cast::<u8>();
                let [origin, aim] = [&mut source, &mut target].map(|all| address(&mut all[..]));
                let to = from + behind + (origin.addr().get().wrapping_sub(aim.addr().get())) % PAGE_BYTES;
                // SAFETY: both ranges lie in vectors that live on.
                unsafe {
                    assert!(is_slow_string(origin.add(from), aim.add(to), bytes));
                    copy(origin.add(from), aim.add(to), bytes);
                }
                assert!(target[to..to + bytes] == content[from..from + bytes], "{bytes} bytes {behind} behind");
                assert!(target.iter().enumerate().all(|(at, &byte)| (to..to + bytes).contains(&at) || byte == 0));
                // To lower addresses.
                let mut both = content.clone();
                let begin = PAGE_BYTES - behind;
                // SAFETY: as above.
                unsafe { copy(address(&mut both[begin..]), address(&mut both), bytes) };
                assert!(both[..bytes] == content[begin..begin + bytes]);
            }
        }
    }

    proptest! {
        #[test]
        fn all_ways_of_copying_agree(bytes in proptest::collection::vec(any::<u8>(), 0..400), from in 0usize..9, to in 0usize..70) {
            let mut source = vec![0; from];
            source.extend(&bytes);
            let [mut atomic, mut string, mut streamed] = [0; 3].map(|_| vec![0u8; to + bytes.len()]);
            let address = |slice: &mut [u8]| NonNull::from(slice).cast::<u8>();
            // SAFETY: all ranges lie in vectors that live on.
            unsafe {
                copy_atomically(address(&mut source[from..]), address(&mut atomic[to..]), bytes.len());
                copy_small(address(&mut source[from..]), address(&mut string[to..]), bytes.len());
                stream(address(&mut source[from..]), address(&mut streamed[to..]), bytes.len());
            }
            prop_assert_eq!(&atomic[to..], &bytes);
            prop_assert_eq!(&string[to..], &bytes);
            prop_assert_eq!(&streamed[to..], &bytes);
        }
    }
}
