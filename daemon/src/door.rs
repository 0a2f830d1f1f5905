//! Where connections come in.
//!
//! The poll loop tells of a connection once, when it comes. So all are taken then, and if the system has no descriptors or no memory for
//! them, they are tried again after a while: nothing else would tell of those that wait.

use std::io;
use std::time::{Duration, Instant};

use nix::errno::Errno;

/// A listening socket, if there is one.
pub(crate) struct Door<L> {
    listener: Option<L>,
    again_at: Option<Instant>,
    /// Failures are logged when they begin, not each of them.
    is_failing: bool,
}

/// Long enough to cost nothing, short enough to be taken for a busy daemon.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

impl<L> Door<L> {
    pub(crate) fn new(listener: Option<L>) -> Self {
        Self { listener, again_at: None, is_failing: false }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.listener.is_some()
    }

    /// The next that comes in; `None` if that is all for now.
    pub(crate) fn accept<S>(&mut self, accept: impl Fn(&L) -> io::Result<S>, now: Instant) -> Option<S> {
        let listener = self.listener.as_ref()?;
        self.again_at = None;
        loop {
            match accept(listener) {
                Ok(stream) => return Some(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_failing = false;
                    return None;
                }
                Err(error) if is_of_one(&error) => {
                    tracing::debug!(%error, "a connection was over before it was accepted")
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.is_failing, true) {
                        tracing::warn!(%error, "can't accept connections now; those that wait are tried again and again");
                    }
                    self.again_at = Some(now + AGAIN_AFTER);
                    return None;
                }
            }
        }
    }

    /// When those that wait are to be tried again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.again_at
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.again_at.is_some_and(|at| at <= now)
    }
}

/// Whether only this connection has failed, and the next may be there: also what the network says of one that waits (accept(2)).
/// Of what is not known to be so, waiting a while is the harmless answer.
fn is_of_one(error: &io::Error) -> bool {
    use Errno::{
        ECONNABORTED, EHOSTDOWN, EHOSTUNREACH, EINTR, ENETDOWN, ENETUNREACH, ENONET, ENOPROTOOPT, EOPNOTSUPP, EPERM,
        EPROTO,
    };
    let errors = [
        ECONNABORTED,
        EHOSTDOWN,
        EHOSTUNREACH,
        EINTR,
        ENETDOWN,
        ENETUNREACH,
        ENONET,
        ENOPROTOOPT,
        EOPNOTSUPP,
        EPERM,
        EPROTO,
    ];
    error.raw_os_error().is_some_and(|code| errors.contains(&Errno::from_raw(code)))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Has a door find this, one after the other.
    fn door(outcomes: &[Result<u32, Errno>]) -> Door<RefCell<Vec<Result<u32, Errno>>>> {
        Door::new(Some(RefCell::new(outcomes.iter().rev().copied().collect())))
    }

    fn next(outcomes: &RefCell<Vec<Result<u32, Errno>>>) -> io::Result<u32> {
        Ok(outcomes.borrow_mut().pop().unwrap_or(Err(Errno::EAGAIN))?)
    }

    #[test]
    fn a_connection_that_fails_does_not_keep_the_next_out() {
        let now = Instant::now();
        let mut door = door(&[Err(Errno::ECONNABORTED), Ok(1), Err(Errno::EINTR), Err(Errno::EPROTO), Ok(2)]);
        assert_eq!([(); 3].map(|()| door.accept(next, now)), [Some(1), Some(2), None]);
        assert_eq!(door.deadline(), None);
    }

    #[test]
    fn who_can_not_be_let_in_now_is_tried_again() {
        let now = Instant::now();
        for shortage in [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM] {
            let mut door = door(&[Ok(1), Err(shortage), Ok(2)]);
            assert_eq!([(); 2].map(|()| door.accept(next, now)), [Some(1), None]);
            let then = door.deadline().unwrap();
            assert_eq!((door.is_due(now), door.is_due(then)), (false, true));
            assert_eq!([(); 2].map(|()| door.accept(next, then)), [Some(2), None]);
            assert_eq!(door.deadline(), None);
        }
    }
}
