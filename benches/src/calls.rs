//! What the calls alone cost: start a send, start a receive, wait for what has ended.
//!
//! Between two rounds messages only get new stamps: a daemon whose ranks write megabytes sleeps meanwhile. It may sleep all the same, since
//! ranks meet without it; then the first start of a round wakes it, which takes many times as long as the others: a figure of its own. All
//! bytes are written at the beginning of a run and checked at its end.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant};

use ropeway_examples::Mode;

use crate::BenchError;
use crate::allocations::measured;
use crate::pair::Pair;
use crate::plan::Effort;
use crate::race::Contestant;
use crate::record::Side;
use crate::streams::{OneShot, Persistent, SingleCalls};
use crate::window::{Course, Marks, messages_in};

/// The call whose time is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Of a send that others precede.
    StartSend,
    StartRecv,
    WaitDone,
    /// Of the first send of a round, which may have to wake the daemon.
    StartFirst,
    /// None: the stores that no start of a send to another node can do without, at the same place.
    StartBare,
}

impl Call {
    pub(crate) const ALL: [Self; 5] =
        [Self::StartSend, Self::StartRecv, Self::WaitDone, Self::StartFirst, Self::StartBare];
}

/// The metric's name.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::StartSend => "start_send",
            Self::StartRecv => "start_recv",
            Self::WaitDone => "wait_done",
            Self::StartFirst => "start_first",
            Self::StartBare => "start_bare",
        })
    }
}

/// A contestant whose samples are the time of one such call, in nanoseconds.
pub(crate) fn contestant(
    pair: &Pair,
    mode: Mode,
    (call, bytes): (Call, usize),
    effort: Effort,
) -> Result<Box<dyn Contestant>, BenchError> {
    let side = if call == Call::StartRecv { Side::Recv } else { Side::Send };
    let window = messages_in(MEMORY_BYTES, bytes).clamp(4, COUNT);
    let course = Course { bytes, side, window, windows: 1, rounds: 1 };
    Ok(match mode {
        Mode::Persistent => Box::new(Calls::new(pair, Persistent::new(pair, course)?, course, (call, effort))),
        Mode::OneShot => Box::new(Calls::new(pair, OneShot::new(pair, course)?, course, (call, effort))),
    })
}

/// Many calls in a row; everything that waits for somebody is done in between.
struct Calls<S> {
    pair: Pair,
    stream: S,
    course: Course,
    call: Call,
    effort: Effort,
    marks: Marks,
    bare: BareStarts,
}

impl<S: SingleCalls> Calls<S> {
    fn new(pair: &Pair, stream: S, course: Course, (call, effort): (Call, Effort)) -> Self {
        let (marks, bare) = (Marks::new(pair.leads), BareStarts::new(course.messages()));
        Self { pair: pair.clone(), stream, course, call, effort, marks, bare }
    }

    /// One message of each request; how long one of the calls took, in nanoseconds.
    fn round(&mut self) -> Result<f64, BenchError> {
        let count = self.course.messages();
        self.pair.meet()?;
        let start_recv = timed(|| self.stream.arm())?;
        self.pair.meet()?;
        let start_first = timed(|| self.stream.start_sends(0..1))?;
        let start_bare = if self.call == Call::StartBare { self.bare.row()? } else { Duration::ZERO };
        let start_rest = timed(|| self.stream.start_sends(1..count))?;
        self.stream.wait_recvs()?;
        // When the receiver has come so far, the sends have ended too.
        self.pair.meet()?;
        let wait_done = timed(|| self.stream.wait_sends())?;
        self.pair.meet()?;
        let (elapsed, calls) = match self.call {
            Call::StartFirst => (start_first, 1),
            Call::StartBare => (start_bare, count - 1),
            Call::StartSend => (start_rest, count - 1),
            Call::StartRecv => (start_recv, count),
            Call::WaitDone => (wait_done, count),
        };
        Ok(elapsed.as_secs_f64() * 1e9 / calls as f64)
    }

    /// A round that others follow.
    fn round_of_many(&mut self) -> Result<f64, BenchError> {
        let call_ns = self.round()?;
        self.marks.renew(&mut self.stream, self.course)?;
        Ok(call_ns)
    }
}

/// What starts of sends to other nodes have to write at least: a cache line of each request, an entry of a ring, and where that ends.
/// Nobody else has these lines, but they are as cold as those of the requests.
struct BareStarts {
    requests: Vec<[Line; REQUEST_LINES]>,
    ring: Vec<Line>,
    end: Line,
}

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; 8]);

impl BareStarts {
    fn new(count: usize) -> Self {
        let of = |_| Default::default();
        Self {
            requests: (0..count).map(of).collect(),
            ring: (0..count).map(|_| Line::default()).collect(),
            end: Line::default(),
        }
    }

    /// How long all take but the first.
    fn row(&self) -> Result<Duration, BenchError> {
        self.start(0);
        timed(|| {
            (1..self.ring.len()).for_each(|number| self.start(number));
            Ok(())
        })
    }

    fn start(&self, number: usize) {
        let [phase, epoch, ..] = &self.requests[number][0].0;
        let turn = epoch.load(Relaxed) + 1;
        phase.store(turn, Relaxed);
        epoch.store(turn, Relaxed);
        self.ring[number].0.iter().for_each(|word| word.store(turn, Relaxed));
        self.end.0[0].store(turn, Release);
    }
}

fn timed(work: impl FnOnce() -> Result<(), BenchError>) -> Result<Duration, BenchError> {
    measured(|| {
        let begin = Instant::now();
        work()?;
        Ok(begin.elapsed())
    })
}

impl<S: SingleCalls> Contestant for Calls<S> {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        self.marks.write(&mut self.stream, self.course);
        let begin = Instant::now();
        (0..self.effort.warmup).try_for_each(|_| self.round_of_many().map(drop))?;
        let round_s = begin.elapsed().as_secs_f64() / self.effort.warmup as f64;
        let [rounds] = self.pair.agree(|| [self.effort.rounds(round_s, 3, 100_000)])?;
        let mut samples = Vec::new();
        for _ in 0..rounds {
            let call_ns = self.round_of_many()?;
            if self.pair.leads {
                samples.push(call_ns);
            }
        }
        self.round()?;
        self.marks.check(&mut self.stream, self.course)?;
        Ok(samples)
    }
}

/// Fewer than the command ring has room for, so that the calls never wait for the daemon.
const COUNT: usize = 1000;
const MEMORY_BYTES: usize = 16 << 20;
/// From one send request to the next in a row of them.
const REQUEST_LINES: usize = 11;
