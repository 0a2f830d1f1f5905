//! When the daemon goes before the ranks on whose cores it runs.
//!
//! The kernel gives all tasks of a core equal time, and of two that are runnable does not wake the one that has had more of it
//! lately: a daemon that has just told another node that a rank is ready, and is woken some microseconds later with the answer, waits for the
//! kernel's next tick, up to 4 ms, while the rank computes. Time that a daemon has under a high priority hardly counts. So it takes one,
//! if it may, while ranks compute after what they exchange: then it sleeps whenever it has nothing to do, and keeps the core from nobody.
//! Else it has that of everybody, for a yield only gives the core to those that do not come after it.

use nix::errno::Errno;

/// The priority of the daemon's thread.
pub(crate) struct Priority {
    /// That it was begun with, as a nice value.
    usual: i32,
    /// `None` if it may not go first.
    goes_first: Option<bool>,
}

/// The nice value of who goes first.
const FIRST: i32 = -20;

impl Priority {
    /// For the thread that calls it.
    pub(crate) fn new() -> Self {
        let usual = rustix::process::getpriority_process(None).unwrap_or(0);
        Self { usual, goes_first: Some(false) }
    }

    /// Has it go first from now on, or no more. Where it may not, what it moves hides a little less.
    pub(crate) fn go_first(&mut self, goes_first: bool) {
        if self.goes_first.is_none_or(|now| now == goes_first) {
            return;
        }
        let nice = if goes_first { FIRST } else { self.usual };
        self.goes_first = match rustix::process::setpriority_process(None, nice) {
            Ok(()) => Some(goes_first),
            Err(error) => {
                let error = Errno::from_raw(error.raw_os_error());
                tracing::info!(%error, nice, "can't go before ranks that compute: allow it with LimitNICE= or CAP_SYS_NICE");
                None
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn nice() -> i32 {
        rustix::process::getpriority_process(None).unwrap()
    }

    /// Priorities are those of threads.
    fn on_a_thread<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> R {
        thread::spawn(act).join().unwrap()
    }

    #[test]
    fn it_goes_first_for_a_while_if_it_may() {
        let usual = nice();
        let may = on_a_thread(|| rustix::process::setpriority_process(None, FIRST).is_ok());
        let seen = on_a_thread(|| {
            let mut priority = Priority::new();
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
