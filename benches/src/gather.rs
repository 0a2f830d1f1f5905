//! Figures of all ranks, collected.

use ropeway::{Communicator, Error};

/// Brings the figures of all ranks to rank 0, in rank order; the others get nothing. All ranks have to call it.
pub fn gather<const N: usize>(world: &Communicator, figures: [f64; N]) -> Result<Option<Vec<[f64; N]>>, Error> {
    if world.rank() != 0 {
        world.send(&figures, 0, GATHER)?;
        return Ok(None);
    }
    let mut all = vec![figures];
    for rank in 1..world.size() {
        let mut figures = [0.0; N];
        world.recv(&mut figures, rank, GATHER)?;
        all.push(figures);
    }
    Ok(Some(all))
}

const GATHER: i32 = 101;
