//! What messages of collectives cost between two daemons of this machine.

use std::time::{Duration, Instant};

use ropeway::{Error, Session};
use ropeway_daemon::Config;
use ropeway_daemon::calibration::measure_combining;
use ropeway_proto::costs::Costs;
use ropeway_schedule::CostTable;

use crate::failure::Failure;
use crate::launch::{Daemons, Job};

/// Elements of a message that is all bytes.
const LARGE: usize = 4 << 20;

/// Measures the costs, each for about so long. `copy_byte_ns` is what copying a byte takes.
///
/// How a message's start divides into overhead and latency can't be seen from outside, so it is divided as in the defaults.
pub(super) fn measure(time: Duration, copy_byte_ns: f64) -> Result<Costs, Failure> {
    let [start_up_ns, large_ns] = [1, LARGE].map(|count| message_ns(time, count));
    let start_up_ns = start_up_ns?;
    let byte_ns = (large_ns? - start_up_ns) / LARGE as f64;
    let default = CostTable::default();
    let scale = start_up_ns / default.start_up_ns();
    let combine_byte_ns = measure_combining(time).map_err(Failure::other)?;
    let ns = [default.overhead_ns * scale, default.latency_ns * scale, byte_ns, combine_byte_ns, copy_byte_ns];
    Costs::from_ns(ns).map_err(|error| Failure::Other(format!("the machine is too busy to be measured: {error}")))
}

/// How long a message of so many bytes takes from one node's ranks to those of another, from the shortest of many broadcasts to
/// and fro.
fn message_ns(time: Duration, count: usize) -> Result<f64, Failure> {
    let daemons = Daemons::embedded(2, &Config::default())?;
    let job = Job::create(&daemons, 2)?;
    let attach = |rank| job.attach(&daemons, rank);
    let sessions = [attach(0)?, attach(1)?];
    let [one, other] = std::thread::scope(|scope| {
        sessions.map(|session| scope.spawn(move || to_and_fro(&session, time, count))).map(|rank| rank.join())
    })
    .map(|rank| rank.expect("a rank that measures does not panic").map_err(Failure::other));
    Ok(one?.min(other?).as_nanos() as f64 / 2.0)
}

/// The shortest time of a broadcast to the other rank and one back. Both go on until the first says that time is up.
fn to_and_fro(session: &Session, time: Duration, count: usize) -> Result<Duration, Error> {
    let world = session.world().with_algorithm("linear");
    let mut broadcasts = [world.bcast_init::<u8>(count, 0)?, world.bcast_init::<u8>(count, 1)?];
    let (begin, mut shortest) = (Instant::now(), Duration::MAX);
    let mut is_over = false;
    while !is_over {
        let round = Instant::now();
        if world.rank() == 0 {
            broadcasts[0].output_mut()[0] = u8::from(begin.elapsed() >= time);
        }
        for broadcast in &mut broadcasts {
            broadcast.start()?.wait()?;
        }
        shortest = shortest.min(round.elapsed());
        is_over = broadcasts[0].output()[0] != 0;
    }
    Ok(shortest)
}
