//! What comes over a wire: received into a buffer, and handed to the channels it is for.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use ropeway_proto::wire::WIRE_HEADER_BYTES;
use ropeway_proto::{End, WireFrame};

use super::order::Arrival;
use super::straight::{FRONT_BYTES, is_large};
use super::{BUFFER_BYTES, BUFFERS_BYTES, HEADER_BYTES, WORDS_BYTES, Wire, WireChannels, buffer_of, holder};
use crate::mapped;
use crate::vectored::{is_readable, receive, set_receive_low_water};
use crate::wired::WireViolation;

/// So much of a message that has come in part is moved, as more may come at once then.
const MOVED_BYTES: u32 = 4 << 10;
/// Of less the rest has most often come when the daemon is awake.
const LOW_WATER_MIN: u32 = 4 << 10;
/// When no more than that is missing of a message it is looked for at once.
const TAIL_BYTES: u32 = 4 << 10;

/// What receiving has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Messages, and credit for others.
    pub frames: u32,
    /// Credit was among it: channels may have become able to send.
    pub has_credit: bool,
    /// Somebody else was at it.
    pub is_busy: bool,
    /// Bytes that are missing of a message of which a part has come.
    pub missing: u32,
    /// The buffer was full: there may be more.
    pub is_full: bool,
    /// The other side has ended a channel, or the connection is lost: the daemon has something to do.
    pub has_ended: bool,
    /// A message was among it that is worth receiving straight.
    pub(super) has_large: bool,
    /// Bytes that have come in front of the payload of a message of which a part has come, if nothing was there before.
    pub(super) front: Option<u32>,
    /// From where to where in the buffer what is left lies.
    pub(super) left: [u32; 2],
}

impl Received {
    /// Together with what has come after it.
    pub(super) fn and(self, later: Self) -> Self {
        Self {
            frames: self.frames + later.frames,
            has_credit: self.has_credit || later.has_credit,
            has_ended: self.has_ended || later.has_ended,
            ..later
        }
    }
}

impl Wire {
    /// Receives what has come, unless somebody else is at it. Says what that was.
    pub fn receive(&self, channels: &mut impl WireChannels) -> Received {
        let nothing = Received::default();
        let Some(socket) = self.socket.get().filter(|_| !self.is_broken()) else { return nothing };
        let input = &self.words().input;
        if !input.turn.take(self.holder) {
            return Received { is_busy: true, ..nothing };
        }
        let result = self.receive_all(socket, channels);
        if let Ok(received) = &result
            && received.frames + received.missing > 0
        {
            self.settle_low_water(socket, received.missing);
        }
        input.turn.give_back();
        result.unwrap_or_else(|_| {
            self.break_off();
            Received { has_ended: true, ..nothing }
        })
    }

    /// Whether there is anything to be received. Nobody's turn: who asks and is stopped meanwhile keeps nobody from receiving.
    pub fn has_come(&self) -> bool {
        self.socket.get().is_some_and(|socket| is_readable(socket.as_fd()))
    }

    fn receive_all(&self, socket: &OwnedFd, channels: &mut impl WireChannels) -> Result<Received, WireViolation> {
        if self.words().input.is_empty()
            && let Some(received) = self.receive_foreseen(socket, channels)?
        {
            return Ok(received);
        }
        if self.comes_whole() {
            return self.receive_front(socket, channels);
        }
        let begins = self.words().input.is_empty();
        let received = self.receive_to_the_end(socket, channels)?;
        if begins && received.has_large {
            self.set_comes_whole(true);
        }
        Ok(received)
    }

    /// With one system call, or with two if the end of a message has not come with the rest: the largest are a little longer than a packet of
    /// loopback is, and the second one is just coming.
    pub(super) fn receive_to_the_end(
        &self,
        socket: &OwnedFd,
        channels: &mut impl WireChannels,
    ) -> Result<Received, WireViolation> {
        let received = self.receive_some(socket, BUFFER_BYTES, channels)?.unwrap_or_default();
        if !(1..=TAIL_BYTES).contains(&received.missing) {
            return Ok(received);
        }
        let later = self.receive_some(socket, BUFFER_BYTES, channels)?;
        Ok(later.map_or(received, |later| received.and(later)))
    }

    /// Receives so many bytes at most. `None` if nothing has come.
    pub(super) fn receive_some(
        &self,
        socket: &OwnedFd,
        bytes_max: u32,
        channels: &mut impl WireChannels,
    ) -> Result<Option<Received>, WireViolation> {
        let input = &self.words().input;
        // Of what was left the rest fits behind it.
        let Range { start, end } = input.filled();
        let room = bytes_max.min(buffer_of(start).end - end);
        input.count_system_call();
        // SAFETY: the range is the free part of our mapped buffer, of which nobody holds a reference.
        let received = unsafe { receive(socket.as_fd(), self.input.add(end as usize), room as usize) };
        match received.map(|received| received as u32) {
            Ok(0) => Err(WireViolation),
            Ok(received) => {
                let taken = self.take_in(start..end + received, (start == end).then_some(0), channels)?;
                Ok(Some(Received { is_full: received == room, ..taken }))
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(WireViolation),
            },
        }
    }

    /// Makes of these bytes what can be made of them, and keeps the rest. `in_front`: bytes that have come with them in front of them; `None` if
    /// they begin with a part of a frame that had come before.
    pub(super) fn take_in(
        &self,
        filled: Range<u32>,
        in_front: Option<u32>,
        channels: &mut impl WireChannels,
    ) -> Result<Received, WireViolation> {
        let (buffer, end) = (buffer_of(filled.start), filled.end);
        let mut received = Received::default();
        let mut at = filled.start;
        while end - at >= HEADER_BYTES {
            let payload = at + HEADER_BYTES;
            let before = at;
            let front = || Some(in_front? + payload - filled.start).filter(|&front| front <= FRONT_BYTES);
            match self.header(at)? {
                WireFrame::Message { bytes, .. } if end - payload < bytes => {
                    received.front = front();
                    received.missing = bytes - (end - payload);
                    break;
                }
                WireFrame::Message { channel, number, bytes } => {
                    // SAFETY: the message is all there.
                    let from = unsafe { self.input.add(payload as usize) };
                    let offset = self.block + WORDS_BYTES + BUFFERS_BYTES + u64::from(payload);
                    let open = channels.find(channel).ok_or(WireViolation)?;
                    open.deliver(number, bytes, (from, offset))?;
                    self.expect(open.channel().end(End::Recv).local_rank);
                    if is_large(bytes) {
                        let is_whole = in_front.is_some() || at > filled.start;
                        self.learn_order((channel, number), Arrival { front: front(), is_whole }, channels);
                    }
                    received.has_large |= is_large(bytes);
                    at = payload + bytes;
                }
                WireFrame::Taken { channel, count } => {
                    channels.find(channel).ok_or(WireViolation)?.grant(count)?;
                    received.has_credit = true;
                    at = payload;
                }
                WireFrame::End { channel, why } => {
                    channels.find(channel).ok_or(WireViolation)?.end(why)?;
                    received.has_ended = true;
                    at = payload;
                }
            }
            received.frames += u32::from(at > before);
        }
        let input = &self.words().input;
        let mut left = self.keep(&buffer, at..end, received.missing);
        input.set_filled(&mut left);
        received.left = [left.start, left.end];
        input.count(received.frames, at - filled.start);
        Ok(received)
    }

    /// The header at this place of the buffer, which is filled.
    pub(super) fn header(&self, at: u32) -> Result<WireFrame, WireViolation> {
        let mut header = [0; WIRE_HEADER_BYTES];
        // SAFETY: the range is filled, and the header is ours.
        unsafe {
            mapped::copy(self.input.add(at as usize), NonNull::from(&mut header).cast(), WIRE_HEADER_BYTES);
        }
        WireFrame::decode(&header).map_err(|_| WireViolation)
    }

    /// Sees to it that these bytes of a frame can be completed: where they are then. Many stay where they lie if the rest fits behind them,
    /// others are moved to the front. To move almost a whole message by the few bytes of what came before it takes longer than to receive it,
    /// as string copies that overlap closely go byte by byte.
    fn keep(&self, buffer: &Range<u32>, Range { start, end }: Range<u32>, missing: u32) -> Range<u32> {
        let kept = end - start;
        if kept > MOVED_BYTES && missing <= buffer.end - end {
            return start..end;
        }
        // SAFETY: both ranges lie in the buffer, and a copy to lower addresses may overlap.
        unsafe { mapped::copy(self.input.add(start as usize), self.input.add(buffer.start as usize), kept as usize) };
        buffer.start..buffer.start + kept
    }

    /// After receiving: while much of a message is missing the daemon is woken when it is there, and not for every packet, as each
    /// wake-up takes the core from a rank that computes. Ranks look without being woken, and may go on with what the daemon had begun.
    fn settle_low_water(&self, socket: &OwnedFd, missing: u32) {
        let is_daemon = self.holder == holder(None);
        let wanted = if is_daemon && missing >= LOW_WATER_MIN { missing } else { 0 };
        let low_water = &self.words().watch.low_water;
        if low_water.load(Ordering::Relaxed) != wanted {
            low_water.store(wanted, Ordering::Relaxed);
            // A connection that is there takes any; that one is lost is found by who receives.
            let _ = set_receive_low_water(socket.as_fd(), wanted.max(1));
        }
    }
}
