//! Collectives that are needed once, around what a program is about.

use ropeway::{Communicator, Error, Operator, Plain};

/// What all ranks have, combined place by place, on all ranks.
pub fn combine(world: &Communicator, operator: Operator, values: &[f64]) -> Result<Vec<f64>, Error> {
    let mut all = world.allreduce_init::<f64>(values.len(), operator)?;
    all.input_mut().copy_from_slice(values);
    all.start()?.wait()?;
    Ok(all.output().to_vec())
}

/// The mean of what all ranks have, place by place, on all ranks.
pub fn mean(world: &Communicator, values: &[f64]) -> Result<Vec<f64>, Error> {
    let sums = combine(world, Operator::Sum, values)?;
    Ok(sums.iter().map(|sum| sum / f64::from(world.size())).collect())
}

/// All ranks' parts, one behind the other, on rank 0; on the others nothing. Rank r has `elements(r)`.
pub fn gather<T: Plain>(world: &Communicator, part: &[T], elements: impl Fn(u32) -> usize) -> Result<Vec<T>, Error> {
    let counts: Vec<usize> = (0..world.size()).map(elements).collect();
    let mut all = world.gatherv_init::<T>(&counts, 0)?;
    all.input_mut().copy_from_slice(part);
    all.start()?.wait()?;
    Ok(all.output().to_vec())
}
