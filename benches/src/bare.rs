//! A collective without Ropeway: what a program can do by itself to have it go on while it computes. A thread of each rank does it
//! over plain connections to all others.
//!
//! It is the floor of what Ropeway hides of the same collective, so no rank sends or receives more than it must:
//!
//! * By `pairwise` everything goes straight from who has it to who needs it, and each rank sends to one other and receives from one
//!   at a time: (p−1)/p of all blocks of an allgather, alltoall or reduce-scatter. An allreduce is a reduce-scatter and an allgather
//!   of its result, 2(p−1)/p of the vector, and less is impossible: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
//!   clusters of workstations", 2009.
//! * By `linear` the root of a gather or scatter receives or sends (p−1)/p of all blocks, and the others one.
//!
//! Other collectives have no floor: what moves least takes more rounds or more of the root, so it depends on the size what is best. Nor
//! have neighbours, who would need a thread for each.

use std::io;
use std::net::IpAddr;
use std::ops::Range;

use ropeway::Communicator;
use ropeway_schedule::{Action, Schedule, build};
use zerocopy::IntoBytes;

use crate::BenchError;
use crate::contribution::{Contribution, Element};
use crate::lines::Lines;
use crate::memory::Memory;
use crate::mover::Mover;
use crate::operation::Operation;
use crate::together::Form;
/// One rank's part.
pub(crate) struct Bare<T> {
    mover: Mover<Work<T>>,
}

/// Its steps, and all they need.
struct Work<T> {
    schedule: Schedule,
    memory: Memory<T>,
    lines: Lines,
}

/// The algorithm that moves no more than what has to be moved, if there is one.
pub(crate) fn least(operation: Operation) -> Option<&'static str> {
    match operation {
        Operation::Allreduce | Operation::ReduceScatter | Operation::Allgather | Operation::Alltoall => {
            Some("pairwise")
        }
        Operation::Gather | Operation::Scatter => Some("linear"),
        Operation::Barrier
        | Operation::Bcast
        | Operation::Reduce
        | Operation::Scan
        | Operation::Exscan
        | Operation::NeighborAllgather
        | Operation::NeighborAlltoall => None,
    }
}

impl<T: Element> Bare<T> {
    /// Of a collective that has a [`least`], among ranks on nodes with these addresses. All ranks have to call it.
    pub(crate) fn new(
        world: &Communicator,
        contribution: &Contribution,
        addresses: &[IpAddr],
    ) -> Result<Self, BenchError> {
        let Contribution { call, rank, size, count, .. } = *contribution;
        let algorithm = least(call.operation).expect("only these are measured");
        let algorithm = algorithm.parse().expect("it is the name of one");
        let schedule = build(&call.shape(size, count), &algorithm, rank)?;
        let memory = Memory::new(contribution, &schedule);
        let work = Work { schedule, memory, lines: Lines::new(world, addresses)? };
        Ok(Self { mover: Mover::new(work, Work::execute)? })
    }

    fn memory(&mut self) -> &mut Memory<T> {
        &mut self.mover.load_mut().expect(WAITED_FOR).memory
    }
}

impl<T: Element> Form<T> for Bare<T> {
    fn input(&mut self) -> &mut [T] {
        self.memory().input_mut()
    }

    fn output(&self) -> &[T] {
        self.mover.load().expect(WAITED_FOR).memory.output()
    }

    fn output_mut(&mut self) -> &mut [T] {
        self.memory().output_mut()
    }

    fn round(&mut self, meanwhile: Option<&mut dyn FnMut()>) -> Result<(), BenchError> {
        self.mover.start()?;
        if let Some(compute) = meanwhile {
            compute();
        }
        Ok(self.mover.wait()?)
    }
}

impl<T: Element> Work<T> {
    /// All steps in turn, but for the sends, which go on meanwhile.
    fn execute(&mut self) -> io::Result<()> {
        let Self { schedule, memory, lines } = self;
        for (number, step) in (0..).zip(schedule.steps()) {
            let before = schedule.after(number);
            lines.finish(memory.elements.as_mut_bytes(), |send| before.contains(&send))?;
            match step.action {
                Action::Send { peer, from } => lines.send(number, peer, bytes::<T>(memory.place(from))),
                Action::Recv { peer, into } => {
                    let into = bytes::<T>(memory.place(into));
                    lines.recv(memory.elements.as_mut_bytes(), peer, into)?;
                }
                // Operators that are measured commute, so it does not matter on which side an operand stands.
                Action::Combine { from, into, side: _ } => memory.combine(&memory.place(from), &memory.place(into)),
                Action::Copy { from, into } => memory.copy(&memory.place(from), &memory.place(into)),
                Action::Signal { .. } | Action::Wait { .. } => unreachable!("only barriers signal"),
            }
        }
        lines.finish(memory.elements.as_mut_bytes(), |_| true)
    }
}

/// Where these elements are among the bytes of all.
fn bytes<T>(elements: Range<usize>) -> Range<usize> {
    elements.start * size_of::<T>()..elements.end * size_of::<T>()
}

const WAITED_FOR: &str = "a round ends before its arrays are used again";

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::cluster::everybody;
    use crate::contribution::Extent;
    use crate::operation::CollectiveCall;
    use crate::together::{Means, together};

    #[test]
    fn what_is_bare_gives_what_a_single_process_would_compute() {
        for nodes in [2, 3, 4] {
            let addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST); nodes as usize];
            everybody((nodes as usize, nodes), |world| {
                let operations = Operation::ALL.into_iter().filter(|&operation| least(operation).is_some());
                for (operation, (bytes, extent)) in operations.flat_map(|one| ROUNDS.map(|round| (one, round))) {
                    let call = CollectiveCall { root: nodes - 1, ..CollectiveCall::of(operation) };
                    let mut bare = together(&world, Means::Bare(&addresses), call, bytes).unwrap();
                    for round in 1..=2 {
                        bare.prepare(round, extent);
                        let is_stale = bare.check(round, extent).is_err();
                        assert_eq!(is_stale, has_output(call, world.rank()), "{call} of {bytes}, round {round}");
                        let mut computed = false;
                        bare.round(Some(&mut || computed = true)).unwrap();
                        let checked = bare.check(round, extent);
                        assert!(computed && checked.is_ok(), "{call} of {bytes}, round {round}: {checked:?}");
                    }
                }
            });
        }
    }

    #[test]
    fn who_leaves_is_noticed() {
        let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST); 2];
        everybody((2, 2), |world| {
            let call = CollectiveCall::of(Operation::Allgather);
            let mut bare = together(&world, Means::Bare(&addresses), call, 8).unwrap();
            if world.rank() == 0 {
                let error = bare.round(None).unwrap_err();
                assert!(matches!(error, BenchError::Io(_)), "{error}");
            }
        });
    }

    fn has_output(call: CollectiveCall, rank: u32) -> bool {
        call.operation != Operation::Gather || call.root == rank
    }

    /// Fewer elements than ranks, odd numbers, and more than a new connection takes at once.
    const ROUNDS: [(usize, Extent); 3] = [(9, Extent::All), (16_001, Extent::All), (4 << 20, Extent::Edges)];
}
