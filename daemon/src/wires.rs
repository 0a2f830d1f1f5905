//! The wires of a job on this node: the daemon's part in them.
//!
//! Ranks that wait work their wires themselves (`ropeway_shm::Wire`). The daemon sends for ranks that compute, receives for
//! ranks that sleep or have left a large receive to it, says the last word about channels whose end is gone, and now and then looks
//! for what a rank has left lying that was expected to wait and does not.

mod relief;

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use ropeway_engine::DirectId;
use ropeway_proto::limits::WIRE_CHANNELS;
use ropeway_proto::{End, NodeId, Status};
use ropeway_shm::{
    ControlSegment, Counter, Counters, JobSegment, OpenChannel, Received, Sent, Traffic, Wire, WireChannels,
};

use relief::{Complaint, Relief};

/// A job's wires, by node.
#[derive(Default)]
pub(crate) struct Wires {
    nodes: Vec<(NodeId, NodeWire)>,
}

/// The wire to one node.
struct NodeWire {
    wire: Wire,
    stream: TcpStream,
    token: Token,
    ends: Ends,
    /// What the poll loop tells of the connection, if anything.
    interest: Option<Interest>,
    /// Rounds since somebody needed that.
    rounds_unneeded: u32,
    /// Something is to be done in the next cycle.
    is_wanted: bool,
    /// The connection had no room.
    is_stuck: bool,
    /// Its end is about to come.
    is_draining: bool,
    /// The engine knows that it is lost.
    is_down: bool,
    guard: Option<Guard>,
    /// What we say to the other side while the connection has no room.
    complaint: Complaint,
    /// What we do when it says so.
    relief: Relief,
    /// Something could not be done at once: when to try again, though nothing happens.
    retry_at: Option<Instant>,
    /// What was counted of what went over it, both ways.
    counted: [Traffic; 2],
    /// And of the system calls that moved it.
    system_calls_counted: u64,
}

/// While ranks use the wire, the daemon looks now and then.
struct Guard {
    look_at: Instant,
    until: Instant,
    seen: [Traffic; 2],
}

/// Ends of channels on this node, by name.
struct Ends {
    list: Vec<Option<WireEnd>>,
    /// So that a name that is used again is not taken for the channel that had it before.
    generation: u32,
}

struct WireEnd {
    open: OpenChannel,
    id: DirectId,
    state: State,
}

impl WireEnd {
    /// The other side will not say its last word, nor hear ours.
    fn sever(&mut self, why: Status) {
        // It can't fail: the channel is a wired one.
        let _ = self.open.sever(why);
        if let State::Closing(_) = self.state {
            self.state = State::Closed;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its request exists.
    Open,
    /// Its request is gone; the other side is to be told.
    Closing(Status),
    /// The other side was told; or there is nobody to be told.
    Closed,
}

/// How often the daemon looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long it does so after the last message.
const GUARD_FOR: Duration = Duration::from_millis(20);
/// Times that the poll loop may tell of a connection nobody sleeps for.
const PATIENCE: u32 = 8;
/// Looks for more in one cycle.
const RECEIVES_PER_CYCLE: usize = 4;
/// Looks for what a node has said that is gone: more than a full connection takes, little enough if a rank is stopped that is just at it.
const LAST_RECEIVES: usize = 1024;
/// For how long others of the node wait for a rank that is at it: many times what it needs, and a few turns of others on its core.
const LAST_PATIENCE: Duration = Duration::from_millis(20);

impl Ends {
    /// The channels of which this end is here.
    fn of(&self, end: End) -> impl Iterator<Item = &OpenChannel> {
        let all = self.list.iter().flatten().map(|end| &end.open);
        all.filter(move |open| open.channel().wired().is_some_and(|wired| wired.end == end))
    }
}

impl WireChannels for Ends {
    fn find(&mut self, index: u16) -> Option<&OpenChannel> {
        self.list.get(usize::from(index))?.as_ref().map(|end| &end.open)
    }
}

impl Wires {
    /// Takes a fresh connection over; `wire` is written down and nobody knows it yet.
    pub(crate) fn add(&mut self, node: NodeId, wire: Wire, stream: TcpStream, token: Token) -> io::Result<()> {
        wire.set_socket(stream.as_fd().try_clone_to_owned()?);
        let entry = NodeWire {
            wire,
            stream,
            token,
            ends: Ends { list: Vec::new(), generation: 0 },
            interest: None,
            rounds_unneeded: 0,
            is_wanted: false,
            is_stuck: false,
            is_draining: false,
            is_down: false,
            guard: None,
            complaint: Complaint::default(),
            relief: Relief::default(),
            retry_at: None,
            counted: Default::default(),
            system_calls_counted: 0,
        };
        self.nodes.push((node, entry));
        Ok(())
    }

    /// Where each wire lies, and its connection, for a rank to know.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, u64, BorrowedFd<'_>)> {
        self.nodes.iter().map(|(node, wire)| (*node, wire.wire.block(), wire.stream.as_fd()))
    }

    /// Where the wire to a node lies and a free name on it, if there are both.
    pub(crate) fn free_name(&self, node: NodeId) -> Option<(u64, u16)> {
        let found = self.find(node).filter(|found| !found.wire.is_broken())?;
        let list = &found.ends.list;
        let index = list.iter().position(Option::is_none).unwrap_or(list.len());
        (index < WIRE_CHANNELS).then_some((found.wire.block(), index as u16))
    }

    /// Gives a channel its name.
    pub(crate) fn open(&mut self, node: NodeId, index: u16, id: DirectId, open: OpenChannel) {
        let Some(found) = self.find_mut(node) else { return };
        let Ends { list, generation } = &mut found.ends;
        *generation = generation.wrapping_add(1);
        found.wire.name(index, open.channel().block(), *generation);
        list.resize_with(list.len().max(usize::from(index) + 1), || None);
        list[usize::from(index)] = Some(WireEnd { open, id, state: State::Open });
    }

    /// The channel's other side calls it `peer_index`: tells its client of it, if there is one with a slot in `job`.
    pub(crate) fn connect(&self, job: Option<&Arc<JobSegment>>, node: NodeId, index: u16, peer_index: u16) {
        let Some(end) = self.find(node).and_then(|found| found.ends.list.get(usize::from(index))?.as_ref()) else {
            return;
        };
        end.open.connect(peer_index);
        let channel = end.open.channel();
        let own = channel.end(End::Send);
        if let Some(slot) = job.and_then(|job| job.slot(own.local_rank, own.slot)) {
            slot.set_channel(channel.block());
        }
    }

    /// A channel's end is gone: the other side is to be told.
    pub(crate) fn close(&mut self, node: NodeId, index: u16, why: Status) {
        self.set_state(node, index, |state| if state == State::Open { State::Closing(why) } else { state });
    }

    /// A channel was never used, and nobody is to be told.
    pub(crate) fn discard(&mut self, node: NodeId, index: u16) {
        self.set_state(node, index, |_| State::Closed);
        if let Some(end) = self.end_mut(node, index) {
            end.sever(Status::PeerFreed);
        }
    }

    /// The other side is gone without a last word.
    pub(crate) fn sever(&mut self, node: NodeId, index: u16, why: Status) {
        if let Some(end) = self.end_mut(node, index) {
            end.sever(why);
        }
        self.want(node);
    }

    /// Something is to be done for the wire to that node: a rank asks, or the poll loop has news.
    pub(crate) fn want(&mut self, node: NodeId) {
        if let Some(found) = self.find_mut(node) {
            found.is_wanted = true;
        }
    }

    /// A rank asks for it, and may use the wire in the near future.
    pub(crate) fn tend(&mut self, node: NodeId, now: Instant) {
        if let Some(found) = self.find_mut(node) {
            found.is_wanted = true;
            found.begin_guard(now);
        }
    }

    /// The other side has lost the wire: what it had sent is to be taken.
    pub(crate) fn drain(&mut self, node: NodeId) {
        if let Some(found) = self.find_mut(node) {
            found.is_draining = true;
            found.is_wanted = true;
        }
    }

    /// The other side finds no room: what has come is to be taken, if nobody does.
    pub(crate) fn relieve(&mut self, node: NodeId, now: Instant) {
        if let Some(found) = self.find_mut(node) {
            let [_, come] = found.wire.traffic();
            found.relief.ask(come, now);
        }
    }

    /// Nodes to be told that there is no room on the wire to them.
    pub(crate) fn complaints(&mut self, now: Instant) -> impl Iterator<Item = NodeId> {
        let complains = move |found: &mut NodeWire| {
            let is_stuck = found.is_stuck && found.wire.is_stuck() && !found.wire.is_broken();
            found.complaint.is_due(is_stuck, now)
        };
        self.nodes.iter_mut().filter_map(move |(node, found)| complains(found).then_some(*node))
    }

    /// Both sides have lost the wire, or everybody there is gone.
    pub(crate) fn end(&mut self, node: NodeId) {
        if let Some(found) = self.find_mut(node) {
            found.end();
        }
    }

    /// The link to that node is lost, and with it everything else between the two. If it was the other side's end, what had come before counts.
    pub(crate) fn lose(&mut self, node: NodeId, is_end: bool) {
        if let Some(found) = self.find_mut(node) {
            if is_end {
                found.receive_the_rest();
            }
            found.wire.break_off();
            found.is_wanted = true;
        }
    }

    /// A rank is gone. If it was just at work nobody knows what it has done. `control` is its, if it has come.
    pub(crate) fn leave(&mut self, local_rank: u32, control: Option<&ControlSegment>) {
        for (node, found) in &mut self.nodes {
            // Killed in its sleep it would have us woken by everything that comes.
            found.wire.forget_sleeps(control.map_or(0, |control| control.take_sleeps(node.0)));
            // It may have called and not said what for.
            found.wire.hear();
            found.is_wanted = true;
            for direction in found.wire.bury(local_rank) {
                tracing::warn!(node = node.0, "a rank ended while it was working a wire, which is lost");
                found.ends.of(direction).for_each(OpenChannel::void_claim);
            }
        }
    }

    /// Does what is to be done. Says how much that was; ends that nobody uses any more are added to `ended`, nodes whose wire
    /// is lost to `lost`.
    pub(crate) fn progress(
        &mut self,
        registry: &Registry,
        counters: &Counters,
        now: Instant,
        ended: &mut Vec<DirectId>,
        lost: &mut Vec<NodeId>,
    ) -> usize {
        let mut done = 0;
        for (node, found) in &mut self.nodes {
            if found.look(now) || found.is_wanted {
                found.count(counters);
            }
            if !std::mem::take(&mut found.is_wanted) {
                continue;
            }
            done += found.work(ended);
            if found.wire.is_broken() && !std::mem::replace(&mut found.is_down, true) {
                tracing::debug!(node = node.0, "wire is down");
                found.hang_up();
                lost.push(*node);
            }
            if let Err(error) = found.settle(registry) {
                tracing::warn!(%error, node = node.0, "can't watch a wire");
                found.wire.break_off();
                found.is_wanted = true;
            }
            // Somebody was at it, it is lost just now, or there was no room for a last word.
            found.retry_at = (found.is_wanted || found.has_unsaid()).then(|| now + LOOK_EVERY);
        }
        done
    }

    /// The poll loop has nothing more to tell: ranks may keep the connections open longer than we do, and its events name whoever comes next.
    pub(crate) fn unregister(&mut self, registry: &Registry) {
        for (node, found) in &mut self.nodes {
            let descriptor = found.stream.as_raw_fd();
            if found.interest.take().is_some()
                && let Err(error) = registry.deregister(&mut SourceFd(&descriptor))
            {
                tracing::warn!(%error, node = node.0, "can't deregister a wire");
            }
        }
    }

    /// Counts what all of them have moved.
    pub(crate) fn count(&mut self, counters: &Counters) {
        self.nodes.iter_mut().for_each(|(_, found)| found.count(counters));
    }

    /// When to look though nothing happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.nodes.iter().filter_map(|(_, found)| found.deadline()).min()
    }

    /// Whether messages of ranks that are gone have not left.
    pub(crate) fn has_unsaid(&self) -> bool {
        self.nodes.iter().any(|(_, found)| found.has_unsaid() || (found.wire.is_due() && !found.wire.is_broken()))
    }

    fn set_state(&mut self, node: NodeId, index: u16, next: impl FnOnce(State) -> State) {
        if let Some(end) = self.end_mut(node, index) {
            end.state = next(end.state);
        }
        self.want(node);
    }

    fn end_mut(&mut self, node: NodeId, index: u16) -> Option<&mut WireEnd> {
        self.find_mut(node)?.ends.list.get_mut(usize::from(index))?.as_mut()
    }

    fn find(&self, node: NodeId) -> Option<&NodeWire> {
        self.nodes.iter().find(|(other, _)| *other == node).map(|(_, found)| found)
    }

    fn find_mut(&mut self, node: NodeId) -> Option<&mut NodeWire> {
        self.nodes.iter_mut().find(|(other, _)| *other == node).map(|(_, found)| found)
    }
}

impl NodeWire {
    /// One round of everything.
    fn work(&mut self, ended: &mut Vec<DirectId>) -> usize {
        self.wire.hear();
        let mut done = 0;
        for _ in 0..RECEIVES_PER_CYCLE {
            let received = self.wire.receive(&mut self.ends);
            done += received.frames as usize;
            // Somebody else is at it, who may not see what came just now; or there is more.
            self.is_wanted = received.is_busy || received.is_full;
            if !received.is_full {
                break;
            }
        }
        // Sending comes last: it sees to what others have marked while the rest kept the turn.
        done + self.say_ends() + self.forget_ends(ended) + self.send()
    }

    /// The other side is gone: takes what is there of it, up to the end. No more comes than the kernel keeps.
    fn receive_the_rest(&mut self) {
        let (mut receives, mut busy_since) = (0, None);
        while receives < LAST_RECEIVES {
            let received = self.wire.receive(&mut self.ends);
            if received.is_busy {
                // A rank is at it, and takes a part. But all it has to do for that is to say so.
                if busy_since.get_or_insert_with(Instant::now).elapsed() > LAST_PATIENCE {
                    return;
                }
                thread::yield_now();
                continue;
            }
            if received == Received::default() || self.wire.is_broken() {
                return;
            }
            (receives, busy_since) = (receives + 1, None);
        }
    }

    fn send(&mut self) -> usize {
        let [before, _] = self.wire.traffic();
        let sent = self.wire.send(&mut self.ends);
        self.is_stuck = match sent {
            Sent::All | Sent::Part => false,
            // A rank that is at it may find no room once more, and relies on us for what follows.
            Sent::Busy => self.wire.is_stuck(),
            Sent::Full { .. } => true,
        };
        self.is_wanted |= sent == Sent::Part || (sent == Sent::Busy && self.is_stuck);
        self.wire.traffic()[0].frames.wrapping_sub(before.frames) as usize
    }

    /// Adds what went over the wire, whoever moved it, to the daemon's counters.
    fn count(&mut self, counters: &Counters) {
        let now = self.wire.traffic();
        let names = [[Counter::FramesSent, Counter::BytesSent], [Counter::FramesReceived, Counter::BytesReceived]];
        for ((names, now), before) in names.iter().zip(now).zip(std::mem::replace(&mut self.counted, now)) {
            counters.add(names[0], now.frames.wrapping_sub(before.frames));
            counters.add(names[1], now.bytes.wrapping_sub(before.bytes));
        }
        let calls = self.wire.system_calls();
        counters
            .add(Counter::SystemCalls, calls.wrapping_sub(std::mem::replace(&mut self.system_calls_counted, calls)));
    }

    /// Says the last words that can be said.
    fn say_ends(&mut self) -> usize {
        let mut said = 0;
        for index in 0..self.ends.list.len() {
            let state = self.ends.list[index].as_ref().map(|end| end.state);
            if let Some(State::Closing(why)) = state
                && (self.wire.is_broken() || self.wire.say_end(index as u16, why, &mut self.ends))
                && let Some(end) = &mut self.ends.list[index]
            {
                end.state = State::Closed;
                said += 1;
            }
        }
        said
    }

    /// Forgets ends about which both sides have said their last words.
    fn forget_ends(&mut self, ended: &mut Vec<DirectId>) -> usize {
        let mut forgotten = 0;
        for (index, place) in self.ends.list.iter_mut().enumerate() {
            let is_over = |end: &WireEnd| end.state == State::Closed && end.open.has_peer_ended();
            if place.as_ref().is_some_and(is_over) {
                if self.wire.forget(index as u16) {
                    ended.extend(place.take().map(|end| end.id));
                    forgotten += 1;
                } else {
                    self.is_wanted = true;
                }
            }
        }
        forgotten
    }

    /// The connection is lost. What was sent before still arrives there; and nothing that comes is thrown away, for that
    /// would take from the other side what it has not read.
    fn hang_up(&mut self) {
        self.guard = None;
        // If it is shut down already, that is what was wanted.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Nothing comes any more to say how its channels ended.
    fn end(&mut self) {
        for end in self.ends.list.iter_mut().flatten().filter(|end| !end.open.has_peer_ended()) {
            end.sever(Status::PeerLost);
        }
        self.is_wanted = true;
    }

    fn has_unsaid(&self) -> bool {
        let is_closing = |end: &WireEnd| matches!(end.state, State::Closing(_));
        !self.wire.is_broken() && self.ends.list.iter().flatten().any(is_closing)
    }

    fn deadline(&self) -> Option<Instant> {
        let look_at = self.guard.as_ref().map(|guard| guard.look_at);
        [look_at, self.retry_at, self.complaint.deadline(), self.relief.deadline()].into_iter().flatten().min()
    }

    /// Has the poll loop tell what we need to know, and no more: each event wakes the daemon.
    fn settle(&mut self, registry: &Registry) -> io::Result<()> {
        let needs_room = self.is_stuck && !self.wire.is_broken();
        let is_waited_for = self.wire.has_sleepers() || self.wire.is_starving() || self.is_draining;
        let needs_bytes = is_waited_for || self.relief.is_needed() || self.has_unsaid() || needs_room;
        // Ranks that sleep often need not ask for it each time.
        self.rounds_unneeded = if needs_bytes { 0 } else { self.rounds_unneeded.saturating_add(1) };
        let is_patient = self.rounds_unneeded < PATIENCE && !self.wire.is_broken();
        if self.interest == Some(Interest::READABLE) && !needs_room && is_patient {
            return Ok(());
        }
        let mut wanted = match (needs_bytes && !self.wire.is_broken(), needs_room) {
            (false, _) => None,
            (true, false) => Some(Interest::READABLE),
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
        };
        if wanted.is_some() {
            self.wire.watch();
        } else if !self.wire.unwatch() {
            wanted = Some(Interest::READABLE);
        }
        if wanted != self.interest {
            let descriptor = self.stream.as_raw_fd();
            let mut source = SourceFd(&descriptor);
            match (self.interest, wanted) {
                (_, None) => registry.deregister(&mut source)?,
                (None, Some(interest)) => registry.register(&mut source, self.token, interest)?,
                (Some(_), Some(interest)) => registry.reregister(&mut source, self.token, interest)?,
            }
            self.interest = wanted;
        }
        Ok(())
    }

    fn begin_guard(&mut self, now: Instant) {
        if self.guard.is_none() {
            self.wire.set_guarded(true);
        }
        let seen = self.wire.traffic();
        self.guard = Some(Guard { look_at: now + LOOK_EVERY, until: now + GUARD_FOR, seen });
    }

    /// Looks for what was left lying, if it is time. Says whether it was.
    fn look(&mut self, now: Instant) -> bool {
        self.is_wanted |= self.retry_at.take_if(|at| now >= *at).is_some();
        // Not each time: ranks that work the wire write there.
        if self.relief.deadline().is_some_and(|at| now >= at) {
            let [_, come] = self.wire.traffic();
            self.is_wanted |= self.relief.look(come, now);
        }
        let Some(guard) = self.guard.as_mut().filter(|guard| now >= guard.look_at) else { return false };
        guard.look_at = now + LOOK_EVERY;
        let traffic = self.wire.traffic();
        if traffic != guard.seen {
            (guard.seen, guard.until) = (traffic, now + GUARD_FOR);
        }
        if now >= guard.until {
            self.guard = None;
            self.wire.set_guarded(false);
        }
        // After the guard has ended, too: whoever has marked something before relies on it.
        self.is_wanted |= self.wire.is_due() || self.wire.is_starving() || self.wire.is_stuck();
        true
    }
}

/// The segment's part that `Wires` needs to set one up.
pub(crate) fn write_down(job: &Arc<JobSegment>, block: u64) -> Option<Wire> {
    let wire = Wire::open(job, block, None)?;
    wire.write();
    Some(wire)
}
