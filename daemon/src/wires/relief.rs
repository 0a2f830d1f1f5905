//! What two daemons do about a wire that is full because nobody reads it on the other side.
//!
//! Ranks read a wire while they wait for what comes over it. A receive that is started tells nobody, so one whose program then waits for
//! something else, computes or is stopped is read by nobody either: its messages lie in the connection, and no more leave when that is full.
//! So the sender's daemon says over the link that there is no room ([`Complaint`]), and the other one reads if no rank does ([`Relief`]).
//! Each message that comes has its cell, so reading always makes room.

use std::time::{Duration, Instant};

use ropeway_shm::Traffic;

use super::LOOK_EVERY;

/// How long the daemon reads after it was told that there is no room.
const RELIEF_FOR: Duration = Duration::from_millis(20);

/// Of the side that finds no room.
#[derive(Default)]
pub(super) struct Complaint {
    /// When to say so, and how long after the time before.
    next: Option<(Instant, Duration)>,
}

impl Complaint {
    /// Whether the other side is to be told now. More and more seldom, as a slow line has no room for long, but often enough for it to go on reading.
    pub(super) fn is_due(&mut self, is_stuck: bool, now: Instant) -> bool {
        if !is_stuck {
            self.next = None;
            return false;
        }
        let (at, pause) = self.next.get_or_insert((now + LOOK_EVERY, LOOK_EVERY));
        let is_due = now >= *at;
        if is_due {
            *pause = (*pause * 2).min(RELIEF_FOR / 2);
            *at = now + *pause;
        }
        is_due
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next.map(|(at, _)| at)
    }
}

/// Of the side that is to read.
#[derive(Default)]
pub(super) enum Relief {
    /// It was not told.
    #[default]
    None,
    /// It was told, and looks whether ranks read: the daemon would only take a core from them.
    Doubted { come: Traffic, look_at: Instant },
    /// No rank does.
    Needed { until: Instant },
}

impl Relief {
    /// The other side finds no room. `come` is what has come so far.
    pub(super) fn ask(&mut self, come: Traffic, now: Instant) {
        match self {
            Self::None => *self = Self::Doubted { come, look_at: now + LOOK_EVERY },
            Self::Doubted { .. } => {}
            Self::Needed { until } => *until = now + RELIEF_FOR,
        }
    }

    /// Whether there is something to be done now.
    pub(super) fn look(&mut self, come: Traffic, now: Instant) -> bool {
        match *self {
            Self::Doubted { come: before, look_at } if now >= look_at => {
                let is_needed = come == before;
                *self = if is_needed { Self::Needed { until: now + RELIEF_FOR } } else { Self::None };
                is_needed
            }
            Self::Needed { until } if now >= until => {
                *self = Self::None;
                true
            }
            _ => false,
        }
    }

    /// Whether the daemon reads.
    pub(super) fn is_needed(&self) -> bool {
        matches!(self, Self::Needed { .. })
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        match *self {
            Self::None => None,
            Self::Doubted { look_at: at, .. } | Self::Needed { until: at } => Some(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: [u64; 6] = [1, 3, 7, 15, 25, 35];

    #[test]
    fn who_finds_no_room_says_so_more_and_more_seldom_until_there_is_some() {
        let (mut complaint, start) = (Complaint::default(), Instant::now());
        for _ in 0..2 {
            let is_due = |&ms: &u64| complaint.is_due(true, start + Duration::from_millis(ms));
            assert_eq!((0..40).filter(is_due).collect::<Vec<_>>(), TOLD);
            assert!(!complaint.is_due(false, start) && complaint.deadline().is_none());
        }
    }

    #[test]
    fn the_daemon_reads_only_where_no_rank_does_and_as_long_as_it_is_told() {
        let (mut relief, start) = (Relief::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let [none, some] = [0, 1].map(|frames| Traffic { frames, bytes: 0 });
        relief.ask(none, at(0));
        assert!(!relief.look(some, at(1)) && relief.deadline().is_none(), "a rank reads");
        relief.ask(none, at(2));
        assert!(!relief.look(none, at(2)) && !relief.is_needed());
        assert!(relief.look(none, at(3)) && relief.is_needed());
        relief.ask(some, at(13));
        assert!(!relief.look(some, at(32)) && relief.is_needed());
        assert!(relief.look(some, at(33)) && !relief.is_needed());
    }
}
