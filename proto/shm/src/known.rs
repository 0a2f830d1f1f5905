//! How a rank finds the channels of a wire: its own and those of its neighbours.

use std::sync::Arc;

use ropeway_proto::limits::WIRE_CHANNELS;

use crate::channel::OpenChannel;
use crate::wire::{Received, Sent, Wire, WireChannels};

/// The channels of a wire as a rank finds them in the segment: its own and those of its neighbours.
pub struct KnownChannels {
    wire: Arc<Wire>,
    /// By name, with the word they were found by.
    known: Vec<Option<(u64, OpenChannel)>>,
}

impl KnownChannels {
    /// None yet.
    pub fn new(wire: Arc<Wire>) -> Self {
        // Who waits allocates nothing. Memory that is never touched costs nothing.
        Self { wire, known: Vec::with_capacity(WIRE_CHANNELS) }
    }
}

impl WireChannels for KnownChannels {
    #[inline]
    fn find(&mut self, index: u16) -> Option<&OpenChannel> {
        let index = usize::from(index);
        let word = self.wire.named(index)?;
        if self.known.len() <= index {
            self.known.resize_with(index + 1, || None);
        }
        let known = &mut self.known[index];
        if known.as_ref().is_none_or(|(found_by, _)| *found_by != word) {
            *known = self.wire.open_named(word).map(|open| (word, open));
        }
        self.known[index].as_ref().map(|(_, open)| open)
    }
}

/// As a rank works it. Compiled here, together with all that these two call: a program would have them compiled with its library, and then
/// each step would be a call from crate to crate, which after a system call takes several times as long as usual.
impl Wire {
    /// [`send`](Self::send).
    #[inline(never)]
    pub fn send_known(&self, known: &mut KnownChannels) -> Sent {
        self.send(known)
    }

    /// [`receive`](Self::receive).
    #[inline(never)]
    pub fn receive_known(&self, known: &mut KnownChannels) -> Received {
        self.receive(known)
    }
}
