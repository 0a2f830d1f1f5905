//! A request's end of a direct channel: messages between two ranks of one node, without the daemon.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ropeway_proto::{End, Status};
use ropeway_shm::eager::{EagerMemory, EagerReceiver, EagerSender, Progress};
use ropeway_shm::transfer::{Transfer, TransferMemory};
use ropeway_shm::{Channel, JobSegment, OpenChannel};

/// One end, and where it stands.
pub(crate) struct DirectEnd {
    memory: OpenChannel,
    end: End,
    way: Way,
}

/// How messages of this size travel.
enum Way {
    Send(EagerSender),
    Recv(EagerReceiver),
    Large(Large),
}

/// A large message is copied by whoever has time. If it is going to be us, the daemon need not be woken.
struct Large {
    transfer: Transfer,
    started_ns: u64,
    /// Whether the program waited, for whatever it was, right after it had started last time.
    waits_promptly: bool,
}

/// What became of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// It is over already.
    Done,
    /// It goes on.
    Pending,
    /// It goes on, and both ends are busy: the daemon should copy.
    NeedsCopy,
}

/// A program that comes to wait within this time after a start has computed nothing to speak of.
const PROMPT: Duration = Duration::from_micros(20);

/// What a large message is optimised for, where the two are at odds: between ranks of one node somebody has to copy it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Favor {
    /// Whatever the program did last time: copies itself if it waited right after it had started, else leaves it to the
    /// daemon.
    #[default]
    Learnt,
    /// An early end: whoever waits copies, and the daemon, which would take a core from the two, is not woken.
    Latency,
    /// Computing meanwhile: the daemon copies from the start.
    Overlap,
}

/// When the program came to wait, for whatever it was, after it had started a large message.
#[derive(Default)]
pub(crate) struct Presence {
    /// Of the process's clock; zero until it has come.
    came_ns: AtomicU64,
}

impl Presence {
    /// The program waits.
    pub(crate) fn note(&self) {
        if self.came_ns.load(Ordering::Relaxed) == 0 {
            self.came_ns.store(now_ns(), Ordering::Relaxed);
        }
    }

    /// The program has started something, and will come to wait for it.
    fn forget(&self) {
        self.came_ns.store(0, Ordering::Relaxed);
    }

    /// Whether it came soon after that moment.
    fn came_soon_after(&self, started_ns: u64) -> bool {
        let came_ns = self.came_ns.load(Ordering::Relaxed);
        came_ns.saturating_sub(started_ns) < PROMPT.as_nanos() as u64
    }
}

/// Nanoseconds since the first call, plus one.
fn now_ns() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64 + 1
}

impl DirectEnd {
    /// The end of the channel at `block` of which the daemon has moved `number` messages. `None` if there is no channel.
    pub(crate) fn open(job: &Arc<JobSegment>, block: u64, number: u32, end: End) -> Option<Self> {
        let channel = Channel::read(job, block)?;
        let memory = channel.on(job)?;
        let way = match end {
            _ if !channel.is_small() => {
                Way::Large(Large { transfer: Transfer::at(number), started_ns: 0, waits_promptly: false })
            }
            End::Send => Way::Send(EagerSender::at(number)),
            End::Recv => Way::Recv(EagerReceiver::at(number)),
        };
        Some(Self { memory, end, way })
    }

    /// Bytes of its messages.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory.channel().bytes()
    }

    /// Index of the other end's rank among the node's.
    pub(crate) fn peer(&self) -> u32 {
        self.memory.channel().end(self.end.peer()).local_rank
    }

    /// Starts the next message. `Err` says why there will never be one.
    #[inline]
    pub(crate) fn start(&mut self, presence: &Presence, favor: Favor) -> Result<Started, Status> {
        // A receiver may still take what was sent before its sender ended; `poll` sees to that.
        if self.end == End::Send
            && let Some(why) = self.memory.closed(End::Send)
        {
            return Err(why);
        }
        let memory = &self.memory;
        let progress = match &mut self.way {
            Way::Send(sender) => sender.start(memory),
            Way::Recv(receiver) => receiver.start(memory),
            Way::Large(large) => return Ok(large.start(memory, self.end, presence, favor)),
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
            Way::Large(Large { transfer, .. }) => {
                transfer.is_over(TransferMemory::words(memory)) || transfer.has_pieces(memory)
            }
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
        self.give_up(why, pieces)
    }

    #[cold]
    fn give_up(&mut self, why: Status, pieces: u32) -> Option<Result<(), Status>> {
        // What came before the end counts.
        if self.has_ended(pieces) {
            return Some(Ok(()));
        }
        self.cancel();
        Some(Err(why))
    }

    #[inline]
    fn has_ended(&mut self, pieces: u32) -> bool {
        let memory = &self.memory;
        match &mut self.way {
            Way::Send(sender) => sender.poll(memory) == Progress::Done,
            Way::Recv(receiver) => receiver.poll(memory) == Progress::Done,
            Way::Large(large) => large.has_ended(memory, pieces),
        }
    }

    /// Takes a pending message back. False if it is on its way.
    pub(crate) fn cancel(&mut self) -> bool {
        let memory = &self.memory;
        match &mut self.way {
            Way::Send(sender) => sender.cancel(EagerMemory::words(memory)),
            Way::Recv(receiver) => receiver.cancel(memory),
            Way::Large(Large { transfer, .. }) => transfer.cancel(TransferMemory::words(memory), self.end),
        }
    }

    /// The program begins to wait for it.
    pub(crate) fn begin_wait(&mut self, presence: &Presence) {
        if let Way::Large(large) = &mut self.way {
            large.waits_promptly = presence.came_soon_after(large.started_ns);
            TransferMemory::words(&self.memory).watch(self.end);
        }
    }

    /// The program waits no more.
    pub(crate) fn end_wait(&self) {
        if let Way::Large(_) = self.way {
            TransferMemory::words(&self.memory).look_away(self.end);
        }
    }
}

impl Large {
    #[inline(never)]
    fn has_ended(&mut self, memory: &OpenChannel, pieces: u32) -> bool {
        self.transfer.help(memory, pieces);
        let is_over = self.transfer.is_over(TransferMemory::words(memory));
        if is_over {
            self.transfer = self.transfer.next();
        }
        is_over
    }

    #[inline(never)]
    fn start(&mut self, memory: &OpenChannel, end: End, presence: &Presence, favor: Favor) -> Started {
        let is_second = self.transfer.start(memory, end);
        self.started_ns = now_ns();
        presence.forget();
        let somebody_copies = match favor {
            Favor::Learnt => self.waits_promptly || TransferMemory::words(memory).is_watching(end.peer()),
            Favor::Latency => true,
            Favor::Overlap => false,
        };
        if is_second && !somebody_copies { Started::NeedsCopy } else { Started::Pending }
    }
}
