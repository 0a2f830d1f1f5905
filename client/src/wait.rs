//! The waiting loop: spin, then yield the core, then sleep in the kernel.
//!
//! A bare spin starves whoever shall finish the operation when there are more parties than cores, so no phase is one.

use std::fmt;
use std::hint;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu};
use nix::unistd::Pid;
use ropeway_proto::limits::COMBINER_DOORBELL;
use ropeway_shm::{ControlSegment, JobSegment};

use crate::Error;
use crate::patience::Patience;
use crate::place::Place;
use crate::presence::now_ns;
use crate::watch::Watch;
use crate::wires::{Reach, Wires};

/// What a thread does while it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum WaitMode {
    /// Never sleeps: the fastest answer, at the price of a core, which it offers to others once it has looked for some microseconds.
    Polling,
    /// Sleeps almost at once: no CPU time while waiting, a few microseconds more until the answer.
    Blocking,
    /// Polls as long as waits are likely to end soon, up to some tens of microseconds, then sleeps.
    #[default]
    Adaptive,
}

impl WaitMode {
    pub(crate) fn from_index(index: u8) -> Self {
        match index {
            0 => Self::Polling,
            1 => Self::Blocking,
            _ => Self::Adaptive,
        }
    }
}

impl fmt::Display for WaitMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Polling => "polling",
            Self::Blocking => "blocking",
            Self::Adaptive => "adaptive",
        })
    }
}

/// A word that is not a [`WaitMode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not one of polling, blocking, adaptive")]
pub struct UnknownWaitMode;

impl FromStr for WaitMode {
    type Err = UnknownWaitMode;

    fn from_str(word: &str) -> Result<Self, UnknownWaitMode> {
        match word {
            "polling" => Ok(Self::Polling),
            "blocking" => Ok(Self::Blocking),
            "adaptive" => Ok(Self::Adaptive),
            _ => Err(UnknownWaitMode),
        }
    }
}

/// Something in shared memory that a thread waits for.
pub(crate) trait Event {
    fn has_happened(&self) -> bool;
    /// Asks the daemon to wake the doorbell when it happens. Whoever arms looks once more before sleeping.
    fn arm(&self, doorbell: u32);
    fn disarm(&self);
    /// Whether a peer makes it happen, and not the daemon, which may need our core to do so.
    fn is_direct(&self) -> bool {
        false
    }
    /// Whether none of the other ranks on this core can do anything for it.
    fn is_last_on_core(&self) -> bool {
        false
    }
    /// Over which wires it comes: whoever waits works them.
    fn reach(&self) -> Reach<'_> {
        Reach::Nowhere
    }
    /// Whether it was left to the daemon to receive what it needs.
    fn was_left(&self) -> bool {
        false
    }
    /// Whether the daemon may have something to do for it.
    fn needs_daemon(&self) -> bool {
        true
    }
    /// For how long to sleep before looking again, though nobody has called.
    fn sleeps_for(&self) -> Option<Duration> {
        None
    }
    /// Whether something is learnt from how long it has taken.
    fn teaches(&self) -> bool {
        true
    }
    /// What has been learnt of how long this takes, if it happens again and again.
    fn patience(&self) -> Option<&Patience> {
        None
    }
}

/// Where the threads of a session wait, and what they know of waiting.
pub(crate) struct WaitingRoom {
    pub(crate) job: Arc<JobSegment>,
    pub(crate) control: Arc<ControlSegment>,
    wires: Arc<Wires>,
    pub(crate) local_rank: u32,
    place: Place,
    /// Of what happens only once.
    patience: Patience,
    /// Somebody else wanted the core when it was last yielded.
    is_contended: AtomicBool,
}

impl WaitingRoom {
    pub(crate) fn new(job: Arc<JobSegment>, control: Arc<ControlSegment>, wires: Arc<Wires>, local_rank: u32) -> Self {
        job.add_cores(own_cores());
        let place = Place::new(job.clone(), local_rank);
        let is_contended = AtomicBool::new(false);
        Self { job, control, wires, local_rank, place, patience: Patience::default(), is_contended }
    }

    /// Looks before anything else: none while more ranks are awake than there are cores, and one of them may need ours.
    fn spins(&self, event: &impl Event) -> u32 {
        if self.keeps_core(event) {
            DIRECT_SPINS
        } else if matches!(event.reach(), Reach::Nowhere) && !self.is_crowded() {
            SPINS
        } else {
            0
        }
    }

    /// Whether looking is better than yielding for a while: a peer makes it happen, and ranks have a core each, or those that share ours have
    /// done their part. Daemons and strangers may want ours, but whoever gets it keeps it for a time slice; the peer may be running now, and
    /// would wait for us then.
    fn keeps_core(&self, event: &impl Event) -> bool {
        event.is_direct()
            && matches!(event.reach(), Reach::Nowhere)
            && (!self.outnumbers_cores() || event.is_last_on_core())
    }

    /// Where there are cores for all ranks we go to one of our own. False if another rank has to wait for ours all the same.
    fn has_made_room(&self) -> bool {
        self.outnumbers_cores() || self.place.seek_own_core()
    }

    /// For how long that is better.
    fn core_kept_for(&self) -> Duration {
        if self.outnumbers_cores() { KEPT_AMONG_MANY } else { KEPT }
    }

    /// How often to look for what somebody does that is at it, before doing without.
    pub(crate) fn looks(&self) -> u32 {
        if self.is_crowded() { 0 } else { DIRECT_SPINS }
    }

    /// Whether others want the cores: more ranks are awake than there are, or a yield was taken up.
    fn is_crowded(&self) -> bool {
        self.outnumbers_cores() || self.is_contended.load(Ordering::Relaxed)
    }

    /// Whether more ranks of this node are awake than there are cores.
    pub(crate) fn outnumbers_cores(&self) -> bool {
        self.job.outnumbers_cores()
    }

    /// How to wait while the daemon moves so many bytes. On its core an adaptive wait sleeps at once if they are many: who yields gets
    /// half of the core all the same, because the kernel sees to it that both get as much.
    pub(crate) fn mode_for(&self, bytes: u64, mode: WaitMode) -> WaitMode {
        let is_in_its_way = || sched_getcpu().is_ok_and(|core| core as u32 == self.job.daemon_core());
        if mode == WaitMode::Adaptive && bytes >= LARGE_BYTES && is_in_its_way() { WaitMode::Blocking } else { mode }
    }

    /// Waits for `event`, or until the daemon is gone. Allocates nothing and holds no lock.
    pub(crate) fn wait(&self, event: &impl Event, mode: WaitMode, watch: &Watch) -> Result<(), Error> {
        for _ in 0..self.spins(event) {
            if event.has_happened() {
                return Ok(());
            }
            hint::spin_loop();
        }
        if self.yields_first(event) && !event.has_happened() {
            self.give_way();
        }
        if event.has_happened() {
            return Ok(());
        }
        let begin = Stopwatch::start();
        // While we are awake the daemon is to be quick; it need not be when we sleep or compute.
        let needs_daemon = event.needs_daemon();
        if needs_daemon {
            self.control.begin_wait();
        }
        let ended = self.yield_until(event, mode, watch, begin);
        if needs_daemon {
            self.control.end_wait();
        }
        let lasted = match ended? {
            Some(lasted) => lasted,
            None => {
                self.sleep_until(event, watch)?;
                begin.elapsed()
            }
        };
        if mode == WaitMode::Adaptive && event.teaches() {
            self.patience_for(event).learn(lasted / worth(event));
        }
        Ok(())
    }

    /// Whether those waited for have most often done their part when the core comes back. To look for what comes from another node is a
    /// system call, and what was just sent has no answer yet: another rank of this core may send with it or look for all.
    fn yields_first(&self, event: &impl Event) -> bool {
        match event.reach() {
            Reach::Nowhere => self.is_crowded() && !self.keeps_core(event),
            Reach::One(_) | Reach::All => self.outnumbers_cores() && self.wires.has_sent(),
        }
    }

    /// Yields a core that others want. Among more ranks than cores clocks are not worth reading; where it was somebody else who wanted it,
    /// he may not any more, and then looking is better.
    fn give_way(&self) {
        if self.outnumbers_cores() {
            return thread::yield_now();
        }
        let begin = Stopwatch::start();
        thread::yield_now();
        self.is_contended.store(begin.elapsed() > LONE_YIELD, Ordering::Relaxed);
    }

    /// How long it took to happen, unless it was time to sleep before.
    fn yield_until(
        &self,
        event: &impl Event,
        mode: WaitMode,
        watch: &Watch,
        begin: Stopwatch,
    ) -> Result<Option<Duration>, Error> {
        let limit = match mode {
            WaitMode::Polling => None,
            WaitMode::Blocking => Some(BLOCKING_YIELD),
            WaitMode::Adaptive => Some(self.patience_for(event).limit() * worth(event)),
        };
        let mut waited = Duration::ZERO;
        self.wires.pay(event.reach());
        loop {
            self.work_wires(event, waited);
            if has_ended(event, watch)? {
                return Ok(Some(waited));
            }
            if limit.is_some_and(|limit| waited >= limit) {
                return Ok(None);
            }
            if waited < self.core_kept_for() && self.keeps_core(event) && self.has_made_room() {
                (0..DIRECT_SPINS).take_while(|_| !event.has_happened()).for_each(|_| hint::spin_loop());
                waited = begin.elapsed();
                continue;
            }
            // Whether somebody wants the core need not be found out then.
            if self.outnumbers_cores() {
                thread::yield_now();
                waited = begin.elapsed();
                continue;
            }
            // A look at a wire takes longer than a lone yield.
            let has_looked = !matches!(self.wires.reach(event.reach()), Reach::Nowhere);
            let before = if has_looked { begin.elapsed() } else { waited };
            thread::yield_now();
            waited = begin.elapsed();
            self.is_contended.store(waited - before > LONE_YIELD, Ordering::Relaxed);
        }
    }

    fn patience_for<'a>(&'a self, event: &'a impl Event) -> &'a Patience {
        event.patience().unwrap_or(&self.patience)
    }

    /// Looks at the wires the event may come over, several times if nobody else wants the core. Who has waited for long looks most of the
    /// time, and whoever is stopped in its turn at a wire keeps all ranks of the node from receiving: so it asks first.
    fn work_wires(&self, event: &impl Event, waited: Duration) {
        let reach = self.wires.reach(event.reach());
        if matches!(reach, Reach::Nowhere) {
            return;
        }
        let looks = if self.is_crowded() { 1 } else { WIRE_LOOKS };
        for _ in 0..looks {
            // A neighbour may have received for us: then there is nothing to look for.
            if event.has_happened() || self.wires.look(reach, waited > ASKS_FIRST) {
                break;
            }
        }
    }

    fn sleep_until(&self, event: &impl Event, watch: &Watch) -> Result<(), Error> {
        let index = DOORBELL.with(|index| *index);
        let doorbell = self.job.doorbell(self.local_rank, index);
        let doorbell = doorbell.expect("the index is below the notifier's");
        loop {
            let seen = doorbell.listen();
            event.arm(index);
            let reach = self.wires.reach(event.reach());
            let wires = self.wires.begin_sleep(reach);
            // What has come before the daemon began to watch is for us to find.
            self.wires.work(reach);
            let ended = has_ended(event, watch);
            if matches!(ended, Ok(false)) {
                let pinned = self.place.leave_to_sleep();
                self.job.set_asleep(self.local_rank, true);
                doorbell.sleep(seen, event.sleeps_for());
                self.job.set_asleep(self.local_rank, false);
                drop(pinned);
            }
            self.wires.end_sleep(reach, wires);
            if !matches!(ended, Ok(false)) {
                event.disarm();
                return ended.map(drop);
            }
        }
    }
}

/// Since when a wait lasts. As `Instant`, in fewer instructions, which after each yield come out of cold caches.
#[derive(Clone, Copy)]
struct Stopwatch {
    began_ns: u64,
}

impl Stopwatch {
    fn start() -> Self {
        Self { began_ns: now_ns() }
    }

    fn elapsed(self) -> Duration {
        Duration::from_nanos(now_ns() - self.began_ns)
    }
}

/// Cores this process may run on: all of the node's, or a few that a launcher has bound it to. Of ranks that share a quota of CPU time
/// each names the first ones, as many as the quota is worth, so that they have no more than that together.
fn own_cores() -> impl Iterator<Item = usize> {
    let usable = thread::available_parallelism().map_or(1, usize::from);
    let bound = sched_getaffinity(Pid::from_raw(0)).ok();
    // The set can't be read where there are more cores than it holds.
    (0..CpuSet::count()).filter(move |&core| bound.is_none_or(|set| set.is_set(core).unwrap_or(false))).take(usable)
}

/// By how much longer than others those look whose event may come from another node.
fn worth(event: &impl Event) -> u32 {
    if matches!(event.reach(), Reach::Nowhere) && !event.needs_daemon() { 1 } else { FAR_PATIENCE }
}

/// `Ok(true)` when the event has happened, an error when it can't any more.
fn has_ended(event: &impl Event, watch: &Watch) -> Result<bool, Error> {
    if event.has_happened() {
        return Ok(true);
    }
    match watch.failure() {
        None => Ok(false),
        // What the daemon has finished before it ended counts.
        Some(_) if event.has_happened() => Ok(true),
        Some(error) => Err(error),
    }
}

/// A few hundred nanoseconds.
const SPINS: u32 = 12;
/// Longer than a peer takes to answer that is on a core.
const DIRECT_SPINS: u32 = 60;
/// If both ends sleep a message between nodes wakes two daemons and two ranks, so that it never comes within the time that
/// makes looking worth while, and all would sleep for ever after.
const FAR_PATIENCE: u32 = 4;
/// For so long a thread looks for what a peer does before it yields: many times what an answer takes from a peer that is on a core, and
/// little of a time slice.
const KEPT: Duration = Duration::from_micros(50);
/// The same where ranks share cores: a turn of theirs and a half. The kernel may have put a rank behind us that has its turn now, and
/// ranks that have slept wake up anywhere.
const KEPT_AMONG_MANY: Duration = Duration::from_micros(2);
/// A yield that nobody takes up is shorter.
const LONE_YIELD: Duration = Duration::from_nanos(800);
/// Moving so many takes the daemon longer than waking us.
const LARGE_BYTES: u64 = 128 << 10;
/// Looks at a wire before the core is yielded; each is a system call.
const WIRE_LOOKS: u32 = 4;
/// A wait so long is over some tenths of a microsecond later, and nobody notices.
const ASKS_FIRST: Duration = Duration::from_micros(200);
/// How long a thread that is to sleep yields its core first.
const BLOCKING_YIELD: Duration = Duration::from_micros(2);

static NEXT_DOORBELL: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The doorbell this thread sleeps on. Threads beyond those share one and wake up together, which is
    /// harmless.
    static DOORBELL: u32 = NEXT_DOORBELL.fetch_add(1, Ordering::Relaxed) % COMBINER_DOORBELL;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::{Never, wires};
    use nix::sched::sched_setaffinity;
    use ropeway_shm::JobGeometry;

    #[test]
    fn nobody_spins_while_more_ranks_are_awake_than_there_are_cores() {
        let cores = thread::available_parallelism().unwrap().get() as u32;
        let geometry = JobGeometry { local_ranks: cores + 1, arena_bytes_max: 4096 };
        let job = Arc::new(JobSegment::create(geometry).unwrap());
        let (control, wires) = wires(&job);
        let room = WaitingRoom::new(job.clone(), control, wires, 0);
        assert_eq!((room.spins(&Never), room.looks()), (0, 0));
        job.set_asleep(0, true);
        assert_eq!((room.spins(&Never), room.looks()), (SPINS, DIRECT_SPINS));
        job.set_asleep(0, false);
        assert_eq!((room.spins(&Never), room.looks()), (0, 0));
    }

    #[test]
    fn who_has_just_sent_to_another_node_makes_room_on_a_crowded_core_before_it_looks() {
        struct FarAway;
        impl Event for FarAway {
            fn has_happened(&self) -> bool {
                false
            }
            fn arm(&self, _doorbell: u32) {}
            fn disarm(&self) {}
            fn reach(&self) -> Reach<'_> {
                Reach::All
            }
        }
        let cores = thread::available_parallelism().unwrap().get() as u32;
        let geometry = JobGeometry { local_ranks: cores + 1, arena_bytes_max: 1 << 20 };
        let job = Arc::new(JobSegment::create(geometry).unwrap());
        let block = job.arena(0).start;
        ropeway_shm::Wire::open(&job, block, None).unwrap().write();
        let (control, wires) = wires(&job);
        wires.find(1, block).unwrap();
        let room = WaitingRoom::new(job.clone(), control, wires.clone(), 0);
        assert!(!room.yields_first(&FarAway), "an answer may be there");
        wires.come();
        assert!(room.yields_first(&FarAway));
        wires.look(Reach::All, false);
        assert!(!room.yields_first(&FarAway));
        wires.come();
        job.set_asleep(0, true);
        assert!(!room.yields_first(&FarAway), "nobody needs the core");
    }

    #[test]
    fn ranks_that_are_bound_to_a_core_each_have_them_together() {
        let cores: Vec<usize> = own_cores().collect();
        let geometry = JobGeometry { local_ranks: cores.len() as u32, arena_bytes_max: 4096 };
        let job = Arc::new(JobSegment::create(geometry).unwrap());
        let bound_room = |(local_rank, &core): (usize, &usize)| {
            let mut only = CpuSet::new();
            only.set(core).unwrap();
            sched_setaffinity(Pid::from_raw(0), &only).unwrap();
            let (control, wires) = wires(&job);
            WaitingRoom::new(job.clone(), control, wires, local_rank as u32)
        };
        thread::scope(|scope| {
            // Binding ends with the thread.
            scope.spawn(|| {
                let rooms: Vec<_> = cores.iter().enumerate().map(bound_room).collect();
                assert!(rooms.iter().all(|room| room.spins(&Never) == SPINS));
            });
        });
    }

    #[test]
    fn wait_modes_survive_their_names_and_numbers() {
        for mode in [WaitMode::Polling, WaitMode::Blocking, WaitMode::Adaptive] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(WaitMode::from_index(mode as u8), mode);
        }
        assert_eq!("sleepy".parse::<WaitMode>(), Err(UnknownWaitMode));
    }
}
