//! A vector is spread over the ranks: its norm, its largest element and where that is, a running sum, and a shared histogram.
//!
//! `ropeway run -n 4 -- target/release/guide_reductions`
#![forbid(unsafe_code)]

use ropeway::{Error, Located, Operator};

/// Elements of each rank, and bins of the histogram for each rank.
const ELEMENTS: usize = 6;
const BINS: usize = 2;

fn main() -> Result<(), Error> {
    let world = ropeway::init()?.world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);
    let first = rank * ELEMENTS;
    let part: Vec<u64> = (first..first + ELEMENTS).map(|index| (index * 7 % 10) as u64).collect();

    // Everybody gets the sum of all squares.
    let mut square = [part.iter().map(|element| element * element).sum::<u64>()];
    world.allreduce_in_place(&mut square, Operator::Sum)?;

    // Of equal elements the one with the lowest index is found.
    let mut largest = [Located::new(0, u64::MAX)];
    for (index, &element) in (first as u64..).zip(&part) {
        if element > largest[0].value() {
            largest[0] = Located::new(element, index);
        }
    }
    world.allreduce_in_place(&mut largest, Operator::MaxLoc)?;

    // Each rank gets the sum of what is before its own part: where a running sum goes on. Rank 0 keeps what it has, nothing.
    let (own, mut before) = ([part.iter().sum::<u64>()], [0]);
    world.exscan(&own, &mut before, Operator::Sum)?;

    // Everybody counts into all bins; each rank gets the totals of its own.
    let mut bins = vec![0u32; BINS * size];
    part.iter().for_each(|&element| bins[element as usize % (BINS * size)] += 1);
    let mut totals = [0; BINS];
    world.reduce_scatter_block(&bins, &mut totals, Operator::Sum)?;

    // Rank 0 alone gets how many elements were counted.
    let (counted, mut all) = ([totals.iter().sum::<u32>()], [0]);
    world.reduce(&counted, &mut all, Operator::Sum, 0)?;

    if rank == 0 {
        let norm = (square[0] as f64).sqrt();
        println!("{} elements of norm {norm:.3}, the largest is {:?}", all[0], largest[0]);
    }
    if rank == size - 1 {
        let total: u64 = (0..ELEMENTS * size).map(|index| (index * 7 % 10) as u64).sum();
        assert_eq!(before[0] + own[0], total, "the last rank's running sum is everybody's");
    }
    Ok(())
}
