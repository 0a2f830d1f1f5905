//! Memory of jobs that have ended goes back to the system, which takes it a second for each gigabyte: time in which the daemon's one thread
//! would move nothing for others. So another one does it, which is there from the beginning: it would inherit a core and a priority that the
//! daemon has for a while only.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread::Builder;

/// What is being given back.
pub(crate) struct Burials {
    dead: Sender<Box<dyn Send>>,
    /// Since somebody last waited for the end of all of them.
    is_any: bool,
}

impl Burials {
    pub(crate) fn begin() -> io::Result<Self> {
        let (dead, all_dead) = channel();
        Builder::new().name("ropeway-burial".into()).spawn(|| all_dead.into_iter().for_each(drop))?;
        Ok(Self { dead, is_any: false })
    }

    /// Drops this, and returns before it is done.
    pub(crate) fn bury(&mut self, dead: impl Send + 'static) {
        self.is_any = true;
        // Were the thread gone, what it can't be sent would be dropped here.
        let _ = self.dead.send(Box::new(dead));
    }

    /// Returns when everything is given back. False if it was before.
    pub(crate) fn finish(&mut self) -> bool {
        let (last, ended) = channel::<()>();
        let is_any = self.is_any;
        if is_any {
            self.bury(last);
            // Nothing is sent: it ends when the sender is dropped.
            let _ = ended.recv();
            self.is_any = false;
        }
        is_any
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

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
    fn a_burial_keeps_nobody_waiting_who_does_not_want_to() {
        let mut burials = Burials::begin().unwrap();
        assert!(!burials.finish());
        let ((allow, may_end), (has_ended, ended)) = (channel(), channel());
        burials.bury(Slow { may_end, has_ended });
        assert!(ended.try_recv().is_err());
        allow.send(()).unwrap();
        assert!(burials.finish());
        ended.try_recv().unwrap();
        assert!(!burials.finish());
    }
}
