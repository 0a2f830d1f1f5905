//! Everything that is random about a run, drawn before it begins.

pub mod collective;

use std::net::SocketAddr;

use fastrand::Rng;
use ropeway_proto::control::{DaemonAddress, JobSpec, NodeSpec};
use ropeway_proto::{CommId, JobId, Rank, Tag};

use collective::CollectivePlan;

/// One run.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Where it comes from; also of what is drawn during the run.
    pub seed: u64,
    /// Nodes and ranks; the node is that of the first.
    pub spec: JobSpec,
    /// What the engines are told.
    pub limits: Limits,
    /// How slow everything is.
    pub delays: Delays,
    /// What each rank does.
    pub programs: Vec<Program>,
    /// What nodes do together.
    pub collectives: Vec<CollectivePlan>,
    /// What breaks.
    pub faults: Vec<(u64, Fault)>,
}

/// The engine's limits, small so that they are met.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they are named as in `ropeway_engine::Config`")]
pub struct Limits {
    pub eager_bytes_max: u64,
    pub channel_credits: u16,
    pub pair_credits: u32,
    pub chunk_bytes: u64,
}

/// Delays in virtual nanoseconds. What happens is drawn between nothing and these.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// From a client's ring to the engine.
    pub command_ns: u64,
    /// From the engine to a client that waits.
    pub completion_ns: u64,
    /// From a stash to a buffer.
    pub copy_ns: u64,
    /// From one end of a link to the other.
    pub link_ns: u64,
    /// For each byte on a link.
    pub byte_ns: u64,
    /// Of a link that pauses.
    pub pause_ns: u64,
    /// Of a program between two operations.
    pub think_ns: u64,
    /// Payload travels in pieces of up to so many bytes.
    pub piece_bytes: u64,
}

/// What breaks.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Fault {
    /// A rank's process dies.
    Death { rank: Rank },
    /// A rank leaves in an orderly way, whatever it was doing.
    Leave { rank: Rank },
    /// The link between two nodes breaks. One end notices `lag_ns` later than the other.
    Cut { nodes: (u16, u16), lag_ns: u64 },
}

/// What a rank does: all of it at the same time.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// How many times slower than others the rank is.
    pub slowness: u64,
    /// Persistent channels.
    pub channels: Vec<ChannelPlan>,
    /// One-shot messages to send.
    pub outboxes: Vec<OutboxPlan>,
    /// One-shot messages to receive.
    pub inboxes: Vec<InboxPlan>,
}

/// One end of a channel, initialised, used and freed several times over.
#[derive(Clone, Copy, Debug)]
pub struct ChannelPlan {
    /// Which end.
    pub is_send: bool,
    /// Whom with.
    pub peer: Rank,
    /// Communicator.
    pub comm: CommId,
    /// Tag.
    pub tag: Tag,
    /// Messages until it is freed.
    pub messages: u32,
    /// How often it is initialised.
    pub rounds: u32,
    /// Bytes of the buffer.
    pub bytes: u64,
    /// Blocks of its layout, if they divide the bytes.
    pub blocks: u32,
    /// Percentage of operations that are cancelled, if it is not too late.
    pub cancel_percent: u8,
    /// Percentage of operations instead of which, or in the middle of which, the request is freed.
    pub give_up_percent: u8,
}

/// Messages for one inbox.
#[derive(Clone, Debug)]
pub struct OutboxPlan {
    /// Whose.
    pub peer: Rank,
    /// The inbox's communicator.
    pub comm: CommId,
    /// Tags and sizes, in order.
    pub messages: Vec<(Tag, u64)>,
    /// How many sends run at a time.
    pub width: usize,
    /// Percentage of sends that are cancelled, and sent again.
    pub cancel_percent: u8,
}

/// Messages from anybody, on a communicator of their own.
#[derive(Clone, Debug)]
pub struct InboxPlan {
    /// The communicator.
    pub comm: CommId,
    /// Who sends how many.
    pub expected: Vec<(Rank, u32)>,
    /// Bytes of the receive buffers. Longer messages are truncated.
    pub capacity: u64,
    /// How many receives run at a time.
    pub width: usize,
    /// Percentage of receives that are cancelled.
    pub cancel_percent: u8,
    /// Percentage of receives before which it probes.
    pub probe_percent: u8,
}

/// In about so many pieces the longest message of a workload of collectives travels.
const PIECES_MAX: u64 = 4;
/// Tags that one-shot messages use.
pub const TAGS: i32 = 3;

impl Workload {
    /// The run that belongs to a seed.
    pub fn random(seed: u64, has_faults: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let kind = Kind::random(&mut rng);
        let spec = kind.random_spec(&mut rng);
        let mut this = Self::idle(seed, spec, &mut rng);
        if kind.has_messages {
            // Many nodes are for collectives; there are only to be messages on the same links.
            let width = if kind.is_wide() { 4 } else { this.spec.size() };
            Programs::add(&mut this, &mut rng, width);
        }
        if kind.has_collectives {
            this.collectives = CollectivePlan::several(&mut rng, &this.spec, &this.limits, &this.delays);
        }
        if has_faults {
            this.faults = random_faults(&mut rng, &this.spec);
            for plan in &mut this.collectives {
                if rng.u8(..6) == 0 {
                    plan.add_dissent(&mut rng);
                }
            }
            // Participants that differ are fault enough.
            if this.collectives.iter().any(|plan| plan.dissent.is_some()) && rng.bool() {
                this.faults.clear();
            }
        }
        this
    }

    /// Collectives and nothing else, on nodes with so many ranks.
    pub fn of_collectives(
        seed: u64,
        ranks_per_node: impl Iterator<Item = u32>,
        plans: impl FnOnce(&JobSpec) -> Vec<CollectivePlan>,
    ) -> Self {
        let mut this = Self::idle(seed, spec_of(ranks_per_node), &mut Rng::with_seed(seed));
        this.collectives = plans(&this.spec);
        // Not too many chunks and pieces, lest runs take for ever.
        let longest = this.collectives.iter().map(CollectivePlan::bytes_max).max().unwrap_or_default();
        let least = longest.div_ceil(PIECES_MAX);
        this.limits.chunk_bytes = this.limits.chunk_bytes.max(least);
        this.delays.piece_bytes = this.delays.piece_bytes.max(least);
        this
    }

    /// A job that does nothing, with random limits and delays.
    fn idle(seed: u64, spec: JobSpec, rng: &mut Rng) -> Self {
        let limits = Limits {
            eager_bytes_max: pick(rng, &[0, 7, 64, 300]),
            channel_credits: pick(rng, &[1, 2, 3, 4]),
            pair_credits: pick(rng, &[1, 2, 5, 32]),
            chunk_bytes: pick(rng, &[1, 50, 100, 1000]).max(1),
        };
        let delays = Delays {
            command_ns: pick(rng, &[1, 500, 5_000]),
            completion_ns: pick(rng, &[1, 500, 5_000]),
            copy_ns: pick(rng, &[1, 1_000, 20_000]),
            link_ns: pick(rng, &[1, 1_000, 10_000, 100_000]),
            byte_ns: pick(rng, &[0, 1, 20]),
            pause_ns: pick(rng, &[1, 1, 50_000, 1_000_000]),
            think_ns: pick(rng, &[1, 1_000, 50_000]),
            piece_bytes: pick(rng, &[1 << 20, 200, 30]),
        };
        let program = |_| Program { slowness: pick(rng, &[1, 1, 1, 5, 40]), ..Program::default() };
        let programs = (0..spec.size()).map(program).collect();
        Self { seed, spec, limits, delays, programs, collectives: Vec::new(), faults: Vec::new() }
    }
}

/// One of several values.
pub fn pick<T: Copy>(rng: &mut Rng, values: &[T]) -> T {
    values[rng.usize(..values.len())]
}

/// What a run is about.
struct Kind {
    nodes: u32,
    has_messages: bool,
    has_collectives: bool,
}

impl Kind {
    fn random(rng: &mut Rng) -> Self {
        let (nodes, has_messages, has_collectives) = match rng.u32(..400) {
            0 => (pick(rng, &[64, 100, 128]), false, true),
            1..=30 => (rng.u32(5..=33), rng.bool(), true),
            _ => (pick(rng, &[1, 2, 2, 3, 4]), true, rng.bool()),
        };
        Self { nodes, has_messages, has_collectives }
    }

    const fn is_wide(&self) -> bool {
        self.nodes > 4
    }

    fn random_spec(&self, rng: &mut Rng) -> JobSpec {
        let most = if self.is_wide() { 2 } else { 3 };
        spec_of((0..self.nodes).map(|_| rng.u32(1..=most)))
    }
}

/// A job with so many ranks on each node.
fn spec_of(ranks_per_node: impl Iterator<Item = u32>) -> JobSpec {
    let mut first_rank = 0;
    let node = |(node, ranks)| {
        let address = DaemonAddress { daemon: node, link: SocketAddr::from(([127, 0, 0, 1], 1)) };
        let node = NodeSpec { address: Some(address), first_rank, ranks };
        first_rank += ranks;
        node
    };
    JobSpec { nodes: (0..).zip(ranks_per_node).map(node).collect(), ..JobSpec::single_node(JobId(1), 0) }
}

fn random_faults(rng: &mut Rng, spec: &JobSpec) -> Vec<(u64, Fault)> {
    let (size, nodes, count) = (spec.size(), spec.nodes.len() as u16, rng.u32(1..=3));
    let fault = |_| {
        // Runs last from a few microseconds to many milliseconds: early, late, and all magnitudes between.
        let magnitude = rng.u32(8..24);
        let at = rng.u64(0..1 << magnitude);
        let fault = match rng.u8(..3) {
            0 => Fault::Death { rank: rng.u32(..size) },
            1 => Fault::Leave { rank: rng.u32(..size) },
            _ if nodes == 1 => Fault::Death { rank: rng.u32(..size) },
            _ => {
                let one = rng.u16(..nodes);
                let other = (one + rng.u16(1..nodes)) % nodes;
                let magnitude = rng.u32(1..20);
                Fault::Cut { nodes: (one, other), lag_ns: rng.u64(0..1 << magnitude) }
            }
        };
        (at, fault)
    };
    (0..count).map(fault).collect()
}

/// Draws what ranks do so that they can be done: whatever one expects, another one sends.
struct Programs<'a> {
    rng: &'a mut Rng,
    limits: Limits,
    programs: Vec<Program>,
}

impl<'a> Programs<'a> {
    /// Adds messages to idle programs: the wider, the more.
    fn add(workload: &mut Workload, rng: &'a mut Rng, width: u32) {
        let size = workload.spec.size();
        let programs = std::mem::take(&mut workload.programs);
        let mut this = Self { rng, limits: workload.limits, programs };
        for _ in 0..this.rng.u32(0..=2 * width) {
            this.add_channels(size);
        }
        for inbox in 0..this.rng.u32(0..=width) {
            this.add_inbox(size, CommId(10 + inbox));
        }
        workload.programs = this.programs;
    }

    fn bytes(&mut self) -> u64 {
        let Limits { eager_bytes_max, chunk_bytes, .. } = self.limits;
        match self.rng.u8(..8) {
            0 => 0,
            1 => self.rng.u64(..8),
            2 => eager_bytes_max,
            3 => eager_bytes_max + 1,
            // Not too many chunks, lest runs take for ever.
            4 => (2 * chunk_bytes).max(16),
            5 => 3 * chunk_bytes + 5,
            _ => self.rng.u64(8..200),
        }
    }

    /// Several channels of one envelope: they bind in order of init, whoever initialises them.
    fn add_channels(&mut self, size: u32) {
        let (source, dest) = (self.rng.u32(..size), self.rng.u32(..size));
        let (comm, tag) = (CommId(self.rng.u32(..2)), self.rng.i32(0..2));
        let (messages, rounds) = (self.rng.u32(0..12), self.rng.u32(1..=3));
        let is_taken = |plan: &ChannelPlan| plan.is_send && (plan.peer, plan.comm, plan.tag) == (dest, comm, tag);
        if self.programs[source as usize].channels.iter().any(is_taken) {
            return;
        }
        let bytes = self.bytes();
        let cancel_percent = pick(self.rng, &[0, 0, 10, 50]);
        let give_up_percent = pick(self.rng, &[0, 0, 0, 8]);
        for _ in 0..self.rng.u32(1..=2) {
            for (is_send, rank, peer) in [(true, source, dest), (false, dest, source)] {
                // Some receive buffers are too short, or longer than need be.
                let bytes = match self.rng.u8(..10) {
                    0 if !is_send => bytes / 2,
                    1 if !is_send => bytes + self.rng.u64(..100),
                    _ => bytes,
                };
                let blocks = self.rng.u32(1..10);
                let shape = ChannelPlan {
                    is_send,
                    peer,
                    comm,
                    tag,
                    messages,
                    rounds,
                    bytes,
                    blocks,
                    cancel_percent,
                    give_up_percent,
                };
                self.programs[rank as usize].channels.push(shape);
            }
        }
    }

    fn add_inbox(&mut self, size: u32, comm: CommId) {
        let dest = self.rng.u32(..size);
        let (width, cancel_percent) = (self.rng.usize(1..6), pick(self.rng, &[0, 0, 20]));
        let mut inbox = InboxPlan {
            comm,
            expected: Vec::new(),
            capacity: 0,
            width,
            cancel_percent,
            probe_percent: pick(self.rng, &[0, 0, 30]),
        };
        for source in 0..size {
            if self.rng.bool() {
                continue;
            }
            let count = self.rng.u32(1..15);
            let messages: Vec<_> = (0..count).map(|_| (self.rng.i32(0..TAGS), self.bytes())).collect();
            inbox.expected.push((source, count));
            inbox.capacity = messages.iter().map(|&(_, bytes)| bytes).fold(inbox.capacity, u64::max);
            let width = self.rng.usize(1..6);
            let outbox = OutboxPlan { peer: dest, comm, messages, width, cancel_percent };
            self.programs[source as usize].outboxes.push(outbox);
        }
        if self.rng.u8(..5) == 0 {
            inbox.capacity /= 2;
        }
        self.programs[dest as usize].inboxes.push(inbox);
    }
}
