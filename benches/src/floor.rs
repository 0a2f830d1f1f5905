//! What a node can do without us: hand a cache line from core to core, and copy memory.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ropeway::{Session, WaitMode};

use crate::BenchError;
use crate::cores::{settle, two_cores};
use crate::pair::Pair;
use crate::race::Contestant;

/// The least a message within a node can cost: a cache line goes from core to core, and the payload is copied once.
pub(crate) struct Handover {
    session: Session,
    pair: Pair,
    time: Duration,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Handover {
    pub(crate) fn new(session: &Session, pair: &Pair, bytes: usize, time: Duration) -> Self {
        Self { session: session.clone(), pair: pair.clone(), time, from: touched(bytes), to: touched(bytes) }
    }

    fn samples_us(&mut self) -> Vec<f64> {
        let mut sample_us = |handover: Duration| {
            let copy = copying_time(&self.from, &mut self.to);
            (handover + copy).as_secs_f64() * 1e6
        };
        handover_times().into_iter().map(&mut sample_us).collect()
    }
}

impl Contestant for Handover {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        quietly(&self.session.clone(), &self.pair.clone(), || {
            let begin = Instant::now();
            let mut samples = self.samples_us();
            while begin.elapsed() < self.time {
                samples.extend(self.samples_us());
            }
            samples
        })
    }
}

/// The least moving bytes within a node can cost: copying a window of messages.
pub(crate) struct Copying {
    session: Session,
    pair: Pair,
    time: Duration,
    bytes: usize,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Copying {
    pub(crate) fn new(session: &Session, pair: &Pair, bytes: usize, window: usize, time: Duration) -> Self {
        let all = bytes * window;
        Self { session: session.clone(), pair: pair.clone(), time, bytes, from: touched(all), to: touched(all) }
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
        quietly(&self.session.clone(), &self.pair.clone(), || {
            let begin = Instant::now();
            let mut samples = vec![self.sample_mb_s()];
            while begin.elapsed() < self.time {
                samples.push(self.sample_mb_s());
            }
            samples
        })
    }
}

/// Has the leader measure while its peer sleeps, whatever its wait mode.
pub(crate) fn quietly<T>(
    session: &Session,
    pair: &Pair,
    sample: impl FnOnce() -> Vec<T>,
) -> Result<Vec<T>, BenchError> {
    let mode = session.wait_mode();
    session.set_wait_mode(WaitMode::Blocking);
    pair.meet()?;
    let samples = if pair.leads { sample() } else { Vec::new() };
    pair.meet()?;
    session.set_wait_mode(mode);
    Ok(samples)
}

/// Memory that has its pages: of zeros the kernel would give them out when they are first copied to, which takes longer than the copy.
fn touched(bytes: usize) -> Vec<u8> {
    vec![1; bytes]
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

/// Half a round trip between threads on two cores, each of which spins on the line that the other one writes, on average over
/// short batches: if one of the threads loses its core for a while, that spoils one sample. With one line for both ways
/// processors notice that it wanders and hand it over at half the price, but messages have memory of their own.
///
/// Both threads are new ones: they would inherit the core of a rank that is pinned, and then hand over within one cache.
pub(crate) fn handover_times() -> Vec<Duration> {
    let (there, back) = (Line::default(), Line::default());
    let [ours, theirs] = two_cores();
    thread::scope(|scope| {
        scope.spawn(|| {
            settle(theirs);
            (1..=BATCHES * HANDOVERS).for_each(|round| {
                there.await_number(round);
                back.write(round);
            });
        });
        let batch = |batch| {
            let begin = Instant::now();
            (batch * HANDOVERS + 1..=(batch + 1) * HANDOVERS).for_each(|round| {
                there.write(round);
                back.await_number(round);
            });
            begin.elapsed() / (2 * HANDOVERS as u32)
        };
        let timing = scope.spawn(move || {
            settle(ours);
            (0..BATCHES).map(batch).collect()
        });
        timing.join().expect("handing over does not panic")
    })
}

/// A cache line, and the one that processors fetch along with it.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Line(AtomicU64);

impl Line {
    pub(crate) fn write(&self, number: u64) {
        // SYNC floor-line: the number is all that is handed over.
        self.0.store(number, Ordering::Release);
    }

    pub(crate) fn await_number(&self, number: u64) {
        let mut looks = 0;
        // SYNC floor-line: the number is all that is handed over.
        while self.0.load(Ordering::Acquire) != number {
            looks += 1;
            if looks > SPINS {
                // The other thread may have to share our core.
                thread::yield_now();
            }
            hint::spin_loop();
        }
    }
}

/// Longer than a handover takes.
const SPINS: u32 = 30;
const BATCHES: u64 = 50;
const HANDOVERS: u64 = 200;
const COPIED_BYTES: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::resource::{UsageWho, getrusage};

    #[test]
    fn the_first_copy_finds_its_pages() {
        let (from, mut to) = (touched(64 << 20), touched(64 << 20));
        let faults = || getrusage(UsageWho::RUSAGE_THREAD).unwrap().minor_page_faults();
        let before = faults();
        hint::black_box(&mut to[..]).copy_from_slice(hint::black_box(&from));
        // Even huge pages would be 32.
        assert!(faults() - before < 16, "{}", faults() - before);
    }
}
