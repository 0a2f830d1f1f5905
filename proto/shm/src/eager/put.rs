//! Messages that are put into their cells apart from their channels (`puts`): a sender counts them when its program comes to wait.

use super::{EagerSender, EagerWords};

impl EagerSender {
    /// The number of the next message, if there is a cell for it.
    #[inline]
    pub(crate) fn next_with_cell(&mut self, words: &EagerWords) -> Option<u32> {
        self.has_cell(words).then_some(self.number)
    }

    /// The sender of the message after this one, which is over.
    #[inline]
    pub(crate) fn next(self) -> Self {
        Self { number: self.number.wrapping_add(1), ..self }
    }
}
