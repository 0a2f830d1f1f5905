//! The receiving ends of all lanes to this rank, and which of its receives the daemon has.

use std::collections::VecDeque;
use std::sync::Arc;

use ropeway_proto::{Completion, Endpoint, Rank, Status};
use ropeway_shm::post::{PostEnvelope, PostMemory, PostReceiver};
use ropeway_shm::shelf::Shelf;
use ropeway_shm::{JobSegment, PostLane};

use super::kept::{Kept, Told};
use super::{IS_NEIGHBOUR, Neighbours};

/// All of it. Threads take turns.
pub(super) struct Inbox {
    pub(super) job: Arc<JobSegment>,
    pub(super) local_rank: u32,
    /// Of the node.
    pub(super) first_rank: Rank,
    /// By sender.
    pub(super) inlets: Vec<Inlet>,
    /// Receives from anybody that the daemon has.
    posted: u32,
    /// Where receives from anybody look first: behind who came last.
    turn: u32,
    /// What became of kept receives that wait no more, until their operations are told.
    pub(super) told: Told,
    /// How often the daemon had taken kept receives over when it was last noticed.
    pub(super) taken_over: u32,
}

/// The receiving end of a lane.
#[derive(Default)]
pub(super) struct Inlet {
    pub(super) receiver: PostReceiver,
    /// Receives from this sender that the daemon has. While there are any, none is kept.
    pub(super) posted: u32,
    /// Receives from this sender that wait for their messages, in their order.
    pub(super) kept: VecDeque<Kept>,
    /// Where the daemon finds them.
    pub(super) shelf: Shelf,
    /// Places of the shelf that have memory.
    pub(super) places: u32,
}

impl Inbox {
    pub(super) fn new(job: Arc<JobSegment>, local_rank: u32, first_rank: Rank, local_ranks: u32) -> Self {
        let inlets = (0..local_ranks).map(|_| Inlet::default()).collect();
        Self { job, local_rank, first_rank, inlets, posted: 0, turn: 0, told: Told::default(), taken_over: 0 }
    }

    /// Receives the oldest message of one of these senders that suits, or without memory only finds it.
    pub(super) fn take(
        &mut self,
        sources: Neighbours,
        endpoint: &Endpoint,
        mut into: Option<&mut [u8]>,
    ) -> Option<Completion> {
        let source_and_found = self.each(sources).find_map(|source| {
            let found = self.take_from(source, endpoint, into.as_deref_mut());
            found.ok().map(|found| (source, found))
        });
        let (source, found) = source_and_found?;
        self.turn = source + 1;
        Some(found)
    }

    /// As [`take`](Self::take), of one sender. If there is nothing, the number of the next message to come.
    pub(super) fn take_from(
        &mut self,
        source: u32,
        endpoint: &Endpoint,
        mut into: Option<&mut [u8]>,
    ) -> Result<Completion, u64> {
        // What comes after kept receives were served is first theirs, too.
        let end = if self.inlets[source as usize].kept.is_empty() { u64::MAX } else { self.serve(source) };
        let lane = self.job.post_lane(source, self.local_rank).expect(IS_NEIGHBOUR);
        let receiver = &mut self.inlets[source as usize].receiver;
        let source = self.first_rank + source;
        loop {
            let (number, envelope) = receiver.find_before(end, &lane, |envelope| envelope.suits(endpoint))?;
            let Some(into) = into.as_deref_mut() else { return Ok(found(source, &envelope, true)) };
            if receiver.take(&lane, number) {
                let is_read = envelope.bytes <= into.len();
                if is_read {
                    lane.read(number, &envelope, &mut into[..envelope.bytes]);
                }
                receiver.free(&lane, number);
                return Ok(found(source, &envelope, is_read));
            }
        }
    }

    /// How many receives the daemon has that could take this sender's messages.
    pub(super) fn posted(&self, source: u32) -> u32 {
        self.posted + self.inlets[source as usize].posted
    }

    /// The daemon gets a receive from these senders. What they send from now on takes the detour; what they have sent is here.
    pub(super) fn post(&mut self, sources: Neighbours) {
        self.count(sources, |posted| *posted += 1);
        for source in self.each(sources) {
            if self.posted(source) == 1 {
                let lane = self.job.post_lane(source, self.local_rank).expect(IS_NEIGHBOUR);
                self.inlets[source as usize].receiver.close(&lane);
            }
        }
    }

    /// It has no such receive any more.
    pub(super) fn unpost(&mut self, sources: Neighbours) {
        self.count(sources, |posted| *posted -= 1);
        for source in self.each(sources) {
            if self.posted(source) == 0 {
                self.inlets[source as usize].receiver.reopen();
            }
        }
    }

    /// The lane of a sender that is a neighbour.
    pub(super) fn lane_from(&self, rank: Rank) -> Option<PostLane<'_>> {
        self.job.post_lane(rank.checked_sub(self.first_rank)?, self.local_rank)
    }

    fn count(&mut self, sources: Neighbours, change: impl Fn(&mut u32)) {
        match sources {
            Neighbours::Nobody => {}
            Neighbours::One(source) => {
                let posted = &mut self.inlets[source as usize].posted;
                change(posted);
                let lane = self.job.post_lane(source, self.local_rank).expect(IS_NEIGHBOUR);
                lane.words().set_posted(*posted);
            }
            Neighbours::All => {
                change(&mut self.posted);
                self.job.post_rank(self.local_rank).expect(IS_NEIGHBOUR).set_posted(self.posted);
            }
        }
    }

    /// These senders, in the order in which it is their turn.
    pub(super) fn each(&self, sources: Neighbours) -> impl Iterator<Item = u32> + use<> {
        let (ranks, own, turn) = (self.inlets.len() as u32, self.local_rank, self.turn);
        let (first, count) = match sources {
            Neighbours::Nobody => (0, 0),
            Neighbours::One(source) => (source, 1),
            Neighbours::All => (turn, ranks),
        };
        (0..count).map(move |nth| (first + nth) % ranks).filter(move |&source| source != own)
    }
}

/// What a receive is told of a message, which may be too long for it.
pub(super) fn found(source: Rank, envelope: &PostEnvelope, fits: bool) -> Completion {
    let status = if fits { Status::Success } else { Status::Truncated };
    Completion { status, source, tag: envelope.tag, bytes: envelope.bytes as u64 }
}
