//! Who looks after a wire while ranks compute or sleep, and how it ends.

use std::sync::atomic::{AtomicU32, Ordering};

use ropeway_proto::End;

use super::{Stream, Traffic, WatchWords, Wire, WireWords, holder};

impl Wire {
    /// A rank is about to sleep and can't receive for itself. True if the daemon has to be told.
    pub fn begin_sleep(&self) -> bool {
        let WatchWords { sleepers, watch, .. } = &self.words().watch;
        sleepers.fetch_add(1, Ordering::Relaxed);
        !watch.is_there()
    }

    /// It is awake again.
    pub fn end_sleep(&self) {
        take_off(&self.words().watch.sleepers, 1);
    }

    /// A rank is gone that counted among those that sleep, so often. The daemon's part.
    pub fn forget_sleeps(&self, count: u32) {
        take_off(&self.words().watch.sleepers, count);
    }

    /// Whether ranks sleep.
    pub fn has_sleepers(&self) -> bool {
        self.words().watch.sleepers.load(Ordering::Relaxed) > 0
    }

    /// The daemon is woken by what comes from now on. The daemon's part.
    pub fn watch(&self) {
        self.words().watch.watch.set(true);
    }

    /// The daemon is woken no more, unless ranks sleep: false then. The daemon's part.
    pub fn unwatch(&self) -> bool {
        self.words().watch.watch.set(false);
        let is_needed = self.has_sleepers();
        if is_needed {
            self.watch();
        }
        !is_needed
    }

    /// Whether the daemon soon looks for what was forgotten.
    #[inline]
    pub fn is_guarded(&self) -> bool {
        self.words().watch.guard.is_there()
    }

    /// The same for what was marked before one SeqCst fence.
    #[inline]
    pub fn is_guarded_behind_fence(&self) -> bool {
        self.words().watch.guard.is_there_behind_fence()
    }

    /// The daemon begins or ends to look now and then; after ending it looks once more. The daemon's part.
    pub fn set_guarded(&self, is_guarded: bool) {
        self.words().watch.guard.set(is_guarded);
    }

    /// Whether the daemon has to be told that something is due: it was not told yet, or has begun to look since.
    pub fn must_call(&self) -> bool {
        // SYNC wire-call: the mark before the call. A call that was not heard will be, and the mark with it.
        self.words().watch.is_called.swap(1, Ordering::AcqRel) == 0
    }

    /// The daemon begins to look for what is due. The daemon's part.
    pub fn hear(&self) {
        // SYNC wire-call: what was marked before the calls that are heard here.
        self.words().watch.is_called.swap(0, Ordering::AcqRel);
    }

    /// A rank has got a message from somebody else's hand, and is likely to have something to send soon.
    #[inline]
    pub(super) fn expect(&self, local_rank: u32) {
        if holder(Some(local_rank)) != self.holder {
            self.words().watch.expected.fetch_or(bit(local_rank), Ordering::Relaxed);
        }
    }

    /// This rank comes to work the wire. Whether others that got a message have not come yet.
    pub fn come(&self, local_rank: u32) -> bool {
        let expected = &self.words().watch.expected;
        let (ranks, own) = (expected.load(Ordering::Relaxed), bit(local_rank));
        if ranks & own != 0 {
            expected.fetch_and(!own, Ordering::Relaxed);
        }
        ranks & !own != 0
    }

    /// How many channels have something to be sent.
    pub fn due(&self) -> u32 {
        self.words().due.count()
    }

    /// Whoever has not come by now does something else.
    pub fn expect_nobody(&self) {
        self.words().watch.expected.store(0, Ordering::Relaxed);
    }

    /// Whether messages wait for credit that somebody has to receive.
    pub fn is_starving(&self) -> bool {
        self.words().starving.is_any()
    }

    /// What was sent and what was received so far.
    pub fn traffic(&self) -> [Traffic; 2] {
        let WireWords { out, input, .. } = self.words();
        [out.traffic(), input.traffic()]
    }

    /// System calls that moved it, or found nothing to move, by whomever.
    pub fn system_calls(&self) -> u64 {
        let WireWords { out, input, .. } = self.words();
        [out, input].map(|stream| stream.system_calls.load(Ordering::Relaxed)).iter().sum()
    }

    // ---- ending

    /// Whether the connection is lost.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.words().watch.is_broken.load(Ordering::Acquire) != 0
    }

    /// Nobody sends or receives any more.
    pub fn break_off(&self) {
        self.words().watch.is_broken.store(1, Ordering::Release);
    }

    /// A rank is gone. If it was at work nobody knows what it has done, and the connection is lost. Says for which ends it was at work, as
    /// nobody is from now on. The daemon's part.
    pub fn bury(&self, local_rank: u32) -> impl Iterator<Item = End> {
        let WireWords { out, input, .. } = self.words();
        let holder_gone = holder(Some(local_rank));
        let inherit = |(stream, end): (&Stream, End)| {
            let was_at_work = stream.turn.is_held_by(holder_gone);
            if was_at_work {
                self.break_off();
                stream.turn.inherit(holder_gone, self.holder);
            }
            was_at_work.then_some(end)
        };
        [(out, End::Send), (input, End::Recv)].map(inherit).into_iter().flatten()
    }
}

fn bit(local_rank: u32) -> u64 {
    1 << (local_rank % u64::BITS)
}

/// No client is to make the count wrap, whatever it has said.
fn take_off(sleepers: &AtomicU32, count: u32) {
    let less = |sleepers: u32| Some(sleepers.saturating_sub(count));
    let _ = sleepers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}
