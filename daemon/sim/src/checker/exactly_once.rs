//! No message is received twice, none that was cancelled is received at all, and none is lost without a cause.

use std::collections::{HashMap, HashSet};

use ropeway_proto::Status;
use ropeway_proto::control::JobSpec;

use crate::history::{Faults, History, Stream};
use crate::message;

/// Checks the property.
pub fn check(history: &History, spec: &JobSpec) -> Result<(), String> {
    let fates: HashMap<u64, _> = history.sent.iter().map(|sent| (sent.id, sent.fate)).collect();
    let mut seen = HashSet::new();
    for received in &history.received {
        let Some(id) = received.content.as_deref().and_then(message::identity) else { continue };
        if !seen.insert(id) {
            return Err(format!("exactly once: received twice: {received:?}"));
        }
        if fates.get(&id) == Some(&Some(Status::Cancelled)) {
            return Err(format!("exactly once: received although its send was cancelled: {received:?}"));
        }
    }
    // Messages too short to say who they are, and truncated ones, are counted.
    let (sent, received) = (history.sent_by_stream(), history.received_by_stream());
    for (stream, received) in &received {
        let sent = sent.get(stream).map_or(0, Vec::len);
        if received.len() > sent {
            return Err(format!("exactly once: {} messages received of {sent} sent: {stream:?}", received.len()));
        }
    }
    for (&stream, sent) in sent.iter().filter(|(stream, _)| is_lossless(history, spec, stream)) {
        let received = received.get(&stream).map_or(0, Vec::len);
        let sent = sent.iter().filter(|sent| sent.fate == Some(Status::Success)).count();
        if received < sent {
            return Err(format!("exactly once: {received} messages received of {sent} sent: {stream:?}"));
        }
    }
    Ok(())
}

/// Whether nothing has happened that explains the loss of a message that was sent.
///
/// The sender's end does not. But an inbox may stop asking then, which channels don't.
fn is_lossless(history: &History, spec: &JobSpec, stream: &Stream) -> bool {
    let Faults { failed, left, cut } = &history.faults;
    let node_of = |rank| spec.node_of(rank).expect("a rank of the job").0;
    let is_calm = failed.is_empty() && left.is_empty() && cut.is_empty();
    (is_calm || stream.channel.is_some())
        && !history.given_up.contains(stream)
        && !failed.contains(&stream.dest)
        && !left.contains(&stream.dest)
        && !cut.contains(&(node_of(stream.source), node_of(stream.dest)))
}
