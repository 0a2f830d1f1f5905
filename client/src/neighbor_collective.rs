//! Collectives between neighbours: the same messages to and from all of them, registered once.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use ropeway_proto::{Command, End};

use crate::buffer;
use crate::memory::SharedMemory;
use crate::operation::Operation;
use crate::plain::element_bytes;
use crate::request::Persistent;
use crate::set::{ActiveSet, start_all};
use crate::terms::Terms;
use crate::topology::Edge;
use crate::{Error, Favor, Neighborhood, Plain, Strided, WaitMode};

/// A registered collective between the ranks of a [`Neighborhood`], and its buffers.
///
/// All ranks register the same ones in the same order, and start each as often as their neighbours. Several may run at once,
/// started in any order. It ends when this rank's messages have come and gone; nobody waits for ranks that are no neighbours.
///
/// Input and output are made of blocks, in the order of destinations and sources. Each block travels from the sender's input
/// to the receiver's output as a message of a persistent channel: at once on a node, early bound between nodes.
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

/// A running exchange with all neighbours.
///
/// Dropping it lets the messages travel on; [`NeighborCollective::active`] finds it again. Leaking it is no different.
#[must_use = "the exchange has to be waited for"]
pub struct ActiveExchange<'a> {
    exchange: &'a mut Exchange,
}

/// All but the type of the elements. The memory is lent as long as a request is active.
struct Exchange {
    /// Receives first, so that sends find them.
    requests: Vec<Persistent>,
    input: SharedMemory,
    output: SharedMemory,
}

impl<T: Plain> NeighborCollective<T> {
    /// What this rank sends. Panics if an exchange runs whose [`ActiveExchange`] was dropped.
    pub fn input(&self) -> &[T] {
        buffer::elements(self.exchange.input.slot(), self.input)
    }

    /// As [`input`](Self::input), to write.
    pub fn input_mut(&mut self) -> &mut [T] {
        buffer::elements_mut(self.exchange.input.slot_mut(), self.input)
    }

    /// What this rank gets. The blocks of missing neighbours stay as they are.
    pub fn output(&self) -> &[T] {
        buffer::elements(self.exchange.output.slot(), self.output)
    }

    /// As [`output`](Self::output), to write.
    pub fn output_mut(&mut self) -> &mut [T] {
        buffer::elements_mut(self.exchange.output.slot_mut(), self.output)
    }

    /// Says what large messages are optimised for.
    pub fn favor(mut self, favor: Favor) -> Self {
        self.exchange.requests.iter_mut().for_each(|request| request.operation_mut().set_favor(favor));
        self
    }

    /// Starts all receives and sends with one publication. No allocation, and no system call while the daemon is awake.
    pub fn start(&mut self) -> Result<ActiveExchange<'_>, Error> {
        self.exchange.start()?;
        Ok(ActiveExchange { exchange: &mut self.exchange })
    }

    /// The running exchange, if its [`ActiveExchange`] was dropped without waiting.
    pub fn active(&mut self) -> Option<ActiveExchange<'_>> {
        self.exchange.is_lent().then_some(ActiveExchange { exchange: &mut self.exchange })
    }
}

impl ActiveExchange<'_> {
    /// Waits until all messages have come and gone, in the session's wait mode.
    ///
    /// If one can't, because a neighbour is gone, the others are withdrawn.
    pub fn wait(self) -> Result<(), Error> {
        let first = self.exchange.requests.first();
        let mode = first.map_or_else(WaitMode::default, |request| request.operation().attachment().wait_mode());
        self.wait_with(mode)
    }

    /// As [`wait`](Self::wait), in this mode.
    pub fn wait_with(self, mode: WaitMode) -> Result<(), Error> {
        if !self.exchange.is_lent() {
            return Err(Error::Inactive);
        }
        let waited = self.exchange.wait(mode);
        self.exchange.end(waited)
    }

    /// Whether all messages have come and gone. That can be learnt once.
    pub fn test(&mut self) -> Result<bool, Error> {
        if !self.exchange.is_lent() {
            return Err(Error::Inactive);
        }
        match self.exchange.test() {
            Ok(false) => Ok(false),
            ended => self.exchange.end(ended.map(drop)).map(|()| true),
        }
    }
}

impl Exchange {
    fn is_lent(&self) -> bool {
        self.input.slot().is_lent()
    }

    fn start(&mut self) -> Result<(), Error> {
        if self.is_lent() {
            return Err(Error::AlreadyActive);
        }
        self.input.slot_mut().lend();
        self.output.slot_mut().lend();
        match start_all(&mut self.requests) {
            Ok(_) => Ok(()),
            Err(error) => self.end(Err(error)),
        }
    }

    fn running(&mut self) -> impl Iterator<Item = &mut Operation> {
        self.requests.iter_mut().map(Persistent::operation_mut).filter(|operation| operation.is_active())
    }

    /// Waits for all requests, or for the first that fails.
    fn wait(&mut self, mode: WaitMode) -> Result<(), Error> {
        self.running().for_each(Operation::come_to_wires);
        if self.take_ended(0)? {
            return Ok(());
        }
        self.running().for_each(Operation::begin_wait);
        let waited = self.wait_long(mode);
        self.requests.iter().for_each(|request| request.operation().end_wait());
        waited
    }

    fn wait_long(&mut self, mode: WaitMode) -> Result<(), Error> {
        while !self.take_ended(u32::MAX)? {
            ActiveSet::new(&mut self.requests, mode).wait_for_one()?;
        }
        Ok(())
    }

    /// Takes what has ended, copying up to `pieces` pieces of each large message. Whether that is all.
    fn take_ended(&mut self, pieces: u32) -> Result<bool, Error> {
        let mut is_over = true;
        for operation in self.running() {
            match operation.take_outcome(pieces) {
                Some(outcome) => drop(outcome?),
                None => is_over = false,
            }
        }
        Ok(is_over)
    }

    /// Whether all requests have ended.
    fn test(&mut self) -> Result<bool, Error> {
        let mut is_over = true;
        for operation in self.running() {
            is_over &= operation.test()?.is_some();
        }
        Ok(is_over)
    }

    /// Ends what still runs after a failure, and takes the memory back.
    fn end(&mut self, outcome: Result<(), Error>) -> Result<(), Error> {
        for operation in self.running() {
            let mode = operation.attachment().wait_mode();
            // The exchange has failed already, and this one may well fail for the same reason.
            let _ = operation.cancel(mode);
        }
        self.input.slot().reclaim();
        self.output.slot().reclaim();
        outcome
    }
}

/// Collectives between neighbours. Each has to be registered by all ranks, in the same order.
impl Neighborhood {
    /// Registers that `count` elements go to all destinations; the output has a block for each source.
    pub fn neighbor_allgather_init<T: Plain>(&self, count: usize) -> Result<NeighborCollective<T>, Error> {
        self.neighbor_allgatherv_init(count, &vec![count; self.edges_in().len()])
    }

    /// As [`neighbor_allgather_init`](Self::neighbor_allgather_init) where ranks have different counts: `count` elements of this
    /// one, and those of the sources.
    pub fn neighbor_allgatherv_init<T: Plain>(
        &self,
        count: usize,
        from: &[usize],
    ) -> Result<NeighborCollective<T>, Error> {
        self.neighbor_collective(&vec![0..count; self.edges_out().len()], count, from)
    }

    /// Registers that `count` elements go to each destination, from a block of the input for each.
    pub fn neighbor_alltoall_init<T: Plain>(&self, count: usize) -> Result<NeighborCollective<T>, Error> {
        self.neighbor_alltoallv_init(&vec![count; self.edges_out().len()], &vec![count; self.edges_in().len()])
    }

    /// As [`neighbor_alltoall_init`](Self::neighbor_alltoall_init), with a count for each destination and for each source.
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
        for (edges, blocks, what) in
            [(self.edges_out(), sent, "destinations"), (self.edges_in(), &received[..], "sources")]
        {
            if edges.len() != blocks.len() {
                let why = format!("{} counts for {} {what}", blocks.len(), edges.len());
                return Err(Error::BadCollective { why });
            }
        }
        let mut exchange = Exchange {
            requests: Vec::new(),
            input: SharedMemory::new(self.alloc::<T>(input)?.into_memory()),
            output: SharedMemory::new(self.alloc::<T>(output)?.into_memory()),
        };
        for (end, edges, blocks) in [(End::Recv, self.edges_in(), &received[..]), (End::Send, self.edges_out(), sent)] {
            for (edge, block) in edges.iter().zip(blocks) {
                let Some(edge) = edge else { continue };
                let memory = if end == End::Send { &exchange.input } else { &exchange.output };
                let request = self.edge_init::<T>(end, edge, memory, block)?;
                exchange.requests.push(request);
            }
        }
        Ok(NeighborCollective { exchange, input, output, element: PhantomData })
    }

    /// Registers the messages of one edge.
    fn edge_init<T: Plain>(
        &self,
        end: End,
        edge: &Edge,
        memory: &SharedMemory,
        block: &Range<usize>,
    ) -> Result<Persistent, Error> {
        let part = Strided { first: block.start, blocks: 1, block_len: block.len(), stride: block.len() };
        let layout = part.layout(memory.slot().offset(), block.end, element_bytes::<T>())?;
        let endpoint = self.internal(edge.rank, edge.tag);
        let terms = match end {
            End::Send => self.send_terms::<T>(edge.tag, layout.bytes()),
            End::Recv => Terms::Recv { capacity: layout.bytes(), element_bytes: element_bytes::<T>() },
        };
        Persistent::init(self.membership(), memory.share(), terms, (end, edge.tag), |slot, epoch| match end {
            End::Send => Command::InitSend { slot, epoch, endpoint, layout },
            End::Recv => Command::InitRecv { slot, epoch, endpoint, layout },
        })
    }
}

/// The blocks of these counts, and where the last one ends.
fn one_behind_the_other(counts: &[usize]) -> (Vec<Range<usize>>, usize) {
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
            .field("requests", &self.exchange.requests)
            .field("input", &self.input)
            .field("output", &self.output)
            .finish()
    }
}

impl fmt::Debug for ActiveExchange<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ActiveExchange").field(&self.exchange.requests).finish()
    }
}
