//! One operation at a time on one request slot: the core of every request.

mod among;
mod crossing;
mod event;
mod leaving;
mod outcome;
mod posted;
mod role;
mod start;

pub(crate) use among::Others;

use std::mem;
use std::sync::Arc;
use std::task::Waker;
use std::thread;

use ropeway_proto::collective::CollectiveMember;
use ropeway_proto::completion;
use ropeway_proto::limits::WIRE_BYTES_MAX;
use ropeway_proto::{CommId, Command, Completion, End, Endpoint, Epoch, Rank, Slot};
use ropeway_shm::ArenaSlot;

use crate::attachment::Attachment;
use crate::attendance::Member;
use crate::communicator::Membership;
use crate::direct::DirectEnd;
use crate::log::{self, Begun};
use crate::memory::Memory;
use crate::patience::Patience;
use crate::presence::Favor;
use crate::slots::Stay;
use crate::terms::Terms;
use crate::wait::{Event, WaitMode};
use crate::wires::Wire;
use crate::{Error, Group, Status, notifier};

pub(crate) use crossing::{Crossed, Prepared};

use posted::InLane;
use role::Role;

/// A request slot, the buffer its operations use, and whether one runs. What starts and waits touch comes first, in as few cache lines as can
/// be: a program that computes in between finds none of it in its core's caches.
#[repr(C, align(64))]
pub(crate) struct Operation {
    memory: Memory,
    attachment: Arc<Attachment>,
    slot: Slot,
    /// Of the last operation the daemon was told of.
    epoch: Epoch,
    phase: Phase,
    favor: Favor,
    kind: Kind,
    /// The daemon receives it while the program computes.
    is_left: bool,
    /// Somebody is told when the program waits: other nodes, or a daemon that asks what its ranks do.
    is_told: bool,
    direct: Option<DirectEnd>,
    /// How every message of the direct channel ends that arrives.
    arrived: Option<Status>,
    /// Which end of a channel the request is, if it is one.
    end: Option<(End, Endpoint)>,
    terms: Terms,
    patience: Patience,
    /// It is a part of a collective itself.
    is_part: bool,
    /// It is started with others, and its starts copy nothing.
    is_offered: bool,
    /// Whose numbers it speaks in.
    group: Group,
    in_lane: InLane,
    /// When it was made, if that is logged.
    begun: Begun,
    /// What it is to a collective, if it is one. Not elsewhere, so that what a start needs of it comes together with the first line.
    role: Option<Role>,
}

/// A start that only tells the daemon needs no line but the first.
const _: () = assert!(mem::offset_of!(Operation, direct) <= 64);

/// What a request is to its start. No message is anything but the first if somebody logs, and no collective is alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Any other, or not known yet.
    Other,
    /// A message that is small and goes to or comes from a rank of this node: who starts it or waits for it has nothing else to do.
    Short,
    /// A message that is large and goes to or comes from a rank of this node.
    Large,
    /// A message within the node whose start is an offer and nothing more.
    Offered,
    /// A collective that is none of the next.
    Member,
    /// A collective of which this is the only member on its node: the start is a command and nothing more.
    Alone,
    /// A message to another node that is too large for a wire: it will never have a channel, and goes by the daemon.
    FarSend,
    /// The same from another node.
    FarRecv,
}

/// Where the running operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nowhere: none runs.
    Inactive,
    /// With the daemon.
    Daemon,
    /// On the direct channel.
    Direct,
    /// Where the members of a collective meet.
    Meeting,
    /// On the channels of a collective.
    Crossing,
    /// Over, on the direct channel.
    Ended(completion::Status),
    /// Over, in a post lane.
    Posted,
    /// Kept for a message that is to come in a post lane.
    Kept,
}

impl Operation {
    /// Takes a slot. Its own `memory` is lent to the daemon whenever an operation runs.
    pub(crate) fn new(membership: &Membership, memory: impl Into<Memory>, terms: Terms) -> Result<Self, Error> {
        Self::of_stay(membership, memory.into(), terms, Stay::Lasting)
    }

    /// The same, for a call that gives the slot back before it returns. Its memory is the caller's until it is told otherwise.
    pub(crate) fn passing(membership: &Membership, terms: Terms) -> Result<Self, Error> {
        Self::of_stay(membership, Memory::Borrowed, terms, Stay::Passing)
    }

    fn of_stay(membership: &Membership, memory: Memory, terms: Terms, stay: Stay) -> Result<Self, Error> {
        let Membership { attachment, group } = membership.clone();
        let (slot, epoch) = attachment.take_slot(stay)?;
        // Only now: in the log what had the slot before, maybe in another thread, has to be free by then.
        let begun = attachment.log().begin();
        Ok(Self {
            is_told: attachment.is_told(),
            attachment,
            group,
            slot,
            epoch,
            memory,
            role: None,
            phase: Phase::Inactive,
            favor: Favor::default(),
            kind: Kind::Other,
            is_left: false,
            is_part: false,
            is_offered: false,
            arrived: None,
            direct: None,
            end: None,
            terms,
            patience: Patience::default(),
            in_lane: InLane::default(),
            begun,
        })
    }

    /// An end of a channel: it goes on without the daemon if the other end is on the same node.
    pub(crate) fn with_end(mut self, end: (End, Endpoint)) -> Self {
        self.end = Some(end);
        if matches!(self.terms, Terms::Send { bytes, .. } if self.is_far(bytes)) {
            self.kind = Kind::FarSend;
        }
        self
    }

    /// Whether it is an end of a channel whose messages of so many bytes go by the daemon for ever.
    fn is_far(&self, bytes: u64) -> bool {
        let is_remote = self.peer().is_some_and(|peer| !self.attachment.is_local(peer));
        is_remote && bytes > WIRE_BYTES_MAX && !self.attachment.log().is_on()
    }

    /// A member of a collective.
    pub(crate) fn with_member(mut self, member: Member) -> Self {
        self.role = Some(Role::of(member));
        self.kind = Kind::Member;
        self
    }

    /// The collective's messages go straight from rank to rank.
    pub(crate) fn cross(&mut self, crossed: Crossed) {
        if let Some(role) = &mut self.role {
            role.crossed = Some(Box::new(crossed));
        }
    }

    /// A part of a collective, which is logged as a whole. Its messages stay in its buffer until they leave: nobody wants to write there
    /// before the whole has ended, and a start that copies takes longer.
    pub(crate) fn into_part(mut self) -> Self {
        self.begun = None;
        self.is_part = true;
        self
    }

    /// From its next start on none copies anything, nor does one at the other end: whoever waits first does. Others are started
    /// with it, and [`call_peer`](Self::call_peer) follows.
    pub(crate) fn offer(&mut self) {
        self.is_offered = true;
    }

    /// Whether its messages are small and stay on this node, so that [`start_short`](Self::start_short) starts it.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.kind == Kind::Short
    }

    /// Whether its messages are large and stay on this node, so that [`start_large`](Self::start_large) starts it.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.kind == Kind::Large
    }

    /// Whether its start tells the daemon and does nothing else, so that [`start_told`](Self::start_told) starts it.
    #[inline]
    pub(crate) fn is_only_told(&self) -> bool {
        matches!(self.kind, Kind::Alone | Kind::FarSend | Kind::FarRecv)
    }

    /// Its own memory, from now on.
    pub(crate) fn with_memory(mut self, memory: impl Into<Memory>) -> Self {
        self.memory = memory.into();
        self
    }

    /// It is registered as a member of a collective.
    pub(crate) fn note_member(&self, comm: CommId, member: &CollectiveMember) {
        self.attachment.log().end(self.begun, || log::collective(self.slot, comm, member));
    }

    /// Begins the operation that registers it, outside of the ring.
    pub(crate) fn begin_registration(&mut self) -> (Slot, Epoch) {
        self.epoch = self.epoch.wrapping_add(1);
        (self.slot, self.epoch)
    }

    /// The daemon has refused it, so nothing will end that operation. Slot and memory would never be free again.
    pub(crate) fn take_back_registration(&mut self) {
        self.epoch = self.epoch.wrapping_sub(1);
    }

    pub(crate) fn set_favor(&mut self, favor: Favor) {
        self.favor = favor;
        self.role.iter_mut().for_each(|role| role.set_favor(favor));
    }

    pub(crate) fn attachment(&self) -> &Arc<Attachment> {
        &self.attachment
    }

    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }

    pub(crate) fn is_active(&self) -> bool {
        self.phase != Phase::Inactive
    }

    /// The other end of the channel, if it is one.
    pub(crate) fn peer(&self) -> Option<Rank> {
        self.end.and_then(|(_, endpoint)| endpoint.peer)
    }

    /// The same if it is on this node.
    pub(crate) fn peer_on_node(&self) -> Option<Rank> {
        self.peer().filter(|&peer| self.attachment.is_local(peer))
    }

    /// How many bytes at most the daemon has to move for it yet. `None` if it has nothing to do for it.
    pub(crate) fn bytes_by_daemon(&self) -> Option<u64> {
        (self.phase == Phase::Daemon).then(|| self.terms.capacity())
    }

    /// Over which it goes to another node.
    #[inline]
    fn wire(&self) -> Option<&Arc<Wire>> {
        self.direct.as_ref()?.wire()
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The buffer. There is one as long as nobody took it.
    pub(crate) fn memory(&self) -> Option<&ArenaSlot> {
        self.memory.own()
    }

    pub(crate) fn memory_mut(&mut self) -> Option<&mut ArenaSlot> {
        self.memory.own_mut()
    }

    pub(crate) fn take_memory(&mut self) -> Option<ArenaSlot> {
        self.memory.take_own()
    }

    /// What was started leaves, and is remembered to have left so.
    pub(crate) fn come_to_wires(&mut self) {
        self.attachment.come();
        if let Some(direct) = &mut self.direct {
            direct.learn(self.attachment.presence());
        }
        if let Some(role) = &mut self.role {
            role.learn(&self.attachment);
        }
    }

    /// The program, which has come, waits: it helps with what there is to do.
    pub(crate) fn begin_wait(&mut self) {
        if let Some(direct) = &mut self.direct {
            direct.begin_wait(self.attachment.presence());
        }
        if let Some(role) = &mut self.role {
            role.begin_wait(self.attachment.presence());
        }
    }

    /// The program waits no more.
    pub(crate) fn end_wait(&mut self) {
        if let Some(direct) = &self.direct {
            direct.end_wait(self.attachment.presence());
        }
        if let Some(role) = &mut self.role {
            role.end_wait(self.attachment.presence());
        }
    }

    /// Waits for the end of an operation that only the daemon knows of, and returns what it says.
    pub(crate) fn finish(&mut self, mode: WaitMode) -> Result<Option<Completion>, Error> {
        if !self.is_active() {
            return Err(Error::Inactive);
        }
        self.attachment.log().begin_wait(Some(self.slot));
        let waited = self.attachment.wait(self, mode);
        self.attachment.log().end_wait(Some(self.slot));
        self.retract();
        waited.map(|()| self.completion())
    }

    /// The outcome, if the operation has ended.
    pub(crate) fn test(&mut self) -> Result<Option<Status>, Error> {
        if !self.is_active() {
            return Err(Error::Inactive);
        }
        self.attachment.look(self.reach());
        if let Some(outcome) = self.conclude(1) {
            return outcome.map(Some);
        }
        let Err(error) = self.attachment.check() else { return Ok(None) };
        // What was finished before the session ended counts.
        if let Some(outcome) = self.conclude(1) {
            return outcome.map(Some);
        }
        self.retract();
        Err(error)
    }

    /// The outcome, if the operation has ended, for the program. Copies up to `pieces` pieces of a large message on the way.
    #[inline]
    pub(crate) fn conclude(&mut self, pieces: u32) -> Option<Result<Status, Error>> {
        if self.attachment.log().is_on() { self.conclude_logged(pieces) } else { self.take_outcome(pieces) }
    }

    #[cold]
    fn conclude_logged(&mut self, pieces: u32) -> Option<Result<Status, Error>> {
        let outcome = self.take_outcome(pieces)?;
        self.attachment.log().ended(self.slot, &outcome, &self.group);
        Some(outcome)
    }

    /// As [`conclude`](Self::conclude), without a word in the log.
    #[inline]
    pub(crate) fn take_outcome(&mut self, pieces: u32) -> Option<Result<Status, Error>> {
        match self.phase {
            Phase::Inactive => None,
            Phase::Ended(status) => Some(self.end_direct(status)),
            Phase::Posted => Some(self.take_posted()),
            Phase::Kept => self.take_kept(),
            Phase::Direct => {
                let ended = self.direct.as_mut()?.poll(pieces)?;
                if self.wire().is_some() {
                    self.note_taken();
                }
                Some(self.end_direct(ended.err().unwrap_or(completion::Status::Success)))
            }
            Phase::Meeting => self.take_result(pieces),
            Phase::Crossing => self.take_crossed(),
            Phase::Daemon => self.take_completion(),
        }
    }

    #[inline(never)]
    fn take_result(&mut self, pieces: u32) -> Option<Result<Status, Error>> {
        let attendance = self.role.as_mut()?.attendance.as_mut()?;
        let ended = attendance.poll(pieces);
        if attendance.take_passed() {
            // Without a daemon nothing will come of it, and waiting will tell.
            let _ = self.attachment.publish_one(&self.ask_to_move());
        }
        let ended = ended?;
        self.retract();
        Some(match (ended, self.arrived) {
            (Ok(()), Some(arrived)) => Ok(arrived),
            (ended, _) => self.judge(ended.err()),
        })
    }

    #[inline(never)]
    fn note_taken(&self) {
        if let Some(node) = self.credit() {
            // Without a daemon nothing will come of it, and waiting will tell.
            let _ = self.attachment.publish_one(&Command::Tend { node }.encode());
        }
    }

    #[inline(never)]
    fn take_completion(&mut self) -> Option<Result<Status, Error>> {
        if !self.attachment.request_slot(self.slot).is_done(self.epoch) {
            return None;
        }
        let completion = self.completion();
        if completion.is_some_and(|completion| completion.status == completion::Status::GoesDirect) {
            return self.go_direct();
        }
        if self.kind == Kind::Other {
            self.learn_distance(completion);
        }
        self.retract();
        Some(self.judge(completion))
    }

    /// How large its messages are, a receive knows from the first.
    fn learn_distance(&mut self, completion: Option<Completion>) {
        if let (Some((End::Recv, _)), Some(Completion { status: completion::Status::Success, bytes, .. })) =
            (self.end, completion)
            && self.is_far(bytes)
        {
            self.kind = Kind::FarRecv;
        }
    }

    /// The daemon has started the operation on the channel it has set up meanwhile.
    fn go_direct(&mut self) -> Option<Result<Status, Error>> {
        if self.finds_meeting() {
            self.phase = Phase::Meeting;
            return self.take_outcome(0);
        }
        if !self.finds_channel() {
            self.retract();
            return Some(Err(Error::BadReply { what: "a direct channel that is none".into() }));
        }
        self.phase = Phase::Direct;
        let number = self.attachment.request_slot(self.slot).channel().map_or(0, |(_, number)| number);
        if number > 0 { Some(self.end_direct(completion::Status::Success)) } else { self.take_outcome(0) }
    }

    #[inline]
    fn end_direct(&mut self, status: completion::Status) -> Result<Status, Error> {
        self.let_go();
        match self.arrived {
            Some(arrived) if status == completion::Status::Success => Ok(arrived),
            _ => self.direct_outcome(status),
        }
    }

    #[cold]
    fn direct_outcome(&self, status: completion::Status) -> Result<Status, Error> {
        let bytes = self.direct.as_ref().map_or(0, DirectEnd::bytes);
        let source = self.direct.as_ref().map_or(0, |direct| match direct.wired() {
            Some(wired) if status == completion::Status::PeerLost => wired.node.0.into(),
            Some(wired) => wired.peer,
            None => self.attachment.local_rank(direct.neighbour()),
        });
        let tag = self.end.and_then(|(_, endpoint)| endpoint.tag).unwrap_or(0);
        self.judge(Some(Completion { status, source, tag, bytes }))
    }

    /// What a completion means to the program.
    pub(crate) fn judge(&self, completion: Option<Completion>) -> Result<Status, Error> {
        self.terms.judge(completion, &self.group)
    }

    /// Has the notifier told when the operation gets on: the event descriptor, and this task if there is one. False if it
    /// has got on already.
    pub(crate) fn watch(&self, waker: Option<&Waker>) -> Result<bool, Error> {
        let notifier = self.attachment.notifier()?;
        if let Some(waker) = waker {
            notifier.register(self.slot, waker);
        }
        self.arm(notifier::DOORBELL);
        if let Some(wire) = self.wire() {
            self.attachment.wires().leave(wire);
        }
        if let Some(role) = &self.role
            && !role.watch(waker)?
        {
            return Ok(false);
        }
        // SYNC slot-waiter: armed first, then looked at, as a thread does before it sleeps.
        let has_got_on = self.has_happened() || self.attachment.check().is_err();
        Ok(!has_got_on)
    }

    /// The task that was to be told is gone.
    pub(crate) fn forget_waker(&self) {
        if let Some(notifier) = self.attachment.running_notifier() {
            notifier.forget(self.slot);
        }
        self.role.iter().for_each(|role| role.forget_waker());
    }

    /// Withdraws the operation, or takes its outcome if it was too late for that.
    pub(crate) fn cancel(&mut self, mode: WaitMode) -> Result<Option<Status>, Error> {
        if let Some(outcome) = self.withdraw_kept() {
            return outcome;
        }
        if self.phase == Phase::Daemon {
            self.withdraw();
            if let Err(error) = self.attachment.wait(self, mode) {
                self.retract();
                return Err(error);
            }
            match self.conclude(0) {
                Some(Err(Error::Cancelled)) => return Ok(None),
                Some(outcome) => return outcome.map(Some),
                // It was on the direct channel already.
                None => {}
            }
        }
        loop {
            if self.phase == Phase::Direct && self.take_back() {
                self.retract();
                self.attachment.log().ended(self.slot, &Err(Error::Cancelled), &self.group);
                return Ok(None);
            }
            // Who works a wire may have the buffer for a moment, for a message that does not come.
            if self.wire().is_none() || self.phase != Phase::Direct {
                return self.wait(mode).map(Some);
            }
            if let Some(outcome) = self.test()? {
                return Ok(Some(outcome));
            }
            thread::yield_now();
        }
    }

    fn take_back(&mut self) -> bool {
        self.direct.as_mut().is_some_and(|direct| direct.cancel())
    }

    fn completion(&self) -> Option<Completion> {
        self.attachment.request_slot(self.slot).completion()
    }
}
