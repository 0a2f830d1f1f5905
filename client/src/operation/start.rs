//! How an operation begins: where its start goes, and what the daemon has to be told.

use ropeway_proto::limits::WIRE_BYTES_MAX;
use ropeway_proto::{Command, Completion, End, Epoch, EventKind, Slot, completion};
use ropeway_shm::{ArenaSlot, prepare_to_write};

use super::{Kind, Operation, Phase};
use crate::Error;
use crate::attendance::Attendance;
use crate::commands::Entry;
use crate::computing::Ways;
use crate::direct::{DirectEnd, Started};
use crate::log;
use crate::presence::{Moment, Sender};
use crate::starts::Starts;
use crate::terms::Terms;

/// Receiving so much over a wire takes a program that has computed less than the daemon would have taken from it meanwhile.
const KEPT_BYTES_MAX: u64 = 48 << 10;

/// What a start of a message touches is in so many bytes of a request.
const START_BYTES: usize = 192;

impl Operation {
    /// Begins an operation and returns the entry that tells the daemon. The caller publishes it, or calls `retract`.
    pub(crate) fn stage(&mut self, command: impl FnOnce(Slot, Epoch) -> Command) -> Entry {
        self.enter(Phase::Daemon);
        self.note_start();
        let command = command(self.slot, self.next_epoch());
        if let Command::Send { endpoint, .. } = &command {
            self.in_lane.detour = self.attachment.post().detour_send(endpoint, self.slot);
        }
        if self.begun.is_some()
            && let Some(registration) = log::registration(&command)
        {
            self.attachment.log().end(self.begun, || registration);
        }
        command.encode()
    }

    /// It is started soon, after others: the lines that a start of a message needs come together.
    #[inline]
    pub(crate) fn prepare_to_start(&self) {
        prepare_to_write(self, START_BYTES);
    }

    /// Whether it has its channel, or will never have one.
    pub(crate) fn is_bound(&self) -> bool {
        self.direct.is_some() || self.is_only_told()
    }

    /// Whether it is a message from here.
    pub(crate) fn sends(&self) -> bool {
        matches!(self.terms, Terms::Send { .. })
    }

    /// Adds what its next start needs, if there is anything. It is the `request`-th of an exchange.
    pub(crate) fn prepare<const SENDS: usize, const ENDS: usize>(
        &self,
        request: usize,
        starts: &mut Starts<SENDS, ENDS>,
    ) {
        match &self.direct {
            _ if self.is_only_told() => {
                let command = Command::Start { slot: self.slot, epoch: self.epoch };
                starts.add_told(command, WIRE_BYTES_MAX, self.ways());
            }
            Some(direct) if direct.only_offers() => {
                direct.prepare(starts.offers());
                starts.add_outlet(direct.outlet());
                if let Some(wire) = direct.wire()
                    && direct.end() == End::Recv
                    && direct.bytes() > KEPT_BYTES_MAX
                {
                    starts.add_left(wire, direct.bytes());
                }
            }
            // What comes stays in its cell until the program waits.
            Some(direct) if direct.is_small() && direct.end() == End::Recv => {}
            Some(direct) => match direct.only_puts() {
                Some((channel, sender)) => {
                    starts.add_put(request, channel, sender);
                    starts.add_outlet(direct.outlet());
                }
                None => starts.add_other(request),
            },
            None => starts.add_other(request),
        }
    }

    /// It has been started so, unless it is one that starts by itself. Whether it can be once more: not if the other end is gone.
    pub(crate) fn hear<const SENDS: usize, const ENDS: usize>(&mut self, starts: &Starts<SENDS, ENDS>) -> bool {
        if self.is_active() {
            return true;
        }
        if self.is_only_told() {
            self.enter(Phase::Daemon);
            self.next_epoch();
            return true;
        }
        self.enter(Phase::Direct);
        let Some(direct) = &mut self.direct else { return true };
        let started = direct.hear(starts.habit());
        let may_be_left = direct.end() == End::Recv && direct.wire().is_some() && direct.bytes() > KEPT_BYTES_MAX;
        self.is_left = may_be_left && starts.is_left();
        let is_closed = started == Ok(Started::Done) && direct.is_closed();
        self.note_started(started);
        if self.phase != Phase::Direct && self.wire().is_some() {
            self.note_taken();
        }
        !is_closed
    }

    /// Where its data goes if only the daemon hears of it.
    fn ways(&self) -> Ways {
        if self.kind == Kind::FarSend { Ways::Out } else { Ways::Other }
    }

    fn next_epoch(&mut self) -> Epoch {
        self.epoch = self.epoch.wrapping_add(1);
        self.epoch
    }

    /// The daemon is to move something.
    fn note_start(&self) {
        let (bytes, ways) = match self.terms {
            _ if self.role.is_some() => (self.memory().map_or(0, ArenaSlot::bytes), Ways::Both),
            Terms::Send { bytes, .. } => (bytes, Ways::Out),
            _ => (self.terms.capacity(), Ways::Other),
        };
        self.attachment.begin_start(bytes, ways);
    }

    /// Begins an operation.
    pub(crate) fn begin(&mut self, command: impl FnOnce(Slot, Epoch) -> Command) -> Result<(), Error> {
        let entry = self.stage(command);
        let published = self.attachment.publish_one(&entry);
        if published.is_err() {
            self.retract();
        }
        published.map(drop)
    }

    /// Begins the registered operation. If the daemon has to be told, the caller publishes the entry, or calls `retract`.
    pub(crate) fn start(&mut self, moment: &Moment) -> Option<Entry> {
        match self.kind {
            Kind::Short => {
                self.start_short();
                None
            }
            Kind::Offered => {
                self.start_offered(moment);
                None
            }
            Kind::Alone | Kind::FarSend | Kind::FarRecv => Some(self.start_told()),
            Kind::Large | Kind::Member | Kind::Other => self.start_elsewhere(moment),
        }
    }

    /// Begins a [short](Self::is_short) operation: the way most starts go. So does one whose message is as small and goes to another node, if
    /// who has it sent is told apart.
    #[inline]
    pub(crate) fn start_short(&mut self) {
        self.enter(Phase::Direct);
        if let Some(direct) = &mut self.direct {
            let started = direct.start_small();
            self.note_started(started);
        }
    }

    /// Begins a [large](Self::is_large) operation. Says whether the daemon is to move its message.
    #[inline]
    pub(crate) fn start_large(&mut self, moment: &Moment) -> bool {
        self.enter(Phase::Direct);
        let Some(direct) = &mut self.direct else { return false };
        direct.start_large(self.attachment.presence(), self.favor, moment) == Started::NeedsCopy
    }

    /// The same if there is nothing to be learnt from it. Whether the other end had come: then [`set_off`](Self::set_off) follows. `None` if
    /// [`start_large`](Self::start_large) has to begin it.
    #[inline(always)]
    pub(crate) fn start_quietly(&mut self) -> Option<bool> {
        let is_second = self.direct.as_mut()?.start_quietly(self.favor)?;
        self.enter(Phase::Direct);
        Some(is_second)
    }

    /// Has a message move that was started quietly. Says whether the daemon is to move it.
    pub(crate) fn set_off(&self) -> bool {
        self.direct.as_ref().is_some_and(|direct| direct.set_off(self.attachment.presence(), self.favor))
    }

    /// Begins an operation [of which only the daemon hears](Self::is_only_told). What it is, is said by the first cache line of the request:
    /// others are not fetched.
    #[inline]
    pub(crate) fn start_told(&mut self) -> Entry {
        self.attachment.prepare_to_publish();
        if self.kind == Kind::Alone {
            self.enter(Phase::Meeting);
            self.attachment.begin_start(self.memory().map_or(0, ArenaSlot::bytes), Ways::Both);
            return Command::ArriveAlone { slot: self.slot }.encode();
        }
        self.enter(Phase::Daemon);
        // At least: more would change nothing.
        self.attachment.begin_start(WIRE_BYTES_MAX, self.ways());
        Command::Start { slot: self.slot, epoch: self.next_epoch() }.encode()
    }

    /// The entry that has the daemon move a message that has met its other end, or go on with a collective that has met its members.
    pub(crate) fn ask_to_move(&self) -> Entry {
        Command::Move { slot: self.slot }.encode()
    }

    /// Begins an operation whose start is an offer.
    #[inline]
    fn start_offered(&mut self, moment: &Moment) {
        self.enter(Phase::Direct);
        if let Some(direct) = &mut self.direct {
            direct.start_offered(self.attachment.presence(), self.favor, moment);
        }
    }

    /// Wakes the other end if it waits for this start, which is behind a fence. If the daemon is to move the message, the entry.
    pub(crate) fn call_peer(&self) -> Option<Entry> {
        if self.is_only_told() {
            return None;
        }
        let direct = self.direct.as_ref().filter(|direct| direct.is_offered())?;
        direct.wake_peer();
        self.ask_if_met()
    }

    /// The entry that has the daemon move a message that both ends have offered, if nobody else would.
    pub(crate) fn ask_if_met(&self) -> Option<Entry> {
        let needs_copy = self.direct.as_ref()?.moves_if_met(self.attachment.presence(), self.favor);
        needs_copy.then(|| self.ask_to_move())
    }

    /// The daemon was told of the start.
    pub(crate) fn told(&mut self, moment: &Moment) {
        if self.is_only_told() {
            return; // There is nothing to learn, and no need to look for where it would be learnt.
        }
        // Whether there is a role is said far from what a start of a message needs.
        if self.kind == Kind::Member {
            self.role.iter_mut().for_each(|role| role.told(moment));
        } else {
            self.direct.iter_mut().for_each(|direct| direct.told(moment));
        }
    }

    fn start_direct(&mut self, moment: &Moment) -> Option<Entry> {
        self.enter(Phase::Direct);
        let started = self.direct.as_mut()?.start(self.attachment.presence(), self.favor, moment);
        self.note_started(started);
        (started == Ok(Started::NeedsCopy)).then(|| self.ask_to_move())
    }

    #[inline]
    fn note_started(&mut self, started: Result<Started, completion::Status>) {
        match started {
            Ok(Started::Done) => self.phase = Phase::Ended(completion::Status::Success),
            Err(why) => self.phase = Phase::Ended(why),
            Ok(Started::Pending | Started::NeedsCopy) => {}
        }
    }

    /// With the daemon, with the other members of a collective, over a wire, or in pieces; or on a channel that has come up
    /// meanwhile.
    #[inline(never)]
    pub(crate) fn start_elsewhere(&mut self, moment: &Moment) -> Option<Entry> {
        if self.attachment.log().is_on() { self.start_logged(moment) } else { self.start_where_it_goes(moment) }
    }

    #[cold]
    pub(super) fn start_logged(&mut self, moment: &Moment) -> Option<Entry> {
        let begun = self.attachment.log().begin();
        let entry = self.start_where_it_goes(moment);
        self.attachment.log().end(begun, || EventKind::Start { slot: self.slot });
        entry
    }

    #[inline]
    pub(super) fn start_where_it_goes(&mut self, moment: &Moment) -> Option<Entry> {
        if self.kind == Kind::Member {
            return self.start_member(moment);
        }
        if self.direct.is_none() {
            self.attachment.prepare_to_publish();
            if !self.finds_channel() {
                return Some(self.stage(|slot, epoch| Command::Start { slot, epoch }));
            }
        }
        let entry = self.start_direct(moment);
        if self.wire().is_some() { self.start_on_wire(moment) } else { entry }
    }

    /// Begins a part of a collective. `sender` sends what it leaves on a wire.
    pub(super) fn start_part(&mut self, sender: Sender) -> Option<Entry> {
        if self.direct.is_none() && !self.finds_channel() {
            return Some(self.stage(|slot, epoch| Command::Start { slot, epoch }));
        }
        self.enter(Phase::Direct);
        let started = self.direct.as_mut()?.start_small();
        self.note_started(started);
        self.leave_to_wire(sender)
    }

    #[inline]
    pub(super) fn start_member(&mut self, moment: &Moment) -> Option<Entry> {
        if self.start_crossing() {
            return None;
        }
        // Finding the meeting takes a while, which the wait has and the program has not: the daemon starts the first round.
        if self.attendance().is_none() {
            return Some(self.stage(|slot, epoch| Command::Start { slot, epoch }));
        }
        self.enter(Phase::Meeting);
        match self.role.as_mut()?.attendance.as_mut()?.start(self.attachment.presence(), self.favor, moment) {
            Ok(Started::Pending) => {}
            Ok(Started::NeedsCopy) => {
                self.note_start();
                return Some(self.ask_to_move());
            }
            Ok(Started::Done) => self.phase = Phase::Ended(completion::Status::Success),
            // `take_outcome` finds out why.
            Err(_) => {}
        }
        None
    }

    #[cold]
    pub(super) fn finds_meeting(&mut self) -> bool {
        let channel = self.attachment.request_slot(self.slot).channel();
        if let (Some(role), Some((block, _))) = (&mut self.role, channel) {
            role.attendance = Attendance::open(self.attachment.job(), block, &role.member);
            let is_alone = role.crossed.is_none() && role.attendance.as_ref().is_some_and(Attendance::is_alone);
            if is_alone && !self.attachment.log().is_on() {
                self.kind = Kind::Alone;
            }
            let success = Completion::bare(completion::Status::Success);
            self.arrived = self.judge(Some(Completion { source: self.attachment.rank(), ..success })).ok();
        }
        self.attendance().is_some()
    }

    /// Where the members of a collective meet, once that is known.
    pub(super) fn attendance(&self) -> Option<&Attendance> {
        self.role.as_ref()?.attendance.as_ref()
    }

    /// A start may leave something for the wire. If the daemon has to be told, the entry.
    fn start_on_wire(&mut self, moment: &Moment) -> Option<Entry> {
        let (presence, favor) = (self.attachment.presence(), self.favor);
        let direct = self.direct.as_mut()?;
        let (is_recv, bytes) = (direct.end() == End::Recv, direct.bytes());
        let may_be_left = is_recv && self.phase == Phase::Direct && bytes > KEPT_BYTES_MAX;
        let sender =
            if !is_recv || may_be_left { direct.begin_on_wire(presence, favor, moment) } else { Sender::Waiter };
        let entry =
            if may_be_left && sender != Sender::Waiter { self.leave_receive() } else { self.leave_to_wire(sender) };
        if sender != Sender::Waiter {
            self.attachment.begin_start(bytes, if is_recv { Ways::Other } else { Ways::Out });
            if entry.is_none() {
                self.attachment.end_start(moment);
            }
        }
        entry
    }

    /// A receive was started of something large, and the program computes. If the daemon has to be told, the entry.
    fn leave_receive(&mut self) -> Option<Entry> {
        self.is_left = true;
        self.attachment.wires().leave_receives(self.wire()?, 1).map(|node| Command::Tend { node }.encode())
    }

    /// A receive that was left to the daemon has ended, or is given up.
    pub(super) fn take_receive(&mut self) {
        self.is_left = false;
        self.wire().iter().for_each(|wire| self.attachment.wires().take_receive(wire));
    }

    #[inline]
    fn leave_to_wire(&self, sender: Sender) -> Option<Entry> {
        let direct = self.direct.as_ref()?;
        let wire = direct.wire()?;
        let node = match direct.end() {
            End::Send => self.attachment.wires().begin(wire, direct.bytes(), sender),
            End::Recv if self.phase == Phase::Direct => None,
            End::Recv => self.credit(),
        };
        node.map(|node| Command::Tend { node }.encode())
    }

    /// A message was taken that came over a wire. If the daemon has to be told, the node that it came from.
    pub(super) fn credit(&self) -> Option<u16> {
        let direct = self.direct.as_ref()?;
        let wire = direct.wire()?;
        if direct.owes_credit() { self.attachment.wires().owe(wire) } else { None }
    }

    #[inline]
    pub(super) fn enter(&mut self, phase: Phase) {
        debug_assert!(!self.is_active(), "one operation at a time");
        if let Some(memory) = self.memory.own_mut() {
            memory.lend();
        }
        self.phase = phase;
    }

    /// Looks whether the daemon has set up a channel meanwhile.
    #[cold]
    pub(super) fn finds_channel(&mut self) -> bool {
        let channel = self.attachment.request_slot(self.slot).channel();
        if let (Some((end, _)), Some((block, number))) = (self.end, channel) {
            self.direct = DirectEnd::open(self.attachment.job(), self.attachment.wires(), (block, number), end);
            if self.is_part {
                self.direct.iter_mut().for_each(DirectEnd::park);
            }
            if self.is_offered {
                self.direct.iter_mut().for_each(DirectEnd::offer);
            }
            self.arrived = self.direct_outcome(completion::Status::Success).ok();
            self.kind = self.kind_on_channel();
        }
        self.direct.is_some()
    }

    fn kind_on_channel(&self) -> Kind {
        let Some(direct) = self.direct.as_ref().filter(|_| !self.attachment.log().is_on()) else { return Kind::Other };
        // Messages that do not fit are an error each, and take the long way.
        let is_plain = self.arrived.is_some() && direct.wire().is_none();
        if direct.is_offered() {
            Kind::Offered
        } else if is_plain && direct.is_small() {
            Kind::Short
        } else if is_plain && direct.is_large() {
            Kind::Large
        } else {
            Kind::Other
        }
    }

    /// The operation is over, or the daemon never heard of it.
    #[inline]
    pub(crate) fn retract(&mut self) {
        if self.phase == Phase::Kept {
            self.forget_kept();
        }
        if let Some(role) = &mut self.role {
            role.retract();
        }
        self.let_go();
    }

    #[inline]
    pub(super) fn let_go(&mut self) {
        if self.is_left {
            self.take_receive();
        }
        self.let_go_short();
    }

    /// The same of a short operation, which is never left to the daemon.
    #[inline]
    pub(super) fn let_go_short(&mut self) {
        self.memory.reclaim();
        self.phase = Phase::Inactive;
    }
}
