//! Runs seeds until one fails.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use ropeway_sim::Summary;

/// Engines over a simulated network, in virtual time, from one seed.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The (first) seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds to run, one after the other.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Let ranks die and leave, and links break.
    #[arg(long)]
    faults: bool,
    /// Print every event.
    #[arg(long)]
    verbose: bool,
}

fn main() -> ExitCode {
    let Arguments { seed, seeds, faults, verbose } = Arguments::parse();
    let mut total = Summary::default();
    for seed in seed..seed.saturating_add(seeds) {
        match ropeway_sim::run(seed, faults, verbose) {
            Ok(summary) => {
                total.messages += summary.messages;
                total.sent += summary.sent;
                total.rounds += summary.rounds;
                total.events += summary.events;
                total.errors += summary.errors;
                total.stashed += summary.stashed;
            }
            Err(failure) => {
                eprintln!("seed {seed}: {failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    let Summary { messages, sent, rounds, events, errors, stashed } = total;
    println!(
        "{seeds} seeds: {messages} messages ({stashed} stashed), {rounds} rounds of collectives ({sent} messages in all), {errors} errors, {events} events; all properties hold"
    );
    ExitCode::SUCCESS
}
