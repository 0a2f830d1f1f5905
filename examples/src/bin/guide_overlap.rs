//! A long vector is computed and summed up over the ranks piece by piece: one piece travels while the next is computed.
//!
//! `ropeway run -n 4 -- target/release/guide_overlap`
#![forbid(unsafe_code)]

use ropeway::{Active, Collective, Error, Favor, Operator, WaitMode, start_all};

const PIECES: usize = 8;
const ELEMENTS: usize = 10_000;
const STEPS: usize = 10;

fn main() -> Result<(), Error> {
    let world = ropeway::init()?.world();
    let (rank, size) = (world.rank(), world.size());

    // Registered: a request for each piece, so that all may be under way at once. The daemon does the work while we compute.
    let init = |_| Ok(world.allreduce_in_place_init(ELEMENTS, Operator::Sum)?.favor(Favor::Overlap));
    let mut pieces: Vec<Collective<f64>> = (0..PIECES).map(init).collect::<Result<_, Error>>()?;
    for step in 0..STEPS {
        let mut running: Vec<Active<'_>> = Vec::with_capacity(PIECES);
        for (index, piece) in pieces.iter_mut().enumerate() {
            compute(piece.input_mut(), step * PIECES + index, rank);
            running.push(piece.start()?);
        }
        for active in running {
            active.wait()?;
        }
        for (index, piece) in pieces.iter().enumerate() {
            assert!(piece.output().iter().all(|&sum| sum == expected(step * PIECES + index, size)));
        }
    }

    // All at once, if there is nothing to compute between them.
    pieces.iter_mut().for_each(|piece| compute(piece.input_mut(), 0, rank));
    start_all(&mut pieces)?.with_wait_mode(WaitMode::Blocking).wait_all()?;
    assert!(pieces.iter().all(|piece| piece.output()[0] == expected(0, size)));

    // Called just so: it begins here, and its result is in the array once it was waited for, or found to have ended.
    let mut sum = [0.0];
    let mut summing = world.iallreduce(&[f64::from(rank)], &mut sum, Operator::Sum)?;
    let mut primes = Vec::new();
    while !summing.test()? {
        primes.extend(next_prime(&primes));
    }
    summing.wait()?;

    if rank == 0 {
        println!("{PIECES} pieces of {ELEMENTS} elements, {STEPS} times; the ranks sum up to {}", sum[0]);
    }
    Ok(())
}

/// What a program does between messages.
fn compute(piece: &mut [f64], number: usize, rank: u32) {
    piece.fill(f64::from(rank + 1) * number as f64);
}

/// Something useful that takes a moment.
fn next_prime(primes: &[u32]) -> Option<u32> {
    (primes.last().map_or(2, |last| last + 1)..).find(|number| primes.iter().all(|prime| number % prime != 0))
}

fn expected(number: usize, size: u32) -> f64 {
    f64::from(size * (size + 1) / 2) * number as f64
}
