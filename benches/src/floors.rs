//! What the machine can do without us, each measured by itself between two threads of the caller's process.
//!
//! Each takes about as long as it is told. Figures are medians: whatever disturbs the machine for a moment disturbs some
//! samples only.

use std::hint;
use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::getppid;

use crate::cores::{settle, two_cores};
use crate::mid_page::MidPage;
use crate::trip::{Tcp, Trip};
use crate::{BenchError, Summary};
use crate::{connection, floor, unparking, wakeup};

/// Handing a cache line from core to core, in nanoseconds.
pub fn cache_line_ns(time: Duration) -> f64 {
    sampled(time, || floor::handover_times().into_iter().map(|time| time.as_nanos() as f64).collect())
}

/// How a thread waits for its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It looks again and again.
    Busy,
    /// It sleeps in the kernel.
    Blocking,
}

/// Half a round trip of eight bytes over a loopback TCP connection, in nanoseconds.
pub fn loopback_ns(waiting: Waiting, time: Duration) -> Result<f64, BenchError> {
    let [near, far] = connection::over_loopback()?;
    for stream in [&near, &far] {
        stream.set_nonblocking(waiting == Waiting::Busy)?;
    }
    let (mut near, mut far) = (Tcp::over(near, MESSAGE_BYTES), Tcp::over(far, MESSAGE_BYTES));
    let echo = move || {
        // The other end closes when it has seen enough.
        while far.recv().is_ok() && far.send().is_ok() {}
    };
    let timing = move || {
        let mut round_trip = || -> Result<f64, BenchError> {
            let begin = Instant::now();
            near.send()?;
            near.recv()?;
            Ok(begin.elapsed().as_nanos() as f64 / 2.0)
        };
        for _ in 0..WARMUP {
            round_trip()?;
        }
        let begin = Instant::now();
        let mut samples = vec![round_trip()?];
        while begin.elapsed() < time {
            samples.push(round_trip()?);
        }
        Ok(Summary::of(&samples).median)
    };
    on_two_cores(timing, echo)
}

/// Bytes in a second through a loopback TCP connection, one way.
pub fn loopback_bytes_per_s(time: Duration) -> Result<f64, BenchError> {
    let [mut near, mut far] = connection::over_loopback()?;
    let write = move || {
        let bytes = MidPage::new(1, STREAM_BYTES);
        // The other end closes when it has seen enough.
        while far.write_all(&bytes).is_ok() {}
    };
    let read = move || {
        let mut bytes = MidPage::new(0, STREAM_BYTES);
        near.read_exact(&mut bytes)?;
        let (begin, mut total) = (Instant::now(), 0);
        while begin.elapsed() < time || total == 0 {
            near.read_exact(&mut bytes)?;
            total += bytes.len();
        }
        Ok(total as f64 / begin.elapsed().as_secs_f64())
    };
    on_two_cores(read, write)
}

/// From waking a thread that sleeps on a futex until it runs on its core, in nanoseconds.
pub fn wake_up_ns(time: Duration) -> Result<f64, BenchError> {
    let rounds = (time.as_secs_f64() / wakeup::ROUND_S).clamp(20.0, 100_000.0) as u64;
    let samples: Vec<f64> = unparking::unparking_times(rounds).into_iter().collect::<Result<_, _>>()?;
    if samples.is_empty() {
        return Err(io::Error::other("no thread has slept: the machine is too busy").into());
    }
    Ok(Summary::of(&samples).median * 1e3)
}

/// A system call that does next to nothing, in nanoseconds.
pub fn system_call_ns(time: Duration) -> f64 {
    sampled(time, || vec![of_many(getppid)])
}

/// Reading the clock, in nanoseconds.
pub fn clock_ns(time: Duration) -> f64 {
    sampled(time, || vec![of_many(Instant::now)])
}

fn sampled(time: Duration, mut sample: impl FnMut() -> Vec<f64>) -> f64 {
    let begin = Instant::now();
    let mut samples = sample();
    while begin.elapsed() < time {
        samples.extend(sample());
    }
    Summary::of(&samples).median
}

fn of_many<T>(call: impl Fn() -> T) -> f64 {
    let begin = Instant::now();
    for _ in 0..CALLS {
        hint::black_box(call());
    }
    begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

/// Runs both at once; the second ends when the first drops what it holds.
fn on_two_cores<T: Send>(first: impl FnOnce() -> T + Send, second: impl FnOnce() + Send) -> T {
    let cores = two_cores();
    thread::scope(|scope| {
        scope.spawn(move || {
            settle(cores[1]);
            second();
        });
        let first = scope.spawn(move || {
            settle(cores[0]);
            first()
        });
        first.join().expect("measuring does not panic")
    })
}

const MESSAGE_BYTES: usize = 8;
const STREAM_BYTES: usize = 256 << 10;
const WARMUP: u32 = 50;
const CALLS: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_takes_some_time() {
        let time = Duration::from_millis(1);
        assert!(cache_line_ns(time) > 0.0 && system_call_ns(time) > 0.0 && clock_ns(time) > 0.0);
        assert!(wake_up_ns(time).unwrap() > 0.0);
        for waiting in [Waiting::Busy, Waiting::Blocking] {
            assert!(loopback_ns(waiting, time).unwrap() > system_call_ns(time));
        }
        assert!(loopback_bytes_per_s(time).unwrap() > 1e6);
    }
}
