//! A registered collective that calls use one after the other.
//!
//! Each of its turns has an owner, who asks for the outcome once, or gives the turn up. Who is to begin a turn has the turn before end,
//! whoever owns that: he *makes way*, which may take long. Then he puts the outcome aside, and calls the owner, if that sleeps. So
//! owners look for their outcome aside first, and need the lane only while theirs is the last turn.
//!
//! For long the lane is locked only by who makes way and says so, and by the owner of the last turn who waits. So the owner of the last turn
//! who finds it locked by anybody who does not make way looks again in a moment, since nobody would call him; no wake-up is lost:
//!
//! ```text
//! owner of the last turn                        who makes way
//!   leave word                       (turns)      lock the lane, say so            (turns)
//!   lock the lane, and arm its operation,         wait for the end
//!     or find that somebody makes way (turns)     put aside, take the word, call   (turns)
//!   sleep, unless it is aside        (turns)      unlock the lane
//! ```
//!
//! What is marked is done under the lock of `turns`. Either the word is left before it is taken, and the owner is called; or the outcome
//! is aside when the owner looks once more before he sleeps.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::Waker;
use std::thread;

use crate::attachment::Attachment;
use crate::operation::Operation;
use crate::wait::Event;
use crate::{Collective, Error, Status, WaitMode};

/// A registered collective, and who uses it.
pub(super) struct Lane {
    attachment: Arc<Attachment>,
    state: Mutex<State>,
    turns: Mutex<Turns>,
}

struct State {
    collective: Collective<u8>,
    /// Calls that have used it so far. The last one may be running.
    turn: u64,
}

/// What is known of turns without the lane's lock: never held for long, so that nobody who gives a turn up waits.
#[derive(Default)]
struct Turns {
    /// Somebody will ask for the outcome of the last turn.
    is_awaited: bool,
    /// Somebody waits for the end of the last turn to begin another, and will call its owner.
    has_successor: bool,
    /// Outcomes that somebody will ask for.
    put_aside: Vec<(u64, Outcome)>,
    /// How the owner of the last turn is called when that is put aside, if he has left word.
    caller: Option<Caller>,
}

/// How a turn has ended, and its output.
type Outcome = Result<(Status, Vec<u8>), Error>;

/// Who sleeps until a turn has ended.
enum Caller {
    /// A thread, on this doorbell.
    Thread(u32),
    Task(Waker),
}

impl Lane {
    pub(super) fn new(collective: Collective<u8>) -> Self {
        let attachment = collective.persistent.operation().attachment().clone();
        let state = Mutex::new(State { collective, turn: 0 });
        Self { attachment, state, turns: Mutex::default() }
    }

    pub(super) fn attachment(&self) -> &Arc<Attachment> {
        &self.attachment
    }

    /// Starts a turn, once the turn before has ended and its input was filled in. Its number.
    pub(super) fn start(&self, fill: impl FnOnce(&mut [u8])) -> Result<u64, Error> {
        let mut state = self.lock();
        if state.collective.active().is_some() {
            self.make_way(&mut state);
        }
        fill(state.collective.input_mut());
        // It runs on without its `Active`.
        drop(state.collective.start()?);
        state.turn += 1;
        self.turns().is_awaited = true;
        Ok(state.turn)
    }

    /// Has the last turn end, and keeps its outcome for whoever asks.
    fn make_way(&self, state: &mut State) {
        self.turns().has_successor = true;
        let ended = state.finish(None);
        // Who gives the turn up now does not wait for us, and we copy nothing for him.
        let is_awaited = self.turns().is_awaited;
        let outcome = is_awaited.then(|| ended.map(|status| (status, state.collective.output().to_vec())));
        let mut turns = self.turns();
        turns.has_successor = false;
        if std::mem::take(&mut turns.is_awaited) {
            turns.put_aside.extend(outcome.map(|outcome| (state.turn, outcome)));
        }
        let caller = turns.caller.take();
        drop(turns);
        match caller {
            Some(Caller::Thread(doorbell)) => self.attachment.ring(doorbell),
            Some(Caller::Task(waker)) => waker.wake(),
            None => {}
        }
    }

    /// Waits until the turn has ended, in the session's mode unless one is given, and hands its output over.
    pub(super) fn wait(&self, turn: u64, mode: Option<WaitMode>, deliver: impl FnOnce(&[u8])) -> Result<(), Error> {
        loop {
            if let Some(outcome) = self.take_aside(turn) {
                return hand_over(outcome, deliver).map(drop);
            }
            if let Some(mut state) = self.lock_for(turn) {
                let ended = state.finish(mode);
                self.turns().give_up();
                ended?;
                deliver(state.collective.output());
                return Ok(());
            }
            // Who waited for the lock could get it after the next turn's owner, and wait for that turn too.
            let mode = mode.unwrap_or_else(|| self.attachment.wait_mode());
            if let Err(error) = self.attachment.wait(&PutAside { lane: self, turn }, mode) {
                self.abandon(turn);
                return Err(error);
            }
        }
    }

    /// Hands the turn's output over if it has ended, and says how.
    pub(super) fn test(&self, turn: u64, deliver: impl FnOnce(&[u8])) -> Result<Option<Status>, Error> {
        if let Some(outcome) = self.take_aside(turn) {
            return hand_over(outcome, deliver).map(Some);
        }
        let Some(mut state) = self.lock_for(turn) else { return Ok(None) };
        let tested = state.collective.active().map_or(Err(Error::Inactive), |mut active| active.test());
        if !matches!(tested, Ok(None)) {
            self.turns().give_up();
        }
        if let Some(status) = tested? {
            deliver(state.collective.output());
            return Ok(Some(status));
        }
        Ok(None)
    }

    /// Nobody will ask for the turn's outcome. It ends all the same.
    pub(super) fn abandon(&self, turn: u64) {
        let mut turns = self.turns();
        if turns.take_aside(turn).is_none() {
            turns.give_up();
        }
    }

    /// Whether a turn runs. Looks whether it has ended, if nobody will ask.
    pub(super) fn is_running(&self) -> bool {
        let Some(mut state) = self.try_lock() else { return true };
        let is_awaited = self.turns().is_awaited;
        if !is_awaited && let Some(mut active) = state.collective.active() {
            // Nobody wants to know how it ended.
            let _ = active.test();
        }
        state.collective.active().is_some()
    }

    // ---- who waits for several things

    /// Whether the turn has got on.
    pub(super) fn has_happened(&self, turn: u64) -> bool {
        self.current(turn, Event::has_happened).unwrap_or_else(|| self.turns().is_aside(turn))
    }

    /// What its operation says, if the turn is the last one and nobody makes way.
    pub(super) fn current<R>(&self, turn: u64, ask: impl FnOnce(&Operation) -> R) -> Option<R> {
        let state = self.lock_for(turn)?;
        Some(ask(state.collective.persistent.operation()))
    }

    /// Has this doorbell rung when the turn gets on.
    pub(super) fn arm(&self, turn: u64, doorbell: u32) {
        self.turns().leave_word(turn, Caller::Thread(doorbell));
        self.current(turn, |operation| operation.arm(doorbell));
    }

    /// Has this task woken when the turn gets on. False if it has got on already.
    pub(super) fn watch(&self, turn: u64, waker: &Waker) -> Result<bool, Error> {
        self.turns().leave_word(turn, Caller::Task(waker.clone()));
        match self.current(turn, |operation| operation.watch(Some(waker))) {
            Some(watched) => watched,
            None => Ok(!self.turns().is_aside(turn)),
        }
    }

    /// The task that was to be woken is gone.
    pub(super) fn forget_waker(&self, turn: u64) {
        self.current(turn, Operation::forget_waker);
    }

    fn take_aside(&self, turn: u64) -> Option<Outcome> {
        self.turns().take_aside(turn)
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().expect(NO_PANIC)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NO_PANIC)
    }

    /// The lane, for the owner of a turn. `None` if the turn is aside, or will be by who makes way.
    fn lock_for(&self, turn: u64) -> Option<MutexGuard<'_, State>> {
        loop {
            let turns = self.turns();
            if turns.has_successor || turns.is_aside(turn) {
                return None;
            }
            drop(turns);
            if let Some(state) = self.try_lock() {
                return (state.turn == turn).then_some(state);
            }
            // Somebody looks, or is about to say that he makes way.
            thread::yield_now();
        }
    }

    /// `None` while another thread has the lane.
    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            locked => Some(locked.expect(NO_PANIC)),
        }
    }
}

/// Happens when the outcome of a turn was put aside by who makes way, and looks at wires meanwhile.
struct PutAside<'a> {
    lane: &'a Lane,
    turn: u64,
}

impl Event for PutAside<'_> {
    fn has_happened(&self) -> bool {
        self.lane.turns().is_aside(self.turn)
    }

    fn arm(&self, doorbell: u32) {
        self.lane.turns().leave_word(self.turn, Caller::Thread(doorbell));
    }

    fn disarm(&self) {}
}

impl State {
    fn finish(&mut self, mode: Option<WaitMode>) -> Result<Status, Error> {
        let active = self.collective.active().ok_or(Error::Inactive)?;
        match mode {
            Some(mode) => active.wait_with(mode),
            None => active.wait(),
        }
    }
}

impl Turns {
    fn is_aside(&self, turn: u64) -> bool {
        self.put_aside.iter().any(|&(other, _)| other == turn)
    }

    fn take_aside(&mut self, turn: u64) -> Option<Outcome> {
        let index = self.put_aside.iter().position(|&(other, _)| other == turn)?;
        Some(self.put_aside.swap_remove(index).1)
    }

    /// Has the owner called. Not of a turn that is aside: then the place is for the owner of the last one.
    fn leave_word(&mut self, turn: u64, caller: Caller) {
        if !self.is_aside(turn) {
            self.caller = Some(caller);
        }
    }

    /// The last turn's outcome was taken, or nobody will ask for it.
    fn give_up(&mut self) {
        self.is_awaited = false;
        self.caller = None;
    }
}

fn hand_over(outcome: Outcome, deliver: impl FnOnce(&[u8])) -> Result<Status, Error> {
    let (status, output) = outcome?;
    deliver(&output);
    Ok(status)
}

const NO_PANIC: &str = "nothing panics under this lock";
