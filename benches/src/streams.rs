//! Windows of persistent and of one-shot messages.

use std::collections::VecDeque;
use std::ops::Range;

use ropeway::{Buffer, Pending, RecvRequest, SendRequest, start_all};

use crate::BenchError;
use crate::pair::Pair;
use crate::window::{Course, Stream};

pub(crate) struct Persistent {
    pair: Pair,
    window: usize,
    sends: Vec<SendRequest<u8>>,
    recvs: Vec<RecvRequest<u8>>,
}

impl Persistent {
    pub(crate) fn new(pair: &Pair, course: Course) -> Result<Self, BenchError> {
        let Pair { world, peer, .. } = pair;
        let send = |_| world.send_init(world.alloc(course.bytes)?, *peer, WINDOWED);
        let recv = |_| world.recv_init(world.alloc(course.bytes)?, *peer, WINDOWED);
        Ok(Self {
            window: course.window,
            sends: (0..course.sends(pair)).map(send).collect::<Result<_, _>>()?,
            recvs: (0..course.recvs(pair)).map(recv).collect::<Result<_, _>>()?,
            pair: pair.clone(),
        })
    }
}

impl Stream for Persistent {
    const NAME: &'static str = "persistent";

    fn outgoing(&mut self, each: &mut dyn FnMut(usize, &mut [u8])) {
        self.sends.iter_mut().enumerate().for_each(|(index, send)| each(index, send.buffer_mut()));
    }

    fn arm(&mut self) -> Result<(), BenchError> {
        for recv in &mut self.recvs {
            let _ = recv.start()?;
        }
        Ok(())
    }

    fn transfer(&mut self, window: usize) -> Result<(), BenchError> {
        let (outgoing, incoming) =
            (nth(window, self.window, self.sends.len()), nth(window, self.window, self.recvs.len()));
        let sending = start_all(&mut self.sends[outgoing])?;
        for recv in &mut self.recvs[incoming] {
            if let Some(receiving) = recv.active() {
                receiving.wait()?;
            }
        }
        Ok(sending.wait_all()?)
    }

    fn meet(&mut self) -> Result<(), BenchError> {
        self.pair.meet()
    }

    fn incoming(&mut self, each: &mut dyn FnMut(usize, &[u8])) {
        self.recvs.iter().enumerate().for_each(|(index, recv)| each(index, recv.buffer()));
    }
}

impl SingleCalls for Persistent {
    fn start_sends(&mut self, part: Range<usize>) -> Result<(), BenchError> {
        // One side of the pair has none.
        for send in self.sends.iter_mut().take(part.end).skip(part.start) {
            let _ = send.start()?;
        }
        Ok(())
    }

    fn wait_recvs(&mut self) -> Result<(), BenchError> {
        for recv in &mut self.recvs {
            if let Some(receiving) = recv.active() {
                receiving.wait()?;
            }
        }
        Ok(())
    }

    fn wait_sends(&mut self) -> Result<(), BenchError> {
        for send in &mut self.sends {
            if let Some(sending) = send.active() {
                sending.wait()?;
            }
        }
        Ok(())
    }
}

pub(crate) struct OneShot {
    pair: Pair,
    window: usize,
    outgoing: VecDeque<Buffer<u8>>,
    incoming: VecDeque<Buffer<u8>>,
    sending: VecDeque<Pending<u8>>,
    receiving: VecDeque<Pending<u8>>,
}

impl OneShot {
    pub(crate) fn new(pair: &Pair, course: Course) -> Result<Self, BenchError> {
        let buffers = |count| (0..count).map(|_| pair.world.alloc(course.bytes)).collect::<Result<VecDeque<_>, _>>();
        let (outgoing, incoming) = (buffers(course.sends(pair))?, buffers(course.recvs(pair))?);
        Ok(Self {
            pair: pair.clone(),
            window: course.window,
            sending: VecDeque::with_capacity(outgoing.len()),
            receiving: VecDeque::with_capacity(incoming.len()),
            outgoing,
            incoming,
        })
    }

    fn send(&mut self, count: usize) -> Result<(), BenchError> {
        for buffer in self.outgoing.drain(..count) {
            self.sending.push_back(self.pair.world.isend(buffer, self.pair.peer, WINDOWED)?);
        }
        Ok(())
    }

    fn end_recvs(&mut self, count: usize) -> Result<(), BenchError> {
        for receiving in self.receiving.drain(..count) {
            self.incoming.push_back(receiving.wait()?.0);
        }
        Ok(())
    }
}

impl Stream for OneShot {
    const NAME: &'static str = "oneshot";

    fn outgoing(&mut self, each: &mut dyn FnMut(usize, &mut [u8])) {
        self.outgoing.iter_mut().enumerate().for_each(|(index, message)| each(index, message));
    }

    fn arm(&mut self) -> Result<(), BenchError> {
        for buffer in self.incoming.drain(..) {
            self.receiving.push_back(self.pair.world.irecv(buffer, self.pair.peer, WINDOWED)?);
        }
        Ok(())
    }

    fn transfer(&mut self, _: usize) -> Result<(), BenchError> {
        // Buffers that have been sent come back behind those that wait for their window.
        self.send(self.window.min(self.outgoing.len()))?;
        self.end_recvs(self.window.min(self.receiving.len()))?;
        self.wait_sends()
    }

    fn meet(&mut self) -> Result<(), BenchError> {
        self.pair.meet()
    }

    fn incoming(&mut self, each: &mut dyn FnMut(usize, &[u8])) {
        self.incoming.iter().enumerate().for_each(|(index, message)| each(index, message));
    }
}

impl SingleCalls for OneShot {
    fn start_sends(&mut self, part: Range<usize>) -> Result<(), BenchError> {
        self.send(part.len().min(self.outgoing.len()))
    }

    fn wait_recvs(&mut self) -> Result<(), BenchError> {
        self.end_recvs(self.receiving.len())
    }

    fn wait_sends(&mut self) -> Result<(), BenchError> {
        for sending in self.sending.drain(..) {
            self.outgoing.push_back(sending.wait()?.0);
        }
        Ok(())
    }
}

/// A whole batch in calls for one message each.
pub(crate) trait SingleCalls: Stream {
    /// A part of a window.
    fn start_sends(&mut self, part: Range<usize>) -> Result<(), BenchError>;
    fn wait_recvs(&mut self) -> Result<(), BenchError>;
    fn wait_sends(&mut self) -> Result<(), BenchError>;
}

/// The requests of a window; none if there are none at all.
fn nth(window: usize, size: usize, len: usize) -> Range<usize> {
    (window * size).min(len)..((window + 1) * size).min(len)
}

const WINDOWED: i32 = 2;
