//! Nothing but the inner parts at work, for an instruction counter: `benches/count-instructions` runs it and sums up.
#![forbid(unsafe_code)]

use std::error::Error;
use std::hint::black_box;
use std::process::ExitCode;

use ropeway_bench::micro::{CommandRing, EnginePair, generate, shapes};
use ropeway_proto::Command;
use ropeway_proto::operator::{ElementType, Operator, Scalar};
use ropeway_schedule::{BuildError, Shape};
use ropeway_shm::ring::Entry;
use ropeway_shm::{RingViolation, combine};

/// How often each of them.
const TIMES: u32 = 100;
/// Of each array.
const SUMMED_BYTES: usize = 64 << 10;

/// One command through the ring.
#[inline(never)]
fn counted_ring(ring: &mut CommandRing, entry: &Entry) -> Result<Option<Entry>, RingViolation> {
    ring.pass(entry)
}

/// One message between two engines.
#[inline(never)]
fn counted_message(engines: &mut EnginePair) {
    engines.message();
}

/// One choice of an algorithm, and one schedule.
#[inline(never)]
fn counted_schedule(shape: &Shape) -> Result<(), BuildError> {
    black_box(generate(shape)?);
    Ok(())
}

/// One sum of two arrays.
#[inline(never)]
fn counted_sum(left: &mut [u8], right: &[u8]) {
    combine(Operator::Sum, ElementType::plain(Scalar::F32), left, right);
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut ring = CommandRing::create()?;
    let mut engines = EnginePair::new(8);
    let [allreduce, _] = shapes(64);
    let (mut left, right) = (vec![0; SUMMED_BYTES], vec![0; SUMMED_BYTES]);
    for epoch in 0..TIMES {
        let entry = Command::Start { slot: 0, epoch }.encode();
        assert_eq!(counted_ring(&mut ring, black_box(&entry)), Ok(Some(entry)));
        counted_message(black_box(&mut engines));
        counted_schedule(black_box(&allreduce))?;
        counted_sum(black_box(&mut left), black_box(&right));
    }
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => {
            println!("{TIMES}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("inner_parts: {error}");
            ExitCode::FAILURE
        }
    }
}
