//! To another node, over TCP: vectored I/O straight from and into bound buffers.
//!
//! *Out*: frames wait in a short queue; one `sendmsg` takes as many headers and payloads as fit. The queue is short so that
//! the engine, which knows what is fair, decides late.
//!
//! *In*: one read fills the rest of the payload that is arriving and, behind it, a staging buffer with what follows. From
//! there small frames are parsed without a system call each. While a large message is due, only a header's worth is
//! staged, so that none of its payload takes the detour.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use ropeway_engine::Token;
use ropeway_proto::frame::{HEADER_BYTES, Header};
use ropeway_proto::limits::CHUNK_BYTES;
use ropeway_proto::{Frame, JobId, Layout};
use ropeway_shm::{Counter, Gather, JobSegment, Scatter, set_receive_low_water};
use socket2::SockRef;

use super::{Device, Inbound, LinkError, Target, Traffic, count_copy};

/// What the poll loop says of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There is something to read.
    pub is_readable: bool,
    /// There is room.
    pub is_writable: bool,
    /// The peer sends no more, or the connection is lost: its end is to be read, behind what has come before. It is told once.
    pub is_ending: bool,
}

/// A connected link, past its hello.
pub struct TcpDevice {
    stream: TcpStream,
    is_readable: bool,
    is_writable: bool,
    /// Its end is there, and was not read yet.
    is_ending: bool,
    out: Out,
    input: Input,
    timeout: Duration,
    last_sent: Instant,
    last_heard: Instant,
    last_cycle: Instant,
    /// Bytes that have to be there before the poll loop tells of them.
    low_water: u32,
    /// Since when nothing but frames that can wait is queued.
    held_since: Option<Instant>,
}

struct Out {
    queue: VecDeque<Pending>,
    /// How many bytes of frames are lined up at once. Twice as many when the connection took all of them: each call for a part of a
    /// large message costs as much as 100 KiB of it. Few when it did not: what comes meanwhile waits behind them.
    batch_bytes: u64,
    /// How many of the queued frames are urgent.
    urgent: usize,
    /// Bytes of the first queued frame, header included, that have left.
    sent_of_first: u64,
    queued_bytes: u64,
    sequence: u64,
}

/// A frame on its way into the socket.
struct Pending {
    header: [u8; HEADER_BYTES],
    job: JobId,
    payload: Option<(Arc<JobSegment>, Layout, u64)>,
    payload_bytes: u64,
    token: Option<Token>,
    is_urgent: bool,
}

struct Input {
    staging: Box<[u8]>,
    /// The part of `staging` that holds bytes not looked at yet.
    start: usize,
    end: usize,
    arriving: Option<Arriving>,
    sequence: u64,
    /// What the engines say, which know how receives end: a large message that was asked for is to come.
    is_large_due: bool,
    scratch: Vec<u8>,
}

/// A frame whose payload is not complete.
struct Arriving {
    inbound: Inbound,
    filled: u64,
    bytes: u64,
}

/// A part of a large payload that is worth a wake-up.
const LOW_WATER_MAX: u64 = 128 << 10;
const STAGING_BYTES: usize = 16 << 10;
const SCRATCH_BYTES: usize = 64 << 10;
/// A link that was heard of so recently is likely to be heard of again at any moment.
const HOT: Duration = Duration::from_micros(200);
/// How long credit waits for company: longer than a program takes to answer, shorter than it takes to use up the rest.
const HOLD: Duration = Duration::from_micros(8);
const QUEUE_FRAMES: usize = 64;
/// Bytes of frames that are lined up behind others.
const QUEUE_BYTES: u64 = 512 << 10;
/// What leaves in one cycle.
const CYCLE_BYTES: u64 = 2 << 20;
/// Bytes that the kernel keeps beyond what is on its way. By itself it keeps megabytes, and every message waits behind them.
const UNSENT_BYTES_MAX: u32 = CHUNK_BYTES as u32;
/// While so much of a large message is copied more of it arrives.
const LONG_COPY: usize = 32 << 10;
/// System calls of one kind in one cycle.
const CALLS_PER_CYCLE: usize = 4;

impl TcpDevice {
    /// Takes a connection over. `timeout`: a peer that is silent for so long is lost.
    pub fn new(stream: TcpStream, timeout: Duration, now: Instant) -> Self {
        if let Err(error) = SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX) {
            // It works without, and is less fair.
            tracing::debug!(%error, "the kernel keeps as much as it likes of what a link sends");
        }
        Self {
            stream,
            is_readable: true,
            is_writable: true,
            is_ending: false,
            out: Out::new(),
            input: Input::new(),
            timeout,
            last_sent: now,
            last_heard: now,
            last_cycle: now,
            low_water: 1,
            held_since: None,
        }
    }

    /// The poll loop says that the connection is worth another try.
    pub fn set_ready(&mut self, ready: Readiness) {
        let Readiness { is_readable, is_writable, is_ending } = ready;
        self.is_ending |= is_ending;
        self.is_readable |= is_readable || is_ending;
        self.is_writable |= is_writable;
    }

    /// Has the next cycle look for bytes, whether or not the poll loop has announced any. While messages go to and fro that
    /// is cheaper than to ask the poll loop first.
    pub fn probe(&mut self, now: Instant) {
        self.is_readable |= now.duration_since(self.last_heard) < HOT;
    }

    /// Whether a large message that we have asked for is to arrive.
    pub fn awaits_large(&self) -> bool {
        self.input.is_large_due || self.input.missing() > 1
    }

    /// Whether frames that can't wait have not left, or a part of one.
    pub fn has_unsent(&self) -> bool {
        self.out.urgent > 0 || self.out.sent_of_first > 0
    }

    /// When [`progress`](Device::progress) has to be called again even if nothing happens.
    pub fn deadline(&self) -> Instant {
        let alive = (self.last_sent + self.timeout / 4).min(self.last_heard + self.timeout);
        self.held_since.map_or(alive, |since| alive.min(since + HOLD))
    }

    /// Before bytes are taken: who seems to have been silent for too long may have been heard by the kernel, which tells of
    /// few bytes late or not at all ([`prepare_sleep`](Self::prepare_sleep)).
    fn listen_to_silence(&mut self, now: Instant) {
        // Whoever was stopped itself must not blame the peer for the silence.
        if now.duration_since(self.last_cycle) > self.timeout / 2 {
            self.last_heard = now;
        }
        self.last_cycle = now;
        self.is_readable |= self.is_silent(now);
    }

    fn is_silent(&self, now: Instant) -> bool {
        now.duration_since(self.last_heard) > self.timeout
    }

    fn keep_alive(&mut self, now: Instant) -> Result<(), LinkError> {
        if self.is_silent(now) {
            return Err(LinkError::Silent(self.timeout));
        }
        if now.duration_since(self.last_sent) >= self.timeout / 4 {
            self.last_sent = now;
            let frame = Frame::Heartbeat { acknowledged: self.input.sequence };
            self.out.push(JobId(0), frame, None, None);
        }
        Ok(())
    }

    fn send(&mut self, traffic: &mut dyn Traffic, now: Instant) -> Result<usize, LinkError> {
        let (mut done, mut sent) = (0, 0);
        for _ in 0..CALLS_PER_CYCLE {
            if !self.is_writable || sent >= CYCLE_BYTES {
                break;
            }
            self.fill(traffic);
            if self.out.queue.is_empty() || self.is_held(now) {
                break;
            }
            let (wanted, result) = self.out.write(&self.stream)?;
            traffic.count(Counter::SystemCalls, 1);
            match result {
                Ok(written) => {
                    self.is_writable = written as u64 == wanted;
                    self.out.adapt(written as u64, self.is_writable);
                    self.last_sent = now;
                    traffic.count(Counter::BytesSent, written as u64);
                    sent += written as u64;
                    // A part of a frame counts, too: nothing may tell that there is room for the rest.
                    done += 1 + self.out.advance(written as u64, traffic);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }

    /// Credit that goes back can wait a moment for a message to travel with, which saves a system call on the way of
    /// many a message.
    fn is_held(&mut self, now: Instant) -> bool {
        if self.out.urgent > 0 || self.out.sent_of_first > 0 {
            self.held_since = None;
            return false;
        }
        let is_held = now.duration_since(*self.held_since.get_or_insert(now)) < HOLD;
        if !is_held {
            self.held_since = None;
        }
        is_held
    }

    /// Before the poll loop is asked to wake us: while a large payload arrives, be woken for every large part of it, not for every packet.
    /// Each wake-up takes the core from a rank that computes. Who looks instead of sleeping does without: it takes the connection's lock
    /// from the sender once more for each part, and 1 MiB takes 4 % longer.
    pub fn prepare_sleep(&mut self) {
        let wanted = self.input.missing().clamp(1, LOW_WATER_MAX) as u32;
        // At worst we are woken for less.
        if wanted > self.low_water && set_receive_low_water(self.stream.as_fd(), wanted).is_ok() {
            self.low_water = wanted;
        }
    }

    /// Less than it was to tell of may be all that comes.
    fn settle_low_water(&mut self) -> io::Result<()> {
        let most = self.input.missing().max(1);
        if most < u64::from(self.low_water) {
            self.low_water = most as u32;
            set_receive_low_water(self.stream.as_fd(), self.low_water)?;
        }
        Ok(())
    }

    fn fill(&mut self, traffic: &mut dyn Traffic) {
        let batch_bytes = self.out.batch_bytes;
        let bytes_max = if self.out.queue.is_empty() { batch_bytes } else { batch_bytes.min(QUEUE_BYTES) };
        while self.out.queue.len() < QUEUE_FRAMES && self.out.queued_bytes < bytes_max {
            let Some(outbound) = traffic.poll() else { break };
            self.out.push(outbound.job, outbound.frame, outbound.payload, outbound.token);
        }
    }

    /// Nothing goes out any more. What the other side has said before counts: most often that its ranks have left.
    pub(crate) fn receive_last_words(&mut self, traffic: &mut dyn Traffic, now: Instant) {
        self.is_readable = true;
        while self.is_readable && self.receive(traffic, now).is_ok() {}
    }

    fn receive(&mut self, traffic: &mut dyn Traffic, now: Instant) -> Result<usize, LinkError> {
        let mut done = 0;
        for _ in 0..CALLS_PER_CYCLE {
            if !self.is_readable {
                break;
            }
            let (wanted, result) = self.input.read(&self.stream)?;
            traffic.count(Counter::SystemCalls, 1);
            match result {
                Ok(0) => return Err(LinkError::Closed),
                Ok(read) => {
                    self.last_heard = now;
                    traffic.count(Counter::BytesReceived, read as u64);
                    done += 1 + self.input.parse(traffic)?;
                    let comes_meanwhile = read >= LONG_COPY && self.input.missing() > 0;
                    self.is_readable = read as u64 == wanted || comes_meanwhile || self.is_ending;
                    self.input.is_large_due = traffic.is_large_due();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(done)
    }
}

impl Device for TcpDevice {
    fn progress(&mut self, traffic: &mut dyn Traffic, now: Instant) -> Result<usize, LinkError> {
        self.listen_to_silence(now);
        let received = self.receive(traffic, now)?;
        self.keep_alive(now)?;
        self.settle_low_water()?;
        let sent = self.send(traffic, now);
        if sent.is_err() {
            self.receive_last_words(traffic, now);
        }
        let sent = sent?;
        // What has just been asked for is to find the link prepared.
        self.input.is_large_due = traffic.is_large_due();
        Ok(received + sent)
    }

    fn arriving(&mut self) -> Option<&mut Inbound> {
        self.input.arriving.as_mut().map(|arriving| &mut arriving.inbound)
    }
}

impl Out {
    fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            batch_bytes: CHUNK_BYTES,
            urgent: 0,
            sent_of_first: 0,
            queued_bytes: 0,
            sequence: 0,
        }
    }

    /// The connection has taken so many bytes, which may be all it was offered.
    fn adapt(&mut self, written: u64, is_all: bool) {
        if !is_all {
            self.batch_bytes = CHUNK_BYTES;
        } else if written >= self.batch_bytes {
            self.batch_bytes = (2 * self.batch_bytes).min(CYCLE_BYTES);
        }
    }

    fn push(
        &mut self,
        job: JobId,
        frame: Frame,
        payload: Option<(Arc<JobSegment>, Layout, u64)>,
        token: Option<Token>,
    ) {
        self.sequence += 1;
        let header = Header { sequence: self.sequence, job, frame }.encode();
        let payload_bytes = u64::from(frame.payload_bytes());
        let is_urgent = !matches!(frame, Frame::Credit { .. } | Frame::MessageCredit { .. });
        self.urgent += usize::from(is_urgent);
        self.queued_bytes += HEADER_BYTES as u64 + payload_bytes;
        self.queue.push_back(Pending { header, job, payload, payload_bytes, token, is_urgent });
    }

    /// One system call with as much of the queue as fits: how many bytes were offered, and what became of them.
    fn write(&self, stream: &TcpStream) -> Result<(u64, io::Result<usize>), LinkError> {
        let mut gather = Gather::new();
        let mut skip = self.sent_of_first;
        for pending in &self.queue {
            let header_left = pending.header.get(skip as usize..).unwrap_or_default();
            if !header_left.is_empty() && !gather.push_bytes(header_left) {
                break;
            }
            let from = skip.saturating_sub(HEADER_BYTES as u64);
            let bytes = pending.payload_bytes - from;
            if let Some((segment, layout, at)) = &pending.payload
                && gather.push_memory(segment, layout, at + from, bytes)? < bytes
            {
                break;
            }
            skip = 0;
        }
        Ok((gather.bytes(), gather.write(stream.as_fd())))
    }

    /// So many bytes have left. Says how many frames are through.
    fn advance(&mut self, written: u64, traffic: &mut dyn Traffic) -> usize {
        self.sent_of_first += written;
        self.queued_bytes -= written;
        let mut done = 0;
        while let Some(first) = self.queue.front() {
            let bytes = HEADER_BYTES as u64 + first.payload_bytes;
            if self.sent_of_first < bytes {
                break;
            }
            self.sent_of_first -= bytes;
            if let Some(token) = first.token {
                traffic.transmitted(first.job, token, first.payload_bytes);
            }
            self.urgent -= usize::from(first.is_urgent);
            self.queue.pop_front();
            done += 1;
        }
        traffic.count(Counter::FramesSent, done as u64);
        done
    }
}

impl Input {
    fn new() -> Self {
        Self {
            staging: vec![0; STAGING_BYTES].into(),
            start: 0,
            end: 0,
            arriving: None,
            sequence: 0,
            is_large_due: false,
            scratch: Vec::new(),
        }
    }

    /// Bytes of the payload that arrives which have not come.
    fn missing(&self) -> u64 {
        self.arriving.as_ref().map_or(0, |arriving| arriving.bytes - arriving.filled)
    }

    /// One system call: the rest of the arriving payload first, then staging.
    fn read(&mut self, stream: &TcpStream) -> Result<(u64, io::Result<usize>), LinkError> {
        self.staging.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let stage_end = if self.is_large_due { HEADER_BYTES } else { STAGING_BYTES };
        let mut scatter = Scatter::new();
        let mut payload = 0;
        let mut is_whole = true;
        if let Some(Arriving { inbound, filled, bytes }) = &mut self.arriving {
            let left = *bytes - *filled;
            payload = match &mut inbound.target {
                Target::Buffer { segment, layout, at } => scatter.push_memory(segment, layout, *at + *filled, left)?,
                Target::Stash(stash) => {
                    scatter.push_bytes(&mut stash[*filled as usize..]);
                    left
                }
                Target::Discard => {
                    self.scratch.resize(SCRATCH_BYTES, 0);
                    let part = left.min(SCRATCH_BYTES as u64);
                    scatter.push_bytes(&mut self.scratch[..part as usize]);
                    part
                }
            };
            is_whole = payload == left;
        }
        if is_whole {
            scatter.push_bytes(&mut self.staging[self.end..stage_end.max(self.end)]);
        }
        let (wanted, result) = (scatter.bytes(), scatter.read(stream.as_fd()));
        if let Ok(read) = result {
            let into_payload = (read as u64).min(payload);
            if let Some(arriving) = &mut self.arriving {
                arriving.filled += into_payload;
            }
            self.end += read - into_payload as usize;
        }
        Ok((wanted, result))
    }

    /// Makes of the staged bytes what can be made of them. Says how many frames are complete.
    fn parse(&mut self, traffic: &mut dyn Traffic) -> Result<usize, LinkError> {
        let mut done = 0;
        loop {
            if let Some(arriving) = &mut self.arriving {
                let taken = arriving.take_staged(&self.staging[self.start..self.end], traffic)?;
                self.start += taken;
                if arriving.filled < arriving.bytes {
                    break;
                }
            }
            if let Some(Arriving { inbound, .. }) = self.arriving.take() {
                traffic.arrived(inbound);
                done += 1;
            }
            let Some(header) = self.staging[self.start..self.end].first_chunk::<HEADER_BYTES>() else { break };
            let Header { sequence, job, frame } = Header::decode(header)?;
            self.start += HEADER_BYTES;
            self.sequence += 1;
            if sequence != self.sequence {
                return Err(LinkError::Sequence { found: sequence, expected: self.sequence });
            }
            if matches!(frame, Frame::Heartbeat { .. }) {
                continue;
            }
            let inbound = traffic.accept(job, frame)?;
            self.arriving = Some(Arriving { inbound, filled: 0, bytes: frame.payload_bytes().into() });
        }
        traffic.count(Counter::FramesReceived, done as u64);
        Ok(done)
    }
}

impl Arriving {
    /// Moves payload that has come through staging to where it belongs.
    fn take_staged(&mut self, staged: &[u8], traffic: &mut dyn Traffic) -> Result<usize, LinkError> {
        let take = staged.len().min((self.bytes - self.filled) as usize);
        if take == 0 {
            return Ok(0);
        }
        let (staged, from) = (&staged[..take], self.filled as usize);
        match &mut self.inbound.target {
            Target::Buffer { segment, layout, at } => segment.write(layout, *at + self.filled, staged)?,
            Target::Stash(stash) => stash[from..from + take].copy_from_slice(staged),
            Target::Discard => {}
        }
        count_copy(traffic, take as u64);
        self.filled += take as u64;
        Ok(take)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_is_lined_up_only_as_long_as_all_of_it_is_taken() {
        let mut out = Out::new();
        let mut after = |written, is_all| {
            out.adapt(written, is_all);
            out.batch_bytes / CHUNK_BYTES
        };
        // Little says nothing of how fast a connection is.
        assert_eq!([after(64, true), after(CHUNK_BYTES, true), after(CHUNK_BYTES, true)], [1, 2, 2]);
        assert_eq!(
            [after(2 * CHUNK_BYTES, true), after(4 * CHUNK_BYTES, true), after(8 * CHUNK_BYTES, true)],
            [4, 8, 8]
        );
        assert_eq!([after(3 * CHUNK_BYTES, false), after(64, true)], [1, 1]);
    }
}
