//! What a node can do without us: hand a cache line from core to core, and copy memory.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ropeway::{Session, WaitMode};

use crate::BenchError;
use crate::pair::Pair;
use crate::race::Contestant;

/// The least a message within a node can cost: two threads hand a cache line over, and the payload is copied once.
pub(crate) struct Handover {
    session: Session,
    leads: bool,
    time: Duration,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Handover {
    pub(crate) fn new(session: &Session, pair: &Pair, bytes: usize, time: Duration) -> Self {
        Self { session: session.clone(), leads: pair.leads, time, from: vec![1; bytes], to: vec![0; bytes] }
    }

    fn sample_us(&mut self) -> f64 {
        let copy = copying_time(&self.from, &mut self.to);
        (handover_time() + copy).as_secs_f64() * 1e6
    }
}

impl Contestant for Handover {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        quietly(&self.session.clone(), self.leads, || {
            let begin = Instant::now();
            let mut samples = vec![self.sample_us()];
            while begin.elapsed() < self.time {
                samples.push(self.sample_us());
            }
            samples
        })
    }
}

/// The least moving bytes within a node can cost: copying a window of messages.
pub(crate) struct Copying {
    session: Session,
    leads: bool,
    time: Duration,
    bytes: usize,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Copying {
    pub(crate) fn new(session: &Session, pair: &Pair, bytes: usize, window: usize, time: Duration) -> Self {
        let all = bytes * window;
        Self { session: session.clone(), leads: pair.leads, time, bytes, from: vec![1; all], to: vec![0; all] }
    }

    fn sample_mb_s(&mut self) -> f64 {
        let begin = Instant::now();
        for (from, to) in self.from.chunks(self.bytes).zip(self.to.chunks_mut(self.bytes)) {
            to.copy_from_slice(from);
            hint::black_box(to);
        }
        self.from.len() as f64 / begin.elapsed().as_secs_f64() / 1e6
    }
}

impl Contestant for Copying {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        quietly(&self.session.clone(), self.leads, || {
            let begin = Instant::now();
            let mut samples = vec![self.sample_mb_s()];
            while begin.elapsed() < self.time {
                samples.push(self.sample_mb_s());
            }
            samples
        })
    }
}

/// Has the leader measure while the other ranks sleep, whatever their wait mode.
fn quietly(session: &Session, leads: bool, sample: impl FnOnce() -> Vec<f64>) -> Result<Vec<f64>, BenchError> {
    let mode = session.wait_mode();
    session.set_wait_mode(WaitMode::Blocking);
    session.world().barrier()?;
    let samples = if leads { sample() } else { Vec::new() };
    session.world().barrier()?;
    session.set_wait_mode(mode);
    Ok(samples)
}

fn copying_time(from: &[u8], to: &mut [u8]) -> Duration {
    // Enough copies for the clock.
    let copies = (COPIED_BYTES / from.len()).clamp(1, 1000) as u32;
    let begin = Instant::now();
    for _ in 0..copies {
        hint::black_box(&mut *to).copy_from_slice(hint::black_box(from));
    }
    begin.elapsed() / copies
}

/// Half a round trip of a cache line between two threads.
fn handover_time() -> Duration {
    let (ball, begin) = (AtomicU64::new(0), Instant::now());
    thread::scope(|scope| {
        scope.spawn(|| (0..HANDOVERS).for_each(|round| pass(&ball, 2 * round + 1)));
        (0..HANDOVERS).for_each(|round| pass(&ball, 2 * round));
    });
    begin.elapsed() / (2 * HANDOVERS as u32)
}

/// Waits until the ball has this number and passes it on with the next.
fn pass(ball: &AtomicU64, number: u64) {
    let mut looks = 0u32;
    // SYNC floor-ball: the number is all that is handed over.
    while ball.load(Ordering::Acquire) != number {
        looks += 1;
        // With one core the other thread has to be let in.
        if looks % 1000 == 0 {
            thread::yield_now();
        }
        hint::spin_loop();
    }
    ball.store(number + 1, Ordering::Release);
}

/// So many that starting the second thread does not matter.
const HANDOVERS: u64 = 20_000;
const COPIED_BYTES: usize = 1 << 16;
