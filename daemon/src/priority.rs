//! When the daemon goes before the ranks on whose cores it runs.
//!
//! The kernel gives all tasks of a core equal time, and of two that are runnable does not wake the one that has had more of it
//! lately: a daemon that has just told another node that a rank is ready, and is woken some microseconds later with the answer, waits for the
//! kernel's next tick, up to 4 ms, while the rank computes. Time that a daemon has under a high priority hardly counts. So it takes one,
//! if it may, while ranks compute after what they exchange: then it sleeps as soon as it has nothing to do and a rank is awake, and keeps the core from none.
//! At all other times its priority is the usual one, because then it yields to ranks, and a yield does not give the core to a task of lower priority.

use rustix::process::{getpriority_process, setpriority_process};

/// The priority of the daemon's thread.
#[derive(Default)]
pub(crate) struct Priority {
    /// The nice value it had before it went first, while it does.
    usual: Option<i32>,
    is_refused: bool,
}

/// The nice value of who goes first.
const FIRST: i32 = -20;

impl Priority {
    /// Has this thread go first from now on, or no more. Where it may not, more of what it moves is seen.
    pub(crate) fn go_first(&mut self, goes_first: bool) {
        if self.is_refused || goes_first == self.usual.is_some() {
            return;
        }
        let changed = match self.usual.take() {
            Some(usual) => setpriority_process(None, usual),
            None => getpriority_process(None).and_then(|usual| {
                setpriority_process(None, FIRST)?;
                self.usual = Some(usual);
                Ok(())
            }),
        };
        if let Err(error) = changed {
            self.is_refused = true;
            tracing::debug!(%error, "can't go before ranks that compute: it takes a limit (ulimit -e 40) or CAP_SYS_NICE");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn nice() -> i32 {
        getpriority_process(None).unwrap()
    }

    /// Priorities are those of threads.
    fn on_a_thread<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> R {
        thread::spawn(act).join().unwrap()
    }

    #[test]
    fn it_goes_first_for_a_while_if_it_may() {
        let usual = nice();
        let may = on_a_thread(|| setpriority_process(None, FIRST).is_ok());
        let seen = on_a_thread(|| {
            let mut priority = Priority::default();
            [false, true, true, false, true].map(|goes_first| {
                priority.go_first(goes_first);
                nice()
            })
        });
        let first = if may { FIRST } else { usual };
        assert_eq!(seen, [usual, first, first, usual, first]);
        assert_eq!(nice(), usual, "of other threads");
    }
}
