//! Several engines, a network between them and programs on top of them, on one thread, in virtual time, from one seed.
//!
//! The engines are the very code the daemon runs. Clock, network, memory and clients are made up, and so are their moods:
//! messages of all sizes in all layouts, starts in any order, cancels and frees at any moment, collectives between nodes by all
//! algorithms, slow links, tiny credits, and on request ranks that die and links that break. What happened is written into a [`History`](history::History), and one
//! [`checker`] per property reads it afterwards. The same seed gives the same history.
//!
//! | file | what |
//! |---|---|
//! | [`workload`] | everything that is random about a run: shape, limits, delays, programs, faults |
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
pub mod workload;

use std::fmt;

use cluster::Cluster;
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

/// A property that does not hold, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// Whether the run had faults.
    pub has_faults: bool,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = if self.has_faults { " --faults" } else { "" };
        let Self { seed, what, .. } = self;
        write!(f, "{what}\nreplay: cargo run --release -p ropeway-sim -- --seed {seed}{faults} --verbose")
    }
}

/// Runs one seed and checks every property.
pub fn run(seed: u64, has_faults: bool, is_verbose: bool) -> Result<Summary, Failure> {
    // A panic has printed itself; the seed is still to be told.
    let outcome = std::panic::catch_unwind(|| simulate(Workload::random(seed, has_faults), is_verbose))
        .unwrap_or_else(|_| Err("a panic".to_owned()));
    outcome.map_err(|what| Failure { seed, has_faults, what })
}

/// Runs a workload and checks every property; says which does not hold.
pub fn simulate(workload: Workload, is_verbose: bool) -> Result<Summary, String> {
    let mut cluster = Cluster::new(workload, is_verbose);
    cluster.run()?;
    checker::check(&cluster)?;
    Ok(cluster.summary())
}
