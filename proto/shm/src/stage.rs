//! A stage of a collective within a node: the work of a share, cut into pieces.

use std::ops::RangeInclusive;

use crate::job::JobSegment;
use crate::share::Share;

/// Effort worth so many bytes takes a start a quarter of a microsecond, about as long as it takes to share it out.
const SLIGHT_BYTES: u64 = 4500;
/// Up to so many bytes, all copies counted, work is not worth waking the daemon.
pub(crate) const LITTLE_BYTES: u64 = 32 << 10;
/// Shorter pieces of it take longer to deal out than to do.
const LITTLE_PIECE_BYTES: u64 = 8 << 10;
/// Larger work is cut into so many pieces or more, of these sizes: enough of them for all who come to help, and long copies, which are
/// faster than short ones.
const PIECES_WANTED: u64 = 64;
const PIECE_BYTES: RangeInclusive<u64> = 32 << 10..=256 << 10;
/// But shorter stretches of an array are not worth going there.
const STRETCH_BYTES: u64 = 16 << 10;
/// Pieces are counted in 32 bits.
const PIECES_MAX: u64 = u32::MAX as u64 - 1;

/// Work between two points where everybody has to wait.
pub(crate) struct Stage {
    pub(crate) share: Share,
    pub(crate) pieces: u32,
    pub(crate) weight: Weight,
}

/// What who comes has to know of a stage: all of it in one word, while the rest lies where nothing else is that a start needs.
#[derive(Clone, Copy)]
pub(crate) struct Outline {
    pub(crate) pieces: u32,
    pub(crate) weight: Weight,
    pub(crate) is_empty: bool,
    /// Whether this process can do the work.
    pub(crate) is_doable: bool,
}

impl Outline {
    /// Of no stage.
    pub(crate) const NONE: Self = Self { pieces: 0, weight: Weight::Slight, is_empty: true, is_doable: false };
}

/// How much work there is, and so whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Weight {
    /// Who comes last does it at once.
    Slight,
    /// Those who wait do it.
    Little,
    /// Those who wait do it, or the daemon.
    Much,
}

impl Stage {
    /// Little work that calls a user's function counts as slight: who has come last has the function, the daemon has not.
    /// `None` if there are more pieces than can be counted.
    pub(crate) fn new(share: Share, has_user_operator: bool) -> Option<Self> {
        let all = share.work_bytes();
        Self::among(share, has_user_operator, all)
    }

    /// One of several that are worked on at the same time and together are work for so many bytes.
    pub(crate) fn among(share: Share, has_user_operator: bool, all: u64) -> Option<Self> {
        let work = share.work_bytes();
        let weight = if work > LITTLE_BYTES {
            Weight::Much
        } else if has_user_operator || share.effort_bytes() <= SLIGHT_BYTES {
            Weight::Slight
        } else {
            Weight::Little
        };
        let pieces = match weight {
            Weight::Slight => 1,
            Weight::Little => work.div_ceil(LITTLE_PIECE_BYTES),
            Weight::Much => {
                let piece_bytes = (all / PIECES_WANTED).clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end());
                u64::max(2, work.div_ceil(piece_bytes).min(share.bytes().div_ceil(STRETCH_BYTES)))
            }
        };
        let pieces = u32::try_from(pieces).ok()?.min(share.units().clamp(1, PIECES_MAX) as u32);
        Some(Self { pieces, share, weight })
    }

    pub(crate) fn outline(&self) -> Outline {
        let Self { share, pieces, weight } = self;
        Outline { pieces: *pieces, weight: *weight, is_empty: share.is_empty(), is_doable: share.is_doable() }
    }

    pub(crate) fn do_piece(&self, job: &JobSegment, piece: u32) {
        let (piece, pieces, units) = (u64::from(piece), u64::from(self.pieces), self.share.units());
        let units = units * piece / pieces..units * (piece + 1) / pieces;
        // Of what several work on at the same time each would fetch what the others have.
        if self.weight == Weight::Slight {
            self.share.prefetch(job, units.clone());
        }
        // Offsets were checked at registration; who changes them since harms his own job.
        let _ = self.share.work(job, units);
    }

    pub(crate) fn do_all(&self, job: &JobSegment) {
        (0..self.pieces).for_each(|piece| self.do_piece(job, piece));
    }
}
