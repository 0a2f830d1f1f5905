//! Everything that can happen to a running job, in one queue.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

use nix::sys::signal::{SigSet, Signal};

use super::LaunchError;

/// Something that has happened.
#[derive(Debug)]
pub(super) enum Event {
    /// Some rank has ended; the system does not say which.
    ChildEnded,
    /// The user, or somebody else, wants us to end.
    Interrupted(Signal),
    /// Rank 0 has written a line for us.
    Line(String),
    /// One of the ranks' outputs that we read has been closed.
    OutputClosed,
}

/// The queue.
pub(crate) struct Events {
    sender: Sender<Event>,
    receiver: Receiver<Event>,
}

impl Events {
    /// Turns signals into events.
    ///
    /// Before any other thread is started, because new threads inherit which signals are blocked. Children don't.
    pub(crate) fn from_signals() -> Result<Self, LaunchError> {
        let (sender, receiver) = mpsc::channel();
        let mut signals = SigSet::empty();
        signals.extend([Signal::SIGCHLD, Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
        signals.thread_block().map_err(LaunchError::system("blocking signals"))?;
        let to_queue = sender.clone();
        let forward = move || {
            while let Ok(signal) = signals.wait() {
                let event = if signal == Signal::SIGCHLD { Event::ChildEnded } else { Event::Interrupted(signal) };
                if to_queue.send(event).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("signals".into()).spawn(forward);
        thread.map_err(LaunchError::system("starting a thread"))?;
        Ok(Self { sender, receiver })
    }

    pub(super) fn sender(&self) -> Sender<Event> {
        self.sender.clone()
    }

    /// The next event; `None` if there is none until then.
    pub(super) fn next(&self, until: Option<Instant>) -> Option<Event> {
        let next = match until {
            None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(until) => self.receiver.recv_timeout(until.saturating_duration_since(Instant::now())),
        };
        match next {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => unreachable!("we keep a sender ourselves"),
        }
    }
}
