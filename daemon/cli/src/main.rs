//! `ropeway`: starts jobs, demonstrates and measures.
#![forbid(unsafe_code)]
// They panic when nobody reads any more: `failure::tell` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod bench;
mod calibrate;
mod configuration;
mod daemon;
mod demo;
mod division;
mod explain;
mod failure;
mod files;
mod history;
mod launch;
mod predict;
mod rank;
mod run;
mod steps;
mod svg;
mod words;

use std::alloc::System;
use std::env;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Counts, for benchmarks that tell how often ranks allocate.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Message passing with early binding and a progress daemon per node.
#[derive(Parser)]
#[command(name = "ropeway", version, after_help = EXAMPLES)]
struct Tool {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Flags),
    Demo(demo::Flags),
    Bench(bench::Command),
    Calibrate(calibrate::Flags),
    Explain(explain::Flags),
    Predict(predict::Flags),
    Daemon(daemon::Flags),
    /// What the tool starts as a rank of its own jobs.
    #[command(hide = true)]
    Rank(rank::Flags),
}

fn main() -> ExitCode {
    let filter = env::var("RUST_LOG").ok().and_then(|targets| targets.parse().ok());
    let lines = fmt::layer()
        .with_writer(io::stderr)
        // It would say so by a macro that panics.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal());
    tracing_subscriber::registry()
        .with(lines)
        .with(filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN)))
        .init();
    launch::raise_open_files();
    let result = match Tool::parse().command {
        Command::Run(flags) => run::run(&flags),
        Command::Demo(flags) => demo::run(&flags),
        Command::Bench(command) => bench::run(&command),
        Command::Calibrate(flags) => calibrate::run(&flags),
        Command::Explain(flags) => explain::run(&flags),
        Command::Predict(flags) => predict::run(&flags),
        Command::Daemon(flags) => daemon::run(flags),
        Command::Rank(flags) => rank::run(&flags),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.code())
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  ropeway demo                                   solve a system with and without early binding
  ropeway run -n 4 -- ./my-program --its-flag    start four ranks on this node
  ropeway run -n 4 --nodes 2 -- ./my-program     the same on two daemons, joined by TCP
  ropeway bench latency --sizes 8,1K,64K
  ropeway bench report --quick                   all benchmarks on a page, to be opened in a browser
  ropeway bench coll allreduce -n 4              how long a collective takes, and how much of it computing hides
  ropeway calibrate --quick                      what this machine can do, and the sizes that follow
  ropeway run -n 4 --record run.jsonl -- ./my-program
  ropeway predict run.jsonl                      where its time went, and what persistence and overlap would save
  ropeway explain allreduce -n 64 --bytes 1M     which algorithm, why, and what each participant does
  ropeway predict --compute 5ms --message 64K    what early binding and overlap would gain a program

`ropeway COMMAND --help` says more. Log: set RUST_LOG, for example RUST_LOG=debug.";
