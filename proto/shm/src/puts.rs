//! Starts that send messages of a cache line, prepared for those who make many at once: what [`Offers`](crate::Offers) are to larger ones.
//! Such a message goes into its cell at once, and is taken out of it when its receiver comes to wait.

use std::iter;
use std::ptr::NonNull;
use std::sync::Arc;

use ropeway_proto::End;
use smallvec::SmallVec;

use crate::channel::{Block, OpenChannel};
use crate::eager::{CellWord, EagerSender};
use crate::job::JobSegment;
use crate::listener::Listener;
use crate::mapped;
use crate::prefetch::{prefetch, prepare_to_write_whole};

/// The next messages of senders that start together. Those of so many lie in it.
pub struct Puts<const SENDS: usize> {
    puts: SmallVec<[Put; SENDS]>,
    /// Keeps mapped where they lead.
    job: Arc<JobSegment>,
}

struct Put {
    /// Of a line each.
    cells: NonNull<u8>,
    buffer: NonNull<u8>,
    /// Of the channel.
    words: NonNull<Block>,
    sender: EagerSender,
    /// The number of cells is a power of two.
    last_cell: u16,
    bytes: u8,
    /// All cells were full.
    is_left: bool,
    listener: Listener,
}

// SAFETY: the pointers lead into the mapping that `job` keeps, which belongs to no thread, to atomics and bytes that are copied opaquely.
unsafe impl<const SENDS: usize> Send for Puts<SENDS> {}
// SAFETY: as above.
unsafe impl<const SENDS: usize> Sync for Puts<SENDS> {}

impl<const SENDS: usize> Puts<SENDS> {
    /// With room for so many senders.
    pub fn new(job: &Arc<JobSegment>, senders: usize) -> Self {
        Self { puts: SmallVec::with_capacity(senders), job: Arc::clone(job) }
    }

    /// No sender is added any more.
    pub fn clear(&mut self) {
        self.puts.clear();
    }

    /// Adds one of a channel [whose messages are lines](OpenChannel::has_lines), else it panics. This is its next.
    pub fn add(&mut self, channel: &OpenChannel, sender: EagerSender) {
        debug_assert!(std::ptr::eq(channel.job(), &*self.job), "all are of one job");
        assert!(channel.has_lines(), "its messages are lines");
        let buffer = channel.flat(End::Send).expect("what is a line lies in one piece");
        self.puts.push(Put {
            cells: channel.cell_at(0),
            buffer,
            words: channel.block(),
            sender,
            last_cell: (channel.cells() - 1) as u16,
            bytes: channel.channel().bytes() as u8,
            is_left: false,
            listener: Listener::of(channel, End::Send),
        });
    }

    /// Has the processor fetch what the others need of it.
    #[inline]
    pub fn fetch(&self) {
        // Of the list first, since how many there are is said at its end.
        prepare_to_write_whole(self);
        for put in &self.puts {
            prefetch(put.buffer, 1, false);
            prefetch(put.cell(put.sender.number()), 1, true);
            put.listener.fetch();
        }
    }

    /// Sends all messages for which there are cells. What goes over a wire is to be marked there, and behind a `SeqCst` fence [`wake_peers`](Self::wake_peers) follows. False if there are
    /// [others](Self::left).
    #[inline]
    pub fn make(&mut self) -> bool {
        let mut are_all_made = true;
        for put in &mut self.puts {
            put.is_left = !put.make();
            are_all_made &= !put.is_left;
        }
        are_all_made
    }

    /// The places, in the order in which they were added, of those whose cells were all full.
    pub fn left(&self) -> impl Iterator<Item = usize> {
        iter::zip(0.., &self.puts).filter(|(_, put)| put.is_left).map(|(place, _)| place)
    }

    /// Wakes those that wait for them on this node.
    #[inline]
    pub fn wake_peers(&self) {
        for put in &self.puts {
            // SAFETY: `job` keeps it mapped.
            unsafe { put.listener.wake((put.words, End::Send), &self.job) };
        }
    }

    /// All messages are sent: the next ones are the next.
    #[inline]
    pub fn advance(&mut self) {
        self.puts.iter_mut().for_each(|put| put.sender = put.sender.next());
    }
}

impl Put {
    #[inline]
    fn make(&mut self) -> bool {
        // SAFETY: checked when the channel was opened, and mapped as long as `job` lives; `Block` consists of atomics.
        let Some(number) = self.sender.next_with_cell(&unsafe { self.words.as_ref() }.eager) else { return false };
        let cell = self.cell(number);
        // SAFETY: a cell is a line, which begins with its word, an atomic, and has room for a message behind it; the buffer has so many bytes.
        unsafe {
            mapped::copy_small(self.buffer, cell.add(size_of::<u64>()), usize::from(self.bytes));
            cell.cast::<CellWord>().as_ref().put(number);
        }
        true
    }

    #[inline]
    fn cell(&self, number: u32) -> NonNull<u8> {
        // SAFETY: there are so many cells, and one more.
        unsafe { self.cells.add((number & u32::from(self.last_cell)) as usize * LINE_BYTES) }
    }
}

const LINE_BYTES: usize = 64;
