//! Two ranks, one message there and back: half the time of a round trip, for growing messages.
//!
//! `ropeway run -n 2 -- target/release/ping_pong`
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use ropeway::{Communicator, Error, RecvRequest, SendRequest};

/// Half the time of a round trip between ranks 0 and 1.
#[derive(Parser)]
#[command(version, after_help = "Start it with: ropeway run -n 2 -- ping_pong")]
struct Flags {
    /// Largest message, in bytes.
    #[arg(long, default_value_t = 1 << 20)]
    bytes_max: usize,
    /// Round trips of each size.
    #[arg(long, default_value_t = 1000)]
    round_trips: u32,
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ping_pong: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<(), Error> {
    let session = ropeway::init()?;
    let world = session.world();
    if world.rank() == 0 {
        println!("{:>10} {:>14}", "bytes", "half trip, us");
    }
    let mut bytes = 1;
    while bytes <= flags.bytes_max && world.rank() < 2 && world.size() > 1 {
        let half_trip_us = ping_pong(&world, bytes, flags.round_trips)?;
        if world.rank() == 0 {
            println!("{bytes:>10} {half_trip_us:>14.2}");
        }
        bytes *= 4;
    }
    Ok(())
}

fn ping_pong(world: &Communicator, bytes: usize, round_trips: u32) -> Result<f64, Error> {
    let peer = 1 - world.rank();
    let mut send = world.send_init(world.alloc::<u8>(bytes)?, peer, 0)?;
    let mut recv = world.recv_init(world.alloc::<u8>(bytes)?, peer, 0)?;
    // The first ones find the channel not yet bound and the caches cold.
    trips(world, &mut send, &mut recv, 10)?;
    let begin = Instant::now();
    trips(world, &mut send, &mut recv, round_trips)?;
    Ok(begin.elapsed().as_secs_f64() * 1e6 / f64::from(2 * round_trips))
}

fn trips(
    world: &Communicator,
    send: &mut SendRequest<u8>,
    recv: &mut RecvRequest<u8>,
    count: u32,
) -> Result<(), Error> {
    for _ in 0..count {
        let receiving = recv.start()?;
        if world.rank() == 0 {
            send.start()?.wait()?;
            receiving.wait()?;
        } else {
            receiving.wait()?;
            send.start()?.wait()?;
        }
    }
    Ok(())
}
