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

use super::receive::Received;
use super::{BUFFER_BYTES, BUFFERS_BYTES, HEADER_BYTES, Stream, WORDS_BYTES, Wire, WireChannels, buffer_of};
use crate::channel::OpenChannel;
use crate::vectored::Scatter;
use crate::wired::WireViolation;

/// Copying so many bytes takes longer than a system call.
const LARGE_BYTES: u32 = 32 << 10;
/// A header and what small frames come before it.
const FRONT_BYTES: u32 = 256;
/// Looks at what comes just now: the last packet of a message takes no longer than a few.
const LOOKS: u32 = 8;

/// Whether a message is worth receiving straight.
pub(super) fn is_large(bytes: u32) -> bool {
    bytes >= LARGE_BYTES
}

/// A message that has begun in the buffer, and whose receive's buffer we have.
struct Begun<'a> {
    open: &'a OpenChannel,
    number: u32,
    bytes: u32,
    /// The part of it that is in the wire's buffer.
    part: Range<u32>,
}

impl Begun<'_> {
    /// Where it belongs.
    fn layout(&self) -> Layout {
        self.open.channel().end(End::Recv).layout
    }

    fn part_bytes(&self) -> u32 {
        self.part.end - self.part.start
    }
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
        let behind = match self.begun(channels)? {
            Some(begun) => self.receive_rest(socket, &begun)?,
            None => None,
        };
        let later = match behind {
            Some(behind) => {
                let is_full = behind.end - behind.start == FRONT_BYTES;
                let taken = self.take_in(behind, channels)?;
                Received { frames: taken.frames + 1, is_full, ..taken }
            }
            None => {
                self.set_comes_whole(false);
                match self.receive_some(socket, BUFFER_BYTES, channels)? {
                    Some(later) => later,
                    // To know what is missing.
                    None => self.take_in(self.words().input.filled(), channels)?,
                }
            }
        };
        Ok(front.and(later))
    }

    /// The message of which a part is in the buffer, if it is large and its receive has started.
    fn begun<'a>(&self, channels: &'a mut impl WireChannels) -> Result<Option<Begun<'a>>, WireViolation> {
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
        Ok(open.claim_receive(number, bytes)?.then_some(Begun { open, number, bytes, part }))
    }

    /// Receives the rest of a message into its receive's buffer, if it is coming now, and says where in the wire's buffer is what has come
    /// behind it. `None` if it is not: what has come is in the wire's buffer.
    fn receive_rest(&self, socket: &OwnedFd, begun: &Begun<'_>) -> Result<Option<Range<u32>>, WireViolation> {
        let &Begun { open, number, bytes, ref part } = begun;
        let (input, in_front) = (&self.words().input, begun.part_bytes());
        open.copy_part(&self.input_at(part.start, in_front), 0, &begun.layout(), 0, in_front.into());
        let mut come = in_front;
        let mut result = Ok(None);
        for _ in 0..LOOKS {
            input.count_system_call();
            match self.read_rest(socket, begun, come) {
                Ok(read) => come += read,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => result = Err(WireViolation),
            }
            if come >= bytes || result.is_err() {
                break;
            }
        }
        if come < bytes {
            let more = come - in_front;
            open.copy_part(&begun.layout(), in_front.into(), &self.input_at(part.end, more), 0, more.into());
            input.set_filled(&mut (part.start - HEADER_BYTES..part.end + more));
            open.unclaim_receive(number);
            return result;
        }
        open.placed(number);
        self.expect(open.channel().end(End::Recv).local_rank);
        input.count(1, HEADER_BYTES + bytes);
        Ok(Some(part.end..part.end + (come - bytes)))
    }

    /// Reads what follows the first `come` bytes of a message, with a little of what is behind it.
    fn read_rest(&self, socket: &OwnedFd, begun: &Begun<'_>, come: u32) -> io::Result<u32> {
        let missing = u64::from(begun.bytes - come);
        let mut scatter = Scatter::new();
        let asked = scatter.push_memory(&self.job, &begun.layout(), come.into(), missing).map_err(io::Error::other)?;
        // Of a layout with many pieces some may be left over.
        if asked == missing {
            let behind = self.input_at(begun.part.end, FRONT_BYTES);
            scatter.push_memory(&self.job, &behind, 0, FRONT_BYTES.into()).map_err(io::Error::other)?;
        }
        match scatter.read(socket.as_fd())? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read as u32),
        }
    }

    /// Where a part of the buffer lies.
    fn input_at(&self, at: u32, bytes: u32) -> Layout {
        Layout::contiguous(self.block + WORDS_BYTES + BUFFERS_BYTES + u64::from(at), bytes.into())
    }
}
