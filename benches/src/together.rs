//! Our side of the contests of collectives: `benches/mpi/contest.c` does the same over MPI.

use ropeway::{Collective, Communicator, Operator};

use crate::BenchError;
use crate::contest::Kind;

/// One rank's part in a collective.
pub(crate) enum Together {
    /// Bytes that are passed on as they are.
    Bytes(Collective<u8>),
    /// Floats that are added.
    Sums(Collective<f64>),
}

impl Together {
    /// `bytes`: of the vector, or of what a rank has for each.
    pub(crate) fn new(world: &Communicator, kind: Kind, bytes: usize) -> Result<Self, BenchError> {
        let each = || vec![bytes; world.size() as usize];
        Ok(match kind {
            Kind::Barrier => Self::Bytes(world.barrier_init()?),
            Kind::Bcast => Self::Bytes(world.bcast_init(bytes, 0)?),
            Kind::Allgather => Self::Bytes(world.allgather_init(&each())?),
            Kind::Alltoall => Self::Bytes(world.alltoall_init(bytes)?),
            Kind::Allreduce | Kind::Latency | Kind::Bandwidth | Kind::Exchange => {
                Self::Sums(world.allreduce_init(bytes.div_ceil(size_of::<f64>()), Operator::Sum)?)
            }
        })
    }

    /// New contributions, if they are wanted.
    pub(crate) fn touch(&mut self, round: u64) {
        match self {
            Self::Bytes(collective) => collective.input_mut().fill((round % 251) as u8),
            Self::Sums(collective) => collective.input_mut().fill((round % 251) as f64),
        }
    }

    pub(crate) fn round(&mut self) -> Result<(), BenchError> {
        match self {
            Self::Bytes(collective) => collective.start()?.wait()?,
            Self::Sums(collective) => collective.start()?.wait()?,
        };
        Ok(())
    }
}
