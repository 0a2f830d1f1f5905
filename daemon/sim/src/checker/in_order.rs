//! Messages of a stream are received in the order in which they were sent, by receives in the order in which they were started.

use crate::history::{History, Received, Sent};
use crate::message;

/// Checks the property. Messages may be missing here; whether they may is not the question.
pub fn check(history: &History) -> Result<(), String> {
    let sent = history.sent_by_stream();
    for (stream, received) in history.received_by_stream() {
        let mut sent = sent.get(&stream).into_iter().flatten();
        for received in received {
            if !sent.any(|sent| could_be(sent, received)) {
                return Err(format!("in order: {received:?} was overtaken"));
            }
        }
    }
    Ok(())
}

fn could_be(sent: &Sent, received: &Received) -> bool {
    sent.bytes == received.bytes
        && received.content.as_ref().is_none_or(|content| *content == message::content(sent.id, sent.bytes))
}
