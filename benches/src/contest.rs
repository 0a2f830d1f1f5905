//! Our side of `ropeway bench compare` and `transparency`: what `benches/mpi/contest.c` does over MPI, call for call.

mod kind;
mod procedures;
mod sockets;

use std::time::{Duration, Instant};

use ropeway::{Communicator, RecvRequest, SendRequest, Session, start_all};
use ropeway_examples::Mode;

use crate::allocations::measured;
use crate::contribution::Extent;
use crate::everyone::Everyone;
use crate::kernel::{Kernel, kernel};
use crate::method::Method;
use crate::operation::CollectiveCall;
use crate::together::{Means, Together, together};
use crate::{BenchError, Console, Plan, gather, pattern};

use self::sockets::Sockets;
pub use kind::{Contest, Figure, Kind};

/// The other side, as C source.
pub const MPI_CONTEST: &str = include_str!("../mpi/contest.c");
/// What it includes, by name.
pub const MPI_HEADERS: [(&str, &str); 3] = [
    ("kernels.h", include_str!("../mpi/kernels.h")),
    ("shares.h", include_str!("../mpi/shares.h")),
    ("calls.h", include_str!("../mpi/calls.h")),
];

/// One run of each size.
pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let Some(contest) = plan.contest else { return Ok(()) };
    let world = session.world();
    for size in &plan.sizes {
        if contest.kind.is_benchmark() {
            let time = Duration::from_secs_f64(BATCHES_OF_BENCHMARKS * contest.batch_s);
            procedures::run(&world, console, (contest.kind, time), size.0)?;
            continue;
        }
        let samples = console.step(LABEL, || batches(&world, contest, Part::new(&world, contest, size.0)?))?;
        let bare = match Sockets::new(&world, contest, size.0, &plan.addresses)? {
            Some(sockets) => console.step(sockets::LABEL, || batches(&world, contest, Part::Bare(sockets)))?,
            None => Vec::new(),
        };
        for figure in contest.kind.figures() {
            figure.tell(console, LABEL, (contest.kind, size.0), &samples, sockets::floor(&bare))?;
        }
    }
    Ok(())
}

/// Figures of some batches, for rank 0.
fn batches(world: &Communicator, contest: Contest, mut side: Part) -> Result<Vec<f64>, BenchError> {
    let rounds = rounds_in_batch(world, &mut side, contest.batch_s)?;
    let mut figures = Vec::new();
    side.spoil();
    for _ in 0..BATCHES {
        world.barrier()?;
        let begin = Instant::now();
        measured(|| side.rounds(rounds))?;
        let all = gather(world, [begin.elapsed().as_secs_f64()])?;
        figures.extend(all.map(|all| {
            let mean_s = all.iter().map(|[seconds]| seconds).sum::<f64>() / all.len() as f64;
            side.figure(mean_s, rounds as f64)
        }));
    }
    side.check()?;
    Ok(figures)
}

/// How many rounds fill a batch, found by doing more and more of them: the first ones take longer than others, and a batch of
/// few would measure how ranks leave the barrier before it.
fn rounds_in_batch(world: &Communicator, side: &mut Part, batch_s: f64) -> Result<u64, BenchError> {
    let mut rounds = 1;
    loop {
        world.barrier()?;
        let begin = Instant::now();
        side.rounds(rounds)?;
        let short_of = batch_s / begin.elapsed().as_secs_f64();
        let [factor] = Everyone::of(world).agree(|| [if short_of < 2.0 { 1 } else { short_of.min(8.0) as u64 }])?;
        if factor == 1 {
            return Ok(rounds);
        }
        rounds *= factor;
    }
}

/// What one rank does.
enum Part {
    Messages(Box<Side>),
    Together {
        together: Box<dyn Together>,
        touch: bool,
        round: u64,
    },
    Kernel(Box<dyn Kernel>),
    /// Not ours, but what ours is measured against.
    Bare(Sockets),
}

impl Part {
    fn new(world: &Communicator, contest: Contest, bytes: usize) -> Result<Self, BenchError> {
        if let Some(operation) = contest.kind.operation() {
            let (method, call) = (Method::usual(), CollectiveCall::of(operation));
            let mut together = together(world, Means::Ropeway(&method, Mode::Persistent), call, bytes)?;
            together.prepare(UNTOUCHED, Extent::All);
            return Ok(Self::Together { together, touch: contest.touch, round: 0 });
        }
        match kernel(world, contest.kind, bytes) {
            Some(kernel) => Ok(Self::Kernel(kernel)),
            None => Ok(Self::Messages(Box::new(Side::new(world, contest, bytes)?))),
        }
    }

    fn rounds(&mut self, count: u64) -> Result<(), BenchError> {
        match self {
            Self::Messages(side) => side.rounds(count),
            Self::Together { together, touch, round } => (0..count).try_for_each(|_| {
                *round += 1;
                if *touch {
                    together.touch(*round);
                }
                together.round(None)
            }),
            Self::Kernel(kernel) => Ok((0..count).try_for_each(|_| kernel.round())?),
            Self::Bare(sockets) => sockets.rounds(count),
        }
    }

    /// Overwrites what has come, so that it is seen whether it comes again. What programs get depends on the round.
    fn spoil(&mut self) {
        match self {
            Self::Messages(side) => side.spoil(),
            Self::Together { together, .. } => together.spoil(),
            Self::Kernel(_) => {}
            Self::Bare(sockets) => sockets.spoil(),
        }
    }

    /// What a batch of so many rounds, which took so long on average, is worth.
    fn figure(&self, mean_s: f64, rounds: f64) -> f64 {
        match self {
            Self::Messages(side) => side.figure(mean_s, rounds),
            Self::Together { .. } | Self::Kernel(_) => mean_s / rounds * 1e6,
            Self::Bare(_) => half_a_trip_us(mean_s, rounds),
        }
    }

    fn check(&self) -> Result<(), BenchError> {
        match self {
            Self::Messages(side) => side.check(),
            Self::Together { together, touch: true, round } => together.check_touched(*round),
            Self::Together { together, touch: false, .. } => together.check(UNTOUCHED, Extent::All),
            Self::Kernel(kernel) => kernel.check(),
            Self::Bare(sockets) => sockets.check(),
        }
    }
}

/// Requests and buffers of one rank.
struct Side {
    contest: Contest,
    ranks: u32,
    leads: bool,
    /// Who sends to this rank.
    from: u32,
    bytes: usize,
    window: usize,
    sends: Vec<SendRequest<u8>>,
    recvs: Vec<RecvRequest<u8>>,
    /// The one-byte answer to a window.
    ack_send: SendRequest<u8>,
    ack_recv: RecvRequest<u8>,
    round: u64,
}

impl Side {
    fn new(world: &Communicator, contest: Contest, bytes: usize) -> Result<Self, BenchError> {
        let (rank, ranks) = (world.rank(), world.size());
        let (half, leads) = (ranks / 2, rank < ranks / 2);
        let opposite = if leads { rank + half } else { rank - half };
        let (to, from) = match contest.kind {
            Kind::Exchange => ((rank + 1) % ranks, (rank + ranks - 1) % ranks),
            _ => (opposite, opposite),
        };
        let is_window = contest.kind == Kind::Bandwidth;
        let window = if is_window { (WINDOW_BYTES / bytes).clamp(1, WINDOW) } else { 1 };
        let (sends, recvs) =
            (if is_window && !leads { 0 } else { window }, if is_window && leads { 0 } else { window });
        let sends = (0..sends).map(|_| world.send_init(world.alloc(bytes)?, to, DATA)).collect::<Result<_, _>>()?;
        let recvs = (0..recvs).map(|_| world.recv_init(world.alloc(bytes)?, from, DATA)).collect::<Result<_, _>>()?;
        let ack_send = world.send_init(world.alloc(1)?, opposite, ACK)?;
        let ack_recv = world.recv_init(world.alloc(1)?, opposite, ACK)?;
        let mut side = Self { contest, ranks, leads, from, bytes, window, sends, recvs, ack_send, ack_recv, round: 0 };
        side.write(rank);
        Ok(side)
    }

    /// Writes what stays if messages are not touched.
    fn write(&mut self, rank: u32) {
        numbers(rank).zip(&mut self.sends).for_each(|(number, send)| write(send.buffer_mut(), number));
        self.ack_send.buffer_mut().fill(ANSWER);
    }

    fn rounds(&mut self, count: u64) -> Result<(), BenchError> {
        for _ in 0..count {
            self.round += 1;
            match self.contest.kind {
                Kind::Latency => self.trip()?,
                Kind::Bandwidth => self.window()?,
                _ => {
                    self.touch();
                    let receiving = start_all(&mut self.recvs)?;
                    let sending = start_all(&mut self.sends)?;
                    receiving.wait_all()?;
                    sending.wait_all()?;
                }
            }
        }
        Ok(())
    }

    fn trip(&mut self) -> Result<(), BenchError> {
        let receiving = start_all(&mut self.recvs)?;
        if self.leads {
            touch(&mut self.sends, self.contest.touch, self.round);
            start_all(&mut self.sends)?.wait_all()?;
            receiving.wait_all()?;
        } else {
            receiving.wait_all()?;
            touch(&mut self.sends, self.contest.touch, self.round);
            start_all(&mut self.sends)?.wait_all()?;
        }
        Ok(())
    }

    fn window(&mut self) -> Result<(), BenchError> {
        if self.leads {
            self.touch();
            let acknowledged = self.ack_recv.start()?;
            start_all(&mut self.sends)?.wait_all()?;
            acknowledged.wait()?;
        } else {
            start_all(&mut self.recvs)?.wait_all()?;
            self.ack_send.start()?.wait()?;
        }
        Ok(())
    }

    fn touch(&mut self) {
        touch(&mut self.sends, self.contest.touch, self.round);
    }

    /// What a batch of so many rounds, which took so long on average, is worth.
    fn figure(&self, mean_s: f64, rounds: f64) -> f64 {
        match self.contest.kind {
            Kind::Latency => half_a_trip_us(mean_s, rounds),
            Kind::Bandwidth => (self.bytes * self.window) as f64 * rounds * f64::from(self.ranks / 2) / mean_s / 1e6,
            _ => f64::from(self.ranks) * rounds / mean_s,
        }
    }

    fn spoil(&mut self) {
        self.recvs.iter_mut().chain([&mut self.ack_recv]).for_each(|recv| recv.buffer_mut().fill(SPOILT));
    }

    fn check(&self) -> Result<(), BenchError> {
        let is_answered = self.contest.kind == Kind::Bandwidth && self.leads;
        let unanswered = is_answered && self.ack_recv.buffer() != [ANSWER];
        let messages = self.recvs.iter().map(RecvRequest::buffer);
        let touched = self.contest.touch.then_some(self.round);
        let mut wrong =
            numbers(self.from).zip(messages).filter_map(|(number, message)| first_wrong(message, number, touched));
        match wrong.next().or(unanswered.then_some(0)) {
            None => Ok(()),
            Some(byte) => Err(BenchError::WrongData { contestant: LABEL.into(), bytes: self.bytes, byte }),
        }
    }
}

/// Writes what stays if a message is not touched.
fn write(message: &mut [u8], number: u64) {
    pattern::stamp(message, number);
    pattern::fill(message, number);
}

/// Where a message is not what was written, or not what it was touched with in this round.
fn first_wrong(message: &[u8], number: u64, touched: Option<u64>) -> Option<usize> {
    if let Some(expected) = touched.map(value) {
        return message.iter().position(|&byte| byte != expected);
    }
    let stamp = (!pattern::has_stamp(message, number)).then_some(0);
    stamp.or_else(|| pattern::first_wrong(message, number))
}

fn half_a_trip_us(mean_s: f64, trips: f64) -> f64 {
    mean_s / trips / 2.0 * 1e6
}

/// Of the messages that a rank sends at once: none is like another.
fn numbers(sender: u32) -> impl Iterator<Item = u64> {
    u64::from(sender) * WINDOW as u64 + 1..
}

fn touch(sends: &mut [SendRequest<u8>], is_wanted: bool, round: u64) {
    if is_wanted {
        sends.iter_mut().for_each(|send| send.buffer_mut().fill(value(round)));
    }
}

/// What messages of a round consist of, if they are touched; never what they are spoilt with.
fn value(round: u64) -> u8 {
    (round % 251) as u8
}

const LABEL: &str = "ropeway";
/// What collectives bring in all rounds is that of one.
const UNTOUCHED: u64 = 0;
const SPOILT: u8 = 255;
const ANSWER: u8 = 1;
const DATA: i32 = 1;
const ACK: i32 = 2;
const BATCHES: usize = 5;
/// In units of a batch, the time for each of a size's many cases.
const BATCHES_OF_BENCHMARKS: f64 = 2.0;
const WINDOW: usize = 64;
const WINDOW_BYTES: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use crate::cluster::everywhere;

    /// Whether a rank of two gets anything.
    fn gets(kind: Kind, rank: u32) -> bool {
        match kind.operation() {
            Some(Operation::Barrier) => false,
            Some(Operation::Bcast | Operation::Exscan) => rank == 1,
            Some(Operation::Reduce | Operation::Gather) => rank == 0,
            _ => true,
        }
    }

    #[test]
    fn data_that_does_not_come_is_noticed() {
        let kinds = || Kind::OF_MESSAGES.into_iter().chain(Operation::ALL.map(Kind::Collective));
        let cases = || kinds().flat_map(|kind| [(kind, false, 1), (kind, false, 100_000), (kind, true, 24)]);
        everywhere(2, |world| {
            for (kind, touch, bytes) in cases() {
                let contest = Contest { kind, touch, batch_s: 0.0 };
                let mut part = Part::new(&world, contest, bytes).unwrap();
                for _ in 0..2 {
                    part.rounds(2).unwrap();
                    part.check().unwrap();
                    part.spoil();
                    let checked = part.check();
                    assert_eq!(checked.is_err(), gets(kind, world.rank()), "{kind} of {bytes}, {touch}: {checked:?}");
                }
            }
        });
    }

    #[test]
    fn batches_end_with_a_check_of_what_has_come() {
        everywhere(2, |world| {
            for kind in Kind::OF_MESSAGES.into_iter().chain(Kind::OF_KERNELS) {
                let contest = Contest { kind, touch: false, batch_s: 1e-4 };
                let figures = batches(&world, contest, Part::new(&world, contest, 1000).unwrap()).unwrap();
                assert_eq!(figures.len(), if world.rank() == 0 { BATCHES } else { 0 }, "{kind}");
            }
        });
    }
}
