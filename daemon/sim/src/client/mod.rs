//! Programs: what a rank does through its request slots, all of it at the same time.
//!
//! A client behaves as the client library does: it writes commands into a ring, and learns of an operation's end from its
//! slot. It looks at its buffers only between operations, and then closely.

mod channel;
mod inbox;
mod outbox;

use std::collections::BTreeMap;

use fastrand::Rng;
use ropeway_proto::{Command, Completion, Epoch, Layout, Rank, Slot, Status};

use crate::history::{Ended, History, Stream};
use crate::message::Buffer;
use crate::workload::Program;
use channel::Channel;
use inbox::Inbox;
use outbox::Outbox;

/// One rank's program.
pub struct Client {
    rank: Rank,
    slowness: u64,
    tasks: Vec<Task>,
    slots: Slots,
    /// Operations that run, and whose they are.
    pending: BTreeMap<(Slot, Epoch), usize>,
}

enum Task {
    Channel(Channel),
    Outbox(Outbox),
    Inbox(Inbox),
}

/// Request slots of a rank.
#[derive(Default)]
struct Slots {
    free: Vec<Slot>,
    epochs: Vec<Epoch>,
}

/// What a client wants to happen.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// An entry for the command ring.
    Command(Command),
    /// To be woken after a while.
    Wake {
        /// How long.
        delay_ns: u64,
        /// What for.
        call: Call,
    },
}

/// Why a client wakes up.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Call {
    /// A task wants to go on.
    Step { task: usize },
    /// An operation is to be cancelled, unless it has ended.
    Cancel { slot: Slot, epoch: Epoch },
    /// A request is to be freed in the middle of its operation, unless that has ended.
    Free { task: usize, slot: Slot, epoch: Epoch },
}

/// What surrounds a client while it runs.
pub struct Surroundings<'a> {
    /// Its node's memory.
    pub memory: &'a mut Vec<u8>,
    /// What has happened so far.
    pub history: &'a mut History,
    /// Chance.
    pub rng: &'a mut Rng,
    /// Longest time between two operations.
    pub think_ns: u64,
    /// What it wants to happen.
    pub actions: Vec<Action>,
}

/// What a task works with.
struct Desk<'a, 'b> {
    rank: Rank,
    slowness: u64,
    task: usize,
    slots: &'a mut Slots,
    pending: &'a mut BTreeMap<(Slot, Epoch), usize>,
    around: &'a mut Surroundings<'b>,
}

impl Client {
    /// A client that is about to run a program.
    pub fn new(rank: Rank, program: &Program, around: &mut Surroundings<'_>) -> Self {
        let channels = program.channels.iter().map(|plan| Task::Channel(Channel::new(*plan, around)));
        let mut tasks: Vec<_> = channels.collect();
        tasks.extend(program.outboxes.iter().map(|plan| Task::Outbox(Outbox::new(plan.clone()))));
        tasks.extend(program.inboxes.iter().map(|plan| Task::Inbox(Inbox::new(plan.clone()))));
        let slowness = program.slowness;
        for task in 0..tasks.len() {
            let delay_ns = around.rng.u64(..around.think_ns * slowness * 4);
            around.actions.push(Action::Wake { delay_ns, call: Call::Step { task } });
        }
        Self { rank, slowness, tasks, slots: Slots::default(), pending: BTreeMap::new() }
    }

    /// A wake-up call that it had asked for.
    pub fn wake(&mut self, call: Call, around: &mut Surroundings<'_>) {
        match call {
            Call::Step { task } => self.with(task, around, |task, desk| match task {
                Task::Channel(channel) => channel.step(desk),
                Task::Outbox(outbox) => outbox.step(desk),
                Task::Inbox(inbox) => inbox.step(desk),
            }),
            Call::Cancel { slot, epoch } => {
                if let Some(&task) = self.pending.get(&(slot, epoch)) {
                    self.with(task, around, |_, desk| desk.cancel(slot, epoch));
                }
            }
            Call::Free { task, slot, epoch } => {
                if self.pending.contains_key(&(slot, epoch)) {
                    self.with(task, around, |task, desk| {
                        let Task::Channel(channel) = task else { unreachable!("only channels are freed") };
                        channel.give_up(desk);
                    });
                }
            }
        }
    }

    /// An operation has ended.
    pub fn complete(&mut self, slot: Slot, epoch: Epoch, completion: Completion, around: &mut Surroundings<'_>) {
        let Some(task) = self.pending.remove(&(slot, epoch)) else {
            let rank = self.rank;
            around
                .history
                .complaints
                .push(format!("rank {rank}: nothing runs on slot {slot} as {epoch}: {completion:?}"));
            return;
        };
        self.with(task, around, |task, desk| match task {
            Task::Channel(channel) => channel.complete((slot, epoch), completion, desk),
            Task::Outbox(outbox) => outbox.complete(slot, completion, desk),
            Task::Inbox(inbox) => inbox.complete(slot, completion, desk),
        });
    }

    /// Tells the client which ranks it will hear nothing of any more, as its user might.
    pub fn nudge(&mut self, is_gone: &dyn Fn(Rank) -> bool, around: &mut Surroundings<'_>) {
        for task in 0..self.tasks.len() {
            self.with(task, around, |task, desk| {
                if let Task::Inbox(inbox) = task {
                    inbox.give_up_on(is_gone, desk);
                }
            });
        }
    }

    /// Looks at all buffers once more, when everything is over.
    pub fn look_back(&self, around: &mut Surroundings<'_>) {
        let is_untouched = |task: &Task| match task {
            Task::Channel(channel) => channel.is_untouched(around.memory),
            Task::Inbox(inbox) => inbox.is_untouched(around.memory),
            Task::Outbox(_) => true,
        };
        if !self.tasks.iter().all(is_untouched) {
            around
                .history
                .complaints
                .push(format!("rank {}: a buffer was written to after its last receive", self.rank));
        }
    }

    /// What it waits for, if it does.
    pub fn waits_for(&self) -> Option<String> {
        let tasks: Vec<_> = self.tasks.iter().filter_map(Task::waits_for).collect();
        let Self { rank, pending, .. } = self;
        let is_idle = pending.is_empty() && tasks.is_empty();
        (!is_idle).then(|| format!("rank {rank}: pending (slot, epoch) {:?}; {}", pending.keys(), tasks.join("; ")))
    }

    fn with(&mut self, task: usize, around: &mut Surroundings<'_>, act: impl FnOnce(&mut Task, &mut Desk<'_, '_>)) {
        let Self { rank, slowness, ref mut slots, ref mut pending, .. } = *self;
        act(&mut self.tasks[task], &mut Desk { rank, slowness, task, slots, pending, around });
    }
}

impl Task {
    fn waits_for(&self) -> Option<String> {
        match self {
            Self::Channel(channel) => channel.waits_for(),
            Self::Outbox(outbox) => outbox.waits_for(),
            Self::Inbox(inbox) => inbox.waits_for(),
        }
    }
}

impl Desk<'_, '_> {
    /// The slot that was given back last, so that slots are reused at once.
    fn open_slot(&mut self) -> Slot {
        self.slots.free.pop().unwrap_or_else(|| {
            self.slots.epochs.push(0);
            self.slots.epochs.len() as Slot - 1
        })
    }

    fn close_slot(&mut self, slot: Slot) {
        self.slots.free.push(slot);
    }

    /// Begins an operation.
    fn begin(&mut self, slot: Slot, command: impl FnOnce(Epoch) -> Command) -> Epoch {
        let epoch = &mut self.slots.epochs[slot as usize];
        *epoch = epoch.wrapping_add(1);
        let epoch = *epoch;
        self.pending.insert((slot, epoch), self.task);
        self.around.actions.push(Action::Command(command(epoch)));
        epoch
    }

    /// Asks for the end of an operation, if it is still the last of its slot.
    fn cancel(&mut self, slot: Slot, epoch: Epoch) {
        if self.slots.epochs[slot as usize] == epoch && self.pending.contains_key(&(slot, epoch)) {
            self.around.actions.push(Action::Command(Command::Cancel { slot, epoch }));
        }
    }

    /// Rolls the dice.
    fn happens(&mut self, percent: u8) -> bool {
        self.around.rng.u8(..100) < percent
    }

    fn think_ns(&mut self) -> u64 {
        // Mostly short, sometimes long.
        let longest = self.around.think_ns * self.slowness;
        let longest = if self.around.rng.u8(..4) > 0 { longest / 8 + 1 } else { longest };
        self.around.rng.u64(..longest)
    }

    /// Goes on later.
    fn pause(&mut self) {
        let (delay_ns, task) = (self.think_ns(), self.task);
        self.around.actions.push(Action::Wake { delay_ns, call: Call::Step { task } });
    }

    fn call_later(&mut self, call: Call) {
        let delay_ns = self.think_ns();
        self.around.actions.push(Action::Wake { delay_ns, call });
    }

    fn allocate(&mut self, shape: Layout) -> Buffer {
        Buffer::allocate(self.around.memory, shape)
    }

    fn complain(&mut self, what: &str, buffer: &Buffer) {
        let complaint = format!("rank {}, {buffer:?}: {what}", self.rank);
        self.around.history.complaints.push(complaint);
    }

    /// Writes an ending without a message into the history. Says whether the operation may be tried again.
    fn ended(
        &mut self,
        peer: Option<Rank>,
        stream: Option<Stream>,
        was_cancelled: bool,
        completion: Completion,
    ) -> bool {
        let ended = Ended { rank: self.rank, peer, stream, was_cancelled, completion };
        self.around.history.ended.push(ended);
        completion.status == Status::Cancelled
    }
}
