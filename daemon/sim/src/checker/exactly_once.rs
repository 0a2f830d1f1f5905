//! No message is received twice, none that was cancelled is received at all, and without faults none is lost.

use std::collections::{HashMap, HashSet};

use ropeway_proto::Status;

use crate::history::History;
use crate::message;

/// Checks the property.
pub fn check(history: &History, has_faults: bool) -> Result<(), String> {
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
    for (&stream, sent) in sent.iter().filter(|(stream, _)| !has_faults && !history.given_up.contains(stream)) {
        let received = received.get(&stream).map_or(0, Vec::len);
        if received != sent.len() {
            return Err(format!("exactly once: {received} messages received of {} sent: {stream:?}", sent.len()));
        }
    }
    Ok(())
}
