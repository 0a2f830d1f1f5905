//! A stage of a collective within a node: the work of a share, cut into pieces.

use std::ops::RangeInclusive;

use crate::job::JobSegment;
use crate::share::Share;

/// Work up to so many bytes, all copies counted, is done at once by who comes last.
pub const SMALL_WORK_BYTES: u64 = 32 << 10;
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
}

impl Stage {
    /// `None` if there are more pieces than can be counted.
    pub(crate) fn new(share: Share) -> Option<Self> {
        let work = share.work_bytes();
        let piece_bytes = (work / PIECES_WANTED).clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end());
        let pieces = work.div_ceil(piece_bytes).min(share.bytes().div_ceil(STRETCH_BYTES));
        let pieces = if work <= SMALL_WORK_BYTES { 1 } else { u32::try_from(pieces.max(2)).ok()? };
        Some(Self { pieces: pieces.min(share.units().clamp(1, PIECES_MAX) as u32), share })
    }

    /// Whether there is little enough work for who comes last, in this process.
    pub(crate) fn is_small(&self) -> bool {
        self.pieces == 1 && self.share.is_doable()
    }

    pub(crate) fn do_piece(&self, job: &JobSegment, piece: u32) {
        let (piece, pieces, units) = (u64::from(piece), u64::from(self.pieces), self.share.units());
        // Offsets were checked at registration; who changes them since harms his own job.
        let _ = self.share.work(job, units * piece / pieces..units * (piece + 1) / pieces);
    }

    pub(crate) fn do_all(&self, job: &JobSegment) {
        // As above.
        let _ = self.share.work_at_once(job);
    }
}
