//! Heat spreads on a grid of ranks, each of which has one cell; sums are made along columns, and among the ranks of even number.
//!
//! `ropeway run -n 4 -- target/release/guide_communicators`
#![forbid(unsafe_code)]

use ropeway::{Communicator, Error, Operator, dims_create};

fn main() -> Result<(), Error> {
    let world = ropeway::init()?.world();
    let (rank, size) = (world.rank(), world.size());

    // A grid that is closed in both dimensions: everybody has four neighbours, be they others or itself.
    let grid = world.cartesian(&dims_create(size, 2), &[true, true])?;
    // Once, by a call: whom everybody has beside itself.
    let mut beside = [0; 4];
    grid.neighbor_allgather(&[grid.rank()], &mut beside)?;
    assert!(grid.sources().eq(beside.map(Some)));
    // Again and again, registered.
    let mut halo = grid.neighbor_allgather_init::<u64>(1)?;
    // Whole units of heat, so that none is lost by rounding.
    let mut heat = if rank == 0 { 1 << 40 } else { 0 };
    for _ in 0..10 {
        halo.input_mut()[0] = heat / 8;
        halo.start()?.wait()?;
        heat = heat - 4 * (heat / 8) + halo.output().iter().sum::<u64>();
    }
    let mut total = [heat];
    world.allreduce_in_place(&mut total, Operator::Sum)?;
    assert_eq!(total, [1 << 40]);

    // The grid's columns: those that differ in the first coordinate only.
    let column = grid.sub(&[true, false])?;
    let mut column_total = [heat];
    column.allreduce_in_place(&mut column_total, Operator::Sum)?;
    assert_eq!(column.size(), grid.dims()[0]);

    // Even and odd ranks among themselves. The last of each is its first here.
    let half = world.split(Some(rank % 2), -(rank as i32))?.expect("everybody has a colour");
    let mut first = [rank];
    half.bcast(&mut first, 0)?;
    assert_eq!(first[0], size - 1 - (size - 1 - rank) % 2);

    // The same by a group, which the odd ranks need not call.
    let even: Vec<u32> = (0..size).step_by(2).collect();
    if let Some(even) = world.create(&world.group().include(&even)?)? {
        assert_eq!(even.rank(), rank / 2);
        library(&even)?;
    }

    if rank == 0 {
        println!("{size} ranks as a grid of {:?}: no heat is lost", grid.dims());
    }
    Ok(())
}

/// A library works on a duplicate, so that its messages never meet those of its caller.
fn library(caller: &Communicator) -> Result<(), Error> {
    let private = caller.dup()?;
    private.barrier()
}
