//! Ropeway's microbenchmarks: what the ranks do, and what is said about it.
//!
//! The tool (`ropeway bench`) starts daemons and ranks. Each rank calls [`run`] with the [`Plan`]; rank 0 talks to the tool
//! through its [`Console`]. What has been measured comes back as [`Measured`], to which the tool adds what only it knows,
//! which makes a [`Record`].
//!
//! A benchmark is a race between *contestants*, for example persistent messages, one-shot messages and the floor: what the
//! machine can do without us. They take turns, run by run, so that whatever disturbs the machine disturbs all of them.
#![forbid(unsafe_code)]

mod asynchrony;
mod bandwidth;
mod computation;
mod console;
mod error;
mod exchange;
mod floor;
mod gather;
mod idle;
mod latency;
mod overlap;
mod pair;
mod pattern;
mod plan;
mod race;
mod record;
mod statistics;
mod table;

pub use computation::Compute;
pub use console::{Console, Line};
pub use error::BenchError;
pub use gather::gather;
pub use idle::cpu_time;
pub use plan::{Bench, Plan, Size};
pub use record::{Floor, Measured, Record, Setting, Side};
pub use ropeway_examples::Mode;
pub use statistics::{Summary, significant};
pub use table::Table;

use ropeway::Session;

/// Does a rank's part of a benchmark.
pub fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    match plan.bench {
        Bench::Latency => latency::run(session, console, plan),
        Bench::Bandwidth => bandwidth::run(session, console, plan),
        Bench::Idle => idle::run(session, console, plan),
        Bench::Overlap => overlap::run(session, console, plan),
        Bench::Asynchrony => asynchrony::run(session, console, plan),
    }
}
