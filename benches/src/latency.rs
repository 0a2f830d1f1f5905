//! Half the time of a round trip between the first and the last rank.

use ropeway::Session;
use ropeway_examples::Mode;

use crate::floor::Handover;
use crate::pair::Pair;
use crate::ping_pong::{PingPong, WARMUP};
use crate::race::{Contestant, Metric, race_modes};
use crate::trip::{OneShot, Persistent, Tcp};
use crate::{BenchError, Console, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    let floor_name = if plan.crosses_nodes() { "tcp ping-pong" } else { "cache lines, memcpy" };
    let metric = Metric { name: "half_rtt", unit: "us", floor: floor_name };
    let contestant = |pair: &Pair, mode, bytes| contestant(pair, mode, bytes, plan);
    let floor = |pair: &Pair, bytes| floor(session, pair, bytes, plan);
    race_modes((session, pair.as_ref()), console, plan, &metric, contestant, floor)
}

fn contestant(pair: &Pair, mode: Mode, bytes: usize, plan: &Plan) -> Result<Box<dyn Contestant>, BenchError> {
    let effort = plan.effort(CONTESTANTS * plan.notification.len(), WARMUP);
    Ok(match mode {
        Mode::Persistent => Box::new(PingPong::new(pair, Persistent::new(pair, bytes)?, effort)),
        Mode::OneShot => Box::new(PingPong::new(pair, OneShot::new(pair, bytes)?, effort)),
    })
}

fn floor(session: &Session, pair: &Pair, bytes: usize, plan: &Plan) -> Result<Box<dyn Contestant>, BenchError> {
    let effort = plan.effort(CONTESTANTS * plan.notification.len(), WARMUP);
    if plan.crosses_nodes() {
        return Ok(Box::new(PingPong::new(pair, Tcp::new(pair, bytes, &plan.addresses)?, effort)));
    }
    Ok(Box::new(Handover::new(session, pair, bytes, effort.time)))
}

/// Checking the data takes about as long as moving it, so each of persistent, one-shot and floor counts twice.
const CONTESTANTS: usize = 6;
