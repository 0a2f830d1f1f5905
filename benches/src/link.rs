//! Messages in one direction, one at a time, started and waited for apart.

use ropeway::{Buffer, Error, Pending, RecvRequest, SendRequest};

use crate::BenchError;
use crate::pair::Pair;
use crate::pattern;

/// One side of it.
pub(crate) trait Link {
    /// For messages about it.
    const NAME: &'static str;
    /// What is to be sent, or was received.
    fn message(&mut self) -> &mut [u8];
    fn start(&mut self) -> Result<(), BenchError>;
    fn wait(&mut self) -> Result<(), BenchError>;

    /// An error if what was received is not what `pattern::fill` has written, or already known to be wrong.
    fn check(&mut self, seed: u64, is_right: bool) -> Result<(), BenchError> {
        let message = self.message();
        let wrong = (!is_right).then_some(0).or_else(|| pattern::first_wrong(message, seed));
        let bytes = message.len();
        wrong.map_or(Ok(()), |byte| Err(BenchError::WrongData { contestant: Self::NAME.to_owned(), bytes, byte }))
    }
}

/// Which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Sender,
    Receiver,
}

pub(crate) enum Persistent {
    Send(SendRequest<u8>),
    Recv(RecvRequest<u8>),
}

impl Persistent {
    pub(crate) fn new(pair: &Pair, end: End, bytes: usize) -> Result<Self, BenchError> {
        let Pair { world, peer, .. } = pair;
        let buffer = world.alloc(bytes)?;
        Ok(match end {
            End::Sender => Self::Send(world.send_init(buffer, *peer, LINK)?),
            End::Receiver => Self::Recv(world.recv_init(buffer, *peer, LINK)?),
        })
    }
}

impl Link for Persistent {
    const NAME: &'static str = "persistent";

    fn message(&mut self) -> &mut [u8] {
        match self {
            Self::Send(send) => send.buffer_mut(),
            Self::Recv(recv) => recv.buffer_mut(),
        }
    }

    fn start(&mut self) -> Result<(), BenchError> {
        let _ = match self {
            Self::Send(send) => send.start()?,
            Self::Recv(recv) => recv.start()?,
        };
        Ok(())
    }

    fn wait(&mut self) -> Result<(), BenchError> {
        let active = match self {
            Self::Send(send) => send.active(),
            Self::Recv(recv) => recv.active(),
        };
        active.ok_or(Error::Inactive)?.wait()?;
        Ok(())
    }
}

pub(crate) struct OneShot {
    pair: Pair,
    end: End,
    /// `None` while the message is on its way.
    buffer: Option<Buffer<u8>>,
    pending: Option<Pending<u8>>,
}

impl OneShot {
    pub(crate) fn new(pair: &Pair, end: End, bytes: usize) -> Result<Self, BenchError> {
        Ok(Self { buffer: Some(pair.world.alloc(bytes)?), pending: None, end, pair: pair.clone() })
    }
}

impl Link for OneShot {
    const NAME: &'static str = "oneshot";

    fn message(&mut self) -> &mut [u8] {
        self.buffer.as_mut().expect("nobody looks at a message on its way")
    }

    fn start(&mut self) -> Result<(), BenchError> {
        let Pair { world, peer, .. } = &self.pair;
        let buffer = self.buffer.take().expect("one message at a time");
        self.pending = Some(match self.end {
            End::Sender => world.isend(buffer, *peer, LINK)?,
            End::Receiver => world.irecv(buffer, *peer, LINK)?,
        });
        Ok(())
    }

    fn wait(&mut self) -> Result<(), BenchError> {
        let pending = self.pending.take().ok_or(Error::Inactive)?;
        self.buffer = Some(pending.wait()?.0);
        Ok(())
    }
}

const LINK: i32 = 4;
