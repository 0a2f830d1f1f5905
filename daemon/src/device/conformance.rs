//! One suite for every device: what is sent arrives, once, in order, where the receiver wants it.
//!
//! Each test is a function over a [`Rig`], a pair of connected ends; the macro at the end runs all of them on each device.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, poll};
use ropeway_engine::Arrival;
use ropeway_proto::frame::{HEADER_BYTES, Header};
use ropeway_proto::limits::CHUNK_BYTES;
use ropeway_proto::{ChannelId, Envelope, Frame, JobId, Layout};
use ropeway_shm::{Counter, JobGeometry, JobSegment};

use super::{Device, Inbound, LinkError, LoopbackDevice, Outbound, Readiness, ShmDevice, Target, TcpDevice, Traffic};

const JOB: JobId = JobId(7);
const CHANNEL: ChannelId = ChannelId { index: 3, generation: 1 };
const ARENA_BYTES: u64 = 8 << 20;

/// An engine's part, played by lists.
struct Script {
    segment: Arc<JobSegment>,
    outgoing: VecDeque<Outbound>,
    /// Where the next payloads go; without an entry they go nowhere.
    targets: VecDeque<Target>,
    arrived: Vec<Frame>,
    stashed: Vec<Vec<u8>>,
    accepted: VecDeque<Frame>,
    is_large_due: bool,
    copies: u64,
    system_calls: u64,
    bytes_sent: u64,
}

impl Script {
    fn new() -> Self {
        let segment = JobSegment::create(JobGeometry { local_ranks: 1, arena_bytes_max: ARENA_BYTES }).unwrap();
        segment.reserve_arena(0, 0..ARENA_BYTES).unwrap();
        Self {
            segment: Arc::new(segment),
            outgoing: VecDeque::new(),
            targets: VecDeque::new(),
            arrived: Vec::new(),
            stashed: Vec::new(),
            accepted: VecDeque::new(),
            is_large_due: false,
            copies: 0,
            system_calls: 0,
            bytes_sent: 0,
        }
    }

    fn layout(&self, at: u64, bytes: u64) -> Layout {
        Layout::contiguous(self.segment.arena(0).start + at, bytes)
    }

    fn send(&mut self, frame: Frame, from: Option<(Layout, u64)>) {
        let payload = from.map(|(layout, at)| (Arc::clone(&self.segment), layout, at));
        self.outgoing.push_back(Outbound { job: JOB, frame, payload, token: None });
    }

    fn receive_into(&mut self, layout: Layout, at: u64) {
        self.targets.push_back(Target::Buffer { segment: Arc::clone(&self.segment), layout, at });
    }

    fn fill(&self, layout: &Layout, seed: u64) -> Vec<u8> {
        let bytes: Vec<u8> = (0..layout.bytes()).map(|index| (index.wrapping_mul(seed) >> 3) as u8).collect();
        self.segment.write(layout, 0, &bytes).unwrap();
        bytes
    }

    fn content(&self, layout: &Layout) -> Vec<u8> {
        let mut bytes = vec![0; layout.bytes() as usize];
        self.segment.read(layout, 0, &mut bytes).unwrap();
        bytes
    }
}

impl Traffic for Script {
    fn poll(&mut self) -> Option<Outbound> {
        self.outgoing.pop_front()
    }

    fn transmitted(&mut self, _: JobId, _: ropeway_engine::Token, _: u64) {}

    fn accept(&mut self, job: JobId, frame: Frame) -> Result<Inbound, LinkError> {
        self.accepted.push_back(frame);
        let target = match frame.payload_bytes() {
            0 => Target::Discard,
            _ => self.targets.pop_front().unwrap_or(Target::Discard),
        };
        Ok(Inbound { job, target, arrival: Arrival::Nothing })
    }

    fn arrived(&mut self, inbound: Inbound) {
        assert_eq!(inbound.job, JOB);
        self.arrived.push(self.accepted.pop_front().expect("accepted before it arrives"));
        if let Target::Stash(bytes) = inbound.target {
            self.stashed.push(bytes);
        }
    }

    fn is_large_due(&self) -> bool {
        self.is_large_due
    }

    fn count(&mut self, counter: Counter, amount: u64) {
        match counter {
            Counter::PayloadBytesCopied => self.copies += amount,
            Counter::SystemCalls => self.system_calls += amount,
            Counter::BytesSent => self.bytes_sent += amount,
            _ => {}
        }
    }
}

/// Two connected ends, or one that is connected to itself.
struct Rig<D> {
    ends: Vec<D>,
    scripts: Vec<Script>,
}

impl<D: Device> Rig<D> {
    fn new(ends: Vec<D>) -> Self {
        let scripts = ends.iter().map(|_| Script::new()).collect();
        Self { ends, scripts }
    }

    fn sender(&mut self) -> &mut Script {
        &mut self.scripts[0]
    }

    fn receiver(&mut self) -> &mut Script {
        self.scripts.last_mut().expect("a rig has an end")
    }

    /// Lets both ends work until `frames` have arrived at the receiver.
    fn run_until(&mut self, frames: usize) {
        let give_up = Instant::now() + Duration::from_secs(20);
        while self.receiver().arrived.len() < frames {
            assert!(Instant::now() < give_up, "only {} of {frames} frames arrived", self.receiver().arrived.len());
            for (end, script) in self.ends.iter_mut().zip(&mut self.scripts) {
                end.progress(script, Instant::now()).unwrap();
            }
        }
    }
}

fn eager(bytes: u64) -> Frame {
    Frame::Eager { channel: CHANNEL, payload_bytes: bytes as u32 }
}

fn frames_arrive_once_and_in_order<D: Device>(mut rig: Rig<D>) {
    let envelope = Envelope { comm: ropeway_proto::CommId(1), source: 0, dest: 1, tag: 2 };
    let frames: Vec<Frame> = (0..500)
        .map(|number| match number % 3 {
            0 => Frame::Credit { channel: CHANNEL, count: number },
            1 => eager(0),
            _ => Frame::Bind { envelope, recv: CHANNEL, capacity: number.into() },
        })
        .collect();
    for &frame in &frames {
        rig.sender().send(frame, None);
    }
    rig.run_until(frames.len());
    assert_eq!(rig.receiver().arrived, frames);
}

fn payload_goes_where_the_receiver_wants_it<D: Device>(mut rig: Rig<D>) {
    for bytes in [1, 8, 63, 4096, 8192] {
        let (from, to) = (rig.sender().layout(0, bytes), rig.receiver().layout(1 << 20, bytes));
        let sent = rig.sender().fill(&from, bytes + 3);
        rig.sender().send(eager(bytes), Some((from, 0)));
        rig.receiver().receive_into(to, 0);
        let arrived = rig.receiver().arrived.len();
        rig.run_until(arrived + 1);
        assert_eq!(rig.receiver().content(&to), sent, "{bytes} bytes");
    }
}

fn strided_payload_is_packed_and_unpacked<D: Device>(mut rig: Rig<D>) {
    let start = rig.sender().layout(0, 0).offset;
    let from = Layout { offset: start, block_bytes: 24, stride_bytes: 100, blocks: 1000 };
    let to = Layout { offset: start + (1 << 20), block_bytes: 8, stride_bytes: 64, blocks: 3000 };
    let sent = rig.sender().fill(&from, 77);
    rig.receiver().receive_into(to, 0);
    let bytes = from.bytes() as u32;
    rig.sender()
        .send(Frame::Data { channel: CHANNEL, offset: 0, total: bytes.into(), payload_bytes: bytes }, Some((from, 0)));
    rig.run_until(1);
    assert_eq!(rig.receiver().content(&to), sent);
}

fn a_large_message_arrives_in_pieces<D: Device>(mut rig: Rig<D>) {
    let (total, chunk) = (1 << 20, 100_000);
    let (from, to) = (rig.sender().layout(0, total), rig.receiver().layout(2 << 20, total));
    let sent = rig.sender().fill(&from, 12345);
    let mut pieces = 0;
    for offset in (0..total).step_by(chunk) {
        let payload_bytes = (total - offset).min(chunk as u64) as u32;
        rig.sender().send(Frame::Data { channel: CHANNEL, offset, total, payload_bytes }, Some((from, offset)));
        rig.receiver().receive_into(to, offset);
        pieces += 1;
    }
    rig.run_until(pieces);
    assert_eq!(rig.receiver().content(&to), sent);
}

fn payload_can_be_stashed_or_discarded<D: Device>(mut rig: Rig<D>) {
    let from = rig.sender().layout(0, 5000);
    let sent = rig.sender().fill(&from, 5);
    for target in [Target::Discard, Target::Stash(vec![0; 5000]), Target::Discard] {
        rig.receiver().targets.push_back(target);
        rig.sender().send(eager(5000), Some((from, 0)));
    }
    rig.run_until(3);
    assert_eq!(rig.receiver().stashed, [sent]);
}

fn a_receiver_that_does_not_read_blocks_nobody<D: Device>(mut rig: Rig<D>) {
    let from = rig.sender().layout(0, 1 << 20);
    let frame = Frame::Data { channel: CHANNEL, offset: 0, total: 1 << 20, payload_bytes: 1 << 20 };
    let frames = 64;
    for _ in 0..frames {
        rig.sender().send(frame, Some((from, 0)));
    }
    // However often it is asked, the sender's end returns; what does not fit stays with the engine.
    for _ in 0..200 {
        rig.ends[0].progress(&mut rig.scripts[0], Instant::now()).unwrap();
    }
    rig.run_until(frames);
}

fn both_directions_work_at_once<D: Device>(mut rig: Rig<D>) {
    let count = 200;
    for index in 0..rig.scripts.len() {
        for number in 0..count {
            rig.scripts[index].send(Frame::Credit { channel: CHANNEL, count: number }, None);
        }
    }
    rig.run_until(count as usize);
    let give_up = Instant::now() + Duration::from_secs(20);
    while rig.sender().arrived.len() < count as usize {
        assert!(Instant::now() < give_up);
        for (end, script) in rig.ends.iter_mut().zip(&mut rig.scripts) {
            end.progress(script, Instant::now()).unwrap();
        }
    }
}

fn shm() -> Rig<ShmDevice> {
    Rig::new(vec![ShmDevice])
}

fn loopback() -> Rig<LoopbackDevice> {
    let (a, b) = LoopbackDevice::pair();
    Rig::new(vec![a, b])
}

/// A connected pair of sockets, one of them as a device.
fn tcp_streams() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let a = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (b, _) = listener.accept().unwrap();
    (a, b)
}

fn tcp_device(stream: TcpStream, timeout: Duration) -> TcpDevice {
    stream.set_nonblocking(true).unwrap();
    TcpDevice::new(mio::net::TcpStream::from_std(stream), timeout, Instant::now())
}

/// Readiness without a poll loop: the tests just try again, so every try must look ready.
struct AlwaysReady(TcpDevice);

impl Device for AlwaysReady {
    fn progress(&mut self, traffic: &mut dyn Traffic, now: Instant) -> Result<usize, LinkError> {
        self.0.set_ready(Readiness { is_readable: true, is_writable: true, is_ending: false });
        self.0.progress(traffic, now)
    }

    fn arriving(&mut self) -> Option<&mut Inbound> {
        self.0.arriving()
    }
}

fn tcp() -> Rig<AlwaysReady> {
    let (a, b) = tcp_streams();
    let timeout = Duration::from_secs(60);
    Rig::new(vec![AlwaysReady(tcp_device(a, timeout)), AlwaysReady(tcp_device(b, timeout))])
}

macro_rules! conformance {
    ($device:ident: $($property:ident),* $(,)?) => {
        mod $device {
            $(#[test] fn $property() { super::$property(super::$device()); })*
        }
    };
}

macro_rules! conformance_of_all {
    ($($properties:tt)*) => {
        conformance!(shm: $($properties)*);
        conformance!(loopback: $($properties)*);
        conformance!(tcp: $($properties)*);
    };
}

conformance_of_all!(
    frames_arrive_once_and_in_order,
    payload_goes_where_the_receiver_wants_it,
    strided_payload_is_packed_and_unpacked,
    a_large_message_arrives_in_pieces,
    payload_can_be_stashed_or_discarded,
    a_receiver_that_does_not_read_blocks_nobody,
    both_directions_work_at_once,
);

#[test]
fn a_closed_tcp_link_is_an_error() {
    let (a, b) = tcp_streams();
    let mut device = tcp_device(a, Duration::from_secs(60));
    drop(b);
    let result = device.progress(&mut Script::new(), Instant::now());
    assert!(matches!(result, Err(LinkError::Closed | LinkError::Io(_))), "{result:?}");
}

#[test]
fn the_end_of_a_tcp_link_that_comes_with_its_last_frames_is_seen_at_once() {
    let (a, b) = tcp_streams();
    let timeout = Duration::from_secs(60);
    let (mut device, mut peer) = (tcp_device(a, timeout), tcp_device(b, timeout));
    let (mut script, mut last, now) = (Script::new(), Script::new(), Instant::now());
    assert_eq!(device.progress(&mut script, now).unwrap(), 0);
    (0..3).for_each(|_| last.send(Frame::RankGone { rank: 1, has_failed: false }, None));
    peer.progress(&mut last, now).unwrap();
    drop(peer);
    // The poll loop tells of both together, and only once.
    device.set_ready(Readiness { is_readable: true, is_writable: false, is_ending: true });
    let result = device.progress(&mut script, now);
    assert!(matches!(result, Err(LinkError::Closed)), "{result:?}");
    assert_eq!(script.arrived.len(), 3);
}

#[test]
fn what_a_tcp_link_has_carried_before_it_was_cut_arrives() {
    let (a, b) = tcp_streams();
    let timeout = Duration::from_secs(60);
    let (mut device, mut peer) = (tcp_device(a, timeout), tcp_device(b, timeout));
    let (mut script, now) = (Script::new(), Instant::now());
    // It finds nothing to read before that is sent which it leaves unread.
    let mut last = Script::new();
    peer.progress(&mut last, now).unwrap();
    script.send(eager(0), None);
    device.progress(&mut script, now).unwrap();
    (0..100).for_each(|_| last.send(Frame::RankGone { rank: 1, has_failed: false }, None));
    // What it has not read when it goes has the kernel cut the connection.
    peer.progress(&mut last, now).unwrap();
    drop(peer);
    script.send(eager(0), None);
    let result = device.progress(&mut script, now);
    assert!(matches!(result, Err(LinkError::Io(_))), "{result:?}");
    assert_eq!(script.arrived.len(), 100);
}

#[test]
fn a_silent_tcp_link_is_an_error() {
    let (a, _b) = tcp_streams();
    let timeout = Duration::from_secs(4);
    let mut device = tcp_device(a, timeout);
    let (mut script, start) = (Script::new(), Instant::now());
    for second in 0..=3 {
        device.progress(&mut script, start + Duration::from_secs(second)).unwrap();
    }
    let result = device.progress(&mut script, start + Duration::from_secs(5));
    assert!(matches!(result, Err(LinkError::Silent(_))), "{result:?}");
}

#[test]
fn a_tcp_link_that_the_poll_loop_does_not_tell_of_is_not_silent() {
    let (a, b) = tcp_streams();
    let timeout = Duration::from_secs(4);
    let (mut device, mut peer) = (tcp_device(a, timeout), tcp_device(b, timeout));
    let (mut script, start) = (Script::new(), Instant::now());
    peer.set_ready(Readiness { is_writable: true, ..Readiness::default() });
    for second in 0..=5 {
        let now = start + Duration::from_secs(second);
        // A heartbeat each second, of which `device` is never told.
        device.progress(&mut script, now).unwrap();
        peer.progress(&mut Script::new(), now).unwrap();
    }
}

#[test]
fn a_tcp_link_that_has_sent_a_part_of_a_frame_has_done_something() {
    let mut rig = tcp();
    // More pieces than leave with one system call, or with those of a cycle.
    let scattered = Layout { offset: 0, blocks: 5000, block_bytes: 8, stride_bytes: 16 };
    let from = Layout { offset: rig.sender().layout(0, 0).offset, ..scattered };
    let payload_bytes = from.bytes() as u32;
    let frame = Frame::Data { channel: CHANNEL, offset: 0, total: payload_bytes.into(), payload_bytes };
    rig.sender().send(frame, Some((from, 0)));
    let mut cycles = 0;
    while rig.ends[0].progress(&mut rig.scripts[0], Instant::now()).unwrap() > 0 {
        cycles += 1;
    }
    assert!(cycles > 1, "all of it left at once");
    rig.run_until(1);
}

#[test]
fn a_tcp_link_knows_what_has_not_left() {
    let mut rig = tcp();
    let from = rig.sender().layout(0, 1 << 20);
    let frame = Frame::Data { channel: CHANNEL, offset: 0, total: 1 << 20, payload_bytes: 1 << 20 };
    let mut frames = 0;
    assert!(!rig.ends[0].0.has_unsent());
    // Nobody reads, so that at last one stays in its queue.
    while !rig.ends[0].0.has_unsent() {
        rig.sender().send(frame, Some((from, 0)));
        frames += 1;
        while rig.ends[0].progress(&mut rig.scripts[0], Instant::now()).unwrap() > 0 {}
    }
    rig.run_until(frames);
    assert!(!rig.ends[0].0.has_unsent());
}

#[test]
fn little_waits_in_front_of_what_comes_next_on_a_tcp_link_that_is_slow() {
    let mut rig = tcp();
    let from = rig.sender().layout(0, CHUNK_BYTES);
    let payload_bytes = CHUNK_BYTES as u32;
    let frame = Frame::Data { channel: CHANNEL, offset: 0, total: CHUNK_BYTES, payload_bytes };
    let chunks = 400;
    (0..chunks).for_each(|_| rig.sender().send(frame, Some((from, 0))));
    // As long as it is fast, much leaves at once. Then nobody reads.
    rig.run_until(chunks / 2);
    while rig.ends[0].progress(&mut rig.scripts[0], Instant::now()).unwrap() > 0 {}
    let taken = (chunks - rig.sender().outgoing.len()) as u64 * (HEADER_BYTES as u64 + CHUNK_BYTES);
    let (lined_up, bytes_max) = (taken - rig.sender().bytes_sent, 2 * CHUNK_BYTES);
    assert!(0 < lined_up && lined_up <= bytes_max, "{lined_up} of at most {bytes_max} bytes");
    rig.run_until(chunks);
}

#[test]
fn garbage_on_a_tcp_link_is_an_error() {
    let (a, mut b) = tcp_streams();
    b.write_all(&[0x5a; 64]).unwrap();
    let mut device = AlwaysReady(tcp_device(a, Duration::from_secs(60)));
    let give_up = Instant::now() + Duration::from_secs(20);
    let error = loop {
        assert!(Instant::now() < give_up);
        if let Err(error) = device.progress(&mut Script::new(), Instant::now()) {
            break error;
        }
    };
    assert!(matches!(error, LinkError::Decode(_)), "{error}");
}

#[test]
fn large_payload_is_not_copied_on_a_tcp_link() {
    let mut rig = tcp();
    rig.receiver().is_large_due = true;
    rig.ends[1].progress(&mut rig.scripts[1], Instant::now()).unwrap();
    let (from, to) = (rig.sender().layout(0, 1 << 20), rig.receiver().layout(1 << 20, 1 << 20));
    rig.receiver().receive_into(to, 0);
    rig.sender()
        .send(Frame::Data { channel: CHANNEL, offset: 0, total: 1 << 20, payload_bytes: 1 << 20 }, Some((from, 0)));
    rig.run_until(1);
    assert_eq!(rig.receiver().copies, 0);
}

#[test]
fn a_tcp_link_reads_small_frames_together_once_nothing_large_is_due() {
    let (frames, mut calls) = (50, [0; 2]);
    let mut rig = tcp();
    for (is_large_due, calls) in [true, false].into_iter().zip(&mut calls) {
        rig.receiver().is_large_due = is_large_due;
        rig.ends[1].progress(&mut rig.scripts[1], Instant::now()).unwrap();
        assert_eq!(rig.ends[1].0.awaits_large(), is_large_due);
        (0..frames).for_each(|count| rig.sender().send(Frame::Credit { channel: CHANNEL, count }, None));
        let (before, arrived) = (rig.receiver().system_calls, rig.receiver().arrived.len());
        rig.run_until(arrived + frames as usize);
        *calls = rig.receiver().system_calls - before;
    }
    assert!(calls[0] >= u64::from(frames) && calls[1] < 10, "{calls:?}");
}

/// Whatever is on its way is there by then, in milliseconds.
const LONG_ENOUGH: u16 = 20_000;

#[test]
fn a_tcp_link_is_told_of_large_parts_only_while_its_daemon_sleeps() {
    let (a, mut b) = tcp_streams();
    let told = a.try_clone().unwrap();
    let is_told = |ms: u16| poll(&mut [PollFd::new(told.as_fd(), PollFlags::POLLIN)], ms) == Ok(1);
    let mut device = AlwaysReady(tcp_device(a, Duration::from_secs(60)));
    let mut script = Script::new();
    let mut take = |sleeps: bool| {
        while device.progress(&mut script, Instant::now()).unwrap() > 0 {}
        if sleeps {
            device.0.prepare_sleep();
        }
        script.arrived.len()
    };
    let frame = Frame::Data { channel: CHANNEL, offset: 0, total: CHUNK_BYTES, payload_bytes: CHUNK_BYTES as u32 };
    let header = Header { sequence: 1, job: JOB, frame }.encode();
    let (message, part) = (vec![0; CHUNK_BYTES as usize], 128 << 10);
    let mut arrive = |bytes: &[u8]| b.write_all(bytes).unwrap();

    arrive(&header);
    take(false);
    arrive(&message[..1]);
    assert!(is_told(LONG_ENOUGH), "it looks for every byte");
    take(true);
    arrive(&message[1..part]);
    assert!(!is_told(0), "a byte is missing");
    arrive(&message[part..=part]);
    assert!(is_told(LONG_ENOUGH));
    take(true);
    arrive(&message[part + 1..]);
    assert!(is_told(LONG_ENOUGH), "it is all there");
    assert_eq!(take(false), 1);
    arrive(&header[..1]);
    assert!(is_told(LONG_ENOUGH), "less may be all that comes");
}

#[test]
fn frames_of_a_cycle_leave_a_tcp_link_together() {
    let frames = 50;
    let mut rig = tcp();
    let from = rig.sender().layout(0, 100);
    (0..frames).for_each(|_| rig.sender().send(eager(100), Some((from, 0))));
    rig.ends[0].progress(&mut rig.scripts[0], Instant::now()).unwrap();
    // And one that finds that nothing has come.
    assert_eq!(rig.sender().system_calls, 2);
    assert!(rig.sender().outgoing.is_empty());
    rig.run_until(frames);
}
