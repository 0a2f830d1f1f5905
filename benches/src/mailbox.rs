//! A message within a node without Ropeway: a flag each way and a copy, between two threads on two cores. What it costs to start and to wait
//! for that is the floor of what any library can have go on by itself (d_a).

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use ropeway::Session;

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
}

/// What both threads share.
struct Shared {
    /// The sender has the next message, and waits for its receive.
    ready: Line,
    armed: Line,
    full: Line,
    /// The receiver's buffer, which the sender has while it copies.
    buffer: Mutex<Vec<u8>>,
}

fn between_threads(bytes: usize, timing: &mut Timing) -> Result<(), BenchError> {
    let [ours, theirs] = two_cores();
    let [ready, armed, full] = Default::default();
    let mailbox = Shared { ready, armed, full, buffer: Mutex::new(vec![0; bytes]) };
    let (begin, begins) = channel::<u64>();
    thread::scope(|scope| {
        scope.spawn(|| {
            settle(theirs);
            let mut message = vec![0; bytes];
            // It sleeps between two messages, as a rank does that has sent and waits for the other to have computed.
            for number in begins {
                message.fill(number as u8);
                mailbox.ready.write(number);
                mailbox.armed.await_number(number);
                mailbox.buffer.lock().expect(NO_PANIC).copy_from_slice(&message);
                mailbox.full.write(number);
            }
        });
        let receiving = scope.spawn(|| {
            settle(ours);
            timing.measure(&mut Mail { mailbox: &mailbox, begin, stopwatch: Stopwatch::new(), number: 0 })
        });
        receiving.join().expect(NO_PANIC)
    })
}

/// Messages as the receiving thread has them.
struct Mail<'a> {
    mailbox: &'a Shared,
    /// Tells the sender the number of the next message.
    begin: Sender<u64>,
    stopwatch: Stopwatch,
    number: u64,
}

impl Reception for Mail<'_> {
    fn agree<const N: usize>(&self, decide: impl FnOnce() -> [u64; N]) -> Result<[u64; N], BenchError> {
        Ok(decide())
    }

    fn leads(&self) -> bool {
        true
    }

    fn receive(&mut self, compute: impl FnOnce()) -> Result<Parts, BenchError> {
        self.number += 1;
        let Self { mailbox, begin, stopwatch, number } = self;
        begin.send(*number).expect(NO_PANIC);
        mailbox.ready.await_number(*number);
        let start = || {
            mailbox.armed.write(*number);
            Ok(())
        };
        let wait = |()| {
            mailbox.full.await_number(*number);
            Ok(())
        };
        let parts = stopwatch.parts(start, compute, wait)?;
        let buffer = mailbox.buffer.lock().expect(NO_PANIC);
        match buffer.iter().position(|&byte| byte != *number as u8) {
            Some(byte) => Err(BenchError::WrongData { contestant: MAILBOX.into(), bytes: buffer.len(), byte }),
            None => Ok(parts),
        }
    }
}

/// What the floor is called.
pub(crate) const MAILBOX: &str = "a flag each way and a copy";
const NO_PANIC: &str = "the other thread does not panic";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::computation::Compute;
    use crate::plan::Effort;

    #[test]
    fn each_computation_gets_figures_of_messages_of_any_size() {
        for (bytes, compute) in [(0, Compute::Busy), (8, Compute::Sleep), (100_000, Compute::Busy)] {
            let mut timing = Timing::new(compute, Effort::lasting(Duration::from_millis(1), Timing::WARMUP));
            between_threads(bytes, &mut timing).unwrap();
            let [(_, _, d_a), (_, _, t_comm), ..] = timing.batches.metrics();
            assert!(!d_a.is_empty() && d_a.iter().all(|&d_a| d_a < 1.0), "{bytes}: {d_a:?}");
            assert!(t_comm.iter().all(|&t_comm| t_comm > 0.0), "{bytes}: {t_comm:?}");
        }
    }
}
