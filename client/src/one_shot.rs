//! Messages that are matched one by one: the blocking calls.
//!
//! What can goes straight to or from a rank of this node (`post`), all else to the daemon.
//!
//! Nothing here returns while the daemon may still use the caller's slice: an operation has ended, or the daemon has.

use std::hint;

use ropeway_proto::limits::POST_BYTES_MAX;
use ropeway_proto::{Command, Endpoint, Layout, completion};
use zerocopy::IntoBytes;

use crate::attachment::Attachment;
use crate::communicator::Membership;
use crate::operation::Operation;
use crate::plain::element_bytes;
use crate::post::Look;
use crate::several::Several;
use crate::terms::Terms;
use crate::wait::Event;
use crate::{Error, Plain, Status};

pub(crate) fn send<T: Plain>(
    membership: &Membership,
    message: &[T],
    endpoint: Endpoint,
    terms: Terms,
) -> Result<(), Error> {
    if membership.attachment.send(&endpoint, message.as_bytes())? {
        membership.attachment.come();
        return Ok(());
    }
    let (layout, mut send) = departure(membership, message, terms)?;
    send.begin(|slot, epoch| Command::Send { slot, epoch, endpoint, layout })?;
    send.wait(membership.attachment.wait_mode()).map(drop)
}

pub(crate) fn recv<T: Plain>(membership: &Membership, into: &mut [T], endpoint: Endpoint) -> Result<Status, Error> {
    recv_by(membership, into, endpoint, None)
}

/// The same by what [`arrival`] has given before, if the daemon has to be asked.
fn recv_by<T: Plain>(
    membership: &Membership,
    into: &mut [T],
    endpoint: Endpoint,
    arriving: Option<(Layout, Operation)>,
) -> Result<Status, Error> {
    if let Some(found) = membership.attachment.recv(&endpoint, Some(into.as_mut_bytes()))? {
        return recv_terms(into).judge(Some(found), &membership.group);
    }
    let (layout, mut recv) = arriving.map_or_else(|| arrival(membership, into), Ok)?;
    if let Some(found) = recv.post(&endpoint, Some(into.as_mut_bytes())) {
        return recv.judge(Some(found));
    }
    recv.begin(|slot, epoch| Command::Recv { slot, epoch, endpoint, layout })?;
    let status = recv.wait(membership.attachment.wait_mode())?;
    deliver(&recv, status, into);
    Ok(status)
}

pub(crate) fn sendrecv<T: Plain, U: Plain>(
    membership: &Membership,
    message: &[T],
    (dest, terms): (Endpoint, Terms),
    into: &mut [U],
    source: Endpoint,
) -> Result<Status, Error> {
    // Once the message has left there is no way back for want of memory.
    let may_ask = size_of_val(into) > POST_BYTES_MAX || membership.attachment.must_ask_for(&source);
    let arriving = may_ask.then(|| arrival(membership, into)).transpose()?;
    if membership.attachment.send(&dest, message.as_bytes())? {
        return recv_by(membership, into, source, arriving);
    }
    let mode = membership.attachment.wait_mode();
    let (send_layout, mut send) = departure(membership, message, terms)?;
    let (recv_layout, mut recv) = arriving.map_or_else(|| arrival(membership, into), Ok)?;
    if let Some(found) = recv.post(&source, Some(into.as_mut_bytes())) {
        send.begin(|slot, epoch| Command::Send { slot, epoch, endpoint: dest, layout: send_layout })?;
        send.wait(mode)?;
        return recv.judge(Some(found));
    }
    let entries = [
        recv.stage(|slot, epoch| Command::Recv { slot, epoch, endpoint: source, layout: recv_layout }),
        send.stage(|slot, epoch| Command::Send { slot, epoch, endpoint: dest, layout: send_layout }),
    ];
    membership.attachment.publish(&entries)?;
    membership.attachment.log().begin_wait(None);
    let waited = membership.attachment.wait(&Either([&send, &recv]), mode);
    membership.attachment.log().end_wait(None);
    waited?;
    let (sent, received);
    if send.has_happened() {
        sent = send.wait(mode);
        withdraw_after(&sent, &mut recv);
        received = recv.wait(mode);
    } else {
        received = recv.wait(mode);
        withdraw_after(&received, &mut send);
        sent = send.wait(mode);
    }
    // Whoever was withdrawn was so because of the other's error.
    match (sent, received) {
        (Ok(_) | Err(Error::Cancelled), received) => {
            let status = received?;
            deliver(&recv, status, into);
            Ok(status)
        }
        (Err(error), _) => Err(error),
    }
}

/// If one half has lost its partner, the other half may never end by itself.
fn withdraw_after(ended: &Result<Status, Error>, other: &mut Operation) {
    if matches!(ended, Err(Error::RankFailed { .. } | Error::RankLeft { .. } | Error::PeerLost { .. })) {
        other.withdraw();
    }
}

pub(crate) fn probe(membership: &Membership, endpoint: Endpoint) -> Result<Status, Error> {
    if let Some(found) = membership.attachment.recv(&endpoint, None)? {
        return Terms::Probe.judge(Some(found), &membership.group);
    }
    let mut probe = Operation::passing(membership, Terms::Probe)?;
    if let Some(found) = probe.post(&endpoint, None) {
        return probe.judge(Some(found));
    }
    probe.begin(|slot, epoch| Command::Probe { slot, epoch, endpoint, wait: true })?;
    probe.wait(membership.attachment.wait_mode())
}

pub(crate) fn iprobe(membership: &Membership, endpoint: Endpoint) -> Result<Option<Status>, Error> {
    let attachment = &membership.attachment;
    match attachment.post().look(&endpoint, None) {
        Look::Found(found) => return Terms::Probe.judge(Some(found), &membership.group).map(Some),
        Look::NotYet(_) => return attachment.look_in_vain().map(|()| None),
        Look::AskDaemon => {}
    }
    let mut probe = Operation::passing(membership, Terms::Probe)?;
    if let Some(found) = probe.post(&endpoint, None) {
        return probe.judge(Some(found)).map(Some);
    }
    probe.begin(|slot, epoch| Command::Probe { slot, epoch, endpoint, wait: false })?;
    match probe.finish(membership.attachment.wait_mode())? {
        Some(completion) if completion.status == completion::Status::NotFound => Ok(None),
        completion => probe.judge(completion).map(Some),
    }
}

/// Where the message lies for the daemon: in place if that is in the arena, else in a copy. The caller waits for the end.
pub(crate) fn departure<T: Plain>(
    membership: &Membership,
    message: &[T],
    terms: Terms,
) -> Result<(Layout, Operation), Error> {
    let bytes = message.as_bytes();
    let layout = |offset| Layout::contiguous(offset, bytes.len() as u64);
    let send = Operation::passing(membership, terms)?;
    if let Some(offset) = in_place(&membership.attachment, bytes) {
        return Ok((layout(offset), send));
    }
    let mut memory = membership.attachment.allocate(bytes.len() as u64)?;
    memory.as_bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    Ok((layout(memory.offset()), send.with_memory(memory)))
}

/// Where the daemon puts the message: in place if that is in the arena, else where [`deliver`] finds it.
fn arrival<T: Plain>(membership: &Membership, into: &mut [T]) -> Result<(Layout, Operation), Error> {
    let bytes = size_of_val(into) as u64;
    let recv = Operation::passing(membership, recv_terms(into))?;
    if let Some(offset) = in_place(&membership.attachment, into.as_bytes()) {
        return Ok((Layout::contiguous(offset, bytes), recv));
    }
    let memory = membership.attachment.allocate(bytes)?;
    Ok((Layout::contiguous(memory.offset(), bytes), recv.with_memory(memory)))
}

fn recv_terms<T: Plain>(into: &[T]) -> Terms {
    Terms::Recv { capacity: size_of_val(into) as u64, element_bytes: element_bytes::<T>() }
}

fn in_place(attachment: &Attachment, bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() { Some(attachment.arena_begin()) } else { attachment.locate(bytes) }
}

/// Makes the received message appear in `into`.
fn deliver<T: Plain>(recv: &Operation, status: Status, into: &mut [T]) {
    match recv.memory() {
        Some(memory) => {
            let bytes = status.bytes as usize;
            into.as_mut_bytes()[..bytes].copy_from_slice(&memory.as_bytes()[..bytes]);
        }
        // Another process has written it; the compiler is not to assume otherwise.
        None => drop(hint::black_box(into)),
    }
}

/// Happens when either operation has ended.
struct Either<'a>([&'a Operation; 2]);

impl Several for Either<'_> {
    fn each(&self) -> impl Iterator<Item = &(impl Event + ?Sized)> {
        self.0.into_iter()
    }
}
