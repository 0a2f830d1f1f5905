//! A registered collective that calls use one after the other.

use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::{Collective, Error, WaitMode};

/// A registered collective, and who uses it.
pub(super) struct Lane {
    state: Mutex<State>,
}

struct State {
    collective: Collective<u8>,
    /// Calls that have used it so far. The last one may be running.
    turn: u64,
    /// Somebody will ask for the outcome of the last turn.
    is_awaited: bool,
    /// Outcomes of turns before the last that somebody will ask for.
    put_aside: Vec<(u64, Result<Vec<u8>, Error>)>,
}

impl Lane {
    pub(super) fn new(collective: Collective<u8>) -> Self {
        let state = State { collective, turn: 0, is_awaited: false, put_aside: Vec::new() };
        Self { state: Mutex::new(state) }
    }

    /// Starts a turn with this input, once the turn before has ended. Its number.
    pub(super) fn start(&self, input: &[u8]) -> Result<u64, Error> {
        let mut state = self.lock();
        state.make_way();
        state.collective.input_mut().copy_from_slice(input);
        // It runs on without its `Active`.
        drop(state.collective.start()?);
        state.turn += 1;
        state.is_awaited = true;
        Ok(state.turn)
    }

    /// Waits until the turn has ended, in the session's mode unless one is given, and hands its output over.
    pub(super) fn wait(&self, turn: u64, mode: Option<WaitMode>, deliver: impl FnOnce(&[u8])) -> Result<(), Error> {
        let mut state = self.lock();
        if let Some(outcome) = state.take_aside(turn) {
            deliver(&outcome?);
            return Ok(());
        }
        state.finish(mode)?;
        deliver(state.collective.output());
        Ok(())
    }

    /// Hands the turn's output over if it has ended. Whether it has.
    pub(super) fn test(&self, turn: u64, deliver: impl FnOnce(&[u8])) -> Result<bool, Error> {
        let Some(mut state) = self.try_lock() else { return Ok(false) };
        if let Some(outcome) = state.take_aside(turn) {
            deliver(&outcome?);
            return Ok(true);
        }
        let tested = state.collective.active().map_or(Err(Error::Inactive), |mut active| active.test());
        let has_ended = !matches!(tested, Ok(None));
        state.is_awaited = !has_ended;
        tested?;
        if has_ended {
            deliver(state.collective.output());
        }
        Ok(has_ended)
    }

    /// Nobody will ask for the turn's outcome. It ends all the same.
    pub(super) fn abandon(&self, turn: u64) {
        let mut state = self.lock();
        if state.take_aside(turn).is_none() {
            state.is_awaited = false;
        }
    }

    /// Whether a turn runs. Looks whether it has ended.
    pub(super) fn is_running(&self) -> bool {
        let Some(mut state) = self.try_lock() else { return true };
        if !state.is_awaited
            && let Some(mut active) = state.collective.active()
        {
            // Nobody wants to know how it ended.
            let _ = active.test();
        }
        state.collective.active().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NO_PANIC)
    }

    /// `None` while another thread waits for a turn of this lane.
    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            locked => Some(locked.expect(NO_PANIC)),
        }
    }
}

impl State {
    /// Has the last turn end, and keeps its outcome for whoever asks.
    fn make_way(&mut self) {
        if self.is_awaited {
            let ended = self.finish(None);
            let outcome = ended.map(|()| self.collective.output().to_vec());
            self.put_aside.push((self.turn, outcome));
        } else if self.collective.active().is_some() {
            // Nobody wants to know how it ended.
            let _ = self.finish(None);
        }
    }

    fn finish(&mut self, mode: Option<WaitMode>) -> Result<(), Error> {
        self.is_awaited = false;
        let active = self.collective.active().ok_or(Error::Inactive)?;
        match mode {
            Some(mode) => active.wait_with(mode),
            None => active.wait(),
        }
        .map(drop)
    }

    fn take_aside(&mut self, turn: u64) -> Option<Result<Vec<u8>, Error>> {
        let index = self.put_aside.iter().position(|&(other, _)| other == turn)?;
        Some(self.put_aside.swap_remove(index).1)
    }
}

const NO_PANIC: &str = "nothing panics under this lock";
