//! What happened in a run, for the checkers to judge.

use std::collections::{HashMap, HashSet};

use ropeway_proto::{CommId, Completion, Envelope, Rank, Status, Tag};

use crate::message;

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
    /// What went wrong under a client's eyes.
    pub complaints: Vec<String>,
    /// Faults.
    pub faults: Faults,
    channels: HashMap<(Envelope, bool), u32>,
    posted: u64,
}

impl History {
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
