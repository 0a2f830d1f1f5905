//! Reading what other processes of this node have in memory of their own, where the system permits it.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSliceMut};

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use ropeway_proto::operator::Operator;
use zerocopy::IntoBytes;

use crate::control::io_error;
use crate::{Communicator, Error};

/// The processes of a communicator's ranks, each of which may read the others' memory.
pub(super) struct PeerProcesses(Vec<Pid>);

impl PeerProcesses {
    /// All ranks of `world` ask at once. `None` if some may not read, as in containers that hide processes from each other or under
    /// a security module.
    pub(super) fn of(world: &Communicator) -> Result<Option<Self>, Error> {
        // A number that is found nowhere else shows that it is the right process: in another container it may be anybody's.
        let word = [RandomState::new().hash_one(world.rank())];
        let own = [Pid::this().as_raw() as u64, address(&word), word[0]];
        let mut all = vec![0; own.len() * world.size() as usize];
        world.allgather(&own, &mut all)?;
        let introductions = || all.chunks_exact(own.len());
        let peers = Self(introductions().map(|one| Pid::from_raw(one[0] as i32)).collect());
        let is_readable = |(rank, one): (usize, &[u64])| {
            let mut found = 0_u64;
            peers.read(rank, one[1], found.as_mut_bytes()).is_ok() && found == one[2]
        };
        // Also a barrier: nobody looks for a word that has gone.
        let mut are_readable = [u8::from(introductions().enumerate().all(is_readable))];
        world.allreduce_in_place(&mut are_readable, Operator::Min)?;
        Ok((are_readable == [1]).then_some(peers))
    }

    /// Copies what a rank has at an address.
    pub(super) fn read(&self, rank: usize, address: u64, into: &mut [u8]) -> Result<(), Error> {
        let mut done = 0;
        while done < into.len() {
            let from = RemoteIoVec { base: (address as usize).wrapping_add(done), len: into.len() - done };
            match process_vm_readv(self.0[rank], &mut [IoSliceMut::new(&mut into[done..])], &[from]) {
                Ok(0) => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => done += bytes,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
        Ok(())
    }
}

/// Where others find this.
pub(super) fn address<T>(array: &[T]) -> u64 {
    array.as_ptr().expose_provenance() as u64
}

fn failed(error: io::Error) -> Error {
    io_error("reading another rank's memory")(error)
}
