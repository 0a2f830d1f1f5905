//! A token goes round a ring of ranks. Each rank adds its number; after each round rank 0 checks the sum.
//!
//! `ropeway run -n 4 -- target/release/ring --rounds 10000`
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use ropeway::Error;

/// A token goes round a ring of ranks.
#[derive(Parser)]
#[command(version, after_help = "Start it with: ropeway run -n 4 -- ring --rounds 10000")]
struct Flags {
    /// How often it goes round.
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ring: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the token always came back as it should.
fn run(flags: &Flags) -> Result<bool, Error> {
    let session = ropeway::init()?;
    let world = session.world();
    let (rank, size) = (world.rank(), world.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);

    // Bound once, started in every round.
    let mut send = world.send_init(world.alloc::<u64>(1)?, right, 0)?;
    let mut recv = world.recv_init(world.alloc::<u64>(1)?, left, 0)?;

    let sum_of_ranks = u64::from(size) * u64::from(size - 1) / 2;
    let begin = Instant::now();
    let mut token = 0;
    for round in 1..=flags.rounds {
        let receiving = recv.start()?;
        if rank == 0 {
            send.buffer_mut()[0] = token;
            send.start()?.wait()?;
            receiving.wait()?;
            token = recv.buffer()[0];
            if token != round * sum_of_ranks {
                eprintln!("ring: token {token} after round {round}, expected {}", round * sum_of_ranks);
                return Ok(false);
            }
        } else {
            receiving.wait()?;
            send.buffer_mut()[0] = recv.buffer()[0] + u64::from(rank);
            send.start()?.wait()?;
        }
    }

    if rank == 0 {
        let hops = (flags.rounds * u64::from(size)).max(1);
        let hop_us = begin.elapsed().as_secs_f64() * 1e6 / hops as f64;
        println!("{} rounds of {size} ranks, {hop_us:.2} us a hop", flags.rounds);
    }
    Ok(true)
}
