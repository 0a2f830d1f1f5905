//! A request's end of a direct channel: messages without the daemon, between two ranks of one node or over a wire.

use std::mem;
use std::sync::Arc;

use ropeway_proto::{End, Status};
use ropeway_shm::eager::{EagerMemory, EagerReceiver, EagerSender, Progress};
use ropeway_shm::transfer::{Transfer, TransferMemory};
use ropeway_shm::{Channel, JobSegment, Offers, OpenChannel, WiredEnd};

use crate::presence::{Favor, Habit, Moment, Presence, Sender, now_ns};
use crate::wires::{Outlet, SENT_BESIDE_FREE_CORES_BYTES, Wire, Wires};

/// One end, and where it stands. What starts touch is two cache lines, and what tells one from the other is in the first.
#[repr(C, align(64))]
pub(crate) struct DirectEnd {
    /// Of a program whose messages others can move.
    habit: Habit,
    way: Way,
    /// Over which it goes to another node.
    wire: Option<Arc<Wire>>,
    end: End,
    memory: OpenChannel,
}

const _: () = assert!(mem::offset_of!(DirectEnd, memory) <= 48);

/// How messages of this size travel.
enum Way {
    Send(EagerSender),
    Recv(EagerReceiver),
    OfferedSend(EagerSender),
    OfferedRecv(EagerReceiver),
    Large(Transfer),
    OfferedLarge(Transfer),
}

impl Way {
    /// Whether a message has ended that is none of the small ones.
    #[inline(never)]
    fn has_ended(&mut self, memory: &OpenChannel, end: End, pieces: u32) -> bool {
        match self {
            Self::OfferedSend(sender) => sender.meet(memory) == Progress::Done,
            Self::OfferedRecv(receiver) => receiver.meet(memory) == Progress::Done,
            Self::Large(transfer) => has_ended(transfer, memory, end, pieces),
            Self::OfferedLarge(transfer) => {
                if pieces > 0 {
                    meet(transfer, memory, end);
                }
                has_ended(transfer, memory, end, pieces)
            }
            Self::Send(_) | Self::Recv(_) => false,
        }
    }
}

/// What became of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// It is over already.
    Done,
    /// It goes on.
    Pending,
    /// It goes on, everybody is busy who could copy, and the daemon should.
    NeedsCopy,
}

impl DirectEnd {
    /// The end of the channel at a block of which the daemon has moved so many messages. `None` if there is no channel.
    pub(crate) fn open(job: &Arc<JobSegment>, wires: &Wires, (block, number): (u64, u32), end: End) -> Option<Self> {
        let channel = Channel::read(job, block)?;
        let memory = channel.on(job)?;
        let way = match end {
            _ if !channel.is_small() => Way::Large(Transfer::at(number)),
            End::Send => Way::Send(channel.sender(number)),
            End::Recv => Way::Recv(EagerReceiver::at(number)),
        };
        let wire = match channel.wired() {
            Some(wired) => Some(wires.of(wired)?),
            None => None,
        };
        let leaves_node = end == End::Send && wire.is_some();
        let habit = if leaves_node { Habit::of_send() } else { Habit::default() };
        Some(Self { habit, way, wire, end, memory })
    }

    /// What goes over a wire stays where it is until it is taken, however small, and its send runs until then.
    pub(crate) fn park(&mut self) {
        if self.wire.is_some()
            && let Way::Send(sender) = &mut self.way
        {
            *sender = sender.parking();
        }
    }

    /// Its starts do no work, as those of its other end: whoever waits first does. Whoever starts it calls [`call_peer`](Self::call_peer)
    /// behind a fence. Messages that fit beside a word are sent with it all the same. What has come over a wire stays in its cell until the
    /// program waits.
    pub(crate) fn offer(&mut self) {
        let is_wired = self.wire.is_some();
        if !self.memory.is_placed() {
            return;
        }
        self.way = match self.way {
            Way::Send(sender) if !is_wired => Way::OfferedSend(sender.parking()),
            Way::Recv(receiver) => Way::OfferedRecv(receiver),
            Way::Large(transfer) => Way::OfferedLarge(transfer),
            _ => return,
        };
    }

    /// Whether a start only offers the message to another rank of this node.
    pub(crate) fn is_offered(&self) -> bool {
        self.wire.is_none() && matches!(self.way, Way::OfferedSend(_) | Way::OfferedRecv(_) | Way::OfferedLarge(_))
    }

    /// Wakes the other end if it sleeps, for what was offered behind a fence.
    #[inline]
    pub(crate) fn wake_peer(&self) {
        self.memory.wake_end_behind_fence(self.end.peer());
    }

    /// Whether a large message moves now, as both ends have offered it, and the daemon is to be asked for it.
    pub(crate) fn moves_if_met(&self, presence: &Presence, favor: Favor) -> bool {
        let Way::OfferedLarge(transfer) = self.way else { return false };
        !self.habit.is_prompt(favor) && transfer.is_met(&self.memory, self.end) && self.needs_daemon(presence, favor)
    }

    /// Whether its starts only offer its messages, to another rank or to a wire.
    pub(crate) fn only_offers(&self) -> bool {
        match self.way {
            Way::Send(sender) => self.wire.is_some() && sender.parks(),
            Way::OfferedSend(_) | Way::OfferedRecv(_) | Way::OfferedLarge(_) => true,
            Way::Recv(_) | Way::Large(_) => false,
        }
    }

    /// Adds the next of them.
    pub(crate) fn prepare<const PEERS: usize>(&self, offers: &mut Offers<PEERS>) {
        let number = match self.way {
            Way::Send(sender) | Way::OfferedSend(sender) => sender.number(),
            Way::Recv(receiver) | Way::OfferedRecv(receiver) => receiver.number(),
            Way::Large(transfer) | Way::OfferedLarge(transfer) => transfer.number(),
        };
        offers.add(&self.memory, self.end, number);
    }

    /// The channel and the next message, if all that a start does is to put that into a cell.
    pub(crate) fn only_puts(&self) -> Option<(&OpenChannel, EagerSender)> {
        match self.way {
            Way::Send(sender) if self.memory.has_lines() && !self.is_closed() => Some((&self.memory, sender)),
            _ => None,
        }
    }

    /// Whether the other end is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.memory.closed(self.end).is_some()
    }

    /// It was started with others: its message was offered, or put into a cell, or what has come was left there until now. `Err` says why
    /// there will never be one.
    pub(crate) fn hear(&mut self, habit: &Habit) -> Result<Started, Status> {
        self.habit.begin_with(habit);
        match &mut self.way {
            Way::Send(sender) if !sender.parks() => {
                sender.advance(&self.memory);
                Ok(Started::Done)
            }
            Way::Recv(_) => self.start_small(),
            _ => Ok(Started::Pending),
        }
    }

    /// Which end it is.
    pub(crate) fn end(&self) -> End {
        self.end
    }

    /// Bytes of its messages.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.channel().bytes()
    }

    /// Index of the other end's rank among the node's, if it is one of them.
    pub(crate) fn neighbour(&self) -> u32 {
        self.memory.channel().end(self.end.peer()).local_rank
    }

    /// Over which it goes to another node, if it does.
    #[inline]
    pub(crate) fn wire(&self) -> Option<&Arc<Wire>> {
        self.wire.as_ref()
    }

    /// Where its messages leave the node, if they do.
    pub(crate) fn outlet(&self) -> Option<Outlet> {
        let (wire, wired) = self.wire.as_ref().zip(self.wired()).filter(|_| self.end == End::Send)?;
        Some(Outlet::new(wire, wired.index, self.bytes()))
    }

    /// Where the other end is, if it is on another node.
    pub(crate) fn wired(&self) -> Option<&WiredEnd> {
        self.memory.channel().wired()
    }

    /// Whether its messages are copied in pieces by whoever waits first, or by the daemon.
    pub(crate) fn is_large(&self) -> bool {
        matches!(self.way, Way::Large(_))
    }

    /// Whether its messages are copied at once by whoever comes second.
    pub(crate) fn is_small(&self) -> bool {
        self.memory.channel().is_small()
    }

    /// Starts the next message. `Err` says why there will never be one.
    pub(crate) fn start(&mut self, presence: &Presence, favor: Favor, moment: &Moment) -> Result<Started, Status> {
        match self.way {
            Way::Send(_) | Way::Recv(_) => self.start_small(),
            Way::Large(_) => Ok(self.start_large(presence, favor, moment)),
            _ => Ok(self.start_offered(presence, favor, moment)),
        }
    }

    /// The same of what is only offered. Whether the other end is gone is for [`poll`](Self::poll) to find out, as it may go afterwards, too.
    #[inline]
    pub(crate) fn start_offered(&mut self, presence: &Presence, favor: Favor, moment: &Moment) -> Started {
        match &self.way {
            Way::OfferedSend(sender) => sender.offer(EagerMemory::words(&self.memory)),
            Way::OfferedRecv(receiver) => receiver.offer(EagerMemory::words(&self.memory)),
            Way::OfferedLarge(transfer) => {
                let until = self.habit.begin(presence, favor, moment).then(|| self.habit.started_ns() + COURTESY_NS);
                transfer.offer(TransferMemory::words(&self.memory), self.end, until);
            }
            _ => {}
        }
        Started::Pending
    }

    /// The same for small messages.
    // Else it depends on the rest of the crate whether a start takes 144 instructions or 176; so in `ropeway_shm::eager`.
    #[inline(always)]
    pub(crate) fn start_small(&mut self) -> Result<Started, Status> {
        let memory = &self.memory;
        let progress = match &mut self.way {
            Way::Send(sender) => match memory.closed(End::Send) {
                None => sender.start(memory),
                Some(why) => return Err(why),
            },
            // It may still take what was sent before its sender ended; `poll` sees to that.
            Way::Recv(receiver) => receiver.start(memory),
            _ => Progress::Pending,
        };
        Ok(if progress == Progress::Done { Started::Done } else { Started::Pending })
    }

    /// Whether [`poll`](Self::poll) would get further.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let memory = &self.memory;
        let is_due = match &self.way {
            Way::Send(sender) => sender.is_due(EagerMemory::words(memory)),
            Way::Recv(receiver) => receiver.is_due(memory),
            Way::OfferedSend(sender) => sender.has_met(memory),
            Way::OfferedRecv(receiver) => receiver.has_met(memory),
            Way::Large(transfer) => is_due(transfer, memory),
            Way::OfferedLarge(transfer) => is_due(transfer, memory) || transfer.is_met(memory, self.end),
        };
        is_due || self.memory.closed(self.end).is_some()
    }

    /// Goes on with a pending message, copying up to `pieces` pieces of a large one. `None` while it is pending.
    #[inline]
    pub(crate) fn poll(&mut self, pieces: u32) -> Option<Result<(), Status>> {
        if self.has_ended(pieces) {
            return Some(Ok(()));
        }
        let why = self.memory.closed(self.end)?;
        self.give_up(why)
    }

    #[cold]
    fn give_up(&mut self, why: Status) -> Option<Result<(), Status>> {
        // What came before the end counts, and what both have started.
        if self.has_ended(u32::MAX) {
            return Some(Ok(()));
        }
        // Who works a wire may have the buffer for a moment.
        (self.cancel() || self.wire.is_none()).then_some(Err(why))
    }

    pub(crate) fn has_ended(&mut self, pieces: u32) -> bool {
        match &mut self.way {
            Way::Send(_) | Way::Recv(_) => self.has_ended_small(),
            other => other.has_ended(&self.memory, self.end, pieces),
        }
    }

    /// Whether a small message has.
    #[inline]
    pub(crate) fn has_ended_small(&mut self) -> bool {
        let memory = &self.memory;
        match &mut self.way {
            Way::Send(sender) => sender.poll(memory) == Progress::Done,
            Way::Recv(receiver) => receiver.poll(memory) == Progress::Done,
            _ => false,
        }
    }

    /// Whether a message that was started by [`start_large`](Self::start_large) is all there.
    #[inline]
    pub(crate) fn has_moved(&mut self) -> bool {
        let Way::Large(transfer) = &mut self.way else { return false };
        ends(transfer, &self.memory)
    }

    /// Takes a pending message back. False if it is on its way.
    pub(crate) fn cancel(&mut self) -> bool {
        let memory = &self.memory;
        match &mut self.way {
            Way::Send(sender) | Way::OfferedSend(sender) => {
                let is_taken_back = sender.cancel(memory);
                if is_taken_back && self.wire.is_some() {
                    // Else all waits would go on looking for credit.
                    memory.note_taken_back();
                }
                is_taken_back
            }
            Way::Recv(receiver) | Way::OfferedRecv(receiver) => receiver.cancel(memory),
            Way::Large(transfer) => transfer.cancel(TransferMemory::words(memory), self.end),
            Way::OfferedLarge(transfer) => transfer.take_back(memory, self.end),
        }
    }

    /// The request is given up: what both ends have started travels on, a message that is alone is taken back.
    pub(crate) fn leave(&mut self) {
        if let Way::OfferedLarge(transfer) = self.way
            && transfer.is_met(&self.memory, self.end)
        {
            transfer.meet(&self.memory);
        }
        if !self.has_ended(0) {
            self.cancel();
        }
    }

    /// It starts no more with others.
    pub(crate) fn leave_others(&self) {
        self.memory.leave_others(self.end);
    }

    /// The program begins to wait for it.
    pub(crate) fn begin_wait(&mut self, presence: &Presence) {
        if let Way::Large(_) | Way::OfferedLarge(_) = self.way {
            self.habit.begin_wait(presence);
            TransferMemory::words(&self.memory).watch(self.end);
        } else if self.may_leave_in_start() {
            self.habit.begin_wait(presence);
        }
    }

    /// The program waits no more.
    pub(crate) fn end_wait(&self, presence: &Presence) {
        if let Way::Large(_) | Way::OfferedLarge(_) = self.way {
            self.habit.end_wait(presence);
            TransferMemory::words(&self.memory).look_away(self.end);
        } else if self.may_leave_in_start() {
            self.habit.end_wait(presence);
        }
    }

    /// Whether who sends it depends on what the program leaves of its core.
    fn may_leave_in_start(&self) -> bool {
        self.wire.is_some() && self.bytes() > SENT_BESIDE_FREE_CORES_BYTES
    }

    /// The same for large ones.
    // One function, because a program that has computed finds neither code nor stack in its core's caches.
    #[inline(always)]
    pub(crate) fn start_large(&mut self, presence: &Presence, favor: Favor, moment: &Moment) -> Started {
        let Way::Large(transfer) = self.way else { return Started::Pending };
        let comes_soon = self.habit.begin_offer(presence, favor, moment);
        let until = comes_soon.then(|| self.habit.started_ns() + COURTESY_NS);
        let moves = transfer.start(&self.memory, self.end, until);
        if moves && self.moves_by_daemon(presence, favor) { Started::NeedsCopy } else { Started::Pending }
    }

    /// Starts a large message if there is nothing to be learnt from it and nobody to be asked. Whether the other end had come: then
    /// [`set_off`](Self::set_off) follows. `None` if [`start_large`](Self::start_large) has to start it.
    #[inline(always)]
    pub(crate) fn start_quietly(&mut self, favor: Favor) -> Option<bool> {
        let Way::Large(transfer) = self.way else { return None };
        let is_quiet = self.habit.begin_quietly(favor);
        is_quiet.then(|| transfer.come(TransferMemory::words(&self.memory), self.end))
    }

    /// Has a large message move that was started quietly. Whether the daemon is to copy it.
    pub(crate) fn set_off(&self, presence: &Presence, favor: Favor) -> bool {
        let Way::Large(transfer) = self.way else { return false };
        transfer.set_off(&self.memory, self.end, None);
        self.moves_by_daemon(presence, favor)
    }

    #[inline(never)]
    fn moves_by_daemon(&self, presence: &Presence, favor: Favor) -> bool {
        !self.habit.is_prompt(favor) && self.needs_daemon(presence, favor)
    }

    /// Whether it was noted when the message was started.
    #[inline]
    pub(crate) fn was_noted(&self) -> bool {
        self.habit.started_ns() > 0
    }

    /// Whether the daemon is to copy a message that moves, for a program that computes.
    fn needs_daemon(&self, presence: &Presence, favor: Favor) -> bool {
        let is_watched = favor == Favor::Learnt && TransferMemory::words(&self.memory).is_watching(self.end.peer());
        !is_watched && self.habit.asks_daemon(presence, favor, self.memory.has_free_core())
    }

    /// After a start that leaves something on a wire: who is to send that.
    pub(crate) fn begin_on_wire(&mut self, presence: &Presence, favor: Favor, moment: &Moment) -> Sender {
        self.habit.begin_on_wire(presence, favor, moment)
    }

    /// The daemon was told of the start.
    pub(crate) fn told(&mut self, moment: &Moment) {
        self.habit.told(moment);
    }

    /// After a message was taken: whether its sender is to get credit.
    pub(crate) fn owes_credit(&self) -> bool {
        self.end == End::Recv && self.memory.note_taken()
    }

    /// Whether the program is likely to come to wait at once after a start.
    pub(crate) fn is_prompt(&self, favor: Favor) -> bool {
        self.habit.is_prompt(favor)
    }

    /// The program comes to wait for a message that others could move.
    pub(crate) fn learn(&mut self, presence: &Presence) {
        if self.wire.is_some() || !self.is_small() {
            self.habit.learn(presence);
        }
    }
}

/// For how long the first piece is left to the end that comes last and waits: more than a start takes and the way to the wait. What one
/// end alone touches stays in its core's cache; what a receiver has fetched from there, the sender has to get back before it writes again.
pub(crate) const COURTESY_NS: u64 = 1000;

fn is_due(transfer: &Transfer, memory: &OpenChannel) -> bool {
    transfer.is_over(TransferMemory::words(memory)) || transfer.has_pieces(memory)
}

/// Has the message move if both ends have come, unless it is left to its sender.
fn meet(transfer: &Transfer, memory: &OpenChannel, end: End) {
    let is_left = |until| now_ns() < until;
    if transfer.is_met(memory, end) && (end == End::Send || !transfer.left_to_sender_until(memory).is_some_and(is_left))
    {
        transfer.meet(memory);
    }
}

fn has_ended(transfer: &mut Transfer, memory: &OpenChannel, end: End, pieces: u32) -> bool {
    let is_left = |until| now_ns() < until;
    if pieces > 0 && !transfer.is_left_to(end.peer(), TransferMemory::words(memory)).is_some_and(is_left) {
        transfer.help(memory, pieces);
    }
    ends(transfer, memory)
}

/// Whether the message is over: then what comes is the next.
#[inline]
fn ends(transfer: &mut Transfer, memory: &OpenChannel) -> bool {
    let is_over = transfer.is_over(TransferMemory::words(memory));
    if is_over {
        *transfer = transfer.next();
    }
    is_over
}
