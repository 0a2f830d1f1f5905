//! The communication, written twice.

use ropeway::{Buffer, Communicator, Error, Pending, Plain, RecvRequest, SendRequest, start_all};

use super::solver::Extremes;
use crate::block;

/// What the ranks tell each other in an iteration.
pub trait Exchange {
    /// What can go wrong.
    type Error;

    /// Sends this rank's part of x to all, and puts all parts, also its own, into `x`.
    fn gather_parts(&mut self, part: &[f32], x: &mut [f32]) -> Result<(), Self::Error>;

    /// The largest of what all ranks have.
    fn maximum(&mut self, extremes: Extremes) -> Result<Extremes, Self::Error>;
}

/// A new operation for each message of each iteration: rank and tag are looked up and matched every time.
///
/// It keeps its buffers, as any careful program would. So what differs from [`Persistent`] is early binding alone.
pub type OneShot = AmongRanks<OneShotSwap<f32>, OneShotSwap<f64>>;

/// All messages bound once; an iteration only starts them.
pub type Persistent = AmongRanks<PersistentSwap<f32>, PersistentSwap<f64>>;

/// The exchange between the ranks of a communicator: one swap for the parts of x, one for the extremes.
#[derive(Debug)]
pub struct AmongRanks<P, E> {
    parts: P,
    extremes: E,
    unknowns: usize,
    rank: u32,
    ranks: u32,
}

impl<P: Swap<f32>, E: Swap<f64>> AmongRanks<P, E> {
    /// Prepares everything that can be prepared for a system of `unknowns`.
    pub fn new(world: &Communicator, unknowns: usize) -> Result<Self, Error> {
        let (rank, ranks) = (world.rank(), world.size());
        let parts = P::new(world, PARTS, |rank| block(unknowns, rank, ranks).len())?;
        let extremes = E::new(world, EXTREMES, |_| 2)?;
        Ok(Self { parts, extremes, unknowns, rank, ranks })
    }
}

impl<P: Swap<f32>, E: Swap<f64>> Exchange for AmongRanks<P, E> {
    type Error = Error;

    fn gather_parts(&mut self, part: &[f32], x: &mut [f32]) -> Result<(), Error> {
        let (unknowns, ranks) = (self.unknowns, self.ranks);
        let mut place = |rank, part: &[f32]| x[block(unknowns, rank, ranks)].copy_from_slice(part);
        place(self.rank, part);
        self.parts.swap(part, place)
    }

    fn maximum(&mut self, extremes: Extremes) -> Result<Extremes, Error> {
        let mut largest = extremes;
        let message = [extremes.change, extremes.size];
        self.extremes.swap(&message, |_, other| {
            largest = largest.max(Extremes { change: other[0], size: other[1] });
        })?;
        Ok(largest)
    }
}

/// One message to, and one from, each other rank.
pub trait Swap<T: Plain>: Sized {
    /// Prepares it; rank r sends `elements(r)` elements.
    fn new(world: &Communicator, tag: i32, elements: impl Fn(u32) -> usize) -> Result<Self, Error>;

    /// Sends `message` to all and hands theirs, with their ranks, to `take`.
    fn swap(&mut self, message: &[T], take: impl FnMut(u32, &[T])) -> Result<(), Error>;
}

/// A swap by `isend` and `irecv`.
#[derive(Debug)]
pub struct OneShotSwap<T: Plain> {
    world: Communicator,
    tag: i32,
    peers: Vec<u32>,
    outgoing: Vec<Buffer<T>>,
    incoming: Vec<Buffer<T>>,
    sending: Vec<Pending<T>>,
    receiving: Vec<Pending<T>>,
}

impl<T: Plain> Swap<T> for OneShotSwap<T> {
    fn new(world: &Communicator, tag: i32, elements: impl Fn(u32) -> usize) -> Result<Self, Error> {
        let peers = peers(world);
        Ok(Self {
            outgoing: peers.iter().map(|_| world.alloc(elements(world.rank()))).collect::<Result<_, _>>()?,
            incoming: peers.iter().map(|&peer| world.alloc(elements(peer))).collect::<Result<_, _>>()?,
            sending: Vec::with_capacity(peers.len()),
            receiving: Vec::with_capacity(peers.len()),
            world: world.clone(),
            tag,
            peers,
        })
    }

    fn swap(&mut self, message: &[T], mut take: impl FnMut(u32, &[T])) -> Result<(), Error> {
        for (&peer, buffer) in self.peers.iter().zip(self.incoming.drain(..)) {
            self.receiving.push(self.world.irecv(buffer, peer, self.tag)?);
        }
        for (&peer, mut buffer) in self.peers.iter().zip(self.outgoing.drain(..)) {
            buffer.copy_from_slice(message);
            self.sending.push(self.world.isend(buffer, peer, self.tag)?);
        }
        for (&peer, pending) in self.peers.iter().zip(self.receiving.drain(..)) {
            let (buffer, _) = pending.wait()?;
            take(peer, &buffer);
            self.incoming.push(buffer);
        }
        for pending in self.sending.drain(..) {
            self.outgoing.push(pending.wait()?.0);
        }
        Ok(())
    }
}

/// A swap by requests that are bound once.
#[derive(Debug)]
pub struct PersistentSwap<T: Plain> {
    peers: Vec<u32>,
    sends: Vec<SendRequest<T>>,
    recvs: Vec<RecvRequest<T>>,
}

impl<T: Plain> Swap<T> for PersistentSwap<T> {
    fn new(world: &Communicator, tag: i32, elements: impl Fn(u32) -> usize) -> Result<Self, Error> {
        let peers = peers(world);
        let send = |&peer: &u32| world.send_init(world.alloc(elements(world.rank()))?, peer, tag);
        let recv = |&peer: &u32| world.recv_init(world.alloc(elements(peer))?, peer, tag);
        let sends = peers.iter().map(send).collect::<Result<_, _>>()?;
        let recvs = peers.iter().map(recv).collect::<Result<_, _>>()?;
        Ok(Self { peers, sends, recvs })
    }

    fn swap(&mut self, message: &[T], mut take: impl FnMut(u32, &[T])) -> Result<(), Error> {
        let receiving = start_all(&mut self.recvs)?;
        self.sends.iter_mut().for_each(|send| send.buffer_mut().copy_from_slice(message));
        let sending = start_all(&mut self.sends)?;
        receiving.wait_all()?;
        self.peers.iter().zip(&self.recvs).for_each(|(&peer, recv)| take(peer, recv.buffer()));
        sending.wait_all()
    }
}

/// All other ranks, beginning with the next one, so that not everybody sends to rank 0 first.
fn peers(world: &Communicator) -> Vec<u32> {
    (1..world.size()).map(|distance| (world.rank() + distance) % world.size()).collect()
}

const PARTS: i32 = 1;
const EXTREMES: i32 = 2;
