//! How an exchange starts once each of its messages has a channel, or will never have one: out of few lines that say all that a start needs,
//! and without the requests, which hear of it when the program comes to wait.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ropeway_proto::{BATCH_COMMANDS, Batch, Brief, Command};
use ropeway_shm::eager::EagerSender;
use ropeway_shm::{Line, Offers, OpenChannel, Puts, prepare_to_write_whole};
use smallvec::SmallVec;

use crate::Error;
use crate::attachment::Attachment;
use crate::computing::Ways;
use crate::direct::COURTESY_NS;
use crate::presence::{Favor, Habit, Moment, Presence, Sender};
use crate::request::Persistent;
use crate::telling::Telling;
use crate::wires::{Outlet, Wire};

/// What is to be done for the requests of an exchange, or for the sends of a collective. That of so many sends, with so many peers on this node,
/// lies in here, and not behind a pointer which would have to come from memory first: that takes as long as all the rest. Room that is not used
/// lies between lines that are, so there is no more than is needed. What all starts need comes first.
#[repr(C)]
pub(crate) struct Starts<const SENDS: usize, const PEERS: usize> {
    has: Kinds,
    /// Whether what can be left to the daemon was.
    is_left: bool,
    /// Of the largest message to or from another node.
    bytes: u32,
    ways: Option<Ways>,
    /// Some neighbours did not start together yet when these requests were bound.
    has_strangers: bool,
    habit: Habit,
    offers: Offers<PEERS>,
    /// Where offers and puts leave something to be sent: most often all of it to one or two nodes.
    outlets: SmallVec<[Outlet; 1]>,
    /// Where something comes from that the daemon receives while the program computes, and how many messages.
    left: SmallVec<[(Arc<Wire>, u32); 2]>,
    /// What is said of requests that only the daemon hears of: as many commands in each as fit, but for the last.
    told: SmallVec<[Batch; 1]>,
    /// Requests that start by themselves.
    others: Vec<u32>,
    puts: Puts<SENDS>,
    /// Which requests these are of.
    put: Vec<usize>,
}

/// Which of the lists are not empty. What says so of each list lies in that list, whose lines would have to be fetched.
#[derive(Clone, Copy, Default)]
struct Kinds {
    told: bool,
    offers: bool,
    /// Offers of large messages within the node.
    large: bool,
    puts: bool,
    outlets: bool,
    left: bool,
    others: bool,
}

impl<const SENDS: usize, const PEERS: usize> Starts<SENDS, PEERS> {
    /// What starts touch that leave something on a wire, or tell the daemon.
    pub(crate) const START_BYTES: usize = mem::offset_of!(Self, others);

    /// With room for these requests.
    pub(crate) fn new(attachment: &Attachment, requests: &[Persistent]) -> Self {
        let (all, sends) = (requests.len(), requests.iter().filter(|request| request.operation().sends()).count());
        let (has, is_left, ways, has_strangers, bytes, habit) = Default::default();
        let first = requests.first().map(|first| first.operation().slot());
        let mut peers: Vec<_> = requests.iter().filter_map(|request| request.operation().peer_on_node()).collect();
        peers.sort_unstable();
        peers.dedup();
        Self {
            has,
            is_left,
            ways,
            has_strangers,
            bytes,
            habit,
            told: SmallVec::with_capacity(all.div_ceil(BATCH_COMMANDS)),
            offers: Offers::new(attachment.job(), (attachment.local_index(), first), (peers.len(), all)),
            outlets: SmallVec::new(),
            left: SmallVec::new(),
            others: Vec::with_capacity(all),
            puts: Puts::new(attachment.job(), sends),
            put: Vec::with_capacity(sends),
        }
    }

    /// These requests know how they will start from now on. Whatever was known before is forgotten.
    pub(crate) fn bind(&mut self, requests: &[Persistent]) {
        let Self { has, offers, puts, put, told, outlets, left, others, .. } = self;
        *has = Kinds::default();
        offers.clear();
        puts.clear();
        put.clear();
        told.clear();
        outlets.clear();
        left.clear();
        others.clear();
        for (index, request) in requests.iter().enumerate() {
            request.operation().prepare(index, self);
        }
        self.has = Kinds {
            told: !self.told.is_empty(),
            offers: self.has.offers,
            large: self.offers.has_large(),
            puts: !self.put.is_empty(),
            outlets: !self.outlets.is_empty(),
            left: !self.left.is_empty(),
            others: !self.others.is_empty(),
        };
        self.has_strangers = self.offers.has_strangers();
    }

    /// Whether a start touches more than a few lines, which are seldom in the caches.
    #[inline]
    pub(crate) fn is_spread(&self) -> bool {
        (self.has.offers && self.has.outlets) || self.has.told
    }

    /// What a start touches that lies elsewhere: its own slot, and those of two peers.
    pub(crate) fn lines(&self) -> [Line; 3] {
        if self.has.offers { self.offers.lines() } else { [Line::NONE; 3] }
    }

    /// To be offered with others.
    pub(crate) fn offers(&mut self) -> &mut Offers<PEERS> {
        self.has.offers = true;
        &mut self.offers
    }

    /// Leaves a doorbell's number where peers look for it that have started. The caller looks again before it sleeps.
    pub(crate) fn arm(&self, doorbell: u32) {
        if self.has.offers {
            self.offers.arm(doorbell);
        }
    }

    /// The program waits for all that was started from now on, or no more. Who asks the daemon to move large messages reads it.
    pub(crate) fn set_watching(&self, is_watching: bool) {
        if self.has.large {
            self.offers.set_watching(is_watching);
        }
    }

    /// Takes the number back.
    pub(crate) fn disarm(&self) {
        if self.has.offers {
            self.offers.disarm();
        }
    }

    /// Its messages are put into cells.
    pub(crate) fn add_put(&mut self, request: usize, channel: &OpenChannel, sender: EagerSender) {
        self.puts.add(channel, sender);
        self.put.push(request);
    }

    /// The daemon is told of its next operation.
    pub(crate) fn add_told(&mut self, command: Command, bytes: u64, ways: Ways) {
        let entry = command.encode();
        if !self.told.last_mut().is_some_and(|batch| batch.add(&entry)) {
            let mut batch = Batch::new();
            batch.add(&entry);
            self.told.push(batch);
        }
        self.note_bytes(bytes, ways);
    }

    /// What it offers or puts leaves the node, if it does.
    pub(crate) fn add_outlet(&mut self, outlet: Option<Outlet>) {
        let Some(outlet) = outlet else { return };
        self.note_bytes(outlet.largest(), Ways::Out);
        if !self.outlets.iter_mut().any(|known| known.join(&outlet)) {
            self.outlets.push(outlet);
        }
    }

    /// What it waits for comes over a wire, and is left to the daemon while the program computes.
    pub(crate) fn add_left(&mut self, wire: &Arc<Wire>, bytes: u64) {
        match self.left.iter_mut().find(|(known, _)| Arc::ptr_eq(known, wire)) {
            Some((_, count)) => *count += 1,
            None => self.left.push((Arc::clone(wire), 1)),
        }
        self.note_bytes(bytes, Ways::Other);
    }

    /// It starts by itself.
    pub(crate) fn add_other(&mut self, request: usize) {
        self.others.push(request as u32);
    }

    /// What they belong to also receives so much, and takes as long as that does: a program that comes a little later waits all the same.
    pub(crate) fn add_received(&mut self, bytes: u64) {
        self.note_bytes(bytes, Ways::Other);
        self.habit = Habit::default();
    }

    /// So many bytes go these ways.
    fn note_bytes(&mut self, bytes: u64, ways: Ways) {
        let is_same = self.ways.is_none_or(|known| known == ways);
        self.ways = Some(if is_same { ways } else { Ways::Both });
        self.bytes = self.bytes.max(u32::try_from(bytes).unwrap_or(u32::MAX));
        if ways == Ways::Out {
            self.habit.note_send();
        }
    }

    /// Starts all of them.
    pub(crate) fn start(
        &mut self,
        requests: &mut [Persistent],
        attachment: &Attachment,
        favor: Favor,
    ) -> Result<(), Error> {
        let telling = self.begin(requests, attachment, favor)?;
        if let Some(told) = telling.publish(attachment)? {
            self.told(&told);
            if self.has.others {
                self.others.iter().for_each(|&index| requests[index as usize].operation_mut().told(&told));
            }
        }
        Ok(())
    }

    /// The same behind which others may be started that leave with them. None of the requests starts by itself.
    pub(crate) fn start_among(
        &mut self,
        requests: &mut [Persistent],
        attachment: &Attachment,
        favor: Favor,
    ) -> Result<(), Error> {
        let telling = self.begin(requests, attachment, favor)?;
        if let Some(told) = telling.tell(attachment)? {
            self.told(&told);
        }
        Ok(())
    }

    #[inline]
    fn begin(&mut self, requests: &mut [Persistent], attachment: &Attachment, favor: Favor) -> Result<Telling, Error> {
        let has = self.has;
        self.fetch(requests, attachment);
        let moment = Moment::default();
        let mut telling = if has.told { Telling::of(&self.told, attachment)? } else { Telling::default() };
        // What only the daemon hears of is its own, whatever the program does.
        // The clock, which waits for all that is being fetched, is read when everything is started.
        let is_noted = has.offers || has.outlets;
        let sender = match is_noted {
            true => self.habit.begin_told_on_wire(attachment.presence(), favor),
            false => Sender::Daemon,
        };
        if has.offers {
            self.offers.make();
        }
        if has.puts && !self.puts.make() {
            self.start_left(requests);
        }
        if has.others {
            for &index in &self.others {
                if let Some(entry) = requests[index as usize].operation_mut().start(&moment) {
                    telling.add(attachment, &entry)?;
                }
            }
        }
        if has.outlets {
            self.outlets.iter().for_each(Outlet::mark);
        }
        if has.offers || has.puts {
            // SYNC slot-waiter, guard: all offers, messages and marks before all waiters and guards.
            fence(Ordering::SeqCst);
            self.wake_peers();
            if has.large && sender != Sender::Waiter {
                self.ask_to_move(attachment, favor, &mut telling)?;
            }
        }
        self.leave(attachment, sender, &mut telling)?;
        if telling.is_empty() {
            if is_noted {
                self.told(&moment);
            }
            attachment.end_start(&moment);
        }
        Ok(telling)
    }

    /// Has the processor fetch what the start needs, all at once. It does not wait for the words that say what that is, since it guesses these branches by
    /// the exchanges before.
    #[inline]
    fn fetch(&self, requests: &[Persistent], attachment: &Attachment) {
        let Kinds { told, offers, puts, outlets, left, others, .. } = self.has;
        if told {
            prepare_to_write_whole(&self.told);
            attachment.prepare_to_publish();
        }
        if outlets {
            prepare_to_write_whole(&self.outlets);
        }
        if left {
            prepare_to_write_whole(&self.left);
        }
        if offers {
            self.offers.fetch();
        }
        if puts {
            self.puts.fetch();
        }
        if others {
            self.others.iter().for_each(|&index| requests[index as usize].operation().prepare_to_start());
        }
    }

    /// What is for other nodes, which was marked before a fence, and comes from there.
    #[inline]
    fn leave(&mut self, attachment: &Attachment, sender: Sender, telling: &mut Telling) -> Result<(), Error> {
        let (wires, has) = (attachment.wires(), self.has);
        self.is_left = sender != Sender::Waiter;
        if let Some(ways) = self.ways.filter(|_| self.is_left || has.told) {
            attachment.begin_start(self.bytes.into(), ways);
        }
        if has.outlets {
            for outlet in &self.outlets {
                if let Some(node) = wires.begin_all(outlet, sender) {
                    telling.add_brief(attachment, Brief::Tend { node })?;
                }
            }
        }
        if has.left && self.is_left {
            for (wire, count) in &self.left {
                if let Some(node) = wires.leave_receives(wire, *count) {
                    telling.add_brief(attachment, Brief::Tend { node })?;
                }
            }
        }
        Ok(())
    }

    /// Those start by themselves whose messages wait for cells.
    #[cold]
    fn start_left(&self, requests: &mut [Persistent]) {
        for place in self.puts.left() {
            requests[self.put[place]].operation_mut().start_short();
        }
    }

    #[inline]
    fn wake_peers(&self) {
        if self.has.offers {
            self.offers.wake_peers();
        }
        if self.has_strangers {
            self.offers.wake_strangers();
        }
        if self.has.puts {
            self.puts.wake_peers();
        }
    }

    /// What nobody else would move is left to the daemon, which finds what both ends have offered.
    #[inline]
    fn ask_to_move(&self, attachment: &Attachment, favor: Favor, telling: &mut Telling) -> Result<(), Error> {
        let mut met = self.offers.met(favor == Favor::Learnt).peekable();
        if met.peek().is_some()
            && self.habit.asks_daemon(attachment.presence(), favor, attachment.job().has_free_core())
        {
            met.try_for_each(|slot| telling.add_brief(attachment, Brief::Move { slot }))?;
        }
        Ok(())
    }

    /// All that was started has ended well.
    pub(crate) fn advance(&mut self, requests: &[Persistent]) {
        if self.has_strangers {
            return self.bind(requests);
        }
        self.puts.advance();
    }

    /// What the last start has been like.
    pub(crate) fn habit(&self) -> &Habit {
        &self.habit
    }

    /// Whether what the daemon can receive is left to it.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left
    }

    /// Everything is started, the daemon was told if it had to be, or what was to leave has left.
    pub(crate) fn told(&mut self, moment: &Moment) {
        self.habit.told(moment);
        if self.has.large && !self.is_left {
            self.offers.leave_to_senders(self.habit.started_ns() + COURTESY_NS);
        }
    }

    /// The program, which has come, waits for what was started.
    pub(crate) fn learn(&mut self, attachment: &Attachment) {
        self.habit.learn(attachment.presence());
    }

    /// It has to wait indeed.
    pub(crate) fn begin_wait(&mut self, presence: &Presence) {
        self.habit.begin_wait(presence);
    }

    /// It waits no more.
    pub(crate) fn end_wait(&self, presence: &Presence) {
        self.habit.end_wait(presence);
    }
}
