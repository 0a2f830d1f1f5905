//! Between the ranks of one node: one copy, from the sender's buffer to the receiver's.

use std::time::Instant;

use super::{Device, Inbound, LinkError, Outbound, Target, Traffic, count_copy};

/// The self link of a node. What is sent over it has arrived at once.
#[derive(Default)]
pub struct ShmDevice;

/// Frames moved in one cycle. Large messages come in chunks that take turns, so this bounds the time as well.
const FRAMES_PER_CYCLE: usize = 16;

impl Device for ShmDevice {
    fn progress(&mut self, traffic: &mut dyn Traffic, _now: Instant) -> Result<usize, LinkError> {
        for done in 0..FRAMES_PER_CYCLE {
            let Some(outbound) = traffic.poll() else { return Ok(done) };
            deliver(outbound, traffic)?;
        }
        Ok(FRAMES_PER_CYCLE)
    }

    fn arriving(&mut self) -> Option<&mut Inbound> {
        None
    }
}

fn deliver(outbound: Outbound, traffic: &mut dyn Traffic) -> Result<(), LinkError> {
    let Outbound { job, frame, payload, token } = outbound;
    let bytes = u64::from(frame.payload_bytes());
    let mut inbound = traffic.accept(job, frame)?;
    if let Some((from, from_layout, from_at)) = payload {
        match &mut inbound.target {
            Target::Buffer { layout, at, .. } => from.copy(&from_layout, from_at, layout, *at, bytes)?,
            Target::Stash(stash) => from.read(&from_layout, from_at, stash)?,
            Target::Discard => {}
        }
        count_copy(traffic, bytes);
    }
    traffic.arrived(inbound);
    if let Some(token) = token {
        traffic.transmitted(job, token, bytes);
    }
    Ok(())
}
