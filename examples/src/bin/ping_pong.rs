//! Two ranks, one message there and back: half the time of a round trip, for growing messages.
//!
//! `ropeway run -n 2 -- target/release/ping_pong`
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use ropeway::{Communicator, Error, RecvRequest, SendRequest};
use ropeway_examples::Size;

/// Half the time of a round trip between ranks 0 and 1.
#[derive(Parser)]
#[command(version, after_help = "Start it with: ropeway run -n 2 -- ping_pong")]
struct Flags {
    /// Bytes of the largest message, such as 64K.
    #[arg(long, default_value_t = Size(1 << 20))]
    bytes_max: Size,
    /// Round trips of each size.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    round_trips: u32,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Ropeway(#[from] Error),
    #[error("a rank alone has nobody to play with: ropeway run -n 2 -- ping_pong")]
    Alone,
    #[error("{0} bytes: they are not what was sent")]
    Wrong(usize),
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

fn run(flags: &Flags) -> Result<(), Failure> {
    let session = ropeway::init()?;
    let world = session.world();
    if world.size() < 2 {
        return Err(Failure::Alone);
    }
    if world.rank() == 0 {
        println!("{:>10} {:>14}", "bytes", "half trip, us");
    }
    let mut bytes = 1;
    while bytes <= flags.bytes_max.0 && world.rank() < 2 {
        let half_trip_us = ping_pong(&world, bytes, flags.round_trips)?;
        if world.rank() == 0 {
            println!("{bytes:>10} {half_trip_us:>14.2}");
        }
        bytes *= 4;
    }
    Ok(())
}

fn ping_pong(world: &Communicator, bytes: usize, round_trips: u32) -> Result<f64, Failure> {
    let peer = 1 - world.rank();
    let mut send = world.send_init(world.alloc::<u8>(bytes)?, peer, 0)?;
    let mut recv = world.recv_init(world.alloc::<u8>(bytes)?, peer, 0)?;
    // The first ones find the channel not yet bound and the caches cold.
    trips(world, &mut send, &mut recv, 10)?;
    send.buffer_mut().iter_mut().zip(data_of(world.rank())).for_each(|(byte, value)| *byte = value);
    let begin = Instant::now();
    trips(world, &mut send, &mut recv, round_trips)?;
    let elapsed = begin.elapsed();
    if !recv.buffer().iter().copied().eq(data_of(peer).take(bytes)) {
        return Err(Failure::Wrong(bytes));
    }
    Ok(elapsed.as_secs_f64() * 1e6 / (2.0 * f64::from(round_trips)))
}

/// What a rank sends, never only zeros.
fn data_of(rank: u32) -> impl Iterator<Item = u8> {
    (1 + rank..).map(|number| (number % 251) as u8)
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
