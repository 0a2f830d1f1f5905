//! From a sender's start until a receiver that slept in the kernel runs again.
//!
//! ```text
//!   sender     ──sleep──┤time├┤start├
//!   receiver   ┤wait├─ asleep ───────── wake-up ──┤time├
//! ```
//! Both read the same clock of the same machine; the sender's time travels in the message.

use std::time::Duration;
use std::{io, thread};

use nix::sys::resource::{UsageWho, getrusage};
use ropeway::Session;
use ropeway_examples::Mode;

use crate::allocations::measured;
use crate::clock::now_ns;
use crate::link::{End, Link, OneShot, Persistent};
use crate::pair::Pair;
use crate::pattern;
use crate::plan::Effort;
use crate::race::{Contestant, Metric, race_modes};
use crate::unparking::Unparking;
use crate::{BenchError, Console, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    let effort = plan.effort((plan.modes.len() + 1) * plan.notification.len(), WARMUP);
    let metric = Metric { name: "wakeup", unit: "us", floor: "futex wake-up" };
    let contestant = |pair: &Pair, mode, bytes| contestant(pair, mode, bytes, effort);
    let floor = |pair: &Pair, _| Ok(Box::new(Unparking::new(session, pair, effort)) as Box<dyn Contestant>);
    race_modes((session, pair.as_ref()), console, plan, &metric, contestant, floor)
}

fn contestant(pair: &Pair, mode: Mode, bytes: usize, effort: Effort) -> Result<Box<dyn Contestant>, BenchError> {
    // The leader receives, since it keeps the time.
    let end = if pair.leads { End::Receiver } else { End::Sender };
    Ok(match mode {
        Mode::Persistent => Box::new(Wakeups::new(pair, Persistent::new(pair, end, bytes)?, effort)),
        Mode::OneShot => Box::new(Wakeups::new(pair, OneShot::new(pair, end, bytes)?, effort)),
    })
}

/// How often this thread has given its core away to wait for something.
pub(crate) fn sleeps() -> io::Result<i64> {
    Ok(getrusage(UsageWho::RUSAGE_THREAD)?.voluntary_context_switches())
}

/// One wake-up after the other. A sample is the time of one whose receiver has slept, in microseconds.
struct Wakeups<L> {
    pair: Pair,
    link: L,
    effort: Effort,
    messages: u64,
    /// When the last message was sent.
    last_ns: u64,
}

impl<L: Link> Wakeups<L> {
    fn new(pair: &Pair, link: L, effort: Effort) -> Self {
        Self { pair: pair.clone(), link, effort, messages: 0, last_ns: 0 }
    }

    /// `None` if the receiver did not sleep, and in the rank that sends.
    fn one(&mut self) -> Result<Option<f64>, BenchError> {
        self.messages += 1;
        if self.pair.leads {
            return self.wake_up();
        }
        pattern::fill(self.link.message(), self.messages);
        thread::sleep(ASLEEP);
        let message = self.link.message();
        message[..TIME_BYTES].copy_from_slice(&now_ns()?.to_le_bytes());
        measured(|| self.start_and_wait())?;
        Ok(None)
    }

    fn wake_up(&mut self) -> Result<Option<f64>, BenchError> {
        let before = sleeps()?;
        measured(|| self.start_and_wait())?;
        let woken_ns = now_ns()?;
        let has_slept = sleeps()? > before;
        let message = self.link.message();
        let sent_ns = u64::from_le_bytes(message[..TIME_BYTES].try_into().expect("the time has that size"));
        self.link.check(self.messages, sent_ns > self.last_ns && sent_ns <= woken_ns)?;
        self.last_ns = sent_ns;
        Ok(has_slept.then(|| (woken_ns - sent_ns) as f64 / 1e3))
    }

    fn start_and_wait(&mut self) -> Result<(), BenchError> {
        self.link.start()?;
        self.link.wait()
    }
}

impl<L: Link> Contestant for Wakeups<L> {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        let [count] = self.pair.agree(|| [self.effort.rounds(ROUND_S, 20, 100_000)])?;
        for _ in 0..self.effort.warmup {
            self.one()?;
        }
        let mut samples = Vec::new();
        for _ in 0..TRIES {
            for _ in 0..count {
                samples.extend(self.one()?);
            }
            // On a busy machine a receiver may come so late that it never sleeps; then there is nothing to measure yet.
            let [is_enough] = self.pair.agree(|| [u64::from(!samples.is_empty())])?;
            if is_enough != 0 {
                break;
            }
        }
        Ok(samples)
    }
}

/// How long nothing happens between messages: longer than adaptive waiting polls, so that everybody sleeps.
pub(crate) const ASLEEP: Duration = Duration::from_micros(300);
/// How long a message takes with the sleep before it, about.
pub(crate) const ROUND_S: f64 = 400e-6;
const TIME_BYTES: usize = size_of::<u64>();
const WARMUP: u64 = 5;
/// Attempts at a run in which some receiver sleeps.
const TRIES: u32 = 20;
