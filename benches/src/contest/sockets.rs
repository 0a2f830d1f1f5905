//! The floor of messages between nodes: a plain connection for each pair of ranks, which yield while nothing has come.

use std::net::IpAddr;

use ropeway::Communicator;

use super::{Contest, Kind, SPOILT, first_wrong, value, write};
use crate::BenchError;
use crate::pair::Pair;
use crate::record::Floor;
use crate::statistics::Summary;
use crate::trip::{Tcp, Trip};

/// One rank's part in round trips like those of a [`Side`](super::Side).
pub(super) struct Sockets {
    contest: Contest,
    pair: Pair,
    trip: Tcp,
    round: u64,
}

impl Sockets {
    /// On nodes with these addresses, if there are several, and if it is messages to and fro that are compared. All ranks have to call it.
    pub(super) fn new(
        world: &Communicator,
        contest: Contest,
        bytes: usize,
        addresses: &[IpAddr],
    ) -> Result<Option<Self>, BenchError> {
        let pair = Pair::opposite(world, world.size() / 2);
        let Some(pair) = pair.filter(|_| contest.kind == Kind::Latency && addresses.len() > 1) else {
            return Ok(None);
        };
        let mut trip = Tcp::new(&pair, bytes, addresses)?;
        write(trip.outgoing()?, u64::from(world.rank()));
        Ok(Some(Self { contest, pair, trip, round: 0 }))
    }

    pub(super) fn rounds(&mut self, count: u64) -> Result<(), BenchError> {
        for _ in 0..count {
            self.round += 1;
            if !self.pair.leads {
                self.trip.recv()?;
            }
            if self.contest.touch {
                self.trip.outgoing()?.fill(value(self.round));
            }
            self.trip.send()?;
            if self.pair.leads {
                self.trip.recv()?;
            }
        }
        Ok(())
    }

    pub(super) fn spoil(&mut self) {
        self.trip.incoming_mut().fill(SPOILT);
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        let message = self.trip.incoming();
        let touched = self.contest.touch.then_some(self.round);
        match first_wrong(message, u64::from(self.pair.peer), touched) {
            None => Ok(()),
            Some(byte) => Err(BenchError::WrongData { contestant: LABEL.into(), bytes: message.len(), byte }),
        }
    }
}

/// What these samples are under others, for the rank that keeps the time.
pub(super) fn floor(samples: &[f64]) -> Option<Floor> {
    // Tools compare ours with theirs run by run; a run's own ratio would say nothing more.
    (!samples.is_empty()).then(|| Floor { name: LABEL.into(), median: Summary::of(samples).median, ratio: None })
}

pub(super) const LABEL: &str = "plain sockets";

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::cluster::everybody;

    #[test]
    fn data_that_does_not_come_is_noticed() {
        let addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST); 2];
        for (touch, bytes) in [(false, 1), (false, 100_000), (true, 24)] {
            everybody((2, 4), |world| {
                let contest = Contest { kind: Kind::Latency, touch, batch_s: 0.0 };
                let mut sockets = Sockets::new(&world, contest, bytes, &addresses).unwrap().unwrap();
                for _ in 0..2 {
                    sockets.rounds(2).unwrap();
                    sockets.check().unwrap();
                    sockets.spoil();
                    assert!(sockets.check().is_err(), "{touch}, {bytes} bytes");
                }
            });
        }
    }
}
