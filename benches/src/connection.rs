//! Plain TCP connections, to compare with: set up as Ropeway sets up its own, so that what is found is the work and not the settings.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use ropeway_shm::leave_unpaced;
use socket2::{Domain, Socket, Type};

/// Where one end listens for the other, at a port of the system's choice.
pub(crate) fn listen(address: impl Into<IpAddr>) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((address.into(), 0))?;
    leave_unpaced(&listener);
    Ok(listener)
}

pub(crate) fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    leave_unpaced(&socket);
    socket.connect(&address.into())?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Both ends of one within a node.
pub(crate) fn over_loopback() -> io::Result<[TcpStream; 2]> {
    let listener = listen(Ipv4Addr::LOCALHOST)?;
    let near = connect(listener.local_addr()?)?;
    Ok([near, accept(&listener)?])
}
