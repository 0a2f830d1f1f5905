//! The members of a collective that live on this node. They meet in memory all have, and go on by themselves; the engine brings
//! them together: the k-th registration of each member of a communicator belongs to the k-th of all others. If there are members
//! on other nodes, what happens between the nodes is a collective of its own ([`collective`](crate::collective)), which
//! whoever holds the meeting opens, starts and closes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ropeway_proto::agreement::{Difference, ShapeDigest, Statement};
use ropeway_proto::collective::{CollectiveMember, CollectiveShape, ShapeError};
use ropeway_proto::{ChannelId, CommId, Completion, Endpoint, Epoch, Layout, NodeId, Rank, Slot, Status};

use crate::collective::NodeCollective;
use crate::direct::LocalWork;
use crate::engine::{Engine, RankState};
use crate::error::Violation;
use crate::request::Kind;

/// Names a meeting, as whoever holds it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeetingId(pub u32);

/// A member of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its number among the members.
    pub(crate) rank: u32,
    /// Which collective of the communicator.
    pub(crate) number: u32,
    /// What it has registered.
    pub(crate) digest: ShapeDigest,
    pub(crate) meeting: Place,
    /// Started before the meeting was there.
    pub(crate) is_active: bool,
}

/// Where members meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Not all of this node's have registered.
    Unknown,
    At(MeetingId),
    /// There is no memory for so many bytes.
    Nowhere {
        bytes: u64,
    },
}

/// Registrations that wait for the other members'.
#[derive(Default)]
pub(crate) struct Gatherings {
    waiting: HashMap<(CommId, u32), Gathering>,
    /// What their shapes take.
    bytes: usize,
}

struct Gathering {
    /// Of this node, by number. No more than have registered: what is kept is not to grow faster than what is said.
    members: BTreeMap<u32, (ChannelId, CollectiveMember)>,
    /// How many of this node have not registered.
    missing: usize,
    /// What the first one has said.
    first: CollectiveMember,
    /// There are members on other nodes.
    is_spanning: bool,
    /// It will never be complete.
    failure: Option<Failure>,
}

/// Why members never meet.
#[derive(Clone, Copy)]
enum Failure {
    /// One is gone.
    Gone(Completion),
    /// They have registered different things.
    Dispute(Statement),
}

impl Failure {
    /// What a member is told that has registered this.
    fn told(self, digest: &ShapeDigest) -> Completion {
        match self {
            Self::Gone(failure) => failure,
            Self::Dispute(statement) => {
                Completion::mismatch(statement.dissenter_from(digest).expect("a dispute is between two"))
            }
        }
    }
}

/// Of one job on one node.
const GATHERINGS_MAX: usize = 1 << 16;
/// The same of the shapes of collectives that wait, which have a number for each member, or even each pair: a hundred of the largest, or
/// 65536 of 2000 members each.
const GATHERED_BYTES_MAX: usize = 512 << 20;

/// Why a registration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum RegistrationError {
    #[error(transparent)]
    Shape(#[from] ShapeError),
    #[error(transparent)]
    Violation(#[from] Violation),
    #[error("rank {rank} is not member {number} of the collective")]
    NotMember { rank: Rank, number: u32 },
    #[error("there is no rank {rank}")]
    NoRank { rank: Rank },
    #[error("no communicator has number {0}, or so many collectives", comm.0)]
    Number { comm: CommId },
    #[error("too many collectives wait for members that have not registered them")]
    TooMany,
    #[error("the member has registered this collective already")]
    Twice,
}

impl Engine {
    /// A member registers a collective on an empty slot. Its buffers are checked already.
    pub fn register(
        &mut self,
        (local_rank, slot): (u32, Slot),
        epoch: Epoch,
        comm: CommId,
        member: CollectiveMember,
    ) -> Result<(), RegistrationError> {
        member.shape.check()?;
        let (own, number) = (self.rank_of(local_rank), member.rank);
        if member.shape.members.get(number as usize) != Some(&own) {
            return Err(RegistrationError::NotMember { rank: own, number });
        }
        if let Some(&rank) = member.shape.members.iter().find(|&&rank| rank >= self.config.spec.size()) {
            return Err(RegistrationError::NoRank { rank });
        }
        if NodeCollective::number(comm, member.number).is_none() {
            return Err(RegistrationError::Number { comm });
        }
        let key = (comm, member.number);
        let gathering = self.gatherings.waiting.get(&key);
        if gathering.is_none() && !self.gatherings.has_room(&member.shape) {
            return Err(RegistrationError::TooMany);
        }
        if gathering.is_some_and(|found| found.members.contains_key(&number)) {
            return Err(RegistrationError::Twice);
        }
        let endpoint = Endpoint { comm, peer: None, tag: None };
        let id = self.open_slot(local_rank, slot, epoch, endpoint, Layout::contiguous(0, 0))?;
        let (rank, digest) = (number, ShapeDigest::of(&member.shape));
        self.requests[id].kind =
            Kind::Member(Box::new(Member { rank, number: key.1, digest, meeting: Place::Unknown, is_active: false }));
        self.admit(id);
        self.gather(key, id, member);
        self.acknowledge_init(id);
        Ok(())
    }

    /// Those who would meet if this member registered the collective now. `None` if that is not all that is missing.
    pub fn would_meet(&self, comm: CommId, member: &CollectiveMember) -> Option<Vec<CollectiveMember>> {
        let waiting = self.gatherings.waiting.get(&(comm, member.number));
        if waiting.is_some_and(|found| found.failure.is_some() || dispute(&found.first, member).is_some()) {
            return None;
        }
        let local = self.config.spec.local_ranks();
        let here = member.shape.members.iter().filter(|rank| local.contains(rank)).count();
        let others = waiting.into_iter().flat_map(|found| found.members.values());
        let mut all: Vec<_> = others.map(|(_, other)| other).chain([member]).cloned().collect();
        all.sort_by_key(|member| member.rank);
        (all.len() == here).then_some(all)
    }

    fn gather(&mut self, key: (CommId, u32), id: ChannelId, mut member: CollectiveMember) {
        let ranks = &member.shape.members;
        let local = self.config.spec.local_ranks();
        // Of others who have left see `handle_rank_gone`.
        let matters = |&&rank: &&Rank| local.contains(&rank) || self.ranks[rank as usize] != RankState::Left;
        let gone = ranks.iter().filter(matters).find_map(|&rank| self.why_gone(rank));
        let here = ranks.iter().filter(|rank| local.contains(rank)).count();
        let bytes = &mut self.gatherings.bytes;
        let gathering = self.gatherings.waiting.entry(key).or_insert_with(|| {
            *bytes += bytes_of(&member.shape);
            Gathering {
                members: BTreeMap::new(),
                missing: here,
                first: member.clone(),
                is_spanning: here < ranks.len(),
                failure: None,
            }
        });
        let dispute = dispute(&gathering.first, &member);
        // Who differs may have a number that is another node's, or nobody's: nobody waits for that here.
        let expected = gathering.first.shape.members.get(member.rank as usize);
        gathering.missing -= usize::from(expected.is_some_and(|rank| local.contains(rank)));
        // Of what differs no more is needed than that it does.
        member.shape = Arc::clone(&gathering.first.shape);
        gathering.members.insert(member.rank, (id, member));
        if let Some(failure) = dispute.map(Failure::Dispute).or(gone.map(Failure::Gone)) {
            return self.fail_gathering(key, failure);
        }
        if gathering.missing == 0 && gathering.failure.is_none() {
            let gathering = self.gatherings.remove(key).expect("it was just there");
            let (requests, members) = gathering.members.into_values().unzip();
            self.local_work.push_back(LocalWork::Meet { comm: key.0, requests, members });
        }
    }

    /// The members' meeting was set up; or could not be, because there is no memory for so many bytes.
    pub fn handle_met(&mut self, requests: &[ChannelId], meeting: Result<MeetingId, u64>) {
        for &id in requests {
            let operation = self.token(id);
            let Kind::Member(member) = &mut self.requests[id].kind else { continue };
            member.meeting = meeting.map_or_else(|bytes| Place::Nowhere { bytes }, Place::At);
            let (rank, was_active) = (member.rank, std::mem::take(&mut member.is_active));
            match meeting {
                Ok(meeting) if was_active => {
                    self.local_work.push_back(LocalWork::Arrive { meeting, member: rank, operation });
                }
                Err(bytes) if was_active => self.complete(id, no_memory(bytes)),
                _ => {}
            }
        }
    }

    pub(crate) fn start_member(&mut self, id: ChannelId) {
        let operation = self.token(id);
        let key = self.key_of(id);
        let Kind::Member(member) = &mut self.requests[id].kind else { return };
        let why = match member.meeting {
            Place::At(meeting) => {
                let member = member.rank;
                return self.local_work.push_back(LocalWork::Arrive { meeting, member, operation });
            }
            Place::Nowhere { bytes } => Some(no_memory(bytes)),
            Place::Unknown => {
                let failure = self.gatherings.waiting.get(&key).and_then(|gathering| gathering.failure);
                failure.map(|failure| failure.told(&member.digest))
            }
        };
        let Kind::Member(member) = &mut self.requests[id].kind else { return };
        member.is_active = true;
        if let Some(why) = why {
            self.complete(id, why);
        }
    }

    /// A client asks for work on its collective.
    pub(crate) fn work_member(&mut self, id: ChannelId) {
        let work = self.meeting_of(id).map(|meeting| LocalWork::Work { meeting });
        self.local_work.extend(work);
    }

    /// A client has come that has no other members on its node. If the meeting is gone meanwhile, it knows.
    pub(crate) fn arrive_alone(&mut self, local_rank: u32, slot: Slot) {
        let state = *self.slot_state(local_rank, slot);
        let arrival =
            self.request_of(state).and_then(|id| self.meeting_of(id)).map(|meeting| LocalWork::ArriveAlone { meeting });
        self.local_work.extend(arrival);
    }

    fn meeting_of(&self, id: ChannelId) -> Option<MeetingId> {
        let Kind::Member(member) = &self.requests[id].kind else { return None };
        if let Place::At(meeting) = member.meeting { Some(meeting) } else { None }
    }

    /// A member frees its request. True if its meeting has to be left first.
    pub(crate) fn leave_meeting(&mut self, id: ChannelId) -> bool {
        let rank = self.rank_of(self.requests[id].local_rank);
        let why = Completion { source: rank, ..Completion::bare(Status::PeerFreed) };
        let Kind::Member(member) = &self.requests[id].kind else { return false };
        if let Place::At(meeting) = member.meeting {
            self.local_work.push_back(LocalWork::Leave { meeting, request: Some(id), why });
            return true;
        }
        let key = self.key_of(id);
        self.forget_member(id);
        self.fail_gathering(key, Failure::Gone(why));
        false
    }

    /// The process of a member is gone.
    pub(crate) fn abandon_meeting(&mut self, id: ChannelId, status: Status) {
        let rank = self.rank_of(self.requests[id].local_rank);
        let why = Completion { source: rank, ..Completion::bare(status) };
        let Kind::Member(member) = &self.requests[id].kind else { return };
        match member.meeting {
            // It leaves already, as soon as nobody uses its buffers.
            Place::At(_) if self.requests[id].is_freeing => {}
            Place::At(meeting) => {
                self.local_work.push_back(LocalWork::Leave { meeting, request: None, why });
            }
            Place::Unknown | Place::Nowhere { .. } => {
                let key = self.key_of(id);
                self.forget_member(id);
                self.fail_gathering(key, Failure::Gone(why));
            }
        }
    }

    /// Ranks are gone: what waits for their registration waits in vain.
    pub(crate) fn fail_gatherings(&mut self, is_gone: impl Fn(Rank) -> bool, failure: Completion) {
        let has_rank = |gathering: &Gathering| gathering.first.shape.members.iter().any(|&rank| is_gone(rank));
        let waiting = &self.gatherings.waiting;
        let keys: Vec<_> = waiting.iter().filter(|(_, gathering)| has_rank(gathering)).map(|(&key, _)| key).collect();
        keys.into_iter().for_each(|key| self.fail_gathering(key, Failure::Gone(failure)));
    }

    fn fail_gathering(&mut self, key: (CommId, u32), failure: Failure) {
        let Some(gathering) = self.gatherings.waiting.get_mut(&key) else { return };
        let is_news = gathering.failure.is_none();
        let failure = *gathering.failure.get_or_insert(failure);
        let first = (is_news && gathering.is_spanning).then(|| gathering.first.clone());
        let present: Vec<ChannelId> = gathering.members.values().map(|(id, _)| *id).collect();
        for id in present {
            let Kind::Member(member) = &mut self.requests[id].kind else { continue };
            let why = failure.told(&member.digest);
            if std::mem::take(&mut member.is_active) {
                self.complete(id, why);
            }
        }
        match (first, failure) {
            (None, _) => {}
            (Some(member), Failure::Gone(_)) => {
                self.local_work.push_back(LocalWork::Renounce { comm: key.0, member });
            }
            (Some(member), Failure::Dispute(statement)) => {
                let number = NodeCollective::number(key.0, key.1).expect("it was checked when they registered");
                self.dispute(number, &self.nodes_of(&member.shape.members), statement);
            }
        }
    }

    /// Where these ranks live, each node once.
    fn nodes_of(&self, ranks: &[Rank]) -> Vec<NodeId> {
        let mut nodes: Vec<_> = ranks.iter().filter_map(|&rank| self.config.spec.node_of(rank)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Takes a member out of its gathering, which ends with the last.
    fn forget_member(&mut self, id: ChannelId) {
        let key = self.key_of(id);
        let Some(gathering) = self.gatherings.waiting.get_mut(&key) else { return };
        gathering.members.retain(|_, (other, _)| *other != id);
        // Who registers it later is to learn that it has failed.
        if gathering.missing == 0 && gathering.members.is_empty() {
            self.gatherings.remove(key);
        }
    }

    fn key_of(&self, id: ChannelId) -> (CommId, u32) {
        let request = &self.requests[id];
        let number = if let Kind::Member(member) = &request.kind { member.number } else { 0 };
        (request.comm, number)
    }
}

/// What there is to be said of two members of a node, if they have registered different things.
fn dispute(first: &CollectiveMember, other: &CollectiveMember) -> Option<Statement> {
    if first.shape == other.shape {
        return None;
    }
    let (digest, others) = (ShapeDigest::of(&first.shape), ShapeDigest::of(&other.shape));
    let difference = digest.difference(&others).unwrap_or(Difference::Otherwise);
    let rank_of = |member: &CollectiveMember| member.shape.members[member.rank as usize];
    Some(Statement { rank: rank_of(first), digest, dissenter: Some((rank_of(other), difference)) })
}

/// Memory that a shape takes.
fn bytes_of(shape: &CollectiveShape) -> usize {
    let numbers = size_of_val(&shape.members[..]) + size_of_val(&shape.counts[..]);
    size_of::<CollectiveShape>() + numbers + shape.algorithm.as_ref().map_or(0, String::len)
}

fn no_memory(bytes: u64) -> Completion {
    Completion { bytes, ..Completion::bare(Status::NoMemory) }
}

impl Gatherings {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    fn has_room(&self, shape: &CollectiveShape) -> bool {
        self.waiting.len() < GATHERINGS_MAX && self.bytes + bytes_of(shape) <= GATHERED_BYTES_MAX
    }

    fn remove(&mut self, key: (CommId, u32)) -> Option<Gathering> {
        let gathering = self.waiting.remove(&key)?;
        self.bytes -= bytes_of(&gathering.first.shape);
        Some(gathering)
    }
}

#[cfg(test)]
mod tests {
    use ropeway_proto::JobId;
    use ropeway_proto::collective::CollectiveKind;
    use ropeway_proto::control::JobSpec;

    use super::*;
    use crate::engine::Config;

    const COMM: CommId = CommId::WORLD;

    fn engine(ranks: u32) -> Engine {
        Engine::new(Config::new(JobSpec::single_node(JobId(1), ranks)))
    }

    fn barrier(members: &[Rank], number: u32, rank: u32) -> CollectiveMember {
        let shape = CollectiveShape {
            kind: CollectiveKind::Barrier,
            members: members.to_vec(),
            root: 0,
            combination: None,
            element_bytes: 1,
            counts: Vec::new(),
            is_reproducible: false,
            algorithm: None,
        };
        CollectiveMember { shape: shape.into(), number, rank, input: 0, output: 0 }
    }

    #[test]
    fn shapes_that_wait_take_so_much_memory_and_no_more() {
        let mut engine = engine(3);
        let all = [0, 1, 2];
        engine.register((0, 0), 1, COMM, barrier(&all, 0, 0)).unwrap();
        let each = engine.gatherings.bytes;
        assert!(each >= size_of_val(&all));
        engine.gatherings.bytes = GATHERED_BYTES_MAX - each;
        engine.register((0, 1), 1, COMM, barrier(&all, 1, 0)).unwrap();
        assert_eq!(engine.register((0, 2), 1, COMM, barrier(&all, 2, 0)), Err(RegistrationError::TooMany));
        // Others may come to what waits already, and the last of them makes room.
        engine.register((1, 1), 1, COMM, barrier(&all, 1, 1)).unwrap();
        engine.register((2, 1), 1, COMM, barrier(&all, 1, 2)).unwrap();
        engine.register((0, 2), 1, COMM, barrier(&all, 2, 0)).unwrap();
    }

    #[test]
    fn what_nobody_waits_for_any_more_takes_no_memory() {
        let mut engine = engine(3);
        engine.register((0, 0), 1, COMM, barrier(&[0, 1], 0, 0)).unwrap();
        // This one differs: they never meet.
        engine.register((1, 0), 1, COMM, barrier(&[0, 1, 2], 0, 1)).unwrap();
        assert!(engine.gatherings.bytes > 0);
        (0..2).for_each(|local_rank| engine.handle_client_gone(local_rank, true));
        assert_eq!((engine.gatherings.len(), engine.gatherings.bytes), (0, 0));
    }
}
