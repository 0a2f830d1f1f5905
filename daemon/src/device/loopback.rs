//! Between two engines of one process, for tests: a pipe of bytes with a limit, and the wire format on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ropeway_proto::frame::{HEADER_BYTES, Header};

use super::{Device, Inbound, LinkError, Outbound, Target, Traffic, count_copy};

/// One end of an in-memory link.
pub struct LoopbackDevice {
    outgoing: Arc<Mutex<Pipe>>,
    incoming: Arc<Mutex<Pipe>>,
    sequence: u64,
}

#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    is_closed: bool,
}

/// A pipe that holds so much takes no further frame.
const PIPE_BYTES: usize = 1 << 20;

impl LoopbackDevice {
    /// Two ends of one link.
    pub fn pair() -> (Self, Self) {
        let (a, b) = (Arc::<Mutex<Pipe>>::default(), Arc::<Mutex<Pipe>>::default());
        let end = |outgoing: &Arc<_>, incoming: &Arc<_>| Self {
            outgoing: Arc::clone(outgoing),
            incoming: Arc::clone(incoming),
            sequence: 0,
        };
        (end(&a, &b), end(&b, &a))
    }

    fn send(&mut self, traffic: &mut dyn Traffic) -> Result<usize, LinkError> {
        let mut pipe = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while pipe.bytes.len() < PIPE_BYTES {
            let Some(Outbound { job, frame, payload, token }) = traffic.poll() else { break };
            self.sequence += 1;
            pipe.bytes.extend(Header { sequence: self.sequence, job, frame }.encode());
            let bytes = u64::from(frame.payload_bytes());
            if let Some((from, layout, at)) = payload {
                let mut copy = vec![0; bytes as usize];
                from.read(&layout, at, &mut copy)?;
                count_copy(traffic, bytes);
                pipe.bytes.extend(copy);
            }
            if let Some(token) = token {
                traffic.transmitted(job, token, bytes);
            }
            done += 1;
        }
        Ok(done)
    }

    fn receive(&mut self, traffic: &mut dyn Traffic) -> Result<usize, LinkError> {
        let mut pipe = self.incoming.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while pipe.bytes.len() >= HEADER_BYTES {
            let mut header = [0; HEADER_BYTES];
            header.iter_mut().zip(pipe.bytes.drain(..HEADER_BYTES)).for_each(|(to, byte)| *to = byte);
            let Header { job, frame, .. } = Header::decode(&header)?;
            let mut inbound = traffic.accept(job, frame)?;
            let payload: Vec<u8> = pipe.bytes.drain(..frame.payload_bytes() as usize).collect();
            match &mut inbound.target {
                Target::Buffer { segment, layout, at } => segment.write(layout, *at, &payload)?,
                Target::Stash(stash) => stash.copy_from_slice(&payload),
                Target::Discard => {}
            }
            count_copy(traffic, payload.len() as u64);
            traffic.arrived(inbound);
            done += 1;
        }
        if done == 0 && pipe.is_closed { Err(LinkError::Closed) } else { Ok(done) }
    }
}

impl Device for LoopbackDevice {
    fn progress(&mut self, traffic: &mut dyn Traffic, _now: Instant) -> Result<usize, LinkError> {
        Ok(self.receive(traffic)? + self.send(traffic)?)
    }

    fn arriving(&mut self) -> Option<&mut Inbound> {
        None
    }
}

impl Drop for LoopbackDevice {
    fn drop(&mut self) {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
    }
}
