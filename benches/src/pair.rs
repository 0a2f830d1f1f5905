//! The two ranks that measure: the first and the last, so that with several nodes the messages cross them.

use std::io;
use std::net::{TcpListener, TcpStream};

use ropeway::Communicator;

use crate::{BenchError, Plan};

/// One of the two.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) world: Communicator,
    pub(crate) peer: u32,
    /// Whether this is rank 0, which keeps the time.
    pub(crate) leads: bool,
}

impl Pair {
    /// `None` for the ranks between the two, which only look on.
    pub(crate) fn of(world: &Communicator) -> Option<Self> {
        let last = world.size() - 1;
        let peer = if world.rank() == 0 { last } else { 0 };
        let is_in = world.rank() == 0 || world.rank() == last;
        is_in.then(|| Self { world: world.clone(), peer, leads: world.rank() == 0 })
    }

    /// Has the leader decide, and tells the other.
    pub(crate) fn agree<const N: usize>(&self, decide: impl FnOnce() -> [u64; N]) -> Result<[u64; N], BenchError> {
        let mut decision = [0; N];
        if self.leads {
            decision = decide();
            self.world.send(&decision, self.peer, AGREE)?;
        } else {
            self.world.recv(&mut decision, self.peer, AGREE)?;
        }
        Ok(decision)
    }

    /// Returns when the other one has called it too.
    pub(crate) fn meet(&self) -> Result<(), BenchError> {
        self.world.sendrecv(&[0u8], self.peer, MEET, &mut [0u8], self.peer, MEET)?;
        Ok(())
    }

    /// Tells the other one to go on.
    pub(crate) fn go(&self) -> Result<(), BenchError> {
        Ok(self.world.send(&[0u8], self.peer, GO)?)
    }

    /// Returns when the other one says so.
    pub(crate) fn await_go(&self) -> Result<(), BenchError> {
        self.world.recv(&mut [0u8], self.peer, GO)?;
        Ok(())
    }

    /// A plain TCP connection between the two processes.
    pub(crate) fn connect(&self, plan: &Plan) -> Result<TcpStream, BenchError> {
        let stream = if self.leads {
            let listener = TcpListener::bind((plan.address, 0))?;
            let port = listener.local_addr()?.port();
            self.agree(|| [u64::from(port)])?;
            listener.accept()?.0
        } else {
            let [port] = self.agree(|| unreachable!("the leader decides"))?;
            let port = u16::try_from(port).map_err(io::Error::other)?;
            TcpStream::connect((plan.address, port))?
        };
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

const AGREE: i32 = 100;
const MEET: i32 = 102;
const GO: i32 = 103;
