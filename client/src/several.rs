//! Waiting for whatever happens first.

use crate::wait::Event;
use crate::wires::Reach;

/// What happens when any of several events does.
pub(crate) trait Several {
    fn each(&self) -> impl Iterator<Item = &(impl Event + ?Sized)>;

    /// Asks to be woken for any of them at once by who looks at one place only, beside asking for [each](Self::each).
    fn arm_for_all(&self, _doorbell: u32) {}

    fn disarm_for_all(&self) {}
}

impl<S: Several> Event for S {
    fn has_happened(&self) -> bool {
        self.each().any(|event| event.has_happened())
    }

    fn arm(&self, doorbell: u32) {
        self.each().for_each(|event| event.arm(doorbell));
        self.arm_for_all(doorbell);
    }

    fn disarm(&self) {
        self.each().for_each(|event| event.disarm());
        self.disarm_for_all();
    }

    fn reach(&self) -> Reach<'_> {
        self.each().map(|event| event.reach()).fold(Reach::Nowhere, Reach::and)
    }

    fn was_left(&self) -> bool {
        self.each().any(|event| event.was_left())
    }

    fn needs_daemon(&self) -> bool {
        self.each().any(|event| event.needs_daemon())
    }
}
