//! When a program comes to wait for what it has started: at once, or after it has computed.
//!
//! Who waits can do the work himself; for who computes the daemon has to. Which it will be is known only afterwards, so each
//! request remembers what it was the last time.
//!
//! What both ends are on one node for costs a core's time, whoever does it, and the daemon more of it than the ranks, in whose caches the data
//! is. So where ranks compute on all cores it is left to whoever comes to wait first; the daemon is asked if a core is free, because
//! there are fewer ranks than cores or because the program sleeps instead of computing.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use ropeway_shm::EventLog;

/// A program that comes to wait within this time after a start has computed nothing to speak of. In tests that is more than losing the core
/// takes.
const PROMPT_NS: u64 = if cfg!(test) { 10_000_000 } else { 20_000 };
/// Of a send to another node: to wake the daemon for it takes half of this. What is received comes later than what is sent leaves, and programs tell
/// its sender in between that they are ready, which takes more than this.
const PROMPT_SEND_NS: u64 = if cfg!(test) { PROMPT_NS / 2 } else { 8_000 };
/// More for each request it has started since it last waited: starting is not computing.
const START_NS: u64 = 1_000;
/// A program that stays away for less is back before a daemon on another core has woken up and done much.
const LONG_NS: u64 = if cfg!(test) { 20_000_000 } else { 500_000 };

/// What somebody's request is optimised for, where an early end and computing meanwhile are at odds: somebody has to move the
/// message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Favor {
    /// Whatever the program did last time: moves it itself if it waited right after it had started, else leaves it to the
    /// daemon, which takes a core that is free: on a node whose ranks compute on all of them, whoever waits first moves what stays there.
    /// What goes to other nodes leaves in the start, if the daemon would have to be woken for it: up to 8 KiB, or 64 KiB if each core has a
    /// rank that computes.
    #[default]
    Learnt,
    /// An early end: whoever waits moves it, and the daemon, which would take a core from the two, is not woken.
    Latency,
    /// Computing meanwhile: the daemon moves it from the start.
    Overlap,
}

/// Who is to send what a start leaves on a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The program, which is likely to come to wait at once.
    Waiter,
    /// Whoever does it soonest, as the program is likely to compute.
    Anybody {
        /// How often the program has come to wait and gone on before.
        turn: u32,
        /// It is likely to leave its core to others for long.
        leaves_core: bool,
    },
    /// The daemon, as the program wishes.
    Daemon,
}

/// When something is started, or what was started has left, or the program comes to wait. The clock is read if somebody wants to know, and
/// once for all who do.
#[derive(Default)]
pub(crate) struct Moment {
    /// Zero until it was read.
    ns: Cell<u64>,
}

impl Moment {
    pub(crate) fn ns(&self) -> u64 {
        if self.ns.get() == 0 {
            self.ns.set(now_ns());
        }
        self.ns.get()
    }
}

/// When the program came to wait, for whatever it was, after it had started something. What starts and waits touch is one cache line.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Presence {
    /// How often it has come between two starts.
    turn: AtomicU32,
    /// How many requests were started in this turn.
    starts: AtomicU32,
    /// When it came in each of the last turns, less what its starts took; zero until it has, [`UNSEEN`] if nobody looked. It may come for
    /// other things many times before it waits for what was started first.
    came_ns: [AtomicU64; TURNS],
    /// When the last wait ended that the program came to after long, and how long its process had run by then; zero before. It takes a
    /// system call to find out, so other waits don't count.
    left_ns: AtomicU64,
    left_run_ns: AtomicU64,
    /// Whether the process had left most of a core's time to others between that and the next such wait.
    leaves_core: AtomicBool,
}

/// A moment that is none.
const UNSEEN: u64 = 1;
/// Turns that are remembered.
const TURNS: usize = 7;

/// What a request has learnt of its program.
pub(crate) struct Habit {
    /// Zero if it was not noted.
    started_ns: u64,
    /// In which turn that was.
    turn: u32,
    /// The program had to wait since the last noted start, or nothing is known yet.
    had_to_wait: bool,
    /// Whether the program waited, for whatever it was, right after the start before this one.
    waits_promptly: bool,
    /// Whether it came after long.
    is_long: bool,
    /// The request sends to another node.
    leaves_node: bool,
}

impl Presence {
    /// The program waits.
    #[inline]
    pub(crate) fn note(&self, moment: &Moment) {
        let came_ns = self.came_in(self.turn.load(Ordering::Relaxed));
        if came_ns.load(Ordering::Relaxed) <= UNSEEN {
            let starts = u64::from(self.starts.load(Ordering::Relaxed));
            came_ns.store(moment.ns().saturating_sub(START_NS * starts).max(UNSEEN + 1), Ordering::Relaxed);
        }
    }

    /// It waits for what is over, and nobody looks when it has come: reading the clock takes as long as all the rest.
    #[inline]
    pub(crate) fn note_unseen(&self) {
        let came_ns = self.came_in(self.turn.load(Ordering::Relaxed));
        if came_ns.load(Ordering::Relaxed) == 0 {
            came_ns.store(UNSEEN, Ordering::Relaxed);
        }
    }

    /// The program starts something. Says in which turn.
    fn begin(&self) -> u32 {
        let (mut turn, mut starts) = (self.turn.load(Ordering::Relaxed), self.starts.load(Ordering::Relaxed));
        if self.came_in(turn).load(Ordering::Relaxed) > 0 {
            (turn, starts) = (turn.wrapping_add(1), 0);
            self.came_in(turn).store(0, Ordering::Relaxed);
            self.turn.store(turn, Ordering::Relaxed);
        }
        self.starts.store(starts.saturating_add(1), Ordering::Relaxed);
        turn
    }

    /// When it came after a start in that turn, less what its starts took. `None` if nobody has looked, or it is long forgotten.
    fn came_after(&self, turn: u32) -> Option<u64> {
        // Threads that start at once may set the turn back.
        let is_known = self.turn.load(Ordering::Relaxed).wrapping_sub(turn) < TURNS as u32;
        let came_ns = self.came_in(turn).load(Ordering::Relaxed);
        (is_known && came_ns > UNSEEN).then_some(came_ns)
    }

    /// A wait begins that the program came to after long.
    fn arrive(&self, now: Clocks) {
        let [left_ns, left_run_ns] = [&self.left_ns, &self.left_run_ns].map(|word| word.load(Ordering::Relaxed));
        let leaves_core = left_ns > 0 && 2 * now.run_ns.saturating_sub(left_run_ns) < now.ns.saturating_sub(left_ns);
        self.leaves_core.store(leaves_core, Ordering::Relaxed);
    }

    /// It ends.
    fn leave(&self, now: Clocks) {
        self.left_ns.store(now.ns, Ordering::Relaxed);
        self.left_run_ns.store(now.run_ns, Ordering::Relaxed);
    }

    fn came_in(&self, turn: u32) -> &AtomicU64 {
        &self.came_ns[turn as usize % TURNS]
    }
}

impl Default for Habit {
    fn default() -> Self {
        let (started_ns, turn, waits_promptly, is_long, leaves_node) = Default::default();
        Self { started_ns, turn, had_to_wait: true, waits_promptly, is_long, leaves_node }
    }
}

impl Habit {
    /// Of a send to another node.
    pub(crate) fn of_send() -> Self {
        Self { leaves_node: true, ..Self::default() }
    }

    /// One of the messages is a send to another node.
    pub(crate) fn note_send(&mut self) {
        self.leaves_node = true;
    }

    /// The request is started. Says whether the program is likely to come to wait at once.
    pub(crate) fn begin(&mut self, presence: &Presence, favor: Favor, moment: &Moment) -> bool {
        self.started_ns = moment.ns();
        self.turn = presence.begin();
        self.is_prompt(favor)
    }

    /// The request was started together with others that this is of.
    pub(crate) fn begin_with(&mut self, others: &Self) {
        (self.started_ns, self.turn) = (others.started_ns, others.turn);
    }

    /// The request is started, and [`told`](Self::told) says when.
    pub(crate) fn begin_told(&mut self, presence: &Presence) {
        self.started_ns = 0;
        self.turn = presence.begin();
    }

    /// The same of an offer to another rank of the node. If the last message was there when the program came to wait, as those are that move
    /// while it computes, there is nothing to be learnt and the start is not noted: to read the clock takes as long as all the rest. If it was
    /// not, the program may well wait again.
    #[inline]
    pub(crate) fn begin_offer(&mut self, presence: &Presence, favor: Favor, moment: &Moment) -> bool {
        !self.begin_quietly(favor) && self.begin_noted_offer(presence, favor, moment)
    }

    /// The same if there is nothing to be learnt; says whether that is so.
    #[inline]
    pub(crate) fn begin_quietly(&mut self, favor: Favor) -> bool {
        let is_quiet = !self.had_to_wait && !self.is_prompt(favor);
        if is_quiet {
            self.started_ns = 0;
        }
        is_quiet
    }

    #[inline(never)]
    fn begin_noted_offer(&mut self, presence: &Presence, favor: Favor, moment: &Moment) -> bool {
        let had_to_wait = std::mem::take(&mut self.had_to_wait);
        self.begin(presence, favor, moment) || (had_to_wait && favor == Favor::Learnt)
    }

    /// Whether the program is likely to come to wait at once after a start.
    #[inline]
    pub(crate) fn is_prompt(&self, favor: Favor) -> bool {
        match favor {
            Favor::Learnt => self.waits_promptly,
            Favor::Latency => true,
            Favor::Overlap => false,
        }
    }

    /// The request is started, and leaves something on a wire. Says who is to send it.
    pub(crate) fn begin_on_wire(&mut self, presence: &Presence, favor: Favor, moment: &Moment) -> Sender {
        self.begin(presence, favor, moment);
        self.sender(presence, favor)
    }

    /// The same of a start of which [`told`](Self::told) says when it was.
    pub(crate) fn begin_told_on_wire(&mut self, presence: &Presence, favor: Favor) -> Sender {
        self.begin_told(presence);
        self.sender(presence, favor)
    }

    fn sender(&self, presence: &Presence, favor: Favor) -> Sender {
        match self.is_prompt(favor) {
            true => Sender::Waiter,
            false if favor == Favor::Overlap => Sender::Daemon,
            false => Sender::Anybody { turn: self.turn, leaves_core: self.leaves_core(presence) },
        }
    }

    /// Whether the program is likely to sleep, or wait for something else, for long.
    fn leaves_core(&self, presence: &Presence) -> bool {
        self.is_long && presence.leaves_core.load(Ordering::Relaxed)
    }

    /// After a start that is not prompt: whether the daemon is to do what anybody can do who is on this node.
    pub(crate) fn asks_daemon(&self, presence: &Presence, favor: Favor, has_free_core: bool) -> bool {
        favor == Favor::Overlap || has_free_core || self.leaves_core(presence)
    }

    /// The daemon was told of the start, and may have taken the core at once: what the program does next counts from here.
    pub(crate) fn told(&mut self, moment: &Moment) {
        self.started_ns = moment.ns();
    }

    /// When the request was last started.
    #[inline]
    pub(crate) fn started_ns(&self) -> u64 {
        self.started_ns
    }

    /// The program waits for the request, and maybe waited for others before.
    pub(crate) fn learn(&mut self, presence: &Presence) {
        if let Some(came_ns) = presence.came_after(self.turn).filter(|_| self.started_ns > 0) {
            let away_ns = came_ns.saturating_sub(self.started_ns);
            self.waits_promptly = away_ns < if self.leaves_node { PROMPT_SEND_NS } else { PROMPT_NS };
            self.is_long = away_ns >= LONG_NS;
        }
    }

    /// It has to wait indeed.
    pub(crate) fn begin_wait(&mut self, presence: &Presence) {
        self.had_to_wait = true;
        if self.is_long {
            presence.arrive(Clocks::now());
        }
    }

    /// The program waits no more.
    pub(crate) fn end_wait(&self, presence: &Presence) {
        if self.is_long {
            presence.leave(Clocks::now());
        }
    }
}

/// Nanoseconds of the clock that all processes of the machine share. Never zero.
pub(crate) fn now_ns() -> u64 {
    EventLog::now_ns()
}

/// What time it is, and for how long all threads of this process have run.
#[derive(Clone, Copy)]
struct Clocks {
    ns: u64,
    run_ns: u64,
}

impl Clocks {
    fn now() -> Self {
        let run = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::MAX, Duration::from);
        Self { ns: now_ns(), run_ns: run.as_nanos() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// What a request has learnt whose program did this between its start and its wait.
    fn waits_promptly_after(habit: &mut Habit, presence: &Presence, act: impl FnOnce()) -> bool {
        habit.begin(presence, Favor::Learnt, &Moment::default());
        act();
        presence.note(&Moment::default());
        habit.learn(presence);
        habit.begin(presence, Favor::Learnt, &Moment::default())
    }

    fn compute() {
        thread::sleep(Duration::from_nanos(2 * PROMPT_NS));
    }

    #[test]
    fn what_counts_is_when_the_program_came_first_after_the_start() {
        let presence = Presence::default();
        let mut habit = Habit { waits_promptly: true, ..Habit::default() };
        let mut learns = |act: &dyn Fn()| waits_promptly_after(&mut habit, &presence, act);
        let exchange = |count| {
            for _ in 0..count {
                Habit::default().begin(&presence, Favor::Learnt, &Moment::default());
                presence.note(&Moment::default());
                compute();
            }
        };
        assert!(!learns(&compute));
        assert!(learns(&|| exchange(TURNS - 1)), "it came at once, for something else");
        assert!(!learns(&compute));
        assert!(!learns(&|| exchange(TURNS + 1)), "nobody knows any more");
    }

    #[test]
    fn nothing_is_learnt_from_a_wait_that_nobody_saw_begin() {
        let presence = Presence::default();
        let mut habit = Habit::default();
        let mut learns = |come: &dyn Fn(&Presence)| {
            habit.begin(&presence, Favor::Learnt, &Moment::default());
            come(&presence);
            habit.learn(&presence);
            habit.waits_promptly
        };
        assert!(!learns(&|presence| presence.note_unseen()));
        assert!(learns(&|presence| presence.note(&Moment::default())), "a turn of its own");
        assert!(learns(&|presence| {
            presence.note_unseen();
            presence.note(&Moment::default());
        }));
        compute();
        assert!(learns(&|presence| presence.note_unseen()));
        let seen_later = |presence: &Presence| {
            presence.note_unseen();
            compute();
            presence.note(&Moment::default());
        };
        assert!(!learns(&seen_later), "it came when somebody looked");
    }

    #[test]
    fn offers_are_noted_where_programs_wait() {
        let (presence, mut habit) = (Presence::default(), Habit::default());
        let mut offer = |favor, waits: bool| {
            let comes_soon = habit.begin_offer(&presence, favor, &Moment::default());
            if waits {
                presence.note(&Moment::default());
                habit.learn(&presence);
                habit.begin_wait(&presence);
            }
            (comes_soon, habit.started_ns() > 0)
        };
        assert_eq!(offer(Favor::Learnt, false), (true, true), "nothing is known yet");
        assert_eq!(offer(Favor::Learnt, false), (false, false));
        assert_eq!(offer(Favor::Learnt, true), (false, false));
        assert_eq!(offer(Favor::Learnt, true), (true, true), "had to wait");
        assert_eq!(offer(Favor::Learnt, false), (true, true), "waits promptly");
        assert_eq!(offer(Favor::Latency, false), (true, true));
        assert_eq!(offer(Favor::Overlap, true), (false, false));
        assert_eq!(offer(Favor::Overlap, true), (false, true), "the daemon moves it");
    }

    #[test]
    fn a_send_to_another_node_is_worth_less_computing() {
        let presence = Presence::default();
        let waits_promptly = |habit: Habit, away_ns| {
            let mut habit = Habit { turn: presence.begin(), started_ns: 2, ..habit };
            presence.came_in(habit.turn).store(2 + away_ns, Ordering::Relaxed);
            habit.learn(&presence);
            habit.waits_promptly
        };
        for (away_ns, sends, others) in [(PROMPT_SEND_NS - 1, true, true), (PROMPT_SEND_NS, false, true)] {
            assert_eq!(waits_promptly(Habit::of_send(), away_ns), sends);
            assert_eq!(waits_promptly(Habit::default(), away_ns), others);
        }
        assert!(!waits_promptly(Habit::default(), PROMPT_NS));
    }

    #[test]
    fn who_starts_many_requests_has_not_computed() {
        let waits_promptly_after = |starts| {
            let presence = Presence::default();
            let started_ns = now_ns() - (PROMPT_NS + PROMPT_NS / 2);
            let mut habit = Habit { started_ns, turn: presence.begin(), ..Habit::default() };
            (1..starts).for_each(|_| assert_eq!(presence.begin(), habit.turn));
            presence.note(&Moment::default());
            habit.learn(&presence);
            habit.waits_promptly
        };
        assert!(!waits_promptly_after(1));
        assert!(waits_promptly_after(PROMPT_NS / START_NS));
    }

    #[test]
    fn the_daemon_is_asked_where_a_core_is_free() {
        let asks = |is_long, leaves_core, favor, has_free_core| {
            let presence = Presence { leaves_core: AtomicBool::new(leaves_core), ..Presence::default() };
            Habit { is_long, ..Habit::default() }.asks_daemon(&presence, favor, has_free_core)
        };
        assert!(!asks(true, false, Favor::Learnt, false));
        assert!(asks(true, true, Favor::Learnt, false));
        assert!(!asks(false, true, Favor::Learnt, false), "back too soon");
        assert!(asks(false, false, Favor::Learnt, true));
        assert!(asks(false, false, Favor::Overlap, false));
    }

    #[test]
    fn who_sleeps_most_of_the_time_leaves_its_core() {
        let presence = Presence::default();
        let leaves_core_at = |ns, run_ns| {
            presence.arrive(Clocks { ns, run_ns });
            presence.leaves_core.load(Ordering::Relaxed)
        };
        assert!(!leaves_core_at(1000, 0), "not known yet");
        presence.leave(Clocks { ns: 1000, run_ns: 500 });
        assert!(leaves_core_at(2000, 999));
        assert!(!leaves_core_at(2000, 1000));
    }

    #[test]
    fn only_long_absences_are_looked_at() {
        let presence = Presence::default();
        let mut habit = Habit::default();
        for (away_ns, is_long) in [(LONG_NS, true), (PROMPT_NS, false), (LONG_NS, true)] {
            waits_promptly_after(&mut habit, &presence, || thread::sleep(Duration::from_nanos(away_ns)));
            presence.left_ns.store(0, Ordering::Relaxed);
            habit.end_wait(&presence);
            assert_eq!(presence.left_ns.load(Ordering::Relaxed) > 0, is_long);
        }
    }
}
