//! Connections to other nodes that ranks work themselves while they wait: small messages without the daemon.
//!
//! A start leaves its message in the channel. It is sent by the program's next wait if the program is likely to come to wait
//! at once (`presence`); else by the daemon, or by the start itself if the daemon sleeps and the message is small, or there is no core for the
//! daemon but that of somebody who computes. What was judged wrongly leaves when the daemon looks, within a millisecond or two.
//!
//! What comes is received by who waits. If the program computes behind a receive of something large, the daemon receives until it waits for
//! what comes over this wire.

mod outlet;

use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, TryLockError};

use ropeway_proto::Command;
use ropeway_proto::wire::WIRE_HEADER_BYTES;
use ropeway_shm::{ControlSegment, JobSegment, KnownChannels, Received, Sent, WiredEnd};

use crate::commands::Commands;
use crate::presence::Sender;

pub(crate) use outlet::Outlet;

/// All wires of a session. What every start and wait asks lies in one cache line.
#[repr(C, align(64))]
pub(crate) struct Wires {
    /// Bytes of what the program has started since it last waited, with headers.
    begun: AtomicU64,
    /// Some of that is to leave when everything is started.
    leaves_now: AtomicBool,
    /// In which turn the program last started something that could.
    turn: AtomicU32,
    /// What starts have sent in that turn: bytes, and [`SENT_START_BYTES`] for each start.
    sent: AtomicU64,
    /// The daemon receives on some wires while the program computes.
    has_left: AtomicBool,
    /// Credit is due for what the program has taken.
    owes: AtomicBool,
    /// What the program had started has left since it last looked for what has come.
    has_sent: AtomicBool,
    /// Messages of this node may wait for credit, which comes over whatever wire it was.
    lacks: AtomicBool,
    list: RwLock<Vec<Arc<Wire>>>,
    job: Arc<JobSegment>,
    local_rank: u32,
    commands: Arc<Commands>,
    control: Arc<ControlSegment>,
}

/// A wire, and the channels of this node's ranks that use it.
pub(crate) struct Wire {
    wire: Arc<ropeway_shm::Wire>,
    node: u16,
    /// Where the daemon finds whether we sleep, if we are gone.
    control: Arc<ControlSegment>,
    out: Mutex<KnownChannels>,
    input: Mutex<KnownChannels>,
    /// An event loop waits for something on it, so the daemon works it.
    is_left: AtomicBool,
    /// Receives that were left to the daemon while the program computes, and were not taken yet.
    left_receives: AtomicU32,
    /// The daemon receives for them: until the program waits.
    is_left_awhile: AtomicBool,
}

/// Which wires an event needs to be worked.
#[derive(Clone, Copy)]
pub(crate) enum Reach<'a> {
    /// None.
    Nowhere,
    /// This one.
    One(&'a Arc<Wire>),
    /// Several: all there are.
    All,
}

impl Reach<'_> {
    fn has(self, wire: &Wire) -> bool {
        match self {
            Self::Nowhere => false,
            Self::One(one) => ptr::eq(Arc::as_ptr(one), wire),
            Self::All => true,
        }
    }

    /// Whether who works these wires works the others.
    pub(crate) fn covers(self, others: Self) -> bool {
        match (self, others) {
            (_, Reach::Nowhere) | (Reach::All, _) => true,
            (Reach::One(one), Reach::One(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// What two events need together.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (reach, Reach::Nowhere) | (Reach::Nowhere, reach) => reach,
            (Reach::One(one), Reach::One(other)) if Arc::ptr_eq(one, other) => self,
            _ => Reach::All,
        }
    }
}

impl Wires {
    pub(crate) fn new(
        job: Arc<JobSegment>,
        local_rank: u32,
        commands: Arc<Commands>,
        control: Arc<ControlSegment>,
    ) -> Self {
        let (list, begun, turn, sent) = Default::default();
        let (has_left, leaves_now, owes, has_sent, lacks) = Default::default();
        Self {
            list,
            job,
            local_rank,
            commands,
            control,
            begun,
            has_left,
            leaves_now,
            turn,
            sent,
            owes,
            has_sent,
            lacks,
        }
    }

    /// The wire of a channel. `None` if what the channel says of it can't be.
    pub(crate) fn of(&self, end: &WiredEnd) -> Option<Arc<Wire>> {
        self.find(end.node.0, end.wire)
    }

    /// The daemon has sent the connection of a wire.
    pub(crate) fn connect(&self, node: u16, block: u64, socket: OwnedFd) {
        if let Some(wire) = self.find(node, block) {
            wire.wire.set_socket(socket);
        }
    }

    pub(crate) fn find(&self, node: u16, block: u64) -> Option<Arc<Wire>> {
        let is_it = |wire: &&Arc<Wire>| wire.wire.block() == block;
        if let Some(found) = self.list.read().expect(NO_PANIC).iter().find(is_it) {
            return Some(Arc::clone(found));
        }
        let mut list = self.list.write().expect(NO_PANIC);
        if let Some(found) = list.iter().find(is_it) {
            return Some(Arc::clone(found));
        }
        let wire = Arc::new(ropeway_shm::Wire::open(&self.job, block, Some(self.local_rank))?);
        let known = || Mutex::new(KnownChannels::new(Arc::clone(&wire)));
        let (out, input) = (known(), known());
        let (is_left, left_receives, is_left_awhile) = Default::default();
        let control = Arc::clone(&self.control);
        list.push(Arc::new(Wire { wire, node, control, out, input, is_left, left_receives, is_left_awhile }));
        list.last().map(Arc::clone)
    }

    /// Something was started that leaves a message of so many bytes to be sent by `sender`. If the daemon has to tend the wire, its node. Whoever has started it calls [`leave_now`](Self::leave_now) when everything is started.
    #[inline]
    pub(crate) fn begin(&self, wire: &Wire, bytes: u64, sender: Sender) -> Option<u16> {
        self.note_begun(1, bytes);
        self.see_to(wire, wire.wire.is_guarded(), bytes, sender)
    }

    /// The same of all that leaves by an outlet, which was [marked](Outlet::mark) before one SeqCst fence.
    #[inline]
    pub(crate) fn begin_all(&self, outlet: &Outlet, sender: Sender) -> Option<u16> {
        let (messages, bytes) = outlet.load();
        self.note_begun(messages, bytes);
        self.see_to(&outlet.wire, outlet.wire.wire.is_guarded_behind_fence(), outlet.largest(), sender)
    }

    fn note_begun(&self, messages: u64, bytes: u64) {
        let begun = self.begun.load(Ordering::Relaxed) + messages * WIRE_HEADER_BYTES as u64 + bytes;
        self.begun.store(begun, Ordering::Relaxed);
    }

    /// Whether the daemon has to be told of messages the largest of which has so many bytes, and so to tend which node's wire.
    #[inline]
    fn see_to(&self, wire: &Wire, is_guarded: bool, largest: u64, sender: Sender) -> Option<u16> {
        let is_seen_to = is_guarded
            && match sender {
                Sender::Waiter => true,
                Sender::Anybody { turn, leaves_core } => self.may_leave_now(largest, turn, leaves_core),
                Sender::Daemon => false,
            };
        (!is_seen_to && wire.wire.must_call()).then_some(wire.node)
    }

    /// Whether what is started for a program that computes may leave in the start; if so, that is noted for `leave_now`. To send little takes
    /// no longer than to wake the daemon. To send more does, but where each core has a rank that computes the daemon takes one from it, in
    /// which to wake up, to send and to fall asleep again. Who has spent as much as that on starts of their own wakes it.
    #[inline]
    fn may_leave_now(&self, bytes: u64, turn: u32, leaves_core: bool) -> bool {
        if self.turn.load(Ordering::Relaxed) != turn {
            self.turn.store(turn, Ordering::Relaxed);
            self.sent.store(0, Ordering::Relaxed);
        }
        let has_core = || leaves_core || self.job.has_free_core();
        let leaves = self.spends() <= SENT_IN_TURN_BYTES
            && self.commands.is_daemon_asleep()
            && (bytes <= SENT_BESIDE_FREE_CORES_BYTES || !has_core());
        if leaves {
            self.leaves_now.store(true, Ordering::Relaxed);
        }
        leaves
    }

    /// What starts will have sent in this turn if what has begun leaves with this one.
    fn spends(&self) -> u64 {
        self.sent.load(Ordering::Relaxed) + self.begun.load(Ordering::Relaxed) + SENT_START_BYTES
    }

    /// Sends what was started and is to leave now. Says whether there was anything.
    #[inline]
    pub(crate) fn leave_now(&self) -> bool {
        let leaves = self.leaves_now.load(Ordering::Relaxed);
        if leaves {
            self.leaves_now.store(false, Ordering::Relaxed);
            self.sent.store(self.spends(), Ordering::Relaxed);
            self.come();
        }
        leaves
    }

    /// So many receives of something large were started, and the program computes: the daemon receives until the program waits. If it has to
    /// be told, the wire's node; a [`take_receive`](Self::take_receive) of each follows.
    pub(crate) fn leave_receives(&self, wire: &Wire, count: u32) -> Option<u16> {
        wire.left_receives.fetch_add(count, Ordering::Relaxed);
        self.leave_awhile(wire).then_some(wire.node)
    }

    /// It has ended, or was given up.
    pub(crate) fn take_receive(&self, wire: &Wire) {
        wire.left_receives.fetch_sub(1, Ordering::Relaxed);
    }

    /// True if the daemon has to be told.
    fn leave_awhile(&self, wire: &Wire) -> bool {
        self.has_left.store(true, Ordering::Relaxed);
        let is_left = wire.is_left_awhile.load(Ordering::Relaxed) || wire.is_left_awhile.swap(true, Ordering::Relaxed);
        !is_left && wire.begin_sleep()
    }

    /// A message was taken and credit is due, which has time until the program sends or waits, or the daemon looks.
    /// If the daemon has to be told, the wire's node.
    pub(crate) fn owe(&self, wire: &Wire) -> Option<u16> {
        self.owes.store(true, Ordering::Relaxed);
        (!wire.wire.is_guarded() && wire.wire.must_call()).then_some(wire.node)
    }

    /// Whether something was started since the program last waited.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed) > 0
    }

    /// The program waits for what comes over these wires, and receives for itself again what it had left to the daemon there.
    /// Says whether there was anything.
    pub(crate) fn take_back(&self, reach: Reach<'_>) -> bool {
        let has_left = self.has_left.load(Ordering::Relaxed);
        if has_left {
            let mut still_has = false;
            self.each(Reach::All, |wire| match reach.has(wire) {
                true => wire.take_back(),
                false => still_has |= wire.is_left_awhile.load(Ordering::Relaxed),
            });
            self.has_left.store(still_has, Ordering::Relaxed);
        }
        has_left
    }

    /// It has waited for something else, and may compute again before it waits for what it had left.
    pub(crate) fn leave_again(&self) {
        self.each(Reach::All, |wire| {
            if wire.left_receives.load(Ordering::Relaxed) > 0 && self.leave_awhile(wire) {
                self.call(wire);
            }
        });
    }

    /// Whether neighbours that got a message from another's hand have not come since: they may have an answer for the same wire, and
    /// one system call is enough for all. Of larger messages those of half of the ranks are enough: the other node answers them while the
    /// rest is prepared here.
    pub(crate) fn expects_neighbours(&self) -> bool {
        let mut are_expected = false;
        self.each(Reach::All, |wire| are_expected |= wire.wire.come(self.local_rank));
        are_expected && !self.is_half_due()
    }

    /// Whether what is due is much, and of half of the ranks.
    fn is_half_due(&self) -> bool {
        let is_much = self.begun.load(Ordering::Relaxed) >= SENT_IN_HALVES_BYTES;
        let mut due = 0;
        if is_much {
            self.each(Reach::All, |wire| due += wire.wire.due());
        }
        is_much && due >= self.job.geometry().local_ranks / 2
    }

    /// Who has not come by now does something else.
    pub(crate) fn expect_nobody(&self) {
        self.each(Reach::All, |wire| wire.wire.expect_nobody());
    }

    /// The program comes to wait, or at least looks, or has started what is to leave now: what it has started leaves.
    pub(crate) fn come(&self) {
        self.begun.store(0, Ordering::Relaxed);
        self.has_sent.store(true, Ordering::Relaxed);
        self.each(Reach::All, |wire| {
            self.send(wire);
            // Who only sends never waits for what comes; the credit that is missing may have come long since.
            if wire.wire.is_starving() {
                self.work_one(wire);
            }
        });
    }

    /// The program waits for what comes over these wires. Credit that is due on others leaves now; on these it can wait for an answer.
    pub(crate) fn pay(&self, reach: Reach<'_>) {
        if self.owes.swap(false, Ordering::Relaxed) {
            self.each(Reach::All, |wire| {
                if !reach.has(wire) {
                    self.send(wire);
                }
            });
        }
    }

    /// Over which wires comes what a program needs that waits for this: credit, too, while messages lack it.
    pub(crate) fn reach<'a>(&self, reach: Reach<'a>) -> Reach<'a> {
        if self.lacks.load(Ordering::Relaxed) {
            let mut lacks = false;
            self.each(Reach::All, |wire| lacks |= wire.wire.is_starving());
            self.lacks.store(lacks, Ordering::Relaxed);
            if lacks {
                return Reach::All;
            }
        }
        reach
    }

    /// Whether what the program had started has left since it last looked for what has come.
    pub(crate) fn has_sent(&self) -> bool {
        self.has_sent.load(Ordering::Relaxed)
    }

    /// Sends and receives what is there. Says whether anything was.
    pub(crate) fn work(&self, reach: Reach<'_>) -> bool {
        let mut has_worked = false;
        self.each(reach, |wire| has_worked |= self.work_one(wire));
        has_worked
    }

    /// As [`work`](Self::work), for who will look again: goes away where somebody is sending, and if it `asks_first` takes its turn only
    /// where something has come, which is one more system call then.
    pub(crate) fn look(&self, reach: Reach<'_>, asks_first: bool) -> bool {
        let mut has_worked = false;
        self.each(reach, |wire| {
            if !wire.wire.is_sending() {
                match asks_first && !wire.wire.has_come() {
                    true => self.send(wire),
                    false => has_worked |= self.work_one(wire),
                }
            }
        });
        has_worked
    }

    fn work_one(&self, wire: &Wire) -> bool {
        self.has_sent.store(false, Ordering::Relaxed);
        let received = wire.receive();
        if received.has_ended {
            self.call(wire);
        }
        // Credit that is due for what has just come can wait for the answer.
        if received.frames == 0 || received.has_credit {
            self.send(wire);
        }
        received.frames > 0
    }

    /// A thread is about to sleep: the daemon receives from now on. To be given back to `end_sleep`.
    pub(crate) fn begin_sleep(&self, reach: Reach<'_>) -> usize {
        let mut wires = 0;
        self.each(reach, |wire| {
            wires += 1;
            if wire.begin_sleep() {
                self.call(wire);
            }
        });
        wires
    }

    /// It is awake again. Wires that have come up meanwhile are none of the first `wires`.
    pub(crate) fn end_sleep(&self, reach: Reach<'_>, mut wires: usize) {
        self.each(reach, |wire| {
            if wires > 0 {
                wires -= 1;
                wire.end_sleep();
            }
        });
    }

    /// An event loop waits for something: the daemon receives from now on, as long as the session lasts.
    pub(crate) fn leave(&self, wire: &Wire) {
        if !wire.is_left.swap(true, Ordering::Relaxed) && wire.begin_sleep() {
            self.call(wire);
        }
        self.send(wire);
    }

    fn send(&self, wire: &Wire) {
        if !wire.wire.is_due() {
            return;
        }
        if wire.send() == (Sent::Full { is_news: true }) {
            self.call(wire);
        }
        if wire.wire.is_starving() {
            self.lacks.store(true, Ordering::Relaxed);
        }
    }

    /// Asks the daemon to look after a wire.
    fn call(&self, wire: &Wire) {
        self.commands.call(Command::Tend { node: wire.node });
    }

    fn each(&self, reach: Reach<'_>, mut act: impl FnMut(&Wire)) {
        match reach {
            Reach::Nowhere => {}
            Reach::One(wire) => act(wire),
            Reach::All => self.list.read().expect(NO_PANIC).iter().for_each(|wire| act(wire)),
        }
    }
}

impl Drop for Wires {
    fn drop(&mut self) {
        let left = |wire: &&Arc<Wire>| wire.is_left.load(Ordering::Relaxed);
        let list = self.list.get_mut().expect(NO_PANIC);
        list.iter().filter(left).for_each(|wire| wire.end_sleep());
        list.iter().for_each(|wire| wire.take_back());
    }
}

impl Wire {
    /// The daemon no longer receives instead of the program that computes.
    fn take_back(&self) {
        if self.is_left_awhile.load(Ordering::Relaxed) && self.is_left_awhile.swap(false, Ordering::Relaxed) {
            self.end_sleep();
        }
    }

    /// The daemon receives from now on. True if it has to be told.
    fn begin_sleep(&self) -> bool {
        let must_call = self.wire.begin_sleep();
        self.control.mark_sleep(self.node);
        must_call
    }

    /// It need not any more. If it has taken us for gone it knows.
    fn end_sleep(&self) {
        if self.control.unmark_sleep(self.node) {
            self.wire.end_sleep();
        }
    }

    /// Sends what is due, unless another thread is at it.
    fn send(&self) -> Sent {
        match self.out.try_lock() {
            Ok(mut known) => self.wire.send_known(&mut known),
            Err(TryLockError::WouldBlock) => Sent::Busy,
            Err(TryLockError::Poisoned(_)) => unreachable!("{NO_PANIC}"),
        }
    }

    /// Receives what has come, unless another thread is at it.
    fn receive(&self) -> Received {
        match self.input.try_lock() {
            Ok(mut known) => self.wire.receive_known(&mut known),
            Err(TryLockError::WouldBlock) => Received::default(),
            Err(TryLockError::Poisoned(_)) => unreachable!("{NO_PANIC}"),
        }
    }
}

/// Sending more takes longer than waking a daemon that has a core.
pub(crate) const SENT_BESIDE_FREE_CORES_BYTES: u64 = 8 << 10;
/// Sending so many takes as long as the system call with which a start sends.
const SENT_START_BYTES: u64 = 40 << 10;
/// Sending so many, with their starts, takes as long as a daemon takes of the core that it is woken on.
const SENT_IN_TURN_BYTES: u64 = 192 << 10;
/// Preparing and receiving so many takes as long as a system call.
const SENT_IN_HALVES_BYTES: u64 = 4 << 10;

const NO_PANIC: &str = "nothing panics under this lock";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::wires;
    use ropeway_shm::JobGeometry;

    /// A wire as its daemon has it, and a rank's wires, among them this one.
    fn wire_of_a_rank() -> (ropeway_shm::Wire, Arc<ControlSegment>, Arc<Wires>, Arc<Wire>) {
        let geometry = JobGeometry { local_ranks: 1, arena_bytes_max: 1 << 20 };
        let job = Arc::new(JobSegment::create(geometry).unwrap());
        let block = job.arena(0).start;
        let daemon = ropeway_shm::Wire::open(&job, block, None).unwrap();
        daemon.write();
        let (control, wires) = wires(&job);
        let wire = wires.find(1, block).unwrap();
        (daemon, control, wires, wire)
    }

    #[test]
    fn few_starts_send_before_a_daemon_that_sleeps_is_woken() {
        let (daemon, control, wires, wire) = wire_of_a_rank();
        daemon.set_guarded(true);
        let tells = |bytes, sender| {
            let command = wires.begin(&wire, bytes, sender);
            daemon.hear();
            wires.leave_now();
            command.is_some()
        };
        let anybody = |turn, leaves_core| Sender::Anybody { turn, leaves_core };
        assert!(tells(8, anybody(1, false)), "it is awake");
        assert!(control.consumer().arm());
        let is_large = SENT_BESIDE_FREE_CORES_BYTES + 1;
        wires.job.add_cores([0]);
        assert!(!tells(is_large, anybody(2, false)), "the core is the program's");
        assert!(tells(is_large, anybody(3, true)), "the program leaves it");
        assert!(tells(SENT_IN_TURN_BYTES, anybody(4, false)));
        wires.come();
        wires.job.add_cores([1]);
        for turn in 5..7 {
            assert!(tells(is_large, anybody(turn, false)), "there is another");
            let starts = [(); 4].map(|()| tells(8, anybody(turn, false)));
            assert!(!starts.contains(&true), "{turn}: {starts:?}");
            assert!(tells(8, anybody(turn, false)));
            wires.come();
        }
        assert!(!tells(8, Sender::Waiter));
        assert!(tells(8, Sender::Daemon));
    }

    #[test]
    fn what_is_left_to_the_daemon_is_so_while_nobody_waits_for_the_wire() {
        let (daemon, _, wires, wire) = wire_of_a_rank();
        assert!(!wires.take_back(Reach::All));
        assert_eq!([(); 2].map(|()| wires.leave_receives(&wire, 1)), [Some(1), None]);
        assert!(wires.take_back(Reach::Nowhere) && daemon.has_sleepers());
        assert!(wires.take_back(Reach::One(&wire)) && !daemon.has_sleepers());
        wires.take_receive(&wire);
        wires.leave_again();
        assert!(daemon.has_sleepers(), "the other one has not ended");
        wires.take_receive(&wire);
        assert!(wires.take_back(Reach::All) && !daemon.has_sleepers());
        wires.leave_again();
        assert!(!daemon.has_sleepers());
        wires.leave_receives(&wire, 1);
        drop(wires);
        assert!(!daemon.has_sleepers());
    }
    #[test]
    fn who_is_killed_in_its_sleep_leaves_nobody_to_be_woken() {
        let (daemon, control, wires, wire) = wire_of_a_rank();
        [(); 2].iter().for_each(|()| assert_eq!(wires.begin_sleep(Reach::All), 1));
        wires.leave_receives(&wire, 1);
        wires.end_sleep(Reach::All, 1);
        assert!(daemon.has_sleepers());
        daemon.forget_sleeps(control.take_sleeps(1));
        assert!(!daemon.has_sleepers());
        // It was not killed, only cut off.
        wires.end_sleep(Reach::All, 1);
        wire.wire.begin_sleep();
        drop(wires);
        assert!(daemon.has_sleepers(), "another rank sleeps");
        daemon.forget_sleeps(u32::MAX);
        assert!(!daemon.has_sleepers());
    }
}
