//! Collectives between neighbours, called just so: a message to each destination and one from each source.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;

use crate::attachment::Attachment;
use crate::neighbor_collective::one_behind_the_other;
use crate::operation::Operation;
use crate::pending::Ready;
use crate::running::{Progress, Run, Running, wait_any_with, watch_each};
use crate::several::Several;
use crate::topology::Edge;
use crate::wait::Event;
use crate::{Buffer, Error, Neighborhood, Plain, Status, WaitMode, buffer};

/// A running call, such as an [`ineighbor_alltoall`](Neighborhood::ineighbor_alltoall), which fills its output as messages come.
///
/// Once it was begun this rank is not needed any more: the input may be changed, and the program may compute. Dropping it lets the
/// messages travel on, as long as there is the neighbourhood; what has come by then is in the output.
///
/// It can be awaited, and waited for [beside others](crate::wait_any).
#[must_use = "the output is filled by `wait`"]
pub struct PendingNeighborCollective<'a, T: Plain> {
    neighborhood: &'a Neighborhood,
    /// Those that have not ended.
    messages: Vec<Message>,
    output: &'a mut [T],
    progress: Progress,
}

/// A message under way.
pub(crate) struct Message {
    operation: Operation,
    /// Where in the output it comes, if it comes.
    block: Option<Range<usize>>,
}

/// What goes to a neighbour, or comes from one.
struct Block<T: Plain> {
    edge: Edge,
    /// Where it is in the array.
    place: Range<usize>,
    buffer: Buffer<T>,
}

/// Calls of collectives between neighbours: as those that are registered, but every message is matched when it is sent, and copied on
/// both sides. All ranks call them, in the same order; calls that block and calls that only begin may meet.
///
/// Arrays are made of blocks, in the order of [`destinations`](Self::destinations) and [`sources`](Self::sources). Counts are elements,
/// and may be 0. Blocks of missing neighbours go nowhere, or stay as they are.
///
/// ```no_run
/// # fn example() -> Result<(), ropeway::Error> {
/// let world = ropeway::init()?.world();
/// let ring = world.cartesian(&[world.size()], &[true])?;
/// let mut beside = [0; 2];
/// ring.neighbor_allgather(&[world.rank()], &mut beside)?;
/// let exchanging = ring.ineighbor_alltoall(&[10, 20], &mut beside)?;
/// // … compute …
/// exchanging.wait()?;
/// assert_eq!(beside, [20, 10]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Before anything is sent: [`Error::BadCollective`] if there are more or fewer counts than neighbours, [`Error::WrongLength`] if an array's
/// length does not fit, [`Error::OutOfMemory`] if there is no room for copies. Later: [`Error::Truncated`] if a block is longer than
/// expected, and what a neighbour's end means for every message.
impl Neighborhood {
    /// The input goes to all destinations; the output has a block as long for each source.
    pub fn neighbor_allgather<T: Plain>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.ineighbor_allgather(input, output)?.wait()
    }

    /// Begins [`neighbor_allgather`](Self::neighbor_allgather).
    pub fn ineighbor_allgather<'a, T: Plain>(
        &'a self,
        input: &[T],
        output: &'a mut [T],
    ) -> Result<PendingNeighborCollective<'a, T>, Error> {
        self.ineighbor_allgatherv(input, output, &vec![input.len(); self.edges_in().len()])
    }

    /// As [`neighbor_allgather`](Self::neighbor_allgather) where ranks have inputs of different lengths: `from`, one for each source.
    pub fn neighbor_allgatherv<T: Plain>(&self, input: &[T], output: &mut [T], from: &[usize]) -> Result<(), Error> {
        self.ineighbor_allgatherv(input, output, from)?.wait()
    }

    /// Begins [`neighbor_allgatherv`](Self::neighbor_allgatherv).
    pub fn ineighbor_allgatherv<'a, T: Plain>(
        &'a self,
        input: &[T],
        output: &'a mut [T],
        from: &[usize],
    ) -> Result<PendingNeighborCollective<'a, T>, Error> {
        self.exchange(input, &vec![0..input.len(); self.edges_out().len()], output, from)
    }

    /// A block of the input goes to each destination, and one as long comes from each source. How long is said by the length of the input,
    /// or, without destinations, of the output.
    pub fn neighbor_alltoall<T: Plain>(&self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.ineighbor_alltoall(input, output)?.wait()
    }

    /// Begins [`neighbor_alltoall`](Self::neighbor_alltoall).
    pub fn ineighbor_alltoall<'a, T: Plain>(
        &'a self,
        input: &[T],
        output: &'a mut [T],
    ) -> Result<PendingNeighborCollective<'a, T>, Error> {
        let (destinations, sources) = (self.edges_out().len(), self.edges_in().len());
        let of_input = input.len().checked_div(destinations);
        let count = of_input.or(output.len().checked_div(sources)).unwrap_or(0);
        self.ineighbor_alltoallv(input, output, &vec![count; destinations], &vec![count; sources])
    }

    /// As [`neighbor_alltoall`](Self::neighbor_alltoall), with a count for each destination (`to`) and for each source (`from`).
    pub fn neighbor_alltoallv<T: Plain>(
        &self,
        input: &[T],
        output: &mut [T],
        to: &[usize],
        from: &[usize],
    ) -> Result<(), Error> {
        self.ineighbor_alltoallv(input, output, to, from)?.wait()
    }

    /// Begins [`neighbor_alltoallv`](Self::neighbor_alltoallv).
    pub fn ineighbor_alltoallv<'a, T: Plain>(
        &'a self,
        input: &[T],
        output: &'a mut [T],
        to: &[usize],
        from: &[usize],
    ) -> Result<PendingNeighborCollective<'a, T>, Error> {
        let (sent, length) = one_behind_the_other(to);
        self.check_blocks(sent.len(), from.len())?;
        check_length("input", input.len(), length)?;
        self.exchange(input, &sent, output, from)
    }

    /// Begins to send these blocks of the input, and to receive blocks of these lengths.
    fn exchange<'a, T: Plain>(
        &'a self,
        input: &[T],
        sent: &[Range<usize>],
        output: &'a mut [T],
        from: &[usize],
    ) -> Result<PendingNeighborCollective<'a, T>, Error> {
        let (received, length) = one_behind_the_other(from);
        self.check_blocks(sent.len(), received.len())?;
        check_length("output", output.len(), length)?;
        // What earlier calls have left and needs no more may be just what is missing.
        self.leave([]);
        // Whoever has begun a part of it could not go back: so everything that may be missing is taken first.
        let arriving = self.buffers::<T>(self.edges_in(), &received)?;
        let leaving = self.buffers::<T>(self.edges_out(), sent)?;
        let mut receives = Vec::with_capacity(arriving.len());
        for Block { edge, place, buffer } in arriving {
            receives.push((edge, place, Ready::to_receive(self.membership(), buffer)?));
        }
        let mut sends = Vec::with_capacity(leaving.len());
        for Block { edge, place, mut buffer } in leaving {
            buffer.copy_from_slice(&input[place]);
            let terms = self.send_terms::<T>(edge.tag, buffer.bytes());
            sends.push((edge, Ready::of(self.membership(), buffer, terms)?));
        }
        let mut messages = Vec::with_capacity(receives.len() + sends.len());
        for (edge, place, receive) in receives {
            let operation = receive.receive(self.internal(edge.rank, edge.tag))?;
            messages.push(Message { operation, block: Some(place) });
        }
        for (edge, send) in sends {
            messages.push(Message { operation: send.send(self.internal(edge.rank, edge.tag))?, block: None });
        }
        Ok(PendingNeighborCollective { neighborhood: self, messages, output, progress: Progress::Running })
    }

    /// Memory for the blocks of the neighbours that there are.
    fn buffers<T: Plain>(&self, edges: &[Option<Edge>], blocks: &[Range<usize>]) -> Result<Vec<Block<T>>, Error> {
        let there = edges.iter().zip(blocks).filter_map(|(edge, place)| Some(((*edge)?, place.clone())));
        there.map(|(edge, place)| Ok(Block { edge, buffer: self.alloc(place.len())?, place })).collect()
    }
}

fn check_length(array: &'static str, elements: usize, expected: usize) -> Result<(), Error> {
    if elements == expected { Ok(()) } else { Err(Error::WrongLength { array, elements, expected }) }
}

impl<T: Plain> PendingNeighborCollective<'_, T> {
    /// Waits until all messages have come and gone.
    pub fn wait(self) -> Result<(), Error> {
        self.finish(None)
    }

    /// As [`wait`](Self::wait), in this mode.
    pub fn wait_with(self, mode: WaitMode) -> Result<(), Error> {
        self.finish(Some(mode))
    }

    /// Whether all messages have come and gone. If so, the output is filled, and [`wait`](Self::wait) returns at once.
    ///
    /// Why it has failed is said once, whoever asks first; all who ask after that get [`Error::Inactive`].
    pub fn test(&mut self) -> Result<bool, Error> {
        if self.progress.is_running() {
            self.take_outcome()?;
        }
        self.progress.is_done()
    }

    fn finish(mut self, mode: Option<WaitMode>) -> Result<(), Error> {
        if self.progress.is_done()? {
            return Ok(());
        }
        wait_any_with(&mut [&mut self], mode).map(drop)
    }

    /// Takes what has ended.
    fn take_ended(&mut self) -> Result<(), Error> {
        let mut index = 0;
        while let Some(message) = self.messages.get_mut(index) {
            match message.operation.test()? {
                Some(status) => {
                    message.deliver(status, self.output);
                    self.messages.swap_remove(index);
                }
                None => index += 1,
            }
        }
        Ok(())
    }
}

impl Message {
    /// Whether it has not ended.
    pub(crate) fn is_under_way(&mut self) -> bool {
        matches!(self.operation.test(), Ok(None))
    }

    /// Puts what has come where it belongs.
    fn deliver<T: Plain>(&self, status: Status, output: &mut [T]) {
        if let (Some(block), Some(memory)) = (&self.block, self.operation.memory()) {
            output[block.clone()][..status.count].copy_from_slice(buffer::elements(memory, status.count));
        }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        // What was sent travels on: the neighbour may be waiting for it.
        if self.block.is_some() && self.operation.is_active() {
            self.operation.withdraw();
        }
    }
}

impl<T: Plain> Running for PendingNeighborCollective<'_, T> {}

impl<T: Plain> Run for PendingNeighborCollective<'_, T> {
    fn is_running(&self) -> bool {
        self.progress.is_running()
    }

    fn attachment(&self) -> &Arc<Attachment> {
        self.neighborhood.attachment()
    }

    fn event(&self) -> &dyn Event {
        self
    }

    fn take_outcome(&mut self) -> Result<Option<Status>, Error> {
        let status = Status { source: self.neighborhood.rank(), tag: 0, bytes: 0, count: 0 };
        let taken = self.take_ended().map(|()| self.messages.is_empty().then_some(status));
        self.progress = Progress::after(&taken);
        taken
    }

    fn watch(&self, waker: &Waker) -> Result<bool, Error> {
        watch_each(self.messages.iter().map(|message| &message.operation), Some(waker))
    }

    fn forget_waker(&self) {
        self.messages.iter().for_each(|message| message.operation.forget_waker());
    }
}

/// Happens when a message gets on.
impl<T: Plain> Several for PendingNeighborCollective<'_, T> {
    fn each(&self) -> impl Iterator<Item = &(impl Event + ?Sized)> {
        self.messages.iter().map(|message| &message.operation)
    }
}

impl<T: Plain> Drop for PendingNeighborCollective<'_, T> {
    fn drop(&mut self) {
        self.neighborhood.leave(self.messages.drain(..));
    }
}

impl<T: Plain> fmt::Debug for PendingNeighborCollective<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingNeighborCollective")
            .field("is_running", &self.progress.is_running())
            .finish_non_exhaustive()
    }
}
