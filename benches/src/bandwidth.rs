//! How many bytes a second go from the first rank to the last, and both ways at once, in windows of many messages.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ropeway::{Buffer, Pending, RecvRequest, SendRequest, Session, start_all};
use ropeway_examples::Mode;

use crate::floor::Copying;
use crate::pair::Pair;
use crate::pattern;
use crate::race::{Contestant, Entrant, take_turns};
use crate::record::Side;
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    for &size in &plan.sizes {
        for side in [Side::Send, Side::Both] {
            run_one(session, console, plan, Course { bytes: size.0, side })?;
        }
    }
    Ok(())
}

/// What is sent.
#[derive(Clone, Copy)]
struct Course {
    bytes: usize,
    side: Side,
}

impl Course {
    /// Messages in a window.
    fn window(self) -> usize {
        (WINDOW_BYTES / self.bytes).clamp(1, WINDOW)
    }

    fn sends(self, pair: &Pair) -> usize {
        if pair.leads || self.side == Side::Both { self.window() } else { 0 }
    }

    fn recvs(self, pair: &Pair) -> usize {
        if !pair.leads || self.side == Side::Both { self.window() } else { 0 }
    }

    fn bytes_of_window(self) -> usize {
        let directions = if self.side == Side::Both { 2 } else { 1 };
        directions * self.window() * self.bytes
    }
}

fn run_one(session: &Session, console: &mut Console, plan: &Plan, course: Course) -> Result<(), BenchError> {
    let world = session.world();
    let pair = Pair::of(&world);
    let mut entrants = Vec::new();
    for &mode in &plan.modes {
        let contestant = pair.as_ref().map(|pair| contestant(pair, mode, course, plan)).transpose()?;
        entrants.push(Entrant { label: label(mode, course.side), contestant });
    }
    if course.side == Side::Send {
        let contestant = pair.as_ref().map(|pair| floor(session, pair, course, plan)).transpose()?;
        entrants.push(Entrant { label: "floor".into(), contestant });
    }
    let series = take_turns(console, plan.runs, &mut entrants)?;
    let floor_name = if plan.crosses_nodes { "tcp stream" } else { "memcpy" };
    for (&mode, of_mode) in plan.modes.iter().zip(&series) {
        let Some(summary) = of_mode.summary() else { continue };
        let measured = Measured {
            metric: "bandwidth".into(),
            unit: "MB/s".into(),
            mode: Some(mode),
            bytes: Some(course.bytes),
            side: Some(course.side),
            compute: None,
            summary,
            runs: plan.runs,
            floor: series.get(plan.modes.len()).and_then(|floor| of_mode.above(floor, floor_name)),
        };
        console.outcome(&label(mode, course.side), measured)?;
    }
    Ok(())
}

fn label(mode: Mode, side: Side) -> String {
    match side {
        Side::Send | Side::Recv => mode.to_string(),
        Side::Both => format!("{mode}, both"),
    }
}

fn contestant(pair: &Pair, mode: Mode, course: Course, plan: &Plan) -> Result<Box<dyn Contestant>, BenchError> {
    Ok(match mode {
        Mode::Persistent => Box::new(Windows::new(pair, Persistent::new(pair, course)?, course, plan)),
        Mode::OneShot => Box::new(Windows::new(pair, OneShot::new(pair, course)?, course, plan)),
    })
}

fn floor(session: &Session, pair: &Pair, course: Course, plan: &Plan) -> Result<Box<dyn Contestant>, BenchError> {
    if plan.crosses_nodes {
        return Ok(Box::new(Windows::new(pair, Tcp::new(pair, course, plan)?, course, plan)));
    }
    let time = plan.time_per_run(CONTESTANTS);
    Ok(Box::new(Copying::new(session, pair, course.bytes, course.window(), time)))
}

/// Windows over something.
struct Windows<S> {
    pair: Pair,
    stream: S,
    course: Course,
    iters: Option<u64>,
    warmup: u64,
    time: Duration,
    /// Windows so far, the same number on both sides.
    windows: u64,
}

impl<S: Stream> Windows<S> {
    fn new(pair: &Pair, stream: S, course: Course, plan: &Plan) -> Self {
        let warmup = plan.warmup.unwrap_or(WARMUP).max(1);
        let time = plan.time_per_run(CONTESTANTS);
        Self { pair: pair.clone(), stream, course, iters: plan.iters, warmup, time, windows: 0 }
    }

    /// One window with data of its own; how long it took from the first start until the last byte was acknowledged.
    fn window(&mut self) -> Result<Duration, BenchError> {
        self.windows += 1;
        let first = self.windows * WINDOW as u64;
        let leads = self.pair.leads;
        self.stream.outgoing(&mut |index, message| {
            pattern::stamp(message, first + index as u64);
            pattern::fill(message, 2 * (first + index as u64) + u64::from(leads));
        });
        self.stream.arm()?;
        self.stream.meet()?;
        let begin = Instant::now();
        self.stream.transfer()?;
        self.stream.meet()?;
        let elapsed = begin.elapsed();
        let mut wrong = None;
        self.stream.incoming(&mut |index, message| {
            let number = first + index as u64;
            let stamp = (!pattern::has_stamp(message, number)).then_some(0);
            wrong = wrong.or(stamp).or_else(|| pattern::first_wrong(message, 2 * number + u64::from(!leads)));
        });
        match wrong {
            None => Ok(elapsed),
            Some(byte) => Err(BenchError::WrongData { contestant: S::NAME.to_owned(), bytes: self.course.bytes, byte }),
        }
    }
}

impl<S: Stream> Contestant for Windows<S> {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        let begin = Instant::now();
        (0..self.warmup).try_for_each(|_| self.window().map(drop))?;
        // With everything that does not count: the data is written and checked too.
        let per_window = begin.elapsed().as_secs_f64() / self.warmup as f64;
        let (iters, time) = (self.iters, self.time);
        let [windows] = self
            .pair
            .agree(|| [iters.unwrap_or_else(|| ((time.as_secs_f64() / per_window) as u64).clamp(5, 100_000)).max(1)])?;
        let mut samples = Vec::new();
        for _ in 0..windows {
            let elapsed = self.window()?;
            if self.pair.leads {
                samples.push(self.course.bytes_of_window() as f64 / elapsed.as_secs_f64() / 1e6);
            }
        }
        Ok(samples)
    }
}

/// One side's part of a window.
trait Stream {
    const NAME: &'static str;
    /// Hands out the messages to be sent.
    fn outgoing(&mut self, each: &mut dyn FnMut(usize, &mut [u8]));
    /// Says that messages may come.
    fn arm(&mut self) -> Result<(), BenchError>;
    /// Sends all and receives all.
    fn transfer(&mut self) -> Result<(), BenchError>;
    /// Returns when the other side has called it too.
    fn meet(&mut self) -> Result<(), BenchError>;
    /// Hands out the messages that were received.
    fn incoming(&mut self, each: &mut dyn FnMut(usize, &[u8]));
}

struct Persistent {
    pair: Pair,
    sends: Vec<SendRequest<u8>>,
    recvs: Vec<RecvRequest<u8>>,
}

impl Persistent {
    fn new(pair: &Pair, course: Course) -> Result<Self, BenchError> {
        let Pair { world, peer, .. } = pair;
        let send = |_| world.send_init(world.alloc(course.bytes)?, *peer, WINDOWED);
        let recv = |_| world.recv_init(world.alloc(course.bytes)?, *peer, WINDOWED);
        Ok(Self {
            sends: (0..course.sends(pair)).map(send).collect::<Result<_, _>>()?,
            recvs: (0..course.recvs(pair)).map(recv).collect::<Result<_, _>>()?,
            pair: pair.clone(),
        })
    }
}

impl Stream for Persistent {
    const NAME: &'static str = "persistent";

    fn outgoing(&mut self, each: &mut dyn FnMut(usize, &mut [u8])) {
        self.sends.iter_mut().enumerate().for_each(|(index, send)| each(index, send.buffer_mut()));
    }

    fn arm(&mut self) -> Result<(), BenchError> {
        let _ = start_all(&mut self.recvs)?;
        Ok(())
    }

    fn transfer(&mut self) -> Result<(), BenchError> {
        let sending = start_all(&mut self.sends)?;
        for recv in &mut self.recvs {
            if let Some(receiving) = recv.active() {
                receiving.wait()?;
            }
        }
        Ok(sending.wait_all()?)
    }

    fn meet(&mut self) -> Result<(), BenchError> {
        self.pair.meet()
    }

    fn incoming(&mut self, each: &mut dyn FnMut(usize, &[u8])) {
        self.recvs.iter().enumerate().for_each(|(index, recv)| each(index, recv.buffer()));
    }
}

struct OneShot {
    pair: Pair,
    outgoing: Vec<Buffer<u8>>,
    incoming: Vec<Buffer<u8>>,
    sending: Vec<Pending<u8>>,
    receiving: Vec<Pending<u8>>,
}

impl OneShot {
    fn new(pair: &Pair, course: Course) -> Result<Self, BenchError> {
        let buffers = |count| (0..count).map(|_| pair.world.alloc(course.bytes)).collect::<Result<Vec<_>, _>>();
        Ok(Self {
            outgoing: buffers(course.sends(pair))?,
            incoming: buffers(course.recvs(pair))?,
            sending: Vec::with_capacity(WINDOW),
            receiving: Vec::with_capacity(WINDOW),
            pair: pair.clone(),
        })
    }
}

impl Stream for OneShot {
    const NAME: &'static str = "oneshot";

    fn outgoing(&mut self, each: &mut dyn FnMut(usize, &mut [u8])) {
        self.outgoing.iter_mut().enumerate().for_each(|(index, message)| each(index, message));
    }

    fn arm(&mut self) -> Result<(), BenchError> {
        for buffer in self.incoming.drain(..) {
            self.receiving.push(self.pair.world.irecv(buffer, self.pair.peer, WINDOWED)?);
        }
        Ok(())
    }

    fn transfer(&mut self) -> Result<(), BenchError> {
        for buffer in self.outgoing.drain(..) {
            self.sending.push(self.pair.world.isend(buffer, self.pair.peer, WINDOWED)?);
        }
        for receiving in self.receiving.drain(..) {
            self.incoming.push(receiving.wait()?.0);
        }
        for sending in self.sending.drain(..) {
            self.outgoing.push(sending.wait()?.0);
        }
        Ok(())
    }

    fn meet(&mut self) -> Result<(), BenchError> {
        self.pair.meet()
    }

    fn incoming(&mut self, each: &mut dyn FnMut(usize, &[u8])) {
        self.incoming.iter().enumerate().for_each(|(index, message)| each(index, message));
    }
}

/// The floor between nodes: read and write the same messages over a bare connection.
struct Tcp {
    stream: TcpStream,
    outgoing: Vec<Vec<u8>>,
    incoming: Vec<Vec<u8>>,
}

impl Tcp {
    fn new(pair: &Pair, course: Course, plan: &Plan) -> Result<Self, BenchError> {
        let messages = |count| vec![vec![0; course.bytes]; count];
        Ok(Self {
            stream: pair.connect(plan)?,
            outgoing: messages(course.sends(pair)),
            incoming: messages(course.recvs(pair)),
        })
    }
}

impl Stream for Tcp {
    const NAME: &'static str = "tcp stream";

    fn outgoing(&mut self, each: &mut dyn FnMut(usize, &mut [u8])) {
        self.outgoing.iter_mut().enumerate().for_each(|(index, message)| each(index, message));
    }

    fn arm(&mut self) -> Result<(), BenchError> {
        Ok(())
    }

    fn transfer(&mut self) -> Result<(), BenchError> {
        self.outgoing.iter().try_for_each(|message| self.stream.write_all(message))?;
        Ok(self.incoming.iter_mut().try_for_each(|message| self.stream.read_exact(message))?)
    }

    fn meet(&mut self) -> Result<(), BenchError> {
        self.stream.write_all(&[0])?;
        Ok(self.stream.read_exact(&mut [0])?)
    }

    fn incoming(&mut self, each: &mut dyn FnMut(usize, &[u8])) {
        self.incoming.iter().enumerate().for_each(|(index, message)| each(index, message));
    }
}

const WINDOWED: i32 = 2;
const WARMUP: u64 = 1;
/// Messages in a window, unless they are so large that a window would need too much memory.
const WINDOW: usize = 64;
const WINDOW_BYTES: usize = 64 << 20;
const CONTESTANTS: usize = 3;
