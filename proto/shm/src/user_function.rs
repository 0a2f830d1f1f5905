//! Combines arrays by functions of the program: reductions with user-defined operators.
//!
//! As with the predefined ones ([`combine`](crate::combine())), elements are combined in private memory. Here it belongs to the
//! function, which alone knows what type they are of.

use std::ops::Range;

use ropeway_proto::Layout;

use crate::combine::BeforeEach;
use crate::job::{JobSegment, OutOfBounds};

/// A function of this process, and the private memory it works on.
pub trait UserFunction: Send {
    /// Room for elements on the left and on the right of the operator, alike: whole elements, at least one.
    fn room(&mut self) -> [&mut [u8]; 2];

    /// `left[i] = left[i] ∘ right[i]`, for the first `bytes` bytes of both.
    fn combine(&mut self, bytes: usize);
}

impl JobSegment {
    /// `into[i] = sources[0][i] ∘ sources[1][i] ∘ …`, for each of `into`, and these bytes of arrays that begin at these offsets.
    ///
    /// The sources are in the order of ranks, and combined in it. What is written may be one of them; if it overlaps one otherwise, its
    /// content is undefined. Without sources nothing happens.
    pub fn fold_by(
        &self,
        function: &mut dyn UserFunction,
        (sources, into): (&[u64], &[u64]),
        bytes: Range<u64>,
    ) -> Result<(), OutOfBounds> {
        let Some((&first, others)) = sources.split_first() else { return Ok(()) };
        let [room, _] = function.room();
        let room_bytes = room.len() as u64;
        let mut at = bytes.start;
        while at < bytes.end {
            let part_bytes = (bytes.end - at).min(room_bytes);
            let array = |offset| Layout::contiguous(offset, bytes.end);
            let part = ..part_bytes as usize;
            self.read(&array(first), at, &mut function.room()[0][part])?;
            for &other in others {
                self.read(&array(other), at, &mut function.room()[1][part])?;
                function.combine(part_bytes as usize);
            }
            for &target in into {
                self.write(&array(target), at, &function.room()[0][part])?;
            }
            at += part_bytes;
        }
        Ok(())
    }

    /// As [`JobSegment::fold_before`], by this function.
    pub(crate) fn fold_before_by(
        &self,
        function: &mut dyn UserFunction,
        (sources, into): (&[u64], &[u64]),
        bytes: Range<u64>,
    ) -> Result<(), OutOfBounds> {
        let targets = BeforeEach::new(sources, into);
        let Some(&first) = sources.first() else { return Ok(()) };
        let room_bytes = function.room()[0].len() as u64;
        let mut at = bytes.start;
        while at < bytes.end {
            let part_bytes = (bytes.end - at).min(room_bytes);
            let array = |offset| Layout::contiguous(offset, bytes.end);
            let part = ..part_bytes as usize;
            self.read(&array(first), at, &mut function.room()[0][part])?;
            for (source, target) in targets.iter() {
                if let Some(source) = source {
                    self.read(&array(source), at, &mut function.room()[1][part])?;
                }
                if let Some(target) = target {
                    self.write(&array(target), at, &function.room()[0][part])?;
                }
                if source.is_some() {
                    function.combine(part_bytes as usize);
                }
            }
            at += part_bytes;
        }
        Ok(())
    }
}
