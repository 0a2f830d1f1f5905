//! Small programs as anybody would write them, of blocking calls and nothing else: nothing is registered, nothing overlaps.
//!
//! They are modelled on two of the NAS Parallel Benchmarks, IS and CG. `benches/mpi/kernels.h` does the same over MPI, line for line,
//! so what they take there and here says whether a program loses by leaving MPI before it gains by registering anything.
//!
//! D. Bailey et al., *The NAS Parallel Benchmarks*, 1991 (RNR-91-002).

mod conjugate_gradients;
mod integer_sort;

use ropeway::{Communicator, Error};

use crate::{BenchError, Kind};

use self::conjugate_gradients::ConjugateGradients;
use self::integer_sort::IntegerSort;

/// One rank of such a program.
pub(crate) trait Kernel {
    /// Does all of it once.
    fn round(&mut self) -> Result<(), Error>;

    /// Whether the last round came to what it should have. All ranks have to call it.
    fn check(&self) -> Result<(), BenchError>;
}

/// The program of that kind, if it is one, with so many bytes of keys or of the vector x on each rank.
pub(crate) fn kernel(world: &Communicator, kind: Kind, bytes: usize) -> Option<Box<dyn Kernel>> {
    match kind {
        Kind::IntegerSort => Some(Box::new(IntegerSort::new(world, bytes))),
        Kind::ConjugateGradients => Some(Box::new(ConjugateGradients::new(world, bytes))),
        _ => None,
    }
}
