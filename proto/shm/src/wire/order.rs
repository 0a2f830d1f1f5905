//! Messages that are received where they belong with one system call, because they come in the order in which they came before.
//!
//! ```text
//!  connection  | credit, header | message ...                 | ...
//!                 │                └── the receive's buffer      │
//!                 └── the wire's buffer                          └── the wire's buffer, behind room for the message
//! ```
//!
//! Programs that do the same again and again send their messages in the same order. So a wire remembers which large message came after
//! which, and how much was in front of it. When the receive of the next one has started, its buffer is handed to the kernel for
//! what comes behind so much. If something else has come, it is copied to where it would be otherwise, and nothing is foreseen until the
//! order has been right again for a few times.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use ropeway_proto::limits::WIRE_BYTES_MAX;
use ropeway_proto::{End, WireFrame};

use super::receive::Received;
use super::straight::{Begun, FRONT_BYTES, is_large};
use super::{BUFFER_BYTES, HEADER_BYTES, Wire, WireChannels, buffer_of};
use crate::vectored::Scatter;
use crate::wired::WireViolation;

/// So many messages in a row have come in the order that was known.
const LUCK: u32 = 2;

const _: () = assert!(WIRE_BYTES_MAX + 2 * FRONT_BYTES as u64 <= BUFFER_BYTES as u64);

/// In which order large messages come, for whoever receives.
#[repr(C, align(64))]
pub(super) struct Order {
    /// Channel of the last one, plus one; zero before the first.
    last: AtomicU32,
    /// Channel of the next one, plus one.
    next: AtomicU32,
    /// How many in a row have come as it was foreseen.
    luck: AtomicU32,
}

/// How a message has come.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    /// Bytes in front of its payload, since the connection had nothing more: `None` if they are many, or unknown.
    pub(super) front: Option<u32>,
    /// All of it was there at once.
    pub(super) is_whole: bool,
}

/// A message that is likely to come next, whose receive's buffer we have.
struct Foreseen {
    channel: u16,
    number: u32,
    bytes: u32,
    front: u32,
}

impl Order {
    pub(super) fn reset(&self) {
        let Self { last, next, luck } = self;
        [last, next, luck].iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

impl Wire {
    /// A large message of this channel has come.
    pub(super) fn learn_order(
        &self,
        (channel, number): (u16, u32),
        arrival: Arrival,
        channels: &mut impl WireChannels,
    ) {
        let Order { last, next, luck } = &self.words().order;
        let name = u32::from(channel) + 1;
        let before = last.load(Ordering::Relaxed).checked_sub(1).and_then(|before| u16::try_from(before).ok());
        if let Some(words) = before.and_then(|before| channels.find(before)).and_then(|open| open.order()) {
            words.follower.store(name, Ordering::Relaxed);
        }
        last.store(name, Ordering::Relaxed);
        let Some(words) = channels.find(channel).and_then(|open| open.order()) else { return };
        let known = &words.fronts[number as usize % 2];
        let front = arrival.front.unwrap_or_else(|| known.load(Ordering::Relaxed));
        let is_right = next.load(Ordering::Relaxed) == name && known.load(Ordering::Relaxed) == front;
        known.store(front, Ordering::Relaxed);
        let times = if is_right && arrival.is_whole { luck.load(Ordering::Relaxed).saturating_add(1) } else { 0 };
        luck.store(times, Ordering::Relaxed);
        let follower = words.follower.load(Ordering::Relaxed);
        next.store(if follower > 0 { follower } else { name }, Ordering::Relaxed);
    }

    /// Receives the message that is likely to come, and what is around it. `None` if nobody knows which, or its receive has not started.
    /// The wire's buffer is empty.
    pub(super) fn receive_foreseen(
        &self,
        socket: &OwnedFd,
        channels: &mut impl WireChannels,
    ) -> Result<Option<Received>, WireViolation> {
        let Some(foreseen) = self.foresee(channels) else { return Ok(None) };
        let start = buffer_of(self.words().input.filled().start).start;
        let result = self.receive_around(socket, &foreseen, start, channels);
        if result.is_err()
            && let Some(open) = channels.find(foreseen.channel)
        {
            // If it has not come.
            open.void_claim();
        }
        result.map(Some)
    }

    fn foresee(&self, channels: &mut impl WireChannels) -> Option<Foreseen> {
        let Order { next, luck, .. } = &self.words().order;
        if luck.load(Ordering::Relaxed) < LUCK {
            return None;
        }
        let channel = u16::try_from(next.load(Ordering::Relaxed).checked_sub(1)?).ok()?;
        let open = channels.find(channel)?;
        let bytes = open.channel().bytes() as u32;
        if !is_large(bytes) || open.channel().end(End::Recv).layout.blocks != 1 {
            return None;
        }
        let fronts = &open.order()?.fronts;
        let number = open.claim_next()?;
        // Whatever others may have written there.
        let front = fronts[number as usize % 2].load(Ordering::Relaxed).clamp(HEADER_BYTES, FRONT_BYTES);
        Some(Foreseen { channel, number, bytes, front })
    }

    fn receive_around(
        &self,
        socket: &OwnedFd,
        foreseen: &Foreseen,
        start: u32,
        channels: &mut impl WireChannels,
    ) -> Result<Received, WireViolation> {
        let &Foreseen { channel, number, bytes, front } = foreseen;
        let behind = start + front + bytes;
        let open = channels.find(channel).ok_or(WireViolation)?;
        let mut scatter = Scatter::new();
        let places = [
            (self.input_at(start, front), front),
            (open.channel().end(End::Recv).layout, bytes),
            (self.input_at(behind, FRONT_BYTES), FRONT_BYTES),
        ];
        for (layout, bytes) in places {
            scatter.push_memory(&self.job, &layout, 0, bytes.into()).map_err(|_| WireViolation)?;
        }
        self.words().input.count_system_call();
        let read = match scatter.read(socket.as_fd()) {
            Ok(0) => return Err(WireViolation),
            Ok(read) => read as u32,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                open.unclaim_receive(number);
                return Ok(Received::default());
            }
            Err(_) => return Err(WireViolation),
        };
        let before = self.take_in(start..start + read.min(front), Some(0), channels)?;
        // What lies in shared memory others could have changed by now.
        let [left_start, left_end] = before.left;
        let left = left_start..left_end;
        let header = WireFrame::Message { channel, number, bytes };
        let is_it = read >= front && left.len() == HEADER_BYTES as usize && self.header(left.start)? == header;
        let come = read.saturating_sub(front);
        let later = if is_it {
            let begun = Begun { channel, number, bytes, part: left.end..left.end, behind, front: Some(front) };
            self.receive_begun(socket, &begun, come, channels)?
        } else {
            self.put_back(foreseen, left, (behind, come), channels)?
        };
        Ok(Received { is_full: come == bytes + FRONT_BYTES, ..before.and(later) })
    }

    /// Something else has come than was foreseen: `come` bytes of it where the message would be and `behind` that.
    fn put_back(
        &self,
        foreseen: &Foreseen,
        left: Range<u32>,
        (behind, come): (u32, u32),
        channels: &mut impl WireChannels,
    ) -> Result<Received, WireViolation> {
        let open = channels.find(foreseen.channel).ok_or(WireViolation)?;
        let in_buffer = come.min(foreseen.bytes);
        let layout = open.channel().end(End::Recv).layout;
        open.copy_part(&layout, 0, &self.input_at(left.end, in_buffer), 0, in_buffer.into());
        let (more, end) = (come - in_buffer, left.end + in_buffer);
        open.copy_part(&self.input_at(behind, more), 0, &self.input_at(end, more), 0, more.into());
        open.unclaim_receive(foreseen.number);
        if come == 0 {
            return Ok(Received::default());
        }
        if come > FRONT_BYTES {
            self.words().order.luck.store(0, Ordering::Relaxed);
        }
        let in_front = foreseen.front - left.len() as u32;
        self.take_in(left.start..end + more, Some(in_front), channels)
    }
}
