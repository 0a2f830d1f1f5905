//! Collectives between neighbours, on a grid that is closed in each dimension.

use ropeway::{Cartesian, Communicator, Error, NeighborCollective, dims_create};

use crate::BenchError;
use crate::contribution::{Contribution, Element};
use crate::operation::{CollectiveCall, Operation};
use crate::together::{Form, Registered};

/// The lengths of its dimensions: two of them, as even as possible, or a ring if a number of ranks has no such. The last rank of each
/// is a neighbour of the first.
pub fn torus(ranks: u32) -> Vec<u32> {
    let mut dims = dims_create(ranks, 2);
    if dims[1] == 1 {
        dims.pop();
    }
    dims
}

/// All ranks as such a grid.
pub(crate) fn on_torus(world: &Communicator) -> Result<Cartesian, Error> {
    let dims = torus(world.size());
    world.cartesian(&dims, &vec![true; dims.len()])
}

impl<T: Element> Registered for NeighborCollective<T> {
    fn start(&mut self) -> Result<(), Error> {
        Self::start(self).map(drop)
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.active().map_or(Ok(()), |active| active.wait())
    }
}

impl<T: Element> Form<T> for NeighborCollective<T> {
    fn input(&mut self) -> &mut [T] {
        self.input_mut()
    }

    fn output(&self) -> &[T] {
        self.output()
    }

    fn output_mut(&mut self) -> &mut [T] {
        self.output_mut()
    }

    fn round(&mut self, meanwhile: Option<&mut dyn FnMut()>) -> Result<(), BenchError> {
        let active = Self::start(self)?;
        if let Some(compute) = meanwhile {
            compute();
        }
        Ok(active.wait()?)
    }

    fn registered(&mut self) -> Option<&mut dyn Registered> {
        Some(self)
    }
}

/// One that is called anew each time, and its arrays.
pub(crate) struct CalledAround<T> {
    torus: Cartesian,
    contribution: Contribution,
    input: Vec<T>,
    output: Vec<T>,
}

impl<T: Element> CalledAround<T> {
    pub(crate) fn new(world: &Communicator, contribution: &Contribution) -> Result<Self, Error> {
        let [input, output] = contribution.arrays();
        Ok(Self { torus: on_torus(world)?, contribution: contribution.clone(), input, output })
    }
}

impl<T: Element> Form<T> for CalledAround<T> {
    fn input(&mut self) -> &mut [T] {
        &mut self.input
    }

    fn output(&self) -> &[T] {
        &self.output
    }

    fn output_mut(&mut self) -> &mut [T] {
        &mut self.output
    }

    /// A blocking call is one that begins, and is waited for at once.
    fn round(&mut self, meanwhile: Option<&mut dyn FnMut()>) -> Result<(), BenchError> {
        let Self { torus, contribution, input, output } = self;
        let (CollectiveCall { operation, is_uneven, .. }, [from, to]) = (contribution.call, contribution.around());
        let pending = match operation {
            Operation::NeighborAllgather if is_uneven => torus.ineighbor_allgatherv(input, output, from)?,
            Operation::NeighborAllgather => torus.ineighbor_allgather(input, output)?,
            _ if is_uneven => torus.ineighbor_alltoallv(input, output, to, from)?,
            _ => torus.ineighbor_alltoall(input, output)?,
        };
        if let Some(compute) = meanwhile {
            compute();
        }
        Ok(pending.wait()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_are_even_and_none_has_one_rank_only() {
        assert_eq!([1, 2, 3, 4, 6, 7, 16].map(torus), [&[1][..], &[2], &[3], &[2, 2], &[3, 2], &[7], &[4, 4]]);
    }
}
