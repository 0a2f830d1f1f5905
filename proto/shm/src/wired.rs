//! A channel whose other end is on another node: an eager channel on each side, of which the wire is the other end.
//!
//! ```text
//!  sender ─► cells ─► [out] ═══ connection ═══ [in] ─► cells or the receiver's buffer ─► receiver
//!            sender's node                             receiver's node
//! ```
//!
//! Sender and receiver do what they would do with a peer on their own node. Whoever works the wire ([`Wire`](crate::Wire))
//! plays the other end: it takes messages out of the sender's cells while the receiver's node has free ones, which it knows
//! from the counts that come back.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use ropeway_proto::{End, Layout, NodeId, Rank, Status};

use crate::channel::{INLINE_BYTES, OpenChannel};
use crate::eager::{CellWord, EagerMemory, EagerReceiver, EagerSender, EagerWords, Progress};
use crate::mapped;

/// What a channel's header says of its wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WiredEnd {
    /// Where the wire lies in the segment.
    pub wire: u64,
    /// The channel's name on this side of it.
    pub index: u16,
    /// Which end of the channel is here.
    pub end: End,
    /// The rank at the other end.
    pub peer: Rank,
    /// And its node.
    pub node: NodeId,
}

/// What whoever works the wire knows of a channel. Written by the holder of a turn only: the first line by who sends, the
/// second by who receives.
#[repr(C)]
pub(crate) struct WiredWords {
    out: OutWords,
    input: InWords,
}

#[repr(C, align(64))]
struct OutWords {
    /// The channel's name on the other side.
    peer_index: AtomicU32,
    /// Messages handed to the connection.
    sent: AtomicU32,
    /// Messages taken here that the other side was told of.
    announced: AtomicU32,
    /// One when this side has said its last word, after which the other may forget the channel.
    is_said: AtomicU32,
}

#[repr(C, align(64))]
struct InWords {
    /// Messages that have come.
    delivered: AtomicU32,
    /// Messages the other side has taken, as it says.
    granted: AtomicU32,
    /// Status code of the other side's last word, plus one; zero before it has come.
    ended: AtomicU32,
    order: OrderWords,
}

/// In which order messages come, as far as this channel's are concerned.
#[repr(C)]
pub(crate) struct OrderWords {
    /// Whose message came after this channel's the last time: its name plus one, zero before the first.
    pub(crate) follower: AtomicU32,
    /// Bytes in front of the payload of the last message with an even number, and with an odd one: credit comes with every other one. Zero
    /// before the first.
    pub(crate) fronts: [AtomicU32; 2],
}

pub(crate) const WIRED_BYTES: u64 = size_of::<WiredWords>() as u64;

/// What the peer said of a channel can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other side of a wire says what can't be")]
pub struct WireViolation;

impl WiredWords {
    pub(crate) fn reset(&self) {
        let OutWords { peer_index, sent, announced, is_said } = &self.out;
        let InWords { delivered, granted, ended, order: OrderWords { follower, fronts: [even, odd] } } = &self.input;
        let words = [peer_index, sent, announced, is_said, delivered, granted, ended, follower, even, odd];
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

impl OpenChannel {
    /// Tells the channel its name on the other side. Before its client is told of it. The daemon's part.
    pub fn connect(&self, peer_index: u16) {
        if let Some(words) = self.wired_words() {
            words.out.peer_index.store(peer_index.into(), Ordering::Relaxed);
        }
    }

    /// Whether the other side has said its last word about the channel.
    pub fn has_peer_ended(&self) -> bool {
        self.wired_words().is_some_and(|words| words.input.ended.load(Ordering::Acquire) != 0)
    }

    /// After a message was taken: has the sender told when it is about to run out of credit. True if that is due.
    #[inline]
    pub fn note_taken(&self) -> bool {
        let Some(words) = self.wired_words() else { return false };
        let taken = self.words().taken();
        let is_due = taken.wrapping_sub(words.out.announced.load(Ordering::Relaxed)) >= self.cells() / 2;
        if is_due {
            self.mark_due();
        }
        is_due
    }

    /// This side has said its last word.
    pub(crate) fn note_said(&self) {
        if let Some(words) = self.wired_words() {
            words.out.is_said.store(1, Ordering::Relaxed);
        }
    }

    /// Whether it has: there is nothing more to be said then.
    pub(crate) fn is_said(&self) -> bool {
        self.wired_words().is_none_or(|words| words.out.is_said.load(Ordering::Relaxed) != 0)
    }

    /// The name on the other side.
    pub(crate) fn peer_index(&self) -> u16 {
        self.wired_words().map_or(0, |words| words.out.peer_index.load(Ordering::Relaxed) as u16)
    }

    /// Takes the next message to the connection's buffer, if there is one and the other side has room for it: its number.
    /// `to` has room for it.
    pub(crate) fn pull(&self, to: NonNull<u8>, to_offset: u64) -> Option<u32> {
        let (words, number) = self.next_with_credit()?;
        let outbound = Outbound { channel: self, to, to_offset };
        let is_taken = match self.channel().parks() {
            // Its cells are no cells, whatever a rank may have written there.
            true => EagerReceiver::at(number).pull(&outbound),
            false => EagerReceiver::at(number).start(&outbound) == Progress::Done,
        };
        is_taken.then(|| {
            words.out.sent.store(number.wrapping_add(1), Ordering::Relaxed);
            number
        })
    }

    /// Has the sender's buffer, if the next message lies there and the other side has room for it: its number. To be given back with
    /// `release` or `unclaim`, in the same turn.
    pub(crate) fn claim(&self) -> Option<u32> {
        let (_, number) = self.next_with_credit()?;
        EagerReceiver::at(number).claim(self).then_some(number)
    }

    /// The message that was claimed stays where it is.
    pub(crate) fn unclaim(&self, number: u32) {
        EagerReceiver::at(number).unclaim(self.words());
    }

    /// The message that was claimed is with the connection.
    pub(crate) fn release(&self, number: u32) {
        if let Some(words) = self.wired_words() {
            words.out.sent.store(number.wrapping_add(1), Ordering::Relaxed);
        }
        EagerReceiver::at(number).release(&Outbound { channel: self, to: NonNull::dangling(), to_offset: 0 });
    }

    /// The number of the next message, unless the other side has no room for it.
    fn next_with_credit(&self) -> Option<(&WiredWords, u32)> {
        let words = self.wired_words()?;
        let sent = words.out.sent.load(Ordering::Relaxed);
        // SYNC wired-granted (load): only the number matters.
        let granted = words.input.granted.load(Ordering::Relaxed);
        (sent.wrapping_sub(granted) < self.cells()).then_some((words, sent))
    }

    /// After `pull` has found nothing: notes whether that is for lack of credit.
    pub(crate) fn note_starving(&self) {
        if self.has_unsent() {
            self.mark_starving(true);
            // It may have been taken back meanwhile.
            self.note_taken_back();
        }
    }

    /// After a message was taken back: if no other waits, none lacks credit.
    pub fn note_taken_back(&self) {
        // SYNC wired-starving: the message taken back before the mark here, the mark before the message in `note_starving`; with both fences
        // either the mark is seen and taken back here, or it is seen there that nothing waits.
        fence(Ordering::SeqCst);
        if !self.has_unsent() {
            self.mark_starving(false);
        }
    }

    /// Whether a message waits that was not handed to the connection. Where messages are received none does: a cell that is full there has come.
    pub(crate) fn has_unsent(&self) -> bool {
        let is_sender = self.channel().wired().is_some_and(|wired| wired.end == End::Send);
        let Some(words) = self.wired_words().filter(|_| is_sender) else { return false };
        let receiver = EagerReceiver::at(words.out.sent.load(Ordering::Relaxed));
        receiver.is_expected(&Outbound { channel: self, to: NonNull::dangling(), to_offset: 0 })
    }

    /// How many messages were taken, if the other side does not know yet.
    pub(crate) fn announce(&self) -> Option<u32> {
        let words = self.wired_words()?;
        let count = self.words().taken();
        let is_news = count != words.out.announced.load(Ordering::Relaxed);
        if is_news {
            words.out.announced.store(count, Ordering::Relaxed);
        }
        is_news.then_some(count)
    }

    /// A message has come; its bytes are at `from`.
    pub(crate) fn deliver(
        &self,
        number: u32,
        bytes: u32,
        (from, from_offset): (NonNull<u8>, u64),
    ) -> Result<(), WireViolation> {
        let words = self.expect_next(number, bytes)?;
        words.input.delivered.store(number.wrapping_add(1), Ordering::Relaxed);
        match EagerSender::at(number).with_cells(self.cells()).start(&Inbound { channel: self, from, from_offset }) {
            Progress::Done => Ok(()),
            // There was a cell; a rank that says otherwise by now harms its own job.
            Progress::Pending => Err(WireViolation),
        }
    }

    /// Has the receiver's buffer for a message that is coming, if its receive has started. To be given back with `placed` or
    /// `unclaim_receive`, in the same turn.
    pub(crate) fn claim_receive(&self, number: u32, bytes: u32) -> Result<bool, WireViolation> {
        self.expect_next(number, bytes)?;
        Ok(EagerSender::at(number).claim_buffer(self))
    }

    /// The same of whatever message comes next: its number.
    pub(crate) fn claim_next(&self) -> Option<u32> {
        let words = self.wired_words().filter(|_| self.wired_end() == Some(End::Recv))?;
        let number = words.input.delivered.load(Ordering::Relaxed);
        EagerSender::at(number).claim_buffer(self).then_some(number)
    }

    /// What is known of the order of messages.
    pub(crate) fn order(&self) -> Option<&OrderWords> {
        self.wired_words().map(|words| &words.input.order)
    }

    /// The message comes otherwise.
    pub(crate) fn unclaim_receive(&self, number: u32) {
        EagerSender::at(number).unclaim_buffer(self.words());
    }

    /// The message has come, and is in the receiver's buffer.
    pub(crate) fn placed(&self, number: u32) {
        if let Some(words) = self.wired_words() {
            words.input.delivered.store(number.wrapping_add(1), Ordering::Relaxed);
        }
        EagerSender::at(number).placed(&Inbound { channel: self, from: NonNull::dangling(), from_offset: 0 });
    }

    /// Whether this can be the next message.
    fn expect_next(&self, number: u32, bytes: u32) -> Result<&WiredWords, WireViolation> {
        let words = self.wired_words().filter(|_| self.wired_end() == Some(End::Recv)).ok_or(WireViolation)?;
        let delivered = words.input.delivered.load(Ordering::Relaxed);
        let ahead = number.wrapping_sub(self.words().taken());
        let has_credit = ahead < self.cells();
        let is_next = number == delivered && u64::from(bytes) == self.channel().bytes() && has_credit;
        if is_next { Ok(words) } else { Err(WireViolation) }
    }

    /// The other side has taken so many messages.
    pub(crate) fn grant(&self, count: u32) -> Result<(), WireViolation> {
        let words = self.wired_words().filter(|_| self.wired_end() == Some(End::Send)).ok_or(WireViolation)?;
        let granted = words.input.granted.load(Ordering::Relaxed);
        if count.wrapping_sub(granted) > self.cells() {
            return Err(WireViolation);
        }
        words.input.granted.store(count, Ordering::Relaxed);
        self.mark_starving(false);
        self.mark_due();
        Ok(())
    }

    /// Whoever worked the wire for this end is gone, perhaps with his hands on its buffer, and nobody follows him. The daemon's part.
    pub fn void_claim(&self) {
        if let Some(end) = self.wired_end() {
            self.words().void_claim(end);
        }
    }

    /// The other side will not say its last word: this is it. The daemon's part.
    pub fn sever(&self, why: Status) -> Result<(), WireViolation> {
        if self.has_peer_ended() { Ok(()) } else { self.end(why) }
    }

    /// The other side has said its last word.
    pub(crate) fn end(&self, why: Status) -> Result<(), WireViolation> {
        let (words, end) = self.wired_words().zip(self.wired_end()).ok_or(WireViolation)?;
        self.close(end, why);
        self.mark_starving(false);
        // SYNC wired-ended (store).
        words.input.ended.store(why.code() + 1, Ordering::Release);
        Ok(())
    }

    fn wired_end(&self) -> Option<End> {
        Some(self.channel().wired()?.end)
    }
}

/// The channel of a sender, with the connection's buffer as the receiver's.
struct Outbound<'a> {
    channel: &'a OpenChannel,
    /// Room for a message.
    to: NonNull<u8>,
    /// Where that is in the segment.
    to_offset: u64,
}

impl EagerMemory for Outbound<'_> {
    fn words(&self) -> &EagerWords {
        self.channel.words()
    }

    fn cell(&self, number: u32) -> &CellWord {
        self.channel.cell(number)
    }

    fn fill(&self, _: u32) {
        unreachable!("a wire receives from a sender's channel");
    }

    fn empty(&self, number: u32) {
        // SAFETY: the cell is the channel's, and whoever made this vouches for the room.
        unsafe {
            mapped::copy_small(self.channel.payload_at(number), self.to, self.channel.channel().bytes() as usize)
        };
    }

    fn place(&self) {
        let bytes = self.channel.channel().bytes();
        match self.channel.flat(End::Send) {
            // SAFETY: the buffer is the channel's, and whoever made this vouches for the room.
            Some(from) => unsafe { mapped::copy_small(from, self.to, bytes as usize) },
            None => {
                let to = Layout::contiguous(self.to_offset, bytes);
                self.channel.copy_part(&self.channel.channel().end(End::Send).layout, 0, &to, 0, bytes);
            }
        }
    }

    fn is_placed(&self) -> bool {
        false
    }

    fn has_started(&self, end: End, number: u32) -> bool {
        self.channel.has_started(end, number)
    }

    fn wake_receiver(&self) {}

    fn wake_sender(&self) {
        self.channel.wake_end(End::Send);
    }
}

/// The channel of a receiver, with the connection's buffer as the sender's.
struct Inbound<'a> {
    channel: &'a OpenChannel,
    /// The message.
    from: NonNull<u8>,
    /// Where that is in the segment.
    from_offset: u64,
}

impl EagerMemory for Inbound<'_> {
    fn words(&self) -> &EagerWords {
        self.channel.words()
    }

    fn cell(&self, number: u32) -> &CellWord {
        self.channel.cell(number)
    }

    fn fill(&self, number: u32) {
        // SAFETY: the cell is the channel's, and whoever made this vouches for the message.
        unsafe {
            mapped::copy_small(self.from, self.channel.payload_at(number), self.channel.channel().bytes() as usize)
        };
    }

    fn empty(&self, _: u32) {
        unreachable!("a wire sends to a receiver's channel");
    }

    fn place(&self) {
        let bytes = self.channel.channel().bytes();
        match self.channel.flat(End::Recv) {
            // SAFETY: the buffer is the channel's, and whoever made this vouches for the message.
            Some(to) => unsafe { mapped::copy_small(self.from, to, bytes as usize) },
            None => {
                let from = Layout::contiguous(self.from_offset, bytes);
                self.channel.copy_part(&from, 0, &self.channel.channel().end(End::Recv).layout, 0, bytes);
            }
        }
    }

    fn is_placed(&self) -> bool {
        self.channel.channel().bytes() > INLINE_BYTES
    }

    fn has_started(&self, end: End, number: u32) -> bool {
        self.channel.has_started(end, number)
    }

    fn wake_receiver(&self) {
        self.channel.wake_end(End::Recv);
    }

    fn wake_sender(&self) {}
}
