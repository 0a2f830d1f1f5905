//! TCP sockets of links and wires, set up before they are connected.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use mio::net::{TcpListener, TcpStream};
use nix::errno::Errno;
use ropeway_shm::leave_unpaced;
use socket2::{Domain, SockRef, Socket, Type};

/// A listener, whose connections are set up as it is.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    set_up(&listener)?;
    Ok(listener)
}

/// Begins to connect; the poll loop tells when that has come to an end.
pub(crate) fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    set_up(&socket)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::EINPROGRESS as i32) => Err(error),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

/// For messages on a cluster's network. The size of its buffers is left to the kernel, which lets them grow with bandwidth and delay of
/// the path: it does not for a size that is asked for, which would also be cut to `rmem_max`.
fn set_up(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).set_tcp_nodelay(true)?;
    let chosen = leave_unpaced(socket);
    tracing::debug!(?chosen, "congestion control");
    Ok(())
}

#[cfg(test)]
mod tests {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::socket::{getsockopt, sockopt::TcpCongestion};

    use super::*;

    #[test]
    fn connections_are_set_up_before_they_are_established() {
        let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
        let dialled = dial(listener.local_addr().unwrap()).unwrap();
        poll(&mut [PollFd::new(listener.as_fd(), PollFlags::POLLIN)], PollTimeout::NONE).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        for stream in [dialled, accepted] {
            assert!(SockRef::from(&stream).tcp_nodelay().unwrap());
            let chosen = getsockopt(&stream, TcpCongestion).unwrap();
            assert!(["cubic", "reno"].contains(&chosen.to_string_lossy().trim_end_matches('\0')), "{chosen:?}");
        }
    }

    #[test]
    fn a_node_that_does_not_listen_refuses() {
        let address = listen(([127, 0, 0, 1], 0).into()).unwrap().local_addr().unwrap();
        // At once or later: over loopback usually later.
        let Ok(stream) = dial(address) else { return };
        poll(&mut [PollFd::new(stream.as_fd(), PollFlags::POLLOUT)], PollTimeout::NONE).unwrap();
        assert_eq!(stream.take_error().unwrap().unwrap().kind(), io::ErrorKind::ConnectionRefused);
    }
}
