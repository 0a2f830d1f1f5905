//! Everything that can happen to a running job, in one queue.

use std::fs;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

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
    /// When jobs that take their events from here have to be over.
    deadline: Option<Instant>,
}

impl Events {
    /// Turns signals into events.
    ///
    /// But for those that whoever has started us wants ignored, as nohup does, or a shell for what runs in the background.
    ///
    /// By handlers, not by blocking them: what is blocked here would be blocked in the ranks as well, and they could not
    /// be asked to end.
    pub(crate) fn from_signals() -> Result<Self, LaunchError> {
        let (sender, receiver) = mpsc::channel();
        let ignored = ignored();
        let wanted = INTERRUPTS.into_iter().filter(|number| ignored >> (number - 1) & 1 == 0).chain([SIGCHLD]);
        let mut signals = Signals::new(wanted).map_err(LaunchError::system("handling signals"))?;
        let to_queue = sender.clone();
        let forward = move || {
            for number in signals.forever() {
                let event = match Signal::try_from(number) {
                    Ok(Signal::SIGCHLD) => Event::ChildEnded,
                    Ok(signal) => Event::Interrupted(signal),
                    Err(_) => continue,
                };
                if to_queue.send(event).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("signals".into()).spawn(forward);
        thread.map_err(LaunchError::system("starting a thread"))?;
        Ok(Self { sender, receiver, deadline: None })
    }

    /// From now on jobs are ended at this moment.
    pub(crate) fn set_deadline(&mut self, at: Instant) {
        self.deadline = Some(at);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether it is too late to begin anything.
    pub(super) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The signal that we should end by, if there is one soon, and no job that has to end by it.
    pub(crate) fn interrupted(&self, patience: Duration) -> Option<Signal> {
        let until = Instant::now() + patience;
        loop {
            if let Event::Interrupted(signal) = self.next(Some(until))? {
                return Some(signal);
            }
        }
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

/// Signals that are ignored now, a bit each. None if the system does not say.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

const INTERRUPTS: [i32; 4] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP];
