//! How an exchange starts once each of its messages has a channel, or will never have one: out of few lines that say all that a start needs,
//! and without the requests, which hear of it when the program comes to wait.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ropeway_proto::{BATCH_COMMANDS, Batch, Command};
use ropeway_shm::{Offers, prepare_to_write};
use smallvec::SmallVec;

use crate::Error;
use crate::attachment::Attachment;
use crate::computing::Ways;
use crate::direct::COURTESY_NS;
use crate::presence::{Favor, Habit, Moment, Sender};
use crate::request::Persistent;
use crate::telling::Telling;
use crate::wires::Wire;

/// What is to be done for the requests of an exchange. That of up to six neighbours lies in here, and not behind a pointer which would have to come
/// from memory first: that takes as long as all the rest.
pub(crate) struct Starts {
    offers: Offers,
    /// Which requests these are of.
    offered: Vec<usize>,
    /// What is said of requests that only the daemon hears of: as many commands in each as fit, but for the last.
    told: SmallVec<[Batch; 1]>,
    /// Where offers leave bytes to be sent, and how many.
    sent: SmallVec<[(Arc<Wire>, u64); NEIGHBOURS]>,
    /// Where something comes from that the daemon receives while the program computes.
    left: SmallVec<[Arc<Wire>; NEIGHBOURS]>,
    /// Requests that start by themselves.
    others: Vec<usize>,
    /// Of the largest message to or from another node.
    bytes: u64,
    ways: Option<Ways>,
    habit: Habit,
    /// Whether what can be left to the daemon was.
    is_left: bool,
}

/// Enough for the faces of a cube.
const NEIGHBOURS: usize = 6;

impl Starts {
    /// With room for these requests.
    pub(crate) fn new(attachment: &Attachment, requests: &[Persistent]) -> Self {
        let (all, sends) = (requests.len(), requests.iter().filter(|request| request.operation().sends()).count());
        let (bytes, ways, habit, is_left) = Default::default();
        Self {
            offers: Offers::new(attachment.job(), all),
            offered: Vec::with_capacity(all),
            told: SmallVec::with_capacity(all.div_ceil(BATCH_COMMANDS)),
            sent: SmallVec::with_capacity(sends),
            left: SmallVec::with_capacity(all - sends),
            others: Vec::with_capacity(all),
            bytes,
            ways,
            habit,
            is_left,
        }
    }

    /// These requests know how they will start from now on. Whatever was known before is forgotten.
    pub(crate) fn bind(&mut self, requests: &[Persistent]) {
        let Self { offers, offered, told, sent, left, others, .. } = self;
        offers.clear();
        offered.clear();
        told.clear();
        sent.clear();
        left.clear();
        others.clear();
        for (index, request) in requests.iter().enumerate() {
            request.operation().prepare(index, self);
        }
    }

    /// Offers, to which the request's was added.
    pub(crate) fn offers_of(&mut self, request: usize) -> &mut Offers {
        self.offered.push(request);
        &mut self.offers
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

    /// What it offers goes over a wire.
    pub(crate) fn add_sent(&mut self, wire: &Arc<Wire>, bytes: u64) {
        self.sent.push((Arc::clone(wire), bytes));
        self.note_bytes(bytes, Ways::Out);
    }

    /// What it waits for comes over a wire, and is left to the daemon while the program computes.
    pub(crate) fn add_left(&mut self, wire: &Arc<Wire>, bytes: u64) {
        self.left.push(Arc::clone(wire));
        self.note_bytes(bytes, Ways::Other);
    }

    /// It starts by itself.
    pub(crate) fn add_other(&mut self, request: usize) {
        self.others.push(request);
    }

    fn note_bytes(&mut self, bytes: u64, ways: Ways) {
        let is_same = self.ways.is_none_or(|known| known == ways);
        self.ways = Some(if is_same { ways } else { Ways::Both });
        self.bytes = self.bytes.max(bytes);
        if ways == Ways::Out {
            self.habit = Habit::of_send();
        }
    }

    /// Starts all of them.
    pub(crate) fn start(
        &mut self,
        requests: &mut [Persistent],
        attachment: &Attachment,
        favor: Favor,
    ) -> Result<(), Error> {
        self.fetch(requests, attachment);
        let (moment, mut telling) = (Moment::default(), Telling::of(&self.told, attachment)?);
        // What only the daemon hears of is its own, whatever the program does.
        let sender = match self.offered.is_empty() {
            true => Sender::Daemon,
            false => self.habit.begin_on_wire(attachment.presence(), favor, &moment),
        };
        self.offers.make((sender == Sender::Waiter).then(|| self.habit.started_ns() + COURTESY_NS));
        for &index in &self.others {
            if let Some(entry) = requests[index].operation_mut().start(&moment) {
                telling.add(attachment, &entry)?;
            }
        }
        self.leave(attachment, sender, &mut telling)?;
        // SYNC slot-waiter: all offers before all waiters.
        fence(Ordering::SeqCst);
        self.offers.wake_peers();
        if sender != Sender::Waiter {
            self.ask_to_move(requests, attachment, &mut telling)?;
        }
        if telling.is_empty() {
            attachment.end_start(&moment);
        }
        if let Some(told) = telling.publish(attachment)? {
            self.habit.told(&told);
            self.others.iter().for_each(|&index| requests[index].operation_mut().told(&told));
        }
        Ok(())
    }

    /// Has the processor fetch what the start needs, all at once.
    #[inline]
    fn fetch(&self, requests: &[Persistent], attachment: &Attachment) {
        prepare_to_write(self, size_of::<Self>());
        self.offers.fetch();
        self.others.iter().for_each(|&index| requests[index].operation().prepare_to_start());
        if !self.told.is_empty() {
            attachment.prepare_to_publish();
        }
    }

    /// What is for other nodes, and comes from there.
    #[inline]
    fn leave(&mut self, attachment: &Attachment, sender: Sender, telling: &mut Telling) -> Result<(), Error> {
        let wires = attachment.wires();
        self.is_left = sender != Sender::Waiter;
        if let Some(ways) = self.ways.filter(|_| self.is_left || !self.told.is_empty()) {
            attachment.begin_start(self.bytes, ways);
        }
        for (wire, bytes) in &self.sent {
            if let Some(command) = wires.begin(wire, *bytes, sender) {
                telling.add(attachment, &command.encode())?;
            }
        }
        for wire in self.left.iter().filter(|_| self.is_left) {
            if let Some(command) = wires.leave_receive(wire) {
                telling.add(attachment, &command.encode())?;
            }
        }
        Ok(())
    }

    /// What nobody else would move is left to the daemon.
    #[inline]
    fn ask_to_move(
        &self,
        requests: &[Persistent],
        attachment: &Attachment,
        telling: &mut Telling,
    ) -> Result<(), Error> {
        for place in self.offers.met() {
            if let Some(entry) = requests[self.offered[place]].operation().ask_if_met() {
                telling.add(attachment, &entry)?;
            }
        }
        Ok(())
    }

    /// All that was started has ended well.
    pub(crate) fn advance(&mut self) {
        self.offers.advance();
    }

    /// What the last start has been like.
    pub(crate) fn habit(&self) -> &Habit {
        &self.habit
    }

    /// Whether what the daemon can receive is left to it.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left
    }

    /// The program, which has come, waits for what was started.
    pub(crate) fn learn(&mut self, attachment: &Attachment) {
        self.habit.learn(attachment.presence());
    }
}
