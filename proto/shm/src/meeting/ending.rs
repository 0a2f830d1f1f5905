//! How a meeting ends: which rounds go on without who has gone, and when nobody has his hands on buffers any more.

use std::sync::atomic::{Ordering, fence};

use ropeway_proto::{Completion, Status};

use super::{Collected, Meeting, Way};
use crate::round::is_past;

/// Marks a number of rounds in `until`, which may be zero rounds.
pub(super) const IS_COUNT: u64 = 1 << 32;

impl Meeting {
    /// Why there will be no end of this round, once nobody has his hands on the buffers of who waits for it.
    #[inline]
    pub fn given_up(&self, round: u32) -> Option<Completion> {
        // SYNC meeting-released (load): what others have written there before.
        self.closed_for(round).filter(|_| self.words().closed.is_released.load(Ordering::Acquire) != 0)
    }

    /// Why there will be no end of this round.
    #[inline]
    pub(crate) fn closed_for(&self, round: u32) -> Option<Completion> {
        if self.closed().is_none() || self.may_still_end(round) {
            return None;
        }
        // SYNC meeting-closed (load): again, since a second cause was there before it has ended this round.
        self.closed()
    }

    /// Whether who has gone had its part in this round, so that others may still be in it.
    fn may_still_end(&self, round: u32) -> bool {
        let until = self.words().closed.until.load(Ordering::Acquire);
        until != 0 && is_past(until as u32, round)
    }

    /// Why there will be no further round.
    #[inline]
    pub fn closed(&self) -> Option<Completion> {
        let closed = &self.words().closed;
        // SYNC meeting-closed (load).
        match closed.why.load(Ordering::Acquire) {
            0 => None,
            why => Some(Completion {
                status: Status::from_code(why as u32).unwrap_or(Status::PeerFreed),
                source: (why >> u32::BITS) as u32,
                tag: closed.what.load(Ordering::Relaxed) as i32,
                bytes: 0,
            }),
        }
    }

    /// Why a member need not come for this round. What others have sent before they left can still be had.
    /// Where all meet nobody looks: who comes in vain is told so when he waits, and the word is one more line for a start to fetch.
    #[inline]
    pub fn refusal(&self, member: u32, round: u32) -> Option<Completion> {
        if matches!(self.way, Way::Together) {
            return None;
        }
        let has_come = || {
            let is_collected = |collected: Collected<'_>| collected.is_root() && collected.have_all_come(round);
            self.relayed(member).is_some_and(|relayed| relayed.has_come(round))
                || self.collected(member).is_some_and(is_collected)
        };
        self.closed_for(round).filter(|_| !has_come())
    }

    /// Parts that members have started and not waited for are put where nobody needs those members any more. The daemon's part, before `close`.
    pub fn settle_parts(&self) {
        self.ranks.iter().filter_map(|&member| self.collected(member)).for_each(|collected| collected.settle());
    }

    /// There will be no further round. `left`: who has gone by itself, as an index among the node's ranks. Where it had only to do with the
    /// root, others may still end the rounds that it has ended. The first cause counts that leaves none of them: who has gone by itself is
    /// no cause of the end of rounds that it had its part in. The daemon's part.
    pub fn close(&self, why: &Completion, left: Option<u32>) {
        let ended = left.and_then(|local_rank| self.ended_by(local_rank));
        let until = ended.map_or(0, |rounds| IS_COUNT | u64::from(rounds));
        let cause = u64::from(why.source) << u32::BITS | u64::from(why.status.code());
        let (closed, is_first) = (&self.words().closed, self.closed().is_none());
        let known = closed.until.load(Ordering::Relaxed);
        let is_sooner = known != 0 && (until == 0 || is_past(known as u32, until as u32));
        if !is_first && !is_sooner {
            return;
        }
        // Of the rounds that are given up only now somebody may have buffers in hand.
        closed.is_released.store(0, Ordering::Relaxed);
        let end_rounds = || closed.until.store(until, Ordering::Release);
        if is_first {
            // SYNC meeting-closed: until when, before why.
            end_rounds();
        }
        closed.what.store(why.tag as u32, Ordering::Relaxed);
        // SYNC meeting-closed (store).
        closed.why.store(cause, Ordering::Release);
        if !is_first {
            // SYNC meeting-closed: why, before further rounds end.
            end_rounds();
        }
    }

    /// After `close`, when the meeting is out of use: who waits learns of it. The daemon's part.
    pub fn release(&self) {
        // SYNC meeting-released (store): behind the last hands, of which `is_out_of_use` has heard.
        self.words().closed.is_released.store(1, Ordering::Release);
        self.wake_all();
    }

    /// How many rounds have ended for a member, where that differs between them.
    fn ended_by(&self, local_rank: u32) -> Option<u32> {
        let index = self.places.iter().position(|&(place, _)| place == local_rank)?;
        match &self.way {
            Way::Collect(area) => Some(area.rounds(index)),
            Way::Pairs(area) if index == area.root() => Some(self.words().rounds.ended()),
            Way::Pairs(area) => Some(area.rounds(index)),
            Way::Together | Way::Relay(_) => None,
        }
    }

    /// After `close`: whether nobody who lives has his hands on the members' buffers. The daemon's part.
    pub fn is_out_of_use(&self, is_alive: impl Fn(u32) -> bool) -> bool {
        // SYNC meeting-busy: see `help`.
        fence(Ordering::SeqCst);
        (0..self.slots.len()).all(|index| {
            let is_busy = self.line(index).is_some_and(|line| line.is_busy.load(Ordering::Acquire) != 0);
            !is_busy || !is_alive(self.places[index].0)
        })
    }
}
