//! A group of ranks and everything they can do to each other.

mod context;
mod create;

use std::fmt;
use std::sync::Arc;

use ropeway_proto::limits::TAG_MAX;
use ropeway_proto::{CommId, Command, End, Endpoint, Rank, Tag};

use crate::attachment::Attachment;
use crate::collective::Collectives;
use crate::plain::element_bytes;
use crate::request::Persistent;
use crate::terms::Terms;
use crate::{
    Buffer, Error, Group, Pending, Plain, RecvRequest, SendRequest, Source, Status, Strided, TagMatch, one_shot,
};

pub(crate) use context::Share;
use context::{Block, Context};

/// A group of ranks, and a context: messages of different communicators never meet.
///
/// [`Session::world`](crate::Session::world) is the communicator of all ranks of the job. Others are made of existing ones:
///
/// * [`dup`](Self::dup): the same ranks, messages of their own, for a library that must not meet its caller's.
/// * [`split`](Self::split): a communicator for each colour.
/// * [`split_by_node`](Self::split_by_node): one for each node.
/// * [`create`](Self::create): of a [`Group`].
/// * [`cartesian`](Self::cartesian) and [`graph`](Self::graph): ranks that know their neighbours.
///
/// **Ranks** in arguments, in [`Status::source`] and in errors are those of the communicator, `0..size`, which are not the
/// job's: split communicators count from 0 as well.
///
/// Cheap to clone; threads may share it. Calls that all ranks make together ([`barrier`](Self::barrier), making communicators,
/// registering collectives) have to be made in the same order by all of them, so threads that share a communicator agree on who
/// makes them, or each work on a duplicate of their own.
#[derive(Clone)]
pub struct Communicator {
    membership: Membership,
    rank: u32,
    context: Arc<Context>,
    collectives: Arc<Collectives>,
    /// Of collectives that are registered or called by this handle.
    algorithm: Option<Arc<str>>,
}

/// Where this process is, and whom it calls what there: all that operations need to know of their communicator.
#[derive(Clone)]
pub(crate) struct Membership {
    pub(crate) attachment: Arc<Attachment>,
    pub(crate) group: Group,
}

/// Messages from one rank to another, and memory for them.
///
/// # Errors
/// Before anything is sent, and without a trace: [`Error::RankOutOfRange`] and [`Error::BadTag`] if there is no such rank or tag;
/// [`Error::ForeignBuffer`] if a buffer is of another session; [`Error::LayoutOutOfBounds`] and [`Error::MessageTooLarge`] if a part of a buffer, or
/// what is in it, can't be sent; [`Error::TooManyRequests`] and [`Error::OutOfMemory`] if this rank has too much, of which the second is also said by
/// [`alloc`](Self::alloc). A call that fails drops the buffer that it was given.
///
/// Of calls that wait, and by [`wait`](crate::Active::wait) of others, how the operation ended: [`Error::Truncated`] or [`Error::SizeMismatch`] if a message does
/// not fit its receive; [`Error::RankFailed`], [`Error::RankLeft`] or [`Error::PeerLost`] if the other end is gone, and [`Error::OutsiderGone`] of
/// [`ANY_SOURCE`](crate::ANY_SOURCE) if somebody else is; [`Error::PeerFreed`] if the other end of a registered message was freed.
///
/// All of them: [`Error::DaemonGone`] and [`Error::Evicted`] if the session is over. What to do is in the [guide](crate::guide::failures).
impl Communicator {
    /// All ranks of the job. To be called once: further handles are clones, which count its collectives together.
    pub(crate) fn world(attachment: Arc<Attachment>) -> Self {
        let (rank, size) = (attachment.rank(), attachment.size());
        Self::new(Membership { attachment, group: Group::of_job(size) }, rank, Block::of_world(size))
    }

    fn new(membership: Membership, rank: u32, block: Block) -> Self {
        let (context, collectives) = (Arc::new(Context::new(block)), Arc::default());
        Self { membership, rank, context, collectives, algorithm: None }
    }

    /// The same communicator, whose collectives are done between nodes by the algorithm of this name, such as `ring`,
    /// `recursive-doubling` or `k-nomial:4`, instead of the one that is predicted to be fastest. `ropeway explain` lists them, with
    /// what they cost; all ranks have to ask for the same. Within a node nothing changes.
    ///
    /// A collective that can't be done so is refused when it is registered or first called ([`Error::Refused`]).
    ///
    /// ```no_run
    /// # fn example() -> Result<(), ropeway::Error> {
    /// let world = ropeway::init()?.world();
    /// let sum = world.with_algorithm("ring").allreduce_init::<f64>(1 << 20, ropeway::Operator::Sum)?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_algorithm(&self, name: &str) -> Self {
        Self { algorithm: Some(name.into()), ..self.clone() }
    }

    pub(crate) fn algorithm(&self) -> Option<&Arc<str>> {
        self.algorithm.as_ref()
    }

    pub(crate) fn membership(&self) -> &Membership {
        &self.membership
    }

    pub(crate) fn attachment(&self) -> &Arc<Attachment> {
        &self.membership.attachment
    }

    pub(crate) fn id(&self) -> CommId {
        self.context.id()
    }

    /// Ranks of the job, by rank of the communicator.
    pub(crate) fn members(&self) -> Vec<Rank> {
        self.membership.group.ranks().collect()
    }

    pub(crate) fn collectives(&self) -> &Collectives {
        &self.collectives
    }

    /// This process's number, `0..size`.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.membership.group.size()
    }

    /// The ranks, in order.
    pub fn group(&self) -> &Group {
        &self.membership.group
    }

    /// A buffer of `elements` elements, all bytes zero.
    ///
    /// ```compile_fail,E0277
    /// # fn example(world: ropeway::Communicator) {
    /// let names = world.alloc::<&str>(4); // a reference means nothing to another process
    /// # }
    /// ```
    pub fn alloc<T: Plain>(&self, elements: usize) -> Result<Buffer<T>, Error> {
        let bytes = elements.checked_mul(element_bytes::<T>()).map_or(u64::MAX, |bytes| bytes as u64);
        Ok(Buffer::new(self.attachment().allocate(bytes)?, elements))
    }

    /// Registers a send of the whole buffer to `dest`.
    ///
    /// The first send to a rank with a tag is matched with that rank's first receive from here with that tag, the second
    /// with the second, and so on. Whoever is freed early keeps its place; its partner gets [`Error::PeerFreed`]. It is matched with registered
    /// receives only: a [`recv`](Self::recv) never sees what it sends.
    pub fn send_init<T: Plain>(&self, buffer: Buffer<T>, dest: u32, tag: i32) -> Result<SendRequest<T>, Error> {
        let whole = Strided::whole(buffer.len());
        self.send_init_strided(buffer, whole, dest, tag)
    }

    /// Registers a receive into the whole buffer from `source`. It gets what registered sends send, and never a [`send`](Self::send).
    pub fn recv_init<T: Plain>(&self, buffer: Buffer<T>, source: u32, tag: i32) -> Result<RecvRequest<T>, Error> {
        let whole = Strided::whole(buffer.len());
        self.recv_init_strided(buffer, whole, source, tag)
    }

    /// Registers a send of a part of the buffer to `dest`. The blocks travel packed: any receive of as many elements fits.
    pub fn send_init_strided<T: Plain>(
        &self,
        buffer: Buffer<T>,
        part: Strided,
        dest: u32,
        tag: i32,
    ) -> Result<SendRequest<T>, Error> {
        let endpoint = self.endpoint(Some(dest), Some(tag))?;
        let elements = buffer.len();
        let layout = part.layout(self.offset(&buffer)?, elements, element_bytes::<T>())?;
        let terms = self.send_terms::<T>(tag, layout.bytes());
        let command = |slot, epoch| Command::InitSend { slot, epoch, endpoint, layout };
        let persistent =
            Persistent::init(&self.membership, buffer.into_memory(), terms, (End::Send, endpoint), command)?;
        Ok(SendRequest::new(persistent, elements))
    }

    /// Registers a receive into a part of the buffer from `source`.
    pub fn recv_init_strided<T: Plain>(
        &self,
        buffer: Buffer<T>,
        part: Strided,
        source: u32,
        tag: i32,
    ) -> Result<RecvRequest<T>, Error> {
        let endpoint = self.endpoint(Some(source), Some(tag))?;
        let elements = buffer.len();
        let layout = part.layout(self.offset(&buffer)?, elements, element_bytes::<T>())?;
        let terms = Terms::Recv { capacity: layout.bytes(), element_bytes: element_bytes::<T>() };
        let command = |slot, epoch| Command::InitRecv { slot, epoch, endpoint, layout };
        let persistent =
            Persistent::init(&self.membership, buffer.into_memory(), terms, (End::Recv, endpoint), command)?;
        Ok(RecvRequest::new(persistent, elements))
    }

    /// Sends a message, and returns when `message` may be changed again. Needs no copy if it lies in a [`Buffer`].
    ///
    /// If its receive has not begun, that is at once for a few dozen messages of some kilobytes, which are copied, and when its receive has
    /// begun for others. So of two ranks that send to each other one receives first, or both use [`sendrecv`](Self::sendrecv) or
    /// [`isend`](Self::isend).
    pub fn send<T: Plain>(&self, message: &[T], dest: u32, tag: i32) -> Result<(), Error> {
        let endpoint = self.endpoint(Some(dest), Some(tag))?;
        let terms = self.send_terms::<T>(tag, size_of_val(message) as u64);
        one_shot::send(&self.membership, message, endpoint, terms)
    }

    /// Receives a message. Needs no copy if `into` lies in a [`Buffer`].
    pub fn recv<T: Plain>(
        &self,
        into: &mut [T],
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        let endpoint = self.endpoint(source.into().0, tag.into().0)?;
        one_shot::recv(&self.membership, into, endpoint)
    }

    /// Begins to send a message.
    pub fn isend<T: Plain>(&self, buffer: Buffer<T>, dest: u32, tag: i32) -> Result<Pending<T>, Error> {
        let endpoint = self.endpoint(Some(dest), Some(tag))?;
        self.offset(&buffer)?;
        let terms = self.send_terms::<T>(tag, buffer.bytes());
        Pending::send(&self.membership, buffer, endpoint, terms)
    }

    /// Begins to receive a message. Who sends it does not wait for this rank to call again, however many receives are begun.
    pub fn irecv<T: Plain>(
        &self,
        buffer: Buffer<T>,
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Pending<T>, Error> {
        let endpoint = self.endpoint(source.into().0, tag.into().0)?;
        self.offset(&buffer)?;
        Pending::recv(&self.membership, buffer, endpoint)
    }

    /// Sends one message and receives another, in whatever order the partners do it.
    #[expect(clippy::too_many_arguments, reason = "they are those of a send and of a receive, in the order of both")]
    pub fn sendrecv<T: Plain, U: Plain>(
        &self,
        message: &[T],
        dest: u32,
        send_tag: i32,
        into: &mut [U],
        source: impl Into<Source>,
        recv_tag: impl Into<TagMatch>,
    ) -> Result<Status, Error> {
        let to = self.endpoint(Some(dest), Some(send_tag))?;
        let from = self.endpoint(source.into().0, recv_tag.into().0)?;
        let terms = self.send_terms::<T>(send_tag, size_of_val(message) as u64);
        one_shot::sendrecv(&self.membership, message, (to, terms), into, from)
    }

    /// Waits for a message without receiving it.
    pub fn probe(&self, source: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Status, Error> {
        let endpoint = self.endpoint(source.into().0, tag.into().0)?;
        one_shot::probe(&self.membership, endpoint)
    }

    /// Looks for a message without receiving it.
    pub fn iprobe(&self, source: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Option<Status>, Error> {
        let endpoint = self.endpoint(source.into().0, tag.into().0)?;
        one_shot::iprobe(&self.membership, endpoint)
    }

    /// The end of a message of our own: it never meets the program's.
    pub(crate) fn internal(&self, peer: u32, tag: Tag) -> Endpoint {
        Endpoint { comm: self.context.internal(), peer: Some(self.group().rank_of(peer)), tag: Some(tag) }
    }

    /// The end of a message of our `number`-th collective.
    pub(crate) fn of_collective(&self, peer: u32, number: u32) -> Endpoint {
        self.internal(peer, COLLECTIVE | number as i32 & (COLLECTIVE - 1))
    }

    pub(crate) fn send_terms<T: Plain>(&self, tag: Tag, bytes: u64) -> Terms {
        Terms::Send { source: self.rank(), tag, bytes, element_bytes: element_bytes::<T>() }
    }

    /// Where the buffer lies, if it is one of this session.
    fn offset<T: Plain>(&self, buffer: &Buffer<T>) -> Result<u64, Error> {
        if self.attachment().owns(buffer.memory()) { Ok(buffer.offset()) } else { Err(Error::ForeignBuffer) }
    }

    fn endpoint(&self, peer: Option<u32>, tag: Option<Tag>) -> Result<Endpoint, Error> {
        let size = self.size();
        check(size, peer, tag)?;
        // Anybody in a communicator of one is ourselves: whether others are gone does not matter.
        let peer = if size == 1 { Some(0) } else { peer };
        Ok(Endpoint { comm: self.id(), peer: peer.map(|rank| self.group().rank_of(rank)), tag })
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator").field("rank", &self.rank()).field("size", &self.size()).finish_non_exhaustive()
    }
}

/// Rounds of a dissemination, and how far each reaches: when in each round everybody tells whoever is so far after it, then
/// after round k every rank knows of the 2^(k+1) ranks up to itself (Hensgen, Finkel, Manber 1988).
fn dissemination(size: u32) -> impl Iterator<Item = (Tag, u32)> {
    (0..u32::BITS as Tag).map(|round| (round, 1 << round)).take_while(move |&(_, distance)| distance < size)
}

fn check(size: u32, peer: Option<u32>, tag: Option<Tag>) -> Result<(), Error> {
    match (peer, tag) {
        (Some(rank), _) if rank >= size => Err(Error::RankOutOfRange { rank, size }),
        (_, Some(tag)) if !(0..=TAG_MAX).contains(&tag) => Err(Error::BadTag { tag }),
        _ => Ok(()),
    }
}

/// Tags of our own messages: those by which members agree on new communicators by round, those of neighbours by
/// direction, those of collectives by their number.
const AGREEMENT: Tag = 1 << 8;
pub(crate) const NEIGHBOUR: Tag = 1 << 16;
const COLLECTIVE: Tag = 1 << 29;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_tags_are_checked_before_anything_is_sent() {
        assert!(check(4, Some(3), Some(0)).is_ok());
        assert!(check(4, None, None).is_ok());
        assert!(check(4, Some(0), Some(TAG_MAX)).is_ok());
        assert!(matches!(check(4, Some(4), Some(0)), Err(Error::RankOutOfRange { rank: 4, size: 4 })));
        assert!(matches!(check(4, Some(0), Some(-1)), Err(Error::BadTag { tag: -1 })));
        assert!(matches!(check(4, None, Some(TAG_MAX + 1)), Err(Error::BadTag { .. })));
    }
}
