//! Both sides of a wire, worked by hand.
#![cfg(not(loom))]

mod order;
mod pieces;
mod straight;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use proptest::prelude::*;
use ropeway_proto::limits::WIRE_BYTES_MAX;
use ropeway_proto::wire::WIRE_HEADER_BYTES;
use ropeway_proto::{End, Layout, NodeId, Status, WireFrame};
use ropeway_shm::eager::{CELLS, EagerReceiver, EagerSender, Progress};
use ropeway_shm::{
    Channel, EndOfChannel, Footprint, JobGeometry, JobSegment, KnownChannels, OpenChannel, Sent, Wire, WireChannels,
    WiredEnd,
};

const ARENA_BYTES: u64 = 2 << 20;
const CHANNEL_BYTES: u64 = 320 << 10;
/// Empty, beside a cell's word, in a cell or the receiver's buffer, the largest of those, and what leaves only when its receive has started.
const SIZES: [u64; 6] = [0, 8, 56, 57, 4096, WIRE_BYTES_MAX];
const LARGEST: usize = 5;

/// One node: a rank, a wire, and channels of the sizes above.
struct Side {
    job: Arc<JobSegment>,
    wire: Arc<Wire>,
    known: KnownChannels,
    channels: Vec<OpenChannel>,
}

impl Side {
    fn new(end: End, socket: UnixStream) -> Self {
        Self::with(end, socket, &SIZES)
    }

    fn with(end: End, socket: UnixStream, sizes: &[u64]) -> Self {
        Self::laid_out(end, socket, sizes, Layout::contiguous)
    }

    /// With buffers of this kind, of which it is said where they begin and how many bytes they have.
    fn laid_out(end: End, socket: UnixStream, sizes: &[u64], layout: impl Fn(u64, u64) -> Layout) -> Self {
        Self::with_socket(end, socket.into(), sizes, layout)
    }

    fn with_socket(end: End, socket: OwnedFd, sizes: &[u64], layout: impl Fn(u64, u64) -> Layout) -> Self {
        let geometry = JobGeometry { local_ranks: 1, arena_bytes_max: ARENA_BYTES };
        let job = Arc::new(JobSegment::create(geometry).unwrap());
        job.reserve_slots(0, 0..64).unwrap();
        job.reserve_arena(0, 0..ARENA_BYTES).unwrap();
        job.reserve_channels(0..16 << 20).unwrap();
        let block = job.channels().start;
        let wire = Arc::new(Wire::open(&job, block, None).unwrap());
        wire.write();
        wire.set_socket(socket);
        let channel = |(index, bytes): (usize, u64)| {
            let layout = layout(job.arena(0).start + index as u64 * WIRE_BYTES_MAX, bytes);
            let own = EndOfChannel { local_rank: 0, slot: index as u32, layout };
            let wired = WiredEnd { wire: block, index: index as u16, end, peer: 1, node: NodeId(1) };
            let at = block + Wire::FOOTPRINT + index as u64 * CHANNEL_BYTES;
            let channel = Channel::new_wired(bytes, own, wired);
            let Footprint { words, cells } = channel.footprint();
            assert!(words + cells <= CHANNEL_BYTES);
            let channel = channel.at(at, (cells > 0).then_some(at + words));
            channel.write(&job).unwrap();
            wire.name(index as u16, at, 1);
            let open = channel.on(&job).unwrap();
            open.connect(index as u16);
            open
        };
        let channels = sizes.iter().copied().enumerate().map(channel).collect();
        Self { known: KnownChannels::new(wire.clone()), job, wire, channels }
    }

    fn send(&mut self) -> Sent {
        self.wire.send(&mut self.known)
    }

    /// Receives until nothing more is there.
    fn receive(&mut self) {
        while self.wire.receive(&mut self.known).frames > 0 {}
    }

    fn fill(&self, index: usize, byte: u8) {
        let layout = &self.channels[index].channel().end(End::Send).layout;
        self.job.write(layout, 0, &vec![byte; layout.bytes() as usize]).unwrap();
    }

    fn has(&self, index: usize, byte: u8) -> bool {
        let layout = &self.channels[index].channel().end(End::Recv).layout;
        let mut bytes = vec![0; layout.bytes() as usize];
        self.job.read(layout, 0, &mut bytes).unwrap();
        bytes.iter().all(|&other| other == byte)
    }
}

/// A connection of which a test holds one end. What does not come is an error after some time.
fn tapped() -> (UnixStream, UnixStream) {
    let (tap, socket) = UnixStream::pair().unwrap();
    tap.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    (tap, socket)
}

fn pair() -> (Side, Side) {
    let (one, other) = UnixStream::pair().unwrap();
    (Side::new(End::Send, one), Side::new(End::Recv, other))
}

/// A message of a channel, made of its number.
fn frame(index: usize, number: u8) -> Vec<u8> {
    let (channel, bytes) = (index as u16, SIZES[index]);
    let header = WireFrame::Message { channel, number: number.into(), bytes: bytes as u32 }.encode();
    [&header[..], &vec![number; bytes as usize]].concat()
}

/// The receiving end of a channel with such messages.
struct Taking {
    index: usize,
    receiver: EagerReceiver,
    is_started: bool,
    taken: u8,
}

impl Taking {
    fn new(index: usize) -> Self {
        Self { index, receiver: EagerReceiver::default(), is_started: false, taken: 0 }
    }

    /// Takes what is there, and leaves a receive for what is to come.
    fn take(&mut self, side: &Side) {
        let channel = &side.channels[self.index];
        loop {
            let progress = if self.is_started { self.receiver.poll(channel) } else { self.receiver.start(channel) };
            self.is_started = progress == Progress::Pending;
            if self.is_started {
                return;
            }
            assert!(side.has(self.index, self.taken), "message {} of {} bytes", self.taken, SIZES[self.index]);
            self.taken += 1;
        }
    }
}

#[test]
fn messages_arrive_whether_they_are_awaited_or_not() {
    for is_awaited in [true, false] {
        let (mut near, mut far) = pair();
        for (index, bytes) in SIZES[..=LARGEST].iter().enumerate() {
            let (mut sender, mut receiver) = (near.channels[index].channel().sender(0), EagerReceiver::default());
            for byte in 0..20 {
                let mut progress = Progress::Pending;
                if is_awaited {
                    progress = receiver.start(&far.channels[index]);
                    assert_eq!(progress, Progress::Pending);
                }
                near.fill(index, byte);
                let started = sender.start(&near.channels[index]);
                assert_eq!(near.send(), Sent::All);
                assert!(started == Progress::Done || sender.poll(&near.channels[index]) == Progress::Done);
                far.receive();
                if !is_awaited {
                    progress = receiver.start(&far.channels[index]);
                }
                if progress == Progress::Pending {
                    progress = receiver.poll(&far.channels[index]);
                }
                assert_eq!(progress, Progress::Done);
                assert!(far.has(index, byte), "message {byte} of {bytes} bytes");
                if far.channels[index].note_taken() {
                    far.send();
                    near.receive();
                }
            }
        }
    }
}

#[test]
fn what_has_no_credit_waits_and_is_known_to_starve() {
    let (mut near, mut far) = pair();
    let (channel, taking) = (&near.channels[1], &far.channels[1]);
    let cells = channel.channel().cells();
    let (mut sender, mut receiver) = (channel.channel().sender(0), EagerReceiver::default());
    for _ in 0..2 * cells {
        assert_eq!(sender.start(channel), Progress::Done);
        near.wire.send(&mut near.known);
    }
    assert!(near.wire.is_starving());
    // All cells of both sides are full: the next one stays in its buffer.
    assert_eq!(sender.start(channel), Progress::Pending);
    far.wire.receive(&mut far.known);
    for taken in 1..=cells {
        assert_eq!(receiver.start(taking), Progress::Done);
        assert_eq!(taking.note_taken(), taken >= cells / 2);
    }
    assert_eq!(receiver.start(taking), Progress::Pending);
    far.wire.send(&mut far.known);
    near.wire.receive(&mut near.known);
    near.wire.send(&mut near.known);
    assert!(near.wire.is_starving(), "one more than the other side has room for");
    assert_eq!(sender.poll(channel), Progress::Done);
    far.wire.receive(&mut far.known);
    assert_eq!(receiver.poll(taking), Progress::Done);
}

#[test]
fn what_had_no_credit_and_is_taken_back_starves_no_more() {
    let (mut near, mut far) = pair();
    let channel = &near.channels[LARGEST];
    let mut sender = channel.channel().sender(0);
    for _ in 0..channel.channel().cells() {
        assert_eq!(sender.start(channel), Progress::Pending);
        near.wire.send(&mut near.known);
        far.wire.receive(&mut far.known);
        assert_eq!(sender.poll(channel), Progress::Done);
    }
    for _ in 0..2 {
        assert_eq!(sender.start(channel), Progress::Pending);
        near.wire.send(&mut near.known);
        assert!(near.wire.is_starving());
        assert!(sender.cancel(channel));
        channel.note_taken_back();
        assert!(!near.wire.is_starving());
    }
}

#[test]
fn what_is_taken_back_leaves_those_starving_that_were_started_before() {
    let (mut near, _far) = pair();
    let channel = &near.channels[1];
    let mut sender = channel.channel().sender(0);
    for _ in 0..2 * channel.channel().cells() {
        assert_eq!(sender.start(channel), Progress::Done);
        near.wire.send(&mut near.known);
    }
    assert_eq!(sender.start(channel), Progress::Pending);
    near.wire.send(&mut near.known);
    assert!(sender.cancel(channel));
    channel.note_taken_back();
    assert!(near.wire.is_starving());
}

/// Ranks look without being woken. What the daemon waits for is no longer what is missing when they have received.
/// A connection that a daemon and a rank receive from.
struct Shared {
    feed: TcpStream,
    looks: TcpStream,
    far: Side,
    rank: Arc<Wire>,
}

impl Shared {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let feed = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        feed.set_nodelay(true).unwrap();
        let socket = listener.accept().unwrap().0;
        let looks = socket.try_clone().unwrap();
        let far = Side::with_socket(End::Recv, socket.into(), &SIZES, Layout::contiguous);
        let rank = Arc::new(Wire::open(&far.job, far.wire.block(), Some(0)).unwrap());
        rank.set_socket(looks.try_clone().unwrap().into());
        Self { feed, looks, far, rank }
    }
}

fn is_readable(socket: &TcpStream, within_ms: u16) -> bool {
    let mut looked = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    poll(&mut looked, PollTimeout::from(within_ms)).unwrap() > 0
}

#[test]
fn the_daemon_is_woken_when_much_of_a_message_is_there() {
    let Shared { mut feed, looks, mut far, rank } = Shared::new();
    let [first, second] = [0, 1].map(|number| frame(LARGEST, number));
    let mut is_woken_by = |part: &[u8]| {
        feed.write_all(part).unwrap();
        is_readable(&looks, 50)
    };
    assert!(is_woken_by(&first[..100]));
    far.receive();
    assert!(!is_woken_by(&first[100..1000]));
    assert!(is_woken_by(&first[1000..]));
    far.receive();
    assert!(is_woken_by(&second[..100]));
    far.receive();
    assert!(!is_woken_by(&second[100..1000]));
    while rank.receive(&mut KnownChannels::new(Arc::clone(&rank))).missing as usize != second.len() - 1000 {}
    assert!(is_woken_by(&second[1000..1001]));
}

#[test]
fn the_last_word_comes_behind_the_last_message() {
    let (mut near, mut far) = pair();
    let (mut sender, mut receiver) = (near.channels[4].channel().sender(0), EagerReceiver::default());
    near.fill(4, 7);
    assert_eq!(sender.start(&near.channels[4]), Progress::Pending);
    assert!(near.wire.say_end(4, Status::RankLeft, &mut near.known));
    assert_eq!(sender.poll(&near.channels[4]), Progress::Done);
    near.send();
    far.receive();
    assert!(far.channels[4].has_peer_ended());
    assert_eq!(far.channels[4].closed(End::Recv), Some(Status::RankLeft));
    assert_eq!(receiver.start(&far.channels[4]), Progress::Done);
    assert!(far.has(4, 7));
    // The other side has nothing to add, and then both may forget it.
    assert!(far.wire.say_end(4, Status::PeerFreed, &mut far.known));
    far.send();
    near.receive();
    assert!(near.channels[4].has_peer_ended());
    assert!(near.wire.forget(4) && far.wire.forget(4));
}

#[test]
fn the_last_word_waits_for_messages_that_wait_for_credit() {
    let (mut near, mut far) = pair();
    let cells = near.channels[1].channel().cells();
    let (mut sender, mut receiver) = (near.channels[1].channel().sender(0), EagerReceiver::default());
    for _ in 0..cells + 2 {
        assert_eq!(sender.start(&near.channels[1]), Progress::Done);
        near.send();
    }
    assert!(!near.wire.say_end(1, Status::PeerFreed, &mut near.known));
    near.send();
    far.receive();
    for _ in 0..cells {
        assert_eq!(receiver.start(&far.channels[1]), Progress::Done);
        far.channels[1].note_taken();
    }
    far.send();
    near.receive();
    assert!(near.wire.say_end(1, Status::PeerFreed, &mut near.known));
    near.send();
    far.receive();
    for _ in 0..2 {
        assert_eq!(receiver.start(&far.channels[1]), Progress::Done);
    }
    assert_eq!(far.channels[1].closed(End::Recv), Some(Status::PeerFreed));
}

/// Else the request of the one could never be freed.
#[test]
fn who_dies_with_hands_on_anothers_buffer_leaves_it_to_its_owner() {
    let (near, far) = pair();
    let sender = near.channels[LARGEST].channel().sender(0).start(&near.channels[LARGEST]);
    let receiver = EagerReceiver::default().start(&far.channels[LARGEST]);
    assert_eq!((sender, receiver), (Progress::Pending, Progress::Pending));
    assert!(EagerReceiver::default().claim(&near.channels[LARGEST]));
    assert!(EagerSender::default().claim_buffer(&far.channels[LARGEST]));
    for (side, end) in [(near, End::Send), (far, End::Recv)] {
        let channel = &side.channels[LARGEST];
        assert!(!channel.channel().withdraw(&side.job, end));
        channel.void_claim();
        assert!(channel.channel().withdraw(&side.job, end));
    }
}

#[test]
fn a_connection_that_ends_breaks_the_wire() {
    let (near, mut far) = pair();
    drop(near);
    assert!(far.wire.receive(&mut far.known).has_ended);
    assert!(far.wire.is_broken());
    assert_eq!(far.send(), Sent::All);
}

/// Sends until the connection is full: nobody reads, but credit comes as if somebody did. Says how that went and how many messages had
/// been sent before.
fn fill_up(near: &mut Side, tap: &mut UnixStream) -> (Sent, u32) {
    let (mut sender, mut granted) = (near.channels[LARGEST].channel().sender(0), 0);
    loop {
        near.fill(LARGEST, granted as u8);
        assert_eq!(sender.start(&near.channels[LARGEST]), Progress::Pending);
        if let full @ Sent::Full { .. } = near.send() {
            return (full, granted);
        }
        assert_eq!(sender.poll(&near.channels[LARGEST]), Progress::Done);
        granted += 1;
        tap.write_all(&WireFrame::Taken { channel: LARGEST as u16, count: granted }.encode()).unwrap();
        near.receive();
    }
}

#[test]
fn a_full_connection_is_news_once_and_goes_on_when_it_has_room() {
    let (mut tap, socket) = tapped();
    let mut near = Side::new(End::Send, socket);
    let (full, granted) = fill_up(&mut near, &mut tap);
    assert_eq!(full, Sent::Full { is_news: true });
    assert_eq!(near.send(), Sent::Full { is_news: false });
    let mut message = vec![0; WIRE_HEADER_BYTES + SIZES[LARGEST] as usize];
    for byte in 0..granted as u8 {
        near.send();
        tap.read_exact(&mut message).unwrap();
        assert!(message[WIRE_HEADER_BYTES..].iter().all(|&other| other == byte));
    }
}

/// The connection takes any part of what is sent at once, which is more than it holds: headers, messages from their senders' buffers, and small ones between them.
/// Who is told of room while somebody else finds none would stop watching for it, and that one would tell nobody, as it is no news.
#[test]
fn who_comes_while_another_sends_learns_whether_the_connection_was_full() {
    struct Meanwhile<'a>(&'a Wire, &'a mut KnownChannels, Vec<(Sent, bool)>);
    impl WireChannels for Meanwhile<'_> {
        fn find(&mut self, index: u16) -> Option<&OpenChannel> {
            self.2.push((self.0.send(self.1), self.0.is_stuck()));
            self.1.find(index)
        }
    }
    let (mut tap, socket) = tapped();
    let mut near = Side::new(End::Send, socket);
    let send = |near: &mut Side| {
        near.wire.mark_due(0);
        let mut meanwhile = Meanwhile(&near.wire, &mut near.known, Vec::new());
        let sent = near.wire.send(&mut meanwhile);
        (sent, meanwhile.2)
    };
    assert_eq!(send(&mut near), (Sent::All, vec![(Sent::Busy, false)]));
    fill_up(&mut near, &mut tap);
    assert_eq!(send(&mut near), (Sent::Full { is_news: false }, vec![(Sent::Busy, true)]));
}

/// More is to be sent than the connection takes, all the time: nobody's messages wait until others have none.
#[test]
fn channels_share_a_wire_that_is_too_slow() {
    const CHANNELS: usize = 20;
    const TURNS: usize = 10;
    let (mut tap, socket) = tapped();
    let mut near = Side::with(End::Send, socket, &[8192; CHANNELS]);
    let mut senders: Vec<_> = near.channels.iter().map(|channel| channel.channel().sender(0)).collect();
    let mut is_pending = [false; CHANNELS];
    let mut sent = Vec::new();
    let mut message = vec![0; WIRE_HEADER_BYTES + 8192];
    while sent.len() < TURNS * CHANNELS * CELLS as usize {
        for (index, sender) in senders.iter_mut().enumerate() {
            let channel = &near.channels[index];
            let mut progress = if is_pending[index] { sender.poll(channel) } else { sender.start(channel) };
            while progress == Progress::Done {
                progress = sender.start(channel);
            }
            is_pending[index] = true;
        }
        near.send();
        // A message leaves, and its channel has credit for another one at once.
        tap.read_exact(&mut message).unwrap();
        let Ok(WireFrame::Message { channel, number, .. }) =
            WireFrame::decode(message[..WIRE_HEADER_BYTES].try_into().unwrap())
        else {
            panic!("only messages are sent")
        };
        sent.push(usize::from(channel));
        tap.write_all(&WireFrame::Taken { channel, count: number + 1 }.encode()).unwrap();
        near.receive();
    }
    let longest = sent.chunk_by(|one, next| one == next).map(<[_]>::len).max().unwrap();
    assert!(longest <= CELLS as usize, "{longest} messages of one channel in a row");
    for channel in 0..CHANNELS {
        let places: Vec<_> = (0..sent.len()).filter(|&place| sent[place] == channel).collect();
        let waited = places.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(waited <= CHANNELS * CELLS as usize, "channel {channel} waited for {waited} messages of others");
    }
}

/// What a liar may say of channels that exist and do not.
fn frames() -> impl Strategy<Value = WireFrame> {
    let channel = 0u16..10;
    prop_oneof![
        (channel.clone(), 0u32..6, prop_oneof![Just(0u32), Just(8), Just(57), Just(8192), Just(WIRE_BYTES_MAX as u32)])
            .prop_map(|(channel, number, bytes)| WireFrame::Message { channel, number, bytes }),
        (channel.clone(), 0u32..9).prop_map(|(channel, count)| WireFrame::Taken { channel, count }),
        channel.prop_map(|channel| WireFrame::End { channel, why: Status::RankFailed }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_liar_breaks_the_wire_and_nothing_else(frames in proptest::collection::vec(frames(), 1..20), end in any::<bool>()) {
        let (mut liar, socket) = UnixStream::pair().unwrap();
        // Nobody reads from a broken wire.
        liar.set_nonblocking(true).unwrap();
        let mut side = Side::new(if end { End::Send } else { End::Recv }, socket);
        for frame in frames {
            let mut bytes = frame.encode().to_vec();
            if let WireFrame::Message { bytes: payload, .. } = frame {
                bytes.resize(WIRE_HEADER_BYTES + payload as usize, 1);
            }
            if liar.write_all(&bytes).is_err() {
                break;
            }
            side.wire.receive(&mut side.known);
            side.send();
        }
    }

    #[test]
    fn noise_breaks_the_wire_and_nothing_else(bytes in proptest::collection::vec(any::<u8>(), WIRE_HEADER_BYTES..200)) {
        let (mut liar, socket) = UnixStream::pair().unwrap();
        let mut side = Side::new(End::Recv, socket);
        liar.write_all(&bytes).unwrap();
        side.wire.receive(&mut side.known);
        prop_assert!(side.wire.is_broken());
    }
}
