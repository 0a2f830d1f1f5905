//! One message at a time, there and perhaps back.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream};
use std::thread;

use ropeway::{Buffer, RecvRequest, SendRequest};

use crate::BenchError;
use crate::mid_page::MidPage;
use crate::pair::Pair;

/// One side's part of a round trip.
pub(crate) trait Trip {
    /// For messages about it.
    const NAME: &'static str;
    /// Says that a message may come, if that can be said and has not been.
    fn arm(&mut self) -> Result<(), BenchError>;
    fn send(&mut self) -> Result<(), BenchError>;
    fn recv(&mut self) -> Result<(), BenchError>;
    /// The next message, once the last one is gone.
    fn outgoing(&mut self) -> Result<&mut [u8], BenchError>;
    fn incoming(&self) -> &[u8];
}

pub(crate) struct Persistent {
    send: SendRequest<u8>,
    recv: RecvRequest<u8>,
}

impl Persistent {
    pub(crate) fn new(pair: &Pair, bytes: usize) -> Result<Self, BenchError> {
        let Pair { world, peer, .. } = pair;
        Ok(Self {
            send: world.send_init(world.alloc(bytes)?, *peer, PING)?,
            recv: world.recv_init(world.alloc(bytes)?, *peer, PING)?,
        })
    }
}

// Inlined, as a program has its calls where it needs them: else calls of ours are measured, too.
impl Trip for Persistent {
    const NAME: &'static str = "persistent";

    #[inline(always)]
    fn arm(&mut self) -> Result<(), BenchError> {
        if self.recv.active().is_none() {
            let _ = self.recv.start()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self) -> Result<(), BenchError> {
        let _ = self.send.start()?;
        Ok(())
    }

    #[inline(always)]
    fn recv(&mut self) -> Result<(), BenchError> {
        if let Some(receiving) = self.recv.active() {
            receiving.wait()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn outgoing(&mut self) -> Result<&mut [u8], BenchError> {
        if let Some(sending) = self.send.active() {
            sending.wait()?;
        }
        Ok(self.send.buffer_mut())
    }

    fn incoming(&self) -> &[u8] {
        self.recv.buffer()
    }
}

pub(crate) struct OneShot {
    pair: Pair,
    outgoing: Buffer<u8>,
    incoming: Buffer<u8>,
}

impl OneShot {
    pub(crate) fn new(pair: &Pair, bytes: usize) -> Result<Self, BenchError> {
        Ok(Self { outgoing: pair.world.alloc(bytes)?, incoming: pair.world.alloc(bytes)?, pair: pair.clone() })
    }
}

impl Trip for OneShot {
    const NAME: &'static str = "oneshot";

    #[inline(always)]
    fn arm(&mut self) -> Result<(), BenchError> {
        Ok(())
    }

    #[inline(always)]
    fn send(&mut self) -> Result<(), BenchError> {
        Ok(self.pair.world.send(&self.outgoing, self.pair.peer, PING)?)
    }

    #[inline(always)]
    fn recv(&mut self) -> Result<(), BenchError> {
        self.pair.world.recv(&mut self.incoming, self.pair.peer, PING)?;
        Ok(())
    }

    #[inline(always)]
    fn outgoing(&mut self) -> Result<&mut [u8], BenchError> {
        Ok(&mut self.outgoing)
    }

    fn incoming(&self) -> &[u8] {
        &self.incoming
    }
}

/// The floor between nodes: the same over a bare connection between the two processes, which look for their bytes
/// without ever sleeping: a wake-up would cost several times as much as the bytes.
pub(crate) struct Tcp {
    stream: TcpStream,
    outgoing: MidPage<u8>,
    incoming: MidPage<u8>,
}

impl Tcp {
    /// Between nodes with these addresses.
    pub(crate) fn new(pair: &Pair, bytes: usize, addresses: &[IpAddr]) -> Result<Self, BenchError> {
        let stream = pair.connect(addresses)?;
        stream.set_nonblocking(true)?;
        Ok(Self::over(stream, bytes))
    }

    /// Over a connection that is there already, and may be a blocking one.
    pub(crate) fn over(stream: TcpStream, bytes: usize) -> Self {
        Self { stream, outgoing: MidPage::new(0, bytes), incoming: MidPage::new(0, bytes) }
    }

    pub(crate) fn incoming_mut(&mut self) -> &mut [u8] {
        &mut self.incoming
    }
}

impl Trip for Tcp {
    const NAME: &'static str = "tcp";

    fn arm(&mut self) -> Result<(), BenchError> {
        Ok(())
    }

    fn send(&mut self) -> Result<(), BenchError> {
        let (mut stream, mut rest) = (&self.stream, &self.outgoing[..]);
        while !rest.is_empty() {
            rest = &rest[busily(|| stream.write(rest))?..];
        }
        Ok(())
    }

    fn recv(&mut self) -> Result<(), BenchError> {
        let (mut stream, mut rest) = (&self.stream, &mut self.incoming[..]);
        while !rest.is_empty() {
            let read = busily(|| stream.read(rest))?;
            rest = &mut rest[read..];
        }
        Ok(())
    }

    fn outgoing(&mut self) -> Result<&mut [u8], BenchError> {
        Ok(&mut self.outgoing)
    }

    fn incoming(&self) -> &[u8] {
        &self.incoming
    }
}

/// Tries until it works, leaving the core to others in between.
fn busily(mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match attempt() {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            result => return result,
        }
    }
}

const PING: i32 = 1;
