//! What a process shares with its daemon: segments, command ring, control socket. Everything public holds one.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::{slice, thread};

use ropeway_proto::collective::CollectiveMember;
use ropeway_proto::control::{Attached, MemoryLimit, Reply, Request};
use ropeway_proto::hello::VersionRange;
use ropeway_proto::limits::WIRED_NODES_MAX;
use ropeway_proto::{CommId, Completion, Endpoint, Epoch, EventKind, JobId, Layout, Rank, Slot};
use ropeway_shm::{Arena, ArenaSlot, ControlSegment, JobGeometry, JobSegment, RequestSlot, SegmentError};

use crate::Error;
use crate::combiner::Combiner;
use crate::commands::{Commands, Entry};
use crate::communicator::Share;
use crate::computing::{Computing, Ways};
use crate::control::{ControlSocket, io_error, unexpected};
use crate::log::Log;
use crate::memory::Memory;
use crate::notifier::Notifier;
use crate::post::{Detour, Look, PostOffice};
use crate::presence::{Moment, Presence};
use crate::private_daemon::PrivateDaemon;
use crate::slots::{SlotTable, Stay, Taken};
use crate::wait::{Event, WaitMode, WaitingRoom};
use crate::watch::{Calls, ControlLine};
use crate::wires::{Reach, Wires};

/// One rank's tie to its daemon. It is cut in an orderly way when the last holder drops it. What every start and wait asks comes first, in
/// two cache lines.
#[repr(C)]
pub(crate) struct Attachment {
    presence: Presence,
    log: Log,
    wires: Arc<Wires>,
    /// If the daemon asks for it.
    computing: Option<Box<Computing>>,
    wait_mode: AtomicU8,
    /// The job has other nodes.
    spans_nodes: bool,
    line: ControlLine,
    rank: Rank,
    attached: Attached,
    job: Arc<JobSegment>,
    arena: Arc<Arena>,
    post: Arc<PostOffice>,
    waiting: WaitingRoom,
    notifier: OnceLock<Notifier>,
    combiner: OnceLock<Combiner>,
    commands: Arc<Commands>,
    slots: Mutex<SlotTable>,
    /// For communicators this rank founds.
    share: Share,
    /// The daemon, if it was started for this process alone. Dropped, and so ended, after the line is closed.
    _private_daemon: Option<PrivateDaemon>,
}

impl Attachment {
    /// Becomes `rank` of `job` at the daemon behind `socket`.
    pub(crate) fn open(
        mut socket: ControlSocket,
        (job, rank): (JobId, Rank),
        log: Log,
        private_daemon: Option<PrivateDaemon>,
    ) -> Result<Arc<Self>, Error> {
        let reply =
            socket.call(&Request::Attach { versions: VersionRange::CURRENT, job, rank, build: ropeway_shm::BUILD })?;
        let Reply::Attached(attached) = reply else { return Err(unexpected(&reply)) };
        let Ok([job, segment, daemon_bell]) = <[OwnedFd; 3]>::try_from(socket.take_descriptors()) else {
            return Err(Error::BadReply { what: "attached, without its three descriptors".into() });
        };
        let geometry = JobGeometry { local_ranks: attached.local_ranks, arena_bytes_max: attached.arena_bytes_max };
        let job = Arc::new(JobSegment::map(job, geometry).map_err(bad_segment)?);
        let segment = Arc::new(ControlSegment::map(segment).map_err(bad_segment)?);
        let commands = Arc::new(Commands::new(segment.producer(), daemon_bell));
        let wires = Wires::new(job.clone(), attached.local_index, commands.clone(), segment.clone());
        let wires = Arc::new(wires);
        let line = ControlLine::open(socket, job.clone(), attached.local_index, wires.clone())?;
        let computing = job.asks_for_computing().then(|| Box::new(Computing::new()));
        Ok(Arc::new(Self {
            rank,
            arena: Arena::new(job.clone(), attached.local_index),
            commands,
            post: Arc::new(PostOffice::new(job.clone(), rank, attached.local_index)),
            waiting: WaitingRoom::new(job.clone(), segment, wires.clone(), attached.local_index),
            wires,
            notifier: OnceLock::new(),
            combiner: OnceLock::new(),
            job,
            slots: Mutex::default(),
            line,
            wait_mode: AtomicU8::new(WaitMode::default() as u8),
            presence: Presence::default(),
            computing,
            spans_nodes: attached.first_ranks.len() > 1,
            log,
            share: Share::of(rank, attached.size),
            attached,
            _private_daemon: private_daemon,
        }))
    }

    pub(crate) fn rank(&self) -> Rank {
        self.rank
    }

    /// The contexts this rank can give away.
    pub(crate) fn share(&self) -> &Share {
        &self.share
    }

    /// Registers a collective with the daemon, and waits for its answer.
    pub(crate) fn register(
        &self,
        (slot, epoch): (Slot, Epoch),
        comm: CommId,
        member: CollectiveMember,
    ) -> Result<(), Error> {
        let request = Request::Register { slot, epoch, comm: comm.0, member };
        loop {
            match self.line.lock().call(&request)? {
                Reply::Registered => return Ok(()),
                Reply::Again => {}
                reply => return Err(unexpected(&reply)),
            }
        }
    }

    /// The memory shared with the ranks of this node.
    pub(crate) fn job(&self) -> &Arc<JobSegment> {
        &self.job
    }

    /// When the program last came to wait.
    pub(crate) fn presence(&self) -> &Presence {
        &self.presence
    }

    /// What this process does, if anybody wants to know.
    #[inline]
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// This rank's index among the node's.
    pub(crate) fn local_index(&self) -> u32 {
        self.attached.local_index
    }

    /// The rank with this index among the node's.
    pub(crate) fn local_rank(&self, index: u32) -> Rank {
        self.rank - self.attached.local_index + index
    }

    /// Whether that rank lives on this node.
    pub(crate) fn is_local(&self, rank: Rank) -> bool {
        (self.local_rank(0)..self.local_rank(self.attached.local_ranks)).contains(&rank)
    }

    /// On which of the job's nodes that rank lives, if they are few enough to have wires.
    pub(crate) fn wired_node_of(&self, rank: Rank) -> Option<usize> {
        (self.attached.first_ranks.len() <= WIRED_NODES_MAX).then(|| self.node_of(rank))
    }

    /// On which of the job's nodes that rank lives.
    pub(crate) fn node_of(&self, rank: Rank) -> usize {
        // The first node begins with rank 0.
        self.attached.first_ranks.partition_point(|&first| first <= rank).saturating_sub(1)
    }

    /// Copies what another rank of this node shows.
    pub(crate) fn read(&self, from: &Layout, into: &mut [u8]) -> Result<(), Error> {
        let read = self.job.read(from, 0, into);
        read.map_err(|error| Error::BadReply { what: format!("a rank's memory that is none: {error}") })
    }

    pub(crate) fn size(&self) -> u32 {
        self.attached.size
    }

    pub(crate) fn wait_mode(&self) -> WaitMode {
        WaitMode::from_index(self.wait_mode.load(Ordering::Relaxed))
    }

    pub(crate) fn set_wait_mode(&self, mode: WaitMode) {
        self.wait_mode.store(mode as u8, Ordering::Relaxed);
    }

    /// Why the session is over; `Ok` while it is not.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.line.watch().is_gone() { self.line.watch().failure().map_or(Ok(()), Err) } else { Ok(()) }
    }

    /// Something is about to be published: what it takes of the ring comes meanwhile, which the daemon has had last.
    #[inline]
    pub(crate) fn prepare_to_publish(&self) {
        self.commands.prepare_to_push();
    }

    /// Hands commands to the daemon, all at once if the ring has room, and before them those that are staged. No allocation;
    /// no system call but to wake a sleeping daemon. Says when that was done. Fails only when the daemon is gone.
    pub(crate) fn publish(&self, entries: &[Entry]) -> Result<Moment, Error> {
        self.publish_all(entries)
    }

    /// The same of one: what nearly every start does that tells the daemon. It takes two thirds of the instructions, as their number is known.
    pub(crate) fn publish_one(&self, entry: &Entry) -> Result<Moment, Error> {
        self.publish_all(slice::from_ref(entry))
    }

    #[inline(always)]
    fn publish_all(&self, entries: &[Entry]) -> Result<Moment, Error> {
        let begun = self.log.begin();
        let is_published = self.commands.push_all(entries, || !self.line.watch().is_gone());
        let moment = Moment::default();
        self.end_start(&moment);
        self.log.end(begun, || EventKind::Publish);
        if is_published { Ok(moment) } else { self.check().map(|()| moment) }
    }

    /// Prepares commands that are handed over with the next that are published, or at once if the ring is full.
    pub(crate) fn stage(&self, entries: &[Entry]) -> Result<(), Error> {
        match self.commands.stage(entries) {
            [] => Ok(()),
            rest => self.publish(rest).map(drop),
        }
    }

    /// The wires.
    pub(crate) fn wires(&self) -> &Wires {
        &self.wires
    }

    /// Whether anybody has to hear that the program waits for what stays on the node.
    pub(crate) fn is_told(&self) -> bool {
        self.spans_nodes || self.computing.is_some()
    }

    /// Whether something was started on wires since the program last waited. Where there are none their memory need not be fetched.
    #[inline]
    pub(crate) fn has_begun_on_wires(&self) -> bool {
        self.spans_nodes && self.wires.has_begun()
    }

    /// Looks at these wires once, and has what was started leave.
    pub(crate) fn look(&self, reach: Reach<'_>) {
        self.come();
        self.wires.work(reach);
    }

    /// The program has looked for what is not there yet: among more ranks than cores whoever is to send it may need ours.
    pub(crate) fn look_in_vain(&self) -> Result<(), Error> {
        self.come();
        if self.waiting.outnumbers_cores() {
            thread::yield_now();
        }
        self.check()
    }

    /// The program waits, or at least looks.
    #[inline]
    pub(crate) fn note_presence(&self) {
        let moment = Moment::default();
        self.presence.note(&moment);
        if let Some(since) = self.computing.as_ref().and_then(|computing| computing.come(&moment)) {
            self.waiting.control.count_wait(since);
        }
    }

    /// It waits for what is over, as it has computed meanwhile.
    #[inline]
    pub(crate) fn note_late_presence(&self) {
        self.presence.note_unseen();
        self.come_unseen();
    }

    /// The same, of which other requests learn nothing.
    #[inline]
    pub(crate) fn come_unseen(&self) {
        if let Some(computing) = &self.computing {
            self.tell_unseen(computing);
        }
    }

    #[inline(never)]
    fn tell_unseen(&self, computing: &Computing) {
        if let Some(since) = computing.come_unseen() {
            self.waiting.control.count_wait(since);
        }
    }

    /// The program is about to start something that the daemon has to do, with so many bytes.
    #[inline]
    pub(crate) fn begin_start(&self, bytes: u64, ways: Ways) {
        if let Some(computing) = &self.computing {
            computing.begin_start(bytes, ways);
        }
    }

    /// It has been, and the daemon need not be told.
    #[inline]
    pub(crate) fn end_start(&self, moment: &Moment) {
        self.computing.iter().for_each(|computing| computing.end_start(moment));
    }

    /// The program waits, or at least looks: what it has started on wires leaves.
    pub(crate) fn come(&self) {
        self.note_presence();
        if self.has_begun_on_wires() {
            if self.waiting.outnumbers_cores() && self.wires.expects_neighbours() {
                thread::yield_now();
                self.wires.expect_nobody();
            }
            self.wires.come();
        }
    }

    /// Wakes a thread of this process that sleeps on this doorbell.
    pub(crate) fn ring(&self, doorbell: u32) {
        self.job.doorbell(self.attached.local_index, doorbell).expect("somebody sleeps on it").wake();
    }

    pub(crate) fn wait(&self, event: &impl Event, mode: WaitMode) -> Result<(), Error> {
        self.note_presence();
        let had_left = self.wires.take_back(event.reach());
        let waited = self.waiting.wait(event, mode, self.line.watch());
        if had_left && !event.was_left() {
            self.wires.leave_again();
        }
        self.computing.iter().for_each(|computing| computing.leave());
        waited
    }

    /// How to wait while the daemon moves so many bytes.
    pub(crate) fn mode_for(&self, bytes: u64, mode: WaitMode) -> WaitMode {
        self.waiting.mode_for(bytes, mode)
    }

    /// The lanes to and from ranks of this node.
    pub(crate) fn post(&self) -> &Arc<PostOffice> {
        &self.post
    }

    /// Gives the daemon receives that were kept.
    pub(crate) fn entrust(&self, entries: &[Entry]) {
        // Without a daemon nothing will come of it, and waiting will tell.
        let _ = self.publish(entries);
    }

    /// Sends a one-shot message without the daemon. False if that can't be.
    pub(crate) fn send(&self, endpoint: &Endpoint, message: &[u8]) -> Result<bool, Error> {
        self.check()?;
        Ok(!self.log.is_on() && self.post.send(endpoint, message, self.waiting.looks()))
    }

    /// Whether the daemon has to be asked for a message, wherever it is.
    pub(crate) fn must_ask_for(&self, endpoint: &Endpoint) -> bool {
        self.log.is_on() || !self.post.has_lane_from(endpoint)
    }

    /// Waits for a one-shot message and receives it or, without memory, only finds it. `None` if the daemon is to be asked.
    pub(crate) fn recv(&self, endpoint: &Endpoint, mut into: Option<&mut [u8]>) -> Result<Option<Completion>, Error> {
        if self.log.is_on() {
            return Ok(None);
        }
        loop {
            match self.post.look(endpoint, into.as_deref_mut()) {
                Look::Found(found) => return Ok(Some(found)),
                Look::AskDaemon => return Ok(None),
                Look::NotYet(news) => {
                    self.come();
                    self.wait(&news, self.wait_mode())?;
                }
            }
        }
    }

    /// What turns completions into events, started when it is first needed.
    pub(crate) fn notifier(&self) -> Result<&Notifier, Error> {
        if let Some(notifier) = self.notifier.get() {
            return Ok(notifier);
        }
        let started = Notifier::start(self.job.clone(), self.attached.local_index);
        let started = started.map_err(io_error("starting the thread that tells event loops"))?;
        // Another thread may have been faster; ours then ends.
        Ok(self.notifier.get_or_init(|| started))
    }

    /// What combines by the program's operators while it computes, started when it is first needed.
    pub(crate) fn combiner(&self) -> Result<&Combiner, Error> {
        if let Some(combiner) = self.combiner.get() {
            return Ok(combiner);
        }
        let started = Combiner::start(self.job.clone(), self.attached.local_index, self.commands.clone());
        let started = started.map_err(io_error("starting the thread that combines by user-defined operators"))?;
        // Another thread may have been faster; ours then ends.
        Ok(self.combiner.get_or_init(|| started))
    }

    /// The notifier, if it was needed.
    pub(crate) fn running_notifier(&self) -> Option<&Notifier> {
        self.notifier.get()
    }

    /// The shared words of one of our slots.
    pub(crate) fn request_slot(&self, slot: Slot) -> &RequestSlot {
        self.job
            .slot(self.attached.local_index, slot)
            .expect("slots come from the allocator, which keeps within the table")
    }

    /// Where our arena begins in the job segment. Messages without bytes are said to lie there.
    pub(crate) fn arena_begin(&self) -> u64 {
        self.job.arena(self.attached.local_index).start
    }

    /// Whether the memory is of our arena.
    pub(crate) fn owns(&self, memory: &ArenaSlot) -> bool {
        self.locate(memory.as_bytes()).is_some()
    }

    /// Where these bytes lie in the job segment, if they lie in our arena.
    pub(crate) fn locate(&self, bytes: &[u8]) -> Option<u64> {
        self.arena.locate(bytes)
    }

    /// A request slot, and the epoch of its last operation.
    pub(crate) fn take_slot(&self, stay: Stay) -> Result<(Slot, Epoch), Error> {
        let mut slots = self.lock_slots();
        slots.reap(REAP_STEP, |slot, epoch| self.is_done(slot, epoch));
        loop {
            match slots.take(stay) {
                Taken::Slot(slot, epoch) => return Ok((slot, epoch)),
                Taken::NeedsReserve(more) => {
                    let reserved = self.job.reserve_slots(self.attached.local_index, more.clone());
                    reserved.map_err(io_error("reserving memory for requests"))?;
                    slots.set_reserved(more.end);
                }
                Taken::Full => {
                    slots.reap(usize::MAX, |slot, epoch| self.is_done(slot, epoch));
                    match slots.take(stay) {
                        Taken::Slot(slot, epoch) => return Ok((slot, epoch)),
                        _ => return Err(Error::TooManyRequests),
                    }
                }
            }
        }
    }

    /// Gives a slot back, and with it the buffer that its operation `epoch` may still use.
    pub(crate) fn give_back(&self, slot: Slot, epoch: Epoch, memory: Memory, detour: Option<Detour>) {
        if self.is_done(slot, epoch) {
            memory.reclaim();
            drop(detour);
            self.lock_slots().release(slot, epoch);
        } else {
            self.lock_slots().retire(slot, epoch, memory, detour);
        }
    }

    /// Whether the daemon has let go of that operation. A daemon that is gone has let go of everything.
    fn is_done(&self, slot: Slot, epoch: Epoch) -> bool {
        self.request_slot(slot).is_done(epoch) || self.line.watch().is_gone()
    }

    fn lock_slots(&self) -> MutexGuard<'_, SlotTable> {
        self.slots.lock().expect(NO_PANIC)
    }

    /// Registered memory, zeroed. There is always a byte to tell whose it is.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<ArenaSlot, Error> {
        let bytes = bytes.max(1);
        self.check()?;
        self.lock_slots().reap(REAP_STEP, |slot, epoch| self.is_done(slot, epoch));
        if let Ok(memory) = self.arena.allocate(bytes) {
            return Ok(memory);
        }
        self.lock_slots().reap(usize::MAX, |slot, epoch| self.is_done(slot, epoch));
        // One thread at a time lets the arena grow; others find what it brought.
        let mut calls = self.line.lock();
        loop {
            let needed = match self.arena.allocate(bytes) {
                Ok(memory) => return Ok(memory),
                Err(full) => full.needed,
            };
            self.grow_arena(&mut calls, bytes, needed)?;
        }
    }

    /// Has the arena reserved up to `needed`, or more if that is to be had, for a buffer of `bytes`.
    fn grow_arena(&self, calls: &mut Calls<'_>, bytes: u64, needed: u64) -> Result<(), Error> {
        let (reserved, max) = (self.arena.reserved(), self.attached.arena_bytes_max);
        if needed > max || needed <= reserved {
            let available = self.arena.largest_with(max - reserved);
            return Err(Error::OutOfMemory { requested: bytes, available, limit: MemoryLimit::Arena });
        }
        let generous = needed.max(2 * reserved).max(ARENA_STEP).min(max);
        let mut reply = calls.call(&Request::Reserve { arena_bytes: generous });
        if matches!(reply, Err(Error::OutOfMemory { .. })) && generous > needed {
            reply = calls.call(&Request::Reserve { arena_bytes: needed });
        }
        match reply {
            Ok(Reply::Reserved { arena_bytes }) => self.arena.set_reserved(arena_bytes.min(max)),
            Ok(reply) => return Err(unexpected(&reply)),
            // The program asked for a buffer, not for an arena.
            Err(Error::OutOfMemory { available, limit, .. }) => {
                let available = self.arena.largest_with(available);
                return Err(Error::OutOfMemory { requested: bytes, available, limit });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.line.close();
    }
}

fn bad_segment(error: SegmentError) -> Error {
    match error {
        SegmentError::Io(error) => io_error("mapping the memory shared with the daemon")(error),
        error => Error::BadReply { what: error.to_string() },
    }
}

const NO_PANIC: &str = "nothing panics under this lock";
/// Retired slots that are looked at when one is asked for, so that asking stays cheap.
const REAP_STEP: usize = 64;
/// The least by which the arena grows.
const ARENA_STEP: u64 = 1 << 20;
