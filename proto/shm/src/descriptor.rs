//! Descriptors that arrive as bare numbers: over a socket (`SCM_RIGHTS`), or inherited from the parent process.
//!
//! Making an owner of a number is `unsafe`; why it is right, only this module has to know.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, getpeername, recvmsg};

/// Descriptors that one message may bring along.
pub const DESCRIPTORS_MAX: usize = 4;

/// Receives from a UNIX socket: bytes into `buffer`, descriptors, closed on exec, onto the end of `descriptors`.
///
/// Returns how many bytes came; 0 when the peer has closed.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> io::Result<usize> {
    let mut space = cmsg_space!([RawFd; DESCRIPTORS_MAX]);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = loop {
        match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
            Err(nix::Error::EINTR) => {}
            received => break received?,
        }
    };
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            // SAFETY: the kernel has just made these descriptors for this process; nobody else knows them.
            descriptors.extend(numbers.into_iter().map(|number| unsafe { OwnedFd::from_raw_fd(number) }));
        }
    }
    Ok(message.bytes)
}

/// Takes over a UNIX socket that the parent process has left open for us at `number`.
///
/// Succeeds at most once for a number: an inherited descriptor stays open over exec, one that was taken does not, nor
/// does any that the standard library has opened. So nothing that has an owner in this process is taken from it.
pub fn take_inherited(number: RawFd) -> io::Result<OwnedFd> {
    take(number, || Ok(getpeername::<UnixAddr>(number).map(drop)?))
}

/// The same, of a segment.
pub fn take_inherited_segment(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call only looks at a number.
    let seals = || unsafe { libc::fcntl(number, libc::F_GET_SEALS) };
    take(number, || if seals() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) })
}

/// Takes over what is at `number` if it was inherited and is what it should be. If not, it stays as it is.
fn take(number: RawFd, check: impl FnOnce() -> io::Result<()>) -> io::Result<OwnedFd> {
    let not_inherited = || io::Error::new(io::ErrorKind::NotFound, "no descriptor was inherited there");
    // SAFETY: the call only looks at a number.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return Err(not_inherited());
    }
    check()?;
    // SAFETY: it is open and without an owner, since whoever owns a descriptor here has had it closed on exec.
    let taken = unsafe { OwnedFd::from_raw_fd(number) };
    nix::fcntl::fcntl(&taken, nix::fcntl::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::sys::socket::{AddressFamily, ControlMessage, SockFlag, SockType, sendmsg, socketpair};
    use nix::unistd::{read, write};
    use std::io::IoSlice;
    use std::os::fd::{AsFd, IntoRawFd};

    fn pair(flags: SockFlag) -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::Unix, SockType::Stream, None, flags).unwrap()
    }

    #[test]
    fn a_descriptor_crosses_a_socket() {
        let (ours, theirs) = pair(SockFlag::SOCK_CLOEXEC);
        let (passed, kept) = pair(SockFlag::SOCK_CLOEXEC);
        let rights = [passed.as_raw_fd()];
        let (parts, rights) = ([IoSlice::new(b"hello")], [ControlMessage::ScmRights(&rights)]);
        sendmsg::<()>(ours.as_raw_fd(), &parts, &rights, MsgFlags::empty(), None).unwrap();
        drop(passed);
        let (mut bytes, mut descriptors) = ([0; 16], Vec::new());
        assert_eq!(receive(theirs.as_fd(), &mut bytes, &mut descriptors).unwrap(), 5);
        write(&descriptors[0], b"x").unwrap();
        assert_eq!(read(&kept, &mut bytes).unwrap(), 1);
        drop(ours);
        assert_eq!(receive(theirs.as_fd(), &mut bytes, &mut descriptors).unwrap(), 0);
    }

    #[test]
    fn an_owned_descriptor_is_not_taken() {
        let (ours, _theirs) = pair(SockFlag::SOCK_CLOEXEC);
        assert!(take_inherited(ours.as_raw_fd()).is_err());
        assert!(take_inherited(-1).is_err());
    }

    #[test]
    fn an_inherited_descriptor_is_taken_once() {
        let (ours, _theirs) = pair(SockFlag::empty());
        let taken = take_inherited(ours.into_raw_fd()).unwrap();
        assert!(take_inherited(taken.as_raw_fd()).is_err());
    }

    #[test]
    fn only_a_segment_is_taken_for_one() {
        let (ours, _theirs) = pair(SockFlag::empty());
        assert!(take_inherited_segment(ours.as_raw_fd()).is_err());
        let memory = memfd_create("test", MFdFlags::MFD_ALLOW_SEALING).unwrap().into_raw_fd();
        assert!(take_inherited(memory).is_err());
        let taken = take_inherited_segment(memory).unwrap();
        assert!(take_inherited_segment(taken.as_raw_fd()).is_err());
    }
}
