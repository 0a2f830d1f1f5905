//! Large exchanges among ranks of one node, of whatever counts: everybody shows his input, and fetches his parts from all.
//!
//! Nothing has to be registered for the counts, since a rank that is in the call anyway can do all the copying of its own output:
//!
//! ```text
//!   1 copy the input into memory that the others can read
//!   2 a barrier: all inputs are there
//!   3 copy one's parts out of the others' memory, and one's own directly
//!   4 a barrier: nobody reads any more, so the next call may write, and a rank may leave
//! ```
//!
//! A rank that dies meanwhile leaves undefined bytes where it was; step 4 tells of that.

use ropeway_proto::Layout;
use ropeway_shm::ArenaSlot;
use zerocopy::IntoBytes;

use super::roomy::Parts;
use crate::plain::element_bytes;
use crate::{Communicator, Error, Plain};

/// Memory in which the ranks of a communicator show each other their inputs.
pub(super) struct SharedInputs {
    memory: ArenaSlot,
    /// Where that of each rank lies.
    offsets: Vec<u64>,
}

impl Communicator {
    /// Whether all its ranks live on this node.
    pub(super) fn is_on_one_node(&self) -> bool {
        let attachment = self.attachment();
        self.members().iter().all(|&rank| attachment.is_local(rank))
    }

    /// Makes such an exchange. `bytes`: of the longest input of all ranks.
    pub(super) fn fetch<T: Plain>(
        &self,
        input: &[T],
        output: &mut [T],
        Parts { sent, received, begins }: &Parts,
        bytes: u64,
    ) -> Result<(), Error> {
        let me = self.rank() as usize;
        let mut shared = self.collectives().shared_inputs();
        if shared.as_ref().is_none_or(|shared| shared.memory.bytes() < bytes) {
            // All have left the call before, so nobody reads it any more.
            *shared = None;
            *shared = Some(self.share_inputs(bytes.next_power_of_two())?);
        }
        let SharedInputs { memory, offsets } = shared.as_mut().expect("it was just made");
        let own = sent[me].clone();
        for part in [0..own.start, own.end..input.len()] {
            let at = part.start * element_bytes::<T>();
            let bytes = input[part].as_bytes();
            memory.as_bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        }
        self.barrier()?;
        output[received[me].clone()].copy_from_slice(&input[own]);
        for other in (0..offsets.len()).filter(|&other| other != me) {
            let part = output[received[other].clone()].as_mut_bytes();
            let from =
                Layout::contiguous(offsets[other] + begins[other] * element_bytes::<T>() as u64, part.len() as u64);
            self.attachment().read(&from, part)?;
        }
        self.barrier()
    }

    fn share_inputs(&self, bytes: u64) -> Result<SharedInputs, Error> {
        let memory = self.attachment().allocate(bytes)?;
        let mut offsets = vec![0; self.size() as usize];
        self.allgather(&[memory.offset()], &mut offsets)?;
        Ok(SharedInputs { memory, offsets })
    }
}
