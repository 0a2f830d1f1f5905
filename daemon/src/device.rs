//! The contract of a device: what moves frames between two engines.
//!
//! A device serves one link. Each duty cycle asks it to [`progress`](Device::progress): it pulls what the link's
//! [`Traffic`] has to send, and pushes what has arrived. It never blocks and never does more than a bounded amount of
//! work, so that no link delays another. Payload goes straight from the sender's buffer to the place the receiving engine
//! names; a device that has to copy on the way counts it.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use ropeway_engine::{Arrival, ProtocolError, Token};
use ropeway_proto::frame::DecodeError;
use ropeway_proto::{Frame, JobId, Layout};
use ropeway_shm::{Counter, JobSegment, OutOfBounds};

#[cfg(test)]
mod conformance;
mod loopback;
mod shm;
mod tcp;

pub use loopback::LoopbackDevice;
pub use shm::ShmDevice;
pub use tcp::{Readiness, TcpDevice};

/// A frame on its way out.
pub struct Outbound {
    /// The job it belongs to.
    pub job: JobId,
    /// What it says.
    pub frame: Frame,
    /// Where its payload lies: memory, layout and packed position.
    pub payload: Option<(Arc<JobSegment>, Layout, u64)>,
    /// To be reported when the payload is needed no more.
    pub token: Option<Token>,
}

/// Where an arriving payload goes.
pub enum Target {
    /// Into a bound buffer, from packed position `at`.
    Buffer {
        /// The job's memory.
        segment: Arc<JobSegment>,
        /// The buffer.
        layout: Layout,
        /// Packed position of the first byte.
        at: u64,
    },
    /// Into memory of the daemon, given back with [`Traffic::arrived`].
    Stash(Vec<u8>),
    /// Nowhere.
    Discard,
}

/// A frame that has arrived, waiting for its payload.
pub struct Inbound {
    /// The job it belongs to.
    pub job: JobId,
    /// Where the payload goes.
    pub target: Target,
    /// What to report once it is there.
    pub arrival: Arrival,
}

impl Inbound {
    /// A frame of a job that is not, or no longer, here.
    pub fn unwanted(job: JobId) -> Self {
        Self { job, target: Target::Discard, arrival: Arrival::Nothing }
    }
}

/// What is behind a device on this side: the engines.
pub trait Traffic {
    /// The next frame for the link, if any.
    fn poll(&mut self) -> Option<Outbound>;
    /// A payload is needed no more.
    fn transmitted(&mut self, job: JobId, token: Token, bytes: u64);
    /// A frame has arrived; says where its payload goes.
    fn accept(&mut self, job: JobId, frame: Frame) -> Result<Inbound, LinkError>;
    /// A frame's payload is complete.
    fn arrived(&mut self, inbound: Inbound);
    /// Whether a large message that was asked for is to come: its last piece has not begun to.
    fn is_large_due(&self) -> bool;
    /// Counts a fact.
    fn count(&mut self, counter: Counter, amount: u64);
}

/// A payload, or a part of one, was copied in user space on its way.
fn count_copy(traffic: &mut dyn Traffic, bytes: u64) {
    traffic.count(Counter::PayloadCopies, 1);
    traffic.count(Counter::PayloadBytesCopied, bytes);
}

/// Why a link can't go on.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The peer has closed it.
    #[error("the peer closed the link")]
    Closed,
    /// Nothing was heard for the link timeout.
    #[error("the peer was silent for {0:?}")]
    Silent(std::time::Duration),
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What arrived is not a frame.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A frame is missing or doubled.
    #[error("frame {found} arrived where {expected} was due")]
    Sequence {
        /// Its number.
        found: u64,
        /// The number that was due.
        expected: u64,
    },
    /// The frame makes no sense to the engine.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// A layout points outside of the segment. Layouts are checked when they come in, so this is a bug of ours.
    #[error(transparent)]
    OutOfBounds(#[from] OutOfBounds),
}

impl LinkError {
    /// Whether the other side is gone: what has come from it before is as good as ever. Not if it lives and is cut off.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self, Self::Closed | Self::Io(_))
    }
}

/// Moves the frames of one link.
pub trait Device {
    /// Sends and receives what is possible now, within a bound. Says how much was done; zero means idle.
    fn progress(&mut self, traffic: &mut dyn Traffic, now: Instant) -> Result<usize, LinkError>;

    /// The frame whose payload is incomplete. What is left of it can be given another target, or will never come if the
    /// link has broken.
    fn arriving(&mut self) -> Option<&mut Inbound>;
}

/// Any device. The set is closed, so dispatch is a `match` and a reader sees all of it.
pub enum AnyDevice {
    /// Between ranks of this node.
    Shm(ShmDevice),
    /// To another node.
    Tcp(Box<TcpDevice>),
    /// To another engine of this process, for tests.
    Loopback(LoopbackDevice),
}

impl Device for AnyDevice {
    fn progress(&mut self, traffic: &mut dyn Traffic, now: Instant) -> Result<usize, LinkError> {
        match self {
            Self::Shm(device) => device.progress(traffic, now),
            Self::Tcp(device) => device.progress(traffic, now),
            Self::Loopback(device) => device.progress(traffic, now),
        }
    }

    fn arriving(&mut self) -> Option<&mut Inbound> {
        match self {
            Self::Shm(device) => device.arriving(),
            Self::Tcp(device) => device.arriving(),
            Self::Loopback(device) => device.arriving(),
        }
    }
}
