//! What the start of a registered collective costs its program: the call alone, of the first to come and of the last.
//!
//! ```text
//!   first     rank 0  ├ start start … ┤ meet         meet ├ wait wait … ┤
//!             others                    meet ├ start … ┤ meet
//!   last      rank 0                    meet ├ start … ┤ meet ├ wait wait … ┤
//!             others  ├ start start … ┤ meet         meet
//! ```
//!
//! One call is too short for the clock, so as many collectives as memory allows are started in a row; everything that waits for
//! somebody is done in between. The last to come also does the least work, and tells the daemon of much. A daemon that sleeps since ranks
//! meet without it is woken by the first of a row, which takes many times as long as the others: a figure of its own.
//!
//! The others have a floor, measured right behind them: a start that does nothing but what all have to do, to find what it is the start of and
//! to say so where others read it. Of what has left the caches since, that takes most of the time.

use std::fmt;
use std::hint::black_box;
use std::iter;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Instant;

use ropeway::{Communicator, Error};
use ropeway_examples::Mode;
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::allocations::measured;
use crate::contribution::Extent;
use crate::everyone::Everyone;
use crate::method::Method;
use crate::operation::CollectiveCall;
use crate::plan::Effort;
use crate::together::{Means, Registered, Together, together};
use crate::window::messages_in;

/// When the rank that keeps the time comes to a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// Before all others.
    First,
    /// When all others have come.
    Last,
}

impl Arrival {
    pub(crate) const ALL: [Self; 2] = [Self::First, Self::Last];
}

impl fmt::Display for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::First => "first",
            Self::Last => "last",
        })
    }
}

/// What is found of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The mean of all starts but the first.
    Following,
    /// The first start, which may have to wake the daemon.
    Waking,
}

impl Place {
    pub(crate) const ALL: [Self; 2] = [Self::Following, Self::Waking];
}

/// The metric's name.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Following => "start",
            Self::Waking => "start_waking",
        })
    }
}

/// How many nanoseconds a start of a row took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// At each [`Place`].
    pub(crate) places: [f64; 2],
    /// If it did next to nothing.
    pub(crate) floor: f64,
}

/// What the floor of a start is.
pub(crate) const TWO_LINES: &str = "a line of its own and one that others read";

/// A start's own line, and the one that others read. The former is where collectives have theirs, the latter beside those of others, as
/// Ropeway's are.
#[expect(clippy::vec_box, reason = "they are not to lie side by side")]
struct Bare {
    own: Vec<Box<Line>>,
    shown: Box<[Line]>,
}

#[repr(align(64))]
#[derive(Default)]
struct Line(AtomicU64);

impl Bare {
    /// Nanoseconds of a start, of one of each.
    fn start(&self, round: u64) -> f64 {
        let begin = Instant::now();
        for (own, shown) in iter::zip(black_box(&self.own), &self.shown) {
            // Neither waits for the other.
            own.0.store(own.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            shown.0.store(round, Ordering::Release);
            // Then it would look whether anybody sleeps who is to see that.
            fence(Ordering::SeqCst);
        }
        begin.elapsed().as_secs_f64() * 1e9 / self.own.len() as f64
    }
}

/// One rank's part of collectives that are started in a row.
pub(crate) struct Starts {
    everyone: Everyone,
    keeps_time: bool,
    row: Vec<Box<dyn Together>>,
    bare: Bare,
    effort: Effort,
    round: u64,
}

impl Starts {
    pub(crate) fn new(
        world: &Communicator,
        method: &Method,
        (call, bytes): (CollectiveCall, usize),
        effort: Effort,
    ) -> Result<Self, BenchError> {
        let means = Means::Ropeway(method, Mode::Persistent);
        let largest = 2 * bytes * world.size() as usize;
        let count = messages_in(MEMORY_BYTES, largest).clamp(COUNT_MIN, COUNT);
        let (mut row, mut own) = (Vec::new(), Vec::new());
        for _ in 0..count {
            row.push(together(world, means, call, bytes)?);
            own.push(Box::default());
        }
        let bare = Bare { own, shown: (0..count).map(|_| Line::default()).collect() };
        Ok(Self { everyone: Everyone::of(world), keeps_time: world.rank() == 0, row, bare, effort, round: 0 })
    }

    /// One run: what each round found, for rank 0.
    pub(crate) fn measure(&mut self, arrival: Arrival) -> Result<Vec<Row>, BenchError> {
        // The first start of a collective finds where its members meet.
        self.round(arrival, Extent::All)?;
        let begin = Instant::now();
        (0..self.effort.warmup).try_for_each(|_| self.round(arrival, Extent::Edges).map(drop))?;
        let round_s = begin.elapsed().as_secs_f64() / self.effort.warmup as f64;
        let effort = self.effort;
        let [rounds] = self.everyone.agree(|| [effort.rounds(round_s, ROUNDS_MIN, ROUNDS_MAX)])?;
        let samples = (0..rounds).map(|_| self.round(arrival, Extent::Edges)).collect::<Result<Vec<_>, _>>()?;
        self.round(arrival, Extent::All)?;
        Ok(if self.keeps_time { samples } else { Vec::new() })
    }

    /// Starts all in a row and waits for them.
    fn round(&mut self, arrival: Arrival, extent: Extent) -> Result<Row, BenchError> {
        let Self { everyone, keeps_time, row, bare, round, .. } = self;
        *round += 1;
        row.iter_mut().for_each(|one| one.prepare(*round, extent));
        let mut registered: Vec<_> = row.iter_mut().map(|one| one.registered().expect(IS_REGISTERED)).collect();
        let comes_first = *keeps_time == (arrival == Arrival::First);
        everyone.meet()?;
        if !comes_first {
            everyone.meet()?;
        }
        let (first, following) = registered.split_at_mut(1);
        let waking_ns = measured_in(extent, || start(first))?;
        let following_ns = measured_in(extent, || start(following))?;
        let floor = bare.start(*round);
        if comes_first {
            everyone.meet()?;
        }
        everyone.meet()?;
        measured_in(extent, || registered.iter_mut().try_for_each(|one| one.wait()))?;
        row.iter().try_for_each(|one| one.check(*round, extent))?;
        Ok(Row { places: [following_ns, waking_ns], floor })
    }
}

/// Rounds that prove data don't count.
fn measured_in<R>(extent: Extent, calls: impl FnOnce() -> R) -> R {
    if extent == Extent::All { calls() } else { measured(calls) }
}

fn start(registered: &mut [&mut dyn Registered]) -> Result<f64, Error> {
    let begin = Instant::now();
    registered.iter_mut().try_for_each(|one| one.start())?;
    Ok(begin.elapsed().as_secs_f64() * 1e9 / registered.len() as f64)
}

/// One that may have to wake the daemon, and enough behind it.
const COUNT_MIN: usize = 4;
/// So few that the command ring has room for all of them, and for a command to and from each of four neighbours.
const COUNT: usize = 64;
/// For the arrays of a row, about.
const MEMORY_BYTES: usize = 16 << 20;
const ROUNDS_MIN: u64 = 3;
const ROUNDS_MAX: u64 = 10_000;
const IS_REGISTERED: &str = "persistent calls of Ropeway's own collectives are started by a call";
