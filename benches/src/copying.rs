//! What each rank could do for itself of a collective within a node: copy as many bytes, between arrays of its own, when it comes to wait.
//!
//! Nothing of that hides, so `d_o` is zero or less: less by what computing costs the copies that come after it. What a rank does not touch
//! for a while has to be fetched from further away, the more if others share the cache or the host.

use std::hint;

use ropeway::Communicator;

use crate::BenchError;
use crate::clock::Span;
use crate::contribution::{Contribution, element_bytes};
use crate::everyone::Everyone;
use crate::hiding::Communication;
use crate::joint::when_all_are_there;
use crate::operation::CollectiveCall;

/// One rank's part. All do it at the same time, and compute before.
pub(crate) struct Copying {
    everyone: Everyone,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Copying {
    pub(crate) fn new(world: &Communicator, bytes: usize) -> Self {
        Self { everyone: Everyone::of(world), from: vec![1; bytes], to: vec![0; bytes] }
    }
}

/// A rank's share of such a collective, whose blocks have so many bytes. `None` if it is too little to say anything about memory.
pub(crate) fn share_bytes(call: CollectiveCall, ranks: u32, bytes: usize) -> Option<usize> {
    let count = bytes.div_ceil(element_bytes(call));
    Some(share(call, ranks, count) * element_bytes(call)).filter(|&bytes| bytes >= BYTES_MIN)
}

/// Elements that each of so many ranks reads or writes on average, whichever are more.
fn share(call: CollectiveCall, size: u32, count: usize) -> usize {
    let elements = (0..size).map(|rank| Contribution::new(call, (rank, size), count).elements());
    let all = elements.fold([0; 2], |all: [usize; 2], elements| [all[0] + elements[0], all[1] + elements[1]]);
    all[0].max(all[1]) / size as usize
}

impl Communication for Copying {
    fn agree<const N: usize>(&self, decide: impl FnOnce() -> [u64; N]) -> Result<[u64; N], BenchError> {
        self.everyone.agree(decide)
    }

    fn meet(&self) -> Result<(), BenchError> {
        self.everyone.meet()
    }

    fn computes(&self) -> bool {
        true
    }

    fn transfer(&mut self, mut compute: impl FnMut()) -> Result<Span, BenchError> {
        let begin_ns = when_all_are_there(&self.everyone)?;
        compute();
        self.to.copy_from_slice(hint::black_box(&self.from));
        hint::black_box(&mut self.to);
        Ok(Span::since(begin_ns)?)
    }

    fn that_count<const N: usize>(&self, spans: [Span; N]) -> Result<Option<[f64; N]>, BenchError> {
        self.everyone.longest(spans)
    }
}

/// What the floor is called.
pub(crate) const OWN_COPIES: &str = "own copies";
/// The nearest cache holds less.
const BYTES_MIN: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;

    #[test]
    fn ranks_share_what_is_read_or_written() {
        let share_of = |operation| share(CollectiveCall::of(operation), 4, 100);
        assert_eq!(share_of(Operation::Barrier), 0);
        for operation in
            [Operation::Bcast, Operation::Allreduce, Operation::Gather, Operation::Scatter, Operation::Reduce]
        {
            assert_eq!(share_of(operation), 100, "{operation}");
        }
        for operation in [Operation::Allgather, Operation::Alltoall, Operation::ReduceScatter] {
            assert_eq!(share_of(operation), 400, "{operation}");
        }
    }
}
