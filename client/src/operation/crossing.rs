//! Small collectives between nodes of one rank each: messages straight from rank to rank, over channels as everybody's.
//!
//! Daemons do the first round: they compare what the members have registered, so nothing has to be compared here, and combine in the order of
//! ranks, as is done here. From the second on each member sends what others need and receives what it needs; what is combined, whoever needs
//! it combines. So a start leaves nothing to be done for the others, and whoever is late or stopped afterwards delays nobody. Where messages
//! are on wires no daemon is on their way; where there is none, or no room on it, daemons move them.
//!
//! A round fails if one of its messages does, or if the daemon says that the collective has. Whoever finds that for a reason that others
//! may not hear of gives its channels up, so those learn it who wait for its messages.

use std::mem;
use std::sync::Arc;
use std::task::Waker;

use ropeway_proto::{Command, Completion, End, Endpoint, Layout, completion};

use super::role::Role;
use super::{Operation, Phase};
use crate::attachment::Attachment;
use crate::collective::{Crossing, Part};
use crate::memory::Shelf;
use crate::presence::{Favor, Moment, Presence, Sender};
use crate::request::Persistent;
use crate::several::Several;
use crate::starts::Starts;
use crate::telling::Telling;
use crate::terms::Terms;
use crate::wait::Event;
use crate::{Communicator, Error, Group, Status};

/// The channels of a collective of which nobody was told yet: all that could be missing is there.
pub(crate) struct Prepared {
    sends: Vec<Channel>,
    receives: Vec<Channel>,
    crossing: Crossing,
    shelf: Arc<Shelf>,
}

/// One of them: its request, its other end, and the part of the memory that goes there or comes from there.
struct Channel {
    operation: Operation,
    endpoint: Endpoint,
    layout: Layout,
}

/// The channels of a collective, and where it stands. What a start needs comes first.
#[repr(C, align(64))]
pub(crate) struct Crossed {
    sends: Vec<Persistent>,
    favor: Favor,
    /// Whether the first round, which is the daemons', was started.
    is_begun: bool,
    /// All sends have their channels.
    is_bound: bool,
    /// They have started, and don't know it yet.
    is_news: bool,
    /// Whether this round's receives were started. That has time until the program waits, for what comes before finds a cell.
    is_receiving: bool,
    /// Why there will be no further round.
    failure: Option<Completion>,
    /// How the sends start if they are bound: of two members, out of this.
    starts: Starts<1, 1>,
    receives: Vec<Persistent>,
    crossing: Crossing,
    /// Where the collective's memory is put if it leaves while messages are under way.
    shelf: Arc<Shelf>,
}

impl Prepared {
    /// Takes what the channels of a communicator's `number`-th collective need.
    pub(crate) fn new(communicator: &Communicator, number: u32, crossing: Crossing) -> Result<Self, Error> {
        let shelf = Arc::<Shelf>::default();
        let channel = |end: End, &(member, part): &(u32, Part)| {
            let endpoint = communicator.of_collective(member, number);
            let (source, tag) = (communicator.rank(), endpoint.tag.unwrap_or_default());
            let terms = match end {
                End::Send => Terms::Send { source, tag, bytes: part.bytes, element_bytes: 1 },
                End::Recv => Terms::Recv { capacity: part.bytes, element_bytes: 1 },
            };
            let operation = Operation::new(communicator.membership(), shelf.share(), terms)?.into_part();
            Ok(Channel { operation, endpoint, layout: Layout::contiguous(part.at, part.bytes) })
        };
        let receives = crossing.received.iter().map(|part| channel(End::Recv, part)).collect::<Result<_, Error>>()?;
        let sends = crossing.sent.iter().map(|part| channel(End::Send, part)).collect::<Result<_, Error>>()?;
        Ok(Self { sends, receives, crossing, shelf })
    }

    /// Registers the channels. Only the end of the session can be in the way.
    pub(crate) fn begin(self, attachment: &Attachment) -> Result<Crossed, Error> {
        let Self { sends, receives, crossing, shelf } = self;
        let register = |end: End, Channel { operation, endpoint, layout }| {
            Persistent::begin_init(operation, (end, endpoint), |slot, epoch| match end {
                End::Send => Command::InitSend { slot, epoch, endpoint, layout },
                End::Recv => Command::InitRecv { slot, epoch, endpoint, layout },
            })
        };
        let receives = receives.into_iter().map(|channel| register(End::Recv, channel)).collect::<Result<_, _>>()?;
        let sends = sends.into_iter().map(|channel| register(End::Send, channel)).collect::<Result<Vec<_>, _>>()?;
        let starts = Starts::new(attachment, &sends);
        let (favor, is_begun, is_bound, is_news, is_receiving, failure) = Default::default();
        Ok(Crossed {
            sends,
            favor,
            is_begun,
            is_bound,
            is_news,
            is_receiving,
            failure,
            starts,
            receives,
            crossing,
            shelf,
        })
    }
}

impl Crossed {
    pub(super) fn shelf(&self) -> &Arc<Shelf> {
        &self.shelf
    }

    pub(super) fn set_favor(&mut self, favor: Favor) {
        self.favor = favor;
    }

    fn running(&self) -> impl Iterator<Item = &Operation> {
        let (is_news, requests) = (self.is_news, self.sends.iter().chain(&self.receives));
        let is_running = move |operation: &&Operation| operation.is_active() || (is_news && operation.sends());
        requests.map(Persistent::operation).filter(is_running)
    }

    fn running_mut(&mut self) -> impl Iterator<Item = &mut Operation> {
        self.hear();
        let requests = self.sends.iter_mut().chain(&mut self.receives);
        requests.map(Persistent::operation_mut).filter(|operation| operation.is_active())
    }

    /// Whether there is something to be done for the round: a message has got on, or receives are to be started, or all are over.
    fn is_due(&self) -> bool {
        !self.is_receiving || self.has_happened() || self.running().next().is_none()
    }

    pub(super) fn forget_waker(&self) {
        self.running().for_each(Operation::forget_waker);
    }

    pub(super) fn retract(&mut self) {
        self.running_mut().for_each(Operation::retract);
    }

    /// Has this task told when a message gets on. False if one has already.
    pub(super) fn watch(&self, waker: Option<&Waker>) -> Result<bool, Error> {
        for operation in self.running() {
            if !operation.watch(waker)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends what others need in this round. Without a daemon nothing will come of it, and waiting will tell.
    fn start(&mut self, attachment: &Attachment) {
        self.is_receiving = false;
        self.is_news = self.is_bound;
        let _ = match self.is_bound {
            true => self.starts.start_among(&mut self.sends, attachment, self.favor),
            false => start_all(&mut self.sends, Sender::Daemon, attachment),
        };
    }

    /// If all sends know how they will start from now on, so does the round. Some may never have a channel, and go by the daemon.
    #[cold]
    fn bind(&mut self) {
        self.is_bound = self.sends.iter_mut().all(|request| {
            let operation = request.operation_mut();
            operation.is_bound() || operation.finds_channel()
        });
        if self.is_bound {
            self.starts.bind(&self.sends);
            let received = self.crossing.received.iter().map(|(_, part)| part.bytes).max();
            received.iter().for_each(|&bytes| self.starts.add_received(bytes));
        }
    }

    /// Sends learn that they have started.
    fn hear(&mut self) {
        if mem::take(&mut self.is_news) {
            for request in &mut self.sends {
                request.operation_mut().hear(&self.starts);
            }
        }
    }

    /// What it has started has left, which took a while.
    pub(super) fn told(&mut self, moment: &Moment) {
        self.starts.told(moment);
    }

    /// The program waits for the round.
    pub(super) fn learn(&mut self, attachment: &Attachment) {
        self.starts.learn(attachment);
    }

    /// It has to wait indeed.
    pub(super) fn begin_wait(&mut self, presence: &Presence) {
        self.starts.begin_wait(presence);
    }

    /// It waits no more.
    pub(super) fn end_wait(&self, presence: &Presence) {
        self.starts.end_wait(presence);
    }

    /// How the round has ended. `None` while it runs.
    fn poll(&mut self, attachment: &Attachment) -> Option<Result<(), Error>> {
        if self.failure.is_some() {
            return None;
        }
        if !mem::replace(&mut self.is_receiving, true) {
            // Without a daemon nothing will come of it, and waiting will tell.
            let _ = start_all(&mut self.receives, Sender::Waiter, attachment);
        }
        let mut is_over = true;
        for operation in self.running_mut() {
            match operation.take_outcome(0) {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Some(Err(error)),
                None => is_over = false,
            }
        }
        if is_over && self.is_bound {
            self.starts.advance(&self.sends);
        }
        is_over.then_some(Ok(()))
    }

    fn leave_channels(&mut self) {
        self.sends.iter_mut().for_each(|send| send.operation_mut().leave_channel());
    }

    /// There will be no further round: those that wait for messages are told.
    fn give_up(&mut self, why: Completion) {
        self.failure = Some(why);
        for operation in self.running_mut() {
            let mode = operation.attachment().wait_mode();
            // The round has failed already, and this one may well fail for the same reason.
            let _ = operation.cancel(mode);
        }
        // Of a rank that has died all others hear themselves, and of one that has freed its channels who has one with it:
        // they learn more than that we have given up.
        let do_all_hear = match why.status {
            completion::Status::RankFailed => true,
            completion::Status::PeerFreed | completion::Status::RankLeft => self.crossing.joins_all,
            _ => false,
        };
        if !do_all_hear {
            self.leave_channels();
            self.sends.clear();
            self.receives.clear();
        }
    }
}

impl Drop for Crossed {
    fn drop(&mut self) {
        // What has started is given up otherwise than what has not.
        self.hear();
        self.leave_channels();
    }
}

/// Its messages.
impl Several for Crossed {
    fn each(&self) -> impl Iterator<Item = &(impl Event + ?Sized)> {
        self.running()
    }
}

impl Operation {
    /// Begins a round if it is one of messages between ranks. If the collective has failed meanwhile, waiting will tell.
    pub(super) fn start_crossing(&mut self) -> bool {
        let Some(Role { attendance, crossed: Some(crossed), .. }) = self.role.as_mut() else { return false };
        if !crossed.is_bound {
            if !mem::replace(&mut crossed.is_begun, true) || attendance.is_none() {
                return false;
            }
            crossed.bind();
        }
        if crossed.failure.is_none() {
            crossed.start(&self.attachment);
        }
        self.enter(Phase::Crossing);
        true
    }

    /// Why there is no round any more, if the collective has failed.
    fn why_closed(&self) -> Option<Completion> {
        let Role { attendance, crossed, .. } = self.role.as_ref()?;
        let failure = crossed.as_ref().and_then(|crossed| crossed.failure);
        failure.or_else(|| attendance.as_ref()?.closed())
    }

    /// The messages of a collective that needs nobody between the ranks.
    pub(super) fn crossed(&self) -> Option<&Crossed> {
        self.role.as_ref()?.crossed.as_deref()
    }

    pub(super) fn has_crossed(&self) -> bool {
        self.why_closed().is_some() || self.crossed().is_some_and(Crossed::is_due)
    }

    /// How a round of messages between ranks has ended. `None` while it runs.
    #[inline(never)]
    pub(super) fn take_crossed(&mut self) -> Option<Result<Status, Error>> {
        let crossed = self.role.as_mut()?.crossed.as_mut()?;
        let ended = crossed.poll(&self.attachment);
        if let Some(Ok(())) = ended {
            crossed.crossing.finish(self.attachment.job());
            self.let_go();
            let source = self.attachment.rank();
            return Some(self.judge(Some(Completion { source, ..Completion::bare(completion::Status::Success) })));
        }
        let closed = self.why_closed();
        let why = match (closed, &ended) {
            (Some(why), _) => why,
            (None, Some(Err(error))) => reason(error, &self.group),
            _ => return None,
        };
        self.role.as_mut()?.crossed.as_mut()?.give_up(why);
        self.let_go();
        match ended {
            Some(Err(error)) if closed.is_none() => Some(Err(error)),
            _ => Some(self.judge(Some(why))),
        }
    }
}

/// The completion that an error of a message stands for.
fn reason(error: &Error, group: &Group) -> Completion {
    let (status, source) = match *error {
        Error::RankFailed { rank } => (completion::Status::RankFailed, group.rank_of(rank)),
        Error::RankLeft { rank } => (completion::Status::RankLeft, group.rank_of(rank)),
        Error::PeerFreed { rank } => (completion::Status::PeerFreed, group.rank_of(rank)),
        Error::PeerLost { node } => (completion::Status::PeerLost, node),
        Error::NoMemory { bytes } => return Completion { bytes, ..Completion::bare(completion::Status::NoMemory) },
        _ => (completion::Status::Cancelled, 0),
    };
    Completion { source, ..Completion::bare(status) }
}

/// Starts all of them.
fn start_all(requests: &mut [Persistent], sender: Sender, attachment: &Attachment) -> Result<(), Error> {
    let mut telling = Telling::default();
    for request in requests {
        if let Some(entry) = request.operation_mut().start_part(sender) {
            telling.add(attachment, &entry)?;
        }
    }
    telling.tell(attachment).map(drop)
}
