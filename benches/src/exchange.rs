//! One message, or one each way, that can be started, left alone, and waited for.
//!
//! Under client-driven progress a start only takes note, and what it would have started is started by the wait: so the same
//! messages move in the same way, but only while their programs wait. A library without independent progress may do a little more
//! at once, such as to announce a message or to send a short one.

use std::net::TcpStream;

use ropeway::{Buffer, Pending, RecvRequest, SendRequest};
use ropeway_examples::Mode;

use crate::BenchError;
use crate::allocations::measured;
use crate::mid_page::MidPage;
use crate::mover::Mover;
use crate::pair::Pair;
use crate::pattern;
use crate::progress::Progress;
use crate::record::Side;

/// One rank's part.
pub(crate) struct Exchange {
    outgoing: Option<Outgoing>,
    incoming: Option<Incoming>,
    pair: Pair,
    /// For messages about it.
    name: String,
    progress: Progress,
    bytes: usize,
    /// Exchanges so far, the same number on both sides.
    number: u64,
}

enum Outgoing {
    Persistent(SendRequest<u8>),
    OneShot(Message),
    Bare(Mover<MidPage<u8>>),
}

enum Incoming {
    Persistent(RecvRequest<u8>),
    OneShot(Message),
    Bare(Mover<MidPage<u8>>),
}

/// A one-shot message, which is here or on its way.
#[derive(Default)]
struct Message {
    here: Option<Buffer<u8>>,
    away: Option<Pending<u8>>,
}

impl Exchange {
    /// The part of this rank, if the one that leads has this side.
    pub(crate) fn new(
        pair: &Pair,
        mode: Mode,
        progress: Progress,
        bytes: usize,
        side: Side,
    ) -> Result<Self, BenchError> {
        let Pair { world, peer, .. } = pair;
        let message = |buffer| Message { here: Some(buffer), away: None };
        let mut exchange = Self::of_nothing(pair, &mode.to_string(), progress, bytes);
        let [sends, recvs] = ways(pair, side);
        if sends {
            let buffer = world.alloc(bytes)?;
            exchange.outgoing = Some(match mode {
                Mode::Persistent => Outgoing::Persistent(world.send_init(buffer, *peer, EXCHANGE)?),
                Mode::OneShot => Outgoing::OneShot(message(buffer)),
            });
        }
        if recvs {
            let buffer = world.alloc(bytes)?;
            exchange.incoming = Some(match mode {
                Mode::Persistent => Incoming::Persistent(world.recv_init(buffer, *peer, EXCHANGE)?),
                Mode::OneShot => Incoming::OneShot(message(buffer)),
            });
        }
        Ok(exchange)
    }

    /// The same without Ropeway: by threads at a connection between the two.
    pub(crate) fn bare(pair: &Pair, stream: &TcpStream, bytes: usize, side: Side) -> Result<Self, BenchError> {
        let mut exchange = Self::of_nothing(pair, BARE, Progress::Independent, bytes);
        let [sends, recvs] = ways(pair, side);
        if sends {
            exchange.outgoing = Some(Outgoing::Bare(Mover::sending(stream.try_clone()?, bytes)?));
        }
        if recvs {
            exchange.incoming = Some(Incoming::Bare(Mover::receiving(stream.try_clone()?, bytes)?));
        }
        Ok(exchange)
    }

    fn of_nothing(pair: &Pair, name: &str, progress: Progress, bytes: usize) -> Self {
        let (pair, name) = (pair.clone(), name.to_owned());
        Self { outgoing: None, incoming: None, pair, name, progress, bytes, number: 0 }
    }

    /// New data, before anything is started.
    pub(crate) fn prepare(&mut self) {
        self.number += 1;
        let message: &mut [u8] = match &mut self.outgoing {
            None => return,
            Some(Outgoing::Persistent(send)) => send.buffer_mut(),
            Some(Outgoing::OneShot(message)) => message.here.as_deref_mut().expect(NOT_STARTED),
            Some(Outgoing::Bare(mover)) => mover.load_mut().expect(NOT_STARTED),
        };
        pattern::stamp(message, self.number);
        pattern::fill(message, 2 * self.number + u64::from(self.pair.leads));
    }

    /// The registered receive, if its start and wait are all there is to do: what an exchange decides comes out of cold caches after a
    /// computation, as the library's own code does.
    pub(crate) fn registered_recv(&mut self) -> Option<&mut RecvRequest<u8>> {
        match (self.progress, &mut self.incoming, &self.outgoing) {
            (Progress::Independent, Some(Incoming::Persistent(recv)), None) => Some(recv),
            _ => None,
        }
    }

    pub(crate) fn start_recv(&mut self) -> Result<(), BenchError> {
        if self.progress == Progress::Independent { measured(|| self.begin_recv()) } else { Ok(()) }
    }

    pub(crate) fn start_send(&mut self) -> Result<(), BenchError> {
        if self.progress == Progress::Independent { measured(|| self.begin_send()) } else { Ok(()) }
    }

    fn begin_recv(&mut self) -> Result<(), BenchError> {
        match &mut self.incoming {
            None => {}
            Some(Incoming::Persistent(recv)) => drop(recv.start()?),
            Some(Incoming::OneShot(message)) => {
                let buffer = message.here.take().expect(NOT_STARTED);
                message.away = Some(self.pair.world.irecv(buffer, self.pair.peer, EXCHANGE)?);
            }
            Some(Incoming::Bare(mover)) => mover.start()?,
        }
        Ok(())
    }

    fn begin_send(&mut self) -> Result<(), BenchError> {
        match &mut self.outgoing {
            None => {}
            Some(Outgoing::Persistent(send)) => drop(send.start()?),
            Some(Outgoing::OneShot(message)) => {
                let buffer = message.here.take().expect(NOT_STARTED);
                message.away = Some(self.pair.world.isend(buffer, self.pair.peer, EXCHANGE)?);
            }
            Some(Outgoing::Bare(mover)) => mover.start()?,
        }
        Ok(())
    }

    /// Waits for what was started.
    pub(crate) fn wait(&mut self) -> Result<(), BenchError> {
        measured(|| self.end())
    }

    fn end(&mut self) -> Result<(), BenchError> {
        if self.progress == Progress::Client {
            self.begin_recv()?;
            self.begin_send()?;
        }
        match &mut self.incoming {
            None => {}
            Some(Incoming::Persistent(recv)) => {
                recv.active().map_or(Ok(()), |active| active.wait().map(drop))?;
            }
            Some(Incoming::OneShot(message)) => message.wait()?,
            Some(Incoming::Bare(mover)) => mover.wait()?,
        }
        match &mut self.outgoing {
            None => {}
            Some(Outgoing::Persistent(send)) => {
                send.active().map_or(Ok(()), |active| active.wait().map(drop))?;
            }
            Some(Outgoing::OneShot(message)) => message.wait()?,
            Some(Outgoing::Bare(mover)) => mover.wait()?,
        }
        Ok(())
    }

    /// Looks at every byte that has come.
    pub(crate) fn verify(&self) -> Result<(), BenchError> {
        let message: &[u8] = match &self.incoming {
            None => return Ok(()),
            Some(Incoming::Persistent(recv)) => recv.buffer(),
            Some(Incoming::OneShot(message)) => message.here.as_deref().expect(NOT_STARTED),
            Some(Incoming::Bare(mover)) => mover.load().expect(NOT_STARTED),
        };
        let stamp = (!pattern::has_stamp(message, self.number)).then_some(0);
        let seed = 2 * self.number + u64::from(!self.pair.leads);
        match stamp.or_else(|| pattern::first_wrong(message, seed)) {
            None => Ok(()),
            Some(byte) => Err(BenchError::WrongData { contestant: self.name.clone(), bytes: self.bytes, byte }),
        }
    }
}

impl Message {
    fn wait(&mut self) -> Result<(), BenchError> {
        if let Some(pending) = self.away.take() {
            self.here = Some(pending.wait()?.0);
        }
        Ok(())
    }
}

/// Whether this rank sends, and whether it receives, if the one that leads has this side.
fn ways(pair: &Pair, side: Side) -> [bool; 2] {
    match side {
        Side::Send => [pair.leads, !pair.leads],
        Side::Recv => [!pair.leads, pair.leads],
        Side::Both => [true; 2],
    }
}

/// What an exchange without Ropeway is made of.
pub(crate) const BARE: &str = "sockets and threads";
const EXCHANGE: i32 = 3;
const NOT_STARTED: &str = "a message is waited for before it is used again";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::everywhere;
    use crate::connection;

    #[test]
    fn what_clients_drive_is_started_by_the_wait() {
        everywhere(2, |world| {
            let pair = Pair::of(&world).unwrap();
            for (mode, progress) in [Mode::Persistent, Mode::OneShot]
                .into_iter()
                .flat_map(|mode| [Progress::Independent, Progress::Client].map(|progress| (mode, progress)))
            {
                let mut exchange = Exchange::new(&pair, mode, progress, 100_000, Side::Both).unwrap();
                exchange.prepare();
                exchange.start_recv().unwrap();
                exchange.start_send().unwrap();
                let has_started = match (&mut exchange.outgoing, &mut exchange.incoming) {
                    (Some(Outgoing::Persistent(send)), Some(Incoming::Persistent(recv))) => {
                        [send.active().is_some(), recv.active().is_some()]
                    }
                    (Some(Outgoing::OneShot(sent)), Some(Incoming::OneShot(received))) => {
                        [sent.away.is_some(), received.away.is_some()]
                    }
                    _ => unreachable!("both ways, by the same kind of messages"),
                };
                assert_eq!(has_started, [progress == Progress::Independent; 2], "{mode}");
                exchange.wait().unwrap();
                exchange.verify().unwrap();
            }
        });
    }

    #[test]
    fn what_is_bare_brings_its_data_each_time() {
        let [near, far] = connection::over_loopback().unwrap();
        everywhere(2, |world| {
            let pair = Pair::of(&world).unwrap();
            let stream = if pair.leads { &near } else { &far };
            for side in [Side::Send, Side::Recv, Side::Both] {
                let mut exchange = Exchange::bare(&pair, stream, 100_000, side).unwrap();
                for _ in 0..2 {
                    exchange.prepare();
                    let is_old = exchange.verify();
                    assert_eq!(is_old.is_err(), ways(&pair, side)[1], "{is_old:?}");
                    exchange.start_recv().unwrap();
                    exchange.start_send().unwrap();
                    exchange.wait().unwrap();
                    exchange.verify().unwrap();
                }
            }
        });
    }
}
