//! What happened in a run, for the checkers to judge.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ropeway_proto::{CommId, Completion, Envelope, Rank, Status, Tag};

use crate::message;
use crate::participant::Seat;

/// Messages that must be received in the order in which they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stream {
    /// Communicator.
    pub comm: CommId,
    /// Who sends.
    pub source: Rank,
    /// Who receives.
    pub dest: Rank,
    /// Tag.
    pub tag: Tag,
    /// Which channel of that envelope, in order of init; `None` for one-shot messages.
    pub channel: Option<u32>,
}

impl Stream {
    /// One-shot messages with this envelope.
    pub fn one_shot(Envelope { comm, source, dest, tag }: Envelope) -> Self {
        Self { comm, source, dest, tag, channel: None }
    }
}

/// A send that was started.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Which message.
    pub id: u64,
    /// Where it belongs.
    pub stream: Stream,
    /// How long it is.
    pub bytes: u64,
    /// How the send ended, if it did.
    pub fate: Option<Status>,
}

/// A receive that ended with a message.
#[derive(Clone, Debug)]
pub struct Received {
    /// Where the message belongs, by what the completion says.
    pub stream: Stream,
    /// When the receive was started, in order among all receives.
    pub posted: u64,
    /// How long the completion says it is.
    pub bytes: u64,
    /// What was in the buffer; `None` if it was truncated.
    pub content: Option<Vec<u8>>,
}

/// An operation that ended otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Whose.
    pub rank: Rank,
    /// The other end, unless it was any.
    pub peer: Option<Rank>,
    /// Which channel, if it was of one.
    pub stream: Option<Stream>,
    /// Whether its owner had asked for the end.
    pub was_cancelled: bool,
    /// How it ended.
    pub completion: Completion,
}

/// A round that a participant of a collective has begun.
#[derive(Clone, Debug)]
pub struct Round {
    /// When it began, in order among all begins and ends.
    pub began: u64,
    /// How it ended, if it did.
    pub end: Option<RoundEnd>,
}

impl Round {
    /// Whether it has ended badly.
    pub fn has_failed(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.failure.is_some())
    }
}

/// The end of a round.
#[derive(Clone, Debug)]
pub struct RoundEnd {
    /// When, in order among all begins and ends.
    pub at: u64,
    /// Why it has failed, if it has.
    pub failure: Option<Completion>,
    /// What was in the output.
    pub output: Vec<u8>,
}

/// Faults that have happened so far.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Ranks that died.
    pub failed: HashSet<Rank>,
    /// Ranks that left early.
    pub left: HashSet<Rank>,
    /// Pairs of nodes, both ways, whose link is cut.
    pub cut: HashSet<(u16, u16)>,
}

/// Everything the checkers need.
#[derive(Debug, Default)]
pub struct History {
    /// Sends, in the order in which they were started.
    pub sent: Vec<Sent>,
    /// Messages received.
    pub received: Vec<Received>,
    /// Operations that ended otherwise.
    pub ended: Vec<Ended>,
    /// Channels of which one end was given up before all messages were through.
    pub given_up: HashSet<Stream>,
    /// Rounds of collectives, in order.
    pub rounds: BTreeMap<Seat, Vec<Round>>,
    /// Collectives that have failed between two rounds.
    pub failures: Vec<(Seat, Completion)>,
    /// Participants that were not there for all rounds.
    pub gave_up: BTreeSet<Seat>,
    /// How many rounds were over on the node of a member that is gone, when it went.
    pub gone_after: BTreeMap<Seat, u32>,
    /// What went wrong under a client's eyes.
    pub complaints: Vec<String>,
    /// Faults.
    pub faults: Faults,
    channels: HashMap<(Envelope, bool), u32>,
    posted: u64,
    round_events: u64,
}

impl History {
    /// A participant begins a round.
    pub fn begin_round(&mut self, seat: Seat) {
        self.round_events += 1;
        let round = Round { began: self.round_events, end: None };
        self.rounds.entry(seat).or_default().push(round);
    }

    /// The round that a participant has begun last is over.
    pub fn end_round(&mut self, seat: Seat, failure: Option<Completion>, output: Vec<u8>) {
        self.round_events += 1;
        let round = self.rounds.get_mut(&seat).and_then(|rounds| rounds.last_mut()).expect("it has begun");
        round.end = Some(RoundEnd { at: self.round_events, failure, output });
    }

    /// The channel that a persistent request initialised now belongs to.
    pub fn next_channel(&mut self, envelope: Envelope, is_send: bool) -> Stream {
        let next = self.channels.entry((envelope, is_send)).or_default();
        *next += 1;
        Stream { channel: Some(*next - 1), ..Stream::one_shot(envelope) }
    }

    /// A send starts: which message it is to send.
    pub fn start_send(&mut self, stream: Stream, bytes: u64) -> usize {
        let id = message::mix(self.sent.len() as u64);
        self.sent.push(Sent { id, stream, bytes, fate: None });
        self.sent.len() - 1
    }

    /// A receive starts: its number.
    pub fn start_recv(&mut self) -> u64 {
        self.posted += 1;
        self.posted
    }

    /// Sends by stream, in order, without those that were cancelled.
    pub fn sent_by_stream(&self) -> HashMap<Stream, Vec<&Sent>> {
        let mut streams: HashMap<_, Vec<_>> = HashMap::new();
        for sent in self.sent.iter().filter(|sent| sent.fate != Some(Status::Cancelled)) {
            streams.entry(sent.stream).or_default().push(sent);
        }
        streams
    }

    /// Messages received by stream, in the order in which their receives were started.
    pub fn received_by_stream(&self) -> HashMap<Stream, Vec<&Received>> {
        let mut streams: HashMap<_, Vec<&Received>> = HashMap::new();
        for received in &self.received {
            streams.entry(received.stream).or_default().push(received);
        }
        for received in streams.values_mut() {
            received.sort_by_key(|received| received.posted);
        }
        streams
    }
}
