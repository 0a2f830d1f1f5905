//! What is received is what was sent, from where the completion says; and nobody writes where nothing is to be received.

use std::collections::HashMap;

use crate::history::History;
use crate::message;

/// Checks the property. Strays are found by the clients themselves, when they look at their buffers.
pub fn check(history: &History) -> Result<(), String> {
    if let Some(complaint) = history.complaints.first() {
        return Err(format!("right bytes: {complaint}"));
    }
    let sent: HashMap<u64, _> = history.sent.iter().map(|sent| (sent.id, sent)).collect();
    let streams = history.sent_by_stream();
    for received in &history.received {
        let Some(content) = &received.content else { continue };
        let is_right = match message::identity(content) {
            Some(id) => sent.get(&id).is_some_and(|sent| {
                sent.stream == received.stream
                    && sent.bytes == received.bytes
                    && *content == message::content(id, sent.bytes)
            }),
            None => streams.get(&received.stream).is_some_and(|sent| {
                sent.iter()
                    .any(|sent| sent.bytes == received.bytes && *content == message::content(sent.id, sent.bytes))
            }),
        };
        if !is_right {
            return Err(format!("right bytes: nobody has sent {received:?}"));
        }
    }
    Ok(())
}
