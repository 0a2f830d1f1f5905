//! A registered collective that calls use one after the other.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::Waker;

use crate::attachment::Attachment;
use crate::operation::Operation;
use crate::wait::Event;
use crate::{Collective, Error, Status, WaitMode};

/// A registered collective, and who uses it.
///
/// Whoever waits for the end of its last turn keeps it locked: to take the outcome, or to put it aside and begin another turn.
/// So who only looks does not wait for the lock; he leaves word in `past` how he can be called.
pub(super) struct Lane {
    attachment: Arc<Attachment>,
    state: Mutex<State>,
    past: Mutex<Past>,
}

struct State {
    collective: Collective<u8>,
    /// Calls that have used it so far. The last one may be running.
    turn: u64,
    /// Somebody will ask for the outcome of the last turn.
    is_awaited: bool,
}

/// Turns before the last, and those who don't know yet that theirs has become one.
#[derive(Default)]
struct Past {
    /// Outcomes that somebody will ask for.
    put_aside: Vec<(u64, Outcome)>,
    callers: Vec<Caller>,
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
        let state = Mutex::new(State { collective, turn: 0, is_awaited: false });
        Self { attachment, state, past: Mutex::default() }
    }

    pub(super) fn attachment(&self) -> &Arc<Attachment> {
        &self.attachment
    }

    /// Starts a turn, once the turn before has ended and its input was filled in. Its number.
    pub(super) fn start(&self, fill: impl FnOnce(&mut [u8])) -> Result<u64, Error> {
        let mut state = self.lock();
        self.make_way(&mut state);
        fill(state.collective.input_mut());
        // It runs on without its `Active`.
        drop(state.collective.start()?);
        state.turn += 1;
        state.is_awaited = true;
        Ok(state.turn)
    }

    /// Has the last turn end, and keeps its outcome for whoever asks.
    fn make_way(&self, state: &mut State) {
        if state.is_awaited {
            let outcome = state.finish(None).map(|status| (status, state.collective.output().to_vec()));
            self.past().put_aside.push((state.turn, outcome));
            self.call();
        } else if state.collective.active().is_some() {
            // Nobody wants to know how it ended.
            let _ = state.finish(None);
        }
    }

    /// Waits until the turn has ended, in the session's mode unless one is given, and hands its output over.
    pub(super) fn wait(&self, turn: u64, mode: Option<WaitMode>, deliver: impl FnOnce(&[u8])) -> Result<(), Error> {
        // Whose turn is past does not wait for the one after it.
        if let Some(outcome) = self.take_aside(turn) {
            return hand_over(outcome, deliver).map(drop);
        }
        let mut state = self.lock();
        match self.take_aside(turn) {
            Some(outcome) => hand_over(outcome, deliver).map(drop),
            None => {
                state.finish(mode)?;
                deliver(state.collective.output());
                Ok(())
            }
        }
    }

    /// Hands the turn's output over if it has ended, and says how.
    pub(super) fn test(&self, turn: u64, deliver: impl FnOnce(&[u8])) -> Result<Option<Status>, Error> {
        let state = self.try_lock();
        if let Some(outcome) = self.take_aside(turn) {
            return hand_over(outcome, deliver).map(Some);
        }
        let Some(mut state) = state else { return Ok(None) };
        let tested = state.collective.active().map_or(Err(Error::Inactive), |mut active| active.test());
        state.is_awaited = matches!(tested, Ok(None));
        if let Some(status) = tested? {
            deliver(state.collective.output());
            return Ok(Some(status));
        }
        Ok(None)
    }

    /// Nobody will ask for the turn's outcome. It ends all the same.
    pub(super) fn abandon(&self, turn: u64) {
        let mut state = self.lock();
        if self.take_aside(turn).is_none() {
            state.is_awaited = false;
        }
    }

    /// Whether a turn runs. Looks whether it has ended, if nobody will ask.
    pub(super) fn is_running(&self) -> bool {
        let Some(mut state) = self.try_lock() else { return true };
        if !state.is_awaited
            && let Some(mut active) = state.collective.active()
        {
            // Nobody wants to know how it ended.
            let _ = active.test();
        }
        let is_running = state.collective.active().is_some();
        drop(state);
        // Who has found the lane locked meanwhile looks again.
        self.call();
        is_running
    }

    // ---- who waits for several things

    /// Whether the turn has got on.
    pub(super) fn has_happened(&self, turn: u64) -> bool {
        let is_past = self.past().put_aside.iter().any(|(other, _)| *other == turn);
        is_past || self.current(turn, Event::has_happened).unwrap_or(false)
    }

    /// What its operation says, if the turn is the last one and nobody waits for its end.
    pub(super) fn current<R>(&self, turn: u64, ask: impl FnOnce(&Operation) -> R) -> Option<R> {
        let state = self.try_lock()?;
        (state.turn == turn).then(|| ask(state.collective.persistent.operation()))
    }

    /// Has this doorbell rung when the turn gets on.
    pub(super) fn arm(&self, turn: u64, doorbell: u32) {
        self.past().add(Caller::Thread(doorbell));
        self.current(turn, |operation| operation.arm(doorbell));
    }

    /// Has this task woken when the turn gets on. False if it has got on already.
    pub(super) fn watch(&self, turn: u64, waker: &Waker) -> Result<bool, Error> {
        self.past().add(Caller::Task(waker.clone()));
        match self.current(turn, |operation| operation.watch(Some(waker))) {
            Some(watched) => watched,
            // Whoever has the lane calls.
            None => Ok(!self.has_happened(turn)),
        }
    }

    /// The task that was to be woken is gone.
    pub(super) fn forget_waker(&self, turn: u64) {
        self.current(turn, Operation::forget_waker);
    }

    /// Wakes all who were not told by the operation itself.
    fn call(&self) {
        for caller in std::mem::take(&mut self.past().callers) {
            match caller {
                Caller::Thread(doorbell) => self.attachment.ring(doorbell),
                Caller::Task(waker) => waker.wake(),
            }
        }
    }

    fn take_aside(&self, turn: u64) -> Option<Outcome> {
        let mut past = self.past();
        let index = past.put_aside.iter().position(|&(other, _)| other == turn)?;
        Some(past.put_aside.swap_remove(index).1)
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().expect(NO_PANIC)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NO_PANIC)
    }

    /// `None` while another thread has the lane.
    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            locked => Some(locked.expect(NO_PANIC)),
        }
    }
}

impl State {
    fn finish(&mut self, mode: Option<WaitMode>) -> Result<Status, Error> {
        self.is_awaited = false;
        let active = self.collective.active().ok_or(Error::Inactive)?;
        match mode {
            Some(mode) => active.wait_with(mode),
            None => active.wait(),
        }
    }
}

impl Past {
    fn add(&mut self, caller: Caller) {
        let is_known = |known: &Caller| match (known, &caller) {
            (Caller::Thread(known), Caller::Thread(doorbell)) => known == doorbell,
            (Caller::Task(known), Caller::Task(waker)) => known.will_wake(waker),
            _ => false,
        };
        if !self.callers.iter().any(is_known) {
            self.callers.push(caller);
        }
    }
}

fn hand_over(outcome: Outcome, deliver: impl FnOnce(&[u8])) -> Result<Status, Error> {
    let (status, output) = outcome?;
    deliver(&output);
    Ok(status)
}

const NO_PANIC: &str = "nothing panics under this lock";
