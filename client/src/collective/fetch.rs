//! Large exchanges among ranks of one node, of whatever counts: everybody shows his input, and fetches his parts from all.
//!
//! Nothing has to be registered for the counts, since a rank that is in the call anyway can do all the copying of its own output:
//!
//! ```text
//!   1 copy the input into memory that the others can read, or say where it is
//!   2 a barrier: all inputs are there
//!   3 copy one's parts out of the others' memory, and one's own directly
//!   4 a barrier: nobody reads any more, so the next call may write, and a rank may leave
//! ```
//!
//! Reading each other's own memory saves a copy, at the price of system calls, where it is permitted (`peer_processes`).
//! A rank that dies meanwhile leaves undefined bytes where it was, or can't be read any more; step 4 tells of that.

use std::ops::Range;

use ropeway_proto::Layout;
use ropeway_shm::ArenaSlot;
use zerocopy::IntoBytes;

use super::peer_processes::{PeerProcesses, address};
use super::roomy::Parts;
use crate::plain::element_bytes;
use crate::{Communicator, Error, Plain};

/// Memory in which the ranks of a communicator show each other their inputs, or where these are.
pub(super) struct SharedInputs {
    memory: ArenaSlot,
    /// Where that of each rank lies.
    offsets: Vec<u64>,
    /// The ranks, if they may read each other's memory.
    peers: Option<PeerProcesses>,
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
        parts: &Parts,
        bytes: u64,
    ) -> Result<(), Error> {
        let mut shared = self.collectives().shared_inputs();
        if shared.is_none() {
            *shared = Some(SharedInputs::new(self)?);
        }
        let shared = shared.as_mut().expect("it was just made");
        let is_direct = bytes >= DIRECT_BYTES_MIN && shared.peers.is_some();
        // All have left the call before, so nobody reads it any more.
        shared.make_room(self, if is_direct { ADDRESS_BYTES } else { bytes })?;
        let me = self.rank() as usize;
        let own = parts.sent[me].clone();
        if is_direct {
            shared.memory.as_bytes_mut()[..ADDRESS_BYTES as usize].copy_from_slice(&address(input).to_ne_bytes());
        } else {
            shared.show(input, [0..own.start, own.end..input.len()]);
        }
        self.barrier()?;
        output[parts.received[me].clone()].copy_from_slice(&input[own]);
        let others = (0..self.size() as usize).filter(|&other| other != me);
        let fetched = others.map(|other| {
            let part = output[parts.received[other].clone()].as_mut_bytes();
            shared.fetch(self, other, is_direct, parts.begins[other] * element_bytes::<T>() as u64, part)
        });
        let fetched = fetched.collect::<Result<(), Error>>();
        // Says which rank is gone, if that is why.
        self.barrier()?;
        fetched
    }
}

impl SharedInputs {
    fn new(world: &Communicator) -> Result<Self, Error> {
        let (memory, offsets) = allocate(world, ADDRESS_BYTES)?;
        Ok(Self { memory, offsets, peers: PeerProcesses::of(world)? })
    }

    /// Sees to it that each rank has so many bytes.
    fn make_room(&mut self, world: &Communicator, bytes: u64) -> Result<(), Error> {
        if self.memory.bytes() < bytes {
            (self.memory, self.offsets) = allocate(world, bytes.next_power_of_two())?;
        }
        Ok(())
    }

    /// Copies these parts of the input to where they lie in it.
    fn show<T: Plain>(&mut self, input: &[T], parts: [Range<usize>; 2]) {
        for part in parts {
            let at = part.start * element_bytes::<T>();
            let bytes = input[part].as_bytes();
            self.memory.as_bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Copies what lies in another rank's input behind `begin` bytes.
    fn fetch(
        &self,
        world: &Communicator,
        rank: usize,
        is_direct: bool,
        begin: u64,
        part: &mut [u8],
    ) -> Result<(), Error> {
        let read = |from, into: &mut [u8]| world.attachment().read(&Layout::contiguous(from, into.len() as u64), into);
        match self.peers.as_ref().filter(|_| is_direct) {
            None => read(self.offsets[rank] + begin, part),
            Some(peers) => {
                let mut address = [0; ADDRESS_BYTES as usize];
                read(self.offsets[rank], &mut address)?;
                peers.read(rank, u64::from_ne_bytes(address).wrapping_add(begin), part)
            }
        }
    }
}

/// So many bytes that others can read, and where they lie in each rank's memory.
fn allocate(world: &Communicator, bytes: u64) -> Result<(ArenaSlot, Vec<u64>), Error> {
    let memory = world.attachment().allocate(bytes)?;
    let mut offsets = vec![0; world.size() as usize];
    world.allgather(&[memory.offset()], &mut offsets)?;
    Ok((memory, offsets))
}

const ADDRESS_BYTES: u64 = size_of::<u64>() as u64;
/// If the longest input has as many, one copy by the kernel takes less than two.
const DIRECT_BYTES_MIN: u64 = 256 << 10;
