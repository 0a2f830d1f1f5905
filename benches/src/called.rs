//! A collective that is called anew each time: blocking, or nonblocking to compute meanwhile.

use ropeway::{Communicator, Error};

use crate::BenchError;
use crate::contribution::{Contribution, Element};
use crate::operation::{CollectiveCall, Operation};
use crate::together::Form;

/// A call and its arrays.
pub(crate) struct Called<T> {
    world: Communicator,
    call: CollectiveCall,
    /// Of uneven parts.
    counts: Vec<usize>,
    input: Vec<T>,
    output: Vec<T>,
}

impl<T: Element> Called<T> {
    pub(crate) fn new(world: &Communicator, contribution: &Contribution) -> Self {
        let Contribution { call, size, count, .. } = *contribution;
        let [input, output] = contribution.arrays();
        let counts = if call.is_uneven { call.counts(size, count) } else { Vec::new() };
        Self { world: world.clone(), call, counts, input, output }
    }

    fn block(&mut self) -> Result<(), Error> {
        let Self { world, call, counts, input, output } = self;
        let CollectiveCall { operation, root, operator, is_uneven } = *call;
        match operation {
            Operation::Barrier => world.barrier(),
            Operation::Bcast => world.bcast(output, root),
            Operation::Reduce => world.reduce(input, output, operator, root),
            Operation::Allreduce => world.allreduce(input, output, operator),
            Operation::ReduceScatter if is_uneven => world.reduce_scatter(input, output, counts, operator),
            Operation::ReduceScatter => world.reduce_scatter_block(input, output, operator),
            Operation::Scan => world.scan(input, output, operator),
            Operation::Exscan => world.exscan(input, output, operator),
            Operation::Gather if is_uneven => world.gatherv(input, output, counts, root),
            Operation::Gather => world.gather(input, output, root),
            Operation::Scatter if is_uneven => world.scatterv(input, output, counts, root),
            Operation::Scatter => world.scatter(input, output, root),
            Operation::Allgather if is_uneven => world.allgatherv(input, output, counts),
            Operation::Allgather => world.allgather(input, output),
            Operation::Alltoall if is_uneven => world.alltoallv(input, output, counts),
            Operation::Alltoall => world.alltoall(input, output),
            Operation::NeighborAllgather | Operation::NeighborAlltoall => unreachable!("{ON_A_TORUS}"),
        }
    }

    fn overlap(&mut self, compute: &mut dyn FnMut()) -> Result<(), Error> {
        let Self { world, call, counts, input, output } = self;
        let CollectiveCall { operation, root, operator, is_uneven } = *call;
        let pending = match operation {
            Operation::Barrier => {
                let pending = world.ibarrier()?;
                compute();
                return pending.wait();
            }
            Operation::Bcast => world.ibcast(output, root)?,
            Operation::Reduce => world.ireduce(input, output, operator, root)?,
            Operation::Allreduce => world.iallreduce(input, output, operator)?,
            Operation::ReduceScatter if is_uneven => world.ireduce_scatter(input, output, counts, operator)?,
            Operation::ReduceScatter => world.ireduce_scatter_block(input, output, operator)?,
            Operation::Scan => world.iscan(input, output, operator)?,
            Operation::Exscan => world.iexscan(input, output, operator)?,
            Operation::Gather if is_uneven => world.igatherv(input, output, counts, root)?,
            Operation::Gather => world.igather(input, output, root)?,
            Operation::Scatter if is_uneven => world.iscatterv(input, output, counts, root)?,
            Operation::Scatter => world.iscatter(input, output, root)?,
            Operation::Allgather if is_uneven => world.iallgatherv(input, output, counts)?,
            Operation::Allgather => world.iallgather(input, output)?,
            Operation::Alltoall if is_uneven => world.ialltoallv(input, output, counts)?,
            Operation::Alltoall => world.ialltoall(input, output)?,
            Operation::NeighborAllgather | Operation::NeighborAlltoall => unreachable!("{ON_A_TORUS}"),
        };
        compute();
        pending.wait()
    }
}

impl<T: Element> Form<T> for Called<T> {
    fn input(&mut self) -> &mut [T] {
        &mut self.input
    }

    fn output(&self) -> &[T] {
        &self.output
    }

    fn output_mut(&mut self) -> &mut [T] {
        &mut self.output
    }

    fn round(&mut self, meanwhile: Option<&mut dyn FnMut()>) -> Result<(), BenchError> {
        match meanwhile {
            None => self.block()?,
            Some(compute) => self.overlap(compute)?,
        }
        Ok(())
    }
}

const ON_A_TORUS: &str = "neighbours are called on a communicator that has them";
