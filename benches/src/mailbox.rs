//! A message within a node without Ropeway: the least there can be of it, between two threads on two cores. What it costs to start and to wait
//! for that is the floor of what any library can have go on by itself (d_a).
//!
//! Large messages are copied by the sender once it knows that the receiver has come. Of small ones that would be most of the time: whoever
//! comes second copies, as libraries do, so that often nothing is left to go on.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use ropeway::Session;
use ropeway_proto::limits::EAGER_BYTES_MAX;

use crate::BenchError;
use crate::cores::{settle, two_cores};
use crate::floor::{Line, quietly};
use crate::pair::Pair;
use crate::receiving::{Parts, Reception, Stopwatch, Timing};

/// The rank that leads has both threads, and its peer sleeps.
pub(crate) struct Mailbox {
    session: Session,
    pair: Pair,
    bytes: usize,
    pub(crate) timing: Timing,
}

impl Mailbox {
    pub(crate) fn new(session: &Session, pair: &Pair, bytes: usize, timing: Timing) -> Self {
        Self { session: session.clone(), pair: pair.clone(), bytes, timing }
    }

    /// A run.
    pub(crate) fn measure(&mut self) -> Result<(), BenchError> {
        let mut result = Ok(());
        quietly(&self.session, &self.pair, || {
            result = between_threads(self.bytes, &mut self.timing);
            Vec::<()>::new()
        })?;
        result
    }

    /// What the floor is called.
    pub(crate) fn name(&self) -> &'static str {
        if is_small(self.bytes) { Either::NAME } else { Announced::NAME }
    }
}

fn is_small(bytes: usize) -> bool {
    bytes as u64 <= EAGER_BYTES_MAX
}

/// How a message gets from one thread to the other. Messages are numbered from 1.
trait Way: Sync {
    const NAME: &'static str;

    fn of(bytes: usize) -> Self;
    /// The sender writes the message, all of whose bytes are like the number's lowest, before both begin.
    fn write(&self, number: u64);
    fn send(&self, number: u64);
    fn start(&self, number: u64);
    fn wait(&self, number: u64);
    /// The first byte received that is not as it was written.
    fn wrong_byte(&self, number: u64) -> Option<usize>;
}

/// The receiver says that it has come; the sender waits for that, and copies.
struct Announced {
    armed: Line,
    full: Line,
    message: Mutex<Vec<u8>>,
    /// The receiver's buffer, which the sender has while it copies.
    buffer: Mutex<Vec<u8>>,
}

impl Way for Announced {
    const NAME: &'static str = "a flag each way and a copy";

    fn of(bytes: usize) -> Self {
        let memory = || Mutex::new(vec![0; bytes]);
        Self { armed: Line::default(), full: Line::default(), message: memory(), buffer: memory() }
    }

    fn write(&self, number: u64) {
        self.message.lock().expect(NO_PANIC).fill(number as u8);
    }

    fn send(&self, number: u64) {
        self.armed.await_number(number);
        self.buffer.lock().expect(NO_PANIC).copy_from_slice(&self.message.lock().expect(NO_PANIC));
        self.full.write(number);
    }

    fn start(&self, number: u64) {
        self.armed.write(number);
    }

    fn wait(&self, number: u64) {
        self.full.await_number(number);
    }

    fn wrong_byte(&self, number: u64) -> Option<usize> {
        self.buffer.lock().expect(NO_PANIC).iter().position(|&byte| byte != number as u8)
    }
}

/// Whoever of the two comes second copies.
struct Either {
    /// How often either has come.
    met: AtomicU64,
    full: Line,
    message: Vec<AtomicU64>,
    buffer: Vec<AtomicU64>,
}

impl Either {
    fn come(&self, number: u64) {
        // SYNC floor-met: the message, or that the last one was read, before the arrival; both arrivals before the copy.
        if self.met.fetch_add(1, Ordering::AcqRel) % 2 == 1 {
            for (from, to) in self.message.iter().zip(&self.buffer) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            self.full.write(number);
        }
    }
}

impl Way for Either {
    const NAME: &'static str = "who is second copies";

    fn of(bytes: usize) -> Self {
        let memory = || (0..bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
        Self { met: AtomicU64::new(0), full: Line::default(), message: memory(), buffer: memory() }
    }

    fn write(&self, number: u64) {
        self.message.iter().for_each(|word| word.store(repeated(number), Ordering::Relaxed));
    }

    fn send(&self, number: u64) {
        self.come(number);
    }

    fn start(&self, number: u64) {
        self.come(number);
    }

    fn wait(&self, number: u64) {
        self.full.await_number(number);
    }

    fn wrong_byte(&self, number: u64) -> Option<usize> {
        self.buffer.iter().position(|word| word.load(Ordering::Relaxed) != repeated(number)).map(|word| 8 * word)
    }
}

/// A word of bytes that are all like the number's lowest.
fn repeated(number: u64) -> u64 {
    u64::from_ne_bytes([number as u8; 8])
}

fn between_threads(bytes: usize, timing: &mut Timing) -> Result<(), BenchError> {
    if is_small(bytes) { by_way::<Either>(bytes, timing) } else { by_way::<Announced>(bytes, timing) }
}

fn by_way<W: Way>(bytes: usize, timing: &mut Timing) -> Result<(), BenchError> {
    let [ours, theirs] = two_cores();
    let (way, [ready, go]) = (W::of(bytes), <[Line; 2]>::default());
    let (begin, begins) = channel::<u64>();
    thread::scope(|scope| {
        scope.spawn(|| {
            settle(theirs);
            // It sleeps between two messages, as a rank does that has sent and waits for the other to have computed.
            for number in begins {
                way.write(number);
                ready.write(number);
                go.await_number(number);
                way.send(number);
            }
        });
        let receiving = scope.spawn(|| {
            settle(ours);
            let [ready, go] = [&ready, &go];
            timing.measure(&mut Mail { way: &way, bytes, begin, ready, go, stopwatch: Stopwatch::new(), number: 0 })
        });
        receiving.join().expect(NO_PANIC)
    })
}

/// Messages as the receiving thread has them.
struct Mail<'a, W> {
    way: &'a W,
    bytes: usize,
    /// Tells the sender the number of the next message.
    begin: Sender<u64>,
    /// The sender has that message.
    ready: &'a Line,
    /// Both begin.
    go: &'a Line,
    stopwatch: Stopwatch,
    number: u64,
}

impl<W: Way> Reception for Mail<'_, W> {
    fn agree<const N: usize>(&self, decide: impl FnOnce() -> [u64; N]) -> Result<[u64; N], BenchError> {
        Ok(decide())
    }

    fn leads(&self) -> bool {
        true
    }

    fn receive(&mut self, compute: impl FnOnce()) -> Result<Parts, BenchError> {
        self.number += 1;
        let Self { way, begin, ready, go, stopwatch, number, .. } = self;
        begin.send(*number).expect(NO_PANIC);
        ready.await_number(*number);
        go.write(*number);
        let start = || {
            way.start(*number);
            Ok(())
        };
        let wait = |()| {
            way.wait(*number);
            Ok(())
        };
        let parts = stopwatch.parts(start, compute, wait)?;
        match way.wrong_byte(*number) {
            Some(byte) => Err(BenchError::WrongData { contestant: W::NAME.into(), bytes: self.bytes, byte }),
            None => Ok(parts),
        }
    }
}

const NO_PANIC: &str = "the other thread does not panic";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::computation::Compute;
    use crate::plan::Effort;

    #[test]
    fn each_computation_gets_figures_of_messages_of_any_size() {
        for (bytes, compute) in [(0, Compute::Busy), (8, Compute::Sleep), (13, Compute::Busy), (100_000, Compute::Busy)]
        {
            let mut timing = Timing::new(compute, Effort::lasting(Duration::from_millis(1), Timing::WARMUP));
            between_threads(bytes, &mut timing).unwrap();
            let [(_, _, d_a), (_, _, t_comm), ..] = timing.batches.metrics();
            assert!(!d_a.is_empty() && d_a.iter().all(|&d_a| d_a < 1.0), "{bytes}: {d_a:?}");
            assert!(t_comm.iter().all(|&t_comm| t_comm > 0.0), "{bytes}: {t_comm:?}");
        }
    }
}
