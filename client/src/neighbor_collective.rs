//! Collectives between neighbours: the same messages to and from all of them, registered once.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use ropeway_proto::{Command, End, Endpoint, Layout};

use crate::buffer;
use crate::exchange::{ActiveExchange, Exchange};
use crate::memory::SharedMemory;
use crate::operation::Operation;
use crate::plain::element_bytes;
use crate::request::Persistent;
use crate::terms::Terms;
use crate::topology::Edge;
use crate::{Error, Favor, Neighborhood, Plain, Strided};

/// A registered collective between the ranks of a [`Neighborhood`], and its buffers.
///
/// All ranks register the same ones in the same order, and start each as often as their neighbours. Several may run at once,
/// started in any order. It ends when this rank's messages have come and gone; nobody waits for ranks that are no neighbours.
///
/// Input and output are made of blocks, in the order of destinations and sources. Each block travels from the sender's input
/// to the receiver's output as a message of a persistent channel, early bound between nodes. On a node whoever waits first copies
/// it, for neighbours who compute, too; what a start copies fits in a cache line.
///
/// ```no_run
/// # fn example() -> Result<(), ropeway::Error> {
/// let world = ropeway::init()?.world();
/// let ring = world.cartesian(&[world.size()], &[true])?;
/// let mut halo = ring.neighbor_alltoall_init::<f64>(100)?;
/// for step in 0..100 {
///     let (to_left, to_right) = halo.input_mut().split_at_mut(100);
///     to_left.fill(f64::from(step));
///     to_right.fill(f64::from(-step));
///     let exchanging = halo.start()?;
///     // … compute the inner points …
///     exchanging.wait()?;
///     let (from_left, from_right) = halo.output().split_at(100);
///     // … compute the points at the edge …
/// }
/// # Ok(())
/// # }
/// ```
pub struct NeighborCollective<T: Plain> {
    exchange: Exchange,
    input: usize,
    output: usize,
    element: PhantomData<T>,
}

impl<T: Plain> NeighborCollective<T> {
    /// What this rank sends. Panics if an exchange runs whose [`ActiveExchange`] was dropped.
    pub fn input(&self) -> &[T] {
        buffer::elements(self.exchange.input.slot(), self.input)
    }

    /// As [`input`](Self::input), to write. Panics, too.
    pub fn input_mut(&mut self) -> &mut [T] {
        buffer::elements_mut(self.exchange.input.slot_mut(), self.input)
    }

    /// What this rank gets. The blocks of missing neighbours stay as they are. Panics if an exchange runs whose [`ActiveExchange`] was dropped.
    pub fn output(&self) -> &[T] {
        buffer::elements(self.exchange.output.slot(), self.output)
    }

    /// As [`output`](Self::output), to write. Panics, too.
    pub fn output_mut(&mut self) -> &mut [T] {
        buffer::elements_mut(self.exchange.output.slot_mut(), self.output)
    }

    /// Says what large messages are optimised for.
    pub fn favor(mut self, favor: Favor) -> Self {
        self.exchange.set_favor(favor);
        self
    }

    /// Starts all receives and sends, with one command at most for up to twelve neighbours. No allocation, and no system call while the daemon and whoever waits for this are awake.
    pub fn start(&mut self) -> Result<ActiveExchange<'_>, Error> {
        self.exchange.start()
    }

    /// The running exchange, if its [`ActiveExchange`] was dropped without waiting.
    pub fn active(&mut self) -> Option<ActiveExchange<'_>> {
        self.exchange.active()
    }
}

/// Collectives between neighbours. Each has to be registered by all ranks, in the same order. Counts are elements, and may be 0.
///
/// # Errors
/// [`Error::BadCollective`] if there are more or fewer counts than neighbours, [`Error::OutOfMemory`] if there is no room for the
/// buffers. A block of another length than the one that is sent is [`Error::Truncated`] when it is waited for, if it is too short.
impl Neighborhood {
    /// Registers that the input of `count` elements goes to all destinations; the output has a block of `count` for each source.
    pub fn neighbor_allgather_init<T: Plain>(&self, count: usize) -> Result<NeighborCollective<T>, Error> {
        self.neighbor_allgatherv_init(count, &vec![count; self.edges_in().len()])
    }

    /// As [`neighbor_allgather_init`](Self::neighbor_allgather_init) where ranks have different counts: `count` of this one, and `from`,
    /// one for each source.
    pub fn neighbor_allgatherv_init<T: Plain>(
        &self,
        count: usize,
        from: &[usize],
    ) -> Result<NeighborCollective<T>, Error> {
        self.neighbor_collective(&vec![0..count; self.edges_out().len()], count, from)
    }

    /// Registers that `count` elements go to each destination: the input has a block for each destination, the output one for each
    /// source.
    pub fn neighbor_alltoall_init<T: Plain>(&self, count: usize) -> Result<NeighborCollective<T>, Error> {
        self.neighbor_alltoallv_init(&vec![count; self.edges_out().len()], &vec![count; self.edges_in().len()])
    }

    /// As [`neighbor_alltoall_init`](Self::neighbor_alltoall_init), with a count for each destination (`to`) and for each source
    /// (`from`).
    pub fn neighbor_alltoallv_init<T: Plain>(
        &self,
        to: &[usize],
        from: &[usize],
    ) -> Result<NeighborCollective<T>, Error> {
        let (blocks, input) = one_behind_the_other(to);
        self.neighbor_collective(&blocks, input, from)
    }

    fn neighbor_collective<T: Plain>(
        &self,
        sent: &[Range<usize>],
        input: usize,
        from: &[usize],
    ) -> Result<NeighborCollective<T>, Error> {
        let (received, output) = one_behind_the_other(from);
        self.check_blocks(sent.len(), received.len())?;
        let memory = |elements| Ok::<_, Error>(SharedMemory::new(self.alloc::<T>(elements)?.into_memory()));
        let (from, to) = (memory(input)?, memory(output)?);
        // Whoever has told a neighbour of its message could not go back: so everything that may be missing is taken first.
        let mut messages = Vec::new();
        for (end, memory, edges, blocks) in
            [(End::Recv, &to, self.edges_in(), &received[..]), (End::Send, &from, self.edges_out(), sent)]
        {
            for (edge, block) in edges.iter().zip(blocks) {
                if let Some(edge) = edge {
                    messages.push(self.message_of::<T>(end, edge, memory, block)?);
                }
            }
        }
        let requests = messages.into_iter().map(EdgeMessage::init).collect::<Result<_, _>>()?;
        let exchange = Exchange::new(self, requests, from, to);
        Ok(NeighborCollective { exchange, input, output, element: PhantomData })
    }

    /// There is one block for each neighbour.
    pub(crate) fn check_blocks(&self, sent: usize, received: usize) -> Result<(), Error> {
        for (edges, blocks, what) in [(self.edges_out(), sent, "destinations"), (self.edges_in(), received, "sources")]
        {
            if edges.len() != blocks {
                let why = format!("{blocks} counts for {} {what}", edges.len());
                return Err(Error::BadCollective { why });
            }
        }
        Ok(())
    }

    /// What the messages of one edge need.
    fn message_of<T: Plain>(
        &self,
        end: End,
        edge: &Edge,
        memory: &SharedMemory,
        block: &Range<usize>,
    ) -> Result<EdgeMessage, Error> {
        let part = Strided { first: block.start, blocks: 1, block_len: block.len(), stride: block.len() };
        let layout = part.layout(memory.slot().offset(), block.end, element_bytes::<T>())?;
        let terms = match end {
            End::Send => self.send_terms::<T>(edge.tag, layout.bytes()),
            End::Recv => Terms::Recv { capacity: layout.bytes(), element_bytes: element_bytes::<T>() },
        };
        let operation = Operation::new(self.membership(), memory.share(), terms)?;
        Ok(EdgeMessage { end, operation, endpoint: self.internal(edge.rank, edge.tag), layout })
    }
}

/// A message of an exchange that has all it needs and of which the neighbour does not know.
struct EdgeMessage {
    end: End,
    operation: Operation,
    endpoint: Endpoint,
    layout: Layout,
}

impl EdgeMessage {
    /// Registers it. Only the end of the session can be in the way.
    fn init(self) -> Result<Persistent, Error> {
        let Self { end, operation, endpoint, layout } = self;
        Persistent::begin_init(operation, (end, endpoint), |slot, epoch| match end {
            End::Send => Command::InitSend { slot, epoch, endpoint, layout },
            End::Recv => Command::InitRecv { slot, epoch, endpoint, layout },
        })
    }
}

/// The blocks of these counts, and where the last one ends.
pub(crate) fn one_behind_the_other(counts: &[usize]) -> (Vec<Range<usize>>, usize) {
    let mut end = 0usize;
    let next = |&count: &usize| {
        let start = end;
        // Too many don't fit any memory, and are refused when it is allocated.
        end = end.saturating_add(count);
        start..end
    };
    (counts.iter().map(next).collect(), end)
}

impl<T: Plain> fmt::Debug for NeighborCollective<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NeighborCollective")
            .field("exchange", &self.exchange)
            .field("input", &self.input)
            .field("output", &self.output)
            .finish()
    }
}
