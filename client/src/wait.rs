//! The waiting loop: spin, then yield the core, then sleep in the kernel.
//!
//! A bare spin starves whoever shall finish the operation when there are more parties than cores, so no phase is one.

use std::fmt;
use std::hint;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ropeway_proto::limits::DOORBELLS;
use ropeway_shm::{ControlSegment, JobSegment};

use crate::Error;
use crate::watch::Watch;

/// What a thread does while it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum WaitMode {
    /// Never sleeps: the fastest answer, at the price of a core, which it offers to others all the time.
    Polling,
    /// Sleeps almost at once: no CPU time while waiting, a few microseconds more until the answer.
    Blocking,
    /// Polls for some tens of microseconds, then sleeps.
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

    /// How long the core is yielded before the thread sleeps; `None` for ever.
    fn yield_time(self) -> Option<Duration> {
        match self {
            Self::Polling => None,
            Self::Blocking => Some(Duration::from_micros(2)),
            Self::Adaptive => Some(Duration::from_micros(50)),
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
}

/// Waits for `event`, or until the daemon is gone. Allocates nothing and holds no lock.
pub(crate) fn until(
    event: &impl Event,
    mode: WaitMode,
    watch: &Watch,
    (local_rank, job): (u32, &JobSegment),
    control: &ControlSegment,
) -> Result<(), Error> {
    for _ in 0..SPINS {
        if event.has_happened() {
            return Ok(());
        }
        hint::spin_loop();
    }
    // While we are awake the daemon is to be quick; it need not be when we sleep or compute.
    control.begin_wait();
    let ended = yield_until(event, mode, watch);
    control.end_wait();
    if ended? {
        return Ok(());
    }
    let index = DOORBELL.with(|index| *index);
    let doorbell = job.doorbell(local_rank, index).expect("the index was taken modulo the number of doorbells");
    loop {
        let seen = doorbell.listen();
        event.arm(index);
        let ended = has_ended(event, watch);
        if !matches!(ended, Ok(false)) {
            event.disarm();
            return ended.map(drop);
        }
        doorbell.sleep(seen, None);
    }
}

/// Whether it happened before it was time to sleep.
fn yield_until(event: &impl Event, mode: WaitMode, watch: &Watch) -> Result<bool, Error> {
    let begin = Instant::now();
    while mode.yield_time().is_none_or(|limit| begin.elapsed() < limit) {
        if has_ended(event, watch)? {
            return Ok(true);
        }
        thread::yield_now();
    }
    Ok(false)
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

static NEXT_DOORBELL: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The doorbell this thread sleeps on. Threads beyond [`DOORBELLS`] share one and wake up together, which is harmless.
    static DOORBELL: u32 = NEXT_DOORBELL.fetch_add(1, Ordering::Relaxed) % DOORBELLS as u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_modes_survive_their_names_and_numbers() {
        for mode in [WaitMode::Polling, WaitMode::Blocking, WaitMode::Adaptive] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(WaitMode::from_index(mode as u8), mode);
        }
        assert_eq!("sleepy".parse::<WaitMode>(), Err(UnknownWaitMode));
    }
}
