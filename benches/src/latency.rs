//! Half the time of a round trip between the first and the last rank.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use ropeway::{Buffer, RecvRequest, SendRequest, Session};
use ropeway_examples::Mode;

use crate::floor::Handover;
use crate::pair::Pair;
use crate::pattern;
use crate::race::{Contestant, Entrant, take_turns};
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let world = session.world();
    let pair = Pair::of(&world);
    let floor_name = if plan.crosses_nodes { "tcp ping-pong" } else { "cache lines, memcpy" };
    for &size in &plan.sizes {
        let mut entrants = Vec::new();
        for &mode in &plan.modes {
            let contestant = pair.as_ref().map(|pair| contestant(pair, mode, size.0, plan)).transpose()?;
            entrants.push(Entrant { label: mode.to_string(), contestant });
        }
        let floor = pair.as_ref().map(|pair| floor(session, pair, size.0, plan)).transpose()?;
        entrants.push(Entrant { label: "floor".into(), contestant: floor });
        let series = take_turns(console, plan.runs, &mut entrants)?;
        let (floor, of_modes) = series.split_last().expect("the floor is always there");
        for (&mode, series) in plan.modes.iter().zip(of_modes) {
            let Some(summary) = series.summary() else { continue };
            let measured = Measured {
                metric: "half_rtt".into(),
                unit: "us".into(),
                mode: Some(mode),
                bytes: Some(size.0),
                side: None,
                compute: None,
                summary,
                runs: plan.runs,
                floor: series.above(floor, floor_name),
            };
            console.outcome(&mode.to_string(), measured)?;
        }
    }
    Ok(())
}

fn contestant(pair: &Pair, mode: Mode, bytes: usize, plan: &Plan) -> Result<Box<dyn Contestant>, BenchError> {
    Ok(match mode {
        Mode::Persistent => Box::new(PingPong::new(pair, Persistent::new(pair, bytes)?, "persistent", plan)),
        Mode::OneShot => Box::new(PingPong::new(pair, OneShot::new(pair, bytes)?, "oneshot", plan)),
    })
}

fn floor(session: &Session, pair: &Pair, bytes: usize, plan: &Plan) -> Result<Box<dyn Contestant>, BenchError> {
    if plan.crosses_nodes {
        let stream = pair.connect(plan)?;
        stream.set_nonblocking(true)?;
        let tcp = Tcp { stream, outgoing: vec![0; bytes], incoming: vec![0; bytes] };
        return Ok(Box::new(PingPong::new(pair, tcp, "tcp", plan)));
    }
    Ok(Box::new(Handover::new(session, pair, bytes, plan.time_per_run(CONTESTANTS))))
}

/// A ping-pong over something.
struct PingPong<T> {
    pair: Pair,
    trip: T,
    name: &'static str,
    iters: Option<u64>,
    warmup: u64,
    time: Duration,
    /// Round trips so far, the same number on both sides.
    trips: u64,
}

impl<T: Trip> PingPong<T> {
    fn new(pair: &Pair, trip: T, name: &'static str, plan: &Plan) -> Self {
        let warmup = plan.warmup.unwrap_or(WARMUP).max(1);
        let time = plan.time_per_run(CONTESTANTS);
        Self { pair: pair.clone(), trip, name, iters: plan.iters, warmup, time, trips: 0 }
    }

    /// So many round trips; how long they took.
    fn trips(&mut self, count: u64) -> Result<Duration, BenchError> {
        let mut all_right = true;
        let begin = Instant::now();
        for left in (0..count).rev() {
            self.trips += 1;
            self.trip.arm()?;
            if self.pair.leads {
                pattern::stamp(self.trip.outgoing()?, self.trips);
                self.trip.send()?;
                self.trip.recv()?;
                all_right &= pattern::has_stamp(self.trip.incoming(), self.trips);
            } else {
                self.trip.recv()?;
                all_right &= pattern::has_stamp(self.trip.incoming(), self.trips);
                if left > 0 {
                    // Before the answer, which invites the next message.
                    self.trip.arm()?;
                }
                pattern::stamp(self.trip.outgoing()?, self.trips);
                self.trip.send()?;
            }
        }
        let elapsed = begin.elapsed();
        if all_right { Ok(elapsed) } else { Err(self.wrong_data(0)) }
    }

    /// A batch of round trips with data of its own, which is checked afterwards.
    fn batch(&mut self, trips: u64) -> Result<Duration, BenchError> {
        let seed = self.trips;
        pattern::fill(self.trip.outgoing()?, seed ^ u64::from(self.pair.leads));
        // The first trip finds out that the other side is ready as well, so it does not count.
        self.trips(1)?;
        let elapsed = self.trips(trips)?;
        match pattern::first_wrong(self.trip.incoming(), seed ^ u64::from(!self.pair.leads)) {
            None => Ok(elapsed),
            Some(byte) => Err(self.wrong_data(byte)),
        }
    }

    fn wrong_data(&self, byte: usize) -> BenchError {
        BenchError::WrongData { contestant: self.name.to_owned(), bytes: self.trip.incoming().len(), byte }
    }
}

impl<T: Trip> Contestant for PingPong<T> {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        let per_trip = self.batch(self.warmup)?.as_secs_f64() / self.warmup as f64;
        let (iters, time) = (self.iters, self.time);
        let [batches, trips] = self.pair.agree(|| {
            let iters = iters.unwrap_or_else(|| ((time.as_secs_f64() / per_trip) as u64).clamp(10, 1_000_000));
            let trips = (BATCH_S / per_trip).ceil().clamp(1.0, iters.max(1) as f64) as u64;
            [iters.div_ceil(trips).max(1), trips]
        })?;
        let mut samples = Vec::new();
        for _ in 0..batches {
            let elapsed = self.batch(trips)?;
            if self.pair.leads {
                samples.push(elapsed.as_secs_f64() * 1e6 / (2 * trips) as f64);
            }
        }
        Ok(samples)
    }
}

/// One side's part of a round trip.
trait Trip {
    /// Says that a message may come, if that can be said and has not been.
    fn arm(&mut self) -> Result<(), BenchError>;
    fn send(&mut self) -> Result<(), BenchError>;
    fn recv(&mut self) -> Result<(), BenchError>;
    /// The next message, once the last one is gone.
    fn outgoing(&mut self) -> Result<&mut [u8], BenchError>;
    fn incoming(&self) -> &[u8];
}

struct Persistent {
    send: SendRequest<u8>,
    recv: RecvRequest<u8>,
}

impl Persistent {
    fn new(pair: &Pair, bytes: usize) -> Result<Self, BenchError> {
        let Pair { world, peer, .. } = pair;
        Ok(Self {
            send: world.send_init(world.alloc(bytes)?, *peer, PING)?,
            recv: world.recv_init(world.alloc(bytes)?, *peer, PING)?,
        })
    }
}

impl Trip for Persistent {
    fn arm(&mut self) -> Result<(), BenchError> {
        if self.recv.active().is_none() {
            let _ = self.recv.start()?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), BenchError> {
        let _ = self.send.start()?;
        Ok(())
    }

    fn recv(&mut self) -> Result<(), BenchError> {
        if let Some(receiving) = self.recv.active() {
            receiving.wait()?;
        }
        Ok(())
    }

    fn outgoing(&mut self) -> Result<&mut [u8], BenchError> {
        if let Some(sending) = self.send.active() {
            sending.wait()?;
        }
        Ok(self.send.buffer_mut())
    }

    fn incoming(&self) -> &[u8] {
        self.recv.buffer()
    }
}

struct OneShot {
    pair: Pair,
    outgoing: Buffer<u8>,
    incoming: Buffer<u8>,
}

impl OneShot {
    fn new(pair: &Pair, bytes: usize) -> Result<Self, BenchError> {
        Ok(Self { outgoing: pair.world.alloc(bytes)?, incoming: pair.world.alloc(bytes)?, pair: pair.clone() })
    }
}

impl Trip for OneShot {
    fn arm(&mut self) -> Result<(), BenchError> {
        Ok(())
    }

    fn send(&mut self) -> Result<(), BenchError> {
        Ok(self.pair.world.send(&self.outgoing, self.pair.peer, PING)?)
    }

    fn recv(&mut self) -> Result<(), BenchError> {
        self.pair.world.recv(&mut self.incoming, self.pair.peer, PING)?;
        Ok(())
    }

    fn outgoing(&mut self) -> Result<&mut [u8], BenchError> {
        Ok(&mut self.outgoing)
    }

    fn incoming(&self) -> &[u8] {
        &self.incoming
    }
}

/// The floor between nodes: the same over a bare connection between the two processes, which look for their bytes
/// without ever sleeping: a wake-up would cost several times as much as the bytes.
struct Tcp {
    stream: TcpStream,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
}

impl Trip for Tcp {
    fn arm(&mut self) -> Result<(), BenchError> {
        Ok(())
    }

    fn send(&mut self) -> Result<(), BenchError> {
        let (mut stream, mut rest) = (&self.stream, &self.outgoing[..]);
        while !rest.is_empty() {
            rest = &rest[busily(|| stream.write(rest))?..];
        }
        Ok(())
    }

    fn recv(&mut self) -> Result<(), BenchError> {
        let (mut stream, mut rest) = (&self.stream, &mut self.incoming[..]);
        while !rest.is_empty() {
            let read = busily(|| stream.read(rest))?;
            rest = &mut rest[read..];
        }
        Ok(())
    }

    fn outgoing(&mut self) -> Result<&mut [u8], BenchError> {
        Ok(&mut self.outgoing)
    }

    fn incoming(&self) -> &[u8] {
        &self.incoming
    }
}

/// Tries until it works, leaving the core to others in between.
fn busily(mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match attempt() {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::yield_now(),
            result => return result,
        }
    }
}

const PING: i32 = 1;
const WARMUP: u64 = 50;
/// Long enough for the clock, which takes some 40 ns.
const BATCH_S: f64 = 10e-6;
/// Checking the data takes about as long as moving it, so each of persistent, one-shot and floor counts twice.
const CONTESTANTS: usize = 6;
