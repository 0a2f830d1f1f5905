//! The floor under waking a rank up: what the kernel alone needs for it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use ropeway::Session;

use crate::BenchError;
use crate::clock::now_ns;
use crate::cores::{settle, two_cores};
use crate::floor::quietly;
use crate::pair::Pair;
use crate::plan::Effort;
use crate::race::Contestant;
use crate::wakeup::{ASLEEP, ROUND_S, sleeps};

/// The least that waking up can cost: a thread wakes one on another core with a futex, after both have slept.
pub(crate) struct Unparking {
    session: Session,
    pair: Pair,
    effort: Effort,
}

impl Unparking {
    pub(crate) fn new(session: &Session, pair: &Pair, effort: Effort) -> Self {
        Self { session: session.clone(), pair: pair.clone(), effort }
    }
}

impl Contestant for Unparking {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        let rounds = self.effort.rounds(ROUND_S, 20, 100_000);
        quietly(&self.session, &self.pair, || unparking_times(rounds))?.into_iter().collect()
    }
}

/// Microseconds from the waker's call until the other thread runs again, of those times when it has slept.
pub(crate) fn unparking_times(rounds: u64) -> Vec<Result<f64, BenchError>> {
    let called_ns = AtomicU64::new(0);
    // On one core the waker would only have to make room, which is much cheaper than what happens to ranks.
    let [waking, sleeping] = two_cores();
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            settle(sleeping);
            let wake_ups = (0..rounds).map(|_| sleep_until_called(&called_ns));
            wake_ups.filter_map(Result::transpose).map(|sample| Ok(sample?)).collect()
        });
        let waker = || {
            settle(waking);
            for _ in 0..rounds {
                thread::sleep(ASLEEP);
                // A clock that fails is noticed by the other thread too.
                called_ns.store(now_ns().unwrap_or(1), Ordering::Release);
                sleeper.thread().unpark();
                while called_ns.load(Ordering::Acquire) != 0 {
                    thread::yield_now();
                }
            }
        };
        // A thread of its own, so that this one stays free to run anywhere.
        thread::scope(|scope| drop(scope.spawn(waker)));
        sleeper.join().expect("the sleeper does not panic")
    })
}

/// Parks until the time of a call is there; how long ago that was, in microseconds, if the thread has slept.
fn sleep_until_called(called_ns: &AtomicU64) -> io::Result<Option<f64>> {
    let before = sleeps();
    while called_ns.load(Ordering::Acquire) == 0 {
        thread::park();
    }
    let now = now_ns();
    // Takes the call before anything can fail: the waker waits for that.
    let called_ns = called_ns.swap(0, Ordering::AcqRel);
    let has_slept = sleeps()? > before?;
    Ok(has_slept.then_some((now? - called_ns) as f64 / 1e3))
}
