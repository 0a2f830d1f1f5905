//! Runs seeds, or all cases of the sweep over collectives, until one fails.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, available_parallelism};

use clap::Parser;
use ropeway_sim::{Failure, Summary, sweep};

/// Engines over a simulated network, in virtual time, from one seed.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The (first) seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds to run, from that one on [default: 1, or all that --collectives has].
    #[arg(long)]
    seeds: Option<u64>,
    /// Let ranks die and leave, and links break.
    #[arg(long)]
    faults: bool,
    /// Run every collective by every algorithm at every size instead: a seed is the number of a case.
    #[arg(long, conflicts_with = "faults")]
    collectives: bool,
    /// Print every event.
    #[arg(long)]
    verbose: bool,
}

fn main() -> ExitCode {
    let Arguments { seed, seeds, faults, collectives, verbose } = Arguments::parse();
    // Events of several runs must not get mixed up.
    let threads = if verbose { 1 } else { available_parallelism().map_or(1, usize::from) };
    let end = |default| seed.saturating_add(seeds.unwrap_or(default));
    let outcome = if collectives {
        let cases = sweep::cases();
        let all = cases.len() as u64;
        run_all(threads, seed.min(all)..end(all).min(all), |number| {
            ropeway_sim::run_case(&cases[number as usize], verbose)
        })
    } else {
        run_all(threads, seed..end(1), |seed| ropeway_sim::run(seed, faults, verbose))
    };
    match outcome {
        Ok((runs, Summary { messages, sent, rounds, events, errors, stashed })) => {
            println!(
                "{runs} seeds: {messages} messages ({stashed} stashed), {rounds} rounds of collectives ({sent} messages in all), {errors} errors, {events} events; all properties hold"
            );
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("seed {}: {failure}", failure.seed);
            ExitCode::FAILURE
        }
    }
}

/// Runs all of these, several at a time, until one fails: how many there were, and what they amount to.
fn run_all(
    threads: usize,
    numbers: Range<u64>,
    run: impl Fn(u64) -> Result<Summary, Failure> + Sync,
) -> Result<(u64, Summary), Failure> {
    let next = AtomicU64::new(numbers.start);
    let run_some = || {
        let mut total = Summary::default();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                return Ok(total);
            }
            // When one fails, the others need not go on.
            total += run(number).inspect_err(|_| next.store(numbers.end, Ordering::Relaxed))?;
        }
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(run_some)).collect();
        let mut total = Summary::default();
        for one in all {
            total += one.join().expect("panics of runs are caught")?;
        }
        Ok((numbers.end - numbers.start, total))
    })
}
