//! What it costs to register a send and a receive and to free them.

use std::time::{Duration, Instant};

use ropeway::{Buffer, Error, RecvRequest, SendRequest};

use crate::BenchError;
use crate::allocations::measured;
use crate::pair::Pair;
use crate::plan::Effort;
use crate::race::Contestant;
use crate::window::messages_in;

/// Registers and frees. A sample is half the time of `send_init`, `recv_init` and two frees, in nanoseconds.
///
/// The buffers are there before. The other rank has registered the counterparts, so that everything is bound at once.
pub(crate) struct SetUp {
    pair: Pair,
    effort: Effort,
    /// The one pair of buffers that the leader uses again and again, and those of the other rank.
    buffers: Vec<Buffers>,
    count: usize,
}

type Buffers = (Buffer<u8>, Buffer<u8>);

impl SetUp {
    pub(crate) fn new(pair: &Pair, bytes: usize, effort: Effort) -> Result<Self, BenchError> {
        let count = messages_in(MEMORY_BYTES, bytes).clamp(4, COUNT);
        let own = if pair.leads { 1 } else { count };
        let buffers = |_| Ok((pair.world.alloc(bytes)?, pair.world.alloc(bytes)?));
        let buffers = (0..own).map(buffers).collect::<Result<_, Error>>()?;
        Ok(Self { pair: pair.clone(), effort, buffers, count })
    }

    fn round(&mut self) -> Result<Duration, BenchError> {
        if self.pair.leads { self.set_up() } else { self.answer() }
    }

    fn set_up(&mut self) -> Result<Duration, BenchError> {
        self.pair.meet()?;
        let elapsed = measured(|| self.init_and_free())?;
        self.pair.meet()?;
        Ok(elapsed)
    }

    fn init_and_free(&mut self) -> Result<Duration, BenchError> {
        let begin = Instant::now();
        for _ in 0..self.count {
            let (send, recv) = self.init()?;
            self.buffers.push((send.into_buffer(), recv.into_buffer()));
        }
        Ok(begin.elapsed())
    }

    fn answer(&mut self) -> Result<Duration, BenchError> {
        let requests = (0..self.count).map(|_| self.init()).collect::<Result<Vec<_>, _>>()?;
        self.pair.meet()?;
        self.pair.meet()?;
        self.buffers.extend(requests.into_iter().map(|(send, recv)| (send.into_buffer(), recv.into_buffer())));
        Ok(Duration::ZERO)
    }

    fn init(&mut self) -> Result<(SendRequest<u8>, RecvRequest<u8>), BenchError> {
        let Pair { world, peer, .. } = &self.pair;
        let (outgoing, incoming) = self.buffers.pop().expect("there are as many as are used at once");
        Ok((world.send_init(outgoing, *peer, SET_UP)?, world.recv_init(incoming, *peer, SET_UP)?))
    }
}

impl Contestant for SetUp {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        let begin = Instant::now();
        (0..self.effort.warmup).try_for_each(|_| self.round().map(drop))?;
        let round_s = begin.elapsed().as_secs_f64() / self.effort.warmup as f64;
        let [rounds] = self.pair.agree(|| [self.effort.rounds(round_s, 3, 100_000)])?;
        let mut samples = Vec::new();
        for _ in 0..rounds {
            let elapsed = self.round()?;
            if self.pair.leads {
                samples.push(elapsed.as_secs_f64() * 1e9 / (2 * self.count) as f64);
            }
        }
        Ok(samples)
    }
}

const SET_UP: i32 = 3;
/// Rounds before a run.
pub(crate) const WARMUP: u64 = 2;
/// Four commands each: a round fits in the command ring, so that the calls never wait for the daemon.
const COUNT: usize = 500;
const MEMORY_BYTES: usize = 16 << 20;
