//! A memfd, sealed against resizing, mapped.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap};

/// A mapping of a sealed memfd.
pub struct Segment {
    fd: OwnedFd,
    start: NonNull<u8>,
    bytes: u64,
}

/// Why a descriptor is not mapped.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// It could change its size under us, and then touching it would kill us.
    #[error("the segment is not sealed against resizing")]
    NotSealed,
    /// It is not as large as it has to be.
    #[error("the segment has {found} bytes where {expected} were expected")]
    WrongSize {
        /// Bytes it has.
        found: u64,
        /// Bytes it should have.
        expected: u64,
    },
    /// The system refused something.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Segments are mapped as a whole, however little of them has pages.
#[derive(Debug, thiserror::Error)]
#[error(
    "the system does not give this process {bytes} bytes of address space: raise its limit (`ulimit -v`), or lower arena_bytes_max in \
     the configuration of the job's daemons"
)]
struct NoAddressSpace {
    bytes: u64,
}

const SEALS: SealFlag = SealFlag::F_SEAL_SHRINK.union(SealFlag::F_SEAL_GROW).union(SealFlag::F_SEAL_SEAL);

/// Of the smallest pages there are.
const PAGE_BYTES: u64 = 4096;
/// Of those next in size. (Where they have another size, nothing comes of [`Segment::use_huge_pages`].)
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;

impl Segment {
    /// Creates a segment of zeros. `name` shows in `/proc/PID/maps` and exists nowhere else.
    pub fn create(name: &str, bytes: u64) -> io::Result<Self> {
        let fd = memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let file = File::from(fd);
        file.set_len(bytes)?;
        fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS))?;
        Self::map_sealed(file.into(), bytes)
    }

    /// Maps a segment that somebody else created, after checking that it can't be resized and has the right size.
    pub fn map(fd: OwnedFd, bytes_expected: u64) -> Result<Self, SegmentError> {
        // Plain files answer EINVAL, files in /dev/shm have the wrong bits.
        let seals = fcntl(&fd, FcntlArg::F_GET_SEALS).map_err(|_| SegmentError::NotSealed)?;
        if !SealFlag::from_bits_truncate(seals).contains(SEALS) {
            return Err(SegmentError::NotSealed);
        }
        let file = File::from(fd);
        let found = file.metadata()?.len();
        if found != bytes_expected {
            return Err(SegmentError::WrongSize { found, expected: bytes_expected });
        }
        Ok(Self::map_sealed(file.into(), found)?)
    }

    fn map_sealed(fd: OwnedFd, bytes: u64) -> io::Result<Self> {
        let length = usize::try_from(bytes).ok().and_then(|bytes| bytes.try_into().ok());
        let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let start = map_aligned(&fd, length).map_err(|error| match error {
            Errno::ENOMEM => io::Error::new(io::ErrorKind::OutOfMemory, NoAddressSpace { bytes }),
            error => error.into(),
        })?;
        // SAFETY: the range is the mapping made above. The advice keeps terabytes of holes out of core dumps.
        unsafe { madvise(start, length.get(), MmapAdvise::MADV_DONTDUMP)? };
        Ok(Self { fd, start: start.cast(), bytes })
    }

    /// The descriptor, to be handed to others.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes sure of the pages of a range: they exist from now on, or this is the error.
    pub fn reserve(&self, offset: u64, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        loop {
            match fallocate(&self.fd, FallocateFlags::empty(), offset as i64, bytes as i64) {
                // A program may have signals all the time, of a profiler for example.
                Err(Errno::EINTR) => {}
                done => return Ok(done?),
            }
        }
    }

    /// The address of a range, if it lies within the segment.
    pub(crate) fn range(&self, offset: u64, bytes: u64) -> Option<NonNull<u8>> {
        let end = offset.checked_add(bytes)?;
        // SAFETY: `offset <= end <= self.bytes`, so the result is in or one past the mapping.
        (end <= self.bytes).then(|| unsafe { self.start.add(offset as usize) })
    }

    /// Enters the pages of a range into this process's page table, so that touching them for the first time takes no longer than
    /// later.
    pub(crate) fn populate(&self, offset: u64, bytes: u64) {
        let (first, behind) = (offset / PAGE_BYTES * PAGE_BYTES, offset.saturating_add(bytes));
        let pages =
            behind.checked_sub(first).filter(|_| bytes > 0).and_then(|bytes| Some((self.range(first, bytes)?, bytes)));
        if let Some((start, bytes)) = pages {
            // SAFETY: the range is mapped, and this changes no content. Kernels that can't do it say so, and nothing is lost.
            unsafe { libc::madvise(start.as_ptr().cast(), bytes as usize, libc::MADV_POPULATE_READ) };
        }
    }

    /// Has the kernel move whole huge pages of a range into such, whose addresses take the processor less to translate, and which it need not find
    /// by a fault for each small one. All pages of the range exist. Others may use it meanwhile; for them, too, it is huge pages from now on.
    ///
    /// Systems seldom give huge pages to shared memory unasked, but this is a request, which any program may make (Linux 6.1).
    pub(crate) fn use_huge_pages(&self, offset: u64, bytes: u64) {
        let first = offset.next_multiple_of(HUGE_PAGE_BYTES);
        let behind = offset.saturating_add(bytes) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        let pages = behind.checked_sub(first).filter(|&bytes| bytes > 0);
        if let Some((start, bytes)) = pages.and_then(|bytes| Some((self.range(first, bytes)?, bytes))) {
            // SAFETY: the range is mapped, and this changes no content. Kernels that can't do it, or have no such pages left, say so, and nothing is
            // lost.
            unsafe { libc::madvise(start.as_ptr().cast(), bytes as usize, libc::MADV_COLLAPSE) };
        }
    }

    /// A shared object in the segment. `T` must be made of atomics only, valid for every bit pattern.
    ///
    /// # Safety
    /// `T` consists of atomics (and padding), so that any content is valid and concurrent change is no race.
    #[inline]
    pub(crate) unsafe fn shared<T>(&self, offset: u64) -> Option<&T> {
        let pointer = self.range(offset, size_of::<T>() as u64)?.cast::<T>();
        // SAFETY: in bounds and, checked here, aligned; the mapping lives as long as `self`; the caller vouches for `T`.
        if pointer.is_aligned() { Some(unsafe { pointer.as_ref() }) } else { None }
    }

    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }
}

/// Maps a file so that huge pages of it can be such of the mapping, if there is room.
fn map_aligned(fd: &OwnedFd, length: NonZeroUsize) -> nix::Result<NonNull<c_void>> {
    let (protection, flags) =
        (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE);
    // SAFETY: a new mapping at an address of the kernel's choice, or of ours where there is nothing, touches nothing that exists.
    let map = |address| unsafe { mmap(address, length, protection, flags, fd, 0) };
    let start = map(None)?;
    let behind = start.addr().get() % HUGE_PAGE_BYTES as usize;
    if behind == 0 || (length.get() as u64) < HUGE_PAGE_BYTES {
        return Ok(start);
    }
    // SAFETY: it is the mapping made above, and nobody has it yet.
    unsafe { munmap(start, length.get())? };
    map(NonZeroUsize::new(start.addr().get() - behind))
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and references into it borrow from `self`.
        let result = unsafe { munmap(self.start.cast(), self.bytes as usize) };
        debug_assert!(result.is_ok());
    }
}

// SAFETY: the mapping belongs to no thread; what lies in it is only reached through atomics and opaque copies.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}
