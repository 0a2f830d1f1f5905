//! Collectives that run while the program does something else, and were not registered.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use zerocopy::IntoBytes;

use super::form::Form;
use super::lane::Lane;
use crate::attachment::Attachment;
use crate::operation::Operation;
use crate::running::{Progress, Run, Running};
use crate::wait::Event;
use crate::wires::Reach;
use crate::{Communicator, Error, Plain, Status, WaitMode};

/// A running collective, such as an [`iallreduce`](Communicator::iallreduce), which fills its output when it is waited for.
///
/// Once it was begun this rank is not needed any more: the input may be changed, and the program may compute. Dropping it
/// lets it end by itself, as long as there is a handle of its communicator; its output then stays as it was.
///
/// It can be awaited, and waited for [beside others](crate::wait_any).
///
/// Up to eight that are alike (the same operation, root, operator, element type and counts) may be on their way, of arrays
/// larger than 8 MiB fewer, but always two. To begin a further one waits for the oldest, and so for all ranks to begin that.
#[must_use = "the output is filled by `wait`"]
pub struct PendingCollective<'a, T: Plain> {
    lane: Arc<Lane>,
    turn: u64,
    /// The part of the program's array that is filled.
    output: &'a mut [T],
    progress: Progress,
}

impl<T: Plain> PendingCollective<'_, T> {
    /// Waits until the collective has ended, and fills the output.
    pub fn wait(self) -> Result<(), Error> {
        self.finish(None)
    }

    /// As [`wait`](Self::wait), in this mode.
    pub fn wait_with(self, mode: WaitMode) -> Result<(), Error> {
        self.finish(Some(mode))
    }

    /// Whether the collective has ended. If so, the output is filled, and [`wait`](Self::wait) returns at once.
    ///
    /// Why it has failed is said once, whoever asks first; all who ask after that get [`Error::Inactive`].
    pub fn test(&mut self) -> Result<bool, Error> {
        if self.progress.is_running() {
            self.take_outcome()?;
        }
        self.progress.is_done()
    }

    /// Fills the output if the collective has ended, and says how. That can be learnt once.
    fn take_outcome(&mut self) -> Result<Option<Status>, Error> {
        let tested = self.lane.test(self.turn, |bytes| fill(self.output, bytes));
        self.progress = Progress::after(&tested);
        tested
    }

    fn finish(mut self, mode: Option<WaitMode>) -> Result<(), Error> {
        if self.progress.is_done()? {
            return Ok(());
        }
        self.progress = Progress::Done;
        self.lane.wait(self.turn, mode, |bytes| fill(self.output, bytes))
    }
}

fn reaches_wires(operation: &Operation) -> bool {
    !matches!(operation.reach(), Reach::Nowhere)
}

/// What this rank gets begins what comes, if it gets anything.
fn fill<T: Plain>(output: &mut [T], bytes: &[u8]) {
    let output = output.as_mut_bytes();
    output.copy_from_slice(&bytes[..output.len()]);
}

impl<T: Plain> Running for PendingCollective<'_, T> {}

impl<T: Plain> Run for PendingCollective<'_, T> {
    fn is_running(&self) -> bool {
        self.progress.is_running()
    }

    fn attachment(&self) -> &Arc<Attachment> {
        self.lane.attachment()
    }

    fn event(&self) -> &dyn Event {
        self
    }

    fn take_outcome(&mut self) -> Result<Option<Status>, Error> {
        self.take_outcome()
    }

    fn watch(&self, waker: &Waker) -> Result<bool, Error> {
        self.lane.watch(self.turn, waker)
    }

    fn forget_waker(&self) {
        self.lane.forget_waker(self.turn);
    }
}

/// Happens when the collective gets on.
impl<T: Plain> Event for PendingCollective<'_, T> {
    fn has_happened(&self) -> bool {
        !self.progress.is_running() || self.lane.has_happened(self.turn)
    }

    fn arm(&self, doorbell: u32) {
        self.lane.arm(self.turn, doorbell);
    }

    fn disarm(&self) {
        self.lane.current(self.turn, Event::disarm);
    }

    fn reach(&self) -> Reach<'_> {
        // Which wires they are is not known without the lane's lock.
        if self.lane.current(self.turn, reaches_wires).unwrap_or(true) { Reach::All } else { Reach::Nowhere }
    }

    fn needs_daemon(&self) -> bool {
        self.lane.current(self.turn, Event::needs_daemon).unwrap_or(true)
    }
}

impl<T: Plain> Drop for PendingCollective<'_, T> {
    fn drop(&mut self) {
        if self.progress.is_running() {
            self.lane.abandon(self.turn);
        }
    }
}

impl<T: Plain> fmt::Debug for PendingCollective<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCollective").field("is_running", &self.progress.is_running()).finish_non_exhaustive()
    }
}

impl Communicator {
    /// Starts a call on a lane of its own.
    pub(super) fn begin<'o, T: Plain>(&self, form: Form<'_, 'o, T>) -> Result<PendingCollective<'o, T>, Error> {
        self.start_call(Form { call: form.call.by(self.algorithm()), ..form }, false)
    }

    /// Starts a call and waits for its end.
    pub(super) fn call<T: Plain>(&self, form: Form<'_, '_, T>) -> Result<(), Error> {
        let mut form = Form { call: form.call.by(self.algorithm()), ..form };
        match self.call_once(&mut form) {
            Some(called) => called,
            None => self.start_call(form, true)?.wait(),
        }
    }

    fn start_call<'o, T: Plain>(
        &self,
        form: Form<'_, 'o, T>,
        is_blocking: bool,
    ) -> Result<PendingCollective<'o, T>, Error> {
        // The lock ends here: waiting for a lane is nobody else's business.
        let (lane, extent) =
            self.collectives().cache().turn(self, &form.call, is_blocking, |extent| extent.check(&form))?;
        let turn = lane.start(|memory| memory.copy_from_slice(extent.input(&form).as_bytes()))?;
        let output = extent.output(form.input.is_none());
        Ok(PendingCollective { lane, turn, output: &mut form.output[output], progress: Progress::Running })
    }
}
