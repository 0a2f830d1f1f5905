//! Rank 0 tells everybody the parameters of a run; then each rank in turn gives a row to all others.
//!
//! `ropeway run -n 4 -- target/release/guide_broadcast`
#![forbid(unsafe_code)]

use ropeway::{Collective, Error};

const COLUMNS: usize = 1000;

fn main() -> Result<(), Error> {
    let world = ropeway::init()?.world();
    let (rank, size) = (world.rank(), world.size());

    // Once, at the beginning of a run: a plain call.
    let mut parameters = if rank == 0 { [0.25, 40.0] } else { [0.0; 2] };
    world.bcast(&mut parameters, 0)?;
    let [width, steps] = parameters;

    // Again and again, as in an elimination whose pivot rows come from everybody in turn: registered once for each root.
    let mut rows: Vec<Collective<f64>> =
        (0..size).map(|root| world.bcast_init(COLUMNS, root)).collect::<Result<_, _>>()?;
    for step in 0..steps as u32 {
        let root = step % size;
        let row = &mut rows[root as usize];
        if rank == root {
            row.input_mut().fill(f64::from(step) * width);
        }
        row.start()?.wait()?;
        assert!(row.output().iter().all(|&element| element == f64::from(step) * width));
    }

    // A barrier in two halves: between them there is time for what nobody else needs.
    let mut barrier = world.barrier_init()?;
    let passing = barrier.start()?;
    let last: f64 = rows.iter().map(|row| row.output()[0]).fold(0.0, f64::max);
    passing.wait()?;

    if rank == 0 {
        println!("{steps} rows from {size} ranks, the last one full of {last}");
    }
    Ok(())
}
