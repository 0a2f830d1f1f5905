//! Memory of jobs that have ended goes back to the system, which takes it a second for each gigabyte: time in which the daemon's one thread
//! would move nothing for others. So another one does it, which is there from the beginning: it would inherit a core and a priority that the
//! daemon has for a while only.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

use mio::Waker;

/// What is being given back.
pub(crate) struct Burials {
    dead: Sender<Box<dyn Send>>,
    begun: u64,
    over: Arc<AtomicU64>,
}

impl Burials {
    /// The end of each wakes the poll loop: somebody may wait for it.
    pub(crate) fn begin(waker: Arc<Waker>) -> io::Result<Self> {
        let (dead, all_dead) = channel();
        let over = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&over);
        Builder::new().name("ropeway-burial".into()).spawn(move || {
            for dead in all_dead {
                drop::<Box<dyn Send>>(dead);
                // SYNC burial-over (count): pairs with the load in `count_over`.
                count.fetch_add(1, Ordering::Release);
                if let Err(error) = waker.wake() {
                    tracing::warn!(%error, "can't tell of memory that was given back");
                }
            }
        })?;
        Ok(Self { dead, begun: 0, over })
    }

    /// Drops this, and returns before it is done.
    pub(crate) fn bury(&mut self, dead: impl Send + 'static) {
        // Were the thread gone, what it can't be sent would be dropped here.
        if self.dead.send(Box::new(dead)).is_ok() {
            self.begun += 1;
        }
    }

    /// How many have begun, if not all of them are over.
    pub(crate) fn pending(&self) -> Option<u64> {
        (self.count_over() < self.begun).then_some(self.begun)
    }

    /// How many are over.
    pub(crate) fn count_over(&self) -> u64 {
        // SYNC burial-over (load): pairs with the count in `begin`.
        self.over.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use mio::{Events, Poll, Token};

    use super::*;

    /// Takes as long to drop as somebody wants.
    struct Slow {
        may_end: Receiver<()>,
        has_ended: Sender<()>,
    }

    impl Drop for Slow {
        fn drop(&mut self) {
            self.may_end.recv().unwrap();
            self.has_ended.send(()).unwrap();
        }
    }

    #[test]
    fn a_burial_keeps_nobody_waiting_and_tells_of_its_end() {
        let mut poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(0)).unwrap();
        let mut burials = Burials::begin(Arc::new(waker)).unwrap();
        assert_eq!(burials.pending(), None);
        let ((allow, may_end), (has_ended, ended)) = (channel(), channel());
        burials.bury(Slow { may_end, has_ended });
        assert_eq!((burials.pending(), burials.count_over()), (Some(1), 0));
        assert!(ended.try_recv().is_err());
        allow.send(()).unwrap();
        let mut events = Events::with_capacity(1);
        while events.is_empty() {
            poll.poll(&mut events, None).unwrap();
        }
        ended.try_recv().unwrap();
        assert_eq!((burials.pending(), burials.count_over()), (None, 1));
    }
}
