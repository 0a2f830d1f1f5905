//! Plain connections between all ranks. One thread of each sends and receives over them at once.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::ops::Range;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ropeway::Communicator;

use crate::BenchError;
use crate::pair::Pair;

/// One rank's ends, and what it sends over them. All bytes are in one memory, which every call is given.
pub(crate) struct Lines {
    /// By rank; there is none to the rank itself.
    streams: Vec<Option<TcpStream>>,
    /// In turn, so that nobody is sent to by more ranks at once than the order of the sends says.
    sending: VecDeque<Sending>,
}

struct Sending {
    number: u32,
    peer: u32,
    /// What the kernel has not taken yet.
    rest: Range<usize>,
}

impl Lines {
    /// Connects all ranks of nodes with these addresses, which have to call it together.
    pub(crate) fn new(world: &Communicator, addresses: &[IpAddr]) -> Result<Self, BenchError> {
        let line = |pair: Pair| -> Result<TcpStream, BenchError> {
            let stream = pair.connect(addresses)?;
            stream.set_nonblocking(true)?;
            Ok(stream)
        };
        // In the same order everywhere, so that they can't wait for each other in a circle.
        let streams = (0..world.size()).map(|peer| Pair::with(world, peer).map(line).transpose());
        Ok(Self { streams: streams.collect::<Result<_, _>>()?, sending: VecDeque::new() })
    }

    /// Has bytes sent, whenever a call waits for something.
    pub(crate) fn send(&mut self, number: u32, peer: u32, from: Range<usize>) {
        self.sending.push_back(Sending { number, peer, rest: from });
    }

    /// Returns when the kernel has all bytes of the sends with these numbers, so that their places may be written to.
    pub(crate) fn finish(&mut self, memory: &mut [u8], is_meant: impl Fn(u32) -> bool) -> io::Result<()> {
        while self.sending.iter().any(|sending| is_meant(sending.number)) {
            if self.push(memory)? == 0 {
                self.sleep(None)?;
            }
        }
        Ok(())
    }

    /// Returns when all bytes are here.
    pub(crate) fn recv(&mut self, memory: &mut [u8], peer: u32, mut into: Range<usize>) -> io::Result<()> {
        while !into.is_empty() {
            let sent = self.push(memory)?;
            let received = at_once(self.stream(peer).read(&mut memory[into.clone()]))?;
            into.start += received;
            if sent + received == 0 {
                self.sleep(Some(peer))?;
            }
        }
        Ok(())
    }

    /// Sends as much as the kernel takes at once; says how much that was.
    fn push(&mut self, memory: &[u8]) -> io::Result<usize> {
        let Some(Sending { number, peer, mut rest }) = self.sending.pop_front() else { return Ok(0) };
        let sent = at_once(self.stream(peer).write(&memory[rest.clone()]))?;
        rest.start += sent;
        if !rest.is_empty() {
            self.sending.push_front(Sending { number, peer, rest });
        }
        Ok(sent)
    }

    /// Until something can be sent, or received from this peer.
    fn sleep(&self, from: Option<u32>) -> io::Result<()> {
        let to = self.sending.front().map(|sending| (sending.peer, PollFlags::POLLOUT));
        let awaited = to.into_iter().chain(from.map(|peer| (peer, PollFlags::POLLIN)));
        let mut awaited: Vec<_> = awaited.map(|(peer, flags)| PollFd::new(self.stream(peer).as_fd(), flags)).collect();
        match poll(&mut awaited, PollTimeout::NONE) {
            Ok(_) | Err(nix::Error::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn stream(&self, peer: u32) -> &TcpStream {
        self.streams[peer as usize].as_ref().expect("nobody sends to itself")
    }
}

/// How many bytes were moved, none if that would have taken time.
fn at_once(moved: io::Result<usize>) -> io::Result<usize> {
    match moved {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        moved => moved,
    }
}
