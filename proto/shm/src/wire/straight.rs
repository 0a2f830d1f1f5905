//! Large messages received straight into the buffers of their receives.
//!
//! ```text
//!  connection  | header | message ...                                | header | ...
//!                 │        └── the rest: the receive's buffer            │
//!                 └── the front: the wire's buffer                       └── behind it: the wire's buffer again
//! ```
//!
//! Where large messages come as a whole only a header and little more is received into the wire's buffer, and the rest goes where it belongs:
//! one more system call instead of a copy. Nothing of that outlasts the turn. What has not come soon goes on in the wire's
//! buffer, and so does what follows, until a message is there as a whole again.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use ropeway_proto::{End, Layout, WireFrame};

use super::order::Arrival;
use super::receive::Received;
use super::{BUFFER_BYTES, BUFFERS_BYTES, HEADER_BYTES, Stream, WORDS_BYTES, Wire, WireChannels, buffer_of};
use crate::channel::OpenChannel;
use crate::vectored::Scatter;
use crate::wired::WireViolation;

/// Copying so many bytes takes longer than a system call.
const LARGE_BYTES: u32 = 32 << 10;
/// A header and what small frames come before it.
pub(super) const FRONT_BYTES: u32 = 256;
/// Looks at what comes just now: the last packet of a message takes no longer than a few.
const LOOKS: u32 = 8;

/// Whether a message is worth receiving straight.
pub(super) fn is_large(bytes: u32) -> bool {
    bytes >= LARGE_BYTES
}

/// A message that has begun in the buffer, and whose receive's buffer we have.
pub(super) struct Begun {
    pub(super) channel: u16,
    pub(super) number: u32,
    pub(super) bytes: u32,
    /// The part of it that is in the wire's buffer, behind its header.
    pub(super) part: Range<u32>,
    /// Where in the buffer what follows it is put.
    pub(super) behind: u32,
    /// Bytes that have come with it in front of its payload, if that is known.
    pub(super) front: Option<u32>,
}

/// What has come behind a message.
struct Behind {
    filled: Range<u32>,
    /// There may be more: all there was room for has come, or nothing was asked for.
    is_full: bool,
}

impl Stream {
    pub(super) fn is_empty(&self) -> bool {
        self.start.load(Ordering::Relaxed) == self.end.load(Ordering::Relaxed)
    }
}

impl Wire {
    /// Whether large messages come as a whole.
    pub(super) fn comes_whole(&self) -> bool {
        self.words().input.comes_whole.load(Ordering::Relaxed) != 0
    }

    pub(super) fn set_comes_whole(&self, comes_whole: bool) {
        self.words().input.comes_whole.store(comes_whole.into(), Ordering::Relaxed);
    }

    /// Receives a little, and where a large message begins there, the rest of it.
    pub(super) fn receive_front(
        &self,
        socket: &OwnedFd,
        channels: &mut impl WireChannels,
    ) -> Result<Received, WireViolation> {
        let mut front = Received::default();
        if self.words().input.is_empty() {
            front = self.receive_some(socket, FRONT_BYTES, channels)?.unwrap_or_default();
            if front.missing == 0 {
                return Ok(front);
            }
        }
        let later = match self.begun(channels)? {
            Some(begun) => {
                let come = begun.part.len() as u32;
                self.receive_begun(socket, &Begun { front: front.front, ..begun }, come, channels)?
            }
            None => self.receive_otherwise(socket, channels)?,
        };
        Ok(front.and(later))
    }

    /// Goes on with a message of which `come` bytes have come, whose receive's buffer we have.
    pub(super) fn receive_begun(
        &self,
        socket: &OwnedFd,
        begun: &Begun,
        come: u32,
        channels: &mut impl WireChannels,
    ) -> Result<Received, WireViolation> {
        let &Begun { channel, number, bytes, front, .. } = begun;
        let open = channels.find(channel).ok_or(WireViolation)?;
        let Some(behind) = self.receive_rest(socket, open, begun, come)? else {
            return self.receive_otherwise(socket, channels);
        };
        self.learn_order((channel, number), Arrival { front, is_whole: true }, channels);
        let taken = self.take_in(behind.filled, Some(front.unwrap_or(0) + bytes), channels)?;
        Ok(Received { frames: taken.frames + 1, is_full: behind.is_full, ..taken })
    }

    /// A large message does not come as a whole, or its receive has not started.
    fn receive_otherwise(&self, socket: &OwnedFd, channels: &mut impl WireChannels) -> Result<Received, WireViolation> {
        self.set_comes_whole(false);
        match self.receive_some(socket, BUFFER_BYTES, channels)? {
            Some(later) => Ok(later),
            // To know what is missing.
            None => self.take_in(self.words().input.filled(), None, channels),
        }
    }

    /// The message of which a part is in the buffer, if it is large and its receive has started.
    fn begun(&self, channels: &mut impl WireChannels) -> Result<Option<Begun>, WireViolation> {
        let Range { start, end } = self.words().input.filled();
        if end - start < HEADER_BYTES {
            return Ok(None);
        }
        let WireFrame::Message { channel, number, bytes } = self.header(start)? else { return Ok(None) };
        let part = start + HEADER_BYTES..end;
        // Whatever comes of it, it finds room here: the rest, or what is behind it.
        let room = buffer_of(start).end - end;
        if !is_large(bytes) || bytes <= end - part.start || room < bytes.max(FRONT_BYTES) {
            return Ok(None);
        }
        let open = channels.find(channel).ok_or(WireViolation)?;
        let begun = Begun { channel, number, bytes, behind: part.end, part, front: None };
        Ok(open.claim_receive(number, bytes)?.then_some(begun))
    }

    /// Receives the rest of a message into its receive's buffer, if it is coming now, and says what has come behind it. `None` if it is not: what has come is in the wire's buffer.
    fn receive_rest(
        &self,
        socket: &OwnedFd,
        open: &OpenChannel,
        begun: &Begun,
        mut come: u32,
    ) -> Result<Option<Behind>, WireViolation> {
        let &Begun { number, bytes, ref part, behind, .. } = begun;
        let (input, in_front, layout) = (&self.words().input, part.len() as u32, open.channel().end(End::Recv).layout);
        open.copy_part(&self.input_at(part.start, in_front), 0, &layout, 0, in_front.into());
        let (mut result, mut asks_behind) = (Ok(None), true);
        let mut looks = 0..LOOKS;
        while come < bytes && result.is_ok() && looks.next().is_some() {
            input.count_system_call();
            match self.read_rest(socket, &layout, begun, come) {
                Ok((read, has_asked)) => (come, asks_behind) = (come + read, has_asked),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => result = Err(WireViolation),
            }
        }
        if come < bytes {
            let more = come - in_front;
            open.copy_part(&layout, in_front.into(), &self.input_at(part.end, more), 0, more.into());
            input.set_filled(&mut (part.start - HEADER_BYTES..part.end + more));
            open.unclaim_receive(number);
            return result;
        }
        open.placed(number);
        self.expect(open.channel().end(End::Recv).local_rank);
        input.count(1, HEADER_BYTES + bytes);
        let more = come - bytes;
        Ok(Some(Behind { filled: behind..behind + more, is_full: more == FRONT_BYTES || !asks_behind }))
    }

    /// Reads what follows the first `come` bytes of a message, with a little of what is behind it. Says how many bytes that were, and whether
    /// it has asked for any behind the message.
    fn read_rest(&self, socket: &OwnedFd, layout: &Layout, begun: &Begun, come: u32) -> io::Result<(u32, bool)> {
        let missing = u64::from(begun.bytes - come);
        let mut scatter = Scatter::new();
        let asked = scatter.push_memory(&self.job, layout, come.into(), missing).map_err(io::Error::other)?;
        // Of a layout with many pieces some may be left over, or just none, but no room for another one.
        let mut asks_behind = asked == missing;
        if asks_behind {
            let behind = self.input_at(begun.behind, FRONT_BYTES);
            asks_behind = scatter.push_memory(&self.job, &behind, 0, FRONT_BYTES.into()).map_err(io::Error::other)? > 0;
        }
        match scatter.read(socket.as_fd())? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok((read as u32, asks_behind)),
        }
    }

    /// Where a part of the buffer lies.
    pub(super) fn input_at(&self, at: u32, bytes: u32) -> Layout {
        Layout::contiguous(self.block + WORDS_BYTES + BUFFERS_BYTES + u64::from(at), bytes.into())
    }
}
