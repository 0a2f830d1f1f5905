//! Nothing but starts and waits, for an instruction counter: `benches/count-instructions` runs it and sums up. Its argument is how
//! many messages it sends.
//!
//! Both ends of the channel are in this process, so that no wait has to wait.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::process::ExitCode;

use ropeway::{Error, RecvRequest, SendRequest};

/// A send whose receiver is ready, and the wait for its end.
#[inline(never)]
fn counted_send(send: &mut SendRequest<u64>) -> Result<(), Error> {
    send.start()?.wait()?;
    Ok(())
}

/// The wait for a message that is there.
#[inline(never)]
fn counted_wait(recv: &mut RecvRequest<u64>) -> Result<(), Error> {
    if let Some(receiving) = recv.active() {
        receiving.wait()?;
    }
    Ok(())
}

/// The start of a receive.
#[inline(never)]
fn counted_start(recv: &mut RecvRequest<u64>) -> Result<(), Error> {
    let _ = recv.start()?;
    Ok(())
}

fn run(messages: u64) -> Result<(), Error> {
    let world = ropeway::init()?.world();
    let mut recv = world.recv_init(world.alloc::<u64>(1)?, world.rank(), 0)?;
    let mut send = world.send_init(world.alloc::<u64>(1)?, world.rank(), 0)?;
    for number in 0..messages {
        send.buffer_mut()[0] = number;
        counted_start(black_box(&mut recv))?;
        counted_send(black_box(&mut send))?;
        counted_wait(black_box(&mut recv))?;
        assert_eq!(recv.buffer()[0], number);
    }
    Ok(())
}

fn main() -> ExitCode {
    let Some(messages) = std::env::args().nth(1).and_then(|word| word.parse().ok()) else {
        eprintln!("start_and_wait: how many messages?");
        return ExitCode::from(2);
    };
    match run(messages) {
        Ok(()) => {
            println!("{messages}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("start_and_wait: {error}");
            ExitCode::FAILURE
        }
    }
}
