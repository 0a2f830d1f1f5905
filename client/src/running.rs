//! Waiting for several things that run, of any kind.

use std::sync::Arc;
use std::task::Waker;

use crate::attachment::Attachment;
use crate::operation::Operation;
use crate::pending::Pending;
use crate::several::Several;
use crate::wait::Event;
use crate::wires::Reach;
use crate::{Active, Error, Plain, Status, WaitMode};

/// Something that runs and ends: an [`Active`] request, a [`Pending`] message, a [`PendingCollective`](crate::PendingCollective), and what is
/// exchanged with neighbours ([`ActiveExchange`](crate::ActiveExchange), [`PendingNeighborCollective`](crate::PendingNeighborCollective)).
pub trait Running: sealed::Sealed {}

impl Running for Active<'_> {}
impl<T: Plain> Running for Pending<T> {}

/// Waits until one of these has ended; its index and outcome. `None` when all have, and their outcomes were taken.
///
/// They must belong to one session; it waits in the session's mode.
///
/// When one has failed, the call that notices returns the error; the others run on, and can be waited for again.
///
/// ```no_run
/// # fn example() -> Result<(), ropeway::Error> {
/// use ropeway::Running;
///
/// let world = ropeway::init()?.world();
/// let mut norm = [0.0];
/// let mut summing = world.iallreduce(&[2.5], &mut norm, ropeway::Operator::Sum)?;
/// let mut receiving = world.irecv(world.alloc::<u8>(1)?, 0, 7)?;
/// let mut running: [&mut dyn Running; 2] = [&mut summing, &mut receiving];
/// while let Some((index, _status)) = ropeway::wait_any(&mut running)? {
///     println!("{} has ended", ["the sum", "the message"][index]);
/// }
/// let (_message, _status) = receiving.wait()?;
/// # Ok(())
/// # }
/// ```
pub fn wait_any(running: &mut [&mut dyn Running]) -> Result<Option<(usize, Status)>, Error> {
    wait_any_with(running, None)
}

/// As [`wait_any`], in this mode if there is one.
pub(crate) fn wait_any_with(
    running: &mut [&mut dyn Running],
    mode: Option<WaitMode>,
) -> Result<Option<(usize, Status)>, Error> {
    let mut attachments = running.iter().map(|one| one.seen().0.attachment());
    let Some(attachment) = attachments.next().cloned() else { return Ok(None) };
    if attachments.any(|other| !Arc::ptr_eq(other, &attachment)) {
        return Err(Error::MixedSessions);
    }
    attachment.look(Reach::Nowhere);
    attachment.log().begin_wait(None);
    let ended = until_any(&attachment, running, mode.unwrap_or_else(|| attachment.wait_mode()));
    attachment.log().end_wait(None);
    ended
}

fn until_any(
    attachment: &Attachment,
    running: &mut [&mut dyn Running],
    mode: WaitMode,
) -> Result<Option<(usize, Status)>, Error> {
    loop {
        let ended = take_any(running)?;
        if ended.is_some() || AnyOf(running).each().next().is_none() {
            return Ok(ended);
        }
        if let Err(error) = attachment.wait(&AnyOf(running), mode) {
            // The session is over, which each of them says once.
            return take_any(running)?.map_or(Err(error), |ended| Ok(Some(ended)));
        }
    }
}

/// Waits until all of these have ended, as [`wait_any`] does. Returns early if one has failed.
pub fn wait_all(running: &mut [&mut dyn Running]) -> Result<(), Error> {
    while wait_any(running)?.is_some() {}
    Ok(())
}

fn take_any(running: &mut [&mut dyn Running]) -> Result<Option<(usize, Status)>, Error> {
    for (index, one) in held(running) {
        if let Some(status) = one.take_outcome()? {
            return Ok(Some((index, status)));
        }
    }
    Ok(None)
}

/// Those that run, with their indices.
fn held<'a>(running: &'a mut [&mut dyn Running]) -> impl Iterator<Item = (usize, &'a mut dyn Run)> {
    let all = running.iter_mut().map(|one| one.held().0);
    all.enumerate().filter(|(_, one)| one.is_running())
}

/// Those that run.
struct AnyOf<'a, 'r>(&'a [&'r mut (dyn Running + 'r)]);

impl Several for AnyOf<'_, '_> {
    fn each(&self) -> impl Iterator<Item = &(impl Event + ?Sized)> {
        self.0.iter().map(|one| one.seen().0).filter(|one| one.is_running()).map(|one| one.event())
    }
}

/// How something ends.
pub(crate) trait Run {
    /// Whether its outcome was not taken yet.
    fn is_running(&self) -> bool;
    /// Where it runs.
    fn attachment(&self) -> &Arc<Attachment>;
    /// Happens when it gets on.
    fn event(&self) -> &dyn Event;
    /// The outcome, if it has ended: once.
    fn take_outcome(&mut self) -> Result<Option<Status>, Error>;
    /// Has this task woken when it gets on. False if it has already.
    fn watch(&self, waker: &Waker) -> Result<bool, Error>;
    /// The task that was to be woken is gone.
    fn forget_waker(&self);
}

/// Has the notifier told when any of these gets on, and this task if there is one. False if one has already, or there is none.
pub(crate) fn watch_each<'a>(
    operations: impl Iterator<Item = &'a Operation>,
    waker: Option<&Waker>,
) -> Result<bool, Error> {
    let mut is_watched = false;
    for operation in operations {
        if !operation.watch(waker)? {
            return Ok(false);
        }
        is_watched = true;
    }
    Ok(is_watched)
}

/// How far a call is that is waited for by a handle of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Running,
    /// It has ended, and its output is filled.
    Done,
    /// It has ended, and why was said.
    Failed,
}

impl Progress {
    /// What a look at a running call has found.
    pub(crate) fn after(tested: &Result<Option<Status>, Error>) -> Self {
        match tested {
            Ok(None) => Self::Running,
            Ok(Some(_)) => Self::Done,
            Err(_) => Self::Failed,
        }
    }

    pub(crate) fn is_running(self) -> bool {
        self == Self::Running
    }

    /// Whether it has ended well. An error if it has not, which is another than that it has ended with: that was taken.
    pub(crate) fn is_done(self) -> Result<bool, Error> {
        if self == Self::Failed { Err(Error::Inactive) } else { Ok(self == Self::Done) }
    }
}

impl Run for Active<'_> {
    fn is_running(&self) -> bool {
        self.operation().is_active()
    }

    fn attachment(&self) -> &Arc<Attachment> {
        self.operation().attachment()
    }

    fn event(&self) -> &dyn Event {
        self.operation()
    }

    fn take_outcome(&mut self) -> Result<Option<Status>, Error> {
        self.test()
    }

    fn watch(&self, waker: &Waker) -> Result<bool, Error> {
        self.operation().watch(Some(waker))
    }

    fn forget_waker(&self) {
        self.operation().forget_waker();
    }
}

impl<T: Plain> Run for Pending<T> {
    fn is_running(&self) -> bool {
        self.operation().is_active()
    }

    fn attachment(&self) -> &Arc<Attachment> {
        self.operation().attachment()
    }

    fn event(&self) -> &dyn Event {
        self.operation()
    }

    fn take_outcome(&mut self) -> Result<Option<Status>, Error> {
        self.test()
    }

    fn watch(&self, waker: &Waker) -> Result<bool, Error> {
        self.operation().watch(Some(waker))
    }

    fn forget_waker(&self) {
        self.operation().forget_waker();
    }
}

mod sealed {
    use super::Run;

    /// What runs, to look at.
    pub struct Seen<'a>(pub(crate) &'a dyn Run);

    /// What runs, to change.
    pub struct Held<'a>(pub(crate) &'a mut dyn Run);

    /// Keeps [`Running`](super::Running) ours: how something ends, only this crate knows.
    pub trait Sealed {
        fn seen(&self) -> Seen<'_>;
        fn held(&mut self) -> Held<'_>;
    }

    impl<R: Run> Sealed for R {
        fn seen(&self) -> Seen<'_> {
            Seen(self)
        }

        fn held(&mut self) -> Held<'_> {
            Held(self)
        }
    }
}
