//! Sockets straight from and into shared memory: one system call for many pieces, no copy in between.

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use ropeway_proto::Layout;

use crate::job::{JobSegment, OutOfBounds};

/// Where the kernel would leave or find an address. Small messages are sent and received without the C library's functions, in each of which a
/// thread may be cancelled: two atomic exchanges that say so take about 2 % of what a message between nodes takes.
const NOBODY: *mut libc::sockaddr = std::ptr::null_mut();

/// Pieces of one system call.
const PIECES_MAX: usize = 256;

/// A list of memory ranges, on the stack.
struct Pieces {
    list: [MaybeUninit<libc::iovec>; PIECES_MAX],
    count: usize,
    bytes: u64,
}

impl Pieces {
    fn new() -> Self {
        Self { list: [const { MaybeUninit::uninit() }; PIECES_MAX], count: 0, bytes: 0 }
    }

    fn push(&mut self, start: NonNull<u8>, bytes: usize) -> bool {
        if bytes == 0 {
            return true;
        }
        let Some(place) = self.list.get_mut(self.count) else { return false };
        place.write(libc::iovec { iov_base: start.as_ptr().cast(), iov_len: bytes });
        self.count += 1;
        self.bytes += bytes as u64;
        true
    }

    fn push_memory(&mut self, segment: &JobSegment, layout: &Layout, at: u64, bytes: u64) -> Result<u64, OutOfBounds> {
        let mut taken = 0;
        for (start, bytes) in segment.pieces(layout, at, bytes)? {
            if !self.push(start, bytes) {
                break;
            }
            taken += bytes as u64;
        }
        Ok(taken)
    }

    /// The piece, if there is one only: the kernel need not be shown a list then, of which it makes a copy.
    fn only(&self) -> Option<libc::iovec> {
        // SAFETY: the first `count` pieces are written.
        (self.count == 1).then(|| unsafe { self.list[0].assume_init() })
    }

    /// For the kernel, to be used while this is where it is.
    fn message(&mut self) -> libc::msghdr {
        // SAFETY: an all-zero message header is a valid, empty one.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = self.list.as_mut_ptr().cast();
        message.msg_iovlen = self.count as _;
        message
    }
}

/// Pieces to be sent with one system call.
pub struct Gather<'a> {
    pieces: Pieces,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> Gather<'a> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { pieces: Pieces::new(), memory: PhantomData }
    }

    /// Adds private bytes. False if there is no room for another piece.
    pub fn push_bytes(&mut self, bytes: &'a [u8]) -> bool {
        self.pieces.push(NonNull::from(bytes).cast(), bytes.len())
    }

    /// Adds packed bytes of a layout. Says how many, which are fewer than asked for when there is no room for more pieces.
    pub fn push_memory(
        &mut self,
        segment: &'a JobSegment,
        layout: &Layout,
        at: u64,
        bytes: u64,
    ) -> Result<u64, OutOfBounds> {
        self.pieces.push_memory(segment, layout, at, bytes)
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.pieces.bytes
    }

    /// Sends them. Says how many bytes the socket took.
    pub fn write(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let (socket, flags) = (socket.as_raw_fd(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT);
        let message = self.pieces.message();
        // SAFETY: the first `count` pieces are written and name memory borrowed for 'a, which the kernel only reads.
        let sent = unsafe {
            match self.pieces.only() {
                Some(piece) => libc::syscall(libc::SYS_sendto, socket, piece.iov_base, piece.iov_len, flags, NOBODY, 0),
                None => libc::syscall(libc::SYS_sendmsg, socket, &raw const message, flags),
            }
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

/// Pieces to be filled with one system call.
pub struct Scatter<'a> {
    pieces: Pieces,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Scatter<'a> {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { pieces: Pieces::new(), memory: PhantomData }
    }

    /// Adds private bytes. False if there is no room for another piece.
    pub fn push_bytes(&mut self, bytes: &'a mut [u8]) -> bool {
        let length = bytes.len();
        self.pieces.push(NonNull::from(bytes).cast(), length)
    }

    /// Adds packed bytes of a layout. Says how many, which are fewer than asked for when there is no room for more pieces.
    pub fn push_memory(
        &mut self,
        segment: &'a JobSegment,
        layout: &Layout,
        at: u64,
        bytes: u64,
    ) -> Result<u64, OutOfBounds> {
        self.pieces.push_memory(segment, layout, at, bytes)
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.pieces.bytes
    }

    /// Fills them with what the socket has. Zero when the peer has closed.
    pub fn read(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        let mut message = self.pieces.message();
        // SAFETY: the first `count` pieces are written; they name memory borrowed mutably for 'a, or shared memory, of
        // which nobody here holds a reference.
        let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }
}

/// Receives what the socket has, `bytes` at most. Zero when the peer has closed.
///
/// # Safety
/// So many bytes from `to` on are mapped, and nobody holds a reference of them.
pub(crate) unsafe fn receive(socket: BorrowedFd<'_>, to: NonNull<u8>, bytes: usize) -> io::Result<usize> {
    let (socket, to, flags) = (socket.as_raw_fd(), to.as_ptr(), libc::MSG_DONTWAIT);
    // SAFETY: the caller vouches for the memory; the kernel is not asked who has sent.
    let received = unsafe { libc::syscall(libc::SYS_recvfrom, socket, to, bytes, flags, NOBODY, NOBODY) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Whether the socket has something to be received, if only that its peer has closed. It stays there.
pub(crate) fn is_readable(socket: BorrowedFd<'_>) -> bool {
    let looked = recv(socket.as_raw_fd(), &mut [0], MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
    !matches!(looked, Err(Errno::EAGAIN | Errno::EINTR))
}

/// Has poll loops told of a socket only when so many bytes are there, or the connection ends.
pub fn set_receive_low_water(socket: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    let value = bytes.min(i32::MAX as u32) as libc::c_int;
    let (start, length) = ((&raw const value).cast(), size_of_val(&value) as libc::socklen_t);
    // SAFETY: the kernel reads `length` bytes from `start`, which is a live integer of that size.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, start, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
