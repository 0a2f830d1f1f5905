//! Ropeway's microbenchmarks: what the ranks do, and what is said about it.
//!
//! The tool (`ropeway bench`) starts daemons and ranks. Each rank calls [`run`] with the [`Plan`]; rank 0 talks to the tool
//! through its [`Console`]. What has been measured comes back as [`Measured`], to which the tool adds what only it knows,
//! which makes a [`Record`].
//!
//! A benchmark is a race between *contestants*, for example persistent messages, one-shot messages and the floor: what the
//! machine can do without us. They take turns, run by run, so that whatever disturbs the machine disturbs all of them.
#![forbid(unsafe_code)]

mod allocations;
mod asynchrony;
mod bandwidth;
mod bare;
pub mod boum;
mod called;
mod calls;
mod clock;
mod coll;
mod computation;
mod connection;
mod console;
mod contest;
mod contribution;
mod copying;
mod cores;
mod cpu;
mod error;
mod everyone;
mod exchange;
mod floor;
pub mod floors;
mod gather;
mod hiding;
mod idle;
mod joint;
mod kernel;
mod latency;
mod lines;
mod link;
mod mailbox;
mod memory;
mod message_rate;
mod method;
pub mod micro;
mod mid_page;
mod mover;
mod notification;
mod operation;
mod overhead;
mod overlap;
mod pair;
mod parts;
mod pattern;
mod persistence;
mod ping_pong;
mod plan;
mod progress;
mod race;
mod receiving;
mod record;
mod scheduled;
mod set_up;
mod shape;
mod skew;
mod starts;
mod statistics;
mod stream;
mod streams;
mod timetable;
mod together;
mod torus;
mod trip;
mod unparking;
mod wakeup;
mod window;

pub use computation::Compute;
pub use console::{Console, Line};
pub use contest::{Contest, Figure, Kind, MPI_CONTEST, MPI_HEADERS};
pub use contribution::{element_bytes, operators};
pub use cpu::s_per_gib;
pub use error::BenchError;
pub use gather::gather;
pub use idle::cpu_time;
pub use method::{Division, Method, UnknownDivision};
pub use notification::Notification;
pub use operation::{CollectiveCall, Operation};
pub use plan::{Bench, Plan};
pub use progress::Progress;
pub use race::is_beside_links;
pub use record::{Floor, Measured, Ratio, Record, Setting, Side};
pub use ropeway_examples::{Mode, Size, Table};
pub use starts::Arrival;
pub use statistics::{Doubt, Doubts, Summary, permutation_test, significant};
pub use torus::torus;

use ropeway::Session;

/// Does a rank's part of a benchmark.
pub fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    if plan.pin {
        cores::pin(session.world().rank())?;
    }
    if plan.counts_allocations {
        console.count_allocations();
    }
    match plan.bench {
        Bench::Latency => latency::run(session, console, plan),
        Bench::Stream => stream::run(session, console, plan),
        Bench::Bandwidth => bandwidth::run(session, console, plan),
        Bench::MessageRate => message_rate::run(session, console, plan),
        Bench::Overhead => overhead::run(session, console, plan),
        Bench::Persistence => persistence::run(session, console, plan),
        Bench::Cpu => cpu::run(session, console, plan),
        Bench::Idle => idle::run(session, console, plan),
        Bench::Wakeup => wakeup::run(session, console, plan),
        Bench::Skew => skew::run(session, console, plan),
        Bench::Compare => contest::run(session, console, plan),
        Bench::Coll => coll::run(session, console, plan),
        Bench::Overlap => overlap::run(session, console, plan),
        Bench::Asynchrony => asynchrony::run(session, console, plan),
        Bench::Boum => boum::run(session, console, plan),
    }
}

/// For tests: daemons and ranks in threads of this process.
#[cfg(test)]
#[path = "../../daemon/tests/common/mod.rs"]
mod cluster;
