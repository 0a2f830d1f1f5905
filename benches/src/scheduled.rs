//! A collective that ranks do as a schedule of messages between them, and drive themselves: a baseline of measurement, as libraries
//! without independent progress are.
//!
//! * Steps are done in turn, within the call that waits. Between start and wait nothing happens.
//! * Every message of the schedule has a persistent request of its own, which is made with the schedule. Receives are started
//!   together when waiting begins, sends when it is their turn.
//! * A request owns its buffer, so a message is copied from the array into the buffer that it leaves from, and from the one that it
//!   arrives in into the array. For large messages that is a disadvantage which other libraries' schedules don't have.

use std::ops::Range;

use ropeway::{Communicator, Error, RecvRequest, Request, SendRequest, start_all};
use ropeway_schedule::{Action, build};

use crate::BenchError;
use crate::contribution::{Contribution, Element};
use crate::memory::Memory;
use crate::method::Method;
use crate::together::Form;

/// One rank's steps, and the memory they work on.
pub(crate) struct Scheduled<T: Element> {
    memory: Memory<T>,
    steps: Vec<Step>,
    /// Of the steps that send, in their order.
    sends: Vec<SendRequest<T>>,
    /// Of the steps that receive, in their order.
    recvs: Vec<RecvRequest<T>>,
}

/// An [`Action`] on places in the memory. Signals are messages of no elements.
enum Step {
    Send(Range<usize>),
    Recv(Range<usize>),
    Combine { from: Range<usize>, into: Range<usize> },
    Copy { from: Range<usize>, into: Range<usize> },
}

impl<T: Element> Scheduled<T> {
    pub(crate) fn new(world: &Communicator, contribution: &Contribution, method: &Method) -> Result<Self, BenchError> {
        let Contribution { call, rank, size, count, .. } = *contribution;
        let shape = call.shape(size, count);
        let schedule = build(&shape, &method.schedule_algorithm(call, size, count), rank)?;
        let mut scheduled = Self {
            memory: Memory::new(contribution, &schedule),
            steps: Vec::with_capacity(schedule.steps().len()),
            sends: Vec::new(),
            recvs: Vec::new(),
        };
        schedule.steps().iter().try_for_each(|step| scheduled.add(world, step.action))?;
        Ok(scheduled)
    }

    /// Binds the step's message, if it has one: the k-th send to a rank is matched with its k-th receive from here.
    fn add(&mut self, world: &Communicator, action: Action) -> Result<(), Error> {
        let step = match action {
            Action::Send { peer, from } => self.send(world, peer, self.memory.place(from), MESSAGE)?,
            Action::Recv { peer, into } => self.recv(world, peer, self.memory.place(into), MESSAGE)?,
            Action::Signal { peer } => self.send(world, peer, 0..0, SIGNAL)?,
            Action::Wait { peer } => self.recv(world, peer, 0..0, SIGNAL)?,
            // Operators that are measured commute, so it does not matter on which side an operand stands.
            Action::Combine { from, into, side: _ } => {
                Step::Combine { from: self.memory.place(from), into: self.memory.place(into) }
            }
            Action::Copy { from, into } => Step::Copy { from: self.memory.place(from), into: self.memory.place(into) },
        };
        self.steps.push(step);
        Ok(())
    }

    fn send(&mut self, world: &Communicator, peer: u32, from: Range<usize>, tag: i32) -> Result<Step, Error> {
        self.sends.push(world.send_init(world.alloc(from.len())?, peer, tag)?);
        Ok(Step::Send(from))
    }

    fn recv(&mut self, world: &Communicator, peer: u32, into: Range<usize>, tag: i32) -> Result<Step, Error> {
        self.recvs.push(world.recv_init(world.alloc(into.len())?, peer, tag)?);
        Ok(Step::Recv(into))
    }

    /// All steps. A send leaves its place in the array at once, so none of them waits for one that comes later.
    fn execute(&mut self) -> Result<(), Error> {
        let Self { memory, steps, sends, recvs, .. } = self;
        // They are waited for one by one.
        drop(start_all(recvs)?);
        let (mut sending, mut receiving) = (sends.iter_mut(), recvs.iter_mut());
        for step in steps {
            match step {
                Step::Send(from) => {
                    let send = sending.next().expect(ONE_EACH);
                    send.buffer_mut().copy_from_slice(&memory.elements[from.clone()]);
                    drop(send.start()?);
                }
                Step::Recv(into) => {
                    let recv = receiving.next().expect(ONE_EACH);
                    wait(recv)?;
                    memory.elements[into.clone()].copy_from_slice(recv.buffer());
                }
                Step::Combine { from, into } => memory.combine(from, into),
                Step::Copy { from, into } => memory.copy(from, into),
            }
        }
        sends.iter_mut().try_for_each(wait)
    }
}

impl<T: Element> Form<T> for Scheduled<T> {
    fn input(&mut self) -> &mut [T] {
        self.memory.input_mut()
    }

    fn output(&self) -> &[T] {
        self.memory.output()
    }

    fn output_mut(&mut self) -> &mut [T] {
        self.memory.output_mut()
    }

    fn round(&mut self, meanwhile: Option<&mut dyn FnMut()>) -> Result<(), BenchError> {
        if let Some(compute) = meanwhile {
            compute();
        }
        Ok(self.execute()?)
    }
}

fn wait(request: &mut impl Request) -> Result<(), Error> {
    request.active().map_or(Ok(()), |active| active.wait().map(drop))
}

const MESSAGE: i32 = 6;
const SIGNAL: i32 = 7;
const ONE_EACH: &str = "each step that communicates has its request";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use ropeway_examples::Mode;
    use ropeway_schedule::select::select;
    use ropeway_schedule::{Algorithm, CostTable};

    use super::*;
    use crate::cluster::everybody;
    use crate::contribution::Extent;
    use crate::method::Division;
    use crate::operation::{CollectiveCall, Operation};
    use crate::together::{Means, together};

    /// All that ranks can do this by: flat, and with leaders.
    fn methods(call: CollectiveCall, (nodes, ranks): (u32, u32), count: usize) -> Vec<Method> {
        let flat = select(&call.shape(ranks, count), 8, &CostTable::default()).candidates.into_iter();
        let flat = flat.map(|one| Method::new(Division::Flat, 1, Some(&one.algorithm)));
        let leaders = [1, 2].map(|leaders| Division::Multileader { leaders });
        let groups = [1, 2].map(|groups| Division::Multigroup { groups });
        let led = leaders.into_iter().chain(groups).map(|division| Method::new(division, ranks.div_ceil(nodes), None));
        flat.chain(led).filter(|method| method.check(call, ranks).is_ok()).collect()
    }

    fn calls(ranks: u32) -> impl Iterator<Item = CollectiveCall> {
        let roots = move |operation: Operation| if operation.has_root() { vec![0, ranks - 1] } else { vec![0] };
        let calls = move |operation| {
            roots(operation).into_iter().map(move |root| CollectiveCall { root, ..CollectiveCall::of(operation) })
        };
        Operation::ALL.into_iter().flat_map(calls)
    }

    /// Tries all of them in worlds of so many nodes and ranks.
    fn every_algorithm_gives_what_a_single_process_would_compute(worlds: &[(u32, u32)]) {
        let seen = Mutex::new(BTreeSet::new());
        for &(nodes, ranks) in worlds {
            everybody((nodes as usize, ranks), |world| {
                for (call, bytes) in calls(ranks).flat_map(|call| BYTES.map(|bytes| (call, bytes))) {
                    for method in methods(call, (nodes, ranks), bytes) {
                        let means = Means::Ropeway(&method, Mode::Persistent);
                        let mut collective = together(&world, means, call, bytes).unwrap();
                        for round in 1..=ROUNDS {
                            collective.prepare(round, Extent::All);
                            collective.round(None).unwrap();
                            let checked = collective.check(round, Extent::All);
                            assert!(checked.is_ok(), "{call} of {bytes} by {method:?}, round {round}: {checked:?}");
                        }
                        seen.lock().unwrap().extend(method.algorithm.unwrap().split(':').next().map(str::to_owned));
                    }
                }
            });
        }
        let all: BTreeSet<_> = Algorithm::all().iter().map(|algorithm| algorithm.name().to_owned()).collect();
        assert_eq!(seen.into_inner().unwrap(), all);
    }

    #[test]
    fn every_algorithm_is_right_on_a_node() {
        every_algorithm_gives_what_a_single_process_would_compute(&[(1, 1), (1, 2), (1, 3), (1, 5), (1, 8)]);
    }

    #[test]
    fn every_algorithm_is_right_on_two_nodes() {
        every_algorithm_gives_what_a_single_process_would_compute(&[(2, 2), (2, 3), (2, 4), (2, 7)]);
    }

    /// Odd numbers: fewer elements than ranks, and more than is sent eagerly.
    const BYTES: [usize; 2] = [9, 16_001];
    const ROUNDS: u64 = 2;
}
