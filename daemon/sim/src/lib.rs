//! Several engines, a network between them and programs on top of them, on one thread, in virtual time, from one seed.
//!
//! The engines are the very code the daemon runs. Clock, network, memory and clients are made up, and so are their moods:
//! messages of all sizes in all layouts, starts in any order, cancels and frees at any moment, collectives between nodes by all
//! algorithms, slow links, tiny credits, and on request ranks that die and links that break. What happened is written into a
//! [`History`](history::History), and one [`checker`] per property reads it afterwards. The same seed gives the same history.
//!
//! | file | what |
//! |---|---|
//! | [`workload`] | everything that is random about a run: shape, limits, delays, programs, faults |
//! | [`sweep`] | runs of which only limits and delays are random: every collective by every algorithm at every size |
//! | [`cluster`] | the event queue; engines, memory and clients, and what passes between them |
//! | [`network`] | links: bandwidth, delay, pauses, payload in pieces |
//! | [`client`] | programs: persistent channels, one-shot messages |
//! | [`participant`] | a node's part in a collective |
//! | [`checker`] | one property a file |
#![forbid(unsafe_code)]

pub mod checker;
pub mod client;
pub mod cluster;
pub mod history;
pub mod message;
pub mod network;
pub mod participant;
pub mod sweep;
pub mod workload;

use std::fmt;
use std::ops::AddAssign;
use std::panic::{UnwindSafe, catch_unwind};

use cluster::Cluster;
use sweep::Case;
use workload::Workload;

/// What a run that found nothing amounts to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Messages of ranks that were received.
    pub messages: usize,
    /// Messages that were sent, those of collectives and their signals among them.
    pub sent: u64,
    /// Rounds of collectives that ended well, counted at each participant.
    pub rounds: usize,
    /// Events of the simulation.
    pub events: u64,
    /// Operations and rounds that ended with an error, cancels not counted.
    pub errors: usize,
    /// Messages that came before their receive.
    pub stashed: u64,
}

impl AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        let Self { messages, sent, rounds, events, errors, stashed } = other;
        self.messages += messages;
        self.sent += sent;
        self.rounds += rounds;
        self.events += events;
        self.errors += errors;
        self.stashed += stashed;
    }
}

/// A property that does not hold, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run, or the number of the case.
    pub seed: u64,
    /// Further arguments that make it the same run.
    flags: &'static str,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, flags, what } = self;
        write!(f, "{what}\nreplay: cargo run --release -p ropeway-sim -- --seed {seed} --seeds 1{flags} --verbose")
    }
}

/// Runs one seed and checks every property.
pub fn run(seed: u64, has_faults: bool, is_verbose: bool) -> Result<Summary, Failure> {
    let outcome = attempt(|| Workload::random(seed, has_faults), is_verbose);
    outcome.map_err(|what| Failure { seed, flags: if has_faults { " --faults" } else { "" }, what })
}

/// Runs one case of the [`sweep`] and checks every property.
pub fn run_case(case: &Case, is_verbose: bool) -> Result<Summary, Failure> {
    let outcome = attempt(|| case.workload(), is_verbose);
    outcome.map_err(|what| Failure { seed: case.number, flags: " --collectives", what })
}

fn attempt(workload: impl FnOnce() -> Workload + UnwindSafe, is_verbose: bool) -> Result<Summary, String> {
    // A panic has printed itself; which run it was is still to be told.
    catch_unwind(|| simulate(workload(), is_verbose)).unwrap_or_else(|_| Err("a panic".to_owned()))
}

/// Runs a workload and checks every property; says which does not hold.
pub fn simulate(workload: Workload, is_verbose: bool) -> Result<Summary, String> {
    let mut cluster = Cluster::new(workload, is_verbose);
    cluster.run()?;
    checker::check(&cluster)?;
    Ok(cluster.summary())
}
