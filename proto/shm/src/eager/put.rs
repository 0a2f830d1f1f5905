//! Messages that are put into their cells apart from their channels (`puts`): a sender counts them when its program comes to wait.

use super::{EagerSender, EagerWords};

impl EagerSender {
    /// The next message's.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The same, if there is a cell for it.
    #[inline]
    pub(crate) fn next_with_cell(&mut self, words: &EagerWords) -> Option<u32> {
        self.has_cell(words).then_some(self.number)
    }
}
