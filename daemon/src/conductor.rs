//! The control plane: what clients and launchers ask on their control sockets, and what becomes of them.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Instant;

use mio::Interest;
use mio::event::Event;
use mio::unix::SourceFd;
use ropeway_proto::collective::CollectiveMember;
use ropeway_proto::control::{Attached, JobSpec, Refusal, Reply, Request};
use ropeway_proto::hello::VersionRange;
use ropeway_proto::{CommId, Epoch, JobId, NodeId, Rank, Slot, limits};
use ropeway_shm::{ControlSegment, Counter, eventfd};

use crate::client::ClientError;
use crate::job::{Job, Shortage};
use crate::link::NewWire;
use crate::server::{Server, Source};

impl Server {
    pub(crate) fn handle_client_event(&mut self, index: usize, event: &Event, now: Instant) {
        if let Err(error) = self.serve_client(index, event, now) {
            match error {
                ClientError::Closed => {}
                ClientError::Io(_) => tracing::debug!(%error, index, "client connection failed"),
                ClientError::Control(_) | ClientError::NotReading => {
                    return self.evict(index, &format!("its control socket: {error}"));
                }
            }
            self.remove_client(index);
        }
    }

    fn serve_client(&mut self, index: usize, event: &Event, now: Instant) -> Result<(), ClientError> {
        if event.is_writable()
            && let Some(client) = self.clients.get_mut(index)
        {
            client.flush()?;
        }
        if !(event.is_readable() || event.is_read_closed()) {
            return Ok(());
        }
        let Some(client) = self.clients.get_mut(index) else { return Ok(()) };
        // What was asked before the connection closed is still answered.
        let result = client.read();
        while let Some(request) = self.clients.get_mut(index).map_or(Ok(None), |client| client.next_request())? {
            self.handle_request(index, request, now)?;
        }
        result
    }

    fn handle_request(&mut self, index: usize, request: Request, now: Instant) -> Result<(), ClientError> {
        let result = match request {
            Request::Greet { versions, build } => self.same_build(versions, build).map(|_| Reply::Greeted),
            Request::CreateJob { versions, spec } => self.create_job(index, versions, spec, now),
            Request::Attach { versions, job, rank, build } => match self.attach(index, (versions, build), job, rank) {
                Ok(()) => return Ok(()),
                Err(AttachError::Refusal(refusal)) => Err(refusal),
                Err(AttachError::Client(error)) => return Err(error),
            },
            Request::Expect { job, rank } => {
                self.expect(index, job, rank);
                return Ok(());
            }
            Request::Reserve { arena_bytes } => match self.reserve_or_wait(index, arena_bytes) {
                Some(result) => result,
                None => return Ok(()),
            },
            Request::Register { slot, epoch, comm, member } => self.register(index, slot, epoch, comm, member),
            Request::Count => {
                // Asking again before the answer brings no second one, or a client could fill our memory.
                if !self.counting.contains(&index) {
                    self.counting.push(index);
                }
                return Ok(());
            }
            Request::Detach => self.detach(index),
        };
        let reply = result.unwrap_or_else(Reply::Refused);
        // What it asked for may have been its end.
        self.clients.get_mut(index).map_or(Ok(()), |client| client.reply(&reply))
    }

    fn create_job(
        &mut self,
        index: usize,
        versions: VersionRange,
        spec: JobSpec,
        now: Instant,
    ) -> Result<Reply, Refusal> {
        self.common_version(versions)?;
        if !spec.is_valid() {
            return Err(Refusal::Invalid("the job's description is not valid".into()));
        }
        if spec.node != NodeId(0) && spec.costs.is_none() {
            return Err(Refusal::Invalid("the job's costs are missing: create it on its first node first".into()));
        }
        if self.jobs.contains_key(&spec.job) || self.clients[index].created.is_some() {
            return Err(Refusal::Invalid("the job exists already".into()));
        }
        let mut links = spec.nodes.iter().filter_map(|node| Some(node.address?.link));
        if let Some(address) = links.find(|&address| !self.config.may_link(address)) {
            return Err(Refusal::Invalid(format!(
                "refusing to link to {address}: links are not encrypted yet, so only loopback addresses are safe"
            )));
        }
        if let Some(why) = self.config.why_not_ranks(spec.local_ranks().len() as u32) {
            return Err(Refusal::Invalid(why));
        }
        let user = self.clients[index].user;
        let costs = spec.costs.unwrap_or(self.config.costs);
        let job = Job::new(spec.clone(), user, &self.config, self.log().clone());
        let job = job.map_err(|error| Refusal::Invalid(format!("can't create the job's memory: {error}")))?;
        self.jobs.insert(spec.job, job);
        self.clients[index].created = Some(spec.job);
        for node in (0..spec.nodes.len() as u16).map(NodeId).filter(|&node| node != spec.node) {
            self.links.add_route(&spec, node, self.poll.registry(), now);
        }
        for wire in self.links.take_early(spec.job, now) {
            self.adopt_wire(wire, false, now);
        }
        tracing::debug!(job = spec.job.0, ranks = spec.size(), "job created");
        Ok(Reply::JobCreated { costs })
    }

    fn attach(
        &mut self,
        index: usize,
        (versions, build): (VersionRange, u64),
        id: JobId,
        rank: Rank,
    ) -> Result<(), AttachError> {
        let version = self.same_build(versions, build)?;
        let client = &mut self.clients[index];
        let user = client.user;
        let job = self.jobs.get_mut(&id).filter(|job| job.user == user && !job.is_ending).ok_or(Refusal::NoSuchJob)?;
        let bad_rank = |why: &str| Refusal::BadRank { rank, why: why.into() };
        if client.rank.is_some() {
            return Err(bad_rank("this connection is a rank already").into());
        }
        let local_rank = job.local_rank(rank).ok_or_else(|| bad_rank("it is not on this node"))?;
        let control = Arc::new(ControlSegment::create().map_err(ClientError::from)?);
        let bell = eventfd::eventfd().map_err(ClientError::from)?;
        job.attach(local_rank, index, Arc::clone(&control)).map_err(bad_rank)?;
        client.rank = Some((id, local_rank));
        let geometry = job.segment.geometry();
        let reply = Reply::Attached(Attached {
            version,
            size: job.engine.spec().size(),
            local_ranks: geometry.local_ranks,
            local_index: local_rank,
            arena_bytes_max: geometry.arena_bytes_max,
            first_ranks: job.engine.spec().nodes.iter().map(|node| node.first_rank).collect(),
        });
        let descriptor = bell.as_raw_fd();
        let token = Source::Ring(index).token();
        self.poll
            .registry()
            .register(&mut SourceFd(&descriptor), token, Interest::READABLE)
            .map_err(ClientError::from)?;
        client.reply_with(&reply, &[job.segment.fd(), control.fd(), bell.as_fd()])?;
        client.eventfd = Some(bell);
        for (node, block, socket) in job.wires() {
            client.reply_with(&Reply::Wire { node: node.0, block }, &[socket])?;
        }
        Ok(())
    }

    /// A launcher says whom a connection is for.
    fn expect(&mut self, index: usize, id: JobId, rank: Rank) {
        let client = &mut self.clients[index];
        let job = self.jobs.get(&id).filter(|job| job.user == client.user);
        client.expected = job.and_then(|job| job.local_rank(rank)).map(|local_rank| (id, local_rank));
    }

    /// A connection to another node has come up to be a job's wire. `is_registered`: with the poll loop, as it was dialled.
    pub(crate) fn adopt_wire(&mut self, mut wire: NewWire, is_registered: bool, now: Instant) {
        let registry = self.poll.registry();
        if is_registered && let Err(error) = registry.deregister(&mut wire.stream) {
            return tracing::warn!(%error, "can't deregister a wire");
        }
        let NewWire { job: id, node, daemon, .. } = wire;
        let Some(job) = self.jobs.get_mut(&id) else { return self.links.keep_early(wire, now) };
        let spec = job.engine.spec();
        let address = spec.nodes.get(usize::from(node.0)).and_then(|node| node.address);
        let is_expected = node != spec.node && address.is_some_and(|address| address.daemon == daemon);
        if !is_expected || job.wires().any(|(other, ..)| other == node) {
            return tracing::warn!(daemon, "a wire that nobody expects");
        }
        let entry = self.wires.vacant_entry();
        let token = Source::Wire(entry.key()).token();
        if job.add_wire(node, wire.stream, token).is_none() {
            return tracing::warn!(job = id.0, "no memory for a wire; the link carries its messages");
        }
        entry.insert((id, node));
        let clients: Vec<usize> = job.clients().collect();
        for index in clients {
            self.tell_of_wire(index, id, node);
        }
    }

    /// A rank that does not learn of a wire has the daemon work it.
    fn tell_of_wire(&mut self, index: usize, id: JobId, node: NodeId) {
        let found = self.jobs.get(&id).and_then(|job| job.wires().find(|(other, ..)| *other == node));
        if let (Some((_, block, socket)), Some(client)) = (found, self.clients.get_mut(index))
            && let Err(error) = client.reply_with(&Reply::Wire { node: node.0, block }, &[socket])
        {
            tracing::debug!(%error, index, "can't tell a client of a wire");
        }
    }

    fn common_version(&self, client: VersionRange) -> Result<u16, Refusal> {
        self.versions.common(client).map_err(|_| Refusal::Version { daemon: self.versions, client })
    }

    /// The version to speak with who shares memory with us.
    fn same_build(&self, versions: VersionRange, build: u64) -> Result<u16, Refusal> {
        let version = self.common_version(versions)?;
        if build == ropeway_shm::BUILD { Ok(version) } else { Err(Refusal::OtherBuild) }
    }

    /// `None` if the answer comes later: the node has not enough memory now, and what a job before had is still being given back.
    fn reserve_or_wait(&mut self, index: usize, arena_bytes: u64) -> Option<Result<Reply, Refusal>> {
        // Asking again before the answer brings no second one, or a client could fill our memory.
        if self.heirs.iter().any(|heir| heir.client == index) {
            return None;
        }
        // Looked at first: what ends in between is waited for in vain, but not overlooked.
        let pending = self.burials.pending();
        match (self.reserve(index, arena_bytes), pending) {
            (Err(NotReserved { is_of_node: true, .. }), Some(burials)) => {
                self.heirs.push(Heir { client: index, arena_bytes, burials });
                None
            }
            (result, _) => Some(result.map_err(|error| error.refusal)),
        }
    }

    fn reserve(&mut self, index: usize, arena_bytes: u64) -> Result<Reply, NotReserved> {
        let not_attached = || Refusal::Invalid("attach before reserving memory".into());
        let (id, local_rank) = self.clients[index].rank.ok_or_else(not_attached)?;
        let job = self.jobs.get_mut(&id).ok_or(Refusal::NoSuchJob)?;
        Ok(Reply::Reserved { arena_bytes: job.reserve_arena(local_rank, arena_bytes)? })
    }

    /// Answers those for whom all was given back that they wait for, unless more is being given back by now. Says how many.
    pub(crate) fn answer_heirs(&mut self) -> usize {
        let mut answered = 0;
        let over = self.burials.count_over();
        while let Some(at) = self.heirs.iter().position(|heir| heir.burials <= over) {
            let Heir { client: index, arena_bytes, .. } = self.heirs.remove(at);
            let Some(result) = self.reserve_or_wait(index, arena_bytes) else { continue };
            if let Err(error) = self.clients[index].reply(&result.unwrap_or_else(Reply::Refused)) {
                tracing::debug!(%error, index, "client connection failed");
                self.remove_client(index);
            }
            answered += 1;
        }
        answered
    }

    fn register(
        &mut self,
        index: usize,
        slot: Slot,
        epoch: Epoch,
        comm: u32,
        member: CollectiveMember,
    ) -> Result<Reply, Refusal> {
        let not_attached = || Refusal::Invalid("attach before registering a collective".into());
        let (id, local_rank) = self.clients[index].rank.ok_or_else(not_attached)?;
        if slot >= limits::SLOTS_PER_RANK {
            return Err(Refusal::Invalid(format!("slot {slot} is beyond the request table")));
        }
        self.hear_all(id, local_rank)?;
        let job = self.jobs.get_mut(&id).ok_or(Refusal::NoSuchJob)?;
        let registered = job.register((local_rank, slot), epoch, CommId(comm), member);
        registered.map(|is_done| {
            self.counters.add(Counter::CollectivesRegistered, is_done.into());
            if is_done { Reply::Registered } else { Reply::Again }
        })
    }

    /// Nothing is left to be done: whoever has asked for that is told, and finds what ranks have done in the counters.
    pub(crate) fn tell_counted(&mut self) {
        if self.counting.is_empty() {
            return;
        }
        for job in self.jobs.values_mut() {
            job.count(&self.counters);
        }
        for index in std::mem::take(&mut self.counting) {
            if let Some(client) = self.clients.get_mut(index)
                && let Err(error) = client.reply(&Reply::Counted)
            {
                tracing::debug!(%error, index, "client connection failed");
                self.remove_client(index);
            }
        }
    }

    /// What is in a rank's ring was said before what is said here, all of it. Who has said what it must not is cut off.
    fn hear_all(&mut self, id: JobId, local_rank: u32) -> Result<(), Refusal> {
        let job = self.jobs.get_mut(&id).ok_or(Refusal::NoSuchJob)?;
        match job.poll_whole_ring(local_rank) {
            Ok(count) => {
                self.counters.add(Counter::CommandsHandled, count as u64);
                Ok(())
            }
            Err((client, offence)) => {
                self.evict(client, &offence.to_string());
                Err(Refusal::NoSuchJob)
            }
        }
    }

    fn detach(&mut self, index: usize) -> Result<Reply, Refusal> {
        if let Some((id, local_rank)) = self.clients[index].rank
            && self.jobs.contains_key(&id)
        {
            self.hear_all(id, local_rank)?;
        }
        self.leave(index, false);
        Ok(Reply::Detached)
    }

    /// A client's rank, if it is one, ends.
    fn leave(&mut self, index: usize, has_failed: bool) {
        let client = &mut self.clients[index];
        if let Some(eventfd) = client.eventfd.take() {
            // The client has a duplicate, so closing ours is not enough to end the registration.
            let descriptor = eventfd.as_raw_fd();
            if let Err(error) = self.poll.registry().deregister(&mut SourceFd(&descriptor)) {
                tracing::warn!(%error, "can't deregister an eventfd");
            }
        }
        if let Some((id, local_rank)) = client.rank.take()
            && let Some(job) = self.jobs.get_mut(&id)
        {
            job.detach(local_rank, has_failed);
            self.links.spare_memory(id, job);
        }
    }

    /// Cuts a client off that does what no client library does.
    pub(crate) fn evict(&mut self, index: usize, reason: &str) {
        if self.clients.contains(index) {
            tracing::warn!(client = index, reason, "client evicted");
            self.counters.add(Counter::ClientsEvicted, 1);
            self.dismiss(index, reason);
        }
    }

    /// Ends a connection, with a reason. Its rank ends first: from the moment the client reads that it is over, it takes
    /// its buffers for its own again.
    fn dismiss(&mut self, index: usize, reason: &str) {
        self.leave(index, true);
        // It may not read its socket any more; then it does not learn why.
        let _ = self.clients[index].reply(&Reply::Evicted { reason: reason.into() });
        self.remove_client(index);
    }

    /// The connection is over, and with it the rank and the job that depend on it.
    fn remove_client(&mut self, index: usize) {
        if !self.clients.contains(index) {
            return;
        }
        self.leave(index, true);
        let client = self.clients.remove(index);
        self.counting.retain(|&other| other != index);
        self.heirs.retain(|heir| heir.client != index);
        if self.only_client == Some(index) {
            self.is_stopping = true;
        }
        if let Some((id, local_rank)) = client.expected
            && let Some(job) = self.jobs.get_mut(&id)
        {
            job.miss(local_rank);
        }
        let ended = client.created.and_then(|id| self.jobs.get_mut(&id)).map(Job::end);
        for client in ended.into_iter().flatten().filter(|&other| other != index) {
            if self.clients.contains(client) {
                self.dismiss(client, "the job has ended: its launcher is gone");
            }
        }
    }
}

/// A client whose memory is still being given back by a job that has ended.
pub(crate) struct Heir {
    client: usize,
    arena_bytes: u64,
    /// How many burials have to be over.
    burials: u64,
}

struct NotReserved {
    refusal: Refusal,
    is_of_node: bool,
}

impl From<Refusal> for NotReserved {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, is_of_node: false }
    }
}

impl From<Shortage> for NotReserved {
    fn from(shortage: Shortage) -> Self {
        Self { is_of_node: shortage.is_of_node, refusal: shortage.into() }
    }
}

enum AttachError {
    Refusal(Refusal),
    Client(ClientError),
}

impl From<Refusal> for AttachError {
    fn from(refusal: Refusal) -> Self {
        Self::Refusal(refusal)
    }
}

impl From<ClientError> for AttachError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl From<io::Error> for AttachError {
    fn from(error: io::Error) -> Self {
        Self::Client(error.into())
    }
}

#[cfg(test)]
mod tests;
