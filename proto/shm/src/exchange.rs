//! Moves two arrays at once, each of which may go where the other one lies: an alltoall in place.

use crate::chunk::{CHUNK_BYTES, Chunk};
use crate::job::{JobSegment, OutOfBounds};

impl JobSegment {
    /// `to[0][i] = from[0][i]` and `to[1][i] = from[1][i]`, for arrays of `bytes` bytes that begin at these offsets, as if at once:
    /// either target may be either source. If they overlap otherwise, their content is undefined.
    pub fn exchange(&self, from: [u64; 2], to: [u64; 2], bytes: u64) -> Result<(), OutOfBounds> {
        // All of them at once, so that nothing is written if one is refused.
        for offset in from.into_iter().chain(to) {
            self.part(offset, 0, bytes, bytes)?;
        }
        let (mut one, mut other) = (Chunk::new(), Chunk::new());
        for at in (0..bytes).step_by(CHUNK_BYTES) {
            let part = |offset| self.part(offset, at, (bytes - at).min(CHUNK_BYTES as u64), bytes);
            let (one, other) = (one.load(part(from[0])?), other.load(part(from[1])?));
            part(to[0])?.store(one);
            part(to[1])?.store(other);
        }
        Ok(())
    }
}
