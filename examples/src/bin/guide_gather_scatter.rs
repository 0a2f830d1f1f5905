//! Rank 0 deals words out to all ranks, everybody turns its own around, and they come back; then a matrix is transposed.
//!
//! `ropeway run -n 4 -- target/release/guide_gather_scatter`
#![forbid(unsafe_code)]

use ropeway::Error;

const TEXT: &[u8] = b"stressed desserts drawer reward live evil";

fn main() -> Result<(), Error> {
    let world = ropeway::init()?.world();
    let (rank, size) = (world.rank() as usize, world.size() as usize);

    // Uneven parts: everybody says how long the part of everybody is.
    let counts: Vec<usize> = (0..size).map(|rank| TEXT.len() * (rank + 1) / size - TEXT.len() * rank / size).collect();
    let text = if rank == 0 { TEXT } else { &[] };
    let mut part = vec![0; counts[rank]];
    world.scatterv(text, &mut part, &counts, 0)?;

    // The part as it was goes to everybody, turned around to rank 0 alone.
    let mut everything = vec![0; TEXT.len()];
    world.allgatherv(&part, &mut everything, &counts)?;
    assert_eq!(everything, TEXT);
    part.reverse();
    let mut turned = vec![0; if rank == 0 { TEXT.len() } else { 0 }];
    world.gatherv(&part, &mut turned, &counts, 0)?;

    // Each rank has a row of a square matrix, and gets a column of it in its place; again and again, so it is registered.
    let mut transpose = world.alltoall_in_place_init::<u32>(1)?;
    for (column, element) in transpose.input_mut().iter_mut().enumerate() {
        *element = (rank * size + column) as u32;
    }
    transpose.start()?.wait()?;
    assert!(transpose.output().iter().enumerate().all(|(row, &element)| element == (row * size + rank) as u32));

    if rank == 0 {
        println!("{}", String::from_utf8_lossy(&turned));
    }
    Ok(())
}
