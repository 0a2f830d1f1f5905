//! One control connection: a rank's, a launcher's, or both in one.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use mio::net::UnixStream;
use nix::sys::socket::{ControlMessage, MsgFlags, getsockopt, sendmsg, sockopt::PeerCredentials};
use ropeway_proto::JobId;
use ropeway_proto::control::{self, ControlError, Reply, Request};
use ropeway_proto::limits::CONTROL_BYTES_MAX;

/// A program at the other end of a control socket.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
    /// User of the program, as the kernel says.
    pub(crate) user: u32,
    /// The job it has created, which ends with this connection.
    pub(crate) created: Option<JobId>,
    /// The rank it is: job and index among the node's ranks.
    pub(crate) rank: Option<(JobId, u32)>,
    /// The rank that its launcher has made it for.
    pub(crate) expected: Option<(JobId, u32)>,
    /// The eventfd by which it wakes the daemon.
    pub(crate) eventfd: Option<OwnedFd>,
    inbox: Vec<u8>,
    /// Replies the socket had no room for.
    outbox: Vec<u8>,
}

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("it closed the connection")]
    Closed,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("it does not read its replies")]
    NotReading,
}

/// More unread replies than any client library leaves.
const OUTBOX_BYTES_MAX: usize = 64 << 10;

impl Client {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        let user = getsockopt(&stream, PeerCredentials)?.uid();
        let (inbox, outbox) = Default::default();
        Ok(Self { stream, user, created: None, rank: None, expected: None, eventfd: None, inbox, outbox })
    }

    /// Reads what has come; whole requests are then taken by [`next_request`](Self::next_request).
    pub(crate) fn read(&mut self) -> Result<(), ClientError> {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ClientError::Closed),
                Ok(count) => self.inbox.extend(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            if self.inbox.len() > CONTROL_BYTES_MAX {
                return Ok(()); // Too long or many at once: what is there is judged first.
            }
        }
    }

    pub(crate) fn next_request(&mut self) -> Result<Option<Request>, ClientError> {
        Ok(control::decode(&mut self.inbox)?)
    }

    pub(crate) fn reply(&mut self, reply: &Reply) -> Result<(), ClientError> {
        self.outbox.extend(control::encode(reply));
        self.flush()?;
        if self.outbox.len() > OUTBOX_BYTES_MAX { Err(ClientError::NotReading) } else { Ok(()) }
    }

    /// A reply that brings descriptors. It must fit at once, which is no matter on a fresh connection.
    pub(crate) fn reply_with(&mut self, reply: &Reply, descriptors: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let bytes = control::encode(reply);
        let rights = [ControlMessage::ScmRights(&raw)];
        let (socket, flags) = (self.stream.as_raw_fd(), MsgFlags::MSG_NOSIGNAL);
        let sent = sendmsg::<()>(socket, &[IoSlice::new(&bytes)], &rights, flags, None).map_err(io::Error::from)?;
        if sent == bytes.len() { Ok(()) } else { Err(ClientError::NotReading) }
    }

    /// Sends replies that had to wait.
    pub(crate) fn flush(&mut self) -> Result<(), ClientError> {
        while !self.outbox.is_empty() {
            match self.stream.write(&self.outbox) {
                Ok(count) => drop(self.outbox.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
