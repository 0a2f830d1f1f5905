//! Half the time of a round trip between the first and the last rank.

use ropeway::Session;
use ropeway_examples::Mode;

use crate::floor::Handover;
use crate::pair::Pair;
use crate::ping_pong::{PingPong, WARMUP};
use crate::race::{Contestant, Entrant, take_turns};
use crate::trip::{OneShot, Persistent, Tcp};
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    let floor_name = if plan.crosses_nodes { "tcp ping-pong" } else { "cache lines, memcpy" };
    for &size in &plan.sizes {
        let mut entrants = Vec::new();
        for &mode in &plan.modes {
            let make = |pair: &Pair| contestant(pair, mode, size.0, plan);
            entrants.push(Entrant::new(mode.to_string(), pair.as_ref(), make)?);
        }
        entrants.push(Entrant::new("floor", pair.as_ref(), |pair| floor(session, pair, size.0, plan))?);
        let series = take_turns(console, plan.runs, &mut entrants)?;
        let (floor, of_modes) = series.split_last().expect("the floor is always there");
        for (&mode, series) in plan.modes.iter().zip(of_modes) {
            let Some(summary) = series.summary() else { continue };
            let measured = Measured {
                mode: Some(mode),
                bytes: Some(size.0),
                floor: series.above(floor, floor_name),
                ..Measured::new("half_rtt", "us", summary, plan.runs)
            };
            console.outcome(&mode.to_string(), measured)?;
        }
    }
    Ok(())
}

fn contestant(pair: &Pair, mode: Mode, bytes: usize, plan: &Plan) -> Result<Box<dyn Contestant>, BenchError> {
    let effort = plan.effort(CONTESTANTS, WARMUP);
    Ok(match mode {
        Mode::Persistent => Box::new(PingPong::new(pair, Persistent::new(pair, bytes)?, effort)),
        Mode::OneShot => Box::new(PingPong::new(pair, OneShot::new(pair, bytes)?, effort)),
    })
}

fn floor(session: &Session, pair: &Pair, bytes: usize, plan: &Plan) -> Result<Box<dyn Contestant>, BenchError> {
    let effort = plan.effort(CONTESTANTS, WARMUP);
    if plan.crosses_nodes {
        return Ok(Box::new(PingPong::new(pair, Tcp::new(pair, bytes, plan)?, effort)));
    }
    Ok(Box::new(Handover::new(session, pair, bytes, effort.time)))
}

/// Checking the data takes about as long as moving it, so each of persistent, one-shot and floor counts twice.
const CONTESTANTS: usize = 6;
