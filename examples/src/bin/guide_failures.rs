//! What is wrong is said before anything is sent; and when a rank gives up, the others hear of it instead of waiting.
//!
//! `ropeway run -n 4 -- target/release/guide_failures`
#![forbid(unsafe_code)]

use ropeway::{Collective, Error, Operator};

fn main() -> Result<(), Error> {
    let world = ropeway::init()?.world();
    let (rank, size) = (world.rank(), world.size());

    // The call was wrong: nothing was sent, and the program can go on.
    let error = world.allreduce(&[1.0, 2.0], &mut [0.0], Operator::Sum).unwrap_err();
    assert!(matches!(error, Error::WrongLength { array: "output", elements: 1, expected: 2 }));
    let error = world.allreduce_init::<f64>(1, Operator::BitXor).unwrap_err();
    assert!(matches!(error, Error::BadCollective { .. }));

    // The last rank has enough after five rounds, and leaves.
    let mut sum = world.allreduce_in_place_init::<u64>(1, Operator::Sum)?;
    let rounds = if rank == size - 1 { 5 } else { 10 };
    for round in 0..rounds {
        match one_round(&mut sum) {
            Ok(total) => assert_eq!(total, u64::from(size)),
            // Somebody is gone. What this rank has computed is still its own: save it, say why, and end.
            Err(
                error @ (Error::PeerFreed { .. }
                | Error::NodeGaveUp { .. }
                | Error::RankLeft { .. }
                | Error::RankFailed { .. }
                | Error::PeerLost { .. }),
            ) => {
                if rank == 0 {
                    println!("round {round}: {error}");
                }
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn one_round(sum: &mut Collective<u64>) -> Result<u64, Error> {
    sum.input_mut()[0] = 1;
    sum.start()?.wait()?;
    Ok(sum.output()[0])
}
